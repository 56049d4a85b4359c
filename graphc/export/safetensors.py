"""Arrays in the safetensors format: their types and places as JSON, then their bytes.

Source: https://github.com/huggingface/safetensors, "Format". Complex numbers, which it lacks, are
pairs of real ones along one more axis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphc.export.manifest import check_fields
from graphc.ir import dtype_name, numpy_dtype

Array = np.ndarray[Any, Any]

NAMES = {
    "bool": "BOOL",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    "bfloat16": "BF16",
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
REAL = {"complex64": "float32", "complex128": "float64"}
ALIGNED = 64
"""The data begin at a multiple of so many bytes, as vector instructions like it."""


def chunks(arrays: Mapping[str, Array]) -> list[bytes | memoryview]:
    """Return the bytes of a file: the header, and those of each array.

    Example:
        >>> data = b"".join(chunks({"w": np.float32([1, 2])}))
        >>> arrays_in(data)["w"]
        array([1., 2.], dtype=float32)
    """
    header: dict[str, Any] = {}
    parts: list[bytes | memoryview] = []
    at = 0
    for name, x in arrays.items():
        real = _as_real(x)
        end = at + real.nbytes
        dtype = NAMES[dtype_name(real.dtype)]
        header[name] = {"dtype": dtype, "shape": [*real.shape], "data_offsets": [at, end]}
        parts.append(real.reshape(-1).view(np.uint8).data)
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNED)
    return [len(text).to_bytes(8, "little"), text, *parts]


def arrays_in(data: Any) -> dict[str, Array]:
    """Return the arrays of a file, which are parts of its bytes and not copied.

    Args:
        data: The bytes: of a file that was read, or that is mapped into memory.

    Raises:
        ValueError: It is no such file, or the place of an array lies outside of it.
    """
    view = memoryview(data)
    length = int.from_bytes(view[:8], "little")
    start = 8 + length
    if len(view) < 8 or start > len(view):
        raise ValueError(f"a header of {length} bytes in a file of {len(view)}")
    header = json.loads(bytes(view[8:start]))
    if not isinstance(header, dict):
        raise ValueError("a header that is no dict")
    header.pop("__metadata__", None)
    return {name: _array(view[start:], name, entry) for name, entry in header.items()}


def as_complex(x: Array, dtype: str) -> Array:
    """Return an array as its dtype, where pairs of real numbers stand for complex ones."""
    return x.view(numpy_dtype(dtype))[..., 0] if dtype in REAL else x


def _array(view: memoryview, name: str, entry: Any) -> Array:
    check_fields(f"the array {name!r}", entry, {"dtype": str, "shape": list, "data_offsets": list})
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    numbers = [*shape, *offsets]
    if dtype not in DTYPES or len(offsets) != 2 or not all(type(n) is int for n in numbers):
        raise ValueError(f"the array {name!r} has no dtype, shape or place")
    begin, end = offsets
    made = numpy_dtype(DTYPES[dtype])
    if not 0 <= begin <= end <= len(view) or end - begin != prod(shape) * made.itemsize:
        raise ValueError(f"the array {name!r} lies outside of the file, or is of another length")
    return np.frombuffer(view[begin:end], made).reshape(shape)


def _as_real(x: Array) -> Array:
    """The array in C order and with real numbers; one without axes stays so."""
    dense = np.ascontiguousarray(x).reshape(x.shape)
    dtype = REAL.get(dtype_name(x.dtype))
    return dense if dtype is None else dense[..., None].view(dtype)
