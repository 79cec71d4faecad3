"""Tables of text: one meaning, whoever reads them, and a place for whatever is wrong."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweave.cli import tables
from inweave.cli.delimited import Delimited
from inweave.cli.numbers import number
from inweave.errors import InputError

# what looks like a number to some reader or other
CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["1.", ".5", "+1", "1e5", "1E+05", "-0", "00012", "1e-400", "4.9e-324", "1e999",
         "1_000", "１２", "٣", "²", "½", "0x10", "0b1", "1f", "1d5", "1e", "1.5.1", "--1",
         "e5", ".", "-", "nan", "-nan", "inf", "-Infinity", "NA", "null", "true",
         "2020-01-01", "1/2", "1%", "$1", "red", "", " ", " 7 ", "7\t", "1 2", "1\x0c",
         "\x0c1", "\xa01", "\x00", "\x85", "\x1c1", "1\x0b2"]
    ),
    st.text(st.characters(exclude_characters='\n\r",;\t', exclude_categories=["Cs"]), max_size=3),
)  # fmt: skip


def of(text: str) -> Delimited:
    return Delimited.of(Path("t.csv"), text.encode())


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), st.sampled_from(",;\t"))
def test_what_is_read_quickly_is_what_is_read_carefully(
    rows: list[tuple[str, str]], by: str
) -> None:
    """pyarrow's answer counts only where it is bit for bit that of the careful reader."""
    pytest.importorskip("pyarrow")
    table = of("\n".join(by.join(row) for row in [("first", "second"), *rows]) + "\n")
    for names in (["first"], ["second", "first"]):
        quick = table._quickly(names)
        if quick is not None:
            careful = table._carefully(names)
            assert quick.tobytes() == careful.tobytes()
            assert quick.shape == careful.shape == (len(rows), len(names))


@pytest.mark.parametrize("cell", ["1_000", "１２", "٣", "²", "1\x0c", "0x10", "nan1", "1 2", "--1"])
@pytest.mark.parametrize("quotes", ["", '"'])
def test_what_only_python_takes_for_a_number_is_refused(cell: str, quotes: str) -> None:
    table = of(f"a,b\n1,2\n3,{quotes}{cell}{quotes}\n")
    with pytest.raises(InputError, match=r"column 'b', row 2: .* is not a number"):
        table.numbers(["a", "b"])
    assert table.numbers(["a"]).tolist() == [[1], [3]]


@pytest.mark.parametrize("odd", ["\xa0", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u3000"])
def test_a_cell_is_quoted_with_what_cannot_be_seen_in_it(odd: str) -> None:
    """'10' is not a number, says nobody who shall be believed."""
    blank = " \t"
    for cell in (f"{odd}10", f"10{odd}", f" {odd}10\t"):
        with pytest.raises(InputError, match="is not a number") as refused:
            of(f"a;b\n{cell};1\n").numbers(["a"])
        assert f"row 1: {cell.strip(blank)!r} is not" in str(refused.value)


@pytest.mark.parametrize(
    "odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_only_the_end_of_a_line_ends_a_row(odd: str) -> None:
    table = of(f"name{odd}of,a\nleft{odd}right,1\n{odd},2\n")
    assert table.names == (f"name{odd}of", "a")
    assert table.numbers(["a"]).tolist() == [[1], [2]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(end: str) -> None:
    table = of("\ufeff" + end.join(["a;b", "1;2", "", "3;4", ""]))
    assert table.names == ("a", "b")
    assert table.numbers(["b", "a"]).tolist() == [[2, 1], [4, 3]]


def test_a_row_of_another_length_is_refused_although_its_columns_are_not_used() -> None:
    for row in ("4", "4,5,6,7"):
        with pytest.raises(InputError, match=r"row 2: . values, but the header names 3 columns"):
            of(f"a,b,c\n1,2,3\n{row}\n").numbers(["a"])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_writes_is_read_exactly(x: float) -> None:
    assert number(repr(x)).hex() == x.hex()
    assert of(f"a\n{x!r}\n").numbers(["a"])[0, 0].hex() == x.hex()


def test_a_table_is_read_without_pyarrow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = of("name,a,b\nx,1,2\ny,3,4\n")
    assert table._quickly(["a"]) is None
    assert table.numbers(["b", "a"]).tolist() == [[2, 1], [4, 3]]


def test_reading_a_table_takes_little_more_memory_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also cell by cell; one Python object per cell would be twenty times the file."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "0.5,0.25\n" * 20_000)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    tracemalloc.start()
    try:
        found = tables.read(path).numbers(["a", "b"])
        assert tracemalloc.get_traced_memory()[1] < 5 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert np.array_equal(found, np.full((20_000, 2), [0.5, 0.25]))


@pytest.mark.parametrize("cells", [[1, 2], [True, False], np.array([1.5, 2], np.float32)])
def test_arrays_of_every_kind_of_number_are_columns(tmp_path: Path, cells: list[float]) -> None:
    np.savez(tmp_path / "t.npz", a=cells)
    assert tables.read(tmp_path / "t.npz").numbers(["a"])[:, 0].tolist() == list(cells)
    np.savez(tmp_path / "t.npz", a=np.array([1, np.nan]))
    with pytest.raises(InputError, match="column 'a', row 2: nan is not a finite number"):
        tables.read(tmp_path / "t.npz").numbers(["a"])
