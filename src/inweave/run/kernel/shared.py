"""Shared memory of a block: who writes and reads it, and where a barrier has to stand between.

A barrier is written before lines that read what was written since the last one, or write what was
read since. For a loop, that follows from what its last step leaves to its first: so its lines are
written twice, and the first time thrown away.

Where memory is short, buffers that are never in use at once stand in the same place: lines are
counted, all of an outermost loop as one, and from its first line to its last a buffer is in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from inweave.run.kernel.text import Lines
from inweave.run.kernel.writer import Writer


@dataclass
class _Since:
    """What was written to shared memory, and read, since the last barrier."""

    written: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)

    def copy(self) -> _Since:
        return _Since(set(self.written), set(self.read))

    def clear(self) -> None:
        self.written, self.read = set(), set()

    def add(self, other: _Since) -> None:
        self.written |= other.written
        self.read |= other.read

    def swap(self, one: str, other: str) -> None:
        """Two buffers change their names."""
        names = {one: other, other: one}
        self.written = {names.get(x, x) for x in self.written}
        self.read = {names.get(x, x) for x in self.read}


Place = tuple[int, int]
"""Where a buffer begins and ends."""


class SharedMemory(Writer):
    """A kernel whose threads share memory, `group` of them for a prompt."""

    group: int
    places: dict[str, Place]  # where buffers stand, once that is known

    def restart(self, places: dict[str, Place] | None = None) -> None:
        """Begin to write anew."""
        self.places = places or {}
        self._line, self._depth = 0, 0
        self._used: dict[str, tuple[int, int]] = {}  # the first and the last line of a buffer
        self.out = Lines()
        self.functions.restart()
        self.done.clear()
        self.rows.clear()
        self._buffers: dict[str, int] = {}
        self.since, self._read = _Since(), set[str]()

    def buffers(self) -> list[str]:
        """The parts of a prompt's shared memory."""
        return [f"real *{name} = memory + {self.places[name][0]};" for name in self._buffers]

    def side_by_side(self) -> dict[str, Place]:
        """Where buffers stand that share nothing."""
        found, start = dict[str, Place](), 0
        for name, size in self._buffers.items():
            found[name] = (start, start + _rounded(size))
            start += _rounded(size)
        return found

    def one_above_another(self) -> dict[str, Place]:
        """Where they stand otherwise: the largest first, each where nothing is while it is used."""
        found: dict[str, Place] = {}
        for name in sorted(self._buffers, key=lambda name: -self._buffers[name]):
            start, size = 0, _rounded(self._buffers[name])
            for low, high in sorted(found[x] for x in found if self._meet(name, x)):
                if start + size > low:
                    start = max(start, high)
            found[name] = (start, start + size)
        return found

    def _meet(self, one: str, other: str) -> bool:
        """Whether two buffers are in use at once."""
        (low, high), (first, last) = (self._used[_unit(name)] for name in (one, other))
        return low <= last and first <= high

    def _above(self, names: set[str]) -> set[str]:
        """Buffers, and those that stand in the same memory, whichever of two it is by now."""
        if not self.places:
            return names
        spans: dict[str, list[Place]] = {}
        for name, place in self.places.items():
            spans.setdefault(_unit(name), []).append(place)
        above = {
            unit
            for name in names
            for low, high in spans[_unit(name)]
            for unit, parts in spans.items()
            if unit != _unit(name) and any(first < high and low < last for first, last in parts)
        }
        return names | {name for name in self.places if _unit(name) in above}

    def buffer(self, name: str, size: int) -> str:
        self._buffers[name] = max(size, self._buffers.get(name, 0))
        return name

    @contextmanager
    def statement(self, *writes: str) -> Iterator[None]:
        """Lines that read and write shared memory, after a barrier if they need one."""
        outer, self.out = self.out, Lines()
        self.out.depth, self._read = outer.depth, set()
        yield
        inner, self.out = self.out, outer
        self._barrier(self._read, set(writes))
        self.out.found += inner.found
        self._read = set()

    def _barrier(self, read: set[str], written: set[str]) -> None:
        for name in map(_unit, read | written):
            self._used[name] = (self._used.get(name, (self._line, 0))[0], self._line)
        self._line += not self._depth
        lost = self._above(written)
        if read & self.since.written or lost & (self.since.read | self.since.written):
            self.out("SYNCWARP;" if 32 % self.group == 0 else "SYNC;")
            self.since.clear()
        self.since.read |= read
        self.since.written |= written

    def _seen(self, name: str) -> str:
        self._read.add(name)
        return name

    def _twice(self, head: str, pragma: str, body: Callable[[], None]) -> None:
        """A loop whose first step knows what the last one leaves to it, as to barriers."""
        since, done = self.since.copy(), set(self.done)
        out, self.out = self.out, Lines()
        self._depth += 1
        body()
        after = self.since
        self.out, self.done, self.since = out, done, since
        self.since.add(after)
        with self.out.block(head, pragma):
            body()
        self._depth -= 1
        self._line += not self._depth

    @property
    def shared(self) -> int:
        """The numbers that a prompt takes."""
        return extent(self.places)


def extent(places: dict[str, Place]) -> int:
    """What buffers take, a little off from what memory banks repeat at."""
    found = max((end for _, end in places.values()), default=0)
    return found + 4 * (found % 32 == 0 and found > 0)


def _unit(name: str) -> str:
    """A buffer and the one that it changes places with, as one."""
    return name.removesuffix("n")


def _rounded(size: int) -> int:
    """A size of shared memory at which four entries at a time can begin."""
    return -(-size // 4) * 4
