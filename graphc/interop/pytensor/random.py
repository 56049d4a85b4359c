"""Random variables: the distributions of ``graphc.random``, with keys for NumPy's generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.random as gr
from graphc.interop.pytensor.application import Application, Refusal, length, lengths
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.ir import is_integer
from graphc.tensor.core.tensor import Tensor


def lengths_of(size: Any) -> Any:
    """Return the shape of the batch; None where the parameters determine it."""
    return None if size is None else [length(n) for n in lengths(size)]


def draw(distribution: Callable[..., Any]) -> Callable[..., Any]:
    """Return the converter of a distribution whose parameters have PyTensor's order.

    The converter returns the next key and the draw.
    """

    def convert(at: Application, key: Tensor, size: Any, *parameters: Tensor) -> tuple[Any, Any]:
        following, y = distribution(
            *parameters,
            size=lengths_of(size),
            rng=key,
            dtype=at.type_of(1).dtype,
            return_next_rng=True,
        )
        return following, y

    return convert


def integers(distribution: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a distribution of integers, which PyTensor may want in another dtype."""

    def draw_in_dtype(*args: Any, dtype: str, **kwargs: Any) -> Any:
        following, y = distribution(*args, dtype=dtype if is_integer(dtype) else "int64", **kwargs)
        return following, in_dtype(y, dtype)

    return draw_in_dtype


def _gamma(shape: Tensor, scale: Tensor, **kwargs: Any) -> Any:
    return gr.gamma(shape, scale=scale, **kwargs)


def _choice(at: Application, key: Tensor, size: Any, *operands: Tensor) -> tuple[Any, Any]:
    """Draw without replacement: elements along an array's first axis, or integers."""
    a, *p, core = operands
    if size is not None and lengths_of(size):
        raise Refusal("a batch of choices without replacement: draw them one by one, in a scan")
    following, y = gr.choice(
        a if a.ndim else length(a),
        lengths(core),
        replace=False,
        p=p[0] if p else None,
        rng=key,
        return_next_rng=True,
    )
    return following, y


def _permutation(at: Application, key: Tensor, size: Any, x: Tensor) -> tuple[Any, Any]:
    if size is not None and lengths_of(size):
        raise Refusal("a batch of permutations: draw them one by one, in a scan")
    following, y = gr.permutation(x if x.ndim else length(x), rng=key, return_next_rng=True)
    return following, y


def _multivariate_normal(
    at: Application, key: Tensor, size: Any, mean: Tensor, cov: Tensor
) -> tuple[Any, Any]:
    following, y = gr.multivariate_normal(
        mean,
        cov,
        size=lengths_of(size),
        method=getattr(at.op, "method", "cholesky"),
        rng=key,
        dtype=at.type_of(1).dtype,
        return_next_rng=True,
    )
    return following, y


def generator(at: Application, seed: Any) -> Any:
    """Return the key of a seed; a fresh one for None."""
    return gr.default_rng(seed) if seed is None or not seed.ndim else gr.default_rng(seed[0])


VARIABLES: dict[str, Callable[..., Any]] = {
    "UniformRV": draw(gr.uniform),
    "TriangularRV": draw(gr.triangular),
    "BetaRV": draw(gr.beta),
    "NormalRV": draw(gr.normal),
    "HalfNormalRV": draw(gr.halfnormal),
    "LogNormalRV": draw(gr.lognormal),
    "GammaRV": draw(_gamma),
    "ParetoRV": draw(gr.pareto),
    "GumbelRV": draw(gr.gumbel),
    "ExponentialRV": draw(gr.exponential),
    "WeibullRV": draw(gr.weibull),
    "LogisticRV": draw(gr.logistic),
    "VonMisesRV": draw(gr.vonmises),
    "MvNormalRV": _multivariate_normal,
    "DirichletRV": draw(gr.dirichlet),
    "PoissonRV": draw(integers(gr.poisson)),
    "GeometricRV": draw(integers(gr.geometric)),
    "HyperGeometricRV": draw(integers(gr.hypergeometric)),
    "CauchyRV": draw(gr.cauchy),
    "HalfCauchyRV": draw(gr.halfcauchy),
    "InvGammaRV": draw(gr.invgamma),
    "WaldRV": draw(gr.wald),
    "TruncExponentialRV": draw(gr.truncexpon),
    "StudentTRV": draw(gr.t),
    "BernoulliRV": draw(integers(gr.bernoulli)),
    "LaplaceRV": draw(gr.laplace),
    "BinomialRV": draw(integers(gr.binomial)),
    "NegBinomialRV": draw(integers(gr.nbinom)),
    "BetaBinomialRV": draw(integers(gr.betabinom)),
    "GenGammaRV": draw(gr.gengamma),
    "MultinomialRV": draw(integers(gr.multinomial)),
    "CategoricalRV": draw(integers(gr.categorical)),
    "IntegersRV": draw(integers(gr.integers)),
    "ChoiceWithoutReplacement": _choice,
    "PermutationRV": _permutation,
}
"""The random variables, by the names of their classes."""
