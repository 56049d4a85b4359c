"""The GGUF container: metadata of typed values, and the places of tensors in the file.

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
from graphc.interop.weights.files import TRUNCATED, mapped, refusal

MAGIC = b"GGUF"
VERSION = 3
READABLE = (2, 3)
ALIGNMENT = 32
"""The data of tensors begin at multiples of so many bytes, where the metadata name no other."""

SCALARS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool")
LONG = ("uint64", "int64", "float64")
STRING, ARRAY = 8, 9
TYPES: dict[int, str] = dict(enumerate(SCALARS)) | dict(enumerate(LONG, 10))
"""The dtypes of metadata by their numbers in a file; strings and arrays have the two between."""
NUMBERS = {name: number for number, name in TYPES.items()}

DEEPEST = 4
"""So many arrays may be in each other."""

MOST_AXES = 8


@dataclass(frozen=True)
class Stored:
    """Where a tensor lies.

    Attributes:
        kind: The number of its kind.
        shape: Its lengths in NumPy's order, the file's reversed.
        start: Its first byte in the file.
    """

    kind: int
    shape: tuple[int, ...]
    start: int


class Reader:
    """A GGUF file, whose parts are compared with its length before they are read.

    Attributes:
        metadata: Values by key.
        tensors: The places of tensors by name.

    Raises:
        FormatError: It is none, of another version or byte order, or is damaged.
        OSError: The file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.view, self.at = path, mapped(path), 0
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
        found = [self._tensor() for _ in range(tensors)]
        step = int(self.metadata.get("general.alignment", ALIGNMENT))
        if step < 1 or step & step - 1:
            raise refusal(path, f"general.alignment is {step}.", "It is a power of two.")
        data = -(-self.at // step) * step
        self.tensors = {name: Stored(kind, shape, data + at) for name, kind, shape, at in found}
        if len(self.tensors) < len(found):
            raise refusal(path, "two tensors have one name.", TRUNCATED)

    def bytes_of(self, name: str, size: int) -> memoryview:
        """The bytes of a tensor, of which there are to be so many."""
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
        made = np.dtype(dtype)
        return np.frombuffer(self._take(made.itemsize), made)[0]

    def _string(self) -> str:
        data = bytes(self._take(int(self._number("uint64"))))
        # Tokens may be parts of characters; such bytes are written as they were read.
        return data.decode("utf-8", "surrogateescape")

    def _entry(self) -> tuple[str, Any]:
        key = self._string()
        return key, self._value(key, int(self._number("uint32")))

    def _value(self, key: str, kind: int, depth: int = 0) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY and depth < DEEPEST:
            inner, count = int(self._number("uint32")), int(self._number("uint64"))
            if inner in TYPES:
                dtype = np.dtype(TYPES[inner])
                return np.frombuffer(self._take(count * dtype.itemsize), dtype)
            if count > len(self.view):
                raise refusal(self.path, f"{count} values of {key!r}.", TRUNCATED)
            return [self._value(key, inner, depth + 1) for _ in range(count)]
        if kind not in TYPES:
            raise refusal(self.path, f"the metadata {key!r} are of type {kind}.", TRUNCATED)
        found = self._number(TYPES[kind])
        return bool(found) if TYPES[kind] == "bool" else found

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        name, axes = self._string(), int(self._number("uint32"))
        if axes > MOST_AXES:
            raise refusal(self.path, f"the tensor {name!r} has {axes} axes.", TRUNCATED)
        lengths = [int(self._number("uint64")) for _ in range(axes)]
        kind, offset = int(self._number("uint32")), int(self._number("uint64"))
        if math.prod(lengths) >= 2**62:
            raise refusal(self.path, f"the tensor {name!r} has lengths {lengths}.", TRUNCATED)
        return name, kind, tuple(reversed(lengths)), offset


class Piece(NamedTuple):
    """A tensor to be written.

    Attributes:
        kind: The number of its kind.
        shape: Its lengths in NumPy's order.
        size: So many bytes it has.
        parts: Arrays whose bytes these are, one after the other.
    """

    kind: int
    shape: Sequence[int]
    size: int
    parts: Iterable[Any]


def chunks(metadata: Mapping[str, Any], tensors: Mapping[str, Piece]) -> Iterator[Any]:
    """The bytes of a file, of which no more than a part of a tensor is made at a time.

    Args:
        metadata: Values by key, as ``Reader`` gives them, or Python's numbers and lists.
        tensors: What there is of each name.
    """
    step = int(metadata.get("general.alignment", ALIGNMENT))
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head += [_string(key), *_typed(key, value)]
    at = 0
    for name, piece in tensors.items():
        head += [_string(name), struct.pack("<I", len(piece.shape))]
        head += [struct.pack("<Q", n) for n in reversed(piece.shape)]
        head.append(struct.pack("<IQ", piece.kind, at))
        at += -(-piece.size // step) * step
    text = b"".join(head)
    yield text + bytes(-len(text) % step)
    for piece in tensors.values():
        for part in piece.parts:
            yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        yield bytes(-piece.size % step)


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _typed(key: str, value: Any) -> list[bytes]:
    """The number of a value's type, and the value."""
    if isinstance(value, str):
        return [struct.pack("<I", STRING), _string(value)]
    if isinstance(value, list | tuple) and value and all(isinstance(x, str) for x in value):
        head = struct.pack("<IIQ", ARRAY, STRING, len(value))
        return [head, *map(_string, value)]
    if isinstance(value, list | tuple) and not all(map(np.isscalar, value)):
        raise _unwritable(key, value)
    dtype = _dtype_of(value)
    found = np.asarray(value, dtype)
    number = NUMBERS.get(found.dtype.name)
    if number is None or found.ndim > 1:
        raise _unwritable(key, value)
    head = struct.pack("<I", number)
    if found.ndim:
        head = struct.pack("<IIQ", ARRAY, number, found.size)
    return [head, found.tobytes()]


def _dtype_of(value: Any) -> str | None:
    """The dtype of Python's numbers; None for what has one."""
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
