"""Shared variables: several functions on one state, swaps, and values put in by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    state = graphc.shared(0, name="state")
    step = pt.lscalar("step")
    add = graphc.function([step], state, updates=[(state, state + step)])
    subtract = graphc.function([step], state, updates=[(state, state - step)])
    before = [int(add(1)), int(add(300)), int(subtract(2))]
    state.set_value(-1)
    before.append(int(add(3)))
    a, b = graphc.shared(np.arange(3.0)), graphc.shared(np.ones(3))
    swap = graphc.function([], [a.sum(), b.sum()], updates=[(a, b), (b, a * 2)])
    sums = swap()
    skip = graphc.function([step], state * 2 + step, givens=[(state, step * 3)])
    return [np.array(before), state.get_value(), *sums, a.get_value(), b.get_value(), skip(5)]


def expected() -> list[Any]:
    return [np.array([0, 1, 301, -1]), 2, 3.0, 3.0, np.ones(3), np.array([0.0, 2.0, 4.0]), 35]
