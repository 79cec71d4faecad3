"""Stored results, read and checked: files of experiments and folders of training runs.

A report may be asked of any file; what is not a result is refused here by what it lacks, so that
tables and figures can take a result for granted. A result may say more than is asked for here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

from inweave.errors import FileFormatError, InputError
from inweave.exact.schema import Mismatch, Must, Number, loads, numbers, read
from inweave.files import regular
from inweave.lab.checks import is_file_name

METRICS, EVALUATION = "metrics.jsonl", "evaluation.json"

T = TypeVar("T")
Numbers = Annotated[list[Number], Must("a list, which must hold numbers only", lambda _: True)]


class Loss(TypedDict):
    mean: Number
    low: Number
    high: Number


class Evaluated(TypedDict):
    loss: Loss


class Row(Evaluated):
    label: str


class Claim(TypedDict):
    claim: str
    value: Number
    holds: bool


class Series(TypedDict):
    x: Numbers
    y: Numbers


class Line(TypedDict):
    label: str
    y: Number


class Axes(TypedDict):
    x: str
    y: str


class Result(TypedDict):
    name: str
    command: str
    question: str
    loss: str
    rows: list[Row]
    claims: list[Claim]
    series: list[Series]
    lines: list[Line]
    axes: Axes


class Evaluation(TypedDict):
    table: dict[str, Evaluated]


class Logged(TypedDict):
    step: int
    loss: Number


def read_result(source: Path) -> dict[str, Any]:
    """The result in an experiment's file, or the curve and the table of a run's folder."""
    return _run(source) if source.is_dir() else _experiment(source)


def stored(path: Path) -> Any:
    """What a JSON file of the lab holds, whatever that is."""
    return numbers(_json(path))


def _experiment(path: Path) -> dict[str, Any]:
    found = _json(path)
    if isinstance(found, dict):
        found = {"question": "", "loss": "loss"} | found
    result = dict(_typed(Result, found, path))
    if not is_file_name(result["name"]):
        raise FileFormatError(f"{path} is no result of the lab: its name is {result['name']!r}")
    return result


def _run(folder: Path) -> dict[str, Any]:
    """A training run's curve and, if it was evaluated, its table."""
    entries = logged(folder)
    if not entries:
        raise InputError(f"{folder} has logged no loss yet; report it after its first log_every")
    name = folder.resolve().name
    result: dict[str, Any] = {
        "name": name,
        "command": f"inweave lab train --out {name}",
        "question": "",
        "series": [{"label": "training", "group": "training",
                    "x": [e["step"] for e in entries], "y": [e["loss"] for e in entries]}],
        "lines": [],
        "rows": [],
        "axes": {"x": "step", "y": "MSE"},
        "claims": [],
    }  # fmt: skip
    path = folder / EVALUATION
    if path.exists():
        for label, entry in _typed(Evaluation, _json(path), path)["table"].items():
            result["rows"].append({"label": label, "loss": entry["loss"]})
            if label != "trained":
                result["lines"].append({"label": label, "y": entry["loss"]["mean"]})
    return result


def logged(folder: Path) -> list[Logged]:
    """The logged losses. A last line without an end was cut off by a kill and does not count."""
    path = folder / METRICS
    if not path.exists():
        raise InputError(f"{folder} holds no training run ({path.name} is missing)")
    entries = []
    *whole, rest = _text(path).split("\n")
    for i, line in enumerate([*whole, rest], 1):
        try:
            entry = loads(line) if line else None
        except Mismatch as error:
            if i > len(whole):
                break
            raise FileFormatError(f"{path}, line {i}: {error}") from None
        if entry is not None:
            entries.append(_typed(Logged, entry, path, f"line {i}"))
    return entries


def _json(path: Path) -> Any:
    try:
        return loads(_text(path))
    except Mismatch as error:
        raise FileFormatError(f"{path} is not a result file: {error}") from None


def _text(path: Path) -> str:
    try:
        return regular.read(path).decode()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not UTF-8 text: {error}") from None


def _typed(kind: type[T], data: Any, path: Path, what: str = "it") -> T:
    """Data as what it must be, or a refusal that says what it lacks."""
    try:
        return read(kind, data)
    except Mismatch as error:
        said = f"{error.where or what} {error.sentence('must be')}"
        if error.got:
            *outer, name = error.path
            holder = "".join(outer).removeprefix(".") or what
            said = f"{holder} has a wrong {name.strip('.')!r}: {error.sentence('expected')}"
        raise FileFormatError(f"{path} is no result of the lab: {said}") from None
