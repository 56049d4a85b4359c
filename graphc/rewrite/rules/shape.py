"""Rules of lengths and of reshaping."""

from __future__ import annotations

from graphc.ir import Constant, Node
from graphc.rewrite.facts.lengths import admit, length_of, lengths_of
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.shape import Length, Reshape, Shape, complete_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

# Lengths.


@rewrite("canonicalize", Length)
def length_from_inputs(node: Node, op: Length) -> Node | None:
    """``(x + 1).shape[0]`` is ``x.shape[0]``: lengths come from inputs, not results."""
    (x,) = node.inputs
    return as_tensor(length_of(x, op.axis), dtype="int64")


@rewrite("canonicalize", Shape)
def shape_from_inputs(node: Node, op: Shape) -> Node | None:
    """``(x + 1).shape`` is ``[x.shape[0], x.shape[1]]``: lengths come from inputs, not results."""
    (x,) = node.inputs
    return as_tensor(lengths_of(x), dtype="int64")


@rewrite("canonicalize", BroadcastTo, Reshape, beside=[Constant])
def lengths_made_static(node: Node, op: BroadcastTo | Reshape) -> Node | None:
    """``broadcast_to(x, n)`` with a constant ``n`` has the length in its type."""
    x, *symbolic = node.inputs
    if not any(isinstance(n.op, Constant) for n in symbolic):
        return None
    lengths = complete_shape(op.shape, symbolic)
    shape = tuple(scalar_value(n) if isinstance(n, Node) else n for n in lengths)
    remaining = [n for n in symbolic if not isinstance(n.op, Constant)]
    new_op = BroadcastTo(shape, op.repeated) if isinstance(op, BroadcastTo) else Reshape(shape)
    return Tensor.make(new_op, x, *remaining)


# The same elements in another shape.


@rewrite("canonicalize", Reshape, beside=[Reshape])
def reshape_of_reshape(node: Node, op: Reshape) -> Node | None:
    """``reshape(reshape(x, s), t)`` is ``reshape(x, t)``.

    The inner reshape stays where it may detect a wrong number of elements.
    """
    inner, *symbolic = node.inputs
    if not isinstance(inner.op, Reshape) or not _has_all_elements(inner, op):
        return None
    return Tensor.make(op, inner.inputs[0], *symbolic)


def _has_all_elements(node: Node, last: Reshape) -> bool:
    """Return whether a reshaped array provably has as many elements as its shape."""
    if fits(node):
        return True
    lengths = lengths_of(node.inputs[0])
    op: Reshape = node.op  # type: ignore[assignment]
    new_lengths = complete_shape(op.shape, node.inputs[1:])
    for n in new_lengths:
        if n in lengths:
            lengths.remove(n)
        elif n not in {1, -1}:
            return False
    # Beside a length of 0, -1 has no value, which the last shape detects if it has a -1 too.
    return -1 not in last.shape if -1 in new_lengths else all(n == 1 for n in lengths)


@rewrite("canonicalize", Reshape)
def reshape_to_own_shape(node: Node, op: Reshape) -> Node | None:
    """``reshape(x, x.shape)`` is ``x``."""
    x = node.inputs[0]
    if x.type.ndim != len(op.shape):
        return None
    if -1 in op.shape and (None in op.shape or 0 in op.shape):
        return None  # beside a length of 0, -1 is an error
    return x if lengths_of(node) == lengths_of(x) else None


@rewrite("canonicalize", Reshape)
def reshape_to_single_axes(node: Node, op: Reshape) -> Node | None:
    """``reshape(x, (n, 1))`` is ``expand_dims(reshape(x, n), 1)``: new axes come last."""
    x, *symbolic = node.inputs
    new = tuple(axis for axis, n in enumerate(op.shape) if n == 1)
    if not new:
        return None
    result = Tensor.make(Reshape(tuple(n for n in op.shape if n != 1)), x, *symbolic)
    return expand_dims(result, new)


@rewrite("canonicalize", Reshape)
def reshape_of_single_axes(node: Node, op: Reshape) -> Node | None:
    """``reshape(x, shape)`` drops axes of length 1 of ``x`` first."""
    x, *symbolic = node.inputs
    single = tuple(axis for axis, n in enumerate(x.type.shape) if n == 1)
    return Tensor.make(op, squeeze(x, single), *symbolic) if single else None


@rewrite("canonicalize", Reshape, beside=[BroadcastTo])
def reshape_of_repeated_scalar(node: Node, op: Reshape) -> Node | None:
    """``reshape(full(s, c), t)`` is ``full(t, c)``."""
    repeated = node.inputs[0]
    if not isinstance(repeated.op, BroadcastTo) or repeated.inputs[0].type.ndim:
        return None
    if not fits(node):
        return None
    return admit(broadcast_to(repeated.inputs[0], lengths_of(node)), node)


def fits(node: Node) -> bool:
    """Return whether a reshaped array provably has as many elements as its new shape."""
    x = node.inputs[0]
    return node.op == Reshape((-1,)) or (x.type.is_static and node.type.is_static)
