"""A Gaussian process: the marginal likelihood and its gradient, against JAX by hand.

graphc's is written as the textbook has it, with ``solve`` and ``logdet``; one Cholesky factor
serves both, and the gradient. By hand, JAX differentiates the factorisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, cholesky

import graphc
import graphc.tensor as gt
from benchmarks.call import x64
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

TARGET = 0.75
FEATURES = 3


def covariance(parameters: Any, x: Any, np: Any) -> Any:
    """Squared exponentials of distances, and noise; the parameters are logarithms."""
    length, size, noise = (np.exp(parameters[i]) for i in range(3))
    scaled = x / length
    apart = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(-1)
    return size * np.exp(-apart / 2) + noise * np.eye(x.shape[0], dtype=x.dtype)


def by_graphc(parameters: Any, x: Any, y: Any) -> Any:
    """The logarithm of the likelihood."""
    matrix = gt.assume(covariance(parameters, x, gt), positive_definite=True)
    fit = y @ gt.linalg.solve(matrix, y)
    return -(fit + gt.linalg.logdet(matrix) + x.shape[0] * np.log(2 * np.pi)) / 2


def by_hand(parameters: Any, x: Any, y: Any) -> Any:
    """The same by the Cholesky factor."""
    factor = cholesky(covariance(parameters, x, jnp), lower=True)
    fit = y @ cho_solve((factor, True), y)
    logdet = 2 * jnp.log(jnp.diagonal(factor)).sum()
    return -(fit + logdet + x.shape[0] * np.log(2 * np.pi)) / 2


@benchmark("gaussian process")
def likelihood() -> Iterator[Line]:
    random = np.random.default_rng(0)
    for n in (300, 1000):
        data = random.normal(size=(n, FEATURES))
        target = np.sin(data.sum(1)) + 0.1 * random.normal(size=n)
        for dtype, rtol in (("float64", 1e-8), ("float32", 2e-3)):
            yield _line(n, dtype, rtol, data, target)


def _line(n: int, dtype: str, rtol: float, data: Any, target: Any) -> Line:
    parameters = gt.vector("parameters", dtype=dtype, shape=(3,))
    x, y = gt.matrix("x", dtype=dtype), gt.vector("y", dtype=dtype)
    value = by_graphc(parameters, x, y)
    f = graphc.function([parameters, x, y], [value, graphc.grad(value, parameters)], mode="JAX")
    hand = jax.jit(jax.value_and_grad(by_hand))
    with x64():
        given = [jnp.asarray(a, dtype) for a in (np.log([1.5, 1.2, 0.1]), data, target)]
        agree(f(*given), hand(*given), rtol=rtol)
        ratio = compared(f, hand, *given, blocks=20 if n > 500 else 60)
    return Line(f"likelihood + gradient, {n} x {FEATURES} {dtype}", ratio, TARGET)
