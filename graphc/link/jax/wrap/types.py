"""Result types of a JAX function for arguments with unknown lengths, found by tracing.

Each unknown length is a symbol first, which may be any number. Where the function cannot be traced
so, more is assumed: that no length is 0, that all unknown ones are equal; at last they are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax
import jax.extend

from graphc.errors import ArgumentError, GraphcError, OperationError, SymbolicValueError
from graphc.ir import TensorType, dtype_name
from graphc.link.jax.backend import WIDE

if TYPE_CHECKING:
    from graphc.link.jax.wrap.function import Function

NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""The errors that JAX raises where Python code asks for an array's value."""

CALLS = {"jit", "pjit"}
"""Equations that are another function's, of the same arguments."""

NUMBERS = (2, 1, 3, 4, 5, 6, 7, 8, 16)
"""Lengths that are tried in turn where symbols don't do, after those of other arguments."""


@dataclass(frozen=True, slots=True)
class ResultTypes:
    """The types and nesting of a function's results.

    Attributes:
        tree: How its results are nested.
        types: Of its results; without lengths, unless those of all arguments are known.
        likely: The same with lengths that hold for most arguments: to be checked when it runs.
            A function may have taken another branch for a symbol than for a number.
    """

    tree: Any
    types: tuple[TensorType, ...]
    likely: tuple[TensorType, ...]


def result_types(function: Function, types: Sequence[TensorType]) -> ResultTypes:
    """Return the types and nesting of a function's results, given argument types.

    Raises:
        SymbolicValueError: Python code in it asks for the value of an array.
        OperationError: JAX cannot trace it.
    """
    try:
        return _traced(function, tuple(types))
    except ArgumentError as error:
        raise ArgumentError(error.problem, error.remedy) from error
    except Exception as error:
        raise _error_of(error, function, types) from error


@lru_cache(1024)
def _traced(function: Function, types: tuple[TensorType, ...]) -> ResultTypes:
    first: Exception | None = None
    for assumed in _assumptions(types):
        try:
            with jax.enable_x64(function.wide):
                found = jax.eval_shape(function.whole, *assumed.arguments)
        except ArgumentError:
            raise  # What it gives is wrong, whatever the lengths are.
        except Exception as error:
            first = first if first is not None and not assumed.retells else error
            if assumed.is_last or (assumed.retells and isinstance(error, NEEDS_VALUES)):
                break
        else:
            return _as_types(found, types, assumed)
    assert first is not None
    raise first


@lru_cache(1024)
def used(function: Function, types: tuple[TensorType, ...]) -> tuple[bool, ...]:
    """Return which arguments the results depend on; all of them where that is unknown."""
    if not all(type.is_static for type in types):
        return (True,) * len(types)
    with jax.enable_x64(function.wide):
        jaxpr = jax.make_jaxpr(function.whole)(*_stand_ins(types, ())).jaxpr
    return tuple(_live(jaxpr, (True,) * len(jaxpr.outvars)))


def _live(jaxpr: Any, wanted: Sequence[bool]) -> list[bool]:
    """Return which inputs the wanted outputs depend on."""
    live = {y for y, flag in zip(jaxpr.outvars, wanted, strict=True) if flag and not _is_value(y)}
    for eqn in reversed(jaxpr.eqns):
        flags = [y in live for y in eqn.outvars]
        if any(flags):
            inner = eqn.params.get("jaxpr") if eqn.primitive.name in CALLS else None
            used = [True] * len(eqn.invars) if inner is None else _live(inner.jaxpr, flags)
            pairs = zip(eqn.invars, used, strict=True)
            live |= {x for x, flag in pairs if flag and not _is_value(x)}
    return [x in live for x in jaxpr.invars]


def _is_value(x: Any) -> bool:
    return isinstance(x, jax.extend.core.Literal)


@dataclass(frozen=True, slots=True)
class _Assumed:
    """Assumptions about unknown lengths, and the stand-ins that they give for arguments.

    Attributes:
        arguments: Shapes and dtypes.
        tells: Whether lengths of results follow from them.
        retells: Whether an error replaces that of an earlier attempt.
        is_last: Whether there is no other attempt.
    """

    arguments: tuple[Any, ...]
    tells: bool
    retells: bool = False
    is_last: bool = False


def _assumptions(types: tuple[TensorType, ...]) -> Iterator[_Assumed]:
    unknown = sum(n is None for type in types for n in type.shape)
    if not unknown:
        yield _Assumed(_stand_ins(types, ()), True, retells=True, is_last=True)
        return
    names = [f"n{i}" for i in range(unknown)]
    own = jax.export.symbolic_shape(", ".join(names))
    # A symbol is 1 or more.
    from_zero = jax.export.symbolic_shape(", ".join(f"{name} - 1" for name in names))
    yield _Assumed(_stand_ins(types, from_zero), True)
    yield _Assumed(_stand_ins(types, own), True)
    yield _Assumed(_stand_ins(types, [own[0]] * unknown), True)
    known = [n for type in types for n in type.shape if n is not None]
    numbers = [*dict.fromkeys(chain(sorted(set(known), reverse=True), NUMBERS))]
    for n in numbers:
        given = _stand_ins(types, [n] * unknown)
        yield _Assumed(given, False, retells=n == numbers[0], is_last=n == numbers[-1])


def _stand_ins(types: Iterable[TensorType], lengths: Iterable[Any]) -> tuple[Any, ...]:
    """Return shapes and dtypes with stand-ins for unknown lengths."""
    left = iter(lengths)
    return tuple(
        jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call]
            tuple(next(left) if n is None else n for n in type.shape), type.numpy_dtype
        )
        for type in types
    )


def _as_types(found: Any, types: Iterable[TensorType], assumed: _Assumed) -> ResultTypes:
    results, tree = jax.tree.flatten(found)
    dtypes = [dtype_name(y.dtype) for y in results]
    shapes = [tuple(n if isinstance(n, int) else None for n in y.shape) for y in results]
    bare = [(None,) * len(shape) for shape in shapes]
    exact = all(x.is_static for x in types)
    return ResultTypes(
        tree,
        tuple(map(TensorType, dtypes, shapes if exact else bare)),
        tuple(map(TensorType, dtypes, shapes if assumed.tells else bare)),
    )


def needs_x64(dtypes: Iterable[str]) -> bool:
    """Return whether JAX traces functions of inputs of these dtypes with 64-bit dtypes enabled."""
    settings: Any = jax.config
    return settings.jax_enable_x64 or not WIDE.isdisjoint(dtypes)


def message_of(error: Exception) -> str:
    """Return JAX's message, without blank lines and references to its documentation."""
    lines = [line.rstrip() for line in str(error).splitlines()]
    return "\n  ".join([line for line in lines if line and not line.startswith("See http")])


def remedy_of(text: str, wide: bool) -> str:
    """Return the remedy for an error of JAX's with this message."""
    remedy = "The error above this one has the line in the function."
    if not wide or not any(dtype in text for dtype in WIDE):
        return remedy
    return (
        f"{remedy} 64-bit dtypes are enabled while JAX traces it, as an input has one or "
        "jax_enable_x64 says so: jnp.zeros(3) is float64. Give such arrays a dtype, "
        "jnp.zeros(3, x.dtype), or cast the inputs to 32 bits."
    )


def _error_of(error: Exception, function: Function, types: Iterable[TensorType]) -> GraphcError:
    call = f"wrap_jax: {function.name}({', '.join(map(repr, types))})"
    text = message_of(error).rstrip(".")
    if isinstance(error, NEEDS_VALUES):
        return SymbolicValueError(
            f"{call} asks for the value of an array, which is not known while JAX traces it: "
            f"{text}.",
            "Write jnp.where, jax.lax.cond or jax.lax.while_loop for a Python if or while, and jnp "
            "for np; what is no array, as a Python number, may be given as it is.",
        )
    return OperationError(
        f"{call} failed while JAX traced it: {type(error).__name__}: {text}.",
        "The error above this one has the line in the function. Where it needs lengths that are "
        "unknown here, give them: gt.specify_shape(x, shape)."
        if any(not x.is_static for x in types)
        else remedy_of(text, function.wide),
    )
