"""Parts of a block mask: some batches, some heads, consecutive blocks of queries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.combine import name_of
from graphc.errors import ArgumentError, BoundsError
from graphc.implicit.form import lengths_of
from graphc.implicit.level import numpy_like
from graphc.ir import here, where

__all__ = ["Part", "PartOfMask", "all_of", "some_of", "three_of"]


class Part(NamedTuple):
    """What is taken of an axis.

    Attributes:
        index: What the tables are indexed with: a slice, or integers (n,).
        places: What the mask function's index is mapped by, for a mask that has the part alone: a
            0-d array for one place, (n,) for several; None where nothing is left out.
    """

    index: Any
    places: Any


def three_of(index: Any) -> tuple[Any, Any, Any]:
    """An index of a mask as one for the batches, one for the heads, and one for the query blocks.

    Example:
        >>> three_of((..., 2))
        (slice(None, None, None), slice(None, None, None), 2)
    """
    given = list(index) if isinstance(index, tuple) else [index]
    places = [i for i, part in enumerate(given) if part is Ellipsis]
    if len(given) - len(places) > 3 or len(places) > 1:
        raise ArgumentError(
            f"mask[{_shown(index)}]: a block mask has three axes to index.",
            "Give mask[batch, head, query_blocks].",
            where(here()),
        )
    at = places[0] if places else len(given)
    rest = given[at + 1 :]
    batch, head, rows = given[:at] + [slice(None)] * (3 - at - len(rest)) + rest
    return batch, head, rows


def some_of(index: Any, length: int, axis: str) -> Part:
    """Some batches or heads.

    Args:
        index: An integer, a slice, or integers (n,), symbolic or traced ones too.
        length: How many there are.
        axis: What messages call them.
    """
    if isinstance(index, slice):
        places = np.arange(*_range(index, length, axis), dtype=np.int32)
        if len(places) == length and places[0] == 0:
            return Part(slice(None), None)
        return Part(index, places if len(places) > 1 else places.reshape(()))
    array = _integers(index, axis)
    known = _known(array)
    if known is None:
        level = numpy_like(array)
        array = level.cast(level.where(array < 0, array + length, array), "int32")
        return Part(level.reshape(array, (-1,)), array)
    if known.ndim == 0:
        place = _place(int(known), length, axis)
        return Part(slice(place, place + 1), None if length == 1 else np.array(place, np.int32))
    places = np.array([_place(int(i), length, axis) for i in known], np.int32)
    return Part(places, places)


def all_of(index: Any, block: int, length: int) -> tuple[Part, int]:
    """Consecutive blocks of queries, and how many queries they have.

    Args:
        index: An integer, also a symbolic or traced one; or a slice.
        block: How many queries a block has; the last one may have fewer.
        length: How many queries there are.
    """
    rows = -(-length // block)
    if not isinstance(index, slice):
        array = _integers(index, "query block")
        known = _known(array)
        if known is None:
            return _traced_row(array, rows, block, length)
        if known.ndim:
            raise ArgumentError(
                f"mask[:, :, {_shown(index)}]: query blocks are taken one by one or as a slice.",
                "The mask function of the part counts its queries on from the first one's number.",
                where(here()),
            )
        place = _place(int(known), rows, "query block")
        index = slice(place, place + 1)
    elif index == slice(None):
        return Part(index, None), length
    start, stop, step = _range(index, rows, "query block")
    if step != 1:
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: query blocks that are not side by side.",
            "Take a slice of step 1, or several parts.",
            where(here()),
        )
    offset = np.array(start * block, np.int32)
    return Part(slice(start, stop), offset), min(stop * block, length) - start * block


def _traced_row(index: Any, rows: int, block: int, length: int) -> tuple[Part, int]:
    """One block of queries, whose number is known when the program runs."""
    if lengths_of(index):
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: query blocks are taken one by one or as a slice.",
            "Give a scalar.",
            where(here()),
        )
    if length % block:
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: the last of {rows} blocks has {length % block} queries, "
            f"the others {block}, and which one is wanted is known at run time only.",
            "Give a Python integer, or make the length a multiple of the block.",
            where(here()),
        )
    level = numpy_like(index)
    place = level.cast(level.where(index < 0, index + rows, index), "int32")
    return Part(level.reshape(place, (1,)), place * np.int32(block)), block


@dataclass(frozen=True, eq=False, repr=False)
class PartOfMask:
    """A mask function of a part, by that of the whole.

    Attributes:
        mask: The whole's.
        batch: The places of the part's batches: 0-d for one, (n,) for several, None for all.
        head: The places of its heads.
        first: The number of its first query.
    """

    mask: Callable[..., Any]
    batch: Any
    head: Any
    first: Any

    def __repr__(self) -> str:
        return f"part of {name_of(self.mask)}"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        query = q_idx if self.first is None else q_idx + self.first
        return self.mask(_place_at(self.batch, b), _place_at(self.head, h), query, kv_idx)


def _place_at(places: Any, index: Any) -> Any:
    if places is None:
        return index
    if not lengths_of(places):
        return places
    return numpy_like(places, index).take(places, index, axis=0)


def _range(index: slice, length: int, axis: str) -> tuple[int, int, int]:
    start, stop, step = index.indices(length)
    if not range(start, stop, step):
        raise BoundsError(
            f"mask[{_shown(index)}] takes no {axis} of {length}.",
            "Take at least one.",
            where(here()),
        )
    return start, stop, step


def _integers(index: Any, axis: str) -> Any:
    """Integers of any library, of no axis or one; Python's as NumPy's."""
    array = index if hasattr(index, "dtype") and hasattr(index, "ndim") else np.asarray(index)
    dtype = str(array.dtype).rpartition(".")[2]
    if not dtype.startswith(("int", "uint")) or array.ndim > 1:
        raise ArgumentError(
            f"mask[{_shown(index)}]: a {axis} is taken by an integer.",
            "Give an integer, a slice or a vector of integers.",
            where(here()),
        )
    return array


def _known(array: Any) -> np.ndarray[Any, Any] | None:
    """An array's values; None where they are known when the program runs."""
    level = numpy_like(array)
    if level.name == "graphc":
        return None
    try:
        return np.asarray(array)
    except TypeError:  # what JAX traces
        return None


def _place(index: int, length: int, axis: str) -> int:
    place = index + length if index < 0 else index
    if not 0 <= place < length:
        shared = " It is the same for all of them." if length == 1 and axis != "query block" else ""
        raise BoundsError(
            f"mask[...]: no {axis} {index}; the mask has {length}.{shared}",
            f"Give one from {-length} to {length - 1}.",
            where(here()),
        )
    return operator.index(place)


def _shown(index: Any) -> str:
    if isinstance(index, slice):
        parts = ["" if x is None else str(x) for x in (index.start, index.stop, index.step)]
        return ":".join(parts if index.step is not None else parts[:2])
    if isinstance(index, tuple):
        return ", ".join(map(_shown, index))
    return "..." if index is Ellipsis else repr(index)
