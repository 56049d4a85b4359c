"""Order, and places in it, by integers that are ordered as the elements are."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx.bits import BITS
from graphc.export.onnx.builder import (
    Complex,
    Value,
    constant,
    emit,
    length,
    several,
    vector,
    where,
)
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.export.onnx.protos import CODES
from graphc.loop import scan
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort

HIGHEST = -(2**63)
"""The highest bit of 64."""


def key_of(x: Value, *, nan_last: bool = True) -> Value:
    """Signed integers ordered as the elements are; NaN is one of the ends, and zeros are equal."""
    if x.dtype == "uint64":
        return emit("BitCast", x, dtype="int64", to=CODES["int64"]) ^ constant(HIGHEST, "int64")
    if not x.is_float:
        return x.cast("int32" if x.dtype not in {"uint32", "int64"} else "int64")
    x = x.cast("float32") if x.dtype in {"float16", "bfloat16"} else x
    dtype = BITS[x.dtype]
    bits = emit("BitCast", x, dtype=dtype, to=CODES[dtype])
    ends = np.iinfo(dtype)
    # Among negative numbers, those of larger bits are smaller.
    key = where(bits < 0, bits ^ constant(ends.max, dtype), bits)
    key = where(x.equals(0), constant(0, dtype), key)
    end = constant(ends.max if nan_last else ends.min, dtype)
    return where(emit("IsNaN", x, dtype="bool"), end, key)


def from_key(key: Value, dtype: str) -> Value:
    """The elements of such keys."""
    assert dtype == "uint64"
    return emit("BitCast", key ^ constant(HIGHEST, "int64"), dtype=dtype, to=CODES[dtype])


def order_of(key: Value, n: Any, axis: int) -> Value:
    """The places that sort keys; equal ones keep their order."""
    places = {"axis": axis, "largest": 0, "sorted": 1}
    _, order = several("TopK", [key, vector([n])], [key.dtype, "int64"], **places)
    return order


@onnx.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Equal elements keep their order; of complex numbers, by one key after the other."""
    n = length(x, op.axis)
    if not isinstance(x, Complex):
        return order_of(key_of(x), n, op.axis)
    nans = [emit("IsNaN", part, dtype="bool").cast("int32") for part in (x.re, x.im)]
    keys = [key_of(x.im), key_of(x.re), nans[0] * 2 + nans[1]]
    order = order_of(keys[0], n, op.axis)
    for key in keys[1:]:
        again = order_of(taken(key, order, op.axis), n, op.axis)
        order = taken(order, again, op.axis)
    return order


@onnx.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """NaN comes last."""
    order = argsort(ArgSort(op.axis), x)
    if isinstance(x, Complex):
        return Complex(taken(x.re, order, op.axis), taken(x.im, order, op.axis))
    return taken(x, order, op.axis)


def taken(x: Value, places: Value, axis: int) -> Value:
    """The elements at places along an axis."""
    return emit("GatherElements", x, places, axis=axis)


@onnx.lower(Unique)
def unique(op: Unique, x: Any) -> Any:
    """By keys, of which NaN has one."""
    key = key_of(x).cast("int64")
    places = {} if op.axis is None else {"axis": op.axis}
    dtypes = ["int64"] * 4
    _, first, which, count = several("Unique", [key], dtypes, sorted=1, **places)
    if op.axis is None:
        which = emit("Reshape", which, emit("Shape", x, dtype="int64"))
    return first, which, count


@onnx.lower(SearchSorted)
@by_graph
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """By halves, all values at once."""
    n = x.shape[-1]
    wanted = gt.reshape(v, (*v.shape[: op.batched], -1)) if v.ndim > op.batched else v[..., None]

    def further(step: Any, found: Any) -> Any:
        place = found + step
        element = gt.take_along_axis(x, gt.minimum(place, n) - 1, -1)
        before = ~_is_before(wanted, element) if op.right else _is_before(element, wanted)
        return gt.where((place <= n) & before, place, found)

    steps = 2 ** gt.arange(62, -1, -1)
    start = gt.zeros_like(wanted, "int64")
    steps = steps[gt.sum(steps > n) :]
    found = scan(further, sequences=steps, outputs_info=start)[-1]
    found = gt.where(gt.equal(n, 0), 0, found)
    return gt.reshape(found, v.shape)


def _is_before(a: Any, b: Any) -> Any:
    """Whether a stands before b in ascending order, with NaN behind all numbers."""
    if not a.dtype.startswith("complex"):
        return (a < b) | (~gt.isnan(a) & gt.isnan(b))
    before: Any = False
    for part in (gt.imag, gt.real):
        x, y = part(a), part(b)
        before = _is_before(x, y) | (~_is_before(y, x) & before)
    return before
