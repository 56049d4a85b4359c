"""Rules of broadcasting: in normal form, arrays are broadcast last, and only where necessary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir import Constant, Node
from graphc.rewrite.algebra.indices import EVERYTHING, IndexEntry, index_by, plain_index
from graphc.rewrite.facts.lengths import (
    Known,
    admit,
    declared_lengths,
    length_of,
    lengths_of,
    with_lengths,
)
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.site import derived_from
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.index import BACKWARDS, Index
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.shape import complete_shape
from graphc.tensor.core.tensor import Tensor, as_tensor


@rewrite("canonicalize", BroadcastTo)
def broadcast_to_own_shape(node: Node, op: BroadcastTo) -> Node | None:
    """``broadcast_to(x, x.shape)`` is ``x``."""
    x = node.inputs[0]
    if x.type.ndim != len(op.shape) or op.repeated:
        return None
    return x if _target_shape(node) == lengths_of(x) else None


def _target_shape(node: Node) -> list[Known]:
    op: Any = node.op
    return complete_shape(op.shape, node.inputs[1:])


@rewrite("canonicalize", BroadcastTo, beside=[BroadcastTo, Constant, ExpandDims])
def broadcast_to_of_one_element(node: Node, op: BroadcastTo) -> Node | None:
    """``broadcast_to(expand_dims(c, 0), shape)`` of a scalar is ``broadcast_to(c, shape)``."""
    x = node.inputs[0]
    bare = _before_broadcast(x) if x.type.ndim and not isinstance(x.op, BroadcastTo) else None
    if bare is None or any(n != 1 for n in x.type.shape):
        return None
    # An axis that is not repeated must have the target length, which is checked at run time.
    return admit(broadcast_to(bare, _target_shape(node)), node)


@rewrite("canonicalize", BroadcastTo, beside=[BroadcastTo])
def broadcast_to_of_broadcast_to(node: Node, op: BroadcastTo) -> Node | None:
    """``broadcast_to(broadcast_to(x, s), t)`` is ``broadcast_to(x, t)``, if s needs no check."""
    inner = node.inputs[0]
    if not isinstance(inner.op, BroadcastTo):
        return None
    shape = _target_shape(node)
    x = inner.inputs[0]
    for axis, n in enumerate(_target_shape(inner), -inner.type.ndim):
        repeated = inner.type.ndim + axis in op.repeated
        if _with_axis(axis, [x]) if repeated else n != shape[axis]:
            return None
    return admit(broadcast_to(x, shape), node)


@rewrite("canonicalize", BroadcastTo, beside=[ExpandDims])
def broadcast_to_of_new_axes_in_front(node: Node, op: BroadcastTo) -> Node | None:
    """``broadcast_to(expand_dims(x, 0), shape)`` is ``broadcast_to(x, shape)``."""
    expanded = node.inputs[0]
    if not isinstance(expanded.op, ExpandDims) or expanded.op.axes[0] != 0:
        return None
    axes = expanded.op.axes
    front = next((i for i, axis in enumerate(axes) if axis != i), len(axes))
    x = expand_dims(expanded.inputs[0], tuple(axis - front for axis in axes[front:]))
    return admit(broadcast_to(x, _target_shape(node)), node)


@rewrite("canonicalize", Transpose, beside=[BroadcastTo])
def transpose_of_broadcast_to(node: Node, op: Transpose) -> Node | None:
    """``transpose(broadcast_to(x, shape))`` is ``broadcast_to(transpose(x), shape[::-1])``."""
    return _broadcast_last(
        node, lambda x: transpose(x, op.axes), lambda lengths: [lengths[axis] for axis in op.axes]
    )


@rewrite("canonicalize", ExpandDims, beside=[BroadcastTo])
def expand_dims_of_broadcast_to(node: Node, op: ExpandDims) -> Node | None:
    """``expand_dims(broadcast_to(x, n), 0)`` is ``broadcast_to(expand_dims(x, 0), (1, n))``."""

    def lengths_with_ones(lengths: list[Known]) -> list[Known]:
        rest = iter(lengths)
        return [1 if i in op.axes else next(rest) for i in range(node.type.ndim)]

    return _broadcast_last(node, lambda x: expand_dims(x, op.axes), lengths_with_ones)


@rewrite("canonicalize", Squeeze, beside=[BroadcastTo])
def squeeze_of_broadcast_to(node: Node, op: Squeeze) -> Node | None:
    """``squeeze(broadcast_to(x, (1, n)))`` is ``broadcast_to(squeeze(x), n)``."""
    shape = node.inputs[0].type.shape
    if any(shape[axis] != 1 for axis in op.axes):
        return None
    return _broadcast_last(
        node,
        lambda x: squeeze(x, op.axes),
        lambda lengths: [n for axis, n in enumerate(lengths) if axis not in op.axes],
    )


def _broadcast_last(
    node: Node, moved: Callable[[Tensor], Tensor], lengths: Callable[[list[Known]], list[Known]]
) -> Node | None:
    inner = node.inputs[0]
    if not isinstance(inner.op, BroadcastTo):
        return None
    x = inner.inputs[0]
    aligned = expand_dims(x, tuple(range(inner.type.ndim - x.type.ndim)))
    if any(n == 1 != m for n, m in zip(inner.type.shape, aligned.type.shape, strict=True)):
        return None  # a length that must be checked at run time
    with derived_from(inner.site):
        result = broadcast_to(moved(aligned), lengths(_target_shape(inner)))
    return admit(result, node)


@rewrite("canonicalize", Elementwise, Where, beside=[BroadcastTo, Constant, ExpandDims])
def operand_broadcast_by_operation(node: Node, op: Elementwise | Where) -> Node | None:
    """``broadcast_to(x, y.shape) + y`` is ``x + y``: the operation broadcasts itself."""
    for i, x in enumerate(node.inputs):
        bare = _before_broadcast(x) if x.type.ndim else None
        if bare is not None:
            others = [*node.inputs[:i], *node.inputs[i + 1 :]]
            result = node.with_inputs([*node.inputs[:i], bare, *node.inputs[i + 1 :]])
            if result.type is node.type and _has_lengths_of(x, bare, others):
                return result
    return None


def _before_broadcast(x: Node) -> Node | None:
    match x.op:
        case Constant():
            value = scalar_value(x)
            return None if value is None else as_tensor(value, dtype=x.type.dtype)
        case ExpandDims() if not x.inputs[0].type.ndim:
            return x.inputs[0]
        case BroadcastTo():
            return x.inputs[0]
    return None


def _has_lengths_of(x: Node, bare: Node, others: Sequence[Node]) -> bool:
    """Return whether an operation compares the same lengths with an operand before broadcasting.

    Args:
        x: The operand.
        bare: The operand before it was broadcast.
        others: The other operands.
    """
    if not isinstance(x.op, BroadcastTo):
        return True
    for axis, n in enumerate(_target_shape(x), -x.type.ndim):
        has_axis = bool(_with_axis(axis, [bare]))
        if isinstance(n, int):
            fits = n != 1 or not has_axis
        elif n in (compared := _compared_lengths(axis, [bare, *others])):
            fits = True
        else:
            fits = not has_axis and not compared
        if not fits:
            return False
    return True


def _with_axis(axis: int, xs: Sequence[Node]) -> list[Node]:
    """Return the arrays that have an axis, counted from the end, of a length other than 1."""
    return [x for x in xs if x.type.ndim >= -axis and x.type.shape[axis] != 1]


MAX_COMPARED = 16
"""Largest number of nested operands to inspect."""


def _compared_lengths(axis: int, xs: Sequence[Node]) -> set[Known]:
    """Return the lengths that the computation of these arrays compares on an axis."""
    lengths: set[Known] = set()
    waiting = _with_axis(axis, xs)
    for _ in range(MAX_COMPARED):
        if not waiting:
            break
        x = waiting.pop()
        lengths.update(declared_lengths(x, x.type.ndim + axis))
        if isinstance(x.op, Elementwise | Where | Cast):
            waiting += _with_axis(axis, x.inputs)
    return lengths


@rewrite("canonicalize", Elementwise, Where, Cast, beside=[BroadcastTo])
def function_of_broadcast(node: Node, op: Elementwise | Where | Cast) -> Node | None:
    """``exp(broadcast_to(x, shape))`` is ``broadcast_to(exp(x), shape)``."""
    first = next((x for x in node.inputs if isinstance(x.op, BroadcastTo)), None)
    if first is None:
        return None
    lengths, shape = first.inputs[1:], first.inputs[0].type.shape
    bare = []
    for x in node.inputs:
        is_broadcast = (
            x.op == first.op and x.inputs[1:] == lengths and x.inputs[0].type.shape == shape
        )
        if not is_broadcast and x.type.ndim:
            return None
        bare.append(x.inputs[0] if is_broadcast else x)
    result = node.with_inputs(bare)
    if result.type.shape != shape:
        return None
    with derived_from(first.site):
        return Tensor.make(first.op, result, *lengths)


@rewrite("canonicalize", Index, beside=[BroadcastTo])
def index_of_broadcast_to(node: Node, op: Index) -> Node | None:
    """``broadcast_to(x, (n, m))[i]`` is ``broadcast_to(x, m)``: indexed first, broadcast last."""
    inner_x = node.inputs[0]
    if not isinstance(inner_x.op, BroadcastTo):
        return None
    index = plain_index(node)
    if index is None:
        return None
    x = inner_x.inputs[0]
    new = inner_x.type.ndim - x.type.ndim
    repeated = {*range(new), *(new + axis for axis in inner_x.op.repeated)}
    for axis in repeated:
        if index[axis].entry == BACKWARDS:
            index[axis] = IndexEntry(EVERYTHING)
        part, n = index[axis], inner_x.type.shape[axis]
        if not part.is_everything and (part.values or n is None):
            return None  # bounds to be checked at run time, or an unknown length
    own_index = [
        IndexEntry(EVERYTHING if index[axis].is_slice else 0) if axis in repeated else index[axis]
        for axis in range(new, inner_x.type.ndim)
    ]
    shape = _target_shape(inner_x)[new:]
    required = {i: n for i, n in enumerate(shape) if new + i not in repeated}
    inner = index_by(with_lengths(x, required), own_index)
    sliced = [axis for axis, part in enumerate(index) if part.is_slice]
    first = len(sliced) - inner.type.ndim
    lengths = [
        _part_length(inner_x, axis, index[axis])
        if axis in repeated
        else length_of(inner, i - first)
        for i, axis in enumerate(sliced)
    ]
    return admit(broadcast_to(inner, lengths), node)


def _part_length(x: Node, axis: int, part: IndexEntry) -> Any:
    n = x.type.shape[axis]
    return length_of(x, axis) if part.is_everything else part.entry.length(n)  # type: ignore[union-attr]
