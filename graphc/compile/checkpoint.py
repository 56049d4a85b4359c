"""Checkpoints: the values of shared variables in a directory, written by one process or by many.

A file ``checkpoint.json`` lists files in NumPy's format, one of each process, with the parts of
arrays that its devices have. One rename replaces it when all of them are written: a reader sees
the previous checkpoint or the new one, and never a mixture. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from graphc.compile.placement import JAX, is_on_mesh
from graphc.compile.shared import Shared
from graphc.compile.streams import RandomStream
from graphc.errors import ArgumentError, CheckpointError
from graphc.implicit.node import ImplicitTensor
from graphc.ir import numpy_dtype
from graphc.ir.containers import unwrap
from graphc.link import load
from graphc.link.jax import distributed

INDEX = "checkpoint.json"

CONTENTS = "contents"
"""The array of a file that describes its other arrays, as bytes of JSON."""

FORMAT = 1

DAMAGE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)
"""The exceptions of reading a file that is missing or damaged."""

Variables = Mapping[str, Any] | Iterable[Any]
"""Shared variables by name, or an iterable of shared variables that have names."""


def has_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory has a complete checkpoint.

    Args:
        path: The directory; it need not exist.

    Example:
        >>> import graphc
        >>> graphc.distributed.has_checkpoint("no such directory")
        False
    """
    return Path(path, INDEX).is_file()


def save_checkpoint(path: str | os.PathLike[str], variables: Variables) -> None:
    """Write the values of shared variables into a directory, replacing its checkpoint.

    Each of several processes calls it, with a directory that all of them see, and writes the shards
    of its devices. If a process dies or writing fails, the previous checkpoint stays.

    Args:
        path: A directory, created if missing. Other files in it are not touched.
        variables: Shared variables by name, also implicit ones and ones with named dimensions, and
            ``RandomStream``, whose keys are saved; or a list of variables that have names.

    Raises:
        ArgumentError: Something else among the variables, or one without a name.
        CheckpointError: If a process cannot write its part.

    Example:
        >>> import tempfile, graphc
        >>> w, step = graphc.shared([1.0, 2.0], name="w"), graphc.shared(7, name="step")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graphc.distributed.save_checkpoint(folder, [w, step])
        ...     w.set_value([0.0, 0.0])
        ...     graphc.distributed.load_checkpoint(folder, [w, step])
        >>> w.get_value().tolist()
        [1.0, 2.0]
    """
    named, folder = _shared_by_name(variables), Path(path)
    token = distributed.token()
    files = [f"{token}-{i}.npz" for i in range(distributed.processes())]
    with _together(f"The checkpoint {folder} cannot be written", OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / files[distributed.process()], lambda file: _write_own_parts(file, named))
    with _together(f"The checkpoint {folder} cannot be written", OSError):
        if distributed.process() == 0:
            _publish(folder, files)


def load_checkpoint(
    path: str | os.PathLike[str],
    variables: Variables,
    mode: Any = None,
    *,
    partial: bool = False,
) -> None:
    """Set shared variables to the values in a checkpoint; set none if one does not fit.

    The number of processes and the mesh may be others than those that wrote it.

    Args:
        path: The directory.
        variables: As for ``save_checkpoint``, by the same names.
        mode: A mode with a mesh. Each process then reads only those parts of variables with a
            sharding that its devices need; without a mesh it reads all of each array.
        partial: Whether the checkpoint may have further variables.

    Raises:
        CheckpointError: If there is no complete checkpoint, or its variables, shapes or dtypes
            differ.
        ArgumentError: Something else among the variables, or one without a name.

    Example:
        >>> import tempfile, graphc
        >>> stream = graphc.random.RandomStream(3)
        >>> draw = graphc.function([], stream.normal(), mode="NUMPY")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graphc.distributed.save_checkpoint(folder, {"noise": stream})
        ...     first = draw()
        ...     graphc.distributed.load_checkpoint(folder, {"noise": stream})
        >>> bool(draw() == first)
        True
    """
    named = _shared_by_name(variables)
    with _together(f"The checkpoint {path} cannot be read", DAMAGE), _open(Path(path)) as saved:
        saved.check_names(named, partial)
        values = {name: saved.value(name, x, mode) for name, x in named.items()}
    for name, x in named.items():
        x.set_value(values[name], borrow=True)


# Writing.


def _shared_by_name(variables: Variables) -> dict[str, Shared]:
    """Return the shared variables of a user's argument, by their names in files."""
    pairs = (
        variables.items()
        if isinstance(variables, Mapping)
        else ((_name_of(x), x) for x in variables)
    )
    shared: dict[str, Shared] = {}
    for name, x in pairs:
        for path, variable in variables_in(name, unwrap(x)):
            if path in shared:
                raise ArgumentError(
                    f"A checkpoint of two variables of the name {path!r}.",
                    "Give a dict with a name for each.",
                )
            shared[path] = variable
    return shared


def _name_of(x: Any) -> str:
    name = None if isinstance(x, RandomStream) else getattr(x, "name", None)
    op = getattr(unwrap(x), "op", None)
    if not name or (isinstance(unwrap(x), Shared) and not getattr(op, "given_name", None)):
        raise ArgumentError(
            f"A checkpoint of {x!r}, which has no name.",
            'Give a dict: {"weights": w, "noise": stream}.',
        )
    return str(name)


def variables_in(name: str, x: Any) -> Iterator[tuple[str, Shared]]:
    """Yield the shared variables of an object that the user named, and their names."""
    if isinstance(x, Shared):
        yield name, x
    elif isinstance(x, RandomStream):
        for i, (generator, _) in enumerate(x.state_updates):
            yield f"{name}[{i}]", generator
    elif isinstance(x, ImplicitTensor) and all(isinstance(y, Shared) for y in x.inputs):
        yield from zip(x.op.treedef.paths(name), x.inputs, strict=True)
    else:
        raise ArgumentError(
            f"A checkpoint of {name!r}: {x!r} is no shared variable.",
            "Give variables of graphc.shared, or a RandomStream.",
        )


def _write_own_parts(file: IO[bytes], named: Mapping[str, Shared]) -> None:
    contents: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for i, (name, variable) in enumerate(named.items()):
        store = variable.op.store
        with store.lock:
            value = store.value
            if is_on_mesh(value) and not value.is_fully_addressable:
                shards = [*distributed.own_parts(value)]
            elif distributed.process() == 0:  # all have the same
                value_here = variable.get_value()
                shards = [((0,) * value_here.ndim, value_here)]
            else:
                shards = []
            shape = [*np.shape(value)]
        arrays |= {f"{i}.{k}": _storable(part) for k, (_, part) in enumerate(shards)}
        described = [
            {"array": f"{i}.{k}", "start": start, "shape": part.shape}
            for k, (start, part) in enumerate(shards)
        ]
        contents[name] = {"dtype": variable.dtype, "shape": shape, "parts": described}
    arrays[CONTENTS] = np.frombuffer(json.dumps(contents).encode(), np.uint8)
    np.savez(file, allow_pickle=False, **arrays)


def _storable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that NumPy's format can store: bfloat16 as its bits."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x


def _publish(folder: Path, files: list[str]) -> None:
    """Make new files the checkpoint of a directory, and remove the files of the last one."""
    last: list[str] = []
    with suppress(*DAMAGE):
        last = _files_of(folder)
    text = json.dumps({"format": FORMAT, "files": files}).encode()
    temporary = folder / f"{INDEX}.tmp"
    _write(temporary, lambda file: file.write(text))
    temporary.replace(folder / INDEX)
    for name in {*last} - {*files}:
        with suppress(OSError):
            (folder / name).unlink()


def _write(path: Path, put: Callable[[IO[bytes]], object]) -> None:
    """Write a file to the disk itself, or not at all."""
    try:
        with path.open("wb") as file:
            put(file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _together(problem: str, expected: Any) -> Iterator[None]:
    """Fail in all processes if the block fails in one."""
    cause: BaseException | None = None
    try:
        yield
    except CheckpointError as error:
        cause = error
    except expected as error:
        cause = error
    failed = [
        i for i, is_done in enumerate(distributed.gather_success(cause is None)) if not is_done
    ]
    if isinstance(cause, CheckpointError):
        raise cause
    if cause is not None:
        raise CheckpointError(f"{problem}: {type(cause).__name__}: {cause}.") from cause
    if failed:
        raise CheckpointError(f"{problem} by process {failed[0]}.", "Its own error says why.")


# Reading.


def _files_of(folder: Path) -> list[str]:
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    if index.get("format") != FORMAT:
        raise CheckpointError(
            f"The checkpoint {folder} has the format {index.get('format')!r}.",
            f"This version of graphc reads {FORMAT}.",
        )
    # Paths are ignored, so that nothing outside the directory is read or removed.
    return [Path(name).name for name in index["files"]]


@contextmanager
def _open(folder: Path) -> Iterator[_Saved]:
    if not has_checkpoint(folder):
        raise CheckpointError(
            f"There is no checkpoint in {folder}.",
            "Ask graphc.distributed.has_checkpoint(path) first.",
        )
    with ExitStack() as stack:
        # np.load leaves a damaged file open if it opened the file itself.
        opened = [stack.enter_context((folder / name).open("rb")) for name in _files_of(folder)]
        yield _Saved(folder, [np.load(file, allow_pickle=False) for file in opened])


class _Part(NamedTuple):
    """A stored shard of an array: its file, its name there, and its region of the array."""

    file: Any
    array: str
    start: list[int]
    shape: list[int]


class _Saved:
    """The arrays of a checkpoint, each read when it is requested."""

    def __init__(self, folder: Path, files: list[Any]) -> None:
        self._folder = folder
        self._arrays: dict[str, Any] = {}
        self._parts: dict[str, list[_Part]] = {}
        for file in files:
            for name, array in json.loads(file[CONTENTS].tobytes()).items():
                self._arrays[name] = array
                shards = [_Part(file, x["array"], x["start"], x["shape"]) for x in array["parts"]]
                self._parts.setdefault(name, []).extend(shards)

    def check_names(self, wanted: Iterable[str], partial: bool) -> None:
        """Raise if a checkpoint has other variables."""
        missing = sorted({*wanted} - self._arrays.keys())
        if missing:
            raise CheckpointError(
                f"The checkpoint {self._folder} has no {', '.join(missing)}. It has "
                f"{', '.join(sorted(self._arrays))}.",
                "Give the variables that were saved, by the same names.",
            )
        others = sorted(self._arrays.keys() - {*wanted})
        if others and not partial:
            raise CheckpointError(
                f"The checkpoint {self._folder} also has {', '.join(others)}.",
                "Give variables for these too, or partial=True.",
            )

    def value(self, name: str, variable: Shared, mode: Any) -> Any:
        """Return the value of a variable, as the variable stores it."""
        saved = self._arrays[name]
        shape, type = tuple(saved["shape"]), variable.type
        fits = len(shape) == type.ndim and all(
            n in {None, m} for n, m in zip(type.shape, shape, strict=True)
        )
        if saved["dtype"] != type.dtype or not fits:
            raise CheckpointError(
                f"The checkpoint {self._folder} has {name}: {saved['dtype']}{[*shape]}, which does "
                f"not fit the variable, {type!r}.",
                "Make the variable as it was when it was saved.",
            )
        home = _home(variable, mode)
        if home is None:
            return self.read(name, tuple(slice(0, n) for n in shape))
        return distributed.from_parts(shape, home.sharding, lambda region: self.read(name, region))

    def read(self, name: str, region: distributed.Region) -> np.ndarray[Any, Any]:
        """Return a region of an array, assembled from the stored shards."""
        dtype = numpy_dtype(self._arrays[name]["dtype"])
        result = np.empty([s.stop - s.start for s in region], dtype)
        count = 0
        for part in self._parts[name]:
            common = [
                slice(max(s.start, start), min(s.stop, start + n))
                for s, start, n in zip(region, part.start, part.shape, strict=True)
            ]
            if all(s.start < s.stop for s in common):
                there = _relative_to(common, [s.start for s in region])
                result[there] = part.file[part.array].view(dtype)[_relative_to(common, part.start)]
                count += prod(s.stop - s.start for s in common)
        if count != result.size:
            raise CheckpointError(
                f"The checkpoint {self._folder} has only a part of {name}.",
                "Copy all of its directory.",
            )
        return result


def _relative_to(region: Iterable[slice], start: Sequence[int]) -> distributed.Region:
    return tuple(slice(s.start - n, s.stop - n) for s, n in zip(region, start, strict=True))


def _home(variable: Shared, mode: Any) -> Any:
    """Return the devices of a sharded variable's shards; None if the variable is not sharded."""
    op = variable.op
    options = {"mesh": op.mesh} if op.mesh is not None else getattr(mode, "options", {})
    return None if op.sharding is None else load(JAX).home(op.sharding, options)
