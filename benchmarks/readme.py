"""The table of the README: loops in graphc and in PyTensor, beside JAX written by hand.

PyTensor compiles them for JAX, which needs static lengths, and with Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.call import x64
from benchmarks.loops import corrected, predicted
from benchmarks.table import Line, benchmark
from benchmarks.timing import agree, compared

STEPS, BATCH, UNITS = 200, 16, 32
BLOCKS = 40

Loss = Callable[..., Any]


def network(scan: Any, np: Any) -> Loss:
    """The mean square of the states of a tanh RNN, by a scan whose step takes (row, state)."""

    def loss(x: Any, w: Any, u: Any) -> Any:
        start = np.zeros((BATCH, UNITS))
        (states,) = scan(lambda row, h: (np.tanh(row @ w + h @ u),), x, [start])
        return (states**2).mean()

    return loss


def likelihood(scan: Any, np: Any) -> Loss:
    """The negative log-likelihood of a Kalman filter of two positions and two velocities."""

    def loss(seen: Any, drift: Any, noise: Any) -> Any:
        def step(seen: Any, state: Any, spread: Any, _: Any) -> Any:
            move = np.eye(4) + np.eye(4, k=2)
            return corrected(*predicted(state, spread, move, drift * np.eye(4)), seen, noise, np)

        return -scan(step, seen, [np.zeros(4), np.eye(4), np.zeros(())])[2].sum()

    return loss


def autoregression(scan: Any, np: Any) -> Loss:
    """The sum of the squares of an AR(2) process."""

    def loss(noise: Any, a: Any, b: Any) -> Any:
        def step(e: Any, last: Any, before: Any) -> Any:
            return a * last + b * before + e, last

        return (scan(step, noise, [np.zeros(()), np.zeros(())])[0] ** 2).sum()

    return loss


def by_graphc(step: Any, rows: Any, start: Sequence[Any]) -> Any:
    found = graphc.scan(step, sequences=rows, outputs_info=list(start))
    return found if isinstance(found, list) else [found]


def by_hand(step: Any, rows: Any, start: Sequence[Any]) -> Any:
    def both(carry: Any, row: Any) -> Any:
        news = step(row, *carry)
        return tuple(news), tuple(news)

    return jax.lax.scan(both, tuple(start), rows)[1]


def by_pytensor(step: Any, rows: Any, start: Sequence[Any]) -> Any:
    import pytensor  # noqa: PLC0415

    found = pytensor.scan(
        step, sequences=rows, outputs_info=list(start), return_updates=False, strict=False
    )
    return found if isinstance(found, list) else [found]


def with_pytensor(build: Any, values: Sequence[Any], mode: str) -> Callable[..., Any]:
    """A loss and its gradient by all arguments but the first, of static lengths."""
    import pytensor  # noqa: PLC0415
    import pytensor.tensor as pt  # noqa: PLC0415

    xs = [pt.tensor(f"x{i}", shape=x.shape, dtype="float64") for i, x in enumerate(values)]
    y = build(by_pytensor, pt)(*xs)
    return pytensor.function(xs, [y, *pytensor.grad(y, xs[1:])], mode=mode)  # type: ignore[no-any-return]


@benchmark("readme")
def loops() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    shapes = ((STEPS, BATCH, UNITS), (UNITS, UNITS), (UNITS, UNITS))
    rnn = [0.2 * rng.standard_normal(shape) for shape in shapes]
    seen = np.cumsum(rng.standard_normal((STEPS, 2)), axis=0)
    noise = rng.standard_normal(1000)
    programs = {
        "AR(2) and its gradient": (autoregression, [noise, np.array(1.3), np.array(-0.6)]),
        "RNN and its gradient": (network, rnn),
        "Kalman filter and its gradient": (likelihood, [seen, np.array(0.1), np.array(1.0)]),
    }
    for title, (build, values) in programs.items():
        xs = [gt.tensor(f"x{i}", shape=(None,) * x.ndim) for i, x in enumerate(values)]
        y = build(by_graphc, gt)(*xs)
        ours = graphc.function(xs, [y, *graphc.grad(y, xs[1:])], mode="JAX")
        with x64():
            jitted = jax.jit(jax.value_and_grad(build(by_hand, jnp), argnums=(1, 2)))

            def hand(*values: Any, jitted: Any = jitted) -> Any:
                return jax.tree.map(np.asarray, jax.tree.leaves(jitted(*values)))

            ways = {f"graphc on JAX: {title}": ours}
            for mode in ("JAX", "NUMBA") if find_spec("pytensor") else ():
                ways[f"PyTensor's {mode}: {title}"] = with_pytensor(build, values, mode)
            for name, call in ways.items():
                agree(jax.tree.map(np.asarray, call(*values)), hand(*values), rtol=1e-8)
                yield Line(name, compared(call, hand, *values, blocks=BLOCKS), 1.0)
