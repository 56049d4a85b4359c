"""Random draws: keys, and distributions whose draws are the same on every backend."""

from graphc.random.bernoulli import bernoulli
from graphc.random.beta import beta, dirichlet
from graphc.random.binomial import betabinom, binomial, multinomial
from graphc.random.bits import random_bits
from graphc.random.categorical import categorical
from graphc.random.cauchy import cauchy, halfcauchy
from graphc.random.exponential import exponential, pareto, rayleigh, truncexpon, weibull
from graphc.random.gamma import chisquare, gamma, gengamma, invgamma
from graphc.random.generator import Generator, rng
from graphc.random.geometric import geometric
from graphc.random.gumbel import gumbel
from graphc.random.hypergeometric import hypergeometric
from graphc.random.integers import integers
from graphc.random.keys import fold_in, key, split
from graphc.random.laplace import laplace
from graphc.random.logistic import logistic
from graphc.random.multivariate_normal import multivariate_normal
from graphc.random.negative_binomial import nbinom, negative_binomial
from graphc.random.normal import halfnormal, lognormal, normal, standard_normal
from graphc.random.permutation import choice, permutation
from graphc.random.poisson import poisson
from graphc.random.student import t
from graphc.random.triangular import triangular
from graphc.random.truncnorm import truncnorm
from graphc.random.uniform import uniform
from graphc.random.vonmises import vonmises
from graphc.random.wald import wald

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
