"""Padding: elements added in front of and behind an array."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Constant, Op, TensorType, is_inexact, is_integer
from graphc.ir.lengths import total
from graphc.tensor.arrays.broadcast import batch_of, broadcast_to
from graphc.tensor.arrays.create import arange, ones_like, zeros_like
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import max, min, sum
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.elementwise import (
    cast,
    equal,
    floor,
    maximum,
    round,
    where,
    wide_dtype_name,
)
from graphc.tensor.core.shape import (
    complete_shape,
    entries,
    fill_shape,
    length,
    lengths,
    mixed_entries,
    target_shape,
)
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function
from graphc.tensor.statistics.quantile import median
from graphc.tensor.statistics.statistics import mean


@dataclass(frozen=True, slots=True)
class Pad(Op):
    """The array with a constant in front of and behind its elements, along all axes.

    Inputs are the array, the number and the symbolic widths.

    Attributes:
        widths: The padding in front of and behind each axis; None stands for an input.
    """

    widths: tuple[int | None, ...]
    name = "pad"

    def infer(self, x: TensorType, value: TensorType, *symbolic: TensorType) -> TensorType:
        widths = fill_shape(self.widths, symbolic)
        sides = zip(widths[::2], x.shape, widths[1::2], strict=True)
        return x.with_shape(tuple([total(*side) for side in sides]))

    def sides(self, symbolic: Sequence[Any]) -> list[tuple[int, int]]:
        widths = target_shape(self.widths, symbolic)
        return list(zip(widths[::2], widths[1::2], strict=True))

    def perform(self, x: np.ndarray[Any, Any], value: Any, *symbolic: Any) -> Any:
        return np.pad(x, self.sides(symbolic), constant_values=value)

    def _inner_slices(self, x: Tensor, symbolic: Sequence[Tensor]) -> tuple[slice, ...]:
        widths = complete_shape(self.widths, symbolic)
        pairs = zip(widths[::2], lengths(x), strict=True)
        return tuple(slice(start, start + n) for start, n in pairs)

    def pullback(
        self, g: Tensor, y: Tensor, x: Tensor, value: Tensor, *symbolic: Tensor
    ) -> Sequence[Any]:
        own = self._inner_slices(x, symbolic)
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
        x = x if batched[0] else batch_of(x, size)
        op = Pad((0, 0, *self.widths))
        if not batched[1]:
            return Tensor.make(op, x, value, *symbolic)
        # Each element of the batch has its own number.
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

    def part(self, index: Any) -> Tensor:
        return self.x[slice_at_axis(index, self.axis)]

    def edge(self, side: int) -> Tensor:
        return expand_dims(self.part(-side), self.axis)

    def along(self, values: Tensor) -> Tensor:
        return expand_dims(values, [i for i in range(self.x.ndim) if i != self.axis])

    def fill_side(self, value: Tensor, side: int) -> Tensor:
        shape = lengths(self.x)
        shape[self.axis] = self.widths[side]
        return broadcast_to(cast(value, self.x.dtype), shape)

    def indices(self, side: int) -> Tensor:
        """Return the positions of the padding, counted from the array's first element."""
        count = arange(self.widths[side])
        return count - self.widths[0] if side == 0 else count + self.n

    def fits(self, side: int, n: int | Tensor) -> bool:
        width = self.widths[side]
        return isinstance(n, int) and isinstance(width, int) and width <= n


def _at_least(least: int, n: Any) -> Any:
    return maximum(n, least) if isinstance(n, Tensor) else builtins.max(n, least)


# The padding of one side of an axis, 0 in front and 1 behind, given the mode's option for it.


def constant(at: Padded, side: int, value: Any) -> Tensor:
    """Pad with one value."""
    return at.fill_side(as_tensor(value), side)


def edge(at: Padded, side: int, _: None) -> Tensor:
    """Pad with the element at the edge."""
    return at.fill_side(at.edge(side), side)


def linear_ramp(at: Padded, side: int, end: Any) -> Tensor:
    """Pad with a ramp from the end value, inclusive, to the edge, exclusive; floor integers."""
    dtype, width, end = at.x.dtype, at.widths[side], as_tensor(end)
    count = arange(width)
    position = at.along(count if side == 0 else flip(count))
    if is_integer(dtype) and is_integer(end.dtype):
        # Without rounding errors, which would go to the next integer.
        whole = cast(end, "int64")
        return cast(position * (cast(at.edge(side), "int64") - whole) // width + whole, dtype)
    wide = wide_dtype_name(dtype) if is_inexact(dtype) else "float64"
    first, last = cast(end, wide), cast(at.edge(side), wide)
    ramp = cast(position, wide) * ((last - first) / cast(width, wide)) + first
    return cast(floor(ramp) if is_integer(dtype) else ramp, dtype)


def statistic(reduce: Callable[..., Tensor], at: Padded, side: int, stat_length: Any) -> Tensor:
    """Pad with a statistic of the elements next to the edge, or of all; round integers' means."""
    x = at.x
    if stat_length is not None:
        if isinstance(stat_length, int) and stat_length < 1:
            raise ArgumentError(
                f"pad: stat_length={stat_length} is not positive.", "Pass 1 or more, or None."
            )
        # A larger number takes all elements.
        start = _at_least(0, at.n - stat_length)
        x = at.part(slice(None, stat_length) if side == 0 else slice(start, None))
    value = reduce(x, at.axis, keepdims=True)
    return at.fill_side(round(value) if is_integer(at.x.dtype) else value, side)


def mirror(with_edge: bool, at: Padded, side: int, reflect_type: str) -> Tensor:
    """Pad with the elements in reverse order, and in order again where the padding is wider.

    Every other period is reversed. An odd reflection is also mirrored about the value at the edge
    it starts from, so that two periods add a rise.
    """
    n, odd = at.n, reflect_type == "odd"
    period = n if with_edge else n - 1
    if at.fits(side, period):
        start: Any = n - period if side == 0 else period - at.widths[1]
        part = flip(at.part(slice(start, start + at.widths[side])), at.axis)
        return 2 * at.edge(side) - part if odd else part
    indices, period = at.indices(side), _at_least(1, period)
    turns, within = indices // period, indices % period
    back = turns % 2
    y = at.part(within + back * (n - 1 - 2 * within))
    if not odd:
        return y
    first, last = at.edge(0), at.edge(1)
    y = where(at.along(equal(back, 1)), 2 * last - y, y)
    rises = at.along(cast(turns - back, at.x.dtype))
    return where(equal(rises, 0), y, y + rises * (last - first))


def wrap(at: Padded, side: int, _: None) -> Tensor:
    """Pad with the elements from the other end."""
    n = at.n
    if at.fits(side, n):
        start: Any = n - at.widths[0] if side == 0 else 0
        return at.part(slice(start, start + at.widths[side]))
    return at.part(at.indices(side) % _at_least(1, n))


@dataclass(frozen=True)
class PadMode:
    """A mode's function, and its keyword, with the default."""

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
    "reflect": PadMode(partial(mirror, False), "reflect_type", "even"),
    "symmetric": PadMode(partial(mirror, True), "reflect_type", "even"),
    "wrap": PadMode(wrap),
}


@function
def pad(x: TensorLike, pad_width: Any, mode: str = "constant", **options: Any) -> Tensor:
    """Return an array with elements added in front and behind, one axis after the other.

    Args:
        x: Any shape and dtype.
        pad_width: The widths: one Python or symbolic integer for all sides; ``(before, after)``
            for all axes; or a pair for each axis, also by axis in a dict.
        mode: ``"constant"``; ``"edge"``, the element at the edge; ``"linear_ramp"``, from the edge
            to an end value; ``"maximum"``, ``"mean"``, ``"median"`` or ``"minimum"`` of the
            elements; ``"reflect"`` and ``"symmetric"``, the elements in reverse order without and
            with the edge; ``"wrap"``, the elements from the other end; ``"empty"``, values of no
            meaning.
        options: ``constant_values`` (0) and ``end_values`` (0) of their modes, for all sides or as
            ``pad_width``; ``stat_length``, the number of elements next to the edge in the
            statistics, all by default; ``reflect_type``, ``"even"`` or ``"odd"``: twice the edge
            less the reflection.

    Returns:
        An array of x's dtype.

    Raises:
        ArgumentError: The mode is unknown, or does not take the option.
        ShapeError: A width is negative, there is not one for each axis, or an axis is empty in a
            mode that needs elements.

    Example:
        >>> pad([1, 2, 3], (1, 2), mode="reflect").eval(mode="NUMPY").tolist()
        [2, 1, 2, 3, 2, 1]
    """
    x = as_tensor(x)
    pad_mode = _mode(mode, options)
    option = options.get(pad_mode.option, pad_mode.default)
    values = [(option, option)] * x.ndim
    if pad_mode.option != "reflect_type" and option is not None:
        values = _pairs(pad_mode.option, option, x.ndim)
    all_widths = _widths(pad_width, x.ndim)
    if pad_mode.padding is constant and not isinstance(option, list | tuple | np.ndarray):
        return _with_number(x, option, all_widths)
    for axis, widths in enumerate(all_widths):
        if widths == (0, 0):
            continue
        at = Padded(x, axis, widths)
        _check_not_empty(at, mode)
        sides = [
            None if at.widths[side] == 0 else pad_mode.padding(at, side, values[axis][side])
            for side in (0, 1)
        ]
        pieces = [sides[0], x, sides[1]]
        x = concatenate([part for part in pieces if part is not None], axis)
    return x


def _with_number(x: Tensor, number: Any, widths: Sequence[tuple[Any, Any]]) -> Tensor:
    value = cast(as_tensor(number), x.dtype)
    if value.ndim:
        raise ShapeError(f"pad: expected a scalar, got {number!r}.")
    static, symbolic = entries("pad", [width for pair in widths for width in pair])
    needless = not symbolic and not any(static)
    return x if needless else Tensor.make(Pad(static), x, value, *symbolic)


def _mode(mode: Any, options: Mapping[str, Any]) -> PadMode:
    pad_mode = MODES.get(mode)
    if pad_mode is None:
        raise ArgumentError(f"pad: unknown mode={mode!r}.", f"Use {', '.join(map(repr, MODES))}.")
    for name in options:
        if name != pad_mode.option:
            raise ArgumentError(
                f"pad: mode={mode!r} takes no {name}.",
                f"It takes {pad_mode.option}." if pad_mode.option else "It takes no option.",
            )
    wanted = options.get("reflect_type", "even")
    if wanted not in {"even", "odd"}:
        raise ArgumentError(f"pad: unknown reflect_type={wanted!r}.", "Use 'even' or 'odd'.")
    return pad_mode


def _check_not_empty(at: Padded, mode: str) -> None:
    if at.n == 0 and mode != "constant":
        raise ShapeError(
            f"pad: axis {at.axis} of {at.x!r} is empty.",
            f"The mode {mode!r} needs elements; 'constant' does not.",
        )


def _widths(pad_width: Any, ndim: int) -> list[tuple[Any, Any]]:
    if isinstance(pad_width, Mapping):
        pairs: list[Any] = [(0, 0)] * ndim
        for axis, pair in pad_width.items():
            (at,) = axes_of("pad", axis, ndim)
            pairs[at] = _pairs("pad_width", pair, 1)[0]
    else:
        pairs = _pairs("pad_width", pad_width, ndim)
    flat = mixed_entries("pad", [width for pair in pairs for width in pair])
    return list(zip(flat[::2], flat[1::2], strict=True))


def _pairs(name: str, values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return a value for each side of each axis, from one for all, one pair, or one for each.

    A symbolic array of unknown lengths must turn out to have a pair for each axis.
    """
    if isinstance(values, Tensor) and values.ndim:
        sizes = zip(values.type.shape[::-1], (2, ndim), strict=False)
        values = specify_shape(values, [m if n is None else n for n, m in sizes][::-1])
    rows = _nested_lists(values)
    if not isinstance(rows, list):
        return [(rows, rows)] * ndim
    if not any(isinstance(row, list) for row in rows):
        rows = [rows]
    pairs = [(row * 2 if len(row) == 1 else row) for row in rows if isinstance(row, list)]
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or len(rows) not in {1, ndim} or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            f"pad: {name}={values!r} does not fit {ndim} axes.",
            "Pass one value, one pair (before, after), or one pair for each axis.",
        )
    return [(before, after) for before, after in pairs]


def _nested_lists(values: Any) -> Any:
    """Return nested lists of scalars, or a single one."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    if isinstance(values, list | tuple) or (isinstance(values, Tensor) and values.ndim):
        return [_nested_lists(part) for part in values]
    return values
