"""64 chains of a PyMC model in one call, beside 64 calls for one chain each.

Each gives the log-density and its gradient; the ratio is to be a tenth.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

CHAINS = 64
TARGET = 0.1


def eight_schools(pm: Any, pt: Any, random: np.random.Generator) -> None:
    error = random.uniform(9, 18, 8)
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, error, observed=random.normal(8, 10, 8))


def radon(pm: Any, pt: Any, random: np.random.Generator) -> None:
    county, floor = random.integers(0, 85, 919), random.integers(0, 2, 919)
    mu, spread = pm.Normal("mu", 0, 1), pm.HalfNormal("spread", 1)
    a = pm.Normal("a", mu, spread, shape=85)
    b, sigma = pm.Normal("b", 0, 1), pm.Exponential("sigma", 1)
    pm.Normal("y", a[county] + b * floor, sigma, observed=random.normal(size=919))


def garch(pm: Any, pt: Any, random: np.random.Generator) -> None:
    """A loop of 200 steps."""
    import pytensor  # noqa: PLC0415

    r = random.normal(size=200)
    w, a, b = pm.HalfNormal("w", 1), pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
    variance = pytensor.scan(
        lambda square, last, w, a, b: w + a * square + b * last,
        sequences=pt.as_tensor(r[:-1] ** 2),
        outputs_info=[pt.ones(())],
        non_sequences=[w, a, b],
        return_updates=False,
    )
    pm.Normal("r", 0, pt.sqrt(variance), observed=r[1:])


def correlated(pm: Any, pt: Any, random: np.random.Generator) -> None:
    """A Cholesky factor with an LKJ prior."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=4, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=4))
    mu = pm.Normal("mu", 0, 1, shape=4)
    pm.MvNormal("y", mu, chol=chol, observed=random.normal(size=(50, 4)))


MODELS: tuple[Callable[..., None], ...] = (eight_schools, radon, garch, correlated)


@benchmark("pymc chains")
def many_chains() -> Iterator[Line]:
    # The initial point alone is computed by PyTensor; its C++ and Numba compilers take seconds.
    os.environ.setdefault("PYTENSOR_FLAGS", "cxx=,mode=FAST_COMPILE")
    with warnings.catch_warnings(action="ignore"):
        import pymc as pm  # noqa: PLC0415
        import pytensor.tensor as pt  # noqa: PLC0415

        from graphc.interop.pymc import logp  # noqa: PLC0415
    for build in MODELS:
        random = np.random.default_rng(0)
        with pm.Model() as model:
            build(pm, pt, random)
        f = logp(model, mode="JAX")
        points = f.ravel(f.point) + random.uniform(-0.5, 0.5, (CHAINS, f.size))

        def singly(xs: Any, f: Any = f) -> list[Any]:
            return [f(x) for x in xs]

        values, gradients = (np.stack(x) for x in zip(*singly(points), strict=True))
        agree(f(points), (values, gradients), rtol=1e-9)
        ratio = compared(f, singly, points, blocks=30)
        yield Line(f"pymc: {build.__name__}, {CHAINS} chains", ratio, TARGET)
