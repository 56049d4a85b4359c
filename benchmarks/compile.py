"""The time before the first result, of a loss and its gradient, stage by stage.

graphc's own share is all but XLA's: building, gradient, rewriting, emitting the program's steps,
JAX's tracing of them and lowering to StableHLO. By hand, JAX traces and lowers; both lower alike,
so the second line leaves that out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark, write
from benchmarks.timing import Ratio, agree, milliseconds

TARGET = 1.0
STAGES = ("build", "grad", "rewrite", "emit", "trace", "lower", "XLA")
Seconds = dict[str, float]


# Programs of about n operations, of arrays and the library that computes them.


def chain(n: int, np: Any, x: Any) -> Any:
    """Each operation on the one before."""
    y = x
    for i in range(n // 4):
        y = np.sin(y * (1 + i / n) + x) - 0.5
    return y.sum()


def wide(n: int, np: Any, x: Any) -> Any:
    """A sum of terms that do not depend on each other."""
    y = x
    for i in range(n // 3):
        y = y + np.sin(x * (1 + i / n))
    return y.sum()


def layers(n: int, np: Any, x: Any, *weights: Any) -> Any:
    """A network of layers of 8 units, of three operations each."""
    y = x
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        y = np.tanh(y @ w + b)
    return (y * y).mean()


@dataclass(frozen=True)
class Program:
    """A loss, its graphc inputs and the values of them."""

    loss: Callable[..., Any]
    inputs: Callable[[], list[Any]]
    values: list[Any]


def elementwise(loss: Callable[..., Any], n: int) -> Program:
    """A program of one vector."""
    return Program(
        partial(loss, n),
        lambda: [gt.vector("x", dtype="float32")],
        [np.linspace(-1, 1, 64, dtype="float32")],
    )


def network(n: int) -> Program:
    """The layers, by a batch and all weights."""
    random = np.random.default_rng(0)
    shapes = [(4, 8)] + [(8, 8), (8,)] * (n // 3)
    values = [random.standard_normal(shape).astype("float32") * 0.5 for shape in shapes]
    return Program(
        partial(layers, n),
        lambda: [
            gt.tensor(f"a{i}", dtype="float32", shape=(None,) * v.ndim)
            for i, v in enumerate(values)
        ],
        values,
    )


PROGRAMS = {
    "chain": partial(elementwise, chain),
    "wide": partial(elementwise, wide),
    "layers": network,
}


class Stages:
    """Seconds by stage; each call of ``end`` ends one."""

    def __init__(self) -> None:
        gc.collect()
        self.seconds: Seconds = {}
        self.start = perf_counter()

    def end(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = now - self.start
        self.start = now


def by_graphc(program: Program, xla: bool) -> tuple[Seconds, Any]:
    """Seconds by stage, and the results where XLA compiles."""
    inputs = program.inputs()
    stages = Stages()
    loss = program.loss(gt, *inputs)
    stages.end("build")
    gradients = graphc.grad(loss, inputs)
    stages.end("grad")
    f = graphc.function(inputs, [loss, *gradients], mode="JAX")
    stages.end("emit")
    plan = f.plan()
    stages.seconds["rewrite"] = sum(done.seconds for done in plan.passes)
    stages.seconds["emit"] -= stages.seconds["rewrite"]
    return _by_jax(jax.jit(plan.program.trace), program.values, stages, xla)


def by_hand(program: Program, xla: bool) -> tuple[Seconds, Any]:
    """The same for JAX alone."""
    stages = Stages()
    numbers = tuple(range(len(program.values)))
    f = jax.jit(jax.value_and_grad(partial(program.loss, jnp), argnums=numbers))
    return _by_jax(f, program.values, stages, xla)


def _by_jax(f: Any, values: list[Any], stages: Stages, xla: bool) -> tuple[Seconds, Any]:
    stages.start = perf_counter()
    traced = f.trace(*values)
    stages.end("trace")
    lowered = traced.lower()
    stages.end("lower")
    if not xla:
        return stages.seconds, None
    compiled = lowered.compile()
    stages.end("XLA")
    return stages.seconds, compiled(*values)


def own(seconds: Seconds, without: str = "") -> float:
    """All but XLA's share."""
    return sum(s for stage, s in seconds.items() if stage not in {"XLA", without})


def measured(name: str, n: int, *, repeats: int, xla: bool) -> Iterator[Line]:
    """Both forms in turns; prints the stages."""
    program = PROGRAMS[name](n)
    ours, theirs = [], []
    for i in range(repeats):
        last = xla and i == repeats - 1
        mine, results = by_graphc(program, last)
        hand, wanted = by_hand(program, last)
        ours.append(mine)
        theirs.append(hand)
        if last:
            agree(jax.tree.leaves(results), jax.tree.leaves(wanted), rtol=1e-3)
    for who, runs in (("graphc", ours), ("by hand", theirs)):
        best = {s: min(run[s] for run in runs if s in run) for s in STAGES if s in runs[-1]}
        parts = ", ".join(f"{stage} {milliseconds(s)}" for stage, s in best.items())
        write(f"  {name} {n}, {who}: {parts} ms")
    title = f"{name} of {n} + gradient"
    yield Line(
        f"own share: {title}", Ratio.of([own(s) for s in ours], [own(s) for s in theirs]), TARGET
    )
    yield Line(
        f"  without lowering: {title}",
        Ratio.of([own(s, "lower") for s in ours], [own(s, "lower") for s in theirs]),
        TARGET,
    )
    yield Line(
        f"  rewriting, by JAX's trace: {title}",
        Ratio.of([s["rewrite"] for s in ours], [s["trace"] for s in theirs]),
        TARGET,
    )


def _enter(name: str) -> None:
    @benchmark(f"compile {name}")
    def usual() -> Iterator[Line]:
        by_graphc(PROGRAMS[name](10), xla=True)  # what JAX and graphc do once a process
        by_hand(PROGRAMS[name](10), xla=True)
        yield from measured(name, 100, repeats=9, xla=True)
        yield from measured(name, 1_000, repeats=5, xla=True)
        yield from measured(name, 10_000, repeats=3, xla=False)

    @benchmark(f"compile {name} by XLA too", long=True)
    def with_xla() -> Iterator[Line]:
        yield from measured(name, 5_000, repeats=1, xla=True)


for _name in PROGRAMS:
    _enter(_name)
