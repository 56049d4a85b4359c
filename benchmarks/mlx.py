"""graphc on MLX, beside MLX written by hand: graphs without loops, and what a call costs.

By hand is as an expert writes it: ``mx.compile`` around ``mx.value_and_grad``, arrays as arguments,
one evaluation of all results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.gaussian_process import covariance, data_of
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

TARGET = 1.1
SMALL = 1.15
"""For a call of a small function."""
MLX = graphc.Mode("MLX", compile=True)
"""With all kernels from the first call on, as ``mx.compile`` by hand."""

LOG_TAU = math.log(2 * math.pi)


def evaluated(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose results are there when it returns, as graphc's are."""

    def call(*arguments: Any) -> Any:
        found = f(*arguments)
        mx.eval(found)
        return found

    return call


def random(*shapes: tuple[int, ...], dtype: str = "float32", scale: float = 1.0) -> list[mx.array]:
    """MLX arrays, normally distributed."""
    numbers = np.random.default_rng(0)
    return [
        mx.array(scale * numbers.standard_normal(shape), getattr(mx, dtype)) for shape in shapes
    ]


def with_gradient(
    loss: Callable[..., Any], inputs: Sequence[Any], wrt: Sequence[int], mode: Any = MLX
) -> Callable[..., Any]:
    """A loss of symbolic arrays and its gradient by some of them, compiled for MLX."""
    y = loss(*inputs)
    return graphc.function(inputs, [y, *graphc.grad(y, [inputs[i] for i in wrt])], mode=mode)


@benchmark("mlx call")
def small_functions() -> Iterator[Line]:
    x = gt.vector("x", dtype="float32")
    f = graphc.function([x], x * 2, mode=MLX)
    hand = evaluated(mx.compile(lambda x: x * 2))
    value = mx.ones(10)
    agree(f(value), hand(value), rtol=1e-6)
    yield Line("MLX call: x * 2", compared(f, hand, value, blocks=200), SMALL)
    xs = [gt.vector(f"x{i}", dtype="float32") for i in range(8)]
    f = graphc.function(xs, [x * 2 for x in xs], mode=MLX)
    hand = evaluated(mx.compile(lambda *xs: [x * 2 for x in xs]))
    values = [mx.full(10, float(i)) for i in range(8)]
    agree(f(*values), hand(*values), rtol=1e-6)
    yield Line("MLX call: 8 inputs and outputs", compared(f, hand, *values, blocks=200), SMALL)
    state = graphc.shared(np.zeros(10, "float32"))
    f = graphc.function([x], state.sum(), updates=[(state, state + x)], mode=MLX)
    step = mx.compile(lambda kept, step: (kept.sum(), kept + step))
    kept = mx.zeros(10)

    def by_hand(x: Any) -> Any:
        nonlocal kept
        total, kept = step(kept, x)
        mx.eval(total, kept)
        return total

    agree(f(value), by_hand(value), rtol=1e-6)
    yield Line("MLX call: a shared vector updated", compared(f, by_hand, value, blocks=200), SMALL)


@benchmark("mlx chain")
def chain() -> Iterator[Line]:
    def program(x: Any, np: Any) -> Any:
        y = x
        for i in range(10):
            y = np.tanh(y * (1 + 0.01 * i) + 0.1)
        return y

    x = gt.vector("x", dtype="float32")
    f = graphc.function([x], program(x, gt), mode=MLX)
    hand = evaluated(mx.compile(lambda x: program(x, mx)))
    value = mx.linspace(-1, 1, 1_000_000)
    agree(f(value), hand(value), rtol=1e-5)
    yield Line("MLX: chain of 30, 1e6 float32", compared(f, hand, value, blocks=15), TARGET)


@benchmark("mlx logistic")
def logistic() -> Iterator[Line]:
    def loss(w: Any, b: Any, x: Any, t: Any, np: Any) -> Any:
        z = t * (x @ w + b)
        return (
            np.logaddexp(np.zeros((), "float32") if np is gt else 0.0, -z).mean()
            + 0.01 * (w * w).sum()
        )

    inputs = [gt.vector("w", dtype="float32"), gt.scalar("b", dtype="float32")]
    inputs += [gt.matrix("x", dtype="float32"), gt.vector("t", dtype="float32")]
    f = with_gradient(lambda *given: loss(*given, gt), inputs, wrt=[0, 1])
    hand = evaluated(mx.compile(mx.value_and_grad(lambda *given: loss(*given, mx), argnums=(0, 1))))
    w, b, x, t = random((100,), (), (10_000, 100), (10_000,))
    arguments = [w, b, x, mx.sign(t)]
    agree(f(*arguments), hand(*arguments), rtol=1e-4)
    yield Line("MLX: logistic loss + gradient, 10,000 x 100", compared(f, hand, *arguments), TARGET)


@benchmark("mlx network")
def network() -> Iterator[Line]:
    def loss(x: Any, t: Any, *weights: Any, np: Any) -> Any:
        y = x
        for w, b in zip(weights[::2], weights[1::2], strict=True):
            y = np.tanh(y @ w + b)
        return ((y - t) ** 2).mean()

    inputs = [gt.matrix("x", dtype="float32"), gt.matrix("t", dtype="float32")]
    for i in range(4):
        inputs += [gt.matrix(f"w{i}", dtype="float32"), gt.vector(f"b{i}", dtype="float32")]
    wrt = range(2, len(inputs))
    f = with_gradient(lambda *given: loss(*given, np=gt), inputs, wrt=wrt)
    hand = evaluated(
        mx.compile(mx.value_and_grad(lambda *given: loss(*given, np=mx), argnums=tuple(wrt)))
    )
    arguments = random((256, 128), (256, 128), *[(128, 128), (128,)] * 4, scale=0.1)
    agree(f(*arguments), hand(*arguments), rtol=1e-4)
    yield Line("MLX: network of 4 layers + gradient", compared(f, hand, *arguments), TARGET)


@benchmark("mlx gaussian process")
def likelihood() -> Iterator[Line]:
    def by_hand(parameters: Any, x: Any, y: Any) -> Any:
        """Return the gradient in closed form: MLX differentiates no factorisation."""
        length, size, noise = (mx.exp(parameters[i]) for i in range(3))
        scaled = x / length
        squares = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(-1)
        k = size * mx.exp(-squares / 2)
        factor = mx.linalg.cholesky(k + noise * mx.eye(len(x)), stream=mx.cpu)
        inverse = mx.linalg.cholesky_inv(factor, stream=mx.cpu)
        fit = inverse @ y
        logdet = 2 * mx.log(mx.diagonal(factor)).sum()
        by_matrix = (fit[:, None] * fit - inverse) / 2
        by_k = by_matrix * k
        slopes = [(by_k * squares).sum(), by_k.sum(), noise * mx.diagonal(by_matrix).sum()]
        return -(y @ fit + logdet + len(x) * LOG_TAU) / 2, mx.stack(slopes)

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        matrix = gt.assume(covariance(parameters, x, gt), positive_definite=True)
        fit = y @ gt.linalg.solve(matrix, y)
        return -(fit + gt.linalg.logdet(matrix) + 500 * LOG_TAU) / 2

    def by_factor(parameters: Any, x: Any, y: Any) -> Any:
        factor = gt.linalg.cholesky(covariance(parameters, x, gt))
        fit = gt.linalg.solve_triangular(factor, y, lower=True)
        logdet = 2 * gt.log(gt.diagonal(factor)).sum()
        return -(fit @ fit + logdet + 500 * LOG_TAU) / 2

    inputs = [gt.vector("parameters", dtype="float32", shape=(3,))]
    inputs += [gt.matrix("x", dtype="float32"), gt.vector("y", dtype="float32")]
    hand = evaluated(mx.compile(by_hand))
    arguments = [mx.array(x) for x in data_of(500)]
    for written, cost in (("solve and logdet", loss), ("a Cholesky factor", by_factor)):
        f = with_gradient(cost, inputs, wrt=[0])
        agree(f(*arguments), hand(*arguments), rtol=2e-3)
        title = f"MLX: GP likelihood + gradient by {written}, 500 points"
        yield Line(title, compared(f, hand, *arguments, blocks=10), TARGET)
