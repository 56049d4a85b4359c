"""Orders of elimination in which a sparse matrix's factor has few elements."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DENSE = 10.0
"""A row with this many times the root of n elements is eliminated last, as in AMD."""


def fill_reducing(rows: Array, columns: Array, n: int) -> Array:
    """Return the indices of a symmetric matrix in an order that leaves its factor sparse.

    It is the multiple minimum degree order of SuperLU. Rows with very many elements, whose
    neighbours it would compare one by one, come last.

    Args:
        rows: The row of each element; one of the two triangles is enough.
        columns: The column of each.
        n: The number of rows.

    Source: J. Liu, Modification of the minimum-degree algorithm by multiple elimination, ACM TOMS
    11(2), 1985.
    """
    degrees = np.bincount(rows, minlength=n) + np.bincount(columns, minlength=n)
    dense = degrees > max(16.0, DENSE * np.sqrt(n))
    kept = np.flatnonzero(~dense)
    inside = ~(dense[rows] | dense[columns]) & (rows != columns)
    place = np.cumsum(~dense) - 1
    order = _minimum_degree(place[rows[inside]], place[columns[inside]], len(kept))
    last = np.flatnonzero(dense)
    return np.concatenate([kept[order], last[np.argsort(degrees[last], kind="stable")]])


def _minimum_degree(rows: Array, columns: Array, n: int) -> Array:
    from scipy import sparse
    from scipy.sparse.linalg import spilu

    if not len(rows):
        return np.arange(n)
    links = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    links = links + links.T
    # Dominated by its diagonal, so that an incomplete factor, which keeps nothing else, exists.
    diagonal = sparse.diags_array(2.0 * np.asarray(links.sum(0)).ravel() + 1.0)
    factor = spilu(
        sparse.csc_array(diagonal - links),
        drop_tol=1.0,
        fill_factor=1,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0,
        options={"SymmetricMode": True},
    )
    order = np.empty(n, np.int64)
    order[factor.perm_c] = np.arange(n)
    return order
