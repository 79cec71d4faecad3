"""Records come back from JSON as they were, and nothing else comes back at all."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweave.errors import FileFormatError, InputError
from inweave.exact.schema import (
    Coefficient,
    Mismatch,
    Must,
    Number,
    Size,
    Stored,
    content,
    dumps,
    fingerprint,
    loads,
    read,
    write,
)

Even = Annotated[int, Must("an even int", lambda n: n % 2 == 0)]


@dataclass(frozen=True)
class Leaf:
    name: str
    size: Size = 1


@dataclass(frozen=True)
class Pair:
    left: Leaf | Pair
    right: Leaf | Pair


@dataclass(frozen=True)
class All:
    whole: int
    real: float
    flag: bool
    choice: Literal["a", "b"]
    fraction: Fraction
    tree: Leaf | Pair
    wild: Number = 0.0
    even: Even = 0
    maybe: int | str | None = None
    numbers: tuple[float, ...] = ()
    point: tuple[str, int] = ("", 0)
    named: dict[str, Leaf] = field(default_factory=dict)
    note: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.real < 0:
            raise InputError("real must not be negative")


class Open(TypedDict):
    loss: Number
    leaves: list[Leaf]


GOOD: dict[str, Any] = {
    "whole": 3, "real": 0.5, "flag": True, "choice": "a", "fraction": "-1/3",
    "tree": {"left": {"name": "x", "size": 2}, "right": {"name": "y", "size": 1}},
}  # fmt: skip

leaves = st.builds(Leaf, st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 9))
trees = st.recursive(leaves, lambda inner: st.builds(Pair, inner, inner), max_leaves=6)
finite = st.floats(min_value=0, allow_infinity=False)


@given(
    st.builds(
        All, st.integers(), finite, st.booleans(), st.sampled_from("ab"), st.fractions(), trees,
        st.floats(allow_nan=False), st.integers().map(lambda n: 2 * n),
        st.none() | st.integers() | st.sampled_from(["", "x"]),
        st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
        named=st.dictionaries(st.sampled_from(["p", "q"]), leaves),
    )
)  # fmt: skip
def test_a_record_comes_back_from_its_text(record):
    text = dumps(write(All, record))
    back = read(All, loads(text))
    assert back == record
    assert dumps(write(All, back)) == text
    assert fingerprint(All, back) == fingerprint(All, record)
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"whole": True}, "whole: expected int, got True"),
        ({"whole": 1.0}, "whole: expected int, got 1.0"),
        ({"whole": "9" * 99}, "whole: expected int, got '9999"),
        ({"real": "x"}, "real: expected a number, got 'x'"),
        ({"real": True}, "real: expected a number, got True"),
        ({"real": math.nan}, "real: must be finite, got nan"),
        ({"real": 10**400}, "real: must be finite, got an integer of 1,329 bits"),
        ({"real": -1.0}, "real must not be negative"),
        ({"flag": 1}, r"flag: expected bool \(true or false\), got 1"),
        ({"choice": "c"}, "choice: 'c' is not one of 'a', 'b'"),
        ({"choice": []}, "choice: a list is not one of"),
        ({"fraction": "1/0"}, "fraction: expected a fraction p/q, got '1/0'"),
        ({"fraction": "1e9"}, "fraction: expected a fraction p/q"),
        ({"fraction": "9" * 5000}, "fraction: expected a fraction p/q"),
        ({"fraction": "/"}, "fraction: expected a fraction p/q"),
        ({"even": 3}, "even: expected an even int, got 3"),
        ({"even": None}, "even: expected an even int, got None"),
        ({"maybe": []}, "maybe: expected int or a text, got a list"),
        ({"numbers": 5}, "numbers: expected a list of numbers, got 5"),
        ({"numbers": [1, "x"]}, "numbers: expected a number, got 'x'"),
        ({"point": ["x"]}, "point: expected a list of 2 entries, got 1"),
        ({"point": ["x", "y"]}, r"point\[1\]: expected int, got 'y'"),
        ({"named": {"p": 1}}, r"named\['p'\]: must be an object, is int"),
        ({"named": {"\ud800": {"name": ""}}}, "named: holds half of a character"),
        ({"tree": []}, "tree: must be an object, is list"),
        ({"tree": {"name": 5}}, "tree.name: expected a text, got 5"),
        ({"tree": {"name": "", "size": 0}}, "tree.size: expected an integer from 1 to"),
        ({"tree": {"left": {"name": ""}}}, "tree: lacks 'right'"),
        ({"tree": {"name": "", "sise": 1}}, "tree: unknown entry 'sise'; did you mean 'size'?"),
        ({"note": 1}, "unknown entry 'note'"),
        ({"": 1}, "unknown entry ''; known are whole, real"),
    ],
)
def test_what_the_annotations_do_not_promise_is_refused_by_name(change, said):
    read(All, GOOD)
    with pytest.raises(Mismatch, match=f"^{said}"):
        read(All, GOOD | change)


def test_records_may_not_be_nested_without_end():
    tree: Any = {"name": "x"}
    for _ in range(40):
        tree = {"left": tree, "right": {"name": "y"}}
    with pytest.raises(Mismatch, match=r"^tree\.left\.left.*: records are nested deeper than"):
        read(All, GOOD | {"tree": tree})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, '{"a": 1, "a": 1}', b"\xff"])
def test_a_text_that_is_no_good_json_is_refused(text):
    with pytest.raises(Mismatch, match=r"damaged JSON|stands twice"):
        loads(text)


def test_data_nested_without_end_is_refused_where_anything_may_stand():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Mismatch, match="nested too deeply"):
        read(Open, {"loss": 1.0, "leaves": [], "more": deep})


def test_an_open_record_may_say_more_and_its_numbers_may_be_infinite():
    data = {"loss": "-Infinity", "leaves": [{"name": "NaN"}], "more": ["Infinity", {"x": 1}]}
    found = read(Open, data)
    assert found == {"loss": -math.inf, "leaves": [Leaf("NaN")], "more": [math.inf, {"x": 1}]}
    assert math.isnan(read(Open, data | {"loss": math.nan})["loss"])
    with pytest.raises(Mismatch, match="loss: expected a number, got 'x'"):
        read(Open, data | {"loss": "x"})


@dataclass(frozen=True, eq=False)
class Weights:
    array: Stored


def test_arrays_are_named_by_what_they_hold():
    kept = {}

    def keep(array):
        return kept.setdefault(content(array), array) is array and content(array)

    arrays = [np.ones((2, 3)), np.ones((3, 2)), np.array([[Fraction(1, 3)]])]
    names = [write(Weights, Weights(array), keep)["array"] for array in arrays]
    assert len(set(names)) == 3
    data = [{"array": names[0]}] * 5
    found = read(list[Weights], data, kept.__getitem__)
    assert len({id(weights) for weights in found}) == 1, "built once"
    with pytest.raises(Mismatch, match="is missing"):
        read(Weights, data[0])


@dataclass(frozen=True)
class Scaled:
    by: Coefficient


def test_coefficients_stay_within_floating_point():
    assert read(Scaled, {"by": "1/" + "9" * 400}).by > 0
    with pytest.raises(Mismatch, match="by: expected a fraction p/q that float64 can hold"):
        read(Scaled, {"by": "1" + "0" * 309})


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(FileFormatError, match="twice"):
        loads('{"a": 1, "a": 2}')
