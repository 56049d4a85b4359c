"""Branches on MLX: only the chosen one is computed, where the choice can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import GraphcError
from graphc.ir import Graph
from graphc.link.mlx.arrays import NotTraceableError, device_array, host_array, host_places
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import DRIVERS, Segments
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Sequence[Any]:
    """While MLX traces, all branches are computed and one is selected, element by element."""
    if not isinstance(index, mx.array):
        return _traced(op.chosen(index), values)
    try:
        found = [_traced(branch, values) for branch in op.branches]
    except GraphcError as error:
        # Lengths need only fit in the chosen one.
        raise NotTraceableError from error
    chosen, *others = found[::-1]
    for i, results in reversed([*enumerate(others[::-1])]):
        here = index == i if i else index <= i
        chosen = tuple(_either(here, a, b) for a, b in zip(results, chosen, strict=True))
    return chosen


def _either(here: Any, a: Any, b: Any) -> Any:
    if a.shape != b.shape:
        # Only the shape of the chosen one is right.
        raise NotTraceableError
    return mx.where(here, a, b)


def _traced(branch: Graph, values: Sequence[Any]) -> tuple[Any, ...]:
    program = held_program(branch, host_places(values))
    return tuple(map(device_array, program.trace(*values)))


def driven(op: Switch, options: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """The chosen branch, once the choice is read."""
    segments: dict[Any, Segments] = {}

    def run(index: Any, *values: Any) -> Sequence[Any]:
        branch = op.chosen(np.asarray(host_array(index)))
        known = host_places(values)
        if (branch, known) not in segments:
            segments[branch, known] = Segments(held_program(branch, known), options)
        return tuple(map(device_array, segments[branch, known].run(*values)))

    return run


DRIVERS[Switch] = driven
