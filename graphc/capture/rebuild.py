"""Functions put together again from their stripped form and leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from graphc.capture.kinds import Recipe
from graphc.capture.members import ORIGINAL
from graphc.capture.stripped import Part, Stripped
from graphc.errors import ArgumentError
from graphc.tensor.runtime import Runtime, runtime

__all__ = ["rebuild"]


def rebuild(stripped: Stripped, leaves: Iterable[Any]) -> Callable[..., Any]:
    """A function of that form which captures these leaves, everywhere it captured the old ones.

    What was captured once is one object again: cells that functions share, functions that call
    themselves or each other.

    Args:
        stripped: From ``lift``.
        leaves: As many values as ``lift`` gave, in that order, of any kind: arrays, symbolic
            arrays, what JAX traces.

    Raises:
        ArgumentError: Their number is another, or the first is no stripped function.

    Example:
        >>> import numpy as np
        >>> from graphc.capture import lift, rebuild
        >>> w = np.ones(12)
        >>> f = lambda x: (x * w).sum()
        >>> stripped, leaves = lift(f)
        >>> float(rebuild(stripped, leaves)(2.0)), float(rebuild(stripped, [3 * w])(2.0))
        (24.0, 72.0)
    """
    if not isinstance(stripped, Stripped):
        raise ArgumentError(
            f"rebuild({stripped!r}, ...): it is no stripped function.",
            "Give both parts of a lifted one: rebuild(*lift(function)).",
        )
    values = tuple(leaves)
    if len(values) != len(stripped.names):
        raise ArgumentError(
            f"rebuild: {len(values)} leaves for a function of {len(stripped.names)}.",
            f"Its leaves are: {', '.join(stripped.names) or 'none'}.",
        )
    return _Workshop(stripped.parts, values).made(0)  # type: ignore[no-any-return]


class _Workshop:
    """Parts on their way to being objects: first empty ones, then their content."""

    def __init__(self, parts: tuple[Part, ...], leaves: tuple[Any, ...]) -> None:
        self.parts = parts
        self.leaves = leaves
        self.objects: dict[int, Any] = {}
        for kinds in (("cell", "space"), ("function",), EMPTY):
            for i, part in enumerate(parts):
                if part.kind in kinds:
                    self.objects[i] = EMPTY_OF[part.kind](self, part)
        for i, part in enumerate(parts):
            if part.kind in FILL:
                FILL[part.kind](self, self.objects[i], part)

    def made(self, i: int) -> Any:
        if i not in self.objects:
            part = self.parts[i]
            self.objects[i] = WHOLE[part.kind](self, part)
        return self.objects[i]

    def all(self, children: Iterable[int]) -> list[Any]:
        return [self.made(i) for i in children]

    def members(self, part: Part) -> Iterable[tuple[str, str, Any]]:
        """The attributes of a part: name, how it is put back, value."""
        _, named = part.static
        held = part.children[len(part.children) - len(named) :]
        for (name, how), child in zip(named, held, strict=True):
            yield name, how, child


# Empty ones.


def _empty_function(shop: _Workshop, part: Part) -> FunctionType:
    recipe: Recipe = part.static[0]
    cells = len(recipe.code.co_freevars)
    closure = tuple(shop.objects[i] for i in part.children[:cells])
    if recipe.library is not None:
        variables = recipe.library
    else:
        variables = shop.objects[part.children[cells + recipe.positional + len(recipe.keywords)]]
    made = FunctionType(recipe.code, variables, recipe.name, None, closure)
    made.__qualname__, made.__doc__ = recipe.qualname, recipe.doc
    made.__module__ = recipe.module  # type: ignore[assignment]
    return made


def _empty_object(shop: _Workshop, part: Part) -> Any:
    cls, named = part.static
    if any(how in IN_CLASS for _, how in named):
        cls = _derived(shop, part, cls)
    return SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls)


def _derived(shop: _Workshop, part: Part, cls: type) -> type:
    """The class with other functions: properties and operators are looked up there alone."""
    content: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        ORIGINAL: cls,
    }
    if not any("__dict__" in vars(base) for base in cls.__mro__):
        content["__slots__"] = ()
    for name, how, child in shop.members(part):
        if how in IN_CLASS:
            content[name] = IN_CLASS[how](shop.made(child))
    return type(cls)(cls.__name__, (cls,), content)


IN_CLASS: dict[str, Callable[[Any], Any]] = {
    "type property": property,
    "type plain": staticmethod,
    "type class method": classmethod,
    "type method": lambda f: f,
    "type value": lambda value: value,
}


EMPTY_OF: dict[str, Callable[[_Workshop, Part], Any]] = {
    "cell": lambda shop, part: CellType(),
    "space": lambda shop, part: dict(part.static[0]),
    "function": _empty_function,
    "list": lambda shop, part: [],
    "dict": lambda shop, part: part.static[0](),
    "object": _empty_object,
    "module": lambda shop, part: ModuleType(part.static[0]),
    "namespace": lambda shop, part: SimpleNamespace(),
}
EMPTY = ("list", "dict", "object", "module", "namespace")


# Their content.


def _fill_function(shop: _Workshop, made: FunctionType, part: Part) -> None:
    recipe: Recipe = part.static[0]
    first = len(recipe.code.co_freevars)
    last = first + recipe.positional
    made.__defaults__ = tuple(shop.all(part.children[first:last])) or None
    words = shop.all(part.children[last : last + len(recipe.keywords)])
    made.__kwdefaults__ = dict(zip(recipe.keywords, words, strict=True)) or None
    for name, _, child in shop.members(part):
        setattr(made, name, shop.made(child))


def _fill_cell(shop: _Workshop, made: CellType, part: Part) -> None:
    for child in part.children:
        made.cell_contents = shop.made(child)


def _fill_dict(shop: _Workshop, made: dict[Any, Any], part: Part) -> None:
    made.update(zip(part.static[1], shop.all(part.children), strict=True))


def _fill_object(shop: _Workshop, made: Any, part: Part) -> None:
    for name, how, child in shop.members(part):
        if how in BOUND:
            object.__setattr__(made, name, BOUND[how](shop.made(child), made))


BOUND: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda value, made: value,
    "plain": lambda value, made: value,
    "method": MethodType,
    "class method": lambda value, made: MethodType(value, type(made)),
}
"""How an object's own attributes are; others are its class's."""


def _fill_namespace(shop: _Workshop, made: Any, part: Part) -> None:
    for name, how, child in shop.members(part):
        value = shop.made(child)
        setattr(made, name, MethodType(value, made) if how == "class method" else value)


FILL: dict[str, Callable[[_Workshop, Any, Part], None]] = {
    "cell": _fill_cell,
    "space": lambda shop, made, part: made.update(
        {name: shop.made(child) for name, _, child in shop.members(part)}
    ),
    "function": _fill_function,
    "list": lambda shop, made, part: made.extend(shop.all(part.children)),
    "dict": _fill_dict,
    "object": _fill_object,
    "module": _fill_namespace,
    "namespace": _fill_namespace,
}


# What is made whole.


def _leaf(shop: _Workshop, part: Part) -> Any:
    value = shop.leaves[part.static]
    plain = isinstance(value, bool | int | float | complex) and not isinstance(value, Runtime)
    return runtime(value) if part.token == "number" and plain else value


def _partial(shop: _Workshop, part: Part) -> Any:
    token: Any = part.token
    count, names = token
    function, *held = shop.all(part.children)
    words = dict(zip(names, held[count:], strict=True))
    return part.static(function, *held[:count], **words)


WHOLE: dict[str, Callable[[_Workshop, Part], Any]] = {
    "leaf": _leaf,
    "plain": lambda shop, part: part.static,
    "fixed": lambda shop, part: part.static,
    "class": lambda shop, part: part.static[0],
    "tuple": lambda shop, part: tuple(shop.all(part.children)),
    "namedtuple": lambda shop, part: part.static._make(shop.all(part.children)),
    "set": lambda shop, part: part.static[0](part.static[1]),
    "partial": _partial,
    "method": lambda shop, part: MethodType(*shop.all(part.children)),
}
