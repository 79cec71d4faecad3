"""`python -m inweave.lab`: the lab where only torch and numpy are installed."""

from __future__ import annotations

import argparse
import sys

from inweave.errors import InweaveError
from inweave.lab import commands

EXAMPLES = """for example:
  python -m inweave.lab list
  python -m inweave.lab run one-step --quick
  python -m inweave.lab train run.toml --out runs/first
  python -m inweave.lab evaluate runs/first
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m inweave.lab",
        description="Train, evaluate and run experiments.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(dest="command", required=True)
    part = parts.add_parser("train", help="train one run from a TOML file")
    part.add_argument("config")
    part.add_argument("--out", default="")
    part.add_argument("--resume", action="store_true")
    part.add_argument("--device", default="cpu")
    part = parts.add_parser("evaluate", help="a run beside its baselines")
    part.add_argument("folder")
    part.add_argument("--size", type=int, default=20_000)
    part.add_argument("--half", action="store_true", help="show half-MSE")
    part.add_argument("--device", default="cpu")
    part = parts.add_parser("run", help="run an experiment")
    part.add_argument("name")
    part.add_argument("--out", default="lab")
    part.add_argument("--quick", action="store_true")
    part.add_argument("--device", default="cpu")
    part.add_argument("--seed", type=int, default=0)
    part = parts.add_parser("report", help="figures and tables from results")
    part.add_argument("files", nargs="+")
    part.add_argument("--out", default="")
    part = parts.add_parser("sweep", help="train many runs")
    part.add_argument("configs", nargs="+")
    part.add_argument("--out", default="runs")
    part.add_argument("--workers", type=int, default=2)
    part.add_argument("--dask", default="")
    part.add_argument("--device", default="cpu")
    parts.add_parser("list", help="the experiments")
    given = vars(parser.parse_args(arguments))
    command = given.pop("command")
    try:
        if command == "list":
            print("\n".join(commands.names()))
            return 0
        if command == "report":
            commands.report(*given.pop("files"), **given)
            return 0
        if command == "sweep":
            return 0 if commands.sweep(*given.pop("configs"), **given) else 1
        getattr(commands, command)(**given)
    except (InweaveError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
