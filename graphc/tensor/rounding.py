"""Numbers without some of their decimals."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import here, is_inexact, is_integer, where as where_is
from graphc.tensor.arithmetic import in_floats
from graphc.tensor.elementwise import (
    ROWS,
    abs,
    cast,
    greater_equal,
    isinf,
    sign,
    trunc,
    where,
)
from graphc.tensor.tensor import Tensor, as_tensor, function

__all__: list[str] = []


_round = ROWS["round"]


@function
def round_half_to_even(x: Any) -> Tensor:
    """The nearest whole number, the even one of two; x itself where it is of integers.

    Args:
        x: Real numbers of any shape.
    """
    return _round(x)


@function
def round_half_away_from_zero(x: Any) -> Tensor:
    """The nearest whole number, of two the one farther from 0; arguments as for ``round``."""
    x = as_tensor(x)
    if not is_inexact(x.dtype):
        return x  # type: ignore[no-any-return]
    near = trunc(x)
    return where(greater_equal(abs(x - near), 0.5), near + sign(x), near)  # type: ignore[no-any-return]


ROUNDINGS = {
    None: round_half_to_even,
    "half_to_even": round_half_to_even,
    "half_away_from_zero": round_half_away_from_zero,
}


@function
def round(x: Any, decimals: Any = 0, mode: str | None = None) -> Tensor:
    """The nearest number of so many decimals; its gradient is 0.

    Args:
        x: Real numbers of any shape.
        decimals: A Python integer; negative ones round to tens, hundreds and so on. A mode may
            stand here too.
        mode: Where a number between two goes: ``"half_to_even"``, the default, or
            ``"half_away_from_zero"``.

    Returns:
        An array of x's shape and dtype.

    Raises:
        ArgumentError: No such mode.
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
            f"round: there is no mode={mode!r}.",
            "Use 'half_to_even' or 'half_away_from_zero'.",
            where_is(here()),
        )
    x, nearest = as_tensor(x), ROUNDINGS[mode]
    if not decimals or (decimals > 0 and not is_inexact(x.dtype)):
        return nearest(x)
    wide = cast(x, "float64") if is_integer(x.dtype) else x
    scale = cast(10.0 ** np.abs(decimals), wide.dtype)
    if decimals < 0:
        return cast(nearest(wide / scale) * scale, x.dtype)
    scaled = wide * scale
    # A number that the scale makes infinite has no such decimals.
    return cast(where(isinf(scaled), wide, nearest(scaled) / scale), x.dtype)


@function
def around(x: Any, decimals: Any = 0) -> Tensor:
    """The nearest number of so many decimals; arguments as for ``round``."""
    return round(x, decimals)


@function
def iround(x: Any, mode: str | None = None) -> Tensor:
    """The nearest whole number as an int64; arguments as for ``round``."""
    return cast(round(x, mode=mode), "int64")


@function
def rint(x: Any) -> Tensor:
    """The nearest whole number, the even one of two, as a floating-point number.

    Args:
        x: Real numbers of any shape; integers become floating as in NumPy.
    """
    return _round(in_floats("rint", x))
