"""The public Network, and the doors into every room: compile, verify, load, explain.

A network is the data of `inweave.model`; here it also knows where it came from and what was proved
of it, and each method opens one door: running, proving, saving, exporting, looking inside. The
rooms behind the doors do the work and know the data only; what they need besides (the program of a
network, its certificate) is handed to them from here.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self

from inweave.compiler.candidates import chosen
from inweave.compiler.origin import Compiled, Origin
from inweave.compiler.resize import build
from inweave.errors import InputError, ProgramError, VerificationError, needs_extra
from inweave.exact.arithmetic import Floats
from inweave.exact.constants import Array
from inweave.language.program import Program, Traced
from inweave.model import network as data
from inweave.model.prompt import as_answer
from inweave.proof.certificate import Certificate, Claim, about

if TYPE_CHECKING:
    from inweave.circuit.graph import Circuit
    from inweave.explore.shown import Made, Shown
    from inweave.files.network_file import Record
    from inweave.model.dense import Trace
    from inweave.proof.entries import Degree
    from inweave.proof.floats import Run
    from inweave.run.cost import Cost
    from inweave.run.plan import Plan
    from inweave.stack.exported import TorchNetwork
    from inweave.stack.lens import LensNetwork
    from inweave.text.kernel import KernelReport

PATIENCE = 5.0  # seconds that compile spends on verification without being asked


@dataclass(frozen=True, eq=False, repr=False)
class Network(data.Network):
    """A layout, modules, how inputs fill the prompt and where the answers are read."""

    origin: Origin | None = field(default=None)
    """The program, sizes and options that it was compiled from; None of one read from a file."""
    certificate: Certificate | None = field(default=None)
    """What was proved of exactly this network here; None if nothing was yet."""
    record: Record | None = field(default=None)
    """What the file that it was read from says of its program: name, text, sizes, options."""
    claim: Claim | None = field(default=None)
    """What that file says was proved: a claim, until `verify` checks it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "certificate", about(self, self.certificate))
        object.__setattr__(self, "claim", about(self, self.claim))

    @property
    def proved(self) -> Certificate | Claim | None:
        """What is to be shown: the certificate or, where nothing was checked, the file's claim."""
        return self.certificate or self.claim

    @cached_property
    def _own(self) -> Origin | None:
        """The origin, if this is the network as it was compiled, and not a changed one."""
        origin = self.origin
        changed = origin is not None and origin.made is not None and self != origin.made
        return None if changed else origin

    # -- running ----------------------------------------------------------------------------------
    @cached_property
    def plan(self) -> Plan:
        """The least work that this network stands for, which is what runs."""
        from inweave.run.plan import Plan

        return Plan(self)

    def forward(self, H: Array) -> Array:
        """The state after the last module."""
        return self.plan.forward(H)

    def __call__(
        self, *, check: bool | Any = True, kernel: bool | Any = None, **inputs: Any
    ) -> Any:
        """The program's answer, computed by attention alone.

        With `check`, a pointwise function that leaves its domain raises DomainError, and an
        iteration that blows up DivergenceError; without it the network does what it does. While
        another library traces (jax.jit, jax.grad, jax.vmap, torch.compile, torch.func.vmap) no
        value is known and nothing can be raised for one: there an answer is NaN where a domain was
        left, and divergence is not looked for.

        A large batch of torch tensors on a CUDA device is computed by one `kernel` (see
        `Network.kernel`), where CuPy is installed: with False it never is, with True always.
        (To type checkers `check` and `kernel` may be anything: in net(**arrays) they cannot know
        that no array has their names.)
        """
        torch = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_compiling():
            from inweave.run.torch import answers

            self.keep()
            found = answers(id(self), tuple(inputs), bool(check), *inputs.values())
            return as_answer({o.name: x for o, x in zip(self.outputs, found, strict=True)})
        return self.plan.call(inputs, check, self._told, kernel)

    def kernel(self, dtype: str = "float32", *, check: bool = True) -> KernelReport:
        """This network as one piece of CUDA code, or why it is none; `print` shows it.

        `dtype` is float32 or float64; with `check` the kernel marks prompts for which a function
        left its domain, an answer is very large or an input is not finite.
        """
        from inweave.text.kernel import report

        return report(self.plan, dtype, bool(check))

    def trace(self, **inputs: Any) -> Trace:
        """Every state and every head's query, key, value and output, by name."""
        from inweave.model.dense import trace

        H = self.prompt(**inputs)
        return trace(self, H, Floats.like(H))

    # -- proof ------------------------------------------------------------------------------------
    def verify(
        self, trials: int | None = None, seed: int | None = None, *, seconds: float = 60.0
    ) -> Certificate:
        """Prove that this network computes its program; see `inweave.verify`."""
        if self.origin is not None:
            found = verify(self.origin.program, self, trials=trials, seed=seed, seconds=seconds)
        else:
            found = self._check_stored(trials=trials, seed=seed, seconds=seconds)
        object.__setattr__(self, "certificate", found)  # what is known of it, not what it is
        return found

    def _check_stored(self, **options: Any) -> Certificate:
        """Check the network against the program that its file holds."""
        from inweave.files.network_file import LARGEST_PROMPT
        from inweave.language.expressions import every
        from inweave.proof.check import verify as check

        stored = self.stored_program
        if stored is None or self.record is None:
            raise InputError(
                "this network comes without a program; to check it against one of yours, use "
                "inweave.verify(program, network), with the program's static arguments by name"
            )
        for x in every(stored.outputs.values()):
            if x.rows * x.cols > LARGEST_PROMPT:
                raise VerificationError(f"the file's program computes {x!r}, too much to check")
        return check(self._stored_name, stored, self, plan=self.plan, **options)

    @property
    def stored_program(self) -> Traced | None:
        """The program of the file that this network was read from, if it holds one."""
        graph = None if self.record is None else self.record.graph
        return None if graph is None else graph.traced

    @property
    def _stored_name(self) -> str:
        """What a certificate calls the program of the file."""
        return "" if self.record is None else f"{self.record.program} (as the file holds it)"

    def _traced(self) -> Traced | None:
        """The program of this network: what it was compiled from or, once checked, its file's.

        Of a network that was changed, too, the one that it was compiled from, once checked.
        """
        known = "" if self.certificate is None else self.certificate.program
        if self.origin is None:
            return self.stored_program if known == self._stored_name else None
        checked = self._own is not None or known == self.origin.program.name
        return self.origin.traced if checked else None

    def _told(self) -> Traced | None:
        """The program as it is told, to say what diverges: of a file, its own, checked or not."""
        return self.stored_program if self.origin is None else self._traced()

    @cached_property
    def _degree(self) -> tuple[int, bool]:
        from inweave.proof.degree import network_degree

        traced = self._traced()
        if traced is not None:
            return network_degree(self, traced)
        if self.stored_program is not None:
            raise InputError(
                "the degree is that of the program in the file, which the network was not checked "
                "against yet; call net.verify() first"
            )
        changed = ", and this one was changed; call net.verify() first" if self.origin else ""
        raise InputError(f"the degree is known of networks with a program only{changed}")

    @property
    def degree(self) -> int:
        """The degree of the answers as polynomials in the inputs.

        Where large terms cancel and exactness is too expensive, an upper bound: `print` says so.
        """
        return self._degree[0]

    @property
    def depth_lower_bound(self) -> int:
        """⌈log₃ degree⌉: no exact network of attention layers is shallower.

        That holds on every prompt whose entries are affine in the inputs. Where this network's own
        prompt holds products of inputs, or roots, the degree is the one in the entries of this
        prompt, and the bound holds on it. Where only an upper bound of the degree is known, it
        follows from a degree that is reached.
        """
        from inweave.proof.degree import has_functions, lower_bound
        from inweave.proof.entries import is_affine, reached

        (degree, exact), traced = self._degree, self._traced()
        assert traced is not None
        if exact and is_affine(self.fills):
            return lower_bound(degree)
        return 0 if has_functions(traced) else reached(traced, self.fills).layers or 0

    def known_degree(self) -> Degree | None:
        """The degree, exact where that is quick to know, else an upper bound; None without one."""
        if self._traced() is None or not self.is_polynomial:
            return None
        return self._quick_degree

    @cached_property
    def _quick_degree(self) -> Degree:
        from inweave.proof.entries import Degree, is_affine

        traced = self._traced()
        assert traced is not None
        if is_affine(self.fills) and "_degree" in self.__dict__:
            return Degree(*self._degree)
        return self._degree_of(traced)

    def _degree_of(self, traced: Traced) -> Degree:
        """The degree of a program in the entries of this network's prompt, as far as is quick."""
        from inweave.proof.degree import has_functions, network_degree, quick_degree
        from inweave.proof.entries import Degree, in_entries

        if has_functions(traced):
            return Degree(*network_degree(self, traced))
        return in_entries(traced, self.fills, quick_degree)

    # -- sizes ------------------------------------------------------------------------------------
    def free_sizes(self) -> tuple[str, ...]:
        """The sizes that the weights do not depend on, as far as seen here and far away.

        A program may do something else at any other size, so `resize` checks the one it gets.
        """
        return self._seen_sizes[0]

    def following_sizes(self) -> tuple[str, ...]:
        """The sizes that the weights follow: `resize` rebuilds the shift of a loop over rows."""
        return self._seen_sizes[1]

    @cached_property
    def _seen_sizes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        from inweave.compiler.held import held_sizes
        from inweave.compiler.resize import loop_steps
        from inweave.proof.sizes import reads_the_same

        origin = self._own
        if origin is None:
            return (), ()
        sizes, program = origin.sizes, origin.program
        held, steps = held_sizes(self, program, sizes), loop_steps(self)
        free = [name for name in program.size_names if name not in held]
        follow = [name for name in held if sizes[name] in steps]
        proved = self.certificate is not None and self.certificate.is_proof
        known = self.certificate.free if self.certificate is not None else ()
        if proved:  # for those of them that loops go through
            follow = [name for name in follow if name in known]

        def stays(name: str) -> bool:
            return name in known or reads_the_same(origin.traced, name, origin.record)

        return tuple(filter(stays, free)), tuple(filter(stays, follow))

    def resize(self, **sizes: int) -> Network:
        """The same weights at another size that they do not depend on, or those that follow it.

        Weights follow the number of rows that a loop goes through: they are compiled anew. What
        was proved of this network holds for the other if both read the same; if not, the other is
        verified.
        """
        from inweave.compiler.resize import refused, resize
        from inweave.proof.sizes import carried_over

        if self.origin is None and self.record is not None:
            raise InputError(
                "this network was read from a file, which holds its program at these sizes and its "
                f"text, which is never run; compile {self.record.program!r} at "
                f"{', '.join(f'{name}={size}' for name, size in sizes.items())}"
            )
        if self.origin is None or self._own is None:
            changed = ", and this one was changed" if self.origin is not None else ""
            raise InputError(f"only compiled networks can be resized{changed}")
        other = _public(resize(Compiled(self, self.origin), sizes))
        assert other.origin is not None
        here, there = (self.origin.traced, self), (other.origin.traced, other)
        known = carried_over(self.certificate, here, there)
        if known is not None:
            return replace(other, certificate=known)
        try:
            return _certified(other)
        except VerificationError as error:
            raise refused(sizes, f": {error}") from error

    # -- other places -----------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a `.inweave` file, which `inweave.load` reads; see `inweave.files`."""
        from inweave.files.network_file import save

        save(path, self, *self._kept())

    def _kept(self) -> tuple[Record | None, Certificate | None]:
        """What a file keeps beside the network: its program, and what was proved."""
        from inweave.files.network_file import Record

        record = self.record if self.origin is None else Record.of(self.origin)
        proved = self.proved
        return record, proved.certificate if isinstance(proved, Claim) else proved

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds what a file holds: the program is kept as data, the proof as a claim."""
        from inweave.files.network_file import encode

        return _unpickled, (encode(self, *self._kept()),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def explore(
        self, path: str | os.PathLike[str], *, compare: Network | None = None, **inputs: Any
    ) -> None:
        """Write a page that shows this network, or two side by side, running on these inputs.

        Without inputs, random ones are drawn; `H` instead of them is the prompt itself.
        """
        from inweave.explore import write

        write(path, self if compare is None else [self, compare], inputs)

    def shown(self) -> Shown:
        """What the explorer shows of this network."""
        from inweave.explore.shown import Shown

        degree = self.known_degree()
        if degree is None and self.stored_program is not None and self.is_polynomial:
            degree = self._degree_of(self.stored_program)  # whether or not this computes it
        return Shown(self, self._shown_as, self.proved, degree)

    @property
    def _shown_as(self) -> Made | None:
        """What it was made from, here or as the file says; changed networks too."""
        from inweave.explore.shown import Made

        if self.origin is not None:
            program, traced = self.origin.program.name, self.origin.traced
            changed, how = self._own is None, self.origin.optimize
            return Made(program, how, self.origin.sizes, traced, changed, cache(self._counted))
        said = self.record
        if said is None:
            return None
        return Made(said.program, said.optimize, said.sizes, self.stored_program)

    def _counted(self) -> dict[str, tuple[int, ...]]:
        """The loops that are as long as a static number says, of a network as it was compiled."""
        from inweave.compiler.resize import counted_loops

        return {} if self._own is None else counted_loops(Compiled(self, self._own))

    def circuit(self, *, seed: int = 0, functional: bool = True) -> Circuit:
        """What every head computes, and which edges between heads the answer depends on.

        An edge is functional if another value of its source, on this edge alone, changes the
        answer on random prompts, in exact numbers; see `inweave.circuit`.
        """
        from inweave.circuit.found import circuit_of

        return circuit_of(self, seed=seed, functional=functional)

    def to_torch(self, trainable: bool = False, dtype: Any = None) -> TorchNetwork:
        """A torch module with named activation taps, in float64 unless told."""
        with needs_extra("net.to_torch", "torch"):
            from inweave.stack.exported import to_torch

        made = to_torch(self, trainable, dtype)
        self._beside("to_torch", made.in_numpy, str(made.dtype))
        return made

    def to_lens(self, trainable: bool = False, dtype: Any = None) -> LensNetwork:
        """A model of TransformerLens, with its hooks and caches, in float64 unless told."""
        with needs_extra("net.to_lens", "lens"):
            from inweave.stack.lens import to_lens

        made = to_lens(self, trainable, dtype)
        self._beside("to_lens", made.in_numpy, str(made.dtype))
        return made

    def to_onnx(self, path: str | os.PathLike[str], dtype: str = "float32") -> None:
        """Write an ONNX model of named inputs and answers, with a dynamic batch axis."""
        with needs_extra("net.to_onnx", "onnx"):
            from inweave.export.onnx import to_onnx

        to_onnx(self, path, dtype)
        self._beside("to_onnx", None, dtype)

    def to_jax(self, dtype: str | None = None) -> tuple[Any, dict[str, Any]]:
        """A pure function and its parameters: `apply(params, **inputs)` or `apply(params, H)`."""
        with needs_extra("net.to_jax", "jax"):
            from inweave.export.jax import precision, to_jax

        made = to_jax(self, dtype)
        self._beside("to_jax", None, precision(dtype))
        return made

    def _beside(self, door: str, run: Run | None, dtype: str) -> None:
        """Warn if the answers of an export have lost half of their digits, or more."""
        from inweave.proof.floats import DIGITS, densely, stream_difference

        kind = dtype.removeprefix("torch.")
        if kind not in DIGITS:
            return
        found = stream_difference(self.plan, run or densely(self, kind))
        if found is not None and found > 2.0 ** -(DIGITS[kind] / 2):
            warnings.warn(
                f"net.{door} in {kind}: on random inputs its answers are off by {found:.1g} of "
                "their largest entry, those of net(...) are not. A network that runs layer by "
                "layer adds to what its blocks held before, and keeps the rounding errors of it; "
                "values that shrink fast lose their digits so. Use net(...), a wider dtype, or a "
                "loop by inweave.iterate with optimize='faithful', which goes step by step",
                stacklevel=3,
            )

    def __str__(self) -> str:
        from inweave.text.network import describe

        known, free = self.known_degree(), self.free_sizes()
        follow = self.following_sizes()
        return describe(self, self._own, self.proved, known, free, self._made, follow)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        from inweave.explore.summary import summary

        return summary(self.shown(), str(self))

    @property
    def _made(self) -> tuple[str, str] | None:
        """The name of the program and how it was compiled, here or as the file says."""
        if self.origin is not None and self._traced() is not None:
            return self.origin.program.name, self.origin.optimize
        return None if self.record is None else (self.record.program, self.record.optimize)

    __repr__ = data.Network.__repr__


def compile(
    program: Program,
    *,
    target: str = "elsa",
    optimize: str = "faithful",
    tokens: int | str | None = None,
    layout: Any = None,
    verify: bool = True,
    **sizes: Any,
) -> Network:
    """The network that runs a program at given sizes.

    `target` is 'elsa' (heads with biases) or 'lsa' (constants live in the prompt). `optimize` is
    'faithful' (loops stay as written), 'speed' (the candidate that is estimated to run fastest at
    these sizes; `explain` shows them all) or 'depth' (fewest layers, affine loops collapsed).
    `tokens` asks for a taller prompt, or names the size that tokens stand for: with tokens="n" the
    width of the prompt grows as little with n as can be, so that every example is a row; with
    tokens="d" every feature is. `layout` fixes the input form: a Layout whose blocks are named
    after inputs ('X', 'Xᵀ', 's·I'; a matrix may stand there both ways round), or a Network whose
    input form is to be used. The network is verified unless `verify=False`.

    >>> import inweave
    >>> from inweave import Matrix, Vector
    >>> @inweave.program
    ... def gram(X: Matrix["n", "d"], w: Vector["d"]):
    ...     return X.T @ (X @ w)
    >>> net = inweave.compile(gram, n=4, d=2)
    >>> net
    Network(lsa: 1 attention layers, 1 heads, 2 tokens x 6 columns)
    >>> net(X=[[1, 0], [0, 2], [0, 0], [0, 0]], w=[1, 1]).tolist()
    [1.0, 4.0]
    >>> net.depth, net.depth_lower_bound, net.degree
    (1, 1, 3)
    """
    origin, _ = _chosen(Origin(program, dict(sizes), target, optimize, tokens, layout))
    compiled = build(origin)
    unused = compiled.origin.traced.unused
    if unused:
        warnings.warn(
            f"program {program.name!r} does not use its input(s) {', '.join(unused)}; "
            "the network takes and ignores them",
            stacklevel=2,
        )
    network = _public(compiled)
    return _certified(network) if verify else network


def _chosen(asked: Origin) -> tuple[Origin, dict[str, Cost]]:
    """An origin whose candidate is known, and what the candidates cost.

    One that would take long to verify costs too much: every network is to have a certificate.
    """
    from inweave.proof.cost import seconds
    from inweave.run.cost import cost
    from inweave.run.plan import Plan

    def priced(network: data.Network) -> Cost:
        plan = Plan(network)
        found = cost(plan)
        known = 2 * seconds(asked.traced, plan) <= PATIENCE  # of two trials, where four may be made
        return found if known else found._replace(seconds=math.inf)

    return chosen(asked, priced)


def _public(compiled: Compiled) -> Network:
    found = compiled.network
    origin = replace(compiled.origin, recorded=compiled.origin.traced, made=found)
    return replace(as_public(found), origin=origin)


def verified(origin: Origin) -> Network:
    """The network of an origin, with a certificate; TooFewTrials if that takes too long."""
    return _proved(_public(build(origin)))


def _certified(network: Network) -> Network:
    """The network with its certificate, or with a warning that checking it would take long.

    One that is seen to be wrong is refused however long a proof would take.
    """
    from inweave.proof.check import TooFewTrials
    from inweave.proof.floats import refuse_if_far_off

    try:
        return _proved(network)
    except TooFewTrials as error:
        assert network.origin is not None
        refuse_if_far_off(network.origin.traced, network.plan)
        warnings.warn(
            f"this network is not verified yet: {error}, or compile with verify=False to silence "
            "this",
            stacklevel=3,
        )
        return network


def _proved(network: Network) -> Network:
    """The network with its certificate, or TooFewTrials."""
    from inweave.proof.check import Differ
    from inweave.proof.sizes import alike_programs

    origin = network.origin
    assert origin is not None
    try:
        found = _checked(origin.program, network, {}, seconds=PATIENCE)
    except Differ:
        if alike_programs(origin.traced, origin.record({})):
            raise
        raise ProgramError(
            f"program {origin.program.name!r} is another one each time it is recorded: it draws "
            "random numbers, counts, or reads what changes around it; take such values as "
            "arguments, or draw them once, outside"
        ) from None
    object.__setattr__(network, "certificate", found)
    return network


def verify(
    program: Program,
    network: data.Network,
    *,
    trials: int | None = None,
    seed: int | None = None,
    seconds: float = 60.0,
    **sizes: Any,
) -> Certificate:
    """Check a network against a program; a Certificate, or VerificationError.

    Sizes are read off the network's inputs; static arguments of the program, such as a number of
    steps, are given by name. The two are proved equal by algebra where that is possible. Where it
    is not, or where `trials` or a `seed` are given, they are compared at random points of finite
    fields, until a wrong network passes with probability less than 1e-12. If that takes more than
    about so many `seconds`, there is no certificate, and the error says how many it takes.
    """
    for what, got, kind in (
        ("a program made by @inweave.program", program, Program),
        ("a network", network, data.Network),
    ):
        if not isinstance(got, kind):
            raise InputError(
                f"inweave.verify(program, network) needs {what}, got a {type(got).__name__}"
            )
    return _checked(program, network, sizes, trials=trials, seed=seed, seconds=seconds)


def _checked(
    program: Program, network: data.Network, sizes: Mapping[str, Any], **options: Any
) -> Certificate:
    from inweave.proof.check import verify as check
    from inweave.proof.interface import sizes_for

    origin = network.origin if isinstance(network, Network) else None
    if origin is not None and origin.program is program and not sizes:
        record = origin.record
    else:
        record = Origin(program, sizes_for(program, network, sizes)).record
    reference = None if origin is None else lambda: build(origin).network
    plan = network.plan if isinstance(network, Network) else None
    return check(
        program.name, record({}), network, plan=plan, reference=reference, record=record, **options
    )


def explain(
    program: Program,
    *,
    target: str = "elsa",
    optimize: str = "faithful",
    tokens: int | str | None = None,
    layout: Any = None,
    **sizes: Any,
) -> str:
    """What every pass made, and how it runs: `print(inweave.explain(program, n=4, d=2))`.

    Each is checked against what it was made from, at a random point of a finite field.
    """
    from inweave.compiler.candidates import best
    from inweave.text.explain import explain as words
    from inweave.text.plan import describe

    asked, costs = _chosen(Origin(program, dict(sizes), target, optimize, tokens, layout))
    with checked_passes() as notes:
        done = best(asked)
    origin = replace(asked, added=done.allocation.added)
    network = _public(Compiled(done.network, origin))
    return words(done, origin, str(network), describe(network.plan), notes, costs)


@contextmanager
def checked_passes() -> Iterator[dict[str, str]]:
    """Check every pass of every compilation made meanwhile; what came of the last ones, by name.

    A pass that changes the value of an answer raises VerificationError, which names it.
    """
    from inweave.compiler.driver import checked_by
    from inweave.proof.passes import PassCheck

    check = PassCheck()
    with checked_by(check):
        yield check.notes


def load(path: str | os.PathLike[str], *, limit: int | None = None) -> Network:
    """The network of a `.inweave` file; a file of more than `limit` bytes is refused unread.

    What the file says was proved is a claim, `network.claim`: `network.verify()` checks it.
    """
    from inweave.files import regular
    from inweave.files.network_file import load as read

    return _read(*read(path, limit=regular.LARGEST if limit is None else limit))


def _unpickled(stored: bytes) -> Network:
    from inweave.files.network_file import decode

    return _read(*decode(stored))


def _read(found: data.Network, record: Record | None, claim: Claim | None) -> Network:
    return replace(as_public(found), record=record, claim=claim)


def as_public(network: data.Network) -> Network:
    """The same data with its doors."""
    n = network
    return Network(n.layout, n.modules, n.inputs, n.fills, n.outputs, n.embedding)
