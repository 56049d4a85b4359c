"""Policies for implicit arrays that must become whole, and reports of those that did."""

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
from graphc.implicit.array import OPENING, ImplicitArray, convert, is_whole, opening
from graphc.implicit.namespace import apply, opened, refuse_filtered
from graphc.implicit.operators import apply_structured, to_dense
from graphc.implicit.treedef import NoArrayError, dtype_of, lengths_of
from graphc.site import frames_up, user_line


@dataclass(frozen=True)
class Materialization:
    """The report of an implicit array that became whole because nothing handled it.

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
    """Set the policy for implicit arrays that must become whole.

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
            f"materializing({policy!r}).", f"It is one of {', '.join(map(repr, POLICIES))}."
        )
    token = _policy.set(policy)
    try:
        yield
    finally:
        _policy.reset(token)


def policy_of(cls: type[ImplicitArray] | None = None) -> str:
    """Return the current policy; a class's own policy goes first."""
    own = None if cls is None else cls.materialize_policy
    return own or _policy.get() or config.materialize


@contextmanager
def materializations() -> Iterator[list[Materialization]]:
    """Collect reports of arrays that become whole while this thread makes programs.

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


_deferred: ContextVar[list[tuple[Materialization, str]] | None] = ContextVar(
    "deferred_reports", default=None
)


@contextmanager
def deferred_reports() -> Iterator[list[tuple[Materialization, str]]]:
    """Collect reports of an attempt, to be published if it succeeds."""
    found: list[tuple[Materialization, str]] = []
    token = _deferred.set(found)
    try:
        yield found
    finally:
        _deferred.reset(token)


def materialized(x: ImplicitArray, what: str, where: str | None = None) -> Any:
    """Make an implicit array whole for an operation that has no handler.

    Args:
        x: Of any depth.
        what: What needs it.
        where: The user's line, by default where the user's code is now.

    Returns:
        An array of its fields' library.

    Raises:
        MaterializeError: The policy forbids it, or it failed.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, materialized, materializing
        >>> with materializing("allow"):
        ...     materialized(Diagonal(np.array([1.0, 2.0])), "a sort").tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    enforce_policy(x, what, where)
    return whole(x)


def dense(x: Any, what: str, where: str | None = None) -> Any:
    """Make an array whole if it is implicit; return anything else unchanged."""
    return materialized(x, what, where) if isinstance(x, ImplicitArray) else x


def strictest(*policies: str) -> str:
    """Return the policy that allows least."""
    return max(policies, key=POLICIES.index)


def enforce_policy(
    x: ImplicitArray, what: str, where: str | None = None, remedy: str | None = None
) -> None:
    """Report, warn or raise as the policy says, without making the array whole.

    Args:
        x: The array.
        what: What needs it.
        where: The user's line, by default where the user's code is now.
        remedy: The way out, by default a handler of what needs it.

    Raises:
        MaterializeError: The policy forbids it.
    """
    cls = _class_of(x)
    shape, dtype = lengths_of(x), dtype_of(x)
    known = [n for n in shape if n is not None]
    size = math.prod(known) * dtype.itemsize if len(known) == len(shape) else None
    where = user_line() if where is None else where
    found = Materialization(what, cls.__qualname__, shape, str(dtype), size, where)
    report(found, policy_of(cls), remedy)


def _class_of(x: Any) -> type[ImplicitArray]:
    while x.stands_aside:
        x = x.array
    return type(x)


def report(found: Materialization, policy: str, remedy: str | None = None) -> None:
    """Report an array that becomes whole, and warn or raise if that is the policy.

    Args:
        found: What becomes whole, and for what.
        policy: The policy.
        remedy: The way out, by default a handler of what needs it.

    Raises:
        MaterializeError: The policy forbids it.
    """
    if OPENING.get():
        return
    attempt = _deferred.get()
    if attempt is not None:
        attempt.append((found, policy))
    else:
        for reported in _reports.get():
            reported.append(found)
    if policy == "error":
        raise MaterializeError(
            f"{found.type}, {found.dtype}{list(found.shape)}, would become whole for {found.what}"
            + ("." if remedy else ", which has no handler for it."),
            f"{remedy or f'Register a handler of {found.what}'}, or allow it with "
            "graphc.implicit.materializing.",
            found.where,
        )
    site = found.what, found.type, found.where
    if policy == "warn" and attempt is None and site not in _warned:
        _warned.add(site)
        warnings.warn(str(found), MaterializeWarning, stacklevel=frames_up())


def whole(x: ImplicitArray) -> Any:
    """Make an implicit array whole on request: no policy applies.

    Raises:
        MaterializeError: Its class fails to make it, or makes another array.
    """
    return materialize_nested(x, full=True)


def materialize_nested(x: Any, full: bool = False) -> Any:
    """Materialize an implicit array whose fields may be implicit themselves.

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
            "Correct it: the array has no other definition.",
        ) from error
    if not hasattr(made, "shape") or (lengths_of(made), dtype_of(made)) != _type(x, made):
        raise MaterializeError(
            f"{type(x).__qualname__}.materialize() gave {_described(made)} for {x!r}, whose type "
            f"is {dtype_of(x)}{list(lengths_of(x))}.",
            "Let materialize, shape and dtype agree.",
        )
    return made


def _type(x: Any, made: Any) -> tuple[tuple[int | None, ...], Any]:
    """Return the expected type, whose unknown lengths are taken from the result."""
    wanted, given = lengths_of(x), lengths_of(made)
    if len(wanted) == len(given):
        pairs = zip(wanted, given, strict=True)
        wanted = tuple([m if n is None or m is None else n for n, m in pairs])
    return wanted, dtype_of(x)


def _described(x: Any) -> str:
    if not hasattr(x, "shape"):
        return repr(x)
    return f"{dtype_of(x)}{list(lengths_of(x))}"


_must_be_argument: ContextVar[bool] = ContextVar("must_be_argument", default=False)


@contextmanager
def arguments_only() -> Iterator[None]:
    """Refuse conversions by functions of JAX: what a function captures is to be its argument."""
    token = _must_be_argument.set(True)
    try:
        yield
    finally:
        _must_be_argument.reset(token)


class ConversionError(TypeError):
    """A function of JAX was given an implicit array, which can be made an argument instead."""


def converted(x: ImplicitArray, library: str) -> Any:
    """Make an implicit array whole for a library that converts it, as the policy allows.

    Args:
        x: The array.
        library: ``"JAX"`` or ``"NumPy"``.

    Raises:
        ConversionError: It is to be an argument.
        MaterializeError: The policy forbids it.
    """
    remedy = "Call its method materialize"
    if library == "JAX":
        if _must_be_argument.get() and not OPENING.get():
            raise ConversionError(f"A function of JAX was given {x!r}.")
        remedy = (
            "Call a function that graphc.implicit.implicit makes, with the array as an argument"
        )
    if not is_whole(x):
        refuse_filtered(f"A conversion by {library}", [x], TypeError("None is no array"))
    enforce_policy(x, f"a conversion by {library}", remedy=remedy)
    return whole(x)


def keeping(name: str, *operands: Any, **settings: Any) -> Any:
    """Call a function of NumPy by its name where no implicit operand becomes whole.

    Raises:
        MaterializeError: It needs the whole array, and the class's own policy does not allow it.
    """
    try:
        with materializing("error"):
            return apply(name, *operands, **settings)
    except NoArrayError:
        raise
    except MaterializeError as error:
        given = ", ".join(repr(x) for x in operands if isinstance(x, ImplicitArray))
        raise MaterializeError(
            f"{name} of {given} needs the whole array.",
            "Make it whole with np.asarray or its method materialize, or call a function that "
            "graphc.implicit.implicit makes, where the policy decides.",
        ) from error


to_dense.provide(whole)
apply_structured.provide(keeping)
convert.provide(converted)
