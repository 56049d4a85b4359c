"""Loops, branches and subgraphs in NumPy: a graph is compiled when it first runs."""

from __future__ import annotations

from typing import Any

from graphc.link.checks import naming_step
from graphc.link.numpy.backend import backend, graph_program
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Run the program of the step in turn."""
    return op.run(naming_step(op.title, graph_program(op.step).run, numbered=True), values)


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Run the program of the chosen branch."""
    return graph_program(op.chosen(index)).run(*values)


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """Run the program of the graph."""
    return graph_program(op.graph).run(*values)
