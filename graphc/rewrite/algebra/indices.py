"""Indices taken apart, entry by entry, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir import Node
from graphc.rewrite.facts.lengths import equal_lengths, holes
from graphc.tensor.arrays.index import HOLE, Entry, Index, IndexUpdate, Range
from graphc.tensor.core.tensor import Tensor

EVERYTHING = Range()
BACKWARDS = Range(None, None, -1)


@dataclass(frozen=True)
class IndexEntry:
    """An entry of an index, and a value for each of its holes."""

    entry: Entry
    values: tuple[Node, ...] = ()

    @property
    def is_slice(self) -> bool:
        """Whether it leaves the axis there."""
        return isinstance(self.entry, Range)

    @property
    def is_everything(self) -> bool:
        """Whether it takes the axis as it is."""
        return self.entry == EVERYTHING


def parts_of(op: Index | IndexUpdate, symbolic: Sequence[Node]) -> list[IndexEntry]:
    """An index, entry by entry."""
    values = iter(symbolic)
    return [IndexEntry(e, tuple(next(values) for _ in holes([e]))) for e in op.entries]


def indexed(x: Node, parts: Sequence[IndexEntry]) -> Tensor:
    """The part of an array that these entries take."""
    if not parts:
        return x  # type: ignore[return-value]
    entries = tuple(part.entry for part in parts)
    return Tensor.make(Index(entries), x, *[n for part in parts for n in part.values])


def is_plain(parts: Sequence[IndexEntry]) -> bool:
    """Whether it is an index of integers and slices alone, of constants or not."""
    return not any(
        part.entry is None or (part.entry is HOLE and part.values[0].type.ndim) for part in parts
    )


def plain_parts(node: Node) -> list[IndexEntry] | None:
    """The entries of an index of integers and slices alone, None for others."""
    parts = parts_of(node.op, symbolic_of(node))  # type: ignore[arg-type]
    return parts if is_plain(parts) else None


def symbolic_of(node: Node) -> tuple[Node, ...]:
    """Return the inputs that fill the holes of an index."""
    return node.inputs[1 if isinstance(node.op, Index) else 2 :]


def is_reversal(node: Node) -> bool:
    """Whether it is an array with axes reversed."""
    return isinstance(node.op, Index) and all(e in {EVERYTHING, BACKWARDS} for e in node.op.entries)


def inputs_fit(node: Node) -> bool:
    """Whether the lengths that a node's inputs must have alike are known to be so."""
    checks = node.op.checks(*[x.type for x in node.inputs])
    return all(equal_lengths(node.inputs[a], m, node.inputs[b], n) for a, m, b, n in checks)
