"""The call of an operation on implicit arrays: its handlers, then the classes of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.errors import AmbiguousHandlerError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.layout import StructureLost
from graphc.implicit.policy import deferred_reports
from graphc.implicit.registry import Locate, classes_of, describe, handlers_for
from graphc.site import user_line, where


def dispatch(target: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Return the result of the best handler, else of the classes' default handlers.

    Returns:
        NotImplemented if no handler applies.

    Raises:
        AmbiguousHandlerError: If two handlers fit equally well.
    """
    for handler in handlers_for(target, operands):
        try:
            result = handler(*operands, **parameters)
        except StructureLost:
            continue
        if result is not NotImplemented:
            return result

    def call(cls: type[ImplicitArray]) -> Any:
        return cls.default_handler(target, *operands, **parameters)

    return by_default(target, operands, call)


DefaultCall = Callable[[type[ImplicitArray]], Any]
"""A function that calls the default handler of a class with the operands."""


def by_default(
    target: Any, operands: Sequence[Any], call: DefaultCall, locate: Locate = user_line
) -> Any:
    """Return the result of the one default handler that applies, or NotImplemented.

    The handler of a subclass precedes the handler of its base class, which is then not called.

    Args:
        target: A primitive or an operation.
        operands: Arrays, some implicit.
        call: Calls the default handler of a class.
        locate: Returns the user's file and line for errors.

    Raises:
        AmbiguousHandlerError: If the handlers of two classes apply, and neither class is a subclass
            of the other.
    """
    first: type[ImplicitArray] | None = None
    result: Any = NotImplemented
    for cls in default_classes(operands):
        if first is None:
            result = call(cls)
            first = None if result is NotImplemented else cls
        elif not issubclass(first, cls) and _default_of(first) is not _default_of(cls):
            _refuse_second(target, operands, (first, cls), call, locate)
    return result


def _default_of(cls: type[ImplicitArray]) -> Any:
    """Return the function of the default handler: the same for subclasses that inherit it."""
    return getattr(cls.default_handler, "__func__", cls.default_handler)


def _refuse_second(
    target: Any,
    operands: Sequence[Any],
    classes: Sequence[type[ImplicitArray]],
    call: DefaultCall,
    locate: Locate,
) -> None:
    """Raise if the default handler of the second class applies as well."""
    problem: Exception | None = None
    try:
        with deferred_reports():  # arrays that this attempt makes dense are not reported
            result = call(classes[1])
    except AmbiguousHandlerError:
        raise
    except Exception as error:  # the handler accepted the operands
        problem, result = error, None
    if result is NotImplemented:
        return
    names = " and ".join(map(_default_name, classes))
    raise AmbiguousHandlerError(
        f"{describe(target)} of {classes_of(operands)} has two default handlers that apply: "
        f"{names}.",
        "Register a handler of these classes, or let one of the two return NotImplemented.",
        locate(),
    ) from problem


def _default_name(cls: type[ImplicitArray]) -> str:
    code = getattr(_default_of(cls), "__code__", None)
    line = where((code, 0)) if code else None
    return f"{cls.__module__}.{cls.__qualname__}.default_handler" + (f" ({line})" if line else "")


def default_classes(operands: Sequence[Any]) -> list[type[ImplicitArray]]:
    """Return the classes whose default handlers to call, subclasses before bases."""
    classes = dict.fromkeys(type(x) for x in operands if isinstance(x, ImplicitArray))
    selected = [cls for cls in classes if cls.stands_aside] or list(classes)
    return sorted(selected, key=lambda cls: -len(cls.__mro__))
