"""Convolutions and correlations of signals and images, by sums or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import is_complex, is_inexact
from graphc.tensor.core.axes import moveaxis
from graphc.tensor.core.elementwise import cast, conj, round
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Axis, Tensor, TensorLike, axes_of, operands
from graphc.tensor.signal.convolve import (
    Convolution,
    FourierConvolution,
    check_mode,
    fast_length,
    flip_last,
    full_convolution,
    same_convolution,
    valid_convolution,
)
from graphc.tensor.signal.pad import pad

WORTH = 16
"""The multiplications that take as long as one of an FFT's n log n steps, on JAX's CPU."""

METHODS = ("auto", "direct", "fft")
BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
"""The boundaries of an image, and the mode of ``pad`` for each."""


def _operands(op: str, in1: Any, in2: Any, spatial: int | None) -> tuple[Tensor, Tensor, int]:
    """Return both operands in one dtype, and the number of convolved axes, all by default."""
    (a, b), _ = operands(op, (in1, in2))
    if a.ndim != b.ndim if spatial is None else min(a.ndim, b.ndim) < spatial:
        wanted = "as many axes" if spatial is None else f"{spatial} axes at least"
        raise ShapeError(f"{op}({a!r}, {b!r}): expected {wanted} for both.")
    return a, b, a.ndim if spatial is None else spatial


def _algorithm(op: str, a: Tensor, b: Tensor, spatial: int, method: str) -> type[Convolution]:
    check_mode(op, method, METHODS)
    if method != "auto":
        return FourierConvolution if method == "fft" else Convolution
    sizes = [[length(x, i) for i in range(x.ndim - spatial, x.ndim)] for x in (a, b)]
    is_static = all(isinstance(n, int) for x in sizes for n in x)
    if not is_static or not is_inexact(a.dtype):
        return Convolution
    sums = prod(n + k - 1 for n, k in zip(*sizes, strict=True))
    whole = prod(fast_length(n + k - 1) for n, k in zip(*sizes, strict=True))
    direct = sums * min(map(prod, sizes))
    return FourierConvolution if direct > WORTH * whole * log2(whole + 1) else Convolution


def _convolution(
    op: str, a: Tensor, b: Tensor, spatial: int, mode: str, cls: type[Convolution]
) -> Tensor:
    check_mode(op, mode)
    if issubclass(cls, FourierConvolution) and not is_inexact(a.dtype):
        y = _convolution(op, cast(a, "float64"), cast(b, "float64"), spatial, mode, cls)
        return cast(round(y), a.dtype)
    if mode == "full":
        return full_convolution(a, b, spatial, cls)
    return (same_convolution if mode == "same" else valid_convolution)(a, b, spatial, cls)


def _reverse(x: Tensor, spatial: int) -> Tensor:
    return flip_last(conj(x) if is_complex(x.dtype) else x, spatial)


def convolve1d(in1: TensorLike, in2: TensorLike, mode: str = "full") -> Tensor:
    """Return the convolution of two arrays over their last axis; those in front broadcast.

    Args:
        in1: Any dtype, n elements on the last axis.
        in2: Any dtype, k elements on the last axis.
        mode: ``"full"``: every sum of one product at least; ``"same"``: as many as ``in1`` has
            elements, from the middle; ``"valid"``: the sums of all elements of the shorter one.

    Returns:
        An array whose last axis has ``n + k - 1``, ``n`` or ``abs(n - k) + 1`` elements.

    Raises:
        ShapeError: An operand has no axis, or no elements.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> y = gt.signal.convolve1d([[1, 2, 3], [0, 1, 0]], [1, -1], "same")
        >>> y.eval(mode="NUMPY").tolist()
        [[1, 1, 1], [0, 1, -1]]
    """
    a, b, spatial = _operands("convolve1d", in1, in2, 1)
    return _convolution("convolve1d", a, b, spatial, mode, Convolution)


def convolve(in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the convolution of two arrays over all of their axes.

    Args:
        in1: Any dtype and shape.
        in2: Any dtype, as many axes.
        mode: As for ``convolve1d``, on each axis.
        method: ``"direct"``: sums of products; ``"fft"``: by Fourier transforms, which takes less
            time for two large arrays, and rounds to the largest sum's digits; ``"auto"``: which
            is faster, where the lengths are known and the numbers are floating, else ``"direct"``.

    Raises:
        ShapeError: The operands differ in the number of axes, or have no elements.
        ArgumentError: The mode or method is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> y = gt.signal.convolve([[1, 2], [3, 4]], [[1, 1]], "full")
        >>> y.eval(mode="NUMPY").tolist()
        [[1, 3, 2], [3, 7, 4]]
    """
    a, b, spatial = _operands("convolve", in1, in2, None)
    cls = _algorithm("convolve", a, b, spatial, method)
    return _convolution("convolve", a, b, spatial, mode, cls) if spatial else a * b


def correlate(in1: TensorLike, in2: TensorLike, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the sums of ``in1[i + t] * conj(in2[t])`` over all axes.

    Arguments, result and errors as for ``convolve``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.signal.correlate([1.0, 2.0, 3.0], [0.0, 1.0]).eval(mode="NUMPY").tolist()
        [1.0, 2.0, 3.0, 0.0]
    """
    a, b, spatial = _operands("correlate", in1, in2, None)
    cls = _algorithm("correlate", a, b, spatial, method)
    b = _reverse(b, spatial)
    return _convolution("correlate", a, b, spatial, mode, cls) if spatial else a * b


def fftconvolve(in1: TensorLike, in2: TensorLike, mode: str = "full", axes: Axis = None) -> Tensor:
    """Return the convolution of two arrays by Fourier transforms.

    Args:
        in1: Any shape; integers become float64.
        in2: As many axes.
        mode: As for ``convolve1d``.
        axes: The axes to convolve over, all by default; the others broadcast.

    Raises:
        ShapeError: The operands differ in the number of axes, or have no elements, or no such axis.
        ArgumentError: The mode is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.signal.fftconvolve([1.0, 2.0, 3.0], [0.0, 1.0]).round(6).eval(mode="NUMPY").tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    a, b, _ = _operands("fftconvolve", in1, in2, None)
    if not is_inexact(a.dtype):
        a, b = cast(a, "float64"), cast(b, "float64")
    if not a.ndim:
        return a * b
    over = axes_of("fftconvolve", axes, a.ndim)
    last = tuple(range(a.ndim - len(over), a.ndim))
    a, b = moveaxis(a, over, last), moveaxis(b, over, last)
    y = _convolution("fftconvolve", a, b, len(over), mode, FourierConvolution)
    return moveaxis(y, last, over)


def convolve2d(
    in1: TensorLike,
    in2: TensorLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: TensorLike = 0,
    method: str = "auto",
) -> Tensor:
    """Return the convolution of two arrays over their last two axes; those in front broadcast.

    Args:
        in1: Any dtype; an image, or a batch of them.
        in2: Any dtype.
        mode: As for ``convolve1d``, on each of the two axes.
        boundary: The values beyond the edges of ``in1``: ``"fill"``: ``fillvalue``; ``"wrap"``:
            the opposite edge; ``"symm"``: its mirror image.
        fillvalue: A number.
        method: As for ``convolve``.

    Raises:
        ShapeError: An operand has fewer than two axes, or no elements.
        ArgumentError: The mode, boundary or method is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> y = gt.signal.convolve2d([[1, 2], [3, 4]], [[0, 1], [0, 0]], "same", boundary="wrap")
        >>> y.eval(mode="NUMPY").tolist()
        [[2, 1], [4, 3]]
    """
    a, b, _ = _operands("convolve2d", in1, in2, 2)
    edge = _Boundary(boundary, fillvalue, [(k // 2, (k - 1) // 2) for k in _image(b)])
    return _over_image("convolve2d", a, b, mode, edge, method)


def correlate2d(
    in1: TensorLike,
    in2: TensorLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: TensorLike = 0,
    method: str = "auto",
) -> Tensor:
    """Return the sums of ``in1[i + s, j + t] * conj(in2[s, t])`` over the last two axes.

    Arguments, result and errors as for ``convolve2d``.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.signal.correlate2d(np.ones((2, 2)), np.ones((2, 2))).eval(mode="NUMPY").tolist()
        [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    a, b, _ = _operands("correlate2d", in1, in2, 2)
    # If two elements are in the middle, SciPy takes the other one here.
    edge = _Boundary(boundary, fillvalue, [((k - 1) // 2, k // 2) for k in _image(b)])
    return _over_image("correlate2d", a, _reverse(b, 2), mode, edge, method)


def _image(x: Tensor) -> list[Any]:
    return [length(x, axis) for axis in (x.ndim - 2, x.ndim - 1)]


@dataclass(frozen=True)
class _Boundary:
    """The boundary of an image: the values beyond its edges, and its width in mode "same"."""

    boundary: str
    fillvalue: Any
    beyond: Sequence[tuple[Any, Any]]

    @property
    def is_zero(self) -> bool:
        """Whether the boundary is zero, which needs no padding."""
        zero = isinstance(self.fillvalue, int | float) and self.fillvalue == 0
        return self.boundary == "fill" and zero

    def around(self, a: Tensor, beyond: Sequence[tuple[Any, Any]]) -> Tensor:
        widths = [*[(0, 0)] * (a.ndim - 2), *beyond]
        if self.boundary == "fill":
            return pad(a, widths, constant_values=cast(self.fillvalue, a.dtype))
        return pad(a, widths, BOUNDARIES[self.boundary])


def _over_image(op: str, a: Tensor, b: Tensor, mode: str, edge: _Boundary, method: str) -> Tensor:
    check_mode(op, mode)
    if edge.boundary not in BOUNDARIES:
        raise ArgumentError(
            f"{op}: unknown boundary={edge.boundary!r}.", f"Use one of {', '.join(BOUNDARIES)}."
        )
    cls = _algorithm(op, a, b, 2, method)
    if mode == "valid" or (mode == "full" and edge.is_zero):
        return _convolution(op, a, b, 2, mode, cls)
    whole = [(k - 1, k - 1) for k in _image(b)]
    a = edge.around(a, whole if mode == "full" else edge.beyond)
    return _convolution(op, a, b, 2, "valid", cls)
