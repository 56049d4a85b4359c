"""A writer of the safetensors format: types and offsets of arrays in JSON, then their bytes.

``runtime.py`` has the reader.

Source: https://github.com/huggingface/safetensors, "Format". Complex numbers, which it lacks, are
pairs of real ones along a new last axis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.export.runtime import META, NAMES, Array

REAL = {"complex64": "float32", "complex128": "float64"}

ALIGNED = 64
"""The alignment of the data in bytes, for vector instructions."""


def chunks(
    arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """Return the bytes of a file: the header, then the bytes of each array.

    Args:
        arrays: The arrays by name.
        metadata: Further entries of the header.

    Example:
        >>> from graphc.export.runtime import arrays_in
        >>> data = b"".join(chunks({"w": np.float32([1, 2])}))
        >>> arrays_in(data)["w"]
        array([1., 2.], dtype=float32)
    """
    header: dict[str, Any] = {META: dict(metadata)} if metadata else {}
    buffers: list[bytes | memoryview] = []
    start = 0
    for name, x in arrays.items():
        real = _as_real(x)
        end = start + real.nbytes
        dtype = NAMES[real.dtype.name]
        header[name] = {"dtype": dtype, "shape": [*real.shape], "data_offsets": [start, end]}
        buffers.append(real.reshape(-1).view(np.uint8).data)
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNED)
    return [len(text).to_bytes(8, "little"), text, *buffers]


def _as_real(x: Array) -> Array:
    """Return the array in C order, with complex numbers as pairs; a scalar stays one."""
    dense = np.ascontiguousarray(x).reshape(x.shape)
    dtype = REAL.get(x.dtype.name)
    return dense if dtype is None else dense[..., None].view(dtype)
