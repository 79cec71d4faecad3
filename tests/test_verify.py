"""Verification: certificates, what a wrong network is told, loops by induction, exact degrees."""

from __future__ import annotations

import itertools
import json
import math
import re
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inweave
import inweave.network
import inweave.paper
from inweave import Matrix, Scalar, Vector, gallery
from inweave.cli.show import report
from inweave.errors import CompileError, InputError, ProgramError, VerificationError
from inweave.exact.arithmetic import Rationals
from inweave.exact.constants import fractions
from inweave.exact.field import Field, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.exact.long_field import LENGTHS, of_bits
from inweave.exact.schema import dumps, loads, read, write
from inweave.files.network_file import save
from inweave.gallery import ridge_gd as ridge
from inweave.language import evaluate
from inweave.language.expressions import LoopResult, every, ordered
from inweave.model.layers import AttentionLayer, PointwiseLayer
from inweave.model.modules import Module
from inweave.model.projection import Projection
from inweave.model.relunet import RELU, ReluNet
from inweave.proof import affine
from inweave.proof.certificate import Certificate
from inweave.proof.check import TooFewTrials
from inweave.proof.check import verify as check
from inweave.proof.degree import degree, lower_bound
from inweave.proof.field_check import Comparison, Mismatch
from inweave.proof.floats import float_difference, refuse_if_far_off
from inweave.proof.heights import VARIABLE, Bounded, Heights, Size
from inweave.proof.tables import reciprocal_error
from inweave.run.plan import Plan
from inweave.text.network import describe
from tests.cases import CASES, newton_schulz, product, ridge_gd, scalar_loop, two_sided


# -- certificates ----------------------------------------------------------------------------------
def test_a_certificate_says_how_equality_was_established():
    net = inweave.compile(ridge_gd, n=5, d=3, steps=7)
    found = net.verify(trials=3, seed=11)
    assert (found.program, found.network) == ("ridge_gd", net.fingerprint)
    assert (found.method, found.seed, found.trials) == ("induction", 11, 3)
    assert 3 * 2**29 < found.prime < 2**31
    assert 1 <= found.degree < 100
    assert found.probability == pytest.approx(chance(found) ** 3)
    assert found.float_difference is not None
    assert found.float_difference < 1e-12
    text = str(found)
    words = ("ridge_gd", net.fingerprint[:12], str(found.prime), "3 trials", "seed 11")
    for word in (*words, "probability"):
        assert word in text
    assert len(text.splitlines()) <= 7


def chance(certificate):
    """That one trial misses a difference: a root is drawn, or a prime divides all coefficients."""
    roots, primes = (3 * 2**29, 2.5e7) if certificate.prime < 2**31 else (3 * 2**59, 1.3e16)
    return certificate.degree / roots + certificate.bits / np.log2(roots) / primes


@pytest.mark.parametrize("case", CASES[::6], ids=lambda case: case.name)
def test_a_certificate_survives_json(case):
    certificate = inweave.compile(case.program, **case.sizes).certificate
    assert certificate is not None
    text = dumps(write(Certificate, certificate))
    assert read(Certificate, loads(text)) == certificate
    assert json.loads(text)["prime"] == certificate.prime


def test_a_changed_network_has_no_certificate_anywhere(tmp_path):
    net = inweave.compile(ridge_gd, n=4, d=2, steps=5)
    stale = replace(net, modules=())
    assert stale.certificate is None
    for changed in (stale, replace(net, outputs=()), tampered(replace(net))):
        said = str(changed)
        assert "not verified" in said
        assert "proved" not in said
        assert "verified" not in said.replace("not verified", "")
        changed.explore(tmp_path / "page.html")
        assert '"certificate":null' in (tmp_path / "page.html").read_text(encoding="utf-8")
        changed.save(tmp_path / "net.inweave")
        assert inweave.load(tmp_path / "net.inweave").claim is None
    assert replace(net, record=None).certificate == net.certificate


def test_whoever_is_handed_a_certificate_of_another_network_shows_none(tmp_path):
    """The rooms below the public Network get network and certificate side by side."""
    net = inweave.compile(ridge_gd, n=4, d=2, steps=5)
    stale = replace(net, modules=())
    assert "not verified" in describe(stale, net.origin, net.certificate)
    save(tmp_path / "net.inweave", stale, None, net.certificate)
    assert inweave.load(tmp_path / "net.inweave").claim is None


@pytest.mark.parametrize("factor", [2**31, Fraction(1, 2**31), 2**62])
def test_no_prime_is_known_beforehand(factor):
    """2**31 = 1 modulo 2**31 - 1: with that prime alone, these networks were as good as proved."""

    @inweave.program
    def product(A: Matrix["n", "n"], x: Vector["n"]):
        return A @ x

    net = inweave.compile(product, n=2)
    (module,) = net.modules
    (layer,) = module.body
    (head,) = layer.heads
    (piece,) = head.value.pieces
    value = replace(head.value, pieces=(replace(piece, coefficient=Fraction(factor)),))
    layer = replace(layer, heads=(replace(head, value=value),))
    wrong = replace(net, certificate=None, modules=(replace(module, body=(layer,)),))
    with pytest.raises(VerificationError, match="differ: the answer"):
        inweave.verify(product, wrong)


def test_the_float_difference_is_how_far_apart_program_and_network_are():
    net = inweave.compile(product, n=3, m=2, k=4)
    assert float_difference(net.origin.traced, net.plan) == net.certificate.float_difference
    by = Fraction(1, 2**32)
    off = tampered(net, by=1 + by).plan
    assert float_difference(net.origin.traced, off) == pytest.approx(float(by))
    rounded = inweave.compile(ridge_gd, optimize="depth", n=6, d=4, steps=30).certificate
    assert 0 < rounded.float_difference < 1e-13


@pytest.mark.parametrize("by", [Fraction(1, 2**20), Fraction(1, 2), Fraction(-3)])
def test_what_runs_must_be_the_program_up_to_the_rounding_of_its_terms(by):
    """A proof is of the network: this is where a fault of what runs it shows."""
    net = inweave.compile(product, n=3, m=2, k=4)
    with pytest.raises(VerificationError, match=r"runs the network does not\. .* answer '' is"):
        float_difference(net.origin.traced, tampered(net, by=1 + by).plan)


def test_what_runs_for_several_prompts_is_compared_as_well(monkeypatch):
    """They run in another way than one."""
    net = inweave.compile(product, n=3, m=2, k=4, verify=False)
    answers = Plan.answers

    def wrong_for_several(plan, inputs, *how):
        off = 1e-6 * (np.ndim(next(iter(inputs.values()))) > 2)
        return {name: x + off for name, x in answers(plan, inputs, *how).items()}

    monkeypatch.setattr(Plan, "answers", wrong_for_several)
    with pytest.raises(VerificationError, match="what runs the network does not"):
        float_difference(net.origin.traced, net.plan)


def test_terms_that_cancel_are_no_fault_of_what_runs_them():
    """The answer is a rounding error, and the program has another one."""

    @inweave.program
    def cancelled(A: Matrix["n", "n"]):
        return (A + 1e8 * A) @ A - 1e8 * (A @ A) - A @ A

    for optimize in ("faithful", "depth", "speed"):
        assert inweave.compile(cancelled, n=3, optimize=optimize).certificate.is_proof


def test_a_collapsed_loop_of_many_steps_is_checked_only_on_request():
    """The program is held against it in every step, unless words do or it carries short columns."""
    weighted, many = gallery.weighted_least_squares, affine.LARGEST + 1
    with pytest.warns(UserWarning, match=r"takes about \d+ s or more, and 5 s were allowed"):
        net = inweave.compile(weighted, n=4, d=many, steps=100_000, optimize="depth")
    assert net.certificate is None
    for program, d in ((weighted, 3), (ridge_gd, many)):
        for mode in ("faithful", "depth"):
            net = inweave.compile(program, n=4, d=d, steps=100_000, optimize=mode)
            assert net.certificate is not None


def test_trials_and_seeds_are_whole_numbers():
    net = inweave.compile(ridge_gd, n=4, d=3, steps=2)
    for wrong in ({"trials": 0}, {"trials": 1.5}, {"seed": -1}, {"seed": 0.5}):
        with pytest.raises(ProgramError, match=re.escape(repr(next(iter(wrong.values()))))):
            net.verify(**wrong)


def test_a_coefficient_beyond_floats_is_refused():
    @inweave.program
    def huge(x: Vector["n"]):
        y = inweave.relu(x)  # of any size, so nothing is known to make up for the numbers
        return (1e200 * y).T @ (1e200 * y)

    with pytest.raises(CompileError, match="a coefficient of 400 digits is beyond floating point"):
        inweave.compile(huge, n=2)


def test_numbers_of_more_digits_than_python_writes_are_compiled_saved_and_printed(tmp_path):
    @inweave.program
    def shrinking(A: Matrix["n", "n"], v: Vector["n"]):
        for i in range(400):
            v = 1e-6 * (i + 1) * (A @ v)
        return v

    net = inweave.compile(shrinking, n=2, optimize="depth")
    longest = max(
        piece.coefficient.denominator.bit_length()
        for layer in net.layers
        for head in layer.heads
        for projection in head.projections
        for piece in projection.pieces
    )
    assert longest > 4300 * math.log2(10)
    net.save(tmp_path / "net.inweave")
    again = inweave.load(tmp_path / "net.inweave")
    assert again == net
    assert again.fingerprint == net.fingerprint
    assert "not verified" not in str(net)
    assert "verified" in str(net) or "proved" in str(net)
    repr(net.layers)

    @inweave.program
    def squared(x: Matrix["n", "n"]):
        return inweave.iterate(lambda x: x @ x, x, 15_000)

    net = inweave.compile(squared, n=2)
    assert re.search(r"degree 2\.818e\+4515", str(net))
    assert report(net)["degree"] == "2.818e+4515"
    net.explore(tmp_path / "page.html", x=np.zeros((2, 2)))


def test_long_doubles_are_constants_by_their_exact_value():
    third = np.longdouble(1) / 3

    @inweave.program
    def scaled(x: Vector["n"]):
        return third * x + np.full(2, third)

    net = inweave.compile(scaled, n=2)
    assert net.certificate is not None
    np.testing.assert_allclose(net(x=[3.0, 0.0]), [4 / 3, 1 / 3], rtol=1e-15)


def test_a_dense_relu_layer_is_refused_in_words():
    """Over a field there is no order, and nothing to compare such a layer with."""
    net = inweave.compile(product, n=2, m=2, k=2)
    ones = np.ones((1, net.tokens, net.width))
    for activation, said in (("relu", "no order, hence no ReLU"), ("identity", "differ")):
        layer = PointwiseLayer(ones, ones, ones, ones, activation=activation)
        broken = replace(net, modules=(*net.modules, Module((layer,))))
        with pytest.raises(VerificationError, match=said):
            broken.verify()


def test_a_denominator_may_be_any_number():
    @inweave.program
    def scaled(x: Vector["n"]):
        return x / (2**31 - 1)

    assert inweave.compile(scaled, n=2).certificate is not None


def test_verification_repeats_with_its_seed():
    net = inweave.compile(product, verify=False, n=2, m=2, k=2)
    assert net.certificate is None
    assert net.verify(seed=5) == net.verify(seed=5)
    assert net.certificate == net.verify(seed=5)


def test_verification_needs_a_trial_and_a_program():
    net = inweave.compile(product, n=2, m=2, k=2)
    with pytest.raises(ProgramError, match="at least one trial"):
        net.verify(trials=0)
    with pytest.raises(InputError, match=r"use inweave\.verify\(program, network\)"):
        inweave.paper.ridge_lsa(2, 2, 1).verify()


# -- wrong networks --------------------------------------------------------------------------------
def tampered(net, module=0, layer=0, head=0, part="value", piece=0, by=Fraction(2)):
    """The network with one coefficient changed."""
    old = net.modules[module].body[layer]
    assert isinstance(old, AttentionLayer)
    projection = getattr(old.heads[head], part)
    pieces = list(projection.pieces)
    pieces[piece] = replace(pieces[piece], coefficient=pieces[piece].coefficient * by)
    heads = list(old.heads)
    heads[head] = replace(heads[head], **{part: Projection(tuple(pieces))})
    body = list(net.modules[module].body)
    body[layer] = replace(old, heads=tuple(heads))
    modules = list(net.modules)
    modules[module] = replace(net.modules[module], body=tuple(body))
    return replace(net, modules=tuple(modules))


def test_a_wrong_product_names_the_first_entry_and_the_first_layer():
    net = inweave.compile(product, n=3, m=2, k=4)
    with pytest.raises(VerificationError) as caught:
        tampered(net).verify()
    message = str(caught.value)
    assert "'product' differ: the answer, entry (0, 0)" in message
    assert "first at module 0, layer 0, which writes block 'answer'" in message


@pytest.mark.parametrize("mode", ["faithful", "speed", "depth"])
def test_a_wrong_step_names_its_layer(mode):
    net = inweave.compile(ridge_gd, optimize=mode, n=5, d=3, steps=7)
    index = len(net.modules) - 1 if mode == "depth" else 0
    last = len(net.modules[index].body) - 1
    with pytest.raises(VerificationError, match=rf"first at module {index}.*layer {last}"):
        tampered(net, module=index, layer=last).verify()


def test_the_named_output_is_the_first_that_is_wrong():
    @inweave.program
    def two(A: Matrix["n", "n"], x: Vector["n"]):
        return {"right": x + x, "wrong": A @ x}

    @inweave.program
    def other(A: Matrix["n", "n"], x: Vector["n"]):
        return {
            "right": x + x,
            "wrong": A @ x + inweave.vstack([inweave.zeros(2), A[0, 1] * inweave.ones(1)]),
        }

    net = inweave.compile(two, n=3)
    with pytest.raises(VerificationError, match=r"output 'wrong', entry \(2, 0\)"):
        inweave.verify(other, net)


def test_a_network_with_another_number_of_steps_is_refused():
    net = inweave.compile(ridge_gd, n=4, d=2, steps=5)
    (i,) = (i for i, module in enumerate(net.modules) if module.carries)
    for times in (0, 4, 6):
        modules = list(net.modules)
        modules[i] = replace(modules[i], repeat=times)
        with pytest.raises(VerificationError):
            replace(net, modules=tuple(modules)).verify()


def test_inputs_and_outputs_must_be_the_programs():
    net = inweave.compile(product, n=2, m=2, k=2)

    @inweave.program
    def other(A: Matrix["n", "n"], C: Matrix["n", "n"]):
        return A @ C

    @inweave.program
    def named(A: Matrix["n", "m"], B: Matrix["m", "k"]):
        return {"AB": A @ B}

    with pytest.raises(VerificationError, match="the network takes"):
        inweave.verify(other, net, n=2)
    with pytest.raises(VerificationError, match="answers"):
        inweave.verify(named, net)


def test_the_shape_and_kind_of_an_answer_are_part_of_what_is_proved():
    """Answers that only broadcast to the program's are others."""

    @inweave.program
    def three(s: Scalar):
        return s * inweave.ones(3)

    @inweave.program
    def one(s: Scalar):
        return 1 * s

    @inweave.program
    def column(s: Scalar):
        return s * inweave.ones(3, 1)

    nets = {program: inweave.compile(program) for program in (three, one, column)}
    for program, said in ((three, "a vector of 3"), (one, "a scalar"), (column, "a 3 x 1 matrix")):
        for other, net in nets.items():
            if other is not program:
                with pytest.raises(VerificationError, match=rf"answers {said}; the network ans"):
                    inweave.verify(program, net)
    swapped = replace(nets[three], outputs=(replace(nets[three].outputs[0], kind="matrix"),))
    with pytest.raises(VerificationError, match="answers a 3 x 1 matrix"):
        swapped.verify()


def test_the_kind_of_an_input_is_part_of_what_is_proved():
    @inweave.program
    def vectors(x: Vector["n"]) -> Scalar:
        return x.T @ x

    @inweave.program
    def columns(x: Matrix["n", 1]) -> Scalar:
        return x.T @ x

    with pytest.raises(VerificationError, match=r"x \(a 2 x 1 matrix\); the network takes x \(a v"):
        inweave.verify(columns, inweave.compile(vectors, n=2), n=2)


def test_a_sign_that_the_network_asks_for_is_stated():
    net = inweave.paper.ridge_lsa(4, 3, 2)
    found = inweave.verify(ridge, net, steps=2)
    assert found.conditions == ("for nonnegative lam", "for positive eta")
    assert "for positive eta" in str(found)
    assert read(Certificate, write(Certificate, found)) == found
    assert inweave.compile(ridge_gd, n=4, d=3, steps=2).certificate.conditions == ()


def test_scratch_left_behind_by_a_step_is_noticed():
    net = inweave.compile(ridge_gd, n=4, d=2, steps=5)
    layer = net.modules[0].body[-1]
    assert isinstance(layer, AttentionLayer)
    # Without the head that clears scratch, one step is right and the second is not.
    for drop in range(len(layer.heads)):
        heads = tuple(head for i, head in enumerate(layer.heads) if i != drop)
        body = (*net.modules[0].body[:-1], replace(layer, heads=heads))
        broken = replace(net, modules=(replace(net.modules[0], body=body), *net.modules[1:]))
        with pytest.raises(VerificationError):
            broken.verify()


# -- tables ----------------------------------------------------------------------------------------
def with_table(net, change):
    """The network with its only function changed."""
    (i,) = (i for i, m in enumerate(net.modules) for x in m.body if hasattr(x, "applied"))
    body = [
        replace(x, applied=tuple((p, change(f)) for p, f in x.applied))
        if hasattr(x, "applied")
        else x
        for x in net.modules[i].body
    ]
    modules = (*net.modules[:i], replace(net.modules[i], body=tuple(body)), *net.modules[i + 1 :])
    return replace(net, modules=modules)


@inweave.program
def precise(p: Scalar) -> Scalar:
    return inweave.reciprocal(p, domain=(1e-3, 1e2))


@inweave.program
def coarse(p: Scalar) -> Scalar:
    return inweave.reciprocal(p, domain=(1e-3, 1e2), error=0.9)


NOTHING = ReluNet((1.0,), (0.0,), (0.0,), 0.0)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: replace(f, net=NOTHING),
        lambda f: replace(f, net=NOTHING, error=0.0),
        lambda f: replace(f, net=replace(f.net, constant=f.net.constant + 1e-3)),
        lambda f: replace(f, domain=(1e-2, 1e2)),
    ],
    ids=["nothing", "said to be exact", "a little off", "narrower"],
)
def test_a_reciprocals_table_is_part_of_what_is_proved(change):
    net = inweave.compile(precise)
    with pytest.raises(VerificationError, match="if every reciprocal were exactly 1/x"):
        with_table(net, change).verify()


def test_a_coarser_reciprocal_is_not_a_finer_one():
    with pytest.raises(VerificationError, match=r"wrong by up to 4\.\de-03 .* reaches \d\.\de-1"):
        inweave.verify(precise, inweave.compile(coarse))
    inweave.verify(coarse, inweave.compile(coarse))


def test_newton_steps_are_part_of_what_is_proved():
    """With the field's inverse for the table they change nothing, so they would not be missed."""
    net, short = inweave.compile(precise), inweave.compile(coarse)
    table = next(f for x in net.layers if hasattr(x, "applied") for _, f in x.applied)
    with pytest.raises(VerificationError, match="if every reciprocal were exactly 1/x"):
        inweave.verify(precise, with_table(short, lambda _: table))


def test_a_network_with_a_better_table_of_its_own_is_proved_and_its_error_stated():
    @inweave.program
    def wanted(x: Vector["n"]):
        return inweave.reciprocal(x, domain=(0.5, 4), error=1e-2)

    @inweave.program
    def better(x: Vector["n"]):
        return inweave.reciprocal(x, domain=(0.25, 8), error=1e-4)

    net = inweave.compile(better, n=3)
    found = inweave.verify(wanted, net)
    assert found.conditions == ("with 1/x in place of every reciprocal",)
    (note,) = found.functions
    assert "on [0.25, 8]" in note
    stated = float(re.search(r"at most (\S+), from the network's own knots", note)[1])
    x = np.linspace(0.25, 8, 30_000).reshape(-1, 3)
    measured = np.max(np.abs(x * net(x=x) - 1))
    assert measured <= stated <= min(1.1 * measured, 1e-4)
    with pytest.raises(VerificationError, match="and the program reaches"):
        inweave.verify(better, inweave.compile(wanted, n=3))


@given(
    st.lists(st.tuples(*[st.floats(-4, 4, width=32)] * 3), min_size=1, max_size=8),
    st.floats(-2, 2, width=32),
)
def test_the_error_of_any_table_is_bounded_from_its_knots(units, constant):
    net = ReluNet(*map(tuple, zip(*units, strict=True)), constant)
    low, high = 0.5, 3.0
    bound = reciprocal_error(net, low, high)
    x = np.linspace(low, high, 2001)
    knots = [-b / w for w, b, _ in units if w and low < -b / w < high]
    measured = np.max(np.abs(np.r_[x, knots] * net(np.r_[x, knots]) - 1))
    assert measured <= bound <= measured * (1 + 1e-3) + 1e-2


# -- loops -----------------------------------------------------------------------------------------
def test_a_tied_loop_is_proved_by_induction_and_the_cost_does_not_grow():
    for steps in (5, 10**6):
        net = inweave.compile(ridge_gd, n=4, d=2, steps=steps, verify=False)
        assert net.verify(trials=2).method == "induction"
        assert net.verify().method == "algebra"


def test_a_collapsed_loop_is_written_in_words_or_run_whole():
    for program, method in ((ridge_gd, "words"), (gallery.weighted_least_squares, "direct")):
        net = inweave.compile(program, optimize="depth", n=4, d=2, steps=81)
        assert net.certificate.method == method


def test_a_symmetric_state_is_proved_by_induction_over_symmetric_states():
    net = inweave.compile(two_sided, n=2, steps=1000, verify=False)
    assert net.verify(trials=2).method == "induction"
    net = inweave.compile(newton_schulz, n=3, steps=4)
    assert net.certificate.method == "algebra"
    assert net.verify(trials=2).method == "induction"


def test_induction_and_direct_checking_agree_on_every_case():
    for case in CASES:
        net = inweave.compile(case.program, **case.sizes)
        plain = tuple(without_carries(module) for module in net.modules)
        assert replace(net, modules=plain).verify(trials=2).method == "direct"


def without_carries(part):
    if not isinstance(part, Module):
        return part
    return replace(part, body=tuple(map(without_carries, part.body)), carries=())


# -- the paper's own networks ----------------------------------------------------------------------
@pytest.mark.parametrize("steps", [0, 1, 2, 6])
@pytest.mark.parametrize(
    "network",
    [
        lambda steps: inweave.paper.ridge_lsa(4, 3, steps),
        lambda steps: inweave.paper.ridge_lsa(4, 3, steps, module="elsa"),
        lambda steps: inweave.paper.ridge_elsa(4, 3, steps),
    ],
    ids=["designed form, LSA", "designed form, ELSA", "enumerated form, ELSA"],
)
@pytest.mark.filterwarnings("ignore:.*does not use its input")
def test_the_papers_networks_compute_ridge_regression(network, steps):
    net = network(steps)
    found = inweave.verify(ridge, net, steps=steps)
    assert found.network == net.fingerprint
    assert found.probability < 1e-9


@pytest.mark.parametrize("make", [inweave.paper.ridge_lsa, inweave.paper.ridge_elsa])
def test_the_papers_networks_do_not_compute_one_step_more(make):
    with pytest.raises(VerificationError, match="entry"):
        inweave.verify(ridge, make(4, 3, 5), steps=6)


# -- degrees ---------------------------------------------------------------------------------------
def degree_by_interpolation(traced, limit, seed=0):
    """The degree along a random ray t x in exact rationals: finite differences of values."""
    rng = np.random.default_rng(seed)
    point = {
        spec.name: fractions(rng.integers(1, 10, size=(spec.rows, spec.cols)).astype(float))
        for spec in traced.inputs
    }
    rows = []
    for t in range(limit + 2):
        scaled = {name: x * Fraction(t) for name, x in point.items()}
        found = traced.evaluate(scaled, Rationals())
        rows.append([entry for value in found.values() for entry in np.ravel(value)])
    best, order = 0, 0
    while rows:
        if any(rows[0]):
            best = order
        rows = [[b - a for a, b in zip(x, y, strict=True)] for x, y in itertools.pairwise(rows)]
        order += 1
    assert best <= limit, "the limit was too small to tell"
    return best


@inweave.program
def cancelling(A: Matrix["n", "n"], B: Matrix["n", "n"]):
    return (A + B) @ (A - B) - A @ A + B @ A + inweave.eye(2)


@inweave.program
def vanishing(A: Matrix["n", "n"], x: Vector["n"]):
    return x.T @ (A - A.T) @ x


@inweave.program
def commuting(A: Matrix["n", "n"], x: Vector["n"]):
    return A @ (A @ A) @ x - (A @ A) @ (A @ x) + 2 * x


@pytest.mark.parametrize(
    ("program", "sizes", "expected"),
    [
        (product, {"n": 2, "m": 2, "k": 2}, 2),
        (ridge_gd, {"n": 2, "d": 2, "steps": 1}, 4),
        (ridge_gd, {"n": 2, "d": 2, "steps": 3}, 10),
        (newton_schulz, {"n": 2, "steps": 2}, 14),
        (scalar_loop, {"steps": 3}, 8),
        (cancelling, {"n": 2}, 2),
        (vanishing, {"n": 2}, 0),
        (commuting, {"n": 2}, 1),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_the_degree_is_exact(program, sizes, expected):
    traced = program.trace(**sizes)
    assert degree(traced) == (expected, True)
    assert degree_by_interpolation(traced, limit=20) == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_degree_of_every_case_agrees_with_interpolation(case):
    traced = case.program.trace(**case.sizes)
    found, is_exact = degree(traced)
    assert is_exact
    if found <= 30:
        assert degree_by_interpolation(traced, limit=found + 2) == found


def test_the_lower_bound_is_the_logarithm_of_the_degree():
    assert [lower_bound(D) for D in (0, 1, 2, 3, 4, 9, 10, 27, 28, 2188)] == [
        0, 0, 1, 1, 2, 2, 3, 3, 4, 8,
    ]  # fmt: skip


def test_a_degree_beyond_every_prime_is_refused_instead_of_certified():
    with pytest.raises(inweave.VerificationError, match=r"proves nothing.*inweave\.iterate"):
        inweave.compile(squared(1050))
    assert inweave.compile(squared(1050), verify=False).certificate is None

    @inweave.program
    def as_advised(s: Scalar) -> Scalar:
        return inweave.iterate(lambda x: x * x, s, 40)

    net = inweave.compile(as_advised)
    assert net.certificate.is_proof
    certificate = net.verify(trials=2)
    assert certificate.method == "induction"
    assert certificate.probability < 1e-15


def squared(times, factor=1):
    @inweave.program
    def near(s: Scalar) -> Scalar:
        for i in range(times):  # steps that never repeat thrice (Thue and Morse): no loop is found
            s = inweave.hold(s * s)
            if i.bit_count() % 2:
                s = inweave.hold(-s)
        return factor * s

    return near


@pytest.mark.parametrize("squarings", [31, 64, 200])
def test_a_degree_beyond_short_primes_is_proved_with_longer_ones(squarings):
    net = inweave.compile(squared(squarings))
    found = net.certificate
    assert (found.method, found.trials, found.degree) == ("direct", 2, 2**squarings)
    assert found.probability <= 1e-12
    assert found.degree / found.prime <= found.probability ** (1 / 2)
    for other in (squared(squarings - 1), squared(squarings, 1 + 2.0**-52)):
        with pytest.raises(VerificationError, match="differ"):
            inweave.verify(other, net)


def test_that_a_long_number_is_no_prime_is_in_the_stated_probability():
    assert of_bits(64).doubt == 64 / 4**40
    assert Size(0, 0.0, primes=of_bits(64)).risk(1) == of_bits(64).doubt
    for bits in LENGTHS:
        primes = of_bits(bits)
        a, b = (Size(D, B, primes=primes).risk(1) for D, B in ((10**9, 0.0), (0, 1e9)))
        assert a == pytest.approx(10**9 / primes.least)
        assert b == pytest.approx(1e9 / (bits - 0.415) / primes.many, rel=1e-3)


@pytest.mark.parametrize("squarings", [20, 27, 29, 30])
def test_a_degree_near_the_prime_is_proved_with_as_many_trials_as_it_takes(squarings):
    net = inweave.compile(squared(squarings))
    found = net.certificate
    assert found.trials > 2
    assert found.probability == pytest.approx(chance(found) ** found.trials)
    assert found.probability <= 1e-12
    assert chance(found) ** (found.trials - 1) > 1e-12
    assert net.verify(trials=found.trials + 5).trials == found.trials + 5


def test_where_time_is_short_the_seconds_that_are_advised_are_enough():
    net = inweave.compile(squared(29), verify=False)
    with pytest.raises(TooFewTrials, match=r"trials are enough for 1e-12.*0 s were allowed") as no:
        check("near", net.origin.traced, net, trials=2, seconds=0)
    trials, seconds = (
        int(re.search(pattern, str(no.value))[1])
        for pattern in (r"(\d+) trials are enough", r"net\.verify\(seconds=(\d+)\)")
    )
    for enough in ({"seconds": seconds}, {"trials": trials, "seconds": 0}):
        found = check("near", net.origin.traced, net, **enough)
        assert found.trials == trials
        assert found.probability <= 1e-12


def test_nothing_less_than_sure_is_ever_certified():
    """Whatever time is allowed: a certificate that states 1e-12 at most, or none."""
    net, certified = inweave.compile(squared(29), verify=False), []
    for seconds in (0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.02, 0.03, 1):
        with suppress(TooFewTrials):
            certified.append(check("near", net.origin.traced, net, seconds=seconds).probability)
    assert 0 < len(certified) < 9
    assert max(certified) <= 1e-12


def test_two_trials_that_take_too_long_are_not_begun(monkeypatch):
    net = inweave.compile(ridge_gd, n=4, d=3, steps=1000, optimize="depth", verify=False)
    monkeypatch.setattr(Comparison, "compare", None)
    with pytest.raises(TooFewTrials, match=r"or more, and 0\.001 s were allowed: call net\.verify"):
        net.verify(seconds=0.001)


def test_a_loop_whose_step_is_another_is_run_whole_only_if_there_is_time(monkeypatch):
    net = inweave.compile(ridge_gd, n=4, d=3, steps=10**9)
    wrong = tampered(net)
    ran = []
    monkeypatch.setattr(Comparison, "_directly", lambda *_args: ran.append(1))
    with pytest.raises(TooFewTrials, match=r"one step of a repeated module is not.*60 s were all"):
        wrong.verify()
    assert ran == []


def test_a_wrong_network_is_refused_before_there_is_talk_of_more_time():
    net = inweave.compile(squared(29), verify=False)
    wrong = replace(net, modules=net.modules[:-1])
    with pytest.raises(VerificationError, match="differ"):
        check("near", net.origin.traced, wrong, trials=2, seconds=0)


@pytest.mark.parametrize("seconds", [-1, "10", None, float("nan"), True])
def test_seconds_are_a_number(seconds):
    with pytest.raises(ProgramError, match="number of seconds"):
        inweave.compile(product, n=2, m=2, k=2).verify(seconds=seconds)


def test_the_chances_of_all_ways_that_were_tried_add_up_to_no_more_than_is_stated(monkeypatch):
    """Some of four may fail before another passes, so each gets a quarter."""
    monkeypatch.setattr(Size, "risk", lambda _self, trials: 10.0**-trials)
    net = inweave.compile(newton_schulz, n=3, steps=2, verify=False)
    ways, compare = [], Comparison.compare

    def failing_at_first(self, method, world):
        ways.append(method)
        if len(ways) == 1:
            raise Mismatch("as if it differed")
        compare(self, method, world)

    monkeypatch.setattr(Comparison, "compare", failing_at_first)
    found = net.verify(trials=1, seed=0)
    assert set(ways) == {"induction", "symmetric induction"}
    assert found.trials == 13
    assert found.probability == pytest.approx(2e-13)


def test_compiling_never_refuses_what_more_trials_would_prove(monkeypatch):
    monkeypatch.setattr(inweave.network, "PATIENCE", 2e-3)
    with pytest.warns(UserWarning, match="not verified yet"):
        net = inweave.compile(squared(29))
    assert net.certificate is None
    assert net.verify().probability <= 1e-12


def test_what_takes_long_to_prove_is_refused_where_it_is_seen_to_be_wrong(monkeypatch):
    """A wrong network is not handed out with a warning that it is not verified yet."""
    net = inweave.compile(product, n=3, m=2, k=4)
    refuse_if_far_off(net.origin.traced, net.plan)
    with pytest.raises(VerificationError, match=r"program differ: in floats, .* answer '' is"):
        refuse_if_far_off(net.origin.traced, tampered(net).plan)
    answers = Plan.answers

    def wrong(plan, *how):
        return {name: x + 1e-6 for name, x in answers(plan, *how).items()}

    def too_long(*_args, **_options):
        raise TooFewTrials("as if it took long")

    monkeypatch.setattr(inweave.network, "_checked", too_long)
    with pytest.warns(UserWarning, match="not verified yet: as if it took long"):
        inweave.compile(product, n=3, m=2, k=4)
    monkeypatch.setattr(Plan, "answers", wrong)
    with pytest.raises(VerificationError, match="network and program differ: in floats"):
        inweave.compile(product, n=3, m=2, k=4)


# -- coefficients ----------------------------------------------------------------------------------
def long_constant(count):
    """A number near 1 whose numerator is divisible by many primes of the range."""
    rng, top = np.random.default_rng(0), 1
    for _ in range(count):
        top *= random_prime(rng)
    return Fraction(top, 2 ** top.bit_length())


def test_primes_that_divide_coefficients_are_in_the_stated_probability():
    c = long_constant(3000)

    @inweave.program
    def scaled(x: Vector["n"]):
        return c * x

    found = inweave.compile(scaled, n=2).verify(trials=2)
    assert found.bits >= c.numerator.bit_length()
    assert found.trials > 2, "two would not do"
    assert (3000 / 2.6e7) ** found.trials <= found.probability <= 1e-12


def test_a_network_that_is_wrong_by_what_the_primes_divide_passes_no_more_often_than_stated(
    monkeypatch,
):
    """The seed is known and its primes divide the difference: the number must allow for that.

    Floats tell them apart, of which the stated probability knows nothing.
    """
    seed = 7
    primes = drawn_primes(seed, trials=2)
    c = Fraction(int(np.prod(primes, dtype=object)))

    @inweave.program
    def right(x: Vector["n"]):
        return x + 0 * x

    @inweave.program
    def wrong(x: Vector["n"]):
        return (1 + c) * x

    off = inweave.compile(wrong, n=2)
    with pytest.raises(VerificationError, match="what runs the network does not"):
        inweave.verify(right, off, seed=seed)
    monkeypatch.setattr("inweave.proof.check.float_difference", lambda *_: None)
    found = inweave.verify(right, off, seed=seed)
    assert found.bits >= c.numerator.bit_length()
    assert found.probability >= (2 / 2.6e7) ** 2
    with pytest.raises(VerificationError, match="differ"):
        inweave.verify(right, off, seed=seed + 1)


def drawn_primes(seed, trials):
    """The primes that a verification of a program with one input of two entries draws."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(trials):
        rng.integers(2**62)
        found.append(random_prime(rng))
        rng.integers(0, found[-1], (2, 1), dtype=np.int64)
    return found


def test_arguments_of_functions_that_may_meet_are_in_the_stated_probability():
    @inweave.program
    def rectified(x: Vector["n"]):
        return inweave.relu(x)

    found = inweave.compile(rectified, n=50).verify(trials=2)
    pairs = 100 * 99 / 2  # fifty arguments in the program, fifty in the network
    assert pairs / (2.0**31) ** found.trials <= found.probability <= 1e-12


def test_which_arguments_are_equal_does_not_depend_on_the_point():
    """Only on the arguments; one that equals another by accident is seen."""
    field = Field(random_prime(np.random.default_rng(0)))
    seen = []
    for values in ([5, 9, 5, 1], [7, 2, 7, 8], [7, 2, 7, 2]):
        arithmetic = FieldArithmetic(field, key=1)
        arithmetic.pointwise(RELU, field.array(np.array(values[:2])))
        arithmetic.pointwise(RELU, field.array(np.array(values[2:])))
        seen.append(arithmetic.meetings()[RELU.digest])
    assert seen == [[0, 1, 0, 3], [0, 1, 0, 3], [0, 1, 0, 1]]


def test_arguments_that_meet_by_accident_are_told_apart_by_other_points():
    """Or a difference between them would not be seen."""
    field = Field(random_prime(np.random.default_rng(0)))
    first = FieldArithmetic(field, key=1)
    first.pointwise(RELU, field.array(np.array([5, 9, 5, 9])))
    again = FieldArithmetic(field, key=1, meetings=first.meetings())
    a, b, c, d = again.pointwise(RELU, field.array(np.array([7, 7, 7, 8]))).values
    assert (a, b) == (c, d)
    assert a != b  # 7 and 7 were 5 and 9
    assert again.meetings() == {RELU.digest: [0, 1, 0, 3]}  # 9 and 9 are 7 and 8


def test_many_arguments_of_a_function_do_not_refuse_a_right_program():
    """Among so many some meet at every point: modulo 31 bits, about ten pairs."""

    @inweave.program
    def sizes(x: Vector["n"]):
        return inweave.relu(x) + inweave.relu(-x)

    net = inweave.compile(sizes, n=150_000, verify=False)
    found = net.verify(trials=2, seed=0)
    assert found.trials >= 3
    assert 0 < found.probability <= 1e-12
    with pytest.raises(VerificationError, match="were not found equal"):
        check("sizes", net.origin.traced, tampered(net), trials=2, seed=0)


def test_steps_of_an_ordinary_size_are_counted_too():
    @inweave.program
    def descent(X: Matrix["n", "d"], y: Vector["n"], *, steps: int):
        start = inweave.zeros(X.shape[1])
        return inweave.iterate(lambda w: w - 0.1 * (X.T @ (X @ w - y)), start, steps)

    found = inweave.compile(descent, n=4, d=2, steps=80, optimize="depth").certificate
    assert found.bits > 80 * 50
    assert chance(found) ** found.trials <= found.probability <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("mode", ["faithful", "depth"])
@pytest.mark.usefixtures("compiled_once")
def test_heights_bound_the_coefficients_of_programs_and_networks(case, mode):
    """At ±1 a polynomial is at most the sum of its coefficients, and a whole number over scale."""
    net = inweave.compile(case.program, optimize=mode, verify=False, **case.sizes)
    traced, rng = net.origin.traced, np.random.default_rng(0)
    free = {s.name: Bounded((s.rows, s.cols), VARIABLE) for s in net.inputs}
    found = {
        **{("program", name): x for name, x in traced.evaluate(free, Heights()).items()},
        **{("network", name): x for name, x in net.plan.answers(free, Heights()).items()},
    }
    for _ in range(3):
        point = {s.name: fractions(rng.choice([-1.0, 1.0], (s.rows, s.cols))) for s in net.inputs}
        exact = traced.evaluate(point, Rationals())
        for (_, name), x in found.items():
            scale = math.prod(base**power for base, power in x.height.scale)
            for entry in np.ravel(exact[name]):
                assert (entry * scale).denominator == 1
                assert abs(entry * scale) <= 2 ** (x.height.bits + 1e-6)


def test_a_difference_of_fractions_has_the_degree_of_a_sum():
    """1/x - 1/y = (y - x)/(x y): degrees add up over denominators, over inner dimensions too."""
    quotient = Bounded((1, 3), VARIABLE.inverse())
    assert (quotient - quotient).height.degree == 1
    assert (quotient @ quotient.mT).height.below == 6
    assert (quotient @ quotient.mT).height.degree == 4


def test_a_loop_beside_a_repetition_that_is_none_is_advised_to_be_kept(monkeypatch):
    @inweave.program
    def beside(s: Scalar, *, steps: int) -> Scalar:
        for _ in range(40):
            s = inweave.hold(s * s)
        return inweave.iterate(lambda x: x + s, s, steps)

    monkeypatch.setattr("inweave.proof.check.LENGTHS", ())  # or the degree would be no obstacle
    with pytest.raises(inweave.VerificationError, match=r'optimize="faithful".*inweave\.iterate'):
        inweave.compile(beside, optimize="depth", steps=3)


# -- loops of affine steps -------------------------------------------------------------------------
@inweave.program
def descent(X: Matrix["n", "d"], Y: Matrix["n", "k"], W: Matrix["d", "k"], eta: Scalar, *, T: int):
    return inweave.iterate(lambda W: W - eta * X.T @ (X @ W - Y), W, T)


@inweave.program
def two_carried(A: Matrix["d", "d"], x: Vector["d"], s: Scalar, *, T: int):
    def step(x, v, t):
        return x - 3 * v + t * A[:, 0], A @ v + x / 7, t / 2 + x[0] * s

    return inweave.iterate(step, (x, 2 * x, s), T)


@inweave.program
def in_rows(A: Matrix["d", "d"], x: Vector["d"], *, T: int):
    return inweave.iterate(lambda row: (row @ A).T.T + x.T, x.T, T)


@inweave.program
def entrywise(x: Vector["d"], y: Vector["d"], *, T: int):
    return inweave.iterate(lambda w: w * x - 0.25 * y, y, T)


@inweave.program
def bilinear(A: Matrix["d", "d"], x: Vector["d"], *, T: int):
    return inweave.iterate(lambda x, v: (A @ v, (x @ v) * v), (x, x), T)[0]


@inweave.program
def both_sides(A: Matrix["d", "d"], P: Matrix["d", "d"], *, T: int):
    return inweave.iterate(lambda P: A @ P @ A.T, P, T)


AFFINE = {descent: {"n": 3, "d": 2, "k": 2}, two_carried: {"d": 3}, in_rows: {"d": 3}}
AFFINE |= {entrywise: {"d": 3}}


@pytest.mark.parametrize("T", [33, 34, 63, 64, 100, 257])
@pytest.mark.parametrize("program", AFFINE, ids=lambda program: program.name)
def test_all_steps_of_an_affine_loop_at_once_are_those_one_by_one(program, T):
    traced = program.trace(T=T, **AFFINE[program])
    (loop,) = {x.loop for x in every(traced.outputs.values()) if isinstance(x, LoopResult)}
    rng = np.random.default_rng(T)
    arithmetic = FieldArithmetic(Field(random_prime(rng)))
    inputs = {s.name: arithmetic.field.random((s.rows, s.cols), rng) for s in traced.inputs}
    known = {x: inputs[x.name] for x in ordered(traced.outputs.values()) if hasattr(x, "name")}
    evaluate.fill(ordered([*loop.init, *loop.outer]), known, arithmetic)
    begin = [evaluate.value(x, known, arithmetic) for x in loop.init]
    found = affine.powered(loop, begin, known, arithmetic)
    expected = evaluate.run(loop, begin, known, arithmetic, T)
    for one, other in zip(found, expected, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("program", [bilinear, both_sides], ids=lambda program: program.name)
def test_steps_that_are_not_affine_in_columns_are_taken_one_by_one(program):
    traced = program.trace(T=40, d=3)
    (loop,) = {x.loop for x in every(traced.outputs.values()) if isinstance(x, LoopResult)}
    assert affine.column_size(loop) is None


@pytest.mark.parametrize("T", [33, 60])
@pytest.mark.parametrize("program", AFFINE, ids=lambda program: program.name)
def test_the_bounds_of_all_steps_at_once_are_no_less_than_those_one_by_one(program, T):
    traced = program.trace(T=T, **AFFINE[program])
    (loop,) = {x.loop for x in every(traced.outputs.values()) if isinstance(x, LoopResult)}
    heights = Heights()
    inputs = {s.name: Bounded((s.rows, s.cols), VARIABLE) for s in traced.inputs}
    known = {x: inputs[x.name] for x in ordered(traced.outputs.values()) if hasattr(x, "name")}
    evaluate.fill(ordered([*loop.init, *loop.outer]), known, heights)
    begin = [evaluate.value(x, known, heights) for x in loop.init]
    found = affine.bounded(loop, begin, known, heights)
    taken = evaluate.run(loop, begin, known, heights, T)
    for one, other in zip(found, taken, strict=True):
        assert one.height.degree >= other.height.degree
        assert one.height.bits >= other.height.bits - 1e-6


def test_a_collapsed_network_of_another_number_of_steps_is_refused():
    net = inweave.compile(descent, n=3, d=2, k=2, T=300, optimize="depth")
    assert net.certificate.method == "direct"
    assert net.certificate.probability <= 1e-12
    with pytest.raises(inweave.VerificationError, match="differ"):
        inweave.verify(descent, net, T=301)
