"""Classes of programs with a known fault: left out until it is mended, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz.program import Program

__all__ = ["OPEN", "is_open"]

OPEN: Mapping[str, Callable[[Program], bool]] = {}
"""The classes by name. An entry is deleted with the mend of its fault."""


def is_open(program: Program) -> bool:
    """Whether a program belongs to one of the classes."""
    return any(belongs(program) for belongs in OPEN.values())
