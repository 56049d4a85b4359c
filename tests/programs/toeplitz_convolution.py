"""A convolution as a product with a banded matrix made by an index."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

import graphc
import graphc.tensor as pt

SIGNAL, KERNEL = np.array([1.0, -2.0, 0.5, 3.0, 4.0, -1.0]), np.array([0.25, 0.5, -0.3])


def program() -> list[Any]:
    signal, kernel = pt.vectors("signal", "kernel")
    n, k = signal.shape[0], kernel.shape[0]
    place = pt.arange(n + k - 1)[:, None] - pt.arange(n)[None, :]
    inside = (place >= 0) & (place < k)
    matrix = pt.switch(inside, kernel[pt.clip(place, 0, k - 1)], 0)
    full = matrix @ signal
    f = graphc.function(
        [signal, kernel], [matrix, full, full[k - 1 : n], graphc.grad((full**2).sum(), kernel)]
    )
    return f(SIGNAL, KERNEL)


def expected() -> list[Any]:
    full = np.convolve(SIGNAL, KERNEL)
    return [
        linalg.toeplitz([*KERNEL, 0, 0, 0, 0, 0], np.r_[KERNEL[0], np.zeros(5)]),
        full,
        np.convolve(SIGNAL, KERNEL, mode="valid"),
        2 * np.correlate(full, SIGNAL, mode="valid"),
    ]
