"""The fronts of a sparse factor: sets of columns that are eliminated together, as dense blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The time of a front of k columns and m rows below them, in units of a multiplication: of the
# calls that it takes, of moving an element, and of the products of a factor and its inverse.
CALL, MOVE = 20_000.0, 60.0


def _time(k: int, m: int) -> float:
    f = k + m
    return CALL + MOVE * f * f + k * (k * k + 3.0 * k * m + 4.0 * m * m)


@dataclass(frozen=True)
class Fronts:
    """A tree of fronts in postorder: each follows its children and all that is below them.

    Attributes:
        columns: The columns that each eliminates, in order.
        borders: The rows below them that are not zero, in order: columns of fronts that follow.
        parents: The front that eliminates the first row of the border; -1 where there is none.
    """

    columns: list[list[int]]
    borders: list[list[int]]
    parents: list[int]


def fronts(indptr: list[int], rows: list[int]) -> Fronts:
    """Return the fronts of a symmetric matrix whose columns are eliminated in their order.

    A column is a front; or it is joined with those that eliminate its children in the elimination
    tree, where working on the zeros this adds takes less time than working on a front more.

    Args:
        indptr: Where the rows of each column begin, and where the last ends.
        rows: The rows of each column that are below the diagonal.

    Source: J. Liu, The multifrontal method for sparse matrix solution, SIAM Review 34(1), 1992.
    """
    n = len(indptr) - 1
    children: list[list[int]] = [[] for _ in range(n)]
    borders: list[set[int]] = [set() for _ in range(n)]
    columns: list[list[int]] = [[] for _ in range(n)]
    times = [0.0] * n
    for j in range(n):
        border = set(rows[indptr[j] : indptr[j + 1]]).union(*[borders[c] for c in children[j]])
        border.discard(j)
        own, joined, m = [j], _time(1, len(border)), len(border)
        for c in sorted(children[j], key=lambda c: -len(columns[c])):
            together = _time(len(own) + len(columns[c]), m)
            if together <= joined + times[c]:
                joined, own = together, own + columns[c]
                columns[c] = []
                borders[c] = set()
        columns[j], borders[j], times[j] = own, border, joined
        if border:
            children[min(border)].append(j)
    return _assembled(columns, borders)


def _assembled(columns: list[list[int]], borders: list[set[int]]) -> Fronts:
    tops = [j for j, own in enumerate(columns) if own]
    eliminates = [0] * len(columns)
    for front, j in enumerate(tops):
        for column in columns[j]:
            eliminates[column] = front
    rows = [sorted(borders[j]) for j in tops]
    parents = [eliminates[border[0]] if border else -1 for border in rows]
    order = _postorder(parents)
    place = [-1] * (len(order) + 1)  # the last one of fronts without a parent
    for i, front in enumerate(order):
        place[front] = i
    return Fronts(
        [sorted(columns[tops[front]]) for front in order],
        [rows[front] for front in order],
        [place[parents[front]] for front in order],
    )


def _postorder(parents: list[int]) -> list[int]:
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for front, parent in enumerate(parents):
        children[parent].append(front)
    found, waiting = [], children[-1]
    while waiting:
        front = waiting.pop()
        found.append(front)
        waiting.extend(children[front])
    return found[::-1]
