"""Rules of parts of arrays, and of arrays with a part changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.ir import Constant, Node, Pick, is_integer, is_numeric
from graphc.rewrite.algebra.indices import (
    BACKWARDS,
    EVERYTHING,
    IndexEntry,
    indexed,
    inputs_fit,
    is_plain,
    parts_of,
    plain_parts,
    symbolic_of,
)
from graphc.rewrite.facts.lengths import (
    admitted,
    bare_mask,
    equal_lengths,
    holes,
    length_of,
    lengths_of,
    stated_lengths,
)
from graphc.rewrite.facts.slices import are_disjoint, canonical, composed, element
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.rewrite.rules.join import AxisSlice, follow
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.create import Arange, StaticArange
from graphc.tensor.arrays.index import HOLE, Entry, Hole, Index, IndexUpdate, Nonzero, Range
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    add,
    cast,
    multiply,
    negative,
    where,
)
from graphc.tensor.core.shape import Shape
from graphc.tensor.core.tensor import Tensor, as_tensor

# One form for each index.


@rewrite("canonicalize", Index)
def index_of_everything(node: Node, op: Index) -> Node | None:
    """All of an array is the array."""
    return node.inputs[0] if all(entry == EVERYTHING for entry in op.entries) else None


@rewrite("canonicalize", Index)
def index_by_new_axes(node: Node, op: Index) -> Node | None:
    """New axes are put in last, by ``expand_dims``."""
    if None not in op.entries:
        return None
    parts = [part for part in parts_of(op, node.inputs[1:]) if part.entry is not None]
    if not is_plain(parts):
        return None
    kept = [e for e in op.entries if e is None or isinstance(e, Range)]
    new = tuple(axis for axis, entry in enumerate(kept) if entry is None)
    return expand_dims(indexed(node.inputs[0], parts), new)


@rewrite("canonicalize", Index, beside=[Shape])
def length_by_index(node: Node, op: Index) -> Node | None:
    """An element of a shape is a length."""
    x = node.inputs[0]
    match op.entries:
        case (int(axis),) if isinstance(x.op, Shape):
            (measured,) = x.inputs
            return as_tensor(length_of(measured, axis % x.type.shape[0]))
    return None


@rewrite("canonicalize", Index, IndexUpdate, beside=[Constant])
def index_made_static(node: Node, op: Index | IndexUpdate) -> Node | None:
    """An index that is a constant belongs to the operation."""
    first = len(node.inputs) - len(list(holes(op.entries)))
    symbolic = node.inputs[first:]
    left = [x for x in symbolic if not _is_static(x)]
    if len(left) == len(symbolic):
        return None
    values = iter(symbolic)
    entries = tuple(_filled(entry, values) for entry in op.entries)
    return _with_entries(node, entries, left)


def _with_entries(node: Node, entries: tuple[Entry, ...], symbolic: Sequence[Node]) -> Node | None:
    op = node.op
    assert isinstance(op, Index | IndexUpdate)
    made = Index(entries) if isinstance(op, Index) else IndexUpdate(entries, op.accumulate)
    arrays = node.inputs[: 1 if isinstance(op, Index) else 2]
    new = Tensor.make(made, *arrays, *symbolic)
    return new if node.type.admits(new.type) else None


def _is_static(x: Node) -> bool:
    return isinstance(x.op, Constant) and not x.type.ndim


def _filled(entry: Entry, values: Iterator[Node]) -> Entry:
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
    parts = [
        part if part.entry is None else _in_one_form(part, x, next(axes))
        for part in parts_of(op, node.inputs[first:])
    ]
    entries = tuple(part.entry for part in parts)
    if entries == op.entries:
        return None
    return _with_entries(node, entries, [n for part in parts for n in part.values])


def _in_one_form(part: IndexEntry, x: Node, axis: int) -> IndexEntry:
    n = x.type.shape[axis]
    match part.entry:
        case int(i):
            return IndexEntry(i % n) if n and -n <= i < 0 else part
        case Range(start, stop, step):
            # The last bound's value is that of the stop, where the step is none.
            to_the_end = stop is HOLE and step in {None, 1}
            if to_the_end and part.values[-1] is length_of(x, axis):
                part = IndexEntry(Range(start, None, step), part.values[:-1])
            return IndexEntry(canonical(part.entry, n), part.values)  # type: ignore[arg-type]
    return part


@rewrite("canonicalize", Index, beside=[Arange, Constant, StaticArange])
def index_by_consecutive_places(node: Node, op: Index) -> Node | None:
    """Places one after the other are a slice."""
    x = node.inputs[0]
    parts = parts_of(op, node.inputs[1:])
    arrays = [i for i, part in enumerate(parts) if part.entry is HOLE]
    if len(arrays) != 1 or None in op.entries or any(isinstance(e, int) for e in op.entries):
        return None
    (axis,) = arrays
    entry = _slice_of_places(parts[axis].values[0], x, axis)
    if entry is None:
        return None
    parts[axis] = IndexEntry(entry)
    made = indexed(x, parts)
    return admitted(made, node)


def _slice_of_places(places: Node, x: Node, axis: int) -> Range | None:
    """The slice that takes these places, where all of them are within the axis."""
    op, n = places.op, x.type.shape[axis]
    if isinstance(op, Arange):
        # All places from one on: there are none to be out of bounds.
        start, _, step = (scalar_value(x) for x in places.inputs)
        whole = places.inputs[1] is length_of(x, axis)
        return Range(start) if whole and step == 1 and start is not None and start >= 0 else None
    if n is None or places.type.ndim != 1 or places.inputs:
        return None
    if not isinstance(op, Constant | StaticArange):
        return None
    taken: Any = op.perform().astype("int64")
    if not len(taken) or taken.min() < -n or taken.max() >= n:
        return None
    taken = np.where(taken < 0, taken + n, taken)
    steps = set(np.diff(taken).tolist()) or {1}
    if len(steps) != 1 or not (step := steps.pop()):
        return None
    end = int(taken[-1]) + step
    return canonical(Range(int(taken[0]), end if end >= 0 else None, step), n)


# Parts of what was made of other arrays.


@rewrite("canonicalize", Index, beside=[Index])
def index_of_index(node: Node, op: Index) -> Node | None:
    """A part of a part is a part."""
    between = node.inputs[0]
    if not isinstance(between.op, Index):
        return None
    x = between.inputs[0]
    first = plain_parts(between)
    second = parts_of(op, node.inputs[1:])
    if first is None or None in op.entries:
        return None
    if not is_plain(second) and not all(part.is_slice for part in first):
        return None  # integers beside index arrays would move the arrays' axes
    rest = iter(second)
    parts = []
    for axis, part in enumerate(first):
        both = _both(part, next(rest), x.type.shape[axis]) if part.is_slice else part
        if both is None:
            return None
        parts.append(both)
    made = indexed(x, parts)
    return admitted(made, node)


def _both(first: IndexEntry, second: IndexEntry, n: int | None) -> IndexEntry | None:
    if first.is_everything or second.is_everything:
        return second if first.is_everything else first
    if first.values or second.values:
        return None
    match first.entry, second.entry:
        case Range(), int(i):
            entry: Entry = element(first.entry, i, n)
        case Range(), Range():
            entry = composed(first.entry, second.entry, n)
    return None if entry is None else IndexEntry(entry)


@rewrite("canonicalize", Pick, beside=[Nonzero])
def places_in_constant(node: Node, op: Pick) -> Node | None:
    """The places in a mask that is a constant are constants."""
    (several,) = node.inputs
    if not isinstance(several.op, Nonzero) or not isinstance(several.inputs[0].op, Constant):
        return None
    found = several.op.perform(several.inputs[0].op.value)[op.index]
    made = Tensor.make(Constant.of(found))
    return admitted(made, node)


# Parts of what was changed.

MOST_UPDATES = 8
"""How many changes are looked through: reading after each of many would take quadratic time."""


@rewrite("canonicalize", Index, beside=[IndexUpdate])
def index_of_update(node: Node, op: Index) -> Node | None:
    """A part that was set is what it was set to; one that was not changed is as it was before."""
    x = node.inputs[0]
    if not isinstance(x.op, IndexUpdate):
        return None
    parts = plain_parts(node)
    if parts is None:
        return None
    base = _before(x, parts)
    if not isinstance(base.op, IndexUpdate):
        return indexed(base, parts)
    if not _is_same_part(base, node):
        return None
    value = _in_full(base.inputs[1], node)
    if value is None or not base.op.accumulate:
        return value
    return indexed(base.inputs[0], parts) + value if is_numeric(value.type.dtype) else None


def _before(x: Node, parts: Sequence[IndexEntry]) -> Node:
    """The array before the last changes, those of other parts."""
    for _ in range(MOST_UPDATES):
        if not isinstance(x.op, IndexUpdate):
            return x
        changed = plain_parts(x)
        pairs = zip(changed or (), parts, strict=False)
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
    """Whether one slice ends where the other begins, at a symbolic place."""
    match a.entry, b.entry:
        case Range(_, Hole(), None), Range(Hole(), _, None):
            return a.values[-1] is b.values[0]
    return False


def _is_same_part(a: Node, b: Node) -> bool:
    """Whether two indices, of parts that are read or changed, are the same one."""
    return a.op.entries == b.op.entries and symbolic_of(a) == symbolic_of(b)  # type: ignore[attr-defined]


def _in_full(value: Node, part: Node) -> Node | None:
    """A value that was put into a part, in the part's shape; None where it may not fit."""
    if not _fits(value, part):
        return None
    if value.type.ndim == part.type.ndim and 1 not in value.type.shape:
        return value
    made = broadcast_to(value, lengths_of(part))
    return made if part.type.admits(made.type) else None


def _fits(value: Node, part: Node) -> bool:
    """Whether a value is known to broadcast to a part."""
    new = part.type.ndim - value.type.ndim
    return new >= 0 and all(
        n == 1 or equal_lengths(value, axis, part, new + axis)
        for axis, n in enumerate(value.type.shape)
    )


def _part_of(node: Node) -> Tensor:
    """The part that an update changes, as it is before."""
    op: Any = node.op
    return Tensor.make(Index(op.entries), node.inputs[0], *symbolic_of(node))


# Changes.


@rewrite("canonicalize", IndexUpdate)
def update_of_everything(node: Node, op: IndexUpdate) -> Node | None:
    """All of an array that is set is the value, and what is added to all of it is added to it.

    An axis that is reversed in the index is reversed in the value.
    """
    x, value = node.inputs[:2]
    if not all(entry in {EVERYTHING, BACKWARDS} for entry in op.entries) or not _fits(value, x):
        return None
    value = _backwards(value, op.entries)
    if not op.accumulate:
        made = broadcast_to(value, lengths_of(x))
    elif is_numeric(x.type.dtype):
        made = add(x, value)
    else:
        return None
    return admitted(made, node)


@rewrite("canonicalize", IndexUpdate)
def update_with_new_axes(node: Node, op: IndexUpdate) -> Node | None:
    """New axes of a part are left out, of the index and the value."""
    x, value = node.inputs[:2]
    if None not in op.entries or any(isinstance(entry, Hole) for entry in op.entries):
        return None
    axes = [i for i, entry in enumerate(_axes_of(op.entries)) if entry is None]
    before = len(_axes_of(op.entries)) - value.type.ndim
    own = tuple(axis - before for axis in axes if axis >= before)
    if any(value.type.shape[axis] != 1 for axis in own):
        return None
    entries = tuple(entry for entry in op.entries if entry is not None)
    value = squeeze(value, own) if own else value
    made = Tensor.make(IndexUpdate(entries, op.accumulate), x, value, *symbolic_of(node))
    return admitted(made, node)


def _axes_of(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that the part has an axis for, without arrays."""
    return [entry for entry in entries if entry is None or isinstance(entry, Range)]


def _backwards(value: Node, entries: Sequence[Entry]) -> Node:
    """Return the value that a part is set to, in the array's order."""
    own = entries[len(entries) - value.type.ndim :]
    pairs = zip(own, value.type.shape, strict=True)
    turned = tuple(EVERYTHING if n == 1 else entry for entry, n in pairs)
    return Tensor.make(Index(turned), value) if BACKWARDS in turned else value


@rewrite("canonicalize", IndexUpdate)
def update_by_nothing(node: Node, op: IndexUpdate) -> Node | None:
    """Where 0 is added, or a part is set to what it is, nothing changes."""
    x, value = node.inputs[:2]
    if op.accumulate:
        nothing = is_numeric(x.type.dtype) and scalar_value(value) == 0
        return x if nothing and _fits(value, _part_of(node)) else None
    read = isinstance(value.op, Index) and value.inputs[0] is x
    return x if read and _is_same_part(value, node) else None


@rewrite("canonicalize", IndexUpdate, beside=[BroadcastTo])
def update_by_broadcast(node: Node, op: IndexUpdate) -> Node | None:
    """A value is repeated to the part's shape by the change itself."""
    x, value = node.inputs[:2]
    if not isinstance(value.op, BroadcastTo) or not _fits(value, _part_of(node)):
        return None
    bare = value.inputs[0]
    own = value.type.shape[value.type.ndim - bare.type.ndim :]
    if any(n == 1 != m for n, m in zip(own, bare.type.shape, strict=True)):
        return None  # a length that is still to be checked
    made = Tensor.make(op, x, bare, *symbolic_of(node))
    return admitted(made, node)


@rewrite("canonicalize", IndexUpdate, beside=[IndexUpdate])
def update_after_update(node: Node, op: IndexUpdate) -> Node | None:
    """A part that is changed twice is changed once: what was set before is forgotten."""
    between, value = node.inputs[:2]
    if not isinstance(between.op, IndexUpdate) or not _is_same_part(between, node):
        return None
    x, earlier = between.inputs[:2]
    if not _fits(earlier, _part_of(between)):
        return None
    if not op.accumulate:
        return Tensor.make(op, x, value, *symbolic_of(node))
    # Of places that come twice, one of the values set stays, and all that are added count. Floats
    # that are added one after the other may be so in no other order.
    dtype = x.type.dtype
    if not (
        is_integer(dtype) if between.op.accumulate else is_numeric(dtype) and plain_parts(node)
    ):
        return None
    if not _fits(value, _part_of(node)):
        return None
    return Tensor.make(between.op, x, add(earlier, value), *symbolic_of(node))


@rewrite("canonicalize", IndexUpdate)
def addition_to_zeros(node: Node, op: IndexUpdate) -> Node | None:
    """Adding to a part that is 0 sets it."""
    x, value = node.inputs[:2]
    if not op.accumulate or not is_numeric(x.type.dtype):
        return None
    parts = plain_parts(node)
    # Backends write into consecutive places at once, and into others one by one.
    if parts is None or any(isinstance(e, Range) and e.step is not None for e in op.entries):
        return None
    if scalar_value(_before(x, parts)) != 0:
        return None
    return Tensor.make(IndexUpdate(op.entries, False), x, value, *symbolic_of(node))


@rewrite("canonicalize", negative, Cast, multiply, beside=[IndexUpdate])
def function_of_part_among_zeros(node: Node, op: Elementwise | Cast) -> Node | None:
    """A function that keeps 0 is applied to the part that is not 0."""
    place = len(node.inputs) - 1
    x = node.inputs[place]
    factor = [] if not place else [scalar_value(node.inputs[0])]
    if not isinstance(x.op, IndexUpdate) or not all(_is_finite(c) for c in factor):
        return None
    base, value = x.inputs[:2]
    if scalar_value(base) != 0 or base.type.shape != node.type.shape or node.type.dtype == "bool":
        return None
    if place and node.inputs[0].type.ndim:
        return None
    if plain_parts(x) is None and not _is_of_terms(node, factor):
        return None
    made = node.with_inputs([*node.inputs[:place], value])
    zeros = node.with_inputs([*node.inputs[:place], base])
    return Tensor.make(x.op, zeros, made, *symbolic_of(x))


def _is_of_terms(node: Node, factor: list[Any]) -> bool:
    """Whether what is done to values that are added to one place can be done to each before."""
    if isinstance(node.op, Cast):
        return False
    return is_integer(node.type.dtype) or all(abs(c) <= 1 for c in factor)


def _is_finite(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


@rewrite("specialize", add, beside=[IndexUpdate])
def sum_with_part_among_zeros(node: Node, op: Elementwise) -> Node | None:
    """Adding an array that is 0 but for a part is adding to the part."""
    for x, other in (node.inputs, node.inputs[::-1]):
        if not isinstance(x.op, IndexUpdate) or scalar_value(x.inputs[0]) != 0:
            continue
        if other.type.shape != x.type.shape or not is_numeric(x.type.dtype):
            continue
        # Floats that are added to one place may be so in no other order.
        adds = x.op.accumulate and is_integer(x.type.dtype)
        if (adds or plain_parts(x) is not None) and inputs_fit(node):
            update = IndexUpdate(x.op.entries, True)
            return Tensor.make(update, other, x.inputs[1], *symbolic_of(x))
    return None


@rewrite("canonicalize", IndexUpdate, beside=[IndexUpdate])
def update_of_all_parts(node: Node, op: IndexUpdate) -> Node | None:
    """An array whose parts are all set is those parts, joined."""
    axis = _only_axis(op)
    if op.accumulate or axis is None or not isinstance(node.inputs[0].op, IndexUpdate):
        return None
    found: dict[Any, tuple[Any, Node]] = {}
    x: Node = node
    for _ in range(MOST_UPDATES):
        cut = _cut_of(x, axis)
        if cut is None or cut.start in found:
            return None
        found[cut.start] = cut, x
        parts = _in_order(found) if None in found else None
        if parts is not None:
            values = [_value_along(part, axis) for part in parts]
            made = None if None in values else concatenate(values, axis)
            return made if made is not None and node.type.admits(made.type) else None
        x = x.inputs[0]
    return None


def _only_axis(op: IndexUpdate) -> int | None:
    """The axis of which alone the index does not take everything."""
    axes = [i for i, entry in enumerate(op.entries) if entry != EVERYTHING]
    return axes[0] if len(axes) == 1 else None


def _cut_of(x: Node, axis: int) -> AxisSlice | None:
    """Where the part that is set begins and ends."""
    op, n = x.op, x.type.shape[axis]
    if not isinstance(op, IndexUpdate) or op.accumulate or _only_axis(op) != axis:
        return None
    parts = plain_parts(x)
    match op.entries[axis]:
        case int(i) if n is not None:
            return AxisSlice(None, i or None, i + 1 if i + 1 < n else None)
        case Range(start, stop, None) if parts is not None:
            given = iter(parts[axis].values)
            return AxisSlice(None, *[next(given) if b is HOLE else b for b in (start, stop)])
    return None


def _in_order(found: dict[Any, tuple[AxisSlice, Node]]) -> list[Node] | None:
    """The updates in the order of their parts, which follow on each other to the end."""
    last, update = found[None]
    updates = [update]
    while last.stop is not None:
        if last.stop not in found:
            return None
        cut, update = found[last.stop]
        if not follow(last, cut):
            return None
        last = cut
        updates.append(update)
    return updates if len(updates) == len(found) else None


def _value_along(update: Node, axis: int) -> Tensor | None:
    """Return the value that a part is set to, and the axis along which parts are joined."""
    value: Any = _in_full(update.inputs[1], _part_of(update))
    if value is None or isinstance(update.op.entries[axis], Range):  # type: ignore[attr-defined]
        return value  # type: ignore[no-any-return]
    return expand_dims(value, axis)


# Masks. What is made of all elements and chosen then has a shape that no value decides.


def mask_of(node: Node) -> Node | None:
    """The mask of ``x[mask]``, of the array's first axes."""
    places = symbolic_of(node)
    if not places or not isinstance(places[0].op, Pick):
        return None
    (several,) = places[0].inputs
    if not isinstance(several.op, Nonzero):
        return None
    (mask,) = several.inputs
    n = mask.type.ndim
    whole = (HOLE,) * n + (EVERYTHING,) * (node.inputs[0].type.ndim - n)
    all_places = tuple(Tensor.make(Pick(i), several) for i in range(n))
    found = node.op.entries == whole and places == all_places  # type: ignore[attr-defined]
    # Of a mask that is shorter, the places alone are within the array.
    fits = found and all(length_of(node.inputs[0], i) in stated_lengths(mask, i) for i in range(n))
    return bare_mask(mask) if fits else None


MOST_FUNCTIONS = 16
"""How many functions of masked elements are looked through."""


def before_mask(y: Node) -> tuple[Node, Node] | None:
    """A mask, and the array of which it takes y: a function of masked elements is y, too."""
    known: dict[Node, Node] = {}
    masks: set[Node] = set()
    begun: set[Node] = set()
    stack = [y]
    while stack:
        x = stack[-1]
        begun.add(x)
        mask = mask_of(x) if isinstance(x.op, Index) else None
        if mask is not None:
            masks.add(mask)
            known[x] = x.inputs[0]
            stack.pop()
            continue
        if not isinstance(x.op, Elementwise | Cast | Where) or len(begun) > MOST_FUNCTIONS:
            return None
        waiting = [
            a for a in x.inputs if a not in known and getattr(a.type, "ndim", -1) == y.type.ndim
        ]
        if waiting:
            stack += waiting
            continue
        known[x] = x.with_inputs([known.get(a, a) for a in x.inputs])
        stack.pop()
    return (masks.pop(), known[y]) if len(masks) == 1 else None


def mask_like(mask: Node, x: Node) -> Tensor:
    """A mask of an array's first axes in a form that broadcasts against it."""
    return expand_dims(cast(mask, "bool"), tuple(range(mask.type.ndim, x.type.ndim)))


@rewrite("specialize", IndexUpdate)
def update_by_mask(node: Node, op: IndexUpdate) -> Node | None:
    """A masked part that is set to a scalar, or to what is made of that part, is chosen."""
    x, value = node.inputs[:2]
    mask = mask_of(node)
    if mask is None or not is_numeric(x.type.dtype):
        return None
    scalar = value.inputs[0] if isinstance(value.op, BroadcastTo) else value
    if scalar.type.ndim:
        found = before_mask(value)
        if found is None or found[0] is not mask:
            return None
        scalar = found[1]
    elif value.type.ndim and not _fits(value, _part_of(node)):
        return None
    made = where(mask_like(mask, x), add(x, scalar) if op.accumulate else scalar, x)
    return admitted(made, node)
