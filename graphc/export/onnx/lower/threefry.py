"""The Threefry hash, in unsigned integers, which wrap around."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import Value, constant, emit
from graphc.export.onnx.lowering import onnx
from graphc.random.threefry import Threefry, hash_words


@onnx.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> Any:
    k0, k1, x0, x1 = words
    return hash_words(k0, k1, x0, x1, rotate_left)


def rotate_left(x: Value, bits: int) -> Value:
    up = emit("BitShift", x, constant(bits, x.dtype), direction="LEFT")
    return up | emit("BitShift", x, constant(32 - bits, x.dtype), direction="RIGHT")
