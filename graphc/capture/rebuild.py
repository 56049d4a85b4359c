"""Functions rebuilt from a stripped function and leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from graphc.capture.handlers import FunctionAttributes
from graphc.capture.members import ORIGINAL
from graphc.capture.stripped import CapturedPart, Stripped
from graphc.errors import ArgumentError
from graphc.tensor.core.runtime import Runtime, runtime


def rebuild(stripped: Stripped, leaves: Iterable[Any]) -> Callable[..., Any]:
    """Rebuild a function from its stripped form, with new leaves.

    Shared objects are shared again: cells of several functions, functions that call themselves or
    each other.

    Args:
        stripped: From ``lift``.
        leaves: As many values as ``lift`` returned, in the same order, of any kind: arrays,
            symbolic arrays, JAX's tracers.

    Raises:
        ArgumentError: If the number of leaves differs, or the first argument is no stripped
            function.

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
            f"rebuild({stripped!r}, ...): expected a stripped function.",
            "Give both parts of a lifted one: rebuild(*lift(function)).",
        )
    values = tuple(leaves)
    if len(values) != len(stripped.names):
        raise ArgumentError(
            f"rebuild: expected {len(stripped.names)} leaves, got {len(values)}.",
            f"Its leaves are: {', '.join(stripped.names) or 'none'}.",
        )
    return _Builder(stripped.parts, values).build(0)  # type: ignore[no-any-return]


class _Builder:
    """A builder of objects from parts, which makes empty objects first and fills them later."""

    def __init__(self, parts: tuple[CapturedPart, ...], leaves: tuple[Any, ...]) -> None:
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

    def build(self, i: int) -> Any:
        if i not in self.objects:
            part = self.parts[i]
            self.objects[i] = IN_ONE_STEP[part.kind](self, part)
        return self.objects[i]

    def all(self, children: Iterable[int]) -> list[Any]:
        return [self.build(i) for i in children]

    def members(self, part: CapturedPart) -> Iterable[tuple[str, str, Any]]:
        """Yield the attributes of a part: the name, how it is set, the part's number."""
        _, named = part.static
        held = part.children[len(part.children) - len(named) :]
        for (name, how), child in zip(named, held, strict=True):
            yield name, how, child


# Empty objects.


def _empty_function(builder: _Builder, part: CapturedPart) -> FunctionType:
    attributes: FunctionAttributes = part.static[0]
    cells = len(attributes.code.co_freevars)
    closure = tuple(builder.objects[i] for i in part.children[:cells])
    if attributes.library is not None:
        variables = attributes.library
    else:
        variables = builder.objects[
            part.children[cells + attributes.positional + len(attributes.keywords)]
        ]
    function = FunctionType(attributes.code, variables, attributes.name, None, closure)
    function.__qualname__, function.__doc__ = attributes.qualname, attributes.doc
    function.__module__ = attributes.module  # type: ignore[assignment]
    return function


def _empty_object(builder: _Builder, part: CapturedPart) -> Any:
    cls, named = part.static
    if any(how in IN_CLASS for _, how in named):
        cls = _derive_class(builder, part, cls)
    return SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls)


def _derive_class(builder: _Builder, part: CapturedPart, cls: type) -> type:
    """Derive a class with other functions, where Python looks up properties and operators."""
    content: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        ORIGINAL: cls,
    }
    if not any("__dict__" in vars(base) for base in cls.__mro__):
        content["__slots__"] = ()
    for name, how, child in builder.members(part):
        if how in IN_CLASS:
            content[name] = IN_CLASS[how](builder.build(child))
    return type(cls)(cls.__name__, (cls,), content)


IN_CLASS: dict[str, Callable[[Any], Any]] = {
    "type property": property,
    "type plain": staticmethod,
    "type class method": classmethod,
    "type method": lambda f: f,
    "type value": lambda value: value,
}


EMPTY_OF: dict[str, Callable[[_Builder, CapturedPart], Any]] = {
    "cell": lambda builder, part: CellType(),
    "space": lambda builder, part: dict(part.static[0]),
    "function": _empty_function,
    "list": lambda builder, part: [],
    "dict": lambda builder, part: part.static[0](),
    "object": _empty_object,
    "module": lambda builder, part: ModuleType(part.static[0]),
    "namespace": lambda builder, part: SimpleNamespace(),
}
EMPTY = ("list", "dict", "object", "module", "namespace")


# The content of objects.


def _fill_function(builder: _Builder, function: FunctionType, part: CapturedPart) -> None:
    attributes: FunctionAttributes = part.static[0]
    first = len(attributes.code.co_freevars)
    last = first + attributes.positional
    function.__defaults__ = tuple(builder.all(part.children[first:last])) or None
    words = builder.all(part.children[last : last + len(attributes.keywords)])
    function.__kwdefaults__ = dict(zip(attributes.keywords, words, strict=True)) or None
    for name, _, child in builder.members(part):
        setattr(function, name, builder.build(child))


def _fill_cell(builder: _Builder, cell: CellType, part: CapturedPart) -> None:
    for child in part.children:
        cell.cell_contents = builder.build(child)


def _fill_dict(builder: _Builder, mapping: dict[Any, Any], part: CapturedPart) -> None:
    mapping.update(zip(part.static[1], builder.all(part.children), strict=True))


def _fill_object(builder: _Builder, instance: Any, part: CapturedPart) -> None:
    for name, how, child in builder.members(part):
        if how in BOUND:
            object.__setattr__(instance, name, BOUND[how](builder.build(child), instance))


BOUND: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda value, owner: value,
    "plain": lambda value, owner: value,
    "method": MethodType,
    "class method": lambda value, owner: MethodType(value, type(owner)),
}
"""The binding of attributes stored in an object; others belong to its class."""


def _fill_namespace(builder: _Builder, namespace: Any, part: CapturedPart) -> None:
    for name, how, child in builder.members(part):
        value = builder.build(child)
        setattr(namespace, name, MethodType(value, namespace) if how == "class method" else value)


FILL: dict[str, Callable[[_Builder, Any, CapturedPart], None]] = {
    "cell": _fill_cell,
    "space": lambda builder, variables, part: variables.update(
        {name: builder.build(child) for name, _, child in builder.members(part)}
    ),
    "function": _fill_function,
    "list": lambda builder, items, part: items.extend(builder.all(part.children)),
    "dict": _fill_dict,
    "object": _fill_object,
    "module": _fill_namespace,
    "namespace": _fill_namespace,
}


# Objects that are made in one step.


def _leaf(builder: _Builder, part: CapturedPart) -> Any:
    value = builder.leaves[part.static]
    plain = isinstance(value, bool | int | float | complex) and not isinstance(value, Runtime)
    return runtime(value) if part.token == "number" and plain else value


def _partial(builder: _Builder, part: CapturedPart) -> Any:
    token: Any = part.token
    count, names = token
    function, *values = builder.all(part.children)
    keywords = dict(zip(names, values[count:], strict=True))
    return part.static(function, *values[:count], **keywords)


IN_ONE_STEP: dict[str, Callable[[_Builder, CapturedPart], Any]] = {
    "leaf": _leaf,
    "plain": lambda builder, part: part.static,
    "fixed": lambda builder, part: part.static,
    "class": lambda builder, part: part.static[0],
    "tuple": lambda builder, part: tuple(builder.all(part.children)),
    "namedtuple": lambda builder, part: part.static._make(builder.all(part.children)),
    "set": lambda builder, part: part.static[0](part.static[1]),
    "partial": _partial,
    "method": lambda builder, part: MethodType(*builder.all(part.children)),
}
