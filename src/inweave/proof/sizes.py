"""What a proof says of other sizes: those at which program and network read the same.

A proof by algebra that never used how large a size is holds wherever program and network are
written in the same way, with the other size in the place of this one. Whether a program is can only
be seen: it is Python, and may loop over the rows of X or divide by their number. So it is recorded
at other sizes and the two recordings are compared. Of a resized network both are at hand, and if
both read the same, what was proved of the first holds for the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from inweave.exact.constants import Dense
from inweave.language.program import Traced
from inweave.language.recorded import Recorded
from inweave.model.network import Network
from inweave.proof.certificate import Certificate

Recorder = Callable[[Mapping[str, int]], Traced]
"""The program at other sizes, of which those given are changed."""

EXTENTS = ("rows", "cols", "size", "diagonal", "tokens")  # fields that are numbers of rows, columns


def alike(here: Any, there: Any, sizes: Mapping[int, int], name: str = "") -> bool:
    """Whether data are the same but for sizes, each of which is another one wherever it stands.

    `sizes` maps the old ones to the new. An extent that is an old size by chance, and stays as it
    is, makes a difference: nobody could tell it from the size.
    """
    if type(here) is not type(there):
        return False
    if isinstance(here, tuple):
        return len(here) == len(there) and all(
            alike(a, b, sizes, name) for a, b in zip(here, there, strict=True)
        )
    if is_dataclass(here) and not isinstance(here, Dense):
        return all(
            alike(getattr(here, f.name), getattr(there, f.name), sizes, f.name)
            for f in fields(here)
            if f.compare
        )
    return bool(there == (sizes.get(here, here) if name in EXTENTS else here))


def alike_programs(here: Traced, there: Traced) -> bool:
    """Whether a program, recorded at other sizes, is the same but for them."""
    sizes = _moved(here, there)
    a, b = (replace(Recorded.of(traced), sizes=()) for traced in (here, there))
    return alike(a, b, sizes)


def alike_networks(here: Network, there: Network, sizes: Mapping[int, int]) -> bool:
    """Whether networks are the same but for sizes."""
    parts = [f.name for f in fields(Network)]
    return all(alike(getattr(here, part), getattr(there, part), sizes, part) for part in parts)


def _moved(here: Traced, there: Traced) -> dict[int, int]:
    """The sizes of one recording that are others in the other one."""
    return {
        size: there.sizes[name] for name, size in here.sizes.items() if there.sizes[name] != size
    }


def unchanged_by(traced: Traced, names: Iterable[str], record: Recorder | None) -> tuple[str, ...]:
    """Those sizes that, when they are a little larger, leave the program as it is."""
    names = tuple(names)
    if record is None or not names or _reads_the_same(traced, names, record):
        return () if record is None else names
    alone = tuple(name for name in names if _reads_the_same(traced, (name,), record))
    return alone if len(alone) == 1 or _reads_the_same(traced, alone, record) else ()


def _reads_the_same(traced: Traced, names: tuple[str, ...], record: Recorder) -> bool:
    try:
        there = record({name: traced.sizes[name] + i for i, name in enumerate(names, 1)})
        return alike_programs(traced, there)
    except Exception:  # the program is anybody's code: at other sizes it may do anything
        return False


def said_of_sizes(traced: Traced, free: tuple[str, ...]) -> list[str]:
    """For which sizes something is proved, in words."""
    fixed = [f"{name} = {size}" for name, size in traced.sizes.items() if name not in free]
    said = [f"at {' and '.join(fixed)} only"] if fixed else []
    if free:
        said.append(f"for all {' and '.join(free)} that leave program and weights as they are")
    return said


def carried_over(
    certificate: Certificate | None,
    here: tuple[Traced, Network],
    there: tuple[Traced, Network],
) -> Certificate | None:
    """What was proved of a network, if it holds for this one, which has other sizes; or None."""
    changed = {name for name, size in here[0].sizes.items() if there[0].sizes[name] != size}
    if certificate is None or not changed <= set(certificate.free):
        return None
    sizes = _moved(here[0], there[0])
    if not (alike_programs(here[0], there[0]) and alike_networks(here[1], there[1], sizes)):
        return None
    return replace(certificate, network=there[1].fingerprint, float_difference=None)
