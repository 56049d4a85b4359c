"""Nested tuples, lists, dicts and dataclasses of values, and objects around one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Self, TypeVar

_VALUES: set[type] = set()

STATIC = "graphc.static"
"""The key in the metadata of a dataclass's static field, which holds no value."""


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
    values: list[Any] = []
    _map(container, values.append)
    return values


def flatten_like(like: Any, container: Any) -> list[Any]:
    """Return the values of a container with the structure of another, in the other's order.

    Raises:
        ValueError: If the structures differ; says where.

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
    return [value for part, other in pairs for value in flatten_like(part, other)]


def _flatten_object(cls: Any, like: Any, container: Any) -> list[Any]:
    if type(container) is not cls:
        kind = type(container).__name__
        shape = f" of shape {tuple(container.shape)}" if hasattr(container, "shape") else ""
        raise ValueError(f"expected a {cls.__name__}, got a {kind}{shape}")
    values, static = _names(like.__class__)
    for name in static:
        _check_static(f"{cls.__name__}.{name}", getattr(like, name), getattr(container, name))
    result: list[Any] = []
    for name in values:
        part, other = getattr(like, name), getattr(container, name)
        if _is_implicit(like) and (part is None or other is None):
            if part is not other:
                raise ValueError(
                    f"{cls.__name__}.{name} is {'None' if part is None else 'not None'}"
                )
            continue
        try:
            result += flatten_like(part, other)
        except ValueError as error:
            raise ValueError(f"in {cls.__name__}.{name}, {error}") from error
    return result


def _check_static(name: str, wanted: Any, actual: Any) -> None:
    if (type(actual), actual) != (type(wanted), wanted):
        wanted, actual = repr(wanted), repr(actual)
        other = "another, though both read alike" if actual == wanted else actual
        raise ValueError(f"{name} is {wanted}, not {other}")


def paths(container: Any, root: str) -> list[str]:
    """Return the path of each value in a container, in the order of ``flatten``.

    Example:
        >>> paths({"a": 1, "b": (2, [3])}, "state")
        ["state['a']", "state['b'][0]", "state['b'][1][0]"]
    """
    if isinstance(container, dict):
        items = [(f"{root}[{key!r}]", value) for key, value in container.items()]
    elif isinstance(container, list | tuple):
        names = getattr(container, "_fields", None)
        ways = [f".{x}" for x in names] if names else [f"[{i}]" for i in range(len(container))]
        items = [(root + way, value) for way, value in zip(ways, container, strict=True)]
    elif is_container(container):
        items = [(f"{root}.{name}", value) for name, value in _fields(container).items()]
    else:
        return [root]
    return [path for at, value in items for path in paths(value, at)]


def objects_with_static_fields(container: Any) -> Iterator[Any]:
    """Yield the objects in a nested container that have static fields beside their values.

    Example:
        >>> from dataclasses import dataclass, field
        >>> @dataclass
        ... class Scaled:
        ...     x: float
        ...     by: float = field(metadata={STATIC: True})
        >>> list(objects_with_static_fields({"a": (1, [Scaled(2, by=0.5)])}))
        [Scaled(x=2, by=0.5)]
    """
    if not is_container(container):
        return
    if isinstance(container, dict):
        items = list(container.values())
    elif isinstance(container, list | tuple):
        items = list(container)
    else:
        items = list(_fields(container).values())
        if _names(container.__class__)[1]:
            yield container
    for part in items:
        yield from objects_with_static_fields(part)


def rebuild(like: Any, values: list[Any]) -> Any:
    """Return values in the structure of a container: the inverse of ``flatten``.

    Example:
        >>> rebuild({"a": 1, "b": (2, [3])}, [10, 20, 30])
        {'a': 10, 'b': (20, [30])}
    """
    remaining: Iterator[Any] = iter(values)
    return _map(like, lambda _: next(remaining))


def is_container(value: Any) -> bool:
    """Return whether ``flatten`` descends into a value: a tuple, list, dict or dataclass instance.

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
    """Return the names of a dataclass's value fields, and the names of its static fields."""
    named = fields(cls)
    values = tuple(x.name for x in named if x.init and STATIC not in x.metadata)
    return values, tuple(x.name for x in named if STATIC in x.metadata)


def _fields(value: Any) -> dict[str, Any]:
    cls: Any = type(value)
    values = {name: getattr(value, name) for name in _names(cls)[0]}
    if _is_implicit(value):
        # A field without an array is no value.
        return {name: part for name, part in values.items() if part is not None}
    return values


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
        items = [_map(value, f) for value in container]
        named = hasattr(container, "_fields")
        return type(container)(*items) if named else tuple(items)
    if isinstance(container, list):
        return [_map(value, f) for value in container]
    new = {k: _map(v, f) for k, v in _fields(container).items()}
    return _copy_with(container, new) if _is_implicit(container) else replace(container, **new)


def _copy_with(container: Any, values: Mapping[str, Any]) -> Any:
    """Return a copy with other field values, without calling ``__init__``."""
    copy: Any = object.__new__(type(container))
    for field in fields(container):
        part = values.get(field.name, getattr(container, field.name))
        object.__setattr__(copy, field.name, part)
    return copy


class Wrapper:
    """An object around one symbolic array, such as an array whose dimensions have names.

    Functions of graphs (``function``, ``grad``, ``scan``, ``eval``) unwrap the array, and wrap
    results of the same axes in the same way. Functions of arrays refuse a wrapper. No graph and no
    compiled program holds one.

    Attributes:
        values: The array.
    """

    __slots__ = ()

    values: Any

    @property
    def type(self) -> Any:
        """The array's type in messages."""
        return self.values.type

    def alike(self, values: Any) -> Self:
        """Wrap another array of the same axes in the same way."""
        raise NotImplementedError

    def positional(self, sharding: Any) -> Any:
        """Return a user's sharding with entries by position."""
        return sharding

    def order_axes(self, given: Any) -> Any:
        """Return the array of a value whose axes correspond to this wrapper's, in this order.

        Args:
            given: A wrapper, an array with named axes, or an array by position.
        """
        return unwrap(given)

    def element(self, values: Any) -> Any:
        """Wrap an element of the array in a step of a loop, which lacks the first axis."""
        return self.alike(values)

    def rows(self, values: Any, sequences: Sequence[Wrapper]) -> Any:
        """Wrap a loop's result: arrays like this one, stacked along a new first axis.

        Args:
            values: The array.
            sequences: The sequences of the loop.
        """
        return self.alike(values)


def unwrap(x: Any) -> Any:
    """Return the array of a wrapper, or any other object itself."""
    return x.values if isinstance(x, Wrapper) else x


def unwrap_all(given: Any) -> Any:
    """Return an object, or a list or tuple of objects, with arrays instead of wrappers."""
    if isinstance(given, list | tuple):
        return [unwrap(x) for x in given]
    return unwrap(given)


def wrap_like(like: Any, x: Any) -> Any:
    """Return an array in the wrapper class of ``like``, if ``like`` is a wrapper; None for None."""
    return like.alike(x) if isinstance(like, Wrapper) and x is not None else x


def unwrap_pair(old: Any, new: Any) -> tuple[Any, Any]:
    """Return a part of a graph and its replacement or value, as arrays."""
    return (old.values, old.order_axes(new)) if isinstance(old, Wrapper) else (old, new)
