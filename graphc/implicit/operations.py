"""Handlers of graphc's operations on structured arrays, in terms of their methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.grad.barriers import GradScale, GradStop, GradZero
from graphc.implicit import dot, elementwise, index
from graphc.implicit.array import ImplicitArray
from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.layout import broadcast, expand_dims, reshape, squeeze, structural, transpose
from graphc.implicit.partition import constrain_fields
from graphc.implicit.policy import as_dense, densify
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef, dtype_of
from graphc.ir import Op, numpy_dtype
from graphc.tensor import Tensor
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.diagonal import Diagonal
from graphc.tensor.arrays.index import EVERYTHING, Index, IndexUpdate
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import (
    All,
    Any_,
    Max,
    MaxWithDefault,
    Min,
    MinWithDefault,
    Prod,
    Reduction,
    Sum,
)
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import ROWS, Cast, Elementwise, Where
from graphc.tensor.core.shape import Length, Reshape, Shape, length, lengths
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.linalg.dot import DotGeneral

REDUCTIONS: dict[type[Reduction], str] = {
    Sum: "sum",
    Prod: "prod",
    Max: "max",
    Min: "min",
    MaxWithDefault: "max",
    MinWithDefault: "min",
    All: "all",
    Any_: "any",
}
"""The names of reductions for ``Structured.reduce``."""


# Products.


@register(DotGeneral)
def _dot_general(a: Any, b: Any, *, contract: Any, batch_axes: Any) -> Any:
    return dot.dot_general(a, b, contract, batch_axes, dtype_of(a))


# The same elements at other positions.


@register(Transpose)
@structural
def _transpose(x: Structured, *, axes: tuple[int, ...]) -> Any:
    return transpose(x, axes)


@register(ExpandDims)
@structural
def _expand_dims(x: Structured, *, axes: tuple[int, ...]) -> Any:
    return expand_dims(x, axes)


@register(Squeeze)
@structural
def _squeeze(x: Structured, *, axes: tuple[int, ...]) -> Any:
    return squeeze(x, axes)


@register(Reshape)
@structural
def _reshape(x: Structured, *symbolic: Any, shape: tuple[int | None, ...]) -> Any:
    if None in (*shape, *x.shape):
        return NotImplemented
    product: int = math.prod(n for n in shape if n is not None and n != -1)
    if -1 in shape and (not product or x.size % product):
        return NotImplemented
    lengths: list[Any] = [x.size // product if n == -1 else n for n in shape]
    return reshape(x, lengths) if math.prod(lengths) == x.size else NotImplemented


@register(BroadcastTo)
@structural
def _broadcast_to(x: Structured, *symbolic: Any, shape: Any, repeated: Any) -> Any:
    return broadcast(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


@register(SpecifyShape)
def _specify_shape(x: ImplicitArray, *symbolic: Any, shape: Any, title: str) -> Any:
    fits = all(m in {-1, n} for n, m in zip(x.shape, shape, strict=True))
    return x if fits else NotImplemented


@register(Shard)
def _shard(x: ImplicitArray, *, sharding: Any, role: str) -> Any:
    return constrain_fields(x, sharding, f"shard({x!r})")


@register(Diagonal)
def _diagonal(x: Structured, *, offset: int) -> Any:
    return NotImplemented if None in x.shape[-2:] else x.diagonal(offset)


# Lengths, which are static or follow from the lengths of the fields.


@register(Shape)
def _shape(x: ImplicitArray) -> Any:
    return gt.as_tensor(lengths(gt.as_tensor(densify(x))), dtype="int64")


@register(Length)
def _length(x: ImplicitArray, *, axis: int) -> Any:
    return gt.as_tensor(length(gt.as_tensor(densify(x)), axis), dtype="int64")


# Indexing, splitting and joining.


@register(Index)
def _index(x: Structured, *symbolic: Any, entries: Any) -> Any:
    return index.getitem(x, entries, [as_dense(i, "an index") for i in symbolic])


@register(IndexUpdate)
def _index_update(x: Any, value: Any, *symbolic: Any, entries: Any, accumulate: bool) -> Any:
    if is_same_number(x, value) and not accumulate:
        return x
    if accumulate and number_of(value) == 0:
        return x
    indices = [as_dense(i, "an index") for i in symbolic]
    axes = [entry for entry in entries if entry is not None]
    if accumulate or len(axes) < len(entries):
        return NotImplemented
    op = IndexUpdate(entries, accumulate=False)
    covers = [entry == EVERYTHING for entry in axes]
    return index.update(x, value, covers, lambda x, y: Tensor.make(op, x, y, *indices))


@register(Split)
def _split(x: Structured, *symbolic: Any, axis: int, sizes: Any) -> Any:
    if None in (*sizes, *x.shape) or sum(sizes) != x.shape[axis]:
        return NotImplemented
    return index.split(x, sizes, axis)


@register(Concatenate)
def _concatenate(*xs: Any, axis: int) -> Any:
    return index.concatenate(xs, axis)


# Element by element.


@register(Cast)
def _cast(x: Structured, *, dtype: str) -> Any:
    return x if x.dtype == numpy_dtype(dtype) else x.cast(numpy_dtype(dtype))


@register(Where)
def _where(condition: Any, a: Any, b: Any) -> Any:
    return elementwise.where(condition, a, b)


@register(gt.power)
def _power(x: Structured, exponent: Any) -> Any:
    value = number_of(exponent)
    if value is None:
        return NotImplemented
    is_integral = np.isfinite(value) and value == np.round(value.real)
    y = elementwise.integer_power(x, int(value.real)) if is_integral else NotImplemented
    return elementwise.binary("power", x, exponent) if y is NotImplemented else y


@register(ROWS["clip"])
def _clip(x: Any, low: Any, high: Any) -> Any:
    return elementwise.clip(x, low, high)


def _enter_unary(row: Elementwise) -> None:
    @register(row)
    def apply(x: Structured) -> Any:
        return elementwise.unary(row.row, x)


def _enter_binary(row: Elementwise) -> None:
    @register(row)
    def apply(a: Any, b: Any) -> Any:
        return elementwise.arithmetic(row.row, a, b)


def _enter_other_binary(row: Elementwise) -> None:
    @register(row)
    def apply(a: Any, b: Any) -> Any:
        return elementwise.binary(row.row, a, b)


def _enter_reduction(op: type[Reduction]) -> None:
    @register(op)
    def reduce(x: Structured, *, axes: tuple[int, ...]) -> Any:
        lengths = [x.shape[axis] for axis in axes]
        if 0 in lengths and issubclass(op, Max | Min):
            return NotImplemented
        # A structure has no default for the extreme of an empty slice.
        if None in lengths and op in {MaxWithDefault, MinWithDefault}:
            return NotImplemented
        return elementwise.reduce(x, REDUCTIONS[op], axes)


for _row in [row for row in ROWS.values() if row.arity == 1]:
    _enter_unary(_row)
for _name in elementwise.ARITHMETIC:
    _enter_binary(ROWS[_name])
for _name in elementwise.BINARY:
    _enter_other_binary(ROWS[_name])
for _op in REDUCTIONS:
    _enter_reduction(_op)


# Barriers to gradients apply to the fields, through which the array's gradient flows.


def _enter_barrier(op: type[Op]) -> None:
    @register(op)
    def through(x: ImplicitArray, **parameters: Any) -> Any:
        treedef, leaves = Treedef.of(x)
        return treedef.build([Tensor.make(op(**parameters), leaf) for leaf in leaves])


for _barrier in (GradStop, GradZero, GradScale):
    _enter_barrier(_barrier)
