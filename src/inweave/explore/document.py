"""One HTML file: template, style, module and data put together.

The page's code is written as small ES modules, `static/*.js`, and travels as one: each file stands
after those it imports, and the import lines are left out. So a name means one thing in all files.

The content security policy allows exactly the style and the script that are inside, by their
hashes, and images made by the page itself. Data stands in a script element of a type that no
browser runs, with every `<` escaped, so no name in it can end that element.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import partial
from graphlib import TopologicalSorter
from html import escape
from importlib.resources import files
from typing import Any

STATIC = files("inweave.explore").joinpath("static")
escaped = partial(escape, quote=False)  # text that can stand between tags
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(.*)";\n', re.MULTILINE)
START = """
render({
  model: staticModel({ payload: JSON.parse(document.getElementById("inweave-data").textContent) }),
  el: document.getElementById("inweave"),
  page: true,
});
"""


def asset(name: str) -> str:
    """The text of a file that ships with the explorer."""
    return STATIC.joinpath(name).read_text(encoding="utf-8")


def module() -> str:
    """The explorer's code as one ES module."""
    names = sorted(path.name for path in STATIC.iterdir() if path.name.endswith(".js"))
    texts = {name: asset(name) for name in names}
    order = TopologicalSorter({name: IMPORT.findall(text) for name, text in texts.items()})
    return "\n".join(IMPORT.sub("", texts[name]).lstrip() for name in order.static_order())


def inert(value: Any) -> str:
    """JSON that can stand inside a script element: no `<`, `>`, `&`, and no line separators."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def digest(text: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def html(data: dict[str, Any]) -> str:
    """The page."""
    style, script = "\n" + asset("explorer.css"), "\n" + module() + START
    names = " and ".join(network["name"] for network in data["networks"])
    parts = {
        "title": escaped(f"{names} · inweave explorer"),
        "policy": "; ".join(
            [
                "default-src 'none'",
                f"script-src {digest(script)}",
                f"style-src {digest(style)}",
                "img-src data: blob:",
                "base-uri 'none'",
                "form-action 'none'",
            ]
        ),
        "style": style,
        "data": inert(data),
        "script": script,
    }
    text = asset("page.html")
    head, *rest = text.split("{{")
    out = [head]
    for piece in rest:
        name, tail = piece.split("}}", 1)
        out += [parts[name.strip()], tail]
    return "".join(out)
