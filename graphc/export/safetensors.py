"""Arrays in the safetensors format: their types and places as JSON, then their bytes.

``runtime.py`` reads them.

Source: https://github.com/huggingface/safetensors, "Format". Complex numbers, which it lacks, are
pairs of real ones along one more axis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.export.runtime import META, NAMES, Array
from graphc.ir import dtype_name

REAL = {"complex64": "float32", "complex128": "float64"}

ALIGNED = 64
"""The data begin at a multiple of so many bytes, as vector instructions like it."""


def chunks(
    arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """Return the bytes of a file: the header, and those of each array.

    Args:
        arrays: The arrays by name.
        metadata: What the header is to say besides.

    Example:
        >>> from graphc.export.runtime import arrays_in
        >>> data = b"".join(chunks({"w": np.float32([1, 2])}))
        >>> arrays_in(data)["w"]
        array([1., 2.], dtype=float32)
    """
    header: dict[str, Any] = {META: dict(metadata)} if metadata else {}
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


def _as_real(x: Array) -> Array:
    """The array in C order and with real numbers; one without axes stays so."""
    dense = np.ascontiguousarray(x).reshape(x.shape)
    dtype = REAL.get(dtype_name(x.dtype))
    return dense if dtype is None else dense[..., None].view(dtype)
