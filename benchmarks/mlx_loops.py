"""Loops and their gradients on MLX, beside MLX written by hand, which has no loop.

By hand a loop is written out in Python: step by step, whole under ``mx.compile``, or in compiled
chunks, each with its gradient; the fastest of these is what graphc is held against. Where graphc
computes a loop at once, what a loop by hand takes shows what that gains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any
from unittest.mock import patch

import mlx.core as mx
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.loops import corrected, predicted
from benchmarks.mlx import MLX, evaluated, random, with_gradient
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import agree, compared, milliseconds
from graphc.link.mlx import tiers

CHUNK = 40
"""Steps of a chunk by hand; all numbers of steps here are multiples of it."""

MANY = 1_000
"""Each part of a split array holds all others: of 10,000, that is gigabytes."""

SECONDS = 5.0
"""About how long one way by hand is timed."""

Step = Callable[..., tuple[Any, Any]]
Arrays = Sequence[Any]


def elements(xs: Arrays) -> list[list[Any]]:
    """The elements of each sequence."""
    return [
        list(x) if len(x) > MANY else [mx.squeeze(y, 0) for y in mx.split(x, len(x))] for x in xs
    ]


def walked(step: Step, carry: Arrays, rows: list[list[Any]], params: Arrays) -> tuple[Any, Any]:
    """The carries after all steps, and the sum of the squares of what they gave."""
    found = []
    for row in zip(*rows, strict=True):
        carry, y = step(carry, row, params)
        found.append(y)
    return carry, mx.stack(found).square().sum()


def whole(step: Step) -> Callable[..., Any]:
    """The sum and its gradient by sequences and parameters, all steps written out."""

    def loss(rows: list[list[Any]], params: Arrays, carry: Arrays) -> Any:
        return walked(step, carry, rows, params)[1]

    def call(xs: Arrays, params: Arrays, carry: Arrays) -> Any:
        # By elements: the gradient of each slice would be as large as its sequence.
        gradient = mx.value_and_grad(loss, argnums=(0, 1))
        value, (by_rows, by_params) = gradient(elements(xs), params, carry)
        return value, ([mx.stack(rows) for rows in by_rows], by_params)

    return call


class Chunked:
    """The same in compiled chunks, forwards and then backwards, evaluated as they go."""

    def __init__(self, step: Step) -> None:
        def chunk(carry: Arrays, xs: Arrays, params: Arrays) -> tuple[Any, Any]:
            return walked(step, carry, elements(xs), params)

        def weighted(carry: Arrays, rows: Any, params: Arrays, later: Arrays) -> Any:
            after, total = walked(step, carry, rows, params)
            return total + sum((g * x).sum() for g, x in zip(later, after, strict=True))

        def pulled(carry: Arrays, xs: Arrays, params: Arrays, later: Arrays) -> Any:
            gradient = mx.grad(weighted, argnums=(0, 1, 2))
            by_carry, by_rows, by_params = gradient(carry, elements(xs), params, later)
            return by_carry, [mx.stack(rows) for rows in by_rows], by_params

        self.forward = mx.compile(chunk)
        self.backward = mx.compile(pulled)

    def __call__(self, xs: Arrays, params: Arrays, carry: Arrays) -> Any:
        """The sum, and its gradient by sequences and parameters."""
        starts, value = [], mx.array(0.0)
        parts = [[x[i : i + CHUNK] for x in xs] for i in range(0, len(xs[0]), CHUNK)]
        for part in parts:
            starts.append(carry)
            carry, more = self.forward(carry, part, params)
            value = value + more
            mx.async_eval(carry, value)
        later = [mx.zeros(x.shape) for x in carry]
        by_params = [mx.zeros(x.shape) for x in params]
        by_parts = []
        for start, part in zip(starts[::-1], parts[::-1], strict=True):
            later, by_xs, more = self.backward(start, part, params, later)
            by_params = [a + b for a, b in zip(by_params, more, strict=True)]
            by_parts.append(by_xs)
            mx.async_eval(later, by_params, by_xs)
        by_sequences = [mx.concatenate(x[::-1]) for x in zip(*by_parts, strict=True)]
        return value, (by_sequences, by_params)


def ways(step: Step, steps: int) -> dict[str, Callable[..., Any]]:
    """The sum and its gradient by hand, but for ways that would end the process."""
    found: dict[str, Callable[..., Any]] = {"chunks": Chunked(step)}
    if steps <= 1_000:
        found |= {"eager": whole(step), "unrolled": mx.compile(whole(step))}
    return found


def beside(
    title: str, f: Callable[..., Any], hands: dict[str, Any], arguments: Arrays, target: float
) -> Line:
    """A line of the table, beside the fastest way by hand."""
    wanted = f(*arguments)
    ratios = {}
    for name, hand in hands.items():
        agree(wanted, hand(*arguments), rtol=1e-3)
        start = perf_counter()
        hand(*arguments)
        blocks = min(60, max(5, int(SECONDS / (perf_counter() - start))))
        ratios[name] = compared(f, hand, *arguments, blocks=blocks)
    name = min(ratios, key=lambda name: ratios[name].hand)
    for other, ratio in ratios.items():
        write(f"  {title}: {other} {milliseconds(ratio.hand)} ms by hand")
    return Line(f"MLX: {title} ({name})", ratios[name], target)


@benchmark("mlx ar2")
def autoregression() -> Iterator[Line]:
    def loss(a: Any, b: Any, noise: Any) -> Any:
        x = graphc.scan(
            lambda e, last, before: a * last + b * before + e,
            sequences=noise,
            outputs_info={"initial": gt.zeros(2, "float32"), "taps": [-1, -2]},
        )
        return (x**2).sum()

    def step(carry: Any, x: Any, params: Any) -> Any:
        last, before = carry
        new = params[0] * last + params[1] * before + x[0]
        return (new, last), new

    def by(way: Any) -> Any:
        def call(a: Any, b: Any, noise: Any) -> Any:
            value, (_, found) = way([noise], [a, b], [mx.array(0.0)] * 2)
            return value, *found

        return evaluated(call)

    f = with_gradient(
        loss, [*gt.scalars("a", "b", dtype="float32"), gt.vector("noise", dtype="float32")], [0, 1]
    )
    for steps in (1_000, 10_000):
        arguments = [mx.array(1.3), mx.array(-0.6), *random((steps,))]
        hands = {name: by(way) for name, way in ways(step, steps).items()}
        yield beside(f"AR(2) + gradient, T = {steps:,}", f, hands, arguments, 0.05)


def network_by_graphc(mode: Any = MLX) -> Callable[..., Any]:
    """A tanh RNN of 32 units in a batch of 16: the sum of squares, and its gradient by weights."""

    def loss(x: Any, w: Any, u: Any, b: Any) -> Any:
        states = graphc.scan(
            lambda row, h: gt.tanh(row @ w + h @ u + b),
            sequences=x,
            outputs_info=gt.zeros((16, 32), "float32"),
        )
        return (states**2).sum()

    inputs = [gt.tensor3("x", dtype="float32"), *gt.matrices("w", "u", dtype="float32")]
    inputs.append(gt.vector("b", dtype="float32"))
    return with_gradient(loss, inputs, [1, 2, 3], mode)


def network_step(carry: Any, x: Any, params: Any) -> Any:
    h = mx.tanh(x[0] + carry[0] @ params[0])
    return [h], h


def network_by_hand(way: Callable[..., Any]) -> Callable[..., Any]:
    """The same; products with what is known before are taken out of the loop."""
    before = mx.compile(lambda x, w, b: x @ w + b)
    after = mx.compile(lambda x, g: (x.reshape(-1, 32).T @ g.reshape(-1, 32), g.sum((0, 1))))

    def call(x: Any, w: Any, u: Any, b: Any) -> Any:
        value, ((g,), (by_u,)) = way([before(x, w, b)], [u], [mx.zeros((16, 32))])
        by_w, by_b = after(x, g)
        return value, by_w, by_u, by_b

    return evaluated(call)


def network_arguments(steps: int) -> Arrays:
    return random((steps, 16, 32), (32, 32), (32, 32), (32,), scale=0.2)


@benchmark("mlx rnn")
def recurrent_network() -> Iterator[Line]:
    hands = {name: network_by_hand(way) for name, way in ways(network_step, 200).items()}
    title = "tanh RNN 32 x 16 + gradient, T = 200"
    yield beside(title, network_by_graphc(), hands, network_arguments(200), 1.1)


def stepping(loss: Callable[..., Any], inputs: Arrays) -> dict[str, Any]:
    """graphc's own loop, where it computes no linear recurrence at once."""
    mode = MLX.change(excluding=["linear_recurrence"])
    return {"graphc's steps": with_gradient(loss, inputs, [0, 1], mode)}


class Arrays64:
    """What the steps of the Kalman filter of ``loops`` take from a library, of MLX's."""

    stack, log = staticmethod(mx.stack), staticmethod(mx.log)

    @staticmethod
    def eye(n: int, dtype: Any) -> Any:
        return mx.eye(n, dtype=dtype)


def kalman_by_graphc(mode: Any) -> Callable[..., Any]:
    """A Kalman filter of 4 states: minus its likelihood, and its gradient by both variances."""

    def loss(drift: Any, noise: Any, seen: Any) -> Any:
        def step(seen: Any, state: Any, spread: Any) -> Any:
            ahead = predicted(state, spread, gt.constant(MOVE), drift * gt.eye(4))
            return corrected(*ahead, seen, noise, gt)

        start = [gt.zeros(4), gt.eye(4), None]
        return -graphc.scan(step, sequences=seen, outputs_info=start)[2].sum()

    inputs = [*gt.scalars("drift", "noise"), gt.matrix("seen")]
    return with_gradient(loss, inputs, [0, 1], mode)


MOVE = np.eye(4) + np.eye(4, k=2)


@benchmark("mlx unfused")
def unfused() -> Iterator[Line]:
    """Before kernels are there, beside the same steps in Python."""
    move = mx.array(MOVE, mx.float64)

    def by_hand(drift: Any, noise: Any, seen: Any) -> Any:
        def loss(drift: Any, noise: Any) -> Any:
            state, spread, found = mx.zeros(4, mx.float64), mx.eye(4, dtype=mx.float64), []
            step = drift * mx.eye(4, dtype=mx.float64)
            for row in elements([seen])[0]:
                ahead = predicted(state, spread, move, step)
                state, spread, likelihood = corrected(*ahead, row, noise, Arrays64)
                found.append(likelihood)
            return -mx.stack(found).sum()

        value, slopes = mx.value_and_grad(loss, argnums=(0, 1))(drift, noise)
        return value, *slopes

    (steps,) = random((200, 2), dtype="float64")
    arguments = [mx.array(x, mx.float64) for x in (0.1, 1.0)]
    hands = {"eager": evaluated(by_hand)}
    with patch.object(tiers, "LEAST", math.inf):
        f = kalman_by_graphc("MLX")
        g = network_by_graphc("MLX")
    title = "Kalman filter of 4 + gradient, T = 200, unfused"
    yield beside(title, f, hands, [*arguments, mx.cumsum(steps, 0)], 1.2)
    hands = {"eager": network_by_hand(whole(network_step))}
    title = "tanh RNN 32 x 16 + gradient, T = 200, unfused"
    yield beside(title, g, hands, network_arguments(200), 1.2)


@benchmark("mlx linear")
def linear_recurrence() -> Iterator[Line]:
    def loss(a: Any, b: Any) -> Any:
        h = graphc.scan(
            lambda a, b, h: a * h + b, sequences=[a, b], outputs_info=gt.zeros(64, "float32")
        )
        return (h**2).sum()

    def step(carry: Any, x: Any, params: Any) -> Any:
        h = x[0] * carry[0] + x[1]
        return [h], h

    def by(way: Any) -> Any:
        def call(a: Any, b: Any) -> Any:
            value, (found, _) = way([a, b], [], [mx.zeros(64)])
            return value, *found

        return evaluated(call)

    inputs = gt.matrices("a", "b", dtype="float32")
    f = with_gradient(loss, inputs, wrt=[0, 1])
    arguments = random((10_000, 64), (10_000, 64), scale=0.5)
    hands = {name: by(way) for name, way in ways(step, 10_000).items()}
    title = "h = a[t] h + b[t] + gradient, T = 10,000 x 64"
    yield beside(title, f, hands, arguments, 0.01)
    yield beside("  the same", f, stepping(loss, inputs), arguments, 0.01)


@benchmark("mlx squashed")
def squashed_recurrence() -> Iterator[Line]:
    def loss(w: Any, x: Any) -> Any:
        h = graphc.scan(
            lambda x, h: gt.tanh(w * h + x), sequences=x, outputs_info=gt.zeros(64, "float32")
        )
        return (h**2).sum()

    def step(carry: Any, x: Any, params: Any) -> Any:
        h = mx.tanh(params[0] * carry[0] + x[0])
        return [h], h

    def by(way: Any) -> Any:
        def call(w: Any, x: Any) -> Any:
            value, (found, by_w) = way([x], [w], [mx.zeros(64)])
            return value, *by_w, *found

        return evaluated(call)

    inputs = [gt.vector("w", dtype="float32"), gt.matrix("x", dtype="float32")]
    f = with_gradient(loss, inputs, wrt=[0, 1])
    arguments = random((64,), (10_000, 64), scale=0.5)
    hands = {name: by(way) for name, way in ways(step, 10_000).items()}
    title = "tanh(w h + x[t]) + gradient, T = 10,000 x 64"
    yield beside(title, f, hands, arguments, 0.5)
    yield beside("  the same", f, stepping(loss, inputs), arguments, 0.5)


@benchmark("mlx map")
def independent_steps() -> Iterator[Line]:
    x, keys, values = gt.matrices("x", "keys", "values", dtype="float32")
    mixed = graphc.map(lambda row: gt.softmax(row @ keys, axis=-1) @ values, x)
    f = graphc.function([x, keys, values], mixed, mode=MLX)

    def mix(row: Any, keys: Any, values: Any) -> Any:
        return mx.softmax(row @ keys) @ values

    def stepped(x: Any, *given: Any) -> Any:
        return mx.stack([mix(row, *given) for row in elements([x])[0]])

    arguments = random((1_000, 32), (32, 32), (32, 32))
    steps = {"eager": evaluated(stepped), "unrolled": evaluated(mx.compile(stepped))}
    title = "map of 1,000 rows: softmax(row @ k) @ v"
    yield beside(title, f, steps, arguments, 1 / 30)
    batch = {
        "mx.vmap": evaluated(mx.compile(mx.vmap(mix, in_axes=(0, None, None)))),
        "batch": evaluated(mx.compile(lambda x, k, v: mx.softmax(x @ k, axis=-1) @ v)),
    }
    yield beside("  the same at once by hand", f, batch, arguments, 1.1)
