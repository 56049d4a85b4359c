"""The GGUF container: metadata of typed values, and the offsets of tensors in the file.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ArgumentError
from graphc.interop.weights.files import TRUNCATED, map_file, refusal

MAGIC = b"GGUF"
VERSION = 3
READABLE = (2, 3)
ALIGNMENT = 32
"""The default alignment of the data of tensors, in bytes."""

SCALARS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool")
LONG = ("uint64", "int64", "float64")
STRING, ARRAY = 8, 9
TYPES: dict[int, str] = dict(enumerate(SCALARS)) | dict(enumerate(LONG, 10))
"""The dtypes of metadata by their numbers in a file; strings and arrays are 8 and 9."""
NUMBERS = {name: number for number, name in TYPES.items()}

MAX_NESTING = 4
"""The deepest nesting of arrays in metadata."""

MAX_AXES = 8


@dataclass(frozen=True)
class TensorEntry:
    """The kind, shape and offset of a tensor.

    Attributes:
        kind: The number of the kind.
        shape: The lengths in NumPy's order, the reverse of the file's.
        start: The offset of the first byte in the file.
    """

    kind: int
    shape: tuple[int, ...]
    start: int


class GGUFReader:
    """A GGUF file, whose sizes are compared with the file's length before they are read.

    Attributes:
        metadata: Values by key.
        tensors: The tensors' entries by name.

    Raises:
        FormatError: If it is no GGUF file, has another version or byte order, or is damaged.
        OSError: If the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.view, self.at = path, map_file(path), 0
        if bytes(self.view[:4]) != MAGIC:
            raise refusal(path, "it does not begin as GGUF files do.", "Give a file in GGUF.")
        self.at = 4
        version = int(self._number("uint32"))
        if version & 0xFFFF == 0:
            raise refusal(
                path, "its numbers have the highest byte first.", "Convert it on such a machine."
            )
        if version not in READABLE:
            raise refusal(
                path,
                f"version {version} of GGUF.",
                f"Versions {' and '.join(map(str, READABLE))} are read: convert the model anew.",
            )
        tensors, keys = int(self._number("uint64")), int(self._number("uint64"))
        self.metadata = dict(self._entry() for _ in range(keys))
        entries = [self._tensor() for _ in range(tensors)]
        step = int(self.metadata.get("general.alignment", ALIGNMENT))
        if step < 1 or step & step - 1:
            raise refusal(path, f"general.alignment is {step}.", "It is a power of two.")
        data = -(-self.at // step) * step
        self.tensors = {
            name: TensorEntry(kind, shape, data + at) for name, kind, shape, at in entries
        }
        if len(self.tensors) < len(entries):
            raise refusal(path, "two tensors have one name.", TRUNCATED)

    def bytes_of(self, name: str, size: int) -> memoryview:
        """Return the bytes of a tensor."""
        start = self.tensors[name].start
        if start + size > len(self.view):
            raise refusal(
                self.path,
                f"the tensor {name!r} ends at byte {start + size} of {len(self.view)}.",
                TRUNCATED,
            )
        return self.view[start : start + size]

    def _take(self, size: int) -> memoryview:
        if self.at + size > len(self.view):
            problem = f"its metadata end at byte {self.at + size} of {len(self.view)}."
            raise refusal(self.path, problem, TRUNCATED)
        self.at += size
        return self.view[self.at - size : self.at]

    def _number(self, dtype: str) -> Any:
        type = np.dtype(dtype)
        return np.frombuffer(self._take(type.itemsize), type)[0]

    def _string(self) -> str:
        data = bytes(self._take(int(self._number("uint64"))))
        # Tokens may be parts of characters; surrogates keep their bytes.
        return data.decode("utf-8", "surrogateescape")

    def _entry(self) -> tuple[str, Any]:
        key = self._string()
        return key, self._value(key, int(self._number("uint32")))

    def _value(self, key: str, kind: int, depth: int = 0) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY and depth < MAX_NESTING:
            inner, count = int(self._number("uint32")), int(self._number("uint64"))
            if inner in TYPES:
                dtype = np.dtype(TYPES[inner])
                return np.frombuffer(self._take(count * dtype.itemsize), dtype)
            if count > len(self.view):
                raise refusal(self.path, f"{count} values of {key!r}.", TRUNCATED)
            return [self._value(key, inner, depth + 1) for _ in range(count)]
        if kind not in TYPES:
            raise refusal(self.path, f"the metadata {key!r} are of type {kind}.", TRUNCATED)
        value = self._number(TYPES[kind])
        return bool(value) if TYPES[kind] == "bool" else value

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        name, axes = self._string(), int(self._number("uint32"))
        if axes > MAX_AXES:
            raise refusal(self.path, f"the tensor {name!r} has {axes} axes.", TRUNCATED)
        lengths = [int(self._number("uint64")) for _ in range(axes)]
        kind, offset = int(self._number("uint32")), int(self._number("uint64"))
        if math.prod(lengths) >= 2**62:
            raise refusal(self.path, f"the tensor {name!r} has lengths {lengths}.", TRUNCATED)
        return name, kind, tuple(reversed(lengths)), offset


class Piece(NamedTuple):
    """A tensor to be written.

    Attributes:
        kind: The number of the kind.
        shape: The lengths in NumPy's order.
        size: The number of bytes.
        arrays: Arrays whose bytes are written one after the other.
    """

    kind: int
    shape: Sequence[int]
    size: int
    arrays: Iterable[Any]


def chunks(metadata: Mapping[str, Any], tensors: Mapping[str, Piece]) -> Iterator[Any]:
    """Yield the bytes of a file, no more than a part of a tensor at a time.

    Args:
        metadata: Values by key, as ``GGUFReader`` returns them, or Python's numbers and lists.
        tensors: The tensors by name.
    """
    step = int(metadata.get("general.alignment", ALIGNMENT))
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head += [_string(key), *_encode(key, value)]
    at = 0
    for name, piece in tensors.items():
        head += [_string(name), struct.pack("<I", len(piece.shape))]
        head += [struct.pack("<Q", n) for n in reversed(piece.shape)]
        head.append(struct.pack("<IQ", piece.kind, at))
        at += -(-piece.size // step) * step
    text = b"".join(head)
    yield text + bytes(-len(text) % step)
    for piece in tensors.values():
        for part in piece.arrays:
            yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        yield bytes(-piece.size % step)


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _encode(key: str, value: Any) -> list[bytes]:
    if isinstance(value, str):
        return [struct.pack("<I", STRING), _string(value)]
    if isinstance(value, list | tuple) and value and all(isinstance(x, str) for x in value):
        head = struct.pack("<IIQ", ARRAY, STRING, len(value))
        return [head, *map(_string, value)]
    if isinstance(value, list | tuple) and not all(map(np.isscalar, value)):
        raise _unwritable(key, value)
    dtype = _dtype_of(value)
    array = np.asarray(value, dtype)
    number = NUMBERS.get(array.dtype.name)
    if number is None or array.ndim > 1:
        raise _unwritable(key, value)
    head = struct.pack("<I", number)
    if array.ndim:
        head = struct.pack("<IIQ", ARRAY, number, array.size)
    return [head, array.tobytes()]


def _dtype_of(value: Any) -> str | None:
    """Return the dtype of Python's numbers, or None for a value that has a dtype."""
    if isinstance(value, np.generic | np.ndarray):
        return None
    first = value
    if isinstance(value, list | tuple):
        first = max(value, key=lambda x: (isinstance(x, float), abs(x)), default=0)
    if isinstance(first, bool) or not isinstance(first, int | float):
        return None
    if isinstance(first, float):
        return "float32"
    signed = min(value) < 0 if isinstance(value, list | tuple) and value else first < 0
    wide = "64" if abs(first) >= 2**31 else "32"
    return f"int{wide}" if signed else f"uint{wide}"


def _unwritable(key: str, value: Any) -> ArgumentError:
    return ArgumentError(
        f"save_gguf: the metadata {key!r} are {value!r:.60}.",
        "Give a string, a number, a bool, an array with one axis, or a list of values of one type.",
    )
