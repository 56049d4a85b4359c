"""The dtypes of symbolic arrays, by name, and what they become together (NumPy 2's rules)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphc.errors import DTypeError
from graphc.ir.site import here, where

__all__ = [
    "DTYPES",
    "dtype_name",
    "is_complex",
    "is_float",
    "is_inexact",
    "is_integer",
    "is_numeric",
    "numpy_dtype",
    "promote",
    "real_dtype",
]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("bfloat16", "float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = frozenset((*FLOATS, *COMPLEX))
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of that name; ``bfloat16`` comes from ml_dtypes, which JAX brings along."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes  # noqa: PLC0415 (an optional dependency)
    except ImportError as error:
        raise DTypeError("bfloat16 needs the package ml_dtypes.", "Install ml_dtypes.") from error
    made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return made


@cache
def _named(dtype: Any) -> str | None:
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        name = np.dtype(dtype).name
    except TypeError:
        return None
    return name if name in DTYPES else None


def dtype_name(dtype: Any) -> str:
    """The name of anything that NumPy takes for a dtype.

    Raises:
        DTypeError: Strings, objects, dates and records have no place in a symbolic array.

    Example:
        >>> import numpy as np
        >>> dtype_name(np.float32), dtype_name(int), dtype_name("complex128")
        ('float32', 'int64', 'complex128')
    """
    name = _named(dtype)
    if name is None:
        raise DTypeError(
            f"{dtype!r} is no dtype of symbolic arrays.",
            f"Use one of {', '.join(DTYPES)}.",
            where(here()),
        )
    return name


def is_integer(dtype: str) -> bool:
    """Whether values are integers, signed or not; bool is none."""
    return dtype in INTEGERS


def is_float(dtype: str) -> bool:
    """Whether values are real floating-point numbers."""
    return dtype in FLOATS


def is_complex(dtype: str) -> bool:
    """Whether values are complex numbers."""
    return dtype in COMPLEX


def is_inexact(dtype: str) -> bool:
    """Whether values are rounded, real or complex: the dtypes that have derivatives."""
    return dtype in INEXACT


def is_numeric(dtype: str) -> bool:
    """Whether values are numbers: everything but bool."""
    return dtype != "bool"


def real_dtype(dtype: str) -> str:
    """The dtype of the real part."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


@cache
def promote(*dtypes: str) -> str:
    """The dtype that NumPy 2 computes in, given arrays of these.

    Raises:
        DTypeError: There is none, as for bfloat16 and float16 in some releases of ml_dtypes.
    """
    try:
        return dtype_name(np.result_type(*map(numpy_dtype, dtypes)))
    except TypeError as error:
        raise DTypeError(
            f"{' and '.join(dtypes)} have no common dtype.", "Cast one of them with astype."
        ) from error
