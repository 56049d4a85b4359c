"""Discrete Fourier transforms of any length, over one axis or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Op, TensorType, is_complex, is_inexact
from graphc.lazy import listing
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.rearrange import roll
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.elementwise import cast, conj, equal, maximum, where
from graphc.tensor.core.shape import AxisOp, are_equal, entries, fill_shape, length
from graphc.tensor.core.tensor import (
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    known_axes,
)
from graphc.tensor.signal.pad import pad

__all__ = [
    "MIRRORED", "Fourier", "HermitianFourier", "RealFourier", "fft", "fft2", "fftfreq", "fftn",
    "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "needs_elements", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

__dir__ = listing(globals())

MIRRORED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The normalization of the transposed transform, by the transform's."""


def needs_elements(op: Op, n: int | None) -> None:
    """Raise if an axis to transform is known to be empty."""
    if isinstance(n, int) and n < 1:
        raise ShapeError(f"{op.name}: cannot transform an axis of {n} elements.")


@dataclass(frozen=True, slots=True)
class Fourier(AxisOp):
    """The discrete Fourier transform of complex numbers over some axes, or its inverse.

    Element k of the result is the sum of ``x[j] * exp(-2j * pi * j * k / n)``, with the sign of
    the exponent changed in the inverse, times a scale.

    Attributes:
        axes: The axes, distinct, non-negative and sorted.
        inverse: Whether the transform is the inverse.
        norm: ``"backward"`` scales the inverse by 1/n, ``"forward"`` the other direction, and
            ``"ortho"`` both by its root; n is the number of elements transformed.
    """

    axes: tuple[int, ...]
    inverse: bool
    norm: str
    is_linear = True

    @property
    def name(self) -> str:
        return "ifft" if self.inverse else "fft"

    def infer(self, x: TensorType) -> TensorType:
        if not is_complex(x.dtype):
            raise DTypeError(f"{self.name}({x!r}): expected complex numbers.")
        for axis in self.axes:
            needs_elements(self, x.shape[axis])
        return x

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        return None if axis in self.axes else "any"

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        for axis in self.axes:
            needs_elements(self, x.shape[axis])
        transform = np.fft.ifftn if self.inverse else np.fft.fftn
        return transform(x, axes=self.axes, norm=self.norm).astype(x.dtype, copy=False)  # type: ignore[arg-type]

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        adjoint = replace(self, inverse=not self.inverse, norm=MIRRORED[self.norm])
        return (Tensor.make(adjoint, g),)


@dataclass(frozen=True, slots=True)
class RealFourier(AxisOp):
    """The first half, n // 2 + 1 elements, of the transform of n real numbers along an axis.

    The other half is its mirrored conjugate.

    Attributes:
        axis: The axis, non-negative.
        norm: As for ``Fourier``, for the forward direction.
    """

    axis: int
    norm: str
    name = "rfft"
    is_linear = True

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype not in COMPLEX_OF:
            raise DTypeError(f"rfft({x!r}): expected float32 or float64.")
        needs_elements(self, x.shape[self.axis])
        return TensorType(COMPLEX_OF[x.dtype], self.half(x.shape))

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        return None if axis == self.axis else "any"

    def half(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        n = shape[self.axis]
        return _with_length(shape, self.axis, None if n is None else n // 2 + 1)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        needs_elements(self, x.shape[self.axis])
        y = np.fft.rfft(x, axis=self.axis, norm=self.norm)  # type: ignore[arg-type]
        return y.astype(COMPLEX_OF[x.dtype.name], copy=False)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Divide by the multiplicity: the inverse counts each element of the half twice."""
        n = length(x, self.axis)
        once = g / _multiplicity(n, g, self.axis)
        return (_hermitian(once, n, self.axis, MIRRORED[self.norm]),)


@dataclass(frozen=True, slots=True)
class HermitianFourier(AxisOp):
    """The inverse of ``RealFourier``: n real numbers from half of a Hermitian spectrum.

    An input has n // 2 + 1 elements along the axis; imaginary parts of the first, and for even n
    of the last, are ignored. A second input is n if the parameter is None.

    Attributes:
        axis: The axis, non-negative.
        n: The result's length; None stands for an input.
        norm: As for ``Fourier``, for the inverse.
    """

    axis: int
    n: int | None
    norm: str
    name = "irfft"
    is_linear = True

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        if not is_complex(x.dtype):
            raise DTypeError(f"irfft({x!r}): expected complex numbers.")
        half = x.shape[self.axis]
        needs_elements(self, self.n)
        if self.n is not None and isinstance(half, int):
            self.needs_half(half, self.n)
        (n,) = fill_shape((self.n,), symbolic)
        return TensorType(REAL_OF[x.dtype], _with_length(x.shape, self.axis, n))

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        return None if axis == self.axis else "any"

    def needs_half(self, given: int, n: int) -> None:
        """Raise if the input is not as long as the half of n elements."""
        if not are_equal(given, n // 2 + 1):
            raise ShapeError(
                f"irfft: a result of {n} elements needs {n // 2 + 1}, got {given}.",
                "Truncate or pad the input.",
            )

    def count(self, x: Any, symbolic: Sequence[Any]) -> int:
        n = int(symbolic[0]) if self.n is None else self.n
        needs_elements(self, n)
        self.needs_half(x.shape[self.axis], n)
        return n

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> Any:
        n = self.count(x, symbolic)
        y = np.fft.irfft(x, n, self.axis, self.norm)  # type: ignore[arg-type]
        return y.astype(REAL_OF[x.dtype.name], copy=False)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        half = Tensor.make(RealFourier(self.axis, MIRRORED[self.norm]), g)
        n = symbolic[0] if self.n is None else self.n
        return (half * _multiplicity(n, x, self.axis), *(None for _ in symbolic))


COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}
REAL_OF = {"complex64": "float32", "complex128": "float64"}


def _with_length(shape: tuple[Any, ...], axis: int, n: int | None) -> tuple[Any, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _hermitian(x: Tensor, n: Any, axis: int, norm: str) -> Tensor:
    if isinstance(n, Tensor):
        return Tensor.make(HermitianFourier(axis, None, norm), x, cast(n, "int64"))
    return Tensor.make(HermitianFourier(axis, n, norm), x)


def _multiplicity(n: Any, like: Tensor, axis: int) -> Tensor:
    """Return how many elements of a spectrum each of its half represents: 1 at the ends, else 2."""
    k = arange(n // 2 + 1)
    single = equal(k, 0) | equal(2 * k, n)
    counts = cast(where(single, 1, 2), REAL_OF[like.dtype])
    others = [i for i in range(like.ndim) if i != axis]
    return expand_dims(counts, others) if others else counts


# Public functions: the array is made complex, cut or padded, and transformed.


def _as_float_or_complex(x: Tensor) -> Tensor:
    if is_complex(x.dtype):
        return x
    narrow = is_inexact(x.dtype) and x.dtype != "float64"
    return cast(x, "float32" if narrow else "float64")


def _complex(x: Tensor) -> Tensor:
    x = _as_float_or_complex(x)
    return x if is_complex(x.dtype) else cast(x, COMPLEX_OF[x.dtype])


def _norm(op: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in MIRRORED:
        raise ArgumentError(f"{op}: unknown norm={norm!r}.", f"Use one of {', '.join(MIRRORED)}.")
    return norm


def _requested_length(op: str, n: Any) -> Any:
    (static,), symbolic = entries(op, n)
    if static is None:
        return symbolic[0]
    if static < 1:
        raise ShapeError(f"{op}: cannot transform {static} elements.")
    return static


def _resize(x: Tensor, n: Any, axis: int) -> Tensor:
    """Truncate or zero-pad to n elements along an axis."""
    own = length(x, axis)
    if n is own or (isinstance(n, int) and n == own):
        return x
    is_static = isinstance(n, int) and isinstance(own, int)
    if not is_static or n < own:
        x = x[slice_at_axis(slice(0, n), axis)]
    if is_static and n < own:
        return x
    missing = n - own if is_static else maximum(n - own, 0)
    return pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])


def _axis(op: str, x: Tensor, axis: int) -> int:
    return axes_of(op, (axis,), x.ndim)[0]


def _targets(op: str, x: Tensor, s: Any, axes: Axis) -> list[tuple[int, Any]]:
    """Return the axes in order, and the requested length of each, None for the array's."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        axes = tuple(range(x.ndim - count, x.ndim))
    axes = known_axes(axes)
    axes = axes if isinstance(axes, tuple) else (axes,)
    axes_of(op, axes, x.ndim)
    sizes = [None] * len(axes) if s is None else list(s)
    if len(sizes) != len(axes):
        raise ShapeError(
            f"{op}: s={s!r} has {len(sizes)} lengths, and there are {len(axes)} axes.",
            "Pass one length for each axis.",
        )
    if not axes:
        raise ShapeError(f"{op}: expected at least one axis to transform.")
    # NumPy's -1 is the array's own length.
    own = [None if isinstance(n, int) and n == -1 else n for n in sizes]
    return [(axis % x.ndim, n) for axis, n in zip(axes, own, strict=True)]


def _transform(
    op: str, x: Tensor, targets: Sequence[tuple[int, Any]], norm: Any, *, inverse: bool
) -> Tensor:
    norm = _norm(op, norm)
    for axis, n in targets:
        x = x if n is None else _resize(x, _requested_length(op, n), axis)
    axes = tuple(sorted(axis for axis, _ in targets))
    return Tensor.make(Fourier(axes, inverse, norm), _complex(x)) if axes else _complex(x)


def _real(op: str, x: Tensor, axis: int, n: Any, norm: Any) -> Tensor:
    if is_complex(x.dtype):
        raise DTypeError(f"{op}({x!r}): expected real numbers.", "Use fft, or take x.real.")
    x = x if n is None else _resize(x, _requested_length(op, n), axis)
    return Tensor.make(RealFourier(axis, _norm(op, norm)), _as_float_or_complex(x))


def _from_half(op: str, x: Tensor, axis: int, n: Any, norm: Any) -> Tensor:
    if n is None:
        n = 2 * (length(x, axis) - 1)
    else:
        n = _requested_length(op, n)
        x = _resize(x, n // 2 + 1, axis)
    if isinstance(n, int) and n < 1:
        raise ShapeError(f"{op}({x!r}): this is half the spectrum of {n} elements.", "Pass n=1.")
    return _hermitian(_complex(x), n, axis, _norm(op, norm))


@function
def fft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform along an axis.

    Element k is the sum of ``a[j] * exp(-2j * pi * j * k / n)`` over j.

    Args:
        a: Numbers of any dtype and shape.
        n: The length to transform, a Python or symbolic integer: the array is truncated, or
            zero-padded at the end. The array's own by default; any length works, odd and prime ones
            too.
        axis: The axis.
        norm: ``"backward"``, the default: the sum itself, and ``ifft`` divides by n;
            ``"ortho"``: both divide by the root of n; ``"forward"``: this one divides by n.

    Returns:
        complex64 for float32 and narrower floats, else complex128.

    Raises:
        ShapeError: There is no such axis, or the axis is empty.
        ArgumentError: The norm is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.fft([1.0, 0.0, 0.0, 0.0]).eval(mode="NUMPY").real.tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    x = as_tensor(a)
    return _transform("fft", x, [(_axis("fft", x, axis), n)], norm, inverse=False)


@function
def ifft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of ``fft``; arguments, result and errors as there.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.ifft([4.0, 0.0, 0.0, 0.0]).real.eval(mode="NUMPY").tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    x = as_tensor(a)
    return _transform("ifft", x, [(_axis("ifft", x, axis), n)], norm, inverse=True)


@function
def fft2(a: TensorLike, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Return ``fftn`` over the last two axes; arguments, result and errors as there.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.fft.fft2(np.ones((2, 2))).real.eval(mode="NUMPY").tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    x = as_tensor(a)
    return _transform("fft2", x, _targets("fft2", x, s, axes), norm, inverse=False)


@function
def ifft2(a: TensorLike, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Return the inverse of ``fft2``; arguments, result and errors as for ``fftn``.

    Example:
        >>> import graphc.tensor as gt
        >>> a = [[1.0, 2.0], [3.0, 4.0]]
        >>> gt.fft.ifft2(gt.fft.fft2(a)).real.round(6).eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    x = as_tensor(a)
    return _transform("ifft2", x, _targets("ifft2", x, s, axes), norm, inverse=True)


@function
def fftn(a: TensorLike, s: Any = None, axes: Any = None, norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform over several axes.

    Args:
        a: Numbers of any dtype and shape.
        s: The length to transform on each axis, as ``n`` of ``fft``; None or -1 is the array's.
        axes: The axes; all by default, or the last ones if ``s`` is given.
        norm: As for ``fft``; n is the product of the lengths.

    Returns:
        As for ``fft``.

    Raises:
        ShapeError: There are no such axes, or not as many as lengths.
        ArgumentError: The norm is unknown.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.fft.fftn(np.ones((2, 2))).real.eval(mode="NUMPY").tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    x = as_tensor(a)
    return _transform("fftn", x, _targets("fftn", x, s, axes), norm, inverse=False)


@function
def ifftn(a: TensorLike, s: Any = None, axes: Any = None, norm: str | None = None) -> Tensor:
    """Return the inverse of ``fftn``; arguments and errors as there.

    Example:
        >>> import graphc.tensor as gt
        >>> a = [[1.0, 2.0], [3.0, 4.0]]
        >>> gt.fft.ifftn(gt.fft.fftn(a)).real.round(6).eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    x = as_tensor(a)
    return _transform("ifftn", x, _targets("ifftn", x, s, axes), norm, inverse=True)


@function
def rfft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the first half of the transform of real numbers, whose other half mirrors it.

    Args:
        a: Real numbers or bool, any shape.
        n: The length to transform, as for ``fft``.
        axis: The axis.
        norm: As for ``fft``.

    Returns:
        ``n // 2 + 1`` complex elements along the axis: complex64 for float32 and narrower floats,
        else complex128.

    Raises:
        DTypeError: a is complex.
        ShapeError: There is no such axis, or the axis is empty.

    Example:
        >>> import graphc.tensor as gt
        >>> abs(gt.fft.rfft([1.0, -1.0, 1.0, -1.0])).eval(mode="NUMPY").tolist()
        [0.0, 0.0, 4.0]
    """
    x = as_tensor(a)
    return _real("rfft", x, _axis("rfft", x, axis), n, norm)


@function
def irfft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of ``rfft``: real numbers from the first half of their transform.

    Args:
        a: Numbers of any dtype and shape; imaginary parts of elements that must be real are
            ignored.
        n: The length of the result, a Python or symbolic integer: ``2 * (m - 1)`` for m
            elements by default, so pass it if it is odd.
        axis: The axis.
        norm: As for ``fft``.

    Returns:
        n real elements along the axis.

    Raises:
        ShapeError: There is no such axis, or the axis is empty.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.irfft(gt.fft.rfft([3.0, 1.0, 2.0]), n=3).eval(mode="NUMPY").round(12).tolist()
        [3.0, 1.0, 2.0]
    """
    x = as_tensor(a)
    return _from_half("irfft", x, _axis("irfft", x, axis), n, norm)


@function
def rfft2(a: TensorLike, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Return ``rfftn`` over the last two axes; arguments, result and errors as there.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.rfft2([[1.0, 2.0], [3.0, 4.0]]).real.eval(mode="NUMPY").tolist()
        [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _real_over_axes("rfft2", a, s, axes, norm)


@function
def rfftn(a: TensorLike, s: Any = None, axes: Any = None, norm: str | None = None) -> Tensor:
    """Return the transform of real numbers over several axes, half of it along the last of them.

    Arguments and errors as for ``fftn``; the numbers must be real.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.rfftn(gt.tensor("x", shape=(4, 6))).type.shape
        (4, 4)
    """
    return _real_over_axes("rfftn", a, s, axes, norm)


def _real_over_axes(op: str, a: Any, s: Any, axes: Any, norm: Any) -> Tensor:
    x = as_tensor(a)
    *others, (last, n) = _targets(op, x, s, axes)
    return _transform(op, _real(op, x, last, n, norm), others, norm, inverse=False)


@function
def irfft2(a: TensorLike, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """Return the inverse of ``rfft2``; arguments, result and errors as for ``irfftn``.

    Example:
        >>> import graphc.tensor as gt
        >>> a = [[1.0, 2.0], [3.0, 4.0]]
        >>> gt.fft.irfft2(gt.fft.rfft2(a)).round(6).eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _from_half_over_axes("irfft2", a, s, axes, norm)


@function
def irfftn(a: TensorLike, s: Any = None, axes: Any = None, norm: str | None = None) -> Tensor:
    """Return the inverse of ``rfftn``; arguments and errors as for ``fftn``.

    The last length of ``s`` is the result's, as ``n`` of ``irfft``.

    Example:
        >>> import graphc.tensor as gt
        >>> a = [[1.0, 2.0], [3.0, 4.0]]
        >>> gt.fft.irfftn(gt.fft.rfftn(a)).round(6).eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    return _from_half_over_axes("irfftn", a, s, axes, norm)


def _from_half_over_axes(op: str, a: Any, s: Any, axes: Any, norm: Any) -> Tensor:
    x = as_tensor(a)
    *others, (last, n) = _targets(op, x, s, axes)
    return _from_half(op, _transform(op, x, others, norm, inverse=True), last, n, norm)


@function
def hfft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the real transform of a Hermitian-symmetric signal, given its first half.

    Args:
        a: The first half of the signal, along the axis.
        n: The length of the result, as for ``irfft``.
        axis: The axis.
        norm: As for ``fft``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.hfft([4.0, 1.0, 0.0]).round(6).eval(mode="NUMPY").tolist()
        [6.0, 4.0, 2.0, 4.0]
    """
    x = conj(as_tensor(a))
    return _from_half("hfft", x, _axis("hfft", x, axis), n, MIRRORED[_norm("hfft", norm)])


@function
def ihfft(a: TensorLike, n: Any = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of ``hfft``: the first half, for real numbers; arguments as ``rfft``'s.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.ihfft([6.0, 4.0, 3.0, 4.0]).real.round(6).eval(mode="NUMPY").tolist()
        [4.25, 0.75, 0.25]
    """
    x = as_tensor(a)
    return conj(_real("ihfft", x, _axis("ihfft", x, axis), n, MIRRORED[_norm("ihfft", norm)]))


# Frequencies, and their order.


def _of_frequency(k: Tensor, n: Any, d: Any) -> Tensor:
    if isinstance(n, Tensor):
        n = cast(n, "float64")
    return k * (1.0 / (n * d))  # type: ignore[no-any-return]


@function
def fftfreq(n: Any, d: Any = 1.0) -> Tensor:
    """Return the frequencies of the elements of a transform, the negative ones last.

    Args:
        n: The number of elements, a Python or symbolic integer.
        d: The spacing of samples; frequencies are in cycles per unit of it.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.fftfreq(5, 0.5).eval(mode="NUMPY").tolist()
        [0.0, 0.4, 0.8, -0.8, -0.4]
    """
    n = _requested_length("fftfreq", n)
    k = arange(n)
    return _of_frequency(where(k < (n + 1) // 2, k, k - n), n, d)


@function
def rfftfreq(n: Any, d: Any = 1.0) -> Tensor:
    """Return the frequencies of the elements of ``rfft``; arguments as for ``fftfreq``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.rfftfreq(4).eval(mode="NUMPY").tolist()
        [0.0, 0.25, 0.5]
    """
    n = _requested_length("rfftfreq", n)
    return _of_frequency(arange(n // 2 + 1), n, d)


def _roll_axes(op: str, x: Any, axes: Axis, sign: int) -> Tensor:
    x = as_tensor(x)
    for axis in axes_of(op, axes, x.ndim):
        n = length(x, axis)
        x = roll(x, n // 2 if sign > 0 else -(n // 2), axis)
    return x  # type: ignore[no-any-return]


@function
def fftshift(x: TensorLike, axes: Axis = None) -> Tensor:
    """Return the spectrum with frequency 0 in the middle, negative frequencies before it.

    Args:
        x: An array of any dtype and shape.
        axes: The axes; all by default.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fft.fftshift([0, 1, 2, -2, -1]).eval(mode="NUMPY").tolist()
        [-2, -1, 0, 1, 2]
    """
    return _roll_axes("fftshift", x, axes, 1)


@function
def ifftshift(x: TensorLike, axes: Axis = None) -> Tensor:
    """Return the inverse of ``fftshift``; arguments as there.

    Example:
        >>> import graphc.tensor as gt
        >>> x = [0.0, 1.0, 2.0, -2.0, -1.0]
        >>> gt.fft.ifftshift(gt.fft.fftshift(x)).eval(mode="NUMPY").tolist()
        [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    return _roll_axes("ifftshift", x, axes, -1)
