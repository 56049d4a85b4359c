"""Rules of the order of axes, and of axes of length 1.

In normal form, axes are dropped first, then reordered, and new ones are inserted last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphc.ir import Node
from graphc.rewrite.algebra.indices import index_by, is_reversal, plain_index
from graphc.rewrite.facts.lengths import admit
from graphc.rewrite.rule import rewrite
from graphc.site import derived_from
from graphc.tensor.arrays.index import Index
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Transpose, beside=[Transpose])
def transpose_of_transpose(node: Node, op: Transpose) -> Node | None:
    """``transpose(transpose(x, p), q)`` is one transpose."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Transpose):
        return None
    first = inner.op.axes
    return transpose(inner.inputs[0], [first[axis] for axis in op.axes])


@rewrite("canonicalize", Transpose)
def transpose_to_same_order(node: Node, op: Transpose) -> Node | None:
    """``transpose(x, (0, 1))`` is ``x``."""
    return node.inputs[0] if op.axes == tuple(range(len(op.axes))) else None


@rewrite("canonicalize", Transpose, beside=[ExpandDims])
def transpose_of_expand_dims(node: Node, op: Transpose) -> Node | None:
    """``transpose(expand_dims(x, 0))`` is ``expand_dims(transpose(x), -1)``."""
    (inner,) = node.inputs
    if not isinstance(inner.op, ExpandDims):
        return None
    new = inner.op.axes
    old = [axis for axis in range(len(op.axes)) if axis not in new]
    x = transpose(inner.inputs[0], [old.index(axis) for axis in op.axes if axis not in new])
    return expand_dims(x, tuple(i for i, axis in enumerate(op.axes) if axis in new))


@rewrite("canonicalize", Transpose)
def transpose_of_single_axes(node: Node, op: Transpose) -> Node | None:
    """``transpose(x)`` that only moves axes of length 1 is ``expand_dims(squeeze(x))``."""
    (x,) = node.inputs
    longer = [axis for axis in op.axes if x.type.shape[axis] != 1]
    if longer != sorted(longer) or len(longer) == len(op.axes):
        return None
    return with_single_axes(x, longer, [axis not in longer for axis in op.axes])


def with_single_axes(x: Node, remaining: Collection[int], single: Sequence[bool]) -> Tensor:
    """Return the kept axes of an array in order, with axes of length 1 inserted where ``single``.

    The other axes of the array have length 1.
    """
    dropped, new = [], []
    at = 0
    for i, one in enumerate(single):
        while not one and at not in remaining:
            dropped.append(at)
            at += 1
        if one and (at == x.type.ndim or at in remaining):
            new.append(i)
        else:
            at += 1
    return expand_dims(squeeze(x, (*dropped, *range(at, x.type.ndim))), tuple(new))


@rewrite("canonicalize", ExpandDims, beside=[Squeeze])
def expand_dims_of_squeeze(node: Node, op: ExpandDims) -> Node | None:
    """``expand_dims(squeeze(x, 0), 0)`` is ``x``."""
    (squeezed,) = node.inputs
    if not isinstance(squeezed.op, Squeeze):
        return None
    (x,) = squeezed.inputs
    dropped = squeezed.op.axes
    if any(x.type.shape[axis] != 1 for axis in dropped):
        return None
    remaining = [axis for axis in range(x.type.ndim) if axis not in dropped]
    return with_single_axes(x, remaining, [axis in op.axes for axis in range(node.type.ndim)])


@rewrite("canonicalize", ExpandDims, beside=[ExpandDims])
def expand_dims_of_expand_dims(node: Node, op: ExpandDims) -> Node | None:
    """``expand_dims(expand_dims(x, 0), 0)`` is ``expand_dims(x, (0, 1))``."""
    (inner,) = node.inputs
    if not isinstance(inner.op, ExpandDims):
        return None
    old = [axis for axis in range(node.type.ndim) if axis not in op.axes]
    return expand_dims(inner.inputs[0], (*op.axes, *(old[axis] for axis in inner.op.axes)))


@rewrite("canonicalize", Squeeze, beside=[ExpandDims])
def squeeze_of_expand_dims(node: Node, op: Squeeze) -> Node | None:
    """``squeeze(expand_dims(x, 0), 0)`` is ``x``."""
    (expanded,) = node.inputs
    if not isinstance(expanded.op, ExpandDims):
        return None
    (x,) = expanded.inputs
    inserted = expanded.op.axes
    old = [axis for axis in range(expanded.type.ndim) if axis not in inserted]
    remaining = [axis for axis in range(expanded.type.ndim) if axis not in op.axes]
    y = squeeze(x, tuple(old.index(axis) for axis in op.axes if axis in old))
    return expand_dims(y, tuple(remaining.index(axis) for axis in inserted if axis in remaining))


@rewrite("canonicalize", Squeeze, beside=[Squeeze])
def squeeze_of_squeeze(node: Node, op: Squeeze) -> Node | None:
    """``squeeze(squeeze(x, 0), 0)`` is ``squeeze(x, (0, 1))``."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Squeeze):
        return None
    (x,) = inner.inputs
    remaining = [axis for axis in range(x.type.ndim) if axis not in inner.op.axes]
    axes = sorted((*inner.op.axes, *(remaining[axis] for axis in op.axes)))
    return Tensor.make(Squeeze(tuple(axes)), x)


@rewrite("canonicalize", Squeeze, beside=[Transpose])
def squeeze_of_transpose(node: Node, op: Squeeze) -> Node | None:
    """``squeeze(x.T, 0)`` is ``squeeze(x, 1)``: axes are dropped before they are reordered."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Transpose):
        return None
    order = inner.op.axes
    dropped = sorted(order[axis] for axis in op.axes)
    remaining = [axis for axis in range(len(order)) if axis not in dropped]
    order_left = [remaining.index(order[i]) for i in range(len(order)) if i not in op.axes]
    return transpose(Tensor.make(Squeeze(tuple(dropped)), inner.inputs[0]), order_left)


@rewrite("canonicalize", Squeeze, ExpandDims)
def no_axes_changed(node: Node, op: Squeeze | ExpandDims) -> Node | None:
    """``squeeze(x, ())`` and ``expand_dims(x, ())`` are ``x``."""
    return None if op.axes else node.inputs[0]


@rewrite("canonicalize", Index)
def index_of_single_axis(node: Node, op: Index) -> Node | None:
    """``x[0]`` of an axis of length 1 is ``squeeze(x, 0)``."""
    x = node.inputs[0]
    if 1 not in x.type.shape:
        return None
    index = plain_index(node)
    if index is None:
        return None
    single = tuple(
        axis
        for axis, part in enumerate(index)
        if isinstance(part.entry, int) and x.type.shape[axis] == 1
    )
    if not single:
        return None
    rest = [part for axis, part in enumerate(index) if axis not in single]
    return index_by(squeeze(x, single), rest)


@rewrite("canonicalize", Index, beside=[ExpandDims])
def index_of_expand_dims(node: Node, op: Index) -> Node | None:
    """``expand_dims(x, 0)[:, i]`` is ``expand_dims(x[i], 0)``: new axes come last."""
    expanded = node.inputs[0]
    if not isinstance(expanded.op, ExpandDims):
        return None
    index = plain_index(node)
    new = expanded.op.axes
    # A slice of one element may be empty; a symbolic integer may be out of bounds.
    if index is None or not all(
        isinstance(index[a].entry, int) or index[a].is_everything for a in new
    ):
        return None
    old_parts = [part for axis, part in enumerate(index) if axis not in new]
    sliced = [axis for axis, part in enumerate(index) if part.is_slice]
    inserted = tuple(i for i, axis in enumerate(sliced) if axis in new)
    return expand_dims(index_by(expanded.inputs[0], old_parts), inserted)


@rewrite("canonicalize", Index, beside=[Transpose])
def index_of_transpose(node: Node, op: Index) -> Node | None:
    """``x.T[i]`` is ``x[:, i]``: axes are reordered last."""
    inner = node.inputs[0]
    if not isinstance(inner.op, Transpose):
        return None
    index = plain_index(node)
    if index is None:
        return None
    order = inner.op.axes
    old_index = [index[order.index(axis)] for axis in range(len(order))]
    remaining = [axis for axis in range(len(order)) if old_index[axis].is_slice]
    order_left = [remaining.index(order[i]) for i, part in enumerate(index) if part.is_slice]
    return transpose(index_by(inner.inputs[0], old_index), order_left)


@rewrite("canonicalize", Elementwise, Where, Cast, beside=[ExpandDims, Transpose, Index])
def function_of_moved_axes(node: Node, op: Elementwise | Where | Cast) -> Node | None:
    """``x.T + y.T`` is ``(x + y).T``, and so for inserted and reversed axes."""
    kinds = ExpandDims | Transpose
    moved = next((x for x in node.inputs if isinstance(x.op, kinds) or is_reversal(x)), None)
    if moved is None:
        return None
    bare = []
    for x in node.inputs:
        if x.op == moved.op and x.type.ndim == moved.type.ndim:
            bare.append(x.inputs[0])
        elif not x.type.ndim:
            bare.append(x)
        else:
            return None
    with derived_from(moved.site):
        result = Tensor.make(moved.op, node.with_inputs(bare))
    return admit(result, node)
