"""The short way into a call: inputs whose kinds and shapes have been seen to be right before.

A call of a small network takes microseconds, and looking closely at its inputs takes many times as
long. So a plan keeps, for every signature under which it was called rightly, what the close look
found: which input fills which slot, lifted how, and how the answers are shaped. What is left to
look at are values, in one pass over the inputs and one over the answers; in jax both are part of
the compiled code. Anything that is not plainly right goes the long way, which says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import vdot

from inweave.exact.arithmetic import Arithmetic, Floats
from inweave.exact.constants import Array
from inweave.model.inputs import NUMBERS, is_concrete, needs_no_change
from inweave.model.network import Network
from inweave.model.prompt import numbered
from inweave.run.growth import SUSPICIOUS, reach
from inweave.run.libraries.execute import Bound, in_batch
from inweave.run.lines.code import Lead

if TYPE_CHECKING:
    from inweave.run.kernel.device import Loaded
    from inweave.run.kernel.gradient import Backward

Lift = Callable[[Any], Array]

LARGEST = 2.0**53  # numbers up to here are finite in every float type that has a short way


class Known(NamedTuple):
    """What a close look found: values that became these sources, and what they are a batch of."""

    network: Network
    values: Sequence[Any]
    sources: Mapping[Any, Array]
    lead: Lead
    arithmetic: Floats


def ready(known: Known, way: Bound | Loaded, backward: Backward) -> Short | None:
    """The short way for values like these, by this code or kernel; None if there is none."""
    kinds: dict[str, type[Ready]] = {"numpy": Ready, "torch": InTorch, "jax": InJax}
    made = kinds.get(known.arithmetic.library)
    if made is None or not all(needs_no_change(x, known.arithmetic) for x in known.values):
        return None
    if any(spec.sign != "any" for spec in known.network.inputs):
        return None
    return made(known, way) if isinstance(way, Bound) else AsKernel(known, way, backward)


def is_usual(arithmetic: Arithmetic, arrays: Iterable[Array] = ()) -> bool:
    """Whether what is made now will do for later calls: torch may be up to something."""
    if arithmetic.library != "torch":
        return True
    from inweave.run.libraries.lent import is_plain

    return is_plain(arrays)


class Short:
    """A call with inputs of a known signature: which are numbers, how answers are shaped."""

    def __init__(self, known: Known) -> None:
        network, values = known.network, known.values
        self.numbers = [i for i, value in enumerate(values) if type(value) in NUMBERS]
        self.arrays = [i for i in range(len(values)) if i not in self.numbers]
        self.lead, self.arithmetic = known.lead, known.arithmetic
        self.names = [output.name for output in network.outputs]
        self.shapes = [(*self.lead, *output.shape) for output in network.outputs]
        self.alone, self.numbered = self.names == [""], numbered(self.names)

    def run(self, values: Sequence[Any]) -> tuple[Any, float] | None:
        """The answer, and how far it reaches at most; None if the values may not be right."""
        raise NotImplementedError

    def ways(self, known: Known, names: Iterable[tuple[str, str]]) -> list[tuple[int, Lift | None]]:
        """Of sources: which value becomes each, and by what."""
        at = {spec.name: i for i, spec in enumerate(known.network.inputs)}
        return [
            (i := at[name[1]], self.lift(known.values[i], known.sources[name], self.arithmetic))
            for name in names
        ]

    def together(self, shaped: Sequence[Array]) -> Any:
        """The answers as the user gets them; see `inweave.model.prompt.as_answer`."""
        if self.alone:
            return shaped[0]
        return tuple(shaped) if self.numbered else dict(zip(self.names, shaped, strict=True))

    def lift(self, value: Any, source: Array, arithmetic: Floats) -> Lift | None:
        """What makes a source like this one of a value like this one; None if it is one."""
        if type(value) in NUMBERS:
            return self.number(arithmetic)
        axes = source.ndim - value.ndim
        return self.longer(axes) if axes else None

    def longer(self, axes: int) -> Lift:
        """What gives an array so many axes more, of length one."""
        return itemgetter((..., *(None,) * axes))

    def number(self, arithmetic: Floats) -> Lift:
        """What makes a source of a number."""
        dtype = arithmetic.dtype
        return lambda number: np.array(number, dtype=dtype, ndmin=2)


class NotFinite(Exception):
    """An array may hold what is not finite."""


class Ready(Short):
    """A call of numpy; inputs are looked at while they are computed with, or in what they make."""

    looks_along = True

    def __init__(self, known: Known, bound: Bound) -> None:
        super().__init__(known)
        sources = bound.code.sources
        ways = self.ways(known, sources)
        self.fills = [(slot, *way) for slot, way in zip(sources.values(), ways, strict=True)]
        self.batched = any(known.sources[name].ndim > 2 for name in sources)
        self.bound, self.is_number = bound, self.shapes == [()]
        self.piece = bound.piece(
            {slot: known.sources[name].shape for name, slot in sources.items()}
        )
        self.along = self.look if self.looks_along else None
        self.looked = {at for slot, at, _ in self.fills if self.batched or slot in bound.shown}
        if not self.looks_along or 0 in self.lead:  # where there is no answer to show anything
            self.looked = set()

    def run(self, values: Sequence[Any]) -> tuple[Any, float] | None:
        for at in self.numbers:
            if not -LARGEST <= values[at] <= LARGEST:
                return None
        for at in self.arrays:
            if at not in self.looked and not self.is_finite(values[at]):
                return None
        try:
            outs = self.outs(values)
        except NotFinite:
            return None
        return self.answer(outs), self.reach(outs)

    def look(self, value: Any) -> None:
        if not self.is_finite(value):
            raise NotFinite

    def is_finite(self, value: Any) -> bool:
        """Whether an array is finite for sure, by one quick pass over it.

        Finite numbers whose sum of squares overflows are to be looked at closely.
        """
        return isfinite(self.squares(value))

    def squares(self, value: Any) -> float:
        """The sum of the squares of an array."""
        flat = value if value.ndim == 1 else value.ravel("K")
        return float(vdot(flat, flat))  # which warns of nothing

    def filled(self, values: Sequence[Any]) -> list[Array]:
        """The answers as matrices, each with all batch axes of the inputs."""
        slots = self.bound.slots.copy()
        for slot, at, lift in self.fills:
            slots[slot] = values[at] if lift is None else lift(values[at])
        outs = self.bound.through(slots, self.batched, self.along, self.piece)
        return in_batch(outs, self.lead, self.arithmetic) if self.lead else outs

    # What is not finite goes the long way, where divergence is refused in words.
    outs = np.errstate(invalid="ignore", over="ignore")(filled)

    def answer(self, outs: Sequence[Array]) -> Any:
        """The answers as the user gets them."""
        if self.is_number:
            return outs[0].squeeze()
        if self.alone:
            return outs[0].reshape(self.shapes[0])
        return self.together(
            [out.reshape(shape) for out, shape in zip(outs, self.shapes, strict=True)]
        )

    def reach(self, outs: Sequence[Array]) -> float:
        """The largest magnitude in the answers; the root of their squares where that is small."""
        if self.is_number:
            return abs(outs[0].item())  # type: ignore[no-any-return]
        top = math.sqrt(sum(map(self.squares, outs)))
        if top <= SUSPICIOUS:
            return top
        return reach(dict(zip(self.names, outs, strict=True)), self.arithmetic.xp)


class Lent(Ready):
    """The same, of arrays that belong to another library, which warns of nothing."""

    outs = np.errstate(all="ignore")(Ready.filled)


class OfTensors(Short):
    """How tensors become sources."""

    def number(self, arithmetic: Floats) -> Lift:
        import torch

        dtype, device = arithmetic.dtype, arithmetic.device
        return lambda number: torch.full((1, 1), number, dtype=dtype, device=device)

    def longer(self, axes: int) -> Lift:
        return methodcaller("unsqueeze", -1) if axes == 1 else super().longer(axes)


class InTorch(OfTensors, Ready):
    """The same in torch; what can be lent to numpy is run by a way of numpy's own."""

    def __init__(self, known: Known, bound: Bound) -> None:
        from inweave.run.libraries import lent

        super().__init__(known, bound)
        self.lent, self.inside = lent, None
        self.heaviest = bound.code.heaviest * math.prod(known.lead)
        names = [*bound.code.sources]
        arrays = lent.lend(known.values)
        matrices = lent.lend([known.sources[name] for name in names])
        if arrays is not None and matrices is not None:
            there = dict(zip(names, matrices, strict=True))
            inside = Known(known.network, arrays, there, known.lead, bound.numpy_floats)
            self.inside = Lent(inside, bound.in_numpy)

    def run(self, values: Sequence[Any]) -> tuple[Any, float] | None:
        if self.inside is not None and self.lent.is_light(self.heaviest):
            arrays = self.lent.lend(values)
            if arrays is not None:
                found = self.inside.run(arrays)
                return found and (self.lent.give_back(found[0]), found[1])
        return super().run(values)

    outs = Ready.filled
    looks_along = False

    def squares(self, value: Any) -> float:
        return squares_of_tensor(value)


def is_finite_tensor(tensor: Any) -> bool:
    """Whether a tensor is finite for sure; False too where no value is known."""
    return isfinite(squares_of_tensor(tensor))


def squares_of_tensor(tensor: Any) -> float:
    """The sum of the squares of a tensor; NaN where no value is known."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    try:
        if tensor.ndim == 1:
            return tensor.dot(tensor).item()  # type: ignore[no-any-return]
        if tensor.is_cpu:
            flat = tensor.numpy().ravel("K")
            return float(vdot(flat, flat))
        flat = tensor.reshape(-1)
        return flat.dot(flat).item()  # type: ignore[no-any-return]
    except (RuntimeError, TypeError):  # inside torch.func.vmap no value is known,
        return math.nan  # and numpy has no bfloat16


class AsKernel(OfTensors):
    """The same as one kernel, which looks at the values itself."""

    def __init__(self, known: Known, kernel: Loaded, backward: Backward) -> None:
        from inweave.run.kernel.device import Launcher
        from inweave.run.libraries.lent import is_plain

        super().__init__(known)
        self.is_plain, self.backward = is_plain, backward
        names = kernel.frame.sources
        given = [known.sources[name] for name in names]
        self.launch = Launcher(kernel, given, self.lead, self.arithmetic.device, self.shapes)
        self.lifts = [
            # a vector stands in memory as a column does
            (at, None if spread is None and at in self.arrays else lift)
            for (at, lift), spread in zip(self.ways(known, names), self.launch.spread, strict=True)
        ]
        read = {at for at, _ in self.lifts}
        self.unread = [at for at in self.arrays if at not in read and kernel.frame.check]
        self.known: dict[tuple[int, int], tuple[Any, Array]] = {}

    def run(self, values: Sequence[Any]) -> tuple[Any, float] | None:
        if not self.is_plain([values[at] for at in self.arrays]):
            return None
        for at in self.numbers:
            if not -LARGEST <= values[at] <= LARGEST:
                return None
        for at in self.unread:  # all that the kernel does not look at
            if not is_finite_tensor(values[at]):
                return None
        sources = [
            values[at] if lift is None else self.lifted(at, values[at], lift)
            for at, lift in self.lifts
        ]
        found = self.backward.computed(self.launch, sources, self.together)
        return None if found is None else (found, 0.0)

    def lifted(self, at: int, value: Any, lift: Lift) -> Array:
        """A source; that of a number stays on the device until another number comes.

        Every stream has its own: what one has queued, another does not wait for.
        """
        if type(value) not in NUMBERS:
            return lift(value)
        key = at, self.launch.stream()
        number, known = self.known.get(key, (None, None))
        if known is None or number != value:
            known = lift(value)
            self.known[key] = (value, known)
        return known


class InJax(Ready):
    """The same in jax: one compiled function, that also looks at the values."""

    looks_along = False

    def __init__(self, known: Known, bound: Bound) -> None:
        import jax

        super().__init__(known, bound)
        self.compiled = jax.jit(self._whole)

    def number(self, arithmetic: Floats) -> Lift:
        import jax.numpy as jnp

        dtype = arithmetic.dtype
        return lambda number: jnp.full((1, 1), number, dtype)

    def _whole(self, values: Sequence[Any]) -> tuple[Any, Array]:
        """The answers, and in one array whether the inputs are finite and how far answers reach."""
        import jax.numpy as jnp

        outs = self.filled(values)
        finite = jnp.stack([jnp.all(jnp.isfinite(value)) for value in values]).all()
        tops = [jnp.max(jnp.abs(out), initial=0.0) for out in outs]
        facts = jnp.stack([finite.astype(outs[0].dtype), jnp.stack(tops).max()])
        return self.answer(outs), facts

    def run(self, values: Sequence[Any]) -> tuple[Any, float] | None:
        if not all(-LARGEST <= values[at] <= LARGEST for at in self.numbers):
            return None
        answer, facts = self.compiled(values)
        if not is_concrete(facts):  # inside jax.jit, of arrays that the function closes over
            return None
        finite, top = np.asarray(facts).tolist()
        if isinstance(answer, dict):  # whose order jax does not keep
            answer = {name: answer[name] for name in self.names}
        return (answer, top) if finite else None
