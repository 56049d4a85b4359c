"""Bounds of a graph of one element over intervals of its indices.

A walk over the graph's nodes knows of each node one of three things: its value, where it does not
depend on the indices; an interval, where it is a scalar that does; the array and the indices so
far, where it is a part of an array that is indexed axis by axis. Of anything else nothing is known,
nor of an ``Opaque`` node, which stands for what is no graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals.interval import (
    Interval,
    casted,
    chosen,
    dtype_of,
    is_point,
    point,
    settled,
    unknown,
)
from graphc.attention.intervals.ranges import gathered, wrapped
from graphc.attention.intervals.rules import applied
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
    """A scalar that some other program computes of the inputs.

    Attributes:
        dtype: Its dtype.
        number: What tells it from others of the same inputs.
    """

    dtype: str
    number: int

    def infer(self, *inputs: TensorType) -> TensorType:
        return TensorType(self.dtype, ())


class _Fixed(NamedTuple):
    """The value of a node that depends on no index."""

    value: Any


class _View(NamedTuple):
    """A part of an array: an index for each axis, None for a whole axis."""

    array: Any
    indices: tuple[Interval | None, ...]


_Known = _Fixed | _View | Interval | None


def bounds(
    graph: Graph, indices: Sequence[Interval], captured: Sequence[Any], span: int
) -> Interval:
    """The interval of a graph's output for its first inputs in intervals.

    Args:
        graph: Of some integer scalars and then arrays to a scalar.
        indices: For each of the scalars.
        captured: The arrays: NumPy's or symbolic ones.
        span: The longest range of a captured array that is looked up as such.

    Returns:
        An interval of the output's dtype, of NumPy's arrays as far as no symbolic one is in it.

    Example:
        >>> import graphc.tensor as gt
        >>> q, k = gt.iscalar("q"), gt.iscalar("k")
        >>> of_q = Interval(np.array([0, 4], "int32"), np.array([3, 7], "int32"))
        >>> of_k = Interval(np.array(0, "int32"), np.array(3, "int32"))
        >>> low, high = bounds(Graph([q, k], [q > k]), [of_q, of_k], [], 8)
        >>> low.tolist(), high.tolist()
        ([False, True], [True, True])
    """
    known: dict[Node, _Known] = dict(
        zip(graph.inputs, [*indices, *map(_Fixed, captured)], strict=True)
    )
    for node in graph.nodes:
        if node not in known:
            known[node] = _found(node, [known[x] for x in node.inputs], span)
    (y,) = graph.outputs
    return _scalar(known[y]) or unknown(y.type.dtype)


def _found(node: Node, xs: Sequence[_Known], span: int) -> _Known:
    fixed = [x.value for x in xs if isinstance(x, _Fixed)]
    if len(fixed) == len(xs) and _has_nodes(fixed) and not isinstance(node.op, Opaque):
        return _Fixed(_computed(node, fixed))
    if not isinstance(node.type, TensorType) or is_complex(node.type.dtype):
        return None
    if isinstance(node.op, Index):
        return _indexed(node.op.entries, xs, span) or _anything(node)
    if node.type.ndim:
        return None
    if isinstance(node.op, CheckedIndices):
        return xs[0]
    return _of_scalars(node, xs) or _anything(node)


def _has_nodes(values: Sequence[Any]) -> bool:
    """Whether operations of graphs compute with arrays: with NumPy's and symbolic ones."""
    return not values or numpy_like(*values).name in {"NumPy", "graphc"}


def _anything(node: Node) -> _Known:
    return None if node.type.ndim else unknown(node.type.dtype)


def _computed(node: Node, values: Sequence[Any]) -> Any:
    """The value of a node, in NumPy where its inputs are there."""
    if isinstance(node.op, Constant):
        return node.op.value
    if all(isinstance(x, np.ndarray | np.generic) for x in values):
        known = dict(zip(node.inputs, values, strict=True))
        with np.errstate(all="ignore"):
            return evaluate(Graph(known, [node]), *known.values())[0]
    return node.with_inputs([as_tensor(x) for x in values])


def _scalar(x: _Known) -> Interval | None:
    if isinstance(x, _Fixed):
        return point(x.value) if np.ndim(x.value) == 0 else None
    return x if isinstance(x, Interval) else None


def _of_scalars(node: Node, xs: Sequence[_Known]) -> Interval | None:
    """The interval of a function of scalars; None where nothing is known."""
    found = [_scalar(x) for x in xs]
    operands = [x for x in found if x is not None]
    if len(operands) < len(found):
        return None
    match node.op:
        case Cast(dtype):
            return casted(operands[0], dtype)
        case Where():
            return _pinned(chosen(*operands))
        case Elementwise() as op if all(map(is_point, operands)) and _has_nodes(
            [x.low for x in operands]
        ):
            value = _at_points(op, [x.low for x in operands])
            return settled(value, op.facts.exact, loose=op.row not in RULES)
        case Elementwise() as op:
            y = applied(op.row, *operands)
            return None if y is None else _pinned(y)
    return None


def _pinned(x: Interval) -> Interval:
    """Integers that are known, if they are: other axes may then be looked up in ranges."""
    low, high = x
    is_known = isinstance(low, np.ndarray | np.generic) and low.dtype.kind in "iu"
    return point(low) if is_known and np.array_equal(low, high) else x


def _at_points(op: Elementwise, values: Sequence[Any]) -> Any:
    if numpy_like(*values).name == "graphc":
        return Tensor.make(op, *[as_tensor(x) for x in values])
    dtype = op.infer(*[TensorType(dtype_of(x), ()) for x in values]).numpy_dtype
    with np.errstate(all="ignore"):
        return np.asarray(op.perform(*[np.asarray(x) for x in values]), dtype)


def _indexed(entries: Sequence[Entry], xs: Sequence[_Known], span: int) -> _Known:
    """An array indexed by scalars; None for other indices."""
    view, *symbolic = xs
    if isinstance(view, _Fixed):
        view = _View(view.value, (None,) * _rank(view.value))
    if not isinstance(view, _View):
        return None
    holes, indices = iter(symbolic), list(view.indices)
    lengths = numpy_like(view.array).shape_of(view.array)
    left = [axis for axis, index in enumerate(indices) if index is None]
    for axis, entry in zip(left, entries, strict=False):
        if entry == Range():
            continue
        if isinstance(entry, Range) or entry is None:
            return None
        index = _scalar(next(holes)) if entry is HOLE else point(np.array(entry, np.int64))
        if index is None:
            return None
        indices[axis] = wrapped(index, lengths[axis])
    found = [index for index in indices if index is not None]
    if len(found) < len(indices):
        return _View(view.array, tuple(indices))
    return gathered(point(view.array), found, span)


def _rank(x: Any) -> int:
    rank: int = x.ndim
    return rank
