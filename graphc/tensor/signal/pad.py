"""Padding: elements added in front of and behind an array's own."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Constant, Op, TensorType, is_inexact, is_integer
from graphc.tensor.arrays.broadcast import broadcast_to, repeated
from graphc.tensor.arrays.create import arange, ones_like, zeros_like
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import max, min, sum
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.elementwise import cast, equal, floor, maximum, round, where, widened_name
from graphc.tensor.core.shape import entries, length, lengths, target_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function
from graphc.tensor.statistics.quantile import median
from graphc.tensor.statistics.statistics import mean


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """The array with a constant in front of and behind its own elements, along all axes.

    Inputs are the array, the number and the symbolic widths.

    Attributes:
        widths: How many stand in front of and behind each axis; None stands for an input.
    """

    widths: tuple[int | None, ...]
    name = "pad"

    def infer(self, x: TensorType, value: TensorType, *symbolic: TensorType) -> TensorType:
        sides = zip(self.widths[::2], x.shape, self.widths[1::2], strict=True)
        return x.with_shape(
            tuple(None if None in side else builtins.sum(n or 0 for n in side) for side in sides)
        )

    def host_inputs(self) -> tuple[int, ...]:
        return tuple(range(2, 2 + self.widths.count(None)))

    def sides(self, symbolic: Sequence[Any]) -> list[tuple[int, int]]:
        """The widths in front of and behind each axis."""
        widths = target_shape(self.widths, symbolic)
        return list(zip(widths[::2], widths[1::2], strict=True))

    def perform(self, x: np.ndarray[Any, Any], value: Any, *symbolic: Any) -> Any:
        return np.pad(x, self.sides(symbolic), constant_values=value)

    def _own(self, x: Tensor, symbolic: Sequence[Tensor]) -> tuple[slice, ...]:
        """The position of the array's own elements in the result."""
        left = iter(symbolic)
        widths: list[Any] = [next(left) if n is None else n for n in self.widths]
        pairs = zip(widths[::2], lengths(x), strict=True)
        return tuple(slice(start, start + n) for start, n in pairs)

    def pullback(
        self, g: Tensor, y: Tensor, x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Sequence[Any]:
        own = self._own(x, symbolic)
        by_value = (
            sum(g[own].set(0)) if value.inputs or not isinstance(value.op, Constant) else None
        )
        return (g[own], by_value, *(None for _ in symbolic))

    def pushforward(
        self, tangents: Sequence[Any], y: Tensor, x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Any:
        dx, dvalue = tangents[:2]
        if dx is None and dvalue is None:
            return None
        dx = zeros_like(x) if dx is None else dx
        return Tensor.make(self, dx, zeros_like(value) if dvalue is None else dvalue, *symbolic)

    def batch(
        self, size: Any, batched: Sequence[bool], x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Tensor:
        x = x if batched[0] else repeated(x, size)
        op = Pad((0, 0, *self.widths))
        if not batched[1]:
            return Tensor.make(op, x, value, *symbolic)
        # Each element of the batch has a number of its own.
        own = Tensor.make(op, ones_like(x, "bool"), as_tensor(False), *symbolic)
        padded = Tensor.make(op, x, cast(0, x.dtype), *symbolic)
        return where(own, padded, expand_dims(value, tuple(range(1, x.ndim))))


@dataclass(frozen=True)
class Padded:
    """An array, the axis along which it is padded, and the widths in front and behind."""

    x: Tensor
    axis: int
    widths: tuple[int | Tensor, int | Tensor]

    @property
    def n(self) -> int | Tensor:
        """The axis's length."""
        return length(self.x, self.axis)

    def part(self, places: Any) -> Tensor:
        """The elements at given positions along the axis: a slice, an integer or an array."""
        return self.x[slice_at_axis(places, self.axis)]

    def edge(self, side: int) -> Tensor:
        """The first or the last element along the axis."""
        return expand_dims(self.part(-side), self.axis)

    def along(self, values: Tensor) -> Tensor:
        """A vector placed along the axis."""
        return expand_dims(values, [i for i in range(self.x.ndim) if i != self.axis])

    def filled(self, value: Tensor, side: int) -> Tensor:
        """A value that is constant along the axis, repeated as often as the padding is wide."""
        shape = lengths(self.x)
        shape[self.axis] = self.widths[side]
        return broadcast_to(cast(value, self.x.dtype), shape)

    def places(self, side: int) -> Tensor:
        """The positions of the padding, counted from the first of the array's own elements."""
        count = arange(self.widths[side])
        return count - self.widths[0] if side == 0 else count + self.n

    def fits(self, side: int, n: int | Tensor) -> bool:
        """Whether the padding is known to be at most this wide."""
        width = self.widths[side]
        return isinstance(n, int) and isinstance(width, int) and width <= n


def _at_least(least: int, n: Any) -> Any:
    return maximum(n, least) if isinstance(n, Tensor) else builtins.max(n, least)


# The padding of one side of an axis, 0 in front and 1 behind, given the mode's option for it.


def constant(at: Padded, side: int, value: Any) -> Tensor:
    """One value."""
    return at.filled(as_tensor(value), side)


def edge(at: Padded, side: int, _: None) -> Tensor:
    """The element at the edge."""
    return at.filled(at.edge(side), side)


def linear_ramp(at: Padded, side: int, end: Any) -> Tensor:
    """A ramp from the end value, inclusive, to the edge, exclusive; integers are floored."""
    dtype, width, end = at.x.dtype, at.widths[side], as_tensor(end)
    count = arange(width)
    place = at.along(count if side == 0 else flip(count))
    if is_integer(dtype) and is_integer(end.dtype):
        # Without rounding errors, which would go to the next integer.
        whole = cast(end, "int64")
        return cast(place * (cast(at.edge(side), "int64") - whole) // width + whole, dtype)
    wide = widened_name(dtype) if is_inexact(dtype) else "float64"
    first, last = cast(end, wide), cast(at.edge(side), wide)
    ramp = cast(place, wide) * ((last - first) / cast(width, wide)) + first
    return cast(floor(ramp) if is_integer(dtype) else ramp, dtype)


def statistic(reduce: Callable[..., Tensor], at: Padded, side: int, stat_length: Any) -> Tensor:
    """A statistic of the elements next to the edge, or of all; means of integers are rounded."""
    x = at.x
    if stat_length is not None:
        if isinstance(stat_length, int) and stat_length < 1:
            raise ArgumentError(
                f"pad: stat_length={stat_length} is not positive.", "Pass 1 or more, or None."
            )
        # More than there are is all.
        start = _at_least(0, at.n - stat_length)
        x = at.part(slice(None, stat_length) if side == 0 else slice(start, None))
    value = reduce(x, at.axis, keepdims=True)
    return at.filled(round(value) if is_integer(at.x.dtype) else value, side)


def mirrored(with_edge: bool, at: Padded, side: int, reflect_type: str) -> Tensor:
    """The elements in reverse order, and in order again where the padding is wider than they are.

    Every other period is reversed. An odd reflection turns it about the edge it starts from too,
    so that two periods add a rise.
    """
    n, odd = at.n, reflect_type == "odd"
    period = n if with_edge else n - 1
    if at.fits(side, period):
        start: Any = n - period if side == 0 else period - at.widths[1]
        part = flip(at.part(slice(start, start + at.widths[side])), at.axis)
        return 2 * at.edge(side) - part if odd else part
    places, period = at.places(side), _at_least(1, period)
    turns, within = places // period, places % period
    back = turns % 2
    found = at.part(within + back * (n - 1 - 2 * within))
    if not odd:
        return found
    first, last = at.edge(0), at.edge(1)
    found = where(at.along(equal(back, 1)), 2 * last - found, found)
    rises = at.along(cast(turns - back, at.x.dtype))
    return where(equal(rises, 0), found, found + rises * (last - first))


def wrap(at: Padded, side: int, _: None) -> Tensor:
    """The elements again, from the other end."""
    n = at.n
    if at.fits(side, n):
        start: Any = n - at.widths[0] if side == 0 else 0
        return at.part(slice(start, start + at.widths[side]))
    return at.part(at.places(side) % _at_least(1, n))


@dataclass(frozen=True)
class PadMode:
    """A mode's function, and the keyword that it takes, with its default."""

    padding: Callable[[Padded, int, Any], Tensor]
    option: str = ""
    default: Any = None


MODES = {
    "constant": PadMode(constant, "constant_values", 0),
    "edge": PadMode(edge),
    "linear_ramp": PadMode(linear_ramp, "end_values", 0),
    "empty": PadMode(constant, default=0),
    "maximum": PadMode(partial(statistic, max), "stat_length"),
    "mean": PadMode(partial(statistic, mean), "stat_length"),
    "median": PadMode(partial(statistic, median), "stat_length"),
    "minimum": PadMode(partial(statistic, min), "stat_length"),
    "reflect": PadMode(partial(mirrored, False), "reflect_type", "even"),
    "symmetric": PadMode(partial(mirrored, True), "reflect_type", "even"),
    "wrap": PadMode(wrap),
}


@function
def pad(x: TensorLike, pad_width: Any, mode: str = "constant", **options: Any) -> Tensor:
    """Return an array with elements added in front and behind, one axis after the other.

    Args:
        x: Any shape and dtype.
        pad_width: The widths: one Python or symbolic integer for all sides; ``(before, after)``
            for all axes; or such a pair for each axis, also by axis in a dict.
        mode: ``"constant"``; ``"edge"``, the element at the edge; ``"linear_ramp"``, from the edge
            to an end value; ``"maximum"``, ``"mean"``, ``"median"`` or ``"minimum"`` of the
            elements; ``"reflect"`` and ``"symmetric"``, the elements in reverse order without and
            with the edge; ``"wrap"``, the elements from the other end; ``"empty"``, values of no
            meaning.
        options: ``constant_values`` (0) and ``end_values`` (0) of their modes, for all sides or as
            ``pad_width``; ``stat_length``, how many elements next to the edge the statistics take,
            all by default; ``reflect_type``, ``"even"`` or ``"odd"``: twice the edge less the
            reflection.

    Returns:
        An array of x's dtype.

    Raises:
        ArgumentError: No such mode, or an option that it does not take.
        ShapeError: A negative width, not one for each axis, or an empty axis in a mode that needs
            elements.

    Example:
        >>> pad([1, 2, 3], (1, 2), mode="reflect").eval(mode="NUMPY").tolist()
        [2, 1, 2, 3, 2, 1]
    """
    x = as_tensor(x)
    found = _mode(mode, options)
    option = options.get(found.option, found.default)
    given = [(option, option)] * x.ndim
    if found.option != "reflect_type" and option is not None:
        given = _pairs(found.option, option, x.ndim)
    all_widths = _widths(pad_width, x.ndim)
    if found.padding is constant and not isinstance(option, list | tuple | np.ndarray):
        return _with_number(x, option, all_widths)
    for axis, widths in enumerate(all_widths):
        if widths == (0, 0):
            continue
        at = Padded(x, axis, widths)
        _check_filled(at, mode)
        sides = [
            None if at.widths[side] == 0 else found.padding(at, side, given[axis][side])
            for side in (0, 1)
        ]
        parts = [sides[0], x, sides[1]]
        x = concatenate([part for part in parts if part is not None], axis)
    return x


def _with_number(x: Tensor, number: Any, widths: Sequence[tuple[Any, Any]]) -> Tensor:
    value = cast(as_tensor(number), x.dtype)
    if value.ndim:
        raise ShapeError(f"pad: expected a scalar, got {number!r}.")
    static, symbolic = entries("pad", [width for pair in widths for width in pair])
    needless = not symbolic and not any(static)
    return x if needless else Tensor.make(Pad(static), x, value, *symbolic)


def _mode(mode: Any, options: Mapping[str, Any]) -> PadMode:
    found = MODES.get(mode)
    if found is None:
        raise ArgumentError(f"pad: unknown mode={mode!r}.", f"Use {', '.join(map(repr, MODES))}.")
    for name in options:
        if name != found.option:
            raise ArgumentError(
                f"pad: mode={mode!r} takes no {name}.",
                f"It takes {found.option}." if found.option else "It takes no option.",
            )
    wanted = options.get("reflect_type", "even")
    if wanted not in {"even", "odd"}:
        raise ArgumentError(f"pad: unknown reflect_type={wanted!r}.", "Use 'even' or 'odd'.")
    return found


def _check_filled(at: Padded, mode: str) -> None:
    if at.n == 0 and mode != "constant":
        raise ShapeError(
            f"pad: axis {at.axis} of {at.x!r} is empty.",
            f"The mode {mode!r} needs elements; 'constant' does not.",
        )


def _widths(pad_width: Any, ndim: int) -> list[tuple[Any, Any]]:
    """The widths in front of and behind each axis."""
    if isinstance(pad_width, Mapping):
        given: list[Any] = [(0, 0)] * ndim
        for axis, pair in pad_width.items():
            (at,) = axes_of("pad", axis, ndim)
            given[at] = _pairs("pad_width", pair, 1)[0]
    else:
        given = _pairs("pad_width", pad_width, ndim)
    static, symbolic = entries("pad", [width for pair in given for width in pair])
    left = iter(symbolic)
    flat = [next(left) if n is None else n for n in static]
    return list(zip(flat[::2], flat[1::2], strict=True))


def _pairs(name: str, given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A value for each side of each axis, from one for all, one pair, or a pair for each."""
    rows = _nested(given)
    if not isinstance(rows, list):
        return [(rows, rows)] * ndim
    if not any(isinstance(row, list) for row in rows):
        rows = [rows]
    pairs = [(row * 2 if len(row) == 1 else row) for row in rows if isinstance(row, list)]
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or len(rows) not in {1, ndim} or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            f"pad: {name}={given!r} does not fit {ndim} axes.",
            "Pass one value, one pair (before, after), or one pair for each axis.",
        )
    return [(before, after) for before, after in pairs]


def _nested(given: Any) -> Any:
    """Nested lists of scalars, or a single one."""
    if isinstance(given, np.ndarray):
        return given.tolist()
    if isinstance(given, list | tuple):
        return [_nested(part) for part in given]
    if isinstance(given, Tensor) and given.ndim:
        return [_nested(part) for part in given]
    return given
