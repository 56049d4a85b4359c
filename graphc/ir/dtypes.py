"""The dtypes of symbolic arrays, by name, and how they promote (NumPy 2's rules)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from graphc.config import config
from graphc.errors import DTypeError

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
DISCRETE = ("bool", *INTEGERS)
FLOATS = ("bfloat16", "float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
CONTINUOUS = (*FLOATS, *COMPLEX)
INEXACT = frozenset(CONTINUOUS)
DTYPES = (*DISCRETE, *CONTINUOUS)


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of that name; ``bfloat16`` is in ml_dtypes, which JAX depends on."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes  # noqa: PLC0415 (an optional dependency)
    except ImportError as error:
        raise DTypeError("bfloat16 needs the package ml_dtypes.", "Install ml_dtypes.") from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


@cache
def _find_name(dtype: Any) -> str | None:
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        name = np.dtype(dtype).name
    except TypeError:
        return None
    return name if name in DTYPES else None


def dtype_name(dtype: Any) -> str:
    """Return the name of anything that NumPy accepts as a dtype, or of ``config.floatX``.

    Raises:
        DTypeError: If the dtype is of strings, objects, dates or records.

    Example:
        >>> import numpy as np
        >>> dtype_name(np.float32), dtype_name(int), dtype_name("floatX")
        ('float32', 'int64', 'float64')
    """
    if isinstance(dtype, str) and dtype == "floatX":
        return config.floatX
    name = _find_name(dtype)
    if name is None:
        raise DTypeError(
            f"{dtype!r} is not a dtype of symbolic arrays.", f"Use one of {', '.join(DTYPES)}."
        )
    return name


def is_jax_key(dtype: Any) -> bool:
    """Return whether a dtype, or its name, is a dtype of JAX's typed random keys."""
    return str(dtype).startswith("key<")


def is_integer(dtype: str) -> bool:
    """Return whether values are integers, signed or unsigned; bool is not an integer."""
    return dtype in INTEGERS


def is_float(dtype: str) -> bool:
    """Return whether values are real floating-point numbers."""
    return dtype in FLOATS


def is_complex(dtype: str) -> bool:
    """Return whether values are complex numbers."""
    return dtype in COMPLEX


def is_inexact(dtype: str) -> bool:
    """Return whether values are floating-point, real or complex: the differentiable dtypes."""
    return dtype in INEXACT


def is_numeric(dtype: str) -> bool:
    """Return whether values are numbers: all dtypes but bool."""
    return dtype != "bool"


def real_dtype(dtype: str) -> str:
    """Return the dtype of the real part."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


@cache
def promote(*dtypes: str) -> str:
    """Return the common dtype of arrays of these dtypes, by NumPy 2's rules.

    Raises:
        DTypeError: If there is none, as for bfloat16 and float16 in some releases of ml_dtypes.
    """
    try:
        return dtype_name(np.result_type(*map(numpy_dtype, dtypes)))
    except TypeError as error:
        raise DTypeError(
            f"{' and '.join(dtypes)} have no common dtype.", "Cast one of them with astype."
        ) from error


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
