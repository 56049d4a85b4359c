"""Loops in NumPy: the step is compiled once, and called in turn."""

from __future__ import annotations

from typing import Any

from graphc.link.checks import naming_step
from graphc.link.numpy.backend import backend, graph_program
from graphc.loop.loop import Loop


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Run the program of the step in turn."""
    return op.run(naming_step(op.title, graph_program(op.step).run, numbered=True), values)
