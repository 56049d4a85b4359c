"""The Threefry hash, in unsigned integers, which wrap around."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import Value, constant, emit
from graphc.export.onnx.lowering import onnx
from graphc.random.threefry import Threefry, hashed


@onnx.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> Any:
    """All rounds written out."""
    k0, k1, x0, x1 = words
    return hashed(k0, k1, x0, x1, rotated)


def rotated(x: Value, bits: int) -> Value:
    """The bits of each word, rotated to the left."""
    up = emit("BitShift", x, constant(bits, x.dtype), direction="LEFT")
    return up | emit("BitShift", x, constant(32 - bits, x.dtype), direction="RIGHT")
