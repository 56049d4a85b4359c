"""Rules of indexing, and of arrays with a part changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.ir import Constant, Node, Pick, is_integer, is_numeric
from graphc.rewrite.algebra.indices import (
    EVERYTHING,
    IndexEntry,
    entries_of,
    index_by,
    inputs_fit,
    is_plain,
    plain_index,
    symbolic_of,
)
from graphc.rewrite.facts.lengths import (
    admit,
    bare_mask,
    declared_lengths,
    equal_lengths,
    holes,
    length_of,
    lengths_of,
)
from graphc.rewrite.facts.slices import are_disjoint, canonical, compose_slices, element
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.rewrite.rules.join import AxisSlice, follow
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.create import Arange, StaticArange
from graphc.tensor.arrays.index import (
    BACKWARDS,
    HOLE,
    Entry,
    Hole,
    Index,
    IndexUpdate,
    Nonzero,
    Range,
)
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.tensor import Tensor

# One form for each index.


@rewrite("canonicalize", Index)
def index_of_everything(node: Node, op: Index) -> Node | None:
    """``x[:]`` is ``x``."""
    return node.inputs[0] if all(entry == EVERYTHING for entry in op.entries) else None


@rewrite("canonicalize", Index)
def index_by_new_axes(node: Node, op: Index) -> Node | None:
    """``x[1:, None]`` is ``expand_dims(x[1:], 1)``: new axes come last."""
    if None not in op.entries:
        return None
    index = [part for part in entries_of(op, node.inputs[1:]) if part.entry is not None]
    if not is_plain(index):
        return None
    slices = [e for e in op.entries if e is None or isinstance(e, Range)]
    new = tuple(axis for axis, entry in enumerate(slices) if entry is None)
    return expand_dims(index_by(node.inputs[0], index), new)


@rewrite("canonicalize", Index, IndexUpdate, beside=[Constant])
def index_made_static(node: Node, op: Index | IndexUpdate) -> Node | None:
    """``x[i]`` with a constant ``i`` has the index in its operation."""
    first = len(node.inputs) - len(list(holes(op.entries)))
    symbolic = node.inputs[first:]
    remaining = [x for x in symbolic if not _is_static(x)]
    if len(remaining) == len(symbolic):
        return None
    values = iter(symbolic)
    entries = tuple(_fill(entry, values) for entry in op.entries)
    return _with_entries(node, entries, remaining)


def _with_entries(node: Node, entries: tuple[Entry, ...], symbolic: Sequence[Node]) -> Node | None:
    op = node.op
    assert isinstance(op, Index | IndexUpdate)
    new_op = Index(entries) if isinstance(op, Index) else IndexUpdate(entries, op.accumulate)
    arrays = node.inputs[: 1 if isinstance(op, Index) else 2]
    new = Tensor.make(new_op, *arrays, *symbolic)
    return new if node.type.admits(new.type) else None


def _is_static(x: Node) -> bool:
    return isinstance(x.op, Constant) and not x.type.ndim


def _fill(entry: Entry, values: Iterator[Node]) -> Entry:
    if isinstance(entry, Range):
        return Range(*[_value(next(values)) if part is HOLE else part for part in entry.parts])
    return _value(next(values)) if entry is HOLE else entry


def _value(x: Node) -> int | Hole:
    return int(x.op.perform()) if _is_static(x) else HOLE


@rewrite("canonicalize", Index, IndexUpdate)
def index_in_one_form(node: Node, op: Index | IndexUpdate) -> Node | None:
    """Equal indices have one form: ``x[0:3]`` of three elements is ``x[:]``."""
    x = node.inputs[0]
    first = len(node.inputs) - len(list(holes(op.entries)))
    axes = iter(range(x.type.ndim))
    index = [
        part if part.entry is None else _in_one_form(part, x, next(axes))
        for part in entries_of(op, node.inputs[first:])
    ]
    entries = tuple(part.entry for part in index)
    if entries == op.entries:
        return None
    return _with_entries(node, entries, [n for part in index for n in part.values])


def _in_one_form(part: IndexEntry, x: Node, axis: int) -> IndexEntry:
    n = x.type.shape[axis]
    match part.entry:
        case int(i):
            return IndexEntry(i % n) if n and -n <= i < 0 else part
        case Range(start, stop, step):
            # Without a step, the last symbolic bound is the stop.
            to_the_end = stop is HOLE and step in {None, 1}
            if to_the_end and part.values[-1] is length_of(x, axis):
                part = IndexEntry(Range(start, None, step), part.values[:-1])
            return IndexEntry(canonical(part.entry, n), part.values)  # type: ignore[arg-type]
    return part


@rewrite("canonicalize", Index, beside=[Arange, Constant, StaticArange])
def index_by_consecutive_places(node: Node, op: Index) -> Node | None:
    """``x[arange(1, 5)]`` is ``x[1:5]``: equally spaced indices are a slice."""
    x = node.inputs[0]
    index = entries_of(op, node.inputs[1:])
    arrays = [i for i, part in enumerate(index) if part.entry is HOLE]
    if len(arrays) != 1 or None in op.entries or any(isinstance(e, int) for e in op.entries):
        return None
    (axis,) = arrays
    entry = _as_slice(index[axis].values[0], x, axis)
    if entry is None:
        return None
    index[axis] = IndexEntry(entry)
    return admit(index_by(x, index), node)


def _as_slice(indices: Node, x: Node, axis: int) -> Range | None:
    """Return the slice that takes these indices, where all of them are within the axis."""
    op, n = indices.op, x.type.shape[axis]
    if isinstance(op, Arange):
        # Indices up to the length of the axis are never out of bounds.
        start, _, step = (scalar_value(x) for x in indices.inputs)
        is_to_the_end = indices.inputs[1] is length_of(x, axis)
        return (
            Range(start)
            if is_to_the_end and step == 1 and start is not None and start >= 0
            else None
        )
    if n is None or indices.type.ndim != 1 or indices.inputs:
        return None
    if not isinstance(op, Constant | StaticArange):
        return None
    positions: Any = op.perform().astype("int64")
    if not len(positions) or positions.min() < -n or positions.max() >= n:
        return None
    positions = np.where(positions < 0, positions + n, positions)
    steps = set(np.diff(positions).tolist()) or {1}
    if len(steps) != 1 or not (step := steps.pop()):
        return None
    end = int(positions[-1]) + step
    return canonical(Range(int(positions[0]), end if end >= 0 else None, step), n)


# Indexing of indexed arrays.


@rewrite("canonicalize", Index, beside=[Index])
def index_of_index(node: Node, op: Index) -> Node | None:
    """``x[1:][2:]`` is ``x[3:]``."""
    inner = node.inputs[0]
    if not isinstance(inner.op, Index):
        return None
    x = inner.inputs[0]
    first = plain_index(inner)
    second = entries_of(op, node.inputs[1:])
    if first is None or None in op.entries:
        return None
    if not is_plain(second) and not all(part.is_slice for part in first):
        return None  # integers beside index arrays would move the arrays' axes
    rest = iter(second)
    composed = []
    for axis, part in enumerate(first):
        entry = _compose(part, next(rest), x.type.shape[axis]) if part.is_slice else part
        if entry is None:
            return None
        composed.append(entry)
    return admit(index_by(x, composed), node)


def _compose(first: IndexEntry, second: IndexEntry, n: int | None) -> IndexEntry | None:
    if first.is_everything or second.is_everything:
        return second if first.is_everything else first
    if first.values or second.values:
        return None
    match first.entry, second.entry:
        case Range(), int(i):
            entry: Entry = element(first.entry, i, n)
        case Range(), Range():
            entry = compose_slices(first.entry, second.entry, n)
    return None if entry is None else IndexEntry(entry)


@rewrite("canonicalize", Pick, beside=[Nonzero])
def places_in_constant(node: Node, op: Pick) -> Node | None:
    """``nonzero(mask)`` of a constant mask is a constant."""
    (nonzero,) = node.inputs
    if not isinstance(nonzero.op, Nonzero) or not isinstance(nonzero.inputs[0].op, Constant):
        return None
    indices = nonzero.op.perform(nonzero.inputs[0].op.value)[op.index]
    return admit(Tensor.make(Constant.of(indices)), node)


# Indexing of updated arrays.

MAX_UPDATES = 8
"""Largest number of updates to look through: a read after each of many takes quadratic time."""


@rewrite("canonicalize", Index, beside=[IndexUpdate])
def index_of_update(node: Node, op: Index) -> Node | None:
    """``x[i]`` after ``x[i] = v`` is ``v``, and after ``x[j] = v`` the element before."""
    x = node.inputs[0]
    if not isinstance(x.op, IndexUpdate):
        return None
    index = plain_index(node)
    if index is None:
        return None
    base = _before_other_updates(x, index)
    if not isinstance(base.op, IndexUpdate):
        return index_by(base, index)
    if not _have_same_index(base, node):
        return None
    value = _broadcast_value(base.inputs[1], node)
    if value is None or not base.op.accumulate:
        return value
    return index_by(base.inputs[0], index) + value if is_numeric(value.type.dtype) else None


def _before_other_updates(x: Node, index: Sequence[IndexEntry]) -> Node:
    """Return the array before its last updates, as far as they change other parts."""
    for _ in range(MAX_UPDATES):
        if not isinstance(x.op, IndexUpdate):
            return x
        changed = plain_index(x)
        pairs = zip(changed or (), index, strict=False)
        lengths = x.type.shape
        if not any(_are_apart(a, b, n) for (a, b), n in zip(pairs, lengths, strict=False)):
            return x
        x = x.inputs[0]
    return x


def _are_apart(a: IndexEntry, b: IndexEntry, n: int | None) -> bool:
    if a.values or b.values:
        return _ends_at(a, b) or _ends_at(b, a)
    return are_disjoint(a.entry, b.entry, n)  # type: ignore[arg-type]


def _ends_at(a: IndexEntry, b: IndexEntry) -> bool:
    """Return whether one slice ends where the other begins, at one symbolic bound."""
    match a.entry, b.entry:
        case Range(_, Hole(), None), Range(Hole(), _, None):
            return a.values[-1] is b.values[0]
    return False


def _have_same_index(a: Node, b: Node) -> bool:
    return a.op.entries == b.op.entries and symbolic_of(a) == symbolic_of(b)  # type: ignore[attr-defined]


def _broadcast_value(value: Node, part: Node) -> Node | None:
    """Return an update's value broadcast to the part; None where it may not fit."""
    if not _fits(value, part):
        return None
    if value.type.ndim == part.type.ndim and 1 not in value.type.shape:
        return value
    result = broadcast_to(value, lengths_of(part))
    return result if part.type.admits(result.type) else None


def _fits(value: Node, part: Node) -> bool:
    new = part.type.ndim - value.type.ndim
    return new >= 0 and all(
        n == 1 or equal_lengths(value, axis, part, new + axis)
        for axis, n in enumerate(value.type.shape)
    )


def _part_before(node: Node) -> Tensor:
    op: Any = node.op
    return Tensor.make(Index(op.entries), node.inputs[0], *symbolic_of(node))


# Updates.


@rewrite("canonicalize", IndexUpdate)
def update_of_everything(node: Node, op: IndexUpdate) -> Node | None:
    """``x[:] = v`` is ``v``, and ``x[:] += v`` is ``x + v``, broadcast to the array's shape.

    An axis that the index reverses is reversed in the value.
    """
    x, value = node.inputs[:2]
    if not all(entry in {EVERYTHING, BACKWARDS} for entry in op.entries) or not _fits(value, x):
        return None
    value = _reverse_value(value, op.entries)
    if not op.accumulate:
        result = broadcast_to(value, lengths_of(x))
    elif is_numeric(x.type.dtype):
        result = ew.add(x, value)
    else:
        return None
    return admit(result, node)


@rewrite("canonicalize", IndexUpdate)
def update_with_new_axes(node: Node, op: IndexUpdate) -> Node | None:
    """``x[:, None] = v`` is ``x[:] = v[:, 0]``: new axes are removed from index and value."""
    x, value = node.inputs[:2]
    if None not in op.entries or any(isinstance(entry, Hole) for entry in op.entries):
        return None
    axes = [i for i, entry in enumerate(_axes_of(op.entries)) if entry is None]
    before = len(_axes_of(op.entries)) - value.type.ndim
    value_axes = tuple(axis - before for axis in axes if axis >= before)
    if any(value.type.shape[axis] != 1 for axis in value_axes):
        return None
    entries = tuple(entry for entry in op.entries if entry is not None)
    value = squeeze(value, value_axes) if value_axes else value
    result = Tensor.make(IndexUpdate(entries, op.accumulate), x, value, *symbolic_of(node))
    return admit(result, node)


def _axes_of(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that have an axis in the part; no entry may be an array."""
    return [entry for entry in entries if entry is None or isinstance(entry, Range)]


def _reverse_value(value: Node, entries: Sequence[Entry]) -> Node:
    value_entries = entries[len(entries) - value.type.ndim :]
    pairs = zip(value_entries, value.type.shape, strict=True)
    reversal = tuple(EVERYTHING if n == 1 else entry for entry, n in pairs)
    return Tensor.make(Index(reversal), value) if BACKWARDS in reversal else value


@rewrite("canonicalize", IndexUpdate)
def update_by_nothing(node: Node, op: IndexUpdate) -> Node | None:
    """``x[i] += 0`` and ``x[i] = x[i]`` change nothing."""
    x, value = node.inputs[:2]
    if op.accumulate:
        is_zero = is_numeric(x.type.dtype) and scalar_value(value) == 0
        return x if is_zero and _fits(value, _part_before(node)) else None
    is_read = isinstance(value.op, Index) and value.inputs[0] is x
    return x if is_read and _have_same_index(value, node) else None


@rewrite("canonicalize", IndexUpdate, beside=[BroadcastTo])
def update_by_broadcast(node: Node, op: IndexUpdate) -> Node | None:
    """``x[i] = broadcast_to(v, shape)`` is ``x[i] = v``, which broadcasts itself."""
    x, value = node.inputs[:2]
    if not isinstance(value.op, BroadcastTo) or not _fits(value, _part_before(node)):
        return None
    bare = value.inputs[0]
    lengths = value.type.shape[value.type.ndim - bare.type.ndim :]
    if any(n == 1 != m for n, m in zip(lengths, bare.type.shape, strict=True)):
        return None  # a length that is still to be checked
    return admit(Tensor.make(op, x, bare, *symbolic_of(node)), node)


@rewrite("canonicalize", IndexUpdate, beside=[IndexUpdate])
def update_after_update(node: Node, op: IndexUpdate) -> Node | None:
    """``x[i] = a`` and then ``x[i] = b`` is ``x[i] = b``; additions to one part are combined."""
    inner, value = node.inputs[:2]
    if not isinstance(inner.op, IndexUpdate) or not _have_same_index(inner, node):
        return None
    x, earlier = inner.inputs[:2]
    if not _fits(earlier, _part_before(inner)):
        return None
    if not op.accumulate:
        return Tensor.make(op, x, value, *symbolic_of(node))
    # Of a repeated index, the last value set stays, and all values added count. The order of
    # additions of floats must not change.
    dtype = x.type.dtype
    if not (is_integer(dtype) if inner.op.accumulate else is_numeric(dtype) and plain_index(node)):
        return None
    if not _fits(value, _part_before(node)):
        return None
    return Tensor.make(inner.op, x, ew.add(earlier, value), *symbolic_of(node))


@rewrite("canonicalize", IndexUpdate)
def addition_to_zeros(node: Node, op: IndexUpdate) -> Node | None:
    """``zeros(n)[i] += v`` is ``zeros(n)[i] = v``."""
    x, value = node.inputs[:2]
    if not op.accumulate or not is_numeric(x.type.dtype):
        return None
    index = plain_index(node)
    # Backends write contiguous elements at once, and others one by one.
    if index is None or any(isinstance(e, Range) and e.step is not None for e in op.entries):
        return None
    if scalar_value(_before_other_updates(x, index)) != 0:
        return None
    return Tensor.make(IndexUpdate(op.entries, False), x, value, *symbolic_of(node))


@rewrite("canonicalize", ew.negative, ew.Cast, ew.multiply, beside=[IndexUpdate])
def function_of_part_among_zeros(node: Node, op: ew.Elementwise | ew.Cast) -> Node | None:
    """``-y`` of ``y = zeros(n); y[i] = v`` sets ``y[i] = -v``, and so for factors and casts."""
    i = len(node.inputs) - 1
    x = node.inputs[i]
    factor = [] if not i else [scalar_value(node.inputs[0])]
    if not isinstance(x.op, IndexUpdate) or not all(_is_finite(c) for c in factor):
        return None
    base, value = x.inputs[:2]
    if scalar_value(base) != 0 or base.type.shape != node.type.shape or node.type.dtype == "bool":
        return None
    if i and node.inputs[0].type.ndim:
        return None
    if plain_index(x) is None and not _distributes_over_terms(node, factor):
        return None
    changed = node.with_inputs([*node.inputs[:i], value])
    zeros = node.with_inputs([*node.inputs[:i], base])
    return Tensor.make(x.op, zeros, changed, *symbolic_of(x))


def _distributes_over_terms(node: Node, factor: list[Any]) -> bool:
    """Return whether a function of sums may be applied to each term instead."""
    if isinstance(node.op, ew.Cast):
        return False
    return is_integer(node.type.dtype) or all(abs(c) <= 1 for c in factor)


def _is_finite(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


@rewrite("specialize", ew.add, beside=[IndexUpdate])
def sum_with_part_among_zeros(node: Node, op: ew.Elementwise) -> Node | None:
    """``x + y`` with ``y = zeros(n); y[i] = v`` is ``x`` with ``x[i] += v``."""
    for x, other in (node.inputs, node.inputs[::-1]):
        if not isinstance(x.op, IndexUpdate) or scalar_value(x.inputs[0]) != 0:
            continue
        if other.type.shape != x.type.shape or not is_numeric(x.type.dtype):
            continue
        # The order of additions of floats to one element must not change.
        adds = x.op.accumulate and is_integer(x.type.dtype)
        if (adds or plain_index(x) is not None) and inputs_fit(node):
            update = IndexUpdate(x.op.entries, True)
            return Tensor.make(update, other, x.inputs[1], *symbolic_of(x))
    return None


@rewrite("canonicalize", IndexUpdate, beside=[IndexUpdate])
def update_of_all_parts(node: Node, op: IndexUpdate) -> Node | None:
    """``y[:2] = a; y[2:] = b`` of all elements is ``concatenate([a, b])``."""
    axis = _only_indexed_axis(op)
    if op.accumulate or axis is None or not isinstance(node.inputs[0].op, IndexUpdate):
        return None
    cuts: dict[Any, tuple[Any, Node]] = {}
    x: Node = node
    for _ in range(MAX_UPDATES):
        cut = _updated_slice(x, axis)
        if cut is None or cut.start in cuts:
            return None
        cuts[cut.start] = cut, x
        updates = _in_order(cuts) if None in cuts else None
        if updates is not None:
            values = [_value_with_axis(part, axis) for part in updates]
            result = None if None in values else concatenate(values, axis)
            return result if result is not None and node.type.admits(result.type) else None
        x = x.inputs[0]
    return None


def _only_indexed_axis(op: IndexUpdate) -> int | None:
    axes = [i for i, entry in enumerate(op.entries) if entry != EVERYTHING]
    return axes[0] if len(axes) == 1 else None


def _updated_slice(x: Node, axis: int) -> AxisSlice | None:
    op, n = x.op, x.type.shape[axis]
    if not isinstance(op, IndexUpdate) or op.accumulate or _only_indexed_axis(op) != axis:
        return None
    index = plain_index(x)
    match op.entries[axis]:
        case int(i) if n is not None:
            return AxisSlice(None, i or None, i + 1 if i + 1 < n else None)
        case Range(start, stop, None) if index is not None:
            symbolic = iter(index[axis].values)
            return AxisSlice(None, *[next(symbolic) if b is HOLE else b for b in (start, stop)])
    return None


def _in_order(cuts: dict[Any, tuple[AxisSlice, Node]]) -> list[Node] | None:
    """Return the updates in the order of their parts, or None unless those cover the axis."""
    last, update = cuts[None]
    updates = [update]
    while last.stop is not None:
        if last.stop not in cuts:
            return None
        cut, update = cuts[last.stop]
        if not follow(last, cut):
            return None
        last = cut
        updates.append(update)
    return updates if len(updates) == len(cuts) else None


def _value_with_axis(update: Node, axis: int) -> Tensor | None:
    value: Any = _broadcast_value(update.inputs[1], _part_before(update))
    if value is None or isinstance(update.op.entries[axis], Range):  # type: ignore[attr-defined]
        return value  # type: ignore[no-any-return]
    return expand_dims(value, axis)


# Masks. Computing all elements and then choosing gives a shape that depends on no value.


def mask_of(node: Node) -> Node | None:
    """Return the mask of ``x[mask]`` over the array's first axes, or None."""
    indices = symbolic_of(node)
    if not indices or not isinstance(indices[0].op, Pick):
        return None
    (nonzero,) = indices[0].inputs
    if not isinstance(nonzero.op, Nonzero):
        return None
    (mask,) = nonzero.inputs
    n = mask.type.ndim
    entries = (HOLE,) * n + (EVERYTHING,) * (node.inputs[0].type.ndim - n)
    all_indices = tuple(Tensor.make(Pick(i), nonzero) for i in range(n))
    is_mask = node.op.entries == entries and indices == all_indices  # type: ignore[attr-defined]
    # A mask shorter than the axis selects elements, but does not broadcast.
    fits = is_mask and all(
        length_of(node.inputs[0], i) in declared_lengths(mask, i) for i in range(n)
    )
    return bare_mask(mask) if fits else None


MAX_FUNCTIONS = 16
"""Largest number of functions of masked elements to look through."""


def before_mask(y: Node) -> tuple[Node, Node] | None:
    """Return a mask and an array x such that a function of masked elements is ``x[mask]``."""
    unmasked: dict[Node, Node] = {}
    masks: set[Node] = set()
    visited: set[Node] = set()
    stack = [y]
    while stack:
        x = stack[-1]
        visited.add(x)
        mask = mask_of(x) if isinstance(x.op, Index) else None
        if mask is not None:
            masks.add(mask)
            unmasked[x] = x.inputs[0]
            stack.pop()
            continue
        if (
            not isinstance(x.op, ew.Elementwise | ew.Cast | ew.Where)
            or len(visited) > MAX_FUNCTIONS
        ):
            return None
        waiting = [
            a for a in x.inputs if a not in unmasked and getattr(a.type, "ndim", -1) == y.type.ndim
        ]
        if waiting:
            stack += waiting
            continue
        unmasked[x] = x.with_inputs([unmasked.get(a, a) for a in x.inputs])
        stack.pop()
    return (masks.pop(), unmasked[y]) if len(masks) == 1 else None


def mask_like(mask: Node, x: Node) -> Tensor:
    """Return a mask of an array's first axes, broadcastable against the array."""
    return expand_dims(ew.cast(mask, "bool"), tuple(range(mask.type.ndim, x.type.ndim)))


@rewrite("specialize", IndexUpdate)
def update_by_mask(node: Node, op: IndexUpdate) -> Node | None:
    """``x[mask] = v`` is ``where(mask, v, x)`` for a scalar, or a function of ``x[mask]``."""
    x, value = node.inputs[:2]
    mask = mask_of(node)
    if mask is None or not is_numeric(x.type.dtype):
        return None
    scalar = value.inputs[0] if isinstance(value.op, BroadcastTo) else value
    if scalar.type.ndim:
        pair = before_mask(value)
        if pair is None or pair[0] is not mask:
            return None
        scalar = pair[1]
    elif value.type.ndim and not _fits(value, _part_before(node)):
        return None
    result = ew.where(mask_like(mask, x), ew.add(x, scalar) if op.accumulate else scalar, x)
    return admit(result, node)
