"""Slices of a block mask: some batches, some heads, consecutive blocks of queries."""

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
    """A selection along an axis of a mask.

    Attributes:
        index: The index of the tables: a slice, or integers (n,).
        offsets: The indices in the original mask: a 0-d array for one batch or head or for the
            first query, (n,) for several batches or heads; None if the full axis is selected.
    """

    index: Any
    offsets: Any


def axis_indices(index: Any) -> tuple[Any, Any, Any]:
    """Split an index of a mask into the indices of batches, heads and query blocks.

    Example:
        >>> axis_indices((..., 2))
        (slice(None, None, None), slice(None, None, None), 2)
    """
    entries = list(index) if isinstance(index, tuple) else [index]
    ellipses = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(entries) - len(ellipses) > 3 or len(ellipses) > 1:
        raise ArgumentError(
            f"mask[{_text(index)}]: a block mask has three axes to index.",
            "Give mask[batch, head, query_blocks].",
        )
    at = ellipses[0] if ellipses else len(entries)
    rest = entries[at + 1 :]
    batch, head, rows = entries[:at] + [slice(None)] * (3 - at - len(rest)) + rest
    return batch, head, rows


def selection(index: Any, length: int, axis: str) -> Selection:
    """Return the batches or heads that an index selects.

    Args:
        index: An integer, a slice, or integers (n,), symbolic or traced ones too.
        length: The number of batches or heads.
        axis: The name of the axis in messages.

    Raises:
        BoundsError: If there is no such batch or head, or if a slice is empty.
        ArgumentError: If the index is not of integers.
    """
    if isinstance(index, slice):
        offsets = np.arange(*_range(index, length, axis), dtype=np.int32)
        if len(offsets) == length and offsets[0] == 0:
            return Selection(slice(None), None)
        return Selection(index, offsets if len(offsets) > 1 else offsets.reshape(()))
    array = _integers(index, axis)
    values = _concrete_values(array)
    if values is None:
        xp = numpy_like(array)
        array = xp.cast(xp.where(array < 0, array + length, array), "int32")
        return Selection(xp.reshape(array, (-1,)), array)
    if values.ndim == 0:
        position = _check_index(int(values), length, axis)
        return Selection(
            slice(position, position + 1), None if length == 1 else np.array(position, np.int32)
        )
    offsets = np.array([_check_index(int(i), length, axis) for i in values], np.int32)
    return Selection(offsets, offsets)


def query_selection(index: Any, block: int, length: int) -> tuple[Selection, int]:
    """Return the blocks of queries that an index selects, and the number of their queries.

    Args:
        index: An integer, also a symbolic or traced one; or a slice.
        block: The number of queries of a block; the last one may have fewer.
        length: The number of queries.

    Raises:
        BoundsError: If there is no such block, or if a slice is empty.
        ArgumentError: If the index is neither an integer nor a slice of step one, or if an index
            that is known only at run time may be a shorter last block.
    """
    rows = -(-length // block)
    if not isinstance(index, slice):
        array = _integers(index, "query block")
        values = _concrete_values(array)
        if values is None:
            return _traced_row(array, rows, block, length)
        if values.ndim:
            raise ArgumentError(
                f"mask[:, :, {_text(index)}]: query blocks are indexed by an integer or a slice.",
                "The queries of a part are numbered from its first one: take several parts.",
            )
        position = _check_index(int(values), rows, "query block")
        index = slice(position, position + 1)
    elif index == slice(None):
        return Selection(index, None), length
    start, stop, step = _range(index, rows, "query block")
    if step != 1:
        raise ArgumentError(
            f"mask[:, :, {_text(index)}]: the query blocks are not consecutive.",
            "Take a slice of step 1, or several parts.",
        )
    offset = np.array(start * block, np.int32)
    return Selection(slice(start, stop), offset), min(stop * block, length) - start * block


def _traced_row(index: Any, rows: int, block: int, length: int) -> tuple[Selection, int]:
    """Return the selection of one block of queries, whose index is known only at run time."""
    if lengths_of(index):
        raise ArgumentError(
            f"mask[:, :, {_text(index)}]: query blocks are indexed by an integer or a slice.",
            "Give a scalar.",
        )
    if length % block:
        raise ArgumentError(
            f"mask[:, :, {_text(index)}]: the last of {rows} blocks has {length % block} queries, "
            f"the others {block}, and the index is known only at run time.",
            "Give a Python integer, or make the length a multiple of the block.",
        )
    xp = numpy_like(index)
    position = xp.cast(xp.where(index < 0, index + rows, index), "int32")
    return Selection(xp.reshape(position, (1,)), position * np.int32(block)), block


@dataclass(frozen=True, eq=False, repr=False)
class SlicedMask:
    """The mask function of a slice of a mask.

    Attributes:
        mask: The mask function of the original mask.
        batch: The original indices of the batches: 0-d for one, (n,) for several, None for all.
        head: The original indices of the heads: 0-d for one, (n,) for several, None for all.
        first: The original index of the first query, or None.
    """

    mask: Callable[..., Any]
    batch: Any
    head: Any
    first: Any

    def __repr__(self) -> str:
        return f"part of {name_of(self.mask)}"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        query = q_idx if self.first is None else q_idx + self.first
        return self.mask(
            _original_index(self.batch, b), _original_index(self.head, h), query, kv_idx
        )


def _original_index(offsets: Any, index: Any) -> Any:
    if offsets is None:
        return index
    if not lengths_of(offsets):
        return offsets
    return numpy_like(offsets, index).take(offsets, index, axis=0)


def _range(index: slice, length: int, axis: str) -> tuple[int, int, int]:
    start, stop, step = index.indices(length)
    if not range(start, stop, step):
        raise BoundsError(
            f"mask[{_text(index)}] takes no {axis} of {length}.", "Take at least one."
        )
    return start, stop, step


def _integers(index: Any, axis: str) -> Any:
    """Return an integer or a vector of integers as an array."""
    array = index if hasattr(index, "dtype") and hasattr(index, "ndim") else np.asarray(index)
    if dtype_of(array).kind not in "iu" or array.ndim > 1:
        raise ArgumentError(
            f"mask[{_text(index)}]: a {axis} is indexed by integers.",
            "Give an integer, a slice or a vector of integers.",
        )
    return array


def _concrete_values(array: Any) -> np.ndarray[Any, Any] | None:
    """Return an array's values; None if they are known only when the program runs."""
    return np.asarray(array) if is_known(array) else None


def _check_index(index: int, length: int, axis: str) -> int:
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        shared = " It is the same for all of them." if length == 1 and axis != "query block" else ""
        raise BoundsError(
            f"mask[...]: no {axis} {index}; the mask has {length}.{shared}",
            f"Give one from {-length} to {length - 1}.",
        )
    return operator.index(position)


def _text(index: Any) -> str:
    if isinstance(index, slice):
        bounds = ["" if x is None else str(x) for x in (index.start, index.stop, index.step)]
        return ":".join(bounds if index.step is not None else bounds[:2])
    if isinstance(index, tuple):
        return ", ".join(map(_text, index))
    return "..." if index is Ellipsis else repr(index)
