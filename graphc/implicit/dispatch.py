"""The call of an operation on implicit arrays: its handlers, then the classes of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.errors import AmbiguousHandlerError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.policy import deferred_reports
from graphc.implicit.registry import Place, classes_of, described, handlers_for
from graphc.site import user_line, where


def dispatch(target: Any, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Call the best handler of the operands, else the default handler of their classes.

    Returns:
        NotImplemented where there is none.

    Raises:
        AmbiguousHandlerError: Two fit equally well.
    """
    for handler in handlers_for(target, operands):
        found = handler(*operands, **parameters)
        if found is not NotImplemented:
            return found

    def call(cls: type[ImplicitArray]) -> Any:
        return cls.default_handler(target, *operands, **parameters)

    return by_default(target, operands, call)


DefaultCall = Callable[[type[ImplicitArray]], Any]
"""Calls the default handler of a class with the operands at hand."""


def by_default(
    target: Any, operands: Sequence[Any], call: DefaultCall, place: Place = user_line
) -> Any:
    """Return what the one default handler that applies gives; NotImplemented where none does.

    The handler of a subclass goes before that of its base, which is then not asked.

    Args:
        target: A primitive or an operation.
        operands: Arrays, some implicit.
        call: How a class's default handler is called.
        place: The user's line for errors.

    Raises:
        AmbiguousHandlerError: Those of two classes apply, neither a subclass of the other.
    """
    first: type[ImplicitArray] | None = None
    found: Any = NotImplemented
    for cls in default_classes(operands):
        if first is None:
            found = call(cls)
            first = None if found is NotImplemented else cls
        elif not _goes_before(first, cls):
            _refuse_second(target, operands, (first, cls), call, place)
    return found


def _goes_before(cls: type[ImplicitArray], other: type[ImplicitArray]) -> bool:
    return issubclass(cls, other) or _default_of(cls) is _default_of(other)


def _default_of(cls: type[ImplicitArray]) -> Any:
    """Return the function of a class's default handler, which subclasses may inherit."""
    return getattr(cls.default_handler, "__func__", cls.default_handler)


def _refuse_second(
    target: Any,
    operands: Sequence[Any],
    classes: Sequence[type[ImplicitArray]],
    call: DefaultCall,
    place: Place,
) -> None:
    """Raise where the default handler of the second class applies, too."""
    problem: Exception | None = None
    try:
        with deferred_reports():  # what this attempt makes whole does not count
            found = call(classes[1])
    except AmbiguousHandlerError:
        raise
    except Exception as error:  # it took the operands for its own
        problem, found = error, None
    if found is NotImplemented:
        return
    names = " and ".join(map(_default_name, classes))
    raise AmbiguousHandlerError(
        f"{described(target)} of {classes_of(operands)} has two default handlers that apply: "
        f"{names}.",
        "Register a handler of these classes, or let one of the two return NotImplemented.",
        place(),
    ) from problem


def _default_name(cls: type[ImplicitArray]) -> str:
    code = getattr(_default_of(cls), "__code__", None)
    line = where((code, 0)) if code else None
    return f"{cls.__module__}.{cls.__qualname__}.default_handler" + (f" ({line})" if line else "")


def default_classes(operands: Sequence[Any]) -> list[type[ImplicitArray]]:
    """Return the classes whose default handlers take operands, subclasses before their bases."""
    classes = dict.fromkeys(type(x) for x in operands if isinstance(x, ImplicitArray))
    chosen = [cls for cls in classes if cls.stands_aside] or list(classes)
    return sorted(chosen, key=lambda cls: -len(cls.__mro__))
