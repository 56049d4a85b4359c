"""Polynomials by their coefficients, highest power first."""

from __future__ import annotations

from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.elementwise import cast, maximum
from graphc.tensor.core.shape import length, ravel
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands
from graphc.tensor.signal.convolve import convolve
from graphc.tensor.signal.pad import pad

__all__ = ["polyadd", "polyder", "polyint", "polymul", "polysub", "polyval"]


def _coefficients(op: str, p: Any) -> Tensor:
    p = as_tensor(p)
    if p.ndim > 1:
        raise ShapeError(f"{op}: expected a vector of coefficients, got {p!r}.")
    return ravel(p)


@function
def polyval(p: TensorLike, x: TensorLike) -> Tensor:
    """Return the value of a polynomial, by Horner's rule.

    Args:
        p: The coefficients, the highest power's first: a vector of static length.
        x: The points to evaluate at, of any shape.

    Returns:
        An array of x's shape.

    Raises:
        ShapeError: p is not a vector, or its length is not static.

    Example:
        >>> polyval([1.0, 0.0, -2.0], [0.0, 2.0, 3.0]).eval(mode="NUMPY").tolist()
        [-2.0, 2.0, 7.0]
    """
    (p, x), _ = operands("polyval", (p, x))
    p = _coefficients("polyval", p)
    n = p.type.shape[0]
    if n is None:
        raise ShapeError(
            f"polyval({p!r}): the number of coefficients is unknown.",
            "Declare it: gt.tensor(shape=(3,)), or gt.specify_shape(p, (3,)).",
        )
    y = zeros_like(x)
    for i in range(n):
        y = y * x + p[i]
    return y


@function
def polyadd(a1: TensorLike, a2: TensorLike) -> Tensor:
    """Return the sum of two polynomials.

    Args:
        a1: The coefficients of the first, a vector.
        a2: The coefficients of the second, a vector.

    Example:
        >>> polyadd([1, 2], [9, 5, 4]).eval(mode="NUMPY").tolist()
        [9, 6, 6]
    """
    a, b = _pad_to_one_length("polyadd", a1, a2)
    return a + b


@function
def polysub(a1: TensorLike, a2: TensorLike) -> Tensor:
    """Return the difference of two polynomials; arguments as for ``polyadd``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.polysub([2, 1], [1, 0, 0]).eval(mode="NUMPY").tolist()
        [-1, 2, 1]
    """
    a, b = _pad_to_one_length("polysub", a1, a2)
    return a - b


def _pad_to_one_length(op: str, a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    (a, b), _ = operands(op, (a1, a2))
    a, b = _coefficients(op, a), _coefficients(op, b)
    n, m = length(a, 0), length(b, 0)
    is_static = isinstance(n, int) and isinstance(m, int)
    most = max(n, m) if is_static else maximum(n, m)
    return pad(a, [(most - n, 0)]), pad(b, [(most - m, 0)])


@function
def polymul(a1: TensorLike, a2: TensorLike) -> Tensor:
    """Return the product of two polynomials; arguments as for ``polyadd``.

    Example:
        >>> polymul([1, 1], [1, -1]).eval(mode="NUMPY").tolist()
        [1, 0, -1]
    """
    return convolve(_coefficients("polymul", a1), _coefficients("polymul", a2))


@function
def polyder(p: TensorLike, m: int = 1) -> Tensor:
    """Return the derivative of a polynomial.

    Args:
        p: The coefficients, a vector.
        m: The order of the derivative, a Python integer.

    Raises:
        ArgumentError: ``m`` is negative.

    Example:
        >>> polyder([1, 1, 1, 1]).eval(mode="NUMPY").tolist()
        [3, 2, 1]
    """
    p = _coefficients("polyder", p)
    _times("polyder", m)
    for _ in range(m):
        p = p[:-1] * cast(arange(length(p, 0) - 1, 0, -1), p.dtype)
    return p


@function
def polyint(p: TensorLike, m: int = 1, k: Any = None) -> Tensor:
    """Return the antiderivative of a polynomial.

    Args:
        p: The coefficients, a vector; integers become float64.
        m: The number of integrations, a Python integer.
        k: The constants of integration, one for each time, or one for all; 0 by default.

    Raises:
        ArgumentError: ``m`` is negative, or there is another number of constants.

    Example:
        >>> polyint([6.0, 2.0], k=5).eval(mode="NUMPY").tolist()
        [3.0, 2.0, 5.0]
    """
    p = _coefficients("polyint", p)
    _times("polyint", m)
    constants = list(k) if isinstance(k, list | tuple) else [0 if k is None else k] * m
    constants = constants * m if len(constants) == 1 else constants
    if len(constants) != m:
        raise ArgumentError(
            f"polyint: got {len(constants)} constants for {m} integrations.",
            "Pass one, or one for each.",
        )
    for constant in constants:
        powers = arange(length(p, 0), 0, -1)
        p = p / powers
        p = concatenate([p, ravel(as_tensor(constant, dtype=p.dtype))])
    return p


def _times(op: str, m: Any) -> None:
    if not isinstance(m, int) or m < 0:
        raise ArgumentError(
            f"{op}: m={m!r} is not a non-negative Python integer.", "Pass 0 or more."
        )
