"""Lines of Python that mean the same to numpy and in a program, and how to compare the two."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.model.prompt import by_name

ARGUMENTS = {
    "A": "Matrix['n', 'm']",
    "B": "Matrix['n', 'n']",
    "x": "Vector['n']",
    "y": "Vector['n']",
    "z": "Vector['m']",
    "s": "Scalar",
}


def _iterate(step: Any, x: Any, times: int) -> Any:
    for _ in range(times):
        x = step(x)
    return x


def _scan(step: Any, start: Any, *xs: Any) -> Any:
    said = []
    for row in zip(*xs, strict=True):
        start, value = step(start, *row)
        said.append(value)
    return start, np.array(said)


# What the functions of inweave are to numpy.
NUMPY = SimpleNamespace(
    trace=np.trace,
    outer=np.outer,
    kron=np.kron,
    matrix_power=np.linalg.matrix_power,
    squared_norm=lambda x: np.sum(x * x),
    eye=np.eye,
    zeros=np.zeros,
    ones=lambda *sizes: np.ones(sizes),
    constant=np.asarray,
    vstack=np.vstack,
    hstack=np.hstack,
    block=np.block,
    diag=np.diag,
    tril=np.tril,
    triu=np.triu,
    where=np.where,
    iterate=_iterate,
    scan=_scan,
    hold=lambda x: x,
    abs=abs,
    relu=lambda x: np.maximum(x, 0),
    soft_threshold=lambda x, t: np.sign(x) * np.maximum(abs(x) - t, 0),
    sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    pointwise=lambda f, **_: f,
    assume=lambda x, *_, **__: x,
    tanh=np.tanh,
    gelu=lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    exp=lambda x, **_: np.exp(x),
    log=lambda x, **_: np.log(x),
    sqrt=lambda x, **_: np.sqrt(x),
    softmax=lambda x, axis=-1, **_: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    reciprocal=lambda x, **_: 1 / x,
    rsqrt=lambda x, **_: 1 / np.sqrt(x),
)


TABLES = ("sigmoid", "pointwise", "tanh", "gelu", "exp", "log", "softmax")  # to a stated error


def names(line: str) -> list[str]:
    """The arguments that a line uses."""
    used = {node.id for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    return [name for name in ARGUMENTS if name in used]


def program(line: str) -> inweave.Program:
    """The program that returns what a line says."""
    scope = {"np": np, "inweave": inweave, "Matrix": Matrix, "Vector": Vector, "Scalar": Scalar}
    arguments = ", ".join(f"{name}: {ARGUMENTS[name]}" for name in names(line))
    exec(f"def f({arguments}):\n    return {line}", scope)
    return inweave.program(scope["f"])


def data(line: str, n: int, m: int, seed: int = 0) -> dict[str, Any]:
    """Random arrays for the arguments of a line."""
    rng = np.random.default_rng(seed)
    shapes = {"A": (n, m), "B": (n, n), "x": (n,), "y": (n,), "z": (m,), "s": ()}
    return {name: rng.uniform(-1, 1, size=shapes[name]) for name in names(line)}


def by_numpy(line: str, arrays: Mapping[str, Any]) -> Any:
    """What numpy makes of a line."""
    return eval(line, {"np": np, "inweave": NUMPY, **arrays})


def assert_same(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Answers of the same type, with entries of the same shape and almost the same values."""
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    got, wanted = by_name(found), by_name(expected)
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        assert np.shape(got[name]) == np.shape(value)
        np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance)


def compare(line: str, n: int, m: int, reference: str = "") -> None:
    """Check a line: the program and its networks in both targets against numpy."""
    arrays, ours = data(line, n, m), program(line)
    expected = by_numpy(reference or line, data(line, n, m))
    tolerance = 1e-3 if any(f"inweave.{f}" in line for f in TABLES) else 1e-9
    assert_same(ours(**arrays), expected)
    sizes = {name: {"n": n, "m": m}[name] for name in ours.size_names}
    for target in ("elsa", "lsa"):
        net = inweave.compile(ours, target=target, **sizes)
        assert net.certificate is not None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(net(**arrays), expected, tolerance)
