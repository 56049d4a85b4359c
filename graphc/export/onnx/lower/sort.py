"""Sorting and searching, by integer keys that are ordered as the elements are."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx import builder as ob
from graphc.export.onnx.bits import BITS
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.export.onnx.protos import CODES
from graphc.loop import scan
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort

HIGHEST = -(2**63)
"""The sign bit of 64 bits."""


def key_of(x: ob.Value, *, nan_last: bool = True) -> ob.Value:
    """Return integers ordered as the elements are; NaN is one of the ends, and zeros are equal."""
    if x.dtype == "uint64":
        return ob.emit("BitCast", x, dtype="int64", to=CODES["int64"]) ^ ob.constant(
            HIGHEST, "int64"
        )
    if not x.is_float:
        return x.cast("int32" if x.dtype not in {"uint32", "int64"} else "int64")
    x = x.cast("float32") if x.dtype in {"float16", "bfloat16"} else x
    dtype = BITS[x.dtype]
    bits = ob.emit("BitCast", x, dtype=dtype, to=CODES[dtype])
    ends = np.iinfo(dtype)
    # A negative number is smaller if its bits are larger.
    key = ob.where(bits < 0, bits ^ ob.constant(ends.max, dtype), bits)
    key = ob.where(x.equals(0), ob.constant(0, dtype), key)
    end = ob.constant(ends.max if nan_last else ends.min, dtype)
    return ob.where(ob.emit("IsNaN", x, dtype="bool"), end, key)


def from_key(key: ob.Value, dtype: str) -> ob.Value:
    assert dtype == "uint64"
    return ob.emit("BitCast", key ^ ob.constant(HIGHEST, "int64"), dtype=dtype, to=CODES[dtype])


def order_of(key: ob.Value, n: Any, axis: int) -> ob.Value:
    """Return the indices that sort keys, in a stable order."""
    attributes = {"axis": axis, "largest": 0, "sorted": 1}
    _, order = ob.emit_several("TopK", [key, ob.vector([n])], [key.dtype, "int64"], **attributes)
    return order


@onnx.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Return the indices of a stable sort; complex numbers take one sort for each key."""
    n = ob.length(x, op.axis)
    if not isinstance(x, ob.Complex):
        return order_of(key_of(x), n, op.axis)
    nans = [ob.emit("IsNaN", part, dtype="bool").cast("int32") for part in (x.re, x.im)]
    keys = [key_of(x.im), key_of(x.re), nans[0] * 2 + nans[1]]
    order = order_of(keys[0], n, op.axis)
    for key in keys[1:]:
        again = order_of(take_along(key, order, op.axis), n, op.axis)
        order = take_along(order, again, op.axis)
    return order


@onnx.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """Sort in ascending order with NaN last."""
    order = argsort(ArgSort(op.axis), x)
    if isinstance(x, ob.Complex):
        return ob.Complex(take_along(x.re, order, op.axis), take_along(x.im, order, op.axis))
    return take_along(x, order, op.axis)


def take_along(x: ob.Value, indices: ob.Value, axis: int) -> ob.Value:
    return ob.emit("GatherElements", x, indices, axis=axis)


@onnx.lower(Unique)
def unique(op: Unique, x: Any) -> Any:
    """Return unique elements by their keys: all NaNs have one."""
    key = key_of(x).cast("int64")
    attributes = {} if op.axis is None else {"axis": op.axis}
    dtypes = ["int64"] * 4
    _, first, inverse, count = ob.emit_several("Unique", [key], dtypes, sorted=1, **attributes)
    if op.axis is None:
        inverse = ob.emit("Reshape", inverse, ob.emit("Shape", x, dtype="int64"))
    return first, inverse, count


@onnx.lower(SearchSorted)
@by_graph
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """Search by bisection, all values at once."""
    n = x.shape[-1]
    values = gt.reshape(v, (*v.shape[: op.batched], -1)) if v.ndim > op.batched else v[..., None]

    def advance(step: Any, position: Any) -> Any:
        candidate = position + step
        element = gt.take_along_axis(x, gt.minimum(candidate, n) - 1, -1)
        before = ~_is_before(values, element) if op.right else _is_before(element, values)
        return gt.where((candidate <= n) & before, candidate, position)

    steps = 2 ** gt.arange(62, -1, -1)
    start = gt.zeros_like(values, "int64")
    steps = steps[gt.sum(steps > n) :]
    result = scan(advance, sequences=steps, outputs_info=start)[-1]
    result = gt.where(gt.equal(n, 0), 0, result)
    return gt.reshape(result, v.shape)


def _is_before(a: Any, b: Any) -> Any:
    """Return whether a precedes b in ascending order, with NaN after all numbers."""
    if not a.dtype.startswith("complex"):
        return (a < b) | (~gt.isnan(a) & gt.isnan(b))
    before: Any = False
    for part in (gt.imag, gt.real):
        x, y = part(a), part(b)
        before = _is_before(x, y) | (~_is_before(y, x) & before)
    return before
