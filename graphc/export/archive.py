"""Writers of files: zips of uncompressed parts, and arrays in the safetensors format.

``runtime.py`` maps both into memory, and reads them.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from graphc.export.runtime import LOCAL, META, NAMES, Array

Chunks = Iterable[bytes | memoryview]

ALIGNED = 64
"""The alignment of parts in bytes, so that mapped arrays can be used without a copy."""

PADDING = 0xD935
"""The tag of an extra field that is only padding, as in Android's packages."""

START = (1980, 1, 1, 0, 0, 0)
"""The date of every part, so that equal contents give equal files."""


class ZipWriter:
    """A zip that is written part by part, and replaces the target file when it is complete.

    Attributes:
        sums: The size and checksum of each part.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        self._zip = zipfile.ZipFile(self._temporary, "w")
        self._at = 0
        self.sums: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> ZipWriter:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        self._zip.close()
        if kind is None:
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink()

    def add(self, name: str, chunks: Chunks, size: int) -> None:
        """Write a part of ``size`` bytes."""
        info = zipfile.ZipInfo(name, START)
        info.file_size = size
        # Python appends 20 bytes to the extra field of a part that may exceed 2 GB.
        zip64_size = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0
        header = LOCAL.size + len(name) + 4 + zip64_size
        fill = -(self._at + header) % ALIGNED
        info.extra = struct.pack("<HH", PADDING, fill) + bytes(fill)
        digest = sha256()
        with self._zip.open(info, "w") as file:
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
        self._at += header + fill + size
        self.sums[name] = {"bytes": size, "sha256": digest.hexdigest()}


# The safetensors format: types and offsets of arrays in JSON, then their bytes. Complex numbers,
# which it lacks, are pairs of real ones along a new last axis.
#
# Source: https://github.com/huggingface/safetensors, "Format".


REAL = {"complex64": "float32", "complex128": "float64"}


def array_chunks(
    arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """Return the bytes of a file: the header, then the bytes of each array.

    Args:
        arrays: The arrays by name.
        metadata: Further entries of the header.

    Example:
        >>> from graphc.export.runtime import arrays_in
        >>> data = b"".join(array_chunks({"w": np.float32([1, 2])}))
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
