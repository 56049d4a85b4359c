"""Files of weights: mapped into memory, read array by array."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from graphc.errors import FormatError


class Weights(Mapping[str, Any]):
    """The arrays of a file by name, each read when it is asked for.

    Dense arrays are parts of the file, which is mapped into memory. Packed ones are implicit.
    Codes that the file orders differently from graphc are packed again at each access, some rows at
    a time. ``dict(weights)`` reads all arrays.

    Attributes:
        path: The file, or folder.
        metadata: The metadata of the file: of GGUF, NumPy's scalars and arrays, strings and bools;
            of safetensors, strings.
        config: The contents of ``config.json`` beside the file; empty without one.
        kinds: The format's name of how each array is stored, such as ``"Q4_K"`` or ``"F16"``.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc.interop.weights import load_gguf, save_gguf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_gguf(f"{folder}/model.gguf", {"w": np.float32([[1, 2]])}, {"about": "a test"})
        ...     weights = load_gguf(f"{folder}/model.gguf")
        ...     weights["w"], weights.kinds, weights.metadata
        (array([[1., 2.]], dtype=float32), {'w': 'F32'}, {'about': 'a test'})
    """

    def __init__(
        self,
        path: Path,
        readers: Mapping[str, Callable[[], Any]],
        *,
        kinds: Mapping[str, str],
        metadata: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.metadata = dict(metadata)
        self.config = dict(config or {})
        self.kinds = dict(kinds)
        self._readers = dict(readers)

    def __getitem__(self, name: str) -> Any:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __repr__(self) -> str:
        return f"Weights({str(self.path)!r}, {len(self)} arrays)"


@contextmanager
def replacement(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` once it is complete."""
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def refusal(path: Any, problem: str, remedy: str) -> FormatError:
    """Return the error about a file."""
    return FormatError(f"{path}: {problem}", remedy)


TRUNCATED = "The file is damaged or was not copied to its end: get it again."


def map_file(path: Path) -> memoryview:
    """Map a file into memory, so that its bytes are read when they are used.

    Raises:
        OSError: If the file cannot be read.
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
