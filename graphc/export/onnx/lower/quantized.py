"""Products with packed codes, for which onnxruntime has an operation of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.export.onnx.builder import (
    Value,
    constant,
    emit,
    lengths,
    reshaped,
    several,
    transposed,
    unsqueezed,
    vector,
)
from graphc.export.onnx.lowering import onnx
from graphc.implicit.quantized import QuantizedMatmul
from graphc.ir import Node

BITS = (4, 8)
"""The lengths of codes that onnxruntime multiplies by without decoding all of them."""

BLOCKS = (16, 32, 64, 128, 256)
"""How many codes may share a scale there."""

KINDS = ("affine", "integer")
"""Codes that are numbers from 0 on, or of either sign."""


def fits(node: Node) -> bool:
    """Whether onnxruntime has it: codes along what is summed over, of a matrix of known lengths."""
    op: Any = node.op
    x, packed = (part.type for part in node.inputs[:2])
    known = packed.ndim == 2 and packed.is_static and x.dtype == "float32" and op.transposed
    return known and op.kind in KINDS and op.bits in BITS and op.group_size in BLOCKS


@onnx.lower(QuantizedMatmul, when=fits)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, scales: Any, *biases: Any) -> Any:
    """A product with scaled codes, and what the biases of groups add to it."""
    n, words = packed.type.shape
    k = op.coding.columns_of(words)
    groups = k // op.group_size
    codes = reshaped(as_bytes(packed), [n, groups, op.group_size * op.bits // 8])
    how = {"K": k, "N": n, "bits": op.bits, "block_size": op.group_size}
    given = [x, codes, emit("Reshape", scales, vector([-1]))]
    if op.kind == "affine":
        # Else the middle of the codes stands for 0, as it does in those of either sign.
        given.append(constant(np.zeros(n * -(-groups * op.bits // 8)), "uint8"))
    (y,) = several("MatMulNBits", given, ["float32"], domain="com.microsoft", **how)
    if not biases:
        return y
    grouped = reshaped(x, [*lengths(x)[:-1], groups, op.group_size])
    sums = emit("ReduceSum", grouped, vector([-1]), keepdims=0)
    return y + emit("MatMul", sums, transposed(biases[0], [1, 0]))


def as_bytes(words: Value) -> Value:
    """The bytes of words, the lowest first: computed once, when a model is loaded."""
    places = constant([0, 8, 16, 24], words.dtype)
    shifted = emit("BitShift", unsqueezed(words, [-1]), places, direction="RIGHT")
    return (shifted & 255).cast("uint8")
