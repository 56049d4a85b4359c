"""NumPy functions called from a compiled program, with all digits.

JAX calls back from other threads, which have the settings of the process: without
``jax_enable_x64`` it would convert 64-bit numbers to 32 bits. So 64-bit numbers are passed as pairs
of 32-bit words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WIDE = 8
"""The size, in bytes, of numbers that JAX would narrow."""


def call_numpy(
    function: Callable[..., Sequence[Any]], types: Sequence[Any], values: Sequence[Any]
) -> tuple[Any, ...]:
    """Call a NumPy function from compiled code; each result has its declared type.

    Args:
        function: A pure function of arrays that returns one array for each type.
        types: The types of the results, with static shapes.
        values: JAX arrays, traced or not.
    """
    forms = [(x.shape, np.dtype(x.dtype)) for x in values]

    def call(*words: Any) -> tuple[Any, ...]:
        xs = [_numbers(x, *form) for x, form in zip(words, forms, strict=True)]
        with np.errstate(all="ignore"):
            ys = function(*xs)
        pairs = zip(ys, types, strict=True)
        return tuple(_words(np.asarray(y, t.numpy_dtype)) for y, t in pairs)

    shapes = tuple(jax.ShapeDtypeStruct(*_form(t.shape, t.numpy_dtype)) for t in types)  # type: ignore[no-untyped-call]
    results = jax.pure_callback(call, shapes, *map(_to_words, values), vmap_method="sequential")
    return tuple(_from_words(y, t.numpy_dtype) for y, t in zip(results, types, strict=True))


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize >= WIDE and dtype != np.complex64


def _form(shape: Any, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype of an array's words."""
    return ((*shape, dtype.itemsize // 4), np.uint32) if _is_wide(dtype) else (tuple(shape), dtype)


def _words(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    shape, dtype = _form(x.shape, x.dtype)
    words: np.ndarray[Any, Any] = np.ascontiguousarray(x).view(dtype)
    return words.reshape(shape)


def _numbers(words: Any, shape: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if not _is_wide(dtype):
        return np.asarray(words)
    if not math.prod(shape):
        return np.zeros(shape, dtype)
    numbers: np.ndarray[Any, Any] = np.ascontiguousarray(words).view(dtype)
    return numbers.reshape(shape)


def _to_words(x: Any) -> Any:
    """Convert a traced array, or a NumPy constant, to words."""
    if not _is_wide(np.dtype(x.dtype)):
        return x
    if isinstance(x, np.ndarray):
        return _words(x)  # which JAX would narrow
    if x.dtype == np.complex128:
        pairs = jnp.stack([lax.real(x), lax.imag(x)], -1)
        return lax.reshape(lax.bitcast_convert_type(pairs, np.uint32), (*x.shape, 4))
    return lax.bitcast_convert_type(x, np.uint32)


def _from_words(words: Any, dtype: np.dtype[Any]) -> Any:
    """Convert traced words back to an array."""
    if not _is_wide(dtype):
        return words
    if dtype == np.complex128:
        shape = words.shape[:-1]
        pairs = lax.bitcast_convert_type(lax.reshape(words, (*shape, 2, 2)), np.float64)
        return lax.complex(pairs[..., 0], pairs[..., 1])
    return lax.bitcast_convert_type(words, dtype)
