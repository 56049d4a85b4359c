"""Indexing: slices, gathers, and scatters into rows or flattened arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.export.onnx.builder import (
    Value,
    constant,
    emit,
    insert_axes,
    iota,
    lengths,
    permute_axes,
    product,
    remove_axes,
    reshape_to,
    vector,
    where,
)
from graphc.export.onnx.lowering import by_parts, onnx
from graphc.tensor.arrays.index import EVERYTHING, Hole, Index, IndexUpdate, Nonzero, Range

LAST = 2**63 - 1
"""A stop after the end of every axis."""


@dataclass
class ParsedIndex:
    """The entries of an index, by the operations that apply them.

    Attributes:
        bounds: Start, stop and step of sliced axes, each a vector of one number.
        dropped: The axes that an integer indexes.
        arrays: Index arrays, by the axis that they index after the dropped ones are removed.
        from_x: For each entry that is no integer or array, in order, whether it is an axis of x
            rather than a new one.
    """

    bounds: dict[int, tuple[Any, Any, Any]]
    dropped: list[int]
    arrays: dict[int, Value]
    from_x: list[bool]


def parse_index(entries: Sequence[Any], symbolic: Sequence[Value]) -> ParsedIndex:
    """Sort the entries of an index, with a value for each hole."""
    parsed = ParsedIndex({}, [], {}, [])
    values = iter(symbolic)
    axis = 0
    for entry in entries:
        if entry is None:
            parsed.from_x.append(False)
            continue
        if isinstance(entry, Range):
            parsed.from_x.append(True)
            if entry != EVERYTHING:
                parsed.bounds[axis] = _bounds(entry, values)
        elif isinstance(entry, Hole):
            parsed.arrays[axis - len(parsed.dropped)] = next(values).cast("int64")
        else:
            parsed.dropped.append(axis)
            parsed.bounds[axis] = _bounds_of_integer(entry)
        axis += 1
    return parsed


def _bounds_of_integer(i: int) -> tuple[Any, Any, Any]:
    return vector([i]), vector([i + 1 if i != -1 else LAST]), vector([1])


def _bounds(entry: Range, values: Any) -> tuple[Any, Any, Any]:
    """Return start, stop and step; an omitted one depends on the sign of the step."""
    numbers = [_number(next(values)) if isinstance(x, Hole) else x for x in entry.parts]
    start, stop, step = numbers
    step = 1 if step is None else step
    if isinstance(step, int):
        first, last = (0, LAST) if step > 0 else (LAST, -LAST - 1)
        start, stop = first if start is None else start, last if stop is None else stop
        return _vector(start), _vector(stop), _vector(step)
    rising = step > 0
    ends = [(0, LAST), (LAST, -LAST - 1)]
    bounds = [
        where(rising, vector([up]), vector([down])) if x is None else _vector(x)
        for x, up, down in zip((start, stop), *ends, strict=True)
    ]
    return bounds[0], bounds[1], step


def _vector(x: Any) -> Value:
    return vector([x]) if isinstance(x, int) else x


def _number(x: Value) -> Value:
    return emit("Reshape", x.cast("int64"), vector([1]))


def slice_axes(x: Value, bounds: Mapping[int, tuple[Any, Any, Any]]) -> Value:
    if not bounds:
        return x
    starts, stops, steps = (
        column[0] if len(column) == 1 else emit("Concat", *column, axis=0)
        for column in zip(*bounds.values(), strict=True)
    )
    return emit("Slice", x, starts, stops, vector([*bounds]), steps)


def apply_index(entries: Sequence[Any], x: Value, ndim: int, symbolic: Sequence[Value]) -> Value:
    """Return the indexed elements of an array with ``ndim`` axes."""
    index = parse_index(entries, symbolic)
    first = Index(tuple(entries)).array_axis() if index.arrays else 0
    depth = 0
    x = remove_axes(slice_axes(x, index.bounds), index.dropped)
    if index.arrays:
        depth = max(i.type.ndim for i in Index(tuple(entries)).arrays(symbolic))
        x = gather(x, ndim - len(index.dropped), index.arrays, depth, sum(index.from_x[:first]))
    inserted = [i + depth * (i >= first) for i, is_own in enumerate(index.from_x) if not is_own]
    return insert_axes(x, inserted)


def gather(x: Value, ndim: int, arrays: Mapping[int, Value], depth: int, first: int) -> Value:
    """Gather elements by index arrays, whose axes are moved to position ``first``."""
    axes = [*arrays]
    if len(axes) == 1:
        y = emit("Gather", x, arrays[axes[0]], axis=axes[0])
        source = axes[0]
    else:
        rest = [axis for axis in range(ndim) if axis not in axes]
        y = emit("GatherND", permute_axes(x, [*axes, *rest]), stack_indices(list(arrays.values())))
        source = 0
    count = ndim - len(axes) + depth
    block = [*range(source, source + depth)]
    rest = [axis for axis in range(count) if axis not in block]
    return permute_axes(y, [*rest[:first], *block, *rest[first:]])


def stack_indices(arrays: Sequence[Value]) -> Value:
    """Stack index arrays along a new last axis, after broadcasting them."""
    broadcast = arrays[0]
    for x in arrays[1:]:
        broadcast = broadcast + x
    shape = emit("Shape", broadcast, dtype="int64")
    columns = [emit("Unsqueeze", emit("Expand", x, shape), vector([-1])) for x in arrays]
    return emit("Concat", *columns, axis=-1)


@onnx.lower(Index)
@by_parts
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    return apply_index(op.entries, x, x.type.ndim, symbolic)


@onnx.lower(IndexUpdate)
@by_parts
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """Scatter rows if only the first axis is indexed, otherwise single elements."""
    dtype = x.dtype
    if op.accumulate and dtype in {"bool", "float16", "bfloat16"}:
        wide = "int32" if dtype == "bool" else "float32"
        x, value = (y.cast(wide).with_type(y.type) for y in (x, value))
    match op.entries:
        case (Hole() | int(), *rest) if all(entry == EVERYTHING for entry in rest):
            y = _scatter_rows(op, x, value, symbolic)
        case _:
            y = _scatter_elements(op, x, value, symbolic)
    return ~y.equals(0) if dtype == "bool" and op.accumulate else y.cast(dtype)


def _scatter_rows(op: IndexUpdate, x: Value, value: Value, symbolic: Sequence[Value]) -> Value:
    i = symbolic[0].cast("int64") if symbolic else constant(op.entries[0], "int64")
    rows = lengths(x)[1:]
    shape = emit("Concat", emit("Shape", i, dtype="int64"), vector(rows), axis=0)
    return _scatter(op, x, insert_axes(i, [-1]), emit("Expand", value, shape))


def _scatter_elements(op: IndexUpdate, x: Value, value: Value, symbolic: Sequence[Value]) -> Value:
    shape = lengths(x)
    size = product(shape)
    numbers = reshape_to(iota(size), shape)
    part = apply_index(op.entries, numbers, len(shape), symbolic)
    values = emit("Expand", value, emit("Shape", part, dtype="int64"))
    flat, indices, values = (emit("Reshape", y, vector([-1])) for y in (x, part, values))
    return reshape_to(_scatter(op, flat, insert_axes(indices, [-1]), values), shape)


def _scatter(op: IndexUpdate, x: Value, indices: Value, values: Value) -> Value:
    attributes = {"reduction": "add"} if op.accumulate else {}
    return emit("ScatterND", x, indices, values, **attributes)


@onnx.lower(Nonzero)
def nonzero(op: Nonzero, x: Any) -> Any:
    ndim = x.type.ndim
    indices = emit("NonZero", x if x.dtype == "bool" else ~x.equals(0), dtype="int64")
    return tuple(emit("Gather", indices, constant(axis, "int64"), axis=0) for axis in range(ndim))
