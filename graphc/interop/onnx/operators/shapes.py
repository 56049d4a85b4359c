"""Operators that move elements without looking at them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import graphc.tensor as gt
from graphc.errors import ShapeError
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.folding import slices_of
from graphc.interop.onnx.values import Known, Refusal, axis_of, entries_of, with_axes
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length, lengths


@register("Reshape")
def _reshape(op: Operation, x: Tensor, *_: Any) -> Tensor:
    given = entries_of(op.value(1))
    if not op["allowzero"]:
        given = [_copied(n, x, i, op) for i, n in enumerate(given)]
    return gt.reshape(x, _with_rest(given, lengths(x)))


def _copied(n: Any, x: Tensor, axis: int, op: Operation) -> Any:
    """A length, which is that of the array where it is 0."""
    if isinstance(n, Tensor):
        if isinstance(op.value(1), Known) or axis >= x.ndim:
            return n
        return gt.where(gt.equal(n, 0), length(x, axis), n)
    if n:
        return n
    if axis >= x.ndim:
        raise ShapeError(f"the length 0 on axis {axis} stands for one of {x!r}.")
    return length(x, axis)


def _with_rest(shape: Sequence[Any], old: Sequence[Any]) -> tuple[Any, ...]:
    """A shape, with a number for -1 where the unknown lengths are in both shapes."""
    if -1 not in [n for n in shape if isinstance(n, int)]:
        return tuple(shape)
    unknown = [n for n in old if isinstance(n, Tensor)]
    for n in shape:
        if isinstance(n, Tensor):
            place = next((i for i, m in enumerate(unknown) if m is n), None)
            if place is None:
                return tuple(shape)
            unknown.pop(place)
    elements = prod([n for n in old if isinstance(n, int)])
    others = prod([n for n in shape if isinstance(n, int) and n != -1])
    if unknown or others <= 0 or elements % others or 0 in old:
        return tuple(shape)
    return tuple(elements // others if isinstance(n, int) and n == -1 else n for n in shape)


@register("Flatten")
def _flatten(op: Operation, x: Tensor) -> Tensor:
    axis = int(op["axis"])
    axis = axis if axis == x.ndim else axis_of(axis, max(x.ndim, 1))
    shape = lengths(x)
    return gt.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))


@register("Transpose")
def _transpose(op: Operation, x: Tensor) -> Tensor:
    return gt.transpose(x, op["perm"])


@register("Squeeze")
def _squeeze(op: Operation, x: Tensor, *_: Any) -> Tensor:
    axes = op.axes(1, x.ndim)
    if axes is None and None in x.type.shape:
        raise Refusal("without axes, and which lengths are 1 is unknown")
    return gt.squeeze(x, axes)


@register("Unsqueeze")
def _unsqueeze(op: Operation, x: Tensor, *_: Any) -> Tensor:
    axes = op["axes"] if op["axes"] is not None else op.numbers(1, "the axes")
    return gt.expand_dims(x, tuple(axis_of(int(i), x.ndim + len(axes)) for i in axes))


@register("Expand")
def _expand(op: Operation, x: Tensor, *_: Any) -> Tensor:
    wanted = entries_of(op.value(1))
    n = max(len(wanted), x.ndim)
    x = gt.expand_dims(x, tuple(range(n - x.ndim))) if x.ndim < n else x
    wanted = [1] * (n - len(wanted)) + wanted
    return gt.broadcast_to(x, tuple(_wider(x, i, m) for i, m in enumerate(wanted)))


def _wider(x: Tensor, axis: int, wanted: Any) -> Any:
    """The length that an axis has and the one it is to have, of which one may be 1."""
    known = x.type.shape[axis]
    if known == 1:
        return wanted
    if known is not None or (isinstance(wanted, int) and wanted == 1):
        return length(x, axis)
    return wanted


@register("Tile")
def _tile(op: Operation, x: Tensor, *_: Any) -> Tensor:
    return gt.tile(x, tuple(entries_of(op.value(1))))


@register("Concat")
def _concat(op: Operation, *parts: Tensor) -> Tensor:
    return gt.concatenate(list(parts), axis=op.axis(parts[0].ndim))


@register("Split")
def _split(op: Operation, x: Tensor, *_: Any) -> tuple[Tensor, ...]:
    axis, count = op.axis(x.ndim), len(op.node.output)
    sizes = op["split"] if op.version < 13 else (op.entries(1) if op.has(1) else None)
    return tuple(split(x, axis, _even(length(x, axis), count) if sizes is None else sizes))


def _even(n: Any, count: int) -> list[Any]:
    """Lengths of nearly equal parts: the last is the smaller one."""
    if isinstance(n, int):
        size = -(-n // count)
        return [min(size, max(n - i * size, 0)) for i in range(count)]
    size = -(-n // count)
    return [size] * (count - 1) + [n - size * (count - 1)]


def split(x: Tensor, axis: int, sizes: Sequence[Any]) -> list[Tensor]:
    """Parts of these lengths, one after the other."""
    n = length(x, axis)
    if all(isinstance(size, int) for size in (*sizes, n)) and sum(sizes) != n:
        raise ShapeError(f"parts of {[*sizes]} elements of {x!r}, along axis {axis}.")
    ends = list(accumulate(sizes))
    before = (slice(None),) * axis
    return [x[(*before, slice(a, b))] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


@register("Slice")
def _slice(op: Operation, x: Tensor, *_: Any) -> Tensor:
    return x[slices_of(op, x.ndim)]


@register("Pad")
def _pad(op: Operation, x: Tensor, *_: Any) -> Tensor:
    mode = op["mode"]
    if op.version < 11:
        widths, value = list(op["pads"]), op["value"]
    else:
        widths = op.entries(1)
        value = gt.reshape(_scalar(op, 2), ()) if op.has(2) else 0
    axes: Sequence[int] = range(x.ndim)
    if op.has(3):
        axes = [axis_of(n, x.ndim) for n in op.numbers(3, "the axes")]
    return padded(x, axes, widths, mode, value)


def _scalar(op: Operation, i: int) -> Tensor:
    value = op.value(i)
    return value.tensor() if isinstance(value, Known) else value  # type: ignore[return-value]


def padded(x: Tensor, axes: Sequence[int], widths: Sequence[Any], mode: str, value: Any) -> Tensor:
    """Elements added before and behind those of axes; taken away where a width is negative.

    Args:
        x: The array.
        axes: Its axes.
        widths: Before those of each axis, and then behind those of each.
        mode: ``"constant"``, ``"edge"``, ``"reflect"`` or ``"wrap"``.
        value: What is added in the first mode.
    """
    if mode not in {"constant", "edge", "reflect", "wrap"}:
        raise Refusal(f"mode {mode!r}")
    half = len(axes)
    pairs = {axis: (widths[i], widths[half + i]) for i, axis in enumerate(axes)}
    cuts = [slice(None)] * x.ndim
    for axis, pair in pairs.items():
        low, high = (-n if isinstance(n, int) and n < 0 else 0 for n in pair)
        cuts[axis] = slice(low, length(x, axis) - high if high else None)
    wanted = [pairs.get(axis, (0, 0)) for axis in range(x.ndim)]
    wanted = [(_not_negative(low), _not_negative(high)) for low, high in wanted]
    x = x[tuple(cuts)] if any(cut != slice(0, None) and cut != slice(None) for cut in cuts) else x
    if mode == "constant":
        return gt.pad(x, wanted, constant_values=gt.as_tensor(value).astype(x.dtype))
    return gt.pad(x, wanted, mode)


def _not_negative(n: Any) -> Any:
    return max(n, 0) if isinstance(n, int) else n


@register("DepthToSpace")
def _depth_to_space(op: Operation, x: Tensor) -> Tensor:
    n, c, h, w = lengths(x)
    b = int(op["blocksize"])
    if op["mode"] == "CRD":
        x = gt.reshape(x, (n, c // (b * b), b, b, h, w))
        x = gt.transpose(x, (0, 1, 4, 2, 5, 3))
    else:
        x = gt.reshape(x, (n, b, b, c // (b * b), h, w))
        x = gt.transpose(x, (0, 3, 4, 1, 5, 2))
    return gt.reshape(x, (n, c // (b * b), h * b, w * b))


@register("SpaceToDepth")
def _space_to_depth(op: Operation, x: Tensor) -> Tensor:
    n, c, h, w = lengths(x)
    b = int(op["blocksize"])
    order = (0, 1, 3, 5, 2, 4) if op["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    x = gt.reshape(x, (n, c, h // b, b, w // b, b))
    return gt.reshape(gt.transpose(x, order), (n, c * b * b, h // b, w // b))


@register("EyeLike")
def _eye_like(op: Operation, x: Tensor) -> Tensor:
    n, m = lengths(x)
    return gt.eye(n, m, k=int(op["k"]), dtype=op.dtype("dtype", x.dtype))


@register("Trilu")
def _trilu(op: Operation, x: Tensor, *_: Any) -> Tensor:
    k = 0
    if op.has(1):
        (k,) = op.numbers(1, "the diagonal")
    k = max(-(2**31), min(2**31, k))
    return gt.triu(x, k) if op["upper"] else gt.tril(x, k)


@register("ReverseSequence")
def _reverse_sequence(op: Operation, x: Tensor, counts: Tensor) -> Tensor:
    batch, time = int(op["batch_axis"]), int(op["time_axis"])
    return reversed_rows(x, counts, batch, time)


def reversed_rows(x: Tensor, counts: Tensor, batch: int, time: int) -> Tensor:
    """Each sequence of a batch with its first elements, as many as its count, in reverse order."""
    steps = gt.arange(length(x, time))
    at = with_axes(steps, x.ndim, time)
    n = with_axes(counts.astype("int64"), x.ndim, batch)
    places = gt.where(at < n, n - 1 - at, at)
    return gt.take_along_axis(x, gt.broadcast_to(places, tuple(lengths(x))), axis=time)
