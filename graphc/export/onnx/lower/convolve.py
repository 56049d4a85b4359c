"""Convolutions as products with windows: ONNX's ``Conv`` is for float32 only."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.signal.convolve import Convolution


@onnx.lower(Convolution)
@by_graph
def convolve(op: Convolution, a: Any, b: Any) -> Any:
    """Contract all windows of a with the reversed elements of b."""
    first, other = op.first(0), op.first(1)
    spatial = a.ndim - first
    window_axes = []
    for s in range(spatial):
        axis, k = first + 2 * s, b.shape[other + s]
        n = a.shape[axis]
        if op.full:
            sides = [(0, 0)] * axis + [(k - 1, k - 1)] + [(0, 0)] * (a.ndim - axis - 1)
            a = gt.pad(a, sides)
            n = n + 2 * (k - 1)
        windows = gt.arange(n - k + 1)[:, None] + gt.arange(k)[::-1][None, :]
        a = a[(slice(None),) * axis + (windows,)]
        window_axes.append(axis + 1)
    pairs = op.pairs()
    batch, channels = pairs[: op.groups], pairs[op.groups :]
    contract = (
        (*[i for i, _ in channels], *window_axes),
        (*[j for _, j in channels], *range(other, other + spatial)),
    )
    axes = tuple(i for i, _ in batch), tuple(j for _, j in batch)
    y = Tensor.make(DotGeneral(contract, axes), a, b)
    # Free axes: a's rows and the positions of windows, then b's columns.
    rows, columns = op.rows, op.columns
    positions = [*range(op.groups + rows, op.groups + rows + spatial)]
    last = [*range(op.groups + rows + spatial, op.groups + rows + spatial + columns)]
    return gt.transpose(y, [*range(op.groups + rows), *last, *positions])
