"""Networks whose prompt stands in another basis: everyone who runs, keeps or proves one agrees.

Most networks here are random ones with a random basis attached, not plain ones that were moved: so
that what an embedding means is tested, and not only that moving there and back is nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import (
    AttentionLayer,
    BlockPointwiseLayer,
    Embedding,
    Matrix,
    Module,
    Network,
    ShapeError,
    Vector,
)
from inweave.exact.arithmetic import Rationals
from inweave.exact.rational import inverse, is_invertible, is_orthogonal, product
from inweave.files.network_file import decode, encode
from inweave.model.dense import forward, trace
from inweave.run.plan import Plan
from tests.cases import ridge_weights as ridge
from tests.random_networks import networks

RATIONALS = Rationals()


def skew(size: int, rng: np.random.Generator) -> Any:
    upper = np.triu(rng.integers(-2, 3, (size, size)), 1)
    return (upper - upper.T) / 2


def orthogonal(size: int, rng: np.random.Generator) -> Any:
    S = skew(size, rng)
    return product(np.eye(size) - S, inverse(np.eye(size) + S))


def invertible(size: int, rng: np.random.Generator) -> Any:
    """Not orthogonal, of condition 3, so that floats can be compared too."""
    sizes = np.diag([Fraction(int(k), 2) for k in rng.integers(1, 4, size)])
    sizes[sizes == 0] = Fraction(0)
    return product(orthogonal(size, rng), sizes, orthogonal(size, rng))


def embedding(network: Any, seed: int, which: str = "both") -> Embedding:
    rng = np.random.default_rng(seed)
    columns = None if which == "tokens" else invertible(network.width, rng)
    return Embedding(columns, None if which == "columns" else orthogonal(network.tokens, rng))


def drawn(network: Any, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {s.name: rng.integers(-2, 3, (s.rows, s.cols)) / 2 for s in network.inputs}


@pytest.fixture(scope="module", params=["elsa", "lsa"])
def pair(request: pytest.FixtureRequest) -> tuple[Network, Network]:
    """A compiled network, and the same in another basis."""
    net = inweave.compile(ridge, n=4, d=2, steps=5, target=request.param)
    return net, moved(net, embedding(net, 1))


def moved(net: Network, to: Embedding) -> Network:
    modules = tuple(to.module(module, net.layout) for module in net.modules)
    return replace(net, modules=modules, embedding=to)


DATA = {
    "X": np.array([[1.0, 0.5], [0.0, -1.0], [0.5, 0.5], [1.0, 1.0]]),
    "y": np.array([1.0, 0.0, -1.0, 0.5]),
    "lam": 0.5,
    "eta": 0.125,
}


# -- exact matrices -------------------------------------------------------------------------------
@given(st.integers(1, 7), st.integers(0, 2**16))
def test_rational_inverses_are_exact(size: int, seed: int):
    rng = np.random.default_rng(seed)
    M, P = invertible(size, rng), orthogonal(size, rng)
    assert (product(M, inverse(M)) == np.eye(size)).all()
    assert is_invertible(M)
    assert is_orthogonal(P)
    assert is_orthogonal(M) == bool((product(M, M.T) == np.eye(size)).all())


@given(st.integers(1, 6), st.integers(0, 60), st.integers(0, 2**16))
def test_products_are_exact_whatever_the_size_of_numbers(size: int, power: int, seed: int):
    rng = np.random.default_rng(seed)
    bound = 2**power
    a, b = (rng.integers(-bound, bound + 1, (size, size)).astype(object) for _ in range(2))
    assert (product(a, b) == a @ b).all()
    if power < 53:
        wide = b.astype(float) / 8
        assert (product(a.astype(float), wide) == (a @ b) * Fraction(1, 8)).all()


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 260), st.integers(0, 260), st.integers(0, 2**16))
def test_large_matrices_are_multiplied_digit_by_digit(size: int, some: int, more: int, seed: int):
    """The largest numbers of both signs, and zeros: no digit is lost, and no sum too large."""
    rng = np.random.default_rng(seed)
    shapes = ((size, 120), (120, 41 - size))
    a, b = (
        rng.choice([2**bits - 1, -(2**bits), 2 ** (bits // 2), 0], shape, p=[0.7, 0.1, 0.1, 0.1])
        for bits, shape in zip((some, more), shapes, strict=True)
    )
    a[:, seed % 120] = 0
    assert (product(a, b) == a.astype(object) @ b.astype(object)).all()


def test_a_matrix_that_is_nearly_orthogonal_is_not():
    P = orthogonal(3, np.random.default_rng(0))
    P[0, 0] += Fraction(1, 10**30)
    assert not is_orthogonal(P)
    singular = product(P, np.diag([1.0, 1.0, 0.0]), P)
    assert not is_invertible(singular)


# -- what it means --------------------------------------------------------------------------------
@settings(max_examples=40)
@given(networks(repeats=2, modules_at_most=2, activation=None), st.integers(0, 99), st.data())
def test_the_plain_network_gives_the_same_answers_exactly(net: Any, seed: int, data: Any):
    which = data.draw(st.sampled_from(["both", "columns", "tokens"]))
    net = replace(net, embedding=embedding(net, seed, which))
    inputs = {name: RATIONALS.array(x) for name, x in drawn(net, seed).items()}
    H = net.filled(inputs, RATIONALS)
    expected = net.readout(forward(net, H, RATIONALS), RATIONALS)
    plain = net.plain
    assert plain.embedding is None
    found = plain.readout(forward(plain, plain.filled(inputs, RATIONALS), RATIONALS), RATIONALS)
    answers = Plan(net).answers(inputs, RATIONALS)
    after = Plan(net).forward(H, RATIONALS)
    assert (after == forward(net, H, RATIONALS)).all()
    for name, value in expected.items():
        assert (found[name] == value).all()
        assert (answers[name] == value).all()


def test_the_prompt_and_the_read_out_are_in_the_basis(pair: tuple[Network, Network]):
    net, other = pair
    E = other.embedding
    assert E is not None
    G, H = other.prompt(**DATA), net.prompt(**DATA)
    np.testing.assert_allclose(G, E.tokens.astype(float) @ H @ E.columns.astype(float), atol=1e-12)
    np.testing.assert_allclose(other.in_blocks(G), H, atol=1e-9)
    np.testing.assert_allclose(other.readout(other.forward(G)), net(**DATA), rtol=1e-9)
    np.testing.assert_allclose(other(**DATA), net(**DATA), rtol=1e-12)


def test_a_trace_has_blocks_by_name(pair: tuple[Network, Network]):
    net, other = pair
    found, expected = other.trace(**DATA), net.trace(**DATA)
    for name in net.layout.names:
        pairs = zip(found.block(name), expected.block(name), strict=True)
        assert all(np.allclose(a, b, atol=1e-8) for a, b in pairs)
    assert not np.allclose(found.final, expected.final)


def test_a_moved_network_is_the_plain_one_again(pair: tuple[Network, Network]):
    net, other = pair
    H = RATIONALS.array(net.prompt(**DATA))
    mine = trace(other.plain, H, RATIONALS)
    theirs = trace(net, H, RATIONALS)
    for a, b in zip(mine.states.values(), theirs.states.values(), strict=True):
        assert (a == b).all()


# -- proof ----------------------------------------------------------------------------------------
def test_it_is_proved_against_the_same_program(pair: tuple[Network, Network]):
    net, other = pair
    assert other.certificate is None
    by_algebra, at_points = other.verify(), other.verify(seed=1)
    assert by_algebra.method == "algebra"
    assert at_points.method == "induction"
    assert {by_algebra.network, at_points.network} == {other.fingerprint}
    assert other.fingerprint != net.fingerprint


def test_a_proof_in_a_basis_claims_no_other_sizes(pair: tuple[Network, Network]):
    net, other = pair
    assert net.certificate is not None
    assert net.certificate.free
    found = other.verify()
    assert not found.free
    assert "for all n" not in str(found)


def test_the_wrong_basis_is_refused_by_the_proof(pair: tuple[Network, Network]):
    net, other = pair
    wrong = replace(other, embedding=embedding(net, 2))
    with pytest.raises(inweave.VerificationError):
        wrong.verify()
    with pytest.raises(inweave.VerificationError):
        replace(other, embedding=None).verify()


# -- what is refused ------------------------------------------------------------------------------
def test_what_is_no_embedding_is_refused_by_name(pair: tuple[Network, Network]):
    net, _ = pair
    with pytest.raises(ShapeError, match="tokens must be orthogonal"):
        Embedding(tokens=2 * np.eye(2))
    with pytest.raises(ShapeError, match="columns must be invertible"):
        Embedding(np.ones((2, 2)))
    with pytest.raises(ShapeError, match="columns must be a square matrix"):
        Embedding(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=f"the prompt has {net.width} columns"):
        replace(net, embedding=Embedding(np.eye(net.width + 1)))
    with pytest.raises(ShapeError, match=f"the prompt has {net.tokens} tokens"):
        replace(net, embedding=Embedding(tokens=np.eye(net.tokens + 1)))


def test_what_functions_read_stays_as_it_is():
    @inweave.program
    def gated(X: Matrix["n", "d"], w: Vector["d"]):
        return X.T @ inweave.relu(X @ w)

    net = inweave.compile(gated, n=3, d=2)
    layer = next(x for x in net.layers if isinstance(x, BlockPointwiseLayer))
    rows, cols = layer.applied[0][0].region(net.layout)
    block = layer.applied[0][0].block
    other = next(c for c in range(net.width) if not cols.start <= c < cols.stop)
    swap = np.eye(net.width)
    swap[[cols.start, other]] = swap[[other, cols.start]]
    with pytest.raises(ShapeError, match=rf"block {re.escape(repr(block))}.*mixed with others"):
        replace(net, embedding=Embedding(swap))
    turn = np.eye(net.tokens)
    turn[rows.start, rows.start] = -1
    with pytest.raises(ShapeError, match=f"token {rows.start} is mixed"):
        replace(net, embedding=Embedding(tokens=turn))
    free = [c for c in range(net.width) if not cols.start <= c < cols.stop]
    mixed = np.eye(net.width, dtype=object)
    mixed[np.ix_(free, free)] = invertible(len(free), np.random.default_rng(0))
    fine = moved(net, Embedding(mixed))
    assert fine.verify().network == fine.fingerprint
    data = {"X": np.array([[1.0, 2.0], [-1.0, 0.5], [0.5, -2.0]]), "w": [1.0, -0.5]}
    np.testing.assert_allclose(fine.readout(forward(fine, fine.prompt(**data))), net(**data))


# -- other places ---------------------------------------------------------------------------------
def test_a_file_keeps_it(pair: tuple[Network, Network], tmp_path: Any):
    net, other = pair
    other.verify()
    other.save(tmp_path / "other.inweave")
    again = inweave.load(tmp_path / "other.inweave")
    assert again == other
    assert again != net
    assert again.embedding == other.embedding
    assert again.claim is not None
    assert again.verify().network == other.fingerprint
    np.testing.assert_array_equal(again(**DATA), other(**DATA))


def test_networks_without_one_have_the_fingerprints_they_had(pair: tuple[Network, Network]):
    net, other = pair
    assert "embedding" not in net.describe()
    assert "embedding" in other.describe()


def test_a_file_with_a_wrong_one_is_refused_by_name(pair: tuple[Network, Network]):
    _, other = pair
    for name, wrong in (("tokens", 3 * np.eye(2)), ("columns", np.zeros((2, 2)))):
        forged = Embedding()
        object.__setattr__(forged, name, wrong)
        net = replace(other)
        object.__setattr__(net, "embedding", forged)
        with pytest.raises(inweave.FileFormatError, match=f"embedding: {name} must be"):
            decode(encode(net))


def test_a_file_cannot_ask_for_long_arithmetic(pair: tuple[Network, Network]):
    _, other = pair
    long = np.full((2, 2), Fraction(1, 3**700))
    for wrong, said in ((long, "bits"), (np.zeros((513, 513)), "the limit is 512")):
        forged = Embedding()
        object.__setattr__(forged, "columns", wrong)
        net = replace(other)
        object.__setattr__(net, "embedding", forged)
        with pytest.raises(inweave.FileFormatError, match=said):
            decode(encode(net))


def test_torch_runs_it(pair: tuple[Network, Network]):
    torch = pytest.importorskip("torch")
    net, other = pair
    module = other.to_torch()
    np.testing.assert_allclose(module(**DATA), net(**DATA), rtol=1e-9)
    H = torch.tensor(other.prompt(**DATA))
    np.testing.assert_allclose(module.prompt_of(**DATA), H)
    np.testing.assert_allclose(module(H), other.forward(other.prompt(**DATA)), rtol=1e-9)
    from inweave.nn import AttentionNetwork

    trained = AttentionNetwork.from_network(other)
    np.testing.assert_allclose(trained(H).detach(), net(**DATA), rtol=1e-9)
    assert trained.to_data().embedding == other.embedding
    given = {name: torch.tensor(DATA[name], dtype=torch.float32) for name in ("X", "y")}
    np.testing.assert_allclose(other(**{**DATA, **given}), net(**DATA), rtol=1e-4)


def test_jax_runs_it(pair: tuple[Network, Network]):
    jax = pytest.importorskip("jax")
    net, other = pair
    apply, params = other.to_jax()
    np.testing.assert_allclose(apply(params, **DATA), net(**DATA), rtol=1e-3)
    given = {name: jax.numpy.asarray(DATA[name]) for name in ("X", "y")}
    np.testing.assert_allclose(other(**{**DATA, **given}), net(**DATA), rtol=1e-4)


def test_onnx_runs_it(pair: tuple[Network, Network], tmp_path: Any):
    runtime = pytest.importorskip("onnxruntime")
    net, other = pair
    other.to_onnx(tmp_path / "net.onnx", dtype="float64")
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"))
    batch = {name: np.asarray(x, float)[None] for name, x in DATA.items()}
    np.testing.assert_allclose(session.run(None, batch)[0][0], net(**DATA), rtol=1e-9)


def test_the_page_shows_it_in_the_basis_of_its_blocks(pair: tuple[Network, Network]):
    from inweave.explore.payload import payload
    from inweave.explore.shown import named

    net, other = pair
    mine = payload(named({"it": other}), DATA)
    theirs = payload(named({"it": net}), DATA)
    assert "which an embedding hides" in mine["inputs"]
    assert mine["networks"][0]["first"] == theirs["networks"][0]["first"]
    assert mine["networks"][0]["report"]["fingerprint"] == other.fingerprint
    given = payload(named({"it": other}), {"H": other.prompt(**DATA)})
    assert given["networks"][0]["positions"] == mine["networks"][0]["positions"]


def test_a_form_in_another_basis_is_no_layout_to_compile_for(pair: tuple[Network, Network]):
    net, other = pair
    with pytest.raises(inweave.InputError, match=r"layout=net\.plain"):
        inweave.compile(ridge, n=4, d=2, steps=2, layout=other)
    again = inweave.compile(ridge, n=4, d=2, steps=5, layout=other.plain, target=net.target)
    assert again.layout.names[: len(net.layout.names)] == net.layout.names


def test_it_is_told_in_words(pair: tuple[Network, Network]):
    net, other = pair
    assert "in a basis of its own: tokens and columns mixed" in str(other)
    assert "basis" not in str(net)


def test_layers_outside_a_network_move_too():
    layer = AttentionLayer(())
    module = Module((layer,), repeat=2)
    assert Embedding(np.eye(2)).module(module, inweave.Layout.of({"A": (1, 2)})) == module
