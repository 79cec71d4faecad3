"""What libraries make of a call: every entry of the gallery compiled, mapped and differentiated.

`net(...)` and `net.to_torch()` stand inside torch.compile, torch.func, jax.jit, jax.vmap and
jax.grad as other functions do. `python -m tests.transforms` tries all of them with every entry at
its own sizes, which takes a quarter of an hour; the test suite tries some with small ones.
Answers are compared with numpy's, gradients of one way with those of another.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from inweave import Network, gallery
from inweave.gallery import Entry

Arrays = dict[str, Any]
Way = Callable[[Entry, Network, Arrays], None]
TOLERANCE = 1e-9


def by_name(answer: Any) -> Mapping[Any, Any]:
    """Answers by name, or by number."""
    if isinstance(answer, Mapping):
        return answer
    return dict(enumerate(answer)) if isinstance(answer, tuple) else {"": answer}


def same(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    """Fail unless two answers are equal up to rounding."""
    found, expected = by_name(found), by_name(expected)
    assert list(found) == list(expected), (list(found), list(expected))
    for name, value in expected.items():
        a, b = (np.asarray(getattr(x, "detach", lambda x=x: x)()) for x in (found[name], value))
        assert a.shape == b.shape, (a.shape, b.shape)
        off, size = np.max(np.abs(a - b), initial=0.0), np.max(np.abs(b), initial=1e-30)
        assert off <= tolerance * size, f"{name or 'the answer'} is {off:.1e} off, of {size:.1e}"


def varied(entry: Entry, arrays: Arrays) -> str:
    """The input that is mapped over and differentiated in: the first that is no number."""
    return next(name for name in entry.program.arguments if np.ndim(arrays[name]))


# -- torch -----------------------------------------------------------------------------------------
def tensors(arrays: Arrays) -> Arrays:
    import torch

    return {name: torch.as_tensor(np.asarray(x)) for name, x in arrays.items()}


def compiled(backend: str, module: bool) -> Way:
    def way(entry: Entry, net: Network, arrays: Arrays) -> None:
        import torch

        torch._dynamo.reset()
        called = net.to_torch() if module else (lambda **given: net(**given))
        fast = torch.compile(called, fullgraph=True, backend=backend)
        # a network's own layers round otherwise than its plan
        same(fast(**tensors(arrays)), net(**arrays), max(TOLERANCE, 10 * entry.tolerance))

    return way


def total(answer: Any) -> Any:
    return sum(value.sum() for value in by_name(answer).values())


def torch_func(entry: Entry, net: Network, arrays: Arrays) -> None:
    """vmap, grad and jacrev, beside what autograd says."""
    import torch

    name, given = varied(entry, arrays), tensors(arrays)
    x = given.pop(name)

    def call(x: Any) -> Any:
        return net(**given, **{name: x})

    mapped = torch.func.vmap(call)(torch.stack([x, x]))
    for i in range(2):
        same({k: v[i] for k, v in by_name(mapped).items()}, by_name(net(**arrays)))
    leaf = x.clone().requires_grad_()
    total(call(leaf)).backward()
    same(torch.func.grad(lambda x: total(call(x)))(x), leaf.grad)
    rows = torch.func.jacrev(lambda x: torch.cat([v.ravel() for v in by_name(call(x)).values()]))
    same(rows(x).sum(0), leaf.grad)


# -- jax -------------------------------------------------------------------------------------------
def in_jax(entry: Entry, net: Network, arrays: Arrays) -> None:
    """jit, vmap and grad, the last beside torch's."""
    import jax

    name = varied(entry, arrays)
    with jax.enable_x64(True):
        given = {k: jax.numpy.asarray(v) for k, v in arrays.items()}
        x = given.pop(name)

        def call(x: Any) -> Any:
            return net(**given, **{name: x})

        expected = by_name(net(**arrays))
        same({k: by_name(jax.jit(call)(x))[k] for k in expected}, expected)
        mapped = by_name(jax.vmap(call)(jax.numpy.stack([x, x])))
        same({k: mapped[k][1] for k in expected}, expected)
        slope = np.asarray(jax.grad(lambda x: total(call(x)))(x))
    there = tensors(arrays)
    there[name].requires_grad_()
    total(net(**there)).backward()
    same(slope, there[name].grad, 1e-7)


WAYS: dict[str, Way] = {
    "call, eager": compiled("eager", module=False),
    "call, aot_eager": compiled("aot_eager", module=False),
    "module, eager": compiled("eager", module=True),
    "module, aot_eager": compiled("aot_eager", module=True),
    "torch.func": torch_func,
    "jax": in_jax,
    "call, inductor": compiled("inductor", module=False),
    "module, inductor": compiled("inductor", module=True),
}
SLOW = ("call, inductor", "module, inductor")  # minutes, and a C++ compiler


def attempt(way: str, entry: Entry, mode: str = "speed", **sizes: Any) -> None:
    """Fail if a way gives something else than a plain call."""
    net = entry.compile(optimize=mode, verify=False, **sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about themselves
        WAYS[way](entry, net, dict(entry.example(**sizes)))


def main() -> int:
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("--entries", nargs="*", default=gallery.names())
    read.add_argument("--ways", nargs="*", default=[way for way in WAYS if way not in SLOW])
    read.add_argument("--mode", default="speed")
    asked = read.parse_args()
    failed = 0
    for name in asked.entries:
        for way in asked.ways:
            start, said = time.process_time(), "works"
            try:
                attempt(way, gallery.get(name), asked.mode)
            except Exception as error:
                said, failed = f"FAILED: {type(error).__name__}: {str(error)[:300]}", failed + 1
            print(f"{name:24} {way:18} {time.process_time() - start:6.1f} s  {said}", flush=True)
    tried = len(asked.entries) * len(asked.ways)
    print(f"{tried} tried, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
