"""Fourier transforms: ONNX's ``DFT``, along one axis after the other."""

from __future__ import annotations

from typing import Any

from graphc.export.onnx import builder as ob
from graphc.export.onnx.lowering import onnx
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier


def dft(x: ob.Value, axis: int, **attributes: Any) -> ob.Value:
    """Transform pairs along an axis.

    The inverse is not used: onnxruntime scales it by a number in float32.
    """
    return ob.emit("DFT", x, None, ob.constant(axis, "int64"), **attributes)


def conjugate(x: ob.Complex) -> ob.Complex:
    """Return the conjugate, as ``ifft(x) = conj(fft(conj(x))) / n``."""
    return ob.Complex(x.re, -x.im)


def to_pairs(x: Any) -> ob.Value:
    """Return complex numbers as pairs along a new last axis, real ones along one of length 1."""
    if not isinstance(x, ob.Complex):
        return ob.insert_axes(x, [-1])
    return ob.emit("Concat", *[ob.insert_axes(part, [-1]) for part in (x.re, x.im)], axis=-1)


def from_pairs(pairs: ob.Value, ndim: int) -> ob.Complex:
    re, im = (ob.emit("Gather", pairs, ob.constant(i, "int64"), axis=ndim) for i in range(2))
    return ob.Complex(re, im)


def normalize(pairs: ob.Value, count: Any, *, norm: str, inverse: bool) -> ob.Value:
    """Divide by the element count in one direction, or by its root in both."""
    n = ob.scalar(count).cast(pairs.dtype)
    if norm == "ortho":
        return pairs / ob.emit("Sqrt", n)
    return pairs / n if inverse == (norm == "backward") else pairs


@onnx.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    pairs = to_pairs(conjugate(x) if op.inverse else x)
    for axis in op.axes:
        pairs = dft(pairs, axis)
    count = ob.product([ob.length(x, axis) for axis in op.axes])
    y = from_pairs(normalize(pairs, count, norm=op.norm, inverse=op.inverse), x.type.ndim)
    return conjugate(y) if op.inverse else y


@onnx.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    pairs = dft(to_pairs(x), op.axis, onesided=1)
    pairs = normalize(pairs, ob.length(x, op.axis), norm=op.norm, inverse=False)
    return from_pairs(pairs, x.type.ndim)


@onnx.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Return the real part of the inverse transform of the spectrum, half of which is given."""
    n = ob.as_length(symbolic[0]) if op.n is None else op.n
    size = n if isinstance(n, ob.Value) else ob.vector([n])
    # The frequencies 1 <= k < (n + 1) / 2 are repeated in reverse order, conjugated.
    middle = (size + 1) / 2
    ends = [middle - 1, ob.vector([0]), ob.vector([op.axis]), ob.vector([-1])]
    mirrored = ob.Complex(*[ob.emit("Slice", part, *ends) for part in (x.re, x.im)])
    spectrum = [
        ob.emit("Concat", x.re, mirrored.re, axis=op.axis),
        ob.emit("Concat", _zero_real_frequencies(op, x.im, size), -mirrored.im, axis=op.axis),
    ]
    pairs = dft(to_pairs(conjugate(ob.Complex(*spectrum))), op.axis)
    y = normalize(pairs, n, norm=op.norm, inverse=True)
    real = ob.emit(
        "Slice", y, ob.vector([0]), ob.vector([1]), ob.vector([x.type.ndim]), ob.vector([1])
    )
    return ob.remove_axes(real, [x.type.ndim])


def _zero_real_frequencies(op: HermitianFourier, im: ob.Value, n: ob.Value) -> ob.Value:
    """Zero the imaginary part of the first frequency, and of the last for even n."""
    count = ob.emit("Shape", im, dtype="int64", start=op.axis, end=op.axis + 1)
    i = ob.emit(
        "Range",
        ob.constant(0, "int64"),
        ob.emit("Reshape", count, ob.vector([])),
        ob.constant(1, "int64"),
    )
    is_complex = ~(i.equals(0) | (i * 2).equals(n))
    trailing = im.type.ndim - op.axis - 1
    mask = ob.emit("Reshape", is_complex, ob.vector([-1, *[1] * trailing]))
    return ob.emit("Where", mask, im, ob.constant(0, im.dtype))
