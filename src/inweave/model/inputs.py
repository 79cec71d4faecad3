"""What users hand over: arrays of any library, numbers and lists, as checked arrays of one library.

`accept` takes anything array-like and says what is wrong with it. That takes longer than running a
small network, so what it found right once need not be looked at so closely again: `signature` is
all that there is to know of usual inputs but their values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy import ndarray

from inweave.errors import BlockError, DTypeError, InputError, ShapeError, missing_and_unknown
from inweave.exact.arithmetic import Floats, is_tracing, namespace
from inweave.exact.constants import Array
from inweave.model.layout import check_batch
from inweave.model.prompt import Input

NUMBERS = (float, int, np.float64)


# -- at a glance ----------------------------------------------------------------------------------
def signature(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """What `accept` decides by, all but the values; None if these are not plain arrays and numbers.

    Inputs of one signature are accepted in the same way, if they are finite.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is ndarray:
            found.append((value.dtype, value.shape))
        elif kind in NUMBERS:  # which are all alike
            found.append(float)
        else:
            read = _reader(kind)  # type: ignore[arg-type]
            if read is None:
                return None
            found.append(read(value))
    return tuple(found)


@cache
def _reader(kind: type) -> Callable[[Any], Any] | None:
    """What a plain array of this type is, but for its values."""
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return attrgetter("dtype", "shape", "device", "layout")
    if kind.__name__ == "ArrayImpl" and kind.__module__.startswith("jax"):
        return attrgetter("dtype", "shape", "sharding")
    return None


def needs_no_change(value: Any, arithmetic: Floats) -> bool:
    """Whether a value with a signature is a number, or an array as `accept` would make it."""
    if type(value) in NUMBERS:
        return True
    native = not isinstance(value, np.ndarray) or value.dtype.isnative
    return native and bool(value.dtype == arithmetic.dtype) and value.device == arithmetic.device


# -- closely --------------------------------------------------------------------------------------
def accept(
    specs: Sequence[Input], given: Mapping[str, Any], what: str = "this network"
) -> tuple[dict[str, Array], Floats]:
    """Named user arrays as (..., rows, cols) arrays of one library and dtype, all checked."""
    names = [spec.name for spec in specs]
    if said := missing_and_unknown(names, given):
        raise BlockError(f"{what} takes the inputs {', '.join(names)}; {said}")
    given = {name: plain(f"input {name!r}", given[name]) for name in names}
    arithmetic = _common(given)
    taken = {spec.name: _matrix(spec, given[spec.name], arithmetic) for spec in specs}
    check_batch("input", taken)
    return taken, arithmetic


def plain(what: str, value: Any) -> Any:
    """A value without what the rest of the way could not keep: masks, subclasses, sparsity."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{what} has masked entries; fill or drop them first")
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.is_meta:
        raise InputError(f"{what} is a tensor on the device meta, which holds no values")
    if value.layout != torch.strided:
        raise InputError(
            f"{what} is a tensor with the layout {str(value.layout).removeprefix('torch.')}, "
            "expected a dense one; .to_dense() makes it one"
        )
    return value


def _common(given: Mapping[str, Any]) -> Floats:
    """The array library, dtype and device that the given values share."""
    from array_api_compat import device, is_array_api_obj

    named = {
        name: value
        for name, value in given.items()
        if is_array_api_obj(value) and not isinstance(value, np.generic)
    }
    for name, value in named.items():
        if value.dtype == object:
            raise DTypeError(f"input {name!r}: got dtype object, expected real numbers")
    arrays = list(named.values())
    if not arrays:
        return Floats()
    try:
        xp = namespace(*arrays)
    except TypeError:
        kinds = sorted({type(a).__module__.split(".")[0] for a in arrays})
        raise DTypeError(
            f"the inputs mix array libraries ({', '.join(kinds)}); give them all in one"
        ) from None
    for name, value in named.items():
        if not xp.isdtype(value.dtype, ("real floating", "integral")):
            raise DTypeError(f"input {name!r}: got dtype {value.dtype}, expected real numbers")
    floats = [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating") and a.ndim > 0]
    floats = floats or [a.dtype for a in arrays if xp.isdtype(a.dtype, "real floating")]
    found = Floats(xp, xp.result_type(*floats) if floats else None, device(arrays[0]))
    if not floats and found.library == "jax":  # which may have none of 64 bits
        found = Floats(xp, xp.asarray(0.0).dtype, found.device)
    return found


def _matrix(spec: Input, value: Any, arithmetic: Floats) -> Array:
    """One input as a (..., rows, cols) array."""
    if isinstance(value, (list, tuple)):
        try:
            listed = np.asarray(value)
            if listed.dtype.kind not in "fiubO":
                raise TypeError(listed.dtype)
            value = listed.astype(np.float64)
        except OverflowError:
            raise _beyond(spec, np.dtype(np.float64)) from None
        except (TypeError, ValueError):
            raise DTypeError(
                f"input {spec.name!r}: the list does not hold real numbers, in rows of equal length"
            ) from None
    if isinstance(value, (complex, np.complexfloating, str, bytes)) or value is None:
        raise DTypeError(f"input {spec.name!r}: got {type(value).__name__}, expected real numbers")
    try:
        with np.errstate(over="ignore"):  # what overflows is refused below
            array = arithmetic.convert(value)
    except OverflowError:
        raise _beyond(spec, arithmetic.dtype) from None
    except (TypeError, ValueError) as error:
        raise DTypeError(f"input {spec.name!r}: expected real numbers; {error}") from None
    shape, expected, values = tuple(array.shape), (spec.rows, spec.cols), array
    if spec.kind == "scalar":
        array = array[..., None, None]
    elif spec.kind == "vector" and shape[-1:] == (spec.rows,):
        array = array[..., None]
    if tuple(array.shape[-2:]) != expected or array.ndim < 2:
        sizes = ", ".join(map(str, spec.shape))
        raise ShapeError(
            f"input {spec.name!r}: got shape {shape}, expected "
            + (f"(..., {sizes})" if sizes else "a number or batch axes only")
        )
    if is_concrete(values):
        check_values(spec, value, values, arithmetic, array.ndim - 2)
    return array


def _beyond(spec: Input, dtype: Any) -> InputError:
    """The error for a number that a float type cannot hold."""
    return InputError(
        f"input {spec.name!r} holds a number beyond {str(dtype).removeprefix('torch.')}; scale it, "
        "or give all inputs in a wider type"
    )


def check_values(
    spec: Input, given: Any, array: Array, arithmetic: Floats, batched: int = 0
) -> None:
    """Refuse values that make no sense, of the array that was made of what was given.

    So many axes are `batched`, by which a prompt is named. Whoever is being traced is asked through
    numpy.

    Inside jax.jit even an array whose values are known (one that the function closes over) gives
    placeholders when it is computed with.
    """
    xp = arithmetic.xp
    array = array.detach() if hasattr(array, "detach") else array  # so that autograd keeps nothing
    finite = xp.all(xp.isfinite(array))
    if not is_concrete(finite):
        array, xp = np.asarray(array), np
        finite = np.all(np.isfinite(array))
    if not bool(finite):
        if isinstance(given, (int, float, np.ndarray)) and np.isfinite(given).all():
            raise _beyond(spec, arithmetic.dtype)
        where = _first(~xp.isfinite(array), batched)
        raise InputError(f"input {spec.name!r} holds NaN or infinity{where}; clean it first")
    wrong = array < 0 if spec.sign == "nonnegative" else array <= 0
    if spec.sign != "any" and bool(xp.any(wrong)):
        raise InputError(
            f"input {spec.name!r}: got {float(xp.min(array)):g}, expected a {spec.sign} value, "
            "because this network's prompt holds its square root"
        )


def _first(wrong: Array, batched: int) -> str:
    """The first prompt of a batch in which something is wrong, in words."""
    if not batched:
        return ""
    found = np.asarray(wrong.cpu() if hasattr(wrong, "cpu") else wrong)
    at = tuple(np.argwhere(found)[0, :batched].tolist())
    return f" in prompt {at[0] if batched == 1 else at}"


def is_concrete(array: Array) -> bool:
    """False for what holds no values: dask arrays, and the placeholders of jax.jit and torch."""
    kind = type(array)
    if kind.__module__.startswith("torch"):
        return not is_tracing() and _has_values(array)
    if kind.__module__.startswith("dask"):
        return False
    return not (kind.__module__.startswith("jax") and "Tracer" in kind.__name__)


def _has_values(tensor: Array) -> bool:
    """False where torch.func.vmap runs over a tensor, perhaps inside torch.func.grad.

    A tensor that no transform wraps has an address. Of the others, what is made from a mapped one
    is mapped, and `item` refuses to pick one of many numbers.
    """
    try:
        tensor.data_ptr()
    except RuntimeError:
        try:
            tensor.new_zeros((), device="cpu").item()
        except RuntimeError:
            return False
    return True
