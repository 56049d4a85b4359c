"""Factors of sparse matrices by SciPy's SuperLU, cached for the operations that use them.

A value, its gradient and solutions are separate operations, which meet here: a factor has more
elements than the matrix, and never leaves the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from threading import RLock
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.inverse import Fronts

Array = np.ndarray[Any, Any]

PATTERNS = 8
"""The number of patterns that are cached."""

VALUES = 2**21
"""The number of stored values of all cached factors of a pattern."""

WIDTH = 64
"""The number of columns of an inverse that are computed at once."""

STEP = 1e-100
"""The imaginary step of a derivative, which is exact: its square vanishes beside 1."""


class SparsityPattern:
    """The pattern of a symmetric matrix, of which one triangle is read.

    Args:
        rows: The row of each value; values in rows from n on are left out.
        columns: The column of each value.
        n: The number of rows.
        lower: Whether the lower triangle is read, or the upper one.

    Attributes:
        weights: For each value the number of elements that it stands for: 2 for one in each
            triangle, else 1.
    """

    def __init__(self, rows: Array, columns: Array, n: int, lower: bool) -> None:
        rows, columns = rows.astype(np.int64), columns.astype(np.int64)
        self.n, self.count = n, len(rows)
        self.stored = np.flatnonzero((rows < n) & (rows >= columns if lower else rows <= columns))
        self.i, self.j = rows[self.stored], columns[self.stored]
        self.strict = self.i != self.j
        self.weights = np.ones(self.count)
        self.weights[self.stored[self.strict]] = 2.0
        self._fronts: tuple[Array, Fronts] | None = None

    def matrix(self, data: Array) -> Any:
        """Return the symmetric matrix of given values, both triangles."""
        from scipy import sparse

        values = data[self.stored]
        rows = np.concatenate([self.i, self.j[self.strict]])
        columns = np.concatenate([self.j, self.i[self.strict]])
        shape = (self.n, self.n)
        elements = np.concatenate([values, values[self.strict]])
        return sparse.csc_array((elements, (rows, columns)), shape=shape)

    def fronts(self, order: Array) -> Fronts:
        """Return the fronts of the factor, given the position of each row in the elimination."""
        if self._fronts is None or not np.array_equal(self._fronts[0], order):
            i, j = order[self.i], order[self.j]
            self._fronts = order, Fronts(np.maximum(i, j), np.minimum(i, j), self.n)
        return self._fronts[1]


class PositiveFactor:
    """The factor ``p.T @ l @ diag(d) @ l.T @ p`` of a positive definite matrix.

    Args:
        pattern: The pattern of the matrix.
        data: The values of the matrix.
        lu: SuperLU's factor, whose pivots are elements of the diagonal.
    """

    def __init__(self, pattern: SparsityPattern, data: Array, lu: Any) -> None:
        self.pattern, self.data, self.lu = pattern, data, lu
        self.pivots = lu.U.diagonal() if pattern.n else np.zeros(0)

    @classmethod
    def of(cls, pattern: SparsityPattern, data: Array) -> PositiveFactor | None:
        """Factorise a matrix; None if it is not positive definite."""
        if not np.isfinite(data[pattern.stored]).all():
            return None
        lu = _symmetric_lu(pattern.matrix(data))
        if lu is None or not np.array_equal(lu.perm_r, lu.perm_c):
            return None
        factor = cls(pattern, data, lu)
        return factor if (factor.pivots > 0).all() else None

    @cached_property
    def order(self) -> Array:
        """Position of each row in the elimination."""
        return self.lu.perm_c.astype(np.int64)  # type: ignore[no-any-return]

    @cached_property
    def lower(self) -> Any:
        """Unit lower triangle l."""
        return self.lu.L

    @property
    def logdet(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self.pivots).sum())

    def solve(self, b: Array) -> Array:
        """Return the solutions of as many systems as b, (n, c), has columns."""
        return np.asarray(self.lu.solve(np.ascontiguousarray(b)))

    def colour(self, z: Array) -> Array:
        """Return ``r @ z`` for the root ``r = p.T @ inv(l.T) / sqrt(d)`` of the inverse."""
        x = self.lower @ (np.sqrt(self.pivots)[:, None] * z)
        return self.solve(x[self.order])

    def colour_transposed(self, g: Array) -> Array:
        """Return ``r.T @ g``."""
        x = np.empty_like(g)
        x[self.order] = self.solve(g)
        return np.asarray(np.sqrt(self.pivots)[:, None] * (self.lower.T @ x))

    def inverse(self) -> Array:
        """Return the elements of the inverse where the matrix has values that are read."""
        return self._inverse(self.lower, self.pivots)

    def _inverse(self, lower: Any, pivots: Array) -> Array:
        y = np.zeros(self.pattern.count, pivots.dtype)
        if self.pattern.n:
            y[self.pattern.stored] = self.pattern.fronts(self.order).inverse(lower, pivots)
        return y

    def inverse_derivative(self, v: Array) -> Array:
        """Return ``z @ v @ z`` for the inverse z, where values are stored.

        The derivative of ``inverse`` in the direction of ``-v`` is computed by a step into the
        complex plane, and so has the rounding of ``inverse``.

        Args:
            v: Values of a symmetric matrix of the same pattern.
        """
        largest = np.abs(v).max(initial=0)
        if not largest or not np.isfinite(largest):
            return v * 0
        step = STEP * np.abs(self.data).max() / largest
        lu = _symmetric_lu(self.pattern.matrix(self.data + 1j * step * v))
        assert np.array_equal(lu.perm_c, self.lu.perm_c)
        derivative: Array = self._inverse(lu.L, lu.U.diagonal()).imag / -step
        return derivative


def _symmetric_lu(matrix: Any) -> Any:
    """Factorise with pivots on the diagonal, symmetric but for zero pivots; None if singular."""
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    try:
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    except RuntimeError:  # an exact zero among the pivots
        return None


class GeneralFactor:
    """The factor of a matrix, all of whose elements are read.

    Args:
        rows: The row of each value; values in rows from n on are left out.
        columns: The column of each value.
        n: The number of rows.
        data: The values.

    Attributes:
        positive: The factor that is used if the matrix is positive definite, else None.
    """

    def __init__(self, rows: Array, columns: Array, n: int, data: Array) -> None:
        self.inside = np.flatnonzero(rows < n)
        self.rows, self.columns, self.n = rows[self.inside], columns[self.inside], n
        self.data = data
        self.positive = None
        matrix = self._matrix(data)
        if np.isfinite(data).all() and not (matrix - matrix.T).count_nonzero():
            self.positive = positive_factor(
                np.maximum(rows, columns), np.minimum(rows, columns), n, True, self._halves(data)
            )

    def _halves(self, values: Array) -> Array:
        """Return values for the lower triangle, where each element off the diagonal is halved."""
        halves = np.zeros_like(values)
        halves[self.inside] = np.where(self.rows == self.columns, 1.0, 0.5) * values[self.inside]
        return halves

    def _matrix(self, values: Array) -> Any:
        from scipy import sparse

        entries = values[self.inside], (self.rows, self.columns)
        return sparse.csc_array(entries, shape=(self.n, self.n))

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
        """Return the sign of the determinant, and the logarithm of its magnitude."""
        if self.positive is not None:
            return 1.0, self.positive.logdet
        if self._lu is None:
            finite = np.isfinite(self.data).all()
            return (0.0, -np.inf) if finite else (np.nan, np.nan)
        diagonal = self._lu.U.diagonal()
        sign = (
            np.prod(np.sign(diagonal))
            * _permutation_sign(self._lu.perm_r)
            * _permutation_sign(self._lu.perm_c)
        )
        return float(sign), float(np.log(np.abs(diagonal)).sum())

    def solve(self, b: Array, transposed: bool) -> Array:
        """Return the solutions of as many systems as b, (n, c), has columns."""
        if self.positive is not None:
            return self.positive.solve(b)
        if self._lu is None:
            return np.full(b.shape, np.nan)
        return np.asarray(self._lu.solve(np.ascontiguousarray(b), "T" if transposed else "N"))

    def logdet_gradient(self) -> Array:
        """Return the derivative of the logarithm of the determinant with respect to each value."""
        if self.positive is not None:
            return self.positive.inverse()
        return self._transpose_elements(lambda block: block)

    def logdet_curvature(self, v: Array) -> Array:
        """Return the derivative of ``logdet_gradient`` in the direction of other values."""
        moved = self._matrix(v)
        if self.positive is not None and not (moved - moved.T).count_nonzero():
            return -self.positive.inverse_derivative(self._halves(v))
        return self._transpose_elements(lambda block: -self.solve(moved @ block, False))

    def _transpose_elements(self, function: Callable[[Array], Array]) -> Array:
        """Return elements (j, i), for each value at (i, j), of a function of inverse columns."""
        y = np.zeros(len(self.data))
        for first, which in self._blocks():
            unit = np.zeros((self.n, min(WIDTH, self.n - first)))
            unit[np.arange(first, first + unit.shape[1]), np.arange(unit.shape[1])] = 1.0
            block = function(self.solve(unit, False))
            y[self.inside[which]] = block[self.columns[which], self.rows[which] - first]
        return y

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield the first row of each block of rows, and the numbers of the values in them."""
        by_row = np.argsort(self.rows, kind="stable")
        bounds = [*range(0, self.n, WIDTH), self.n]
        ends = np.searchsorted(self.rows[by_row], bounds)
        for first, (i, j) in zip(bounds, pairwise(ends), strict=False):
            if i < j:
                yield first, by_row[i:j]


def _permutation_sign(permutation: Array) -> int:
    order, sign = permutation.tolist(), 1
    for i in range(len(order)):
        while order[i] != i:
            j = order[i]
            order[i], order[j] = order[j], j
            sign = -sign
    return sign


class Recent:
    """Values by the keys that were used last, whose arrays are compared.

    Args:
        most: The maximal number of keys.
        copies: Whether the arrays of a key are copied; else nobody may write to them later.
    """

    def __init__(self, most: int, copies: bool = True) -> None:
        self.most, self.copies = most, copies
        self.entries = list[tuple[tuple[Any, ...], Any]]()

    def get(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return the value of a key, computed by ``make`` if the key is new."""
        for i, (other, value) in enumerate(self.entries):
            if all(map(_equal, other, key)):
                self.entries.insert(0, self.entries.pop(i))
                return value
        value = make()
        if self.copies:
            key = tuple([np.array(x) if isinstance(x, np.ndarray) else x for x in key])
        self.entries.insert(0, (key, value))
        del self.entries[self.most :]
        return value


def _equal(a: Any, b: Any) -> bool:
    return a is b or (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


_LOCK = RLock()
_PATTERNS = Recent(PATTERNS)


def positive_factor(
    rows: Array, columns: Array, n: int, lower: bool, data: Array
) -> PositiveFactor | None:
    """Return the factor of a matrix of which a triangle is read; None if not positive definite.

    Nobody may write to the values later.
    """
    with _LOCK:
        pattern, factors = _PATTERNS.get(
            (rows, columns, n, lower),
            lambda: (SparsityPattern(rows, columns, n, lower), _recent_factors(len(rows))),
        )
        factor: PositiveFactor | None = factors.get(
            (data,), lambda: PositiveFactor.of(pattern, data)
        )
        return factor


def general_factor(rows: Array, columns: Array, n: int, data: Array) -> GeneralFactor:
    """Return the factor of a matrix of any kind; nobody may write to the values later."""
    with _LOCK:
        factors = _PATTERNS.get((rows, columns, n, None), lambda: _recent_factors(len(rows)))
        factor: GeneralFactor = factors.get((data,), lambda: GeneralFactor(rows, columns, n, data))
        return factor


def _recent_factors(count: int) -> Recent:
    return Recent(max(1, min(64, VALUES // max(count, 1))), copies=False)
