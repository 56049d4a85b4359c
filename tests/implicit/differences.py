"""Gradients by central differences."""

from __future__ import annotations

from typing import Any

import numpy as np


def differences(f: Any, x: Any, step: float = 1e-5) -> Any:
    """The gradient by central differences."""
    x = np.asarray(x, float)
    found = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        d = np.zeros_like(x)
        d[i] = step
        found[i] = (f(x + d) - f(x - d)) / (2 * step)
    return found
