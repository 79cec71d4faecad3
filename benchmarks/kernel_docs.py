"""Results of kernels, written into docs/howto/gpu.md: `python -m benchmarks.kernel_docs`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "howto" / "gpu.md"
FIGURE = ROOT / "docs" / "figures" / "kernel.svg"
RESULTS = ROOT / "benchmarks" / "results" / "kernel.json"
TABLE = re.compile(r"(<!-- kernel: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
OWN = ("kernel alone", "net", "net, check=False", "net, kernel=False")

Found = Mapping[str, Any]


def cases(found: Found) -> str:
    """The rows with a bar."""
    names = ("prompts", "`net(...)`", "kernel alone", "call by call", "best of torch", "faster",
             "bar", "share", "first call", "from the cache")  # fmt: skip
    lines = [f"| {' | '.join(names)} |", f"| --- {'| --: ' * (len(names) - 1)}|"]
    for row in found["cases"]:
        times = row["milliseconds"]
        rivals = {name: ms for name, ms in times.items() if name not in OWN}
        best = min(rivals, key=lambda name: rivals[name])
        cells = [
            row["case"], f"{times['net']:.3f}", f"{times['kernel alone']:.3f}",
            f"{times['net, kernel=False']:.2f}", f"{rivals[best]:.2f} ({best})",
            f"{row['times faster']:.1f} ×", f"{row['bar']:g} ×",
            f"{row['share of the bound']:.0%}", f"{row['first call, s']:.2f} s",
            f"{1e3 * row['from the cache, s']:.0f} ms",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", device(found)])


def entries(found: Found) -> str:
    """Every entry: the kernel beside the plan call by call."""
    lines = ["| entry | shape | `net(...)` | call by call | faster | error |",
             "| --- | --- | --: | --: | --: | --: |"]  # fmt: skip
    for row in found["entries"]:
        kernel, error = row.get("kernel"), row.get("error")
        cells = [
            f"`{row['case']}`",
            "call by call" if kernel is None else f"one {kernel['kind']} per thread",
            f"{row['net']:.3f}",
            f"{row['net, kernel=False']:.2f}",
            f"{row['times faster']:.1f} ×",
            "" if error is None else f"{error:.0e}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gradients(found: Found) -> str:
    """Every case there and back."""
    rows = found.get("gradients", ())
    if not rows:
        return "Not measured yet."
    names = ("there and back", "`net(...)`", "call by call", "best of torch", "faster", "error")
    lines = [f"| {' | '.join(names)} |", f"| --- {'| --: ' * (len(names) - 1)}|"]
    for row in rows:
        times = row["milliseconds"]
        rivals = {name: ms for name, ms in times.items() if name not in OWN}
        best = min(rivals, key=lambda name: rivals[name], default="")
        cells = [
            row["case"],
            f"{times['net']:.3f}",
            f"{times['net, kernel=False']:.2f}",
            f"{rivals[best]:.2f} ({best})" if best else "",  # what changes in place has none
            f"{row['times faster']:.1f} ×" if "kernel" in row else "call by call",
            f"{row['error']:.0e}" if "kernel" in row else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def device(found: Found) -> str:
    machine = found["machine"]
    return (f"{machine['device']}, torch {machine['torch']}, CuPy {machine['cupy']}, "
            f"CUDA {machine['cuda']}, float32.")  # fmt: skip


def filled(text: str, found: Found) -> str:
    """The page with its tables written anew."""
    tables = {"cases": cases, "entries": entries, "gradients": gradients}
    return TABLE.sub(lambda at: f"{at[1]}\n{tables[at[2]](found)}\n\n{at[3]}", text)


def draw(batches: Sequence[Found]) -> None:
    """Time against batch size."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "inweave"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    sizes = [row["batch"] for row in batches]
    names = {"call by call": "call by call", "solve": "torch.linalg.solve", "kernel": "one kernel"}
    for name, label in names.items():
        axes.plot(sizes, [row[name] for row in batches], marker="o", markersize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="prompts of 40 x 20", ylabel="milliseconds")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def main() -> int:
    found = json.loads(RESULTS.read_text())
    PAGE.write_text(filled(PAGE.read_text(), found))
    draw(found["batches"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
