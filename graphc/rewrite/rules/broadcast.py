"""Rules of broadcasting: in normal form, an array is repeated last, and only where it must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir import Constant, Node, derived_from
from graphc.rewrite.indices import BACKWARDS, EVERYTHING, Part, indexed, plain_parts
from graphc.rewrite.lengths import (
    Known,
    admitted,
    equal_lengths,
    length_of,
    lengths_of,
    symbolic_length,
)
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.axes import ExpandDims, Squeeze, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.elementwise import Cast, Elementwise, Where
from graphc.tensor.index import Index
from graphc.tensor.shape import Length
from graphc.tensor.tensor import Tensor, as_tensor


@rewrite("canonicalize", BroadcastTo)
def broadcast_to_own_shape(node: Node, op: BroadcastTo) -> Node | None:
    """An array of that shape is left as it is."""
    x = node.inputs[0]
    if x.type.ndim != len(op.shape) or op.repeated:
        return None
    return x if _wanted(node) == lengths_of(x) else None


def _wanted(node: Node) -> list[Known]:
    shape: tuple[int | None, ...] = node.op.shape  # type: ignore[attr-defined]
    return [symbolic_length(shape, node.inputs[1:], axis) for axis in range(len(shape))]


@rewrite("canonicalize", BroadcastTo, beside=[BroadcastTo, Constant, ExpandDims])
def broadcast_to_of_one_element(node: Node, op: BroadcastTo) -> Node | None:
    """What is repeated to all places needs no axes before."""
    x = node.inputs[0]
    bare = _bare(x) if x.type.ndim and not isinstance(x.op, BroadcastTo) else None
    if bare is None or any(n != 1 for n in x.type.shape):
        return None
    # An axis that is not repeated must have the length wanted, which is seen to at run time.
    made = broadcast_to(bare, _wanted(node))
    return admitted(made, node)


@rewrite("canonicalize", BroadcastTo, beside=[BroadcastTo])
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
    return admitted(made, node)


@rewrite("canonicalize", BroadcastTo, beside=[ExpandDims])
def broadcast_to_of_new_axes_in_front(node: Node, op: BroadcastTo) -> Node | None:
    """Axes in front that an array is repeated along need not be there before."""
    between = node.inputs[0]
    if not isinstance(between.op, ExpandDims) or between.op.axes[0] != 0:
        return None
    axes = between.op.axes
    front = next((i for i, axis in enumerate(axes) if axis != i), len(axes))
    x = expand_dims(between.inputs[0], tuple(axis - front for axis in axes[front:]))
    made = broadcast_to(x, _wanted(node))
    return admitted(made, node)


@rewrite("canonicalize", Transpose, beside=[BroadcastTo])
def transpose_of_broadcast_to(node: Node, op: Transpose) -> Node | None:
    """Axes are put in order before the array is repeated."""
    return _repeated_last(
        node, lambda x: transpose(x, op.axes), lambda lengths: [lengths[axis] for axis in op.axes]
    )


@rewrite("canonicalize", ExpandDims, beside=[BroadcastTo])
def expand_dims_of_broadcast_to(node: Node, op: ExpandDims) -> Node | None:
    """New axes are put in before the array is repeated."""

    def lengths_with_ones(lengths: list[Known]) -> list[Known]:
        rest = iter(lengths)
        return [1 if i in op.axes else next(rest) for i in range(node.type.ndim)]

    return _repeated_last(node, lambda x: expand_dims(x, op.axes), lengths_with_ones)


@rewrite("canonicalize", Squeeze, beside=[BroadcastTo])
def squeeze_of_broadcast_to(node: Node, op: Squeeze) -> Node | None:
    """Axes of length 1 are dropped before the array is repeated."""
    shape = node.inputs[0].type.shape
    if any(shape[axis] != 1 for axis in op.axes):
        return None
    return _repeated_last(
        node,
        lambda x: squeeze(x, op.axes),
        lambda lengths: [n for axis, n in enumerate(lengths) if axis not in op.axes],
    )


def _repeated_last(
    node: Node,
    moved: Callable[[Tensor], Tensor],
    lengths: Callable[[list[Known]], list[Known]],
) -> Node | None:
    between = node.inputs[0]
    if not isinstance(between.op, BroadcastTo):
        return None
    x = between.inputs[0]
    whole = expand_dims(x, tuple(range(between.type.ndim - x.type.ndim)))
    if any(n == 1 != m for n, m in zip(between.type.shape, whole.type.shape, strict=True)):
        return None  # a length that is still to be checked
    with derived_from(between.site):
        made = broadcast_to(moved(whole), lengths(_wanted(between)))
    return admitted(made, node)


@rewrite("canonicalize", Elementwise, Where, beside=[BroadcastTo, Constant, ExpandDims])
def operand_broadcast_by_operation(node: Node, op: Elementwise | Where) -> Node | None:
    """Operands broadcast on their own: what repeats one to the others' shape is left out."""
    for i, x in enumerate(node.inputs):
        bare = _bare(x) if x.type.ndim else None
        if bare is not None:
            others = [*node.inputs[:i], *node.inputs[i + 1 :]]
            made = node.with_inputs([*node.inputs[:i], bare, *node.inputs[i + 1 :]])
            if made.type is node.type and _is_length_of_others(x, others):
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
            return x.inputs[0]
    return None


def _is_length_of_others(x: Node, others: Sequence[Node]) -> bool:
    """Whether each length that was asked for is known to be another operand's.

    A length that is an array's own needs no check: others are known to fit.
    """
    if not isinstance(x.op, BroadcastTo):
        return True
    for axis, n in enumerate(_wanted(x), -x.type.ndim):
        asked = isinstance(n, Node) and not isinstance(n.op, Length)
        if asked and not any(
            other.type.ndim >= -axis and equal_lengths(x, axis, other, axis) for other in others
        ):
            return False
    return True


@rewrite("canonicalize", Elementwise, Where, Cast, beside=[BroadcastTo])
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


@rewrite("canonicalize", Index, beside=[BroadcastTo])
def index_of_broadcast_to(node: Node, op: Index) -> Node | None:
    """A part is taken before it is repeated; of repetitions, one is like the other."""
    between = node.inputs[0]
    if not isinstance(between.op, BroadcastTo):
        return None
    parts = plain_parts(node)
    if parts is None:
        return None
    x = between.inputs[0]
    new = between.type.ndim - x.type.ndim
    repeated = {*range(new), *(new + axis for axis in between.op.repeated)}
    for axis in repeated:
        if parts[axis].entry == BACKWARDS:
            parts[axis] = Part(EVERYTHING)
        part, n = parts[axis], between.type.shape[axis]
        if not part.is_everything and (part.values or n is None):
            return None  # its bounds are still to be checked, or its length to be found
    own = [
        Part(EVERYTHING if parts[axis].is_slice else 0) if axis in repeated else parts[axis]
        for axis in range(new, between.type.ndim)
    ]
    inner = indexed(x, own)
    kept = [axis for axis, part in enumerate(parts) if part.is_slice]
    first = len(kept) - inner.type.ndim
    lengths = [
        _length_taken(between, axis, parts[axis])
        if axis in repeated
        else length_of(inner, i - first)
        for i, axis in enumerate(kept)
    ]
    made = broadcast_to(inner, lengths)
    return admitted(made, node)


def _length_taken(x: Node, axis: int, part: Part) -> Any:
    n = x.type.shape[axis]
    return length_of(x, axis) if part.is_everything else part.entry.length(n)  # type: ignore[union-attr]
