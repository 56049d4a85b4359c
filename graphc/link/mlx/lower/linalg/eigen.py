"""Eigenvalues, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.linalg.svd import finite_part, nan_unless
from graphc.tensor.linalg.eigen import Eig, Eigh, Eigvals, Eigvalsh


@backend.lower(Eigh)
def eigh(op: Eigh, x: Any) -> Any:
    """Of the lower triangle; MLX does not tell where it is not finite."""
    finite, x = finite_part(x, mx.tril(x))
    w, v = mx.linalg.eigh(x, stream=mx.cpu)
    return nan_unless(finite, w, 1), nan_unless(finite, v, 2)


@backend.lower(Eigvalsh)
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    """Of the lower triangle, without vectors."""
    finite, x = finite_part(x, mx.tril(x))
    return nan_unless(finite, mx.linalg.eigvalsh(x, stream=mx.cpu), 1)


@backend.lower(Eig)
def eig(op: Eig, x: Any) -> Any:
    """The vectors are LAPACK's."""
    finite, x = finite_part(x, x)
    w, v = mx.linalg.eig(x, stream=mx.cpu)
    if x.dtype == mx.complex64 and x.size:
        v = _right(x, w, v)
    return nan_unless(finite, w, 1), nan_unless(finite, v, 2)


def _right(x: Any, w: Any, v: Any) -> Any:
    """The vectors or their conjugates: of complex matrices, MLX up to 0.32.4 gives the latter."""
    other = mx.conjugate(v)
    missed, others = (
        mx.sum(mx.abs(mx.matmul(x, y, stream=mx.cpu) - y * w[..., None, :]), axis=(-2, -1))
        for y in (v, other)
    )
    return mx.where((missed <= others)[..., None, None], v, other)


@backend.lower(Eigvals)
def eigvals(op: Eigvals, x: Any) -> Any:
    """Without vectors."""
    finite, x = finite_part(x, x)
    return nan_unless(finite, mx.linalg.eigvals(x, stream=mx.cpu), 1)
