"""Reductions of arrays over dimensions, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.xtensor.align import Dim, select_dims
from graphc.xtensor.methods import TABLE, method
from graphc.xtensor.type import XTensor, as_xtensor


def _reduce(title: str, f: Callable[..., Any], x: Any, dim: Dim, **options: Any) -> XTensor:
    x = as_xtensor(x)
    dims = select_dims(title, x, dim)
    axes = tuple(x.dims.index(each) for each in dims)
    return XTensor(f(x.values, axis=axes, **options), [d for d in x.dims if d not in dims])


@method
def all(x: Any, dim: Dim = None) -> XTensor:
    """Return whether all elements along dimensions are true.

    Args:
        x: Any dimensions.
        dim: One dimension or several; all by default, and for ``...``.
    """
    return _reduce("all", gt.all, x, dim)


@method
def any(x: Any, dim: Dim = None) -> XTensor:
    """Return whether an element along dimensions is true; arguments as for ``all``."""
    return _reduce("any", gt.any, x, dim)


@method
def max(x: Any, dim: Dim = None) -> XTensor:
    """Return the largest element along dimensions; arguments as for ``all``."""
    return _reduce("max", gt.max, x, dim)


@method
def min(x: Any, dim: Dim = None) -> XTensor:
    """Return the smallest element along dimensions; arguments as for ``all``."""
    return _reduce("min", gt.min, x, dim)


@method
def mean(x: Any, dim: Dim = None) -> XTensor:
    """Return the mean along dimensions; arguments as for ``all``.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city", "year"), shape=(3, 20))
        >>> mean(x, "year").type
        float64[city=3]
    """
    return _reduce("mean", gt.mean, x, dim)


@method
def prod(x: Any, dim: Dim = None) -> XTensor:
    """Return the product along dimensions; arguments as for ``all``."""
    return _reduce("prod", gt.prod, x, dim)


@method
def sum(x: Any, dim: Dim = None) -> XTensor:
    """Return the sum along dimensions; arguments as for ``all``."""
    return _reduce("sum", gt.sum, x, dim)


@method
def std(x: Any, dim: Dim = None, ddof: int = 0) -> XTensor:
    """Return the standard deviation along dimensions.

    Args:
        x: Any dimensions.
        dim: One dimension or several; all by default, and for ``...``.
        ddof: The divisor is the number of elements minus ``ddof``.
    """
    return _reduce("std", gt.std, x, dim, ddof=ddof)


@method
def var(x: Any, dim: Dim = None, ddof: int = 0) -> XTensor:
    """Return the variance along dimensions; arguments as for ``std``."""
    return _reduce("var", gt.var, x, dim, ddof=ddof)


def _cumulative(title: str, f: Callable[..., Any], x: Any, dim: Dim) -> XTensor:
    x = as_xtensor(x)
    values = x.values
    for each in select_dims(title, x, dim):
        values = f(values, axis=x.dims.index(each))
    return XTensor(values, x.dims)


@method
def cumsum(x: Any, dim: Dim = None) -> XTensor:
    """Return cumulative sums along each of some dimensions, one after the other.

    Args:
        x: Any dimensions.
        dim: One dimension or several; all by default, and for ``...``.
    """
    return _cumulative("cumsum", gt.cumsum, x, dim)


@method
def cumprod(x: Any, dim: Dim = None) -> XTensor:
    """Return cumulative products along each of some dimensions; arguments as for ``cumsum``."""
    return _cumulative("cumprod", gt.cumprod, x, dim)


@method
def diff(x: Any, dim: str, n: int = 1) -> XTensor:
    """Return the differences between neighbours along a dimension.

    Args:
        x: Any dimensions.
        dim: The dimension, which becomes one shorter each time.
        n: The number of times that differences are taken.
    """
    x = as_xtensor(x)
    (each,) = select_dims("diff", x, dim)
    return XTensor(gt.diff(x.values, n=n, axis=x.dims.index(each)), x.dims)


__all__ = [name for name, value in globals().items() if value in TABLE.values()]
