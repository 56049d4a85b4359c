"""Products with packed codes, for which onnxruntime has a separate operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.export.onnx.builder import (
    Value,
    constant,
    emit,
    emit_several,
    insert_axes,
    lengths,
    permute_axes,
    reshape_to,
    vector,
)
from graphc.export.onnx.lowering import onnx
from graphc.implicit.quantized import QuantizedMatmul
from graphc.ir import Node

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
    codes = reshape_to(as_bytes(packed), [n, groups, op.group_size * op.bits // 8])
    attributes = {"K": k, "N": n, "bits": op.bits, "block_size": op.group_size}
    operands = [x, codes, emit("Reshape", scales, vector([-1]))]
    if op.kind == "affine":
        # By default the middle code is 0, which is right for signed codes only.
        operands.append(constant(np.zeros(n * -(-groups * op.bits // 8)), "uint8"))
    (y,) = emit_several("MatMulNBits", operands, ["float32"], domain="com.microsoft", **attributes)
    if not biases:
        return y
    grouped = reshape_to(x, [*lengths(x)[:-1], groups, op.group_size])
    sums = emit("ReduceSum", grouped, vector([-1]), keepdims=0)
    return y + emit("MatMul", sums, permute_axes(biases[0], [1, 0]))


def as_bytes(words: Value) -> Value:
    """Return the bytes of words, lowest first: constant-folded when a model is loaded."""
    shifts = constant([0, 8, 16, 24], words.dtype)
    bytes_ = emit("BitShift", insert_axes(words, [-1]), shifts, direction="RIGHT")
    return (bytes_ & 255).cast("uint8")
