"""Beside Tracr, which compiles programs to transformer weights too: `python -m benchmarks.peers`.

With `--store` what was measured is kept in results/peers.json; `python -m benchmarks.docs` writes
it into the pages that show it.

Tracr (`tracr-pypi`) compiles RASP programs over tokens of a finite vocabulary to weights of a
softmax transformer; inweave compiles matrix algorithms to weights of linear attention. Two programs
can be written in both, with tokens one-hot for inweave, and give the same numbers:

- histogram: how often the token at each place stands in the sequence;
- fraction: which part of the tokens up to each place is the first of the vocabulary.

What is not comparable: Tracr embeds tokens itself and runs the dense transformer that it compiled,
under `jax.jit` here; inweave's call runs the plan of its network in numpy, and `dense` is its own
dense transformer. Compiling includes proving in inweave, which Tracr has no counterpart of; without
the proof it is told as well. Tracr is installed on demand into an environment of its own, a folder
that git ignores.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import inweave
from inweave import Matrix, Vector
from inweave.model import dense

HOME = Path(__file__).parents[1] / ".venv-peers"
RESULTS = Path(__file__).parent / "results" / "peers.json"
VOCABULARY, LENGTHS = 4, (5, 10, 20)


# -- inweave --------------------------------------------------------------------------------------
@inweave.program
def histogram(T: Matrix["n", "v"]) -> Vector["n"]:
    """How often the token of each row stands in all rows."""
    return T @ (T.T @ inweave.ones(T.shape[0]))


@inweave.program
def fraction(T: Matrix["n", "v"]) -> Vector["n"]:
    """Which part of the rows up to each one has the first token."""
    n = T.shape[0]
    return (np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]) @ T[:, 0]


PROGRAMS = {"histogram": histogram, "fraction": fraction}


def ours(name: str, tokens: list[int]) -> dict[str, Any]:
    """Seconds to compile, with and without proof, and to run; the size, and the answer."""
    program, n = PROGRAMS[name], len(tokens)
    T = np.eye(VOCABULARY)[tokens]
    sizes = {"n": n, "v": VOCABULARY}
    net = inweave.compile(program, **sizes)
    H = net.prompt(T=T)
    return {
        "compile": seconds(lambda: inweave.compile(program, **sizes), 3),
        "compile, no proof": seconds(lambda: inweave.compile(program, **sizes, verify=False), 3),
        "run": seconds(lambda: net(T=T), 50),
        "run, dense": seconds(lambda: dense.forward(net, H), 50),
        "attention layers": net.depth,
        "numbers": net.stored_numbers,
        "answer": np.asarray(net(T=T)).tolist(),
    }


def seconds(call: Callable[[], Any], times: int) -> float:
    """The median of the processor time of some calls, after the first."""
    call()
    found = []
    for _ in range(times):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return median(found)


# -- Tracr ----------------------------------------------------------------------------------------
# `seconds` stands before it.
THEIRS = """
import json, sys, time
from statistics import median
import jax
import jax.numpy as jnp
from tracr.compiler import compiling, lib
from tracr.rasp import rasp

name, tokens, vocabulary = json.loads(sys.argv[1])
letters = [chr(ord("a") + i) for i in range(vocabulary)]

def program():
    if name == "histogram":
        return lib.make_hist()
    return lib.make_frac_prevs((rasp.tokens == "a").named("first"))

def compiled():
    return compiling.compile_rasp_to_model(
        program(), vocab=set(letters), max_seq_len=len(tokens), compiler_bos="BOS")

model = compiled()
given = ["BOS", *(letters[i] for i in tokens)]
encoded = jnp.asarray([model.input_encoder.encode(given)])
forward = jax.jit(lambda x: model.forward(model.params, x).transformer_output)
print(json.dumps({
    "compile": seconds(compiled, 3),
    "run": seconds(lambda: model.apply(given), 5),
    "run, jitted": seconds(lambda: jax.block_until_ready(forward(encoded)), 50),
    "attention layers": model.model_config.num_layers,
    "numbers": sum(x.size for x in jax.tree_util.tree_leaves(model.params)),
    "answer": [float(x) for x in model.apply(given).decoded[1:]],
}))
"""


def environment() -> Path | None:
    """The python of an environment with Tracr; None, with a message, if it cannot be made."""
    python = HOME / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if _has_tracr(python):
        return python
    print(f"installing tracr-pypi into {HOME.name}/ ...", file=sys.stderr)
    venv.create(HOME, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "tracr-pypi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0 and _has_tracr(python):
        return python
    why = done.stderr.strip().splitlines()[-1:] or ["it does not import"]
    print(f"skipped: tracr-pypi cannot be installed ({why[0]})", file=sys.stderr)
    return None


def _has_tracr(python: Path) -> bool:
    command = [str(python), "-c", "import tracr.compiler.compiling"]
    return (
        python.exists() and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def theirs(python: Path, name: str, tokens: list[int]) -> dict[str, Any]:
    """The same of Tracr, in its own process."""
    asked = json.dumps([name, tokens, VOCABULARY])
    script = f"from __future__ import annotations\n{inspect.getsource(seconds)}{THEIRS}"
    done = subprocess.run(
        [str(python), "-c", script, asked], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(python: Path) -> dict[str, Any]:
    """Both, on the same tokens, and by how much their answers differ."""
    rng = np.random.default_rng(0)
    rows = []
    for name in PROGRAMS:
        for n in LENGTHS:
            tokens = rng.integers(VOCABULARY, size=n).tolist()
            found = {"inweave": ours(name, tokens), "Tracr": theirs(python, name, tokens)}
            answers = [one.pop("answer") for one in found.values()]
            gap = float(np.max(np.abs(np.subtract(*answers))))
            rows.append({"program": name, "tokens": n, "gap": gap, **found})
    return {"date": date.today().isoformat(), "vocabulary": VOCABULARY, "rows": rows}


# -- pages ----------------------------------------------------------------------------------------
COLUMNS = (
    ("inweave", "compile"), ("inweave", "compile, no proof"), ("inweave", "run"),
    ("inweave", "run, dense"), ("Tracr", "compile"), ("Tracr", "run"), ("Tracr", "run, jitted"),
)  # fmt: skip


def told(what: str, found: dict[str, Any]) -> str:
    """The table of times or of sizes, in Markdown."""
    shown = COLUMNS if what == "times" else tuple(
        (who, size) for size in ("attention layers", "numbers") for who in ("inweave", "Tracr")
    )  # fmt: skip
    lines = [["program, tokens", *(f"{who}: {column}" for who, column in shown)]]
    lines.append(["---", *("---:" for _ in shown)])
    for row in found["rows"]:
        values = [row[who][column] for who, column in shown]
        said = [f"{1e3 * v:.2g}" if what == "times" else f"{v:,}" for v in values]
        lines.append([f"{row['program']}, {row['tokens']}", *said])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    gap = max(row["gap"] for row in found["rows"])
    unit = "Milliseconds of processor time, m" if what == "times" else "M"
    return (
        f"{unit}easured on {found['date']} with {found['vocabulary']} kinds of tokens; the answers "
        f"differ by {gap:.1e} at most, which is Tracr's float32.\n\n{table}"
    )


def main() -> int:
    python = environment()
    if python is None:
        return 0
    found = measure(python)
    print(told("times", found), told("sizes", found), sep="\n\n")
    if "--store" in sys.argv:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
