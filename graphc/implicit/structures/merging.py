"""Stored elements in order of their places, with those of equal places brought together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.implicit.structures.segments import (
    Entries,
    as_places,
    largest_place,
    segments,
    taken,
)
from graphc.implicit.treedef import dtype_of


@dataclass(frozen=True)
class Merged:
    """Places (..., k) in order of row and column, with the elements that come together.

    Attributes:
        order: The numbers of the entries, in order of their places.
        rows: In that order.
        columns: In that order.
        first: Where a place comes for the first time.
        group: How many other places come before each.
    """

    order: Any
    rows: Any
    columns: Any
    first: Any
    group: Any

    @classmethod
    def of(cls, xp: Any, rows: Any, columns: Any, lengths: tuple[int, int]) -> Merged:
        """Sort places of matrices of these lengths."""
        m, n = lengths
        if m * n + n <= largest_place(rows):
            order = as_places(xp, xp.order_of(rows * n + columns))
        else:  # sorts are stable
            order = as_places(xp, xp.order_of(columns))
            by_row = as_places(xp, xp.order_of(picked(xp, rows, order)))
            order = picked(xp, order, by_row)
        rows, columns = picked(xp, rows, order), picked(xp, columns, order)
        first = xp.logical_or(_changes(xp, rows), _changes(xp, columns))
        group = xp.cumsum(as_places(xp, first), -1) - 1
        return cls(order, rows, columns, first, as_places(xp, group))

    def summed(self, xp: Any, values: Any) -> Any:
        """Values (..., k, c) as they stand, added up by place, at each entry in order."""
        last: Any = xp.shape_of(self.group)[-1]
        sums = segments(xp, taken(xp, values, self.order), self.group, last)
        return taken(xp, sums, self.group)

    def with_values(self, xp: Any, values: Any, lengths: tuple[int, int]) -> Entries:
        """Values in order, of which the first at each place is kept, as entries."""
        m, n = lengths
        return values, xp.where(self.first, self.rows, m), xp.where(self.first, self.columns, n)

    def in_place(self, xp: Any, values: Any) -> Any:
        """Values in order, each where its entry stood."""
        back = as_places(xp, xp.order_of(self.order))
        return picked(xp, values, back)


def picked(xp: Any, x: Any, order: Any) -> Any:
    """Elements (..., k) of the last axis."""
    return xp.take_along_axis(x, order, -1)


def _changes(xp: Any, places: Any) -> Any:
    """Where each place is another one than the place before."""
    before = xp.concatenate([places[..., :1] - 1, places[..., :-1]], -1)
    return xp.not_equal(places, before)


def coalesced(xp: Any, entries: Entries, lengths: tuple[int, int]) -> Entries:
    """Entries of which those at one place are added up, and the others are left out."""
    data, rows, columns = entries
    merged = Merged.of(xp, rows, columns, lengths)
    sums = merged.summed(xp, data[..., None])[..., 0]
    return merged.with_values(xp, sums, lengths)


def united(xp: Any, a: Entries, b: Entries, lengths: tuple[int, int]) -> tuple[Merged, Any, Any]:
    """The places of two sets of entries, in order, and what each set has there."""
    rows, columns = [xp.concatenate([x, y], -1) for x, y in zip(a[1:], b[1:], strict=True)]
    merged = Merged.of(xp, rows, columns, lengths)
    mine = xp.concatenate([a[0], xp.zeros_like(b[0])], -1)
    theirs = xp.concatenate([xp.zeros_like(a[0]), b[0]], -1)
    return merged, *[merged.summed(xp, x[..., None])[..., 0] for x in (mine, theirs)]


def matched(xp: Any, a: Entries, b: Entries, lengths: tuple[int, int]) -> Any:
    """What entries b have at the place of each entry of a: added up, zero where nothing."""
    k: Any = xp.shape_of(a[0])[-1]
    parts: Sequence[Any] = [xp.concatenate([x, y], -1) for x, y in zip(a[1:], b[1:], strict=True)]
    rows, columns = parts
    merged = Merged.of(xp, rows, columns, lengths)
    nothing = xp.zeros(xp.shape_of(a[0]), dtype_of(b[0]))
    values = xp.concatenate([nothing, b[0]], -1)
    return merged.in_place(xp, merged.summed(xp, values[..., None])[..., 0])[..., :k]
