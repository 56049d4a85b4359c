"""Functions in files, read and run without graphc: needs NumPy, and JAX or MLX for calls.

``f.export(..., programs=("JAX", "MLX"))`` puts a copy of this file into the file of the function::

    unzip model.graphc runtime.py
    python -c "import runtime; print(runtime.load('model.graphc')(x=[1.0, 2.0]))"
    python -c "import runtime; print(runtime.load('model.graphc', 'MLX')(x=[1.0, 2.0]))"

Nothing in such a file is executed but its programs, by JAX or MLX. MLX does not check what it
reads: load a program for it only from those whom you would let run one.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MANIFEST, ARRAYS, PROGRAM = "manifest.json", "arrays.safetensors", "program.jax"
FUNCTION = "program.{}.mlxfn"
"""The name of a function that MLX's program calls."""

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

DTYPES = {name: dtype for dtype, name in NAMES.items()} | {
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}

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
    header, view = header_in(data)
    return {name: _array(view, name, entry) for name, entry in header.items() if name != META}


META = "__metadata__"
"""The name under which a header has something else than the place of an array."""


def header_in(data: Any) -> tuple[dict[str, Any], memoryview]:
    """Return the header of a file, and the bytes behind it.

    Raises:
        ValueError: It is no such file.
    """
    view = memoryview(data)
    length = int.from_bytes(view[:8], "little")
    start = 8 + length
    if len(view) < 8 or start > len(view):
        raise ValueError(f"a header of {length} bytes in a file of {len(view)}")
    try:
        header = json.loads(bytes(view[8:start]))
    except RecursionError as error:
        raise ValueError("a header that is too deep") from error
    if not isinstance(header, dict):
        raise ValueError("a header that is no dict")
    return header, view[start:]


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
    if not name.startswith(("bfloat", "float8")):
        return np.dtype(name)
    import ml_dtypes  # noqa: PLC0415 (it comes with JAX)

    made: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
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


def load(path: str | os.PathLike[str], backend: str | None = None, *, verify: bool = True) -> Model:
    """Load a function that was exported with a program.

    Args:
        path: The file.
        backend: What runs it, ``"JAX"`` or ``"MLX"``; by default the first of these for which the
            file has a program.
        verify: Compare the checksum of the arrays too, for which they are read once.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file, is damaged, or has no program for that.
    """
    manifest, arrays, parts = opened(path, verify=verify)
    there = [name for name, field in FIELDS.items() if field in manifest]
    chosen = backend or next(iter(there), "JAX")
    if chosen not in there:
        has = f"it has one for {' and '.join(there)}" if there else "it has none"
        raise ValueError(
            f"{path} has no program for {chosen}, {has}: f.export(..., programs=({chosen!r},))"
        )
    return MODELS[chosen](manifest, arrays, parts)


FIELDS = {"JAX": "program", "MLX": "mlx"}
"""What the manifest says of each program."""


class Model:
    """A function from a file: it takes and returns what the exported one did.

    Attributes:
        manifest: What the file says of itself.
        arrays: The present values of shared variables and captured arrays by name; may be changed.
    """

    backend: str

    def __init__(
        self,
        manifest: dict[str, Any],
        arrays: dict[str, Any],
        parts: Mapping[str, memoryview],
    ) -> None:
        self.manifest = manifest
        self.arrays = arrays
        self.parts = parts

    def program(self, *arrays: Any) -> Any:
        """Return results and new values for arguments and arrays, in the order of the manifest."""
        raise NotImplementedError

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the results for values of the inputs, and keep the new state.

        Raises:
            TypeError: An argument is missing, or there is none of that name.
        """
        given = self._arguments(args, kwargs)
        held = self.manifest[FIELDS[self.backend]]["arrays"]
        found = self.program(*given, *[self.arrays[x] for x in held])
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


class JAXModel(Model):
    """A function that JAX runs."""

    backend = "JAX"

    @cached_property
    def exported(self) -> Any:
        """The program, as JAX loads it."""
        from jax import export  # noqa: PLC0415 (not needed to read the manifest and arrays)

        if PROGRAM not in self.parts:
            raise ValueError(f"the file has no part {PROGRAM!r}")
        return export.deserialize(bytearray(self.parts[PROGRAM]))

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
        except Exception as error:
            conditions = self.manifest["program"].get("conditions")
            if not conditions:
                raise
            # JAX does not say which condition on lengths an argument fails.
            needed = " and ".join(conditions)
            raise ValueError(f"the program needs {needed}: {error}") from error


class MLXModel(Model):
    """A function that MLX runs.

    Its program is a plan: calls of functions that MLX saved, loops over such calls, and branches.
    A step of it is ``[function, arguments, results, lengths]``, which are numbers of values and
    names of lengths, or a dict: a loop has its ``"chunks"``, a function for each number of steps,
    or the ``"body"`` of one step; a ``"switch"`` chooses among ``"branches"``.
    """

    backend = "MLX"

    def program(self, *arrays: Any) -> Any:
        """Return results and new values for arguments and arrays.

        The arrays that the function holds come after the arguments, in the order of
        ``manifest["mlx"]["arrays"]``. Where it has no loops that take many steps, MLX may transform
        it, with derivatives of its own.

        Raises:
            ValueError: It is not for arguments of these shapes, or the file is damaged.
        """
        try:
            given = [_mlx_array(x) for x in arrays]
            plan, lengths = self._plan([x.shape for x in given])
            return _Call(self._functions, lengths).results(plan, dict(enumerate(given)))
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"its plan for MLX is damaged: {error!r}") from error

    def _plan(self, shapes: Sequence[Sequence[int]]) -> tuple[Any, dict[str, int]]:
        """The plan for arguments of these shapes, and their lengths by name."""
        found = self.manifest["mlx"]
        lengths: dict[str, int] = {}
        names = [entry["name"] for entry in self.manifest["inputs"]] + found["arrays"]
        for name, shape, wanted in zip(names, shapes, found["shapes"], strict=True):
            pairs = zip(wanted, shape, strict=False)
            known = [lengths.setdefault(m, n) if isinstance(m, str) else m for m, n in pairs]
            if len(shape) != len(wanted) or known != [*shape]:
                raise ValueError(f"the shape of {name!r} is {[*shape]}, not {known or wanted}")
        for plan in found["programs"]:
            if all(lengths[name] == n for name, n in plan["lengths"].items()):
                if plan["steps"] is None or 0 in lengths.values():
                    break
                return plan, lengths
        there = " or ".join(str(plan["lengths"] or "any but 0") for plan in found["programs"])
        raise ValueError(f"the program is for the lengths {there}, not for {lengths}")

    @cached_property
    def _functions(self) -> _Functions:
        return _Functions(self.parts, self.manifest["mlx"]["mlx"])


class _Functions(dict[int, Any]):
    """Functions by their numbers, as MLX reads them from a file when they are first called."""

    def __init__(self, parts: Mapping[str, memoryview], version: str) -> None:
        super().__init__()
        self.parts = parts
        self.version = version

    def __missing__(self, number: int) -> Any:
        import mlx.core as mx  # noqa: PLC0415

        with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
            path = Path(folder, "function.mlxfn")
            path.write_bytes(self.parts[FUNCTION.format(number)])
            try:
                self[number] = mx.import_function(str(path))
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"not of MLX {self.version}, which wrote it: {error}") from error
        return self[number]


class _Call:
    """A call of a plan, for lengths by name."""

    def __init__(self, functions: Mapping[int, Any], lengths: Mapping[str, int]) -> None:
        self.functions = functions
        self.lengths = lengths

    def results(self, plan: Any, values: dict[int, Any]) -> list[Any]:
        """The results of a plan, whose values get their places among these."""
        for step in plan["steps"]:
            if isinstance(step, list):
                number, arguments, results, names = step
                found = self.called(number, names, [values[i] for i in arguments])
            elif "switch" in step:
                index, branches = int(values[step["switch"]].item()), step["branches"]
                chosen = branches[min(max(index, 0), len(branches) - 1)]
                found, results = self.results(chosen, values), step["results"]
            else:
                found, results = _Loop(self, step, values).results(), step["results"]
            values.update(zip(results, found, strict=True))
        return [values[i] for i in plan["results"]]

    def called(self, number: int, names: Sequence[str], arrays: Sequence[Any]) -> Sequence[Any]:
        """The results of a function, which may take lengths: as numbers, and as rows."""
        import mlx.core as mx  # noqa: PLC0415

        ns = [self.lengths[name] for name in names]
        counts = [mx.array(n, mx.int64) for n in ns]
        found: Sequence[Any] = self.functions[number](
            *arrays, *counts, *[mx.zeros((n,), mx.bool_) for n in ns]
        )
        return found

    def number(self, given: Any) -> Any:
        """A number that may follow from a length: ``[k, name, c]`` is ``k n + c``."""
        return (
            given if not isinstance(given, list) else given[0] * self.lengths[given[1]] + given[2]
        )


class _Loop:
    """A loop of a plan in a call.

    Attributes:
        steps: How long its rows are; None where it has none and ends by itself.
        most: How many steps are done, unless it ends by itself before.
    """

    def __init__(self, call: _Call, entry: Any, values: dict[int, Any]) -> None:
        self.call = call
        self.entry = entry
        self.values = values
        self.steps = most = call.number(entry["steps"])
        if entry["count"] is not None:
            count = int(values[entry["count"]].item())
            most = count if most is None else min(count, most)
        self.most = most

    def results(self) -> list[Any]:
        """The carries, the stacked rows, and where it ends by itself how many steps it did."""
        import mlx.core as mx  # noqa: PLC0415

        entry = self.entry
        carry = [self.values[i] for i in entry["carries"]]
        xs = [self.values[i] for i in entry["sequences"]]
        parts, walked, taken = [], 0, 0
        for size in self.sizes():
            first = self.most - walked - size if entry["reverse"] else walked
            found = self.done(size, carry, [x[first : first + size] for x in xs])
            carry = found[: len(carry)]
            parts.append(found[len(carry) :])
            walked += size
            if entry["stops"]:
                taken += int(found[-2].item())
                if not found[-1].item():
                    break
            elif walked < self.most:
                mx.async_eval(found)  # type: ignore[no-untyped-call]
        return [*carry, *self.rows(parts, walked), *([mx.array(taken)] if entry["stops"] else [])]

    def sizes(self) -> Iterator[int]:
        """The numbers of steps in which it is done, large ones first."""
        left = self.most
        for size in sorted(map(int, self.entry.get("chunks", [1])), reverse=True):
            while left is None or left >= size > 0:
                yield size
                left = None if left is None else left - size

    def done(self, size: int, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        """The carries and rows of so many steps.

        If it ends by itself, also how many of them counted, and whether more follow.
        """
        import mlx.core as mx  # noqa: PLC0415

        if "chunks" in self.entry:
            number, names = self.entry["chunks"][str(size)]
            constants = [self.values[i] for i in self.entry["constants"]]
            return [*self.call.called(number, names, [*carry, *elements, *constants])]
        body = self.entry["body"]
        given = [*carry, *[x[0] for x in elements]]
        values = {**self.values, **dict(zip(body["inputs"], given, strict=True))}
        found = self.call.results(body, values)
        kept = len(carry)
        rows = [mx.expand_dims(y, 0) for y in found[kept : kept + len(self.entry["rows"])]]
        ends = [mx.array(1), mx.logical_not(found[-1])] if self.entry["stops"] else []
        return [*found[:kept], *rows, *ends]

    def rows(self, parts: Sequence[Sequence[Any]], walked: int) -> list[Any]:
        """The rows of the steps that were done, between those that are zero for the others."""
        import mlx.core as mx  # noqa: PLC0415

        before = self.most - walked if self.entry["reverse"] else 0
        stacked = []
        for i, row in enumerate(self.entry["rows"]):
            rest = [self.call.number(n) for n in row["shape"]]
            dtype = getattr(mx, MLX_NAMES.get(row["dtype"], row["dtype"]))
            found = [part[i] for part in (parts[::-1] if self.entry["reverse"] else parts)]
            after = self.steps - walked - before
            zeros = [mx.zeros([n, *rest], dtype) for n in (before, after)]
            stacked.append(mx.concatenate([zeros[0], *found, zeros[1]]))
        return stacked


MLX_NAMES = {"bool": "bool_"}
"""MLX's names of dtypes, where it has others."""


def _mlx_array(value: Any) -> Any:
    """An array of MLX's, of the same dtype."""
    import mlx.core as mx  # noqa: PLC0415

    if isinstance(value, mx.array):
        return value
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    dtype = getattr(mx, MLX_NAMES.get(value.dtype.name, value.dtype.name))
    if value.dtype.name == "bfloat16":
        return mx.array(value.view(np.uint16)).view(dtype)
    return mx.array(value, dtype)


MODELS: dict[str, Callable[..., Model]] = {"JAX": JAXModel, "MLX": MLXModel}
