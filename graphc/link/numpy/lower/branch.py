"""Branches in NumPy: each is compiled when it is first chosen."""

from __future__ import annotations

from typing import Any

from graphc.link.numpy.backend import backend, graph_program
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Run the program of the chosen branch."""
    return graph_program(op.chosen(index)).run(*values)
