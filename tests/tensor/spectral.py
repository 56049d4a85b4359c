"""Matrices to decompose, and what a backend makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import graphc
from graphc.ir import TensorType
from tests.modes import uncompiled

__all__ = ["TIGHT", "adjoint", "batches", "found", "hermitian", "random", "ways"]

TIGHT = {"float32": 3e-5, "complex64": 3e-5, "float64": 1e-11, "complex128": 1e-11}
"""Of results of magnitude 1: some hundred roundings."""

FLOATS = {"NUMPY": [*TIGHT], "JAX": [*TIGHT], "MLX": ["float32", "float64", "complex64"]}
"""The dtypes that a backend has."""


def ways(mode: str) -> list[str]:
    """The dtypes that a backend computes spectra in."""
    return FLOATS[mode]


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Numbers about as large as 1."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Matrices that are their own adjoints."""
    x = random(shape, dtype, seed)
    return x + adjoint(x)


@st.composite
def batches(draw: Any, square: bool = False) -> np.ndarray:
    """Matrices of any dtype that LAPACK takes: none, empty ones, single ones, batches of them."""
    front = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 2)]))
    m = draw(st.integers(0, 5))
    n = m if square else draw(st.integers(0, 5))
    return random((*front, m, n), draw(st.sampled_from([*TIGHT])), draw(st.integers(0, 99)))


def found(mode: str, build: Callable[..., Any], *values: Any) -> list[Any]:
    """The results on a backend, of arrays whose lengths it is not told of."""
    xs = [TensorType(v.dtype, (None,) * v.ndim)() for v in values]
    outputs = build(*xs)
    outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    with graphc.config.change_flags(recompile="ignore"):
        f = graphc.function(xs, outputs, uncompiled(mode), returns="numpy")
        return f(*values)  # type: ignore[no-any-return]
