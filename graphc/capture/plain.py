"""Values that are part of a program: numbers, text, small arrays; and which arrays are leaves."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

from graphc.ir import TINY, Node
from graphc.tensor.runtime import Runtime

__all__ = ["form_of", "is_array", "is_leaf", "small_array"]

NUMBERS = "biufc"
"""The kinds of NumPy's dtypes that are numbers."""


LONG = 256
"""From so many bytes on, a digest stands for them."""


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=20).hexdigest()


def _text(x: str) -> str:
    # Half of a surrogate pair is a character too.
    long = len(x) > LONG
    return f"str of {_digest(x.encode('utf-8', 'surrogatepass'))}" if long else f"str {x!r}"


def _bytes(x: bytes) -> str:
    return f"bytes of {_digest(x)}" if len(x) > LONG else f"bytes {x!r}"


def _float(x: float) -> str:
    return f"float {x.hex()}"


def _all(values: tuple[Any, ...]) -> str | None:
    forms = []
    for value in values:
        written = form_of(value)
        if written is None:
            return None
        forms.append(written)
    return f"({', '.join(forms)})"


FORMS: dict[type, Callable[[Any], str | None]] = {
    type(None): repr,
    type(Ellipsis): repr,
    type(NotImplemented): repr,
    bool: repr,
    int: lambda x: f"int {x}",
    float: _float,
    complex: lambda x: f"complex {x.real.hex()} {x.imag.hex()}",
    str: _text,
    bytes: _bytes,
    range: repr,
    tuple: _all,
}
"""What is compared by type and bits: NaN is NaN, 0.0 is not -0.0, 1 is neither 1.0 nor True."""


def form_of(value: Any) -> str | None:
    """A plain value in a form that only equal values have; None for what is no plain value.

    Example:
        >>> form_of(1.0), form_of([])
        ('float 0x1.0000000000000p+0', None)
    """
    written = FORMS.get(type(value))
    if written is not None:
        return written(value)
    if isinstance(value, np.generic) and not isinstance(value, Runtime | np.object_ | np.void):
        return f"{value.dtype.str} {value.tobytes().hex()}"
    if isinstance(value, np.dtype):
        return f"dtype {value.str} {value.descr if value.names else value.name}"
    if isinstance(value, slice):
        inner = _all((value.start, value.stop, value.step))
        return inner and f"slice {inner}"
    if isinstance(value, enum.Enum):
        cls = type(value)
        return f"enum {cls.__module__}.{cls.__qualname__}.{value.name}"
    return None


PROTOCOLS = ("__array__", "__dlpack__", "__jax_array__", "__mlx_array__")
"""Any of these, with a shape and a dtype, makes an array."""


def is_array(value: Any) -> bool:
    """Whether it is an array of any library, a symbolic one included."""
    if isinstance(value, np.ndarray | Node):
        return True
    if isinstance(value, np.generic | type) or not any(hasattr(type(value), x) for x in PROTOCOLS):
        return False
    if hasattr(value, "__graphc_implicit__"):
        # Its fields are.
        return False
    return hasattr(value, "shape") and hasattr(value, "dtype")


def is_leaf(array: Any) -> bool:
    """Whether an array is passed when the program runs: it is not small, or has no value yet."""
    if isinstance(array, Node):
        return True
    if isinstance(array, np.ndarray):
        return _size(array) >= TINY and _is_numeric(array.dtype)
    return _size(array) >= TINY or _is_traced(array) or not _has_bytes(array)


def _is_numeric(dtype: np.dtype[Any]) -> bool:
    # The narrow floats of other libraries have the kind of structured dtypes.
    return dtype.kind in NUMBERS or (dtype.kind == "V" and dtype.type is not np.void)


def _size(array: Any) -> int:
    return math.prod(array.shape)


def _is_traced(array: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.core.Tracer)


def _has_bytes(array: Any) -> bool:
    """Whether its elements are numbers that can be looked at: JAX's keys, for one, are not."""
    if type(array).__module__.startswith("mlx."):
        try:
            array.tolist()
        except (RuntimeError, ValueError):  # within a transformation of MLX's
            return False
        return True
    return isinstance(array.dtype, np.dtype)


def small_array(array: Any) -> tuple[str, Any]:
    """The form of a small array, and a copy that nobody else can change.

    Example:
        >>> small_array(np.array([1, 2], "int8"))
        ('numpy.ndarray int8 (2,) 0102', array([1, 2], dtype=int8))
    """
    cls = type(array)
    named = f"{cls.__module__}.{cls.__qualname__} {_dtype(array.dtype)} {tuple(array.shape)}"
    if cls.__module__.startswith("mlx."):
        return f"{named} {array.tolist()!r}", cls(array)
    values = np.asarray(array)
    weak = " weak" if getattr(array, "weak_type", False) else ""
    content = _digest(values.tobytes()) if values.nbytes > LONG else values.tobytes().hex()
    return f"{named}{weak} {content}", array.copy() if isinstance(array, np.ndarray) else array


def _dtype(dtype: Any) -> str:
    if not isinstance(dtype, np.dtype):
        return str(dtype)
    return dtype.name if dtype.isnative else dtype.str
