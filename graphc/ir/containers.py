"""Nested tuples, lists, dicts and dataclasses of values: flattened and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

_VALUES: set[type] = set()

STATIC = "graphc.static"
"""The key in the metadata of a dataclass's field that says what its object is, and is no value."""


T = TypeVar("T", bound=type)


def value_class(cls: T) -> T:
    """Mark a dataclass whose instances are values, not containers of values."""
    _VALUES.add(cls)
    return cls


def flatten(container: Any) -> list[Any]:
    """Return the values in a nested container, in order; any other object is one value.

    Example:
        >>> flatten({"a": 1, "b": (2, [3])})
        [1, 2, 3]
    """
    found: list[Any] = []
    _map(container, found.append)
    return found


def flatten_like(like: Any, container: Any) -> list[Any]:
    """Return the values of a container with the structure of another, in that one's order.

    Raises:
        ValueError: Says where the structures differ.

    Example:
        >>> flatten_like({"a": 0, "b": (0, 0)}, {"b": (2, 3), "a": 1})
        [1, 2, 3]
    """
    if isinstance(like, dict):
        if not isinstance(container, Mapping) or set(container) != set(like):
            is_dict = isinstance(container, Mapping)
            keys = sorted(container, key=str) if is_dict else repr(container)
            raise ValueError(f"expected a dict with the keys {sorted(like, key=str)}, got {keys}")
        pairs = [(like[key], container[key]) for key in like]
    elif isinstance(like, list | tuple):
        if not isinstance(container, list | tuple) or len(container) != len(like):
            raise ValueError(f"expected a sequence of {len(like)}, got {container!r}")
        pairs = list(zip(like, container, strict=True))
    elif is_container(like):
        return _flatten_object(type(like), like, container)
    else:
        return [container]
    return [value for part, given in pairs for value in flatten_like(part, given)]


def _flatten_object(cls: Any, like: Any, container: Any) -> list[Any]:
    """Return the values in the fields of a dataclass whose static fields equal the other's."""
    if type(container) is not cls:
        kind = type(container).__name__
        shape = f" of shape {tuple(container.shape)}" if hasattr(container, "shape") else ""
        raise ValueError(f"expected a {cls.__name__}, got a {kind}{shape}")
    values, static = _names(like.__class__)
    for name in static:
        _check_static(f"{cls.__name__}.{name}", getattr(like, name), getattr(container, name))
    found: list[Any] = []
    for name in values:
        part, given = getattr(like, name), getattr(container, name)
        if _is_implicit(like) and (part is None or given is None):
            if part is not given:
                raise ValueError(
                    f"{cls.__name__}.{name} is {'None' if part is None else 'not None'}"
                )
            continue
        try:
            found += flatten_like(part, given)
        except ValueError as error:
            raise ValueError(f"in {cls.__name__}.{name}, {error}") from error
    return found


def _check_static(name: str, wanted: Any, given: Any) -> None:
    if (type(given), given) != (type(wanted), wanted):
        wanted, given = repr(wanted), repr(given)
        other = "another, though both read alike" if given == wanted else given
        raise ValueError(f"{name} is {wanted}, not {other}")


def paths(container: Any, root: str) -> list[str]:
    """Return the path of each value in a container, in the order of ``flatten``.

    Example:
        >>> paths({"a": 1, "b": (2, [3])}, "state")
        ["state['a']", "state['b'][0]", "state['b'][1][0]"]
    """
    if isinstance(container, dict):
        parts = [(f"{root}[{key!r}]", value) for key, value in container.items()]
    elif isinstance(container, list | tuple):
        names = getattr(container, "_fields", None)
        ways = [f".{x}" for x in names] if names else [f"[{i}]" for i in range(len(container))]
        parts = [(root + way, value) for way, value in zip(ways, container, strict=True)]
    elif is_container(container):
        parts = [(f"{root}.{name}", value) for name, value in _fields(container).items()]
    else:
        return [root]
    return [path for at, value in parts for path in paths(value, at)]


def wholes(container: Any) -> Iterator[Any]:
    """Return the objects in a nested container that have static fields beside their values.

    Example:
        >>> from dataclasses import dataclass, field
        >>> @dataclass
        ... class Scaled:
        ...     x: float
        ...     by: float = field(metadata={STATIC: True})
        >>> list(wholes({"a": (1, [Scaled(2, by=0.5)])}))
        [Scaled(x=2, by=0.5)]
    """
    if not is_container(container):
        return
    if isinstance(container, dict):
        parts = list(container.values())
    elif isinstance(container, list | tuple):
        parts = list(container)
    else:
        parts = list(_fields(container).values())
        if _names(container.__class__)[1]:
            yield container
    for part in parts:
        yield from wholes(part)


def rebuild(like: Any, values: list[Any]) -> Any:
    """Return values in the structure of a container: the inverse of ``flatten``.

    Example:
        >>> rebuild({"a": 1, "b": (2, [3])}, [10, 20, 30])
        {'a': 10, 'b': (20, [30])}
    """
    left: Iterator[Any] = iter(values)
    return _map(like, lambda _: next(left))


def is_container(value: Any) -> bool:
    """Return whether ``flatten`` opens it: a tuple, list, dict or instance of a dataclass.

    Example:
        >>> is_container(()), is_container(1.5)
        (True, False)
    """
    cls: Any = type(value)
    return _is_container_class(cls)


@cache
def _is_container_class(cls: Any) -> bool:
    return issubclass(cls, dict | tuple | list) or (is_dataclass(cls) and cls not in _VALUES)


@cache
def _names(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a dataclass's value fields, and those of its static fields."""
    named = fields(cls)
    values = tuple(x.name for x in named if x.init and STATIC not in x.metadata)
    return values, tuple(x.name for x in named if STATIC in x.metadata)


def _fields(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    found = {name: getattr(value, name) for name in _names(cls)[0]}
    if _is_implicit(value):
        # A field without an array is no value.
        return {name: part for name, part in found.items() if part is not None}
    return found


def _is_implicit(value: Any) -> bool:
    cls: Any = type(value)
    return _is_implicit_class(cls)


@cache
def _is_implicit_class(cls: Any) -> bool:
    return hasattr(cls, "__graphc_implicit__")


def _map(container: Any, f: Callable[[Any], Any]) -> Any:
    if not is_container(container):
        return f(container)
    if isinstance(container, dict):
        return {key: _map(value, f) for key, value in container.items()}
    if isinstance(container, tuple):
        parts = [_map(value, f) for value in container]
        named = hasattr(container, "_fields")
        return type(container)(*parts) if named else tuple(parts)
    if isinstance(container, list):
        return [_map(value, f) for value in container]
    made = {k: _map(v, f) for k, v in _fields(container).items()}
    return _unchecked(container, made) if _is_implicit(container) else replace(container, **made)


def _unchecked(container: Any, parts: Mapping[str, Any]) -> Any:
    """Return an instance with other parts, without calling ``__init__`` or checking them."""
    made: Any = object.__new__(type(container))
    for field in fields(container):
        part = parts.get(field.name, getattr(container, field.name))
        object.__setattr__(made, field.name, part)
    return made
