"""The plan: what a network really has to compute.

`Plan(network)` follows the network once on terms (`build`), which leaves only products of values
that are neither zero nor identity, each once, in the cheaper order, outside every loop that does
not change it; writes them as lines over slots (`code`); and runs those in any arithmetic
(`execute`). What is known beforehand differs by entrance, so each has its own code: named inputs
(`call`: constants and zeros of the prompt are known), named blocks (`run`: zeros below the blocks
are known), and a whole prompt (`forward`: nothing is known, unless a look shows that it is the
network's own). Names are those of the plain network, whose answers an embedding does not change;
a whole prompt stands in the basis that the network has.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from inweave.errors import BlockError, DivergenceError, DomainError, ShapeError
from inweave.exact.arithmetic import Arithmetic, Floats
from inweave.exact.constants import Array
from inweave.language.program import Traced
from inweave.model.inputs import accept, plain, signature
from inweave.model.network import Network
from inweave.model.prompt import Fill, Place, as_answer, fill_prompt, of_kind, rooted
from inweave.run.cost import price
from inweave.run.domains import OutOfDomain, marked, refusal
from inweave.run.growth import SUSPICIOUS, check_growth, reach
from inweave.run.kernel.call import Kernels, naming
from inweave.run.kernel.call import answers as run_kernel
from inweave.run.kernel.text import Refused
from inweave.run.libraries.by_powers import ByPowers
from inweave.run.libraries.execute import Bound, in_batch
from inweave.run.lines.code import Code, Lead, broadcast, encode, live_nodes
from inweave.run.ready import Known, Short, is_usual, ready
from inweave.run.rules.ahead import has_rows
from inweave.run.rules.fold import Asked, folded
from inweave.run.rules.power import Way
from inweave.run.rules.still import turning
from inweave.run.values.build import Builder
from inweave.run.values.node import (
    ALONE,
    ARITHMETIC,
    BATCHED,
    SHARED,
    STAGED,
    LoopBody,
    Node,
    Price,
)
from inweave.run.values.term import Box, State, Term
from inweave.run.values.terms import scaled, standing, transposed, written
from inweave.run.wide import is_far, narrowed, widened

WORTH = {
    (ALONE, False): 0.6, (BATCHED, False): 0.85, (SHARED, False): 0.85, (STAGED, False): 0.95,
    (ALONE, True): 0.9, (BATCHED, True): 0.8, (SHARED, True): 0.8, (STAGED, True): 0.95,
}  # fmt: skip
"""Of what a loop costs, by whether a loop is left: estimates of loops are rather too high."""

WORTH_A_LOOK = {
    (ALONE, False): 0.75, (BATCHED, False): 0.85, (SHARED, False): 0.85,
    (ALONE, True): 0.35, (BATCHED, True): 0.45, (SHARED, True): 0.45,
}  # fmt: skip
"""The same for powers that are looked at, by whether a loop carries several values, as with
momentum: data with which they fail pay for both ways, and then that is more likely."""

LARGEST = sys.float_info.max
KEPT = 64  # signatures of inputs whose short way is kept: batches may come in any size


class Variant:
    """The code for one way into a network and one way out: nodes from which outputs are read."""

    def __init__(
        self, made: Sequence[Node], read: Sequence[Node], asked: Asked | None = None
    ) -> None:
        self._made = made, read
        self.nodes, self.outputs = folded(made, read, live_nodes(read), asked or Asked())
        self._bound: dict[Any, Bound] = {}
        self.unseen = self  # the same where values cannot be looked at on the way

    @cached_property
    def code(self) -> Code:
        return encode(self.nodes, self.outputs)

    @cached_property
    def alone(self) -> Variant:
        """What is quickest for one prompt."""
        return self._quickest(Way(ALONE, joint=True, looks=True), side=False)

    @cached_property
    def batched(self) -> Variant:
        """What is quickest for each of many prompts."""
        return self._quickest(Way(BATCHED, joint=False, looks=True), side=True)

    @cached_property
    def shared(self) -> Variant:
        """The same where all of them have the same matrices."""
        return self._quickest(Way(SHARED, joint=False, looks=True), side=True)

    @cached_property
    def staged(self) -> Variant:
        """What is quickest where a compiler has all of it, as in jax."""
        return self._quickest(Way(STAGED, joint=False), side=True)

    @property
    def ahead(self) -> Variant:
        """The same with what loops make of their rows alone made before them."""
        rows = any(has_rows(node.data) for node in self.nodes if node.op == "loop")
        return Variant(self.nodes, self.outputs, Asked(ahead=True)) if rows else self

    def _quickest(self, way: Way, side: bool) -> Variant:
        loops = [node.data for node in self.nodes if node.op == "loop"]
        if not loops:
            return self
        other = Variant(*self._made, Asked(way, stays=True)).ahead
        looks = [node.data for node in other.outputs if node.op == "grown"]
        if looks:
            other.unseen = self._quickest(way._replace(looks=False), side)
            several = any(look.values > 1 for look in looks)
            most = WORTH_A_LOOK[way.price, several] * price(other.unseen, way.price)
            reads = other.unseen.code.sources.keys() <= other.code.sources.keys()
            return other if reads and price(other, way.price) < most else other.unseen
        worth = WORTH[way.price, any(node.op == "loop" for node in other.nodes)]
        if price(other, way.price) < worth * price(self, way.price):
            return other
        turns = any(turning(body, range(len(body.phis))) for body in loops)
        side = side and any(map(_adds_products, loops))
        found = Variant(*self._made, Asked(stays=True, side=side)) if turns or side else self
        return found.ahead

    def bind(self, arithmetic: Arithmetic) -> Bound:
        """The code in an arithmetic; kept for floats, where constants take time to write out."""
        key = arithmetic.identity
        found = None if key is None else self._bound.get(key)
        if found is None:
            if self.code.looks:
                found = ByPowers(self.code, arithmetic, self.unseen.bind(arithmetic))
            else:
                found = Bound(self.code, arithmetic)
            if key is not None and is_usual(arithmetic):
                self._bound[key] = found
        return found

    def run(self, sources: Mapping[Any, Array], arithmetic: Arithmetic) -> list[Array]:
        """The outputs, each with all batch axes of the sources."""
        lead = broadcast(*(tuple(x.shape[:-2]) for x in sources.values()))
        outs = self.bind(arithmetic).run(sources)
        return in_batch(outs, lead, arithmetic) if lead else outs


def _adds_products(body: LoopBody) -> bool:
    """Whether a step of a loop adds products of several matrices."""
    sums = (node for node in body.nodes if node.op == "sum")
    return any(sum(arg.op == "matmul" for arg in node.args) > 1 for node in sums)


class Plan:
    """The least work that a network stands for. `repr` lists it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._blocks: dict[tuple[str, ...], Variant] = {}
        self._ready: dict[Any, Short | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        n = self.network  # without its program: a plan is what runs, elsewhere too
        return Plan, (Network(n.layout, n.modules, n.inputs, n.fills, n.outputs, n.embedding),)

    # -- entrances --------------------------------------------------------------------------------
    def call(
        self,
        inputs: Mapping[str, Any],
        check: bool = False,
        program: Callable[[], Traced | None] = lambda: None,
        kernel: bool | None = None,
    ) -> Any:
        """Named inputs in, the user's answers out; `check` looks at domains and for divergence.

        `program` records the network's program, to say which of its loops diverges. A batch on a
        CUDA device is one `kernel`: never, always, or (None) where it is large enough.
        """
        if self._is_far and (wide := widened(inputs)) is not None:
            answer = narrowed(self.call(wide, check, program, kernel))
            if answer is not None:
                return answer
        found = None
        if len(inputs) == len(self._names):
            values = list(map(inputs.get, self._names))
            ready = self._ready.get((signature(values), bool(check), kernel))
            if ready is not None:
                try:
                    found = ready.run(values)
                except OutOfDomain:
                    found = None  # where, is found out by looking closely
                except Refused:  # gradients have no kernel, which was said
                    return self.call(inputs, check, program, kernel=False)
        if found is not None and found[1] <= (SUSPICIOUS if check else LARGEST):
            return found[0]
        return self._closely(inputs, bool(check), program, found, kernel)

    def _closely(
        self,
        inputs: Mapping[str, Any],
        check: bool,
        program: Callable[[], Traced | None],
        known: tuple[Any, float] | None,
        kernel: bool | None,
    ) -> Any:
        """The answer to inputs that are all looked at, or what is wrong with them or with it."""
        if any(type(x).__module__.startswith("dask.") for x in inputs.values()):
            from inweave.run import dask

            return dask.call(self.network, inputs, check, self)
        arrays, arithmetic = accept(self.network.inputs, inputs)
        arithmetic.checked = check
        try:
            answer = self._checked(arrays, arithmetic, program, known, kernel)
        except (DivergenceError, DomainError) as error:
            raise self._naming(error, arrays, arithmetic, kernel) from None
        self._remember(inputs, kernel, arrays, arithmetic)
        return answer

    def _checked(
        self,
        arrays: Mapping[str, Array],
        arithmetic: Floats,
        program: Callable[[], Traced | None],
        known: tuple[Any, float] | None,
        kernel: bool | None,
    ) -> Any:
        """The answer, unless a domain was left or an iteration diverges."""
        if known is not None and math.isfinite(known[1]):
            answer, top = known
        else:
            try:
                # what is not finite is refused below, in words
                with np.errstate(invalid="ignore", over="ignore" if arithmetic.checked else None):
                    found = self._as_kernel(arrays, arithmetic, kernel)
                    if found is None:
                        found = self._finite(arrays, arithmetic)
            except OutOfDomain as left:
                raise self._located(arrays, arithmetic, left) or left from None
            outputs = self.network.outputs
            answer = as_answer({o.name: of_kind(found[o.name], o.kind) for o in outputs})
            top = reach(found, arithmetic.xp) if arithmetic.checked else 0.0
        if arithmetic.checked:
            if math.isnan(top) and arithmetic.library == "jax":  # which cannot raise by itself
                left_unseen = self._located(arrays, arithmetic)
                if left_unseen is not None:
                    raise left_unseen
            check_growth(program, arrays, top, arithmetic.xp)
        return answer

    def _remember(
        self,
        inputs: Mapping[str, Any],
        kernel: bool | None,
        arrays: Mapping[str, Array],
        floats: Floats,
    ) -> None:
        """Keep the short way for inputs like these."""
        values = [inputs[name] for name in self._names]
        key = (signature(values), floats.checked, kernel)
        if key[0] is None or key in self._ready or not is_usual(floats, arrays.values()):
            return
        if len(self._ready) >= KEPT:
            self._ready.clear()
        lead, sources = batch_of(arrays), self.sources(arrays, floats)
        known = Known(self.network, values, sources, lead, floats)
        found = self.kernels.wanted(sources, lead, floats, kernel)
        way = found or self._suited(arrays, floats).bind(floats)
        self._ready[key] = ready(known, way, self.kernels.backward)

    @cached_property
    def kernels(self) -> Kernels:
        """This plan as device code."""
        return Kernels(
            lambda: self.network.fingerprint,
            lambda: (self.in_one_call.nodes, self.in_one_call.outputs),
        )

    def _as_kernel(
        self, arrays: Mapping[str, Array], arithmetic: Floats, asked: bool | None
    ) -> dict[str, Array] | None:
        """The answers as one kernel finds them; None if none is asked, or a prompt is marked."""
        if arithmetic.library != "torch" and not asked:
            return None
        sources, lead = self.sources(arrays, arithmetic), batch_of(arrays)
        kernel = self.kernels.wanted(sources, lead, arithmetic, asked)
        if kernel is None:
            return None
        outs = run_kernel(self.kernels.backward, kernel, sources, lead, arithmetic.device)
        if outs is None:
            return None
        return dict(zip((o.name for o in self.network.outputs), outs, strict=True))

    def _naming(
        self,
        error: DivergenceError | DomainError,
        arrays: Mapping[str, Array],
        arithmetic: Floats,
        asked: bool | None,
    ) -> DivergenceError | DomainError:
        """An error that names the prompts it is about, where a kernel marks them."""
        sources, lead = self.sources(arrays, arithmetic), batch_of(arrays)
        kernel = self.kernels.wanted(sources, lead, arithmetic, asked)
        if kernel is None or not lead:
            return error
        return naming(error, kernel, sources, arrays.values(), lead, arithmetic.device)

    def _located(
        self,
        inputs: Mapping[str, Array],
        arithmetic: Floats,
        met: OutOfDomain | None = None,
    ) -> DomainError | None:
        """Where a function left its domain, found with every function named after its layer."""
        plan, steps = Plan(marked(self.network)), list[int]()
        try:
            with np.errstate(all="ignore"):
                bound = plan.from_inputs.bind(arithmetic)
                bound.follow(plan.sources(inputs, arithmetic), steps)
        except OutOfDomain as found:
            return refusal(found, steps)
        return None if met is None else refusal(met, steps)

    def _finite(self, arrays: Mapping[str, Array], arithmetic: Floats) -> dict[str, Array]:
        """The answers; step by step if powers overflow, perhaps where nothing is multiplied."""
        suited = self._suited(arrays, arithmetic)
        if suited is not self.from_inputs:
            with np.errstate(over="ignore"):
                found = self.in_batch(arrays, arithmetic, suited)
            if math.isfinite(reach(found, arithmetic.xp)):
                return found
        return self.in_batch(arrays, arithmetic, self.from_inputs)

    def in_batch(
        self,
        arrays: Mapping[str, Array],
        arithmetic: Arithmetic,
        variant: Variant | None = None,
    ) -> dict[str, Array]:
        """The answers with the batch axes of all inputs, of those too that no answer reads."""
        lead = batch_of(arrays)
        found = self.answers(arrays, arithmetic, variant=variant)
        if not lead:
            return found
        return dict(zip(found, in_batch([*found.values()], lead, arithmetic), strict=True))

    def answers(
        self,
        inputs: Mapping[str, Array],
        arithmetic: Arithmetic,
        roots: Mapping[str, Array] | None = None,
        variant: Variant | None = None,
    ) -> dict[str, Array]:
        """Lifted inputs (..., rows, cols) in, answers (..., rows, cols) by name out."""
        variant = variant or self._suited(inputs, arithmetic)
        outs = variant.run(self.sources(inputs, arithmetic, roots), arithmetic)
        return dict(zip((o.name for o in self.network.outputs), outs, strict=True))

    def sources(
        self,
        inputs: Mapping[str, Array],
        arithmetic: Arithmetic,
        roots: Mapping[str, Array] | None = None,
    ) -> dict[Any, Array]:
        """What `from_inputs` begins with: the inputs that the prompt holds, and roots of some."""
        found: dict[Any, Array] = {("input", name): inputs[name] for name in self._used}
        for name in self._rooted:
            root = roots[name] if roots is not None else arithmetic.root(inputs[name])
            found["root", name] = root
        return found

    def run(
        self, blocks: Mapping[str, Array], arithmetic: Arithmetic | None = None
    ) -> dict[str, Array]:
        """The blocks after the last module; blocks that are not given are zero."""
        layout = self.network.layout
        unknown = [name for name in blocks if name not in layout]
        if unknown or not blocks:
            raise BlockError(f"unknown blocks: {', '.join(unknown) or 'none given'}; "
                             f"the blocks are {', '.join(layout.names)}")  # fmt: skip
        if arithmetic is None:
            blocks = {name: plain(f"block {name!r}", array) for name, array in blocks.items()}
        for name, array in blocks.items():
            block, shape = layout[name], tuple(array.shape)
            if shape[-2:] != (block.rows, block.cols):
                raise ShapeError(f"block {name!r}: got an array of shape {shape}, "
                                 f"expected (..., {block.rows}, {block.cols})")  # fmt: skip
        given = tuple(name for name in layout.names if name in blocks)
        if given not in self._blocks:
            self._blocks[given] = self._from_blocks(given)
        if arithmetic is None:
            floats = arithmetic = Floats.like(blocks[given[0]])
            blocks = {name: floats.convert(block) for name, block in blocks.items()}
        outs = self._blocks[given].run({name: blocks[name] for name in given}, arithmetic)
        return dict(zip(layout.names, outs, strict=True))

    def forward(self, H: Array, arithmetic: Arithmetic | None = None) -> Array:
        """The prompt after the last module."""
        self.network.layout.check(H)
        if arithmetic is None:
            H = plain("the prompt", H)
            floats = Floats.like(H)
            H, arithmetic = floats.convert(H), floats
        variant = self.from_own if self._is_own(H, arithmetic) else self.from_prompt
        return variant.run({"H": H}, arithmetic)[0]

    def between(self, state: Mapping[str, Array], arithmetic: Arithmetic) -> dict[str, Array]:
        """The prompt after the last module, given and returned in blocks as high as itself."""
        outs = self.from_strips.run(state, arithmetic)
        return dict(zip(self.network.layout.names, outs, strict=True))

    @cached_property
    def _is_far(self) -> bool:
        return is_far(self.from_inputs.nodes)

    @cached_property
    def _names(self) -> list[str]:
        return [spec.name for spec in self.network.inputs]

    @cached_property
    def _rooted(self) -> set[str]:
        return rooted(self.network.fills)

    @cached_property
    def _used(self) -> list[str]:
        """The inputs that the prompt holds."""
        used = {name for fill in self.network.fills for name in fill.inputs}
        return [spec.name for spec in self.network.inputs if spec.name in used]

    # -- the code for each ------------------------------------------------------------------------
    def _variant(
        self,
        start: Callable[[Builder], Iterable[Term]],
        ends: Sequence[Box | Place],
        network: Network | None = None,
        price: Price = ALONE,
    ) -> Variant:
        builder = Builder(network or self.network.plain, price)
        end = builder.run(builder.state(start(builder)))
        read: list[Node] = []
        for place in ends:
            read.append(builder.graph.apart(_read(builder, end, place), read))
        return Variant(builder.graph.scopes[0].nodes, read)

    @cached_property
    def from_inputs(self) -> Variant:
        return self._from_inputs(ALONE)

    @cached_property
    def in_one_call(self) -> Variant:
        """From inputs, with the least arithmetic: for where calls cost nothing."""
        found = (self.from_inputs, self._from_inputs(ARITHMETIC))
        return min(found, key=lambda variant: variant.code.flops)

    def _from_inputs(self, price: Price) -> Variant:
        fills, places = self.network.fills, [output.place for output in self.network.outputs]
        return self._variant(
            lambda b: [t for fill in fills for t in _filled(b, fill)], places, price=price
        )

    def _suited(self, inputs: Mapping[str, Array], arithmetic: Arithmetic) -> Variant:
        """From inputs with the batch axes of these.

        Exact numbers would only grow in other ways, and what jax compiles has few calls to save.
        """
        if arithmetic.exact:
            return self.from_inputs
        if arithmetic.library == "jax":
            return self.from_inputs.staged
        found = self.from_inputs.alone
        if batch_of(inputs):
            matrices = [x.shape for x in inputs.values() if min(x.shape[-2:]) > 1]
            shared = matrices and all(len(shape) == 2 for shape in matrices)
            found = self.from_inputs.shared if shared else self.from_inputs.batched
        return found if arithmetic.library == "numpy" else found.unseen

    @cached_property
    def from_prompt(self) -> Variant:
        layout = self.network.layout
        return self._variant(
            lambda b: _columns(b, layout.names, layout.tokens), [self._whole], self.network
        )

    @cached_property
    def from_own(self) -> Variant:
        """For a prompt that the network's own fills could have made."""
        own = [f for f in self.network.fills if not f.inputs and f.place.block not in self._open]
        return self._variant(
            lambda b: [*_columns(b, self._open), *(t for fill in own for t in _filled(b, fill))],
            [self._whole],
        )

    def _from_blocks(self, given: Sequence[str], tokens: int = 0) -> Variant:
        """From blocks of their own height, or of so many tokens."""
        layout = self.network.layout
        blocks = [b for b in layout if b.name in given]

        def start(builder: Builder) -> list[Term]:
            source = builder.graph.source
            nodes = [source(b.name, tokens or b.rows, b.cols, b.name) for b in blocks]
            pairs = zip(blocks, nodes, strict=True)
            return [standing(builder.graph, node, 0, b.start) for b, node in pairs]

        return self._variant(start, [Box(0, b.start, tokens or b.rows, b.stop) for b in layout])

    @cached_property
    def from_strips(self) -> Variant:
        return self._from_blocks(self.network.layout.names, self.network.layout.tokens)

    @property
    def _whole(self) -> Box:
        return Box(0, 0, self.network.layout.tokens, self.network.layout.width)

    # -- is a prompt the network's own? -----------------------------------------------------------
    @cached_property
    def _open(self) -> set[str]:
        """The blocks about whose entries nothing is known: those that inputs fill."""
        fills = self.network.fills
        if not fills:
            return set(self.network.layout.names)
        return {f.place.block for f in fills if f.inputs}

    def _is_own(self, H: Array, arithmetic: Arithmetic) -> bool:
        """Whether a prompt holds the zeros and constants that the network's fills put there."""
        if self.network.embedding is not None:
            return False
        layout, opened = self.network.layout, self._open
        constants = [f for f in self.network.fills if f.place.block not in opened]
        own = fill_prompt(layout, constants, {}, arithmetic) if constants else None
        for block in layout:
            top = block.rows if block.name in opened else 0
            if top == layout.tokens:
                continue
            known = 0 if own is None else own[..., top:, block.columns]
            if not arithmetic.same(H[..., top:, block.columns], known):
                return False
        return True

    # -- in words ---------------------------------------------------------------------------------
    @cached_property
    def shown(self) -> tuple[Variant, list[str]]:
        """The code that a report is about, and what its results are called."""
        if self.network.outputs and self.network.fills:
            return self.from_inputs, [output.name for output in self.network.outputs]
        names = self.network.layout.names
        return self._from_blocks(names), list(names)

    @property
    def flops(self) -> int:
        """Additions and multiplications of one call, for one problem."""
        return self.shown[0].code.flops

    @property
    def flops_once(self) -> int:
        """The same with one step of each outermost loop."""
        return self.shown[0].code.flops_once

    def __repr__(self) -> str:
        return f"Plan({self.flops:,} flops)"


def batch_of(arrays: Mapping[str, Array]) -> Lead:
    """The batch axes of inputs."""
    return broadcast(*(tuple(x.shape[:-2]) for x in arrays.values()))


# -- where values come from and where they are read -----------------------------------------------
def _columns(builder: Builder, names: Iterable[str], rows: int = 0) -> list[Term]:
    """Blocks of a whole prompt as terms, `rows` high or as high as each block is."""
    graph, layout = builder.graph, builder.layout
    H = graph.source("H", layout.tokens, layout.width, "H")
    return [
        standing(graph, graph.view(H, 0, b.start, rows or b.rows, b.cols), 0, b.start)
        for b in layout
        if b.name in names
    ]


def _filled(builder: Builder, fill: Fill) -> list[Term]:
    """What a fill puts into the prompt."""
    graph, place, specs = builder.graph, fill.place, {s.name: s for s in builder.network.inputs}

    def given(kind: str, name: str) -> Term:
        label = name if kind == "input" else f"√{name}"
        node = graph.source((kind, name), specs[name].rows, specs[name].cols, label)
        return standing(graph, node, 0, 0)

    if fill.constant is not None:
        matrix = written(graph, fill.constant)
    else:
        matrix = (given("input", str(fill.source)),)
    if fill.coefficient != 1:
        matrix = tuple(scaled(term, Term(0, 0, 1, fill.coefficient)) for term in matrix)
    for name, power in fill.scale:
        factor = given("input" if power == 1 else "root", name)
        matrix = tuple(scaled(term, factor) for term in matrix)
    if place.diagonal:
        matrix = tuple(term._replace(core=place.diagonal) for term in matrix)
    elif place.transpose:
        matrix = transposed(graph, matrix)
    rows, cols = place.region(builder.layout)
    return [term.moved(rows.start, cols.start) for term in matrix]


def _read(builder: Builder, state: State, where: Box | Place) -> Node:
    """The node of an answer."""
    if isinstance(where, Box):
        return builder.value(state, where)
    box = Box.of(*where.source(builder.layout))
    node = builder.value(state, box)
    return builder.graph.view(node, 0, 0, box.rows, box.cols, flip=where.transpose)
