"""The few operations in which array libraries differ for someone who writes for speed.

Some algorithms of the gallery have tables in the place of exp, tanh, sigmoid or 1/x: that is what
their networks compute. `with_tables` is the same kit with these tables, looked up by what the
library has for it.

The functions beside this file take a kit and lifted arrays: matrices (..., rows, cols), vectors
columns (..., rows, 1), scalars numbers. A name may be updated in place (`w += c`) where the
function made its array itself; in jax the same line makes another array. `affine` and `addmm` are
one call where the library has one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from inweave.exact.arithmetic import Floats
from inweave.run.libraries.tables import Table
from inweave.run.values.newton import Refined

Step = Callable[..., Any]


class NumpyKit:
    """numpy: `dot` for one problem, `matmul` for a batch; results are reused as buffers."""

    name = "numpy"
    exp, tanh, sqrt, sigmoid, where = np.exp, np.tanh, np.sqrt, expit, np.where

    def __init__(self, batched: bool) -> None:
        self.mm: Callable[..., Any] = np.matmul if batched else np.dot

    def inverse(self, x: Any, which: int = 0) -> Any:
        """`1 / x`; `which` of the algorithm's tables of it."""
        return 1 / x

    def lookup(self, table: Table) -> Callable[[Any], Any]:
        return lambda x: np.interp(x, table.knots, table.values)

    def with_tables(self, functions: Mapping[str, Sequence[Any]]) -> Any:
        """The same kit with tables, by name in the order in which they are used."""
        kit = copy.copy(self)
        tables = {name: [kit._looked_up(f) for f in found] for name, found in functions.items()}
        for name in tables.keys() & {"exp", "tanh", "sigmoid"}:
            setattr(kit, name, tables[name][0])
        if "reciprocal" in tables:
            kit.inverse = lambda x, which=0: tables["reciprocal"][which](x)  # type: ignore[method-assign]
        return kit

    def _looked_up(self, function: Any) -> Callable[[Any], Any]:
        if isinstance(function, Refined):
            return function.after(self._looked_up(function.table), Floats())
        return self.lookup(Table.of(function))

    def affine(self, A: Any, x: Any, c: Any) -> Any:
        """`A x + c`."""
        out = self.mm(A, x)
        out += c
        return out

    def addmm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> Any:
        """`beta C + alpha A B`."""
        out = self.mm(A, B)
        if alpha != 1:
            out *= alpha
        out += C if beta == 1 else beta * C
        return out

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0.0)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        out = np.maximum(x, low)
        return np.minimum(out, high, out=out)

    def zeros(self, like: Any, rows: int, cols: int) -> Any:
        return np.zeros((*like.shape[:-2], rows, cols), like.dtype)

    def ones(self, like: Any, rows: int, cols: int) -> Any:
        return np.ones((*like.shape[:-2], rows, cols), like.dtype)

    def copy(self, x: Any) -> Any:
        return x.copy()

    def plus_diagonal(self, A: Any, s: Any) -> Any:
        """`A + s I`, in place."""
        np.einsum("...ii->...i", A)[...] += s
        return A

    def concat(self, parts: list[Any], axis: int) -> Any:
        return np.concatenate(parts, axis)

    def tril(self, x: Any) -> Any:
        return np.tril(x)

    def loop(self, times: int, step: Step, *state: Any) -> Any:
        """A step repeated; its state is a tuple."""
        for _ in range(times):
            state = step(*state)
        return state

    def scan(self, step: Step, state: tuple[Any, ...], *xs: Any) -> Any:
        """A step for every row of xs, handed over as columns; the rows that it leaves."""
        out = None
        for i, rows in enumerate(zip(*(np.moveaxis(x, -2, 0)[..., None] for x in xs), strict=True)):
            state, left = step(state, *rows)
            if left is None:
                continue
            if out is None:
                out = np.empty((xs[0].shape[-2], *left.shape), left.dtype)
            out[i] = left
        return state, None if out is None else np.moveaxis(out[..., 0], 0, -2)

    def eliminate(self, P: Any) -> Any:
        """Gauss-Jordan without exchanges on [F B], in place, left of the pivot nothing."""
        size = P.shape[-2]
        for i in range(size):
            row = P[..., i : i + 1, i + 1 :] / P[..., i : i + 1, i : i + 1]
            P[..., i + 1 :] -= P[..., i : i + 1] * row
            P[..., i : i + 1, i + 1 :] = row
        return P[..., size:]

    def forward_and_back(self, P: Any) -> Any:
        """Gaussian elimination without exchanges on [F B], in place."""
        size = P.shape[-2]
        for i in range(size - 1):
            factors = P[..., i + 1 :, i : i + 1] / P[..., i : i + 1, i : i + 1]
            P[..., i + 1 :, i + 1 :] -= factors * P[..., i : i + 1, i + 1 :]
        X = P[..., size:]
        for i in reversed(range(size)):
            X[..., i : i + 1, :] -= self.mm(P[..., i : i + 1, i + 1 : size], X[..., i + 1 :, :])
            X[..., i : i + 1, :] /= P[..., i : i + 1, i : i + 1]
        return X


class TorchKit(NumpyKit):
    """torch: `addmm` and `baddbmm` add while they multiply."""

    name = "torch"

    def __init__(self, batched: bool) -> None:
        import torch

        self.torch = torch
        self.mm = torch.bmm if batched else torch.mm
        self._add = torch.baddbmm if batched else torch.addmm
        self.exp, self.tanh, self.sqrt = torch.exp, torch.tanh, torch.sqrt
        self.sigmoid, self.relu, self.clip = torch.sigmoid, torch.relu, torch.clamp
        self.where, self.tril = torch.where, torch.tril

    def lookup(self, table: Table) -> Callable[[Any], Any]:
        knots, values, slopes = map(
            self.torch.from_numpy, (table.knots, table.values, table.slopes)
        )

        def apply(x: Any) -> Any:
            x = x.clamp(knots[0], knots[-1])
            at = self.torch.searchsorted(knots, x, right=True).sub_(1)
            return self.torch.addcmul(values[at], slopes[at], x - knots[at])

        return apply

    def affine(self, A: Any, x: Any, c: Any) -> Any:
        return self._add(c, A, x)

    def addmm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> Any:
        return self._add(C, A, B, alpha=alpha, beta=beta)

    def zeros(self, like: Any, rows: int, cols: int) -> Any:
        return like.new_zeros((*like.shape[:-2], rows, cols))

    def ones(self, like: Any, rows: int, cols: int) -> Any:
        return like.new_ones((*like.shape[:-2], rows, cols))

    def copy(self, x: Any) -> Any:
        return x.clone()

    def plus_diagonal(self, A: Any, s: Any) -> Any:
        A.diagonal(dim1=-2, dim2=-1).add_(s)
        return A

    def concat(self, parts: list[Any], axis: int) -> Any:
        return self.torch.cat(parts, axis)

    def scan(self, step: Step, state: tuple[Any, ...], *xs: Any) -> Any:
        out = []
        for rows in zip(*(x.unsqueeze(-1).unbind(-3) for x in xs), strict=True):
            state, left = step(state, *rows)
            out.append(left)
        return state, None if out[0] is None else self.torch.stack(out, -3)[..., 0]


class JaxKit(NumpyKit):
    """jax, inside `jit`: loops are staged, the compiler fuses the rest."""

    name = "jax"

    def __init__(self, batched: bool) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp
        self.mm = jnp.matmul
        self.exp, self.tanh, self.sqrt = jnp.exp, jnp.tanh, jnp.sqrt
        self.sigmoid, self.relu, self.clip = jax.nn.sigmoid, jax.nn.relu, jnp.clip
        self.where, self.tril = jnp.where, jnp.tril

    def lookup(self, table: Table) -> Callable[[Any], Any]:
        return lambda x: self.jnp.interp(x, table.knots, table.values)

    def affine(self, A: Any, x: Any, c: Any) -> Any:
        return A @ x + c

    def addmm(self, C: Any, A: Any, B: Any, alpha: float = 1.0, beta: float = 1.0) -> Any:
        return beta * C + alpha * (A @ B)

    def zeros(self, like: Any, rows: int, cols: int) -> Any:
        return self.jnp.zeros((*like.shape[:-2], rows, cols), like.dtype)

    def ones(self, like: Any, rows: int, cols: int) -> Any:
        return self.jnp.ones((*like.shape[:-2], rows, cols), like.dtype)

    def copy(self, x: Any) -> Any:
        return x

    def plus_diagonal(self, A: Any, s: Any) -> Any:
        return A + s * self.jnp.eye(A.shape[-1], dtype=A.dtype)

    def concat(self, parts: list[Any], axis: int) -> Any:
        return self.jnp.concatenate(parts, axis)

    def loop(self, times: int, step: Step, *state: Any) -> Any:
        return self.jax.lax.fori_loop(0, times, lambda _, state: step(*state), state)

    def scan(self, step: Step, state: tuple[Any, ...], *xs: Any) -> Any:
        rows = tuple(self.jnp.moveaxis(x, -2, 0)[..., None] for x in xs)
        state, out = self.jax.lax.scan(lambda state, rows: step(state, *rows), state, rows)
        return state, None if out is None else self.jnp.moveaxis(out[..., 0], 0, -2)

    def eliminate(self, P: Any) -> Any:
        size = P.shape[-2]

        def step(i: Any, P: Any) -> Any:
            take = partial(self.jax.lax.dynamic_slice_in_dim, start_index=i, slice_size=1)
            row, col = take(P, axis=-2), take(P, axis=-1)
            row = row / take(row, axis=-1)
            P = P - col * row
            return self.jax.lax.dynamic_update_slice_in_dim(P, row, i, axis=-2)

        return self.jax.lax.fori_loop(0, size, step, P)[..., size:]

    def forward_and_back(self, P: Any) -> Any:
        size, rows = P.shape[-2], []
        for i in range(size):
            rows.append(P[..., :1, :])
            below = P[..., 1:, :]
            P = below - below[..., i : i + 1] / rows[i][..., i : i + 1] * rows[i]
        X = rows[-1][..., size:] / rows[-1][..., size - 1 : size]
        for i in reversed(range(size - 1)):
            known = rows[i][..., size:] - rows[i][..., i + 1 : size] @ X
            X = self.concat([known / rows[i][..., i : i + 1], X], -2)
        return X


KITS = {"numpy": NumpyKit, "torch": TorchKit, "jax": JaxKit}
