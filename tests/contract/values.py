"""Values that tell a careful implementation from a careless one, by dtype; and arrays of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.ir import is_complex, is_float, numpy_dtype, real_dtype

__all__ = ["LAYOUTS", "awkward", "plain", "tuples"]

REAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.1, -0.1, 0.99, -0.99, 3.0, 7.25,
    -7.25, 30.0, -30.0, 88.0, 1000.0, -1000.0, 12345.0, np.inf, -np.inf, np.nan,
)  # fmt: skip
WHOLE = (0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 100, -100)


def awkward(dtype: str) -> np.ndarray[Any, Any]:
    """Zeros of both signs, halves, edges of domains, extremes, infinities and NaN.

    The smallest float is the smallest normal one, as backends may take smaller ones for 0.
    Complex numbers are finite and of moderate size, as libraries differ in what infinite and NaN
    parts and overflow within a complex function give; predicates get their own.
    """
    if dtype == "bool":
        return np.array([False, True])
    if is_complex(dtype):
        parts = [0.0, -0.0, 1.0, -1.0, 0.5, -0.3, 2.5, -7.25, 20.0]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    if is_float(dtype):
        info = _limits(dtype)
        return np.array([*REAL, *info, *(-x for x in info)]).astype(numpy_dtype(dtype))
    limits = np.iinfo(dtype)
    ends = (limits.min, limits.min + 1, limits.max, limits.max - 1)
    fitting = dict.fromkeys(x for x in (*WHOLE, *ends) if limits.min <= x <= limits.max)
    return np.array([*fitting], dtype)


def _limits(dtype: str) -> tuple[float, ...]:
    """The largest, the smallest normal and the distance from 1 to the next."""
    if dtype == "bfloat16":
        return (3.3895313892515355e38, 2.0**-126, 2.0**-7)
    info = np.finfo(dtype)
    return float(info.max), float(info.tiny), float(info.eps)


def tuples(values: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Each value beside each other one: an array for each operand."""
    if len(values) > 2:
        # Of three operands, a part of the values is tuples enough.
        values = [v[:: 1 + len(v) // 12] for v in values]
    return [np.array(column) for column in zip(*itertools.product(*values), strict=True)]


def plain(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers of moderate size that nothing overflows on."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_complex(dtype):
        re, im = (rng.uniform(-2, 2, shape) for _ in range(2))
        return (re + 1j * im).astype(dtype)
    if is_float(real_dtype(dtype)):
        return rng.uniform(-2, 2, shape).astype(numpy_dtype(dtype))
    return rng.integers(0, 7, shape).astype(dtype)


Layout = Callable[[str, int], np.ndarray[Any, Any]]
"""The array of a dtype for an operand, by the operand's place."""

LAYOUTS: dict[str, tuple[Callable[[int], tuple[int | None, ...]], Layout]] = {
    "a scalar": (lambda i: (), lambda d, i: plain(d, (), i)),
    "one element": (lambda i: (None,), lambda d, i: plain(d, (1,), i)),
    "a matrix": (lambda i: (None, None), lambda d, i: plain(d, (2, 3), i)),
    "empty": (lambda i: (None,), lambda d, i: plain(d, (0,), i)),
    "no rows": (lambda i: (None, 3), lambda d, i: plain(d, (0, 3), i)),
    "no columns": (lambda i: (None, None), lambda d, i: plain(d, (2, 0), i)),
    "every other": (lambda i: (None,), lambda d, i: plain(d, (9,), i)[::2]),
    "reversed": (lambda i: (None, None), lambda d, i: plain(d, (2, 5), i)[::-1, ::-1]),
    "Fortran order": (lambda i: (2, 3), lambda d, i: np.asfortranarray(plain(d, (2, 3), i))),
    "repeated in place": (
        lambda i: (None, None),
        lambda d, i: np.broadcast_to(plain(d, (3, 1), i), (3, 4)),
    ),
    "broadcasting": (
        lambda i: ((None, 1), (1, None), (), (1,))[i],
        lambda d, i: plain(d, ((3, 1), (1, 4), (), (1,))[i], i),
    ),
    "of two ranks": (
        lambda i: ((4,), (2, 1, 4), (1, 3, 1), ())[i],
        lambda d, i: plain(d, ((4,), (2, 1, 4), (1, 3, 1), ())[i], i),
    ),
}
"""Each layout's static shape and array, for the first to fourth operand."""
