"""How fast the compiled programs run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.call import x64
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

TARGET = 1.0


@benchmark("steady chain")
def chain(n: int = 1_000_000) -> Iterator[Line]:
    def program(x: Any, np: Any) -> Any:
        y = x
        for i in range(10):
            y = np.tanh(y * (1 + 0.01 * i) + 0.1)
        return y.sum()

    x = gt.vector("x", dtype="float32")
    f = graphc.function([x], program(x, gt), mode="JAX")
    hand = jax.jit(lambda x: program(x, jnp))
    value = jnp.linspace(-1, 1, n, dtype="float32")
    agree(f(value), hand(value), rtol=1e-4)
    yield Line(f"chain of 30 and a sum, {n:.0e} float32", compared(f, hand, value), TARGET)


def stable_loss(w: Any, b: Any, x: Any, t: Any, np: Any) -> Any:
    """The mean negative log likelihood of labels t in {-1, 1}."""
    z = t * (x @ w + b)
    return np.logaddexp(0, -z).mean() + 0.01 * (w**2).sum()


def naive_loss(w: Any, b: Any, x: Any, t: Any, np: Any) -> Any:
    """The same as the textbook has it, which overflows for a z below -88 or -710."""
    z = t * (x @ w + b)
    return np.log(1 + np.exp(-z)).mean() + 0.01 * (w**2).sum()


@benchmark("steady logistic")
def logistic() -> Iterator[Line]:
    yield from _logistic(stable_loss, "logistic loss + gradient")


@benchmark("steady naive logistic")
def naive_logistic() -> Iterator[Line]:
    yield from _logistic(naive_loss, "the same by log(1 + exp)")


def _logistic(loss_of: Callable[..., Any], title: str) -> Iterator[Line]:
    random = np.random.default_rng(0)
    for dtype, rtol in (("float32", 1e-5), ("float64", 1e-12)):
        w, b = gt.vector("w", dtype=dtype), gt.scalar("b", dtype=dtype)
        x, t = gt.matrix("x", dtype=dtype), gt.vector("t", dtype=dtype)
        loss = loss_of(w, b, x, t, gt)
        f = graphc.function([w, b, x, t], [loss, *graphc.grad(loss, [w, b])], mode="JAX")
        hand = jax.jit(
            jax.value_and_grad(lambda w, b, x, t: loss_of(w, b, x, t, jnp), argnums=(0, 1))
        )
        data = random.standard_normal((10_000, 100))
        labels = np.sign(random.standard_normal(10_000))
        with x64():
            arguments = [
                jnp.asarray(a, dtype) for a in (random.standard_normal(100), 0.1, data, labels)
            ]
            agree(f(*arguments), hand(*arguments), rtol=rtol)
            ratio = compared(f, hand, *arguments, blocks=100)
        yield Line(f"{title}, 10,000 x 100 {dtype}", ratio, TARGET)


def kernel_loss(x: Any, v: Any, scale: Any, np: Any) -> Any:
    """A quadratic form in products of a squared exponential kernel of points x."""
    norms = (x * x).sum(axis=1)
    distances = norms[:, None] + norms[None, :] - 2 * (x @ x.T)
    k = np.exp(-0.5 * distances / scale**2) / 500
    return ((k @ k @ k + k @ k.T) * v).sum()


@benchmark("steady kernel")
def kernel() -> Iterator[Line]:
    random = np.random.default_rng(0)
    for dtype, rtol in (("float32", 1e-4), ("float64", 1e-11)):
        x, v = gt.matrix("x", dtype=dtype), gt.matrix("v", dtype=dtype)
        scale = gt.scalar("scale", dtype=dtype)
        loss = kernel_loss(x, v, scale, gt)
        f = graphc.function([x, v, scale], [loss, *graphc.grad(loss, [x, scale])], mode="JAX")
        hand = jax.jit(
            jax.value_and_grad(lambda x, v, s: kernel_loss(x, v, s, jnp), argnums=(0, 2))
        )
        with x64():
            arguments = [
                jnp.asarray(a, dtype)
                for a in (random.standard_normal((500, 5)), random.random((500, 500)), 1.5)
            ]
            agree(f(*arguments), hand(*arguments), rtol=rtol)
            ratio = compared(f, hand, *arguments, blocks=40)
        yield Line(f"kernel products + gradient, 500 x 500 {dtype}", ratio, TARGET)
