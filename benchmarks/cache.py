"""What it costs to build a function again: with other data captured, or the very same."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio, agree, compared
from graphc.capture import lift, rebuild
from graphc.compile.cache import PROGRAMS

REPEATS = 9


def logistic(np: Any, batch: Any, w: Any) -> Any:
    """A logistic loss of a batch without labels."""
    return np.log1p(np.exp(-(batch @ w))).mean()


def perceptron(np: Any, batch: Any, w: Any, b: Any, v: Any) -> Any:
    """The mean square of a network with one hidden layer."""
    return ((np.tanh(batch @ w + b) @ v) ** 2).mean()


def deep(np: Any, batch: Any, *weights: Any) -> Any:
    """The same with two hidden layers."""
    w, b, u, c, v = weights
    return ((np.tanh(np.tanh(batch @ w + b) @ u + c) @ v) ** 2).mean()


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Normally distributed, small."""
    numbers = np.random.default_rng(0)
    return [0.2 * numbers.standard_normal(shape, dtype="float32") for shape in shapes]


LOSSES: dict[str, tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]] = {
    "logistic": (logistic, arrays((100,))),
    "MLP of 64": (perceptron, arrays((100, 64), (64,), (64,))),
    "MLP of 512 x 2": (deep, arrays((100, 512), (512,), (512, 512), (512,), (512, 10))),
}
"""Losses of a batch of (32, 100) and of these weights."""


def compiled(loss: Callable[..., Any], batch: Any, weights: list[Any], mode: str) -> Any:
    """A function of the weights, and of the batch where that is symbolic: loss and gradient."""
    inputs = [gt.tensor(dtype="float32", shape=(None,) * w.ndim) for w in weights]
    y = loss(gt, batch, *inputs)
    given = [batch] if isinstance(batch, gt.TensorVariable) else []
    return graphc.function([*given, *inputs], [y, *graphc.grad(y, inputs)], mode=mode)


def captured(loss: Callable[..., Any], weights: list[Any], mode: str, batch: Any) -> Any:
    """A round of a storm: the loss of a batch that is captured is built, compiled and called."""
    return compiled(loss, batch, weights, mode)(*weights)


def passed(loss: Callable[..., Any], weights: list[Any], mode: str, batch: Any) -> Any:
    """The same round with a batch that is passed."""
    return compiled(loss, gt.matrix("batch", dtype="float32"), weights, mode)(batch, *weights)


def called(f: Callable[..., Any], weights: list[Any], batch: Any) -> Any:
    """A round of a loop that makes its function once."""
    return f(batch, *weights)


def captured_by_hand(loss: Callable[..., Any], weights: list[Any], batch: Any) -> Any:
    """The same by JAX."""
    places = tuple(range(len(weights)))
    return jax.jit(jax.value_and_grad(partial(loss, jnp, batch), argnums=places))(*weights)


@benchmark("cache storm")
def storms() -> Iterator[Line]:
    for mode in ("JAX", "MLX", "NUMPY"):
        for title, (loss, weights) in LOSSES.items():
            (batch,) = arrays((32, 100))
            f = compiled(loss, gt.matrix("batch", dtype="float32"), weights, mode)
            kept = partial(captured, loss, weights, mode)
            ways = {
                "a call": (partial(called, f, weights), 3.0),
                "building f(batch)": (partial(passed, loss, weights, mode), 1.2),
            }
            for way, (other, target) in ways.items():
                with graphc.recompile("ignore"):
                    ratio = compared(kept, other, batch, blocks=30)
                yield Line(f"storm, by {way}: {title}, {mode}", ratio, target)
            if mode == "JAX":
                yield from beside_jax(title, kept, partial(captured_by_hand, loss, weights), batch)


def beside_jax(title: str, kept: Any, hand: Any, batch: Any) -> Iterator[Line]:
    """The same storm by hand, which compiles each time."""
    agree(kept(batch), hand(batch), rtol=1e-4)
    with graphc.recompile("ignore"):
        yield Line(f"  by the storm in JAX: {title}", compared(kept, hand, batch, blocks=10), 0.1)


@benchmark("cache hit")
def built_again() -> Iterator[Line]:
    for mode in ("JAX", "MLX", "NUMPY"):
        for title, (loss, weights) in LOSSES.items():
            (batch,) = arrays((32, 100))
            call = partial(captured, loss, weights, mode, batch)
            firsts, agains = [], []
            for _ in range(REPEATS):
                PROGRAMS.clear()
                jax.clear_caches()
                firsts.append(seconds(call))
                agains.append(seconds(call))
            target = 0.05 if mode == "JAX" else 0.5
            yield Line(f"built again, by first: {title}, {mode}", Ratio.of(agains, firsts), target)


def seconds(call: Callable[[], Any]) -> float:
    """How long a call takes until its results are there."""
    gc.collect()
    start = perf_counter()
    jax.block_until_ready(jax.tree.leaves(call()))
    return perf_counter() - start


def masks() -> Callable[[Any, Any], Any]:
    """A mask function of two others that capture an array each."""
    (segments, places) = (jnp.arange(100) // 7, jnp.arange(100) * 2)

    def same(q: Any, k: Any) -> Any:
        return segments[q] == segments[k]

    def later(q: Any, k: Any) -> Any:
        return places[q] >= places[k]

    return lambda q, k: same(q, k) & later(q, k)


@benchmark("cache lift")
def lifting() -> Iterator[Line]:
    mask = masks()
    stripped, leaves = lift(mask)
    again = rebuild(stripped, leaves)
    jaxpr = jax.make_jaxpr(mask)(0, 0)
    assert len(leaves) == len(jaxpr.consts) == 2
    agree(again(5, 6), mask(5, 6), rtol=0)
    traced = compared(lambda: lift(mask), lambda: jax.make_jaxpr(mask)(0, 0))
    yield Line("captured arrays found, by JAX's tracing", traced, 1.0)
    put = compared(lambda: rebuild(stripped, leaves), lambda: lift(mask))
    yield Line("  put back, by finding", put, 1.0)
    q, k = np.int64(5), np.int64(6)
    yield Line("  call of what was put back, by before", compared(again, mask, q, k), 1.05)
