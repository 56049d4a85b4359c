"""Profiles of NumPy's programs: each operation is timed, in the steps of loops too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.numpy.backend import backend
from graphc.link.profile import Measurement, Stopwatch, time_calls
from graphc.link.program import Program, observing
from graphc.loop.branch import Switch
from graphc.loop.evaluate import evaluate, perform_node
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph


def measure(
    program: Program,
    options: Mapping[str, Any],
    arguments: Sequence[Any],
    repeat: int,
    *,
    fused: bool,
) -> Measurement:
    """Measure each operation; NumPy fuses none."""
    start = perf_counter()
    program.write()
    writing = perf_counter() - start
    watch = Stopwatch()
    with observing(partial(_observe, watch)):
        timed = Program(program.graph, backend, program.host)
    with np.errstate(all="ignore"):
        program.run(*arguments)
        alone = time_calls(lambda: program.run(*arguments), repeat)
        timed.run(*arguments)
        watch.reset()
        seconds = time_calls(lambda: timed.run(*arguments), repeat)
        results = program.run(*arguments)
    phases = {"writing the program": writing}
    return Measurement("each operation timed", seconds, alone, watch.parts.all(), phases, results)


def _observe(watch: Stopwatch, node: Node, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a node, which times its operation and its graphs' operations."""

    def perform(inner: Node, values: Sequence[Any]) -> Any:
        return _observe(watch, inner, lambda *xs: perform_node(inner, xs))(*values)

    return watch.observe(node, _with_timed_steps(node, compute, perform))


def _with_timed_steps(
    node: Node, compute: Callable[..., Any], perform: Callable[[Node, Sequence[Any]], Any]
) -> Callable[..., Any]:
    """Return the function of a node, with ``perform`` for the operations of its graphs."""
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
