"""Cases of graphc.tensor.signal."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as reference

import graphc.tensor as gt
from tests.contract.case import FLOATING, Case

own = gt.signal
NUMBERS = ("int32", "float32", "float64", "complex128")
IMAGES = ((5, 4), (3, 2))


def _each(f: Any, a: Any, b: Any) -> Any:
    """A function of two arrays' last two axes, for each of their leading axes."""
    *batch, _, _ = np.broadcast_shapes((*a.shape[:-2], 1, 1), (*b.shape[:-2], 1, 1))
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    whole = [f(a[i], b[i]) for i in np.ndindex(*batch)]
    return np.reshape(whole, (*batch, *whole[0].shape))


def _correlate_images(x: Any, w: Any, step: int) -> Any:
    """Batches of images with channels, by SciPy's correlation of each pair of channels."""
    return np.array(
        [
            [
                sum(
                    reference.correlate2d(image, kernel, "valid")
                    for image, kernel in zip(images, kernels, strict=True)
                )
                for kernels in w
            ]
            for images in x
        ]
    )[:, :, ::step, ::step].astype(x.dtype)


def _windows(x: Any, rows: int, columns: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (rows, columns), (2, 3))


FAMILIES: dict[str, dict[str, Case]] = {
    "signal": {
        "conv2d": Case(
            own.conv2d, ((2, 3, 5, 4), (4, 3, 3, 2)), ("int32", "float32", "float64"),
            lambda x, w: _correlate_images(x, w, 1),
        ),
        "conv2d with strides": Case(
            lambda x, w: own.conv2d(x, w, 2), ((2, 3, 6, 5), (4, 3, 3, 2)), ("float32", "float64"),
            lambda x, w: _correlate_images(x, w, 2), static=True,
        ),
        "max_pool2d": Case(
            lambda x: own.max_pool2d(x, (2, 3), 1), ((2, 3, 5, 7),), ("int32", "float64"),
            lambda x: _windows(x, 2, 3).max((4, 5)),
        ),
        "avg_pool2d": Case(
            lambda x: own.avg_pool2d(x, (2, 3), 1), ((2, 3, 5, 7),), ("float32", "float64"),
            lambda x: _windows(x, 2, 3).mean((4, 5)),
        ),
        "convolve1d of batches": Case(
            lambda a, b: own.convolve1d(a[:, None], b), ((2, 5), (3, 4)), (*NUMBERS, *FLOATING),
            lambda a, b: np.array([[np.convolve(x, y) for y in b] for x in a]),
        ),
        "convolve1d of pairs": Case(
            lambda a, b: own.convolve1d(a, b, "same"), ((2, 3, 5), (2, 3, 2)), NUMBERS,
            lambda a, b: _each(
                lambda x, y: np.array([np.convolve(*xy, "same") for xy in zip(x, y, strict=True)]),
                a, b,
            ),
        ),
        "convolve1d of a batch": Case(
            lambda a, b: own.convolve1d(a, b, "valid"), ((3, 6), (2,)), NUMBERS,
            lambda a, b: np.array([np.convolve(x, b, "valid") for x in a]),
        ),
        "convolve1d with a batch": Case(
            lambda a, b: own.convolve1d(a, b, "valid"), ((2,), (3, 6)), NUMBERS,
            lambda a, b: np.array([np.convolve(x, a, "valid") for x in b]),
        ),
        "convolve1d with none": Case(
            own.convolve1d, ((2,), (0, 6)), NUMBERS,
            lambda a, b: np.zeros((0, 7), a.dtype),
        ),
        "convolve": Case(
            lambda a, b: own.convolve(a, b, "same"), ((3, 2, 4), (2, 2, 3)), NUMBERS,
            lambda a, b: reference.convolve(a, b, "same"),
        ),
        "correlate": Case(
            own.correlate, IMAGES, NUMBERS, lambda a, b: reference.correlate(a, b, method="direct")
        ),
        "correlate by transforms": Case(
            lambda a, b: own.correlate(a, b, "valid", "fft"), IMAGES, NUMBERS,
            lambda a, b: reference.correlate(a, b, "valid", method="direct"), static=True,
        ),
        "fftconvolve": Case(
            own.fftconvolve, IMAGES, ("float32", "float64", "complex128"), reference.fftconvolve
        ),
        "fftconvolve of half-width floats": Case(
            own.fftconvolve, IMAGES, FLOATING,
            lambda a, b: reference.convolve2d(a, b).astype(a.dtype),
        ),
        "fftconvolve over an axis": Case(
            lambda a, b: own.fftconvolve(a, b, "same", 0), ((5, 3), (3, 3)), NUMBERS[1:],
            lambda a, b: reference.fftconvolve(a, b, "same", 0),
        ),
        "convolve2d of batches": Case(
            lambda a, b: own.convolve2d(a[:, None], b), ((2, 4, 3), (3, 2, 2)), NUMBERS,
            lambda a, b: _each(reference.convolve2d, a[:, None], b),
        ),
        "convolve2d by transforms": Case(
            lambda a, b: own.convolve2d(a, b, method="fft"), ((2, 4, 3), (2, 2, 2)), NUMBERS,
            lambda a, b: _each(reference.convolve2d, a, b),
        ),
        "convolve2d of a torus": Case(
            lambda a, b: own.convolve2d(a, b, "same", "wrap"), IMAGES, NUMBERS,
            lambda a, b: reference.convolve2d(a, b, "same", "wrap"),
        ),
        "convolve2d within mirrors": Case(
            lambda a, b: own.convolve2d(a, b, "full", "symm"), IMAGES, NUMBERS,
            lambda a, b: reference.convolve2d(a, b, "full", "symm"), static=True,
        ),
        "correlate2d with a border": Case(
            lambda a, b: own.correlate2d(a, b, "same", fillvalue=2), IMAGES, NUMBERS,
            lambda a, b: reference.correlate2d(a, b, "same", fillvalue=2),
        ),
    },
}  # fmt: skip
