"""Elements of a sparse matrix's inverse by the pattern of its factor: Takahashi's equations.

Columns of equal patterns are a front, a dense matrix of its k columns and the m rows below them.
With the unit lower triangle ``l`` of a front, the rows ``b`` below it and its pivots ``d``, and
``z`` of its rows from the front above, the inverse is ``[[inv(l.T) / d @ inv(l) + w.T @ z @ w,
-w.T @ z], [-z @ w, z]]`` for ``w = b @ inv(l)``.

Source: K. Takahashi, J. Fagan, M. Chin, Formation of a sparse bus impedance matrix, 8th PICA
Conference, 1973.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SLACK = 0.2
"""The fraction of zeros that a front may have so that there are fewer fronts."""


class Fronts:
    """The pattern of the factor of a symmetric matrix.

    Args:
        rows: The row of each stored element on or below the diagonal, in the order of elimination.
        columns: The column of each stored element.
        n: The number of rows.
    """

    def __init__(self, rows: Array, columns: Array, n: int) -> None:
        borders = _rows_below_diagonal(rows, columns, n)
        self.n, self.starts = n, _first_columns(borders)
        ends = [*self.starts[1:], n]
        self.rows = [
            np.concatenate([np.arange(a, b), borders[b - 1]])
            for a, b in zip(self.starts, ends, strict=True)
        ]
        self.widths = np.diff([*self.starts, n])
        self.front = np.repeat(np.arange(len(self.widths)), self.widths)
        sizes = [len(x) for x in self.rows]
        self.row_starts = np.concatenate([[0], np.cumsum(sizes)])
        self.panels = np.concatenate([[0], np.cumsum(sizes * self.widths)])
        self.keys = np.concatenate(self.rows) + np.repeat(np.arange(len(sizes)), sizes) * n
        self.parents = [
            int(self.front[x[k]]) if len(x) > k else -1
            for x, k in zip(self.rows, self.widths, strict=True)
        ]
        self.border_in_parent = [
            np.searchsorted(self.rows[p], x[k:]) if p >= 0 else None
            for x, k, p in zip(self.rows, self.widths, self.parents, strict=True)
        ]
        self.children = np.bincount([p for p in self.parents if p >= 0], minlength=len(sizes))
        self.elements = self.panel_indices(rows, columns)

    def panel_indices(self, rows: Array, columns: Array) -> Array:
        """Return the indices of elements of the factor in the panels of all fronts."""
        front = self.front[columns]
        row = np.searchsorted(self.keys, rows + front * self.n) - self.row_starts[front]
        first = np.asarray(self.starts, np.int64)[front]
        indices: Array = self.panels[front] + row * self.widths[front] + columns - first
        return indices

    def inverse(self, lower: Any, pivots: Array) -> Array:
        """Return the stored elements of the inverse of ``lower @ diag(pivots) @ lower.T``."""
        panels = np.zeros(self.panels[-1], pivots.dtype)
        entries = lower.tocoo()
        used = entries.data != 0
        columns = entries.col[used]
        panels[self.panel_indices(entries.row[used], columns)] = entries.data[used]
        waiting, above = self.children.copy(), dict[int, Array]()
        for i in range(len(self.rows) - 1, -1, -1):
            k, parent, rows = int(self.widths[i]), self.parents[i], self.border_in_parent[i]
            panel = panels[self.panels[i] : self.panels[i + 1]].reshape(-1, k)
            first = self.starts[i]
            root = np.linalg.inv(panel[:k]) if k > 1 else panel[:1]
            square = (root.T / pivots[first : first + k]) @ root
            z: Any = 0.0
            if rows is not None:
                z = above[parent][rows[:, None], rows]
                w = panel[k:] @ root
                below = -(z @ w)
                square -= w.T @ below
                panel[k:] = below
                waiting[parent] -= 1
                if not waiting[parent]:
                    del above[parent]
            panel[:k] = square
            if waiting[i]:
                above[i] = dense = np.empty((len(panel), len(panel)), panel.dtype)
                dense[:, :k], dense[:k, k:], dense[k:, k:] = panel, panel[k:].T, z
        return panels[self.elements]


def _rows_below_diagonal(rows: Array, columns: Array, n: int) -> list[Array]:
    below = rows > columns
    keys = np.unique(columns[below] * n + rows[below]) if n else rows
    bounds = np.searchsorted(keys, np.arange(n + 1) * n).tolist()
    own = keys % max(n, 1)
    pending, borders = defaultdict[int, list[Array]](list), list[Array]()
    for j, (a, b) in enumerate(pairwise(bounds)):
        rows_below = [own[a:b], *pending.pop(j, ())]
        border = np.unique(np.concatenate(rows_below)) if len(rows_below) > 1 else rows_below[0]
        if len(border):
            pending[int(border[0])].append(border[1:])
        borders.append(border)
    return borders


def _first_columns(borders: list[Array]) -> list[int]:
    starts, zeros, size = list[int](), 0, 0
    for j, border in enumerate(borders):
        before = borders[j - 1] if j else border
        if j and len(before) and before[0] == j:
            width = j - starts[-1]
            added = width * (len(border) + 1 - len(before))
            if zeros + added <= SLACK * (size + len(border) + 1):
                zeros, size = zeros + added, size + added + len(border) + 1
                continue
        starts.append(j)
        zeros, size = 0, len(border) + 1
    return starts
