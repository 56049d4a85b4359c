"""Fourier transforms: ONNX's, along one axis after the other."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import (
    Complex,
    Value,
    as_length,
    constant,
    emit,
    length,
    product,
    scalar,
    squeezed,
    unsqueezed,
    vector,
)
from graphc.export.onnx.lowering import onnx
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier


def transformed(x: Value, axis: int, **how: Any) -> Value:
    """The transform of pairs along an axis.

    There is no inverse: onnxruntime scales it by a number in float32.
    """
    return emit("DFT", x, None, constant(axis, "int64"), **how)


def conjugated(x: Complex) -> Complex:
    """With the other sign of the imaginary part, so that a transform becomes its inverse."""
    return Complex(x.re, -x.im)


def paired(x: Any) -> Value:
    """Pairs of real numbers along one more axis, or real numbers alone."""
    if not isinstance(x, Complex):
        return unsqueezed(x, [-1])
    return emit("Concat", *[unsqueezed(part, [-1]) for part in (x.re, x.im)], axis=-1)


def parts(pairs: Value, ndim: int) -> Complex:
    """Complex numbers of pairs."""
    re, im = (emit("Gather", pairs, constant(i, "int64"), axis=ndim) for i in range(2))
    return Complex(re, im)


def scaled(pairs: Value, count: Any, *, norm: str, inverse: bool) -> Value:
    """Divided by the count in one direction, or by its root in both."""
    n = scalar(count).cast(pairs.dtype)
    if norm == "ortho":
        return pairs / emit("Sqrt", n)
    return pairs / n if inverse == (norm == "backward") else pairs


@onnx.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    """Of complex numbers."""
    pairs = paired(conjugated(x) if op.inverse else x)
    for axis in op.axes:
        pairs = transformed(pairs, axis)
    count = product([length(x, axis) for axis in op.axes])
    y = parts(scaled(pairs, count, norm=op.norm, inverse=op.inverse), x.type.ndim)
    return conjugated(y) if op.inverse else y


@onnx.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    """The first half of that of real numbers."""
    pairs = transformed(paired(x), op.axis, onesided=1)
    pairs = scaled(pairs, length(x, op.axis), norm=op.norm, inverse=False)
    return parts(pairs, x.type.ndim)


@onnx.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """The real part of the inverse of the whole spectrum: the half given, and its mirror image."""
    n = as_length(symbolic[0]) if op.n is None else op.n
    known = n if isinstance(n, Value) else vector([n])
    # Of n numbers, those from 1 on and below (n + 1) / 2 come again, from the end.
    behind = (known + 1) / 2
    ends = [behind - 1, vector([0]), vector([op.axis]), vector([-1])]
    again = Complex(*[emit("Slice", part, *ends) for part in (x.re, x.im)])
    whole = [
        emit("Concat", x.re, again.re, axis=op.axis),
        emit("Concat", _without_ends(op, x.im, known), -again.im, axis=op.axis),
    ]
    pairs = transformed(paired(conjugated(Complex(*whole))), op.axis)
    y = scaled(pairs, n, norm=op.norm, inverse=True)
    real = emit("Slice", y, vector([0]), vector([1]), vector([x.type.ndim]), vector([1]))
    return squeezed(real, [x.type.ndim])


def _without_ends(op: HermitianFourier, im: Value, n: Value) -> Value:
    """Imaginary parts, of which the first, and the last of an even number, do not count."""
    places = emit("Shape", im, dtype="int64", start=op.axis, end=op.axis + 1)
    i = emit(
        "Range", constant(0, "int64"), emit("Reshape", places, vector([])), constant(1, "int64")
    )
    counts = ~(i.equals(0) | (i * 2).equals(n))
    behind = im.type.ndim - op.axis - 1
    mask = emit("Reshape", counts, vector([-1, *[1] * behind]))
    return emit("Where", mask, im, constant(0, im.dtype))
