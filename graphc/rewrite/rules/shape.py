"""Rules of lengths, of reshaping and of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir import Constant, Node, derived_from
from graphc.rewrite.lengths import length_of, lengths_of, symbolic_length
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.elementwise import Cast, Elementwise, Where
from graphc.tensor.shape import (
    BroadcastTo,
    Concatenate,
    ExpandDims,
    Length,
    Reshape,
    Shape,
    Squeeze,
    Transpose,
    broadcast_to,
    expand_dims,
    squeeze,
    stack,
    transpose,
)
from graphc.tensor.tensor import Tensor, as_tensor

# Lengths.


@rewrite("canonicalize", Length)
def length_from_inputs(node: Node, op: Length) -> Node | None:
    """A length is taken from what an array is made of, so that the array is not."""
    (x,) = node.inputs
    return as_tensor(length_of(x, op.axis), dtype="int64")  # type: ignore[no-any-return]


@rewrite("canonicalize", Shape)
def shape_from_inputs(node: Node, op: Shape) -> Node | None:
    """A shape is taken from what an array is made of, so that the array is not."""
    (x,) = node.inputs
    lengths = lengths_of(x)
    source = _measured(lengths)
    if source is not None:
        return Tensor.make(op, source)
    return stack([as_tensor(n, dtype="int64") for n in lengths])


def _measured(lengths: Sequence[int | Node]) -> Node | None:
    """The one array that these are all the lengths of."""
    first = lengths[0]
    if isinstance(first, int) or not isinstance(first.op, Length):
        return None
    (x,) = first.inputs
    own = len(lengths) == x.type.ndim and lengths == lengths_of(x)
    return x if own else None


@rewrite("canonicalize", BroadcastTo, Reshape)
def lengths_made_static(node: Node, op: BroadcastTo | Reshape) -> Node | None:
    """A length that is a constant belongs to the type."""
    x, *symbolic = node.inputs
    if not any(isinstance(n.op, Constant) for n in symbolic):
        return None
    wanted = [symbolic_length(op.shape, node.inputs[1:], axis) for axis in range(len(op.shape))]
    known = tuple(scalar_value(n) if isinstance(n, Node) else n for n in wanted)
    left = [n for n in symbolic if not isinstance(n.op, Constant)]
    made = BroadcastTo(known, op.repeated) if isinstance(op, BroadcastTo) else Reshape(known)
    return Tensor.make(made, x, *left)


# The same elements in another shape.


@rewrite("canonicalize", Transpose)
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


@rewrite("canonicalize", Reshape)
def reshape_of_reshape(node: Node, op: Reshape) -> Node | None:
    """The order of the elements is the same in every shape, so the last one alone counts.

    The one between stays where it alone would notice a wrong number of elements.
    """
    between, *symbolic = node.inputs
    if not isinstance(between.op, Reshape):
        return None
    x = between.inputs[0]
    noticed = -1 not in op.shape or between.op.shape == (-1,) or x.type.is_static
    return Tensor.make(op, x, *symbolic) if noticed else None


@rewrite("canonicalize", Reshape)
def reshape_to_own_shape(node: Node, op: Reshape) -> Node | None:
    """An array of that shape is left as it is."""
    x, *symbolic = node.inputs
    if x.type.ndim != len(op.shape):
        return None
    wanted = [symbolic_length(op.shape, node.inputs[1:], axis) for axis in range(len(op.shape))]
    if x.type.is_static:
        return x if x.type is node.type and not symbolic else None
    return x if wanted == lengths_of(x) else None


@rewrite("canonicalize", ExpandDims)
def expand_dims_of_squeeze(node: Node, op: ExpandDims) -> Node | None:
    """Axes of length 1 that are dropped and put back stay."""
    (between,) = node.inputs
    if not isinstance(between.op, Squeeze) or between.op.axes != op.axes:
        return None
    (x,) = between.inputs
    return x if x.type is node.type else None


@rewrite("canonicalize", ExpandDims)
def expand_dims_of_expand_dims(node: Node, op: ExpandDims) -> Node | None:
    """New axes put in twice are put in at once."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    old = [axis for axis in range(node.type.ndim) if axis not in op.axes]
    return expand_dims(between.inputs[0], (*op.axes, *(old[axis] for axis in between.op.axes)))


@rewrite("canonicalize", Squeeze)
def squeeze_of_expand_dims(node: Node, op: Squeeze) -> Node | None:
    """Axes that are put in and dropped were never there."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    (x,) = between.inputs
    put, dropped = set(between.op.axes), set(op.axes)
    if dropped <= put:
        left = [axis for axis in range(between.type.ndim) if axis not in dropped]
        places = tuple(left.index(axis) for axis in sorted(put - dropped))
        return expand_dims(x, places) if places else x
    if put <= dropped:
        own = [axis for axis in range(between.type.ndim) if axis not in put]
        return squeeze(x, tuple(own.index(axis) for axis in sorted(dropped - put)))
    return None


@rewrite("canonicalize", Squeeze, ExpandDims)
def no_axes_changed(node: Node, op: Squeeze | ExpandDims) -> Node | None:
    """Without axes to drop or put in, the array stays as it is."""
    return None if op.axes else node.inputs[0]


@rewrite("canonicalize", Concatenate)
def concatenate_of_one(node: Node, op: Concatenate) -> Node | None:
    """One array alone is joined to nothing."""
    return node.inputs[0] if len(node.inputs) == 1 else None


# Broadcasting.


@rewrite("canonicalize", BroadcastTo)
def broadcast_to_own_shape(node: Node, op: BroadcastTo) -> Node | None:
    """An array of that shape is left as it is."""
    x = node.inputs[0]
    if x.type.ndim != len(op.shape) or op.repeated:
        return None
    return x if _wanted(node) == lengths_of(x) else None


def _wanted(node: Node) -> list[int | Node]:
    shape: tuple[int | None, ...] = node.op.shape  # type: ignore[attr-defined]
    return [symbolic_length(shape, node.inputs[1:], axis) for axis in range(len(shape))]


@rewrite("canonicalize", ExpandDims)
def expand_dims_of_repeated_scalar(node: Node, op: ExpandDims) -> Node | None:
    """A scalar is repeated to any shape at once."""
    (between,) = node.inputs
    if not isinstance(between.op, BroadcastTo) or between.inputs[0].type.ndim:
        return None
    lengths = iter(between.op.shape)
    shape = tuple(1 if i in op.axes else next(lengths) for i in range(node.type.ndim))
    return Tensor.make(BroadcastTo(shape, ()), *between.inputs)


@rewrite("canonicalize", BroadcastTo)
def broadcast_to_of_one_element(node: Node, op: BroadcastTo) -> Node | None:
    """What is repeated to all places needs no axes before."""
    x = node.inputs[0]
    bare = _bare(x) if x.type.ndim and not isinstance(x.op, BroadcastTo) else None
    if bare is None or any(n != 1 for n in x.type.shape):
        return None
    # An axis that is not repeated must have the length wanted, which is seen to at run time.
    made = broadcast_to(bare, _wanted(node))
    return made if node.type.admits(made.type) else None


@rewrite("canonicalize", BroadcastTo)
def broadcast_to_of_broadcast_to(node: Node, op: BroadcastTo) -> Node | None:
    """Repeated twice is repeated once, where the lengths between are those wanted or 1."""
    between = node.inputs[0]
    if not isinstance(between.op, BroadcastTo):
        return None
    wanted = _wanted(node)
    new = len(wanted) - between.type.ndim
    for axis, n in enumerate(_wanted(between)):
        if axis not in op.repeated and n != wanted[new + axis]:
            return None
    made = broadcast_to(between.inputs[0], wanted)
    return made if node.type.admits(made.type) else None


@rewrite("canonicalize", Elementwise, Where)
def operand_broadcast_by_operation(node: Node, op: Elementwise | Where) -> Node | None:
    """Operands broadcast on their own: what repeats one to the others' shape is left out."""
    for i, x in enumerate(node.inputs):
        bare = _bare(x) if x.type.ndim else None
        if bare is not None:
            made = node.with_inputs([*node.inputs[:i], bare, *node.inputs[i + 1 :]])
            if made.type is node.type:
                return made
    return None


def _bare(x: Node) -> Node | None:
    """An operand before it was repeated."""
    match x.op:
        case Constant():
            value = scalar_value(x)
            return None if value is None else as_tensor(value, dtype=x.type.dtype)
        case ExpandDims() if not x.inputs[0].type.ndim:
            return x.inputs[0]
        case BroadcastTo():
            # A length that is no array's own was asked for, and is still to be checked.
            asked = [n for n in x.inputs[1:] if not isinstance(n.op, Length)]
            return None if asked else x.inputs[0]
    return None


@rewrite("canonicalize", Elementwise, Where, Cast)
def function_of_broadcast(node: Node, op: Elementwise | Where | Cast) -> Node | None:
    """What is the same for all repetitions is computed once and repeated then."""
    first = next((x for x in node.inputs if isinstance(x.op, BroadcastTo)), None)
    if first is None:
        return None
    lengths, shape = first.inputs[1:], first.inputs[0].type.shape
    bare = []
    for x in node.inputs:
        alike = x.op == first.op and x.inputs[1:] == lengths and x.inputs[0].type.shape == shape
        if not alike and x.type.ndim:
            return None
        bare.append(x.inputs[0] if alike else x)
    made = node.with_inputs(bare)
    if made.type.shape != shape:
        return None
    with derived_from(first.site):
        return Tensor.make(first.op, made, *lengths)
