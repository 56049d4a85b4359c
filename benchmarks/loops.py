"""Loops and their gradients, beside ``jax.lax.scan`` written by hand: times, and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.call import x64
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio, agree, compared

TARGET = 1.05


def random(*shapes: tuple[int, ...], dtype: str = "float32", scale: float = 1.0) -> list[Any]:
    """Arrays of the device, normally distributed."""
    numbers = np.random.default_rng(0)
    return [jnp.asarray(scale * numbers.standard_normal(shape), dtype) for shape in shapes]


def with_gradient(
    loss: Callable[..., Any], inputs: Sequence[Any], wrt: Sequence[int]
) -> Callable[..., Any]:
    """A loss of symbolic arrays and its gradient by some of them, compiled for JAX."""
    y = loss(*inputs)
    return graphc.function(inputs, [y, *graphc.grad(y, [inputs[i] for i in wrt])], mode="JAX")


def measured(
    title: str,
    graphc: Callable[..., Any],
    hand: Callable[..., Any],
    arguments: Sequence[Any],
    target: float,
    blocks: int = 60,
) -> Line:
    """A line of the table, the results having been compared."""
    rtol = 1e-9 if arguments[0].dtype == "float64" else 1e-4
    agree(graphc(*arguments), hand(*arguments), rtol=rtol)
    return Line(title, compared(graphc, hand, *arguments, blocks=blocks), target)


@benchmark("loops ar2")
def autoregression() -> Iterator[Line]:
    def loss(a: Any, b: Any, noise: Any) -> Any:
        x = graphc.scan(
            lambda e, last, before: a * last + b * before + e,
            sequences=noise,
            outputs_info={"initial": gt.zeros(2, "float32"), "taps": [-1, -2]},
        )
        return (x**2).sum()

    def by_hand(a: Any, b: Any, noise: Any) -> Any:
        def step(carry: Any, e: Any) -> Any:
            last, before = carry
            x = a * last + b * before + e
            return (x, last), x

        zero = jnp.zeros((), "float32")
        return (jax.lax.scan(step, (zero, zero), noise)[1] ** 2).sum()

    a, b = gt.scalars("a", "b", dtype="float32")
    f = with_gradient(loss, [a, b, gt.vector("noise", dtype="float32")], wrt=[0, 1])
    hand = jax.jit(jax.value_and_grad(by_hand, argnums=(0, 1)))
    arguments = [jnp.float32(1.3), jnp.float32(-0.6), *random((1000,))]
    yield measured("AR(2) + gradient, 1,000 steps", f, hand, arguments, 1.2, blocks=200)


@benchmark("loops rnn")
def recurrent_network(steps: int = 200, rows: int = 16, n: int = 32) -> Iterator[Line]:
    def loss(x: Any, w: Any, u: Any, b: Any) -> Any:
        states = graphc.scan(
            lambda row, h: gt.tanh(row @ w + h @ u + b),
            sequences=x,
            outputs_info=gt.zeros((rows, n), "float32"),
        )
        return (states**2).mean()

    start = jnp.zeros((rows, n), "float32")

    def naive(x: Any, w: Any, u: Any, b: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = jnp.tanh(row @ w + h @ u + b)
            return h, h

        return (jax.lax.scan(step, start, x)[1] ** 2).mean()

    def hoisted(x: Any, w: Any, u: Any, b: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = jnp.tanh(row + h @ u)
            return h, h

        return (jax.lax.scan(step, start, x @ w + b)[1] ** 2).mean()

    x = gt.tensor3("x", dtype="float32")
    w, u = gt.matrices("w", "u", dtype="float32")
    f = with_gradient(loss, [x, w, u, gt.vector("b", dtype="float32")], wrt=[1, 2, 3])
    arguments = random((steps, rows, n), (n, n), (n, n), (n,), scale=0.2 * (32 / n) ** 0.5)
    for way, title, target in (
        (naive, f"tanh RNN {n} x {rows}, T = {steps}, + gradient", 0.65),
        (hoisted, "  x @ w taken out of the loop by hand", TARGET),
    ):
        hand = jax.jit(jax.value_and_grad(way, argnums=(1, 2, 3)))
        yield measured(title, f, hand, arguments, target)


@benchmark("loops backwards")
def backwards() -> Iterator[Line]:
    def loss(w: Any, x: Any) -> Any:
        states = graphc.scan(
            lambda row, h: gt.tanh(w * h + row),
            sequences=x,
            outputs_info=gt.zeros(16, "float32"),
            go_backwards=True,
        )
        return (states**2).sum()

    def by_hand(w: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = jnp.tanh(w * h + row)
            return h, h

        return (jax.lax.scan(step, jnp.zeros(16, "float32"), x, reverse=True)[1] ** 2).sum()

    f = with_gradient(
        loss, [gt.vector("w", dtype="float32"), gt.matrix("x", dtype="float32")], wrt=[0, 1]
    )
    hand = jax.jit(jax.value_and_grad(by_hand, argnums=(0, 1)))
    arguments = random((16,), (1_000, 16), scale=0.5)
    yield measured("go_backwards + gradient, 1,000 x 16", f, hand, arguments, TARGET)


@benchmark("loops draws")
def draws() -> Iterator[Line]:
    def by_graphc(carry: Any, _: Any) -> Any:
        x, key = carry
        x = 0.9 * x + gt.random.normal(rng=key, dtype="float32")
        return (x, gt.random.fold_in(key, 1)), x

    def by_hand(carry: Any, _: Any) -> Any:
        x, key = carry
        x = 0.9 * x + jax.random.normal(key, dtype="float32")
        return (x, jax.random.fold_in(key, 1)), x

    x, key = gt.scalar("x", dtype="float32"), gt.tensor("key", dtype="uint32", shape=(2,))
    f = graphc.function([x, key], graphc.loop(by_graphc, (x, key), n_steps=1_000)[1], mode="JAX")
    hand = jax.jit(lambda *start: jax.lax.scan(by_hand, start, length=1_000)[1])
    arguments = [jnp.float32(0), jnp.array([0, 7], "uint32")]
    yield measured("normal draws in 1,000 steps", f, hand, arguments, TARGET)


@benchmark("loops linear")
def linear_recurrence(steps: int = 10_000, n: int = 64) -> Iterator[Line]:
    a, b = gt.matrices("a", "b", dtype="float32")
    h = graphc.scan(
        lambda a, b, h: a * h + b, sequences=[a, b], outputs_info=gt.zeros(n, "float32")
    )
    f = graphc.function([a, b], h, mode="JAX")

    @jax.jit
    def hand(a: Any, b: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = row[0] * h + row[1]
            return h, h

        return jax.lax.scan(step, jnp.zeros(n, "float32"), (a, b))[1]

    arguments = random((steps, n), (steps, n), scale=0.5)
    yield measured(f"h = a[t] * h + b[t], T = {steps:,} x {n}", f, hand, arguments, TARGET)


@benchmark("loops map")
def independent_steps() -> Iterator[Line]:
    x, keys, values = gt.matrices("x", "keys", "values", dtype="float32")
    mixed = graphc.map(lambda row: gt.softmax(row @ keys, axis=-1) @ values, x)
    f = graphc.function([x, keys, values], mixed, mode="JAX")

    def mix(row: Any, keys: Any, values: Any) -> Any:
        return jax.nn.softmax(row @ keys) @ values

    hand = jax.jit(lambda x, *given: jax.lax.map(lambda row: mix(row, *given), x))
    batch = jax.jit(jax.vmap(mix, in_axes=(0, None, None)))
    arguments = random((1_000, 32), (32, 32), (32, 32))
    yield measured("map of 1,000 rows: softmax(row @ k) @ v", f, hand, arguments, 0.25)
    yield measured("  jax.vmap by hand", f, batch, arguments, TARGET)


def predicted(state: Any, spread: Any, move: Any, drift: Any) -> tuple[Any, Any]:
    """A state of two positions and two velocities and its covariance, a step later."""
    return move @ state, move @ spread @ move.T + drift


def corrected(state: Any, spread: Any, seen: Any, noise: Any, np: Any) -> tuple[Any, Any, Any]:
    """The same once both positions are seen, and the logarithm of how likely that was.

    The positions' covariance is inverted in closed form, which any library can write.
    """
    total = spread[:2, :2] + noise * np.eye(2, dtype=state.dtype)
    a, b, c = total[0, 0], total[0, 1], total[1, 1]
    determinant = a * c - b * b
    inverse = np.stack([np.stack([c, -b]), np.stack([-b, a])]) / determinant
    gain = spread[:, :2] @ inverse
    surprise = seen - state[:2]
    likelihood = -0.5 * (np.log(determinant) + surprise @ inverse @ surprise)
    return state + gain @ surprise, spread - gain @ spread[:2], likelihood


@benchmark("loops kalman")
def kalman_filter(length: int = 200) -> Iterator[Line]:
    move = np.eye(4) + np.eye(4, k=2)

    def loss(drift: Any, noise: Any, seen: Any) -> Any:
        def step(seen: Any, state: Any, spread: Any) -> Any:
            return corrected(
                *predicted(state, spread, gt.constant(move), drift * gt.eye(4)), seen, noise, gt
            )

        start = [gt.zeros(4), gt.eye(4), None]
        return -graphc.scan(step, sequences=seen, outputs_info=start)[2].sum()

    def by_hand(drift: Any, noise: Any, seen: Any) -> Any:
        def step(carry: Any, seen: Any) -> Any:
            state, spread = predicted(*carry, jnp.asarray(move), drift * jnp.eye(4))
            *carry, likelihood = corrected(state, spread, seen, noise, jnp)
            return tuple(carry), likelihood

        return -jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1].sum()

    drift, noise = gt.scalars("drift", "noise")
    f = with_gradient(loss, [drift, noise, gt.matrix("seen")], wrt=[0, 1])
    with x64():
        hand = jax.jit(jax.value_and_grad(by_hand, argnums=(0, 1)))
        (steps,) = random((length, 2), dtype="float64")
        arguments = [jnp.asarray(0.1), jnp.asarray(1.0), jnp.cumsum(steps, axis=0)]
        yield measured(f"Kalman filter of 4, T = {length}, + gradient", f, hand, arguments, TARGET)


def busy(h: Any, w: Any, np: Any) -> Any:
    """A step of which reverse mode stores seven arrays, unless it computes them again."""
    return np.sin(np.tanh(h) * np.exp(-(h**2)) + np.cos(h * w))


@benchmark("loops memory")
def memory() -> Iterator[Line]:
    def by_hand(h: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, _: (busy(h, w, jnp), None), h, length=1024)[0].sum()

    arguments = random((32, 64), (64,), scale=0.5)
    hand = jax.jit(jax.value_and_grad(by_hand, argnums=(0, 1)))
    theirs = temporary(hand, arguments)
    for checkpoint, title, target in (
        (None, "gradient of 1,024 steps of 32 x 64", 1 / 6),
        ("sqrt", 'the same with checkpoint="sqrt"', 1 / 40),
    ):
        f = busy_loop(checkpoint)
        yield measured(title, f, hand, arguments, 1.0, blocks=20)
        ours = temporary(f, arguments)
        ratio = Ratio(ours, theirs, ours / theirs, ours / theirs)
        yield Line("  memory for what it stores", ratio, target, unit="MB")


def busy_loop(checkpoint: str | None) -> Callable[..., Any]:
    """The sum of the last state of 1,024 busy steps, and its gradient."""

    def loss(h: Any, w: Any) -> Any:
        final, _ = graphc.loop(
            lambda h, _: (busy(h, w, gt), None), h, n_steps=1024, checkpoint=checkpoint
        )
        return final.sum()

    inputs = [gt.matrix("h", dtype="float32"), gt.vector("w", dtype="float32")]
    return with_gradient(loss, inputs, wrt=[0, 1])


def temporary(f: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """The bytes that a program allocates while it runs, as XLA has planned it."""
    compiled = jax.jit(f).lower(*arguments).compile()
    return float(compiled.memory_analysis().temp_size_in_bytes)
