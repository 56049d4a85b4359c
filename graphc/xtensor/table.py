"""The table through which methods of arrays with named dimensions find functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from graphc.xtensor.type import XTensor

TABLE: dict[str, Callable[..., XTensor]] = {}
"""Functions of arrays with named dimensions, by name."""

F = TypeVar("F", bound=Callable[..., Any])


def method(f: F) -> F:
    """Register a public function under its own name."""
    TABLE[f.__name__] = f
    return f
