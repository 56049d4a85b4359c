"""How many letters to insert, delete or replace: rows of a table, and in each its columns."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

PAIRS = [("kitten", "sitting"), ("saturday", "sunday"), ("a", "abc"), ("flaw", "lawn")]


def program() -> list[Any]:
    a, b = pt.lvectors("a", "b")

    def row(letter: Any, above: Any) -> Any:
        def column(other: Any, up: Any, corner: Any, left: Any) -> Any:
            replaced = corner + pt.neq(letter, other)
            return pt.minimum(replaced, pt.minimum(up, left) + 1)

        first = above[0] + 1
        rest = graphc.scan(column, [b, above[1:], above[:-1]], outputs_info=first)
        return pt.concatenate([first[None], rest])

    last = graphc.reduce(row, a, outputs_info=pt.arange(b.shape[0] + 1))
    distance = graphc.function([a, b], last[-1])
    return [distance(*(np.array([*map(ord, word)]) for word in pair)) for pair in PAIRS]


@cache
def distance(a: str, b: str) -> int:
    """The distance of two words by that of shorter ones."""
    if not a or not b:
        return len(a) + len(b)
    replaced = distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(replaced, distance(a[1:], b) + 1, distance(a, b[1:]) + 1)


def expected() -> list[Any]:
    return [distance(*pair) for pair in PAIRS]
