"""Rules of lengths and of reshaping."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir import Constant, Node
from graphc.rewrite.facts.lengths import (
    Known,
    admitted,
    length_of,
    lengths_of,
    symbolic_length,
)
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.join import stack
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.core.tensor import Tensor, as_tensor

# Lengths.


@rewrite("canonicalize", Length)
def length_from_inputs(node: Node, op: Length) -> Node | None:
    """A length is taken from what an array is made of, so that the array is not."""
    (x,) = node.inputs
    return as_tensor(length_of(x, op.axis), dtype="int64")


@rewrite("canonicalize", Shape)
def shape_from_inputs(node: Node, op: Shape) -> Node | None:
    """A shape is taken from what an array is made of, so that the array is not."""
    (x,) = node.inputs
    lengths = lengths_of(x)
    source = measured(lengths)
    if source is not None:
        return Tensor.make(op, source)
    return stack([as_tensor(n, dtype="int64") for n in lengths])


def measured(lengths: Sequence[Known]) -> Node | None:
    """The one array that these are all the lengths of."""
    first = next((n for n in lengths if isinstance(n, Node)), None)
    if first is None or not isinstance(first.op, Length):
        return None
    (x,) = first.inputs
    own = len(lengths) == x.type.ndim and lengths == lengths_of(x)
    return x if own else None


@rewrite("canonicalize", BroadcastTo, Reshape, beside=[Constant])
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


@rewrite("canonicalize", Reshape, beside=[Reshape])
def reshape_of_reshape(node: Node, op: Reshape) -> Node | None:
    """The order of the elements is the same in every shape, so the last one alone counts.

    The one between stays where it may notice a wrong number of elements.
    """
    between, *symbolic = node.inputs
    if not isinstance(between.op, Reshape) or not _has_all_elements(between, op):
        return None
    return Tensor.make(op, between.inputs[0], *symbolic)


def _has_all_elements(node: Node, last: Reshape) -> bool:
    """Whether a reshaped array is known to have as many elements as its shape says."""
    if fits(node):
        return True
    own = lengths_of(node.inputs[0])
    op: Reshape = node.op  # type: ignore[assignment]
    wanted = [symbolic_length(op.shape, node.inputs[1:], axis) for axis in range(len(op.shape))]
    for n in wanted:
        if n in own:
            own.remove(n)
        elif n not in {1, -1}:
            return False
    # Beside a length of 0, -1 stands for none, which the last shape sees if it has one too.
    return -1 not in last.shape if -1 in wanted else all(n == 1 for n in own)


@rewrite("canonicalize", Reshape)
def reshape_to_own_shape(node: Node, op: Reshape) -> Node | None:
    """An array of that shape is left as it is."""
    x = node.inputs[0]
    if x.type.ndim != len(op.shape):
        return None
    if -1 in op.shape and (None in op.shape or 0 in op.shape):
        return None  # beside a length that is 0, -1 stands for none, and is refused
    return x if lengths_of(node) == lengths_of(x) else None


@rewrite("canonicalize", Reshape)
def reshape_to_single_axes(node: Node, op: Reshape) -> Node | None:
    """Axes of length 1 are put in last."""
    x, *symbolic = node.inputs
    new = tuple(axis for axis, n in enumerate(op.shape) if n == 1)
    if not new:
        return None
    made = Tensor.make(Reshape(tuple(n for n in op.shape if n != 1)), x, *symbolic)
    return expand_dims(made, new)


@rewrite("canonicalize", Reshape)
def reshape_of_single_axes(node: Node, op: Reshape) -> Node | None:
    """Axes of length 1 are dropped first."""
    x, *symbolic = node.inputs
    single = tuple(axis for axis, n in enumerate(x.type.shape) if n == 1)
    return Tensor.make(op, squeeze(x, single), *symbolic) if single else None


@rewrite("canonicalize", Reshape, beside=[BroadcastTo])
def reshape_of_repeated_scalar(node: Node, op: Reshape) -> Node | None:
    """A scalar is repeated to the last shape at once."""
    between = node.inputs[0]
    if not isinstance(between.op, BroadcastTo) or between.inputs[0].type.ndim:
        return None
    if not fits(node):
        return None
    made = broadcast_to(between.inputs[0], lengths_of(node))
    return admitted(made, node)


def fits(node: Node) -> bool:
    """Whether a reshaped array is known to have as many elements as its new shape."""
    x = node.inputs[0]
    return node.op == Reshape((-1,)) or (x.type.is_static and node.type.is_static)
