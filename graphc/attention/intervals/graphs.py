"""Bounds of a graph of one element over intervals of its indices.

A walk over the graph infers a fact for each node: the value of a node that does not depend on the
indices; the interval of a scalar or of an array's elements; the array and the indices so far of an
array that is indexed axis by axis. All other nodes are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals import elements
from graphc.attention.intervals.interval import (
    Interval,
    cast_interval,
    dtype_of,
    elementwise_interval,
    interval_around,
    is_point,
    point,
    unknown,
    where_interval,
)
from graphc.attention.intervals.ranges import gather, wrap_indices
from graphc.implicit.namespace import numpy_like
from graphc.intervals.rules import RULES
from graphc.ir import Constant, Graph, MakeTuple, Node, Op, Pick, TensorType, is_complex
from graphc.loop.branch import Switch
from graphc.loop.evaluate import evaluate
from graphc.loop.subgraph import Subgraph
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.index import Entry, Hole, Index, Range
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import (
    All,
    Any_,
    Max,
    MaxWithDefault,
    Min,
    MinWithDefault,
    Sum,
)
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.tensor import Tensor, as_tensor


class _Fixed(NamedTuple):
    """The value of a node that depends on no index."""

    value: Any


class _View(NamedTuple):
    """An array with an index for each axis, None for an axis that is not indexed yet."""

    array: Any
    indices: tuple[Interval | None, ...]


class _Items(NamedTuple):
    """The facts of several results."""

    facts: Sequence[_Fact]


_Fact = Any
"""A ``_Fixed``, ``_View``, ``_Items`` or ``Interval``; None for an unknown value."""


def bounds(
    graph: Graph, indices: Sequence[Interval], captured: Sequence[Any], span: int
) -> Interval:
    """Return the interval of a graph's output for intervals of its first inputs.

    Args:
        graph: A graph of integer scalars, followed by arrays, to a scalar.
        indices: An interval for each of the scalars.
        captured: The arrays, NumPy's or symbolic ones.
        span: The longest range of a captured array whose elements are bounded exactly.

    Returns:
        An interval of the output's dtype; of NumPy arrays unless it depends on symbolic ones.

    Example:
        >>> import graphc.tensor as gt
        >>> q, k = gt.iscalar("q"), gt.iscalar("k")
        >>> of_q = Interval(np.array([0, 4], "int32"), np.array([3, 7], "int32"))
        >>> of_k = Interval(np.array(0, "int32"), np.array(3, "int32"))
        >>> low, high = bounds(Graph([q, k], [q > k]), [of_q, of_k], [], 8)
        >>> low.tolist(), high.tolist()
        ([False, True], [True, True])
    """
    rank = max([np.ndim(x.low) for x in indices], default=0)
    (y,) = _Walk(rank, span).run(graph, [*indices, *map(_Fixed, captured)])
    return _as_scalar(y) or unknown(graph.outputs[0].type.dtype)


@dataclass(frozen=True)
class _Walk:
    """A walk over a graph.

    Attributes:
        rank: The number of axes of the blocks.
        span: The longest range of a captured array whose elements are bounded exactly.
    """

    rank: int
    span: int

    def run(self, graph: Graph, inputs: Sequence[_Fact]) -> list[_Fact]:
        """Return the facts of a graph's outputs, given the inputs' facts."""
        facts: dict[Node, _Fact] = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            if node not in facts:
                facts[node] = self._infer(node, [facts[x] for x in node.inputs])
        return [facts[y] for y in graph.outputs]

    def _infer(self, node: Node, xs: Sequence[_Fact]) -> _Fact:
        structure = _STRUCTURE.get(type(node.op))
        if structure is not None:
            return structure(self, node, xs)
        fixed = [x.value for x in xs if isinstance(x, _Fixed)]
        if len(fixed) == len(xs) and _has_nodes(fixed):
            return _Fixed(_compute(node, fixed))
        if not isinstance(node.type, TensorType) or is_complex(node.type.dtype):
            return None
        rule = _RULES.get(type(node.op))
        fact = None if rule is None else rule(self, node, xs)
        return _unbounded_interval(node) if fact is None else fact

    def interval(self, x: _Fact, ndim: int) -> Any:
        """Return the interval of an array's elements, from a fact; None if it is not known."""
        if isinstance(x, _Fixed):
            return elements.array_point(x.value, self.rank)
        if not isinstance(x, _View):
            return x if isinstance(x, Interval) else None
        array = elements.array_point(x.array, self.rank)
        if array is None:
            return None
        kept = iter(range(ndim))
        axes = [
            (slice(None), next(kept)) if i is None else (elements.align(i, self.rank, 0, ndim), 0)
            for i in x.indices
        ]
        return elements.take(
            array, elements.shape_of(array)[self.rank :], axes, (self.rank, ndim, self.span)
        )

    def operands(self, node: Node, xs: Sequence[_Fact]) -> Sequence[Interval] | None:
        """Return the operands of an elementwise node, which broadcast; None if one is unknown."""
        ndim = node.type.ndim
        ys = []
        for x, of in zip(xs, node.inputs, strict=True):
            y = self.interval(x, of.type.ndim)
            if y is None:
                return None
            missing = ndim - of.type.ndim
            is_number = is_point(y) and not np.ndim(y.low)
            ys.append(y if is_number else elements.align(y, self.rank, missing))
        return elements.limit_size(ys, self.rank) if ndim else ys


def _has_nodes(values: Sequence[Any]) -> bool:
    """Return whether operations of graphs compute with arrays: NumPy's and symbolic ones."""
    return not values or numpy_like(*values).name in {"NumPy", "graphc"}


def _unbounded_interval(node: Node) -> _Fact:
    return None if node.type.ndim else unknown(node.type.dtype)


def _compute(node: Node, values: Sequence[Any]) -> Any:
    """Return the value of a node, in NumPy if its inputs are NumPy arrays."""
    if isinstance(node.op, Constant):
        return node.op.value
    if all(isinstance(x, np.ndarray | np.generic) for x in values):
        inputs = dict(zip(node.inputs, values, strict=True))
        with np.errstate(all="ignore"):
            return evaluate(Graph(inputs, [node]), *inputs.values())[0]
    return node.with_inputs([as_tensor(x) for x in values])


def _as_scalar(x: _Fact) -> Interval | None:
    if isinstance(x, _Fixed):
        return point(x.value) if np.ndim(x.value) == 0 else None
    return x if isinstance(x, Interval) else None


# Rules of operations with several results, which also apply to fixed inputs.


def _make_tuple(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    return _Items(xs)


def _pick(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    (items,), op = xs, node.op
    assert isinstance(op, Pick)
    if isinstance(items, _Items):
        return items.facts[op.index]
    if isinstance(items, _Fixed):
        is_node = isinstance(items.value, Node)
        return _Fixed(Node.make(op, items.value) if is_node else items.value[op.index])
    return _unbounded_interval(node)


def _subgraph(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    return _Items(walk.run(node.op.graphs()[0], xs))


def _switch(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    """Return the results of all branches, and select the branch of the index."""
    index, *operands = xs
    which, branches = _as_scalar(index), node.op.graphs()
    results = zip(*[walk.run(branch, operands) for branch in branches], strict=True)
    return _Items(
        [
            _selection(walk, which, cases, y.type.ndim)
            for y, cases in zip(branches[0].outputs, results, strict=True)
        ]
    )


def _selection(walk: _Walk, which: Interval | None, cases: Sequence[_Fact], ndim: int) -> _Fact:
    intervals = [walk.interval(x, ndim) for x in cases]
    *first, y = intervals
    for i, case in reversed([*enumerate(first)]):
        if which is None or case is None or y is None:
            return None
        number = point(np.array(i, dtype_of(which.low)))
        # A number below the first branch selects it.
        row = "equal" if dtype_of(which.low) == "bool" else "less_equal"
        holds = elementwise_interval(row, which, number)
        y = (
            None
            if holds is None
            else where_interval(elements.align(holds, walk.rank, ndim), case, y)
        )
    return y if y is None or not ndim else elements.with_equal_shapes(y)


def _checked_indices(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    return xs[0]


def _cast(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    x = walk.interval(xs[0], node.type.ndim)
    return None if x is None else cast_interval(x, node.type.dtype)


def _where(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    operands = walk.operands(node, xs)
    return None if operands is None else _point_if_equal(where_interval(*operands))


def _elementwise(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    op, operands = node.op, walk.operands(node, xs)
    assert isinstance(op, Elementwise)
    if operands is None:
        return None
    if all(map(is_point, operands)) and _has_nodes([x.low for x in operands]):
        value = _at_points(op, [x.low for x in operands])
        return interval_around(value, op.facts.exact, loose=op.row not in RULES)
    y = elementwise_interval(op.row, *operands)
    return None if y is None else _point_if_equal(y)


def _point_if_equal(x: Interval) -> Interval:
    """Return a point for integers with equal ends, so that other axes may have ranges."""
    low, high = x
    is_known = isinstance(low, np.ndarray | np.generic) and low.dtype.kind in "iu"
    return point(low) if is_known and np.array_equal(low, high) else elements.with_equal_shapes(x)


def _at_points(op: Elementwise, values: Sequence[Any]) -> Any:
    if numpy_like(*values).name == "graphc":
        return Tensor.make(op, *[as_tensor(x) for x in values])
    dtype = op.infer(*[TensorType(dtype_of(x), ()) for x in values]).numpy_dtype
    with np.errstate(all="ignore"):
        return np.asarray(op.perform(*[np.asarray(x) for x in values]), dtype)


# Arrays.


def _of_array(function: Callable[[_Walk, Node, Interval], Interval | None]) -> Any:
    """Return the rule of a function of one array."""

    def apply(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
        x = walk.interval(xs[0], node.inputs[0].type.ndim)
        return None if x is None else function(walk, node, x)

    return apply


def _fold(name: str) -> Any:
    def apply(walk: _Walk, node: Node, x: Interval) -> Interval | None:
        axes = [walk.rank + axis for axis in node.op.axes]  # type: ignore[attr-defined]
        return None if 0 in elements.shape_of(x) else elements.fold(name, x, axes)

    return _of_array(apply)


def _sum(walk: _Walk, node: Node, x: Interval) -> Interval | None:
    lengths = [node.inputs[0].type.shape[axis] for axis in node.op.axes]  # type: ignore[attr-defined]
    if np.dtype(node.type.dtype).kind not in "iu" or None in lengths:
        return None
    axes = [walk.rank + axis for axis in node.op.axes]  # type: ignore[attr-defined]
    return elements.add_up(x, axes, lengths)


def _with_lengths(lengths: Callable[[Node, Sequence[int]], Sequence[int]]) -> Any:
    """Return the rule of a change of axes of length 1."""

    def apply(walk: _Walk, node: Node, x: Interval) -> Interval:
        rank = walk.rank
        x = elements.align(x, rank, 1)  # so that a scalar has all axes
        return elements.reshape(x, lambda shape: (*shape[:rank], *lengths(node, shape[rank + 1 :])))

    return _of_array(apply)


def _expanded(node: Node, lengths: Sequence[int]) -> Sequence[int]:
    kept = iter(lengths)
    axes = node.op.axes  # type: ignore[attr-defined]
    return [1 if axis in axes else next(kept) for axis in range(node.type.ndim)]


def _squeezed(node: Node, lengths: Sequence[int]) -> Sequence[int]:
    axes = node.op.axes  # type: ignore[attr-defined]
    return [n for axis, n in enumerate(lengths) if axis not in axes]


def _transpose(walk: _Walk, node: Node, x: Interval) -> Interval:
    axes = [walk.rank + axis for axis in node.op.axes]  # type: ignore[attr-defined]
    order = (*range(walk.rank), *axes)
    return elements.map_ends(x, lambda xp, end: xp.transpose(end, order))


def _broadcast(walk: _Walk, node: Node, x: Interval) -> Interval:
    return elements.align(x, walk.rank, node.type.ndim - node.inputs[0].type.ndim)


def _reshape(walk: _Walk, node: Node, x: Interval) -> Interval | None:
    old, new, rank = node.inputs[0].type.shape, node.type.shape, walk.rank
    if None in old or None in new:
        return None
    x = elements.align(x, rank, 1)
    x = elements.reshape(x, lambda shape: (*shape[:rank], *shape[rank + 1 :]))
    x = elements.broadcast(x, (*elements.shape_of(x)[:rank], *old))
    return elements.reshape(x, lambda shape: (*shape[:rank], *new))


def _concatenate(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    bounded = [walk.interval(x, of.type.ndim) for x, of in zip(xs, node.inputs, strict=True)]
    shapes = [x.type.shape for x in node.inputs]
    if any(x is None for x in bounded) or any(None in shape for shape in shapes):
        return None
    axis = node.op.axis  # type: ignore[attr-defined]
    return elements.concatenate(bounded, shapes, walk.rank, axis)


# Indexing.


def _index(walk: _Walk, node: Node, xs: Sequence[_Fact]) -> _Fact:
    """Return an array indexed by scalars, axis by axis, or by arrays at once."""
    base, *symbolic = xs
    entries: Sequence[Entry] = node.op.entries  # type: ignore[attr-defined]
    holes = [x.type.ndim for x in node.inputs[1:]]
    view = _View(base.value, (None,) * base.value.ndim) if isinstance(base, _Fixed) else base
    are_scalars = not any(holes) and all(
        entry == Range() or isinstance(entry, int | Hole) for entry in entries
    )
    if isinstance(view, _View) and are_scalars:
        return _view(walk, view, entries, symbolic)
    return _elements(walk, node, base, symbolic)


def _view(walk: _Walk, view: _View, entries: Sequence[Entry], symbolic: Sequence[_Fact]) -> _Fact:
    holes, indices = iter(symbolic), list(view.indices)
    lengths = numpy_like(view.array).shape_of(view.array)
    open_axes = [axis for axis, index in enumerate(indices) if index is None]
    for axis, entry in zip(open_axes, entries, strict=False):
        if not isinstance(entry, Range):
            index = _entry_index(entry, holes)
            if index is None:
                return None
            indices[axis] = wrap_indices(index, lengths[axis])
    if None in indices:
        return _View(view.array, tuple(indices))
    return gather(point(view.array), [x for x in indices if x is not None], walk.span)


def _entry_index(entry: Entry, holes: Any) -> Interval | None:
    if isinstance(entry, Hole):
        return _as_scalar(next(holes))
    return point(np.array(entry, np.int64))


def _elements(walk: _Walk, node: Node, base: _Fact, symbolic: Sequence[_Fact]) -> _Fact:
    """Return the interval of an array indexed by arrays and slices of static bounds."""
    op, (source, *holes) = node.op, node.inputs
    assert isinstance(op, Index)
    x, lengths = walk.interval(base, source.type.ndim), source.type.shape
    entries = op.entries
    if x is None or None in lengths or None in entries or op.bounds():
        return None
    values = iter(zip(symbolic, holes, strict=True))
    wide = max([hole.type.ndim for hole in holes], default=0)
    first = op.array_axis() if any(isinstance(entry, int | Hole) for entry in entries) else 0
    ndim, kept = node.type.ndim, 0
    axes: list[tuple[elements.Axis, int]] = []
    for entry, n in zip(entries, lengths, strict=True):
        if isinstance(entry, Range):
            position = kept if kept < first else kept + wide
            axes.append((slice(entry.start, entry.stop, entry.step), position))
            kept += 1
            continue
        fact, hole = next(values) if isinstance(entry, Hole) else (_Fixed(np.array(entry)), None)
        own = 0 if hole is None else hole.type.ndim
        index, after = walk.interval(fact, own), ndim - first - wide
        if index is None:
            return None
        index = elements.align(index, walk.rank, ndim - after - own, after)
        axes.append((wrap_indices(index, n), 0))
    return elements.take(x, lengths, axes, (walk.rank, ndim, walk.span))


_Rule = Callable[[_Walk, Node, Sequence[_Fact]], _Fact]

_STRUCTURE: dict[type[Op], _Rule] = {
    MakeTuple: _make_tuple,
    Pick: _pick,
    Subgraph: _subgraph,
    Switch: _switch,
}

_RULES: dict[type[Op], _Rule] = {
    CheckedIndices: _checked_indices,
    Cast: _cast,
    Where: _where,
    Elementwise: _elementwise,
    All: _fold("all"),
    Any_: _fold("any"),
    Max: _fold("max"),
    MaxWithDefault: _fold("max"),
    Min: _fold("min"),
    MinWithDefault: _fold("min"),
    Sum: _of_array(_sum),
    ExpandDims: _with_lengths(_expanded),
    Squeeze: _with_lengths(_squeezed),
    Transpose: _of_array(_transpose),
    BroadcastTo: _of_array(_broadcast),
    Reshape: _of_array(_reshape),
    Concatenate: _concatenate,
    Index: _index,
}
