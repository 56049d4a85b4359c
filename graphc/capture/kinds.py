"""What is done with an object of each type: descended into, part of the program, or refused."""

from __future__ import annotations

import functools
import logging
import operator
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphc.capture.code import CALL, Names, facts_of
from graphc.capture.draft import Draft, Trail, refuse
from graphc.capture.libraries import (
    is_library_file,
    is_library_module,
    public_name,
    version_of,
)
from graphc.capture.members import class_of, is_users_class, makes_instances
from graphc.capture.plain import FORMS, form_of, is_array, is_leaf, small_array
from graphc.capture.stripped import Same
from graphc.tensor.runtime import Runtime

__all__ = ["HANDLERS", "Recipe", "leaf", "other"]


class Walk(Protocol):
    """What the handlers need of a walk."""

    waiting: Any
    drafts: list[Draft]

    def visit(self, value: Any, paths: Any, trail: Trail) -> int: ...

    def bind(self, function: Draft, owner: Draft) -> None: ...


Handler = Callable[[Walk, Draft, Any], None]

WHOLE: tuple[Names, ...] = ((),)
CALLED: tuple[Names, ...] = ((CALL,),)


class Recipe(NamedTuple):
    """What a function is made of beside what it captures.

    Attributes:
        library: Whether it was made by a library; it keeps the globals it has.
        positional: How many of its positional parameters have defaults.
        keywords: Which of its keyword parameters have.
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
    def of(cls, f: FunctionType, library: bool) -> Recipe:
        return cls(
            *(f.__code__, f.__name__, f.__qualname__, f.__module__, f.__doc__),
            f.__globals__ if library else None,
            len(f.__defaults__ or ()),
            tuple(f.__kwdefaults__ or ()),
        )

    def defaults(self, f: FunctionType) -> Iterator[tuple[str, Any]]:
        """The parameters that have defaults, and these."""
        count = self.code.co_argcount
        yield from zip(
            self.code.co_varnames[count - self.positional : count],
            f.__defaults__ or (),
            strict=True,
        )
        yield from (f.__kwdefaults__ or {}).items()


def function(walk: Walk, draft: Draft, f: FunctionType) -> None:
    library = is_library_file(f.__code__.co_filename)
    if library and named(draft, f):
        return
    recipe = Recipe.of(f, library)
    form = facts_of(f.__code__).form
    token = (form, f.__name__, library, recipe.positional, recipe.keywords)
    draft.fill("function", token, recipe, str(token))
    walk.waiting.append(draft)


def named(draft: Draft, value: Any) -> bool:
    """Take it for a library's, where it has a public name there."""
    name = public_name(value)
    if name is not None:
        draft.fill("fixed", (name, Same(value)), value, f"{name} {version_of(name)}")
    return name is not None


def method(walk: Walk, draft: Draft, bound: MethodType) -> None:
    draft.fill("method", None, stable="")
    names = getattr(getattr(bound.__func__, "__code__", None), "co_varnames", ())
    is_root = draft.trail[1] == "root"
    trail = (draft, "argument", names[0] if names else "self")
    inner = walk.visit(bound.__func__, CALLED, (draft, "same", ""))
    owner = walk.visit(bound.__self__, (), trail if is_root else (draft, "attribute", "__self__"))
    draft.children += [inner, owner]
    walk.bind(walk.drafts[inner], walk.drafts[owner])


def partial(walk: Walk, draft: Draft, value: functools.partial[Any]) -> None:
    token = (len(value.args), tuple(value.keywords))
    draft.fill("partial", token, value.__class__, str(token))
    names = getattr(getattr(value.func, "__code__", None), "co_varnames", ())
    draft.children.append(walk.visit(value.func, CALLED, (draft, "same", "")))
    for i, x in enumerate(value.args):
        name = names[i] if i < len(names) else f"argument {i}"
        draft.children.append(walk.visit(x, WHOLE, (draft, "partial", name)))
    for name, x in value.keywords.items():
        draft.children.append(walk.visit(x, WHOLE, (draft, "partial", name)))


def sequence(walk: Walk, draft: Draft, value: Any) -> None:
    form = form_of(value)
    if form is not None:
        draft.fill("plain", form, value, form)
        return
    draft.fill(type(value).__name__, None, stable="")
    _items(walk, draft, enumerate(value))


def _items(walk: Walk, draft: Draft, items: Any) -> None:
    draft.children += [walk.visit(x, WHOLE, (draft, "item", key)) for key, x in items]


def namedtuple(walk: Walk, draft: Draft, value: Any) -> None:
    cls = type(value)
    draft.fill("namedtuple", Same(cls), cls, public_name(cls))
    for name, x in zip(value._fields, value, strict=True):
        draft.children.append(walk.visit(x, WHOLE, (draft, "attribute", name)))


def mapping(walk: Walk, draft: Draft, value: Any) -> None:
    keys = [_key(draft, key) for key in value]
    stable = None if any(not isinstance(key, str) for key in keys) else str(keys)
    cls = type(value)
    draft.fill("dict", (cls, *keys), (cls, tuple(value)), stable and f"{cls.__name__} {stable}")
    _items(walk, draft, value.items())


def _key(draft: Draft, key: Any) -> Any:
    form = form_of(key)
    if form is not None:
        return form
    if isinstance(key, tuple):
        parts = tuple(_key(draft, x) for x in key)
        return str(parts) if all(isinstance(x, str) for x in parts) else parts
    if isinstance(key, type):
        return Same(key)
    return refuse(
        draft,
        f"has the key {key!r}, which has no fixed form.",
        "Use numbers, text or tuples of these as keys.",
    )


def members(walk: Walk, draft: Draft, value: Any) -> None:
    """Sets hold plain values, whose order is nobody's."""
    forms = [form_of(x) for x in value]
    if None in forms:
        refuse(
            draft,
            f"is a {type(value).__name__} of more than numbers and text, which has no order.",
            "Make it a tuple.",
        )
    content = sorted(str(form) for form in forms)
    token = (type(value).__name__, *content)
    draft.fill("set", token, (type(value), tuple(value)), str(token))


def module(walk: Walk, draft: Draft, value: ModuleType) -> None:
    name = value.__name__
    if is_library_module(value):
        draft.fill("fixed", (name, Same(value)), value, f"{name} {version_of(name)}")
    else:
        draft.fill("module", name, name, name)


def class_(walk: Walk, draft: Draft, value: type) -> None:
    if not named(draft, value):
        draft.fill("class" if is_users_class(value) else "fixed", Same(value), value)


def plain(walk: Walk, draft: Draft, value: Any) -> None:
    form = form_of(value)
    draft.fill("plain", form, value, form)


def leaf(walk: Walk, draft: Draft, value: Any) -> None:
    kind = "number" if isinstance(value, Runtime) else "array"
    draft.fill("leaf", kind, None, kind)


def array(walk: Walk, draft: Draft, value: Any) -> None:
    if isinstance(getattr(value, "dtype", None), np.dtype) and value.dtype.hasobject:
        refuse(
            draft,
            "is an array of Python objects, which has no fixed content.",
            "Make it an array of numbers, or a tuple.",
        )
    if is_leaf(value):
        leaf(walk, draft, value)
    else:
        form, copy = small_array(value)
        draft.fill("plain", form, copy, form)


def builtin(walk: Walk, draft: Draft, value: Any) -> None:
    """A function written in C: of a module, or a method of an object."""
    owner = value.__self__
    if owner is None or isinstance(owner, ModuleType | type):
        if not named(draft, value):
            draft.fill("fixed", Same(value), value)
    elif form_of(owner) is not None:
        draft.fill(
            "fixed",
            ("bound", value.__name__, form_of(owner)),
            value,
            f"{value.__name__} {form_of(owner)}",
        )
    else:
        unfixed(draft, value)


GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)


def getter(walk: Walk, draft: Draft, value: Any) -> None:
    """What ``operator`` makes is fixed by what it was made of."""
    cls, made = value.__reduce__()
    form = form_of(made) if isinstance(cls, type) else None
    if form is None:
        unfixed(draft, value)
    name = f"{type(value).__name__} {form}"
    draft.fill("fixed", name, value, name)


def instance(walk: Walk, draft: Draft, value: Any) -> None:
    cls = type(value)
    if not makes_instances(cls) or isinstance(value, functools.partialmethod):
        unfixed(draft, value)
    cls = class_of(value)
    draft.fill("object", Same(cls), cls, public_name(cls))


def _is_librarys(draft: Draft) -> bool:
    holder = draft.trail[0]
    while holder is not None and holder.kind != "function":
        holder = holder.trail[0]
    return holder is not None and holder.static.library is not None


def unfixed(draft: Draft, value: Any) -> None:
    """Refuse what has no content that can be compared and passed on.

    A bare ``object()`` in functions that a library makes is there to be told from all else.
    """
    if type(value) is object and _is_librarys(draft):
        draft.fill("fixed", Same(value), value, f"object {draft.trail[2]}")
        return
    cls = type(value)
    iterates = hasattr(cls, "__next__") or hasattr(cls, "__await__") or hasattr(cls, "send")
    problem = (
        f"is a {cls.__qualname__}, which can be run through once."
        if iterates
        else f"is a {cls.__module__}.{cls.__qualname__}, which has no fixed content."
    )
    remedy = (
        "Capture a tuple of what it yields."
        if iterates
        else "Capture what the function needs of it: arrays, numbers, text, or tuples of them."
    )
    refuse(draft, problem, remedy)


def other(walk: Walk, draft: Draft, value: Any) -> None:
    """An object of any other type: the first case that it is."""
    for is_case, handle in CASES:
        if is_case(value):
            return handle(walk, draft, value)
    return unfixed(draft, value)


def _named(walk: Walk, draft: Draft, value: Any) -> None:
    named(draft, value)


def _unfixed(walk: Walk, draft: Draft, value: Any) -> None:
    unfixed(draft, value)


GRAPHS = ("graphc.compile.", "graphc.ir.", "graphc.link.")
"""Where objects are of which each is one of its kind: compiled functions, graphs, modes."""


def _is_immutable(value: Any) -> bool:
    """What is known by its identity: it computes nothing, or always the same."""
    if isinstance(value, np.ufunc | logging.Logger | CodeType):
        return True
    if type(value).__module__.startswith(GRAPHS):
        return True
    root, _, rest = type(value).__module__.partition(".")
    if root == "jax":  # its own objects do not change; some hold a function, or are arrays
        return not hasattr(value, "__wrapped__") and not hasattr(value, "shape")
    return root == "jaxlib" or (root == "mlx" and rest.startswith("core"))


def _is_iterator(value: Any) -> bool:
    return hasattr(type(value), "__next__") or hasattr(type(value), "__await__")


def _is_value(value: Any) -> bool:
    """Whether a library's class compares its objects by content: paths, dates, fractions."""
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
    **dict.fromkeys(FORMS.keys() - {tuple}, plain),
}
"""What is done with an object whose type is exactly that."""

CASES: tuple[tuple[Callable[[Any], bool], Handler], ...] = (
    (lambda x: isinstance(x, Runtime), leaf),
    (is_array, array),
    (lambda x: form_of(x) is not None, plain),
    (lambda x: isinstance(x, GETTERS), getter),
    (lambda x: isinstance(x, ModuleType), module),
    (lambda x: isinstance(x, type), class_),
    (lambda x: isinstance(x, tuple) and hasattr(x, "_fields"), namedtuple),
    (lambda x: isinstance(x, functools.partial), partial),
    (lambda x: public_name(x) is not None, _named),
    (_is_immutable, lambda walk, draft, x: draft.fill("fixed", Same(x), x)),
    (_is_iterator, _unfixed),
    (_is_value, lambda walk, draft, x: draft.fill("fixed", (type(x), x), x)),
    (lambda x: type(x) is object, _unfixed),
    (lambda x: hasattr(x, "__dict__") or hasattr(type(x), "__slots__"), instance),
)
