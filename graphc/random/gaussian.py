"""The normal distribution, its truncations and vectors, and transforms of normal draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.config import config
from graphc.errors import ArgumentError, ShapeError
from graphc.grad.barriers import disconnected_grad
from graphc.random import distribution as distributions
from graphc.random.keys import Lengths, child
from graphc.random.reparameterized import ReparameterizedDraw
from graphc.random.uniform import FRACTION, uniforms
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import nextafter
from graphc.tensor.core.exponential import exp, log, log1p, logaddexp
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike
from graphc.tensor.linalg.cholesky import cholesky
from graphc.tensor.linalg.dot import matvec
from graphc.tensor.linalg.eigen import eigh
from graphc.tensor.linalg.svd import svd
from graphc.tensor.special.special import erf, erfcx, erfinv, log_ndtr, ndtri_exp

__all__ = [
    "halfnormal", "lognormal", "multivariate_normal", "normal", "standard_normal", "truncnorm",
    "wald",
]  # fmt: skip


def least_above_minus_one(dtype: str) -> float:
    """Return the smallest uniform number above -1."""
    return 2.0 ** -(FRACTION[dtype] + 1) - 1


def normals(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Draw normal numbers of mean 0 and variance 1, as ``jax.random.normal``."""
    return math.sqrt(2) * erfinv(uniforms(key, shape, dtype, least_above_minus_one(dtype), 1.0))


@distributions.distribution
def normal(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from the normal distribution.

    Args:
        loc: The mean.
        scale: The standard deviation.

    Distribution:
        - density at x: ``exp(-(((x - loc) / scale)**2) / 2) / (scale * sqrt(2 * pi))``
        - mean: ``loc``
        - variance: ``scale**2``
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.normal(10.0, [0.1, 1.0], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").round(4).tolist()
        [9.9794, 9.2152]
    """
    return loc + scale * normals(key, shape, dtype)  # type: ignore[no-any-return]


@distributions.distribution
def standard_normal(key: Tensor, shape: Lengths, dtype: str) -> Tensor:
    """Draw from the normal distribution of mean 0 and variance 1.

    Distribution:
        - density at x: ``exp(-(x**2) / 2) / sqrt(2 * pi)``
        - mean: ``0``
        - variance: ``1``

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.standard_normal(size=(2, 3), rng=gt.random.key(0)).type
        float64[2, 3]
    """
    return normals(key, shape, dtype)


@distributions.distribution
def lognormal(key: Tensor, shape: Lengths, dtype: str, mean: Any = 0.0, sigma: Any = 1.0) -> Tensor:
    """Draw from the log-normal distribution: their logarithms are normal.

    Args:
        mean: The mean of the logarithm.
        sigma: The standard deviation of the logarithm.

    Distribution:
        - density at x: ``exp(-(((log(x) - mean) / sigma)**2) / 2) / (x * sigma * sqrt(2
          * pi))``, where ``x > 0``
        - mean: ``exp(mean + sigma**2 / 2)``
        - variance: ``(exp(sigma**2) - 1) * exp(2 * mean + sigma**2)``
        - draws are differentiable in mean and sigma

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.lognormal(0.0, [0.5, 1.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return exp(mean + sigma * normals(key, shape, dtype))


@distributions.distribution
def halfnormal(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw absolute values of normal numbers, plus ``loc``.

    Args:
        loc: The lower end.
        scale: The standard deviation of the normal distribution.

    Distribution:
        - density at x: ``2 * exp(-(((x - loc) / scale)**2) / 2) / (scale * sqrt(2 *
          pi))``, where ``x >= loc``
        - mean: ``loc + scale * sqrt(2 / pi)``
        - variance: ``scale**2 * (1 - 2 / pi)``
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.halfnormal(scale=[0.5, 1.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * ew.abs(normals(key, shape, dtype))  # type: ignore[no-any-return]


TAIL_DISTANCE = 1.0
"""The distance from which draws invert the logarithm of the tail probability: the probability
itself rounds to 0 or 1."""


def _draw_in_tail(u: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Draw negative numbers with cumulative probabilities between the ends' probabilities."""
    return ndtri_exp(logaddexp(log1p(-u) + _log_probability(near), log(u) + _log_probability(far)))


def _log_probability(x: Tensor) -> Any:
    """Return the log of the cumulative probability; at -inf its gradient is zero."""
    return ew.where(ew.isinf(x), -np.inf, log_ndtr(ew.where(ew.isinf(x), -2, x)))


@distributions.distribution
def truncnorm(  # noqa: PLR0913, PLR0917
    key: Tensor, shape: Lengths, dtype: str, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0
) -> Tensor:
    """Draw from a truncated normal distribution, differentiable in all parameters.

    Args:
        a: The lower end, in standard deviations from ``loc``; may be -inf.
        b: The upper end, in standard deviations from ``loc``; may be inf.
        loc: The mean of the distribution before truncation.
        scale: The standard deviation before truncation, positive.

    Distribution:
        - density at x: ``exp(-(((x - loc) / scale)**2) / 2) / (scale * sqrt(2 * pi) *
          (ndtr(b) - ndtr(a)))``, where ``a <= (x - loc) / scale <= b``
        - mean: ``loc + scale * (exp(-(a**2) / 2) - exp(-(b**2) / 2)) / (sqrt(2 * pi) *
          (ndtr(b) - ndtr(a)))``
        - variance: ``scale**2 * (1 + (a * exp(-(a**2) / 2) - b * exp(-(b**2) / 2)) /
          (sqrt(2 * pi) * (ndtr(b) - ndtr(a)))) - (mean - loc)**2``
        - draws are differentiable in all parameters

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.truncnorm(0.0, [0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype)
    in_right_tail, in_left_tail = ew.greater(a, TAIL_DISTANCE), ew.less(b, -TAIL_DISTANCE)
    tail = ew.logical_or(in_right_tail, in_left_tail)
    low, high = erf(ew.where(tail, 0, a) / math.sqrt(2)), erf(ew.where(tail, 1, b) / math.sqrt(2))
    middle = math.sqrt(2) * erfinv(ew.maximum(low, u * (high - low) + low))
    # The right tail is the mirrored left tail.
    near = ew.where(in_right_tail, -a, ew.where(in_left_tail, a, -1))
    far = ew.where(in_right_tail, -b, ew.where(in_left_tail, b, -2))
    outer = _draw_in_tail(u, near, far)
    x = ew.where(in_right_tail, -outer, ew.where(in_left_tail, outer, middle))
    first = nextafter(disconnected_grad(a), np.inf)
    last = nextafter(disconnected_grad(b), -np.inf)
    return distributions.nan_unless(ew.less_equal(a, b), loc + scale * ew.clip(x, first, last))


def _by_svd(cov: Tensor) -> Tensor:
    u, s, _ = svd(cov)
    return _symmetric_root(s, u)


def _symmetric_root(w: Tensor, v: Tensor) -> Tensor:
    """Return the symmetric square root, which depends on no sign or order of eigenvectors."""
    return (v * ew.sqrt(ew.maximum(w, 0))[..., None, :]) @ v.mT


ROOTS: dict[str, Callable[[Tensor], Tensor]] = {
    "cholesky": cholesky,
    "svd": _by_svd,
    "eigh": lambda cov: _symmetric_root(*eigh(cov)),
}
"""Functions from a covariance C to a matrix R with R @ R.T == C."""


@distributions.register_distribution
def multivariate_normal(  # noqa: PLR0913
    mean: TensorLike | None = None,
    cov: TensorLike | None = None,
    size: TensorLike | None = None,
    *,
    method: str = "cholesky",
    rng: TensorLike | None = None,
    dtype: Any = None,
    return_next_rng: bool = False,
) -> distributions.Drawn:
    """Draw normal vectors, as ``jax.random.multivariate_normal`` does.

    Args:
        mean: Vectors in the last axis; a single 0 by default.
        cov: Covariances, symmetric matrices in the last two axes; the identity by default.
        size: The shape of the batch of vectors, as for ``normal``.
        method: The root of the covariance: ``"cholesky"``, which is NaN unless the covariance is
            positive definite, or the symmetric root by ``"svd"`` or ``"eigh"``, which accept a
            singular covariance. Only the first returns JAX's draws.
        rng: The key, as for ``normal``.
        dtype: The dtype of the draws, as for ``normal``.
        return_next_rng: Return a pair of the next key and the draw.

    Distribution:
        - density at x: ``exp(-(x - mean) @ inv(cov) @ (x - mean) / 2) / sqrt(det(2 * pi
          * cov))``
        - mean: ``mean``
        - covariance: ``cov``
        - draws are differentiable in mean and cov

    Returns:
        An array of the batch's shape, with the mean's axis last.

    Raises:
        ArgumentError: If the method is unknown.
        ShapeError: If the mean is no vector, the covariance no matrix, or their lengths differ.

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
        )
    title = "multivariate_normal"
    distributions.refuse_keys(title, mean, cov, size)
    values = [
        np.zeros(1) if mean is None else mean,
        np.eye(1, dtype=config.floatX) if cov is None else cov,
    ]
    float_dtype = distributions.own_float_dtype(title, values, dtype)
    params: list[Any] = distributions.to_arrays(title, values, float_dtype)
    center, spread = params
    shape = tuple(distributions.batch_lengths(title, size, params, [1, 2]))
    static = {n for n in (center.type.shape[-1], *spread.type.shape[-2:]) if n is not None}
    if len(static) > 1:
        raise ShapeError(
            f"{title}: the mean {center!r} and the covariance {spread!r} differ in length.",
            "Give it a row and a column for each element of the mean.",
        )
    key = distributions.rng_of(title, rng)
    noise = normals(key, (*shape, length(spread, -1)), float_dtype)
    return distributions.with_next(
        key, center + matvec(ROOTS[method](spread), noise), return_next_rng
    )


@dataclass(frozen=True, slots=True)
class Wald(ReparameterizedDraw):
    """A Wald draw of mean 1 and scale a, from a normal and a uniform number.

    Source: Michael, Schucany & Haas, Generating random variates using transformations with multiple
    roots, The American Statistician 30(2), 1976.
    """

    name = "random_wald"

    def draw(self, z: Tensor, u: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """Return one of two reciprocal roots, chosen by the uniform number u."""
        t = z * z / (2 * a)
        root = 1 + t + ew.sqrt(t * (2 + t))
        return ew.where(ew.less_equal(u, root / (1 + root)), 1 / root, root)

    def derivatives(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """Return the derivative of the quantile, without terms that cancel."""
        c = ew.sqrt(a / (2 * y)) * (1 + y)
        rest = 1 - c * math.sqrt(math.pi) * erfcx(c)
        return (y / a * ((1 - y) + 2 * y * rest) / (1 + y),)


@distributions.distribution
def wald(key: Tensor, shape: Lengths, dtype: str, mean: Any = 1.0, scale: Any = 1.0) -> Tensor:
    """Draw from the Wald (or inverse Gaussian) distribution, differentiable in both parameters.

    Args:
        mean: The mean, positive.
        scale: The cube of the mean over the variance, positive.

    Distribution:
        - density at x: ``sqrt(scale / (2 * pi * x**3)) * exp(-scale * (x - mean)**2 /
          (2 * mean**2 * x))``, where ``x > 0``
        - mean: ``mean``
        - variance: ``mean**3 / scale``
        - draws are differentiable in mean and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.wald([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    z = normals(child(key, 0), shape, dtype)
    u = uniforms(child(key, 1), shape, dtype)
    return mean * Tensor.make(Wald(), z, u, broadcast_to(scale / mean, shape))  # type: ignore[no-any-return]
