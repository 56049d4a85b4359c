"""Parts of a block mask: some batches, some heads, consecutive blocks of queries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.combine import name_of
from graphc.attention.tables import is_known
from graphc.errors import ArgumentError, BoundsError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import dtype_of, lengths_of


class Selection(NamedTuple):
    """The part of an axis that is taken.

    Attributes:
        index: The index of the tables: a slice, or integers (n,).
        places: The place in the whole mask of each place in the part: a 0-d array for one place,
            (n,) for several; None where the part is the whole axis.
    """

    index: Any
    places: Any


def axis_indices(index: Any) -> tuple[Any, Any, Any]:
    """An index of a mask, split into those of batches, heads and query blocks.

    Example:
        >>> axis_indices((..., 2))
        (slice(None, None, None), slice(None, None, None), 2)
    """
    given = list(index) if isinstance(index, tuple) else [index]
    places = [i for i, part in enumerate(given) if part is Ellipsis]
    if len(given) - len(places) > 3 or len(places) > 1:
        raise ArgumentError(
            f"mask[{_shown(index)}]: a block mask has three axes to index.",
            "Give mask[batch, head, query_blocks].",
        )
    at = places[0] if places else len(given)
    rest = given[at + 1 :]
    batch, head, rows = given[:at] + [slice(None)] * (3 - at - len(rest)) + rest
    return batch, head, rows


def selection(index: Any, length: int, axis: str) -> Selection:
    """The batches or heads that an index takes.

    Args:
        index: An integer, a slice, or integers (n,), symbolic or traced ones too.
        length: How many there are.
        axis: The name of the axis in messages.
    """
    if isinstance(index, slice):
        places = np.arange(*_range(index, length, axis), dtype=np.int32)
        if len(places) == length and places[0] == 0:
            return Selection(slice(None), None)
        return Selection(index, places if len(places) > 1 else places.reshape(()))
    array = _integers(index, axis)
    known = _known(array)
    if known is None:
        xp = numpy_like(array)
        array = xp.cast(xp.where(array < 0, array + length, array), "int32")
        return Selection(xp.reshape(array, (-1,)), array)
    if known.ndim == 0:
        place = _place(int(known), length, axis)
        return Selection(
            slice(place, place + 1), None if length == 1 else np.array(place, np.int32)
        )
    places = np.array([_place(int(i), length, axis) for i in known], np.int32)
    return Selection(places, places)


def query_selection(index: Any, block: int, length: int) -> tuple[Selection, int]:
    """The consecutive blocks of queries that an index takes, and the number of their queries.

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
                f"mask[:, :, {_shown(index)}]: query blocks are indexed by an integer or a slice.",
                "The queries of a part are numbered from its first one: take several parts.",
            )
        place = _place(int(known), rows, "query block")
        index = slice(place, place + 1)
    elif index == slice(None):
        return Selection(index, None), length
    start, stop, step = _range(index, rows, "query block")
    if step != 1:
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: the query blocks are not consecutive.",
            "Take a slice of step 1, or several parts.",
        )
    offset = np.array(start * block, np.int32)
    return Selection(slice(start, stop), offset), min(stop * block, length) - start * block


def _traced_row(index: Any, rows: int, block: int, length: int) -> tuple[Selection, int]:
    """One block of queries, whose number is known only when the program runs."""
    if lengths_of(index):
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: query blocks are indexed by an integer or a slice.",
            "Give a scalar.",
        )
    if length % block:
        raise ArgumentError(
            f"mask[:, :, {_shown(index)}]: the last of {rows} blocks has {length % block} queries, "
            f"the others {block}, and the index is known only at run time.",
            "Give a Python integer, or make the length a multiple of the block.",
        )
    xp = numpy_like(index)
    place = xp.cast(xp.where(index < 0, index + rows, index), "int32")
    return Selection(xp.reshape(place, (1,)), place * np.int32(block)), block


@dataclass(frozen=True, eq=False, repr=False)
class SlicedMask:
    """The mask function of a part of a mask.

    Attributes:
        mask: The mask function of the whole.
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
            f"mask[{_shown(index)}] takes no {axis} of {length}.", "Take at least one."
        )
    return start, stop, step


def _integers(index: Any, axis: str) -> Any:
    """An integer or a vector of integers, as an array."""
    array = index if hasattr(index, "dtype") and hasattr(index, "ndim") else np.asarray(index)
    if dtype_of(array).kind not in "iu" or array.ndim > 1:
        raise ArgumentError(
            f"mask[{_shown(index)}]: a {axis} is indexed by integers.",
            "Give an integer, a slice or a vector of integers.",
        )
    return array


def _known(array: Any) -> np.ndarray[Any, Any] | None:
    """An array's values; None where they are known only when the program runs."""
    return np.asarray(array) if is_known(array) else None


def _place(index: int, length: int, axis: str) -> int:
    place = index + length if index < 0 else index
    if not 0 <= place < length:
        shared = " It is the same for all of them." if length == 1 and axis != "query block" else ""
        raise BoundsError(
            f"mask[...]: no {axis} {index}; the mask has {length}.{shared}",
            f"Give one from {-length} to {length - 1}.",
        )
    return operator.index(place)


def _shown(index: Any) -> str:
    if isinstance(index, slice):
        parts = ["" if x is None else str(x) for x in (index.start, index.stop, index.step)]
        return ":".join(parts if index.step is not None else parts[:2])
    if isinstance(index, tuple):
        return ", ".join(map(_shown, index))
    return "..." if index is Ellipsis else repr(index)
