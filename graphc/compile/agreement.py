"""Whether arrays of two libraries are one but for rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir import is_inexact

__all__ = ["agree", "distance", "scatter"]

TOLERANCE = {
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "float32": 1e-4,
    "float64": 1e-9,
    "complex64": 1e-4,
    "complex128": 1e-9,
}
"""How much of a number two libraries may differ by, by dtype; other dtypes are equal."""

TINY = {"float16": 2.0**-14, "float64": 2.0**-1022, "complex128": 2.0**-1022}
"""The smallest normal number, by dtype; of the others 2**-126. Below it libraries may give 0."""

TRIALS = 3
"""How often the operands are rounded otherwise, to see what that changes."""

ULPS = 16
"""By how many units in the last place they are, at most."""


def agree(
    dtype: str,
    given: np.ndarray[Any, Any],
    wanted: np.ndarray[Any, Any],
    change: Callable[[], np.ndarray[Any, Any]],
) -> bool:
    """Whether two values are one but for rounding.

    Args:
        dtype: By whose digits they are compared.
        given: What a backend gave.
        wanted: What NumPy gives.
        change: Gives how much this may change by rounding; asked where a few digits do not do.
    """
    given = np.asarray(given)
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        return False
    if not is_inexact(dtype):
        return bool(np.array_equal(given, wanted))
    allowed = TOLERANCE[dtype] * np.abs(_wide(wanted))
    wrong = distance(given, wanted)
    near = np.nan_to_num(allowed, nan=0.0, posinf=0.0) + TINY.get(dtype, 2.0**-126)
    return bool(np.all(wrong <= near)) or bool(np.all(wrong <= near + change()))


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How far elements lie apart: 0 where both are NaN or one infinity, else infinite there."""
    a, b = _wide(a), _wide(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def scatter(
    compute: Callable[[Sequence[Any]], Any], operands: Sequence[Any], wanted: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """How much results change where operands are rounded otherwise."""
    draw = np.random.default_rng(0)
    most: Any = 0.0
    for _ in range(TRIALS):
        moved = compute([_rounded(x, draw) for x in operands])
        if moved.shape == wanted.shape:
            apart = distance(moved, wanted)
            most = np.maximum(most, np.where(np.isfinite(apart), apart, 0.0))
    # What moves in one place moves the others as much, as in a sum.
    change: np.ndarray[Any, Any] = 4 * np.asarray(most)
    return change


def _rounded(x: Any, draw: np.random.Generator) -> Any:
    x = np.asarray(x)
    if x.dtype.kind not in "fc" and x.dtype.name != "bfloat16":
        return x
    digits = 2.0**-7 if x.dtype.name == "bfloat16" else float(np.finfo(x.dtype).eps)
    return (x * (1 + ULPS * digits * draw.uniform(-1, 1, x.shape))).astype(x.dtype)
