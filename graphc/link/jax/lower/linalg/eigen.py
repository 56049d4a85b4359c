"""Eigenvalues in ``jax.lax.linalg``; general matrices are decomposed on the CPU."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.lower.linalg.svd import are_finite, nan_unless
from graphc.tensor.linalg.eigen import Eig, Eigh, Eigvals, Eigvalsh


@backend.lower(Eigh)
def eigh(op: Eigh, x: Any) -> Any:
    """Decompose Hermitian matrices, given their lower triangles."""
    v, w = lax.linalg.eigh(x, symmetrize_input=False)
    finite = are_finite(jnp.tril(x))
    return nan_unless(finite, w), nan_unless(finite, v)


@backend.lower(Eigvalsh)
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    """Return the eigenvalues of Hermitian matrices, given their lower triangles."""
    w = jnp.linalg.eigvalsh(x, UPLO="L", symmetrize_input=False)
    return nan_unless(are_finite(jnp.tril(x)), w)


@backend.lower(Eig)
def eig(op: Eig, x: Any) -> Any:
    """Decompose by LAPACK; NaN for a matrix that is not finite."""
    return tuple(lax.linalg.eig(x, compute_left_eigenvectors=False))


@backend.lower(Eigvals)
def eigvals(op: Eigvals, x: Any) -> Any:
    (w,) = lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return w
