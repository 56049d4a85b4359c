"""Handlers of graphc's operations on structured arrays, in terms of their methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.grad.barriers import GradScale, GradStop, GradZero
from graphc.implicit import dot, elementwise, index, layout
from graphc.implicit.array import ImplicitArray
from graphc.implicit.known import is_same_number, number_of
from graphc.implicit.partition import constrain_fields
from graphc.implicit.policy import as_dense, densify
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef, dtype_of
from graphc.ir import Op, dtype_name, numpy_dtype
from graphc.tensor import Tensor
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.diagonal import MatrixDiagonal
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
def transpose(x: Structured, *, axes: tuple[int, ...]) -> Any:
    """Permute the axes of a structured array."""
    return layout.transpose(x, axes)


@register(ExpandDims)
def _expand_dims(x: Structured, *, axes: tuple[int, ...]) -> Any:
    return layout.expand_dims(x, axes)


@register(Squeeze)
def squeeze(x: Structured, *, axes: tuple[int, ...]) -> Any:
    """Remove axes of length 1."""
    return layout.squeeze(x, axes)


@register(Reshape)
def _reshape(x: Structured, *symbolic: Any, shape: tuple[int | None, ...]) -> Any:
    if None in (*shape, *x.shape):
        return NotImplemented
    product: int = math.prod(n for n in shape if n is not None and n != -1)
    if -1 in shape and (not product or x.size % product):
        return NotImplemented
    lengths: list[Any] = [x.size // product if n == -1 else n for n in shape]
    return layout.reshape(x, lengths) if math.prod(lengths) == x.size else NotImplemented


@register(BroadcastTo)
def _broadcast_to(x: Structured, *symbolic: Any, shape: Any, repeated: Any) -> Any:
    return layout.broadcast(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


@register(SpecifyShape)
def _specify_shape(x: ImplicitArray, *symbolic: Any, shape: Any, title: str) -> Any:
    fits = all(m in {-1, n} for n, m in zip(x.shape, shape, strict=True))
    return x if fits else NotImplemented


@register(Shard)
def _shard(x: ImplicitArray, *, sharding: Any, role: str) -> Any:
    return constrain_fields(x, sharding, f"shard({x!r})")


@register(MatrixDiagonal)
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
def split(x: Structured, *symbolic: Any, axis: int, sizes: Any) -> Any:
    """Split a structured array into slices of these lengths."""
    if None in (*sizes, *x.shape) or sum(sizes) != x.shape[axis]:
        return NotImplemented
    return index.split(x, sizes, axis)


@register(Concatenate)
def concatenate(*xs: Any, axis: int) -> Any:
    """Concatenate implicit arrays along an axis."""
    return index.concatenate(xs, axis)


# Element by element.


@register(Cast)
def cast(x: Structured, *, dtype: Any) -> Any:
    """Cast a structured array to another dtype."""
    dtype = numpy_dtype(dtype_name(dtype))
    return x if x.dtype == dtype else x.cast(dtype)


@register(Where)
def _where(condition: Any, a: Any, b: Any) -> Any:
    return elementwise.where(condition, a, b)


@register(ROWS["clip"])
def _clip(x: Any, low: Any, high: Any) -> Any:
    return elementwise.clip(x, low, high)


def row_handler(row: Elementwise) -> Callable[..., Any]:
    """Return the handler of an elementwise function of one or two operands, of any library."""

    def unary(x: Structured, **_: Any) -> Any:
        return elementwise.unary(row.row, x)

    def binary(a: Any, b: Any, **_: Any) -> Any:
        if row.row in elementwise.ARITHMETIC:
            return elementwise.arithmetic(row.row, a, b)
        return elementwise.power(a, b) if row.row == "power" else elementwise.binary(row.row, a, b)

    return unary if row.arity == 1 else binary


def _enter_reduction(op: type[Reduction]) -> None:
    @register(op)
    def reduce(x: Structured, *, axes: tuple[int, ...]) -> Any:
        # A structure has no default for the extreme of an empty slice.
        if op in {MaxWithDefault, MinWithDefault} and None in [x.shape[axis] for axis in axes]:
            return NotImplemented
        return elementwise.reduce(x, REDUCTIONS[op], axes)


HANDLED_ROWS = [
    row
    for row in ROWS.values()
    if row.arity == 1 or row.row in {*elementwise.ARITHMETIC, *elementwise.BINARY}
]
"""The elementwise functions with handlers, in graphs and in JAX programs."""

for _row in HANDLED_ROWS:
    register(_row)(row_handler(_row))
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
