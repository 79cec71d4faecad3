"""Powers of matrices that are not symmetric: computed, looked at, and given up if they grew."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import inweave
from inweave import Matrix, Network, Scalar, Vector
from inweave.exact.arithmetic import Floats
from inweave.run.domains import OutOfDomain
from inweave.run.libraries.execute import Bound
from inweave.run.libraries.trusted import Look
from inweave.run.plan import Variant
from inweave.run.rules.fold import Asked
from inweave.run.rules.power import Way
from inweave.run.values.node import Powers, Price

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")

DEAR = Price(1e9, 1e-9, 1e-9)  # calls: whatever can be powered is
N, STEPS = 6, 60


@inweave.program
def affine(A: Matrix["n", "n"], b: Vector["n"], x: Vector["n"], *, steps: int):
    return inweave.iterate(lambda x: A @ x + b, x, steps)


@inweave.program
def heavy_ball(H: Matrix["n", "n"], b: Vector["n"], eta: Scalar, beta: Scalar, *, steps: int):
    def step(w, v):
        return w - eta * (H @ w - b) + beta * (w - v), w

    start = inweave.zeros(H.shape[0])
    return inweave.iterate(step, (start, start), steps)[0]


def compiled(program: inweave.Program = affine, steps: int = STEPS) -> Network:
    return inweave.compile(program, n=N, steps=steps, verify=False)


def ways(network: Network) -> list[Variant]:
    """Powers as one matrix with what is added, and apart."""
    variant = network.plan.from_inputs
    found = [
        Variant(*variant._made, Asked(Way(DEAR, joint, looks=True))) for joint in (True, False)
    ]
    assert all(any(node.op == "grown" for node in way.nodes) for way in found)
    for way in found:
        way.unseen = variant
    return found


def momentum(condition: float) -> np.ndarray:
    """Of the heavy ball, tuned, on three coordinates that are mixed."""
    Q = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    H, root = (Q * np.geomspace(1, condition, 3)) @ Q.T, condition**0.5
    beta, eta = ((root - 1) / (root + 1)) ** 2, 4 / (root + 1) ** 2
    one = np.eye(3)
    return np.block([[(1 + beta) * one - eta * H, -beta * one], [one, 0 * one]])


def made(name: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    random = rng.normal(size=(N, N))
    chain = rng.random((N, N))
    Q = np.linalg.qr(random)[0]
    jordan = 0.5 * np.eye(N) + 2 * np.eye(N, k=1)
    cornered = Q @ jordan @ Q.T
    cornered[0, -1] = cornered[-1, 0]
    return {
        "chain": chain / chain.sum(1, keepdims=True),
        "discounted": 0.9 * chain / chain.sum(1, keepdims=True),
        "transposed": (chain / chain.sum(1, keepdims=True)).T,
        "random": 0.9 * random / np.linalg.norm(random, 2),
        "decaying": 0.1 * random,
        "rotating": 0.3 * Q,
        "descent": np.eye(N) - 0.1 * random.T @ random / np.linalg.norm(random, 2) ** 2,
        "jordan": jordan,
        "hidden": Q @ jordan @ Q.T,
        "cornered": cornered,
        "mirrored": (Q * np.linspace(-0.9, 0.95, N)) @ Q.T,
        "triangle": 0.5 * np.eye(N) + np.triu(100 * random, 1),
        "grcar": 0.25 * (np.tri(N, N, 3) - np.tri(N, N, -1) - np.eye(N, k=-1)),
        "momentum": momentum(1e4),
        "mild momentum": momentum(3.0),
    }[name]


KEPT = ["chain", "transposed", "discounted", "random", "descent", "mild momentum", "mirrored"]
GROWN = ["hidden", "cornered", "momentum", "triangle"]
NAMES = [*KEPT, *GROWN, "decaying", "rotating", "jordan", "grcar"]


def rational(x: np.ndarray) -> np.ndarray:
    """The same numbers, to be computed with exactly."""
    return np.array([[Fraction(v) for v in row] for row in x.tolist()])


def exact(A, b, x, steps=STEPS):
    """After all steps, in rational numbers."""
    A, b, x = (rational(m).tolist() for m in (A, b, x))
    for _ in range(steps):
        x = [[sum(a * v[0] for a, v in zip(row, x, strict=True)) + c[0]]
             for row, c in zip(A, b, strict=True)]  # fmt: skip
    return x


def missed(found, right) -> float:
    """The largest error beside the largest entry."""
    gap = max(abs(Fraction(float(a)) - b[0]) for a, b in zip(found[:, 0], right, strict=True))
    return float(gap / max(abs(b[0]) for b in right))


def keeps_digits(found, by_steps, right, dtype):
    few = 8 * float(np.finfo(dtype).eps)
    assert missed(found, right) <= 10 * missed(by_steps, right) + few


def sources(A, b, x, dtype=np.float64):
    given = {"A": A, "b": b, "x": x}
    return {("input", k): np.asarray(v, dtype) for k, v in given.items()}


def vectors(seed: int, homogeneous: bool = False):
    rng = np.random.default_rng(seed)
    b, x = rng.normal(size=(2, N, 1))
    return 0 * b if homogeneous else b, x


@pytest.mark.parametrize("homogeneous", [False, True], ids=["added", "decaying"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_the_digits_of_steps_are_kept_whatever_the_matrix(name, dtype, homogeneous):
    network, floats = compiled(), Floats(np, np.dtype(dtype))
    b, x = vectors(2, homogeneous)
    given = sources(made(name), b, x, dtype)
    (by_steps,) = network.plan.from_inputs.run(given, floats)
    right = exact(*(value for value in given.values()))
    for way in ways(network):
        keeps_digits(way.run(given, floats)[0], by_steps, right, dtype)


@pytest.mark.parametrize("name", [*KEPT, *GROWN])
def test_powers_are_trusted_where_they_stay_small_and_only_there(name):
    given = sources(made(name), *vectors(2))
    for way in ways(compiled()):
        assert way.bind(Floats()).grown(given).item() == (name in GROWN)


@pytest.mark.parametrize("bad", [None, 0, 3])
def test_prompts_of_any_size_stand_side_by_side_and_one_that_grows_is_seen(bad):
    """Also those that are small beside others: every prompt is compared with its own answer."""
    names = ["mirrored", "discounted", "chain", "mild momentum"]
    if bad is not None:
        names[bad] = "cornered"
    A = np.stack([made(name) for name in names])
    b, x = (np.stack(v) for v in zip(*map(vectors, range(4)), strict=True))
    sizes = np.array([1.0, 1e-30, 1e30, 1e-12])[:, None, None]
    given = sources(A, sizes * b, sizes * x)
    network = compiled()
    (by_steps,) = network.plan.from_inputs.run(given, Floats())
    for way in ways(network):
        grown = way.bind(Floats()).grown(given)[:, 0, 0]
        assert grown.tolist() == [i == bad for i in range(4)]
        (found,) = way.run(given, Floats())
        for i in range(4):
            each = [value[i] for value in given.values()]
            keeps_digits(found[i], by_steps[i], exact(*each), np.float64)


@pytest.mark.parametrize("k", [1e1, 1e3, 1e5])
@pytest.mark.parametrize("mode", ["faithful", "speed"])
def test_an_eigenvalue_that_is_there_twice_does_not_move(mode, k):
    """A² rounded has others, and every step would move along: 2.9 after 100 steps for 10."""
    A = 0.9 * np.array([[1 + k, -k], [k, 1 - k]])
    b, x = np.ones(2), np.zeros(2)
    network = inweave.compile(affine, n=2, steps=100, optimize=mode)
    right = exact(A, b[:, None], x[:, None], 100)
    by_steps = x
    for _ in range(100):
        by_steps = A @ by_steps + b
    for lead in ((), (3,)):
        given = {"A": A, "b": b, "x": x}
        found = network(**{n: np.broadcast_to(v, (*lead, *v.shape)) for n, v in given.items()})
        for each in np.reshape(found, (-1, 2, 1)):
            keeps_digits(each, by_steps[:, None], right, np.float64)


@pytest.mark.parametrize("lead", [(0,), (2, 0)])
def test_powers_of_no_prompts_are_looked_at(lead):
    network = compiled(steps=1000)
    found = network(A=np.zeros((*lead, N, N)), b=np.ones(N), x=np.ones(N))
    assert found.shape == (*lead, N)


@pytest.mark.parametrize("shared", ["A", "b", "x"])
def test_what_a_batch_shares_is_looked_at_with_the_rest(shared):
    b, x = (np.stack(v) for v in zip(*map(vectors, range(3)), strict=True))
    given = sources(np.stack([made("random")] * 3), b, x)
    given["input", shared] = given["input", shared][0]
    network = compiled()
    (by_steps,) = network.plan.from_inputs.run(given, Floats())
    for way in ways(network):
        assert not way.bind(Floats()).grown(given).any()
        np.testing.assert_allclose(way.run(given, Floats())[0], by_steps, rtol=1e-13)


@pytest.mark.parametrize("condition", [3.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("steps", [60, 200])
def test_loops_that_carry_several_values_are_looked_at_together(condition, steps):
    """Momentum: its powers grow, the more so the worse the condition is."""
    network = compiled(heavy_ball, steps)
    M = momentum(condition)
    root = condition**0.5
    beta, eta = ((root - 1) / (root + 1)) ** 2, 4 / (root + 1) ** 2
    H = ((1 + beta) * np.eye(3) - M[:3, :3]) / eta
    H = np.block([[H, np.zeros((3, 3))], [np.zeros((3, 3)), np.eye(3)]])
    b, _ = vectors(4)
    given = {"H": H, "b": b, "eta": np.full((1, 1), eta), "beta": np.full((1, 1), beta)}
    given = {("input", name): value for name, value in given.items()}
    (by_steps,) = network.plan.from_inputs.run(given, Floats())
    H, b, one = (rational(value) for value in (H, b, np.eye(N)))
    eta, beta = Fraction(float(eta)), Fraction(float(beta))
    step = np.block([[(1 + beta) * one - eta * H, -beta * one], [one, 0 * one]])
    start = np.concatenate([0 * b, 0 * b])
    right = exact(step, np.concatenate([eta * b, 0 * b]), start, steps)[:N]
    for way in ways(network):
        (look,) = [node.data for node in way.nodes if node.op == "grown"]
        assert look.values == 2
        keeps_digits(way.run(given, Floats())[0], by_steps, right, np.float64)


def test_powers_that_overflow_where_steps_do_not_are_not_trusted():
    """A is large and soon nothing: its square is beyond floats before it is zero."""
    network = compiled()
    A = np.zeros((N, N))
    A[0, 1] = A[1, 2] = 1e200
    x = np.zeros((N, 1))
    x[2] = 1e-200
    given = sources(A, 0 * x, x)
    (by_steps,) = network.plan.from_inputs.run(given, Floats())
    assert (by_steps == 0).all()
    for way in ways(network):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(way.run(given, Floats())[0], by_steps)


def test_errors_that_add_up_over_very_many_steps_are_seen():
    """Those of squares are doubled with every square, those of steps are of either sign."""
    steps = 6000
    rates = 1 - np.linspace(1e-4, 2e-4, N)
    given = sources(np.diag(rates), np.zeros((N, 1)), np.ones((N, 1)))
    network = compiled(steps=steps)
    (by_steps,) = network.plan.from_inputs.run(given, Floats())
    right = [[Fraction(rate) ** steps] for rate in rates]
    for way in ways(network):
        keeps_digits(way.run(given, Floats())[0], by_steps, right, np.float64)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_an_answer_does_not_depend_on_what_was_asked_before(lead):
    """To the last digit: data with which powers grow take steps, and others powers, every time."""
    network = compiled(steps=1000)
    assert network.plan.from_inputs.alone.unseen is not network.plan.from_inputs.alone
    b, x = (np.broadcast_to(v[:, 0], (*lead, N)) for v in vectors(2))
    found = {}
    for name in ("random", "random", "hidden", "hidden", "random", "hidden"):
        answer = network(A=made(name), b=b, x=x, check=False)
        (steps,) = network.plan.from_inputs.run(sources(made(name), *vectors(2)), Floats())
        np.testing.assert_allclose(answer, np.broadcast_to(steps[:, 0], answer.shape), rtol=1e-9)
        np.testing.assert_array_equal(answer, found.setdefault(name, answer))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [2, 7, 30])
@pytest.mark.parametrize("repeat", [2, 81, 1000])
def test_what_passes_for_symmetric_has_powers_no_larger_than_symmetric_ones(dtype, rows, repeat):
    look = Look(Powers(rows, repeat, 4, False, False), dtype)
    draw = np.random.default_rng(rows)
    passed = []
    for apart in (0.0, *np.geomspace(1e-15, 1.0, 31)):
        S, K = draw.normal(size=(2, rows, rows))
        S, K = S + S.T, K - K.T
        A = S / np.linalg.norm(S, 2) + apart * K / np.linalg.norm(K, 2)
        A = A.astype(dtype)
        if look.seen > 0 and look.mirrored(A, A @ A):
            exact = A.astype(np.float64)
            largest = np.linalg.norm(np.linalg.matrix_power(exact, repeat), 2)
            alone = np.linalg.norm(exact + exact.T, 2) / 2
            assert alone**repeat / 1.3 <= largest <= 1.3 * alone**repeat
            passed.append(apart)
    assert max(passed, default=0.0) < 0.5
    assert 0.0 in passed or dtype == np.float32


def test_a_matrix_below_the_range_of_squares_is_not_taken_for_symmetric():
    look = Look(Powers(2, 3, 1, False, False), np.float64)
    A = np.array([[0.0, 1e-170], [0.0, 0.0]])
    assert not look.mirrored(A, A @ A)
    assert not look.mirrored(np.array([A, np.eye(2)]), np.array([A @ A, np.eye(2)]))


# -- inside loops: a power by itself ---------------------------------------------------------------
OUTER, INNER = 3, 40


@inweave.program
def clipped(A: Matrix["n", "n"], b: Vector["n"], x: Vector["n"], *, outer: int, inner: int):
    def step(x):
        return inweave.abs(inweave.iterate(lambda x: A @ x + b, x, inner))

    return inweave.iterate(step, x, outer)


@inweave.program
def clipped_alone(A: Matrix["n", "n"], b: Vector["n"], x: Vector["n"], *, outer: int, inner: int):
    def step(x):
        return inweave.abs(inweave.iterate(lambda x: A @ x, x, inner)) + b

    return inweave.iterate(step, x, outer)


def inside(program: inweave.Program, outer: int = OUTER, inner: int = INNER) -> Variant:
    network = inweave.compile(program, n=N, outer=outer, inner=inner, verify=False)
    variant = network.plan.from_inputs
    way = Variant(*variant._made, Asked(Way(DEAR, joint=True, looks=True)))
    way.unseen = variant
    return way


def exact_inside(program, A, b, x):
    A, b, x = map(rational, (A, b, x))
    added = b if program is clipped else 0 * b
    for _ in range(OUTER):
        for _ in range(INNER):
            x = A @ x + added
        x = abs(x)
        if program is clipped_alone:
            x = x + b
    return x


@pytest.mark.parametrize("program", [clipped, clipped_alone], ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_a_power_inside_a_loop_keeps_the_digits_of_steps(name, dtype, program):
    way, floats = inside(program), Floats(np, np.dtype(dtype))
    assert way.code.looks == 1
    assert sum(node.op == "loop" for node in way.nodes) == 1
    for seed in range(3):
        given = sources(made(name), *vectors(seed), dtype)
        (by_steps,) = way.unseen.run(given, floats)
        right = exact_inside(program, *given.values())
        keeps_digits(way.run(given, floats)[0], by_steps, right, dtype)


@pytest.mark.parametrize("name", [*KEPT[:3], "mirrored", "decaying", *GROWN])
def test_a_power_inside_a_loop_is_trusted_by_itself(name):
    given = sources(made(name), *vectors(2))
    assert inside(clipped).bind(Floats()).grown(given).item() == (name in GROWN)


def test_a_matrix_that_a_loop_around_changes_is_multiplied_step_by_step():
    @inweave.program
    def changing(A: Matrix["n", "n"], x: Vector["n"]):
        def step(A, x):
            return 0.5 * A @ A, inweave.iterate(lambda x: A @ x, x, 30)

        return inweave.iterate(step, (A, x), 3)[1]

    variant = inweave.compile(changing, n=N, verify=False).plan.from_inputs
    way = Variant(*variant._made, Asked(Way(DEAR, joint=True, looks=True)))
    given = {("input", "A"): made("random"), ("input", "x"): vectors(0)[1]}
    assert way.code.looks == 0
    np.testing.assert_allclose(
        way.run(given, Floats())[0], variant.run(given, Floats())[0], rtol=1e-12
    )


# -- prompts by powers and prompts by steps, in one batch ------------------------------------------
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("lead", [(5,), (2, 3), (300,), (20, 30)])
@pytest.mark.parametrize("bad", [0.0, 0.2, 0.9, 1.0])
def test_every_prompt_of_a_batch_is_as_it_is_alone_or_by_steps(bad, lead, check):
    """Also where most lose digits, so that all take steps, and where some that are asked do not."""
    network = compiled(steps=1000)
    suited = network.plan.from_inputs.batched
    assert suited.code.looks == 1
    rng = np.random.default_rng(5)
    A = np.where(
        (some := rng.random(lead) < bad)[..., None, None], made("hidden"), made("chain") * 0.9
    )
    b, x = rng.normal(size=(2, *lead, N))
    found = network(A=A, b=b, x=x, check=check)
    given = sources(A, b[..., None], x[..., None])
    (by_steps,) = suited.unseen.run(given, Floats())
    np.testing.assert_allclose(found, by_steps[..., 0], rtol=1e-11)
    if bad == 0.2:
        assert (found != by_steps[..., 0])[~some].any()
    np.testing.assert_array_equal(network(A=A, b=b, x=x, check=check), found)


@pytest.mark.parametrize("lead", [(), (4,), (300,)])
def test_a_prompt_that_takes_steps_is_refused_if_it_is_not_finite(lead):
    network = compiled(steps=1000)
    rng = np.random.default_rng(6)
    given = {"A": np.broadcast_to(made("hidden"), (*lead, N, N)).copy()}
    given |= {name: rng.normal(size=(*lead, N)) for name in "bx"}
    for name in given:
        for _ in range(2):
            network(**given)
        spoilt = given | {name: given[name].copy()}
        spoilt[name][(0,) * spoilt[name].ndim] = np.nan
        with pytest.raises(inweave.InweaveError, match="NaN"):
            network(**spoilt)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_a_domain_that_only_powers_leave_is_not_left(lead):
    """Steps from a fixed point stay near it, and the digits of powers are lost to the last."""

    @inweave.program
    def logarithm(A: Matrix["n", "n"], b: Vector["n"], x: Vector["n"]):
        return inweave.log(inweave.iterate(lambda x: A @ x + b, x, 1000))

    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(N, N)))[0]
    A = Q @ (0.5 * np.eye(N) + 40 * np.eye(N, k=1)) @ Q.T
    x = np.ones((*lead, N))
    given = {"A": np.broadcast_to(A, (*lead, N, N)), "b": x - x @ A.T, "x": x}
    network = inweave.compile(logarithm, n=N, verify=False)
    variant = network.plan.from_inputs
    suited = variant.batched if lead else variant.alone
    lifted = {("input", k): v if k == "A" else v[..., None] for k, v in given.items()}
    floats = Floats()
    floats.checked = True
    with pytest.raises(OutOfDomain):
        Bound(suited.code, floats).run(lifted)
    for _ in range(2):
        assert abs(network(**given)).max() < 1e-3


# -- constants: powers are exact, rounded once, and looked at where they are made ------------------
def blocks(eigenvalue: float) -> np.ndarray:
    """A Jordan block in other coordinates, both of small whole numbers."""
    P = np.tri(N) + np.triu(np.ones((N, N)), 1) @ np.tri(N)
    return np.rint(2 * P @ (eigenvalue * np.eye(N) + np.eye(N, k=1)) @ np.linalg.inv(P)) / 2


def string(courant: float) -> np.ndarray:
    """Of a wave on three points, twice in time."""
    one, L = np.eye(3), np.eye(3, k=1) + np.eye(3, k=-1) - 2 * np.eye(3)
    return np.block([[2 * one + courant**2 * L, -one], [one, 0 * one]])


def constant(name: str) -> np.ndarray:
    few = {"wave": string(0.5), "quick wave": string(1.25), "still": blocks(0.5), "one": blocks(1)}
    return few[name] if name in few else made(name)


def by_constants(name: str, steps: int, homogeneous: bool) -> Network:
    A = constant(name)

    @inweave.program
    def alone(x: Vector["n"]):
        return inweave.iterate(lambda x: A @ x, x, steps)

    @inweave.program
    def added(x: Vector["n"], b: Vector["n"]):
        return inweave.iterate(lambda x: A @ x + b, x, steps)

    program = alone if homogeneous else added
    return inweave.compile(program, n=N, optimize="speed", verify=False)


GROWING = ["quick wave", "one"]  # so much that a start which steps keep exactly would be lost


@pytest.mark.parametrize("homogeneous", [False, True], ids=["added", "alone"])
@pytest.mark.parametrize("steps", [7, 200])
@pytest.mark.parametrize("name", [*NAMES, "wave", "still", *GROWING])
def test_powers_of_constants_keep_the_digits_of_steps(name, steps, homogeneous):
    network, A = by_constants(name, steps, homogeneous), constant(name)
    if steps > 7 and name in [*KEPT, "wave", *GROWING]:
        found = {x.op for x in network.plan.from_inputs.alone.nodes}
        assert bool(found & {"loop", "grown"}) == (name in GROWING)
    rng = np.random.default_rng(4)
    starts = [rng.normal(size=N), rng.integers(-9, 10, N).astype(float), np.ones(N)]
    for x, b in zip(starts, rng.normal(size=(3, N)), strict=True):
        given, by_steps = {"x": x} if homogeneous else {"x": x, "b": b}, x
        b = 0 * b if homogeneous else b
        for _ in range(steps):
            by_steps = A @ by_steps + b
        right = exact(A, b[:, None], x[:, None], steps)
        keeps_digits(network(**given, check=False)[:, None], by_steps[:, None], right, np.float64)
