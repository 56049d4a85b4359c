"""A loader of exported functions without graphc: needs NumPy, and JAX or MLX for calls.

``f.export(..., programs=("JAX", "MLX"))`` puts a copy of this file into the file of the function::

    unzip model.graphc runtime.py
    python -c "import runtime; print(runtime.load('model.graphc')(x=[1.0, 2.0]))"
    python -c "import runtime; print(runtime.load('model.graphc', 'MLX')(x=[1.0, 2.0]))"

Only the programs in a file are executed, by JAX or MLX. MLX does not check its input: load a
program for MLX only from a source that you trust to run code.
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
"""The local header of a part: its signature, and the lengths of its name and extra field."""

DEEPEST = 100
"""The largest depth of nested lists and dicts in the results of a call."""

NAMES = {
    "bool": "BOOL",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
    "bfloat16": "BF16",
    **{f"float{n}": f"F{n}" for n in (16, 32, 64)},
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
"""The dtypes of the safetensors format."""

DTYPES = {name: dtype for dtype, name in NAMES.items()} | {"C64": "complex64"}

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
"""The fields of a manifest, with their types."""

ARRAY: dict[str, Any] = {"dtype": str, "shape": list}
INPUT = ARRAY | {"name": str | None, "strict": bool, "allow_downcast": bool | None}
ENTRIES: dict[str, dict[str, Any]] = {
    "inputs": INPUT,
    "results": ARRAY,
    "arrays": ARRAY,
    "parts": {"bytes": int, "sha256": str},
}
"""The fields of the entries in lists and dicts of a manifest."""


def parts_of(path: str | os.PathLike[str]) -> dict[str, memoryview]:
    """Return the parts of a zip by name, as views of the file, which is mapped into memory.

    Nothing is unpacked, so no part takes more memory than the file, and no name is used as a path.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is no zip, or a part is compressed, encrypted, damaged or duplicate.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as directory:
                entries = directory.infolist()
        except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeError) as error:
            raise ValueError(str(error)) from error
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    views: dict[str, memoryview] = {}
    for entry in entries:
        name = entry.filename
        if name in views:
            raise ValueError(f"{name!r} is there twice")
        views[name] = _part(entry, view)
        # The manifest has the checksums of the other parts.
        if name == MANIFEST and zlib.crc32(views[name]) != entry.CRC:
            raise ValueError(f"{name!r} has another checksum: the file is damaged")
    if MANIFEST not in views:
        raise ValueError(f"it has no part {MANIFEST!r}")
    return views


def _part(entry: zipfile.ZipInfo, view: memoryview) -> memoryview:
    name = entry.filename
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise ValueError(f"{name!r} is compressed or encrypted")
    begin, size = entry.header_offset, entry.file_size
    if not 0 <= begin <= len(view) - LOCAL.size:
        raise ValueError(f"{name!r} lies outside of the file")
    signature, name_length, extra_length = LOCAL.unpack_from(view, begin)
    start = begin + LOCAL.size + name_length + extra_length
    if signature != b"PK\3\4" or start + size > len(view) or entry.compress_size != size:
        raise ValueError(f"{name!r} lies outside of the file")
    return view[start : start + size]


def check_sums(
    parts: Mapping[str, memoryview], sums: Mapping[str, Any], unchecked: Container[str] = ()
) -> None:
    """Check that the parts are the ones that were written.

    Args:
        parts: The parts.
        sums: The sizes and checksums from ``ZipWriter.sums``.
        unchecked: The parts whose checksums are not compared, only their sizes.

    Raises:
        ValueError: If a part is missing, unknown, of another size or has another checksum.
    """
    if {*parts} != {*sums}:
        raise ValueError(f"it has the parts {[*parts]}, not {[*sums]}")
    for name, view in parts.items():
        size, digest = sums[name]["bytes"], sums[name]["sha256"]
        if len(view) != size or (name not in unchecked and sha256(view).hexdigest() != digest):
            raise ValueError(f"{name!r} has another checksum: the file is damaged")


def fill_structure(structure: Any, values: Sequence[Any], depth: int = 0) -> Any:
    """Return a structure with each number replaced by its value: the inverse of ``structure_of``.

    Raises:
        ValueError: If the structure has anything but lists, dicts and numbers of values.

    Example:
        >>> fill_structure({"mean": 0, "all": [1, 2]}, "abc")
        {'mean': 'a', 'all': ['b', 'c']}
    """
    if depth > DEEPEST:
        raise ValueError("the outputs are too deep in each other")
    if isinstance(structure, list):
        return [fill_structure(part, values, depth + 1) for part in structure]
    if isinstance(structure, dict):
        return {key: fill_structure(part, values, depth + 1) for key, part in structure.items()}
    if structure is None and not depth:
        return None
    if type(structure) is int and 0 <= structure < len(values):
        return values[structure]
    raise ValueError(f"{structure!r} is no output")


def manifest_of(data: bytes) -> dict[str, Any]:
    """Return a parsed manifest whose fields have the right types.

    Raises:
        ValueError: If the data are no manifest, or of a later version.
    """
    try:
        manifest = json.loads(data)
    except RecursionError as error:
        raise ValueError("its parts are too deep in each other") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError("it is no file of a compiled function")
    version = manifest.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"version {version!r} of the format is not one up to {VERSION}")
    check_fields("the manifest", manifest, KINDS)
    for field, kinds in ENTRIES.items():
        value = manifest[field]
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for name, entry in entries:
            check_fields(f"{name!r} of {field!r} in the manifest", entry, kinds)
    if not all(isinstance(name, str) for name in manifest["updates"]):
        raise ValueError("'updates' in the manifest are no names")
    return manifest


def check_fields(subject: str, entry: Any, kinds: Mapping[str, Any]) -> None:
    """Check that an entry is a dict whose fields exist and have the right types.

    Raises:
        ValueError: If a field is missing or of another type; the message names the field.
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
    """Return the arrays of a safetensors file as views of its bytes.

    Args:
        data: The bytes of the file, read or mapped into memory.

    Raises:
        ValueError: If the header is damaged, or an array lies outside of the file.
    """
    header, view = header_in(data)
    return {name: _array(view, name, entry) for name, entry in header.items() if name != META}


META = "__metadata__"
"""The only name in a header that is not an array's."""


def header_in(data: Any) -> tuple[dict[str, Any], memoryview]:
    """Return the header of a safetensors file, and the bytes after the header.

    Raises:
        ValueError: If the header is damaged.
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
    """Return an array as its dtype: complex numbers from pairs of real ones, others unchanged."""
    return x.view(dtype)[..., 0] if dtype in COMPLEX else x


def _array(view: memoryview, name: str, entry: Any) -> Array:
    check_fields(f"the array {name!r}", entry, {"dtype": str, "shape": list, "data_offsets": list})
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    numbers = [*shape, *offsets]
    if dtype not in DTYPES or len(offsets) != 2 or not all(type(n) is int for n in numbers):
        raise ValueError(f"the array {name!r} has no dtype, shape or place")
    begin, end = offsets
    numpy_type = _dtype(DTYPES[dtype])
    if not 0 <= begin <= end <= len(view) or end - begin != prod(shape) * numpy_type.itemsize:
        raise ValueError(f"the array {name!r} lies outside of the file, or is of another length")
    return np.frombuffer(view[begin:end], numpy_type).reshape(shape)


def _dtype(name: str) -> np.dtype[Any]:
    if not name.startswith(("bfloat", "float8")):
        return np.dtype(name)
    import ml_dtypes  # noqa: PLC0415 (it comes with JAX)

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def open_file(
    path: str | os.PathLike[str], *, verify: bool = True
) -> tuple[dict[str, Any], dict[str, Array], dict[str, memoryview]]:
    """Return the manifest, the arrays and the other parts of a file, after a check of all.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is not a function's, or is damaged.
    """
    file_parts = parts_of(path)
    manifest = manifest_of(bytes(file_parts.pop(MANIFEST)))
    check_sums(file_parts, manifest["parts"], () if verify else (ARRAYS,))
    entries = manifest["arrays"]
    stored = arrays_in(file_parts.pop(ARRAYS, b""))
    if {*stored} != {*entries}:
        raise ValueError(f"it has the arrays {[*stored]}, not {[*entries]}")
    arrays = {name: as_complex(x, entries[name]["dtype"]) for name, x in stored.items()}
    for name, x in arrays.items():
        if {"dtype": x.dtype.name, "shape": [*x.shape]} != entries[name]:
            raise ValueError(f"the array {name!r} is {x.dtype}{[*x.shape]}, not {entries[name]}")
    return manifest, arrays, file_parts


def load(path: str | os.PathLike[str], backend: str | None = None, *, verify: bool = True) -> Model:
    """Load a function that was exported with a program.

    Args:
        path: The file.
        backend: ``"JAX"`` or ``"MLX"``; by default the first for which the file has a program.
        verify: Compare the checksum of the arrays too, which reads them once.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file is not a function's, is damaged, or has no program for the backend.
    """
    manifest, arrays, file_parts = open_file(path, verify=verify)
    available = [name for name, field in FIELDS.items() if field in manifest]
    chosen = backend or next(iter(available), "JAX")
    if chosen not in available:
        has = f"it has one for {' and '.join(available)}" if available else "it has none"
        raise ValueError(
            f"{path} has no program for {chosen}, {has}: f.export(..., programs=({chosen!r},))"
        )
    return MODELS[chosen](manifest, arrays, file_parts)


FIELDS = {"JAX": "program", "MLX": "mlx"}
"""The manifest's field for each program."""


class Model:
    """A function from a file, with the arguments and results of the exported one.

    Attributes:
        manifest: The parsed manifest.
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
        """Return results and new shared values, given arguments and arrays in manifest order."""
        raise NotImplementedError

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the results for values of the inputs, and store the new state.

        Raises:
            TypeError: If an argument is missing or unknown.
        """
        arguments = self._arguments(args, kwargs)
        names = self.manifest[FIELDS[self.backend]]["arrays"]
        results = self.program(*arguments, *[self.arrays[x] for x in names])
        updates = self.manifest["updates"]
        n = len(results) - len(updates)
        self.arrays.update(zip(updates, results[n:], strict=True))
        return fill_structure(self.manifest["outputs"], results[:n])

    def _arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Array]:
        inputs = self.manifest["inputs"]
        names = [entry["name"] for entry in inputs]
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        unknown = [name for name in kwargs if name not in names[len(args) :]]
        if unknown or len(args) > len(names):
            raise TypeError(f"the function takes {names}, not {unknown or args}")
        arrays = []
        for entry in inputs:
            value = values.get(entry["name"], self.arrays.get(entry.get("default", "")))
            if value is None:
                raise TypeError(f"the argument {entry['name']!r} is missing")
            arrays.append(np.asarray(value, _dtype(entry["dtype"])))
        return arrays


class JAXModel(Model):
    """A function run by JAX."""

    backend = "JAX"

    @cached_property
    def exported(self) -> Any:
        """The program, deserialized by JAX."""
        from jax import export  # noqa: PLC0415 (not needed to read the manifest and arrays)

        if PROGRAM not in self.parts:
            raise ValueError(f"the file has no part {PROGRAM!r}")
        return export.deserialize(bytearray(self.parts[PROGRAM]))

    def program(self, *arrays: Any) -> Any:
        """Return results and new shared values; JAX may transform this function.

        The captured arrays follow the arguments, in the order of ``manifest["program"]["arrays"]``.
        With values of 64 bits, JAX's transformations need ``jax.enable_x64(True)`` around them.
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
            requirements = " and ".join(conditions)
            raise ValueError(f"the program needs {requirements}: {error}") from error


class MLXModel(Model):
    """A function run by MLX.

    The program is a plan: calls of functions that MLX saved, loops over such calls, and branches.
    A step of a plan is ``[function, arguments, results, lengths]``, with numbers of values and
    names of lengths, or a dict: a loop has ``"chunks"``, a function for each number of steps, or
    the ``"body"`` of one step; a ``"switch"`` chooses among ``"branches"``.
    """

    backend = "MLX"

    def program(self, *arrays: Any) -> Any:
        """Return results and new shared values for arguments and arrays.

        The captured arrays follow the arguments, in the order of ``manifest["mlx"]["arrays"]``. MLX
        may transform and differentiate this function unless it has loops of many steps.

        Raises:
            ValueError: If the program is for other shapes, or the file is damaged.
        """
        try:
            inputs = [_to_mlx(x) for x in arrays]
            plan, lengths = self._plan([x.shape for x in inputs])
            return _Call(self._functions, lengths).results(plan, dict(enumerate(inputs)))
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(f"its plan for MLX is damaged: {error!r}") from error

    def _plan(self, shapes: Sequence[Sequence[int]]) -> tuple[Any, dict[str, int]]:
        """Return the plan for arguments of these shapes, and the lengths by name."""
        manifest = self.manifest["mlx"]
        lengths: dict[str, int] = {}
        names = [entry["name"] for entry in self.manifest["inputs"]] + manifest["arrays"]
        for name, shape, wanted in zip(names, shapes, manifest["shapes"], strict=True):
            pairs = zip(wanted, shape, strict=False)
            expected = [lengths.setdefault(m, n) if isinstance(m, str) else m for m, n in pairs]
            if len(shape) != len(wanted) or expected != [*shape]:
                raise ValueError(f"the shape of {name!r} is {[*shape]}, not {expected or wanted}")
        for plan in manifest["programs"]:
            if all(lengths[name] == n for name, n in plan["lengths"].items()):
                if plan["steps"] is None or 0 in lengths.values():
                    break
                return plan, lengths
        available = " or ".join(
            str(plan["lengths"] or "any but 0") for plan in manifest["programs"]
        )
        raise ValueError(f"the program is for the lengths {available}, not for {lengths}")

    @cached_property
    def _functions(self) -> _Functions:
        return _Functions(self.parts, self.manifest["mlx"]["mlx"])


class _Functions(dict[int, Any]):
    """Functions by number, imported by MLX at their first call."""

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
    """A call of a plan, with lengths by name."""

    def __init__(self, functions: Mapping[int, Any], lengths: Mapping[str, int]) -> None:
        self.functions = functions
        self.lengths = lengths

    def results(self, plan: Any, values: dict[int, Any]) -> list[Any]:
        """Run a plan and return its results; values of steps are added to ``values``."""
        for step in plan["steps"]:
            if isinstance(step, list):
                number, arguments, results, names = step
                outputs = self.call(number, names, [values[i] for i in arguments])
            elif "switch" in step:
                index, branches = int(values[step["switch"]].item()), step["branches"]
                chosen = branches[min(max(index, 0), len(branches) - 1)]
                outputs, results = self.results(chosen, values), step["results"]
            else:
                outputs, results = _PlanLoop(self, step, values).results(), step["results"]
            values.update(zip(results, outputs, strict=True))
        return [values[i] for i in plan["results"]]

    def call(self, number: int, names: Sequence[str], arrays: Sequence[Any]) -> Sequence[Any]:
        """Call a function, with lengths as numbers and as arrays of that length."""
        import mlx.core as mx  # noqa: PLC0415

        ns = [self.lengths[name] for name in names]
        counts = [mx.array(n, mx.int64) for n in ns]
        results: Sequence[Any] = self.functions[number](
            *arrays, *counts, *[mx.zeros((n,), mx.bool_) for n in ns]
        )
        return results

    def number(self, entry: Any) -> Any:
        """Return a number, or ``k n + c`` for ``[k, name, c]`` and a length n."""
        return (
            entry if not isinstance(entry, list) else entry[0] * self.lengths[entry[1]] + entry[2]
        )


class _PlanLoop:
    """A loop of a plan in a call.

    Attributes:
        steps: The length of the stacked rows; None if the loop has none and stops by itself.
        max_steps: The largest number of steps.
    """

    def __init__(self, caller: _Call, entry: Any, values: dict[int, Any]) -> None:
        self.caller = caller
        self.entry = entry
        self.values = values
        self.steps = limit = caller.number(entry["steps"])
        if entry["count"] is not None:
            count = int(values[entry["count"]].item())
            limit = count if limit is None else min(count, limit)
        self.max_steps = limit

    def results(self) -> list[Any]:
        """Return the carries, the stacked rows and, if a step can stop, the number of steps."""
        import mlx.core as mx  # noqa: PLC0415

        entry = self.entry
        carry = [self.values[i] for i in entry["carries"]]
        xs = [self.values[i] for i in entry["sequences"]]
        chunks, done, count = [], 0, 0
        for size in self.sizes():
            first = self.max_steps - done - size if entry["reverse"] else done
            outputs = self.run_chunk(size, carry, [x[first : first + size] for x in xs])
            carry = outputs[: len(carry)]
            chunks.append(outputs[len(carry) :])
            done += size
            if entry["stops"]:
                count += int(outputs[-2].item())
                if not outputs[-1].item():
                    break
            elif done < self.max_steps:
                mx.async_eval(outputs)  # type: ignore[no-untyped-call]
        return [*carry, *self.rows(chunks, done), *([mx.array(count)] if entry["stops"] else [])]

    def sizes(self) -> Iterator[int]:
        """Yield the sizes of chunks, large ones first."""
        remaining = self.max_steps
        for size in sorted(map(int, self.entry.get("chunks", [1])), reverse=True):
            while remaining is None or remaining >= size > 0:
                yield size
                remaining = None if remaining is None else remaining - size

    def run_chunk(self, size: int, carry: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        """Return the carries and rows of a chunk of steps.

        If a step can stop, also return how many steps counted, and whether more follow.
        """
        import mlx.core as mx  # noqa: PLC0415

        if "chunks" in self.entry:
            number, names = self.entry["chunks"][str(size)]
            constants = [self.values[i] for i in self.entry["constants"]]
            return [*self.caller.call(number, names, [*carry, *elements, *constants])]
        body = self.entry["body"]
        arguments = [*carry, *[x[0] for x in elements]]
        values = {**self.values, **dict(zip(body["inputs"], arguments, strict=True))}
        outputs = self.caller.results(body, values)
        count = len(carry)
        rows = [mx.expand_dims(y, 0) for y in outputs[count : count + len(self.entry["rows"])]]
        status = [mx.array(1), mx.logical_not(outputs[-1])] if self.entry["stops"] else []
        return [*outputs[:count], *rows, *status]

    def rows(self, chunks: Sequence[Sequence[Any]], done: int) -> list[Any]:
        """Return the stacked rows, with zeros for the steps that were not done."""
        import mlx.core as mx  # noqa: PLC0415

        before = self.max_steps - done if self.entry["reverse"] else 0
        stacked = []
        for i, row in enumerate(self.entry["rows"]):
            rest = [self.caller.number(n) for n in row["shape"]]
            dtype = getattr(mx, MLX_NAMES.get(row["dtype"], row["dtype"]))
            rows = [part[i] for part in (chunks[::-1] if self.entry["reverse"] else chunks)]
            after = self.steps - done - before
            zeros = [mx.zeros([n, *rest], dtype) for n in (before, after)]
            stacked.append(mx.concatenate([zeros[0], *rows, zeros[1]]))
        return stacked


MLX_NAMES = {"bool": "bool_"}
"""MLX's names of dtypes that differ from NumPy's."""


def _to_mlx(value: Any) -> Any:
    import mlx.core as mx  # noqa: PLC0415

    if isinstance(value, mx.array):
        return value
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    dtype = getattr(mx, MLX_NAMES.get(value.dtype.name, value.dtype.name))
    if value.dtype.name == "bfloat16":
        return mx.array(value.view(np.uint16)).view(dtype)
    return mx.array(value, dtype)


MODELS: dict[str, Callable[..., Model]] = {"JAX": JAXModel, "MLX": MLXModel}
