"""The interpreter of JAX programs with implicit arrays: it runs equation by equation.

An equation without implicit operands is bound to its primitive. For other equations, handlers of
the primitive are tried first, then the rule of a primitive with nested programs. If neither exists,
the operands are densified.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from operator import is_
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, primitives

from graphc.context import setting
from graphc.errors import HandlerError, ImplicitArrayError
from graphc.implicit.array import OPENING, ImplicitArray, is_implicit
from graphc.implicit.dispatch import by_default
from graphc.implicit.functions import implicit
from graphc.implicit.layout import StructureLost
from graphc.implicit.policy import materialized, policy_of
from graphc.implicit.registry import generation, handlers_for
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.link.jax.explicit import explicit_mesh, reshard, spec_of
from graphc.link.jax.implicit import automatic
from graphc.link.jax.implicit.known import known_numbers, note_number, note_repeated
from graphc.link.jax.jaxprs import UnreadResult, bind_equation, walk
from graphc.link.jax.varying import vary, varying_axes
from graphc.site import mark_own, user_line

Rule = Callable[[JaxprEqn, Sequence[Any]], Sequence[Any]]

RULES: dict[str, Rule] = {}
"""Functions that run equations with nested programs, by the primitive's name."""

LIBRARY = str(Path(jax.__file__).parent)

# Frames of graphc and JAX are skipped, so that the user's line is reported.
source_info_util.register_exclusion(str(Path(__file__).parents[2]))
mark_own(LIBRARY)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function to run equations of these primitives.

    The function gets an equation and its operands, of which one at least is implicit, and returns a
    result for each output of the equation.
    """

    def register_rule(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register_rule


def dispatch_state() -> tuple[Any, ...]:
    """Return the state that a program's results depend on beside operands: policy and handlers."""
    return policy_of(), OPENING.get(), generation()


def inline(
    program: ClosedJaxpr, operands: Sequence[Any], used: Sequence[bool] | None = None
) -> list[Any]:
    """Run a program's equations in order, without those that no result needs.

    Args:
        program: The program.
        operands: Dense and implicit arrays.
        used: For each result, whether it is wanted (default: all); the others are None.
    """
    with known_numbers():
        return walk(program, operands, _evaluate_at_line, used)


def _evaluate_at_line(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run an equation, whose source line the primitives that are bound meanwhile get."""
    info = eqn.source_info
    names = source_info_util.current_name_stack() + info.name_stack
    _state.equations.append(eqn)
    try:
        with source_info_util.user_context(info.traceback, name_stack=names), eqn.ctx.manager:
            return evaluate(eqn, operands)
    finally:
        _state.equations.pop()


def evaluate(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run an equation; its results are dense or implicit."""
    if (
        not any(isinstance(x, ImplicitArray) for x in operands)
        and eqn.primitive.name not in ALWAYS_RULED
    ):
        dense = bind_equation(eqn, operands)
        note_repeated(eqn, operands, dense)
        return dense
    operands = [_as_array(v, x) for v, x in zip(eqn.invars, operands, strict=True)]
    results: Sequence[Any] = _try_handlers(eqn, operands)
    if results is not NotImplemented:
        return results
    if _changes_nothing(eqn):
        return operands
    run = RULES.get(eqn.primitive.name)
    if run is None:
        return bind_dense(eqn, operands)
    return check_results(eqn, run(eqn, operands), "the rule of programs in programs")


ALWAYS_RULED = frozenset(("custom_lin",))
"""Primitives whose rule runs for dense operands too: JAX has no batches of these."""


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


def bind_dense(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Bind an equation with densified operands, as the policy allows."""
    return bind_equation(eqn, [materialize_for(x, eqn) for x in operands])


def materialize_for(x: Any, eqn: JaxprEqn) -> Any:
    """Densify an operand of an equation, as the policy allows."""
    if not isinstance(x, ImplicitArray):
        return x
    return materialized(x, eqn.primitive.name, where_of(eqn))


class _InterpreterState(threading.local):
    """The interpreter's state in this thread.

    Attributes:
        equations: The equations that are running, outermost first.
        handlers: The handlers that are running: their names, equations and implicit operands.
    """

    def __init__(self) -> None:
        self.equations: list[JaxprEqn] = []
        self.handlers: list[tuple[str, JaxprEqn, list[Any]]] = []


_state = _InterpreterState()
_line: ContextVar[str | None] = ContextVar("line", default=None)
"""The user's line, if it is not the line of an equation."""

LOCATION = re.compile(r"(?P<file>.+?):(?P<line>\d+)(:\d+)?( \(.*\))?")
"""JAX's notation for a source location: the file, the line, and perhaps column and function."""


def where_of(eqn: JaxprEqn) -> str | None:
    """Return the user's file and line of an equation, or of an enclosing equation."""
    if (line := _line.get()) is not None:
        return line
    for x in (eqn, *reversed(_state.equations)):
        location = LOCATION.fullmatch(source_info_util.summarize(x.source_info))
        # A function of JAX that is compiled alone has the user's line in the enclosing call.
        if location and not location["file"].startswith(LIBRARY):
            return f"{Path(location['file']).name}:{location['line']}"
    return user_line()


def where_now() -> str | None:
    """Return the user's line of the running equation, or of the user's code."""
    return where_of(_state.equations[-1]) if _state.equations else _line.get() or user_line()


def report_at(line: str | None) -> setting[str | None]:
    """Report this line for all equations in the context: library functions are traced only once."""
    return setting(_line, line)


def _as_array(variable: Any, x: Any) -> Any:
    if isinstance(x, jax.Array | ImplicitArray):
        return x
    array = jnp.asarray(x, variable.aval.dtype)
    if isinstance(variable, Literal):
        note_number(array, x)
    return array


def _try_handlers(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the results of a handler or of the operands' classes; else NotImplemented."""
    where = partial(where_of, eqn)
    for handler in handlers_for(eqn.primitive, operands, where):
        name = f"{handler.__module__}.{handler.__qualname__}"
        results = _call_handler(name, handler, eqn, operands)
        if results is not NotImplemented:
            return results
    if eqn.primitive.name in RULES:
        return NotImplemented  # classes handle the equations of its nested programs

    def call(cls: type[ImplicitArray]) -> Any:
        name = f"{cls.__module__}.{cls.__qualname__}.default_handler"
        return _call_handler(name, partial(cls.default_handler, eqn.primitive), eqn, operands)

    return by_default(eqn.primitive, operands, call, where)


def _call_handler(
    name: str, handler: Callable[..., Any], eqn: JaxprEqn, operands: Sequence[Any]
) -> Any:
    """Return the checked results of a handler, whose name is used in messages."""
    several = eqn.primitive.multiple_results
    avals = [x.aval for x in eqn.outvars]

    def call(*operands: Any) -> Any:
        try:
            y = handler(*operands, **eqn.params)
        except ImplicitArrayError:
            raise
        except TypeError as error:
            y = _retry_with_traced_fields(partial(handler, **eqn.params), operands, error)
        return y if several or y is NotImplemented else [y]

    try:
        with _enter_handler(name, eqn, operands) as is_new:
            results = automatic.call_handler(call, operands, avals) if is_new else NotImplemented
    except StructureLost:
        return NotImplemented
    except Exception as error:
        note = f"{name} handles {eqn.primitive}, at {where_of(eqn)}."
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
    return results if results is NotImplemented else check_results(eqn, results, name)


def _retry_with_traced_fields(
    handler: Callable[..., Any], operands: Sequence[Any], error: TypeError
) -> Any:
    """Call a handler again, with the implicit fields of its operands as arrays that JAX traces.

    A handler gets operands as objects, whose fields may be implicit too. A function of JAX does not
    take implicit fields; if the fields are traced, its primitives are dispatched to their handlers.

    Args:
        handler: A function of operands.
        operands: Arrays, some implicit.
        error: The error that the handler raised for the operands.

    Raises:
        TypeError: If no field is implicit, or the handler fails again: ``error``.
        ImplicitArrayError: If the handler raises one when it is called again, for example because
            the policy forbids to densify an array.
        StructureLost: If the handler cannot keep the structure of the traced fields.
    """
    fields, treedefs = zip(*map(_flatten_once, operands), strict=True)
    if not any(map(is_implicit, [x for leaves in fields for x in leaves])):
        raise error

    def run(*fields: Any) -> Any:
        return handler(*map(jax.tree.unflatten, treedefs, fields))

    try:
        return implicit(run)(*fields)
    except (ImplicitArrayError, StructureLost):
        raise
    except Exception:  # the handler needs the objects: the first error says what is wrong
        raise error from None


def _flatten_once(x: Any) -> tuple[list[Any], Any]:
    """Flatten an operand to its fields, which may be implicit."""
    if not isinstance(x, ImplicitArray):
        return [x], jax.tree.structure(0)
    leaves, treedef = jax.tree.flatten(x, is_leaf=lambda leaf: leaf is not x and is_implicit(leaf))
    return leaves, treedef


MAX_DEPTH = 50
"""The limit of a handler's recursion: structures are nested less deeply."""


@contextmanager
def _enter_handler(name: str, eqn: JaxprEqn, operands: Sequence[Any]) -> Iterator[bool]:
    """Yield whether a handler may run: it may not while it runs for the same operands.

    Raises:
        HandlerError: If the handler calls itself more than ``MAX_DEPTH`` times.
    """
    key = name, eqn.primitive
    implicit = [x for x in operands if isinstance(x, ImplicitArray)]
    calls = [xs for other, of, xs in _state.handlers if (other, of.primitive) == key]
    if len(calls) > MAX_DEPTH:
        raise HandlerError(
            f"{name} of {eqn.primitive} calls itself without end: {implicit[0]!r} is passed to it "
            f"for the {MAX_DEPTH}th time.",
            "Let it compute with fields, or return NotImplemented.",
            where_of(eqn),
        )
    is_new = not any(len(xs) == len(implicit) and all(map(is_, xs, implicit)) for xs in calls)
    _state.handlers.append((name, eqn, implicit))
    try:
        yield is_new
    finally:
        _state.handlers.pop()


def check_results(eqn: JaxprEqn, results: Any, name: str) -> list[Any]:
    """Return a handler's results, checked against the types of the equation's results.

    Raises:
        HandlerError: If the number, the shapes or the dtypes of the results are wrong.
    """
    if not isinstance(results, list | tuple) or len(results) != len(eqn.outvars):
        raise HandlerError(
            f"{name} gave {_describe(results)} for {eqn.primitive}, which has "
            f"{len(eqn.outvars)} results.",
            "Return them in a list.",
            where_of(eqn),
        )
    pairs = zip(eqn.outvars, results, strict=True)
    return [
        None if y is None and isinstance(v, UnreadResult) else _check_result(eqn, v.aval, y, name)
        for v, y in pairs
    ]


def _check_result(eqn: JaxprEqn, aval: Any, y: Any, name: str) -> Any:
    is_array = isinstance(y, jax.Array | np.ndarray | np.generic | ImplicitArray)
    if not is_array or (lengths_of(y), dtype_of(y)) != (aval.shape, aval.dtype):
        raise HandlerError(
            f"{name} gave {_describe(y)} for {eqn.primitive}, which gives "
            f"{aval.dtype}{list(aval.shape)}.",
            "Keep shape and dtype, or return NotImplemented to leave it to other handlers.",
            where_of(eqn),
        )
    return as_typed(y, aval)


def as_typed(y: Any, aval: Any) -> Any:
    """Return an array with a type's weak dtype, sharding, and mesh axes that it varies over."""
    if isinstance(y, ImplicitArray) or jax.typeof(y) == aval:
        return y
    y = _with_weak_type(vary(y, varying_axes(aval)), aval)
    mesh = explicit_mesh((y, aval))
    return y if mesh is None else reshard(y, mesh, spec_of(aval))


def _with_weak_type(y: Any, aval: Any) -> Any:
    if jax.typeof(y).weak_type == aval.weak_type:
        return y
    return primitives.convert_element_type_p.bind(
        y, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=None
    )


def _describe(y: Any) -> str:
    if not hasattr(y, "shape") or not hasattr(y, "dtype"):
        return f"{y!r}, of the class {type(y).__name__},"
    return f"{type(y).__name__} of {y.dtype}{list(y.shape)}"
