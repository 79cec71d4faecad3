"""The field's arithmetic against Python's own integers and fractions, which cannot round."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inweave.exact import field
from inweave.exact.field import LONG, Field, FieldArray, P, _is_prime, random_prime
from inweave.exact.long_field import LENGTHS, LongField, of_bits, random_field

FIELD = Field()
matmul, residue, inverse, keyed = FIELD.matmul, FIELD.residue, FIELD.inverse, FIELD.keyed

EXTREMES = [0, 1, 2, 2**15, 2**16 - 1, 2**16, 2**30 - 1, 2**30, 2**30 + 1, P - 2, P - 1]
entries = st.one_of(st.sampled_from(EXTREMES), st.integers(0, P - 1))
vectors = hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, max_side=5), elements=entries)
rationals = st.fractions().filter(lambda q: q.denominator % P)
numbers = st.one_of(st.integers(), rationals, st.floats(allow_nan=False, allow_infinity=False))


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    """Residues, a third of them where carries and signs change."""
    rng = np.random.default_rng(seed)
    uniform = rng.integers(0, P, shape)
    return np.where(rng.random(shape) < 1 / 3, rng.choice(EXTREMES, shape), uniform)


def by_python(a: Any, b: Any) -> Any:
    return np.asarray(np.matmul(a.astype(object), b.astype(object)) % P).astype(np.int64)


def ratio(x: Any) -> int:
    q = Fraction(x)
    return q.numerator * pow(q.denominator, -1, P) % P


# --- matrix products


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((10, 40), (40, 1)),
        ((4000, 1), (1, 3)),
        ((90, 2), (2, 80)),
        ((30, 40), (40, 50)),
        ((3, 300), (300, 70)),
        ((70, 1000), (1000, 2)),
        ((1, 8192), (8192, 1)),
        ((1, 8193), (8193, 1)),
        ((5000, 30), (30, 20)),
        ((20, 30), (30, 5000)),
    ],
)
def test_product_equals_python_integers(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = drawn(left, 1), drawn(right, 2)
    np.testing.assert_array_equal(matmul(a, b), by_python(a, b))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((600,), (600, 20)),
        ((20, 600), (600,)),
        ((600,), (2, 600, 20)),
        ((7, 20, 30), (30, 40)),
        ((20, 30), (7, 30, 40)),
        ((7, 3, 4), (7, 4, 2)),
        ((7, 20, 30), (7, 30, 20)),
        ((5, 1, 20, 30), (7, 30, 20)),
        ((1, 7, 20, 30), (5, 1, 30, 40)),
        ((1, 300, 20), (5, 20, 30)),
        ((300, 20, 20), (300, 20, 20)),
        ((1, 3000, 10), (4, 10, 30)),  # more than a block of the result per batch entry
        ((3, 3000, 10), (1, 10, 30)),
    ],
)
def test_leading_axes_broadcast_as_in_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = drawn(left, 1), drawn(right, 2)
    product = matmul(a, b)
    assert product.dtype == np.int64
    np.testing.assert_array_equal(product, by_python(a, b), strict=True)


@pytest.mark.parametrize("value", [P - 1, (P - 1) // 2, (P + 1) // 2, 2**30, 2**29 + 2**15])
@pytest.mark.parametrize("inner", [2, 3, field._TERMS, field._TERMS + 1, 8192, 300_000])
def test_product_stays_exact_at_the_largest_sums(value: int, inner: int) -> None:
    a, b = np.full((2, inner), value), np.full((inner, 2), value)
    assert (matmul(a, b) == inner * value**2 % P).all()


@pytest.mark.parametrize("value", [(P - 1) // 2, (P + 1) // 2])
@pytest.mark.parametrize("low", [2**15 - 1, 2**15, 2**15 + 1, 2**16 - 1])
def test_product_stays_exact_where_a_limb_is_largest(value: int, low: int) -> None:
    a = np.full((9, field._TERMS), value)
    b = np.full((field._TERMS, 9), 2**29 + low)
    assert (matmul(a, b) == field._TERMS * value * (2**29 + low) % P).all()


@given(vectors, entries, entries)
def test_int64_and_float_paths_agree(a: Any, x: int, y: int) -> None:
    a = a.reshape(-1, a.shape[-1])
    b = np.array([[x, y, (x * i + y) % P] for i in range(a.shape[-1])])
    np.testing.assert_array_equal(FIELD._by_floats(a, b), by_python(a, b))
    np.testing.assert_array_equal(matmul(a, b), by_python(a, b))


@pytest.mark.parametrize(
    ("left", "right"), [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 9, 9), (9, 9)), ((2, 3), (3, 0))]
)
def test_empty_products_are_zeros_of_the_right_shape(left: Any, right: Any) -> None:
    a, b = np.zeros(left, np.int64), np.zeros(right, np.int64)
    np.testing.assert_array_equal(matmul(a, b), np.matmul(a, b), strict=True)


def test_product_does_not_change_its_operands() -> None:
    a, b = drawn((60, 60), 1), drawn((60, 60), 2)
    kept = a.copy(), b.copy()
    matmul(a, b)
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])


def test_product_of_transposed_and_sliced_views_is_exact() -> None:
    a, b = drawn((50, 120), 1)[:, ::2].T, drawn((90, 50), 2)[::-1].T
    np.testing.assert_array_equal(matmul(a, b), by_python(a, b))


@pytest.mark.parametrize(("left", "right"), [((2, 3), (2, 3)), ((), (2, 2)), ((3,), (2, 3))])
def test_unfit_shapes_are_named(left: Any, right: Any) -> None:
    with pytest.raises(ValueError, match=r"\(.*\) @ \(.*\)"):
        matmul(np.zeros(left, np.int64), np.zeros(right, np.int64))


# --- residues


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_residue_of_a_float_is_that_of_its_exact_fraction(x: float) -> None:
    assert residue(x) == ratio(x)
    assert residue(np.array([x, -x])).tolist() == [ratio(x), -ratio(x) % P]


@pytest.mark.parametrize("x", [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -0.0, 0.1])
def test_residue_holds_at_the_ends_of_the_float_range(x: float) -> None:
    assert residue(np.array([[x]])).tolist() == [[ratio(x)]]


@pytest.mark.parametrize("width", [np.float16, np.float32, np.longdouble])
@given(st.lists(st.integers(-1000, 1000), min_size=1))
def test_residue_holds_for_every_float_width(width: Any, integers: list[int]) -> None:
    thirds = np.array(integers, dtype=width) / width(3)  # fills the significand
    ratios = [x.as_integer_ratio() for x in thirds]
    assert residue(thirds).tolist() == [n * pow(d, -1, P) % P for n, d in ratios]


@given(hnp.arrays(hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.boolean_dtypes(), 4))
def test_residue_of_any_integer_type_is_the_remainder(x: Any) -> None:
    assert residue(x).tolist() == [int(e) % P for e in x]
    assert residue(x).dtype == np.int64


@given(st.lists(numbers, min_size=1))
def test_residue_of_mixed_lists_and_object_arrays_is_exact(xs: list[Any]) -> None:
    assert residue(xs).tolist() == [ratio(x) for x in xs]
    assert residue(np.array(xs, dtype=object)).tolist() == [ratio(x) for x in xs]


@given(rationals, rationals)
def test_residue_respects_sums_and_products(x: Fraction, y: Fraction) -> None:
    assert residue(x + y) == (residue(x) + residue(y)) % P
    assert residue(x * y) == residue(x) * residue(y) % P


def test_numpy_scalars_and_decimals_are_exact() -> None:
    assert residue(np.float32(0.1)) == ratio(float(np.float32(0.1)))
    assert residue(np.uint64(2**64 - 1)) == (2**64 - 1) % P
    assert residue([np.int64(-3)]).tolist() == [P - 3]
    assert residue(Decimal("0.1")) == ratio(Fraction(1, 10))


def test_a_denominator_divisible_by_the_prime_is_an_error_that_names_it() -> None:
    with pytest.raises(ZeroDivisionError, match=r"1/4294967294.*2147483647"):
        residue([1, Fraction(1, 2 * P)])


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf])
def test_non_finite_floats_are_errors(x: float) -> None:
    for value in (x, np.array([1.0, x]), [Fraction(1), x], np.longdouble(x)):
        with pytest.raises(ValueError, match=f"{x} has no residue"):
            residue(value)


@pytest.mark.parametrize("x", ["1", 1j, None, np.array([1j]), np.array(["1"])])
def test_what_is_no_rational_number_is_a_type_error(x: Any) -> None:
    with pytest.raises(TypeError):
        residue(x)


# --- inverses and keyed functions


@given(vectors)
def test_inverse_times_the_entry_is_one(a: Any) -> None:
    a = np.maximum(a, 1)
    assert (a * inverse(a) % P == 1).all()


def test_zero_has_no_inverse() -> None:
    with pytest.raises(ZeroDivisionError, match="0 has no inverse"):
        inverse(np.array([3, 0]))


@given(st.text(), st.integers(), vectors)
def test_keyed_is_one_function_of_the_entry(name: str, key: int, a: Any) -> None:
    values = keyed(name, key, a)
    assert values.shape == a.shape
    assert values.dtype == np.int64
    assert ((values >= 0) & (values < P)).all()
    assert values.flat[-1] == keyed(name, key, a.reshape(-1)[-1:].reshape(()))


def test_keyed_looks_uniform_and_rarely_collides() -> None:
    n = 200_000
    for start in (0, P - n):
        values = keyed("relu", 7, np.arange(start, start + n))
        collisions = n - len(np.unique(values))
        assert collisions < 30  # n**2 / 2 P = 9.3 expected of a random function
        for bit in range(31):
            assert abs(np.mean(values >> bit & 1) - 0.5) < 0.006  # five deviations
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.012


def test_keyed_functions_of_other_names_and_keys_are_unrelated() -> None:
    x = np.arange(10_000)
    functions = [keyed(n, k, x) for n, k in [("f", 0), ("f", 1), ("g", 0), ("f", -1), ("1:f", 1)]]
    for i, f in enumerate(functions):
        for g in functions[:i]:
            assert np.count_nonzero(f == g) <= 1
            assert len(np.unique((f - g) % P)) > 9_990


def test_keyed_values_do_not_depend_on_the_machine_or_the_session() -> None:
    assert keyed("relu", 1, np.array([0, 1, P - 1])).tolist() == [
        1422369640,
        1205868126,
        1667757049,
    ]


# --- FieldArray


def of(a: Any) -> FieldArray:
    return FIELD.array(a)


@given(st.data())
def test_field_arrays_obey_the_laws_of_a_ring(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4))
    a, b, c = (of(data.draw(hnp.arrays(np.int64, s, elements=entries))) for s in shapes[0])
    assert (a * (b + c) == a * b + a * c).all()
    assert ((a - b) + b - a == 0).all()
    assert (-(a - b) == b - a).all()
    assert (a * b * c == c * (b * a)).all()
    for result in (a + b, a - b, a * b, -a):
        assert isinstance(result.values, np.ndarray)
        assert ((result.values >= 0) & (result.values < P)).all()


@pytest.mark.parametrize("n", [3, 30])
def test_matrix_products_distribute_and_associate(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b, c = (FIELD.random((2, n, n), rng) for _ in range(3))
    assert (a @ (b + c) == a @ b + a @ c).all()
    assert ((a @ b) @ c == a @ (b @ c)).all()
    assert ((a @ b).mT == b.mT @ a.mT).all()
    assert (a @ FIELD.array(np.eye(n)) == a).all()


@given(numbers, st.lists(numbers, min_size=1, max_size=4))
def test_numbers_act_by_their_exact_value(x: Any, ys: list[Any]) -> None:
    q, qs, f = Fraction(x), [Fraction(y) for y in ys], of(ys)
    assert (f + x == of([y + q for y in qs])).all()
    assert (x - f == of([q - y for y in qs])).all()
    assert (x * f == of([q * y for y in qs])).all()
    if ratio(x):
        assert (f / x == of([y / q for y in qs])).all()
    if all(map(ratio, ys)):
        assert (x / f == of([q / y for y in qs])).all()


def test_numpy_arrays_on_either_side_become_residues() -> None:
    f, a = of(np.arange(6).reshape(2, 3)), np.array([[0.5, -1.0], [0.25, 3.0]])
    for result in (a @ f, of(a) @ f):
        assert isinstance(result, FieldArray)
        assert (result == of(a @ np.arange(6).reshape(2, 3))).all()
    assert isinstance(a[:, :1] * f, FieldArray)
    assert (a[:, :1] - f == -(f - a[:, :1])).all()
    assert (np.float64(0.5) * f == f / 2).all()


def test_comparison_is_elementwise_and_knows_fractions() -> None:
    f = of([1, Fraction(1, 2)])
    assert (f == 0.5).tolist() == [False, True]
    assert (f != 0.5).tolist() == [True, False]
    assert f != "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(f)


def test_shapes_and_slices_follow_numpy() -> None:
    a = drawn((2, 3, 4))
    f = of(a)
    assert (f.shape, f.ndim) == ((2, 3, 4), 3)
    np.testing.assert_array_equal(f[..., 1:, None, 2].values, a[..., 1:, None, 2], strict=True)
    assert f[0, 0, 0].shape == ()
    np.testing.assert_array_equal(f.mT.values, a.swapaxes(-1, -2))
    np.testing.assert_array_equal(f.reshape(6, 4).values, f.reshape((6, -1)).values)
    assert FIELD.zeros((2, 0)).shape == (2, 0)
    assert FIELD.array(f) is f


def test_random_entries_fill_the_field_and_follow_the_generator() -> None:
    a, b = (FIELD.random((100, 100), np.random.default_rng(3)) for _ in range(2))
    assert (a == b).all()
    assert a.values.min() < P // 1000
    assert a.values.max() > P - P // 1000


@pytest.mark.parametrize("values", [np.array([P]), np.array([-1]), np.array([1.0])])
def test_only_residues_are_wrapped_unchanged(values: Any) -> None:
    with pytest.raises(ValueError, match=r"Field\.array"):
        FieldArray(FIELD, values)


def test_division_by_a_multiple_of_the_prime_is_an_error() -> None:
    for zero in (0, P, 0.0, Fraction(P, 3)):
        with pytest.raises(ZeroDivisionError):
            of([1]) / zero


def test_operators_leave_unknown_types_to_answer_themselves() -> None:
    class Symbol:
        def __rmatmul__(self, other: object) -> str:
            return "answered"

    assert of([1]) @ Symbol() == "answered"
    with pytest.raises(TypeError, match="unsupported operand"):
        of([1]) + "text"


def test_repr_shows_entries_shape_and_modulus() -> None:
    assert (
        repr(of([-1, -2])) == "FieldArray([2147483646, 2147483645], shape=(2,), modulo 2147483647)"
    )
    assert len(repr(FIELD.zeros((500, 500)))) < 1000


def test_every_operation_is_exact_modulo_any_prime_of_31_bits() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        prime = random_prime(rng)
        assert 3 * 2**29 < prime < 2**31
        assert all(prime % k for k in range(2, 2000))
        a, b = (Field(prime).random(shape, rng) for shape in ((7, 600), (600, 90)))
        exact = (a.values.astype(object) @ b.values.astype(object)) % prime
        assert ((a @ b).values == exact).all()
        assert ((a - a + 1 == 1) & (-a + a == 0)).all()
        assert (a * (1 / (a + (a == 0).astype(int))) == (a.values != 0).astype(int)).all()
        x = np.array([0.1, -3.5, 1e300, 5e-324, 2.0**-40])
        known = [Fraction(v).numerator * pow(Fraction(v).denominator, -1, prime) for v in x]
        assert Field(prime).residue(x).tolist() == [k % prime for k in known]


def test_long_primes_are_for_numbers_and_refuse_arrays_whose_products_would_overflow() -> None:
    rng = np.random.default_rng(2)
    prime = random_prime(rng, LONG)
    assert 3 * 2**59 < prime < 2**61
    assert all(pow(base, prime - 1, prime) == 1 for base in (41, 43, 47))
    assert Field(prime).rational(Fraction(2, 3)) * 3 % prime == 2
    for make in (Field(prime).zeros, lambda n: Field(prime).random(n, rng)):
        with pytest.raises(ValueError, match=f"modulo {prime} do not fit"):
            make(2)


@pytest.mark.parametrize("bits", LENGTHS)
def test_every_operation_is_exact_modulo_primes_of_any_length(bits: int) -> None:
    rng = np.random.default_rng(bits)
    field = random_field(rng, of_bits(bits))
    p = field.prime
    assert 3 * 2 ** (bits - 2) < p < 2**bits
    assert all(p % k for k in range(2, 2000))
    assert all(pow(base, p - 1, p) == 1 for base in (2, 3, 41, 43, 47))
    a, b, c = (field.random(shape, rng) for shape in ((2, 3, 4), (4, 5), (3, 1)))
    assert a.values.max() > 2 ** (bits - 3)
    exact = [[[sum(x * y for x, y in zip(row, column, strict=True)) % p for column in b.values.T]
              for row in block] for block in a.values]  # fmt: skip
    assert ((a @ b).values == np.array(exact, object)).all()
    assert ((c.mT @ c).values[0, 0], (c.mT @ c).shape) == (
        sum(x * x for x in c.values.flat) % p,
        (1, 1),
    )
    for x in (a - a + 1 == 1, -a + a == 0, c * (1 / c) == 1, c / c == 1, 2 * a - a == a):
        assert x.all()
    assert (a @ field.array(np.eye(4, dtype=int)) == a).all()
    assert (field.zeros((0, 3)) @ c).shape == (0, 1)
    for x in (a @ b, a.mT, a[0, 0], -a, c.inverse(), c.keyed("f", 1), c[0, 0] * c[0, 0] - 1):
        assert x.field is field
        assert all(type(number) is int and 0 <= number < p for number in x.values.flat)
    with pytest.raises(ZeroDivisionError):
        (a - a).inverse()


@given(st.lists(numbers, min_size=1, max_size=4))
def test_residues_modulo_long_primes_are_those_of_fractions(values: list[Any]) -> None:
    field = LongField(2**127 - 1)
    p = field.prime
    found = field.residue(np.array(values, object)).tolist()
    assert [x * Fraction(v).denominator % p for x, v in zip(found, values, strict=True)] == [
        Fraction(v).numerator % p for v in values
    ]
    floats = np.array([0.1, -3.5, 1e30, 2.0**-100])
    for array in (floats, floats.astype(np.float32), np.array([1, -2]), np.array([True, False])):
        known = [Fraction(x.item()) for x in array]
        assert field.residue(array).tolist() == [field.rational(x) for x in known]


def test_a_random_function_of_a_long_field_tells_arguments_and_names_apart() -> None:
    field = LongField(2**127 - 1)
    x = field.array(np.array([[1, 2], [2**200, 1]], object))
    values = x.keyed("f", 1).values
    assert values[0, 0] == values[1, 1]
    others = [values, x.keyed("g", 1).values, x.keyed("f", 2).values]
    assert len({*np.ravel(others).tolist()}) == 9
    assert max(np.ravel(others)) > 2**120


def test_an_array_keeps_its_prime_and_two_primes_do_not_mix() -> None:
    rng = np.random.default_rng(1)
    small, large = sorted({random_prime(rng) for _ in range(2)})
    a, b = Field(small).random((3, 3), rng), Field(large).random((3, 3), rng)
    for x in (a @ a, a.mT + 1, 2 * a[0], -a, a.reshape(9), a.keyed("f", 1)):
        assert x.field == Field(small)
    assert (a + (small - 1) * a == 0).all()
    mixed = (lambda: a + b, lambda: a @ b, lambda: a * b, lambda: a == b, lambda: a.field.array(b))
    for operation in mixed:
        with pytest.raises(ValueError, match=rf"{small} and modulo {large} do not mix"):
            operation()


def test_a_long_denominator_divisible_by_the_prime_is_the_same_error() -> None:
    with pytest.raises(ZeroDivisionError, match="a fraction of 20031 bits"):
        residue(Fraction(1, P << 20000))


def test_primes_are_told_from_other_numbers() -> None:
    small = [n for n in range(2, 3000) if all(n % k for k in range(2, int(n**0.5) + 1))]
    assert [n for n in range(3000) if _is_prime(n)] == small
    for n in (
        2047,
        3215031751,
        2**31 - 2,
        46339**2,
        65537 * 32749,
    ):  # the first two pass some bases
        assert not _is_prime(n)
    assert _is_prime(2**31 - 1)
