"""Prompt forms: how the examples and the query of a problem are laid out.

`examples` has one token per example, (x, -y), and the query last, (u, 0); `features` is its
transpose. The last entry of a token is x·w - y for w = 0, the query's with y = 0, so that one rule
for all tokens, gradient descent on w, leaves residuals in the examples and the prediction u·w in
the query. With +y a stack of tied layers cannot descend: what would lessen the residuals lessens
the prediction too. `constant` and `keyed` are like `examples` with further entries in each token
before the last: a one, which gives every head a bias that is the same for all tokens, and in
`keyed` also the token's key, which says how relevant an example is. `designed` and `enumerated` are
the paper's two forms for ridge regression, with w = 0.
Each form is a layout with fills, the same data that a compiled network carries, so a trained model
becomes a `Network` that takes X, y and u. `prompt` fills whole batches without the checks that a
network makes for a user; a test holds the two equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from inweave.errors import InputError
from inweave.exact.constants import Ones
from inweave.lab.checks import at_least, refuse_unless
from inweave.lab.tasks import Batch
from inweave.lab.tensors import Tensor, torch
from inweave.model.layout import Layout
from inweave.model.prompt import Fill, Input, Output, Place
from inweave.nn import Architecture, AttentionNetwork, build
from inweave.paper.ridge import ridge_elsa, ridge_lsa

MINUS = Fraction(-1)
FormName = Literal["examples", "constant", "keyed", "features", "designed", "enumerated"]
ROWS = ("examples", "constant", "keyed")  # one token per example, and any number of them


@dataclass(frozen=True)
class Form:
    """A layout with what fills it and where the prediction is read. Make one with `form`.

    `eta` and `lam` are the constants that the paper's forms hold, where a problem has none of its
    own; 0 leaves their blocks empty, and so does `constants=False` whatever a problem has. With
    `first_of` it holds the first n of so many examples: the paper's mask-and-move, done by hand.
    """

    name: FormName
    n: int
    d: int
    layout: Layout
    inputs: tuple[Input, ...]
    fills: tuple[Fill, ...]
    outputs: tuple[Output, ...]
    eta: float = 0.0
    lam: float = 0.0
    first_of: int = 0
    constants: bool = True

    def prompt(self, batch: Batch) -> Tensor:
        """The prompts of a batch, (B, tokens, width)."""
        if self.first_of and batch.X.shape[1] == self.first_of:
            batch = batch.context(self.n)
        X, y, u = batch.X, batch.y, batch.u
        size, n, d = X.shape
        if d != self.d or (n != self.n and self.name not in ROWS):
            raise InputError(
                f"form {self.name!r} is for n = {self.n}, d = {self.d}; "
                f"the batch has n = {n}, d = {d}"
            )
        if self.name in ROWS:
            return _tokens(X, y, u, self._marks(batch))
        if self.name == "features":
            return _tokens(X, y, u).mT
        H = X.new_zeros(size, self.layout.tokens, self.layout.width)
        eta = self._constant(batch.eta, self.eta, X)
        lam = self._constant(batch.lam, self.lam, X)
        root = eta.sqrt()
        if self.name == "designed":
            H[:, :d, self._at("√ηXᵀ")] = root[:, None, None] * X.mT
            H[:, d, self._at("√ηyᵀ")] = root[:, None] * y
            H[:, d, self.layout["1"].start] = 1.0
            _diagonal(H, self.layout["√η√λI"].start, d, (eta * lam).sqrt())
        else:
            H[:, :d, self._at("Xᵀ")] = X.mT
            H[:, d - 1, self._at("Y₀ᵀ")] = y
            _diagonal(H, self.layout["λI"].start, d, lam)
            _diagonal(H, self.layout["√ηI"].start, d, root)
        H[:, :d, self.layout["u"].start] = u
        return H

    def _marks(self, batch: Batch) -> Tensor | None:
        """What stands between x and -y in every token, (B, n + 1, .)."""
        if self.name == "examples":
            return None
        one = batch.X.new_ones(len(batch), batch.X.shape[1] + 1, 1)
        if self.name == "constant":
            return one
        if batch.keys is None or batch.key is None:
            raise InputError("form 'keyed' is for tasks whose examples have a relevance")
        return torch.cat([one, torch.cat([batch.keys, batch.key.unsqueeze(1)], 1)], 2)

    def build(
        self,
        architecture: Architecture,
        generator: torch.Generator,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> AttentionNetwork:
        """A model for these prompts, at random weights."""
        return build(
            self.layout, architecture, inputs=self.inputs, fills=self.fills, outputs=self.outputs,
            generator=generator, dtype=dtype, device=device,
        )  # fmt: skip

    def _constant(self, own: Tensor | None, common: float, like: Tensor) -> Tensor:
        """One number for each problem."""
        if own is None or not self.constants:
            return like.new_full((len(like),), common if self.constants else 0.0)
        return own.to(like)

    def _at(self, block: str) -> slice:
        return self.layout[block].columns


def form(
    name: FormName,
    n: int,
    d: int,
    eta: float = 0.0,
    lam: float = 0.0,
    first_of: int = 0,
    constants: bool = True,
) -> Form:
    """The form of that name for n examples with d features; roots of eta and lam are taken."""
    at_least(1, n=n, d=d)
    refuse_unless(not first_of or first_of >= n, "first_of", f"at least n = {n}", first_of)
    for constant, value in (("eta", eta), ("lam", lam)):
        refuse_unless(0 <= value < math.inf, constant, "finite and at least 0", value)
    if name == "designed" and not constants:
        raise InputError("the designed form holds √ηX: without constants it would hold nothing")
    if name in ("designed", "enumerated"):
        net = ridge_lsa(n, d, 1) if name == "designed" else ridge_elsa(n, d, 1)
        return Form(
            name, n, d, net.layout, net.inputs, net.fills, net.outputs, eta, lam, first_of,
            constants,
        )  # fmt: skip
    inputs = [Input("X", n, d), Input("y", n, 1, "vector"), Input("u", d, 1, "vector")]
    if name in ROWS:
        marks = {"1": 1, "key": 2} if name == "keyed" else {"1": 1} if name == "constant" else {}
        widths = {"x": d} | marks | {"-y": 1}
        layout = Layout.of({block: (n + 1, width) for block, width in widths.items()})
        fills = [
            Fill(Place("x", n, d), source="X"),
            Fill(Place("x", d, 1, row=n, transpose=True), source="u"),
            Fill(Place("-y", n, 1), source="y", coefficient=MINUS),
        ]
        if "1" in marks:
            fills.append(Fill(Place("1", n + 1, 1), constant=Ones(n + 1, 1)))
        if "key" in marks:
            inputs += [Input("keys", n, 2), Input("key", 2, 1, "vector")]
            asked = Place("key", 2, 1, row=n, transpose=True)
            fills += [Fill(Place("key", n, 2), source="keys"), Fill(asked, source="key")]
        place = Place("-y", 1, 1, row=n)
    elif name == "features":
        layout = Layout.of({"examples": (d + 1, n), "query": (d + 1, 1)})
        fills = [
            Fill(Place("examples", n, d, transpose=True), source="X"),
            Fill(Place("examples", n, 1, row=d, transpose=True), source="y", coefficient=MINUS),
            Fill(Place("query", d, 1), source="u"),
        ]
        place = Place("query", 1, 1, row=d)
    else:
        raise InputError(f"form {name!r} is not one of {', '.join(get_args(FormName))}")
    outputs = (Output("", place, "scalar"),)
    return Form(name, n, d, layout, tuple(inputs), tuple(fills), outputs, first_of=first_of)


def _tokens(X: Tensor, y: Tensor, u: Tensor, marks: Tensor | None = None) -> Tensor:
    """Examples (x, -y) and last the query (u, 0), with marks between, in the memory order of X."""
    size, n, d = X.shape
    width = d + 1 + (0 if marks is None else marks.shape[2])
    if X.stride(0) == 1 and size > 1:
        H = X.new_empty(n + 1, width, size).permute(2, 0, 1)
    else:
        H = X.new_empty(size, n + 1, width)
    H[:, :n, :d], H[:, n, :d] = X, u
    if marks is not None:
        H[:, :, d:-1] = marks
    H[:, :n, -1] = -y
    H[:, n, -1] = 0.0
    return H


def _diagonal(H: Tensor, start: int, d: int, values: Tensor) -> None:
    H[:, :d, start : start + d] = values[:, None, None] * torch.eye(
        d, dtype=H.dtype, device=H.device
    )
