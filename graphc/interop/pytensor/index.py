"""Indexing: ``Subtensor``, ``AdvancedSubtensor``, and the operations that write into an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.ir import Node
from graphc.tensor.core.tensor import Tensor


def index_of(entry: Any) -> Any:
    """Return one index: an array, an integer, a slice, or None for a new axis."""
    if isinstance(entry, slice):
        return slice(
            *[None if n is None else _end(n) for n in (entry.start, entry.stop, entry.step)]
        )
    if isinstance(entry, Node) and not entry.ndim:  # type: ignore[attr-defined]
        return length(entry)
    return entry


def _end(n: Any) -> Any:
    return length(n) if isinstance(n, Node) else int(n)


def indices(op: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the indices of an operation, whose ``idx_list`` gives the slots of its inputs.

    Newer versions of PyTensor have the input's number there, older ones its type.
    """
    entries = getattr(op, "idx_list", None)
    if entries is None:
        return tuple(index_of(x) for x in values)
    remaining = iter(values)
    numbered = hasattr(op, "n_index_vars")

    def value(entry: Any) -> Any:
        if entry is None:
            return None
        if numbered:
            return values[entry]
        return int(entry) if isinstance(entry, int) else next(remaining)

    def with_values(entry: Any) -> Any:
        if isinstance(entry, slice):
            return slice(value(entry.start), value(entry.stop), value(entry.step))
        return value(entry)

    return tuple(index_of(with_values(entry)) for entry in entries)


def subtensor(at: Application, x: Tensor, *values: Any) -> Tensor:
    return x[indices(at.op, values)]


def inc_subtensor(at: Application, x: Tensor, y: Tensor, *values: Any) -> Tensor:
    """Replace or increase elements of an array.

    Where an index occurs twice, both increments count, unless the operation ignores duplicates.
    """
    part = x[indices(at.op, values)]
    y = in_dtype(y, x.dtype)
    if at.op.set_instead_of_inc:
        return gt.set_subtensor(part, y)
    if getattr(at.op, "ignore_duplicates", False):
        return gt.set_subtensor(part, part + y)
    return gt.inc_subtensor(part, y)


def make_slice(at: Application, *ends: Any) -> slice:
    """Return a slice as a value, for an index."""
    return slice(*ends)
