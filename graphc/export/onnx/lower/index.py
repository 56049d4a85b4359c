"""Indexing: slices, gathers, and scatters into an array whose elements lie in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.export.onnx.builder import (
    Value,
    constant,
    counted,
    emit,
    lengths,
    product,
    reshaped,
    squeezed,
    transposed,
    unsqueezed,
    vector,
    where,
)
from graphc.export.onnx.lowering import by_parts, onnx
from graphc.tensor.arrays.index import EVERYTHING, Hole, Index, IndexUpdate, Nonzero, Range

LAST = 2**63 - 1
"""Behind the end of every axis."""


@dataclass
class Parts:
    """An index, sorted by what is done for it.

    Attributes:
        bounds: For axes that are sliced: start, stop and step, each a vector of one number.
        dropped: The axes that an integer takes one place of.
        arrays: Index arrays, by the axis that they index once the dropped ones are gone.
        own: For each entry but integers and arrays, in order, whether it is no new axis.
    """

    bounds: dict[int, tuple[Any, Any, Any]]
    dropped: list[int]
    arrays: dict[int, Value]
    own: list[bool]


def parts_of(entries: Sequence[Any], symbolic: Sequence[Value]) -> Parts:
    """An index, given a value for each hole."""
    found = Parts({}, [], {}, [])
    values = iter(symbolic)
    axis = 0
    for entry in entries:
        if entry is None:
            found.own.append(False)
            continue
        if isinstance(entry, Range):
            found.own.append(True)
            if entry != EVERYTHING:
                found.bounds[axis] = _bounds(entry, values)
        elif isinstance(entry, Hole):
            found.arrays[axis - len(found.dropped)] = next(values).cast("int64")
        else:
            found.dropped.append(axis)
            found.bounds[axis] = _place(entry)
        axis += 1
    return found


def _place(i: int) -> tuple[Any, Any, Any]:
    return vector([i]), vector([i + 1 if i != -1 else LAST]), vector([1])


def _bounds(entry: Range, values: Any) -> tuple[Any, Any, Any]:
    """Start, stop and step; one that is left out depends on the sign of the step."""
    given = [_number(next(values)) if isinstance(x, Hole) else x for x in entry.parts]
    start, stop, step = given
    step = 1 if step is None else step
    if isinstance(step, int):
        first, last = (0, LAST) if step > 0 else (LAST, -LAST - 1)
        start, stop = first if start is None else start, last if stop is None else stop
        return _vector(start), _vector(stop), _vector(step)
    rising = step > 0
    ends = [(0, LAST), (LAST, -LAST - 1)]
    found = [
        where(rising, vector([up]), vector([down])) if x is None else _vector(x)
        for x, up, down in zip((start, stop), *ends, strict=True)
    ]
    return found[0], found[1], step


def _vector(x: Any) -> Value:
    return vector([x]) if isinstance(x, int) else x


def _number(x: Value) -> Value:
    return emit("Reshape", x.cast("int64"), vector([1]))


def sliced(x: Value, bounds: Mapping[int, tuple[Any, Any, Any]]) -> Value:
    """Parts of some axes."""
    if not bounds:
        return x
    starts, stops, steps = (
        column[0] if len(column) == 1 else emit("Concat", *column, axis=0)
        for column in zip(*bounds.values(), strict=True)
    )
    return emit("Slice", x, starts, stops, vector([*bounds]), steps)


def indexed(entries: Sequence[Any], x: Value, ndim: int, symbolic: Sequence[Value]) -> Value:
    """A part of an array of so many axes."""
    parts = parts_of(entries, symbolic)
    first = Index(tuple(entries)).place() if parts.arrays else 0
    depth = 0
    x = squeezed(sliced(x, parts.bounds), parts.dropped)
    if parts.arrays:
        depth = max(i.type.ndim for i in Index(tuple(entries)).arrays(symbolic))
        x = gathered(x, ndim - len(parts.dropped), parts.arrays, depth, sum(parts.own[:first]))
    new = [i + depth * (i >= first) for i, kept in enumerate(parts.own) if not kept]
    return unsqueezed(x, new)


def gathered(x: Value, ndim: int, arrays: Mapping[int, Value], depth: int, first: int) -> Value:
    """The elements that index arrays take, whose axes come to stand at a place."""
    axes = [*arrays]
    if len(axes) == 1:
        y = emit("Gather", x, arrays[axes[0]], axis=axes[0])
        source = axes[0]
    else:
        rest = [axis for axis in range(ndim) if axis not in axes]
        y = emit("GatherND", transposed(x, [*axes, *rest]), places(list(arrays.values())))
        source = 0
    count = ndim - len(axes) + depth
    block = [*range(source, source + depth)]
    rest = [axis for axis in range(count) if axis not in block]
    return transposed(y, [*rest[:first], *block, *rest[first:]])


def places(arrays: Sequence[Value]) -> Value:
    """Index arrays side by side, in the shape that they have together."""
    whole = arrays[0]
    for x in arrays[1:]:
        whole = whole + x
    shape = emit("Shape", whole, dtype="int64")
    columns = [emit("Unsqueeze", emit("Expand", x, shape), vector([-1])) for x in arrays]
    return emit("Concat", *columns, axis=-1)


@onnx.lower(Index)
@by_parts
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    """A basic index slices; others gather."""
    return indexed(op.entries, x, x.type.ndim, symbolic)


@onnx.lower(IndexUpdate)
@by_parts
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """Rows by their number, where that is the index; else elements by their place in a row."""
    own = x.dtype
    if op.accumulate and own in {"bool", "float16", "bfloat16"}:
        wide = "int32" if own == "bool" else "float32"
        x, value = (y.cast(wide).typed(y.type) for y in (x, value))
    if isinstance(op.entries[0], Hole | int) and all(e == EVERYTHING for e in op.entries[1:]):
        y = _with_rows(op, x, value, symbolic)
    else:
        y = _with_elements(op, x, value, symbolic)
    return ~y.equals(0) if own == "bool" and op.accumulate else y.cast(own)


def _with_rows(op: IndexUpdate, x: Value, value: Value, symbolic: Sequence[Value]) -> Value:
    i = symbolic[0].cast("int64") if symbolic else constant(op.entries[0], "int64")
    rows = lengths(x)[1:]
    shape = emit("Concat", emit("Shape", i, dtype="int64"), vector(rows), axis=0)
    return _scattered(op, x, unsqueezed(i, [-1]), emit("Expand", value, shape))


def _with_elements(op: IndexUpdate, x: Value, value: Value, symbolic: Sequence[Value]) -> Value:
    shape = lengths(x)
    size = product(shape)
    numbers = reshaped(counted(size), shape)
    part = indexed(op.entries, numbers, len(shape), symbolic)
    values = emit("Expand", value, emit("Shape", part, dtype="int64"))
    flat, where_to, values = (emit("Reshape", y, vector([-1])) for y in (x, part, values))
    return reshaped(_scattered(op, flat, unsqueezed(where_to, [-1]), values), shape)


def _scattered(op: IndexUpdate, x: Value, where_to: Value, values: Value) -> Value:
    how = {"reduction": "add"} if op.accumulate else {}
    return emit("ScatterND", x, where_to, values, **how)


@onnx.lower(Nonzero)
def nonzero(op: Nonzero, x: Any) -> Any:
    """A vector for each axis."""
    ndim = x.type.ndim
    found = emit("NonZero", x if x.dtype == "bool" else ~x.equals(0), dtype="int64")
    return tuple(emit("Gather", found, constant(axis, "int64"), axis=0) for axis in range(ndim))
