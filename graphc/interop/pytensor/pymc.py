"""PyMC's operations: distributions that PyTensor lacks, and a few matrix functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc.random as gr
import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, Refusal, length
from graphc.interop.pytensor.elementwise import in_dtype, in_result
from graphc.interop.pytensor.perform import by_perform
from graphc.interop.pytensor.random import draw, integers, lengths_of
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
    following, y = gr.integers(first, last + 1, **options)
    return following, gt.where(first <= last, y, -1)


def _nan_if_negative(sigma: Tensor) -> Tensor:
    return gt.where(sigma >= 0, sigma, np.nan)


def _clipped_beta(alpha: Tensor, beta: Tensor, **options: Any) -> Any:
    """Draw, but never 0 or 1, where the density may be infinite."""
    following, y = gr.beta(alpha, beta, **options)
    one = np.ones((), y.dtype)
    return following, gt.clip(y, np.nextafter(0 * one, one), np.nextafter(one, 0 * one))


def _two_normals(like: Tensor, rng: Tensor, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    following, first = gr.normal(gt.zeros_like(like), rng=rng, **options)
    following, second = gr.normal(gt.zeros_like(like), rng=following, **options)
    return following, first, second


def _skew_normal(mu: Tensor, sigma: Tensor, alpha: Tensor, **options: Any) -> Any:
    following, a, b = _two_normals(mu + sigma + alpha, **options)
    sigma, share = _nan_if_negative(sigma), alpha / gt.sqrt(1 + alpha**2)
    return following, mu + sigma * (share * gt.abs(a) + gt.sqrt(1 - share**2) * b)


def _rice(b: Tensor, sigma: Tensor, **options: Any) -> Any:
    following, x, y = _two_normals(b + sigma, **options)
    return following, _nan_if_negative(sigma) * gt.hypot(x + _nan_if_negative(b), y)


def _moyal(mu: Tensor, sigma: Tensor, **options: Any) -> Any:
    following, x = gr.normal(gt.zeros_like(mu + sigma), **options)
    return following, mu - _nan_if_negative(sigma) * gt.log(x**2)


def _skew_student(a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor, **options: Any) -> Any:
    """Draw ``(2 * B - 1) / (2 * sqrt(B * (1 - B)))``, times a root, for a beta draw B.

    B is a ratio of gamma draws, so that neither B nor 1 - B rounds to zero.

    Source: Jones & Faddy, J. R. Stat. Soc. B 65(1), 2003.
    """
    a, b, *_ = gt.broadcast_arrays(a, b, mu, sigma)
    following, x = gr.gamma(a, **options)
    following, y = gr.gamma(b, **{**options, "rng": following})
    return following, mu + _nan_if_negative(sigma) * gt.sqrt(a + b) * (x - y) / (2 * gt.sqrt(x * y))


def _invert_cumulative(at: Application, key: Tensor, size: Any, *tables: Tensor) -> tuple[Any, Any]:
    """Invert a cumulative distribution that is quadratic between points."""
    if any(n != 1 for table in tables for n in table.type.shape[:-1]):
        raise Refusal("a batch of interpolated densities: draw them one by one, in a scan")
    x, density, cumulative = (table.ravel() for table in tables)
    following, u = gr.uniform(
        size=lengths_of(size), rng=key, dtype=at.type_of(1).dtype, return_next_rng=True
    )
    i = gt.clip(gt.searchsorted(cumulative, u, side="right") - 1, 0, x.shape[0] - 2)
    slope = (density[i + 1] - density[i]) / (x[i + 1] - x[i])
    # The root of density * t + slope / 2 * t**2 = area, also where the slope is zero.
    area = u - cumulative[i]
    root = density[i] + gt.sqrt(gt.maximum(density[i] ** 2 + 2 * slope * area, 0))
    return following, x[i] + gt.where(root > 0, 2 * area / gt.where(root > 0, root, 1), 0)


def _standard_normals(
    key: Tensor, size: Any, batch: Tensor, core: Sequence[Any], dtype: str
) -> Any:
    """Return the next key and standard normal draws of the shape ``(*batch shape, *core)``.

    The batch shape is the size if there is one, else the shape of the array ``batch``.
    """
    lengths = lengths_of(size)
    shape = list(batch.shape) if lengths is None else lengths
    return gr.normal(size=[*shape, *core], rng=key, dtype=dtype, return_next_rng=True)


def _matrix_normal(
    at: Application, key: Tensor, size: Any, mu: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Any, Any]:
    """Draw standard normals between the Cholesky factors of rows and columns."""
    batch = mu[..., 0, 0] + rows[..., 0, 0] + columns[..., 0, 0]
    core = (rows.shape[-2], columns.shape[-2])
    following, z = _standard_normals(key, size, batch, core, at.type_of(1).dtype)
    return following, mu + rows @ z @ gt.swapaxes(columns, -1, -2)


def _wishart(at: Application, key: Tensor, size: Any, nu: Tensor, scale: Tensor) -> tuple[Any, Any]:
    """Draw ``A @ A.T``, for A the scale's Cholesky factor times a triangular draw (Bartlett)."""
    n = scale.shape[-1]
    dtype = at.type_of(1).dtype
    nu = in_dtype(nu, dtype)
    batch = nu + scale[..., 0, 0]
    following, z = _standard_normals(key, size, batch, (n, n), dtype)
    degrees = nu[..., None] - gt.arange(n, dtype=dtype)
    following, squares = gr.chisquare(
        gt.broadcast_to(degrees, [*z.shape[:-2], n]), rng=following, return_next_rng=True
    )
    below = gt.tril(z, -1) + gt.eye(n, dtype=dtype) * gt.sqrt(squares)[..., None]
    factor = linalg.cholesky(scale) @ below
    return following, factor @ gt.swapaxes(factor, -1, -2)


def _stick_breaking(
    at: Application, key: Tensor, size: Any, alpha: Tensor, k: Tensor
) -> tuple[Any, Any]:
    """Draw weights, each a share of what the weights before it left; the last one is the rest."""
    lengths = lengths_of(size)
    shape = list(alpha.shape) if lengths is None else lengths
    following, shares = gr.beta(
        1.0,
        alpha[..., None],
        size=[*shape, length(k.ravel()[0])],
        rng=key,
        dtype=at.type_of(1).dtype,
        return_next_rng=True,
    )
    rest = gt.cumprod(1 - shares, axis=-1)
    one = gt.ones_like(rest[..., :1])
    before = gt.concatenate([one, rest[..., :-1]], axis=-1)
    return following, gt.concatenate([shares * before, rest[..., -1:]], axis=-1)


def _car(
    at: Application, key: Tensor, size: Any, mu: Tensor, w: Tensor, *rest: Tensor
) -> tuple[Any, Any]:
    """Draw normals of the precision ``tau * (D - alpha * W)``, where D has the sums of W's rows.

    NaN where W is no adjacency matrix, or alpha is not between -1 and 1.
    """
    dtype = at.type_of(1).dtype
    alpha, tau = (in_dtype(x, dtype)[..., None, None] for x in rest[:2])
    valid = gt.all(rest[2]) & (gt.abs(alpha[..., 0]) < 1)
    w = in_dtype(w, dtype)
    precision = tau * (gt.eye(w.shape[-1], dtype=dtype) * w.sum(-1)[..., None] - alpha * w)
    batch = mu[..., 0] + precision[..., 0, 0]
    following, z = _standard_normals(key, size, batch, (mu.shape[-1],), dtype)
    upper = gt.swapaxes(linalg.cholesky(precision), -1, -2)
    x = linalg.solve_triangular(upper, z[..., None], lower=False)
    return following, gt.where(valid, mu + x[..., 0], np.nan)


def no_draws(at: Application, *operands: Any) -> Any:
    raise Refusal("it is no proper distribution, and PyMC does not draw from it either")


PYMC: dict[str, Callable[..., Any]] = {
    "TruncatedNormalRV": draw(_truncated_normal),
    "WaldRV": draw(_wald),
    "DiscreteUniformRV": draw(integers(_discrete_uniform)),
    "MinibatchIndexRV": draw(integers(gr.integers)),
    "BetaClippedRV": draw(_clipped_beta),
    "SkewNormalRV": draw(_skew_normal),
    "RiceRV": draw(_rice),
    "MoyalRV": draw(_moyal),
    "SkewStudentTRV": draw(_skew_student),
    "InterpolatedRV": _invert_cumulative,
    "MatrixNormalRV": _matrix_normal,
    "WishartRV": _wishart,
    "StickBreakingWeightsRV": _stick_breaking,
    "CARRV": _car,
    "FlatRV": no_draws,
    "HalfFlatRV": no_draws,
    "ICARRV": no_draws,
    # Draws by Python code.
    "CustomDistRV": by_perform,
    "SimulatorRV": by_perform,
    "PolyaGammaRV": by_perform,
    "_PolyaGammaLogDistFunc": by_perform,
    "I0e": in_result(gt.i0e),
    "I1e": in_result(gt.i1e),
    "SplineWrapper": by_perform,
    "PosDefMatrix": lambda at, x: gt.all(gt.isfinite(linalg.cholesky(x))),
    "LogDet": lambda at, x: linalg.slogdet(x).logabsdet,
    "BatchedDiag": lambda at, x: gt.alloc_diag(x, 0, 1, 2),
}
"""The converters of PyMC's classes, by name."""
