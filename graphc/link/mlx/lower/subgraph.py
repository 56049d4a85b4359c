"""Sub-graphs that are kept, on MLX: each stands between segments, and has segments of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.link.mlx.arrays import device_array, host_places
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import DRIVERS, Segments
from graphc.loop.subgraph import Subgraph


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Sequence[Any]:
    """As a part of what MLX traces."""
    program = held_program(op.graph, host_places(values))
    return tuple(map(device_array, program.trace(*values)))


def driven(op: Subgraph, options: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """Segments by themselves, for each set of inputs that are on the host."""
    segments: dict[Any, Segments] = {}

    def run(*values: Any) -> Sequence[Any]:
        known = host_places(values)
        if known not in segments:
            segments[known] = Segments(held_program(op.graph, known), options)
        return tuple(map(device_array, segments[known].run(*values)))

    return run


DRIVERS[Subgraph] = driven
