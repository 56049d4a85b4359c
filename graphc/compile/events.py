"""What was compiled, loaded or found: told to those who ask, and counted for each function.

An *event* is an executable that was made (``compile``) or loaded from disk (``load``), or the first
call of a function that found all it needs in memory (``hit``). A function that is never called
causes none.

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
from graphc.ir import here, where

__all__ = [
    "Event",
    "Kind",
    "Stats",
    "Subscription",
    "expect_compiles",
    "internal",
    "is_internal",
    "publish",
    "subscribe",
]

Kind = Literal["compile", "hit", "load"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was compiled, loaded or found in memory.

    Attributes:
        kind: ``"compile"``: an executable was made; ``"load"``: one was loaded from disk;
            ``"hit"``: the first call of a function found one in memory.
        function: The function's name, or what it prints as.
        key: The structural key of its graph.
        where: The user's ``file:line`` that made the function.
        cause: Why another one was there before and did not serve: what changed, from what to what;
            None where there was none.
        milliseconds: How long it took, the rewriting of the graph included where it was for this.
        shapes: The shape of each argument it is for; inputs, shared variables, captured arrays.
        mode: The name of the backend.
        internal: Whether graphc itself, or a library marked internal, started it.
    """

    kind: Kind
    function: str
    key: str
    where: str | None
    cause: str | None
    milliseconds: float
    shapes: tuple[tuple[int, ...], ...]
    mode: str
    internal: bool = False

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        cause = f": {self.cause}" if self.cause else ""
        return f"{self.kind} {self.function}{place}, {self.milliseconds:.1f} ms{cause}"


@dataclass(slots=True)
class Stats:
    """What a function cost so far.

    Attributes:
        calls: How often it was called, as far as that is counted: 4 stands for 4 or more.
        compiles: How many executables were made for it.
        hits: 1 where its first call found one in memory.
        loads: How many were loaded from disk.
        milliseconds: What compiling and loading took.
        causes: Why there was more than one, and why functions made at the same place in the user's
            code before it did not serve; the latest ones.
    """

    calls: int = 0
    compiles: int = 0
    hits: int = 0
    loads: int = 0
    milliseconds: float = 0.0
    causes: list[str] = field(default_factory=list)

    def count(self, event: Event) -> None:
        """Take note of an event."""
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
    """A callback that is told of events until this is called, or until its ``with`` block ends."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def __call__(self) -> None:
        """End it; to end it twice does nothing."""
        global _subscriptions  # noqa: PLW0603 (replaced as a whole, so that reading needs no lock)
        with _lock:
            _subscriptions = tuple(s for s in _subscriptions if s is not self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *error: object) -> None:
        self()


def subscribe(callback: Callback) -> Subscription:
    """Have a function called with each event, in the thread in which it happens.

    An exception of the callback's is logged, by the logger ``graphc``, and changes nothing else.
    What the callback itself compiles is no event.

    Args:
        callback: Takes an ``Event``.

    Returns:
        What ends the subscription: call it, or use it in a ``with`` statement.

    Raises:
        ValueError: It cannot be called.

    Example:
        >>> seen = []
        >>> unsubscribe = subscribe(seen.append)
        >>> unsubscribe()
    """
    global _subscriptions  # noqa: PLW0603 (replaced as a whole, so that reading needs no lock)
    if not callable(callback):
        raise ValueError(f"subscribe({callback!r}): a function that takes an event is wanted.")
    made = Subscription(callback)
    with _lock:
        _subscriptions = (*_subscriptions, made)
    return made


class _Telling(threading.local):
    busy = False


_telling = _Telling()


def publish(event: Event) -> None:
    """Tell an event to all who want to know."""
    if _telling.busy:
        return
    if not event.internal:
        for expectation in _expected.get():
            expectation.note(event)
    if not _subscriptions:
        return
    _telling.busy = True
    try:
        for subscription in _subscriptions:
            try:
                subscription.callback(event)
            except Exception:
                _log.exception("A callback of graphc.events failed at: %s", event)
    finally:
        _telling.busy = False


_expected: ContextVar[tuple[expect_compiles, ...]] = ContextVar("expected", default=())


class expect_compiles:  # noqa: N801 (reads as a statement)
    """Within, exactly so many executables are compiled, or an error names each of them.

    Those of this thread, and of the asynchronous task, count. What is found in memory or loaded
    from disk is not compiled; what graphc compiles for itself does not count. Blocks may be nested.

    Args:
        n: How many.

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
            raise ValueError(f"expect_compiles({n!r}): a number from 0 on is wanted.")
        self.n = n
        self._seen: list[Event] = []

    def note(self, event: Event) -> None:
        """Count it, if something was compiled."""
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
        found = len(self._seen)
        problem = f"Compilations expected: {self.n}; there were {found}{':' if found else '.'}"
        lines = "".join(f"\n  {event}" for event in self._seen)
        if found > self.n:
            remedy = "What changes from one to the next can be an input; the causes say what does."
        else:
            remedy = (
                "What is in memory or on disk already is not compiled again, and what other "
                "threads compile does not count."
            )
        return RecompileError(problem + lines, remedy, where(here()))


class Within(ContextDecorator):
    """A context that decorates functions, also those of ``async def``."""

    def __call__(self, function: Any) -> Any:
        """The function, each call of which is within.

        Raises:
            ArgumentError: It is a generator, whose code runs between calls of others.
        """
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ArgumentError(
                f"{function.__qualname__} is a generator, which runs after it was called.",
                f"Write `with {type(self).__name__}(...):` around what it compiles.",
                where(here()),
            )
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            with self:  # type: ignore[attr-defined]
                return await function(*args, **kwargs)

        return called


_internal: ContextVar[int] = ContextVar("internal", default=0)


class internal(Within):  # noqa: N801 (reads as a statement)
    """Compilations started within are a library's own: they never warn, and events say so.

    For libraries that compile functions on behalf of their users, who could do nothing about it.
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
    """Whether this is within an ``internal`` block."""
    return _internal.get() > 0
