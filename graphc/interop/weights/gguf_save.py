"""GGUF files written: each array in the kind that has exactly its numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphc.compile.transfer import written
from graphc.errors import ArgumentError, ImplicitArrayError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.quantized import DoubleQuantized, Microscaled
from graphc.interop.weights import gguf_file
from graphc.interop.weights.gguf_blocks import BLOCKS, Array
from graphc.interop.weights.gguf_kinds import DTYPES, HELD, NUMBERS, Held, rows_of
from graphc.interop.weights.words import codes_of
from graphc.ir import dtype_name
from graphc.link.backend import as_numpy


def save_gguf(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a GGUF file, without a number of them changed.

    Whole arrays are written in their dtype, quantized ones in the kind whose blocks have exactly
    their codes and scales: what ``load_gguf`` read is so, and others are where scales are numbers
    of float16, as ``w.astype("float16")`` makes them, and codes lie along the last axis.

    Args:
        path: The file, which is replaced.
        arrays: By name, whole or quantized ones of any library.
        metadata: Strings, bools, numbers, arrays with one axis, lists of strings. NumPy's dtypes
            are kept; a Python integer is stored in 32 bits where they suffice, a float as float32.
        kinds: The kinds of some arrays by name, as ``Weights.kinds`` has them, where several hold
            the same numbers: TQ1_0 or TQ2_0, which is the default.

    Raises:
        ImplicitArrayError: No kind, or not the one that is given, has exactly the numbers of an
            array; says which array, and why.
        ArgumentError: Metadata have no type of GGUF's, or ``kinds`` names no kind.
        OSError: The file cannot be written; one that was there stays.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from graphc.interop.weights import load_gguf, save_gguf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_gguf(
        ...         f"{folder}/model.gguf",
        ...         {"norm": np.ones(3, "float16")},
        ...         {"general.name": "a test", "llama.block_count": 2},
        ...     )
        ...     load_gguf(f"{folder}/model.gguf").metadata
        {'general.name': 'a test', 'llama.block_count': np.uint32(2)}
    """
    wanted = dict(kinds or {})
    tensors = {name: _tensor(name, x, wanted.get(name)) for name, x in arrays.items()}
    with written(Path(path)) as file:
        for chunk in gguf_file.chunks(metadata or {}, tensors):
            file.write(chunk)


def _tensor(name: str, x: Any, kind: str | None) -> gguf_file.Piece:
    if kind is not None and kind not in NUMBERS:
        raise ArgumentError(
            f"save_gguf: the kind {kind!r} of {name!r}.", f"Take one of {', '.join(NUMBERS)}."
        )
    if not is_implicit(x):
        return _dense(name, x, kind)
    fitting = [key for key, held in HELD.items() if _fits(held, x, BLOCKS[key][0])]
    if not fitting or (kind is not None and kind not in fitting):
        raise _unfit(
            name,
            x,
            kind or "any kind",
            "Give quantized arrays whose codes lie along the last axis, in whole blocks: of "
            "others the transpose, materialize() or graphc.implicit.merge. Of int4 and int5, "
            "kinds have groups of 32, symmetric or not, of int8 symmetric ones.",
        )
    chosen = kind or fitting[0]
    size, count, *_ = BLOCKS[chosen]
    length = math.prod(x.shape) // size * count
    return gguf_file.Piece(NUMBERS[chosen], x.shape, length, _blocks(name, x, chosen))


def _dense(name: str, x: Any, kind: str | None) -> gguf_file.Piece:
    found = as_numpy(x)
    own = {dtype: key for key, dtype in DTYPES.items()}.get(dtype_name(found.dtype))
    if own is None or kind not in {None, own}:
        raise _unfit(
            name,
            x,
            kind or "any kind",
            f"Whole arrays are of {', '.join(DTYPES.values())}: cast it, or quantize it.",
        )
    return gguf_file.Piece(NUMBERS[own], found.shape, found.nbytes, [found])


def _fits(held: Held, x: ImplicitArray, size: int) -> bool:
    """Whether a class, and its static fields, are those that hold a kind."""
    if type(x) is not held.cls or x.transposed or x.padding or (x.shape[-1] or 0) % size:
        return False
    options = dict(held.options)
    group = options.pop("group_size", 1)
    if isinstance(x, DoubleQuantized):
        fits = x.group_size == group and x.per_factor == options.get("per_factor")
        return fits and (x.bits, x.symmetric) == (options["bits"], "symmetric" in options)
    same = all(getattr(x, key) == value for key, value in options.items())
    return same and x.coding.group_size % group == 0


def _blocks(name: str, x: Any, kind: str) -> Iterator[Array]:
    """The blocks of some rows of an array after the others, whose numbers are checked."""
    size, _, _, write = BLOCKS[kind]
    held, width = HELD[kind], x.shape[-1]
    coding = x.coding
    if isinstance(x, Microscaled) and (as_numpy(x.factor) != 1).any():
        remedy = "Its factor has no place in a block: divide the array by it, and keep it apart."
        raise _unfit(name, x, kind, remedy)
    parts = [_flat(getattr(x, field)) for field in ("packed", *held.fields)]
    # A scale of several blocks is in each of them.
    times = coding.group_size // held.cls.coding_of(**held.options).group_size
    for some in rows_of(len(parts[0]), width):
        words, *numbers = [part[some] for part in parts]
        codes = codes_of(coding, words).reshape(-1, size)
        _check_codes(name, x, kind, codes)
        found = [_checked(name, x, kind, number) for number in numbers]
        if times > 1:
            found = [np.repeat(number, times, -1) for number in found]
        per_row = max(1, width // size)
        each = [number.reshape(len(codes), number.shape[-1] // per_row) for number in found]
        yield write(codes, *each)


def _flat(part: Any) -> Array:
    found = as_numpy(part)
    return found.reshape(-1, found.shape[-1])


LEAST = {"Q3_K": (4, 11), "TQ1_0": (1, 3), "TQ2_0": (1, 3)}
"""The least and the largest code where not all have a place."""


def _check_codes(name: str, x: Any, kind: str, codes: Array) -> None:
    low, high = LEAST.get(kind, (0, 255))
    if codes.size and not (low <= codes.min() and codes.max() <= high):
        raise _unfit(name, x, kind, f"It has codes other than {low} to {high}.")


def _checked(name: str, x: Any, kind: str, number: Array) -> Array:
    """Scales and the like, which a block has room for: integers, or numbers of float16."""
    limits = HELD[kind].limits
    if number.dtype.kind in "iu":
        low, high = limits or (-128, 255)
        if number.size and not (low <= number.min() and number.max() <= high):
            raise _unfit(name, x, kind, f"It has scales or minimums other than {low} to {high}.")
        return number
    wide = number.astype("float32")
    with np.errstate(over="ignore"):
        narrow = wide.astype("float16").astype("float32")
    if not np.array_equal(narrow, wide, equal_nan=True) or number.dtype.itemsize > 4:
        raise _unfit(
            name,
            x,
            kind,
            "It has scales that are no numbers of float16: array.astype('float16') rounds them.",
        )
    return wide


def _unfit(name: str, x: Any, kind: str, remedy: str) -> ImplicitArrayError:
    return ImplicitArrayError(f"save_gguf: {name!r} is {x!r:.200}; {kind} has no place.", remedy)
