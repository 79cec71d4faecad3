"""One kernel per network on a CUDA device: `python -m benchmarks --only kernel`.

Every row is a batch of prompts of one network as `net(...)` computes it, beside what torch has for
the same: its solvers, the algorithm by hand, the plan call by call. CUDA events, medians. The bound
is what reading the inputs and the arithmetic take at least on this device; its share is that of the
kernel alone. `python -m benchmarks.kernel --out FOLDER` prints the rows as they are measured,
writes them there, and ends with what is met of the bars (`kernel_bars`); `--all` measures all that
docs/howto/gpu.md shows, in a few minutes; with `--shapes` it measures the choices that the
generator has.
"""

from __future__ import annotations

import argparse
import cProfile
import itertools
import json
import os
import pstats
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import gallery as by_hand
from benchmarks import problem
from benchmarks.by_hand.kits import KITS
from benchmarks.kernel_bars import summary
from benchmarks.row import Row
from inweave import Network, gallery
from inweave import compile as compiled
from inweave.model.inputs import accept
from inweave.run.kernel import cache, device, generate
from inweave.run.kernel.generate import Kernel, Shape
from inweave.run.kernel.text import Refused
from inweave.run.plan import batch_of
from inweave.text.kernel import bound

BATCH = 65536
CHECKED = 1024  # prompts whose answers are compared with float64
Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A batch of prompts of one network, and what to compare it with."""

    name: str
    network: Callable[[], Network]
    inputs: Callable[[], dict[str, Any]]
    rivals: Callable[[dict[str, Any]], dict[str, Call]]
    bar: float  # how many times faster than the best of them
    most_ms: float | None = None
    compiles: Callable[[dict[str, Any]], Call] | None = field(default=None, repr=False)


# -- cases ----------------------------------------------------------------------------------------
def cases() -> list[Case]:
    """The rows with a bar."""
    found = []
    for batch, n, d, bar, most in (
        (BATCH, 40, 20, 4.0, 0.25),
        (BATCH, 40, 32, 3.0, None),
        (16384, 128, 64, 3.0, None),
        (4096, 256, 128, 1.8, None),
    ):
        network = partial(compiled, problem.ridge_gd, n=n, d=d, steps=problem.STEPS, verify=False)
        given = partial(ridge_data, n, d, batch)
        name = f"ridge descent, {problem.STEPS} steps, {batch} x ({n} x {d})"
        found.append(Case(name, network, given, solvers, bar, most))
    entry = gallery.get("ridge_closed_form")
    network = partial(entry.compile, n=40, d=20, verify=False)
    given = partial(closed_form_data, 40, 20, BATCH)
    found.append(Case(f"closed form, {BATCH} x (40 x 20)", network, given, solvers, 3.0))
    for name, sizes in (
        ("newton_schulz", {"steps": 8}),
        ("lasso_ista", {"steps": 100, "optimize": "speed"}),
        ("recursive_least_squares", {"n": 40}),
        ("logistic_gd", {"steps": 50}),
    ):
        found.append(gallery_case(name, 10.0, **sizes))
    return found


def gallery_case(name: str, bar: float, **sizes: Any) -> Case:
    """An entry of the gallery, at its own sizes but for these."""
    entry = gallery.get(name)
    network = partial(entry.compile, verify=False, **sizes)
    whole = {**entry.sizes, **{k: v for k, v in sizes.items() if k != "optimize"}}
    statics = {k: v for k, v in whole.items() if k in entry.program.statics}

    def inputs() -> dict[str, Any]:
        return on_device(by_hand.data(entry, whole, BATCH))

    def hand(given: dict[str, Any]) -> Call:
        columns = by_hand.lifted(entry, given)
        return partial(by_hand.by_hand(name), KITS["torch"](True), **statics, **columns)

    return Case(f"{name}, {BATCH}", network, inputs, lambda given: {"by hand": hand(given)}, bar,
                compiles=hand)  # fmt: skip


def on_device(given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as they are, arrays in float32 on the device."""
    return {
        name: x if isinstance(x, float) else torch.as_tensor(x, dtype=torch.float32, device="cuda")
        for name, x in given.items()
    }


def ridge_data(n: int, d: int, batch: int) -> dict[str, Any]:
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Any:
        return torch.randn(batch, *shape, generator=generator, device="cuda")

    X = normal(n, d)
    y = (X @ normal(d, 1))[..., 0] + 0.1 * normal(n)
    return {"X": X, "y": y, "u": normal(d), "lam": problem.LAM, "eta": problem.data(n, d)["eta"]}


def closed_form_data(n: int, d: int, batch: int) -> dict[str, Any]:
    given = ridge_data(n, d, batch)
    del given["eta"]
    return given


def solvers(given: dict[str, Any]) -> dict[str, Call]:
    """What torch has for the same answer, and the descent by hand."""
    X, y, u, lam = (given[name] for name in ("X", "y", "u", "lam"))
    eye = torch.eye(X.shape[-1], device="cuda", dtype=X.dtype)

    def solve() -> Any:
        w = torch.linalg.solve_ex(X.mT @ X + lam * eye, X.mT @ y[..., None])[0]
        return (u * w[..., 0]).sum(-1)

    def cholesky() -> Any:
        L = torch.linalg.cholesky_ex(X.mT @ X + lam * eye)[0]
        return (u * torch.cholesky_solve(X.mT @ y[..., None], L)[..., 0]).sum(-1)

    return {"solve": solve, "cholesky": cholesky}


# -- measuring ------------------------------------------------------------------------------------
def milliseconds(call: Call, calls: int = 5, rounds: int = 9) -> float:
    """The median over rounds of so many calls."""
    call()
    call()
    torch.cuda.synchronize()
    found = []
    for _ in range(rounds):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop) / calls)
    return statistics.median(found)


def quick(call: Call) -> float:
    """The same with fewer calls of what takes long."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    took = time.perf_counter() - start
    return milliseconds(call, 1 if took > 5e-3 else 5, 3 if took > 50e-3 else 7)


def launched(
    net: Network, given: Mapping[str, Any], shape: Shape | None = None
) -> tuple[Kernel, device.Loaded, Call]:
    """A kernel, what became of it on the device, and its launch alone."""
    arrays, arithmetic = accept(net.inputs, given)
    arithmetic.checked = True
    kernel = net.plan.kernels.get("float32", True, shape)
    ready = net.plan.kernels.loaded("float32", True, 0, shape)
    found, lead = net.plan.sources(arrays, arithmetic), batch_of(arrays)
    sources = [found[name] for name in kernel.sources]
    launch = device.Launcher(ready, sources, lead, arithmetic.device)
    mark = torch.zeros(1, dtype=torch.int32, device="cuda")

    def call() -> Any:
        assert mark.is_cuda  # and alive
        stream = torch.cuda.current_stream().cuda_stream
        return launch.queue(sources, stream, mark.data_ptr())

    return kernel, ready, call


def measured(case: Case, compile_too: bool = False) -> dict[str, Any]:
    """Everything about a case."""
    net, given = case.network(), case.inputs()
    first, again = first_calls(case, given)
    kernel, ready, launch = launched(net, given)
    times = {
        "kernel alone": milliseconds(launch),
        "net": milliseconds(lambda: net(**given)),
        "net, check=False": milliseconds(lambda: net(check=False, **given)),
        "net, kernel=False": quick(lambda: net(kernel=False, **given)),
    }
    rivals = {name: quick(call) for name, call in case.rivals(given).items()}
    if compile_too and case.compiles is not None:
        rivals["torch.compile"] = quick(torch.compile(case.compiles(given)))
    reads, computes = bound(kernel)
    prompts = batch_size(given)
    least = 1e3 * prompts * max(reads, computes)
    return {
        "case": case.name,
        "milliseconds": times | rivals,
        "times faster": min(rivals.values()) / times["net"],
        "kernel alone, times faster": min(rivals.values()) / times["kernel alone"],
        "bar": case.bar,
        "most_ms": case.most_ms,
        "share of the bound": least / times["kernel alone"],
        "bound_ms": least,
        "error": error(net, given),
        "first call, s": first,
        "from the cache, s": again,
        "kernel": told(kernel, ready),
    }


def told(kernel: Kernel, ready: device.Loaded) -> dict[str, Any]:
    return {
        "kind": kernel.kind, "threads": kernel.threads, "prompts": kernel.prompts,
        "shared": kernel.shared, "registers": ready.registers, "spilled": ready.spilled,
        "blocks": ready.blocks, "flops": kernel.flops, "bytes": kernel.bytes,
    }  # fmt: skip


def batch_size(given: Mapping[str, Any]) -> int:
    return max(int(x.shape[0]) for x in given.values() if not isinstance(x, float))


def first_calls(case: Case, given: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds of the first call of a network: with nothing kept, and with its code on the disk."""
    found, before = [], os.environ.get(cache.FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[cache.FOLDER] = folder
        for _ in range(2):
            net = case.network()
            device.LOADED.clear()
            torch.cuda.synchronize()
            start = time.perf_counter()
            net(kernel=True, **given)
            torch.cuda.synchronize()
            found.append(time.perf_counter() - start)
    if before is None:
        del os.environ[cache.FOLDER]
    else:
        os.environ[cache.FOLDER] = before
    return found[0], found[1]


def error(net: Network, given: Mapping[str, Any]) -> float:
    """The largest difference from the float64 plan, relative to the largest answer."""
    few = {name: x if isinstance(x, float) else x[:CHECKED] for name, x in given.items()}
    exact = {name: x if isinstance(x, float) else x.double() for name, x in few.items()}
    answer, expected = net(kernel=True, **few), net(kernel=False, check=False, **exact)
    return gallery.difference(*(_numpy(x) for x in (answer, expected)))


def _numpy(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _numpy(x) for name, x in answer.items()}
    return (
        tuple(map(_numpy, answer)) if isinstance(answer, tuple) else answer.double().cpu().numpy()
    )


def entries(names: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Every entry of the gallery at its own size: the kernel beside the plan call by call."""
    for entry in map(gallery.get, names or gallery.names()):
        try:
            case = gallery_case(entry.name, 1.0)
            net, given = case.network(), case.inputs()
            row: dict[str, Any] = {"case": entry.name}
            if net.kernel():
                row["first call, s"], row["from the cache, s"] = first_calls(case, given)
            eager = quick(lambda net=net, given=given: net(kernel=False, **given))
            mine = quick(lambda net=net, given=given: net(**given))
            row |= {"net": mine, "net, kernel=False": eager, "times faster": eager / mine}
            try:
                kernel, ready, launch = launched(net, given)
                row["kernel alone"] = milliseconds(launch, rounds=5)
                row["kernel"] = told(kernel, ready)
                row["error"] = error(net, given)
            except Refused as refused:
                row["why not"] = str(refused)
        except Exception as problem_met:
            row = {"case": entry.name, "failed": repr(problem_met)[:500]}
        yield row
        torch.cuda.empty_cache()


def gradients(compile_too: bool = False) -> Iterator[dict[str, Any]]:
    """Every case there and back: gradients of all its tensors, by kernels and by autograd."""
    for case in cases():
        try:
            yield differentiated(case, compile_too)
        except Exception:
            yield {"case": case.name, "failed": traceback.format_exc()[-3000:]}
        torch.cuda.empty_cache()


def differentiated(case: Case, compile_too: bool) -> dict[str, Any]:
    """A case there and back."""
    net, given = case.network(), _leaves(case.inputs())
    leaves = {name: x for name, x in given.items() if isinstance(x, torch.Tensor)}
    start = time.perf_counter()
    passed(lambda: net(**given), leaves)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    calls: dict[str, Call] = {
        "net": lambda: net(**given),
        "net, check=False": lambda: net(check=False, **given),
        "net, kernel=False": lambda: net(kernel=False, **given),
        **case.rivals(given),
    }
    if compile_too and case.compiles is not None:
        calls["torch.compile"] = torch.compile(case.compiles(given))
    times, failed = dict[str, float](), dict[str, str]()
    for name, call in calls.items():
        try:
            times[name] = quick(partial(passed, call, leaves))
        except Exception as met:
            failed[name] = repr(met)[:300]
    others = [ms for name, ms in times.items() if name not in ("net", "net, check=False")]
    forward = net.plan.kernels.get("float32", True)
    wanted = tuple(name for name in forward.sources if name[1] in leaves)
    backward = net.plan.kernels.backward
    row = {
        "case": case.name,
        "milliseconds": times,
        "times faster": min(others) / times["net"],
        "first call, s": first,
        "failed rivals": failed,
    }
    try:
        back = backward.kernel("float32", True, wanted)
    except Refused as refused:
        return row | {"why not": str(refused)}
    ready = backward.loaded(forward, wanted, 0)
    return row | {"kernel": told(back, ready), "error": gradient_error(net, given)}


def gradient_error(net: Network, given: Mapping[str, Any]) -> float:
    """The largest difference from autograd in float64, relative to the largest gradient."""
    found = []
    for dtype, kernel in ((torch.float32, True), (torch.float64, False)):
        few = {name: x if isinstance(x, float) else x.detach()[:CHECKED].to(dtype)
               for name, x in given.items()}  # fmt: skip
        few = _leaves(few)
        leaves = {name: x for name, x in few.items() if isinstance(x, torch.Tensor)}
        found.append(passed(partial(net, kernel=kernel, check=False, **few), leaves))
    size = max(float(x.abs().max()) for x in found[1])
    return max(float((a - b).abs().max()) for a, b in zip(*found, strict=True)) / size


def passed(call: Call, leaves: Mapping[str, Any]) -> Sequence[Any]:
    """The gradients of the sum of all answers."""
    answer = call()
    parts = [*answer.values()] if isinstance(answer, dict) else [answer]
    total = torch.stack([part.sum() for part in parts]).sum()
    return torch.autograd.grad(total, [*leaves.values()], materialize_grads=True)


def _leaves(given: Mapping[str, Any]) -> dict[str, Any]:
    return {n: x.clone().requires_grad_() if isinstance(x, torch.Tensor) else x
            for n, x in given.items()}  # fmt: skip


def batches() -> Iterator[dict[str, Any]]:
    """Time against batch size, for where a kernel begins to pay."""
    net = compiled(problem.ridge_gd, n=40, d=20, steps=problem.STEPS, verify=False)
    for batch in (1, 16, 64, 256, 512, 1024, 4096, 16384, 65536, 262144):
        given = ridge_data(40, 20, batch)
        yield {
            "batch": batch,
            "kernel": milliseconds(lambda given=given: net(kernel=True, **given)),
            "call by call": quick(lambda given=given: net(kernel=False, **given)),
            "solve": quick(solvers(given)["solve"]),
        }


def on_the_host() -> None:
    """Where the time of a small call goes."""
    net = compiled(problem.ridge_gd, n=40, d=20, steps=problem.STEPS, verify=False)
    given = ridge_data(40, 20, 64)
    for check in (True, False):
        took = milliseconds(lambda check=check: net(kernel=True, check=check, **given), calls=200)
        print(f"host, check={check}: {1e3 * took:.1f} µs per call")
    case = cases()[1]
    net, given = case.network(), case.inputs()
    _, _, launch = launched(net, given)

    def waited() -> None:
        launch()
        torch.cuda.synchronize()

    for name, call in (("queued", launch), ("waited for", waited), ("net", lambda: net(**given))):
        took = [milliseconds(call, calls, 9) for calls in (1, 5, 20)]
        print(f"{case.name}, {name}: {', '.join(f'{ms:.3f}' for ms in took)} ms")
        start = time.perf_counter()
        for _ in range(50):
            call()
        torch.cuda.synchronize()
        print(f"    by the clock: {20 * (time.perf_counter() - start):.3f} ms")
    net, given = (
        compiled(problem.ridge_gd, n=40, d=20, steps=1, verify=False),
        ridge_data(40, 20, 64),
    )
    net(kernel=True, **given)
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(500):
        net(kernel=True, **given)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


# -- the choices of the generator -----------------------------------------------------------------
def shapes(case: Case) -> Iterator[Shape]:
    """Layouts to try: prompts of a block, rows of a piece and of a thread, blocks at a time."""
    rows = {
        "closed": ((6, 8), (20, 40), ((1, 0),)),
        "(40 x 32)": ((2, 4, 8), (40,), ((1, 0), (2, 0), (2, 1), (2, 512), (2, 640))),
        "(128 x 64)": ((1, 2, 4), (32, 64), ((1, 0), (2, 0), (2, 1), (2, 256), (2, 320))),
        "(256 x 128)": ((1,), (32, 64), ((1, 0), (1, 256))),
    }
    for name, (prompts, chunks, choices) in rows.items():
        if name in case.name:
            for p, c, (deep, threads) in itertools.product(prompts, chunks, choices):
                width = int(name.split()[-1].rstrip(")")) if "(" in name else 20
                blocks = threads if threads < 2 else threads // max(1, p * width // deep)
                yield Shape(kind="row", prompts=p, chunk=c, rows=deep, blocks=blocks)
    if "logistic" in case.name:
        yield from (Shape(kind="prompt", unrolled=unrolled) for unrolled in (2, 4, 8))


def explored() -> Iterator[dict[str, Any]]:
    """The time of a kernel in each of its layouts."""
    for case in cases():
        net, given = case.network(), case.inputs()
        for shape in shapes(case):
            row: dict[str, Any] = {"case": case.name, "shape": str(shape)}
            try:
                start = time.perf_counter()
                kernel, ready, launch = launched(net, given, shape)
                row |= {"compile_s": time.perf_counter() - start, **told(kernel, ready)}
                row["ms"] = milliseconds(launch, rounds=5)
            except Exception as met:
                row["failed"] = repr(met)[:300]
            yield row


# -- the benchmark --------------------------------------------------------------------------------
def rows(threads: int = 1) -> Iterator[Row]:
    """One row per case, as a ratio to the best rival; none without a device."""
    if not torch.cuda.is_available():
        print(" no CUDA device,", end="", file=sys.stderr)
        return
    for case in cases():
        found = measured(case)
        value = 1 / found["times faster"]
        times = {name: 1e-3 * ms for name, ms in found["milliseconds"].items()}
        note = (f"{found['share of the bound']:.0%} of the bound; first call "
                f"{found['first call, s']:.2f} s, from the cache "
                f"{found['from the cache, s']:.3f} s")  # fmt: skip
        yield Row.of("kernel, cuda float32", case.name, value, against="best of torch",
                     threads=threads, bar=1 / case.bar, seconds=times, note=note)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description=__doc__)
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"), help="a folder for JSON")
    parser.add_argument("--all", action="store_true", help="cases, entries, batches, rivals")
    parser.add_argument("--shapes", action="store_true", help="the choices of the generator")
    parser.add_argument("--entries", nargs="*", help="every entry of the gallery, or these")
    parser.add_argument("--gradients", action="store_true", help="every case there and back")
    parser.add_argument("--batches", action="store_true", help="time against batch size")
    parser.add_argument("--host", action="store_true", help="where the time of a call goes")
    parser.add_argument("--cases", nargs="*", help="cases whose names hold one of these words")
    parser.add_argument("--compile", action="store_true", help="torch.compile is a rival, too")
    parser.add_argument("--two-rows", type=int, metavar="COLUMNS",
                        help="threads have two rows of up to so many columns")  # fmt: skip
    options = parser.parse_args()
    if options.all:
        options.cases = options.entries = []
        options.batches = options.compile = True
    if options.two_rows is not None:
        generate.TWO_ROWS = options.two_rows
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    found: dict[str, list[Any]] = {}
    start = time.time()
    if options.host:
        on_the_host()
        return 0

    def keep(part: str, row: dict[str, Any]) -> None:
        found.setdefault(part, []).append(row)
        print(part, json.dumps(row, ensure_ascii=False, default=str), flush=True)
        if options.out:
            path = Path(options.out) / "kernel.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = {"machine": machine(), **found}
            path.write_text(json.dumps(kept, indent=1, default=str) + "\n")

    if options.cases is not None or not (
        options.shapes or options.entries is not None or options.batches or options.gradients
    ):
        for case in cases():
            if not options.cases or any(word in case.name for word in options.cases):
                try:
                    keep("cases", measured(case, options.compile))
                except Exception:
                    keep("cases", {"case": case.name, "failed": traceback.format_exc()[-3000:]})
    for asked, part, each in (
        (options.batches, "batches", batches),
        (options.gradients, "gradients", partial(gradients, options.compile)),
        (options.entries is not None, "entries", partial(entries, options.entries or ())),
        (options.shapes, "shapes", explored),
    ):
        if asked:
            try:
                for row in each():
                    keep(part, row)
            except Exception:
                keep(part, {"failed": traceback.format_exc()[-3000:]})
    print(summary(found), f"{time.time() - start:.0f} s", sep="\n")
    return 0


def machine() -> dict[str, Any]:
    import cupy

    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cupy": cupy.__version__,
        "cuda": torch.version.cuda,
    }


if __name__ == "__main__":
    sys.exit(main())
