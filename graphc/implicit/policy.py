"""Policies for implicit arrays that must become dense, and reports of those that did."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from graphc.config import POLICIES, config
from graphc.context import setting
from graphc.errors import ImplicitArrayError, MaterializeError, MaterializeWarning
from graphc.implicit.array import OPENING, ImplicitArray, convert, is_complete, opening
from graphc.implicit.namespace import apply, materialize_layer, refuse_filtered
from graphc.implicit.operators import apply_structured, to_dense
from graphc.implicit.treedef import NoArrayError, dtype_of, lengths_of
from graphc.site import frames_up, user_line


@dataclass(frozen=True)
class Materialization:
    """The report of an implicit array that became dense because no handler applied.

    Attributes:
        what: The primitive or operation that needed the dense array.
        type: The name of the array's class.
        shape: The lengths; None where one is not known before the program runs.
        dtype: The name of the dtype.
        bytes: The size of the dense array; None where a length is not known.
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
        return f"{self.type}, {self.dtype}[{lengths}]{size}, became dense for {self.what}{at}"


_policy: ContextVar[str | None] = ContextVar("policy", default=None)
_reports: ContextVar[tuple[list[Materialization], ...]] = ContextVar("reports", default=())
_warned: set[tuple[str, str, str | None]] = set()


@contextmanager
def materializing(policy: str) -> Iterator[None]:
    """Set the policy for implicit arrays that must become dense.

    The policy applies while programs are made: when ``graphc.function`` is called, or JAX traces.
    The policy of the array's class takes precedence, and the configuration's,
    ``config.materialize``, comes last.

    Args:
        policy: ``"allow"``, ``"warn"`` or ``"error"``.

    Raises:
        ImplicitArrayError: If the policy is none of these.
        MaterializeError: Within the context, if an array would become dense and the policy is
            ``"error"``.

    Example:
        >>> with materializing("error"):
        ...     policy_of()
        'error'
    """
    if policy not in POLICIES:
        raise ImplicitArrayError(
            f"materializing({policy!r}).", f"Give one of {', '.join(map(repr, POLICIES))}."
        )
    with setting(_policy, policy):
        yield


def policy_of(cls: type[ImplicitArray] | None = None) -> str:
    """Return the current policy; a class's own policy takes precedence."""
    own = None if cls is None else cls.materialize_policy
    return own or _policy.get() or config.materialize


@contextmanager
def materializations() -> Iterator[list[Materialization]]:
    """Collect reports of arrays that become dense while this thread makes programs.

    A program that exists is not made again: make functions within.

    Example:
        >>> with materializations() as report:
        ...     pass
        >>> report
        []
    """
    report: list[Materialization] = []
    with setting(_reports, (*_reports.get(), report)):
        yield report


_deferred: ContextVar[list[tuple[Materialization, str]] | None] = ContextVar(
    "deferred_reports", default=None
)


def deferred_reports() -> setting[list[tuple[Materialization, str]]]:
    """Collect the reports of an attempt, to be published if it succeeds."""
    return setting(_deferred, [])


def materialized(x: ImplicitArray, what: str, where: str | None = None) -> Any:
    """Make an implicit array dense for an operation that has no handler.

    Args:
        x: An implicit array, nested to any depth.
        what: The name of what needs the dense array.
        where: The user's line, by default the current one.

    Returns:
        An array of the fields' library.

    Raises:
        MaterializeError: If the policy forbids it, or ``materialize`` failed.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal, materialized, materializing
        >>> with materializing("allow"):
        ...     materialized(Diagonal(np.array([1.0, 2.0])), "a sort").tolist()
        [[1.0, 0.0], [0.0, 2.0]]
    """
    enforce_policy(x, what, where)
    return densify(x)


def as_dense(x: Any, what: str, where: str | None = None) -> Any:
    """Make an array dense if it is implicit; return anything else unchanged."""
    return materialized(x, what, where) if isinstance(x, ImplicitArray) else x


def strictest(*policies: str) -> str:
    """Return the policy that allows least."""
    return max(policies, key=POLICIES.index)


def enforce_policy(
    x: ImplicitArray, what: str, where: str | None = None, remedy: str | None = None
) -> None:
    """Report, warn or raise as the policy requires, without densifying the array.

    Args:
        x: The array.
        what: The name of what needs the dense array.
        where: The user's line, by default the current one.
        remedy: The remedy in the error; by default a handler of what needs the array.

    Raises:
        MaterializeError: If the policy forbids it.
    """
    visible: Any = x
    while visible.stands_aside:
        visible = visible.array
    cls = type(visible)
    shape, dtype = lengths_of(x), dtype_of(x)
    lengths = [n for n in shape if n is not None]
    size = math.prod(lengths) * dtype.itemsize if len(lengths) == len(shape) else None
    where = user_line() if where is None else where
    event = Materialization(what, cls.__qualname__, shape, str(dtype), size, where)
    report(event, policy_of(cls), remedy)


def report(event: Materialization, policy: str, remedy: str | None = None) -> None:
    """Report an array that becomes dense, and warn or raise if the policy requires it.

    Args:
        event: The array that becomes dense, and the operation that needs it.
        policy: The policy.
        remedy: The remedy in the error; by default a handler of what needs the array.

    Raises:
        MaterializeError: If the policy forbids it.
    """
    if OPENING.get():
        return
    attempt = _deferred.get()
    if attempt is not None:
        attempt.append((event, policy))
    else:
        for reported in _reports.get():
            reported.append(event)
    if policy == "error":
        raise MaterializeError(
            f"{event.type}, {event.dtype}{list(event.shape)}, would become dense for {event.what}"
            + ("." if remedy else ", which has no handler for it."),
            f"{remedy or f'Register a handler of {event.what}'}, or allow it with "
            "graphc.implicit.materializing.",
            event.where,
        )
    site = event.what, event.type, event.where
    if policy == "warn" and attempt is None and site not in _warned:
        _warned.add(site)
        warnings.warn(str(event), MaterializeWarning, stacklevel=frames_up())


def densify(x: ImplicitArray) -> Any:
    """Make an implicit array dense on request: no policy applies.

    Raises:
        MaterializeError: If ``materialize`` of a class fails, or returns another shape or dtype.
    """
    return materialize_nested(x, full=True)


def materialize_nested(x: Any, full: bool = False) -> Any:
    """Materialize an implicit array whose fields may be implicit themselves.

    Args:
        x: An implicit array, nested to any depth; anything else is returned unchanged.
        full: Continue until nothing is implicit; otherwise remove one layer.

    Raises:
        MaterializeError: If ``materialize`` of a class fails, or returns another shape or dtype.

    Example:
        >>> import numpy as np
        >>> materialize_nested(np.ones(2), full=True)
        array([1., 1.])
    """
    while isinstance(x, ImplicitArray):
        array = _materialize(x)
        if not full:
            return array
        x = array
    return x


def _materialize(x: ImplicitArray) -> Any:
    try:
        with opening():
            array = materialize_layer(x)
    except Exception as error:
        if isinstance(error, ImplicitArrayError):
            raise
        raise MaterializeError(
            f"{type(x).__qualname__}.materialize() failed for {x!r}: {error}",
            "Correct it: the array has no other definition.",
        ) from error
    if not hasattr(array, "shape") or (lengths_of(array), dtype_of(array)) != _type(x, array):
        raise MaterializeError(
            f"{type(x).__qualname__}.materialize() gave {_describe(array)} for {x!r}, whose type "
            f"is {dtype_of(x)}{list(lengths_of(x))}.",
            "Let materialize, shape and dtype agree.",
        )
    return array


def _type(x: Any, result: Any) -> tuple[tuple[int | None, ...], Any]:
    """Return the expected type; an unknown length is taken from the result."""
    expected, actual = lengths_of(x), lengths_of(result)
    if len(expected) == len(actual):
        pairs = zip(expected, actual, strict=True)
        expected = tuple([m if n is None or m is None else n for n, m in pairs])
    return expected, dtype_of(x)


def _describe(x: Any) -> str:
    if not hasattr(x, "shape"):
        return repr(x)
    return f"{dtype_of(x)}{list(lengths_of(x))}"


_must_be_argument: ContextVar[bool] = ContextVar("must_be_argument", default=False)


def arguments_only() -> setting[bool]:
    """Refuse conversions by JAX functions: captured arrays must become arguments."""
    return setting(_must_be_argument, True)


class ConversionError(TypeError):
    """A JAX function was given an implicit array that can become an argument instead."""


def convert_for_library(x: ImplicitArray, library: str) -> Any:
    """Make an implicit array dense for a library that converts it, as allowed.

    Args:
        x: The array.
        library: ``"JAX"`` or ``"NumPy"``.

    Raises:
        ConversionError: If the array must become an argument.
        MaterializeError: If the policy forbids it.
    """
    remedy = "Call its method materialize"
    if library == "JAX":
        if _must_be_argument.get() and not OPENING.get():
            raise ConversionError(f"A function of JAX was given {x!r}.")
        remedy = (
            "Call a function that graphc.implicit.implicit makes, with the array as an argument"
        )
    if not is_complete(x):
        refuse_filtered(f"A conversion by {library}", [x], TypeError("None is no array"))
    enforce_policy(x, f"a conversion by {library}", remedy=remedy)
    return densify(x)


def apply_structured_function(name: str, *operands: Any, **settings: Any) -> Any:
    """Call a NumPy function by its name without densifying operands.

    Raises:
        MaterializeError: If the dense array is needed, and the policy of its class does not allow
            it.
    """
    try:
        with materializing("error"):
            return apply(name, *operands, **settings)
    except NoArrayError:
        raise
    except MaterializeError as error:
        arrays = ", ".join(repr(x) for x in operands if isinstance(x, ImplicitArray))
        raise MaterializeError(
            f"{name} of {arrays} needs the dense array.",
            "Densify it with np.asarray or its method materialize, or call a function that "
            "graphc.implicit.implicit makes, where the policy decides.",
        ) from error


to_dense.provide(densify)
apply_structured.provide(apply_structured_function)
convert.provide(convert_for_library)
