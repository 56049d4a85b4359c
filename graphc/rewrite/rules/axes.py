"""Rules of the order of axes, and of axes of length 1.

In normal form, axes are dropped first, then put in another order, and new ones put in last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphc.ir import Node
from graphc.rewrite.algebra.indices import indexed, is_reversal, plain_parts
from graphc.rewrite.facts.lengths import admitted
from graphc.rewrite.rule import rewrite
from graphc.site import derived_from
from graphc.tensor.arrays.index import Index
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Transpose, beside=[Transpose])
def transpose_of_transpose(node: Node, op: Transpose) -> Node | None:
    """Two reorderings are one."""
    (between,) = node.inputs
    if not isinstance(between.op, Transpose):
        return None
    first = between.op.axes
    return transpose(between.inputs[0], [first[axis] for axis in op.axes])


@rewrite("canonicalize", Transpose)
def transpose_to_same_order(node: Node, op: Transpose) -> Node | None:
    """The axes in the order they have are the array."""
    return node.inputs[0] if op.axes == tuple(range(len(op.axes))) else None


@rewrite("canonicalize", Transpose, beside=[ExpandDims])
def transpose_of_expand_dims(node: Node, op: Transpose) -> Node | None:
    """New axes are put in last, where they belong."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    new = between.op.axes
    own = [axis for axis in range(len(op.axes)) if axis not in new]
    x = transpose(between.inputs[0], [own.index(axis) for axis in op.axes if axis not in new])
    return expand_dims(x, tuple(i for i, axis in enumerate(op.axes) if axis in new))


@rewrite("canonicalize", Transpose)
def transpose_of_single_axes(node: Node, op: Transpose) -> Node | None:
    """Where only axes of length 1 change places, no element does."""
    (x,) = node.inputs
    longer = [axis for axis in op.axes if x.type.shape[axis] != 1]
    if longer != sorted(longer) or len(longer) == len(op.axes):
        return None
    return with_single_axes(x, longer, [axis not in longer for axis in op.axes])


def with_single_axes(x: Node, kept: Collection[int], single: Sequence[bool]) -> Tensor:
    """The kept axes of an array in their order, and axes of length 1 where that is said.

    Those that are left out have length 1.
    """
    dropped, new = [], []
    at = 0
    for i, one in enumerate(single):
        while not one and at not in kept:
            dropped.append(at)
            at += 1
        if one and (at == x.type.ndim or at in kept):
            new.append(i)
        else:
            at += 1
    return expand_dims(squeeze(x, (*dropped, *range(at, x.type.ndim))), tuple(new))


@rewrite("canonicalize", ExpandDims, beside=[Squeeze])
def expand_dims_of_squeeze(node: Node, op: ExpandDims) -> Node | None:
    """Axes of length 1 that are dropped and put back stay."""
    (between,) = node.inputs
    if not isinstance(between.op, Squeeze):
        return None
    (x,) = between.inputs
    dropped = between.op.axes
    if any(x.type.shape[axis] != 1 for axis in dropped):
        return None
    kept = [axis for axis in range(x.type.ndim) if axis not in dropped]
    return with_single_axes(x, kept, [axis in op.axes for axis in range(node.type.ndim)])


@rewrite("canonicalize", ExpandDims, beside=[ExpandDims])
def expand_dims_of_expand_dims(node: Node, op: ExpandDims) -> Node | None:
    """New axes put in twice are put in at once."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    old = [axis for axis in range(node.type.ndim) if axis not in op.axes]
    return expand_dims(between.inputs[0], (*op.axes, *(old[axis] for axis in between.op.axes)))


@rewrite("canonicalize", Squeeze, beside=[ExpandDims])
def squeeze_of_expand_dims(node: Node, op: Squeeze) -> Node | None:
    """Axes that are put in and dropped were never there."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    (x,) = between.inputs
    put = between.op.axes
    own = [axis for axis in range(between.type.ndim) if axis not in put]
    left = [axis for axis in range(between.type.ndim) if axis not in op.axes]
    y = squeeze(x, tuple(own.index(axis) for axis in op.axes if axis in own))
    return expand_dims(y, tuple(left.index(axis) for axis in put if axis in left))


@rewrite("canonicalize", Squeeze, beside=[Squeeze])
def squeeze_of_squeeze(node: Node, op: Squeeze) -> Node | None:
    """Axes dropped one after the other are dropped at once."""
    (between,) = node.inputs
    if not isinstance(between.op, Squeeze):
        return None
    (x,) = between.inputs
    left = [axis for axis in range(x.type.ndim) if axis not in between.op.axes]
    axes = sorted((*between.op.axes, *(left[axis] for axis in op.axes)))
    return Tensor.make(Squeeze(tuple(axes)), x)


@rewrite("canonicalize", Squeeze, beside=[Transpose])
def squeeze_of_transpose(node: Node, op: Squeeze) -> Node | None:
    """An axis that is dropped need not be moved before."""
    (between,) = node.inputs
    if not isinstance(between.op, Transpose):
        return None
    order = between.op.axes
    dropped = sorted(order[axis] for axis in op.axes)
    left = [axis for axis in range(len(order)) if axis not in dropped]
    kept = [left.index(order[i]) for i in range(len(order)) if i not in op.axes]
    return transpose(Tensor.make(Squeeze(tuple(dropped)), between.inputs[0]), kept)


@rewrite("canonicalize", Squeeze, ExpandDims)
def no_axes_changed(node: Node, op: Squeeze | ExpandDims) -> Node | None:
    """Without axes to drop or put in, the array stays as it is."""
    return None if op.axes else node.inputs[0]


@rewrite("canonicalize", Index)
def index_of_single_axis(node: Node, op: Index) -> Node | None:
    """The one element along an axis of length 1 is what is left without the axis."""
    x = node.inputs[0]
    if 1 not in x.type.shape:
        return None
    parts = plain_parts(node)
    if parts is None:
        return None
    single = tuple(
        axis
        for axis, part in enumerate(parts)
        if isinstance(part.entry, int) and x.type.shape[axis] == 1
    )
    if not single:
        return None
    left = [part for axis, part in enumerate(parts) if axis not in single]
    return indexed(squeeze(x, single), left)


@rewrite("canonicalize", Index, beside=[ExpandDims])
def index_of_expand_dims(node: Node, op: Index) -> Node | None:
    """A part is taken before new axes are put in."""
    between = node.inputs[0]
    if not isinstance(between.op, ExpandDims):
        return None
    parts = plain_parts(node)
    new = between.op.axes
    # Of one element, a slice may take none; a symbolic integer is still to be checked.
    if parts is None or not all(
        isinstance(parts[a].entry, int) or parts[a].is_everything for a in new
    ):
        return None
    own = [part for axis, part in enumerate(parts) if axis not in new]
    kept = [axis for axis, part in enumerate(parts) if part.is_slice]
    places = tuple(i for i, axis in enumerate(kept) if axis in new)
    return expand_dims(indexed(between.inputs[0], own), places)


@rewrite("canonicalize", Index, beside=[Transpose])
def index_of_transpose(node: Node, op: Index) -> Node | None:
    """A part is taken before its axes are put in another order."""
    between = node.inputs[0]
    if not isinstance(between.op, Transpose):
        return None
    parts = plain_parts(node)
    if parts is None:
        return None
    order = between.op.axes
    own = [parts[order.index(axis)] for axis in range(len(order))]
    left = [axis for axis in range(len(order)) if own[axis].is_slice]
    kept = [left.index(order[i]) for i, part in enumerate(parts) if part.is_slice]
    return transpose(indexed(between.inputs[0], own), kept)


def _moves_axes(x: Node) -> bool:
    return isinstance(x.op, ExpandDims | Transpose) or is_reversal(x)


@rewrite("canonicalize", Elementwise, Where, Cast, beside=[ExpandDims, Transpose, Index])
def function_of_moved_axes(node: Node, op: Elementwise | Where | Cast) -> Node | None:
    """Axes that all operands have put in, reordered or reversed are so of the result, once."""
    moved = next((x for x in node.inputs if _moves_axes(x)), None)
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
        made = Tensor.make(moved.op, node.with_inputs(bare))
    return admitted(made, node)
