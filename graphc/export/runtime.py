"""Functions in files, read and run without graphc: needs NumPy, and JAX for calls.

``f.export(..., programs=("JAX",))`` puts a copy of this file into the file of the function::

    unzip model.graphc runtime.py
    python -c "import runtime; print(runtime.load('model.graphc')(x=[1.0, 2.0]))"

Nothing in such a file is executed but its program, by JAX.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MANIFEST, ARRAYS, PROGRAM = "manifest.json", "arrays.safetensors", "program.jax"

FORMAT = "graphc"
VERSION = 1

LOCAL = struct.Struct("<4s22xHH")
"""The header before a part: its signature, and the lengths of its name and of what follows."""

DEEPEST = 100
"""So many lists and dicts may be in each other in what a call returns."""

NAMES = {
    "bool": "BOOL",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    "bfloat16": "BF16",
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
}
"""The dtypes of the safetensors format."""

DTYPES = {name: dtype for dtype, name in NAMES.items()}

COMPLEX = ("complex64", "complex128")

KINDS: dict[str, Any] = {
    "format": str,
    "version": int,
    "graphc": str,
    "name": str | None,
    "licence": str | None,
    "mode": str,
    "inputs": list,
    "outputs": object,
    "results": list,
    "updates": list,
    "arrays": dict,
    "parts": dict,
}
"""The fields, and what each holds."""

ARRAY: dict[str, Any] = {"dtype": str, "shape": list}
INPUT = ARRAY | {"name": str | None, "strict": bool, "allow_downcast": bool | None}
ENTRIES: dict[str, dict[str, Any]] = {
    "inputs": INPUT,
    "results": ARRAY,
    "arrays": ARRAY,
    "parts": {"bytes": int, "sha256": str},
}
"""The fields of each entry of some fields."""


def parts_of(path: str | os.PathLike[str]) -> dict[str, memoryview]:
    """Return the parts of a zip by name, as they lie in the file, which is mapped into memory.

    Nothing is unpacked, so no part takes more memory than the file, and no name leads anywhere.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no zip, or a part is compressed, encrypted, damaged or there twice.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as directory:
                entries = directory.infolist()
        except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeError) as error:
            raise ValueError(str(error)) from error
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    found: dict[str, memoryview] = {}
    for entry in entries:
        name = entry.filename
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = _part(entry, whole)
        # The manifest has the checksums of the others.
        if name == MANIFEST and zlib.crc32(found[name]) != entry.CRC:
            raise ValueError(f"{name!r} has another checksum: the file is damaged")
    if MANIFEST not in found:
        raise ValueError(f"it has no part {MANIFEST!r}")
    return found


def _part(entry: zipfile.ZipInfo, whole: memoryview) -> memoryview:
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise ValueError(f"{name!r} is compressed or encrypted")
    begin, size = entry.header_offset, entry.file_size
    if not 0 <= begin <= len(whole) - LOCAL.size:
        raise ValueError(f"{name!r} lies outside of the file")
    signature, name_length, extra_length = LOCAL.unpack_from(whole, begin)
    start = begin + LOCAL.size + name_length + extra_length
    if signature != b"PK\3\4" or start + size > len(whole) or entry.compress_size != size:
        raise ValueError(f"{name!r} lies outside of the file")
    return whole[start : start + size]


def check_sums(
    parts: Mapping[str, memoryview], sums: Mapping[str, Any], unchecked: Container[str] = ()
) -> None:
    """Raise where a part is not the one that was written.

    Args:
        parts: The parts.
        sums: What ``Writer.sums`` was.
        unchecked: The parts of which the size alone is compared.

    Raises:
        ValueError: A part is missing, unknown, of another size or has another checksum.
    """
    if {*parts} != {*sums}:
        raise ValueError(f"it has the parts {[*parts]}, not {[*sums]}")
    for name, view in parts.items():
        size, digest = sums[name]["bytes"], sums[name]["sha256"]
        if len(view) != size or (name not in unchecked and sha256(view).hexdigest() != digest):
            raise ValueError(f"{name!r} has another checksum: the file is damaged")


def filled(structure: Any, values: Sequence[Any], depth: int = 0) -> Any:
    """Return values in their places in a structure: the inverse of ``structure_of``.

    Raises:
        ValueError: It has other things than lists, dicts and numbers of values.

    Example:
        >>> filled({"mean": 0, "all": [1, 2]}, "abc")
        {'mean': 'a', 'all': ['b', 'c']}
    """
    if depth > DEEPEST:
        raise ValueError("the outputs are too deep in each other")
    if isinstance(structure, list):
        return [filled(part, values, depth + 1) for part in structure]
    if isinstance(structure, dict):
        return {key: filled(part, values, depth + 1) for key, part in structure.items()}
    if structure is None and not depth:
        return None
    if type(structure) is int and 0 <= structure < len(values):
        return values[structure]
    raise ValueError(f"{structure!r} is no output")


def manifest_of(data: bytes) -> dict[str, Any]:
    """Return a manifest whose fields are of the right kinds.

    Raises:
        ValueError: It is none, or that of a later version.
    """
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("its parts are too deep in each other") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError("it is no file of a compiled function")
    version = found.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"version {version!r} of the format is not one up to {VERSION}")
    check_fields("the manifest", found, KINDS)
    for field, kinds in ENTRIES.items():
        given = found[field]
        entries = given.items() if isinstance(given, dict) else enumerate(given)
        for name, entry in entries:
            check_fields(f"{name!r} of {field!r} in the manifest", entry, kinds)
    if not all(isinstance(name, str) for name in found["updates"]):
        raise ValueError("'updates' in the manifest are no names")
    return found


def check_fields(subject: str, entry: Any, kinds: Mapping[str, Any]) -> None:
    """Raise where something is no dict, or a field is missing or of another kind.

    Raises:
        ValueError: Names the field.
    """
    if not isinstance(entry, dict):
        raise ValueError(f"{subject} is {entry!r:.40}")
    for name, kind in kinds.items():
        if name not in entry or not isinstance(entry[name], kind):
            raise ValueError(f"{subject} has no {name!r}, or one of another kind")
    lengths = entry.get("shape", [])
    if not all(n is None or isinstance(n, str) or (type(n) is int and n >= 0) for n in lengths):
        raise ValueError(f"{subject} has the shape {lengths!r:.40}")


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
    return x.view(dtype)[..., 0] if dtype in COMPLEX else x


def _array(view: memoryview, name: str, entry: Any) -> Array:
    check_fields(f"the array {name!r}", entry, {"dtype": str, "shape": list, "data_offsets": list})
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    numbers = [*shape, *offsets]
    if dtype not in DTYPES or len(offsets) != 2 or not all(type(n) is int for n in numbers):
        raise ValueError(f"the array {name!r} has no dtype, shape or place")
    begin, end = offsets
    made = _dtype(DTYPES[dtype])
    if not 0 <= begin <= end <= len(view) or end - begin != prod(shape) * made.itemsize:
        raise ValueError(f"the array {name!r} lies outside of the file, or is of another length")
    return np.frombuffer(view[begin:end], made).reshape(shape)


def _dtype(name: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes  # noqa: PLC0415 (it comes with JAX)

    made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return made


def opened(
    path: str | os.PathLike[str], *, verify: bool = True
) -> tuple[dict[str, Any], dict[str, Array], dict[str, memoryview]]:
    """Return the manifest, the arrays and the other parts of a file, whose checksums are compared.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no file of a function, or is damaged.
    """
    parts = parts_of(path)
    manifest = manifest_of(bytes(parts.pop(MANIFEST)))
    check_sums(parts, manifest["parts"], () if verify else (ARRAYS,))
    wanted = manifest["arrays"]
    found = arrays_in(parts.pop(ARRAYS, b""))
    if {*found} != {*wanted}:
        raise ValueError(f"it has the arrays {[*found]}, not {[*wanted]}")
    arrays = {name: as_complex(x, wanted[name]["dtype"]) for name, x in found.items()}
    for name, x in arrays.items():
        if {"dtype": x.dtype.name, "shape": [*x.shape]} != wanted[name]:
            raise ValueError(f"the array {name!r} is {x.dtype}{[*x.shape]}, not {wanted[name]}")
    return manifest, arrays, parts


def load(path: str | os.PathLike[str], *, verify: bool = True) -> Model:
    """Load a function that was exported with a program for JAX.

    Args:
        path: The file.
        verify: Compare the checksum of the arrays too, for which they are read once.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file, is damaged, or has no program.
    """
    return Model(path, verify=verify)


class Model:
    """A function from a file, run by JAX: it takes and returns what the exported one did.

    Attributes:
        manifest: What the file says of itself.
        arrays: The present values of shared variables and captured arrays by name; may be changed.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True) -> None:
        self.manifest, self.arrays, parts = opened(path, verify=verify)
        if PROGRAM not in parts or "program" not in self.manifest:
            raise ValueError(f"{path} has no program for JAX: f.export(..., programs=('JAX',))")
        self._data = parts[PROGRAM]

    @cached_property
    def exported(self) -> Any:
        """The program, as JAX loads it."""
        from jax import export  # noqa: PLC0415 (not needed to read the manifest and arrays)

        return export.deserialize(bytearray(self._data))

    def program(self, *arrays: Any) -> Any:
        """Return results and new values for arguments and arrays; JAX may transform it.

        The arrays that the function holds come after the arguments, in the order of
        ``manifest["program"]["arrays"]``. Values of 64 bits need ``jax.enable_x64(True)`` around
        what transforms it.
        """
        import jax  # noqa: PLC0415

        try:
            with jax.enable_x64(True):
                return self.exported.call(*arrays)
        except ValueError as error:
            conditions = self.manifest["program"].get("conditions")
            if not conditions:
                raise
            # JAX does not say which condition on lengths an argument fails.
            needed = " and ".join(conditions)
            raise ValueError(f"the program needs {needed}: {error}") from error

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the results for values of the inputs, and keep the new state.

        Raises:
            TypeError: An argument is missing, or there is none of that name.
        """
        given = self._arguments(args, kwargs)
        found = self.program(*given, *[self.arrays[x] for x in self.manifest["program"]["arrays"]])
        updates = self.manifest["updates"]
        n = len(found) - len(updates)
        self.arrays.update(zip(updates, found[n:], strict=True))
        return filled(self.manifest["outputs"], found[:n])

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
        inputs = self.manifest["inputs"]
        names = [entry["name"] for entry in inputs]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = [name for name in kwargs if name not in names[len(args) :]]
        if unknown or len(args) > len(names):
            raise TypeError(f"the function takes {names}, not {unknown or args}")
        found = []
        for entry in inputs:
            value = given.get(entry["name"], self.arrays.get(entry.get("default", "")))
            if value is None:
                raise TypeError(f"the argument {entry['name']!r} is missing")
            found.append(np.asarray(value, _dtype(entry["dtype"])))
        return found
