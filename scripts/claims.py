"""What the numbers in prose are computed from: every claim by page, and what claims nothing.

`scripts.prose` reads the pages.
"""

from __future__ import annotations

import functools
import json
import re
import runpy
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import inweave
from benchmarks import (
    beyond_memory,
    dense,
    digits,
    direct,
    kernel,
    memory,
    modes,
    precision,
    problem,
)
from benchmarks import gallery as by_entry
from benchmarks import ridge as by_size
from benchmarks.stored import RESULTS, Stored
from inweave import gallery, paper
from inweave.circuits import suite
from inweave.circuits.build import MANY
from inweave.cli import demo_report
from inweave.cli.app import EPILOGUE
from inweave.compiler import affine, candidates, collapse, entrywise, letters, stacked, store
from inweave.compiler.options import CANDIDATES
from inweave.estimators import lasso, logistic
from inweave.exact import field, long_field
from inweave.explore import payload
from inweave.lab import algorithm
from inweave.language import inverses, tables
from inweave.model.layers import AttentionLayer
from inweave.proof import affine as proved_loops
from inweave.proof import check
from inweave.proof.degree import lower_bound, quick_degree
from inweave.proof.entries import Degree, in_entries
from inweave.run import growth
from inweave.run.kernel import call, generate
from inweave.run.libraries import by_powers
from inweave.run.libraries import jax as staging
from inweave.stack import blocks
from scripts import conditions, least_depth

ROOT = Path(__file__).resolve().parent.parent
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
         "eleven", "twelve")  # fmt: skip
EPS = float(np.finfo(float).eps)
TENS = {20: "twenty", 30: "thirty"}
ridge: inweave.Program = runpy.run_path(str(ROOT / "examples" / "ridge.py"))["ridge"]


@dataclass(frozen=True)
class Claim:
    """A text with fields, and the values of the fields as they should be."""

    text: str
    values: Callable[[], tuple[object, ...]]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The text wherever its lines are broken, with anything in its fields."""
        parts = re.split(r"\{([^}]*)\}", self.text)
        plain = [r"\s+".join(re.escape(word) for word in part.split(" ")) for part in parts[::2]]
        return re.compile(r"(\S+?)".join(plain))

    def wanted(self) -> list[str]:
        """What should stand in the fields."""
        specs = re.findall(r"\{:?([^}]*)\}", self.text)
        return [format(v, s) for v, s in zip(self.values(), specs, strict=True)]

    def filled(self, page: str) -> str:
        """The page with the right numbers in this text."""
        found = self.pattern.search(page)
        if found is None:
            raise LookupError(f"nowhere on the page: {self.text}")
        out, at = "", 0
        for i, value in enumerate(self.wanted(), 1):
            out += page[at : found.start(i)] + value
            at = found.end(i)
        return out + page[at:]


# -- what claims are about -------------------------------------------------------------------------
@functools.cache
def deep(steps: int) -> inweave.Network:
    """Ridge regression by least depth."""
    return inweave.compile(ridge, n=3, d=2, steps=steps, optimize="depth", verify=False)


def on_its_prompt(made: Callable[[int, int, int], inweave.Network], steps: int) -> Degree:
    """The degree in the entries of a prompt of the paper's."""
    traced = gallery.get("ridge_gd").program.trace(n=3, d=2, steps=steps)
    return in_entries(traced, made(3, 2, steps).fills, quick_degree)


def of_entry(name: str, optimize: str = "depth", **sizes: int) -> int:
    """The layers of an entry of the gallery."""
    return gallery.get(name).compile(optimize=optimize, verify=False, **sizes).depth


def heads_of_a_step() -> list[int]:
    """The heads of each layer of one step of descent, in the network of the story."""
    step = inweave.compile(ridge, n=3, d=2, steps=2, verify=False).modules[0]
    return [len(layer.heads) for layer in step.layers if isinstance(layer, AttentionLayer)]


def python() -> str:
    """The least Python that pyproject.toml allows."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return str(tomllib.loads(text)["project"]["requires-python"]).removeprefix(">=")


@functools.cache
def lost() -> dict[str, list[list[float]]]:
    """The table of docs/explanation/numerics.md: by program and condition, the three errors."""
    table = conditions.PAGE.read_text("utf-8").partition(conditions.BEGIN)[2]
    rows = re.findall(r"^\| (\w+), \d+ steps \| (.*) \|$", table, re.MULTILINE)
    return {
        name: [[float(x) for x in cell.split("/")] for cell in cells.split("|")]
        for name, cells in rows
    }


def by_momentum(condition: float) -> float:
    """How much more than the faithful network depth loses where there is momentum, at most."""
    at = conditions.CONDITIONS.index(condition)
    return max(lost()[n][at][2] / lost()[n][at][1] for n in ("heavy_ball", "nesterov", "chebyshev"))


def notebooks() -> Iterator[Path]:
    return (ROOT / "docs" / "notebooks").glob("*.ipynb")


def word(number: float) -> str:
    return TENS.get(round(number)) or WORDS[round(number)]


def superscript(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def tens(number: float) -> str:
    """A power of ten."""
    return f"10{superscript(round(np.log10(number)))}"


def short_of_two_steps() -> str:
    """What two tied trained layers lose less than two steps of descent."""
    stored = json.loads((ROOT / "docs" / "lab" / "two-step.json").read_text("utf-8"))
    loss = {row["label"].partition(",")[0]: row["loss"]["mean"] for row in stored["rows"]}
    return "quarter" if loss["two tied LSA layers"] < 0.75 * loss["two GD steps"] else "no part"


def without_tables(library: str) -> tuple[float, float]:
    """How much longer networks with tables take than the library's own functions: most, median."""
    rows = Stored.read(RESULTS / "gallery.json").rows
    ratios = [row.value for row in rows if row.against == f"{library}, by hand, no tables"]
    return max(ratios), median(ratios)


def edit_of_the_page() -> float:
    """Milliseconds, as they were measured."""
    rows = Stored.read(RESULTS / "cpu.json").rows
    return next(row.value for row in rows if row.name == "an edit of the README's network")


def page_of_figures() -> float:
    """Megabytes of the page of the pictures of docs/explorer.md."""
    net = inweave.compile(ridge, n=12, d=4, steps=81, verify=False)
    return len(inweave.explore.page(net).encode()) / 1e6


def reciprocal_units() -> int:
    """Hidden units of 1/x on five decades."""
    [layer] = [x for x in inverse().layers if isinstance(x, inweave.BlockPointwiseLayer)]
    return layer.units


def inverse() -> inweave.Network:
    @inweave.program
    def inverse(p: inweave.Scalar) -> inweave.Scalar:
        return inweave.reciprocal(p, domain=(1e-3, 1e2))

    return inweave.compile(inverse, verify=False)


def in_code(path: str, pattern: str) -> str:
    """A number that stands in a file and has no name."""
    (found,) = re.findall(pattern, (ROOT / path).read_text("utf-8"), re.MULTILINE)
    return str(found)


def layers(function: Callable[[Any, Any], Any], kind: str) -> int:
    """The layers of a function of two vectors, or matrices."""
    size = inweave.Matrix["n", "n"] if kind == "matrix" else inweave.Vector["n"]

    def program(A, B):  # type: ignore[no-untyped-def]
        return function(A, B)

    program.__annotations__ = {"A": size, "B": size}
    return inweave.compile(inweave.program(program), n=3, verify=False).depth


CODES = re.findall(r"\d+", next(x for x in EPILOGUE.splitlines() if x.startswith("Exit codes: ")))
EXIT = Claim("{} done, {} a check failed, {} refused (bad usage or bad input), {} crashed (a "
             "defect of inweave), {} interrupted", lambda: tuple(CODES))  # fmt: skip

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "README.md": (
        Claim("inweave demo # {} networks, each proved",
              lambda: (word(len(demo_report.PAPER) + len(demo_report.COMPILED)),)),
        Claim("runs all {} on {} rows in seconds",
              lambda: (word(len(demo_report.PAPER) + len(demo_report.COMPILED)),
                       demo_report.LEARN_FROM)),
        Claim("after each of its {} layers", lambda: (word(deep(27).depth),)),
        Claim("729 steps in {} layers.", lambda: (deep(729).depth,)),
        Claim("Both need Python {} or newer", lambda: (python(),)),
        Claim("with probability {} at most", lambda: (tens(check.UNLIKELY),)),
        Claim("729 steps of ridge regression take {} layers, and the bound is {};",
              lambda: (deep(729).depth, deep(729).depth_lower_bound)),
        Claim("checked from 1 to {})", lambda: (least_depth.MOST,)),
        Claim("there the bound is {}.", lambda: (on_its_prompt(paper.ridge_lsa, 729).layers,)),
        Claim("[{} certified models with known circuits]", lambda: (suite.COUNT,)),
        Claim("more than a {} below two gradient steps", lambda: (short_of_two_steps(),)),
        Claim("the paper's networks take {} and {} layers",
              lambda: (paper.ridge_lsa(3, 2, 729).depth, paper.ridge_elsa(3, 2, 729).depth)),
        EXIT,
    ),
    "src/inweave/cli/demo_story.json": (
        Claim('"{} patients and a question', lambda: (word(demo_report.PAGE[0]).capitalize(),)),
        Claim('"{} heads of the first layer add up the gradient Xᵀ(X w − y) + λ w.',
              lambda: (word(heads_of_a_step()[0]).capitalize(),)),
        Claim("{} layers, one step of gradient descent.",
              lambda: (word(len(heads_of_a_step())).capitalize(),)),
        Claim("the same {} layers again", lambda: (word(len(heads_of_a_step())),)),
        Claim("and reads the answer: {} steps in {} layers.",
              lambda: (demo_report.PAGE[1], deep(demo_report.PAGE[1]).depth)),
        Claim("{} = 3⁶ of them take {} layers.", lambda: (3**6, deep(3**6).depth)),
        Claim("729 steps have degree {}, more than 3{}.",
              lambda: (deep(729).degree, superscript(deep(729).depth - 1))),
        Claim('"title": "729 steps in {} layers"', lambda: (deep(729).depth,)),
    ),
    "CHANGELOG.md": (
        Claim("Chebyshev: {} layers for 243 steps", lambda: (of_entry("chebyshev", steps=243),)),
        Claim("geometric sums (6 steps in {} layers",
              lambda: (of_entry("newton_schulz", steps=6),)),
        Claim("`sinkhorn` has {} layers (were 73), `regression_mixture` {} (were 50), "
              "`gaussian_mixture` {} (were 33)",
              lambda: tuple(of_entry(name, "faithful") for name in
                            ("sinkhorn", "regression_mixture", "gaussian_mixture"))),
        Claim("a suite of {} certified networks", lambda: (suite.COUNT,)),
    ),
    "CONTRIBUTING.md": (Claim("You need Python {} or newer", lambda: (python(),)),),
    "docs/circuits.md": (
        Claim("| {} prompts as named inputs;", lambda: (MANY,)),
    ),
    "docs/errata.md": (
        Claim("error is about 2{} (|x|/x_1)³, and no digit is right beyond |x| = {:.1f}·10⁵ x_1",
              lambda: (superscript(round(np.log2(EPS))), EPS ** (-1 / 3) / 1e5)),
    ),
    "docs/benchmarks.md": (
        Claim("beyond {} of them, the X of the first {} come again",
              lambda: (problem.DRAWN, problem.DRAWN)),
        Claim("alone and in batches of {} and {}, beside the same", lambda: by_entry.BATCHES[1:]),
        Claim("A batch with more than {:.0f} MB of inputs, or with calls that would take more than "
              "{:.0f} seconds", lambda: (by_entry.MEMORY / 1e6, by_entry.PATIENCE)),
        Claim("those of up to {} columns are written out", lambda: (staging.SMALL,)),
        Claim("for one prompt and for batches of {} and {}.", lambda: modes.BATCHES[1:]),
        Claim("runs five of them, {} steps of {} x {}", lambda: (digits.STEPS, digits.N, digits.N)),
        Claim("slower than depth by far more than {:.0f} %:", lambda: (100 * (modes.BAR - 1),)),
        Claim("At ({}, {}) its matrices do not fit", lambda: dense.COUNTED[0]),
        Claim("to a relative accuracy of {:.0e}:", lambda: (direct.DIGITS,)),
        Claim("ridge gradient descent, T = {}.", lambda: (problem.STEPS,)),
        Claim("2 × inputs + {} d² numbers", lambda: (memory.MATRICES,)),
        Claim("One LSA layer, d = n = {}, batch {}, forward",
              lambda: (in_code("benchmarks/lab.py", r"^TASK = Task\(d=(\d+), n=\d+"),
                       in_code("benchmarks/lab.py", r"^BATCH, LR, STEPS = (\d+)"))),
        Claim("is compiled in {} drafts first", lambda: (word(len(CANDIDATES)),)),
        Claim("(d = {}, n = {}, untied, batch {}), in seconds per step",
              lambda: (in_code("benchmarks/lab.py", r"^NOISY = Task\(d=(\d+)"),
                       in_code("benchmarks/lab.py", r"^NOISY = Task\(d=\d+, n=(\d+)"),
                       in_code("benchmarks/lab.py", r"^BATCH, LR, STEPS = (\d+)"))),
        Claim("Bars: {} for the median of a library's rows, {} for each of them",
              lambda: (by_size.MEDIAN, by_size.WORST)),
        Claim("a median of {} for a library, and {} for every row where the hand-written code "
              "takes {:.0f} µs or more",
              lambda: (by_entry.MEDIAN, by_entry.WORST, 1e6 * by_entry.COUNTS)),
        Claim("takes up to {:.1f} times as long in numpy (median {:.1f}) and up to {:.1f} times in "
              "jax ({:.1f}):", lambda: (*without_tables("numpy"), *without_tables("jax"))),
        Claim("over {} random problems of every gallery program", lambda: (precision.SEEDS,)),
        Claim("never less than float32 resolves ({:.1f}e-7)",
              lambda: (1e7 * np.finfo(np.float32).eps,)),
        Claim("holds every ratio to at most {:.0f}.", lambda: (precision.BAR,)),
    ),
    "docs/index.md": (
        Claim("with Python {} or newer", lambda: (python(),)),
        Claim("{} [notebooks](notebooks/index.md)", lambda: (word(len(list(notebooks()))),)),
    ),
    "docs/install.md": (Claim("needs Python {} or newer", lambda: (python(),)),),
    "docs/tutorial.md": (
        Claim("50 steps in {} layers.", lambda: (word(deep(50).depth),)),
    ),
    "docs/explorer.md": (
        Claim("that takes {:.0f} ms of a processor", lambda: (edit_of_the_page(),)),
        Claim("at least {} pixels wide",
              lambda: (in_code("src/inweave/explore/static/arrange.js", r"\? 4 : (\d+);"),)),
        Claim("up to 1e-{} of the largest entry",
              lambda: (in_code("tests/browser/test_live.py", r"most: float = 1e-(\d+)"),)),
        Claim("A prompt of {} columns, block by block",
              lambda: (inweave.compile(ridge, n=40, d=10, steps=1, verify=False).width,)),
        Claim("Above {} MB of states", lambda: (payload.EXACT_BYTES // 10**6,)),
        Claim("The page of the figures above takes {:.1f} MB", lambda: (page_of_figures(),)),
    ),
    "docs/explanation/lower-bound.md": (
        Claim("$3T + 2$ | {}: {} layers |", lambda: (302, lower_bound(302))),
        Claim("$2T + 2$ | {}: {} layers |", lambda: _counted(paper.ridge_lsa)),
        Claim("$4T + 2$ | {}: {} layers |", lambda: _counted(paper.ridge_elsa)),
        Claim("for 100 steps of ridge regression it is {} layers",
              lambda: (on_its_prompt(paper.ridge_lsa, 100).layers,)),
    ),
    "docs/explanation/numerics.md": (
        Claim("Of {} prompts or more, {} are asked first",
              lambda: (by_powers.MANY, by_powers.ASKED)),
        Claim("product of {} factors or more that is read more than once, a product of {}, a sum "
              "of more than {} products",
              lambda: (store.FACTORS, store.LONGEST, word(store.PRODUCTS))),
        Claim("Median errors over {} problems in float64, in machine precisions ({:.1e})",
              lambda: (conditions.DRAWS, np.finfo(float).eps)),
        Claim("n = {}, d = m = {}.", lambda: (least_depth.USUAL["n"], least_depth.USUAL["d"])),
        Claim("at most {} at condition 10, {} at 100 and {} at 10⁴.",
              lambda: (word(by_momentum(10.0)), word(by_momentum(100.0)),
                       word(round(by_momentum(1e4), -1)))),
    ),
    "docs/explanation/verification.md": (
        Claim("a random prime $p$ of {} bits", lambda: (field.P.bit_length(),)),
        Claim("with primes of {} bits, of which", lambda: (field.LONG.least.bit_length(),)),
        Claim("as long as it takes, of up to {} bits,", lambda: (long_field.LENGTHS[-1],)),
        Claim("There are {} rounds, and", lambda: (long_field.ROUNDS,)),
        Claim("columns of more than {} entries)", lambda: (proved_loops.LARGEST,)),
        Claim("with a seed of {} random bits",
              lambda: (in_code("src/inweave/proof/check.py", r"randbelow\(2\*\*(\d+)\)"),)),
    ),
    "docs/explanation/which-algorithm.md": (
        Claim("more than {:.1f} % of their mean square",
              lambda: (100 * (algorithm.algorithm.__defaults__ or ())[0],)),
    ),
    "docs/howto/beyond-memory.md": (
        Claim("runs {} rows x {} ({:.1f} GB) on two workers with {} GB each",
              lambda: (tens(beyond_memory.ROWS), beyond_memory.FEATURES,
                       8 * beyond_memory.ROWS * beyond_memory.FEATURES / 1e9,
                       in_code("benchmarks/beyond_memory.py", r'memory_limit="(\d+)GB"'))),
        Claim("reaches {} times beyond the largest input", lambda: (tens(growth.SUSPICIOUS),)),
    ),
    "docs/howto/depth.md": (
        Claim("after 8 steps at condition 10 the error was {:.0f} machine precisions instead",
              lambda: (lost()["newton_schulz"][1][2],)),
        Claim("are more than {} products when multiplied out", lambda: (letters.MOST,)),
        Claim("says for {} programs what", lambda: (word(len(least_depth.PROGRAMS)),)),
        Claim("carry more than {} entries that have to be one vector", lambda: (stacked.MOST,)),
        Claim("has more than {} places at which what it carries stands", lambda: (affine.MOST,)),
        Claim("more than {:,} steps multiply by nothing but", lambda: (collapse.LONGEST,)),
        Claim("There are {} candidates:", lambda: (word(len(CANDIDATES)),)),
        Claim("the first within {:.0f} % of the least such ratio",
              lambda: (100 * (candidates.ALIKE - 1),)),
    ),
    "docs/howto/estimators.md": (
        Claim("A pass runs {} steps of P", lambda: (word(logistic.STEPS),)),
        Claim("beyond {} they take several passes", lambda: (logistic.MOST_STEPS,)),
        Claim("after {} passes of logistic regression, {:,} steps of the lasso",
              lambda: (logistic.MOST_PASSES, lasso.MOST_STEPS)),
        Claim("sigmoid's table (1e-{} at best)", lambda: (round(-np.log10(logistic.FINEST)),)),
    ),
    "docs/howto/entrywise.md": (
        Claim("of vectors of n | {} | n |", lambda: (layers(lambda a, b: a * b, "vector"),)),
        Claim("of r x c matrices, r ≤ c | {} | r, then c |",
              lambda: (layers(lambda A, B: A * B, "matrix"),)),
        Claim("`A * x[:, None]`, `A * z` | {} | its entries",
              lambda: (layers(lambda A, B: A * B[0], "matrix"),)),
        Claim("with a constant M | {} | different",
              lambda: (layers(lambda A, B: inweave.tril(A) + 0 * B, "matrix"),)),
        Claim("takes no more than {:,} numbers", lambda: (entrywise.FEW,)),
        Claim("`inweave.diag(A)` | {} | n |",
              lambda: (layers(lambda a, b: inweave.diag(a) + 0 * inweave.diag(b), "vector"),)),
    ),
    "docs/howto/export.md": (
        Claim("A module of more than {} executed layers", lambda: (blocks.CLEAR,)),
    ),
    "docs/howto/functions.md": (
        Claim("holds at {} points between every two", lambda: (tables.INSIDE,)),
        Claim("which is one head, need {}:", lambda: (reciprocal_units(),)),
        Claim("as wide as [{:.0e}, {}] (for `rsqrt` [{:.0e}, {}]): where {} units and {} steps",
              lambda: (*_limits("reciprocal"), *_limits("rsqrt"), inverses.TABLE_UNITS,
                       word(inverses.MOST_STEPS))),
        Claim("relative errors below {:.1e}, which float64", lambda: (4 * np.finfo(float).eps,)),
        Claim("a table of up to {:,} units stands alone", lambda: (inverses.ALONE,)),
    ),
    "docs/howto/frontier.md": (
        Claim("({} candidates, both targets", lambda: (word(len(CANDIDATES)),)),
    ),
    "docs/howto/gpu.md": (
        Claim("A batch of {} or more prompts in torch tensors", lambda: (call.LEAST,)),
        Claim("up to {:,} numbers a thread keeps for its prompt", lambda: (generate.KEPT,)),
        Claim("at its own size, {:,} prompts:", lambda: (kernel.BATCH,)),
    ),
    "docs/howto/own-data.md": (EXIT,),
}  # fmt: skip


def _counted(made: Callable[[int, int, int], inweave.Network]) -> tuple[object, ...]:
    found = on_its_prompt(made, 100)
    return found.number, found.layers


def _limits(name: str) -> tuple[object, object]:
    low, high = inverses.LIMITS[name]
    return low, f"{high:.0e}".replace("e+", "e")


# -- what claims nothing ---------------------------------------------------------------------------
EXAMPLES: dict[str, tuple[str, ...]] = {
    "README.md": ("(from row 2, column 0 on)",),
    "CONTRIBUTING.md": ("kill -9;", "Indices are 0-based"),
    "docs/benchmarks.md": (
        "The algorithm's own are 1 in n, T and batch and 2 in d;",
        "2 × inputs", "from 1e-20 on has slopes of 1e40", "in units of 1e-16",
    ),
    "docs/circuits.md": (
        "SHA-256", "from 0 to 1)", "a 95 % interval", "What is missing to 1 is", "at dial 1: those",
        "AutoCircuit 1.0.1", "TransformerLens 4",
    ),
    "docs/errata.md": (  # of the paper
        "(1) to (30) in Section 2, (31) to (86) in Section 3.", "1-based.", "A.1 to A.4.",
        "as A.1 has it",
    ),
    "docs/explanation/disguises.md": (
        "at 1 each transform has entries", "scaled by 2, 1 or ½", "At dial 0",
    ),
    "docs/explanation/five-facts.md": (  # derived there
        "starts at row 0", "have degree 3", "has degree 2",
    ),
    "docs/explanation/lower-bound.md": (  # derived there, and built by the test that it names
        "(fact 4 of", "degree 4 in the inputs", "degree 3 in the entries", "weighs more than 1;",
        "each weighs 1",
    ),
    "docs/explanation/numerics.md": (
        "1/eta", "at condition 100 and beyond", "at condition 10 depth",
    ),
    "docs/explanation/verification.md": (
        '"row 3 of n"', "n > 4", '"at n = 7 only"', "exit code is 0",
    ),
    "docs/explorer.md": (
        "at layer 3 with head 1", "so 0 is the input;",
        "heads count from 0;", "after layer 2.", "with 2 of them",
    ),
    "docs/notebooks/class-exercise.ipynb": (
        "needed for T = 100?", "a network for 9 steps computes 10.",
    ),
    "docs/notebooks/reading-a-network.ipynb": ("of layer 0 computes",),  # as the cell before shows
    "docs/howto/depth.md": (
        "A sum of 2ᵏ terms", "steps 4 to 6",
        # tests/test_affine_loops.py has a program for each
        "| 1 to 2 |", "| 1 to 3 |", "| 1 |",
    ),
    "docs/howto/estimators.md": ("X · 1e-165", "1e-150 of another", "the coefficient 0."),
    "docs/howto/frontier.md": ("a collapsed loop of 10⁸ steps",),
    "docs/howto/gpu.md": ("(ridge descent at 256 x 128 is too large)",),  # as the table says
    "docs/howto/lens.md": ("is step 7.",),
    "docs/howto/own-data.md": ("1-D", "from 1 on"),
    "docs/howto/python.md": (  # of the code in the same row, which a test runs
        "the power 0 is 1", "between 0.5 and 4", "max(x, 0)", "by 0.5", "1/(1 + exp(−x))",
    ),
}  # fmt: skip
