"""Diagonals, padding, and matrices with two equal triangles."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.export.onnx.builder import as_length, emit, vector
from graphc.export.onnx.lowering import by_graph, by_parts, onnx
from graphc.ir import is_complex
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.signal.pad import Pad


@onnx.lower(MatrixDiagonal)
@by_graph
def diagonal(op: MatrixDiagonal, x: Any) -> Any:
    rows, columns = max(-op.offset, 0), max(op.offset, 0)
    n, m = x.shape[-2:]
    count = gt.maximum(gt.minimum(n - rows, m - columns), 0)
    i = gt.arange(count)
    return x[..., i + rows, i + columns]


@onnx.lower(FromDiagonal)
@by_graph
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    lengths = iter(symbolic)
    n, m = (next(lengths) if size is None else size for size in op.shape)
    rows, columns = max(-op.offset, 0), max(op.offset, 0)
    i = gt.arange(v.shape[-1])
    zeros = gt.zeros((*v.shape[:-1], n, m), v.dtype)
    return zeros[..., i + rows, i + columns].set(v)


@onnx.lower(Pad)
@by_parts
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    lengths = iter(symbolic)
    widths = [as_length(next(lengths)) if n is None else n for n in op.widths]
    number = emit("Reshape", value, vector([]))
    return emit("Pad", x, vector([*widths[::2], *widths[1::2]]), number)


@onnx.lower(Mirror)
@by_graph
def mirror(op: Mirror, x: Any) -> Any:
    """Copy one triangle onto the other, conjugated for Hermitian matrices."""
    i = gt.arange(x.shape[-1])
    below = i[:, None] - i[None, :]
    is_read = below > 0 if op.lower else below < 0
    other = gt.swapaxes(x, -1, -2)
    middle = x
    if op.conjugated and is_complex(x.dtype):
        other, middle = gt.conj(other), gt.cast(gt.real(x), x.dtype)
    return gt.where(is_read, x, gt.where(gt.equal(below, 0), middle, other))
