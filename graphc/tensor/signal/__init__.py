"""Convolution and correlation of signals and images, as in ``scipy.signal``."""

from graphc.lazy import listing
from graphc.tensor.signal.images import avg_pool2d, conv2d, max_pool2d
from graphc.tensor.signal.signal import (
    convolve,
    convolve1d,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)

__all__ = [
    "avg_pool2d",
    "conv2d",
    "convolve",
    "convolve1d",
    "convolve2d",
    "correlate",
    "correlate2d",
    "fftconvolve",
    "max_pool2d",
]

__dir__ = listing(globals())  # without the files of the folder
