"""Operands of the contract's cases, and NumPy's results for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.ir import TensorType, is_inexact, numpy_dtype
from tests.contract.case import Case
from tests.contract.values import plain
from tests.modes import lacks

SPECIAL = [0.0, -0.0, 1.0, 1.0, -2.0, -np.inf, np.inf, np.nan, 2.0, -1.0, 2.0, 0.0, 1.0, -0.0]


def arrays(case: Case, dtype: str) -> list[np.ndarray[Any, Any]]:
    if case.values:
        return [case.values(dtype)]
    values = [plain(dtype, shape, i) for i, shape in enumerate(case.shapes)]
    if case.special:
        values = [np.resize(SPECIAL, x.shape).astype(x.dtype) for x in values]
    return values


def symbols(case: Case, values: list[np.ndarray[Any, Any]]) -> list[Any]:
    shapes = [x.shape if case.static else (None,) * x.ndim for x in values]
    return [TensorType(x.dtype, shape)() for x, shape in zip(values, shapes, strict=True)]


def by_numpy(case: Case, given: Any, values: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """NumPy's result; half-width floats are computed in float32, and rounded once."""
    xs = [x.astype(np.float32) if _is_half(x.dtype) else x for x in values]
    with np.errstate(all="ignore"):
        y = np.asarray(case.expected(*xs))
    dtype = numpy_dtype(given.dtype)
    return y.astype(dtype) if _is_half(dtype) and y.dtype == np.float32 else y


def _is_half(dtype: Any) -> bool:
    return dtype.itemsize == 2 and is_inexact(dtype.name)


def there(backend: str, dtypes: Sequence[str]) -> list[str]:
    """Those of the dtypes that the backend has; complex64 for complex128 in single precision."""
    lacking = [dtype for dtype in dtypes if lacks(backend, dtype)]
    narrower = ["complex64"] if lacking and "float32" in dtypes else []
    return [*dict.fromkeys([d for d in dtypes if d not in lacking] + narrower)]
