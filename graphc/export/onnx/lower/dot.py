"""Products of arrays: sums over axes, convolutions, and products with packed codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.export.onnx import builder as ob
from graphc.export.onnx.lowering import by_graph, onnx
from graphc.implicit.quantized import QuantizedMatmul
from graphc.ir import Node
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.signal.convolve import Convolution


@onnx.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Emit products of batches of matrices; complex numbers take four real products."""
    if isinstance(a, ob.Complex):
        re = _dot(op, a.re, b.re) - _dot(op, a.im, b.im)
        return ob.Complex(re, _dot(op, a.re, b.im) + _dot(op, a.im, b.re))
    if a.dtype == "bool":
        counts = [x.cast("int32").with_type(x.type) for x in (a, b)]
        return _dot(op, *counts) > 0
    if a.dtype in {"float16", "bfloat16"}:
        wide = [x.cast("float32").with_type(x.type) for x in (a, b)]
        return _dot(op, *wide).cast(a.dtype)
    return _dot(op, a, b)


def _dot(op: DotGeneral, a: ob.Value, b: ob.Value) -> ob.Value:
    """Emit one product of matrices, with the axes of each kind merged into one."""
    batch = op.batch_axes
    free = [op.free(side, x.type.ndim) for side, x in enumerate((a, b))]
    sizes = [ob.lengths(a), ob.lengths(b)]
    rows = _merge_axes(a, sizes[0], [*[[i] for i in batch[0]], free[0], op.contract[0]])
    columns = _merge_axes(b, sizes[1], [*[[i] for i in batch[1]], op.contract[1], free[1]])
    y = ob.emit("MatMul", rows, columns)
    if len(free[0]) == len(free[1]) == 1:
        return y
    batch_sizes = [sizes[0][i] for i in batch[0]]
    return ob.reshape_to(
        y, [*batch_sizes, *[sizes[side][i] for side in (0, 1) for i in free[side]]]
    )


def _merge_axes(
    x: ob.Value, sizes: Sequence[ob.Length], groups: Sequence[Sequence[int]]
) -> ob.Value:
    """Transpose x to groups of axes, and merge each group into one axis."""
    x = ob.permute_axes(x, [axis for group in groups for axis in group])
    if all(len(group) == 1 for group in groups):
        return x
    return ob.reshape_to(x, [ob.product([sizes[axis] for axis in group]) for group in groups])


# Convolutions as products with windows: ONNX's ``Conv`` is for float32 only.


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


# Products with packed codes, for which onnxruntime has a separate operation.


BITS = (4, 8)
"""The widths in bits of codes that onnxruntime multiplies by without decoding all of them."""

BLOCKS = (16, 32, 64, 128, 256)
"""The group sizes that onnxruntime supports: how many codes share a scale."""

KINDS = ("affine", "integer")
"""The supported codes: unsigned and signed integers."""


def fits(node: Node) -> bool:
    """Return whether onnxruntime has the product: a static matrix, packed along the summed axis."""
    op: Any = node.op
    x, packed = (part.type for part in node.inputs[:2])
    is_static_matrix = (
        packed.ndim == 2 and packed.is_static and x.dtype == "float32" and op.transposed
    )
    return is_static_matrix and op.kind in KINDS and op.bits in BITS and op.group_size in BLOCKS


@onnx.lower(QuantizedMatmul, when=fits)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """Multiply by scaled codes, and add the products with the biases of groups."""
    n, words = packed.type.shape
    k = op.coding.columns_of(words)
    groups = k // op.group_size
    codes = ob.reshape_to(as_bytes(packed), [n, groups, op.group_size * op.bits // 8])
    attributes = {"K": k, "N": n, "bits": op.bits, "block_size": op.group_size}
    operands = [x, codes, ob.emit("Reshape", scales, ob.vector([-1]))]
    if op.kind == "affine":
        # By default the middle code is 0, which is right for signed codes only.
        operands.append(ob.constant(np.zeros(n * -(-groups * op.bits // 8)), "uint8"))
    (y,) = ob.emit_several(
        "MatMulNBits", operands, ["float32"], domain="com.microsoft", **attributes
    )
    if not biases:
        return y
    grouped = ob.reshape_to(x, [*ob.lengths(x)[:-1], groups, op.group_size])
    sums = ob.emit("ReduceSum", grouped, ob.vector([-1]), keepdims=0)
    return y + ob.emit("MatMul", sums, ob.permute_axes(biases[0], [1, 0]))


def as_bytes(words: ob.Value) -> ob.Value:
    """Return the bytes of words, lowest first: constant-folded when a model is loaded."""
    shifts = ob.constant([0, 8, 16, 24], words.dtype)
    bytes_ = ob.emit("BitShift", ob.insert_axes(words, [-1]), shifts, direction="RIGHT")
    return (bytes_ & 255).cast("uint8")
