"""Rules of broadcasting: in normal form, an array is repeated last, and only where it must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir import Constant, Node
from graphc.rewrite.algebra.indices import BACKWARDS, EVERYTHING, IndexEntry, indexed, plain_parts
from graphc.rewrite.facts.lengths import (
    Known,
    admitted,
    is_elsewhere,
    length_of,
    lengths_of,
    stated_lengths,
    symbolic_length,
    with_lengths,
)
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.site import derived_from
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.index import Index
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.tensor import Tensor, as_tensor


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
    """A number that is repeated everywhere needs no axes before."""
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
    x = between.inputs[0]
    for axis, n in enumerate(_wanted(between), -between.type.ndim):
        repeated = between.type.ndim + axis in op.repeated
        if _having(axis, [x]) if repeated else n != wanted[axis]:
            return None
    made = broadcast_to(x, wanted)
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
            if made.type is node.type and _has_lengths_of(x, bare, others):
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


def _has_lengths_of(x: Node, bare: Node, others: Sequence[Node]) -> bool:
    """Whether an operation has the lengths of an operand with what it repeats in its place.

    A static one the type shows, but for 1, which others hide. A symbolic one is another operand's,
    which the operation compares with the rest; or that of an array of which nothing else is used.
    """
    if not isinstance(x.op, BroadcastTo):
        return True
    for axis, n in enumerate(_wanted(x), -x.type.ndim):
        own = bool(_having(axis, [bare]))
        if isinstance(n, int):
            fits = n != 1 or not own
        elif n in (there := _compared(axis, [bare, *others])):
            fits = True
        else:
            fits = not own and (not there or is_elsewhere(n, others))
        if not fits:
            return False
    return True


def _having(axis: int, xs: Sequence[Node]) -> list[Node]:
    """Those that have an axis, and are not repeated along it."""
    return [x for x in xs if x.type.ndim >= -axis and x.type.shape[axis] != 1]


MOST_COMPARED = 16
"""How many operands of operands are asked for their lengths."""


def _compared(axis: int, xs: Sequence[Node]) -> set[Known]:
    """The lengths that are compared on an axis where these arrays are computed and put together."""
    found: set[Known] = set()
    waiting = _having(axis, xs)
    for _ in range(MOST_COMPARED):
        if not waiting:
            break
        x = waiting.pop()
        found.update(stated_lengths(x, x.type.ndim + axis))
        if isinstance(x.op, Elementwise | Where | Cast):
            waiting += _having(axis, x.inputs)
    return found


@rewrite("canonicalize", Elementwise, Where, Cast, beside=[BroadcastTo])
def function_of_broadcast(node: Node, op: Elementwise | Where | Cast) -> Node | None:
    """A function of a repeated array is computed once, then repeated."""
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
            parts[axis] = IndexEntry(EVERYTHING)
        part, n = parts[axis], between.type.shape[axis]
        if not part.is_everything and (part.values or n is None):
            return None  # its bounds are still to be checked, or its length to be found
    own = [
        IndexEntry(EVERYTHING if parts[axis].is_slice else 0) if axis in repeated else parts[axis]
        for axis in range(new, between.type.ndim)
    ]
    wanted = _wanted(between)[new:]
    asked = {i: n for i, n in enumerate(wanted) if new + i not in repeated}
    inner = indexed(with_lengths(x, asked), own)
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


def _length_taken(x: Node, axis: int, part: IndexEntry) -> Any:
    n = x.type.shape[axis]
    return length_of(x, axis) if part.is_everything else part.entry.length(n)  # type: ignore[union-attr]
