"""Operations of PyMC's own: distributions that PyTensor lacks, and a few matrix functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.random as gr
import graphc.tensor as gt
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.elementwise import in_result
from graphc.interop.pytensor.random import draw, integers
from graphc.interop.pytensor.subgraph import by_perform
from graphc.tensor import linalg
from graphc.tensor.core.tensor import Tensor


def _truncated_normal(mu: Tensor, sigma: Tensor, lower: Any, upper: Any, **options: Any) -> Any:
    a, b = (lower - mu) / sigma, (upper - mu) / sigma
    return gr.truncnorm(a, b, mu, sigma, **options)


def _wald(mu: Tensor, lam: Tensor, alpha: Tensor, **options: Any) -> Any:
    mu, lam, alpha = gt.broadcast_arrays(mu, lam, alpha)
    following, y = gr.wald(mu, lam, **options)
    return following, y + alpha


def _discrete_uniform(lower: Tensor, upper: Tensor, **options: Any) -> Any:
    first, last = (gt.cast(x, "int64") for x in (lower, upper))
    return gr.integers(first, last + 1, **options)


def _clipped_beta(alpha: Tensor, beta: Tensor, **options: Any) -> Any:
    """No draw is 0 or 1, where the density may be infinite."""
    following, y = gr.beta(alpha, beta, **options)
    one = np.ones((), y.dtype)
    return following, gt.clip(y, np.nextafter(0 * one, one), np.nextafter(one, 0 * one))


def _normals(like: Tensor, rng: Tensor, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The next key, and two standard normal draws for each element."""
    following, first = gr.normal(gt.zeros_like(like), rng=rng, **options)
    following, second = gr.normal(gt.zeros_like(like), rng=following, **options)
    return following, first, second


def _skew_normal(mu: Tensor, sigma: Tensor, alpha: Tensor, **options: Any) -> Any:
    following, a, b = _normals(mu + sigma + alpha, **options)
    share = alpha / gt.sqrt(1 + alpha**2)
    return following, mu + sigma * (share * gt.abs(a) + gt.sqrt(1 - share**2) * b)


def _rice(b: Tensor, sigma: Tensor, **options: Any) -> Any:
    following, x, y = _normals(b + sigma, **options)
    return following, sigma * gt.hypot(x + b, y)


def _moyal(mu: Tensor, sigma: Tensor, **options: Any) -> Any:
    following, x = gr.normal(gt.zeros_like(mu + sigma), **options)
    return following, mu - sigma * gt.log(x**2)


def is_positive_definite(at: Application, x: Tensor) -> Tensor:
    return gt.all(gt.isfinite(linalg.cholesky(x)))


def log_determinant(at: Application, x: Tensor) -> Tensor:
    return linalg.slogdet(x).logabsdet


def batched_diagonal(at: Application, x: Tensor) -> Tensor:
    return gt.alloc_diag(x, 0, 1, 2)


PYMC: dict[str, Callable[..., Any]] = {
    "TruncatedNormalRV": draw(_truncated_normal),
    "WaldRV": draw(_wald),
    "DiscreteUniformRV": draw(integers(_discrete_uniform)),
    "MinibatchIndexRV": draw(integers(gr.integers)),
    "BetaClippedRV": draw(_clipped_beta),
    "SkewNormalRV": draw(_skew_normal),
    "RiceRV": draw(_rice),
    "MoyalRV": draw(_moyal),
    "I0e": in_result(gt.i0e),
    "I1e": in_result(gt.i1e),
    "SplineWrapper": by_perform,
    "PosDefMatrix": is_positive_definite,
    "LogDet": log_determinant,
    "BatchedDiag": batched_diagonal,
}
"""The converters of PyMC's classes, by name."""
