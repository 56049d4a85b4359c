"""Handlers of operations on implicit arrays, found by the classes of the operands.

One registry serves JAX primitives and graphc's operations. Among the handlers that fit, only those
with the highest precedence are considered, and among these the one whose annotations are nearest to
the operands' classes is called. If a handler returns NotImplemented, the next one is called.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import graphc.tensor as gt
from graphc import hooks
from graphc.errors import AmbiguousHandlerError, ImplicitArrayError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.jax_arrays import jax_arrays
from graphc.ir import Op
from graphc.lazy import load_all
from graphc.site import user_line
from graphc.tensor.core.elementwise import Elementwise

F = TypeVar("F", bound=Callable[..., Any])

ANY = 1000
"""The distance of an annotation that accepts any operand: farther than any class."""

VIRTUAL = 500
"""The distance of a class with its own ``isinstance`` check, such as ``jax.Array``."""


@dataclass(frozen=True, eq=False)
class Handler:
    """A function that handles an operation, and the operands that it accepts.

    Attributes:
        function: The function.
        precedence: Handlers of higher precedence are considered first.
        kinds: The classes of each operand; an empty set accepts any operand.
        rest: The classes of all further operands; None if there are none.
        where: The line where it was registered.
    """

    function: Callable[..., Any]
    precedence: int
    kinds: tuple[frozenset[type], ...]
    rest: frozenset[type] | None
    where: str | None

    def distances(self, operands: Sequence[Any]) -> tuple[int, ...] | None:
        """Return each annotation's distance from the operand's class; None if one does not fit."""
        extra = len(operands) - len(self.kinds)
        if extra < 0 or (extra and self.rest is None):
            return None
        kinds = (*self.kinds, *[self.rest or frozenset()] * extra)
        distances: list[int] = []
        for x, classes in zip(operands, kinds, strict=True):
            distance = min((_distance(x, cls) for cls in classes), default=ANY)
            if distance > ANY:
                return None
            distances.append(distance)
        return tuple(distances)

    def __str__(self) -> str:
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        return f"{name} ({self.where})" if self.where else name


FAR = 10**6
"""The distance of a class of which the operand is no instance."""


def _distance(x: Any, cls: type) -> int:
    order = type(x).__mro__
    if cls in order:
        return order.index(cls)
    return VIRTUAL if isinstance(x, cls) else FAR


HANDLERS: dict[Any, list[Handler]] = {}
"""The handlers of each primitive, class of operations and elementwise row."""


def register(target: Any, precedence: int = 0) -> Callable[[F], F]:
    """Register the decorated function as a handler of an operation on implicit arrays.

    The handler is called with the operands by position and the parameters by name: the parameters
    of the JAX primitive, or the fields of graphc's operation. It is used if the annotations of its
    positional parameters fit: classes, unions of classes, or ``Any`` or no annotation for any
    operand. It returns an array or an implicit array of the result's shape and dtype, a list of
    these if the primitive has several results, or NotImplemented to pass the operands to the next
    handler.

    On JAX, handlers of primitives get JAX arrays, while JAX traces. Handlers of graphc's operations
    get symbolic arrays, and implicit arrays of these, before a graph is differentiated or compiled:
    their results serve every backend.

    Args:
        target: A JAX primitive or its name; or a class of operations, such as
            ``graphc.tensor.linalg.DotGeneral``, an elementwise function, such as ``gt.tanh``, or
            the name of an operation that is no JAX primitive.
        precedence: Among the handlers that fit, only those with the highest precedence are
            considered.

    Returns:
        A decorator that returns the function itself.

    Raises:
        ImplicitArrayError: If there is no such primitive or operation, if there is another handler
            of the same operands and precedence, or if an annotation is no class.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> from graphc.tensor.linalg import DotGeneral
        >>> @dataclass(frozen=True)
        ... class Ones(ImplicitArray):
        ...     like: object
        ...     def materialize(self):
        ...         return self.like * 0 + 1
        >>> @register(gt.exp)
        ... def exp_of_ones(x: Ones):
        ...     return gt.full_like(x.like, np.e)
        >>> x = gt.vector("x")
        >>> y = gt.exp(gt.as_tensor(Ones(x)))
        >>> graphc.function([x], y, mode="NUMPY")(np.zeros(2))
        array([2.71828183, 2.71828183])
    """
    keys = [_key(target)]
    local = sys._getframe(1).f_locals

    def enter(function: F) -> F:
        if not _is_own(function):
            load_handlers()
        kinds, rest = _operand_classes(function, local)
        handler = Handler(function, precedence, kinds, rest, user_line())
        for key in keys:
            _enter(key, handler)
        return function

    return enter


def unregister(target: Any, function: Callable[..., Any]) -> None:
    """Remove a handler that ``register`` entered: programs made from now on do not call it.

    Args:
        target: The target that it was registered for.
        function: The handler.

    Raises:
        ImplicitArrayError: If it is no handler of that target.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit import Diagonal, register, unregister
        >>> def halved(x: Diagonal):
        ...     return NotImplemented
        >>> _ = register(gt.tanh)(halved)
        >>> unregister(gt.tanh, halved)
    """
    load_handlers()
    handlers = HANDLERS.get(_key(target), [])
    others = [handler for handler in handlers if handler.function is not function]
    if len(others) == len(handlers):
        problem = f"{function!r} is no handler of {describe(target)}."
        raise ImplicitArrayError(problem)
    HANDLERS[_key(target)] = others
    _changes["all"] += 1
    _changes["by users"] += 1


@cache
def load_handlers() -> None:
    """Register graphc's own handlers, which most programs do not need."""
    hooks.implicit_handlers()


def _enter(key: Any, handler: Handler) -> None:
    handlers = HANDLERS.setdefault(key, [])
    for other in list(handlers):
        same = (other.kinds, other.rest) == (handler.kinds, handler.rest)
        if not same or other.precedence != handler.precedence:
            continue
        if _definition(other.function) == _definition(handler.function):
            # The same file or cell runs again.
            handlers.remove(other)
            continue
        raise ImplicitArrayError(
            f"Two handlers of {describe(key)} take the same operands: {other} and {handler}.",
            "Give one a precedence=, or remove the first with unregister.",
        )
    handlers.append(handler)
    _changes["all"] += 1
    _changes["by users"] += not _is_own(handler.function)


def _is_own(function: Callable[..., Any]) -> bool:
    return (function.__module__ or "").startswith("graphc.")


def _definition(function: Callable[..., Any]) -> Any:
    """Return the position of a function's definition, or the function itself if it has no code."""
    code = getattr(function, "__code__", None)
    return (code.co_qualname, code.co_filename, code.co_firstlineno) if code else function


def user_changes() -> int:
    """Return the number of handlers that users registered or anyone removed."""
    return _changes["by users"]


def generation() -> int:
    """Return the number of changes to the registry; programs made before them are outdated."""
    return _changes["all"]


_changes = {"all": 0, "by users": 0}


def _key(target: Any) -> Any:
    if isinstance(target, str):
        return _find_by_name(target)
    is_operation = isinstance(target, type) and issubclass(target, Op)
    if is_operation or isinstance(target, Elementwise):
        return target
    if hasattr(target, "bind") and hasattr(target, "name") and hasattr(target, "multiple_results"):
        return target
    raise ImplicitArrayError(
        f"{target!r} is neither a primitive of JAX's nor an operation.",
        "Give a primitive, as jax.lax.dot_general_p, its name, a class of operations as "
        "graphc.tensor.linalg.DotGeneral, or an elementwise function as gt.tanh.",
    )


def _find_by_name(name: str) -> Any:
    primitive = jax_arrays().primitive(name)
    if primitive is not None:
        return primitive
    load_all()
    rows = {row: x for row, x in vars(gt).items() if isinstance(x, Elementwise)}
    operations: dict[str, Any] = {op.__name__: op for op in _operations(Op)} | rows
    if name in operations:
        return operations[name]
    near = difflib.get_close_matches(name, [*jax_arrays().primitive_names(), *operations], n=5)
    raise ImplicitArrayError(
        f"register({name!r}): neither JAX nor graphc has an operation of that name.",
        f"Near it are {', '.join(near)}." if near else "Give the primitive itself.",
    )


def _operations(op: type[Op]) -> Iterator[type[Op]]:
    for cls in op.__subclasses__():
        yield cls
        yield from _operations(cls)


def _operand_classes(
    function: Callable[..., Any], local: dict[str, Any]
) -> tuple[tuple[frozenset[type], ...], frozenset[type] | None]:
    try:
        # Annotations may name classes of the function that encloses the decorator.
        hints = typing.get_type_hints(function, localns=local)
    except (NameError, TypeError) as error:
        raise _unusable(function, str(error)) from error
    kinds: list[frozenset[type]] = []
    rest: frozenset[type] | None = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            kinds.append(_classes(function, hint))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = _classes(function, hint)
    return tuple(kinds), rest


def _classes(function: Callable[..., Any], hint: Any) -> frozenset[type]:
    if hint is Any or isinstance(hint, TypeVar):
        return frozenset()
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        alternatives = [_classes(function, alternative) for alternative in typing.get_args(hint)]
        return frozenset().union(*alternatives) if all(alternatives) else frozenset()
    origin = typing.get_origin(hint) or hint
    if not isinstance(origin, type):
        raise _unusable(function, f"the annotation {hint!r} is no class")
    return frozenset([origin])


def _unusable(function: Callable[..., Any], problem: str) -> ImplicitArrayError:
    return ImplicitArrayError(
        f"The handler {function.__qualname__} can't be found by its annotations: {problem}.",
        "Annotate operands with classes, unions of classes, or Any.",
    )


Locate = Callable[[], str | None]
"""A function that returns the user's file and line of an operation."""


def handlers_for(
    target: Any, operands: Sequence[Any], locate: Locate = user_line
) -> Iterator[Callable[..., Any]]:
    """Yield the handlers that accept these operands, the best first.

    Args:
        target: A primitive or an operation.
        operands: Arrays; without an implicit one there is no handler.
        locate: Returns the user's line for errors.

    Raises:
        AmbiguousHandlerError: If two fit equally well.
    """
    implicit = [x for x in operands if isinstance(x, ImplicitArray)]
    if not implicit or any(x.stands_aside for x in implicit):
        return
    load_handlers()
    for key in _keys(target):
        candidates = []
        for handler in HANDLERS.get(key, ()):
            distances = handler.distances(operands)
            if distances is not None:
                candidates.append((handler, distances))
        while candidates:
            best = _best(target, operands, candidates, locate)
            yield best[0].function
            candidates.remove(best)


Candidate = tuple[Handler, tuple[int, ...]]


def _keys(target: Any) -> Iterator[Any]:
    if isinstance(target, Op):
        if isinstance(target, Elementwise):
            yield target
        yield from type(target).__mro__
    else:
        yield target


def _best(
    target: Any, operands: Sequence[Any], candidates: Sequence[Candidate], locate: Locate
) -> Candidate:
    highest = max(handler.precedence for handler, _ in candidates)
    rivals = [x for x in candidates if x[0].precedence == highest]
    nearest = [x for x in rivals if not any(_is_nearer(y[1], x[1]) for y in rivals)]
    if len(nearest) > 1:
        raise AmbiguousHandlerError(
            f"{describe(target)} of {classes_of(operands)} has handlers that fit equally well: "
            f"{nearest[0][0]} and {nearest[1][0]}.",
            "Give one a higher precedence=, or register one of exactly these classes.",
            locate(),
        )
    return nearest[0]


def _is_nearer(a: Sequence[int], b: Sequence[int]) -> bool:
    return tuple(a) != tuple(b) and all(i <= j for i, j in zip(a, b, strict=True))


def parameters_of(op: Op) -> dict[str, Any]:
    """Return an operation's parameters by name, as its handlers get them."""
    if isinstance(op, Elementwise) or not is_dataclass(op):
        return {}
    return {field.name: getattr(op, field.name) for field in fields(op)}


def classes_of(operands: Sequence[Any]) -> str:
    """Return the names of the operands' classes for messages."""
    return f"({', '.join(type(x).__name__ for x in operands)})"


def describe(target: Any) -> str:
    """Return the name of a primitive or an operation for messages."""
    if isinstance(target, type):
        return target.__name__
    return str(getattr(target, "name", target))
