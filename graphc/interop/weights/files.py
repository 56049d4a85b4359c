"""Files of weights: mapped into memory, read array by array."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from graphc.errors import FormatError


class Weights(Mapping[str, Any]):
    """The arrays of a file by name, each read when it is asked for.

    Dense arrays are parts of the file, which is mapped into memory. Packed ones are implicit
    arrays; where the file packs codes in another order than graphc, they are packed anew, some rows
    at a time, each time that they are asked for. ``dict(weights)`` reads all of them.

    Attributes:
        path: The file, or folder.
        metadata: What the file says of itself: of GGUF, NumPy's scalars and arrays, strings and
            bools; of safetensors, strings.
        config: What ``config.json`` beside the file says; empty where there is none.
        kinds: The format's name for what each array is stored as, such as ``"Q4_K"`` or ``"F16"``.

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


def refusal(path: Any, problem: str, remedy: str) -> FormatError:
    """The error about a file."""
    return FormatError(f"{path}: {problem}", remedy)


TRUNCATED = "The file is damaged or was not copied to its end: get it again."


def mapped(path: Path) -> memoryview:
    """The bytes of a file, which are read when they are used.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
