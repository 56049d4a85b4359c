"""Cases of graphc.tensor.fft."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case, S, X

ANY = ("bool", "int8", "uint64", "float32", "float64", "complex64", "complex128")
WITHOUT_FLOAT64 = ("float32", "complex64", "complex128")
"""Where the result is real: MLX has no transform of float64."""

REALS = ("int16", "float32", "float64")

FAMILIES: dict[str, dict[str, Case]] = {
    "fft": {
        "fft": Case(lambda n, x: n.fft.fft(x), (X,), ANY),
        "fft of 1": Case(lambda n, x: n.fft.fft(x), ((3, 1),), ANY),
        "fft, cut": Case(lambda n, x: n.fft.fft(x, 2, 1, "ortho"), (X,), ANY),
        "fft of a known length": Case(
            lambda n, x: n.fft.fft(x, 7, 1, "forward"), (X,), ANY, static=True
        ),
        "ifft, padded": Case(lambda n, x: n.fft.ifft(x, 5, 0), (X,), ANY),
        "fft of none": Case(lambda n, x: n.fft.fft(x), ((0, 3),), ANY),
        "fftn": Case(lambda n, x: n.fft.fftn(x), (X,), ANY),
        "fftn of four axes": Case(lambda n, x: n.fft.fftn(x), ((2, 3, 2, 5),), ANY),
        "ifft2": Case(lambda n, x: n.fft.ifft2(x, (3, 5), norm="ortho"), (X,), ANY),
        "rfft, even": Case(lambda n, x: n.fft.rfft(x), (X,), REALS),
        "rfft, odd": Case(lambda n, x: n.fft.rfft(x, axis=1, norm="forward"), (X,), REALS),
        "rfft of 2": Case(lambda n, x: n.fft.rfft(x, axis=0, norm="ortho"), (X,), REALS),
        "rfft of 1": Case(lambda n, x: n.fft.rfft(x), ((3, 1),), REALS),
        "rfft of none": Case(lambda n, x: n.fft.rfft(x), ((0, 3),), REALS),
        "rfft as long as another": Case(
            lambda x, y: gt.fft.rfft(x, y.shape[0]), (X, (7,)), REALS,
            lambda x, y: np.fft.rfft(x, 7),
        ),
        "irfft, even": Case(lambda n, x: n.fft.irfft(x), (X,), WITHOUT_FLOAT64),
        "irfft, odd": Case(lambda n, x: n.fft.irfft(x, 7, norm="ortho"), (X,), WITHOUT_FLOAT64),
        "irfft of a known length": Case(
            lambda n, x: n.fft.irfft(x, axis=1, norm="forward"), (X,), WITHOUT_FLOAT64, static=True
        ),
        "irfft of 1": Case(lambda n, x: n.fft.irfft(x, 1), ((3, 1),), WITHOUT_FLOAT64),
        "irfft of none": Case(lambda n, x: n.fft.irfft(x), ((0, 3),), WITHOUT_FLOAT64),
        "irfft as long as another": Case(
            lambda x, y: gt.fft.irfft(x, y.shape[0], 1), (X, (5,)), WITHOUT_FLOAT64,
            lambda x, y: np.fft.irfft(x, 5, 1),
        ),
        "rfftn": Case(lambda n, x: n.fft.rfftn(x, (3, 5), (2, 0)), (X,), REALS),
        "irfftn": Case(lambda n, x: n.fft.irfftn(x, (3, 5), (2, 0)), (X,), WITHOUT_FLOAT64),
        "hfft": Case(lambda n, x: n.fft.hfft(x, 5, norm="ortho"), (X,), WITHOUT_FLOAT64),
        "ihfft": Case(lambda n, x: n.fft.ihfft(x, 5, norm="forward"), (X,), REALS),
        "fftshift": Case(lambda n, x: n.fft.fftshift(x, (0, 1)), (X,), ANY),
        "ifftshift": Case(lambda n, x: n.fft.ifftshift(x), (X,), ANY),
        "fftfreq": Case(lambda n, x: x + n.fft.fftfreq(5, 0.1), (S,), ("float64",)),
        "rfftfreq": Case(lambda n, x: x + n.fft.rfftfreq(6, 0.1), (S,), ("float64",)),
    },
}  # fmt: skip
