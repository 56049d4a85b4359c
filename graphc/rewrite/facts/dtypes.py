"""Which dtypes a rule holds for."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from graphc.ir import is_complex, is_float, is_inexact, is_integer, real_dtype


def is_bool(dtype: str) -> bool:
    """Whether values are true or false."""
    return dtype == "bool"


def is_ordered(dtype: str) -> bool:
    """Whether values have an order: all but complex numbers."""
    return not is_complex(dtype)


def is_real(dtype: str) -> bool:
    """Whether values are real numbers, whole or not."""
    return is_integer(dtype) or is_float(dtype)


def is_signed(dtype: str) -> bool:
    """Whether values are integers that can be negative."""
    return is_integer(dtype) and not dtype.startswith("u")


def is_whole(dtype: str) -> bool:
    """Whether values are integers or bool, of which none is NaN."""
    return not is_inexact(dtype)


def is_any(dtype: str) -> bool:
    """All dtypes."""
    return True


class Limits(NamedTuple):
    """The distance of 1 from the next number, the least number of full precision, the largest."""

    eps: float
    tiny: float
    max: float


@cache
def limits(dtype: str) -> Limits:
    """The limits of a floating dtype, or of the parts of a complex one."""
    dtype = real_dtype(dtype)
    if dtype == "bfloat16":  # which NumPy knows nothing of
        return Limits(2.0**-7, 2.0**-126, (2 - 2.0**-7) * 2.0**127)
    kind = np.finfo(dtype)
    return Limits(float(kind.eps), float(kind.tiny), float(kind.max))
