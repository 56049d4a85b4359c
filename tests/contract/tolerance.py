"""How far a backend may be from NumPy: one number for each dtype, and never one for a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir import dtype_name, is_inexact, real_dtype

__all__ = ["TOLERANCES", "agreeing", "assert_agree", "smallest_normal"]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""Relative: some ulps of transcendental functions; 2 ulps of the half-width floats, which are
computed in float32. What is not rounded is equal."""


def smallest_normal(dtype: str) -> float:
    """What is smaller counts as 0 here, as XLA takes it for 0 on the CPU."""
    real = real_dtype(dtype)
    return 2.0**-126 if real == "bfloat16" else float(np.finfo(real).tiny)


def agreeing(found: Any, expected: Any, scale: Any = 0.0) -> np.ndarray[Any, Any]:
    """Where two arrays are equal but for rounding: NaN is NaN, and infinity the same infinity."""
    dtype = dtype_name(expected.dtype)
    if not is_inexact(dtype):
        return np.asarray(found == expected)
    if expected.dtype.kind == "c":
        # A part is as exact as the whole; NaN in one part says nothing of the other.
        whole = np.where(np.isfinite(expected), np.abs(expected), 0) + scale
        re, im = (found.real, expected.real), (found.imag, expected.imag)
        return agreeing(*re, whole) & agreeing(*im, whole)
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    relative = TOLERANCES[real_dtype(dtype)]
    limit = smallest_normal(dtype) + relative * (np.abs(expected) + scale)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return np.asarray(same | (np.isfinite(expected) & (np.abs(found - expected) <= limit)))


def assert_agree(
    found: Any, expected: Any, what: Any = "", given: Sequence[Any] = (), scale: Any = 0.0
) -> None:
    """Same shape and dtype, and equal but for rounding.

    Args:
        found: What a backend gave.
        expected: What NumPy gives.
        what: Stands in the message.
        given: The operands of an elementwise function, shown where results differ.
        scale: The magnitude of what was added up, where terms may cancel.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    with np.errstate(all="ignore"):
        wrong = np.argwhere(~agreeing(found, expected, scale))
    if not len(wrong):
        return
    lines = []
    for place in map(tuple, wrong[:8]):
        operands = ", ".join(str(np.broadcast_to(x, found.shape)[place]) for x in given)
        lines.append(f"  at {place} ({operands}): {found[place]}, and NumPy {expected[place]}")
    raise AssertionError("\n".join([f"{what}: {len(wrong)} values differ.", *lines]))
