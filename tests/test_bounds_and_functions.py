"""What is stated holds: the errors of inverse powers, how errors are known, bounds on depth."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Scalar, Vector
from inweave.cli.show import report
from inweave.language.values import lift
from inweave.proof.degree import degree, has_functions, least_degree
from tests.fuzz import MODES, TARGETS, attempt
from tests.programs import Recipe, recipes

POWERS = {"reciprocal": -1.0, "rsqrt": -0.5}
WIDE = [(1e-30, 1e30), (1e-60, 1e60), (1e-70, 1e70), (1e-80, 1e80), (1e-140, 1.0), (1e-100, 1e100)]
ENDS = {"reciprocal": (1e-150, 1e150), "rsqrt": (1e-200, 1e200)}


def scalar(name, domain, error=1e-12, **options):
    @inweave.program
    def made(x: Scalar) -> Scalar:
        return getattr(inweave, name)(x, domain=domain, error=error)

    return inweave.compile(made, **options)


def entries(name, domain, error):
    @inweave.program
    def made(x: Vector["n"]):
        return getattr(inweave, name)(x, domain=domain, error=error)

    return inweave.compile(made, n=2)  # one entry is a scalar


def grid(low, high):
    """Points evenly spread in the logarithm, more at the ends, which are among them."""
    inside = np.exp(np.linspace(np.log(low), np.log(high), 20_001))
    near = np.geomspace(1, 2, 500)
    points = np.concatenate([inside, low * near, high / near, [low, high]])
    return np.clip(points, low, high)


def worst(network, name, x):
    """The largest relative error; |r x - 1| and |r² x - 1| / 2 would lose what is looked for."""
    wide = x.astype(np.longdouble)
    true = 1 / wide if name == "reciprocal" else 1 / np.sqrt(wide)
    return float(np.max(np.abs(network(x=x).astype(np.longdouble) / true - 1)))


def stated(network):
    (note,) = network.certificate.functions
    return float(re.search(r"error at most (\S+)$", note)[1])


@pytest.mark.parametrize("error", [1e-3, 1e-12, 1e-15])
@pytest.mark.parametrize("name", POWERS)
def test_scalars_reach_their_error_and_the_certificates_on_wide_domains(name, error):
    for domain in [*WIDE, ENDS[name]]:
        network = scalar(name, domain, error)
        observed = worst(network, name, grid(*domain))
        assert observed <= error, domain
        assert observed <= stated(network) <= error, domain


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("options", [{"target": t, "optimize": m} for t in TARGETS for m in MODES])
def test_every_target_and_mode_keeps_that_error(name, options):
    domain = ENDS[name]
    assert worst(scalar(name, domain, 1e-15, **options), name, grid(*domain)) <= 1e-15


def test_the_root_that_had_the_wrong_sign():
    x = 2.0892961308540407e-24
    found = float(scalar("rsqrt", (1e-80, 1e80))(x=x))
    assert found == pytest.approx(x**-0.5, rel=1e-15)


def test_the_error_is_that_of_exact_arithmetic():
    low, high = ENDS["reciprocal"]
    network = scalar("reciprocal", (low, high), 1e-15)
    for x in [low, high, *np.random.default_rng(0).uniform(-149, 149, 200)]:
        x = float(x) if x in (low, high) else float(10**x)
        gap = Fraction(float(network(x=x))) * Fraction(x) - 1
        assert abs(gap) <= Fraction(1e-15)


@pytest.mark.parametrize("name", POWERS)
def test_moderate_domains_take_no_larger_tables_than_before(name):
    for domain, units in [((1e-3, 1e2), 63), ((1e-30, 1e30), 63), ((1e-60, 1e60), 79)]:
        network = scalar(name, domain)
        assert max(x.units for x in network.layers if hasattr(x, "units")) == units
    (note,) = scalar(name, (1e-3, 1e2)).certificate.functions
    assert re.search(r"63 units and 3 Newton steps, relative error at most 4\.5e-16$", note)


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("width", [2.3e-16, 1e-15, 1.05e-14, 2e-14, 1e-12, 1e-9])
def test_domains_of_a_few_floats_are_served(name, width):
    for low in (1.0, 3e-7, 1e140):
        domain = (low, low * (1 + width))
        x = np.clip(np.linspace(*domain, 101), *domain)
        assert worst(scalar(name, domain, 1e-15), name, x) <= 1e-15
        network = entries(name, domain, 1e-12)
        found = network(x=x[:100].reshape(50, 2))
        np.testing.assert_allclose(found.ravel(), x[:100] ** POWERS[name], rtol=1e-12)


@pytest.mark.parametrize("name", POWERS)
def test_entries_on_the_widest_domain(name):
    low, high = ENDS[name]
    network = entries(name, (low, high), 1e-2)
    x = np.concatenate([grid(low, high)[::20], [low, high]])
    found = network(x=np.stack([x, x], axis=1))[:, 0]
    assert np.max(np.abs(found * x ** -POWERS[name] - 1)) <= stated(network) <= 1e-2


@pytest.mark.parametrize("make", [scalar, entries])
@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize(
    ("domain", "error", "message"),
    [
        ((1.0, 2.0), 1e-30, r"cannot reach a relative error of 1e-30.*8\.9e-16"),
        ((1.0, 2.0), 5e-16, r"cannot reach"),
        ((1e-300, 1e300), 1e-3, r"domains within \[1e-(150|200), 1e\+(150|200)\]"),
        ((5e-324, 1.0), 1e-3, r"domains within"),
        ((1.0, 1.7e308), 1e-3, r"domains within"),
    ],
)
def test_what_float64_cannot_reach_is_refused(make, name, domain, error, message):
    with pytest.raises(inweave.InputError, match=message):
        make(name, domain, error)


def test_where_the_rounding_of_a_table_is_larger_than_the_error_there_are_newton_steps():
    x = np.linspace(1.0, 1.0 + 1e-9, 2)
    network = entries("reciprocal", (1.0, 1.0 + 1e-9), 1e-15)
    assert "Newton" in network.certificate.functions[0]
    np.testing.assert_allclose(network(x=x) * x, 1, rtol=1e-15)


def test_a_table_whose_rounding_is_larger_than_the_error_is_refused_at_once():
    with pytest.raises(inweave.InputError, match=r"rounding alone.*larger error"):
        inweave.exp(np.ones(2), domain=(0.0, 1e-6), error=1e-16)


# -- how an error is known -------------------------------------------------------------------------
def noted(function):
    @inweave.program
    def applied(x: Vector["n"]):
        return function(x)

    (note,) = inweave.compile(applied, n=2).certificate.functions
    return note


def test_a_sampled_error_is_called_measured():
    asked = []

    def bump(x):
        asked.append(np.asarray(x))
        return np.exp(-x * x)

    function = inweave.pointwise(bump, (-3, 3), 1e-4)
    knots = function.function.net.units
    note = noted(function)
    assert "at most" not in note
    assert note.endswith(f"measured at {knots + 33 * (knots - 1):,} points")


def test_why_a_sampled_error_is_no_bound():
    def spiked(x):
        return np.where(np.abs(x - 0.123456789) < 1e-9, 5.0, 0.0)

    function = inweave.pointwise(spiked, (0, 1), 1e-3)
    assert abs(float(function.function.net(np.array(0.123456789))) - 5.0) > 1
    assert "measured" in noted(function)


@pytest.mark.parametrize(("domain", "error"), [((-8, 8), 1e-4), ((-30, 30), 1e-3), ((2, 9), 1e-6)])
def test_the_error_of_a_sigmoid_is_proved(domain, error):
    note = noted(lambda x: inweave.sigmoid(x, domain=domain, error=error))
    found = float(re.search(r"absolute error at most (\S+)$", note)[1])
    assert found <= 1.1 * error
    net = lift(inweave.sigmoid(inweave.constant(np.ones(2)), domain, error)).function.net
    x = np.linspace(*domain, 300_001)
    assert np.max(np.abs(net(x) - 1 / (1 + np.exp(-x)))) <= found


def test_a_network_from_a_file_claims_no_proof_that_it_does_not_hold(tmp_path):
    network = entries("reciprocal", (1.0, 4.0), 1e-3)
    network.save(tmp_path / "n.inweave")
    loaded = inweave.load(tmp_path / "n.inweave")
    assert loaded.certificate is None
    assert loaded.claim.certificate == network.certificate
    (function,) = (f for x in loaded.layers if hasattr(x, "applied") for _, f in x.applied)
    assert function.note().endswith("as stated for the net")


# -- bounds on depth -------------------------------------------------------------------------------
@inweave.program
def times_zero(s: Scalar) -> Scalar:
    return s + 0 * (s * s * s * s)


@inweave.program
def static_zero(s: Scalar, *, c=0.0) -> Scalar:
    return s + c * s**900


@inweave.program
def far_cancelled(s: Scalar) -> Scalar:
    return s**700 - s**700 + s


@inweave.program
def some_left(s: Scalar) -> Scalar:
    return s**700 - s**700 + s**30


@inweave.program
def times_the_prime(s: Scalar) -> Scalar:
    return s + (2**31 - 1) * (s * s * s * s)


@inweave.program
def functions_cancelled(s: Scalar) -> Scalar:
    return s * s + inweave.relu(s) - inweave.relu(s)


@pytest.mark.parametrize(
    ("program", "depth", "known", "bound"),
    [
        (times_zero, 0, (1, True), 0),
        (static_zero, 0, (1, True), 0),
        (far_cancelled, 0, (700, False), 0),
        (some_left, 4, (700, False), 4),
        (times_the_prime, 2, (4, True), 2),
        (functions_cancelled, 1, (2, False), 0),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_a_lower_bound_is_proved(program, depth, known, bound):
    network = inweave.compile(program)
    assert network.depth == depth
    assert network._degree == known
    assert network.depth_lower_bound == bound


@pytest.mark.parametrize("program", [times_zero, far_cancelled, some_left, functions_cancelled])
def test_everyone_who_shows_a_bound_shows_a_proved_one(program):
    from inweave.explore.report import report as explored

    network = inweave.compile(program)
    exact = network._degree[1]
    data, page = report(network), explored(network.shown())
    for bound in (data["depth_lower_bound"], page["bound"]):
        assert bound == (network.depth_lower_bound if exact else None)
    assert ("lower bound" in str(network)) is exact
    assert ("degree at most" in str(network)) is not exact


def test_the_degree_that_is_reached_is_a_bound_of_the_exact_one():
    traced = some_left.trace()
    assert degree(traced) == (700, False)
    assert least_degree(traced) == 30
    assert least_degree(times_the_prime.trace()) == 4


@settings(max_examples=60)
@given(recipes(), st.sampled_from(TARGETS), st.sampled_from(MODES))
def test_no_random_program_is_shallower_than_its_lower_bound(recipe: Recipe, target, mode):
    _, network = attempt(recipe, target, mode)
    if network is not None and network.is_polynomial and not has_functions(network.origin.traced):
        assert network.depth >= network.depth_lower_bound


TERMS = st.lists(
    st.tuples(st.sampled_from([-2, -1, 0, 0.0, 1, 2]), st.integers(1, 40)), min_size=1, max_size=4
)


@settings(max_examples=60)
@given(TERMS, st.booleans(), st.integers(1, 800))
def test_no_sum_that_cancels_is_shallower_than_its_lower_bound(terms, cancel, far):
    @inweave.program
    def powers(s: Scalar) -> Scalar:
        total = s
        for c, k in terms:
            total = total + c * s**k
        for c, k in terms if cancel else ():
            total = total - c * s**k
        return total + s**far - s**far

    left = {1: 1}
    for c, k in () if cancel else terms:
        left[k] = left.get(k, 0) + c
    true = max((k for k, c in left.items() if c), default=0)
    network = inweave.compile(powers, optimize="depth")
    found, exact = network._degree
    assert found == true if exact else found >= true
    assert network.depth >= network.depth_lower_bound
    assert 3**network.depth_lower_bound < 3 * max(true, 1)
