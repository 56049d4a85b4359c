"""The fronts of a sparse factor in the order in which compiled passes visit them."""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.layout import Layout

Array = np.ndarray[Any, Any]


@cache
def kernels() -> ModuleType | None:
    """The compiled passes; None without Numba, or with one that does not fit NumPy."""
    try:
        return import_module("graphc.tensor.linalg.sparse.kernels")
    except ImportError:
        return None


class Traversal:
    """The fronts of a matrix as the passes take them, and the space that these need.

    Attributes:
        tree: The fronts.
        elements: The number of elements of all panels.
        updates: The most elements of updates that wait at a time, and of one.
        inverses: The most elements of inverses that fronts below need at a time.
    """

    def __init__(self, layout: Layout) -> None:
        k, m = layout.k, layout.m
        f = k + m
        parents = np.array(layout.tree.parents, np.int64)
        self.parents, self.m, self.f = parents.tolist(), m.tolist(), f.tolist()
        panel, border = _starts(k * f), _starts(m)
        children = [child for own in layout.children for child in own]
        update, waiting = self._stack(layout.children)
        inverse, self.inverses = self._path()
        front = np.repeat(np.arange(len(k)), np.diff(layout.element_starts))
        place = layout.element_column * f[front] + layout.element_row
        self.elements = int(panel[-1])
        self.updates = (waiting, int(m.max(initial=0)) ** 2)
        fields = (
            k, m, parents, panel, layout.starts, layout.order[layout.rows], border,
            layout.in_parents, _starts([len(x) for x in layout.children]), children,
            update, inverse, layout.element_starts, layout.element, place,
        )  # fmt: skip
        self.fields = [np.ascontiguousarray(x, np.int64) for x in fields]

    def _stack(self, children: list[list[int]]) -> tuple[list[int], int]:
        """Where updates wait: a front's comes where those of its children were, which are last."""
        places: list[int] = []
        end = most = 0
        for own, m in zip(children, self.m, strict=True):
            end = min([places[child] for child in own], default=end)
            places.append(end)
            end += m * m
            most = max(most, end)
        return places, most

    def _path(self) -> tuple[list[int], int]:
        """Where inverses are: a front's behind that of its parent."""
        places, most = [0] * len(self.f), 0
        for front in reversed(range(len(self.f))):
            parent = self.parents[front]
            if parent >= 0:
                places[front] = places[parent] + self.f[parent] ** 2
            most = max(most, places[front] + self.f[front] ** 2)
        return places, most

    @cached_property
    def tree(self) -> Any:
        """The arrays for the kernels."""
        module: Any = kernels()
        return module.Tree(*self.fields)


def _starts(counts: Any) -> Array:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
