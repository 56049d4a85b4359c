"""Branches on MLX: only the chosen one is computed if the choice can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import GraphcError
from graphc.link.mlx.arrays import NotTraceableError, host_array
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.subgraph import GraphRunner, trace_graph
from graphc.link.mlx.segments import DRIVERS
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Sequence[Any]:
    """Run one branch; while MLX traces, compute all branches and select element by element."""
    if not isinstance(index, mx.array):
        return trace_graph(op.chosen(index), values)
    try:
        branch_results = [trace_graph(branch, values) for branch in op.branches]
    except GraphcError as error:
        # Lengths need to match in the chosen branch only.
        raise NotTraceableError from error
    chosen, *others = branch_results[::-1]
    for i, results in reversed([*enumerate(others[::-1])]):
        is_chosen = index == i if i else index <= i
        chosen = tuple(_select(is_chosen, a, b) for a, b in zip(results, chosen, strict=True))
    return chosen


def _select(is_chosen: Any, a: Any, b: Any) -> Any:
    if a.shape != b.shape:
        # The choice decides the shape.
        raise NotTraceableError
    return mx.where(is_chosen, a, b)


def branch_driver(op: Switch, options: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """Return the function that reads the choice, and runs the chosen branch from Python."""
    run = GraphRunner(options)
    return lambda index, *values: run(op.chosen(np.asarray(host_array(index))), *values)


DRIVERS[Switch] = branch_driver
