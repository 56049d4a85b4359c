"""Rules of ``concatenate``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

from graphc.ir import Node, Pick
from graphc.rewrite.algebra.indices import EVERYTHING, IndexEntry, index_by, inputs_fit, plain_index
from graphc.rewrite.facts.lengths import admit, lengths_of
from graphc.rewrite.facts.slices import canonical
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.index import HOLE, Entry, Index, Range
from graphc.tensor.arrays.join import Concatenate, concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.core.tensor import Tensor

MAX_PARTS = 32
"""Largest number of parts to merge: a chain of concatenations would grow quadratically."""


@rewrite("canonicalize", Concatenate)
def concatenate_of_one(node: Node, op: Concatenate) -> Node | None:
    """``concatenate([x])`` is ``x``."""
    return node.inputs[0] if len(node.inputs) == 1 else None


@rewrite("canonicalize", Concatenate)
def concatenate_of_empty(node: Node, op: Concatenate) -> Node | None:
    """``concatenate([a, empty, b])`` is ``concatenate([a, b])``."""
    nonempty = [x for x in node.inputs if x.type.shape[op.axis] != 0]
    if len(nonempty) in {0, len(node.inputs)} or not inputs_fit(node):
        return None
    return _concatenate(node, op, nonempty)


@rewrite("canonicalize", Concatenate, beside=[Concatenate])
def concatenate_of_concatenate(node: Node, op: Concatenate) -> Node | None:
    """``concatenate([concatenate([a, b]), c])`` is ``concatenate([a, b, c])``."""
    if not any(x.op == op and len(x.inputs) <= MAX_PARTS for x in node.inputs):
        return None
    arrays: list[Node] = []
    for x in node.inputs:
        arrays += x.inputs if x.op == op and len(x.inputs) <= MAX_PARTS else [x]
    return _concatenate(node, op, arrays)


def _concatenate(node: Node, op: Concatenate, arrays: Sequence[Node]) -> Node | None:
    return admit(Tensor.make(op, *arrays), node)


@rewrite("canonicalize", Concatenate)
def concatenate_of_slices(node: Node, op: Concatenate) -> Node | None:
    """``concatenate([x[:n], x[n:]])`` is ``x``."""
    cuts = [_cut(x, op.axis) for x in node.inputs]
    if not any(a and b and follow(a, b) for a, b in pairwise(cuts)):
        return None
    arrays: list[Node] = []
    last: AxisSlice | None = None
    for part, cut in zip(node.inputs, cuts, strict=True):
        if cut and last and follow(last, cut):
            last = AxisSlice(cut.x, last.start, cut.stop)
            arrays[-1] = last.to_array(op.axis)
        else:
            last = cut
            arrays.append(part)
    return _concatenate(node, op, arrays)


Bound = int | None | Node


@dataclass(frozen=True)
class AxisSlice:
    """A slice of an array x along one axis, without a step; x is None for any array."""

    x: Node | None
    start: Bound
    stop: Bound

    def to_array(self, axis: int) -> Node:
        """Return the slice as an array."""
        assert self.x is not None
        bounds = [n for n in (self.start, self.stop) if isinstance(n, Node)]
        start, stop = (HOLE if isinstance(n, Node) else n for n in (self.start, self.stop))
        entry = canonical(Range(start, stop), self.x.type.shape[axis])
        entries = tuple(entry if i == axis else Range() for i in range(self.x.type.ndim))
        return Tensor.make(Index(entries), self.x, *bounds)


def _cut(part: Node, axis: int) -> AxisSlice | None:
    single = isinstance(part.op, ExpandDims) and part.op.axes == (axis,)
    if single:
        (part,) = part.inputs
    if not isinstance(part.op, Index):
        return None
    x, *bounds = part.inputs
    entries = part.op.entries
    if len(entries) != x.type.ndim or any(
        entry != Range() for i, entry in enumerate(entries) if i != axis
    ):
        return None
    entry = entries[axis]
    if single:
        # Unlike a slice, an index of an axis of unknown length may be out of bounds.
        within = isinstance(entry, int) and x.type.shape[axis] is not None
        return AxisSlice(x, entry, entry + 1) if within else None  # type: ignore[arg-type, operator]
    if not isinstance(entry, Range) or entry.step is not None:
        return None
    symbolic = iter(bounds)
    return AxisSlice(x, *[next(symbolic) if n is HOLE else n for n in (entry.start, entry.stop)])


def follow(a: AxisSlice, b: AxisSlice) -> bool:
    """Return whether slice b begins where slice a ends, whatever the array's length."""
    return (
        a.x is b.x
        and a.stop is not None
        and a.stop == b.start
        and (a.start is None or _in_order(a.start, a.stop))
        and (b.stop is None or _in_order(b.start, b.stop))
    )


def _in_order(a: Bound, b: Bound) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a <= b and (a < 0) == (b < 0)


@rewrite("canonicalize", Concatenate, beside=[Pick])
def concatenate_of_split(node: Node, op: Concatenate) -> Node | None:
    """``concatenate(split(x, sizes))`` is ``x``."""
    first = node.inputs[0]
    if not isinstance(first.op, Pick):
        return None
    (results,) = first.inputs
    split = results.op
    if not isinstance(split, Split) or split.axis != op.axis or None in split.sizes:
        return None
    x = results.inputs[0]
    if node.inputs != tuple(Tensor.make(Pick(i), results) for i in range(len(split.sizes))):
        return None
    return x if x.type.shape[op.axis] is not None else None


@rewrite("canonicalize", Concatenate, beside=[BroadcastTo])
def concatenate_of_repeated_scalar(node: Node, op: Concatenate) -> Node | None:
    """``concatenate([full(n, c), full(m, c)])`` is ``full(n + m, c)``."""
    first = node.inputs[0]
    if not isinstance(first.op, BroadcastTo) or first.inputs[0].type.ndim:
        return None
    all_same = all(
        isinstance(x.op, BroadcastTo) and x.inputs[0] is first.inputs[0] for x in node.inputs
    )
    if not all_same or not inputs_fit(node):
        return None
    return admit(broadcast_to(first.inputs[0], lengths_of(node)), node)


@rewrite("canonicalize", Index, beside=[Concatenate])
def index_of_concatenate(node: Node, op: Index) -> Node | None:
    """``concatenate([a, b])[i]`` is an element or slice of ``a`` or ``b``, or of both joined."""
    joined = node.inputs[0]
    if not isinstance(joined.op, Concatenate) or op.entries[joined.op.axis] == EVERYTHING:
        return None
    index = plain_index(node)
    axis = joined.op.axis
    if index is None or index[axis].values or not inputs_fit(joined):
        return None

    def take(x: Node, entry: Entry) -> Tensor:
        return index_by(x, [*index[:axis], IndexEntry(entry), *index[axis + 1 :]])

    entry = index[axis].entry
    if isinstance(entry, int):
        at = _locate(joined, entry)
        return None if at is None else take(*at)
    pieces = _pieces(joined, entry)  # type: ignore[arg-type]
    if pieces is None:
        return None
    new_axis = len([part for part in index[:axis] if part.is_slice])
    return admit(concatenate([take(x, piece) for x, piece in pieces], new_axis), node)


_starts: WeakKeyDictionary[Node, list[int]] = WeakKeyDictionary()


def _starts_of(joined: Node) -> list[int]:
    """Return where each part starts, up to the first one of unknown length."""
    starts = _starts.get(joined)
    if starts is None:
        starts = [0]
        for x in joined.inputs:
            n = x.type.shape[joined.op.axis]  # type: ignore[attr-defined]
            if n is None:
                break
            starts.append(starts[-1] + n)
        _starts[joined] = starts
    return starts


def _locate(joined: Node, i: int) -> tuple[Node, int] | None:
    starts = _starts_of(joined)
    if 0 <= i < starts[-1]:
        at = bisect_right(starts, i) - 1
        return joined.inputs[at], i - starts[at]
    last = joined.inputs[-1]
    n = last.type.shape[joined.op.axis]  # type: ignore[attr-defined]
    return (last, i) if i < 0 and n is not None and -n <= i else None


def _pieces(joined: Node, entry: Range) -> list[tuple[Node, Range]] | None:
    """Return the parts that a slice overlaps, and its slice of each; None where unknown."""
    starts, xs = _starts_of(joined), joined.inputs
    start, stop, step = entry.parts
    first = start or 0
    if step is not None or not isinstance(first, int) or first < 0:
        return None
    if stop is None:
        end = len(xs)
    elif isinstance(stop, int) and first < stop <= starts[-1]:
        end = bisect_right(starts, stop - 1)
    else:
        return None
    begin = min(bisect_right(starts, first) - 1, len(xs) - 1)
    if first > starts[-1] and begin < len(xs) - 1:
        return None
    pieces = []
    for i in range(begin, end):
        is_known = i < len(starts)
        low = max(first - starts[i], 0) if is_known else 0
        high = stop - starts[i] if is_known and stop is not None else None
        pieces.append((xs[i], canonical(Range(low, high), xs[i].type.shape[joined.op.axis])))  # type: ignore[attr-defined]
    return pieces
