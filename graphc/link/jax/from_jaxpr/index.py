"""Primitives that read and write at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Constant
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.link.jax.jaxprs import default_fill_value
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length


def _dynamic_slice(eqn: JaxprEquation, x: Tensor, *starts: Tensor) -> Tensor:
    sizes = tuple(map(eqn.lengths, eqn["slice_sizes"]))
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        x = _dynamic_section(x, axis, start, size)
    return x


def _dynamic_section(x: Tensor, axis: int, start: Tensor, size: Any) -> Tensor:
    """Return ``size`` elements from a start on, which is clipped so that all are inside."""
    n = length(x, axis)
    if _is_equal(n, size):
        return x
    leading = (slice(None),) * axis
    if isinstance(start.op, Constant) and isinstance(n, int) and isinstance(size, int):
        at = int(np.clip(int(start.op.value), 0, n - size))
        return x[(*leading, slice(at, at + size))]
    first = _clip_start(start, n - size)
    if isinstance(size, int) and size == 1:
        return gt.expand_dims(x[(*leading, first)], axis)
    return gt.take(x, first + gt.arange(size, dtype="int64"), axis=axis)


def _clip_start(start: Any, last: Any) -> Tensor:
    """Return a start as int64, clipped to ``[0, last]``."""
    return gt.clip(gt.cast(start, "int64"), 0, last)


def _dynamic_update_slice(_: JaxprEquation, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
    if not x.ndim:
        return update
    indices: list[Any] = []
    for axis, start in enumerate(starts):
        n, size = length(x, axis), length(update, axis)
        if _is_equal(n, size):
            indices.append(slice(None))
            continue
        first = _clip_start(start, n - size)
        if isinstance(first.op, Constant) and isinstance(size, int):
            at = int(first.op.value)
            indices.append(slice(at, at + size))
        else:
            indices.append(first + gt.arange(size, dtype="int64"))
    if sum(not isinstance(index, slice) for index in indices) > 1:
        indices = _open_mesh(indices, x)
    return gt.set_subtensor(x[tuple(indices)], update)


def _open_mesh(indices: Sequence[Any], x: Tensor) -> list[Any]:
    """Return an index array per axis that broadcast together, as ``numpy.ix_`` does."""
    arrays = []
    for axis, index in enumerate(indices):
        if isinstance(index, slice):
            start, stop = index.start or 0, index.stop
            index = gt.arange(start, length(x, axis) if stop is None else stop, dtype="int64")
        arrays.append(gt.dimshuffle(index, [0 if i == axis else "x" for i in range(x.ndim)]))
    return arrays


@dataclass(frozen=True)
class Windows:
    """The windows of an operand that a gather reads, or a scatter writes, one for each start.

    Attributes:
        axes: The operand's axes along which windows are shorter than the operand.
        indices: An index along each of ``axes``. The indices broadcast together, to the axes of
            the starts followed by the windows' axes among ``axes``.
        inside: For each start, whether the window is inside the operand; None: all are inside.
        start_ndim: The number of axes of the starts.
        window_axes: The operand's axes that windows have.
    """

    axes: tuple[int, ...]
    indices: tuple[Tensor, ...]
    inside: Tensor | None
    start_ndim: int
    window_axes: tuple[int, ...]

    def order(self, ndim: int) -> tuple[int, ...]:
        """Return the operand's axes with the indexed ones first."""
        return (*self.axes, *[axis for axis in range(ndim) if axis not in self.axes])

    def result_order(self, ndim: int, axes: Sequence[int]) -> list[int]:
        """Return the axes of the array of all windows: the starts', then the windows' by ``order``.

        Args:
            ndim: The operand's number of axes.
            axes: The axes of ``window_axes`` in the array of all windows.
        """
        n = self.start_ndim + len(self.window_axes)
        start_axes = [i for i in range(n) if i not in axes]
        axis_of = dict(zip(self.window_axes, axes, strict=True))
        return [*start_axes, *[axis_of[axis] for axis in self.order(ndim) if axis in axis_of]]

    def mask(self, ndim: int) -> Tensor | None:
        """Return ``inside`` with ``ndim`` axes, to broadcast over windows; None: all are inside."""
        if self.inside is None:
            return None
        n = self.start_ndim
        return gt.dimshuffle(self.inside, [*range(n), *["x"] * (ndim - n)])


@dataclass(frozen=True)
class DimensionNumbers:
    """The dimension numbers of a gather or scatter.

    Attributes:
        windows: The axes of windows in the array of all windows.
        dropped: The operand's axes that windows lack.
        starts: The operand's axis of each coordinate of a start.
        batches: The operand's batch axes, and the starts'.
    """

    windows: tuple[int, ...]
    dropped: tuple[int, ...]
    starts: tuple[int, ...]
    batches: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of_gather(cls, n: Any) -> DimensionNumbers:
        batches = (n.operand_batching_dims, n.start_indices_batching_dims)
        return cls(n.offset_dims, n.collapsed_slice_dims, n.start_index_map, batches)

    @classmethod
    def of_scatter(cls, n: Any) -> DimensionNumbers:
        batches = (n.operand_batching_dims, n.scatter_indices_batching_dims)
        starts = n.scatter_dims_to_operand_dims
        return cls(n.update_window_dims, n.inserted_window_dims, starts, batches)

    def window_axes(self, ndim: int) -> tuple[int, ...]:
        """Return the operand's axes that windows have."""
        removed = {*self.dropped, *self.batches[0]}
        return tuple(axis for axis in range(ndim) if axis not in removed)


def _windows(
    x: Tensor, indices: Tensor, numbers: DimensionNumbers, sizes: Sequence[Any], clips: bool
) -> Windows:
    """Return the windows at starts, whose coordinates are along the last axis of ``indices``."""
    window_axes, n = numbers.window_axes(x.ndim), indices.ndim - 1
    full = [a for a in window_axes if _is_equal(sizes[a], length(x, a))]
    axes = tuple(a for a in range(x.ndim) if a not in full)
    partial = [a for a in axes if a in window_axes]
    starts, inside = _starts(x, indices, numbers, sizes, clips)
    arrays = []
    for axis in axes:
        start = gt.as_tensor(starts.get(axis, 0))
        index = gt.dimshuffle(start, [*range(start.ndim), *["x"] * len(partial)])
        if axis in partial and not _is_equal(sizes[axis], 1):
            offsets = gt.arange(sizes[axis], dtype="int64")
            at = n + partial.index(axis)
            order = [0 if i == at else "x" for i in range(n + len(partial))]
            index = index + gt.dimshuffle(offsets, order)
        arrays.append(index)
    ndim = max((i.ndim for i in arrays), default=0)
    equal = [i if i.ndim == ndim else gt.dimshuffle(i, ["x"] * (ndim - i.ndim)) for i in arrays]
    return Windows(axes, tuple(equal), inside, n, window_axes)


def _starts(
    x: Tensor, indices: Tensor, numbers: DimensionNumbers, sizes: Sequence[Any], clips: bool
) -> tuple[dict[int, Tensor], Tensor | None]:
    """Return the windows' clipped starts along axes, and which windows are inside the operand."""
    n = indices.ndim - 1
    starts: dict[int, Tensor] = {}
    inside: Tensor | None = None
    for i, axis in enumerate(numbers.starts):
        start = gt.cast(indices[..., i], "int64")
        last = length(x, axis) - sizes[axis]
        starts[axis] = gt.clip(start, 0, last)
        is_inside = (start >= 0) & (start <= last)
        inside = is_inside if inside is None else inside & is_inside
    for axis, start_axis in zip(*numbers.batches, strict=True):
        batch = gt.arange(length(x, axis), dtype="int64")
        starts[axis] = gt.dimshuffle(batch, [0 if i == start_axis else "x" for i in range(n)])
    return starts, None if clips else inside


def _is_equal(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _mode(eqn: JaxprEquation) -> str:
    return str(getattr(eqn["mode"], "name", eqn["mode"]))


def _gather(eqn: JaxprEquation, x: Tensor, indices: Tensor) -> Tensor:
    numbers = DimensionNumbers.of_gather(eqn["dimension_numbers"])
    sizes = tuple(map(eqn.lengths, eqn["slice_sizes"]))
    fills = _mode(eqn) == "FILL_OR_DROP"
    if indices.ndim == 1 and not fills:
        for i, axis in enumerate(numbers.starts):
            x = _dynamic_section(x, axis, indices[i], sizes[axis])
        return gt.squeeze(_prefix(x, sizes), numbers.dropped) if x.ndim else x
    windows = _windows(x, indices, numbers, sizes, clips=not fills)
    y = gt.transpose(x, windows.order(x.ndim))
    if windows.axes:
        y = y[windows.indices]
    mask = windows.mask(y.ndim)
    if mask is not None:
        value = eqn["fill_value"]
        value = default_fill_value(np.dtype(x.dtype)) if value is None else value
        y = gt.where(mask, y, np.array(value, x.dtype))
    order = windows.result_order(x.ndim, numbers.windows)
    return gt.transpose(y, tuple(np.argsort(order).tolist()))


def _prefix(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    slices = [
        slice(None) if _is_equal(size, length(x, axis)) else slice(0, size)
        for axis, size in enumerate(sizes)
    ]
    return x[tuple(slices)]


def _scatter(write: str) -> Converter:
    """Return the converter of a scatter; ``write`` is a key of WRITES."""

    def convert(eqn: JaxprEquation, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        if write == "set" and eqn["update_jaxpr"] is not None:
            raise UnsupportedEquationError
        numbers = DimensionNumbers.of_scatter(eqn["dimension_numbers"])
        lengths = eqn.operand_shape(2)
        sizes: list[Any] = [1] * x.ndim
        for axis, update_axis in zip(numbers.window_axes(x.ndim), numbers.windows, strict=True):
            sizes[axis] = lengths[update_axis]
        windows = _windows(x, indices, numbers, sizes, clips=_mode(eqn) == "CLIP")
        is_unique = eqn["unique_indices"] or not windows.start_ndim
        values = gt.transpose(updates, tuple(windows.result_order(x.ndim, numbers.windows)))
        if not is_unique and write not in MAY_OVERLAP:
            raise UnsupportedEquationError
        return _write(x, values, windows, WRITES[write])

    return convert


def _write(x: Tensor, values: Tensor, windows: Windows, write: Any) -> Tensor:
    order = windows.order(x.ndim)
    transposed = gt.transpose(x, order)
    if not windows.axes:  # every window is the whole operand
        if windows.start_ndim:
            raise UnsupportedEquationError
        y = write(transposed, values)
        mask = windows.mask(y.ndim)
        y = y if mask is None else gt.where(mask, y, transposed)
    elif windows.inside is None:
        y = write(transposed[windows.indices], values)
    else:
        y = _write_inside(transposed, values, windows, write)
    return gt.transpose(y, tuple(np.argsort(order).tolist()))


def _write_inside(x: Tensor, values: Tensor, windows: Windows, write: Any) -> Tensor:
    """Write the windows inside the operand; the others go to a row that is removed."""
    n = length(x, 0)
    inside = windows.mask(windows.indices[0].ndim)
    assert inside is not None
    indices = (gt.where(inside, windows.indices[0], n), *windows.indices[1:])
    row = gt.zeros((1, *[length(x, i) for i in range(1, x.ndim)]), x.dtype)
    y: Tensor = write(gt.concatenate([x, row])[indices], values)
    return y[:n]


MAY_OVERLAP = ("set", "add", "sub")
"""Scatters that are converted also where windows may overlap."""

WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": gt.set_subtensor,
    "add": gt.inc_subtensor,
    "sub": lambda part, values: gt.inc_subtensor(part, -values),
    "mul": lambda part, values: gt.set_subtensor(part, part * values),
    "min": lambda part, values: gt.set_subtensor(part, gt.minimum(part, values)),
    "max": lambda part, values: gt.set_subtensor(part, gt.maximum(part, values)),
}

INDEX: dict[str, Converter] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter("set"),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("sub"),
    "scatter-mul": _scatter("mul"),
    "scatter-min": _scatter("min"),
    "scatter-max": _scatter("max"),
}
"""Converters of primitives that read or write at indices."""
