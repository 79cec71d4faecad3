"""Stored results, read and checked: files of experiments and folders of training runs.

A report may be asked of any file; what is not a result is refused here by what it lacks, so that
tables and figures can take a result for granted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inweave.errors import FileFormatError, InputError
from inweave.lab.checks import is_file_name
from inweave.lab.strict_json import loads

METRICS, EVALUATION = "metrics.jsonl", "evaluation.json"

NUMBER = (int, float)
OPTIONAL = {"question": "", "loss": "loss"}
RESULT: dict[str, Any] = {
    "name": str, "command": str, "question": str, "loss": str, "rows": list, "claims": list,
    "series": list, "lines": list, "axes": dict,
}  # fmt: skip
PARTS: dict[str, dict[str, Any]] = {
    "rows": {"label": str, "loss": dict},
    "claims": {"claim": str, "value": NUMBER, "holds": bool},
    "series": {"group": str, "x": list, "y": list},
    "lines": {"label": str, "y": NUMBER},
}
LOSS: dict[str, Any] = {"mean": NUMBER, "low": NUMBER, "high": NUMBER}


def read_result(source: Path) -> dict[str, Any]:
    """The result in an experiment's file, or the curve and the table of a run's folder."""
    return _run(source) if source.is_dir() else _experiment(source)


def _experiment(path: Path) -> dict[str, Any]:
    result = OPTIONAL | _json(path)
    _has(result, RESULT, path, "it")
    for part, fields in PARTS.items():
        for i, entry in enumerate(result[part]):
            _has(entry, fields, path, f"{part}[{i}]")
    for i, row in enumerate(result["rows"]):
        _has(row["loss"], LOSS, path, f"rows[{i}].loss")
    for i, series in enumerate(result["series"]):
        if not all(isinstance(value, NUMBER) for value in series["x"] + series["y"]):
            raise _stranger(path, f"series[{i}] must hold numbers only")
    _has(result["axes"], {"x": str, "y": str}, path, "axes")
    if not is_file_name(result["name"]):
        raise _stranger(path, f"its name is {result['name']!r}")
    return result


def _run(folder: Path) -> dict[str, Any]:
    """A training run's curve and, if it was evaluated, its table."""
    entries = _logged(folder)
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
        evaluation = _json(path)
        _has(evaluation, {"table": dict}, path, "it")
        for label, entry in evaluation["table"].items():
            _has(entry, {"loss": dict}, path, f"table[{label!r}]")
            _has(entry["loss"], LOSS, path, f"table[{label!r}].loss")
            result["rows"].append({"label": label, "loss": entry["loss"]})
            if label != "trained":
                result["lines"].append({"label": label, "y": entry["loss"]["mean"]})
    return result


def _logged(folder: Path) -> list[dict[str, Any]]:
    """The logged losses. A last line without an end was cut off by a kill and does not count."""
    path = folder / METRICS
    if not path.exists():
        raise InputError(f"{folder} holds no training run ({path.name} is missing)")
    entries = []
    *whole, rest = _text(path).split("\n")
    for i, line in enumerate([*whole, rest], 1):
        try:
            entry = loads(line) if line else None
        except ValueError as error:
            if i > len(whole):
                break
            raise FileFormatError(f"{path}, line {i}: {error}") from None
        if entry is not None:
            _has(entry, {"step": int, "loss": NUMBER}, path, f"line {i}")
            entries.append(entry)
    if not entries:
        raise InputError(f"{folder} has logged no loss yet; report it after its first log_every")
    return entries


def _json(path: Path) -> dict[str, Any]:
    try:
        content = loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a result file: {error}") from None
    _has(content, {}, path, "it")
    return dict(content)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not UTF-8 text: {error}") from None


def _has(entry: Any, fields: dict[str, Any], path: Path, what: str) -> None:
    """Refuse an entry that is no object, or lacks a field of that kind."""
    if not isinstance(entry, dict):
        raise _stranger(path, f"{what} must be an object, is {type(entry).__name__}")
    for name, kind in fields.items():
        if not isinstance(entry.get(name), kind):
            state = "has a wrong" if name in entry else "lacks"
            raise _stranger(path, f"{what} {state} {name!r}")


def _stranger(path: Path, why: str) -> FileFormatError:
    return FileFormatError(f"{path} is no result of the lab: {why}")
