"""Fourier transforms: ONNX's ``DFT``, along one axis after the other."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx.builder import (
    Complex,
    Value,
    as_length,
    constant,
    emit,
    insert_axes,
    length,
    product,
    remove_axes,
    scalar,
    vector,
)
from graphc.export.onnx.lowering import onnx
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier


def dft(x: Value, axis: int, **attributes: Any) -> Value:
    """Transform pairs along an axis.

    The inverse is not used: onnxruntime scales it by a number in float32.
    """
    return emit("DFT", x, None, constant(axis, "int64"), **attributes)


def conjugate(x: Complex) -> Complex:
    """Return the conjugate, as ``ifft(x) = conj(fft(conj(x))) / n``."""
    return Complex(x.re, -x.im)


def to_pairs(x: Any) -> Value:
    """Return complex numbers as pairs along a new last axis, real ones along one of length 1."""
    if not isinstance(x, Complex):
        return insert_axes(x, [-1])
    return emit("Concat", *[insert_axes(part, [-1]) for part in (x.re, x.im)], axis=-1)


def from_pairs(pairs: Value, ndim: int) -> Complex:
    re, im = (emit("Gather", pairs, constant(i, "int64"), axis=ndim) for i in range(2))
    return Complex(re, im)


def normalize(pairs: Value, count: Any, *, norm: str, inverse: bool) -> Value:
    """Divide by the element count in one direction, or by its root in both."""
    n = scalar(count).cast(pairs.dtype)
    if norm == "ortho":
        return pairs / emit("Sqrt", n)
    return pairs / n if inverse == (norm == "backward") else pairs


@onnx.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    pairs = to_pairs(conjugate(x) if op.inverse else x)
    for axis in op.axes:
        pairs = dft(pairs, axis)
    count = product([length(x, axis) for axis in op.axes])
    y = from_pairs(normalize(pairs, count, norm=op.norm, inverse=op.inverse), x.type.ndim)
    return conjugate(y) if op.inverse else y


@onnx.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    pairs = dft(to_pairs(x), op.axis, onesided=1)
    pairs = normalize(pairs, length(x, op.axis), norm=op.norm, inverse=False)
    return from_pairs(pairs, x.type.ndim)


@onnx.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Return the real part of the inverse transform of the spectrum, half of which is given."""
    n = as_length(symbolic[0]) if op.n is None else op.n
    size = n if isinstance(n, Value) else vector([n])
    # The frequencies 1 <= k < (n + 1) / 2 are repeated in reverse order, conjugated.
    middle = (size + 1) / 2
    ends = [middle - 1, vector([0]), vector([op.axis]), vector([-1])]
    mirrored = Complex(*[emit("Slice", part, *ends) for part in (x.re, x.im)])
    spectrum = [
        emit("Concat", x.re, mirrored.re, axis=op.axis),
        emit("Concat", _zero_real_frequencies(op, x.im, size), -mirrored.im, axis=op.axis),
    ]
    pairs = dft(to_pairs(conjugate(Complex(*spectrum))), op.axis)
    y = normalize(pairs, n, norm=op.norm, inverse=True)
    real = emit("Slice", y, vector([0]), vector([1]), vector([x.type.ndim]), vector([1]))
    return remove_axes(real, [x.type.ndim])


def _zero_real_frequencies(op: HermitianFourier, im: Value, n: Value) -> Value:
    """Zero the imaginary part of the first frequency, and of the last for even n."""
    count = emit("Shape", im, dtype="int64", start=op.axis, end=op.axis + 1)
    i = emit(
        "Range", constant(0, "int64"), emit("Reshape", count, vector([])), constant(1, "int64")
    )
    is_complex = ~(i.equals(0) | (i * 2).equals(n))
    trailing = im.type.ndim - op.axis - 1
    mask = emit("Reshape", is_complex, vector([-1, *[1] * trailing]))
    return emit("Where", mask, im, constant(0, im.dtype))
