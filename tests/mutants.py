"""Deliberate defects, and which test notices each: `make mutants`.

A test suite is as good as the mistakes it would notice. Every entry changes one line of the package
the way a tired engineer might; the tests named beside it must fail for it. An entry whose text no
longer stands in the source is an error too, so that the list follows the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Mutant:
    """One defect: in this file, this text becomes that one; these tests have to notice."""

    file: str
    text: str
    instead: str
    tests: str
    what: str


MUTANTS = [
    # -- exact, model
    Mutant(
        "exact/constants.py",
        "return Fraction(left.cols), Ones(left.rows, right.cols)",
        "return Fraction(left.rows), Ones(left.rows, right.cols)",
        "tests/test_data_model.py tests/test_compiler.py",
        "ones times ones counts the wrong size",
    ),
    Mutant(
        "model/prompt.py",
        "return (self.cols, self.rows) if self.transpose else (self.rows, self.cols)",
        "return self.rows, self.cols",
        "tests/test_data_model.py",
        "a transposed place takes up its value's own shape",
    ),
    Mutant(
        "model/dense.py",
        "H + output if layer.skip else output, heads)",
        "output, heads)",
        "tests/test_data_model.py",
        "the skip of a layer is left out",
    ),
    # -- loops over rows
    Mutant(
        "language/selector.py",
        "        at = total - 1 if reverse else 0\n",
        "        at = 0\n",
        "tests/test_scan.py",
        "a reverse scan begins with the first row",
    ),
    Mutant(
        "language/selector.py",
        "at = (self.steps - 1 - step if self.backward else step) * self._height",
        "at = step * self._height",
        "tests/test_python_loops.py tests/test_reroll.py",
        "what a Python loop collects backwards begins with the first place",
    ),
    Mutant(
        "run/values/loops.py",
        "            if moved == self._standing(graph, rest, down):\n",
        "            if rest is not None:\n",
        "tests/test_scan.py tests/test_plan.py tests/test_compiler.py",
        "any value that begins as a unit vector is taken for a selector",
    ),
    Mutant(
        "run/libraries/execute.py",
        "stacked(rows[::-1] if stack.backward else rows, stack.flip)",
        "stacked(rows, stack.flip)",
        "tests/test_scan.py",
        "what a reverse scan says of its rows stands in the wrong order",
    ),
    # -- compiler
    Mutant(
        "compiler/forms.py",
        "        if key not in self._others:\n",
        "        if True:\n",
        "tests/test_compiler.py tests/test_passes.py tests/test_merge.py",
        "equal products and leaves are made twice",
    ),
    Mutant(
        "compiler/merge.py",
        "out = [_joined(group, apart) for group in groups.values()]",
        "out = [head for group in groups.values() for head in group]",
        "tests/test_compiler.py tests/test_passes.py tests/test_merge.py",
        "heads are not merged",
    ),
    Mutant(
        "compiler/merge.py",
        "        return replace(head, values=added(tuple(x for h in heads for x in h.values)))\n",
        "        return replace(head, values=head.values)\n",
        "tests/test_merge.py",
        "of heads with the same query and key only one is kept",
    ),
    Mutant(
        "compiler/expand.py",
        "                return None if best is self.forms.of(p) else best\n",
        "                return None\n",
        "tests/test_compiler.py tests/test_sizes.py",
        "products are never multiplied out",
    ),
    Mutant(
        "compiler/symmetry.py",
        "None if before is None or step.family is None else",
        "before if step.family is None else",
        "tests/test_passes.py tests/test_compiler.py",
        "a loop is symmetric because its start is",
    ),
    Mutant(
        "compiler/collapse.py",
        "        return min(tried, key=lambda made: (self._estimate.depth(made[0]), made[1]))[0]\n",
        "        return tried[0][0]\n",
        "tests/test_sizes.py tests/test_compiler.py",
        "the read-out of a collapsed loop takes a layer of its own",
    ),
    Mutant(
        "compiler/segments.py",
        "            return min(i + int(3**k), end)\n",
        "            return min(i + int(2**k), end)\n",
        "tests/test_least_depth.py",
        "a layer is taken to multiply two pieces, not three",
    ),
    Mutant(
        "compiler/letters.py",
        "state = frozenset((key, c / scale) for key, c in rest.items())",
        "state = frozenset((key, c) for key, c in rest.items())",
        "tests/test_least_depth.py",
        "the number by which a state was divided is multiplied by twice",
    ),
    Mutant(
        "compiler/naming.py",
        "yield edge.times * c, [*here, *words]",
        "yield c, [*here, *words]",
        "tests/test_true_names.py",
        "a block is called after words without the numbers that they are multiplied by",
    ),
    Mutant(
        "compiler/naming.py",
        "found = unused(name, self.carried)",
        "found = name",
        "tests/test_true_names.py",
        "two loops that carry a w call theirs the same",
    ),
    Mutant(
        "compiler/allocate.py",
        "if self.lives[old].dies <= life.born and old not in kept:",
        "if self.lives[old].dies <= life.born + 1 and old not in kept:",
        "tests/test_compiler.py tests/test_passes.py",
        "a block is given away while it is still read",
    ),
    Mutant(
        "compiler/emit.py",
        "return Piece(item.constant, at, item.coefficient)",
        "return Piece(item.constant, at)",
        "tests/test_compiler.py tests/test_passes.py",
        "the coefficient of a constant is lost",
    ),
    Mutant(
        "compiler/costs.py",
        "(max(level, copies) >= NEVER, flops, level, copies) if self.least_work else cost",
        "cost",
        "tests/test_candidates.py",
        "one layer less is worth any work, for speed too",
    ),
    Mutant(
        "compiler/candidates.py",
        "if times <= most)",
        "if times >= most)",
        "tests/test_candidates.py",
        "not the cheapest candidate is kept",
    ),
    Mutant(
        "run/values/terms.py",
        "if isinstance(term.core, int) or is_near(term.coefficient):",
        "if isinstance(term.core, int):",
        "tests/test_plan.py",
        "what is taken out of a block leaves rounding errors",
    ),
    Mutant(
        "run/cost.py",
        "times, found = node.data.repeat, _total(",
        "times, found = 1, _total(",
        "tests/test_candidates.py",
        "what a loop does costs as much as one step",
    ),
    Mutant(
        "compiler/resize.py",
        "    if _weights(anew.modules) == _weights(base.network.modules):\n",
        "    if True:\n",
        "tests/test_sizes_and_calls.py tests/test_other_sizes.py",
        "weights are said to serve sizes at which others are compiled",
    ),
    # -- run
    Mutant(
        "run/values/scopes.py",
        "        if found is not None:\n            return found\n        level = max",
        "        level = max",
        "tests/test_plan.py",
        "equal values of a plan are computed again",
    ),
    Mutant(
        "run/values/graph.py",
        "return self.scale(number * x.data, x.args[0])",
        "return self.scale(number, x.args[0])",
        "tests/test_plan.py",
        "a coefficient of a coefficient is lost",
    ),
    Mutant(
        "run/values/graph.py",
        "node.symmetric = node.symmetric or is_palindrome(node)",
        "node.symmetric = a.rows == b.cols",
        "tests/test_plan.py tests/test_checks.py tests/test_float32.py",
        "every square product is taken for symmetric",
    ),
    Mutant(
        "run/domains.py",
        "    if not most <= high:\n        raise OutOfDomain(function, most)\n",
        "",
        "tests/test_checks.py tests/test_functions.py",
        "values above a domain are let through",
    ),
    Mutant(
        "run/growth.py",
        "SUSPICIOUS = 1e8",
        "SUSPICIOUS = 1e308",
        "tests/test_checks.py",
        "an iteration that blows up is not noticed",
    ),
    # -- proof
    Mutant(
        "proof/field_check.py",
        "where = np.argwhere(x != y)",
        "where = np.argwhere(x != y)[1:]",
        "tests/test_verify.py tests/test_mutation.py",
        "one entry may differ",
    ),
    Mutant(
        "proof/field_check.py",
        "if any(world.differ(settled[x], entered[x]) for x in settled.keys() - free):",
        "if False:",
        "tests/test_verify.py tests/test_mutation.py tests/test_repeated.py",
        "a step may leave scratch behind",
    ),
    Mutant(
        "proof/field_check.py",
        "entered = self._overwritten(_unknown(state, free, world), module, values, world)",
        "entered = self._overwritten(state, module, values, world)",
        "tests/test_disguise.py",
        "a step may read what steps before it left behind",
    ),
    Mutant(
        "proof/field_check.py",
        "state = self._overwritten(_unknown(state, free, world), module, known[loop], world)",
        "state = self._overwritten(state, module, known[loop], world)",
        "tests/test_disguise.py",
        "an answer may read what a loop left behind",
    ),
    Mutant(
        "proof/runs.py",
        "if sum(runs for _, _, runs in (*short, last)) > 1:",
        "if sum(runs for _, _, runs in (*short, last)) > 2:",
        "tests/test_runs.py",
        "in words, a run trades letters with another one",
    ),
    Mutant(
        "proof/algebra.py",
        'entered = self.carrying(self._unknown(state, loop, "before", loose), module, before)',
        "entered = self.carrying(state, module, before)",
        "tests/test_disguise.py",
        "to the algebra, a step may read what steps before it left behind",
    ),
    Mutant(
        "proof/algebra.py",
        'return self.carrying(self._unknown(state, loop, "after", loose), module, results)',
        "return self.carrying(state, module, results)",
        "tests/test_disguise.py",
        "to the algebra, an answer may read what a loop left behind",
    ),
    Mutant(
        "model/embedding.py",
        "if self.tokens is not None and not is_orthogonal(self.tokens):",
        "if False:",
        "tests/test_embedding.py",
        "tokens may be mixed by any matrix",
    ),
    Mutant(
        "exact/rational.py",
        "if largest * a.shape[1] < EXACT:",
        "if True:",
        "tests/test_embedding.py",
        "a product of exact matrices may round",
    ),
    Mutant(
        "exact/rational.py",
        "bits = (53 - a.shape[1].bit_length()) // 2",
        "bits = 25",
        "tests/test_embedding.py",
        "the digits of exact matrices may be too long for floats",
    ),
    Mutant(
        "proof/field_check.py",
        'self._expect(state, module, begin, world, f"the start of module {index}")',
        "pass",
        "tests/test_verify.py tests/test_mutation.py",
        "a loop may start from anything",
    ),
    Mutant(
        "proof/floats.py",
        "(found, {k: x[(-1,) * (x.ndim - 2)] for k, x in several.items()})",
        "(found,)",
        "tests/test_verify.py",
        "what runs for several prompts is not compared",
    ),
    Mutant(
        "proof/floats.py",
        "    __sub__ = __rsub__ = np.ndarray.__add__  # type: ignore[assignment]\n",
        "",
        "tests/test_verify.py",
        "terms that cancel are not counted, and a program that cancels is refused",
    ),
    Mutant(
        "proof/floats.py",
        "        worst = max(worst, gap / scale if scale else gap)\n    return worst",
        "        worst = max(worst, gap / scale if scale else gap)\n    return 0.0",
        "tests/test_verify.py",
        "the difference in floats is said to be zero",
    ),
    Mutant(
        "proof/certificate.py",
        "    if known is None or known.network != network.fingerprint:\n",
        "    if known is None:\n",
        "tests/test_verify.py tests/test_files.py tests/test_explore.py",
        "a certificate is shown of another network",
    ),
    Mutant(
        "proof/degree.py",
        "    while power < degree:",
        "    while power <= degree:",
        "tests/test_bounds_and_functions.py tests/test_sizes.py",
        "the lower bound is one too high at powers of three",
    ),
    Mutant(
        "proof/entries.py",
        "all(_dot(row, point) <= 1 for row in rows)",
        "True",
        "tests/test_entries.py",
        "entries of a prompt may weigh more than one",
    ),
    Mutant(
        "run/values/names.py",
        "name = names[turn] if turn < len(names) else name",
        "name = names[0]",
        "tests/test_names.py",
        "every value that a block holds in turn is called after the first",
    ),
    Mutant(
        "run/libraries/lent.py",
        "or forward_ad._current_level >= 0",
        "or False",
        "tests/test_lent.py",
        "numpy computes a tensor whose tangent is followed",
    ),
    Mutant(
        "run/libraries/lent.py",
        "or is_script_tracing()",
        "or False",
        "tests/test_lent.py",
        "numpy computes while torch writes down operations",
    ),
    Mutant(
        "stack/opaque.py",
        "given = dict(zip(names, tensors, strict=True))",
        "given = dict[str, Tensor]()",
        "tests/test_transforms.py",
        "a compiled long module has the weights it began with",
    ),
    Mutant(
        "proof/words.py",
        "scalars.append(min(tuple(piece), turned))",
        "scalars.append(min(tuple(piece), turned)[:1])",
        "tests/test_algebra.py tests/test_mutation.py",
        "a scalar in a proof by algebra loses its end",
    ),
    Mutant(
        "proof/algebra.py",
        'self.same(left[name], expected[name], f"block {name!r} after one step")',
        "pass",
        "tests/test_algebra.py tests/test_mutation.py",
        "a proof by algebra does not look at what a step leaves",
    ),
    Mutant(
        "proof/sizes.py",
        "if not any(\n        alike_programs(here[0], there[0], moved) and",
        "if not any(\n        ",
        "tests/test_other_sizes.py",
        "a proof is carried over to a program that is another one at the other size",
    ),
    Mutant(
        "proof/reading.py",
        "return not self.size and self.more <= other.more + 1",
        "return not self.size",
        "tests/test_other_sizes.py",
        "a proof takes a size to be larger than any number",
    ),
    Mutant(
        "proof/sizes.py",
        "if record is None or not names or _reads_the_same(traced, names, record):",
        "if True:",
        "tests/test_other_sizes.py",
        "sizes are claimed at which nobody looked",
    ),
    Mutant(
        "proof/check.py",
        "if size.risk(n) <= unlikely), None)",
        "if size.risk(n) <= 1e-3), None)",
        "tests/test_verify.py",
        "a chance of one in a thousand is good enough",
    ),
    # -- files and text
    Mutant(
        "files/network_file.py",
        "    arrays.refuse_unused()\n",
        "",
        "tests/test_files.py",
        "an array that belongs to nothing is loaded",
    ),
    Mutant(
        "files/network_file.py",
        "    if mark != found.fingerprint:\n",
        "    if False:\n",
        "tests/test_files.py",
        "a network of another fingerprint is loaded",
    ),
    Mutant(
        "exact/schema.py",
        'raise Mismatch("a name stands twice in one JSON object")',
        "pass",
        "tests/test_schema.py",
        "a name that stands twice in a file is taken once",
    ),
    Mutant(
        "exact/schema.py",
        "        if not mark.test(value):\n",
        "        if False:\n",
        "tests/test_files.py tests/test_lab_refusals.py",
        "numbers out of their range are read",
    ),
    Mutant(
        "atomic.py",
        "        draft.unlink(missing_ok=True)",
        "        pass",
        "tests/test_files.py tests/test_cli.py",
        "a failed write leaves its draft",
    ),
    Mutant(
        "text/network.py",
        "keys = [part.T for part in key]",
        "keys = [*key]",
        "tests/test_readme.py tests/test_explore.py tests/test_compiler.py",
        "a head is printed with its key the wrong way round",
    ),
    Mutant(
        "text/plan.py",
        'text += (" + " if sign > 0 else " - ") + part',
        'text += " + " + part',
        "tests/test_plan.py",
        "a plan is printed without its signs",
    ),
    # -- language
    Mutant(
        "language/evaluate.py",
        "            total = total - value\n",
        "            total = total + value\n",
        "tests/test_language.py",
        "a program adds where it should subtract",
    ),
    Mutant(
        "language/shapes.py",
        "if x.units == VECTOR else x for x in (a, b)]",
        "if False else x for x in (a, b)]",
        "tests/test_what_people_type.py",
        "a vector beside a square matrix goes along the columns",
    ),
    Mutant(
        "language/shapes.py",
        "if a.units == VECTOR and a.rows == b.rows and b.units != SCALAR:",
        "if a.units == VECTOR and a.rows == b.rows > 1 and b.units != SCALAR:",
        "tests/test_what_people_type.py",
        "the product of two vectors of one entry is a vector",
    ),
    Mutant(
        "language/products.py",
        "if any(line):",
        "if all(line):",
        "tests/test_what_people_type.py",
        "a Kronecker product leaves out what has a zero in it",
    ),
    Mutant(
        "language/indexing.py",
        'flat = x if x.units[1] else _flat(transposed(x) if order == "C" else x)',
        "flat = x if x.units[1] else _flat(x)",
        "tests/test_what_people_type.py",
        "a matrix is read out by columns where rows were meant",
    ),
    Mutant(
        "model/prompt.py",
        "return tuple(answers.values()) if numbered([*answers]) else answers",
        "return answers",
        "tests/test_what_people_type.py",
        "a network answers a dict where its program returns a tuple",
    ),
    Mutant(
        "language/refusals.py",
        "    __eq__ = __ne__ = _refused(",
        "    not_eq = _refused(",
        "tests/test_language_refusals.py",
        "values compare by identity",
    ),
]


def stale(mutant: Mutant) -> str:
    """What is wrong with an entry that does not follow the code; nothing otherwise."""
    path = SOURCE / "inweave" / mutant.file
    times = path.read_text(encoding="utf-8").count(mutant.text) if path.exists() else 0
    if times == 1:
        return ""
    return (
        f"{mutant.file}: {mutant.text!r} stands there {times} times, expected once; "
        "the list of defects in tests/mutants.py must follow the code"
    )


def damaged(mutant: Mutant, folder: Path) -> None:
    """A copy of the package with one defect in it."""
    if why := stale(mutant):
        raise SystemExit(why)
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "src" / "inweave" / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.text, mutant.instead), encoding="utf-8")


def killer(mutant: Mutant) -> str | None:
    """The first test that fails with a defect; None if it survives."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        damaged(mutant, folder)
        options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-m", "not browser"]
        command = [sys.executable, "-m", "pytest", *options, *mutant.tests.split()]
        environment = os.environ | {
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        found = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if found.returncode == 0:
        return None
    if found.returncode not in (1, 2):
        raise SystemExit(f"pytest stopped with {found.returncode}:\n{found.stdout}{found.stderr}")
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else "collection"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="those whose file or description has this text")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if given.only in m.file or given.only in m.what]
    survived = 0
    with ThreadPoolExecutor(given.processes) as pool:
        for mutant, found in zip(chosen, pool.map(killer, chosen), strict=True):
            survived += found is None
            print(f"{'killed' if found else 'SURVIVED':8}  {mutant.file}: {mutant.what}")
            print(
                f"          {'by ' + found if found else 'no test in ' + mutant.tests}", flush=True
            )
    print(f"{len(chosen) - survived} killed, {survived} survived")
    return 1 if survived or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
