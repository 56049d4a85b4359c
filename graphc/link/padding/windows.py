"""Windows of known length whose start is computed: what padded graphs read and write.

A start is between 0 and the length of the axis less the length of the window, unless a check of
lengths fails, whose results are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Op, TensorType


@dataclass(frozen=True, slots=True)
class ReadWindow(Op):
    """A window of an array along one axis. Inputs are the array and the start, int64."""

    axis: int
    size: int
    name = "read_window"

    def infer(self, x: TensorType, start: TensorType) -> TensorType:
        shape = list(x.shape)
        shape[self.axis] = self.size
        return x.with_shape(tuple(shape))

    def perform(self, x: np.ndarray[Any, Any], start: Any) -> Any:
        return x[_window(x.ndim, self.axis, int(start), self.size)]


@dataclass(frozen=True, slots=True)
class WriteWindow(Op):
    """An array with a window along one axis replaced. Inputs: array, window, start."""

    axis: int
    name = "write_window"

    def infer(self, x: TensorType, window: TensorType, start: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any], window: Any, start: Any) -> Any:
        y = np.array(x)
        y[_window(x.ndim, self.axis, int(start), window.shape[self.axis])] = window
        return y


def _window(ndim: int, axis: int, start: int, size: int) -> tuple[slice, ...]:
    return tuple([slice(start, start + size) if i == axis else slice(None) for i in range(ndim)])
