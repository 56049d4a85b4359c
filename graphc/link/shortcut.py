"""Shortcuts: the functions that the next calls of executables go to, for code of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any


class NotAdmittedError(Exception):
    """An argument does not have its input's dtype, and was not converted."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Where calls of an executable go at present, with nothing between.

    Attributes:
        cell: Holds the function, and another one when more is compiled. It takes what the
            executable takes.
        again: Gives the results of a call that the function failed, given the error and the
            arguments. The function then refuses arrays of the backend's own whose dtypes ``again``
            was never given, so that code of calls need not look at these. None where the function
            does all that the executable does.
    """

    cell: CellType
    again: Callable[[Exception, tuple[Any, ...]], Any] | None = None

    @classmethod
    def of(cls, execute: Callable[..., Any]) -> Shortcut | None:
        """That of an executable, if it has one."""
        return getattr(execute, "shortcut", None)


def cell_of(function: Any, name: str) -> CellType:
    """The cell of a function's free variable."""
    found: CellType = function.__closure__[function.__code__.co_freevars.index(name)]
    return found


def with_cells(function: Any, cells: Sequence[CellType]) -> FunctionType:
    """The function with other cells for its free variables."""
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, (*cells,)
    )
    made.__doc__ = function.__doc__
    return made
