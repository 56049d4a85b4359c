"""Saving GGUF files: each array in the kind with exactly its numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ImplicitArrayError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.quantized import DoubleQuantized, Microscaled
from graphc.implicit.quantized.base import PackedVector
from graphc.interop.weights import gguf_file
from graphc.interop.weights.files import replacement
from graphc.interop.weights.gguf_blocks import BLOCKS, Array
from graphc.interop.weights.gguf_kinds import CODECS, DTYPES, NUMBERS, Codec, row_slices
from graphc.interop.weights.layout import codes_of
from graphc.ir import dtype_name
from graphc.link.backend import as_numpy


def save_gguf(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a GGUF file without changing a number.

    Dense arrays are written in their dtype, quantized ones in the kind whose blocks have exactly
    their codes and scales. There is one for the arrays of ``load_gguf``, and for others if scales
    are float16 numbers, as of ``w.astype("float16")``, and codes lie along the last axis.

    Args:
        path: The file, which is replaced.
        arrays: Dense or quantized arrays of any library, by name.
        metadata: Strings, bools, numbers, arrays with one axis, lists of strings. NumPy's dtypes
            are kept; a Python integer is stored in 32 bits where they suffice, a float as float32.
        kinds: The kinds of some arrays by name, as ``Weights.kinds`` has them, where several hold
            the same numbers: TQ1_0 or TQ2_0, which is the default.

    Raises:
        ImplicitArrayError: If no kind, or not the given one, has exactly the numbers of an array;
            the error names the array and the reason.
        ArgumentError: If GGUF has no type for metadata, or ``kinds`` has an unknown kind.
        OSError: If the file cannot be written; an existing file stays.

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
    with replacement(Path(path)) as file:
        for chunk in gguf_file.chunks(metadata or {}, tensors):
            file.write(chunk)


def _tensor(name: str, x: Any, kind: str | None) -> gguf_file.Piece:
    if kind is not None and kind not in NUMBERS:
        raise ArgumentError(
            f"save_gguf: the kind {kind!r} of {name!r}.", f"Take one of {', '.join(NUMBERS)}."
        )
    if not is_implicit(x):
        return _dense(name, x, kind)
    matrix = x.matrix if isinstance(x, PackedVector) else x
    fitting = [key for key, codec in CODECS.items() if _fits(codec, matrix, BLOCKS[key][0])]
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
    return gguf_file.Piece(NUMBERS[chosen], x.shape, length, _iter_blocks(name, matrix, chosen))


def _dense(name: str, x: Any, kind: str | None) -> gguf_file.Piece:
    array = as_numpy(x)
    number = {dtype: key for key, dtype in DTYPES.items()}.get(dtype_name(array.dtype))
    if number is None or kind not in {None, number}:
        raise _unfit(
            name,
            x,
            kind or "any kind",
            f"Whole arrays are of {', '.join(DTYPES.values())}: cast it, or quantize it.",
        )
    return gguf_file.Piece(NUMBERS[number], array.shape, array.nbytes, [array])


def _fits(codec: Codec, x: ImplicitArray, size: int) -> bool:
    if type(x) is not codec.cls or x.transposed or x.padding or (x.shape[-1] or 0) % size:
        return False
    options = dict(codec.options)
    group = options.pop("group_size", 1)
    if isinstance(x, DoubleQuantized):
        fits = x.group_size == group and x.per_factor == options.get("per_factor")
        return fits and (x.bits, x.symmetric) == (options["bits"], "symmetric" in options)
    same = all(getattr(x, key) == value for key, value in options.items())
    return same and x.coding.group_size % group == 0


def _iter_blocks(name: str, x: Any, kind: str) -> Iterator[Array]:
    size, _, _, write = BLOCKS[kind]
    codec, width = CODECS[kind], x.shape[-1]
    coding = x.coding
    if isinstance(x, Microscaled) and (as_numpy(x.factor) != 1).any():
        remedy = "Its factor has no place in a block: divide the array by it, and keep it apart."
        raise _unfit(name, x, kind, remedy)
    fields = [_as_rows(getattr(x, key)) for key in ("packed", *codec.fields)]
    # A scale of several blocks is repeated in each of them.
    times = coding.group_size // codec.cls.coding_of(**codec.options).group_size
    for chunk in row_slices(len(fields[0]), width):
        words, *numbers = [field[chunk] for field in fields]
        codes = codes_of(coding, words).reshape(-1, size)
        _check_codes(name, x, kind, codes)
        checked = [_check_field(name, x, kind, number) for number in numbers]
        if times > 1:
            checked = [np.repeat(number, times, -1) for number in checked]
        per_row = max(1, width // size)
        each = [number.reshape(len(codes), number.shape[-1] // per_row) for number in checked]
        yield write(codes, *each)


def _as_rows(field: Any) -> Array:
    array = as_numpy(field)
    return array.reshape(-1, array.shape[-1])


CODE_LIMITS = {"Q3_K": (4, 11), "TQ1_0": (1, 3), "TQ2_0": (1, 3)}
"""The least and the largest code of kinds that cannot store all codes."""


def _check_codes(name: str, x: Any, kind: str, codes: Array) -> None:
    low, high = CODE_LIMITS.get(kind, (0, 255))
    if codes.size and not (low <= codes.min() and codes.max() <= high):
        raise _unfit(name, x, kind, f"It has codes other than {low} to {high}.")


def _check_field(name: str, x: Any, kind: str, number: Array) -> Array:
    """Check that a block can store scales or minimums: integers, or float16 numbers."""
    limits = CODECS[kind].limits
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
