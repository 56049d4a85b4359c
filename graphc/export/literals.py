"""Arrays as text: readable numbers if they are exact, otherwise bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.ir import Shape, dtype_name, is_complex, is_float, is_integer, numpy_dtype

Array = np.ndarray[Any, Any]


def array_text(array: Array) -> str:
    """Return a small array as text, from which ``array_of`` restores the same bits.

    Example:
        >>> array_text(np.float32([0.1, -0.0])), array_text(np.array([], "int8").reshape(0, 3))
        ('float32([0.1, -0.0])', 'int8[0, 3]("")')
    """
    dtype = dtype_name(array.dtype)
    numbers = _nest([*_numbers(array.ravel(), dtype)], array.shape)
    try:
        same = array_of(dtype, None, numbers)
    except (TypeError, ValueError):
        same = None
    if same is not None and same.shape == array.shape and same.tobytes() == array.tobytes():
        return f"{dtype}({_text(numbers)})"
    return f'{dtype}[{", ".join(map(str, array.shape))}]("{_little_endian(array).tobytes().hex()}")'


def _numbers(array: Array, dtype: str) -> Iterator[Any]:
    """Yield the shortest Python numbers that identify an array's elements."""
    if is_complex(dtype):
        re_im = [_numbers(x, dtype_name(x.dtype)) for x in (array.real, array.imag)]
        yield from zip(*re_im, strict=True)
    elif is_float(dtype):
        yield from (float(str(x)) for x in array)
    else:
        yield from array.tolist()


def _nest(flat: Sequence[Any], shape: Sequence[int]) -> Any:
    if not shape:
        return flat[0]
    n = math.prod(shape[1:])
    return [_nest(flat[i * n : (i + 1) * n], shape[1:]) for i in range(shape[0] if n else 0)]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)


def _little_endian(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("<"))


def array_of(dtype: str, shape: Shape | None, value: Any) -> Array:
    """Return the array of nested lists of numbers, or of the hexadecimal digits of its bytes.

    Args:
        dtype: A dtype's name.
        shape: The array's lengths, which bytes need.
        value: A number, nested lists of numbers, or a string of digits.

    Raises:
        ValueError: If the value is no array of that dtype, or has another number of bytes.

    Example:
        >>> array_of("float32", None, [0.1, -0.0]), array_of("int16", (1,), "ff00")
        (array([ 0.1, -0. ], dtype=float32), array([255], dtype=int16))
    """
    numpy_type = numpy_dtype(dtype)
    if isinstance(value, str) and shape is not None and None not in shape:
        lengths: Any = shape
        data = bytes.fromhex(value)
        if len(data) != math.prod(lengths) * numpy_type.itemsize:
            raise ValueError(f"{len(data)} bytes for {dtype} of the shape {lengths}")
        return np.frombuffer(data, numpy_type.newbyteorder("<")).astype(numpy_type).reshape(lengths)
    flat, inferred = _flat(value)
    if shape not in {None, inferred} or not all(_is_number(x, dtype) for x in flat):
        raise ValueError(f"no {dtype}")
    with np.errstate(over="ignore"):
        numbers = [complex(*x) for x in flat] if is_complex(dtype) else flat
        try:
            return np.array(numbers, numpy_type).reshape(inferred)
        except OverflowError as error:
            raise ValueError(str(error)) from error


def _flat(value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the numbers in nested lists, and the lengths of the lists."""
    if not isinstance(value, list):
        return [value], ()
    items = [_flat(part) for part in value]
    shape = items[0][1] if items else ()
    if any(lengths != shape for _, lengths in items):
        raise ValueError("lists of several lengths")
    return [x for flat, _ in items for x in flat], (len(items), *shape)


def _is_number(x: Any, dtype: str) -> bool:
    if is_complex(dtype):
        return isinstance(x, tuple) and len(x) == 2 and all(_is_number(p, "float64") for p in x)
    if dtype == "bool":
        return isinstance(x, bool)
    kinds = int if is_integer(dtype) else int | float
    return isinstance(x, kinds) and not isinstance(x, bool)
