"""Polynomials by their coefficients, those of the highest power first."""

from __future__ import annotations

from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import here, where as where_is
from graphc.tensor.convolve import convolve
from graphc.tensor.create import arange, zeros_like
from graphc.tensor.elementwise import cast, maximum
from graphc.tensor.join import concatenate
from graphc.tensor.pad import pad
from graphc.tensor.shape import length, ravel
from graphc.tensor.tensor import Tensor, as_tensor, function, operands

__all__: list[str] = []


def _coefficients(op: str, p: Any) -> Tensor:
    p = as_tensor(p)
    if p.ndim > 1:
        raise ShapeError(f"{op}({p!r}): a vector is wanted.", "", where_is(here()))
    return ravel(p)


@function
def polyval(p: Any, x: Any) -> Tensor:
    """The value of a polynomial, by Horner's rule.

    Args:
        p: The coefficients, the highest power's first: a vector of a length that is known.
        x: Where, of any shape.

    Returns:
        An array of x's shape.

    Raises:
        ShapeError: p is no vector, or its length is not known.

    Example:
        >>> polyval([1.0, 0.0, -2.0], [0.0, 2.0, 3.0]).eval(mode="NUMPY").tolist()
        [-2.0, 2.0, 7.0]
    """
    (p, x), _ = operands("polyval", (p, x))
    p = _coefficients("polyval", p)
    n = p.type.shape[0]
    if n is None:
        raise ShapeError(
            f"polyval({p!r}): how many coefficients there are is not known.",
            "Declare it: gt.tensor(shape=(3,)), or gt.specify_shape(p, (3,)).",
            where_is(here()),
        )
    y = zeros_like(x)
    for i in range(n):
        y = y * x + p[i]
    return y


@function
def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum of two polynomials.

    Args:
        a1: Coefficients, a vector.
        a2: Others.

    Example:
        >>> polyadd([1, 2], [9, 5, 4]).eval(mode="NUMPY").tolist()
        [9, 6, 6]
    """
    a, b = _of_one_length("polyadd", a1, a2)
    return a + b


@function
def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of two polynomials; arguments as for ``polyadd``."""
    a, b = _of_one_length("polysub", a1, a2)
    return a - b


def _of_one_length(op: str, a1: Any, a2: Any) -> tuple[Tensor, Tensor]:
    """With zeros in front of the shorter one."""
    (a, b), _ = operands(op, (a1, a2))
    a, b = _coefficients(op, a), _coefficients(op, b)
    n, m = length(a, 0), length(b, 0)
    known = isinstance(n, int) and isinstance(m, int)
    most = max(n, m) if known else maximum(n, m)
    return pad(a, [(most - n, 0)]), pad(b, [(most - m, 0)])


@function
def polymul(a1: Any, a2: Any) -> Tensor:
    """The product of two polynomials; arguments as for ``polyadd``.

    Example:
        >>> polymul([1, 1], [1, -1]).eval(mode="NUMPY").tolist()
        [1, 0, -1]
    """
    return convolve(_coefficients("polymul", a1), _coefficients("polymul", a2))


@function
def polyder(p: Any, m: int = 1) -> Tensor:
    """The derivative of a polynomial.

    Args:
        p: The coefficients, a vector.
        m: How often to derive, a Python integer.

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
    return p  # type: ignore[no-any-return]


@function
def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The antiderivative of a polynomial.

    Args:
        p: The coefficients, a vector; integers count as float64.
        m: How often to integrate, a Python integer.
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
            f"polyint: {len(constants)} constants, and {m} integrations.",
            "Give one, or one for each.",
            where_is(here()),
        )
    for constant in constants:
        powers = arange(length(p, 0), 0, -1)
        p = p / powers
        p = concatenate([p, ravel(as_tensor(constant, dtype=p.dtype))])
    return p  # type: ignore[no-any-return]


def _times(op: str, m: Any) -> None:
    if not isinstance(m, int) or m < 0:
        raise ArgumentError(f"{op}: m={m!r}.", "Use 0 or more.", where_is(here()))
