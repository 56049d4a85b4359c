"""Convolution and correlation of signals and images, as in ``scipy.signal``."""

from graphc.lazy import listing
from graphc.tensor.signal.signal import (
    convolve,
    convolve1d,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)

__all__ = ["convolve", "convolve1d", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

__dir__ = listing(globals())  # without the files of the folder
