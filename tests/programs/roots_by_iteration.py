"""Roots by iteration until they settle, and how they move with what they are roots of."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt
from graphc import until


def program() -> list[Any]:
    a = pt.dscalar("a")

    def better(x: Any, a: Any) -> Any:
        new = 0.5 * (x + a / x)
        return new, until(pt.abs(new - x) < 1e-12)

    tries = graphc.scan(better, outputs_info=a, non_sequences=a, n_steps=100)
    root = tries[-1]

    def halved(ends: Any) -> Any:
        low, high = ends
        middle = (low + high) / 2
        below = pt.cos(middle) > middle
        return pt.where(below, middle, low), pt.where(below, high, middle)

    low, high = graphc.while_loop(
        lambda ends: ends[1] - ends[0] > 1e-10, halved, (pt.constant(0.0), pt.constant(1.0))
    )
    f = graphc.function([a], [root, graphc.grad(root, a), (low + high) / 2, tries[0]])
    return [*list(f(2.0)), len(graphc.function([a], tries)(2.0))]


def expected() -> list[Any]:
    x, steps = 2.0, 0
    while True:
        x, before, steps = 0.5 * (x + 2 / x), x, steps + 1
        if abs(x - before) < 1e-12:
            break
    return [np.sqrt(2), 0.5 / np.sqrt(2), 0.7390851332151607, 1.5, steps]
