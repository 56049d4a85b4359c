"""Convolution and pooling of batches of images, (batch, channels, height, width); windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from operator import add
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import is_inexact
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.arrays.reduce import dtype_range
from graphc.tensor.core.axes import expand_dims, transpose
from graphc.tensor.core.elementwise import maximum
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands
from graphc.tensor.signal.convolve import Convolution, flip_last
from graphc.tensor.signal.pad import pad

AXES = (2, 3)
"""The axes of rows and columns."""

Pair = int | Sequence[int]
Padding = str | int | Sequence[Any]


class WindowPart(NamedTuple):
    """Equally spaced elements of all windows along an axis.

    Attributes:
        kernel: The elements, as a slice of a window.
        offset: The position of the slice's first element in the image's first window.
        count: The number of elements of the slice.
    """

    kernel: slice
    offset: int
    count: Any


class ImageWindows(NamedTuple):
    """The windows of images along an axis, all lengths in elements.

    Attributes:
        size: The number of elements of a window.
        stride: The step between windows.
        dilation: The step between the elements of a window.
    """

    size: Any
    stride: int
    dilation: int

    @property
    def span(self) -> Any:
        """The length of a window with its gaps."""
        return self.dilation * (self.size - 1) + 1

    def parts(self) -> Iterator[WindowPart]:
        """Yield parts that have all elements, each convolved without stride and dilation."""
        if self.stride == self.dilation == 1:
            yield WindowPart(slice(None), 0, self.size)
        elif self.dilation == 1:
            for i in range(min(self.stride, self.size)):
                yield WindowPart(slice(i, None, self.stride), i, -((i - self.size) // self.stride))
        else:
            yield from self.elements()

    def elements(self) -> Iterator[WindowPart]:
        """Yield a part for each element of a window."""
        for i in range(self.size):
            yield WindowPart(slice(i, i + 1), self.dilation * i, 1)

    def take(self, n: Any, part: WindowPart) -> slice:
        """Return the elements of n along an axis that a part of the windows covers."""
        if self.stride == 1 and part.count is self.size:
            return slice(None)
        count = (n - self.span) // self.stride + part.count
        count = count if isinstance(count, int) else maximum(count, 0)
        return slice(part.offset, part.offset + count * self.stride, self.stride)

    def padding(self, n: Any) -> tuple[Any, Any]:
        """Return the padding of n elements with which there are ``ceil(n / stride)`` windows."""
        missing = (-(-n // self.stride) - 1) * self.stride + self.span - n
        total = max(missing, 0) if isinstance(missing, int) else maximum(missing, 0)
        return total // 2, total - total // 2


def _pair(op: str, name: str, value: Any, least: int) -> tuple[int, int]:
    """Return a parameter as one integer for rows and one for columns."""
    both = value if isinstance(value, list | tuple) else (value, value)
    if len(both) != 2 or not all(_is_integer(n, least) for n in both):
        raise ArgumentError(
            f"{op}: {name}={value!r}: expected an integer from {least} on, or a pair of them."
        )
    return int(both[0]), int(both[1])


def _is_integer(n: Any, least: int) -> bool:
    return isinstance(n, int | np.integer) and not isinstance(n, bool) and bool(n >= least)


def _pad(
    op: str, x: Tensor, padding: Padding, windows: Sequence[ImageWindows], value: Any
) -> Tensor:
    """Pad images by ``padding``, and check that they are no smaller than a window."""
    none = [(0, 0), (0, 0)]
    sides: list[tuple[Any, Any]] = none
    if not isinstance(padding, str):
        is_pair = isinstance(padding, list | tuple) and len(padding) == 2
        each: Any = padding if is_pair else (padding, padding)
        sides = [_pair(op, "padding", side, 0) for side in each]
    elif padding == "same":
        sides = [w.padding(length(x, axis)) for w, axis in zip(windows, AXES, strict=True)]
    elif padding != "valid":
        raise ArgumentError(f"{op}: padding={padding!r}.", "Use 'valid', 'same' or integers.")
    if sides != none:
        x = pad(x, [(0, 0), (0, 0), *sides], constant_values=value)
    for w, axis in zip(windows, AXES, strict=True):
        n = length(x, axis)
        if isinstance(n, int) and isinstance(w.span, int) and n < w.span:
            raise ShapeError(
                f"{op}({x!r}): {n} elements along axis {axis} are fewer than a window's {w.span}.",
                "Use a smaller window, or more padding.",
            )
    return x


def _take(x: Tensor, windows: Sequence[ImageWindows], parts: Sequence[WindowPart]) -> Tensor:
    rows, columns = (
        w.take(length(x, axis), part) for w, axis, part in zip(windows, AXES, parts, strict=True)
    )
    return x[:, :, rows, columns]


def _images(op: str, x: Tensor, form: str = "images of (batch, channels, height, width)") -> Tensor:
    if x.ndim != 4:
        raise ShapeError(f"{op}({x!r}): expected {form}.", "Add axes of length 1, x[None, None].")
    return x


@function
def conv2d(
    x: TensorLike,
    w: TensorLike,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Correlate images with kernels over rows and columns, and add up the channels.

    Kernels are not flipped, as in JAX, MLX and PyTorch; ``convolve2d`` flips them.

    Args:
        x: Images, (batch, channels, height, width), real.
        w: Kernels, (filters, channels // groups, rows, columns). Rows and columns must be known if
            stride or dilation is more than 1.
        stride: The step between windows, one for both axes or a pair.
        padding: The number of zeros on each side: an integer; a pair for rows and columns, each an
            integer or ``(before, after)``; ``"valid"`` for none; ``"same"`` for
            ``ceil(n / stride)`` windows along an axis of n.
        dilation: The step between the elements of a window, one for both axes or a pair.
        groups: The number of groups of channels; a filter sees the channels of one group.

    Returns:
        An array of (batch, filters, windows along rows, windows along columns). Of n elements with
        their padding and k of a kernel there are ``(n - dilation * (k - 1) - 1) // stride + 1``.

    Raises:
        ShapeError: If x or w has other than four axes, channels do not fit groups, or an image is
            smaller than a window.
        ArgumentError: If stride, padding, dilation or groups has another form.
        DTypeError: If the arrays are complex.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> x, w = np.arange(16.0).reshape(1, 1, 4, 4), np.ones((1, 1, 2, 2))
        >>> gt.signal.conv2d(x, w, stride=2).eval(mode="NUMPY")[0, 0].tolist()
        [[10.0, 18.0], [42.0, 50.0]]
    """
    (x, w), _ = operands("conv2d", (x, w))
    x, w = (
        _images("conv2d", x),
        _images("conv2d", w, "kernels of (filters, channels, rows, columns)"),
    )
    if not _is_integer(groups, 1):
        raise ArgumentError(f"conv2d: groups={groups!r}: expected a positive integer.")
    steps = zip(
        _pair("conv2d", "stride", stride, 1), _pair("conv2d", "dilation", dilation, 1), strict=True
    )
    windows = [
        ImageWindows(length(w, axis), s, d) for axis, (s, d) in zip(AXES, steps, strict=True)
    ]
    if any(k == 0 if isinstance(k, int) else (s, d) != (1, 1) for k, s, d in windows):
        raise ShapeError(
            f"conv2d({x!r}, {w!r}): kernels need elements, and known lengths with a stride or a "
            "dilation.",
            "Declare them, as in gt.tensor('w', shape=(None, None, 3, 3)).",
        )
    x = _pad("conv2d", x, padding, windows, 0)
    products = [
        _correlate(_take(x, windows, parts), w[:, :, parts[0].kernel, parts[1].kernel], int(groups))
        for parts in product(*(each.parts() for each in windows))
    ]
    y: Tensor = reduce(add, products)
    return y


def _correlate(x: Tensor, w: Tensor, groups: int) -> Tensor:
    """Correlate without padding, stride and dilation."""
    w = flip_last(w, 2)
    if groups == 1:
        return Tensor.make(Convolution(0, 1, 1, 1, full=False), x, w)
    for n in (w.type.shape[0], x.type.shape[1]):
        if n is not None and n % groups:
            raise ShapeError(
                f"conv2d({x!r}, {w!r}): {n} channels or filters do not fit {groups} groups.",
                f"Use a multiple of {groups}.",
            )
    batch, channels, *image = lengths(x)
    filters, *kernel = lengths(w)
    x = reshape(x, (batch, groups, channels // groups, *image))
    w = reshape(w, (groups, filters // groups, *kernel))
    y = Tensor.make(Convolution(1, 1, 1, 1, full=False), transpose(x, (1, 0, 2, 3, 4)), w)
    y = transpose(y, (1, 0, 2, 3, 4))
    return reshape(y, (batch, filters, *lengths(y)[3:]))


def _pool(  # noqa: PLR0913, PLR0917 (the parameters of pooling, and two that differ)
    op: str,
    x: Tensor,
    size: Pair,
    stride: Pair | None,
    padding: Padding,
    value: Any,
    combine: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor:
    """Combine the elements of each window along columns, then along rows.

    An axis at a time, a window of 16 by 16 takes 32 operations rather than 256.
    """
    sizes = _pair(op, "size", size, 1)
    strides = sizes if stride is None else _pair(op, "stride", stride, 1)
    windows = [ImageWindows(k, s, 1) for k, s in zip(sizes, strides, strict=True)]
    x = _pad(op, _images(op, x), padding, windows, value)
    rows, columns = windows
    x = combine([x[..., columns.take(length(x, 3), part)] for part in columns.elements()])
    return combine([x[:, :, rows.take(length(x, 2), part)] for part in rows.elements()])


@function
def max_pool2d(
    x: TensorLike, size: Pair, stride: Pair | None = None, padding: Padding = 0
) -> Tensor:
    """Return the maximum of each window of images.

    Args:
        x: Images, (batch, channels, height, width), real.
        size: The rows and columns of a window, one for both or a pair.
        stride: The step between windows; ``size`` by default.
        padding: As for ``conv2d``; the padding is less than every element.

    Returns:
        An array of (batch, channels, windows along rows, windows along columns).

    Raises:
        ShapeError: If x has other than four axes, or an image is smaller than a window.
        ArgumentError: If size, stride or padding has another form.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
        >>> gt.signal.max_pool2d(x, 2).eval(mode="NUMPY")[0, 0].tolist()
        [[5.0, 7.0], [13.0, 15.0]]
    """
    x = as_tensor(x)
    lowest, _ = dtype_range(x.type.numpy_dtype)
    return _pool("max_pool2d", x, size, stride, padding, lowest, partial(reduce, maximum))


@function
def avg_pool2d(
    x: TensorLike, size: Pair, stride: Pair | None = None, padding: Padding = 0
) -> Tensor:
    """Return the mean of each window of images; the zeros of the padding count as elements.

    Args:
        x: Images, (batch, channels, height, width), floating.
        size: The rows and columns of a window, one for both or a pair.
        stride: The step between windows; ``size`` by default.
        padding: As for ``conv2d``.

    Returns:
        An array of (batch, channels, windows along rows, windows along columns).

    Raises:
        ShapeError: If x has other than four axes, or an image is smaller than a window.
        ArgumentError: If size, stride or padding has another form.
        DTypeError: If x is not floating.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
        >>> gt.signal.avg_pool2d(x, 2).eval(mode="NUMPY")[0, 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    x = as_tensor(x)
    if not is_inexact(x.dtype):
        raise DTypeError(f"avg_pool2d({x!r}): expected floating images.", "Cast x to float32.")
    return _pool("avg_pool2d", x, size, stride, padding, 0, _mean)


def _mean(elements: Sequence[Tensor]) -> Tensor:
    mean: Tensor = reduce(add, [x / len(elements) for x in elements])
    return mean


# Windows of arrays, and elements added between and around others.

MOST = 1024
"""The most elements of a window, as the graph has a part for each."""


def pad_or_crop(x: Tensor, axis: int, padding: tuple[Any, Any], value: Tensor) -> Tensor:
    """Add elements before and behind an axis; remove some where a number is negative."""

    def block(n: Any) -> list[Tensor]:
        if isinstance(n, int) and n <= 0:
            return []
        shape = [n if i == axis else length(x, i) for i in range(x.ndim)]
        return [broadcast_to(value, tuple(shape))]

    low, high = padding
    pieces = [*block(low), x, *block(high)]
    wide = concatenate(pieces, axis=axis) if len(pieces) > 1 else x
    cut = [-n if isinstance(n, int) and n < 0 else 0 for n in padding]
    if not any(cut):
        return wide
    selection = slice(cut[0], length(wide, axis) - cut[1])
    return wide[(*[slice(None)] * axis, selection)]


def dilate(x: Tensor, axis: int, interior: int, value: Tensor) -> Tensor:
    """Insert elements between those along an axis."""
    n, shape = length(x, axis), lengths(x)
    gaps = broadcast_to(value, (*shape[: axis + 1], interior, *shape[axis + 1 :]))
    together = concatenate([expand_dims(x, axis + 1), gaps], axis=axis + 1)
    flat = reshape(together, (*shape[:axis], n * (interior + 1), *shape[axis + 1 :]))
    return flat[(*[slice(None)] * axis, slice(0, n * (interior + 1) - interior))]


def patches(
    x: Tensor, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tensor:
    """Return all windows of an array, along its first axes.

    Returns:
        The windows' elements in row-major order along a new axis 0; then the window's
        position along each axis of ``sizes``; then the axes beyond.
    """
    counts = []
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
        counts.append((length(x, axis) - (size - 1) * dilation - 1) // stride + 1)
    elements = []
    for corner in itertools.product(*map(range, sizes)):
        cuts = []
        for at, n, stride, dilation in zip(corner, counts, strides, dilations, strict=True):
            begin = at * dilation
            cuts.append(slice(begin, begin + (n - 1) * stride + 1, stride))
        elements.append(x[tuple(cuts)])
    return stack(elements)
