"""The factor of a sparse matrix, and what is computed by it, front by front.

A front is a symmetric matrix ``[[a, b.T], [b, c]]``. With ``g = b @ inv(a)``, eliminating its first
columns leaves the update ``c - g @ b.T``, which is added to the fronts above. The matrix is
``l @ d @ l.T`` with the blocks g below the diagonal of l, and a on that of d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.analysis import Analysis, Batch

Array = np.ndarray[Any, Any]

SMALL = 32
"""Triangles up to this size are inverted as they are, larger ones by their halves."""

MANY = 800
"""Where the fronts of a batch have so many rows together, their i-th rows are computed at once."""


def _turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _symmetric(x: Array) -> Array:
    """Symmetric matrices, given their lower triangles."""
    low = np.tril(x)
    return low + _turned(np.tril(x, -1))


def inverse_of_triangles(low: Array) -> Array:
    """The inverses of lower triangles, by those of their halves."""
    b, k, _ = low.shape
    if k <= SMALL and b * k < MANY:
        return np.linalg.inv(low)
    y = np.zeros_like(low)
    if k > SMALL:
        h = k // 2
        first, last = inverse_of_triangles(low[:, :h, :h]), inverse_of_triangles(low[:, h:, h:])
        y[:, :h, :h], y[:, h:, h:] = first, last
        y[:, h:, :h] = -np.matmul(last, np.matmul(low[:, h:, :h], first))
        return y
    own = 1 / np.diagonal(low, 0, 1, 2)
    for i in range(k):
        y[:, i, i] = own[:, i]
        if i:
            before = np.matmul(low[:, i : i + 1, :i], y[:, :i, :i])[:, 0]
            y[:, i, :i] = -own[:, i, None] * before
    return y


@dataclass(frozen=True)
class Factor:
    """The factor of a positive definite matrix.

    Attributes:
        analysis: Its pattern.
        roots: For each batch, the inverses of the Cholesky factors of a.
        slopes: For each batch g.
        logdet: The logarithm of the determinant.
    """

    analysis: Analysis
    roots: tuple[Array, ...]
    slopes: tuple[Array, ...]
    logdet: float

    @classmethod
    def of(cls, analysis: Analysis, data: Array) -> Factor | None:
        """Factorise a matrix; None where it is not positive definite."""
        pool = analysis.pool(data)
        roots, slopes, total = [], [], 0.0
        for batch in analysis.batches:
            b, k, m = batch.shape
            panel = batch.panel.into((b, k + m, k), pool)
            panel.reshape(-1)[batch.padded] = 1.0
            try:
                low = np.linalg.cholesky(panel[:, :k])
            except np.linalg.LinAlgError:
                return None
            total += 2 * float(np.log(np.diagonal(low, 0, 1, 2)).sum())
            root = inverse_of_triangles(low)
            below = np.matmul(panel[:, k:], _turned(root))
            if m:
                update = pool[batch.update].reshape(b, m, m)
                np.matmul(below, _turned(below), out=update)
                if batch.corner is not None:
                    update -= batch.corner.into((b, m, m), pool)
            roots.append(root)
            slopes.append(np.matmul(below, root))
        return cls(analysis, tuple(roots), tuple(slopes), total) if np.isfinite(total) else None

    def blocks(self) -> Iterator[tuple[Batch, Array, Array]]:
        """Each batch with its part of the factor."""
        return zip(self.analysis.batches, self.roots, self.slopes, strict=True)

    def inverse(self) -> Array:
        """The elements of the inverse where values are stored in the triangle that is read.

        Source: K. Takahashi, J. Fagan, M. Chin, Formation of a sparse bus impedance matrix, 8th
        PICA Conference, 1973.
        """
        y = np.zeros(self.analysis.count)
        above = np.empty(self.analysis.inverses)
        for batch, root, slope in reversed([*self.blocks()]):
            b, k, m = batch.shape
            panel = np.empty((b, k + m, k))
            square = np.matmul(_turned(root), root)
            if m:
                border = above[batch.above[0] + batch.above[1]]
                below = np.matmul(border, slope)
                square += np.matmul(_turned(slope), below)
                np.negative(below, out=panel[:, k:])
            panel[:, :k] = square
            y[batch.stored] = panel.reshape(-1)[batch.elements]
            if batch.corner is not None:
                own = above[batch.inverse].reshape(b, k + m, k + m)
                own[:, :, :k] = panel
                if m:
                    own[:, :k, k:] = _turned(panel[:, k:])
                    own[:, k:, k:] = border
        return y

    def solve(self, b: Array) -> Array:
        """The solution of as many equations as b, (n, c), has columns."""
        x = np.concatenate([b, np.zeros((1, b.shape[1]))])
        for batch, root, slope in self.blocks():
            own = x[batch.columns]
            np.subtract.at(x, batch.border, np.matmul(slope, own))
            x[batch.columns] = np.matmul(_turned(root), np.matmul(root, own))
            x[-1] = 0.0
        return self._backward(x)

    def colour(self, z: Array) -> Array:
        """The root of the inverse times each column of z, (n, c)."""
        x = np.concatenate([z, np.zeros((1, z.shape[1]))])
        for batch, root, _ in self.blocks():
            x[batch.columns] = np.matmul(_turned(root), x[batch.columns])
        x[-1] = 0.0
        return self._backward(x)

    def colour_transposed(self, g: Array) -> Array:
        """The transpose of that root times each column of g, (n, c)."""
        x = np.concatenate([g, np.zeros((1, g.shape[1]))])
        for batch, root, slope in self.blocks():
            own = x[batch.columns]
            np.subtract.at(x, batch.border, np.matmul(slope, own))
            x[batch.columns] = np.matmul(root, own)
            x[-1] = 0.0
        return x[:-1]

    def _backward(self, x: Array) -> Array:
        """Solve with the transpose of l, in place."""
        for batch, _, slope in reversed([*self.blocks()]):
            x[batch.columns] -= np.matmul(_turned(slope), x[batch.border])
            x[-1] = 0.0
        return x[:-1]

    def inverse_slope(self, v: Array) -> Array:
        """``z @ v @ z`` for the inverse z, where values are stored in the triangle that is read.

        It is the derivative of ``inverse``, in the direction of ``-v``: those of its two passes.

        Args:
            v: Values of a symmetric matrix, in the same places.

        Source: M. Andersen, J. Dahl, L. Vandenberghe, Logarithmic barriers for sparse matrix cones,
        Optimization Methods and Software 28(3), 2013.
        """
        y = np.zeros(self.analysis.count)
        size = self.analysis.inverses
        above, turned = np.empty(size), np.empty(size)
        for (batch, root, slope), (da, dslope) in reversed(
            [*zip(self.blocks(), self._moved(v), strict=True)]
        ):
            b, k, m = batch.shape
            square = np.matmul(_turned(root), root)
            moved = np.matmul(square, np.matmul(da, square))
            panel, dpanel = np.zeros((b, k + m, k)), np.zeros((b, k + m, k))
            if m:
                places = batch.above[0] + batch.above[1]
                border, dborder = above[places], turned[places]
                below = np.matmul(border, slope)
                square = square + np.matmul(_turned(slope), below)
                dbelow = np.matmul(border, dslope)
                cross = np.matmul(_turned(dslope), below)
                dborder_slope = np.matmul(dborder, slope)
                moved += np.matmul(_turned(slope), dborder_slope) - cross - _turned(cross)
                panel[:, k:], dpanel[:, k:] = -below, dbelow - dborder_slope
            panel[:, :k], dpanel[:, :k] = square, moved
            y[batch.stored] = dpanel.reshape(-1)[batch.elements]
            if batch.corner is not None:
                for pool, part, corner in ((above, panel, 0), (turned, dpanel, 1)):
                    own = pool[batch.inverse].reshape(b, k + m, k + m)
                    own[:, :, :k] = part
                    if m:
                        own[:, :k, k:] = _turned(part[:, k:])
                        own[:, k:, k:] = dborder if corner else border
        return y

    def _moved(self, v: Array) -> list[tuple[Array, Array]]:
        """The derivatives of a and g of each batch, in the direction of the matrix v."""
        pool = self.analysis.pool(v)
        found = []
        for batch, root, slope in self.blocks():
            b, k, m = batch.shape
            panel = batch.panel.into((b, k + m, k), pool)
            da, db = _symmetric(panel[:, :k]), panel[:, k:]
            inverse = np.matmul(_turned(root), root)
            rest = db - np.matmul(slope, da)
            if m:
                # c - g @ b.T moves by dc - g @ db.T - db @ g.T + g @ da @ g.T; kept negated.
                outer = np.matmul(rest, _turned(slope))
                update = outer + np.matmul(slope, _turned(db))
                if batch.corner is not None:
                    update -= batch.corner.into((b, m, m), pool)
                pool[batch.update] = update.reshape(-1)
            found.append((da, np.matmul(rest, inverse)))
        return found
