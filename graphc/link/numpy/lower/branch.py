"""Branches in NumPy: each is compiled when it is first chosen."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from graphc.ir import Graph
from graphc.link.numpy.backend import backend
from graphc.link.program import Program
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """The chosen branch, run as a program of its own."""
    return _program(op.chosen(index)).run(*values)


@lru_cache(maxsize=1024)
def _program(branch: Graph) -> Program:
    return Program(branch, backend, None)
