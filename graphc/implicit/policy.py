"""What is done where an implicit array must become whole, and what is remembered of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from graphc.config import POLICIES, config
from graphc.errors import ImplicitArrayError, MaterializeError, MaterializeWarning
from graphc.implicit.array import OPENING, WHOLE, ImplicitArray, opening
from graphc.implicit.form import dtype_of, lengths_of
from graphc.implicit.level import opened
from graphc.ir import here, where as where_is

__all__ = [
    "Materialization",
    "dense",
    "materializations",
    "materialize_nested",
    "materialized",
    "materializing",
    "policy_of",
    "strictest",
    "tell",
    "tell_of",
    "untold",
    "whole",
]


@dataclass(frozen=True)
class Materialization:
    """An implicit array that became whole, as nothing kept it in its own form.

    Attributes:
        what: The primitive or operation that needed it.
        type: Its class's name.
        shape: Its lengths; None where one is not known before the program runs.
        dtype: Its dtype's name.
        bytes: What the whole array takes; None where a length is not known.
        where: The user's file and line, if known.
    """

    what: str
    type: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int | None
    where: str | None

    def __str__(self) -> str:
        lengths = ", ".join("?" if n is None else str(n) for n in self.shape)
        size = "" if self.bytes is None else f", {self.bytes} bytes"
        at = f"   {self.where}" if self.where else ""
        return f"{self.type}, {self.dtype}[{lengths}]{size}, became whole for {self.what}{at}"


_policy: ContextVar[str | None] = ContextVar("policy", default=None)
_reports: ContextVar[tuple[list[Materialization], ...]] = ContextVar("reports", default=())
_warned: set[tuple[str, str, str | None]] = set()


@contextmanager
def materializing(policy: str) -> Iterator[None]:
    """Within, what is done where an implicit array must become whole.

    It holds where programs are made: when ``graphc.function`` is called, or JAX traces. A policy of
    the array's class goes first, the configuration's, ``config.materialize``, last.

    Args:
        policy: ``"allow"``, ``"warn"`` or ``"error"``.

    Raises:
        ImplicitArrayError: It is none of these.
        MaterializeError: Within, where the policy is ``"error"``.

    Example:
        >>> with materializing("error"):
        ...     policy_of()
        'error'
    """
    if policy not in POLICIES:
        raise ImplicitArrayError(
            f"materializing({policy!r}).",
            f"It is one of {', '.join(map(repr, POLICIES))}.",
            where_is(here()),
        )
    token = _policy.set(policy)
    try:
        yield
    finally:
        _policy.reset(token)


def policy_of(cls: type[ImplicitArray] | None = None) -> str:
    """The policy that holds now, for a class or where none is given by one."""
    own = None if cls is None else cls.materialize_policy
    return own or _policy.get() or config.materialize


@contextmanager
def materializations() -> Iterator[list[Materialization]]:
    """Within, a list of what becomes whole while programs are made, in this thread.

    A program that is there already is not made again, so make functions within.

    Example:
        >>> with materializations() as report:
        ...     pass
        >>> report
        []
    """
    report: list[Materialization] = []
    token = _reports.set((*_reports.get(), report))
    try:
        yield report
    finally:
        _reports.reset(token)


_untold: ContextVar[list[tuple[Materialization, str]] | None] = ContextVar("untold", default=None)


@contextmanager
def untold() -> Iterator[list[tuple[Materialization, str]]]:
    """Within, a list of what ``tell_of`` is to be told where the attempt succeeds."""
    found: list[tuple[Materialization, str]] = []
    token = _untold.set(found)
    try:
        yield found
    finally:
        _untold.reset(token)


def materialized(x: ImplicitArray, what: str, where: str | None = None) -> Any:
    """The whole of an implicit array that something needs for want of a handler.

    Args:
        x: Of any depth.
        what: What needs it.
        where: The user's line, by default where the user's code is now.

    Returns:
        An array of its fields' library.

    Raises:
        MaterializeError: The policy forbids it, or it failed.
    """
    tell(x, what, where)
    return whole(x)


def dense(x: Any, what: str, where: str | None = None) -> Any:
    """The same for what may be an implicit array; anything else is given back."""
    return materialized(x, what, where) if isinstance(x, ImplicitArray) else x


def strictest(*policies: str) -> str:
    """Of several policies the one that allows least."""
    return max(policies, key=POLICIES.index)


def tell(x: ImplicitArray, what: str, where: str | None = None) -> None:
    """Do as the policy says, but for making it whole.

    Raises:
        MaterializeError: The policy forbids it.
    """
    cls = type(x)
    shape, dtype = lengths_of(x), dtype_of(x)
    known = [n for n in shape if n is not None]
    size = math.prod(known) * dtype.itemsize if len(known) == len(shape) else None
    where = where_is(here()) if where is None else where
    found = Materialization(what, cls.__qualname__, shape, str(dtype), size, where)
    tell_of(found, policy_of(cls))


def tell_of(found: Materialization, policy: str) -> None:
    """Report what becomes whole, and warn or raise if that is the policy.

    Raises:
        MaterializeError: The policy forbids it.
    """
    if OPENING.get():
        return
    attempt = _untold.get()
    if attempt is not None:
        attempt.append((found, policy))
    else:
        for report in _reports.get():
            report.append(found)
    if policy == "error":
        raise MaterializeError(
            f"{found.type}, {found.dtype}{list(found.shape)}, would become whole for "
            f"{found.what}: nothing handles it in its own form.",
            f"Register a handler of {found.what}, or allow it with graphc.implicit.materializing.",
            found.where,
        )
    site = found.what, found.type, found.where
    if policy == "warn" and attempt is None and site not in _warned:
        _warned.add(site)
        warnings.warn(str(found), MaterializeWarning, stacklevel=2)


def whole(x: ImplicitArray) -> Any:
    """The whole of an implicit array, asked for on purpose: no policy is.

    Raises:
        MaterializeError: Its class fails to make it, or makes another array.
    """
    return materialize_nested(x, full=True)


def materialize_nested(x: Any, full: bool = False) -> Any:
    """What ``materialize`` gives, also where that works with fields that are implicit themselves.

    Args:
        x: An implicit array of any depth; anything else is given back.
        full: Go on until nothing is implicit, else take one layer off.

    Raises:
        MaterializeError: A class fails to make it, or makes another array.

    Example:
        >>> import numpy as np
        >>> materialize_nested(np.ones(2), full=True)
        array([1., 1.])
    """
    while isinstance(x, ImplicitArray):
        made = _opened(x)
        if not full:
            return made
        x = made
    return x


def _opened(x: ImplicitArray) -> Any:
    try:
        with opening():
            made = opened(x)
    except Exception as error:
        if isinstance(error, ImplicitArrayError):
            raise
        raise MaterializeError(
            f"{type(x).__qualname__}.materialize() failed for {x!r}: {error}",
            "Mend it; nothing stands in for the array.",
            where_is(here()),
        ) from error
    if not hasattr(made, "shape") or (lengths_of(made), dtype_of(made)) != _type(x, made):
        raise MaterializeError(
            f"{type(x).__qualname__}.materialize() gave {_described(made)} for {x!r}, whose type "
            f"is {dtype_of(x)}{list(lengths_of(x))}.",
            "Let materialize, shape and dtype agree.",
            where_is(here()),
        )
    return made


def _type(x: Any, made: Any) -> tuple[tuple[int | None, ...], Any]:
    """The type wanted; where one side does not know a length, the other's holds."""
    wanted, given = lengths_of(x), lengths_of(made)
    if len(wanted) == len(given):
        pairs = zip(wanted, given, strict=True)
        wanted = tuple([m if n is None or m is None else n for n, m in pairs])
    return wanted, dtype_of(x)


def _described(x: Any) -> str:
    if not hasattr(x, "shape"):
        return repr(x)
    return f"{dtype_of(x)}{list(lengths_of(x))}"


WHOLE.append(whole)
