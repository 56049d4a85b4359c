"""The length of an array in terms of what the array is made of, so that it is never computed."""

from __future__ import annotations

from functools import singledispatch
from typing import Any
from weakref import WeakKeyDictionary

from graphc.ir import Node, Op
from graphc.tensor.elementwise import Cast, Elementwise, Where
from graphc.tensor.index import Hole, Index, IndexUpdate, Range
from graphc.tensor.linalg import DotGeneral
from graphc.tensor.reduce import ArgExtreme, Composite, LogSumExp, Reduction
from graphc.tensor.shape import (
    BroadcastTo,
    Concatenate,
    ExpandDims,
    Length,
    Reshape,
    Squeeze,
    Transpose,
    broadcast_to,
)
from graphc.tensor.tensor import Tensor

__all__ = ["fitted", "length_of", "lengths_of", "symbolic_length"]

Known = int | Node
"""A length: a number, or an int64 scalar."""

_found: WeakKeyDictionary[Node, dict[int, Known]] = WeakKeyDictionary()


def length_of(x: Node, axis: int) -> Known:
    """One length of an array, taken from as far towards the inputs as it can be."""
    path: list[tuple[Node, int]] = []
    known: Known | None = None
    while known is None:
        known = x.type.shape[axis]
        if known is None:
            known = _found.get(x, {}).get(axis)
        if known is None:
            path.append((x, axis))
            step = length_step(x.op, x, axis)
            if isinstance(step, tuple):
                x, axis = step
            else:
                known = _own_length(x, axis) if step is None else step
    for node, at in path:
        _found.setdefault(node, {})[at] = known
    return known


def _own_length(x: Node, axis: int) -> Node:
    return Tensor.make(Length(axis), x)


def lengths_of(x: Node) -> list[Known]:
    """All lengths of an array, taken from as far towards the inputs as they can be."""
    return [length_of(x, axis) for axis in range(x.type.ndim)]


def symbolic_length(shape: tuple[int | None, ...], symbolic: tuple[Node, ...], axis: int) -> Known:
    """An entry of a shape in which None stands for the next of the symbolic lengths."""
    known = shape[axis]
    return symbolic[shape[:axis].count(None)] if known is None else known


Step = Known | tuple[Node, int] | None


@singledispatch
def length_step(op: Any, node: Node, axis: int) -> Step:
    """A length of a node: known, or that of an array and axis it is made of, or None."""
    return None


@length_step.register(Elementwise)
@length_step.register(Where)
def _of_broadcasting(op: Op, node: Node, axis: int) -> Step:
    from_end = axis - node.type.ndim
    for x in node.inputs:
        if x.type.ndim >= -from_end and x.type.shape[from_end] != 1:
            return x, x.type.ndim + from_end
    return None


@length_step.register(Cast)
@length_step.register(Composite)
@length_step.register(IndexUpdate)
def _of_like(op: Op, node: Node, axis: int) -> Step:
    return node.inputs[0], axis


def _kept_axis(dropped: tuple[int, ...], axis: int) -> int:
    for at in dropped:
        axis += at <= axis
    return axis


@length_step.register(Reduction)
@length_step.register(LogSumExp)
@length_step.register(Squeeze)
def _of_fewer_axes(op: Any, node: Node, axis: int) -> Step:
    return node.inputs[0], _kept_axis(op.axes, axis)


@length_step.register
def _of_arg_extreme(op: ArgExtreme, node: Node, axis: int) -> Step:
    return node.inputs[0], _kept_axis((op.axis,), axis)


@length_step.register
def _of_index(op: Index, node: Node, axis: int) -> Step:
    # Without arrays, the axes come in the order of the slices and new axes.
    kept = [entry for entry in op.entries if not isinstance(entry, int)]
    if len(kept) != node.type.ndim or kept[axis] != Range() or Hole.HOLE in kept:
        return None
    places = [i for i, entry in enumerate(op.entries) if isinstance(entry, Range)]
    place = places[len([entry for entry in kept[:axis] if entry is not None])]
    return node.inputs[0], place - op.entries[:place].count(None)


@length_step.register
def _of_dot_general(op: DotGeneral, node: Node, axis: int) -> Step:
    a, b = node.inputs
    batch = len(op.batch_axes[0])
    if axis < batch:
        return a, op.batch_axes[0][axis]
    free = op.free(0, a.type.ndim)
    at = axis - batch - len(free)
    return (a, free[at]) if at < 0 else (b, op.free(1, b.type.ndim)[at])


@length_step.register
def _of_expand_dims(op: ExpandDims, node: Node, axis: int) -> Step:
    return node.inputs[0], axis - len([a for a in op.axes if a < axis])


@length_step.register
def _of_transpose(op: Transpose, node: Node, axis: int) -> Step:
    return node.inputs[0], op.axes[axis]


@length_step.register
def _of_broadcast_to(op: BroadcastTo, node: Node, axis: int) -> Step:
    x, *symbolic = node.inputs
    own = axis - (len(op.shape) - x.type.ndim)
    if own >= 0 and own not in op.repeated:
        return x, own
    return symbolic_length(op.shape, tuple(symbolic), axis)


@length_step.register
def _of_reshape(op: Reshape, node: Node, axis: int) -> Step:
    return None if op.shape[axis] == -1 else symbolic_length(op.shape, node.inputs[1:], axis)


@length_step.register
def _of_concatenate(op: Concatenate, node: Node, axis: int) -> Step:
    return (node.inputs[0], axis) if axis != op.axis else None


def fitted(y: Node, node: Node) -> Node | None:
    """A value in the shape of the node it is to replace, broadcast where it lost axes.

    None where it can't be: it has another dtype, or lengths that the node does not have.
    """
    if y.type is node.type:
        return y
    if y.type.dtype != node.type.dtype or y.type.ndim > node.type.ndim:
        return None
    lengths = lengths_of(node)
    new = len(lengths) - y.type.ndim
    for axis, n in enumerate(y.type.shape):
        wanted = lengths[new + axis]
        if n not in {1, wanted} and length_of(y, axis) is not wanted:
            return None
    made = broadcast_to(y, lengths)
    return made if node.type.admits(made.type) else None
