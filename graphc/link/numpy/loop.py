"""Loops in NumPy: the step is compiled once, and called for each of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from graphc.ir import Graph
from graphc.link.checks import told_of
from graphc.link.numpy.backend import backend
from graphc.link.program import Program
from graphc.loop.loop import Loop

__all__: list[str] = []


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """The step as straight-line text."""
    return op.run(told_of(op.title, _program(op.step).run, numbered=True), values)


@lru_cache(maxsize=1024)
def _program(step: Graph) -> Program:
    return Program(step, backend, None)
