"""How time and memory of a loop's gradient grow with its steps, beside ``lax.scan`` by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp

import graphc
import graphc.tensor as gt
from benchmarks.loops import TARGET, measured, random, temporary, with_gradient
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio

STEPS = (1_000, 10_000, 100_000, 1_000_000)
WIDTH = 8


def state_after(x: Any, h: Any, a: Any, np: Any) -> Any:
    """A step that no closed form replaces."""
    return np.tanh(a * h + x) + 0.1 * np.sin(h)


def with_gradient_of_states(checkpoint: str | None) -> Callable[..., Any]:
    """The mean square of the states, or with checkpoints of the last one alone, and gradients."""
    inputs = [gt.matrix("x", dtype="float32"), gt.vector("a", dtype="float32")]

    def loss(x: Any, a: Any) -> Any:
        states = graphc.scan(
            lambda x, h: state_after(x, h, a, gt),
            sequences=x,
            outputs_info=gt.zeros(WIDTH, "float32"),
            checkpoint=checkpoint,
        )
        return (states[-1] ** 2).mean() if checkpoint else (states**2).mean()

    return with_gradient(loss, inputs, wrt=[0, 1])


def by_hand(x: Any, a: Any) -> Any:
    """The same, all states being stored."""

    def step(h: Any, x: Any) -> Any:
        h = state_after(x, h, a, jnp)
        return h, h

    return (jax.lax.scan(step, jnp.zeros(WIDTH, "float32"), x)[1] ** 2).mean()


def by_hand_in_parts(x: Any, a: Any) -> Any:
    """The last state's, as many states being stored as there are steps between them."""

    @jax.checkpoint
    def part(h: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, x: (state_after(x, h, a, jnp), None), h, x)

    size = isqrt(len(x))
    whole = size * size
    h, _ = jax.lax.scan(part, jnp.zeros(WIDTH, "float32"), x[:whole].reshape(size, size, WIDTH))
    return (part(h, x[whole:])[0] ** 2).mean()


@benchmark("scaling", long=True)
def growth() -> Iterator[Line]:
    ways = {"all states": (None, by_hand), 'checkpoint="sqrt"': ("sqrt", by_hand_in_parts)}
    for title, (checkpoint, loss) in ways.items():
        hand = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
        f = with_gradient_of_states(checkpoint)
        for steps in STEPS:
            arguments = random((steps, WIDTH), (WIDTH,), scale=0.5)
            name = f"{title}, T = {steps:,}, + gradient"
            # As long for each number of steps.
            blocks = max(4, min(60, 2_000_000 // steps))
            yield measured(name, _flat(f), _flat(hand), arguments, TARGET, blocks)
            ours, theirs = temporary(f, arguments), temporary(hand, arguments)
            ratio = Ratio(ours, theirs, ours / theirs, ours / theirs)
            yield Line("  memory for what it stores", ratio, 1.0, unit="MB")


def _flat(f: Callable[..., Any]) -> Callable[..., list[Any]]:
    """A function that returns its results in one list, whatever they were in."""
    return lambda *arguments: jax.tree.leaves(f(*arguments))
