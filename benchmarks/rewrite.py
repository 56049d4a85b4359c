"""Whether building, differentiating and rewriting take time linear in the size of the graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import graphc
import graphc.tensor as gt
from benchmarks.compile import chain, wide
from benchmarks.table import Line, benchmark, write
from graphc.ir import Graph
from graphc.rewrite import optimize

REPEATS = 3


def microseconds(loss: Callable[..., Any], n: int) -> tuple[int, list[float]]:
    """Nodes of a loss and its gradient, and microseconds a node to build, derive and rewrite."""
    times = []
    for _ in range(REPEATS):
        x = gt.vector("x", dtype="float32")
        gc.collect()
        start = perf_counter()
        y = loss(n, gt, x)
        built = perf_counter()
        gradient = graphc.grad(y, x)
        derived = perf_counter()
        graph = Graph([x], [y, gradient])
        before = perf_counter()
        rewritten = optimize(graph)
        after = perf_counter()
        times.append((built - start, derived - built, after - before))
        nodes = len(graph)
        del y, gradient, graph, rewritten
    return nodes, [min(stage) / nodes * 1e6 for stage in zip(*times, strict=True)]


@benchmark("rewrite")
def growth() -> Iterator[Line]:
    write(f"  {'':<8} {'nodes':>8} {'build':>7} {'grad':>7} {'rewrite':>8}   microseconds a node")
    for name, loss, part in (("chain", chain, 0.35), ("wide", wide, 0.35)):
        for size in (1_000, 10_000, 100_000):
            nodes, (build, grad, rewrite) = microseconds(loss, int(size * part))
            write(f"  {name:<8} {nodes:>8} {build:>7.1f} {grad:>7.1f} {rewrite:>8.1f}")
    yield from ()
