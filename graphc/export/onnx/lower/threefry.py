"""The Threefry hash, in unsigned integers, which wrap around."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.export.onnx.builder import Value, constant, emit
from graphc.export.onnx.lowering import onnx
from graphc.random.threefry import INJECTIONS, PARITY, ROTATIONS, Threefry


@onnx.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> Any:
    """All rounds written out."""
    k0, k1, x0, x1 = words
    keys = (k0, k1, k0 ^ k1 ^ constant(PARITY, "uint32"))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(INJECTIONS):
        for bits in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = rotated(x1, bits) ^ x0
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + (keys[(i + 2) % 3] + np.uint32(i + 1))
    return x0, x1


def rotated(x: Value, bits: int) -> Value:
    """The bits of each word, rotated to the left."""
    up = emit("BitShift", x, constant(bits, x.dtype), direction="LEFT")
    return up | emit("BitShift", x, constant(32 - bits, x.dtype), direction="RIGHT")
