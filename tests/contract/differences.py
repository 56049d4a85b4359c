"""Slopes by finite differences, for functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["SMOOTH", "difference", "slopes"]

STEP = 1e-3
"""Of the five-point difference: it truncates at STEP**4 and rounds at 2**-52 / STEP, both 1e-12."""

SMOOTH = 1e-9
"""How far a slope may be from that difference, relative to the slope and to 1."""

Array = np.ndarray[Any, Any]


def difference(f: Callable[[Any], Any], x: Any, direction: Any) -> Any:
    """The derivative of f at x along a direction."""
    step = STEP * direction
    near = f(x + step) - f(x - step)
    far = f(x + 2 * step) - f(x - 2 * step)
    return (8 * near - far) / (12 * STEP)


def slopes(cost: Callable[..., Any], xs: Sequence[Array]) -> list[Array]:
    """The gradient of a scalar by each array, element by element; df/dRe + i df/dIm if complex."""
    found = []
    for i, x in enumerate(xs):

        def along(moved: Any, i: int = i) -> Any:
            return cost(*xs[:i], moved, *xs[i + 1 :])

        slope = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            direction = np.zeros_like(x)
            direction[place] = 1
            slope[place] = difference(along, x, direction)
            if x.dtype.kind == "c":
                slope[place] += 1j * difference(along, x, 1j * direction)
        found.append(slope)
    return found
