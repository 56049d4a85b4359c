"""Parts of captured arrays that indices choose: which elements they may be.

What ``x[i]`` leaves of an array is kept as a box in it, so that ``x[i][j]`` is an element of ``x``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from graphc.attention.intervals.interval import (
    Interval,
    casted,
    chosen,
    dtype_of,
    is_point,
    point,
)
from graphc.attention.intervals.ranges import gathered
from graphc.attention.intervals.rules import applied
from graphc.attention.jax.spreads import MOST, Spread, hull, single
from graphc.implicit.level import numpy_like

__all__ = ["Box", "contents", "dynamic_slice", "gather", "squeezed"]

LONGEST = 2**10
"""The longest range of indices that is looked up as such: ten times an array holds all of them."""

REREAD = 4
"""Ranges of which the elements are no more than so many times those of the array are read whole."""


class Box(NamedTuple):
    """A box of consecutive elements of an array along each axis.

    Attributes:
        table: The array.
        starts: For each of its axes, the index of the box's first element; None for 0.
        sizes: For each of its axes, how many elements of it are in the box.
        axes: For each axis of the box, that of the array; axes of one element may be left out.
    """

    table: Any
    starts: tuple[Interval | None, ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.sizes[axis] for axis in self.axes)


def _whole(x: Any) -> Box:
    """All of an array that is known."""
    return Box(x, (None,) * x.ndim, tuple(x.shape), tuple(range(x.ndim)))


def squeezed(box: Box, axes: Sequence[int]) -> Box:
    """The box without some axes of one element."""
    return box._replace(axes=tuple(a for i, a in enumerate(box.axes) if i not in axes))


def contents(box: Box) -> Spread:
    """The elements of a box."""
    offsets = list(np.ndindex(*box.sizes)) if math.prod(box.sizes) <= MOST else []
    if not offsets:
        return single(_range_of(box), box.shape)
    indices = [
        [_moved(start, i) for start, i in zip(box.starts, at, strict=True)] for at in offsets
    ]
    parts = tuple([_looked_up(point(box.table), each) for each in indices])
    # Without axes of one element, and with those in order, elements are where they were.
    return Spread(parts, np.arange(len(parts)).reshape(box.shape))


def _looked_up(x: Interval, indices: Sequence[Interval]) -> Interval:
    """The elements of an array at indices within it."""
    wide = [index for index in indices if not is_point(index)]
    width = max(map(_width, wide), default=1)
    if len(wide) == 1 and isinstance(x.low, jax.core.Tracer):
        shape = np.broadcast_shapes(*[end.shape for index in indices for end in index])
        if math.prod(shape) * width <= REREAD * x.low.size:
            return _read(x, indices, width)
    return gathered(x, indices, min(LONGEST, width))


def _read(x: Interval, indices: Sequence[Interval], width: int) -> Interval:
    """The same of few ranges: each is read whole, which is sooner compiled than tables."""
    steps = np.arange(width, dtype=np.int32)
    places = tuple(
        [index.low[..., None] if is_point(index) else _range(index, steps) for index in indices]
    )
    low = x.low[places]
    high = low if is_point(x) else x.high[places]
    return Interval(jnp.min(low, -1), jnp.max(high, -1))


def _range(index: Interval, steps: Any) -> Any:
    level = numpy_like(*index)
    return level.minimum(index.low[..., None] + steps, index.high[..., None])


def _width(index: Interval) -> int:
    """How many indices there are in the longest range, or more."""
    if not all(isinstance(end, np.ndarray | np.generic) for end in index):
        return LONGEST
    return int(np.max(index.high.astype(np.int64) - index.low)) + 1


def _moved(start: Interval | None, by: int) -> Interval:
    if start is None:
        return point(np.array(by, np.int32))
    return start if not by else _applied("add", start, _number(by, start))


def _applied(name: str, *operands: Interval) -> Interval:
    found = applied(name, *operands)
    assert found is not None
    return found


def _number(value: int, like: Interval) -> Interval:
    return point(np.array(value, dtype_of(like.low)))


def _range_of(box: Box) -> Interval:
    """What holds of all elements of a box."""
    level = numpy_like(box.table)
    is_whole = [size == n for size, n in zip(box.sizes, box.table.shape, strict=True)]
    axes = tuple([axis for axis, flag in enumerate(is_whole) if flag])
    ends = Interval(level.min(box.table, axis=axes), level.max(box.table, axis=axes))
    indices = []
    for start, size, flag in zip(box.starts, box.sizes, is_whole, strict=True):
        if not flag:
            first, last = _moved(start, 0), _moved(start, size - 1)
            indices.append(Interval(first.low, last.high) if size > 1 else first)
    return _looked_up(ends, indices) if indices else ends


def _chosen_box(x: Box, starts: Sequence[Interval | None], sizes: Sequence[int]) -> Box:
    """A box in a box; starts are clipped to where it fits in."""
    places, counts = list(x.starts), list(x.sizes)
    for axis, start, size in zip(x.axes, starts, sizes, strict=True):
        room = x.sizes[axis] - size
        counts[axis] = size
        if start is None or not room:
            continue
        start = _clipped(start, room)
        before = places[axis]
        places[axis] = start if before is None else _applied("add", before, start)
    return Box(x.table, tuple(places), tuple(counts), x.axes)


def _clipped(start: Interval, room: int) -> Interval:
    """A start from 0 to the last at which a box fits in, as int32."""
    most = min(room, int(np.iinfo(dtype_of(start.low)).max))
    inside = _applied("clip", start, _number(0, start), _number(most, start))
    return casted(point(inside.low) if is_point(start) else inside, "int32")


def dynamic_slice(eqn: JaxprEqn, x: Any, starts: Sequence[Interval]) -> Any:
    """The elements from an index on along each axis.

    Args:
        eqn: The equation.
        x: The array: known, a box, or a spread.
        starts: For each axis.
    """
    if isinstance(x, Spread):
        return single(hull(x), eqn.params["slice_sizes"])
    box = x if isinstance(x, Box) else _whole(x)
    return _chosen_box(box, starts, eqn.params["slice_sizes"])


def gather(eqn: JaxprEqn, x: Any, index: Spread) -> Any:
    """Boxes of an array: one for each vector of indices, which are the last axis of ``index``.

    Args:
        eqn: The equation.
        x: The array: known, a box, or a spread.
        index: The elements of the vectors.
    """
    how, shape = eqn.params["dimension_numbers"], _shape(eqn)
    sizes = eqn.params["slice_sizes"]
    fills = eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP
    if isinstance(x, Spread) or how.operand_batching_dims:
        kept = hull(x if isinstance(x, Spread) else _all_of(x))
        return single(_or_fill(eqn, kept) if fills else kept, shape)
    box = x if isinstance(x, Box) else _whole(x)
    starts: list[Interval | None] = [None] * len(sizes)
    for i, axis in enumerate(how.start_index_map):
        starts[axis] = hull(_column(index, i))
    found = _chosen_box(box, starts, sizes)
    inside = _inside(box.shape, starts, sizes) if fills else None
    if index.places.ndim == 1 and _is_certain(inside):
        return squeezed(found, how.collapsed_slice_dims)
    bounds = _range_of(found)
    if inside is not None:
        bounds = chosen(inside, bounds, _fill(eqn))
    return single(bounds, shape)


def _shape(eqn: JaxprEqn) -> tuple[int, ...]:
    aval: Any = eqn.outvars[0].aval
    return tuple(aval.shape)


def _all_of(x: Any) -> Spread:
    return contents(x if isinstance(x, Box) else _whole(x))


def _column(index: Spread, i: int) -> Spread:
    """One index of each vector."""
    places = index.places[..., i]
    used, numbers = np.unique(places, return_inverse=True)
    return Spread(tuple([index.parts[n] for n in used]), numbers.reshape(places.shape))


def _inside(
    shape: Sequence[int], starts: Sequence[Interval | None], sizes: Sequence[int]
) -> Interval | None:
    """Whether boxes are within an array; None where they always are."""
    made = None
    for n, start, size in zip(shape, starts, sizes, strict=True):
        if start is None:
            continue
        most = min(n - size, int(np.iinfo(dtype_of(start.low)).max))
        for test in (
            _applied("greater_equal", start, _number(0, start)),
            _applied("less_equal", start, _number(most, start)),
        ):
            made = test if made is None else _applied("logical_and", made, test)
    return made


def _is_certain(condition: Interval | None) -> bool:
    if condition is None:
        return True
    return isinstance(condition.low, np.ndarray | np.generic) and bool(np.all(condition.low))


def _fill(eqn: JaxprEqn) -> Interval:
    """What stands for elements outside of the array."""
    aval: Any = eqn.outvars[0].aval
    value = eqn.params["fill_value"]
    if value is None:
        value = _default_fill(aval.dtype)
    return point(np.array(value, aval.dtype))


def _default_fill(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    if dtype.kind == "f":
        return np.nan
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _or_fill(eqn: JaxprEqn, x: Interval) -> Interval:
    return hull(Spread((x, _fill(eqn)), np.arange(2)))
