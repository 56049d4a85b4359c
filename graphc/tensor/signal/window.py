"""Window functions: weights that decrease towards both ends."""

from __future__ import annotations

import math
from typing import Any

from graphc.config import config
from graphc.tensor.arrays.create import arange
from graphc.tensor.core.elementwise import abs, cast, maximum, sqrt
from graphc.tensor.core.shape import entries
from graphc.tensor.core.tensor import Tensor, as_tensor, function
from graphc.tensor.core.trigonometric import cos
from graphc.tensor.special.bessel import i0

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _from_middle(op: str, m: Any) -> Tensor:
    """Return evenly spaced numbers from -1 to 1; 0 if there is one."""
    (static,), symbolic = entries(op, m)
    count: Any = symbolic[0] if static is None else static
    twice = 2 * arange(count) - (count - 1)
    ends = max(count - 1, 1) if isinstance(count, int) else maximum(count - 1, 1)
    return cast(twice, config.floatX) / cast(ends, config.floatX)


@function
def bartlett(M: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return the triangular window, from 0 up to 1 and down to 0.

    Args:
        M: The number of values: a Python or symbolic integer.

    Returns:
        A vector of ``config.floatX``.

    Example:
        >>> bartlett(5).eval(mode="NUMPY").tolist()
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return 1 - abs(_from_middle("bartlett", M))


@function
def hanning(M: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return a raised cosine that ends at 0; arguments and result as for ``bartlett``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.hanning(3).eval(mode="NUMPY").tolist()
        [0.0, 1.0, 0.0]
    """
    return 0.5 + 0.5 * cos(math.pi * _from_middle("hanning", M))


@function
def hamming(M: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return a raised cosine that ends at 0.08; arguments and result as for ``bartlett``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.hamming(3).round(2).eval(mode="NUMPY").tolist()
        [0.08, 1.0, 0.08]
    """
    return 0.54 + 0.46 * cos(math.pi * _from_middle("hamming", M))


@function
def blackman(M: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return two cosines that end at 0, nearly optimal; arguments as for ``bartlett``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.blackman(5)[1:4].round(2).eval(mode="NUMPY").tolist()
        [0.34, 1.0, 0.34]
    """
    angle = math.pi * _from_middle("blackman", M)
    return 0.42 + 0.5 * cos(angle) + 0.08 * cos(2 * angle)


@function
def kaiser(M: Any, beta: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return a window made of a Bessel function, with a parameter for its width.

    Args:
        M: The number of values: a Python or symbolic integer.
        beta: The shape parameter: 0 is constant, 6 is like ``hanning``, 8.6 like ``blackman``.

    Returns:
        A vector of ``config.floatX``.

    Example:
        >>> kaiser(3, 0.0).eval(mode="NUMPY").tolist()
        [1.0, 1.0, 1.0]
    """
    x = _from_middle("kaiser", M)
    beta = as_tensor(beta, dtype=config.floatX)
    return i0(beta * sqrt(maximum(1 - x * x, 0))) / i0(beta)
