"""Events of compilation: published to subscribers, and counted for each function.

An *event* is an executable that was compiled (``compile``) or loaded from disk (``load``), or the
first call of a function whose executable was in memory (``hit``). A function that is never called
causes no event.

Example:
    >>> import graphc, graphc.tensor as gt
    >>> seen = []
    >>> x = gt.vector("x")
    >>> with graphc.events.subscribe(seen.append):
    ...     y = graphc.function([x], gt.cosh(x) * 3.25, name="hang", mode="NUMPY")([0.0])
    >>> [(event.kind, event.function) for event in seen]
    [('compile', 'hang')]
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from graphc.errors import ArgumentError, RecompileError

__all__ = [
    "Event",
    "EventKind",
    "Stats",
    "Subscription",
    "expect_compiles",
    "internal",
    "is_internal",
    "publish",
    "subscribe",
]

EventKind = Literal["compile", "hit", "load"]


@dataclass(frozen=True, slots=True)
class Event:
    """An executable that was compiled, loaded or found in memory.

    Attributes:
        kind: ``"compile"``: an executable was compiled; ``"load"``: one was loaded from disk;
            ``"hit"``: the first call of a function found one in memory.
        function: The function's name, or its ``repr``.
        key: The structural key of its graph.
        where: The user's ``file:line`` that made the function.
        cause: The change since the previous executable, with old and new value; None for the first
            executable.
        milliseconds: The time taken; for the first executable, including the graph's rewriting.
        shapes: The shape of each argument: inputs, shared variables, captured arrays.
        mode: The name of the backend.
        internal: Whether graphc itself, or a library marked internal, started it.
    """

    kind: EventKind
    function: str
    key: str
    where: str | None
    cause: str | None
    milliseconds: float
    shapes: tuple[tuple[int, ...], ...]
    mode: str
    internal: bool = False

    def __str__(self) -> str:
        line = f" ({self.where})" if self.where else ""
        cause = f": {self.cause}" if self.cause else ""
        return f"{self.kind} {self.function}{line}, {self.milliseconds:.1f} ms{cause}"


@dataclass(slots=True)
class Stats:
    """The compilations of a function, and their cost.

    Attributes:
        compiles: The number of executables that were compiled for it.
        hits: 1 where its first call found one in memory.
        loads: The number of executables loaded from disk.
        milliseconds: The time that compiling and loading took.
        causes: The latest causes, each once: of further executables, and of functions made at the
            same call site before.
    """

    compiles: int = 0
    hits: int = 0
    loads: int = 0
    milliseconds: float = 0.0
    causes: list[str] = field(default_factory=list)

    def count(self, event: Event) -> None:
        """Count an event."""
        with _lock:
            self.milliseconds += event.milliseconds
            if event.kind == "compile":
                self.compiles += 1
            elif event.kind == "load":
                self.loads += 1
            else:
                self.hits += 1


Callback = Callable[[Event], Any]

_lock = threading.Lock()
_subscriptions: tuple[Subscription, ...] = ()
_log = logging.getLogger("graphc")


class Subscription:
    """A subscription of a callback: it ends when called, or with its ``with`` block."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def __call__(self) -> None:
        """End the subscription; ending it twice is allowed."""
        global _subscriptions  # noqa: PLW0603 (replaced as a whole, so that reading needs no lock)
        with _lock:
            _subscriptions = tuple(s for s in _subscriptions if s is not self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *error: object) -> None:
        self()


def subscribe(callback: Callback) -> Subscription:
    """Call a function with each event, in the thread in which it occurs.

    An exception in the callback is logged, by the logger ``graphc``, and otherwise ignored.
    Compilations by the callback itself publish no events.

    Args:
        callback: A function of an ``Event``.

    Returns:
        The subscription: call it to end it, or use it in a ``with`` statement.

    Raises:
        ValueError: The callback is not callable.

    Example:
        >>> seen = []
        >>> unsubscribe = subscribe(seen.append)
        >>> unsubscribe()
    """
    global _subscriptions  # noqa: PLW0603 (replaced as a whole, so that reading needs no lock)
    if not callable(callback):
        raise ValueError(f"subscribe({callback!r}): expected a function that takes an event.")
    subscription = Subscription(callback)
    with _lock:
        _subscriptions = (*_subscriptions, subscription)
    return subscription


class _Publishing(threading.local):
    active = False


_publishing = _Publishing()


def publish(event: Event) -> None:
    """Call all subscribers with an event."""
    if _publishing.active:
        return
    if not event.internal:
        for expectation in _expected.get():
            expectation.note(event)
    if not _subscriptions:
        return
    _publishing.active = True
    try:
        for subscription in _subscriptions:
            try:
                subscription.callback(event)
            except Exception:
                _log.exception("A callback of graphc.events failed at: %s", event)
    finally:
        _publishing.active = False


_expected: ContextVar[tuple[expect_compiles, ...]] = ContextVar("expected", default=())


class expect_compiles:  # noqa: N801 (reads as a statement)
    """A context that expects exactly ``n`` compilations; otherwise an error names each of them.

    Compilations by the current thread and asynchronous task count. Executables that are found in
    memory or loaded from disk do not, nor do graphc's internal compilations. Blocks may be nested.

    Args:
        n: The number of compilations.

    Raises:
        RecompileError: There were more or fewer, at the end of a block that no other error ended.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> f = graphc.function([x], gt.sinh(x) * 1.75, mode="NUMPY")
        >>> with graphc.expect_compiles(1):
        ...     for i in range(5):
        ...         y = f([float(i)])
    """

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(f"expect_compiles({n!r}): expected an integer of at least 0.")
        self.n = n
        self._seen: list[Event] = []

    def note(self, event: Event) -> None:
        """Count an event, if it is a compilation."""
        if event.kind == "compile":
            self._seen.append(event)

    def __enter__(self) -> expect_compiles:
        self._seen = []
        _expected.set((*_expected.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        _expected.set(tuple(x for x in _expected.get() if x is not self))
        if kind is None and len(self._seen) != self.n:
            raise self._error()

    def _error(self) -> RecompileError:
        count = len(self._seen)
        problem = f"Compilations expected: {self.n}; there were {count}{':' if count else '.'}"
        lines = "".join(f"\n  {event}" for event in self._seen)
        if count > self.n:
            remedy = "Make what changes from one to the next an input; the causes tell what does."
        else:
            remedy = (
                "Clear the caches first: programs in memory or on disk are not compiled again. Nor "
                "do compilations by other threads count."
            )
        return RecompileError(problem + lines, remedy)


class FunctionContext(ContextDecorator):
    """A context that can decorate functions, ``async`` ones included."""

    def __call__(self, function: Any) -> Any:
        """Return the function with the context around each call.

        Raises:
            ArgumentError: If the function is a generator, whose code runs after the call.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ArgumentError(
                f"{function.__qualname__} is a generator, whose code runs after the call.",
                f"Write `with {type(self).__name__}(...):` around what it compiles.",
            )
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self:  # type: ignore[attr-defined]
                return await function(*args, **kwargs)

        return call


_internal: ContextVar[int] = ContextVar("internal", default=0)


class internal(FunctionContext):  # noqa: N801 (reads as a statement)
    """A context for a library's own compilations: they never warn, and events mark them.

    Libraries use it to compile functions on behalf of users, who cannot avoid these compilations.
    Use it in a ``with`` statement or as a decorator; ``graphc.mark_internal`` marks a package.

    Example:
        >>> @internal()
        ... def normalize(values):
        ...     x = gt.vector("x")
        ...     return graphc.function([x], x / x.sum(), mode="NUMPY")(values)
    """

    def __enter__(self) -> internal:
        _internal.set(_internal.get() + 1)
        return self

    def __exit__(self, *error: object) -> None:
        _internal.set(_internal.get() - 1)


def is_internal() -> bool:
    """Return whether the current code is in an ``internal`` block."""
    return _internal.get() > 0
