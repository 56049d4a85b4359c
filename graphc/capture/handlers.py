"""A handler for each type of captured object, which analyses, keeps or refuses the object."""

from __future__ import annotations

import functools
import logging
import operator
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphc.capture.code import CALL, AttributePath, code_facts
from graphc.capture.identity import (
    VALUE_KEYS,
    is_array,
    is_leaf,
    is_library_file,
    is_library_module,
    public_name,
    small_array,
    value_key,
    version_of,
)
from graphc.capture.members import class_of, is_users_class, makes_instances
from graphc.capture.objects import CapturedObject, Trail, refuse
from graphc.capture.stripped import ByIdentity
from graphc.tensor.core.runtime import Runtime


class Visitor(Protocol):
    """The methods of ``CaptureWalk`` that handlers call."""

    waiting: Any
    items: list[CapturedObject]

    def visit(self, value: Any, paths: Any, trail: Trail) -> int: ...

    def bind(self, function: CapturedObject, owner: CapturedObject) -> None: ...


Handler = Callable[[Visitor, CapturedObject, Any], None]

WHOLE: tuple[AttributePath, ...] = ((),)
CALLED: tuple[AttributePath, ...] = ((CALL,),)


class FunctionAttributes(NamedTuple):
    """The attributes of a function that are not captured.

    Attributes:
        library: The globals of a library's function, which keeps them; otherwise None.
        positional: The number of positional parameters with defaults.
        keywords: The keyword parameters with defaults.
    """

    code: CodeType
    name: str
    qualname: str
    module: str | None
    doc: str | None
    library: dict[str, Any] | None
    positional: int
    keywords: tuple[str, ...]

    @classmethod
    def of(cls, f: FunctionType, library: bool) -> FunctionAttributes:
        return cls(
            *(f.__code__, f.__name__, f.__qualname__, f.__module__, f.__doc__),
            f.__globals__ if library else None,
            len(f.__defaults__ or ()),
            tuple(f.__kwdefaults__ or ()),
        )

    def defaults(self, f: FunctionType) -> Iterator[tuple[str, Any]]:
        """Yield the parameters with defaults, and the defaults."""
        count = self.code.co_argcount
        yield from zip(
            self.code.co_varnames[count - self.positional : count],
            f.__defaults__ or (),
            strict=True,
        )
        yield from (f.__kwdefaults__ or {}).items()


def function(walk: Visitor, item: CapturedObject, f: FunctionType) -> None:
    library = is_library_file(f.__code__.co_filename)
    if library and fill_by_public_name(item, f):
        return
    attributes = FunctionAttributes.of(f, library)
    digest = code_facts(f.__code__).digest
    token = (digest, f.__name__, library, attributes.positional, attributes.keywords)
    item.fill("function", token, attributes, str(token))
    walk.waiting.append(item)


def fill_by_public_name(item: CapturedObject, value: Any) -> bool:
    """Fill an item with a library's public name; return whether the object has one."""
    name = public_name(value)
    if name is not None:
        item.fill("fixed", (name, ByIdentity(value)), value, f"{name} {version_of(name)}")
    return name is not None


def method(walk: Visitor, item: CapturedObject, bound: MethodType) -> None:
    item.fill("method", None, stable="")
    names = getattr(getattr(bound.__func__, "__code__", None), "co_varnames", ())
    is_root = item.trail[1] == "root"
    trail = (item, "argument", names[0] if names else "self")
    inner = walk.visit(bound.__func__, CALLED, (item, "same", ""))
    owner = walk.visit(bound.__self__, (), trail if is_root else (item, "attribute", "__self__"))
    item.children += [inner, owner]
    walk.bind(walk.items[inner], walk.items[owner])


def partial(walk: Visitor, item: CapturedObject, value: functools.partial[Any]) -> None:
    token = (len(value.args), tuple(value.keywords))
    item.fill("partial", token, value.__class__, str(token))
    names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
    item.children.append(walk.visit(value.func, CALLED, (item, "same", "")))
    for i, x in enumerate(value.args):
        name = names[i] if i < len(names) else f"argument {i}"
        item.children.append(walk.visit(x, WHOLE, (item, "partial", name)))
    for name, x in value.keywords.items():
        item.children.append(walk.visit(x, WHOLE, (item, "partial", name)))


def sequence(walk: Visitor, item: CapturedObject, value: Any) -> None:
    form = value_key(value)
    if form is not None:
        item.fill("plain", form, value, form)
        return
    item.fill(type(value).__name__, None, stable="")
    _items(walk, item, enumerate(value))


def _items(walk: Visitor, item: CapturedObject, items: Any) -> None:
    item.children += [walk.visit(x, WHOLE, (item, "item", key)) for key, x in items]


def namedtuple(walk: Visitor, item: CapturedObject, value: Any) -> None:
    cls = type(value)
    item.fill("namedtuple", ByIdentity(cls), cls, public_name(cls))
    for name, x in zip(value._fields, value, strict=True):
        item.children.append(walk.visit(x, WHOLE, (item, "attribute", name)))


def mapping(walk: Visitor, item: CapturedObject, value: Any) -> None:
    keys = [_key(item, key) for key in value]
    stable = None if any(not isinstance(key, str) for key in keys) else str(keys)
    cls = type(value)
    item.fill("dict", (cls, *keys), (cls, tuple(value)), stable and f"{cls.__name__} {stable}")
    _items(walk, item, value.items())


def _key(item: CapturedObject, key: Any) -> Any:
    form = value_key(key)
    if form is not None:
        return form
    if isinstance(key, tuple):
        keys = tuple(_key(item, x) for x in key)
        return str(keys) if all(isinstance(x, str) for x in keys) else keys
    if isinstance(key, type):
        return ByIdentity(key)
    return refuse(
        item,
        f"has the key {key!r}, which cannot be compared by value.",
        "Use numbers, text or tuples of these as keys.",
    )


def members(walk: Visitor, item: CapturedObject, value: Any) -> None:
    """Handle a set, which has no order: its elements must be plain values."""
    forms = [value_key(x) for x in value]
    if None in forms:
        refuse(
            item,
            f"is a {type(value).__name__} of more than numbers and text, which has no order.",
            "Make it a tuple.",
        )
    content = sorted(str(form) for form in forms)
    token = (type(value).__name__, *content)
    item.fill("set", token, (type(value), tuple(value)), str(token))


def module(walk: Visitor, item: CapturedObject, value: ModuleType) -> None:
    name = value.__name__
    if is_library_module(value):
        item.fill("fixed", (name, ByIdentity(value)), value, f"{name} {version_of(name)}")
    else:
        item.fill("module", name, name, name)


def class_(walk: Visitor, item: CapturedObject, value: type) -> None:
    if not fill_by_public_name(item, value):
        item.fill("class" if is_users_class(value) else "fixed", ByIdentity(value), value)


def plain(walk: Visitor, item: CapturedObject, value: Any) -> None:
    form = value_key(value)
    item.fill("plain", form, value, form)


def leaf(walk: Visitor, item: CapturedObject, value: Any) -> None:
    kind = "number" if isinstance(value, Runtime) else "array"
    item.fill("leaf", kind, None, kind)


def array(walk: Visitor, item: CapturedObject, value: Any) -> None:
    if isinstance(getattr(value, "dtype", None), np.dtype) and value.dtype.hasobject:
        refuse(
            item,
            "is an array of Python objects, which has no fixed content.",
            "Make it an array of numbers, or a tuple.",
        )
    if is_leaf(value):
        leaf(walk, item, value)
    else:
        form, copy = small_array(value)
        item.fill("plain", form, copy, form)


def builtin(walk: Visitor, item: CapturedObject, value: Any) -> None:
    """Handle a function defined in C: a module's, or an object's method."""
    owner = value.__self__
    if owner is None or isinstance(owner, ModuleType | type):
        if not fill_by_public_name(item, value):
            item.fill("fixed", ByIdentity(value), value)
    elif value_key(owner) is not None:
        item.fill(
            "fixed",
            ("bound", value.__name__, value_key(owner)),
            value,
            f"{value.__name__} {value_key(owner)}",
        )
    else:
        refuse_unfixed_object(item, value)


GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def getter(walk: Visitor, item: CapturedObject, value: Any) -> None:
    """Handle a callable from ``operator``, which is determined by its arguments."""
    cls, arguments = value.__reduce__()
    form = value_key(arguments) if isinstance(cls, type) else None
    if form is None:
        refuse_unfixed_object(item, value)
    name = f"{type(value).__name__} {form}"
    item.fill("fixed", name, value, name)


def instance(walk: Visitor, item: CapturedObject, value: Any) -> None:
    cls = type(value)
    if not makes_instances(cls) or isinstance(value, functools.partialmethod):
        refuse_unfixed_object(item, value)
    cls = class_of(value)
    item.fill("object", ByIdentity(cls), cls, public_name(cls))


def _is_librarys(item: CapturedObject) -> bool:
    holder = item.trail[0]
    while holder is not None and holder.kind != "function":
        holder = holder.trail[0]
    return holder is not None and holder.static.library is not None


def refuse_unfixed_object(item: CapturedObject, value: Any) -> None:
    """Refuse an object without fixed content.

    A bare ``object()`` in a library's function is accepted: it is a sentinel.
    """
    if type(value) is object and _is_librarys(item):
        item.fill("fixed", ByIdentity(value), value, f"object {item.trail[2]}")
        return
    cls = type(value)
    iterates = hasattr(cls, "__next__") or hasattr(cls, "__await__") or hasattr(cls, "send")
    problem = (
        f"is a {cls.__qualname__}, which can be iterated only once."
        if iterates
        else f"is a {cls.__module__}.{cls.__qualname__}, which has no fixed content."
    )
    remedy = (
        "Capture a tuple of its elements."
        if iterates
        else "Capture what the function needs of it: arrays, numbers, text, or tuples of them."
    )
    refuse(item, problem, remedy)


def other(walk: Visitor, item: CapturedObject, value: Any) -> None:
    """Handle an object of any other type by the first case that applies."""
    for is_case, handle in CASES:
        if is_case(value):
            return handle(walk, item, value)
    return refuse_unfixed_object(item, value)


def _fill_by_public_name(walk: Visitor, item: CapturedObject, value: Any) -> None:
    fill_by_public_name(item, value)


def _refuse_unfixed_object(walk: Visitor, item: CapturedObject, value: Any) -> None:
    refuse_unfixed_object(item, value)


GRAPHS = ("graphc.compile.", "graphc.ir.", "graphc.link.")
"""The modules of objects compared by identity: compiled functions, graphs, modes."""


def _is_immutable(value: Any) -> bool:
    """Return whether an object never changes, so that it can be compared by identity."""
    if isinstance(value, np.ufunc | logging.Logger | CodeType):
        return True
    if type(value).__module__.startswith(GRAPHS):
        return True
    root, _, rest = type(value).__module__.partition(".")
    if root == "jax":  # its own objects do not change; some wrap a function, or are arrays
        is_array = hasattr(value, "shape") and hasattr(value, "dtype")  # a mesh has a shape too
        return not hasattr(value, "__wrapped__") and not is_array
    return root == "jaxlib" or (root == "mlx" and rest.startswith("core"))


def _is_iterator(value: Any) -> bool:
    return hasattr(type(value), "__next__") or hasattr(type(value), "__await__")


def _is_value(value: Any) -> bool:
    """Return whether an object of a library's class compares by content, as paths and dates do."""
    cls: Any = type(value)
    if is_users_class(cls) or cls.__eq__ is object.__eq__ or cls.__hash__ is object.__hash__:
        return False
    if isinstance(value, weakref.ref):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


HANDLERS: dict[type, Handler] = {
    FunctionType: function,
    MethodType: method,
    functools.partial: partial,
    tuple: sequence,
    list: sequence,
    dict: mapping,
    OrderedDict: mapping,
    set: members,
    frozenset: members,
    ModuleType: module,
    type: class_,
    BuiltinFunctionType: builtin,
    np.ndarray: array,
    NoneType: plain,
    **dict.fromkeys(VALUE_KEYS.keys() - {tuple}, plain),
}
"""The handlers, by an object's exact type."""

CASES: tuple[tuple[Callable[[Any], bool], Handler], ...] = (
    (lambda x: isinstance(x, Runtime), leaf),
    (is_array, array),
    (lambda x: value_key(x) is not None, plain),
    (lambda x: isinstance(x, GETTERS), getter),
    (lambda x: isinstance(x, ModuleType), module),
    (lambda x: isinstance(x, type), class_),
    (lambda x: isinstance(x, tuple) and hasattr(x, "_fields"), namedtuple),
    (lambda x: isinstance(x, functools.partial), partial),
    (lambda x: public_name(x) is not None, _fill_by_public_name),
    (_is_immutable, lambda walk, item, x: item.fill("fixed", ByIdentity(x), x)),
    (_is_iterator, _refuse_unfixed_object),
    (_is_value, lambda walk, item, x: item.fill("fixed", (type(x), x), x)),
    (lambda x: type(x) is object, _refuse_unfixed_object),
    (lambda x: hasattr(x, "__dict__") or hasattr(type(x), "__slots__"), instance),
)
