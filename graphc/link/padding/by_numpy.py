"""A user's operation, which declares no padding: NumPy computes it on the valid elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Op, TensorType, TupleType, Type


@dataclass(frozen=True, slots=True)
class OnLengths(Op):
    """An operation on the valid elements of buffers; results are padded with zeros.

    Inputs are the buffers, then the valid length along each padded axis, int64 scalars.

    Attributes:
        op: The operation.
        axes: The padded axes of each buffer.
        results: The type of the buffer of each result.
        is_tuple: Whether the operation returns several results.
    """

    op: Op
    axes: tuple[tuple[int, ...], ...]
    results: tuple[TensorType, ...]
    is_tuple: bool

    by_numpy = True

    @property
    def name(self) -> str:
        return self.op.name

    def infer(self, *types: Any) -> Type:
        return TupleType(self.results) if self.is_tuple else self.results[0]

    def perform(self, *values: Any) -> Any:
        buffers, counts = values[: len(self.axes)], iter(values[len(self.axes) :])
        pairs = zip(buffers, self.axes, strict=True)
        y = self.op.perform(*[_cut(x, axes, counts) for x, axes in pairs])
        ys = zip(y if self.is_tuple else (y,), self.results, strict=True)
        buffers = tuple([_extend(x, type.shape) for x, type in ys])
        return buffers if self.is_tuple else buffers[0]

    def unwritten(self) -> Any:
        return self.op.unwritten()


def _cut(x: Any, axes: Sequence[int], counts: Any) -> Any:
    valid = {axis: slice(int(next(counts))) for axis in axes}
    if not axes:
        return x
    return np.ascontiguousarray(x[tuple([valid.get(axis, slice(None)) for axis in range(x.ndim)])])


def _extend(x: Any, sizes: Sequence[int | None]) -> Any:
    x = np.asarray(x)
    widths = [(0, 0 if m is None else m - n) for n, m in zip(x.shape, sizes, strict=True)]
    return np.pad(x, widths) if widths else x
