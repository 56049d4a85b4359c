"""A Gaussian process: the marginal likelihood and its gradient, against JAX by hand.

graphc's is written as the textbook has it, with ``solve`` and ``logdet``; one Cholesky factor
serves both, and the gradient. By hand, JAX differentiates the factorisation.

Large ones multiply by blocks of the covariance (``inv_quad_logdet`` of a ``KernelMatrix``): beside
the factorisation at 4,000 points, and with the memory of a process of its own for 50,000.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, cholesky

import graphc
import graphc.tensor as gt
from benchmarks.call import x64
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, compared
from graphc.implicit import KernelMatrix, materializing

TARGET = 0.75
FEATURES = 3

LARGE = 50_000
ROOM = 4 * 2**30
"""Bytes that a process may take for the likelihood of many points, and its gradient."""
PARAMETERS = np.log([1.5, 1.2, 0.1])


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
        given = [jnp.asarray(a, dtype) for a in (PARAMETERS, data, target)]
        agree(f(*given), hand(*given), rtol=rtol)
        ratio = compared(f, hand, *given, blocks=20 if n > 500 else 60)
    return Line(f"likelihood + gradient, {n} x {FEATURES} {dtype}", ratio, TARGET)


def by_products(parameters: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The logarithm of the likelihood, and the standard error of it."""
    length, size, noise = (gt.exp(parameters[i]) for i in range(3))
    k = gt.as_tensor(KernelMatrix.of(x, lengthscale=length, variance=size))
    near = gt.linalg.low_rank_preconditioner(gt.linalg.pivoted_cholesky(k, 200), noise)
    fit, logdet, _ = gt.linalg.inv_quad_logdet(
        lambda v: k @ v + noise * v,
        y,
        gt.random.key(0),
        M=near,
        probes=8,
        steps=20,
        rtol=1e-2,
    )
    value = -(fit + logdet.value + x.shape[0] * np.log(2 * np.pi)) / 2
    return value, logdet.standard_error / 2


def compiled_by_products(n: int) -> Any:
    """The value, its standard error and its gradient."""
    parameters = gt.vector("parameters", dtype="float32", shape=(3,))
    x = gt.matrix("x", dtype="float32", shape=(n, FEATURES))
    y = gt.vector("y", dtype="float32", shape=(n,))
    value, error = by_products(parameters, x, y)
    outputs = [value, error, graphc.grad(value, parameters)]
    with materializing("error"):
        return graphc.function([parameters, x, y], outputs, mode="JAX", returns="numpy")


def data_of(n: int) -> list[Any]:
    """Parameters, points and values."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, FEATURES))
    y = np.sin(x.sum(1)) + 0.1 * random.normal(size=n)
    return [a.astype("float32") for a in (PARAMETERS, x, y)]


@benchmark("gaussian process large", long=True)
def large() -> Iterator[Line]:
    """Beside the factorisation, which it is compared with, and beside the memory that there is."""
    given = data_of(4000)
    f, hand = compiled_by_products(4000), jax.jit(jax.value_and_grad(by_hand))
    value, error, slopes = f(*given)
    exact, exact_slopes = hand(*given)
    assert abs(value - exact) < 4 * error, (value, exact, error)
    np.testing.assert_allclose(slopes, exact_slopes, rtol=0.05, atol=0.02 * abs(exact_slopes).max())
    yield Line(
        "likelihood + gradient by products, 4000 x 3", compared(f, hand, *given, blocks=5), 1
    )
    run = [sys.executable, "-c", "from benchmarks.gaussian_process import measure; measure()"]
    found = subprocess.run(run, check=True, capture_output=True, text=True)
    seconds, size = map(float, found.stdout.split())
    write(f"{LARGE} x {FEATURES} float32: {seconds:.0f} s, compilation included")
    yield Line("  memory of the process, beside 4 GiB", Ratio.of([size], [ROOM]), 1.0, unit="MB")


def measure() -> None:
    """Print the seconds of a first call of many points, and the most bytes that were taken."""
    given = data_of(LARGE)
    f = compiled_by_products(LARGE)
    start = perf_counter()
    found = f(*given)
    assert all(np.isfinite(y).all() for y in found)
    scale = 1 if sys.platform == "darwin" else 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    write(f"{perf_counter() - start} {size}")
