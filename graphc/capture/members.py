"""Attributes of objects, found without running the user's code."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, Literal, NamedTuple

from graphc.capture.identity import is_array, is_library_file, is_library_module, value_key

ORIGINAL = "__graphc_original__"
"""The attribute of a class derived by ``rebuild`` that has the original class."""

HEAP_TYPE = 1 << 9
"""The flag of classes that are written in Python."""


class Attribute(NamedTuple):
    """An attribute: how it is read, and the object behind it.

    A ``"value"`` is stored in the object or its class, a ``"method"`` is bound to the object when
    read, a ``"class method"`` to its class; a ``"property"`` is called, a ``"plain"`` function is
    not bound.
    """

    how: Literal["value", "method", "class method", "property", "plain"]
    value: Any


def unwrapped(value: Any) -> Any:
    """The function inside a wrapper that changes no results, or the value itself."""
    while True:
        kind = type(value)
        jitted = kind.__name__ == "PjitFunction" and kind.__module__.startswith("jax")
        if not jitted and kind is not functools._lru_cache_wrapper:
            return value
        value = value.__wrapped__


def class_of(value: Any) -> type:
    """The class of an object, as the user wrote it."""
    cls = type(value)
    original: type = vars(cls).get(ORIGINAL, cls)
    return original


def is_users_class(cls: type) -> bool:
    """Whether a class is the user's own, rather than a library's."""
    return bool(cls.__flags__ & HEAP_TYPE) and _is_users(cls.__module__)


def _is_users(name: str) -> bool:
    module = sys.modules.get(name)
    return not isinstance(module, ModuleType) or not is_library_module(module)


def makes_instances(cls: type) -> bool:
    """Whether an object of the class has only attributes, so that an equal one can be made."""
    if cls is SimpleNamespace:
        return True
    return all(base is object or base.__flags__ & HEAP_TYPE for base in cls.__mro__)


def find(value: Any, name: str) -> Attribute | None:
    """An attribute of an object, a class or a module; None where it is missing."""
    if isinstance(value, type):
        inherited = _in_classes(value.__mro__, name)
        return _bound(_computed(inherited) or inherited, of_class=True)
    inherited = _in_classes(type(value).__mro__, name)
    getter = _computed(inherited)
    if getter is not None:
        kept = vars(value) if isinstance(inherited, functools.cached_property) else {}
        return Attribute("value", kept[name]) if name in kept else Attribute("property", getter)
    if isinstance(inherited, MemberDescriptorType):
        missing = object()
        kept = getattr(value, name, missing)
        return None if kept is missing else Attribute("value", kept)
    own = getattr(value, "__dict__", {})
    return _own(value, own[name]) if name in own else _bound(inherited)


def _computed(inherited: Any) -> Any:
    """The function that computes a property, or None."""
    if isinstance(inherited, functools.cached_property):
        return inherited.func
    return inherited.fget if isinstance(inherited, property) else None


def _own(value: Any, kept: Any) -> Attribute:
    """An attribute stored in the object; ``rebuild`` stores bound functions there."""
    if isinstance(kept, MethodType) and isinstance(kept.__func__, FunctionType):
        if kept.__self__ is value:
            return Attribute("method", kept.__func__)
        if kept.__self__ is type(value):
            return Attribute("class method", kept.__func__)
    return Attribute("plain" if isinstance(kept, FunctionType) else "value", kept)


def find_in_bases(value: Any, name: str, cls: type) -> Attribute | None:
    """An attribute of an object as ``super()`` finds it in a method of a class."""
    mro = type(value).__mro__
    after = mro[mro.index(cls) + 1 :] if cls in mro else ()
    return _bound(_in_classes(after, name))


ABSENT = object()
IN_C = (
    WrapperDescriptorType,
    MethodDescriptorType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    BuiltinFunctionType,
)
"""The types of attributes of classes that are written in C."""


def _in_classes(classes: tuple[type, ...], name: str) -> Any:
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), ABSENT)


def _bound(value: Any, of_class: bool = False) -> Attribute | None:
    if value is ABSENT:
        return None
    if isinstance(value, staticmethod):
        return Attribute("plain", unwrapped(value.__func__))
    if isinstance(value, classmethod):
        return Attribute("class method", unwrapped(value.__func__))
    inner = unwrapped(value)
    if isinstance(inner, FunctionType):
        return Attribute("plain" if of_class else "method", inner)
    if isinstance(inner, functools.partialmethod):
        return Attribute("method", inner)
    return None if isinstance(value, IN_C) else Attribute("value", value)


def is_of_class(value: Any, name: str) -> bool:
    """Whether an attribute of an object belongs to its class."""
    return name not in getattr(value, "__dict__", {}) and not isinstance(
        _in_classes(type(value).__mro__, name), MemberDescriptorType
    )


def attributes(value: Any) -> Iterator[str]:
    """The names of the attributes stored in an object."""
    yield from getattr(value, "__dict__", {})
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name


UNUSED = frozenset({
    *("__init__", "__new__", "__repr__", "__str__", "__post_init__", "__init_subclass__"),
    *("__reduce__", "__reduce_ex__", "__getstate__", "__class_getitem__", "__dir__", "__sizeof__"),
    *("__format__", "__replace__", "__copy__", "__deepcopy__", "__subclasshook__"),
})  # fmt: skip
"""Special methods that no expression calls."""
CHANGING = ("__set", "__del", "__iadd", "__isub", "__imul", "__imatmul", "__itruediv", "__ifloor")


def specials(made: type) -> Iterator[str]:
    """The special methods of the user's classes that expressions can call."""
    for cls in made.__mro__:
        if is_users_class(cls):
            for name, found in vars(cls).items():
                if (
                    name.startswith("__")
                    and isinstance(unwrapped(found), FunctionType)
                    and name not in UNUSED
                    and not name.startswith(CHANGING)
                    and not is_library_file(unwrapped(found).__code__.co_filename)
                ):
                    yield name


def is_content(value: Any) -> bool:
    """Whether an attribute of a class is a function or data, not internal to the class."""
    return (
        isinstance(value, FunctionType | tuple | list | dict)
        or value_key(value) is not None
        or is_array(value)
    )


def is_record(value: Any) -> bool:
    """Whether all attributes of an object are its content, as in a dataclass."""
    return dataclasses.is_dataclass(value) or not is_users_class(type(value))
