"""Profiles of programs that NumPy runs: each operation is timed, also in the steps of loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.numpy.backend import backend
from graphc.link.profile import Measurement, Stopwatch, repeated
from graphc.link.program import Program, observed
from graphc.loop.branch import Switch
from graphc.loop.evaluate import evaluate, perform_node
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph


def measured(
    program: Program,
    options: Mapping[str, Any],
    arguments: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Measurement:
    """Measure each operation; nothing is fused."""
    start = perf_counter()
    program.write()
    writing = perf_counter() - start
    watch = Stopwatch()
    with observed(partial(_observe, watch)):
        timed = Program(program.graph, backend, program.host)
    with np.errstate(all="ignore"):
        program.run(*arguments)
        alone = repeated(lambda: program.run(*arguments), repeat)
        timed.run(*arguments)
        watch.reset()
        seconds = repeated(lambda: timed.run(*arguments), repeat)
        results = program.run(*arguments)
    parts = watch.parts.all()
    phases = {"writing the program": writing}
    return Measurement("each operation timed", seconds, alone, parts, phases, results)


def _observe(watch: Stopwatch, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes a node; its operation and those in it are timed."""

    def perform(inner: Node, values: Sequence[Any]) -> Any:
        by_reference = partial(_by_reference, inner)
        return _observe(watch, inner, by_reference)(*values)

    return watch.observe(node, _opened(node, compute, perform))


def _by_reference(node: Node, *values: Any) -> Any:
    return perform_node(node, values)


def _opened(
    node: Node, compute: Callable[..., Any], perform: Callable[[Node, Sequence[Any]], Any]
) -> Callable[..., Any]:
    """The function that computes a node, with the operations of its graphs as given."""
    match node.op:
        case Loop() as loop:
            return lambda *values: loop.run(partial(evaluate, loop.step, perform=perform), values)
        case Switch() as switch:
            return lambda index, *values: tuple(
                evaluate(switch.chosen(index), *values, perform=perform)
            )
        case Subgraph() as subgraph:
            return lambda *values: tuple(evaluate(subgraph.graph, *values, perform=perform))
    return compute
