"""Products with packed codes by ``mx.quantized_matmul``, whose layout they have."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.implicit.quantized import QuantizedMatmul
from graphc.implicit.quantized.coding import NORMAL_FLOATS
from graphc.link.mlx.backend import backend

BLOCK = 2**18
"""So many elements of a kind that MLX does not have are decoded at a time: 1 MB of float32."""


@backend.lower(QuantizedMatmul)
def quantized_matmul(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """A sign is a code of one bit, of two magnitudes and a bias of minus one."""
    rows, words = packed.shape[-2:]
    n = rows if op.transposed else words * op.coding.per_word
    shape = (*x.shape[:-1], n)
    if 0 in (*shape, x.shape[-1]):
        return mx.zeros(shape, x.dtype)
    if op.kind == "1bit":
        (scales,) = parts
        parts = (scales * 2, -scales)
    if op.kind == "nf4" or (op.bits == 1 and not _has_single_bits()):
        return _by_blocks(op, x, packed, *parts)
    scales, biases = parts
    return mx.quantized_matmul(
        x, packed, scales, biases, op.transposed, group_size=op.group_size, bits=op.bits
    )


@cache
def _has_single_bits() -> bool:
    """Whether this MLX has codes of one bit."""
    try:
        parts = (mx.zeros((1, 1), mx.uint32), mx.ones((1, 1)), mx.ones((1, 1)))
        y = mx.quantized_matmul(mx.ones((1, 32)), *parts, group_size=32, bits=1)
        mx.eval(y)
    except (ValueError, RuntimeError):
        return False
    return True


def _by_blocks(op: QuantizedMatmul, x: Any, packed: Any, *parts: Any) -> Any:
    """Some rows of words decoded at a time."""
    rows = packed.shape[-2]
    per_row = math.prod(packed.shape[:-2]) * packed.shape[-1] * op.coding.per_word
    step = max(1, BLOCK // per_row)
    found = []
    for start in range(0, rows, step):
        some = slice(start, start + step)
        block = _decoded(op, *[part[..., some, :] for part in (packed, *parts)])
        block = mx.swapaxes(block, -1, -2) if op.transposed else block
        found.append(mx.matmul(x if op.transposed else x[..., some], block))
    if op.transposed:
        return mx.concatenate(found, -1)
    return sum(found[1:], found[0])


def _decoded(op: QuantizedMatmul, packed: Any, scales: Any, biases: Any = None) -> Any:
    coding = op.coding
    shifts = mx.arange(0, 32, op.bits).astype(mx.uint32)
    codes = mx.right_shift(packed[..., None], shifts) & (2**op.bits - 1)
    if op.kind == "nf4":
        values = mx.take(mx.array(np.array(NORMAL_FLOATS, "float32")), codes).astype(scales.dtype)
    else:
        values = codes.astype(scales.dtype)
    groups = mx.reshape(values, (*scales.shape, coding.group_size)) * scales[..., None]
    if biases is not None:
        groups = groups + biases[..., None]
    return mx.reshape(groups, (*packed.shape[:-1], packed.shape[-1] * coding.per_word))
