"""A model in words: what it computes, how large it is, what is proved, what its circuit is."""

from __future__ import annotations

from pathlib import Path

from inweave import gallery
from inweave.circuits.load import (
    CARD,
    CIRCUIT,
    EDGES,
    INDEX,
    MADE,
    NETWORK,
    PROMPTS,
    Index,
    Made,
    Model,
    finished,
    read_json,
)
from inweave.proof.certificate import about


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
