"""Fourier transforms in ``jax.numpy``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import refuse
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier, needs_elements

MAX_AXES = 3
"""The largest number of axes that one call of JAX transforms."""


@backend.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    """Transform up to ``MAX_AXES`` axes at a time."""
    transform = jnp.fft.ifftn if op.inverse else jnp.fft.fftn
    refuse(op.name, *(x.shape[axis] for axis in op.axes))
    for axis in op.axes:
        needs_elements(op, x.shape[axis])
    if not x.size:
        return x
    for start in range(0, len(op.axes), MAX_AXES):
        x = transform(x, axes=op.axes[start : start + MAX_AXES], norm=op.norm)
    return _row_major(x)


@backend.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    """Transform real input; return the non-negative frequencies."""
    refuse(op.name, x.shape[op.axis])
    needs_elements(op, x.shape[op.axis])
    return _row_major(jnp.fft.rfft(x, axis=op.axis, norm=op.norm))


@backend.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Invert the real transform; the length is a Python integer here."""
    count = op.count(x, symbolic)
    refuse(op.name, x.shape[op.axis], count)
    return _row_major(jnp.fft.irfft(x, count, op.axis, op.norm))


def _row_major(y: Any) -> Any:
    """Return the array in row-major layout, whichever operation reads it.

    Matrix factorisations read columns, and XLA fails to compile a transform in that layout.
    """
    if y.ndim < 2:
        return y
    flat = lax.optimization_barrier(y.reshape(-1))  # type: ignore[no-untyped-call]
    return flat.reshape(y.shape)
