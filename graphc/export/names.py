"""The names of operations and structures in graph text: their class names, without the module.

A class may move but keeps its name, because texts of earlier releases contain it. Texts can refer
only to classes that are found here, which graphc defines.
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
"""The packages that define operations."""

SPECIAL = (Constant, Elementwise, Input, Leaf)
"""Operations with a special syntax."""


def find_operation(name: str) -> Elementwise | type[Op] | None:
    """Return an elementwise function, or the class of any other operation; None if there is none.

    Example:
        >>> find_operation("tanh"), find_operation("Sum").__name__
        (tanh, 'Sum')
    """
    return ROWS.get(name) or _classes().get(name) or _all_operations().get(name)


def name_of(op: Op) -> str | None:
    """Return the name of an operation; None if graphc does not define it."""
    if isinstance(op, Elementwise):
        return op.row if ROWS.get(op.row) is op else None
    cls: Any = type(op)
    name: str = cls.__qualname__
    return name if find_operation(name) is cls else None


def parameters_of(op: Op) -> list[tuple[str, Any]]:
    """Return the names and values of an operation's parameters; a row has none.

    Fields that are not compared, such as labels for messages, are left out.
    """
    if isinstance(op, Elementwise):
        return []
    instance: Any = op
    names = [field.name for field in dataclasses.fields(instance) if field.compare]
    return [(name, getattr(op, name)) for name in names]


@cache
def _all_operations() -> dict[str, Any]:
    """Return the operations by name, after an import of all files that define some."""
    for folder in FOLDERS:
        package = import_module(f"graphc.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    _classes.cache_clear()
    return _classes()


@cache
def _classes() -> dict[str, Any]:
    """Return the operations by name, of the files imported so far."""
    owners = tuple(f"graphc.{folder}." for folder in (*FOLDERS, "ir"))
    return {
        cls.__qualname__: cls
        for cls in _below(Op)
        if cls.__module__.startswith(owners)
        and not issubclass(cls, SPECIAL)
        and dataclasses.is_dataclass(cls)
        # dataclass(slots=True) makes a second class, which replaces this one.
        and getattr(sys.modules[cls.__module__], cls.__name__, None) is cls
    }


def _below(cls: type[Op]) -> Iterator[type[Op]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _below(sub)


def find_structure(name: str) -> Any:
    """Return the class of an implicit array; None if graphc does not define it.

    Example:
        >>> find_structure("CSR").__name__, find_structure("os")
        ('CSR', None)
    """
    cls = getattr(implicit, name, None) if name in dir(implicit) else None
    is_structure = isinstance(cls, type) and issubclass(cls, ImplicitArray)
    return cls if is_structure and dataclasses.is_dataclass(cls) else None


def find_exception(name: str) -> Any:
    """Return an exception class of Python or graphc; None if there is none."""
    cls = getattr(errors, name, None) or getattr(builtins, name, None)
    return cls if isinstance(cls, type) and issubclass(cls, Exception) else None


@cache
def kinds_of(cls: Any) -> dict[str, Any]:
    """Return the annotation of each field of a class."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value matches an annotation.

    Example:
        >>> fits((1, None), tuple[int | None, ...]), fits("1", int), fits(1, float)
        (True, False, True)
    """
    arguments = typing.get_args(kind)
    check = CHECKS.get(typing.get_origin(kind) or kind)
    if check is not None:
        return check(value, arguments)
    # Functions and their protocols have no text.
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
"""Tests of values for annotations that are not classes, given the arguments in brackets."""
