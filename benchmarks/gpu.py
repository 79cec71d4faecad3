"""The same rows on a CUDA device: `python -m benchmarks.gpu --out benchmarks/results/gpu.json`.

Networks and hand-written torch take turns; CUDA events measure each sample, from before the first
kernel is queued until the last one has finished, so that the time Python takes to queue them
counts. Rows that do not fit into memory or into the time limit are left out, and said so.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks import dense, lab, problem
from benchmarks.by_hand import in_torch
from benchmarks.measure import Timing
from benchmarks.ridge import BATCHES, MEDIAN, SIZES, WORST
from benchmarks.row import Row
from benchmarks.stored import Stored

LIMIT = 170.0  # seconds for everything
SAMPLE = 5e-3
DENSE = ((40, 10), (400, 50))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="write JSON here")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    start, found = time.time(), list[Row]()
    families = (rows(options.seconds, start), beside_dense(options.seconds, start), training())
    for row in itertools.chain.from_iterable(families):
        found.append(row)
        print(f"{row.family:22s} {row.name:30s} {row.value:10.3g}× "
              f"[{row.low:.3g}, {row.high:.3g}] {row.against}", flush=True)  # fmt: skip
        if options.out:  # after every row, so that a run cut short leaves what it has
            Stored([], {}).replaced(found + medians(found), machine()).write(options.out)
    print(f"{time.time() - start:.0f} s")
    return 0


def training() -> Iterator[Row]:
    """The lab's row, made when its turn has come."""
    yield lab.gpu_training()


def rows(seconds: float, start: float) -> Iterator[Row]:
    """Networks beside the better hand-written loop, in both precisions."""
    for dtype in (torch.float32, torch.float64):
        for (n, d), batch in itertools.product(SIZES, BATCHES):
            if time.time() - start > LIMIT:
                return
            net = problem.network(n, d)
            given = on_device(n, d, batch, dtype)
            calls = {
                "inweave": lambda net=net, given=given: net(**given),
                "inweave, check=False": lambda net=net, given=given: net(check=False, **given),
                "plain": lambda given=given: in_torch.plain(**given, steps=problem.STEPS),
                "gram": lambda given=given: in_torch.gram(**given, steps=problem.STEPS),
            }
            timing = interleaved(calls, seconds)
            best = timing.quickest(["plain", "gram"])
            ratio = timing.ratio("inweave", best)
            yield Row.of(f"ridge, torch cuda {str(dtype).removeprefix('torch.')}",
                         f"n={n} d={d} batch={batch}", ratio, against=f"torch, {best}",
                         bar=WORST, seconds=timing.seconds())  # fmt: skip
            del given, calls
            torch.cuda.empty_cache()


def beside_dense(seconds: float, start: float) -> Iterator[Row]:
    """The dense executor beside the plan."""
    for n, d in DENSE:
        if time.time() - start > LIMIT:
            return
        net, given = problem.network(n, d), on_device(n, d, 1, torch.float32)
        timing = interleaved(dense.calls(net, given), seconds)
        yield Row.of("dense executor, cuda float32", f"n={n} d={d}, time",
                     timing.ratio("dense", "plan"), against="plan",
                     seconds=timing.seconds())  # fmt: skip


def medians(found: list[Row]) -> list[Row]:
    """The median over the sizes of each precision."""
    out = []
    for family in dict.fromkeys(row.family for row in found if row.bar):
        mine = [row for row in found if row.family == family]
        out.append(Row.median_of(family, mine, bar=MEDIAN))
    return out


def on_device(n: int, d: int, batch: int, dtype: torch.dtype) -> dict[str, Any]:
    """Random problems, drawn on the device."""
    generator = torch.Generator("cuda").manual_seed(0)
    lead = () if batch == 1 else (batch,)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*lead, *shape, generator=generator, device="cuda", dtype=dtype)

    X = normal(n, d)
    y = (X @ normal(d, 1))[..., 0] + 0.1 * normal(n)
    eta = problem.data(n, d)["eta"]
    return {"X": X, "y": y, "u": normal(d), "lam": problem.LAM, "eta": eta}


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], seconds: float, least: int = 3
) -> Timing:
    """Time candidates in turns, like `measure.interleaved`, with the device's own events."""
    calls: dict[str, int] = {}
    for name, call in candidates.items():
        _sample(call, 1)
        _sample(call, 1)
        calls[name] = max(1, round(SAMPLE / max(_sample(call, 1), 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    names, start = list(candidates), time.perf_counter()
    for turn in itertools.count():
        if turn >= least and time.perf_counter() - start > seconds:
            break
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            samples[name].append(_sample(candidates[name], calls[name]))
    return Timing(samples)


def _sample(call: Callable[[], Any], times: int) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    before.record()
    for _ in range(times):
        call()
    after.record()
    torch.cuda.synchronize()
    return float(before.elapsed_time(after)) / 1e3 / times


def machine() -> dict[str, Any]:
    """What is measured on, in general terms, and when."""
    return {
        "date": date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
