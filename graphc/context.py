"""Values of context variables within a block of code."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class setting(Generic[T]):  # noqa: N801 (reads as a statement)
    """A context in which a context variable has a value, which the context returns.

    Args:
        variable: The variable.
        value: The value.

    Example:
        >>> depth = ContextVar("depth", default=0)
        >>> with setting(depth, 1):
        ...     depth.get()
        1
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> T:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *error: object) -> None:
        self._variable.reset(self._token)
