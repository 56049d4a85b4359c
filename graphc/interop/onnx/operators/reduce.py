"""Operators that combine elements along axes: reductions, running ones, sorting, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.values import axis_of
from graphc.ir import is_inexact
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length, lengths

Reducer = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _reduction(name: str, by_operand: int, reduce: Reducer) -> None:
    """Enter a reduction, whose axes are an operand from a version on."""

    def convert(op: Operation, x: Tensor, *_: Any) -> Tensor:
        axes = op.axes(1 if op.version >= by_operand else None, x.ndim)
        if not axes:
            if op["noop_with_empty_axes"]:
                return _of_each(name, x)
            axes = tuple(range(x.ndim))
        return reduce(x, axes, bool(op["keepdims"]))

    register(name)(convert)


def _of_each(name: str, x: Tensor) -> Tensor:
    """A reduction over no axes."""
    functions: dict[str, Callable[..., Tensor]] = {
        "ReduceL1": gt.abs,
        "ReduceL2": gt.abs,
        "ReduceLogSum": gt.log,
        "ReduceSumSquare": gt.square,
    }
    return functions[name](x) if name in functions else x


def total(x: Tensor, axes: Any, keepdims: bool = False) -> Tensor:
    """The sum, of the same dtype."""
    return gt.sum(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if is_inexact(x.dtype):
        return gt.mean(x, axis=axes, keepdims=keepdims)
    count = prod([length(x, axis) for axis in axes])
    return total(x, axes, keepdims) // gt.as_tensor(count, dtype=x.dtype)


def _extreme(function: Callable[..., Tensor], least: bool) -> Reducer:
    """A maximum or minimum; of no elements it is the least or greatest number."""

    def reduce(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        initial = None
        if any(not x.type.shape[axis] for axis in axes):  # 0, or unknown
            initial = bound(x.dtype, least=least)
        return function(x, axis=axes, keepdims=keepdims, initial=initial)

    return reduce


def bound(dtype: str, *, least: bool) -> np.ndarray[Any, Any]:
    """The least or greatest number of a dtype."""
    if dtype == "bool":
        return np.array(not least)
    if is_inexact(dtype):
        return np.array(-np.inf if least else np.inf).astype(dtype)
    bounds = np.iinfo(dtype)
    return np.array(bounds.min if least else bounds.max, dtype)


def _root(x: Tensor) -> Tensor:
    return gt.sqrt(x) if is_inexact(x.dtype) else gt.sqrt(x.astype("float64")).astype(x.dtype)


def _logsumexp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if any(x.type.shape[axis] == 0 for axis in axes):
        return gt.log(total(gt.exp(x), axes, keepdims))
    return gt.logsumexp(x, axis=axes, keepdims=keepdims)


_reduction("ReduceSum", 13, total)
_reduction("ReduceMean", 18, _mean)
_reduction("ReduceMax", 18, _extreme(gt.max, least=True))
_reduction("ReduceMin", 18, _extreme(gt.min, least=False))
_reduction("ReduceProd", 18, lambda x, axes, keep: gt.prod(x, axes, dtype=x.dtype, keepdims=keep))
_reduction("ReduceL1", 18, lambda x, axes, keep: total(gt.abs(x), axes, keep))
_reduction("ReduceL2", 18, lambda x, axes, keep: _root(total(gt.square(x), axes, keep)))
_reduction("ReduceSumSquare", 18, lambda x, axes, keep: total(gt.square(x), axes, keep))
_reduction("ReduceLogSum", 18, lambda x, axes, keep: gt.log(total(x, axes, keep)))
_reduction("ReduceLogSumExp", 18, _logsumexp)


# Places of extremes, and sorting.


def _place_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convert(op: Operation, x: Tensor) -> Tensor:
        axis, keepdims = op.axis(x.ndim), bool(op["keepdims"])
        if not op["select_last_index"]:
            return function(x, axis=axis, keepdims=keepdims).astype("int64")
        found = function(gt.flip(x, axis), axis=axis, keepdims=keepdims).astype("int64")
        return length(x, axis) - 1 - found

    return convert


register("ArgMax")(_place_of(gt.argmax))
register("ArgMin")(_place_of(gt.argmin))


@register("TopK")
def _top_k(op: Operation, x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    axis = op.axis(x.ndim, -1)
    k = int(op["k"]) if op.version < 10 else op.entries(1)[0]
    if op.get("largest", 1):
        values, places = gt.top_k(x, k, axis=axis)
        return values, places.astype("int64")
    order = gt.argsort(x, axis=axis, stable=True)
    places = order[(*[slice(None)] * axis, slice(0, k))]
    return gt.take_along_axis(x, places, axis=axis), places.astype("int64")


@register("Unique")
def _unique(op: Operation, x: Tensor) -> tuple[Any, ...]:
    given = op["axis"]
    axis = None if given is None else axis_of(int(given), x.ndim)
    values, first, inverse, counts = gt.unique(
        gt.ravel(x) if axis is None else x,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
    )
    inverse = gt.reshape(inverse, (-1,))
    if not op["sorted"]:  # in the order in which they come
        order = gt.argsort(first)
        values = gt.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], gt.argsort(order)[inverse]
    found = values, *(part.astype("int64") for part in (first, inverse, counts))
    return found[: len(op.node.output)]


# Running sums.


@register("CumSum", "CumProd")
def _cumulative(op: Operation, x: Tensor, *_: Any) -> Tensor:
    (axis,) = op.numbers(1, "the axis")
    axis = axis_of(axis, x.ndim)
    is_sum = op.node.op_type == "CumSum"
    x = gt.flip(x, axis) if op["reverse"] else x
    y = (gt.cumsum if is_sum else gt.cumprod)(x, axis=axis, dtype=x.dtype)
    if op["exclusive"]:
        first = [1 if i == axis else n for i, n in enumerate(lengths(x))]
        begin = gt.full(tuple(first), 0 if is_sum else 1, dtype=x.dtype)
        rest = y[(*[slice(None)] * axis, slice(0, length(x, axis) - 1))]
        y = gt.concatenate([begin, rest], axis=axis)
    return gt.flip(y, axis) if op["reverse"] else y


# Softmax, over all axes from one on before version 13.


def _over_rows(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convert(op: Operation, x: Tensor) -> Tensor:
        axis = op.axis(x.ndim)
        if op.version >= 13 or axis == x.ndim - 1:
            return function(x, axis)
        shape = lengths(x)
        rows = gt.reshape(x, (*shape[:axis], -1))
        return gt.reshape(function(rows, axis), tuple(shape))

    return convert


def _hardmax(x: Tensor, axis: int) -> Tensor:
    places = gt.argmax(x, axis=axis, keepdims=True)
    counted = gt.arange(length(x, axis))
    order: list[Any] = ["x"] * x.ndim
    order[axis] = 0
    return gt.equal(gt.dimshuffle(counted, order), places).astype(x.dtype)


register("Softmax")(_over_rows(lambda x, axis: gt.softmax(x, axis=axis)))
register("LogSoftmax")(_over_rows(lambda x, axis: gt.log_softmax(x, axis=axis)))
register("Hardmax")(_over_rows(_hardmax))
