"""Resized networks, and networks called in all the ways that arrays come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inweave
from inweave import Matrix, Scalar, Vector
from inweave.compiler.resize import build
from tests.cases import CASES
from tests.cases import ridge_gd as ridge

pytestmark = pytest.mark.usefixtures("unchecked_passes")


def given(n: int = 6, d: int = 3, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    drawn = {"X": rng.standard_normal((n, d)), "y": rng.standard_normal(n)}
    return drawn | {"u": rng.standard_normal(d), "lam": 0.5, "eta": 0.01}


@pytest.fixture(scope="module")
def net() -> inweave.Network:
    return inweave.compile(ridge, n=6, d=3, steps=5)


# -- jax: arrays that a traced function closes over ------------------------------------------------
@pytest.fixture
def jnp() -> Any:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax.numpy


@pytest.mark.parametrize("traced", ["X", "y", "u", "lam"])
def test_a_jitted_function_may_close_over_any_inputs(net, jnp, traced):
    import jax

    inputs = {name: jnp.asarray(value) for name, value in given().items()}
    rest = {name: value for name, value in inputs.items() if name != traced}
    found = jax.jit(lambda value: net(**rest, **{traced: value}))(inputs[traced])
    assert float(found) == pytest.approx(float(net(**given())), rel=1e-12)


def test_a_jitted_function_may_close_over_all_inputs(net, jnp):
    import jax

    inputs = {name: jnp.asarray(value) for name, value in given().items()}
    assert float(jax.jit(lambda: net(**inputs))()) == pytest.approx(float(net(**given())))


def test_constants_inside_jit_are_still_checked(net, jnp):
    import jax

    inputs = {name: jnp.asarray(value) for name, value in given().items()}
    for name in ("X", "y"):
        broken = inputs | {name: inputs[name].at[0].set(jnp.nan)}
        rest = {key: value for key, value in broken.items() if key != "u"}
        with pytest.raises(inweave.InputError, match=f"'{name}' holds NaN"):
            jax.jit(lambda u, rest=rest: net(**rest, u=u))(inputs["u"])


def test_gradients_and_maps_over_closed_over_arrays(net, jnp):
    import jax

    inputs = {name: jnp.asarray(value) for name, value in given().items()}
    rest = {name: value for name, value in inputs.items() if name != "u"}
    slope = jax.jit(jax.grad(lambda u: net(**rest, u=u)))(inputs["u"])
    h = 1e-6 * np.eye(3)
    there = [net(**given() | {"u": given()["u"] + step}) for step in h]
    back = [net(**given() | {"u": given()["u"] - step}) for step in h]
    assert np.asarray(slope) == pytest.approx((np.array(there) - np.array(back)) / 2e-6, rel=1e-6)
    many = jnp.stack([inputs["u"], 2 * inputs["u"]])
    for mapped in (
        jax.vmap(lambda u: net(**rest, u=u)),
        jax.jit(jax.vmap(lambda u: net(**rest, u=u))),
    ):
        expected = [float(net(**given() | {"u": np.asarray(u)})) for u in many]
        assert np.asarray(mapped(many)) == pytest.approx(expected, rel=1e-12)


# -- numpy: masked arrays and other subclasses -----------------------------------------------------
@pytest.mark.parametrize("steps", [2, 5])
def test_a_masked_array_without_masked_entries_is_an_array(steps):
    net, inputs = inweave.compile(ridge, n=6, d=3, steps=steps), given()
    masked = {name: np.ma.masked_array(value) for name, value in inputs.items()}
    for found in (net(**inputs | {"X": masked["X"]}), net(**masked)):
        assert not isinstance(found, np.ma.MaskedArray)
        assert found == net(**inputs)
    H = net.prompt(**masked)
    state = net.forward(np.ma.masked_array(H))
    assert not isinstance(H, np.ma.MaskedArray)
    assert not isinstance(state, np.ma.MaskedArray)
    assert np.array_equal(state, net.forward(H))


def test_masked_entries_are_refused_by_name(net):
    inputs = given()
    X = np.ma.masked_array(inputs["X"], mask=np.zeros((6, 3), dtype=bool))
    X[0, 0] = np.ma.masked
    with pytest.raises(inweave.InputError, match="'X' has masked entries"):
        net(**inputs | {"X": X})
    with pytest.raises(inweave.InputError, match="'lam' has masked entries"):
        net(**inputs | {"lam": np.ma.masked})
    H = np.ma.masked_array(net.prompt(**inputs), mask=False)
    H[0, 0] = np.ma.masked
    with pytest.raises(inweave.InputError, match="prompt has masked entries"):
        net.forward(H)


# -- torch -----------------------------------------------------------------------------------------
@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_sparse_tensors_are_refused_by_name(net, torch):
    inputs = {name: torch.as_tensor(value) for name, value in given().items()}
    for sparse in (inputs["X"].to_sparse(), inputs["y"][:, None].to_sparse()):
        with pytest.raises(inweave.InputError, match=r"'X' is a tensor.*sparse.*to_dense"):
            net(**inputs | {"X": sparse})
        with pytest.raises(inweave.InputError, match=r"'X' is a tensor.*sparse.*to_dense"):
            net.to_torch()(**inputs | {"X": sparse})


def test_torch_vmap_runs_over_a_network(net, torch):
    inputs = {name: torch.as_tensor(value) for name, value in given().items()}
    rest = {name: value for name, value in inputs.items() if name != "u"}
    many = torch.stack([inputs["u"], 2 * inputs["u"], -inputs["u"]])
    expected = net(**rest, u=many)
    for call in (net, net.to_torch()):
        found = torch.func.vmap(lambda u, call=call: call(**rest, u=u))(many)
        assert torch.allclose(found, expected, rtol=1e-12)
        slopes = torch.func.vmap(torch.func.grad(lambda u, call=call: call(**rest, u=u)))(many)
        assert slopes.shape == many.shape
        turned = torch.func.grad(
            lambda us, call=call: torch.func.vmap(lambda u: call(**rest, u=u))(us).sum()
        )(many)
        assert torch.allclose(turned, slopes, rtol=1e-12)


@inweave.program
def wave(x: Vector["d"]) -> Vector["d"]:
    return inweave.sigmoid(x, domain=(-2.0, 2.0), error=1e-3)


def test_under_torch_vmap_an_answer_is_nan_where_a_domain_was_left(torch):
    net = inweave.compile(wave, d=2)
    xs = torch.tensor([[0.5, 1.0], [0.5, 3.0]], dtype=torch.float64)
    found = torch.func.vmap(lambda x: net(x=x))(xs)
    assert torch.equal(found[0], net(x=xs[0]))
    assert torch.isnan(found[1]).all()


def test_a_prompt_of_another_float_type_is_refused(net, torch):
    module = net.to_torch()
    H = torch.as_tensor(net.prompt(**given()))
    with pytest.raises(inweave.DTypeError, match=r"prompt of torch.float32.*torch.float64"):
        module(H.to(torch.float32))
    assert module.to(torch.float32)(H.to(torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("name", ["int64", "bool", "complex128"])
def test_weights_are_exported_in_floating_point_only(net, torch, name):
    with pytest.raises(inweave.DTypeError, match=f"cannot be stored as torch.{name}"):
        net.to_torch(dtype=getattr(torch, name))


# -- other sizes -----------------------------------------------------------------------------------
SIZES = (1, 2, 3, 5, 9, 11, 17, 30, 39, 40, 41, 42, 50, 100)


def weights(network: inweave.Network) -> list[Any]:
    return [head for layer in network.layers for head in layer.heads]


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("target", ["elsa", "lsa"])
@pytest.mark.parametrize(("name", "tokens"), [("d", None), ("n", "n")])
def test_a_size_that_is_called_free_is_free(name, tokens, target):
    net = inweave.compile(ridge, n=40, d=10, steps=3, tokens=tokens, target=target)
    assert net.free_sizes() == (name,)
    for size in SIZES:
        other = net.resize(**{name: size})
        assert other.certificate is not None
        assert weights(other) == weights(net)
        inputs = given(**{"n": 40, "d": 10} | {name: size})
        assert other(**inputs) == pytest.approx(float(ridge(**inputs, steps=3)), rel=1e-9)
        state = other.forward(other.prompt(**inputs))
        assert not any(state[b.rows :, b.columns].any() for b in other.layout)
        assert build(other.origin).network == other
        assert other.free_sizes() == (name,)
        assert other.resize(**{name: net.origin.sizes[name]}) == net


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_size_that_is_called_free_is_free(case):
    net = inweave.compile(case.program, verify=False, **case.sizes)
    for name in net.free_sizes():
        for size in (1, 2, case.sizes[name] + 1, 37):
            assert net.resize(**{name: size}).certificate is not None


def test_a_free_size_does_not_take_a_fixed_one_along():
    @inweave.program
    def both(X: Matrix["n", "d"], Y: Matrix["n", "d"]):
        return X + 2 * Y

    net = inweave.compile(both, n=4, d=2)
    (name,) = net.free_sizes()
    other = net.resize(**{name: 9})
    assert other.resize(**{name: 3}) == net.resize(**{name: 3})
    with pytest.raises(inweave.CompileError, match="n=5, d=7 needs a new compilation"):
        net.resize(n=5, d=7)


def test_weights_that_serve_near_by_and_not_far_away_are_not_called_free():
    @inweave.program
    def kinked(X: Matrix["n", "d"], w: Vector["d"]):
        return X @ w if X.shape[0] < 100 else 2 * (X @ w)

    net = inweave.compile(kinked, n=60, d=50)
    assert "n" not in net.free_sizes()
    with pytest.raises(inweave.CompileError, match="n=120 needs a new compilation"):
        net.resize(n=120)


@pytest.mark.parametrize("size", [0, -3, 5.0, "5", True])
def test_what_is_no_size_is_called_so(net, size):
    with pytest.raises(inweave.ShapeError, match="size d must be a positive int, got"):
        net.resize(d=size)


def test_a_resize_that_needs_more_tokens_says_so():
    net = inweave.compile(ridge, n=6, d=3, steps=2, tokens=4)
    assert net.resize(d=4).tokens == 4
    with pytest.raises(inweave.CompileError, match="tokens=4 is too few"):
        net.resize(d=5)


# -- what tokens stand for -------------------------------------------------------------------------
@pytest.mark.parametrize(("n", "d"), [(40, 10), (10, 40), (10, 10), (81, 40)])
@pytest.mark.parametrize("name", ["n", "d"])
def test_the_size_that_tokens_stand_for_runs_along_the_tokens(name, n, d):
    net = inweave.compile(ridge, n=n, d=d, steps=3, tokens=name)
    block = next(b for b in net.layout if b.name.startswith("X"))
    assert block.name == {"n": "X", "d": "Xᵀ"}[name]
    assert name in net.free_sizes()
    inputs = given(n, d)
    assert net(**inputs) == pytest.approx(float(ridge(**inputs, steps=3)), rel=1e-9)


def test_no_token_stands_for_a_longer_size_where_that_can_be():
    assert inweave.compile(ridge, n=40, d=10, steps=3, tokens="d").tokens == 10
    assert inweave.compile(ridge, n=10, d=40, steps=3, tokens="n").tokens == 10


@pytest.mark.parametrize("optimize", ["speed", "depth"])
def test_tokens_can_be_named_in_every_mode_and_by_programs_that_grow(optimize):
    @inweave.program
    def summed(X: Matrix["n", "d"]):
        total = X[0, :].T
        for i in range(1, X.shape[0]):
            total = total + X[i, :].T
        return X @ total

    for name in ("n", "d"):
        net = inweave.compile(summed, n=4, d=6, tokens=name, optimize=optimize)
        X = np.arange(24.0).reshape(4, 6)
        assert np.array_equal(net(X=X).ravel(), X @ X.sum(axis=0))


@pytest.mark.parametrize("tokens", ["steps", "q", 2.5, True])
def test_what_tokens_cannot_stand_for_is_refused(tokens):
    with pytest.raises(inweave.InputError, match="tokens"):
        inweave.compile(ridge, n=4, d=2, steps=3, tokens=tokens)


# -- a user's layout -------------------------------------------------------------------------------
@inweave.program
def chain(X: Matrix["n", "d"], Y: Matrix["n", "d"]):
    return X @ X.T @ Y


@pytest.mark.parametrize("first", ["X", "Xᵀ"])
def test_a_layout_may_hold_a_matrix_both_ways_round(first):
    both = {"X": (4, 3), "Xᵀ": (3, 4)}
    shapes = {first: both.pop(first), **both, "Y": (4, 3), "answer": (4, 3)}
    net = inweave.compile(chain, n=4, d=3, layout=inweave.Layout.of(shapes), target="lsa")
    assert net.certificate is not None
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 4, 3))
    assert net(X=X, Y=Y) == pytest.approx(X @ X.T @ Y, rel=1e-12)


def test_a_layout_may_hold_a_scalar_once_and_on_a_diagonal():
    @inweave.program
    def scaled(A: Matrix["n", "n"], B: Matrix["n", "n"], s: Scalar):
        return s * A @ B

    shapes = {"s": (1, 1), "s·I": (3, 3), "A": (3, 3), "B": (3, 3), "answer": (3, 3)}
    net = inweave.compile(scaled, n=3, layout=inweave.Layout.of(shapes))
    assert net.certificate is not None


# -- explain ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("wrong", [{"target": "zzz"}, {"optimize": "zzz"}, {"tokens": "zzz"}])
def test_explain_checks_its_arguments_as_compile_does(wrong):
    with pytest.raises(inweave.InputError, match="zzz"):
        inweave.explain(ridge, n=4, d=2, steps=3, **wrong)


def test_explain_takes_programs_only():
    with pytest.raises(inweave.InputError, match=r"a program made by .*got 3"):
        inweave.explain(3)
    with pytest.raises(inweave.InputError, match=r"a program made by .*got 3"):
        inweave.compile(3)
