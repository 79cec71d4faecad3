"""Shared memory of a block: who writes and reads it, and where a barrier has to stand between.

A barrier is written before lines that read what was written since the last one, or write what was
read since. For a loop, that follows from what its last step leaves to its first: so its lines are
written twice, and the first time thrown away.
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


class SharedMemory(Writer):
    """A kernel whose threads share memory, `group` of them for a prompt."""

    group: int

    def restart(self) -> None:
        """Begin to write anew."""
        self.out = Lines()
        self.functions.restart()
        self.done.clear()
        self.rows.clear()
        self._buffers: dict[str, int] = {}
        self.since, self._read = _Since(), set[str]()

    def buffers(self) -> list[str]:
        """The parts of a prompt's shared memory."""
        found, start = [], 0
        for name, size in self._buffers.items():
            found.append(f"real *{name} = memory + {start};")
            start += _rounded(size)
        return found

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
        if read & self.since.written or written & (self.since.read | self.since.written):
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
        body()
        after = self.since
        self.out, self.done, self.since = out, done, since
        self.since.add(after)
        with self.out.block(head, pragma):
            body()

    @property
    def shared(self) -> int:
        """The numbers that a prompt takes, a little off from what memory banks repeat at."""
        found = sum(map(_rounded, self._buffers.values()))
        return found + 4 * (found % 32 == 0 and found > 0)


def _rounded(size: int) -> int:
    """A size of shared memory at which four entries at a time can begin."""
    return -(-size // 4) * 4
