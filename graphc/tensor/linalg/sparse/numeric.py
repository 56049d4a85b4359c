"""The factor of a sparse matrix, and what is computed by it, front by front.

A front is a symmetric matrix ``[[a, b.T], [b, c]]``. With ``s = -inv(a) @ b.T``, eliminating its
first columns leaves ``c + b @ s``, which is added to the fronts above. The matrix is
``l @ d @ l.T`` with the blocks -s.T below the diagonal of l, and a on that of d.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.analysis import Analysis
from graphc.tensor.linalg.sparse.batches import Batch
from graphc.tensor.linalg.sparse.triangles import inverse_of_triangles
from graphc.tensor.linalg.sparse.workspace import borrow, borrowed, give_back

Array = np.ndarray[Any, Any]

WIDE = 150
"""From this size on it takes less time to compute a triangle and copy it than all of a matrix."""


def _turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _symmetric(x: Array) -> Array:
    """Symmetric matrices, given their lower triangles."""
    low = np.tril(x)
    return low + _turned(np.tril(x, -1))


class Parts:
    """Arrays that follow one another in the memory of one."""

    def __init__(self, memory: Array) -> None:
        self.memory, self.at = memory, 0

    def take(self, *shape: int) -> Array:
        """The next one, of any values."""
        begin, self.at = self.at, self.at + math.prod(shape)
        return self.memory[begin : self.at].reshape(shape)


@dataclass(frozen=True)
class Factor:
    """The factor of a positive definite matrix.

    Attributes:
        analysis: Its pattern.
        roots: For each batch, the inverses of the Cholesky factors of a.
        slopes: For each batch, (fronts, k, k + m): the inverses of a, and s.
        logdet: The logarithm of the determinant.
    """

    analysis: Analysis
    roots: tuple[Array, ...]
    slopes: tuple[Array, ...]
    logdet: float

    @classmethod
    def of(cls, analysis: Analysis, data: Array) -> Factor | None:
        """Factorise a matrix; None where it is not positive definite."""
        fronts = analysis.batched
        memory = borrow(fronts.size)
        parts, roots, slopes, total = Parts(memory), [], [], 0.0
        with borrowed(fronts.updates) as pool, borrowed(3 * fronts.scratch) as scratch:
            pool[: analysis.count] = data
            for batch in fronts.all:
                b, k, m = batch.shape
                own = batch.fronts(pool)
                own.reshape(-1)[batch.padded] = 1.0
                try:
                    low = np.linalg.cholesky(own[:, :k, :k])
                except np.linalg.LinAlgError:
                    give_back(memory)
                    return None
                total += 2 * float(np.log(np.diagonal(low, 0, 1, 2)).sum())
                root, slope = parts.take(b, k, k), parts.take(b, k, k + m)
                inverse_of_triangles(low, root)
                free = Parts(scratch)
                both = free.take(b, k, k + m)
                both[:, :, :k] = root
                if m:
                    below = both[:, :, k:]
                    np.matmul(root, own[:, :k, k:], out=below)
                    _outer(
                        below, None if batch.h == k else own[:, k:, k:], free, pool[batch.update]
                    )
                np.matmul(_turned(root), both, out=slope)
                roots.append(root)
                slopes.append(slope)
        if not np.isfinite(total):
            give_back(memory)
            return None
        factor = cls(analysis, tuple(roots), tuple(slopes), total)
        weakref.finalize(factor, give_back, memory).atexit = False
        return factor

    def blocks(self) -> Iterator[tuple[Batch, Array, Array]]:
        """Each batch with its part of the factor."""
        return zip(self.analysis.batched.all, self.roots, self.slopes, strict=True)

    def inverse(self) -> Array:
        """The elements of the inverse where values are stored in the triangle that is read.

        Source: K. Takahashi, J. Fagan, M. Chin, Formation of a sparse bus impedance matrix, 8th
        PICA Conference, 1973.
        """
        y, fronts = np.zeros(self.analysis.count), self.analysis.batched
        with borrowed(fronts.inverses) as above, borrowed(3 * fronts.scratch) as scratch:
            for batch, _, slope in reversed([*self.blocks()]):
                b, k, m = batch.shape
                free = Parts(scratch)
                whole = batch.inverse.start != batch.inverse.stop
                own = (
                    above[batch.inverse].reshape(b, k + m, k + m)
                    if whole
                    else free.take(b, k, k + m)
                )
                own[:, :k, :k] = slope[:, :, :k]
                if m:
                    places = free.take(b, m, m).view(np.int64)
                    border = free.take(b, m, m)
                    np.add(*batch.above, out=places)
                    np.take(above, places, out=border, mode="clip")
                    right = own[:, :k, k:]
                    np.matmul(slope[:, :, k:], border, out=right)
                    own[:, :k, :k] += np.matmul(right, _turned(slope[:, :, k:]))
                    if whole:
                        own[:, k:, :k] = _turned(right)
                        own[:, k:, k:] = border
                y[batch.stored] = own.reshape(-1)[batch.elements]
        return y

    def solve(self, b: Array) -> Array:
        """The solution of as many equations as b, (n, c), has columns."""
        x = np.concatenate([b, np.zeros((1, b.shape[1]))])
        for batch, root, slope in self.blocks():
            k = root.shape[1]
            own = x[batch.columns]
            np.add.at(x, batch.border, np.matmul(_turned(slope[:, :, k:]), own))
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
            k = root.shape[1]
            own = x[batch.columns]
            np.add.at(x, batch.border, np.matmul(_turned(slope[:, :, k:]), own))
            x[batch.columns] = np.matmul(root, own)
            x[-1] = 0.0
        return x[:-1]

    def _backward(self, x: Array) -> Array:
        """Solve with the transpose of l, in place."""
        for batch, root, slope in reversed([*self.blocks()]):
            x[batch.columns] += np.matmul(slope[:, :, root.shape[1] :], x[batch.border])
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
        size = self.analysis.batched.inverses
        moved = reversed([*zip(self.blocks(), self._moved(v), strict=True)])
        with borrowed(size) as above, borrowed(size) as turned:
            for (batch, _, slope), (da, ds) in moved:
                b, k, m = batch.shape
                square, s = slope[:, :, :k], slope[:, :, k:]
                dsquare = np.matmul(square, np.matmul(da, square))
                right, dright = np.zeros((b, k, m)), np.zeros((b, k, m))
                border = dborder = np.zeros((b, m, m))
                if m:
                    places = batch.above[0] + batch.above[1]
                    border, dborder = above[places], turned[places]
                    right, outer = np.matmul(s, border), np.matmul(s, dborder)
                    square = square + np.matmul(right, _turned(s))
                    cross = np.matmul(ds, _turned(right))
                    dsquare += np.matmul(outer, _turned(s)) - cross - _turned(cross)
                    dright = outer - np.matmul(ds, border)
                panel = np.concatenate([dsquare, dright], 2)
                if batch.inverse.start != batch.inverse.stop:
                    panel = _joined(dsquare, dright, dborder)
                    turned[batch.inverse] = panel.reshape(-1)
                    above[batch.inverse] = _joined(square, right, border).reshape(-1)
                y[batch.stored] = panel.reshape(-1)[batch.elements]
        return y

    def _moved(self, v: Array) -> list[tuple[Array, Array]]:
        """The derivatives of a and s of each batch, in the direction of the matrix v."""
        found = []
        with borrowed(self.analysis.batched.updates) as pool:
            pool[: self.analysis.count] = v
            for batch, _, slope in self.blocks():
                _, k, m = batch.shape
                square, s = slope[:, :, :k], slope[:, :, k:]
                own = batch.fronts(pool)
                da, db = _symmetric(own[:, :k, :k]), own[:, :k, k:]
                rest = db - np.matmul(da, s)
                if m:
                    # The updates b @ inv(a) @ b.T move by -db @ s - s.T @ db.T - s.T @ da @ s.
                    update = np.matmul(_turned(s), rest) + np.matmul(_turned(db), s)
                    if batch.h > k:
                        update += own[:, k:, k:]
                    pool[batch.update] = update.reshape(-1)
                found.append((da, np.matmul(square, rest)))
        return found


def _outer(below: Array, corner: Array | None, free: Parts, out: Array) -> None:
    """The updates: products of the transposes with themselves, and what comes from below."""
    b, k, m = below.shape
    y = out.reshape(b, m, m)
    if m < WIDE:
        # A product of an array with itself makes BLAS compute a triangle, which is then copied.
        copied = free.take(b, k, m)
        copied[...] = below
        np.matmul(_turned(below), copied, out=y)
    else:
        np.matmul(_turned(below), below, out=y)
    if corner is not None:
        y += corner


def _joined(a: Array, right: Array, c: Array) -> Array:
    """Symmetric matrices of blocks."""
    return np.concatenate(
        [np.concatenate([a, right], 2), np.concatenate([_turned(right), c], 2)], 1
    )
