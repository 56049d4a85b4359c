"""Arrays as text: numbers that a person can read where they are exact, and else their bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.ir import Shape, dtype_name, is_complex, is_float, is_integer, numpy_dtype

Array = np.ndarray[Any, Any]


def written(array: Array) -> str:
    """Return a small array as text, of which ``array_of`` makes the same bits.

    Example:
        >>> written(np.float32([0.1, -0.0])), written(np.array([], "int8").reshape(0, 3))
        ('float32([0.1, -0.0])', 'int8[0, 3]("")')
    """
    dtype = dtype_name(array.dtype)
    numbers = _nested([*_numbers(array.ravel(), dtype)], array.shape)
    try:
        same = array_of(dtype, None, numbers)
    except (TypeError, ValueError):
        same = None
    if same is not None and same.shape == array.shape and same.tobytes() == array.tobytes():
        return f"{dtype}({_text(numbers)})"
    return f'{dtype}[{", ".join(map(str, array.shape))}]("{_swapped(array).tobytes().hex()}")'


def _numbers(array: Array, dtype: str) -> Iterator[Any]:
    """Python's numbers of the fewest digits that tell an array's elements apart."""
    if is_complex(dtype):
        parts = [_numbers(x, dtype_name(x.dtype)) for x in (array.real, array.imag)]
        yield from zip(*parts, strict=True)
    elif is_float(dtype):
        yield from (float(str(x)) for x in array)
    else:
        yield from array.tolist()


def _nested(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return flat[0]
    n = math.prod(shape[1:])
    return [_nested(flat[i * n : (i + 1) * n], shape[1:]) for i in range(shape[0] if n else 0)]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _swapped(array: Array) -> Array:
    """The array in the order of bytes that texts have."""
    return array.astype(array.dtype.newbyteorder("<"))


def array_of(dtype: str, shape: Shape | None, value: Any) -> Array:
    """Return the array of nested lists of numbers, or of the hexadecimal digits of its bytes.

    Args:
        dtype: A dtype's name.
        shape: Its lengths, where bytes are given.
        value: A number, nested lists of numbers, or a string of digits.

    Raises:
        ValueError: The value is no array of that dtype, or has another number of bytes.

    Example:
        >>> array_of("float32", None, [0.1, -0.0]), array_of("int16", (1,), "ff00")
        (array([ 0.1, -0. ], dtype=float32), array([255], dtype=int16))
    """
    made = numpy_dtype(dtype)
    if isinstance(value, str) and shape is not None and None not in shape:
        lengths: Any = shape
        data = bytes.fromhex(value)
        if len(data) != math.prod(lengths) * made.itemsize:
            raise ValueError(f"{len(data)} bytes for {dtype} of the shape {lengths}")
        return np.frombuffer(data, made.newbyteorder("<")).astype(made).reshape(lengths)
    flat, found = _flat(value)
    if shape not in {None, found} or not all(_is_number(x, dtype) for x in flat):
        raise ValueError(f"no {dtype}")
    with np.errstate(over="ignore"):
        numbers = [complex(*x) for x in flat] if is_complex(dtype) else flat
        try:
            return np.array(numbers, made).reshape(found)
        except OverflowError as error:
            raise ValueError(str(error)) from error


def _flat(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers in nested lists, and the lengths of these."""
    if not isinstance(value, list):
        return [value], ()
    parts = [_flat(part) for part in value]
    shape = parts[0][1] if parts else ()
    if any(lengths != shape for _, lengths in parts):
        raise ValueError("lists of several lengths")
    return [x for flat, _ in parts for x in flat], (len(parts), *shape)


def _is_number(x: Any, dtype: str) -> bool:
    if is_complex(dtype):
        return isinstance(x, tuple) and len(x) == 2 and all(_is_number(p, "float64") for p in x)
    if dtype == "bool":
        return isinstance(x, bool)
    kinds = int if is_integer(dtype) else int | float
    return isinstance(x, kinds) and not isinstance(x, bool)
