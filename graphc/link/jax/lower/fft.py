"""Fourier transforms in ``jax.numpy``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from graphc.link.jax.backend import backend
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier, needs_elements

MOST = 3
"""So many axes JAX transforms at once."""


@backend.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    """Transform a few axes at a time."""
    transform = jnp.fft.ifftn if op.inverse else jnp.fft.fftn
    for axis in op.axes:
        needs_elements(op, x.shape[axis])
    if not x.size:
        return x
    for start in range(0, len(op.axes), MOST):
        x = transform(x, axes=op.axes[start : start + MOST], norm=op.norm)
    return x


@backend.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    """Transform real input; return the non-negative frequencies."""
    needs_elements(op, x.shape[op.axis])
    return jnp.fft.rfft(x, axis=op.axis, norm=op.norm)


@backend.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Invert the real transform; the length is a Python integer here."""
    return jnp.fft.irfft(x, op.count(x, symbolic), op.axis, op.norm)
