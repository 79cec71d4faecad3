"""Stories: short chapters that move a page along, as data.

A chapter says something and what the page shows meanwhile: a network, a layer, a head, with which
scalar inputs, how many steps and which heads switched off, and which panel it is about. The page
begins every chapter from the networks and data that it was made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from inweave.errors import InputError
from inweave.exact import schema
from inweave.explore.shown import Shown
from inweave.model.layers import AttentionLayer, Layer
from inweave.model.modules import Module, Part

PANELS = ("head", "data", "values", "distance", "norms", "effect", "ablate")
PANELS_OF_EACH = ("prompt", "network", "source", "report")  # each with a network's number
MOST_LISTED = 20


@dataclass(frozen=True)
class Chapter:
    """What is said, and what the page shows meanwhile.

    `layer` is a position as in a link, the number of executed layers, or "end"; `off` are heads
    that write nothing in any step, each a stored layer and a head of it; `show` is the name of the
    panel that is pointed at, as in "prompt-0", "head", "data", "distance" or "report-1".
    """

    title: str
    text: str
    show: str = "prompt-0"
    network: int = 0
    layer: str = "0"
    head: int = 0
    inputs: dict[str, float] = field(default_factory=dict)
    steps: int | None = None
    off: tuple[tuple[int, int], ...] = ()
    difference: bool = False


Story = tuple[Chapter, ...]


def read(text: str) -> Story:
    """A story from JSON."""
    found: Story = schema.read(Story, schema.loads(text))
    return found


def packed(story: Sequence[Chapter], networks: Sequence[Shown]) -> list[dict[str, Any]]:
    """A story for the page; what is not there to be shown is refused."""
    for number, chapter in enumerate(story, 1):
        for what, got, known in _named(chapter, networks):
            if got not in known:
                raise InputError(
                    f"chapter {number}, {chapter.title!r}: there is no "
                    f"{what.format(repr(got))}; there "
                    f"{_listed(known)}"
                )
    return [asdict(chapter) for chapter in story]


def _named(chapter: Chapter, networks: Sequence[Shown]) -> Iterator[tuple[str, Any, list[Any]]]:
    """What a chapter names, and what there is of that kind; later ones rest on earlier ones."""
    yield "network {}", chapter.network, list(range(len(networks)))
    shown = networks[chapter.network]
    layers, modules = shown.network.layers, tuple[Part, ...](shown.network.modules)
    each = [f"{panel}-{i}" for panel in PANELS_OF_EACH for i in range(len(networks))]
    yield "panel {}", chapter.show, [*PANELS, *each]
    inputs = [one for each in networks for one in each.network.inputs]
    scalars = [one.name for one in inputs if one.kind == "scalar"]
    for name in chapter.inputs:
        yield "scalar input {}", name, scalars
    for layer, head in chapter.off:
        yield "stored layer {}", layer, list(range(len(layers)))
        yield f"head {{}} of stored layer {layer}", head, _heads(layers[layer])
    if chapter.steps is not None:
        turned = _turned(shown, chapter.steps)
        yield "loop that takes {} steps", chapter.steps, [chapter.steps] if turned else []
        modules = turned
    positions = dict(_positions(modules))
    positions["end"] = list(positions.values())[-1]
    yield "layer {}", chapter.layer, list(positions)
    here = positions[chapter.layer]
    if here is not None:
        yield f"head {{}} of layer {chapter.layer}", chapter.head, _heads(here)


def _turned(shown: Shown, steps: int) -> tuple[Part, ...]:
    """The modules at a number of steps: the page turns the first static number that loops follow,
    or else the first loop. Nothing, where there is no loop or one would not run at all."""
    modules, made = shown.network.modules, shown.made
    parts = [part for module in modules for part in module.walk()]
    repeats = [one.repeat for one in parts if isinstance(one, Module) and one.repeat != 1]
    counted = made.counted() if made else {}
    if not repeats:
        return ()
    name = next(iter(counted), None)
    loops = (0,) if name is None else counted[name]
    more = steps - (repeats[0] if made is None or name is None else made.sizes[name])
    wanted = [times + more * (i in loops) for i, times in enumerate(repeats)]
    times = iter(wanted)

    def at(part: Part) -> Part:
        if not isinstance(part, Module):
            return part
        repeat = 1 if part.repeat == 1 else next(times)
        return replace(part, repeat=repeat, body=tuple(at(inner) for inner in part.body))

    return tuple(at(module) for module in modules) if min(wanted) > 0 else ()


def _heads(layer: Layer) -> list[int]:
    return list(range(len(layer.heads))) if isinstance(layer, AttentionLayer) else [0]


def _positions(modules: Sequence[Part]) -> Iterator[tuple[str, Layer | None]]:
    """The names of positions, as in links, and their layers: none at the input and at skips."""
    yield "0", None
    done = skips = 0
    for layer in (one for module in modules for one in _run(module)):
        done, skips = (done, skips + 1) if layer is None else (done + 1, 0)
        yield f"{done}{'s' * skips}", layer


def _run(part: Part) -> Iterator[Layer | None]:
    """The layers of a part as they are executed, and None for each skip around a module."""
    if not isinstance(part, Module):
        yield part
        return
    for _ in range(part.repeat):
        for inner in part.body:
            yield from _run(inner)
        if part.skip:
            yield None


def _listed(known: Sequence[Any]) -> str:
    if len(known) < 2:
        return f"is only {known[0]!r}" if known else "is none"
    if len(known) <= MOST_LISTED:
        return f"are {', '.join(map(repr, known))}"
    return f"are {', '.join(map(repr, known[:3]))}, ..., {', '.join(map(repr, known[-2:]))}"
