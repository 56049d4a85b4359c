"""Loops in NumPy: the step is compiled once, and called for each of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from graphc.ir import Graph
from graphc.link.checks import naming_step
from graphc.link.numpy.backend import backend
from graphc.link.program import Program
from graphc.loop.loop import Loop


@backend.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """The step, run as a program for each of them."""
    return op.run(naming_step(op.title, _program(op.step).run, numbered=True), values)


@lru_cache(maxsize=1024)
def _program(step: Graph) -> Program:
    return Program(step, backend, None)
