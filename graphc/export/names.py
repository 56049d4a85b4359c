"""The names of operations and structures in graph text: those of their classes, wherever they are.

A file may move and a name may not, as texts of earlier releases have it. Only what is found here
can be in a text, and all of it is graphc's own.
"""

from __future__ import annotations

import builtins
import dataclasses
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any

from graphc import errors, implicit
from graphc.implicit import ImplicitArray
from graphc.ir import Constant, Input, Leaf, Op
from graphc.tensor.core.elementwise import ROWS, Elementwise

FOLDERS = ("attention", "grad", "implicit", "loop", "optimize", "random", "tensor")
"""Where operations are."""

SPECIAL = (Constant, Elementwise, Input, Leaf)
"""Operations that are written in ways of their own."""


def operation_named(name: str) -> Elementwise | type[Op] | None:
    """Return an elementwise function, or the class of any other operation; None if there is none.

    Example:
        >>> operation_named("tanh"), operation_named("Sum").__name__
        (tanh, 'Sum')
    """
    return ROWS.get(name) or _classes().get(name) or _all_operations().get(name)


def name_of(op: Op) -> str | None:
    """Return the name of an operation; None if it is not graphc's own."""
    if isinstance(op, Elementwise):
        return op.row if ROWS.get(op.row) is op else None
    cls: Any = type(op)
    name: str = cls.__qualname__
    return name if operation_named(name) is cls else None


def parameters_of(op: Op) -> list[tuple[str, Any]]:
    """Return the names and values of an operation's parameters; a row's are its name alone.

    What is for messages alone, and does not tell operations apart, is none.
    """
    if isinstance(op, Elementwise):
        return []
    given: Any = op
    own = [field.name for field in dataclasses.fields(given) if field.compare]
    return [(name, getattr(op, name)) for name in own]


@cache
def _all_operations() -> dict[str, Any]:
    """The operations by name, after every file that may have some is imported."""
    for folder in FOLDERS:
        package = import_module(f"graphc.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    _classes.cache_clear()
    return _classes()


@cache
def _classes() -> dict[str, Any]:
    """The operations by name, of the files that are imported."""
    owners = tuple(f"graphc.{folder}." for folder in (*FOLDERS, "ir"))
    return {
        cls.__qualname__: cls
        for cls in _below(Op)
        if cls.__module__.startswith(owners)
        and not issubclass(cls, SPECIAL)
        and dataclasses.is_dataclass(cls)
        # A class with slots is made twice; the first is nobody's.
        and getattr(sys.modules[cls.__module__], cls.__name__, None) is cls
    }


def _below(cls: type[Op]) -> Iterator[type[Op]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _below(sub)


def structure_named(name: str) -> Any:
    """Return the class of an implicit array; None if it is not graphc's own.

    Example:
        >>> structure_named("CSR").__name__, structure_named("os")
        ('CSR', None)
    """
    found = getattr(implicit, name, None) if name in implicit.__all__ else None
    is_structure = isinstance(found, type) and issubclass(found, ImplicitArray)
    return found if is_structure and dataclasses.is_dataclass(found) else None


def exception_named(name: str) -> Any:
    """Return a class of exceptions, Python's or graphc's; None if there is none."""
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


@cache
def kinds_of(cls: Any) -> dict[str, Any]:
    """Return the annotation of each field of a class."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is what an annotation says.

    Example:
        >>> fits((1, None), tuple[int | None, ...]), fits("1", int), fits(1, float)
        (True, False, True)
    """
    arguments = typing.get_args(kind)
    check = CHECKS.get(typing.get_origin(kind) or kind)
    if check is not None:
        return check(value, arguments)
    # Functions and the protocols of these are in no text.
    return (
        isinstance(kind, type)
        and not getattr(kind, "_is_protocol", False)
        and isinstance(value, kind)
    )


def _fit(value: Any, kinds: tuple[Any, ...]) -> bool:
    if not isinstance(value, tuple):
        return False
    if len(kinds) == 2 and kinds[1] is ...:
        return all(fits(part, kinds[0]) for part in value)
    return len(value) == len(kinds) and all(map(fits, value, kinds))


def _is_any(value: Any, kinds: tuple[Any, ...]) -> bool:
    return any(fits(value, kind) for kind in kinds)


CHECKS: dict[Any, Callable[[Any, tuple[Any, ...]], bool]] = {
    Any: lambda value, kinds: True,
    NoneType: lambda value, kinds: value is None,
    float: lambda value, kinds: isinstance(value, float | int),
    tuple: _fit,
    Sequence: lambda value, kinds: _fit(value, (*kinds, ...)),
    type: lambda value, kinds: isinstance(value, type) and issubclass(value, kinds),
    UnionType: _is_any,
    typing.Union: _is_any,
}
"""For kinds that are no classes: whether a value is one, given what the kind has in brackets."""
