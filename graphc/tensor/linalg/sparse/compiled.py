"""The factor of a large sparse matrix, where Numba is there to compile passes over its fronts."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.analysis import Analysis
from graphc.tensor.linalg.sparse.numeric import Factor
from graphc.tensor.linalg.sparse.traversal import kernels
from graphc.tensor.linalg.sparse.workspace import borrow, borrowed, give_back

Array = np.ndarray[Any, Any]


class CompiledFactor:
    """What ``Factor`` is, with the same results to rounding; made by ``of``.

    Attributes:
        analysis: Its pattern.
        logdet: The logarithm of the determinant.
    """

    def __init__(self, analysis: Analysis, data: Array, panels: Array, logdet: float) -> None:
        self.analysis, self.logdet = analysis, logdet
        self.data, self.panels = data, panels
        self.kernels: Any = kernels()

    @classmethod
    def of(cls, analysis: Analysis, data: Array) -> CompiledFactor | None:
        """Factorise a matrix; None where it is not positive definite."""
        module: Any = kernels()
        traversal, data = analysis.traversal, np.ascontiguousarray(data)
        panels = borrow(traversal.elements)
        stack, corner = traversal.updates
        with borrowed(stack + corner) as work:
            both = work[:stack], work[stack:]
            logdet = module.factorise(traversal.tree, module.library(), data, panels, both)
        if not np.isfinite(logdet):
            give_back(panels)
            return None
        factor = cls(analysis, data, panels, logdet)
        weakref.finalize(factor, give_back, panels).atexit = False
        return factor

    def inverse(self) -> Array:
        """The elements of the inverse where values are stored in the triangle that is read."""
        y, traversal = np.zeros(self.analysis.count), self.analysis.traversal
        with borrowed(traversal.inverses) as stack:
            library = self.kernels.library()
            self.kernels.invert(traversal.tree, library, self.panels, stack, y)
        return y

    def solve(self, b: Array) -> Array:
        """The solution of as many equations as b, (n, c), has columns."""
        return self._solved(b, True, True)

    def colour(self, z: Array) -> Array:
        """The root of the inverse times each column of z, (n, c)."""
        return self._solved(z, False, True)

    def colour_transposed(self, g: Array) -> Array:
        """The transpose of that root times each column of g, (n, c)."""
        return self._solved(g, True, False)

    def _solved(self, b: Array, forward: bool, backward: bool) -> Array:
        x = np.array(b, order="C")
        self.kernels.solve(self.analysis.traversal.tree, self.panels, x, forward, backward)
        return x

    def inverse_slope(self, v: Array) -> Array:
        """``z @ v @ z`` for the inverse z, as by ``Factor``."""
        same = self._batched
        return np.full(len(v), np.nan) if same is None else same.inverse_slope(v)

    @cached_property
    def _batched(self) -> Factor | None:
        return Factor.of(self.analysis, self.data)
