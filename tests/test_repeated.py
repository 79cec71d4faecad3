"""Python loops that reuse values compile in work that grows with their length, not exponentially.

No seconds are asserted: the compiler's own steps are counted, and a compilation that exceeds its
budget fails at once instead of running on.
"""

from __future__ import annotations

from collections import Counter

import pytest

import inweave
from inweave import Matrix, Scalar, Vector, VerificationError
from inweave.compiler.candidates import best
from inweave.compiler.costs import Costs
from inweave.compiler.driver import Compilation
from inweave.compiler.forms import DefinedLeaf, Forms, Product
from inweave.compiler.origin import Origin
from inweave.compiler.store import FACTORS, LONGEST, PRODUCTS
from inweave.language.expressions import read_often
from tests.fuzz import equal_in_rationals

pytestmark = pytest.mark.usefixtures("unchecked_passes")

MODES = ("faithful", "speed", "depth")


class TooMuchWork(BaseException):
    """Not an Exception: nothing on the way may take it for an ordinary failure."""


@pytest.fixture
def work(monkeypatch):
    """Counts forms built, chains split and texts made; more than `work['limit']` of each stops."""
    counts = Counter(limit=400_000)

    def counted(owner, name):
        method = getattr(owner, name)

        def wrapper(*args, **kwargs):
            counts[name] += 1
            if counts[name] > counts["limit"]:
                raise TooMuchWork(f"more than {counts['limit']} calls of {owner.__name__}.{name}")
            found = method(*args, **kwargs)
            if getattr(found, "factors", 0) > LONGEST * LONGEST:
                raise TooMuchWork(f"a product of {found.factors} factors")
            return found

        monkeypatch.setattr(owner, name, wrapper)

    counted(Forms, "form")
    counted(Costs, "_total")
    counted(Product, "__repr__")
    return counts


def run(make, steps, mode="faithful") -> Compilation:
    program = inweave.program(make(steps))
    return best(Origin(program, dict.fromkeys(program.size_names, 2), optimize=mode))


def normalized(done: Compilation, name: str = ""):
    return done.made["normalize"].outputs[name]


def squares(steps):
    def program(s: Scalar):
        for _ in range(steps):
            s = s * s
        return s

    return program


def signed_squares(steps):
    def program(s: Scalar):
        for _ in range(steps):
            s = (2 * s) * (-s)
        return s

    return program


def matrix_squares(steps):
    def program(M: Matrix["n", "n"]):
        for _ in range(steps):
            M = M @ M
        return M

    return program


def grams(steps):
    def program(M: Matrix["n", "n"]):
        for _ in range(steps):
            M = M.T @ M
        return M

    return program


def neighbours(steps):
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"]):
        for _ in range(steps):
            A, B = B, A @ B
        return B

    return program


def scaled(steps):
    def program(x: Vector["n"], y: Vector["n"]):
        for _ in range(steps):
            x = (x.T @ y) * x
        return x

    return program


def newton_schulz(steps):
    def program(A: Matrix["n", "n"], M: Matrix["n", "n"]):
        for _ in range(steps):
            M = 2 * M - M @ A @ M
        return M

    return program


def quintic(steps):
    def program(X: Matrix["m", "n"]):
        for _ in range(steps):
            A = X @ X.T
            X = 3.4445 * X + (2.0315 * A @ A - 4.775 * A) @ X
        return X

    return program


def cubic(steps):
    def program(A: Matrix["n", "n"], x: Vector["n"]):
        for _ in range(steps):
            x = x + A @ (x * (x.T @ x))
        return x

    return program


def mixed(steps):
    def program(A: Matrix["n", "n"], x: Vector["n"], s: Scalar):
        for _ in range(steps):
            A = s * (A @ A) - A
            s = s * s + x.T @ x
            x = A @ x
        return x

    return program


def crossed(steps):
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"], y: Vector["n"]):
        for _ in range(steps):
            x, y = A @ (x + y) + B @ y, B @ (x - y) + A @ x
        return x

    return program


def held_sums(steps):
    def program(A: Matrix["n", "n"], x: Vector["n"], y: Vector["n"]):
        for _ in range(steps):
            x, y = y, inweave.hold(x + y)
        return A @ y

    return program


def rectified(steps):
    def program(s: Scalar):
        for _ in range(steps):
            s = inweave.relu(s) * inweave.relu(s)
        return s

    return program


def squares_in_a_step(steps):
    def program(s: Scalar, A: Matrix["n", "n"], w: Vector["n"]):
        def step(w):
            t = s
            for _ in range(steps):
                t = t * t
            return w + t * (A @ w)

        return inweave.iterate(step, w, 3)

    return program


def crossed_in_a_step(steps):
    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"], y: Vector["n"]):
        def step(x, y):
            for _ in range(steps):
                x, y = A @ (x + y), B @ (x - y)
            return x, y

        return inweave.iterate(step, (x, y), 2)[0]

    return program


def word(steps):
    """A product of many factors in an order without three repeats, each read once."""

    def program(A: Matrix["n", "n"], B: Matrix["n", "n"], x: Vector["n"]):
        for i in range(steps):
            x = (A if i.bit_count() % 2 else B.T) @ x
        return x

    return program


def descent(steps):
    def program(X: Matrix["m", "n"], y: Vector["m"], eta: Scalar):
        w = inweave.zeros(X.shape[1])
        for _ in range(steps):
            w = w - eta * (X.T @ (X @ w - y))
        return w

    return program


PROVED = [
    (squares, 22), (signed_squares, 22), (matrix_squares, 22), (grams, 22), (neighbours, 28),
    (scaled, 18), (newton_schulz, 12), (quintic, 6), (cubic, 8), (mixed, 6), (crossed, 10),
    (held_sums, 30), (rectified, 30), (squares_in_a_step, 18), (crossed_in_a_step, 7), (word, 120),
    (descent, 15),
]  # fmt: skip
LONG = [
    (squares, 50), (signed_squares, 40), (matrix_squares, 40), (grams, 40), (neighbours, 30),
    (scaled, 20), (newton_schulz, 20), (quintic, 10), (cubic, 14), (held_sums, 60),
    (rectified, 60), (squares_in_a_step, 40), (word, 250),
]  # fmt: skip


def named(pairs):
    return [pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1]}") for pair in pairs]


@pytest.mark.parametrize(("make", "steps"), named(PROVED))
def test_loops_that_reuse_values_compile_and_are_proved(work, make, steps):
    """In every mode; many modes give the same network."""
    program = inweave.program(make(steps))
    options = {"verify": False, **dict.fromkeys(program.size_names, 2)}
    made = []
    for mode in MODES:
        work.update({name: -count for name, count in work.items() if name != "limit"})
        made.append(inweave.compile(program, optimize=mode, **options))
    for net in {net.fingerprint: net for net in made}.values():
        assert net.verify()


@pytest.mark.parametrize("mode", ["faithful", "depth"])
@pytest.mark.parametrize(("make", "steps"), named(LONG))
def test_long_loops_take_work_in_proportion_to_their_length(work, make, steps, mode):
    short = run(make, steps // 2, mode).network
    half = dict(work)
    net = run(make, steps, mode).network
    assert net.heads <= 2.5 * short.heads + 20
    for what in ("form", "_total", "__repr__"):
        assert work[what] - half.get(what, 0) <= 4 * half.get(what, 0) + 1000, what


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("make", [squares, matrix_squares])
def test_a_degree_beyond_short_primes_is_proved_with_long_ones(make):
    program = inweave.program(make(40))
    found = inweave.compile(program, **dict.fromkeys(program.size_names, 2)).certificate
    assert found.prime > found.degree == 2**40


@pytest.mark.usefixtures("work")
def test_a_degree_beyond_every_prime_is_refused_with_advice():
    with pytest.raises(VerificationError, match=r"inweave\.iterate"):
        inweave.compile(inweave.program(squares(1100)))


@pytest.mark.parametrize(
    ("make", "steps"),
    named(
        [(squares, 8), (signed_squares, 8), (grams, 7), (neighbours, 8), (scaled, 5), (descent, 7)]
    ),
)
def test_what_is_stored_unasked_changes_no_answer(make, steps):
    program = inweave.program(make(steps))
    sizes = dict.fromkeys(program.size_names, 2)
    assert equal_in_rationals(inweave.compile(program, **sizes))


@pytest.mark.parametrize("make", [squares, matrix_squares, grams])
@pytest.mark.parametrize("steps", [6, 7, 8, 9, 10, 12, 13])
def test_repeated_squaring_is_as_shallow_as_its_degree_allows(make, steps):
    net = run(make, steps).network
    bound = 1
    while 3**bound < 2**steps:
        bound += 1
    assert net.depth == bound


@pytest.mark.parametrize("make", [newton_schulz, descent])
def test_a_loop_of_any_length_is_proved_by_one_step(make):
    program = inweave.program(make(300))
    net = inweave.compile(program, verify=False, **dict.fromkeys(program.size_names, 2))
    assert net.verify().method == "algebra"


def test_a_product_that_is_read_once_may_have_many_factors():
    done = run(word, 3 * FACTORS)
    assert normalized(done).factors == 3 * FACTORS + 1
    assert done.network.depth == 5


@pytest.mark.usefixtures("work")
def test_thousands_of_factors_are_stored_on_the_way():
    done = run(word, 3 * LONGEST)
    assert normalized(done).factors < LONGEST
    assert done.network.depth == 9


def test_a_long_product_that_is_read_twice_is_stored_and_a_short_one_is_not():
    def twice(factors):
        def program(A: Matrix["n", "n"], x: Vector["n"]):
            for i in range(factors - 1):
                x = (A if i.bit_count() % 2 else A.T) @ x
            return {"square": x.T @ x, "itself": x}

        return program

    for factors, stored in ((FACTORS - 1, False), (FACTORS, True)):
        form = normalized(run(twice, factors), "square")
        assert form.factors == (2 if stored else 2 * factors)


def test_a_sum_of_many_products_is_stored_and_continued():
    done = run(descent, 30)
    leaves = [leaf for leaf, _, _ in normalized(done).leaves]
    while leaves:
        leaf = leaves.pop()
        if isinstance(leaf, DefinedLeaf):
            assert len(leaf.definition.products) <= 2 * PRODUCTS
            leaves += [inner for inner, _, _ in leaf.definition.leaves]


def test_values_that_are_read_often_are_found_inside_loops_too():
    def program(A: Matrix["n", "n"], w: Vector["n"]):
        def step(w):
            v = A @ w
            return v + (v.T @ v) * w

        return inweave.iterate(step, w, 2)

    traced = inweave.program(program).trace(n=2)
    texts = {x.text() for x in read_often(traced.outputs.values())}
    assert {"A @ w", "w"} <= texts


def test_messages_about_large_values_are_short_and_quick():
    def divided(s: Scalar):
        for _ in range(200):
            s = s * s
        return s / s

    with pytest.raises(inweave.ProgramError) as found:
        inweave.program(divided).trace()
    assert len(str(found.value)) < 500


def test_an_explanation_of_a_large_program_is_short():
    text = str(inweave.explain(inweave.program(squares(40))))
    assert len(text) < 200_000
