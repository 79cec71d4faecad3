"""Section 3 of the paper, equation by equation: both ridge networks against the printed matrices.

Each test runs on every case of `CASES`: float64, to 1e-12 of the size of the numbers involved, and
exact rationals, where equality is asked for. The references are gradient descent in plain numpy and
block matrices written with `np.block`, both below; at convergence, `numpy.linalg.solve`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import paper
from inweave.exact.arithmetic import Rationals
from inweave.model import dense
from inweave.model.prompt import fill_prompt


# -- references -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Case:
    """One regression problem; all arrays are matrices, floats or Fractions."""

    n: int
    d: int
    steps: int
    exact: bool = False
    lam_is_zero: bool = False

    def __repr__(self):
        kind = "rational" if self.exact else "float"
        zero = ",lam=0" if self.lam_is_zero else ""
        return f"{kind},n={self.n},d={self.d},T={self.steps}{zero}"

    @cached_property
    def numbers(self):
        rng = np.random.default_rng([self.n, self.d, self.steps])
        n, d = self.n, self.d
        shapes = {"X": (n, d), "y": (n, 1), "u": (d, 1), "w0": (d, 1)}
        if self.exact:
            entries = {k: rng.integers(-4, 5, s).astype(object) for k, s in shapes.items()}
            third = np.vectorize(lambda k: Fraction(k, 3), otypes=[object])
            roots = {"root_eta": Fraction(2, 7), "root_lam": Fraction(3, 2)}
            entries = {k: third(v) for k, v in entries.items()}
        else:
            entries = {k: rng.normal(size=s) for k, s in shapes.items()}
            top = np.linalg.norm(entries["X"], 2) ** 2 + 0.49
            roots = {"root_eta": np.sqrt(1 / top), "root_lam": np.sqrt(0.49)}
        if self.lam_is_zero:
            roots["root_lam"] *= 0
        return entries | roots

    def __getattr__(self, name):
        try:
            return self.numbers[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def eta(self):
        return self.root_eta * self.root_eta

    @property
    def lam(self):
        return self.root_lam * self.root_lam

    @property
    def inputs(self):
        """What a user hands over."""
        return {
            "X": self.X,
            "y": self.y[:, 0],
            "u": self.u[:, 0],
            "w0": self.w0[:, 0],
            "lam": self.lam,
            "eta": self.eta,
        }

    def delta(self, w):
        """Equation (36)."""
        return -self.X.T @ self.y + self.X.T @ (self.X @ w) + self.lam * w

    @cached_property
    def w(self):
        """w_0, ..., w_T by equation (35)."""
        found = [self.w0]
        for _ in range(self.steps):
            found.append(found[-1] - self.eta * self.delta(found[-1]))
        return found

    @cached_property
    def answer(self):
        return (self.u.T @ self.w[-1])[0, 0]

    # -- zero and identity in the same numbers
    def zeros(self, rows, cols):
        return np.zeros((rows, cols), dtype=self.X.dtype)

    def eye(self, size):
        return np.eye(size, dtype=self.X.dtype)

    def last_column(self, column, rows, s):
        """Zeros but for a column at the top of the last of s columns."""
        out = self.zeros(rows, s)
        out[: len(column), -1:] = column
        return out

    # -- the printed prompts
    def designed(self, w, answer=0):
        """Equation (37), (50), or (55) with the answer in the lower right corner."""
        n, d, O, eta = self.n, self.d, self.zeros, self.root_eta
        corner = O(1, 1) + answer
        top = [eta * self.X.T, O(d, n), O(d, 1), eta * self.root_lam * self.eye(d), self.u, w]
        return np.block([top, [O(1, n), eta * self.y.T, self.eye(1), O(1, d), O(1, 1), corner]])

    @property
    def Y0(self):
        return np.block([self.zeros(self.n, self.d - 1), self.y])

    def enumerated(self, w, answer=0):
        """Equation (56), (78), or (86) with the answer on top of its column."""
        z = np.concatenate([self.zeros(1, 1) + answer, self.zeros(self.d - 1, 1)])
        I = self.eye(self.d)
        return np.block([self.X.T, self.Y0.T, self.lam * I, self.root_eta * I, self.u, z, w])

    # -- running and comparing
    def prompt(self, net):
        if not self.exact:
            return net.prompt(**self.inputs)
        one = {"lam": self.lam, "eta": self.eta}
        lifted = {k: getattr(self, k) for k in ("X", "y", "u", "w0")}
        lifted |= {k: np.array([[v]], dtype=object) for k, v in one.items()}
        return fill_prompt(net.layout, net.fills, lifted, Rationals())

    def trace(self, net):
        if not self.exact:
            return net.trace(**self.inputs)
        return dense.trace(net, self.prompt(net), Rationals())

    def same(self, got, expected):
        assert got.shape == np.shape(expected)
        if self.exact:
            assert all(isinstance(x, Fraction) for x in got.flat), "not exact"
            assert (got == expected).all()
        else:
            scale = np.abs(expected).max() + np.abs(self.X).max() ** 2
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * scale)

    def step(self, t):
        """The trace's name of step t (0-based) of the repeated module."""
        return "module 0" if self.steps == 1 else f"module 0, step {t}"


FLOATS = [(1, 1, 0), (1, 1, 1), (5, 1, 3), (1, 3, 3), (2, 4, 5), (6, 3, 0), (6, 3, 1), (9, 4, 20)]
EXACT = [(1, 1, 1), (2, 1, 0), (2, 3, 2), (3, 2, 2), (1, 2, 1)]
CASES = [Case(*size) for size in FLOATS]
CASES += [Case(4, 2, 3, lam_is_zero=True)]
CASES += [Case(*size, exact=True) for size in EXACT]
CASES += [Case(3, 2, 1, exact=True, lam_is_zero=True)]

every_case = pytest.mark.parametrize("case", CASES, ids=repr)
case_with_a_step = pytest.mark.parametrize("case", [c for c in CASES if c.steps], ids=repr)


def lsa(case):
    return paper.ridge_lsa(case.n, case.d, case.steps)


def lsa_in_elsa_modules(case):
    return paper.ridge_lsa(case.n, case.d, case.steps, module="elsa")


def elsa(case):
    return paper.ridge_elsa(case.n, case.d, case.steps)


every_network = pytest.mark.parametrize(
    "build", [lsa, lsa_in_elsa_modules, elsa], ids=lambda f: f.__name__
)


def weights(case, net, projection):
    """Dense W and B of a projection, in the case's numbers."""
    arithmetic = Rationals() if case.exact else None
    return projection.weight(net.layout, arithmetic), projection.bias(net.layout, arithmetic)


def no_bias(case, net, *projections):
    for projection in projections:
        assert not projection.has_bias
        case.same(weights(case, net, projection)[1], case.zeros(net.tokens, net.width))


def is_zero_head(head):
    return all(projection.pieces == () for projection in head.projections)


# -- 3.1 to 3.3: the problem ----------------------------------------------------------------------
@pytest.mark.parametrize("case", [c for c in CASES if c.exact], ids=repr)
def test_eq_33_34_the_gradient_of_the_cost_is_delta(case):
    def cost(w):
        residual = case.y - case.X @ w
        return (residual.T @ residual + case.lam * (w.T @ w))[0, 0] / 2

    for k in range(case.d):
        h = case.eye(case.d)[:, k : k + 1] * Fraction(1, 8)
        slope = (cost(case.w0 + h) - cost(case.w0 - h)) * 4  # exact: the cost is quadratic
        assert slope == case.delta(case.w0)[k, 0]


@every_network
def test_eq_31_32_at_convergence_the_answer_is_that_of_the_ridge_estimator(build):
    case = Case(20, 3, 400)
    F = case.X.T @ case.X + case.lam * np.eye(case.d)
    closed_form = case.u.T @ np.linalg.solve(F, case.X.T @ case.y)
    np.testing.assert_allclose(build(case)(**case.inputs), closed_form[0, 0], rtol=1e-12)


@every_network
@every_case
def test_eq_35_36_the_answer_is_that_of_gradient_descent(build, case):
    net = build(case)
    case.same(net.readout(case.trace(net).final), case.answer)
    if not case.exact:
        case.same(net(**case.inputs), case.answer)


@every_network
@settings(max_examples=25)
@given(n=st.integers(1, 8), d=st.integers(1, 6), steps=st.integers(0, 6))
def test_gradient_descent_at_any_size(build, n, d, steps):
    case = Case(n, d, steps)
    case.same(build(case)(**case.inputs), case.answer)


# -- 3.4 the designed input form ------------------------------------------------------------------
@every_case
def test_eq_37_the_designed_prompt_is_as_printed(case):
    net = lsa(case)
    assert (net.tokens, net.width) == (case.d + 1, 2 * case.n + case.d + 3)
    case.same(case.prompt(net), case.designed(case.w0))


@every_case
def test_eq_38_39_a_module_adds_the_sum_of_its_heads(case):
    trace = case.trace(lsa(case))
    modules = [(case.step(t), 3) for t in range(case.steps)] + [("module 1", 3)]
    before = trace.states["input"]
    for name, heads in modules:
        layer = trace[f"{name}, layer 0"]
        assert len(layer.heads) == heads
        case.same(layer.output, sum(head.output for head in layer.heads))
        case.same(trace.states[name], layer.output + before)
        before = trace.states[name]


@every_case
def test_eq_40_the_gram_matrix_of_the_designed_form(case):
    H = case.designed(case.w0)
    case.same(gram(case, paper.designed_gram(case.n, case.d)), H.T @ H)


@case_with_a_step
def test_eq_41_to_44_key_and_value_pick_one_block_of_the_gram_matrix(case):
    net = lsa(case)
    trace = case.trace(net)
    s, layer = net.width, net.modules[0].body[0]
    for t, w in enumerate(case.w[:-1]):
        H = case.designed(w)
        picked = [case.y, case.X @ w, case.root_lam * w]
        heads = trace[f"{case.step(t)}, layer 0"].heads
        for head, weight, column in zip(heads, layer.heads, picked, strict=True):
            expected = case.last_column(case.root_eta * column, s, s)  # (42) to (44)
            case.same(head.key.T @ head.value, expected)
            W1, W2 = (weights(case, net, p)[0] for p in (weight.key, weight.value))
            case.same(W1.T @ (H.T @ H) @ W2, expected)  # (41)


@case_with_a_step
def test_eq_45_to_48_the_query_weights_and_the_queries(case):
    net = lsa(case)
    n, d, s, O, I = case.n, case.d, net.width, case.zeros, case.eye
    heads = net.modules[0].body[0].heads
    W13 = np.block([[I(n), O(n, s - n)], [O(s - n, n), O(s - n, s - n)]])
    W33 = np.block(
        [[O(s - d - 2, d), O(s - d - 2, s - d)], [-I(d), O(d, s - d)], [O(2, d), O(2, s - d)]]
    )
    for head, W in zip(heads, (W13, -W13, W33), strict=True):  # (45)
        case.same(weights(case, net, head.query)[0], W)
        no_bias(case, net, *head.projections)
    X = np.block([[case.root_eta * case.X.T, O(d, s - n)], [O(1, n), O(1, s - n)]])
    ridge = -case.root_eta * case.root_lam * I(d)
    ridge = np.block([[ridge, O(d, s - d)], [O(1, d), O(1, s - d)]])
    for step in case.trace(net):
        if step.name.startswith("module 0"):
            for head, query in zip(step.heads, (X, -X, ridge), strict=True):  # (46) to (48)
                case.same(head.query, query)


@case_with_a_step
def test_eq_49_the_heads_of_a_step_sum_to_the_update(case):
    net = lsa(case)
    trace = case.trace(net)
    for t, w in enumerate(case.w[:-1]):
        expected = case.last_column(-case.eta * case.delta(w), case.d + 1, net.width)
        case.same(trace.states[f"{case.step(t)}, layer 0"], expected)


@every_case
def test_eq_50_every_state_of_the_designed_form_is_as_printed(case):
    trace = case.trace(lsa(case))
    case.same(trace.states["input"], case.designed(case.w[0]))
    for t in range(case.steps):
        case.same(trace.states[case.step(t)], case.designed(case.w[t + 1]))


@every_case
def test_eq_51_to_55_the_read_out_of_the_designed_form(case):
    net = lsa(case)
    n, d, s, O = case.n, case.d, net.width, case.zeros
    layer = net.modules[1].body[0]
    first = case.trace(net)["module 1, layer 0"].heads[0]
    answer = case.eye(1) * case.answer
    picked = np.block([[O(s - 1, s - 1), O(s - 1, 1)], [O(1, s - 1), answer]])
    case.same(first.key.T @ first.value, picked)  # (51)
    W3 = [
        [O(2 * n, s - 1), O(2 * n, 1)],
        [O(1, s - 1), case.eye(1)],
        [O(d + 2, s - 1), O(d + 2, 1)],
    ]
    case.same(weights(case, net, layer.heads[0].query)[0], np.block(W3))  # (52)
    query = np.block([[O(d, s - 1), O(d, 1)], [O(1, s - 1), case.eye(1)]])
    case.same(first.query, query)  # (53)
    assert [is_zero_head(head) for head in layer.heads] == [False, True, True]
    trace = case.trace(net)
    P = np.block([[O(d, s - 1), O(d, 1)], [O(1, s - 1), answer]])
    case.same(trace.states["module 1, layer 0"], P)  # (54)
    case.same(trace.final, case.designed(case.w[-1], case.answer))  # (55)


# -- 3.5 the enumerated input form ----------------------------------------------------------------
@every_case
def test_eq_56_the_enumerated_prompt_is_as_printed(case):
    net = elsa(case)
    assert (net.tokens, net.width) == (case.d, 2 * case.n + 2 * case.d + 3)
    case.same(case.prompt(net), case.enumerated(case.w0))


@every_case
def test_eq_57_to_59_two_blocks_of_four_heads_inside_one_skip(case):
    net = elsa(case)
    trace = case.trace(net)
    before = trace.states["input"]
    for name in [case.step(t) for t in range(case.steps)] + ["module 1"]:
        first, second = trace[f"{name}, layer 0"], trace[f"{name}, layer 1"]
        case.same(first.before, before)
        case.same(second.before, first.output)
        for block in (first, second):
            assert len(block.heads) == 4
            case.same(block.output, sum(head.output for head in block.heads))
        case.same(trace.states[name], second.output + before)  # (57)
        before = trace.states[name]


@every_case
def test_eq_60_the_gram_matrix_of_the_enumerated_form(case):
    H = case.enumerated(case.w0)
    case.same(gram(case, paper.enumerated_gram(case.n, case.d)), H.T @ H)


def heads_of_step(case, net, layer):
    """(w before the step, traced heads, heads as stored) for each step of a block."""
    trace = case.trace(net)
    stored = net.modules[0].body[layer].heads
    for t, w in enumerate(case.w[:-1]):
        yield w, trace[f"{case.step(t)}, layer {layer}"].heads, stored


@case_with_a_step
def test_eq_61_to_64_first_head(case):
    net = elsa(case)
    n, s, O = case.n, net.width, case.zeros
    for w, traced, stored in heads_of_step(case, net, 0):
        head = traced[0]
        case.same(head.key.T @ head.value, case.last_column(case.X @ w, s, s))  # (61)
        W3 = np.block([[case.eye(n), O(n, s - n)], [O(s - n, n), O(s - n, s - n)]])
        case.same(weights(case, net, stored[0].query)[0], W3)  # (62)
        case.same(head.query, np.block([case.X.T, O(case.d, s - n)]))  # (63)
        case.same(head.output, case.last_column(case.X.T @ (case.X @ w), case.d, s))  # (64)
        no_bias(case, net, *stored[0].projections)


@case_with_a_step
def test_eq_65_to_67_second_head(case):
    net = elsa(case)
    d, s = case.d, net.width
    for w, traced, stored in heads_of_step(case, net, 0):
        head = traced[1]
        case.same(head.key.T @ head.value, case.last_column(case.lam * w, s, s))  # (65)
        W3, B3 = weights(case, net, stored[1].query)
        case.same(W3, case.zeros(s, s))
        case.same(B3, np.block([case.eye(d), case.zeros(d, s - d)]))  # (66)
        case.same(head.output, case.last_column(case.lam * w, d, s))  # (67)
        no_bias(case, net, stored[1].key, stored[1].value)


@case_with_a_step
def test_eq_68_to_71_third_head(case):
    net = elsa(case)
    n, d, s, O, I = case.n, case.d, net.width, case.zeros, case.eye
    for _, traced, stored in heads_of_step(case, net, 0):
        head = traced[2]
        W3 = np.block([[O(n, s - n), I(n)], [O(s - n, s - n), O(s - n, n)]])
        W1 = [[O(n, s - n), O(n, n)], [O(n, s - n), I(n)], [O(s - 2 * n, s - n), O(s - 2 * n, n)]]
        case.same(weights(case, net, stored[2].query)[0], W3)  # (68)
        case.same(weights(case, net, stored[2].key)[0], np.block(W1))
        case.same(head.query, np.block([O(d, s - n), case.X.T]))  # (69)
        case.same(head.key, np.block([O(d, s - n), case.Y0.T]))
        W2, B2 = weights(case, net, stored[2].value)
        case.same(W2, O(s, s))
        case.same(B2, np.block([O(d, s - d), -I(d)]))  # (70)
        case.same(head.output, case.X.T @ case.Y0 @ B2)  # (71)
        case.same(head.output, case.last_column(-case.X.T @ case.y, d, s))
        no_bias(case, net, stored[2].query, stored[2].key)


@case_with_a_step
def test_eq_72_73_fourth_head(case):
    net = elsa(case)
    n, d, s, O = case.n, case.d, net.width, case.zeros
    eta = case.eta * case.eye(d)
    for _, traced, stored in heads_of_step(case, net, 0):
        head = traced[3]
        top = [O(d, 2 * n + d), eta, O(d, 3)]
        low = [O(s - d, 2 * n + d), O(s - d, d), O(s - d, 3)]
        case.same(head.key.T @ head.value, np.block([top, low]))  # (72)
        W3, B3 = weights(case, net, stored[3].query)
        case.same(W3, O(s, s))
        case.same(B3, np.block([-case.eye(d), O(d, s - d)]))
        case.same(head.output, np.block([O(d, 2 * n + d), -eta, O(d, 3)]))  # (73)
        no_bias(case, net, stored[3].key, stored[3].value)


@case_with_a_step
def test_eq_74_the_first_block_holds_minus_eta_and_delta(case):
    trace, O = case.trace(elsa(case)), case.zeros
    for t, w in enumerate(case.w[:-1]):
        top = [O(case.d, 2 * case.n + case.d), -case.eta * case.eye(case.d), O(case.d, 2)]
        expected = np.block([*top, case.delta(w)])
        case.same(trace.states[f"{case.step(t)}, layer 0"], expected)


@case_with_a_step
def test_eq_75_to_77_the_second_block_multiplies_them(case):
    net = elsa(case)
    trace = case.trace(net)
    d, s = case.d, net.width
    for t, (w, traced, stored) in enumerate(heads_of_step(case, net, 1)):
        update = -case.eta * case.delta(w)
        case.same(traced[0].key.T @ traced[0].value, case.last_column(update, s, s))  # (75)
        W3, B3 = weights(case, net, stored[0].query)
        case.same(W3, case.zeros(s, s))
        case.same(B3, np.block([case.eye(d), case.zeros(d, s - d)]))
        case.same(traced[0].output, case.last_column(update, d, s))  # (76)
        assert [is_zero_head(head) for head in stored] == [False, True, True, True]
        P2 = trace.states[f"{case.step(t)}, layer 1"]
        case.same(P2, case.last_column(update, d, s))  # (77)


@every_case
def test_eq_78_79_every_state_of_the_enumerated_form_is_as_printed(case):
    trace = case.trace(elsa(case))
    case.same(trace.states["input"], case.enumerated(case.w[0]))
    for t in range(case.steps):
        case.same(trace.states[case.step(t)], case.enumerated(case.w[t + 1]))


@every_case
def test_eq_80_to_83_the_read_out_head(case):
    net = elsa(case)
    d, s, O = case.d, net.width, case.zeros
    layer, trace = net.modules[1].body[0], case.trace(net)
    head = trace["module 1, layer 0"].heads[0]
    expected = O(s, s)
    expected[0, s - 2] = case.answer
    case.same(head.key.T @ head.value, expected)  # (80)
    W3, B3 = weights(case, net, layer.heads[0].query)
    case.same(W3, O(s, s))
    case.same(B3, np.block([[case.eye(1), O(1, s - 1)], [O(d - 1, 1), O(d - 1, s - 1)]]))  # (81)
    case.same(head.output, expected[:d])  # (82)
    assert [is_zero_head(h) for h in layer.heads] == [False, True, True, True]
    case.same(trace.states["module 1, layer 0"], expected[:d])  # (83)


@every_case
def test_eq_84_to_86_the_read_out_passes_through_the_skip_head_of_property_3(case):
    net = elsa(case)
    layer, trace = net.modules[1].body[1], case.trace(net)
    skip = paper.skip(net.tokens, net.width, case.X.dtype)
    stored = (layer.heads[0].key, layer.heads[0].value, layer.heads[0].query)
    for k, projection in enumerate(stored):
        W, B = weights(case, net, projection)
        case.same(W, skip[k])
        case.same(B, skip[k + 3])
    P1 = trace.states["module 1, layer 0"]
    case.same(trace["module 1, layer 1"].heads[0].output, P1)  # (84)
    assert [is_zero_head(h) for h in layer.heads] == [False, True, True, True]
    case.same(trace.states["module 1, layer 1"], P1)  # (85)
    case.same(trace.final, case.enumerated(case.w[-1], case.answer))  # (86)


@every_case
def test_remark_the_elsa_module_serves_the_designed_form(case):
    net, plain = lsa_in_elsa_modules(case), lsa(case)
    trace, expected = case.trace(net), case.trace(plain)
    for module in net.modules:
        assert module.skip
        assert [len(layer.heads) for layer in module.body] == [4, 4]
        assert not any(layer.skip for layer in module.body)
    for name, state in expected.states.items():
        case.same(trace.states[name], state)  # every H_t, and P_t as P_(1),t
        if name.endswith("layer 0"):
            P2 = name.replace("layer 0", "layer 1")
            case.same(trace.states[P2], state)  # the second block is a skip
    for layer, reference in zip(
        (m.body[0] for m in net.modules), (m.body[0] for m in plain.modules), strict=True
    ):
        assert layer.heads[:3] == reference.heads
        assert is_zero_head(layer.heads[3])


# -- what the networks are ------------------------------------------------------------------------
@every_case
def test_sizes_and_counts_are_those_of_the_paper(case):
    T = case.steps
    assert (lsa(case).depth, lsa(case).heads, lsa(case).target) == (T + 1, 6, "lsa")
    for build in (elsa, lsa_in_elsa_modules):
        net = build(case)
        assert (net.depth, net.heads, net.target) == (2 * (T + 1), 16, "elsa")


@every_network
def test_a_network_is_as_large_at_d_1000_as_at_d_2(build):
    small, large = build(Case(3, 2, 4)), build(Case(2000, 1000, 4))
    assert large.stored_numbers == small.stored_numbers < 50


@every_network
def test_the_repeated_module_says_that_it_carries_w(build):
    net = build(Case(4, 3, 5))
    step, read_out = net.modules
    assert (step.repeat, read_out.repeat) == (5, 1)
    assert step.carries == ((inweave.Place("w", 3, 1),),)
    assert read_out.carries == ()


@every_network
def test_equal_sizes_give_equal_networks(build):
    net = build(Case(4, 3, 5))
    assert net == build(Case(4, 3, 5))
    assert net.fingerprint == build(Case(4, 3, 5)).fingerprint
    for other in (Case(5, 3, 5), Case(4, 2, 5), Case(4, 3, 6)):
        assert net != build(other)
        assert net.fingerprint != build(other).fingerprint


@every_network
def test_batches_are_computed_entry_by_entry(build):
    cases = [Case(5, 2, 3), Case(5, 2, 3, lam_is_zero=True)]
    net = build(cases[0])
    stacked = {k: np.stack([np.asarray(c.inputs[k]) for c in cases]) for k in cases[0].inputs}
    np.testing.assert_allclose(net(**stacked), [c.answer for c in cases], rtol=1e-12)
    u = np.random.default_rng(0).normal(size=(3, 1, 2))
    expected = [[row[0] @ c.w[-1][:, 0] for c in cases] for row in u]
    np.testing.assert_allclose(net(**stacked | {"u": u}), expected, rtol=1e-12)
    queries = np.random.default_rng(1).normal(size=(7, 2))
    got = net(**cases[0].inputs | {"u": queries})
    np.testing.assert_allclose(got, queries @ cases[0].w[-1][:, 0], rtol=1e-12, atol=1e-12)


@every_network
def test_float32_stays_float32(build):
    case = Case(5, 2, 3)
    narrow = {k: np.asarray(v, np.float32) for k, v in case.inputs.items()}
    assert build(case).prompt(**narrow).dtype == np.float32
    answer = build(case)(**narrow)
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, case.answer, rtol=1e-4)


# -- Gram tables ----------------------------------------------------------------------------------
def gram(case, table):
    if not case.exact:
        inputs = case.inputs
        return table(**{("w" if k == "w0" else k): v for k, v in inputs.items()})
    values = {"X": case.X, "y": case.y, "u": case.u, "w": case.w0}
    values |= {k: np.array([[getattr(case, k)]], dtype=object) for k in ("lam", "eta")}
    return table.evaluate(values, Rationals())


def test_a_gram_table_reads_like_the_printed_one():
    table = paper.designed_gram(5, 2)
    assert table["√ηXᵀ", "w"] == "√η X w"
    assert table["√ηyᵀ", "1"] == "√η y"
    assert repr(table).splitlines()[2].split() == ["O", "√η", "yᵀ", "1", "O", "O", "O"]
    assert paper.enumerated_gram(5, 2)["u", "w"] == "uᵀ w"
    with pytest.raises(inweave.BlockError, match="no block 'v'"):
        table["v", "w"]


def test_a_gram_table_takes_batches_and_a_negative_lam_where_no_root_is_taken():
    case = Case(5, 2, 0)
    inputs = {("w" if k == "w0" else k): v for k, v in case.inputs.items()}
    table = paper.enumerated_gram(5, 2)
    lam = np.array([-1.0, case.lam])
    both = table(**inputs | {"lam": lam})
    assert both.shape == (2, 17, 17)
    np.testing.assert_allclose(both[1], table(**inputs), rtol=1e-15)
    with pytest.raises(inweave.InputError, match="'lam'"):
        paper.designed_gram(5, 2)(**inputs | {"lam": -1.0})


def test_an_entry_of_the_wrong_shape_in_a_gram_table_is_refused():
    case = Case(5, 2, 0)
    table = paper.enumerated_gram(5, 2)
    lines = [list(line) for line in table.entries]
    lines[0][0] = "Xᵀ X"
    wrong = paper.GramTable(table.layout, tuple(map(tuple, lines)))
    with pytest.raises(inweave.ShapeError, match=r"'Xᵀ X' in the rows of Xᵀ .* \(2, 2\)"):
        gram(case, wrong)


# -- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.ones((4, 3))}, inweave.ShapeError, r"'X': got shape \(4, 3\), expected .*5, 3"),
        ({"X": np.ones((3, 5))}, inweave.ShapeError, "'X'"),
        ({"y": np.ones(4)}, inweave.ShapeError, r"'y': got shape \(4,\)"),
        ({"u": 1.0}, inweave.ShapeError, "'u'"),
        ({"lam": np.ones(3), "u": np.ones((2, 3))}, inweave.ShapeError, "batch axes"),
        ({"w0": None}, inweave.DTypeError, "'w0': got NoneType"),
        ({"beta": 1.0}, inweave.BlockError, "unknown: beta"),
        ({"X": np.full((5, 3), np.nan)}, inweave.InputError, "'X' holds NaN"),
        ({"eta": np.inf}, inweave.InputError, "'eta' holds NaN or infinity"),
        ({"eta": 0.0}, inweave.InputError, "'eta': got 0, expected a positive"),
        ({"eta": -0.1}, inweave.InputError, "'eta': got -0.1, expected a positive"),
        ({"eta": np.array([0.1, -2.0])}, inweave.InputError, "'eta': got -2"),
        ({"X": np.ones((5, 3), complex)}, inweave.DTypeError, "'X': got dtype complex128"),
        ({"X": np.ones((5, 3), object)}, inweave.DTypeError, "'X': got dtype object"),
        ({"X": np.full((5, 3), "1")}, inweave.DTypeError, "'X'"),
        ({"lam": 1j}, inweave.DTypeError, "'lam': got complex"),
        ({"lam": "0.1"}, inweave.DTypeError, "'lam': got str"),
    ],
)
@every_network
def test_bad_inputs_are_refused_by_name(build, change, error, message):
    case = Case(5, 3, 2)
    net = build(case)
    for call in (net, net.prompt, net.trace):
        with pytest.raises(error, match=message) as caught:
            call(**case.inputs | change)
        assert isinstance(caught.value, inweave.InweaveError)


@every_network
def test_missing_inputs_are_refused_by_name(build):
    case = Case(5, 3, 2)
    inputs = case.inputs
    del inputs["y"], inputs["lam"]
    with pytest.raises(inweave.BlockError, match="missing: y, lam"):
        build(case)(**inputs)


@pytest.mark.parametrize("build", [lsa, lsa_in_elsa_modules], ids=lambda f: f.__name__)
def test_a_negative_lam_is_refused_where_its_root_is_taken(build):
    case = Case(5, 3, 2)
    with pytest.raises(inweave.InputError, match=r"'lam': got -0\.5, expected a nonnegative"):
        build(case)(**case.inputs | {"lam": -0.5})


def test_a_negative_lam_is_computed_where_no_root_is_taken():
    case = Case(5, 3, 2)
    w = case.w0[:, 0]
    for _ in range(2):
        w = w - case.eta * (case.X.T @ (case.X @ w - case.y[:, 0]) - 0.5 * w)
    got = elsa(case)(**case.inputs | {"lam": -0.5})
    np.testing.assert_allclose(got, case.u[:, 0] @ w, rtol=1e-12)


@pytest.mark.parametrize("build", [paper.ridge_lsa, paper.ridge_elsa])
@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((5, 3, -1), inweave.InputError, "steps must be a non-negative int, got -1"),
        ((5, 3, 2.0), inweave.InputError, "steps"),
        ((5, 3, True), inweave.InputError, "steps"),
        ((0, 3, 1), inweave.ShapeError, "n must be a positive int, got 0"),
        ((5, 0, 1), inweave.ShapeError, "d must be a positive int, got 0"),
        ((5, 2.5, 1), inweave.ShapeError, "d must"),
    ],
)
def test_bad_sizes_are_refused(build, sizes, error, message):
    with pytest.raises(error, match=message):
        build(*sizes)


def test_an_unknown_module_is_refused():
    with pytest.raises(inweave.InputError, match="'lsa' or 'elsa', got 'mlp'"):
        paper.ridge_lsa(5, 3, 1, module="mlp")


# -- where the print slips (docs/errata.md) -------------------------------------------------------
EXAMPLE = Case(3, 2, 2, exact=True)


def printed_entry(table, row, col, entry):
    """The table with one entry as the print has it."""
    lines = [list(line) for line in table.entries]
    lines[row][col] = entry
    return paper.GramTable(table.layout, tuple(map(tuple, lines)))


def test_erratum_eq_40_row_1_column_4_is_X_not_X_transposed():
    table = paper.designed_gram(3, 2)
    assert table["√ηXᵀ", "√η√λI"] == "η √λ X"
    with pytest.raises(inweave.ShapeError, match=r"\(2, 3\), expected \(3, 2\)"):
        gram(EXAMPLE, printed_entry(table, 0, 3, "η √λ Xᵀ"))


def test_erratum_eq_40_zero_blocks_in_the_rows_of_u_and_w_have_one_row():
    H = EXAMPLE.designed(EXAMPLE.w0)
    layout = paper.designed_layout(3, 2)
    for name in ("u", "w"):
        block = (H.T @ H)[layout[name].columns, layout["√ηyᵀ"].columns]
        assert block.shape == (1, 3) != (EXAMPLE.d, EXAMPLE.n)
        EXAMPLE.same(block, EXAMPLE.zeros(1, 3))


def test_erratum_eq_40_last_row_holds_the_w_of_its_own_step():
    case, layout = EXAMPLE, paper.designed_layout(3, 2)
    H = case.designed(case.w[1])
    block = (H.T @ H)[layout["w"].columns, layout["√ηXᵀ"].columns]
    case.same(block, case.root_eta * case.w[1].T @ case.X.T)
    assert (block != case.root_eta * case.w[0].T @ case.X.T).any()


def test_erratum_eq_37_w_with_index_t_minus_1_stands_in_H_with_index_t_minus_1():
    case = EXAMPLE
    trace = case.trace(lsa(case))
    H = [trace.states["input"], *(trace.states[case.step(t)] for t in range(case.steps))]
    for t in range(1, case.steps + 1):
        case.same(H[t - 1][: case.d, -1:], case.w[t - 1])
        assert (H[t][: case.d, -1:] != case.w[t - 1]).any()


def test_erratum_eq_49_the_key_is_W_transposed_times_H_transposed():
    case, net = EXAMPLE, lsa(EXAMPLE)
    H, head = case.designed(case.w0), net.modules[0].body[0].heads[1]
    W1, W2, W3 = (weights(case, net, p)[0] for p in (head.key, head.value, head.query))
    with pytest.raises(ValueError, match="matmul"):
        H.T @ W1.T  # (s x (d+1)) times (s x s)
    right = (H @ W3) @ (W1.T @ H.T) @ (H @ W2)
    case.same(right, case.trace(net)[f"{case.step(0)}, layer 0"].heads[1].output)


def test_erratum_eq_49_the_lower_right_corner_is_one_zero():
    case, net = EXAMPLE, lsa(EXAMPLE)
    P = case.trace(net).states[f"{case.step(0)}, layer 0"]
    corner = P[case.d :, net.width - 1 :]
    assert corner.shape == (1, 1) != (net.width - case.n, 1)
    assert corner[0, 0] == 0


def test_erratum_delta_is_defined_in_36_and_the_update_in_35():
    case = EXAMPLE
    delta = -case.X.T @ case.y + case.X.T @ case.X @ case.w0 + case.lam * case.w0  # (36)
    P1 = case.trace(elsa(case)).states[f"{case.step(0)}, layer 0"]
    case.same(P1[:, -1:], delta)  # what (74) calls Δw is (36)
    assert (P1[:, -1:] != case.w[1]).any()  # and not (35), which is
    case.same(case.trace(elsa(case)).states[case.step(0)][:, -1:], case.w0 - case.eta * delta)


def test_erratum_eq_60_row_1_column_2_has_no_root_of_eta():
    table = paper.enumerated_gram(3, 2)
    assert table["Xᵀ", "Y₀ᵀ"] == "X Y₀ᵀ"
    H = EXAMPLE.enumerated(EXAMPLE.w0)
    EXAMPLE.same(gram(EXAMPLE, table), H.T @ H)
    printed = gram(EXAMPLE, printed_entry(table, 0, 1, "√η X Y₀ᵀ"))
    assert (printed != H.T @ H).any()
    assert (printed != printed.T).any()  # nor would it be symmetric


def test_erratum_eq_75_the_second_block_reads_the_gram_matrix_of_P1_not_eq_60():
    case, net = EXAMPLE, elsa(EXAMPLE)
    P1 = case.trace(net).states[f"{case.step(0)}, layer 0"]
    H, layout = case.enumerated(case.w0), net.layout
    picked = (slice(layout["√ηI"].start, layout["√ηI"].stop), layout["w"].columns)
    case.same((P1.T @ P1)[picked], -case.eta * case.delta(case.w0))
    assert ((H.T @ H)[picked] != -case.eta * case.delta(case.w0)).any()


def test_erratum_eq_79_the_last_step_is_module_T():
    case = Case(3, 2, 3, exact=True)
    trace = case.trace(elsa(case))
    case.same(trace.states[case.step(case.steps - 1)], case.enumerated(case.w[-1]))
    assert (case.w[-1] != case.w[-2]).any()


def test_erratum_remark_the_biases_take_the_size_of_the_designed_form():
    case = Case(3, 2, 2)
    net = lsa_in_elsa_modules(case)
    for layer in net.layers:
        for head in layer.heads:
            for projection in head.projections:
                W, B = weights(case, net, projection)
                assert W.shape == (2 * case.n + case.d + 3,) * 2
                assert B.shape == (case.d + 1, 2 * case.n + case.d + 3)
