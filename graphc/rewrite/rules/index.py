"""Rules of parts of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.ir import Constant, Node
from graphc.rewrite.lengths import length_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.index import HOLE, Entry, Hole, Index, IndexUpdate, Range
from graphc.tensor.shape import Shape, expand_dims
from graphc.tensor.tensor import Tensor, as_tensor


@rewrite("canonicalize", Index)
def index_of_everything(node: Node, op: Index) -> Node | None:
    """All of an array is the array."""
    return node.inputs[0] if all(entry == Range() for entry in op.entries) else None


@rewrite("canonicalize", Index)
def index_by_new_axes(node: Node, op: Index) -> Node | None:
    """An index that takes everything and puts in new axes is ``expand_dims``."""
    if not all(entry is None or entry == Range() for entry in op.entries):
        return None
    new = tuple(axis for axis, entry in enumerate(op.entries) if entry is None)
    return expand_dims(node.inputs[0], new) if new else None


@rewrite("canonicalize", Index)
def length_by_index(node: Node, op: Index) -> Node | None:
    """An element of a shape is a length."""
    x = node.inputs[0]
    match op.entries:
        case (int(axis),) if isinstance(x.op, Shape):
            (measured,) = x.inputs
            return as_tensor(length_of(measured, axis % x.type.shape[0]))  # type: ignore[no-any-return]
    return None


@rewrite("canonicalize", Index, IndexUpdate)
def index_made_static(node: Node, op: Index | IndexUpdate) -> Node | None:
    """An index that is a constant belongs to the operation."""
    first = len(node.inputs) - len(list(_holes(op.entries)))
    symbolic = node.inputs[first:]
    left = [x for x in symbolic if not _is_static(x)]
    if len(left) == len(symbolic):
        return None
    values = iter(symbolic)
    entries = tuple(_filled(entry, values) for entry in op.entries)
    made = Index(entries) if isinstance(op, Index) else IndexUpdate(entries, op.accumulate)
    new = Tensor.make(made, *node.inputs[:first], *left)
    return new if node.type.admits(new.type) else None


def _is_static(x: Node) -> bool:
    return isinstance(x.op, Constant) and not x.type.ndim


def _holes(entries: Sequence[Entry]) -> Iterator[Hole]:
    for entry in entries:
        parts = entry.parts if isinstance(entry, Range) else (entry,)
        yield from (part for part in parts if isinstance(part, Hole))


def _filled(entry: Entry, values: Iterator[Node]) -> Entry:
    if isinstance(entry, Range):
        return Range(*[_value(next(values)) if part is HOLE else part for part in entry.parts])
    return _value(next(values)) if entry is HOLE else entry


def _value(x: Node) -> int | Hole:
    return int(x.op.perform()) if _is_static(x) else HOLE
