"""Parts of a graph replaced: clone_replace, givens, and gradients by what is in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    x, y = pt.dscalars("x", "y")
    z = pt.exp(x) * y
    swapped = graphc.clone_replace(z, replace={x: y, y: x})
    by_formula = graphc.function([x], z, givens=[(y, x + 1)])
    middle = x * y
    cost = middle**2 + middle
    inside = graphc.grad(cost, middle)
    f = graphc.function([x, y], [z, swapped, inside])
    return [*f(0.5, 2.0), by_formula(0.5)]


def expected() -> list[Any]:
    return [np.exp(0.5) * 2, np.exp(2.0) * 0.5, 3.0, np.exp(0.5) * 1.5]
