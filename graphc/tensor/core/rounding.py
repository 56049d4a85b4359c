"""Rounding to a number of decimals."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import is_inexact, is_integer
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import in_floats
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function

__all__ = [
    "around", "iround", "rint", "round", "round_half_away_from_zero", "round_half_to_even",
]  # fmt: skip

_round = ew.ROWS["round"]


@function
def round_half_to_even(x: TensorLike) -> Tensor:
    """Return the nearest integer, ties to even; integers unchanged.

    Args:
        x: Real numbers of any shape.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.round_half_to_even([0.5, 1.5, -2.5]).eval(mode="NUMPY").tolist()
        [0.0, 2.0, -2.0]
    """
    return _round(x)


@function
def round_half_away_from_zero(x: TensorLike) -> Tensor:
    """Return the nearest integer, ties away from zero; arguments as for ``round``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.round_half_away_from_zero([0.5, -1.5]).eval(mode="NUMPY").tolist()
        [1.0, -2.0]
    """
    x = as_tensor(x)
    if not is_inexact(x.dtype):
        return x
    near = ew.trunc(x)
    return ew.where(ew.greater_equal(ew.abs(x - near), 0.5), near + ew.sign(x), near)


ROUNDINGS = {
    None: round_half_to_even,
    "half_to_even": round_half_to_even,
    "half_away_from_zero": round_half_away_from_zero,
}


@function
def round(x: TensorLike, decimals: Any = 0, mode: str | None = None) -> Tensor:
    """Return the nearest number with ``decimals`` decimals; the gradient is 0.

    Args:
        x: Real numbers of any shape.
        decimals: A Python integer; negative ones round to tens, hundreds and so on. A mode may
            be passed here too.
        mode: How ties are rounded: ``"half_to_even"``, the default, or
            ``"half_away_from_zero"``.

    Returns:
        An array of x's shape and dtype.

    Raises:
        ArgumentError: The mode is unknown.
        DTypeError: x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.round(gt.as_tensor([2.5, -1.25, 16.0]), 1).eval(mode="NUMPY").tolist()
        [2.5, -1.2, 16.0]
    """
    if isinstance(decimals, str):
        decimals, mode = 0, decimals
    if mode not in ROUNDINGS:
        raise ArgumentError(
            f"round: unknown mode={mode!r}.", "Use 'half_to_even' or 'half_away_from_zero'."
        )
    x, nearest = as_tensor(x), ROUNDINGS[mode]
    if not decimals or (decimals > 0 and not is_inexact(x.dtype)):
        return nearest(x)
    wide = ew.cast(x, "float64") if is_integer(x.dtype) else x
    scale = ew.cast(10.0 ** np.abs(decimals), wide.dtype)
    if decimals < 0:
        return ew.cast(nearest(wide / scale) * scale, x.dtype)
    scaled = wide * scale
    # A number that the scale makes infinite has no such decimals.
    return ew.cast(ew.where(ew.isinf(scaled), wide, nearest(scaled) / scale), x.dtype)


@function
def around(x: TensorLike, decimals: Any = 0) -> Tensor:
    """Return the nearest number with ``decimals`` decimals; arguments as for ``round``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.around([1.25, -0.87], 1).eval(mode="NUMPY").tolist()
        [1.2, -0.9]
    """
    return round(x, decimals)


@function
def iround(x: TensorLike, mode: str | None = None) -> Tensor:
    """Return the nearest integer as an int64; arguments as for ``round``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.iround([0.5, 1.5, -2.7]).eval(mode="NUMPY").tolist()
        [0, 2, -3]
    """
    return ew.cast(round(x, mode=mode), "int64")


@function
def rint(x: TensorLike) -> Tensor:
    """Return the nearest integer, ties to even, as a floating-point number.

    Args:
        x: Real numbers of any shape; integers become floating as in NumPy.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.rint([0.5, 1.5, 2.4]).eval(mode="NUMPY").tolist()
        [0.0, 2.0, 2.0]
    """
    return _round(in_floats("rint", x))
