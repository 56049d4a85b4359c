"""Bounds of a graph of one element over intervals of its indices.

A walk over the graph infers one of three facts for each node: the value of a node that does not
depend on the indices; the interval of a scalar that does; the array and the indices so far of an
array that is indexed axis by axis. All other nodes are unknown, and so are ``Opaque`` nodes, which
stand for computations that are not graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

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
from graphc.ir import Constant, Graph, Node, Op, TensorType, is_complex
from graphc.loop.evaluate import evaluate
from graphc.tensor.arrays.index import HOLE, Entry, Index, Range
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True, slots=True)
class Opaque(Op):
    """A scalar that another program computes from the inputs.

    Attributes:
        dtype: The dtype.
        number: A number that is unique among nodes of the same inputs.
    """

    dtype: str
    number: int

    def infer(self, *inputs: TensorType) -> TensorType:
        return TensorType(self.dtype, ())


class _Fixed(NamedTuple):
    """The value of a node that depends on no index."""

    value: Any


class _View(NamedTuple):
    """An array with an index for each axis, None for an axis that is not indexed yet."""

    array: Any
    indices: tuple[Interval | None, ...]


_Fact = _Fixed | _View | Interval | None


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
    facts: dict[Node, _Fact] = dict(
        zip(graph.inputs, [*indices, *map(_Fixed, captured)], strict=True)
    )
    for node in graph.nodes:
        if node not in facts:
            facts[node] = _infer(node, [facts[x] for x in node.inputs], span)
    (y,) = graph.outputs
    return _as_scalar(facts[y]) or unknown(y.type.dtype)


def _infer(node: Node, xs: Sequence[_Fact], span: int) -> _Fact:
    fixed = [x.value for x in xs if isinstance(x, _Fixed)]
    if len(fixed) == len(xs) and _has_nodes(fixed) and not isinstance(node.op, Opaque):
        return _Fixed(_compute(node, fixed))
    if not isinstance(node.type, TensorType) or is_complex(node.type.dtype):
        return None
    if isinstance(node.op, Index):
        return _index(node.op.entries, xs, span) or _unbounded_interval(node)
    if node.type.ndim:
        return None
    if isinstance(node.op, CheckedIndices):
        return xs[0]
    return _scalar_interval(node, xs) or _unbounded_interval(node)


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


def _scalar_interval(node: Node, xs: Sequence[_Fact]) -> Interval | None:
    """Return the interval of a function of scalars; None if it is unknown."""
    operands = [scalar for x in xs if (scalar := _as_scalar(x)) is not None]
    if len(operands) < len(xs):
        return None
    match node.op:
        case Cast(dtype):
            return cast_interval(operands[0], dtype)
        case Where():
            return _point_if_equal(where_interval(*operands))
        case Elementwise() as op if all(map(is_point, operands)) and _has_nodes(
            [x.low for x in operands]
        ):
            value = _at_points(op, [x.low for x in operands])
            return interval_around(value, op.facts.exact, loose=op.row not in RULES)
        case Elementwise() as op:
            y = elementwise_interval(op.row, *operands)
            return None if y is None else _point_if_equal(y)
    return None


def _point_if_equal(x: Interval) -> Interval:
    """Return a point for integers with equal ends, so that other axes may have ranges."""
    low, high = x
    is_known = isinstance(low, np.ndarray | np.generic) and low.dtype.kind in "iu"
    return point(low) if is_known and np.array_equal(low, high) else x


def _at_points(op: Elementwise, values: Sequence[Any]) -> Any:
    if numpy_like(*values).name == "graphc":
        return Tensor.make(op, *[as_tensor(x) for x in values])
    dtype = op.infer(*[TensorType(dtype_of(x), ()) for x in values]).numpy_dtype
    with np.errstate(all="ignore"):
        return np.asarray(op.perform(*[np.asarray(x) for x in values]), dtype)


def _index(entries: Sequence[Entry], xs: Sequence[_Fact], span: int) -> _Fact:
    """Return an array indexed by scalars; None for other indices."""
    view, *symbolic = xs
    if isinstance(view, _Fixed):
        view = _View(view.value, (None,) * view.value.ndim)
    if not isinstance(view, _View):
        return None
    holes, indices = iter(symbolic), list(view.indices)
    lengths = numpy_like(view.array).shape_of(view.array)
    open_axes = [axis for axis, index in enumerate(indices) if index is None]
    for axis, entry in zip(open_axes, entries, strict=False):
        if entry == Range():
            continue
        if isinstance(entry, Range) or entry is None:
            return None
        index = _as_scalar(next(holes)) if entry is HOLE else point(np.array(entry, np.int64))
        if index is None:
            return None
        indices[axis] = wrap_indices(index, lengths[axis])
    if None in indices:
        return _View(view.array, tuple(indices))
    return gather(point(view.array), [x for x in indices if x is not None], span)
