"""The interpreter of JAX programs with implicit arrays: it runs equation by equation.

An equation without implicit operands is bound as it is. Else handlers of its primitive are tried;
then its rule, where it has programs of its own; and what nothing takes gets whole arrays.
"""

from __future__ import annotations

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

from graphc.errors import HandlerError, ImplicitArrayError
from graphc.implicit.array import OPENING, ImplicitArray
from graphc.implicit.dispatch import by_default
from graphc.implicit.policy import materialized, policy_of
from graphc.implicit.registry import generation, handlers_for
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.link.jax.explicit import explicit_mesh, reshard, spec_of
from graphc.link.jax.implicit import automatic
from graphc.link.jax.implicit.known import known_numbers, note_number, note_spread
from graphc.link.jax.implicit.nested import dispatched_again
from graphc.link.jax.varying import vary, varying_axes
from graphc.site import mark_own, user_line

Rule = Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]

RULES: dict[str, Rule] = {}
"""The functions that run equations with nested programs, by primitive; results are checked."""

LIBRARY = str(Path(jax.__file__).parent)

# What frames of graphc's and of JAX's do, they do for the user's line.
source_info_util.register_exclusion(str(Path(__file__).parents[2]))
mark_own(LIBRARY)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function to run equations of these primitives.

    It gets an equation and its operands, of which one at least is implicit, and gives as many
    results as the equation has.
    """

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def standing() -> tuple[Any, ...]:
    """Return the state that programs depend on beside operands: policy and handlers."""
    return policy_of(), OPENING.get(), generation()


def inline(
    program: ClosedJaxpr, operands: Sequence[Any], used: Sequence[bool] | None = None
) -> list[Any]:
    """Run a program's equations in order, without those that nothing needs.

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
    with known_numbers():
        for eqn, done in _steps(jaxpr, wanted):
            with _at(eqn):
                results = evaluated(eqn, [read(x) for x in eqn.invars])
            known.update(zip(eqn.outvars, results, strict=True))
            for x in done:
                del known[x]
    pairs = zip(jaxpr.outvars, wanted, strict=True)
    return [read(x) if is_wanted else None for x, is_wanted in pairs]


@dataclass(frozen=True, eq=False)
class UnreadResult:
    """A result that nothing reads.

    Attributes:
        aval: Its type.
    """

    aval: Any


Steps = tuple[tuple[JaxprEqn, tuple[Any, ...]], ...]

_known_steps: WeakKeyDictionary[Jaxpr, dict[tuple[bool, ...], Steps]] = WeakKeyDictionary()


def _steps(jaxpr: Jaxpr, wanted: tuple[bool, ...]) -> Steps:
    """Return the needed equations, each with the variables that are last read by it.

    Results of an equation that nothing reads are ``UnreadResult``.
    """
    known = _known_steps.setdefault(jaxpr, {})
    if wanted not in known:
        pairs = zip(jaxpr.outvars, wanted, strict=True)
        needed = {x for x, is_wanted in pairs if is_wanted and not isinstance(x, Literal)}
        steps: list[Any] = []
        for eqn in reversed(jaxpr.eqns):
            outvars: list[Any] = [x if x in needed else UnreadResult(x.aval) for x in eqn.outvars]
            unread = [x for x in outvars if isinstance(x, UnreadResult)]
            if not eqn.effects and len(unread) == len(outvars):
                continue
            read = dict.fromkeys(x for x in eqn.invars if not isinstance(x, Literal))
            done = [*unread, *[x for x in read if x not in needed]]
            steps.append((eqn.replace(outvars=outvars), tuple(done)))
            needed.update(read)
        known[wanted] = tuple(reversed(steps))
    return known[wanted]


def used_results(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Return which results of an equation are read."""
    return tuple(not isinstance(x, UnreadResult) for x in eqn.outvars)


@contextmanager
def _at(eqn: JaxprEqn) -> Iterator[None]:
    """Give primitives bound within this context the source line of an equation."""
    info = eqn.source_info
    names = source_info_util.current_name_stack() + info.name_stack
    _state.equations.append(eqn)
    try:
        with source_info_util.user_context(info.traceback, name_stack=names), eqn.ctx.manager:
            yield
    finally:
        _state.equations.pop()


def evaluated(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run an equation; its results are dense or implicit."""
    if not any(isinstance(x, ImplicitArray) for x in operands):
        results = bound(eqn, operands)
        note_spread(eqn, operands, results)
        return results
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
    """Bind an equation with dense operands."""
    found = bind(eqn.primitive, operands, eqn.params)
    return found if eqn.primitive.multiple_results else [found]


def bind(primitive: Any, operands: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
    """Bind a primitive with dense operands and an equation's parameters."""
    given = primitive.get_bind_params(parameters)
    # JAX up to 0.9 gives the functions among them apart.
    functions, given = given if isinstance(given, tuple) else ((), given)
    return primitive.bind(*functions, *operands, **given)


def dense(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Bind an equation after making implicit operands whole, as the policy allows."""
    return bound(eqn, [materialized_for(x, eqn) for x in operands])


def materialized_for(x: Any, eqn: JaxprEqn) -> Any:
    """Make an operand whole, as the policy allows."""
    if not isinstance(x, ImplicitArray):
        return x
    return materialized(x, eqn.primitive.name, where_of(eqn))


class _InterpreterState(threading.local):
    """The interpreter's state in this thread.

    Attributes:
        equations: Those that are being run, each within the one before.
        handlers: The handlers that are running: their names, equations and operands.
        place: The user's line, where it is not that of an equation.
    """

    def __init__(self) -> None:
        self.equations: list[JaxprEqn] = []
        self.handlers: list[tuple[str, JaxprEqn, list[Any]]] = []
        self.place: str | None = None


_state = _InterpreterState()

PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)?( \(.*\))?")
"""How JAX writes a place: the file, the line, perhaps the column, perhaps the function."""


def where_of(eqn: JaxprEqn) -> str | None:
    """Return the user's file and line of an equation, or of the one that it runs within."""
    if _state.place is not None:
        return _state.place
    for x in (eqn, *reversed(_state.equations)):
        found = PLACE.fullmatch(source_info_util.summarize(x.source_info))
        # Where a function of JAX's is compiled alone, the user's line is that of the call.
        if found and not found["file"].startswith(LIBRARY):
            return f"{Path(found['file']).name}:{found['line']}"
    return user_line()


def where_now() -> str | None:
    """Return the user's line of the running equation, else of the user's code."""
    if _state.place is None and _state.equations:
        return where_of(_state.equations[-1])
    return _state.place or user_line()


@contextmanager
def on_behalf(place: str | None) -> Iterator[None]:
    """Set the reported line, since a library function is traced once for all uses."""
    before, _state.place = _state.place, place
    try:
        yield
    finally:
        _state.place = before


def _array(variable: Any, x: Any) -> Any:
    """Return an operand as handlers get it: numbers become arrays."""
    if isinstance(x, jax.Array | ImplicitArray):
        return x
    made = jnp.asarray(x, variable.aval.dtype)
    if isinstance(variable, Literal):
        note_number(made, x)
    return made


def _handled(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the result of a handler, or of the operands' classes; else NotImplemented."""
    place = partial(where_of, eqn)
    for handler in handlers_for(eqn.primitive, operands, place):
        name = f"{handler.__module__}.{handler.__qualname__}"
        found = _called(name, handler, eqn, operands)
        if found is not NotImplemented:
            return found
    if eqn.primitive.name in RULES:
        return NotImplemented  # classes are consulted for what is in it

    def call(cls: type[ImplicitArray]) -> Any:
        name = f"{cls.__module__}.{cls.__qualname__}.default_handler"
        return _called(name, partial(cls.default_handler, eqn.primitive), eqn, operands)

    return by_default(eqn.primitive, operands, call, place)


def _called(name: str, handler: Callable[..., Any], eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the checked results of a handler, which messages call by a name."""
    several = eqn.primitive.multiple_results
    avals = [x.aval for x in eqn.outvars]

    def call(*operands: Any) -> Any:
        try:
            y = handler(*operands, **eqn.params)
        except ImplicitArrayError:
            raise
        except TypeError as error:
            y = dispatched_again(partial(handler, **eqn.params), operands, error)
        return y if several or y is NotImplemented else [y]

    try:
        with _running(name, eqn, operands) as is_new:
            found = automatic.handled(call, operands, avals) if is_new else NotImplemented
    except Exception as error:
        note = f"{name} handles {eqn.primitive}, at {where_of(eqn)}."
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
    return found if found is NotImplemented else checked(eqn, found, name)


DEPTH = 50
"""How often a handler may lead to itself: structures are nested less deeply."""


@contextmanager
def _running(name: str, eqn: JaxprEqn, operands: Sequence[Any]) -> Iterator[bool]:
    """Whether a handler may run: not where it already runs for the same operands.

    Raises:
        HandlerError: It leads to itself again and again.
    """
    key = name, eqn.primitive
    given = [x for x in operands if isinstance(x, ImplicitArray)]
    handlers = [was for who, of, was in _state.handlers if (who, of.primitive) == key]
    if len(handlers) > DEPTH:
        raise HandlerError(
            f"{name} of {eqn.primitive} calls itself without end: {given[0]!r} is passed to it "
            f"for the {DEPTH}th time.",
            "Let it compute with fields, or return NotImplemented.",
            where_of(eqn),
        )
    is_new = not any(len(was) == len(given) and all(map(is_, was, given)) for was in handlers)
    _state.handlers.append((name, eqn, given))
    try:
        yield is_new
    finally:
        _state.handlers.pop()


def checked(eqn: JaxprEqn, found: Any, name: str) -> list[Any]:
    """Check a handler's results against those of the equation.

    Raises:
        HandlerError: It is not.
    """
    if not isinstance(found, list | tuple) or len(found) != len(eqn.outvars):
        raise HandlerError(
            f"{name} gave {_described(found)} for {eqn.primitive}, which has "
            f"{len(eqn.outvars)} results.",
            "Return them in a list.",
            where_of(eqn),
        )
    pairs = zip(eqn.outvars, found, strict=True)
    return [
        None if y is None and isinstance(v, UnreadResult) else _checked(eqn, v.aval, y, name)
        for v, y in pairs
    ]


def _checked(eqn: JaxprEqn, aval: Any, y: Any, name: str) -> Any:
    is_array = isinstance(y, jax.Array | np.ndarray | np.generic | ImplicitArray)
    if not is_array or (lengths_of(y), dtype_of(y)) != (aval.shape, aval.dtype):
        raise HandlerError(
            f"{name} gave {_described(y)} for {eqn.primitive}, which gives "
            f"{aval.dtype}{list(aval.shape)}.",
            "Keep shape and dtype, or return NotImplemented to leave it to other handlers.",
            where_of(eqn),
        )
    return as_typed(y, aval)


def as_typed(y: Any, aval: Any) -> Any:
    """Give an array the wanted type's weak dtype, sharding, and mesh axes that it varies over."""
    if isinstance(y, ImplicitArray):
        return y
    y = _weakened(vary(y, varying_axes(aval)), aval)
    mesh = explicit_mesh((y, aval))
    return y if mesh is None else reshard(y, mesh, spec_of(aval))


def _weakened(y: Any, aval: Any) -> Any:
    if jax.typeof(y).weak_type == aval.weak_type:
        return y
    return primitives.convert_element_type_p.bind(
        y, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )


def _described(y: Any) -> str:
    if not hasattr(y, "shape") or not hasattr(y, "dtype"):
        return f"{y!r}, of the class {type(y).__name__},"
    return f"{type(y).__name__} of {y.dtype}{list(y.shape)}"
