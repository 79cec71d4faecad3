"""Disguises: the same program, proved again, in a network whose parts do not show it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inweave
from inweave import (
    BlockPointwiseLayer,
    DenseProjection,
    Head,
    InputError,
    Matrix,
    Network,
    PointwiseLayer,
    Scalar,
    Vector,
    gallery,
)
from inweave.circuits import At, Disguise, disguise
from inweave.circuits.rotations import rotation
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import Shift
from inweave.exact.rational import is_orthogonal
from inweave.gallery import difference
from inweave.model.dense import DenseExecutor, forward, trace
from inweave.model.embedding import in_pieces
from inweave.model.layers import AttentionLayer
from inweave.model.prompt import by_name
from inweave.network import as_public
from inweave.proof.algebra import NotProved, prove
from tests.cases import ridge_weights as ridge
from tests.fuzz import attempt, rational_inputs
from tests.programs import recipes
from tests.random_networks import networks as networks_of_any_kind

RATIONALS = Rationals()


@inweave.program
def chain(A: Matrix["n", "n"], B: Matrix["n", "n"], v: Vector["n"]):
    return A @ (B @ (A @ (B @ (A @ v)))) + B.T @ v


@inweave.program
def gated(X: Matrix["n", "d"], w: Vector["d"]):
    return X.T @ inweave.relu(X @ w) + w


def networks(target: str) -> list[Network]:
    return [
        inweave.compile(ridge, n=4, d=2, steps=6, target=target),
        inweave.compile(chain, n=3, target=target),
        inweave.compile(gated, n=3, d=2, target=target),
    ]


@pytest.fixture(scope="module", params=["elsa", "lsa"])
def compiled(request: pytest.FixtureRequest) -> list[Network]:
    return networks(request.param)


def data(network: Network, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    drawn = {spec.name: rng.uniform(-1, 1, spec.shape) / 2 for spec in network.inputs}
    return {name: x if np.ndim(x) else abs(x) for name, x in drawn.items()}  # steps are downhill


def dense(network: Network, dtype: Any = np.float64, **inputs: Any) -> Any:
    """The answer as the stored weights give it, nothing undone before the end."""
    return network.readout(forward(network, network.prompt(**inputs).astype(dtype)))


def exactly(network: Network, inputs: dict[str, Any]) -> dict[str, Any]:
    """The answers of the stored weights in rationals, by name."""
    H = forward(network, network.filled(inputs, RATIONALS), RATIONALS)
    return by_name(network.readout(H, RATIONALS))


# -- rotations ------------------------------------------------------------------------------------
@given(st.integers(1, 21), st.integers(0, 16), st.integers(0, 99))
def test_rotations_are_orthogonal_and_leave_the_rest_alone(size: int, dial: int, seed: int):
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    free = sorted(rng.permutation(size)[: rng.integers(0, size + 1)].tolist())
    turn = rotation(size, free, Fraction(dial, 16), rng)
    if turn is None:
        assert dial == 0 or len(free) < 2
        return
    assert is_orthogonal(turn)
    fixed = [i for i in range(size) if i not in free]
    np.testing.assert_array_equal(turn[fixed], np.eye(size)[fixed])
    np.testing.assert_array_equal(turn[:, fixed], np.eye(size)[:, fixed])


# -- the same program -----------------------------------------------------------------------------
@pytest.mark.parametrize("dial", [0.25, 0.5, 1])
def test_a_disguise_is_proved_against_the_same_program(compiled: list[Network], dial: float):
    for net in compiled:
        other = disguise(net, dial, seed=3)
        assert other.target == net.target
        assert other.depth == net.depth
        assert other.certificate is None
        found = other.verify()
        assert found.network == other.fingerprint != net.fingerprint
        assert net.certificate is not None
        assert found.is_proof == net.certificate.is_proof
        points = other.verify(seed=1)
        assert points.probability <= 1e-12
        inputs = data(net)
        np.testing.assert_allclose(other(**inputs), net(**inputs), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(dense(other, **inputs), net(**inputs), rtol=1e-9, atol=1e-12)
        single = dense(other, np.float32, **inputs)
        assert difference(single, net(**inputs)) < 2e-5


def test_at_zero_it_is_the_network_itself(compiled: list[Network]):
    for net in compiled:
        made = Disguise.make(net, 0)
        assert made.network is net
        assert made.heads == {at: (at,) for at in made.heads}
        assert len(made.heads) == net.heads


def test_the_seed_says_it_all(compiled: list[Network]):
    net = compiled[0]
    first, again, other = (Disguise.make(net, 0.75, seed) for seed in (5, 5, 6))
    assert first.network == again.network
    assert first.describe() == again.describe()
    assert first.network != other.network


@settings(max_examples=15)
@given(recipes(), st.integers(0, 50), st.sampled_from([0.3, 0.7, 1.0]), st.data())
def test_random_programs_are_proved_in_disguise_or_checked_at_points(
    recipe: Any, seed: int, dial: float, data: Any
):
    target = data.draw(st.sampled_from(["elsa", "lsa"]))
    outcome, net = attempt(recipe, target, data.draw(st.sampled_from(["faithful", "depth"])))
    assume(net is not None and net.width * net.heads < 400 and net.depth < 40)
    assert outcome == "compiled"
    other = disguise(net, dial, seed)
    found = other.verify()
    assert found.network == other.fingerprint
    assert found.is_proof or found.probability <= 1e-12  # see docs/explanation/disguises.md
    if net.is_polynomial and net.depth < 8 and net.width < 20:
        inputs = rational_inputs(net, seed)
        for name, value in exactly(net, inputs).items():
            assert (exactly(other, inputs)[name] == value).all()


@inweave.program
def one_entry(A: Matrix["n", "d"]):
    return inweave.relu(A @ A.T)[0:1, 0:1]


@pytest.mark.parametrize("dial", [0.3, 1.0])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("mode", ["faithful", "depth"])
def test_what_no_answer_is_made_of_is_not_missed_in_a_functions_argument(mode, n, dial):
    net = inweave.compile(one_entry, n=n, d=1, optimize=mode)
    assert net.verify().is_proof
    assert disguise(net, dial, seed=n).verify().is_proof


@inweave.program
def less_the_first(B: Matrix["n", "d"]):
    rest = B - inweave.ones(B.shape[0], 1) @ B[:1]
    return rest @ rest.T


@pytest.mark.parametrize("dial", [0.3, 1.0])
@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("mode", ["faithful", "depth"])
def test_entries_of_a_product_are_proved_to_be_the_product(mode, n, dial):
    """Where so few rows are left that heads of a disguise, put together, read one of them."""
    net = inweave.compile(less_the_first, n=n, d=3, optimize=mode)
    assert net.verify().is_proof
    assert disguise(net, dial, seed=n).verify().is_proof


@pytest.mark.usefixtures("unchecked_passes")
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("dual_gd", {"n": 6, "d": 2, "steps": 5}),
        ("newton_schulz", {"m": 2, "steps": 3}),
        ("delta_net", {"n": 4, "d": 2, "k": 1}),
        ("lasso_ista", {"n": 5, "d": 2, "steps": 4}),
    ],
)
def test_entries_of_the_gallery_keep_their_certificates(name: str, sizes: dict[str, int]):
    entry = gallery.get(name)
    for target in entry.targets:
        net = entry.compile(target=target, verify=False, **sizes)
        other = disguise(net, 1, seed=2)
        assert other.verify().network == other.fingerprint
        inputs = entry.example(**sizes)
        assert difference(dense(other, **inputs), net(**inputs)) < 1e-9


@settings(max_examples=12)
@given(networks_of_any_kind(repeats=2, modules_at_most=2), st.integers(0, 99))
def test_networks_of_any_layers_give_the_same_answers_in_disguise(net: Any, seed: int):
    """Also those with layers by entries, with a skip or without, and with skips around layers."""
    other = disguise(as_public(net), 1, seed)
    assert other.layout.width > net.layout.width
    rng = np.random.default_rng(seed)
    drawn = {s.name: rng.integers(-2, 3, (s.rows, s.cols)) / 2 for s in net.inputs}
    inputs = {name: RATIONALS.array(x) for name, x in drawn.items()}
    for name, value in exactly(net, inputs).items():
        assert (exactly(other, inputs)[name] == value).all()


@pytest.mark.parametrize("skip", [True, False])
def test_a_layer_of_all_entries_leaves_room_for_decoys(skip: bool):
    """It reads every column of the network, and none of those that were added."""
    ones = np.ones((1, 3, 3))
    pointwise = PointwiseLayer(ones, ones, 0 * ones, ones, "relu", skip)
    piece = inweave.Piece(Shift(2, 2, 0, 0, 2), 0, 1, "A")
    attention = AttentionLayer((Head(*[inweave.Projection((piece,))] * 3),))
    places = inweave.Place("A", 3, 2), inweave.Place("B", 3, 1)
    net = Network(
        inweave.Layout.of({"A": (3, 2), "B": (3, 1)}),
        (inweave.Module((attention, attention)), inweave.Module((pointwise, attention))),
        (inweave.Input("a", 3, 2), inweave.Input("b", 3, 1)),
        tuple(map(inweave.Fill, places, "ab")),
        (inweave.Output("", places[0]),),
    )
    made = Disguise.make(net, 1, 0)
    assert made.decoys
    assert np.abs(made.subspace("decoy").astype(float)).max() < 1
    rng = np.random.default_rng(0)
    inputs = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=(3, 1))}
    np.testing.assert_allclose(dense(made.network, **inputs), net(**inputs), rtol=1e-9)


# -- what is hidden -------------------------------------------------------------------------------
def test_no_column_of_the_whole_disguise_shows_a_variable(compiled: list[Network]):
    net = compiled[0]
    made = Disguise.make(net, 1, 1)
    for block in net.layout:
        rows = made.subspace(block.name).astype(float)
        np.testing.assert_allclose(rows @ rows.T, np.eye(block.cols), atol=1e-12)
        assert np.abs(rows).max() < 0.9
        assert ((rows != 0).sum(axis=1) >= 4).all()


def test_the_subspaces_are_where_the_variables_stand(compiled: list[Network]):
    for net in compiled:
        made = Disguise.make(net, 1, 4)
        other, inputs = made.network, data(net)
        assert other.embedding is not None
        tokens = other.embedding.floats[0]
        P = np.eye(net.tokens) if tokens is None else tokens
        final, plain = other.trace(**inputs).final, net.trace(**inputs).final
        blocks = net.layout.unpack(plain)
        hidden = other.layout.unpack(other.in_blocks(final))
        total = np.zeros_like(final)
        for block in other.layout:
            values = blocks.get(block.name, hidden[block.name])
            tall = np.zeros((net.tokens, block.cols))
            tall[: block.rows] = values
            total += P @ tall @ made.subspace(block.name).astype(float)
        np.testing.assert_allclose(total, final, atol=1e-9)


def head_values(network: Network, heads: Any, H: Any) -> Any:
    """What heads of one network add together, at an exact state in its basis."""
    executor = DenseExecutor(network.layout, RATIONALS)
    outputs = [executor.head(network.layers[at.layer].heads[at.head], H).output for at in heads]
    return sum(outputs[1:], outputs[0])


@pytest.mark.parametrize("dial", [0.5, 1])
def test_the_truth_about_every_head(compiled: list[Network], dial: float):
    """At any state: the parts of a head add up to it, and the heads of a decoy cancel."""
    rng = np.random.default_rng(0)
    for net in compiled:
        made = Disguise.make(net, dial, 8)
        other = made.network
        assert other.embedding is not None
        wide = RATIONALS.array(rng.integers(1, 9, (other.tokens, other.width)) / 2)
        state = other.embedding.apply(wide, RATIONALS)
        plain = wide[:, : net.width]
        mine = [at for parts in made.heads.values() for at in parts]
        others = [at for parts in made.decoys for at in parts]
        every = [*mine, *others, *made.unused]
        assert sorted(every) == [
            At(i, k)
            for i, layer in enumerate(other.layers)
            if isinstance(layer, AttentionLayer)
            for k in range(len(layer.heads))
        ]
        for true, parts in made.heads.items():
            assert all(made.truth(part) == true for part in parts)
            assert all(part.layer == true.layer for part in parts)
            added = other.embedding.inverse.apply(head_values(other, parts, state), RATIONALS)
            assert (added[:, : net.width] == head_values(net, [true], plain)).all()
            assert not added[:, net.width :].any()
        for parts in made.decoys:
            assert not head_values(other, parts, state).any()
            assert all(head_values(other, [part], state).any() for part in parts)
            assert all(made.truth(part) is None for part in parts)


def test_decoys_and_unused_variables_are_active_and_change_no_answer():
    net = inweave.compile(chain, n=3)
    made = Disguise.make(net, 1, 1)
    other = made.network
    assert made.decoys
    assert made.unused
    seen = trace(other, other.prompt(**data(net)))
    decoy, unused = (np.array(seen.block(name)) for name in made.blocks)
    assert np.abs(decoy).max() > 1e-3
    np.testing.assert_allclose(decoy[-1], 0, atol=1e-12)
    assert np.abs(unused[-1]).max() > 1e-3
    without = dropped(other, made.unused)
    assert without.verify().network == without.fingerprint
    with pytest.raises(inweave.VerificationError):
        dropped(other, made.heads[At(0, 0)]).verify()


@pytest.mark.parametrize("target", ["elsa", "lsa"])
def test_loops_are_proved_whatever_stands_in_unused_variables(target: str):
    """Each step changes a variable: harmless while nothing reads it, seen where something does."""
    net = inweave.compile(ridge, n=4, d=2, steps=200, target=target)
    made = Disguise.make(net, 1, 1)
    assert made.unused
    assert made.network.verify().method == "algebra"
    assert made.network.verify(seed=1).method == "induction"
    seen = trace(made.network, made.network.prompt(**data(net)))
    unused = np.abs(np.array(seen.block(made.blocks[1]))).max(axis=(1, 2))
    assert unused[0] < 1e-12
    assert unused[100] < unused[200] < unused[-1]
    left = dropped(made.network, made.decoys[0][1:])  # now the decoy is a variable, too
    assert left.verify().method == "algebra"
    assert left.verify(seed=1).method == "induction"
    short = inweave.compile(ridge, n=4, d=2, steps=5, target=target)
    leaking = tampered(Disguise.make(short, 1, 1), made.unused[0])
    with pytest.raises(inweave.VerificationError):
        leaking.verify()


@inweave.program
def predicted(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar, *, steps):
    def step(w):
        return w - eta * (X.T @ (X @ w - y))

    return X @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


@pytest.mark.parametrize("layer", [0, -1])
def test_what_loops_leave_behind_must_not_be_read(layer: int):
    """Before the loop it holds zero: a proof that took it for that would be wrong."""
    net = inweave.compile(predicted, n=3, d=2, steps=4)
    made = Disguise.make(net, 1, 1)
    plain = replace(made.network, modules=made.network.plain.modules, embedding=None)
    assert plain.verify().method == "algebra"
    assert plain.verify(seed=1).method == "induction"
    assert [module.repeat for module in plain.modules] == [4, 1]
    number, at = iter(range(len(plain.layers))), range(len(plain.layers))[layer]
    key, value, first = (np.zeros((plain.width, plain.width)) for _ in range(3))
    key[net.layout["X"].start, 0] = 1
    into = net.layout["wᵀ" if layer == 0 else "answer"].start
    value[plain.layout[made.blocks[1]].start, into] = 1
    first[0, 0] = 1  # of the tokens; the sum over all is added there
    query = DenseProjection(0 * key, first[: plain.tokens])
    parts = (query, DenseProjection(key), DenseProjection(value))
    head = Head(*(in_pieces(part, plain.layout) for part in parts))

    def change(layer: Any, _: str) -> Any:
        return replace(layer, heads=(*layer.heads, head)) if next(number) == at else layer

    wrong = replace(plain, modules=tuple(m.map(change) for m in plain.modules))
    with pytest.raises(inweave.VerificationError):
        wrong.verify(seed=1)
    with pytest.raises(NotProved):
        prove(net.origin.traced, wrong)


def tampered(made: Disguise, at: At) -> Network:
    """The network with one number of one head changed: what it adds to every variable."""
    number = iter(range(len(made.network.layers)))

    def change(layer: Any, _: str) -> Any:
        if next(number) != at.layer:
            return layer
        heads = list(layer.heads)
        value = heads[at.head].value
        heads[at.head] = replace(heads[at.head], value=replace(value, W=value.W + 1))
        return replace(layer, heads=tuple(heads))

    return replace(made.network, modules=tuple(m.map(change) for m in made.network.modules))


def dropped(network: Network, heads: Any) -> Network:
    """The network without some heads."""
    number = iter(range(len(network.layers)))

    def change(layer: Any, _: str) -> Any:
        at = next(number)
        if not isinstance(layer, AttentionLayer):
            return layer
        kept = [head for k, head in enumerate(layer.heads) if At(at, k) not in heads]
        return replace(layer, heads=tuple(kept))

    return replace(network, modules=tuple(m.map(change) for m in network.modules))


def test_a_changed_disguise_is_not_proved(compiled: list[Network]):
    for net in compiled:
        made = Disguise.make(net, 1, 2)
        for at in (next(iter(made.heads.values()))[0], made.decoys[0][0]):
            with pytest.raises(inweave.VerificationError):
                tampered(made, at).verify()


def test_what_functions_read_keeps_its_columns(compiled: list[Network]):
    net = compiled[2]
    made = Disguise.make(net, 1, 1)
    for layer in net.layers:
        if isinstance(layer, BlockPointwiseLayer):
            for place, _ in layer.applied:
                start = net.layout[place.block].start
                rows = made.subspace(place.block)[place.col : place.col + place.extent[1]]
                here = np.eye(made.network.width)[start + place.col :][: len(rows)]
                np.testing.assert_array_equal(rows, here)


# -- other places ---------------------------------------------------------------------------------
def test_a_disguise_can_be_kept_and_exported(compiled: list[Network], tmp_path: Any):
    pytest.importorskip("torch")
    net = compiled[0]
    other = disguise(net, 1, 3)
    other.save(tmp_path / "other.inweave")
    again = inweave.load(tmp_path / "other.inweave")
    assert again == other
    assert again.verify().network == other.fingerprint
    inputs = data(net)
    np.testing.assert_allclose(other.to_torch()(**inputs), net(**inputs), rtol=1e-9, atol=1e-12)


def test_a_disguise_of_a_disguise_is_one_of_the_network(compiled: list[Network]):
    net = compiled[1]
    twice = Disguise.make(disguise(net, 0.5, 1), 0.5, 2)
    assert twice.network.verify().network == twice.network.fingerprint


def test_what_is_known_is_json_data(compiled: list[Network]):
    made = Disguise.make(compiled[0], 1, 1)
    said = json.loads(json.dumps(made.describe()))
    assert said["network"] == made.network.fingerprint
    assert [At(*true) for true, _ in said["heads"]] == list(made.heads)


def test_a_dial_beyond_its_range_is_refused(compiled: list[Network]):
    for wrong in (-0.1, 1.5, True, "half", float("nan")):
        with pytest.raises(InputError, match="from 0 to 1"):
            disguise(compiled[0], wrong)
    with pytest.raises(InputError, match="whole number"):
        disguise(compiled[0], 0.5, seed=-1)
    with pytest.raises(InputError, match=r"that of an inweave\.Network, got str"):
        disguise("ridge", 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="seed must be"):
        compiled[0].circuit(seed="one")  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "counted"), [(0.03, 0.0), (0.04, 1 / 16), (0.52, 0.5), (1, 1.0)])
def test_the_dial_that_is_said_is_the_one_that_was_turned(
    compiled: list[Network], given: float, counted: float
):
    made = Disguise.make(compiled[1], given)
    assert made.dial == made.describe()["dial"] == counted
    assert (made.network is made.of) == (counted == 0)


def test_what_is_known_of_a_disguise_is_known_of_its_file(tmp_path: Any):
    net = inweave.compile(chain, n=3)
    other = disguise(net, 1, 0)
    with pytest.raises(InputError, match=r"call net\.verify\(\) first"):
        _ = other.degree
    other.verify()
    other.save(tmp_path / "other.inweave")
    again = inweave.load(tmp_path / "other.inweave")
    again.verify()
    assert other.degree == again.degree == net.degree
    assert other.depth_lower_bound == again.depth_lower_bound == net.depth_lower_bound
    assert str(again).replace("chain (as the file holds it)", "chain") == str(other)


@pytest.mark.parametrize("seed", [0, 2])
def test_variables_that_nobody_reads_drown_no_answer(seed):
    """A network of many layers, all of which update such a variable."""
    entry = gallery.get("conjugate_gradient")
    network, inputs = entry.compile(m=2, steps=1), entry.example(m=2, steps=1)
    plain = network(**inputs)
    found = np.asarray(dense(disguise(network, 1, seed), **inputs)).reshape(plain.shape)
    np.testing.assert_allclose(found, plain, rtol=0, atol=1e-7 * abs(plain).max())
