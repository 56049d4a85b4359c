"""Predicates and limits of dtypes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from graphc.ir import is_complex, is_float, is_inexact, is_integer, real_dtype


def is_bool(dtype: str) -> bool:
    """Return whether values are true or false."""
    return dtype == "bool"


def is_ordered(dtype: str) -> bool:
    """Return whether values have an order, as all but complex numbers."""
    return not is_complex(dtype)


def is_real(dtype: str) -> bool:
    """Return whether values are integers or floats."""
    return is_integer(dtype) or is_float(dtype)


def is_signed(dtype: str) -> bool:
    """Return whether values are signed integers."""
    return is_integer(dtype) and not dtype.startswith("u")


def is_whole(dtype: str) -> bool:
    """Return whether values are integers or bools, none of which is NaN."""
    return not is_inexact(dtype)


def is_any(dtype: str) -> bool:
    """Return True for every dtype."""
    return True


class Limits(NamedTuple):
    """The spacing at 1, the least normal number, and the largest number of a dtype."""

    eps: float
    tiny: float
    max: float


@cache
def limits(dtype: str) -> Limits:
    """Return the limits of a floating dtype, or of the parts of a complex one."""
    dtype = real_dtype(dtype)
    if dtype == "bfloat16":  # not in NumPy
        return Limits(2.0**-7, 2.0**-126, (2 - 2.0**-7) * 2.0**127)
    kind = np.finfo(dtype)
    return Limits(float(kind.eps), float(kind.tiny), float(kind.max))
