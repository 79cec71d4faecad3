"""JSON that every reader takes: a number that is not finite is written as the text of its name.

Losses of networks that overflow are infinite and belong in the results, but JSON has no such
numbers. Python's own `NaN` and `Infinity` are refused by other languages; as texts they survive,
and `loads` makes numbers of them again. Files with the bare words are read as well.
"""

from __future__ import annotations

import json
import math
from typing import Any

NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(content: Any, indent: int | None = None) -> str:
    return json.dumps(_named(content), indent=indent, allow_nan=False)


def loads(text: str) -> Any:
    """What `dumps` was given, with lists for tuples; a text that is one of `NAMES` is a number."""
    return _numbers(json.loads(text))


def _named(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _named(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_named(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    return content


def _numbers(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _numbers(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_numbers(value) for value in content]
    return NAMES.get(content, content) if isinstance(content, str) else content
