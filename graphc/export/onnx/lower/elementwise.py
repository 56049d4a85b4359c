"""Elementwise rows; ONNX broadcasts the operands itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.export.onnx import complex as of_complex, real as of_real
from graphc.export.onnx.builder import Complex, Value, constant, emit, full_like, where
from graphc.export.onnx.lowering import by_graph, by_parts, onnx
from graphc.grad.barriers import Barrier
from graphc.ir import numpy_dtype
from graphc.loop import scan, until
from graphc.random.threefry import Threefry, hash_words
from graphc.tensor.core.elementwise import ROWS, Cast, Where

Function = Callable[..., Any]


def _enter(name: str, real: Function) -> None:
    compute = real if name in of_real.PRECISE else of_real.in_float32(real)
    complexes = of_complex.TABLE.get(name)

    @onnx.lower(ROWS[name])
    def lowering(op: Any, *xs: Any) -> Any:
        if isinstance(xs[0], Complex):
            if complexes is None:
                raise of_complex.unsupported_error(op)
            return complexes(*xs)
        return compute(*xs)


for _name, _real in of_real.TABLE.items():
    _enter(_name, _real)


@onnx.lower(ROWS["complex"])
def from_parts(op: Any, a: Any, b: Any) -> Any:
    return of_complex.from_parts(a, b)


@onnx.lower(ROWS["power"])
def power(op: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        return of_complex.power(a, b)
    if not a.is_float:
        return integer_power(op, a, b)
    return of_real.in_float32(lambda a, b: emit("Pow", a, b))(a, b)


# Powers and divisors of integers, which take loops.


@by_graph
def integer_power(op: Any, a: Any, b: Any) -> Any:
    """Compute a power by repeated squaring, which wraps around as NumPy's does."""
    a, b = gt.broadcast_arrays(a, b)

    def square_and_multiply(y: Any, square: Any, exponent: Any) -> Any:
        y = gt.where(gt.equal(exponent & 1, 1), y * square, y)
        exponent = exponent >> 1
        return [y, square * square, exponent], until(gt.all(gt.equal(exponent, 0)))

    start = [gt.ones_like(a), a, gt.maximum(b, 0)]
    steps = 8 * numpy_dtype(a.dtype).itemsize
    y = scan(square_and_multiply, outputs_info=start, n_steps=steps, return_list=True)[0][-1]
    if a.dtype.startswith("u"):
        return y
    unit = gt.where(gt.equal(b & 1, 1), a, gt.ones_like(a))
    unit = gt.where(gt.equal(gt.abs(a), 1), unit, 0)
    return gt.where(b < 0, unit, y)


@onnx.lower(ROWS["gcd"])
@by_graph
def gcd(op: Any, a: Any, b: Any) -> Any:
    """Compute the greatest common divisor by Euclid's algorithm."""
    dtype = a.dtype
    a, b = gt.broadcast_arrays(*map(unsigned_magnitude, (a, b)))

    def step(a: Any, b: Any) -> Any:
        rest = a % b
        return [gt.where(gt.equal(b, 0), a, b), rest], until(gt.all(gt.equal(rest, 0)))

    # Fibonacci numbers take the most steps, and 93 of them are below 2**64.
    carries = scan(step, outputs_info=[a, b], n_steps=94, return_list=True)
    return gt.cast(carries[0][-1], dtype)


def unsigned_magnitude(x: Any) -> Any:
    """Return the magnitude as an unsigned integer, which is exact for the lowest integer too."""
    x = gt.abs(x)
    return x if x.dtype.startswith("u") else gt.cast(x, f"u{x.dtype}")


@onnx.lower(ROWS["lcm"])
@by_graph
def lcm(op: Any, a: Any, b: Any) -> Any:
    """Return the least common multiple, which is 0 for 0."""
    dtype = a.dtype
    a, b = map(unsigned_magnitude, (a, b))
    divisor = gt.gcd(a, b)
    return gt.cast(a // gt.maximum(divisor, 1) * b, dtype)


@onnx.lower(Cast)
def cast(op: Cast, x: Any) -> Any:
    """Cast to any dtype; a cast to bool is ``x != 0``."""
    if isinstance(x, Complex):
        return of_complex.cast(x, op.dtype)
    if op.dtype.startswith("complex"):
        real = "float32" if op.dtype == "complex64" else "float64"
        re = x.cast(real)
        return Complex(re, full_like(re, 0))
    if op.dtype == "bool" and x.is_float:
        return ~x.equals(0)
    return x.cast(op.dtype)


@onnx.lower(Where)
@by_parts
def select(op: Where, condition: Any, a: Any, b: Any) -> Any:
    return where(condition, a, b)


@onnx.lower(Barrier)
def barrier(op: Barrier, x: Any) -> Any:
    """Return x: derivatives are taken before the export."""
    return x


# The Threefry hash, in unsigned integers, which wrap around.


@onnx.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> Any:
    k0, k1, x0, x1 = words
    return hash_words(k0, k1, x0, x1, rotate_left)


def rotate_left(x: Value, bits: int) -> Value:
    up = emit("BitShift", x, constant(bits, x.dtype), direction="LEFT")
    return up | emit("BitShift", x, constant(32 - bits, x.dtype), direction="RIGHT")
