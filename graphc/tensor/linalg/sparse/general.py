"""Factors of sparse matrices of any kind: of positive definite ones by fronts, else by SuperLU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.numeric import Factor

Array = np.ndarray[Any, Any]

WIDTH = 64
"""The number of columns of an inverse that are computed at once."""


class GeneralFactor:
    """The factor of a matrix, all of whose elements are read.

    Args:
        rows: The row of each value; those from n on are left out.
        columns: The column of each.
        n: The number of rows.
        data: The values.
        positive: Gives the factor of the symmetric matrix that has the sum of the given values in
            each place of a lower triangle; None if it is not positive definite.
    """

    def __init__(
        self,
        rows: Array,
        columns: Array,
        n: int,
        data: Array,
        positive: Callable[[Array, Array, Array], Factor | None],
    ) -> None:
        self.inside = np.flatnonzero(rows < n)
        self.rows, self.columns, self.n = rows[self.inside], columns[self.inside], n
        self.count = len(data)
        self.data = data
        self.positive = None
        matrix = self._matrix(data)
        if np.isfinite(data).all() and not (matrix - matrix.T).count_nonzero():
            # Each element off the diagonal is there twice, and adds half to one triangle.
            halves = np.where(rows == columns, 1.0, 0.5) * data
            self.positive = positive(np.maximum(rows, columns), np.minimum(rows, columns), halves)

    def _matrix(self, values: Array) -> Any:
        """The sparse matrix of values in the same places."""
        from scipy import sparse

        places = (self.rows, self.columns)
        return sparse.csc_array((values[self.inside], places), shape=(self.n, self.n))

    @cached_property
    def _lu(self) -> Any:
        """SuperLU's factor; None for a singular matrix, and for one that is not finite."""
        from scipy.sparse.linalg import splu

        if not np.isfinite(self.data).all():
            return None
        try:
            return splu(self._matrix(self.data))
        except RuntimeError:  # an exact zero among the pivots
            return None

    def slogdet(self) -> tuple[float, float]:
        """The sign of the determinant, and the logarithm of its magnitude."""
        if self.positive is not None:
            return 1.0, self.positive.logdet
        if self._lu is None:
            finite = np.isfinite(self.data).all()
            return (0.0, -np.inf) if finite else (np.nan, np.nan)
        diagonal = self._lu.U.diagonal()
        sign = np.prod(np.sign(diagonal)) * _parity(self._lu.perm_r) * _parity(self._lu.perm_c)
        return float(sign), float(np.log(np.abs(diagonal)).sum())

    def solve(self, b: Array, transposed: bool) -> Array:
        """The solutions of as many equations as b, (n, c), has columns."""
        if self.positive is not None:
            return self.positive.solve(b)
        if self._lu is None:
            return np.full(b.shape, np.nan)
        return np.asarray(self._lu.solve(np.ascontiguousarray(b), "T" if transposed else "N"))

    def slope(self) -> Array:
        """The derivative of the logarithm of the determinant by each value."""
        if self.positive is not None:
            return self.positive.inverse()
        return self._transposed(lambda block: block)

    def curvature(self, v: Array) -> Array:
        """The derivative of ``slope`` in the direction of other values in the same places."""
        moved = self._matrix(v)
        if self.positive is not None and not (moved - moved.T).count_nonzero():
            halves = np.zeros(self.count)
            halves[self.inside] = np.where(self.rows == self.columns, 1.0, 0.5) * v[self.inside]
            return -self.positive.inverse_slope(halves)
        return self._transposed(lambda block: -self.solve(moved @ block, False))

    def _transposed(self, function: Callable[[Array], Array]) -> Array:
        """Elements (j, i), for each value at (i, j), of a function of the inverse's columns."""
        y = np.zeros(self.count)
        for first, which in self._blocks():
            unit = np.zeros((self.n, min(WIDTH, self.n - first)))
            unit[np.arange(first, first + unit.shape[1]), np.arange(unit.shape[1])] = 1.0
            block = function(self.solve(unit, False))
            y[self.inside[which]] = block[self.columns[which], self.rows[which] - first]
        return y

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """The first column of each block, and the values in rows of these numbers."""
        by_row = np.argsort(self.rows, kind="stable")
        bounds = [*range(0, self.n, WIDTH), self.n]
        ends = np.searchsorted(self.rows[by_row], bounds)
        for first, (i, j) in zip(bounds, pairwise(ends), strict=False):
            if i < j:
                yield first, by_row[i:j]


def _parity(permutation: Array) -> int:
    """1 for an even permutation, -1 for an odd one."""
    left, sign = permutation.tolist(), 1
    for i in range(len(left)):
        while left[i] != i:
            j = left[i]
            left[i], left[j] = left[j], j
            sign = -sign
    return sign
