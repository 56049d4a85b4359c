"""Nested tuples, lists and dicts of values, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["flatten", "rebuild"]


def flatten(container: Any) -> list[Any]:
    """The values in a nested tuple, list or dict, in order; anything else is one value.

    Example:
        >>> flatten({"a": 1, "b": (2, [3])})
        [1, 2, 3]
    """
    found: list[Any] = []
    _map(container, found.append)
    return found


def rebuild(like: Any, values: list[Any]) -> Any:
    """Values in the structure of a container, as ``flatten`` took it apart.

    Example:
        >>> rebuild({"a": 1, "b": (2, [3])}, [10, 20, 30])
        {'a': 10, 'b': (20, [30])}
    """
    left: Iterator[Any] = iter(values)
    return _map(like, lambda _: next(left))


def _map(container: Any, f: Callable[[Any], Any]) -> Any:
    if isinstance(container, dict):
        return {key: _map(value, f) for key, value in container.items()}
    if isinstance(container, tuple):
        parts = [_map(value, f) for value in container]
        named = hasattr(container, "_fields")
        return type(container)(*parts) if named else tuple(parts)
    if isinstance(container, list):
        return [_map(value, f) for value in container]
    return f(container)
