"""Subgraphs in NumPy: each is compiled once."""

from __future__ import annotations

from typing import Any

from graphc.link.numpy.backend import backend, graph_program
from graphc.loop.subgraph import Subgraph


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """Run the program of the graph."""
    return graph_program(op.graph).run(*values)
