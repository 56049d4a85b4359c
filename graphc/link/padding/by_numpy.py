"""A user's operation, which declares no padding: NumPy computes it on the valid elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Op, TupleType, Type


@dataclass(frozen=True, slots=True)
class OnLengths(Op):
    """An operation on the valid elements of buffers; results are padded with zeros.

    Inputs are the buffers, then the valid length along each padded axis, int64 scalars.

    Attributes:
        op: The operation.
        axes: The padded axes of each buffer.
        sizes: The lengths of the buffers of each result; None for an axis without padding.
    """

    op: Op
    axes: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int | None, ...], ...]

    by_numpy = True
    # The type rule of the operation may take no expressions.
    infers_by_numbers = True

    @property
    def name(self) -> str:
        return self.op.name

    def infer(self, *types: Any) -> Type:
        unpadded = []
        for x, axes in zip(types, self.axes, strict=False):
            shape = tuple([None if axis in axes else n for axis, n in enumerate(x.shape)])
            unpadded.append(x.with_shape(shape))
        y = self.op.infer(*unpadded)
        items: tuple[Any, ...] = y.items if isinstance(y, TupleType) else (y,)
        results = []
        for x, sizes in zip(items, self.sizes, strict=True):
            lengths = zip(x.shape, sizes, strict=True)
            results.append(x.with_shape(tuple([n if m is None else m for n, m in lengths])))
        return TupleType(tuple(results)) if isinstance(y, TupleType) else results[0]

    def perform(self, *values: Any) -> Any:
        buffers, counts = values[: len(self.axes)], iter(values[len(self.axes) :])
        pairs = zip(buffers, self.axes, strict=True)
        y = self.op.perform(*[_cut(x, axes, counts) for x, axes in pairs])
        if isinstance(y, tuple | list):
            return tuple([_extend(x, sizes) for x, sizes in zip(y, self.sizes, strict=True)])
        return _extend(y, self.sizes[0])

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
