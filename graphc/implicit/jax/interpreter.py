"""Equations of JAX's programs run one by one, where operands may be implicit arrays.

An equation without implicit operands is bound as it is. Else handlers of its primitive are asked;
then its rule, where it has programs of its own; and what nothing takes gets whole arrays.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, primitives

from graphc.errors import HandlerError
from graphc.implicit.array import OPENING, ImplicitArray
from graphc.implicit.form import dtype_of, lengths_of
from graphc.implicit.policy import materialized, policy_of
from graphc.implicit.registry import generation, handlers_for
from graphc.ir import here, mark_own, where

__all__ = [
    "RULES",
    "as_typed",
    "bind",
    "bound",
    "dense",
    "inline",
    "materialized_for",
    "on_behalf",
    "rule",
    "standing",
    "used_results",
    "where_now",
    "where_of",
]

Rule = Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]

RULES: dict[str, Rule] = {}
"""What runs an equation of each primitive that has programs of its own; results are checked."""

LIBRARY = str(Path(jax.__file__).parent)

# What frames of graphc's and of JAX's do, they do for the user's line.
source_info_util.register_exclusion(str(Path(__file__).parents[2]))
mark_own(LIBRARY)
mark_own(contextlib.__file__)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Have the decorated function run equations of the primitives of these names.

    It gets an equation and its operands, of which one at least is implicit, and gives as many
    results as the equation has.
    """

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def standing() -> tuple[Any, ...]:
    """What decides on programs beside what they are given: policies and handlers."""
    return policy_of(), OPENING.get(), generation()


def inline(
    program: ClosedJaxpr, operands: Sequence[Any], used: Sequence[bool] | None = None
) -> list[Any]:
    """The results of a program: its equations run here, in order, but those that nothing needs.

    Args:
        program: It.
        operands: Dense arrays and implicit ones.
        used: Which of its results are wanted, by default all; in place of others is None.
    """
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, operands, strict=True))

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else known[x]

    wanted = (True,) * len(jaxpr.outvars) if used is None else tuple(used)
    for eqn, done in _steps(jaxpr, wanted):
        with _at(eqn):
            results = evaluated(eqn, [read(x) for x in eqn.invars])
        known.update(zip(eqn.outvars, results, strict=True))
        for x in done:
            del known[x]
    pairs = zip(jaxpr.outvars, wanted, strict=True)
    return [read(x) if is_wanted else None for x, is_wanted in pairs]


@dataclass(frozen=True, eq=False)
class Unread:
    """A result that nothing reads.

    Attributes:
        aval: Its type.
    """

    aval: Any


Steps = tuple[tuple[JaxprEqn, tuple[Any, ...]], ...]

_known_steps: WeakKeyDictionary[Jaxpr, dict[tuple[bool, ...], Steps]] = WeakKeyDictionary()


def _steps(jaxpr: Jaxpr, wanted: tuple[bool, ...]) -> Steps:
    """The equations that are needed, each with the variables that nothing reads after it.

    Results of an equation that nothing reads are ``Unread``.
    """
    known = _known_steps.setdefault(jaxpr, {})
    if wanted not in known:
        pairs = zip(jaxpr.outvars, wanted, strict=True)
        needed = {x for x, is_wanted in pairs if is_wanted and not isinstance(x, Literal)}
        steps: list[Any] = []
        for eqn in reversed(jaxpr.eqns):
            outvars: list[Any] = [x if x in needed else Unread(x.aval) for x in eqn.outvars]
            unread = [x for x in outvars if isinstance(x, Unread)]
            if not eqn.effects and len(unread) == len(outvars):
                continue
            read = dict.fromkeys(x for x in eqn.invars if not isinstance(x, Literal))
            done = [*unread, *[x for x in read if x not in needed]]
            steps.append((eqn.replace(outvars=outvars), tuple(done)))
            needed.update(read)
        known[wanted] = tuple(reversed(steps))
    return known[wanted]


def used_results(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Which of an equation's results something reads."""
    return tuple(not isinstance(x, Unread) for x in eqn.outvars)


@contextmanager
def _at(eqn: JaxprEqn) -> Iterator[None]:
    """What is bound within is said to come from where the equation does."""
    info = eqn.source_info
    names = source_info_util.current_name_stack() + info.name_stack
    _now.equations.append(eqn)
    try:
        with source_info_util.user_context(info.traceback, name_stack=names), eqn.ctx.manager:
            yield
    finally:
        _now.equations.pop()


def evaluated(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation, dense or implicit."""
    if not any(isinstance(x, ImplicitArray) for x in operands):
        return bound(eqn, operands)
    operands = [_array(v, x) for v, x in zip(eqn.invars, operands, strict=True)]
    found: Sequence[Any] = _handled(eqn, operands)
    if found is not NotImplemented:
        return found
    if _changes_nothing(eqn):
        return operands
    known = RULES.get(eqn.primitive.name)
    if known is None:
        return dense(eqn, operands)
    return checked(eqn, known(eqn, operands), "the rule of programs in programs")


UNCHANGING = frozenset(
    ("broadcast_in_dim", "convert_element_type", "reshape", "slice", "squeeze", "transpose")
)
"""Primitives whose results are their operands if these have the results' shapes and dtypes."""


def _changes_nothing(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name not in UNCHANGING or len(eqn.invars) != 1:
        return False
    order = eqn.params.get("permutation", ())
    (x,), (y,) = eqn.invars, eqn.outvars
    before: Any = x.aval
    after: Any = y.aval
    same = (before.shape, before.dtype) == (after.shape, after.dtype)
    return same and tuple(order) == tuple(sorted(order))


def bound(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation for dense operands."""
    found = bind(eqn.primitive, operands, eqn.params)
    return found if eqn.primitive.multiple_results else [found]


def bind(primitive: Any, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
    """What a primitive gives for dense operands and the parameters that an equation has."""
    given = primitive.get_bind_params(parameters)
    # JAX up to 0.9 gives the functions among them apart.
    functions, given = given if isinstance(given, tuple) else ((), given)
    return primitive.bind(*functions, *operands, **given)


def dense(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The same for operands of which some are implicit, made whole as the policy says."""
    return bound(eqn, [materialized_for(x, eqn) for x in operands])


def materialized_for(x: Any, eqn: JaxprEqn) -> Any:
    """An operand as one array, as the policy says."""
    if not isinstance(x, ImplicitArray):
        return x
    return materialized(x, eqn.primitive.name, where_of(eqn))


class _Now(threading.local):
    """What is going on in this thread.

    Attributes:
        equations: Those that are being run, each within the one before.
        asked: The handlers that are being asked: their names, for what equations and operands.
        place: The user's line, where it is not that of an equation.
    """

    def __init__(self) -> None:
        self.equations: list[JaxprEqn] = []
        self.asked: list[tuple[str, JaxprEqn, list[Any]]] = []
        self.place: str | None = None


_now = _Now()

PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)?( \(.*\))?")
"""How JAX writes a place: the file, the line, perhaps the column, perhaps the function."""


def where_of(eqn: JaxprEqn) -> str | None:
    """The user's file and line that the equation comes from, or the one that it is run within."""
    if _now.place is not None:
        return _now.place
    for x in (eqn, *reversed(_now.equations)):
        found = PLACE.fullmatch(source_info_util.summarize(x.source_info))
        # Where a function of JAX's is compiled alone, the user's line is that of the call.
        if found and not found["file"].startswith(LIBRARY):
            return f"{Path(found['file']).name}:{found['line']}"
    return where(here())


def where_now() -> str | None:
    """The user's line of the equation that is being run; else where the user's code is."""
    if _now.place is None and _now.equations:
        return where_of(_now.equations[-1])
    return _now.place or where(here())


@contextmanager
def on_behalf(place: str | None) -> Iterator[None]:
    """The line that is told of within, as a library's function is traced once for all uses."""
    before, _now.place = _now.place, place
    try:
        yield
    finally:
        _now.place = before


def _array(variable: Any, x: Any) -> Any:
    """An operand as handlers get it: no number alone."""
    is_array = isinstance(x, jax.Array | ImplicitArray)
    return x if is_array else jnp.asarray(x, variable.aval.dtype)


def _handled(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """What a handler gives, or by default a class of the operands; else NotImplemented."""
    for name, handler in _candidates(eqn, operands):
        try:
            with _asking(name, eqn, operands) as is_new:
                found = handler(*operands, **eqn.params) if is_new else NotImplemented
        except Exception as error:
            note = f"{name} handles {eqn.primitive}, at {where_of(eqn)}."
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise
        if found is not NotImplemented:
            several = eqn.primitive.multiple_results
            return checked(eqn, found if several else [found], name)
    return NotImplemented


DEPTH = 50
"""How often a handler may lead to itself: structures are nested less deeply."""


@contextmanager
def _asking(name: str, eqn: JaxprEqn, operands: Sequence[Any]) -> Iterator[bool]:
    """Whether a handler is asked what it is not being asked already.

    Raises:
        HandlerError: It leads to itself again and again.
    """
    key = name, eqn.primitive
    given = [x for x in operands if isinstance(x, ImplicitArray)]
    asked = [was for who, of, was in _now.asked if (who, of.primitive) == key]
    if len(asked) > DEPTH:
        raise HandlerError(
            f"{name} of {eqn.primitive} leads to itself for ever: {given[0]!r} is given to it "
            f"for the {DEPTH}th time.",
            "Let it compute with fields, or give NotImplemented.",
            where_of(eqn),
        )
    is_new = not any(len(was) == len(given) and all(map(is_, was, given)) for was in asked)
    _now.asked.append((name, eqn, given))
    try:
        yield is_new
    finally:
        _now.asked.pop()


Candidate = tuple[str, Callable[..., Any]]
"""A handler and what messages call it."""


def _candidates(eqn: JaxprEqn, operands: Sequence[Any]) -> Iterator[Candidate]:
    for handler in handlers_for(eqn.primitive, operands):
        yield f"{handler.__module__}.{handler.__qualname__}", handler
    if eqn.primitive.name in RULES:
        return  # classes are asked for what is in it
    for cls in dict.fromkeys(type(x) for x in operands if isinstance(x, ImplicitArray)):
        name = f"{cls.__module__}.{cls.__qualname__}.default_handler"
        yield name, partial(cls.default_handler, eqn.primitive)


def checked(eqn: JaxprEqn, found: Any, name: str) -> list[Any]:
    """What was given for an equation, if it is what the equation gives.

    Raises:
        HandlerError: It is not.
    """
    if not isinstance(found, list | tuple) or len(found) != len(eqn.outvars):
        raise HandlerError(
            f"{name} gave {_described(found)} for {eqn.primitive}, which has "
            f"{len(eqn.outvars)} results.",
            "Let it give them in a list.",
            where_of(eqn),
        )
    pairs = zip(eqn.outvars, found, strict=True)
    return [
        None if y is None and isinstance(v, Unread) else _checked(eqn, v.aval, y, name)
        for v, y in pairs
    ]


def _checked(eqn: JaxprEqn, aval: Any, y: Any, name: str) -> Any:
    is_array = isinstance(y, jax.Array | np.ndarray | np.generic | ImplicitArray)
    if not is_array or (lengths_of(y), dtype_of(y)) != (aval.shape, aval.dtype):
        raise HandlerError(
            f"{name} gave {_described(y)} for {eqn.primitive}, which gives "
            f"{aval.dtype}{list(aval.shape)}.",
            "A handler keeps shape and dtype; it may give NotImplemented to leave it to others.",
            where_of(eqn),
        )
    return as_typed(y, aval)


def as_typed(y: Any, aval: Any) -> Any:
    """An array with a dtype that gives way to others only where the wanted type's does."""
    if isinstance(y, ImplicitArray) or jax.typeof(y).weak_type == aval.weak_type:
        return y
    return primitives.convert_element_type_p.bind(
        y, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )


def _described(y: Any) -> str:
    if not hasattr(y, "shape") or not hasattr(y, "dtype"):
        return f"{y!r}, of the class {type(y).__name__},"
    return f"{type(y).__name__} of {y.dtype}{list(y.shape)}"
