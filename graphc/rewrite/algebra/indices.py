"""Indices as lists of entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir import Node
from graphc.ir.law import checks_of
from graphc.rewrite.facts.lengths import equal_lengths, holes
from graphc.tensor.arrays.index import BACKWARDS, HOLE, Entry, Index, IndexUpdate, Range
from graphc.tensor.core.tensor import Tensor

EVERYTHING = Range()


@dataclass(frozen=True)
class IndexEntry:
    """An entry of an index, and a value for each of its holes."""

    entry: Entry
    values: tuple[Node, ...] = ()

    @property
    def is_slice(self) -> bool:
        """Whether the entry keeps the axis."""
        return isinstance(self.entry, Range)

    @property
    def is_everything(self) -> bool:
        """Whether the entry selects the entire axis."""
        return self.entry == EVERYTHING


def entries_of(op: Index | IndexUpdate, symbolic: Sequence[Node]) -> list[IndexEntry]:
    """Return an index, entry by entry."""
    values = iter(symbolic)
    return [IndexEntry(e, tuple(next(values) for _ in holes([e]))) for e in op.entries]


def index_by(x: Node, index: Sequence[IndexEntry]) -> Tensor:
    """Return the part of an array that the entries select."""
    if not index:
        return x  # type: ignore[return-value]
    entries = tuple(part.entry for part in index)
    return Tensor.make(Index(entries), x, *[n for part in index for n in part.values])


def is_plain(index: Sequence[IndexEntry]) -> bool:
    """Return whether an index has integers and slices alone, constant or symbolic."""
    return not any(
        part.entry is None or (part.entry is HOLE and part.values[0].type.ndim) for part in index
    )


def plain_index(node: Node) -> list[IndexEntry] | None:
    """Return the entries of an index of integers and slices alone; None for other indices."""
    entries = entries_of(node.op, symbolic_of(node))  # type: ignore[arg-type]
    return entries if is_plain(entries) else None


def symbolic_of(node: Node) -> tuple[Node, ...]:
    """Return the inputs that fill the holes of an index."""
    return node.inputs[1 if isinstance(node.op, Index) else 2 :]


def is_reversal(node: Node) -> bool:
    """Return whether an array is another one with axes reversed."""
    return isinstance(node.op, Index) and all(e in {EVERYTHING, BACKWARDS} for e in node.op.entries)


def inputs_fit(node: Node) -> bool:
    """Return whether the lengths that a node compares at run time are provably equal."""
    xs = node.inputs
    return all(equal_lengths(xs[a], m, xs[b], n) for a, m, b, n in checks_of(node))
