"""The time until a program on MLX gives its first result, in processes of their own.

``python -m benchmarks.first NAME WAY N`` builds and calls one program of size N, and prints the
seconds of the first call and of later ones. MLX keeps the kernels that the C++ compiler made in
the temporary directory, so each way has a new one, and is run twice: without kernels, and with
them. The stack is large, as MLX walks recursively what is written out at length: with the usual
one, a loop by hand of 10,000 steps ends the process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import mlx.core as mx

import graphc
import graphc.tensor as gt
from benchmarks.mlx import MLX, TARGET, evaluated, random
from benchmarks.mlx_loops import (
    Chunked,
    kalman_by_graphc,
    network_arguments,
    network_by_graphc,
    network_by_hand,
    network_step,
    whole,
)
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio
from graphc.link.mlx import tiers

STACK = 4 << 30
"""Bytes."""

REPEATS = 2

STEADY = 20.0
"""Seconds of calls after which all that pays is compiled."""


def chain(n: int, np: Any, x: Any) -> Any:
    """Each operation on the one before."""
    y = x
    for i in range(n // 3):
        y = np.tanh(y * (1 + i / n) + 0.1)
    return y


FUNCTIONS = ("tanh", "arctan", "square", "arcsinh", "sqrt", "abs", "log1p", "exp", "sinh", "cos")


def wide(n: int, np: Any, x: Any) -> Any:
    """A sum of terms that do not depend on each other."""
    y = x
    for i in range(n // 3):
        y = y + getattr(np, FUNCTIONS[i % len(FUNCTIONS)])(x * (1 + i / n))
    return y


def elementwise(program: Callable[..., Any], way: str, n: int) -> tuple[Any, Any]:
    """A program of one vector."""
    arguments = [mx.linspace(0, 1, 1_000)]
    if way == "hand":
        return evaluated(mx.compile(partial(program, n, mx))), arguments
    x = gt.vector("x", dtype="float32")
    return graphc.function([x], program(n, gt, x), mode="MLX"), arguments


def network(way: str, n: int) -> tuple[Any, Any]:
    """The RNN of n steps and its gradient."""
    made = {
        "graphc": partial(network_by_graphc, "MLX"),
        "unrolled": lambda: network_by_hand(mx.compile(whole(network_step))),
        "chunks": lambda: network_by_hand(Chunked(network_step)),
    }[way]()
    return made, network_arguments(n)


def kalman(way: str, n: int) -> tuple[Any, Any]:
    """The Kalman filter of n steps and its gradient: compiled at once, or when that pays."""
    made = kalman_by_graphc(MLX if way == "compiled" else "MLX")
    (steps,) = random((n, 2), dtype="float64")
    return made, [*(mx.array(x, mx.float64) for x in (0.1, 1.0)), mx.cumsum(steps, 0)]


PROGRAMS: dict[str, Callable[[str, int], tuple[Any, Any]]] = {
    "chain": partial(elementwise, chain),
    "wide": partial(elementwise, wide),
    "network": network,
    "kalman": kalman,
}


def main(name: str, way: str, size: str) -> None:
    """Print the seconds of the first call, building included, and the least of later ones."""
    mx.eval(mx.zeros(()) + 1)
    start = perf_counter()
    f, arguments = PROGRAMS[name](way, int(size))
    f(*arguments)
    first = perf_counter() - start
    # Kernels are compiled in a thread, once calls have taken a part of the time for that.
    taken = 0.0
    while taken < STEADY and not all(tier.is_fused for tier in tiers.TIERS.values()):
        start = perf_counter()
        f(*arguments)
        taken += perf_counter() - start
        tiers.WORKER.wait()
    later = []
    for _ in range(5):
        start = perf_counter()
        f(*arguments)
        later.append(perf_counter() - start)
    sys.stdout.write(json.dumps([first, min(later)]))


def _run(name: str, way: str, n: int) -> list[float]:
    """Seconds of a first call without kernels, with them, and of later calls."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    size = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    with TemporaryDirectory() as folder:
        runs = [
            subprocess.run(
                [sys.executable, "-m", "benchmarks.first", name, way, str(n)],
                cwd=Path(__file__).parents[1],
                env={**os.environ, "TMPDIR": folder},
                capture_output=True,
                check=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (size, hard)),
            )
            for _ in range(2)
        ]
    (without, _), (first, later) = (json.loads(done.stdout) for done in runs)
    return [without, first, later]


Targets = tuple[float, float, float]


def measured(
    title: str, name: str, ways: tuple[str, str], n: int, targets: Targets
) -> Iterator[Line]:
    """Lines of the first call and of later ones, processes in turns."""
    runs = [[_run(name, way, n) for way in ways] for _ in range(REPEATS)]
    for place, when in enumerate(("first call", "first, kernels there", "later calls")):
        ours, theirs = [[run[i][place] for run in runs] for i in (0, 1)]
        yield Line(f"MLX {when}: {title}", Ratio.of(ours, theirs), targets[place])


@benchmark("mlx first")
def graphs() -> Iterator[Line]:
    for name in ("chain", "wide"):
        for n in (100, 1_000):
            targets = (TARGET, TARGET, TARGET)
            yield from measured(f"{name} of {n}", name, ("graphc", "hand"), n, targets)


@benchmark("mlx first rnn")
def networks() -> Iterator[Line]:
    for n in (100, 1_000):
        for way in ("unrolled", "chunks"):
            title = f"RNN + gradient, T = {n:,} ({way})"
            yield from measured(title, "network", ("graphc", way), n, (1.0, 1.0, 1.0))


@benchmark("mlx first kalman")
def filters() -> Iterator[Line]:
    title = "Kalman filter of 4 + gradient, T = 200 (compiled at once)"
    yield from measured(title, "kalman", ("graphc", "compiled"), 200, (0.1, 1.1, 1.1))


@benchmark("mlx first long rnn", long=True)
def long_networks() -> Iterator[Line]:
    title = "RNN + gradient, T = 10,000 (unrolled)"
    yield from measured(title, "network", ("graphc", "unrolled"), 10_000, (0.1, 0.1, 0.7))


if __name__ == "__main__":
    main(*sys.argv[1:])
