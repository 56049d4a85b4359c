"""The normal distribution of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import here, where
from graphc.random.distribution import (
    batch_lengths,
    entered,
    given,
    own_float_dtype,
    rng_of,
    with_next,
)
from graphc.random.normal import normals
from graphc.tensor.cholesky import cholesky
from graphc.tensor.dot import matvec
from graphc.tensor.eigen import eigh
from graphc.tensor.elementwise import maximum, sqrt
from graphc.tensor.shape import length
from graphc.tensor.svd import svd
from graphc.tensor.tensor import Tensor

__all__: list[str] = []


def _by_cholesky(cov: Tensor) -> Tensor:
    return cholesky(cov)


def _by_svd(cov: Tensor) -> Tensor:
    u, s, _ = svd(cov)
    return _symmetric(s, u)


def _by_eigh(cov: Tensor) -> Tensor:
    return _symmetric(*eigh(cov))


def _symmetric(w: Tensor, v: Tensor) -> Tensor:
    """The one root that is symmetric: signs and order of vectors do not matter."""
    return (v * sqrt(maximum(w, 0))[..., None, :]) @ v.mT


ROOTS = {"cholesky": _by_cholesky, "svd": _by_svd, "eigh": _by_eigh}
"""Matrices whose product with their transpose is a covariance."""


@entered
def multivariate_normal(  # noqa: PLR0913
    mean: Any = None,
    cov: Any = None,
    size: Any = None,
    *,
    method: str = "cholesky",
    rng: Any = None,
    dtype: Any = None,
    return_next_rng: bool = False,
) -> Any:
    """Vectors of the normal distribution: the draws of ``jax.random.multivariate_normal``.

    Args:
        mean: Vectors in the last axis; 0, of one element, by default.
        cov: Covariances, symmetric matrices in the last two axes; the identity by default.
        size: The shape of the batch of vectors, as for ``normal``.
        method: How a root of the covariance is found: ``"cholesky"``, which gives NaN where it is
            not positive definite, or the symmetric one by ``"svd"`` or ``"eigh"``, where it may be
            singular. Draws are those of JAX by the first alone.
        rng: The key, as for ``normal``.
        dtype: That of the draws, as for ``normal``.
        return_next_rng: Give a pair: the next key, and the draw.

    Returns:
        An array of the batch's shape and, as the last axis, the mean's.

    Raises:
        ArgumentError: No such method.
        ShapeError: The mean is no vector or the covariance no matrix, or their lengths differ.

    Example:
        >>> import graphc.tensor as gt
        >>> covariance = [[1.0, 0.9], [0.9, 1.0]]
        >>> gt.random.multivariate_normal([0.0, 10.0], covariance, size=5).type
        float64[5, 2]
    """
    if method not in ROOTS:
        raise ArgumentError(
            f"multivariate_normal: there is no method={method!r}.",
            f"Use one of {', '.join(ROOTS)}.",
            where(here()),
        )
    title = "multivariate_normal"
    if cov is None:
        cov = np.eye(1, dtype=config.floatX)
    mean = np.zeros(1) if mean is None else mean
    kind = own_float_dtype(title, [mean, cov], dtype)
    mean, cov = given(title, [mean, cov], kind)
    shape = tuple(batch_lengths(title, size, [mean, cov], [1, 2]))
    known = {n for n in (mean.type.shape[-1], *cov.type.shape[-2:]) if n is not None}
    if len(known) > 1:
        raise ShapeError(
            f"{title}: the mean {mean!r} and the covariance {cov!r} differ in length.",
            "Give it a row and a column for each element of the mean.",
            where(here()),
        )
    key = rng_of(title, rng)
    noise = normals(key, (*shape, length(cov, -1)), kind)
    return with_next(key, mean + matvec(ROOTS[method](cov), noise), return_next_rng)
