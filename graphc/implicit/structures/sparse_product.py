"""Products of two sparse matrices: sparse ones where the places are known, else both factors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.array import fields_of, with_fields
from graphc.implicit.known import array_of
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.segments import Entries, segments
from graphc.implicit.treedef import dtype_of, lengths_of


class Pattern(NamedTuple):
    """What the product of two sparse matrices adds up.

    Attributes:
        left: The numbers of the left matrix's stored values, one for each product.
        right: Those of the right one's.
        group: The number of the element that each product belongs to.
        rows: Of each element.
        columns: Of each element.
    """

    left: Any
    right: Any
    group: Any
    rows: Any
    columns: Any


def known_places(x: Any) -> tuple[Any, Any] | None:
    """Return rows and columns of the stored values as NumPy's arrays; None where not known."""
    found = {name: array_of(part) for name, part in fields_of(x).items() if name != "data"}
    parts = {name: part for name, part in found.items() if part is not None}
    if len(parts) < len(found):
        return None
    count = parts["indices"].shape[len(lengths_of(x.values)) - 1]
    plain = with_fields(x, {**parts, "data": np.zeros(count, bool)})
    _, rows, columns = plain.entries()
    return rows, columns


def pattern(a: tuple[Any, Any], b: tuple[Any, Any], lengths: tuple[int, int, int]) -> Pattern:
    """Find which stored values of two matrices meet, by Gustavson's row by row products.

    Args:
        a: Rows and columns of the stored values of a matrix of m rows and k columns.
        b: Those of a matrix of k rows and n columns.
        lengths: m, k and n; what has a row m or k is left out.

    Source: Gustavson, ACM Trans. Math. Softw. 4(3), 1978.
    """
    m, k, n = lengths
    (i, along), (down, j) = a, b
    order = np.argsort(down, kind="stable")
    starts = np.searchsorted(down[order], np.arange(k + 1))
    inside = np.flatnonzero(i < m)
    counts = np.diff(starts)[along[inside]]
    left = np.repeat(inside, counts)
    # Within the row of the other, one after the other.
    step = np.arange(left.size) - np.repeat(np.cumsum(counts) - counts, counts)
    right = order[np.repeat(starts[along[inside]], counts) + step]
    places, group = np.unique(i[left].astype(np.int64) * n + j[right], return_inverse=True)
    return Pattern(left, right, group.reshape(-1), places // max(n, 1), places % max(n, 1))


def product_of(a: Any, b: Any) -> tuple[Entries, tuple[int, int]] | LowRank:
    """``a @ b`` of two sparse matrices.

    Returns:
        The entries of the product and its lengths, each element once, where the places of both
        are known before the program runs; else a ``LowRank`` of the two, whose products are those
        of both.
    """
    (m, k), (_, n) = a.matrix, b.matrix
    places = (known_places(a), known_places(b)) if a.ndim == b.ndim == 2 else (None, None)
    if places[0] is None or places[1] is None or m * n > np.iinfo(np.int64).max:
        return LowRank(a, b)
    found = pattern(places[0], places[1], (m, k, n))
    xp = numpy_like(a, b)
    count = len(found.rows)
    index = dtype_of(xp.arange(1))
    left, right, group, rows, columns = [x.astype(index) for x in found]
    terms = xp.multiply(a.values[left], b.values[right])
    data = segments(xp, terms[:, None], group, count)[:, 0]
    return (data, rows, columns), (m, n)
