"""Making models, and writing them: each verified first, the same bytes from the same seed.

A suite's folder says first what it is going to hold, then grows model by model; a model's card is
written last. So a build that was interrupted goes on where it stopped, and one with another seed,
or into a folder of other things, is refused before anything is written. A card says in words what
a model computes, how large it is, what is proved and what its circuit is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from inweave import gallery
from inweave.atomic import write
from inweave.circuits.disguise import in_steps
from inweave.circuits.hidden import hidden
from inweave.circuits.load import (
    CARD,
    CIRCUIT,
    EDGES,
    INDEX,
    KEPT,
    MADE,
    NETWORK,
    PROMPTS,
    VERSION,
    Index,
    Made,
    Model,
    digest,
    finished,
    load,
    read_json,
)
from inweave.circuits.suite import COUNT, Specification, specifications
from inweave.errors import DivergenceError, DomainError, FileFormatError, InputError
from inweave.exact import schema
from inweave.exact.whole import is_whole
from inweave.network import Network
from inweave.proof.certificate import Certificate, about

MANY = 128  # prompts of a model
MOST = 10_000  # models of a suite


def build(
    folder: str | os.PathLike[str],
    *,
    count: int = COUNT,
    seed: int = 0,
    dial: float | Fraction = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> int:
    """Write a suite of so many models; `dial` says how much they are disguised, from 0 to 1.

    How many models are there then: a longer suite stays one.
    """
    amount = in_steps(dial)
    if not is_whole(count, 1) or count > MOST:
        raise InputError(f"a suite has from 1 to {MOST:,} models, got {count!r}")
    if not is_whole(seed, 0):
        raise InputError(f"the seed is a whole number from 0 on, got {seed!r}")
    specs = list(specifications(count, seed))
    place = Path(folder)
    _open(place, Index(VERSION, seed, amount, tuple(spec.name for spec in specs)))
    for spec in specs:
        if not (place / spec.name / CARD).exists():
            progress(spec.name)
            save(make(spec, amount), place / spec.name)
    write(place / CARD, suite_card(place))
    return len(finished(place))


def _open(place: Path, index: Index) -> None:
    """Make a folder for a suite, or go on with one of the same kind."""
    if place.is_dir() and any(place.iterdir()):
        if not (place / INDEX).is_file():
            raise InputError(f"{place} holds other files; name a new folder, or an empty one")
        old = read_json(place / INDEX, Index)
        if (old.seed, old.dial) != (index.seed, index.dial):
            raise InputError(
                f"{place} holds a suite of seed {old.seed} at dial {old.dial}, not of seed "
                f"{index.seed} at {index.dial}; name another folder"
            )
        index = max(index, old, key=lambda each: len(each.models))
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place.parent} is not a folder; make it first")
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{place} is a file; name a new folder, or an empty one")
    place.mkdir(exist_ok=True)
    _write_json(place / INDEX, Index, index)


def make(spec: Specification, dial: Fraction = Fraction(0)) -> Model:
    """One model, verified."""
    network, circuit = hidden(spec.compile(), dial, spec.seed)
    known = _certificate(network, spec.seed)
    network = replace(network, certificate=known)
    made = Made(VERSION, spec, dial, network.fingerprint, known.method, {})
    return Model(made, network, circuit, prompts(spec, network))


def check(path: str | os.PathLike[str]) -> Model:
    """The model in a folder, if it is what its specification says: made again, and compared."""
    found = load(path)
    again = make(found.made.specification, found.made.dial)
    same = {
        "network": found.network.fingerprint == again.network.fingerprint,
        "way it was verified": found.made.proof == again.made.proof,
        "circuit": found.circuit.to_data() == again.circuit.to_data(),
        "prompts": found.prompts.keys() == again.prompts.keys()
        and all(np.array_equal(x, again.prompts[name]) for name, x in found.prompts.items()),
    }
    for what, it_is in same.items():
        if not it_is:
            raise FileFormatError(f"{path}: the {what} is not what its specification makes")
    return found


def _certificate(network: Network, seed: int) -> Certificate:
    """A certificate that is the same on every machine.

    Where points are drawn, they are drawn from the seed; how far float64 is off depends on the
    machine, and is not part of it.
    """
    found = network.verify()
    if not found.is_proof:
        found = network.verify(seed=seed)
    return replace(found, float_difference=None)


def prompts(spec: Specification, network: Network) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs that all vary from prompt to prompt, so that what depends on one is seen to."""
    rng = np.random.default_rng([spec.seed, 1])
    several = [spec.example(network, rng) for _ in range(MANY)]
    found = {x.name: np.array([e[x.name] for e in several], float) for x in network.inputs}
    moved = {name: _moved(x, rng) for name, x in found.items()}
    try:
        network(**moved)
    except (DomainError, DivergenceError):
        return found  # some programs are for their own data only
    return moved


def _moved(x: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Numbers a tenth off, of their own size and sign; zeros a tenth of one."""
    size = float(np.sqrt(np.mean(x**2))) or 1.0
    moved: np.ndarray[Any, Any] = x * rng.uniform(0.9, 1.1, x.shape)
    return np.where(x == 0, 0.1 * size * rng.normal(size=x.shape), moved)


def save(model: Model, folder: Path) -> None:
    """Write a model's files, its card last."""
    from safetensors.numpy import save as serialize

    folder.mkdir(exist_ok=True)
    model.network.save(folder / NETWORK)
    write(folder / CIRCUIT, schema.dumps(model.circuit.to_data()))
    write(folder / EDGES, schema.dumps(model.circuit.to_eap()))
    write(folder / PROMPTS, serialize(dict(sorted(model.prompts.items()))))
    files = {name: digest(folder / name) for name in KEPT}
    _write_json(folder / MADE, Made, replace(model.made, files=files))
    write(folder / CARD, card(model))


def _write_json(path: Path, kind: Any, value: Any) -> None:
    write(path, schema.dumps(schema.write(kind, value)))


# -- cards -----------------------------------------------------------------------------------------
def card(model: Model) -> str:
    """The card of a model, in markdown."""
    spec, network, circuit = model.made.specification, model.network, model.circuit
    sizes = ", ".join(f"{name} = {size}" for name, size in sorted(spec.sizes.items()))
    where = (
        f"`{spec.program}` of inweave's gallery ({gallery.get(spec.program).source})"
        if spec.kind == "gallery"
        else f"a program drawn from the seed {spec.seed}"
    )
    known = about(network, network.certificate)
    heads = "\n".join(
        f"| `{node.name}` | {_cell(node.expression)} |" for node in circuit.nodes[1:-1]
    )
    return f"""# {model.name}

What it computes: {where}, at {sizes or "its one size"}; target {spec.target}, optimize
{spec.optimize}, disguise {model.made.dial}.

```python
{_source(model)}
```

- {circuit.layers} layers, at most {circuit.heads} heads each, {network.tokens} tokens x
  {network.width} columns
- {len(circuit.possible())} possible edges, {len(circuit.edges)} structural,
  {len(circuit.functional)} functional, {len(circuit.genuine)} genuine
- network {network.fingerprint}

```text
{known}
```

The edges that are called functional change the answer when another prompt's value is put on them
alone: found at random points modulo {" and ".join(map(str, _primes(model)))}, where nothing is
rounded. Those that the network has before any disguise, too, are genuine.

`{CIRCUIT}` holds all edges, `{EDGES}` the genuine ones for EAP-IG, `{NETWORK}` the network,
`{PROMPTS}` inputs to run it on; `{MADE}` says how it was made. Read them with
`inweave.circuits.load`.

| node | what it adds |
| --- | --- |
{heads}
"""


def _source(model: Model) -> str:
    origin = model.network.origin
    text = model.network.record.source if origin is None and model.network.record else ""
    return (origin.program.source if origin is not None else text).strip()


def _primes(model: Model) -> tuple[int, ...]:
    return model.circuit.points.primes if model.circuit.points is not None else ()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def suite_card(folder: Path) -> str:
    """The card of a suite, in markdown; one line for each of its models."""
    index = read_json(folder / INDEX, Index)
    names = finished(folder)
    made = [read_json(folder / name / MADE, Made) for name in names]
    kinds = [each.specification.kind for each in made]
    proved = [each.proof for each in made].count("algebra")
    lines = "\n".join(f"- [{name}]({name}/{CARD})" for name in names)
    return f"""# Circuits with ground truth

{len(made)} attention networks whose every head is known, made by `inweave circuits build` from the
seed {index.seed} at dial {index.dial}: {kinds.count("gallery")} of inweave's gallery,
{kinds.count("generated")} of drawn programs. Each is verified against its program; its card says
how: {proved} are proved by algebra, {len(made) - proved} are compared with it at random points
modulo primes, where a wrong one passes with probability at most 1e-12.

{lines}
"""
