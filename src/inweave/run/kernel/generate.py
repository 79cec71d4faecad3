"""From a plan to the text of a kernel: which shape it takes, and whether it fits one at all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from inweave.run.kernel.frame import Frame
from inweave.run.kernel.pressure import registers, work
from inweave.run.kernel.prompt_per_thread import PromptPerThread
from inweave.run.kernel.row_per_thread import RowPerThread
from inweave.run.kernel.rows import LARGEST
from inweave.run.kernel.text import Numbers, Refused
from inweave.run.kernel.values import Values
from inweave.run.kernel.writer import Writer
from inweave.run.values.node import Node

LONG = 12  # rows from which on a value is made row by row
REGISTERS = 360  # of 255: a few more wait in memory nearby, which costs less than the other shape
LOOK_UPS = 256  # of tables, that are written out for one prompt: more take long to compile
KEPT = 4096  # numbers of steps that a thread keeps in memory, which is there for all that can run
TWO_ROWS = 64  # columns up to which a thread has two rows
THREADS = 128
FILE = 65536  # registers of a multiprocessor
MEMORY = 227 << 10  # bytes of shared memory of a multiprocessor
OWN = 1 << 10  # that a block takes besides what it asks for
WARPS, BLOCKS = 64, 32  # that a multiprocessor has under way at most
MOST = 255  # registers of a thread
WIDE = 64  # registers from which on it is said how many blocks are to run
SPARE = 16  # registers beyond the estimate


@dataclass(frozen=True)
class Shape:
    """How a kernel is laid out, where that is a choice."""

    kind: str = ""  # 'prompt' or 'row' per thread; '' for whichever fits
    long: int = LONG
    prompts: int = 0  # in a block, of a row per thread
    rows: int = 0  # of a thread, where that can be: one, or two
    chunk: int = 0  # rows of a stream that are staged at a time
    unrolled: int = 0  # rows of a stream at a time, of a prompt per thread
    blocks: int = 0  # that a multiprocessor is to run at a time, at least
    threads: int = THREADS


@dataclass(frozen=True)
class Kernel(Frame):
    """A kernel as it is written, and what it will take."""

    text: str
    kind: str
    registers: int  # as estimated
    flops: int
    why_not: str = ""  # why the other shape was not taken

    @property
    def bytes(self) -> int:
        """What is read and written for one prompt."""
        entries = sum(self.sizes) + sum(rows * cols for rows, cols in self.outputs)
        return entries * Numbers(self.dtype).bytes


def generate(
    nodes: Sequence[Node],
    outputs: Sequence[Node],
    dtype: str,
    check: bool,
    shape: Shape | None = None,
) -> Kernel:
    """The kernel of a plan; Refused if it fits no shape."""
    shape = shape or Shape()
    numbers = Numbers(dtype)
    values = Values(nodes, outputs, shape.long)
    refusals: list[str] = []
    for kind, write in (("prompt", _per_thread), ("row", _per_row)):
        if shape.kind in ("", kind):
            try:
                return write(values, numbers, check, shape, "; ".join(refusals))
            except Refused as refused:
                refusals.append(f"one {kind} per thread: {refused}")
    raise Refused("; ".join(refusals))


def _per_thread(
    values: Values, numbers: Numbers, check: bool, shape: Shape, why_not: str
) -> Kernel:
    writer = PromptPerThread(values, "NAME", numbers, check, shape.threads, shape.unrolled)
    taken = registers(writer) * (numbers.bytes // 4)
    if taken > REGISTERS and not shape.kind:
        raise Refused(f"a prompt takes about {taken} registers, {REGISTERS} are the most")
    looked_up = sum(x.size for x in values.live if x.op == "apply" and x not in values.streams)
    if looked_up > LOOK_UPS and not shape.kind:
        raise Refused(f"a prompt takes {looked_up} values of functions, {LOOK_UPS} are the most")
    kept = sum(
        x.size for x in values.live if values.stack_of(x) is not None and x not in writer.direct
    )
    if kept > KEPT and not shape.kind:
        raise Refused(f"a prompt keeps {kept} numbers of its steps, {KEPT} are the most")
    body = writer.body()
    shared, threads = writer.shared * numbers.bytes, writer.threads
    head = ["int prompt = blockIdx.x * blockDim.x + threadIdx.x;", "if (prompt >= prompts) return;"]
    if shared:
        head.insert(0, f"SHARED(shared, {writer.shared});")
    return _finished(writer, body, head, "prompt", threads, threads, shared, taken,
                     why_not, store="", blocks=shape.blocks)  # fmt: skip


def _per_row(values: Values, numbers: Numbers, check: bool, shape: Shape, why_not: str) -> Kernel:
    wide = numbers.bytes // 4
    two_rows = LARGEST * (shape.rows > 1) if shape.rows else TWO_ROWS // wide
    writer = RowPerThread(values, "NAME", numbers, check, shape.prompts, shape.chunk, two_rows)
    body = writer.body()
    taken = registers(writer) * wide
    if taken > REGISTERS and not shape.kind:
        raise Refused(f"a row takes about {taken} registers, {REGISTERS} are the most")
    group, prompts = writer.group, writer.prompts
    head = [
        f"SHARED(shared, {writer.shared * prompts});",
        f"int lane = threadIdx.x % {group}, slot = threadIdx.x / {group};",
        f"int own = blockIdx.x * {prompts} + slot;",
        "int prompt = own < prompts ? own : prompts - 1;",
        f"real *memory = shared + slot * {writer.shared};",
        *writer.buffers(),
    ]
    shared = writer.shared * prompts * numbers.bytes
    blocks = shape.blocks or _crowd(taken, group * prompts)
    return _finished(writer, body, head, "row", prompts, group * prompts, shared, taken,
                     why_not, store="if (own < prompts) ", blocks=blocks)  # fmt: skip


def _crowd(taken: int, threads: int) -> int:
    """How many blocks a multiprocessor is to run: of wide rows, as many as their registers allow.

    Left alone, the compiler takes more registers than it needs, and there is a block less.
    """
    return 0 if taken < WIDE else max(1, _by_registers(taken, threads))


def _by_registers(taken: int, threads: int) -> int:
    """How many blocks the registers of a multiprocessor are enough for."""
    rounded, warps = -(-(taken + SPARE) // 8) * 8, -(-threads // 32)
    return FILE // (rounded * 32 * warps)


def resident(kernel: Kernel) -> int:
    """Roughly how many prompts a multiprocessor has under way."""
    by_memory, by_warps = MEMORY // (kernel.shared + OWN), WARPS // -(-kernel.threads // 32)
    by_registers = _by_registers(min(kernel.registers, MOST - SPARE), kernel.threads)
    blocks = min(BLOCKS, by_memory, by_warps, by_registers)
    return max(1, blocks) * kernel.prompts


def _finished(
    writer: Writer, body: str, head: list[str], kind: str, prompts: int, threads: int,
    shared: int, taken: int, why_not: str, store: str, blocks: int,
) -> Kernel:  # fmt: skip
    sources, outputs = writer.sources, writer.values.outputs
    parameters = [
        f"const real *__restrict__ in{i}_, long long step{i}" for i in range(len(sources))
    ]
    parameters += [f"real *__restrict__ out{i}_" for i in range(len(outputs))]
    parameters += ["int *flags, volatile int *any, int prompts"]
    bounds = f"{threads}, {blocks}" if blocks else str(threads)
    lines = [f"KERNEL({bounds}) NAME(", "    " + ",\n    ".join(parameters) + ") {"]
    lines += [f"  {line}" for line in head]
    for i in range(len(sources)):
        lines.append(f"  const real *in{i} = in{i}_ + prompt * step{i};")
    for i, node in enumerate(outputs):
        lines.append(f"  real *out{i} = out{i}_ + (long long)prompt * {node.size};")
    if writer.check:
        lines.append("  int flag = 0;\n  real finite = 0;")
    else:
        lines.append("  int flag = 0;")
    tail = []
    if writer.check:
        mark = "*any = flag; if (flags) atomicOr(flags + prompt, flag);"
        tail = ["  if (finite != 0) flag |= NOT_FINITE;", f"  {store}{{ if (flag) {{ {mark} }} }}"]
    ends = ["\n".join(lines), "\n", body, "\n".join([*tail, "}"]), "\n"]
    text = "".join([*writer.functions.text, *ends])
    name = "inweave_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    return Kernel(
        name=name,
        text=text.replace("NAME", name),
        dtype=writer.numbers.dtype,
        check=writer.check,
        kind=kind,
        sources=tuple(source.data for source in sources),
        sizes=tuple(source.size for source in sources),
        outputs=tuple(node.shape for node in outputs),
        prompts=prompts,
        threads=threads,
        shared=shared,
        registers=taken,
        flops=work(writer.values, writer.values.nodes),
        why_not=why_not,
    )
