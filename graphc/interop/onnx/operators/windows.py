"""Operators of windows: convolutions and pooling, over all axes but the first two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.reduce import bound, total
from graphc.interop.onnx.values import Refusal
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.signal.convolve import Convolution
from graphc.tensor.signal.patches import MOST, dilated, fitted, patches

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Windows:
    """How windows lie along the spatial axes.

    Attributes:
        sizes: How many elements a window has.
        strides: How far one is from the next.
        dilations: How far its elements are from each other.
        pads: How many elements are added before and behind.
        more: How many further ones are added behind, so that a last window fits.
    """

    sizes: tuple[Any, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Pair, ...]
    more: tuple[Any, ...]

    @classmethod
    def of(cls, op: Operation, x: Tensor, sizes: Sequence[Any]) -> Windows:
        """Those of a node's attributes."""
        n = len(sizes)
        if x.ndim != n + 2:
            raise ValueError(f"windows over {n} axes of {x!r}")
        strides, dilations = _numbers(op, "strides", n), _numbers(op, "dilations", n)
        pads = _pads(op, lengths(x)[2:], sizes, strides, dilations)
        more: tuple[Any, ...] = (0,) * n
        if op["ceil_mode"]:
            axes = zip(lengths(x)[2:], sizes, strides, dilations, pads, strict=True)
            more = tuple(_left_over(*axis) for axis in axes)
        return cls(tuple(sizes), strides, dilations, pads, more)


def _numbers(op: Operation, name: str, n: int) -> tuple[int, ...]:
    given = op[name]
    found = tuple(int(k) for k in given) if given else (1,) * n
    if len(found) != n or min(found, default=1) < 1:
        raise ValueError(f"{name}={found} for {n} axes")
    return found


def _pads(
    op: Operation,
    shape: Sequence[Any],
    sizes: Sequence[Any],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Pair, ...]:
    n, auto = len(sizes), op["auto_pad"] or "NOTSET"
    if auto == "NOTSET":
        pads = [int(k) for k in op["pads"] or [0] * 2 * n]
        if len(pads) != 2 * n:
            raise ValueError(f"pads={pads} for {n} axes")
        return tuple(zip(pads[:n], pads[n:], strict=True))
    if auto == "VALID":
        return ((0, 0),) * n
    found = []
    for length_, size, stride, dilation in zip(shape, sizes, strides, dilations, strict=True):
        count = -(-length_ // stride)
        needed = (count - 1) * stride + (size - 1) * dilation + 1 - length_
        needed = max(needed, 0) if isinstance(needed, int) else gt.maximum(needed, 0)
        sides = needed // 2, needed - needed // 2
        found.append(sides if auto == "SAME_UPPER" else sides[::-1])
    return tuple(found)


def _left_over(n: Any, size: int, stride: int, dilation: int, pads: Pair) -> Any:
    """How many elements a last window lacks, which begins inside of the array or before it."""
    if not isinstance(n, int):
        raise Refusal("ceil_mode over an axis of unknown length")
    span = n + pads[0] + pads[1] - dilation * (size - 1) - 1
    count = -(-span // stride) + 1
    if (count - 1) * stride >= n + pads[0]:
        count -= 1
    return max((count - 1) * stride - span, 0)


# Convolution.


@register("Conv")
def _conv(op: Operation, x: Tensor, w: Tensor, bias: Any = None) -> Tensor:
    return biased(convolution(op, x, w), bias)


def biased(y: Tensor, bias: Any) -> Tensor:
    """A result and a number of each channel."""
    return y if bias is None else y + of_channels(bias, y)


def of_channels(v: Tensor, like: Tensor) -> Tensor:
    """A vector along axis 1 of another array."""
    return gt.dimshuffle(v, ["x", 0, *["x"] * (like.ndim - 2)])


def convolution(op: Operation, x: Tensor, w: Tensor, zero: Any = 0) -> Tensor:
    """Sums of products over windows, of batch, channels, and the spatial axes."""
    n, groups = x.ndim - 2, int(op.get("group", 1))
    windows = Windows.of(op, x, lengths(w)[2:])
    fill = gt.as_tensor(zero).astype(x.dtype)
    for i, (low, high) in enumerate(windows.pads):
        x = _around(x, i + 2, low, high, fill)
    for i, dilation in enumerate(windows.dilations):
        w = dilated(w, i + 2, dilation - 1, gt.zeros((), w.dtype)) if dilation > 1 else w
    w = gt.flip(w, tuple(range(2, 2 + n)))
    x, w = _in_groups(x, 1, groups, lead=1), _in_groups(w, 0, groups, lead=0)
    if groups > 1:
        x = gt.moveaxis(x, 1, 0)
    first = 1 if groups > 1 else 0
    if any(stride > 1 for stride in windows.strides):
        x, w = _by_phases(x, w, first + 2, windows.strides)
    y = Tensor.make(Convolution(first, 1, 1, 1, full=False), x, w)
    if groups == 1:
        return y
    y = gt.moveaxis(y, 0, 1)
    shape = lengths(y)
    return gt.reshape(y, (shape[0], groups * shape[2], *shape[3:]))


def _around(x: Tensor, axis: int, low: Any, high: Any, value: Tensor) -> Tensor:
    numbers = [n for n in (low, high) if isinstance(n, int)]
    if len(numbers) == 2 and not any(numbers):
        return x
    if min(numbers, default=0) < 0:
        return fitted(x, axis, (low, high), value)
    widths = [(low, high) if i == axis else (0, 0) for i in range(x.ndim)]
    return gt.pad(x, widths, constant_values=value)


def _in_groups(x: Tensor, axis: int, groups: int, lead: int) -> Tensor:
    """An axis as one of groups and one of their members."""
    if groups == 1:
        return x
    shape = lengths(x)
    n = shape[axis]
    if not isinstance(n, int) or groups < 1 or n % groups:
        raise ValueError(f"{n} channels in {groups} groups")
    return gt.reshape(x, (*shape[:axis], groups, n // groups, *shape[axis + 1 :]))


def _by_phases(x: Tensor, w: Tensor, first: int, strides: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Operands whose convolution is that with strides: each phase of both is a channel.

    Of s phases, the element i * s + p of an array is the element i of channel p. The kernel is
    flipped, so it is extended in front, where its last elements are.
    """
    for i, stride in enumerate(strides):
        if stride == 1:
            continue
        axis = first + i
        k = length(w, axis)
        if not isinstance(k, int):
            raise Refusal("strides with a kernel whose length is unknown")
        missing = -k % stride
        w = _around(w, axis, missing, 0, gt.zeros((), w.dtype))
        n = length(x, axis)
        # As many as whole windows take: those left over are cut off.
        count = (n - k) // stride + (k + missing) // stride
        x = _fitted_to(x, axis, count * stride)
        x = _phases(x, first - 1, axis, stride)
        # The kernel's element j, counted from its end, meets the phase j modulo the stride.
        w = _phases(w, first - 1, axis, stride, turned=True)
    return x, w


def _fitted_to(x: Tensor, axis: int, n: Any) -> Tensor:
    """The first n elements of an axis, zeros where there are fewer."""
    have = length(x, axis)
    if isinstance(n, int) and isinstance(have, int):
        if n <= have:
            return x[(*[slice(None)] * axis, slice(0, n))]
        return _around(x, axis, 0, n - have, gt.zeros((), x.dtype))
    widths = [(0, gt.maximum(n - have, 0)) if i == axis else (0, 0) for i in range(x.ndim)]
    return gt.pad(x, widths)[(*[slice(None)] * axis, slice(0, n))]


def _phases(x: Tensor, channel: int, axis: int, stride: int, *, turned: bool = False) -> Tensor:
    """The elements of each phase of an axis as channels of their own."""
    shape = lengths(x)
    split = (*shape[:axis], shape[axis] // stride, stride, *shape[axis + 1 :])
    x = gt.moveaxis(gt.reshape(x, split), axis + 1, channel)
    x = gt.flip(x, channel) if turned else x
    found = [stride * shape[channel], *shape[channel + 1 :]]
    found[axis - channel] = shape[axis] // stride
    return gt.reshape(x, (*shape[:channel], *found))


@register("ConvTranspose")
def _conv_transpose(op: Operation, x: Tensor, w: Tensor, bias: Any = None) -> Tensor:
    n, groups = x.ndim - 2, int(op.get("group", 1))
    sizes = lengths(w)[2:]
    strides, dilations = _numbers(op, "strides", n), _numbers(op, "dilations", n)
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    pads, more = _transposed_pads(op, lengths(x)[2:], spans, strides)
    for i in range(n):
        if strides[i] > 1:
            x = dilated(x, i + 2, strides[i] - 1, gt.zeros((), x.dtype))
        if dilations[i] > 1:
            w = dilated(w, i + 2, dilations[i] - 1, gt.zeros((), w.dtype))
    x, w = _in_groups(x, 1, groups, lead=1), _in_groups(w, 0, groups, lead=0)
    first = 1 if groups > 1 else 0
    x = gt.moveaxis(x, 1, 0) if groups > 1 else x
    w = gt.swapaxes(w, first, first + 1)
    y = Tensor.make(Convolution(first, 1, 1, 1, full=True), x, w)
    if groups > 1:
        y = gt.moveaxis(y, 0, 1)
        shape = lengths(y)
        y = gt.reshape(y, (shape[0], groups * shape[2], *shape[3:]))
    for i, (low, high) in enumerate(pads):
        y = fitted(y, i + 2, (-low, more[i] - high), gt.zeros((), y.dtype))
    return biased(y, bias)


def _transposed_pads(
    op: Operation, shape: Sequence[Any], spans: Sequence[Any], strides: Sequence[int]
) -> tuple[list[Pair], list[int]]:
    """What is cut off at both sides, and what is added behind."""
    n, auto = len(shape), op["auto_pad"] or "NOTSET"
    more = [int(k) for k in op["output_padding"] or [0] * n]
    wanted = op["output_shape"]
    if not wanted and auto in {"NOTSET", "VALID"}:
        pads = [int(k) for k in op["pads"] or [0] * 2 * n] if auto == "NOTSET" else [0] * 2 * n
        return [*zip(pads[:n], pads[n:], strict=True)], more
    if not all(isinstance(m, int) for m in (*shape, *spans)):
        raise Refusal("output_shape, or pads that follow from unknown lengths")
    ends = (
        [int(k) for k in wanted][-n:]
        if wanted
        else [m * s for m, s in zip(shape, strides, strict=True)]
    )
    found: list[Pair] = []
    for m, span, stride, extra, end in zip(shape, spans, strides, more, ends, strict=True):
        whole = stride * (m - 1) + extra + span - end
        half = whole // 2
        found.append((half, whole - half) if auto == "SAME_UPPER" else (whole - half, half))
    return found, more


# Pooling: one axis after the other, as extremes and sums are.


def _pooled(x: Tensor, windows: Windows, reduce: Callable[..., Tensor], value: Any) -> Tensor:
    """A reduction of each window, in which added elements have a value that changes nothing."""
    fill = gt.as_tensor(value).astype(x.dtype)
    for i, size in enumerate(windows.sizes):
        if size > MOST:
            raise Refusal(f"windows of {size} elements: more than {MOST}")
        axis = i + 2
        low, high = windows.pads[i]
        x = _around(x, axis, low, high + windows.more[i], fill)
        if size == 1 and windows.strides[i] == 1:
            continue
        x = gt.moveaxis(x, axis, 0)
        parts = patches(x, (size,), (windows.strides[i],), (windows.dilations[i],))
        x = gt.moveaxis(reduce(parts), 0, axis)
    return x


def _sizes(op: Operation) -> tuple[int, ...]:
    found = tuple(int(n) for n in op["kernel_shape"])
    if min(found, default=0) < 1:
        raise ValueError(f"kernel_shape={found}")
    return found


def _max_pooled(x: Tensor, windows: Windows) -> Tensor:
    return _pooled(x, windows, lambda p: gt.max(p, axis=0), bound(x.dtype, least=True))


@register("MaxPool")
def _max_pool(op: Operation, x: Tensor) -> Tensor | tuple[Tensor, ...]:
    windows = Windows.of(op, x, _sizes(op))
    if not op.wants(1):
        return _max_pooled(x, windows)
    if math.prod(windows.sizes) > MOST:
        raise Refusal(f"places of the largest of more than {MOST} elements")
    places = gt.reshape(gt.arange(gt.prod(gt.stack([*x.shape]))), tuple(lengths(x)))
    if op["storage_order"]:
        order = [0, 1, *range(x.ndim - 1, 1, -1)]
        places = gt.transpose(
            gt.reshape(places, tuple(lengths(x)[i] for i in order)), tuple(np.argsort(order))
        )
    least = gt.as_tensor(bound(x.dtype, least=True))
    found = [_windows_of(x, windows, least), _windows_of(places, windows, gt.as_tensor(0))]
    best = gt.argmax(found[0], axis=0, keepdims=True)
    return tuple(
        gt.moveaxis(gt.take_along_axis(part, best, axis=0)[0], (-2, -1), (0, 1)) for part in found
    )


def _windows_of(x: Tensor, windows: Windows, value: Tensor) -> Tensor:
    """All elements of windows along axis 0, then the spatial axes, batch and channels."""
    for i, (low, high) in enumerate(windows.pads):
        x = _around(x, i + 2, low, high + windows.more[i], value)
    return patches(
        gt.moveaxis(x, (0, 1), (-2, -1)), windows.sizes, windows.strides, windows.dilations
    )


@register("AveragePool")
def _average_pool(op: Operation, x: Tensor) -> Tensor:
    windows = Windows.of(op, x, _sizes(op))
    sums = _pooled(x, windows, lambda p: total(p, 0), 0)
    if op["count_include_pad"] and not any(windows.more):
        return sums / float(math.prod(windows.sizes))
    ones = gt.ones((1, 1, *lengths(x)[2:]), dtype=x.dtype)
    if op["count_include_pad"]:  # what is added so that a last window fits does not count
        for i, (low, high) in enumerate(windows.pads):
            ones = _around(ones, i + 2, low, high, gt.ones((), x.dtype))
        windows = Windows(
            windows.sizes,
            windows.strides,
            windows.dilations,
            ((0, 0),) * len(windows.sizes),
            windows.more,
        )
    return sums / _pooled(ones, windows, lambda p: total(p, 0), 0)


@register("LpPool")
def _lp_pool(op: Operation, x: Tensor) -> Tensor:
    p = op.number("p")
    windows = Windows.of(op, x, _sizes(op))
    return _pooled(gt.abs(x) ** p, windows, lambda part: total(part, 0), 0) ** (1 / p)


def _space(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@register("GlobalMaxPool")
def _global_max_pool(_: Operation, x: Tensor) -> Tensor:
    return gt.max(x, axis=_space(x), keepdims=True)


@register("GlobalAveragePool")
def _global_average_pool(_: Operation, x: Tensor) -> Tensor:
    return gt.mean(x, axis=_space(x), keepdims=True)


@register("GlobalLpPool")
def _global_lp_pool(op: Operation, x: Tensor) -> Tensor:
    p = op.number("p")
    return total(gt.abs(x) ** p, _space(x), keepdims=True) ** (1 / p)


@register("MaxUnpool")
def _max_unpool(op: Operation, x: Tensor, places: Tensor, *_: Any) -> Tensor:
    """Elements put back where they were the largest of their windows, zeros elsewhere."""
    sizes = _sizes(op)
    n = len(sizes)
    strides, pads = _numbers(op, "strides", n), op["pads"] or [0] * 2 * n
    shape = lengths(x)
    inner = [
        (m - 1) * s - int(pads[i]) - int(pads[i + n]) + k
        for i, (m, s, k) in enumerate(zip(shape[2:], strides, sizes, strict=True))
    ]
    inner = [*shape[:2], *inner]
    outer = op.entries(2) if op.has(2) else inner
    flat = gt.zeros((math.prod(inner),), dtype=x.dtype)
    y = gt.set_subtensor(flat[gt.reshape(places, (-1,))], gt.reshape(x, (-1,)))
    y = gt.reshape(y, tuple(inner))
    for axis in range(2, n + 2):
        if outer[axis] is not inner[axis] and outer[axis] != inner[axis]:
            y = _around(y, axis, 0, outer[axis] - inner[axis], gt.zeros((), x.dtype))
    return y
