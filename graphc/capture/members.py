"""Attributes of objects, found without running the user's code."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from graphc.capture.identity import is_array, is_library_file, is_library_module, value_key

ORIGINAL = "__graphc_original__"
"""The attribute that stores the original class in a class derived by ``rebuild``."""

HEAP_TYPE = 1 << 9
"""The flag of classes defined in Python."""


class Attribute(NamedTuple):
    """An attribute: how it is read, and the object behind it.

    A ``"value"`` is stored in the object or its class, a ``"method"`` is bound to the object when
    read, a ``"class method"`` to its class; a ``"property"`` is called, a ``"plain"`` function is
    not bound.
    """

    how: Literal["value", "method", "class method", "property", "plain"]
    value: Any


def unwrap(value: Any) -> Any:
    """Return the function inside a wrapper that changes no results, or the value itself."""
    while True:
        kind = type(value)
        jitted = kind.__name__ == "PjitFunction" and kind.__module__.startswith("jax")
        if not jitted and kind is not functools._lru_cache_wrapper:
            return value
        value = value.__wrapped__


def class_of(value: Any) -> type:
    """Return the class of an object, as the user wrote it."""
    cls = type(value)
    original: type = vars(cls).get(ORIGINAL, cls)
    return original


def is_users_class(cls: type) -> bool:
    """Return whether a class is the user's, rather than a library's."""
    return bool(cls.__flags__ & HEAP_TYPE) and _is_users(cls.__module__)


def _is_users(name: str) -> bool:
    module = sys.modules.get(name)
    return not isinstance(module, types.ModuleType) or not is_library_module(module)


def makes_instances(cls: type) -> bool:
    """Return whether an object of the class is determined by its attributes."""
    if cls is types.SimpleNamespace:
        return True
    return all(base is object or base.__flags__ & HEAP_TYPE for base in cls.__mro__)


def find(value: Any, name: str) -> Attribute | None:
    """Return an attribute of an object, a class or a module; None if it is missing."""
    if isinstance(value, type):
        inherited = _in_classes(value.__mro__, name)
        return _bound(_property_getter(inherited) or inherited, of_class=True)
    inherited = _in_classes(type(value).__mro__, name)
    getter = _property_getter(inherited)
    if getter is not None:
        stored = vars(value) if isinstance(inherited, functools.cached_property) else {}
        return Attribute("value", stored[name]) if name in stored else Attribute("property", getter)
    if isinstance(inherited, types.MemberDescriptorType):
        missing = object()
        stored = getattr(value, name, missing)
        return None if stored is missing else Attribute("value", stored)
    own = getattr(value, "__dict__", {})
    return _own(value, own[name]) if name in own else _bound(inherited)


def _property_getter(inherited: Any) -> Any:
    if isinstance(inherited, functools.cached_property):
        return inherited.func
    return inherited.fget if isinstance(inherited, property) else None


def _own(value: Any, stored: Any) -> Attribute:
    """Return an attribute stored in the object, where ``rebuild`` stores bound functions."""
    if isinstance(stored, types.MethodType) and isinstance(stored.__func__, types.FunctionType):
        if stored.__self__ is value:
            return Attribute("method", stored.__func__)
        if stored.__self__ is type(value):
            return Attribute("class method", stored.__func__)
    return Attribute("plain" if isinstance(stored, types.FunctionType) else "value", stored)


def find_in_bases(value: Any, name: str, cls: type) -> Attribute | None:
    """Return an attribute of an object as ``super()`` finds it in a method of a class."""
    mro = type(value).__mro__
    after = mro[mro.index(cls) + 1 :] if cls in mro else ()
    return _bound(_in_classes(after, name))


ABSENT = object()
IN_C = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.BuiltinFunctionType,
)
"""The types of attributes of classes defined in C."""


def _in_classes(classes: tuple[type, ...], name: str) -> Any:
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), ABSENT)


def _bound(value: Any, of_class: bool = False) -> Attribute | None:
    if value is ABSENT:
        return None
    if isinstance(value, staticmethod):
        return Attribute("plain", unwrap(value.__func__))
    if isinstance(value, classmethod):
        return Attribute("class method", unwrap(value.__func__))
    inner = unwrap(value)
    if isinstance(inner, types.FunctionType):
        return Attribute("plain" if of_class else "method", inner)
    if isinstance(inner, functools.partialmethod):
        return Attribute("method", inner)
    return None if isinstance(value, IN_C) else Attribute("value", value)


def is_of_class(value: Any, name: str) -> bool:
    """Return whether an attribute of an object belongs to its class."""
    return name not in getattr(value, "__dict__", {}) and not isinstance(
        _in_classes(type(value).__mro__, name), types.MemberDescriptorType
    )


def attributes(value: Any) -> Iterator[str]:
    """Yield the names of the attributes stored in an object."""
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


def specials(instance_class: type) -> Iterator[str]:
    """Yield the special methods of the user's classes that expressions can call."""
    for cls in instance_class.__mro__:
        if is_users_class(cls):
            for name, attribute in vars(cls).items():
                if (
                    name.startswith("__")
                    and isinstance(unwrap(attribute), types.FunctionType)
                    and name not in UNUSED
                    and not name.startswith(CHANGING)
                    and not is_library_file(unwrap(attribute).__code__.co_filename)
                ):
                    yield name


def is_content(value: Any) -> bool:
    """Return whether an attribute of a class is a function or data, not internal to the class."""
    return (
        isinstance(value, types.FunctionType | tuple | list | dict)
        or value_key(value) is not None
        or is_array(value)
    )


def is_record(value: Any) -> bool:
    """Return whether all attributes of an object are its content, as in a dataclass."""
    return dataclasses.is_dataclass(value) or not is_users_class(type(value))
