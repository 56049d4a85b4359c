"""Products of two sparse matrices: sparse if the indices are static, else of low rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.array import fields_of, with_fields
from graphc.implicit.known import array_of
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.entries import Entries, segment_sum
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.treedef import dtype_of, lengths_of


class ProductTerms(NamedTuple):
    """The terms of a product of two sparse matrices.

    Attributes:
        left: The position of each term's left factor among the stored values.
        right: The position of each term's right factor among the stored values.
        group: The number of the element to which each term belongs.
        rows: The row of each element.
        columns: The column of each element.
    """

    left: Any
    right: Any
    group: Any
    rows: Any
    columns: Any


def static_indices(x: Any) -> tuple[Any, Any] | None:
    """Return rows and columns of the stored values as NumPy arrays; None if they are not static."""
    arrays = {name: array_of(field) for name, field in fields_of(x).items() if name != "data"}
    static = {name: array for name, array in arrays.items() if array is not None}
    if len(static) < len(arrays):
        return None
    data = np.zeros(static["indices"].shape[: len(lengths_of(x.values))], bool)
    _, rows, columns = with_fields(x, {**static, "data": data}).entries()
    return rows, columns


def indices_of(x: Any) -> tuple[Any, Any]:
    """Return rows and columns of the stored values, as NumPy arrays if they are static."""
    _, *indices = x.entries()
    rows, columns = static_indices(x) or indices
    return rows, columns


def find_terms(
    a: tuple[Any, Any], b: tuple[Any, Any], lengths: tuple[int, int, int]
) -> ProductTerms:
    """Find the pairs of stored values that a product multiplies, by Gustavson's algorithm.

    Args:
        a: Rows and columns of the stored values of a matrix of m rows and k columns.
        b: Rows and columns of the stored values of a matrix of k rows and n columns.
        lengths: m, k and n; row m of the first matrix or k of the second marks no element.

    Source: Gustavson, ACM Trans. Math. Softw. 4(3), 1978.
    """
    m, k, n = lengths
    (i, a_columns), (b_rows, j) = a, b
    order = np.argsort(b_rows, kind="stable")
    starts = np.searchsorted(b_rows[order], np.arange(k + 1))
    inside = np.flatnonzero(i < m)
    counts = np.diff(starts)[a_columns[inside]]
    left = np.repeat(inside, counts)
    # The position of each term within its row of b.
    position = np.arange(left.size) - np.repeat(np.cumsum(counts) - counts, counts)
    right = order[np.repeat(starts[a_columns[inside]], counts) + position]
    elements, group = np.unique(i[left].astype(np.int64) * n + j[right], return_inverse=True)
    return ProductTerms(left, right, group.reshape(-1), elements // max(n, 1), elements % max(n, 1))


def multiply_sparse(a: Any, b: Any) -> tuple[Entries, tuple[int, int]] | LowRank:
    """Return ``a @ b`` of two sparse matrices.

    Returns:
        The entries of the product, each element once, and its lengths, if the indices of both are
        known before the program runs; else ``LowRank(a, b)``.
    """
    (m, k), (_, n) = a.matrix, b.matrix
    indices = (static_indices(a), static_indices(b)) if a.ndim == b.ndim == 2 else (None, None)
    if indices[0] is None or indices[1] is None or m * n > np.iinfo(np.int64).max:
        return LowRank(a, b)
    terms = find_terms(indices[0], indices[1], (m, k, n))
    xp = numpy_like(a, b)
    count = len(terms.rows)
    index = dtype_of(xp.arange(1))
    left, right, group, rows, columns = [x.astype(index) for x in terms]
    products = xp.multiply(a.values[left], b.values[right])
    data = segment_sum(xp, products[:, None], group, count)[:, 0]
    return (data, rows, columns), (m, n)
