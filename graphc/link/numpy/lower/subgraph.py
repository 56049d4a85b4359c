"""Sub-graphs that are kept, in NumPy: each is compiled once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from graphc.ir import Graph
from graphc.link.numpy.backend import backend
from graphc.link.program import Program
from graphc.loop.subgraph import Subgraph


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """The graph, run as a program of its own."""
    return _program(op.graph).run(*values)


@lru_cache(maxsize=1024)
def _program(graph: Graph) -> Program:
    return Program(graph, backend, None)
