"""Random draws: keys, and distributions with the same draws on every backend."""

from typing import TYPE_CHECKING

from graphc import lazy
from graphc.random.generator import Generator, rng
from graphc.random.keys import fold_in, key, random_bits, split

if TYPE_CHECKING:
    from graphc.compile.streams import (
        RandomStream as RandomStream,
        SharedGenerator as SharedGenerator,
        default_rng as default_rng,
        shared_rng as shared_rng,
    )
    from graphc.random.signatures import *  # noqa: F403
else:
    from graphc.random.choice import categorical, choice, permutation
    from graphc.random.counts import (
        bernoulli,
        betabinom,
        binomial,
        geometric,
        hypergeometric,
        multinomial,
    )
    from graphc.random.gamma_family import beta, chisquare, dirichlet, gamma, gengamma, invgamma, t
    from graphc.random.gaussian import (
        halfnormal,
        lognormal,
        multivariate_normal,
        normal,
        standard_normal,
        truncnorm,
        wald,
    )
    from graphc.random.inversion import (
        cauchy,
        exponential,
        gumbel,
        halfcauchy,
        laplace,
        logistic,
        pareto,
        rayleigh,
        triangular,
        truncexpon,
        weibull,
    )
    from graphc.random.poisson import nbinom, negative_binomial, poisson
    from graphc.random.uniform import integers, uniform
    from graphc.random.vonmises import vonmises

    __getattr__, __dir__ = lazy.attributes(globals())  # of a higher layer, see graphc/__init__.py

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "betabinom",
    "binomial",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gengamma",
    "geometric",
    "gumbel",
    "halfcauchy",
    "halfnormal",
    "hypergeometric",
    "integers",
    "invgamma",
    "key",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "negative_binomial",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "random_bits",
    "rayleigh",
    "rng",
    "split",
    "standard_normal",
    "t",
    "triangular",
    "truncexpon",
    "truncnorm",
    "uniform",
    "vonmises",
    "wald",
    "weibull",
]
