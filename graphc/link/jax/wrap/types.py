"""Result types of a JAX function for arguments with unknown lengths, found by tracing.

Each unknown length is first a symbol for any number. If JAX cannot trace the function so, more is
assumed: that no length is 0, then that all unknown lengths are equal, and at last numbers.
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
    from graphc.link.jax.wrap.function import JaxFunction

NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""The errors that JAX raises where Python code asks for an array's value."""

CALLS = {"jit", "pjit"}
"""Primitives that call a program with their own operands."""

NUMBERS = (2, 1, 3, 4, 5, 6, 7, 8, 16)
"""Lengths tried in turn if symbols fail, after the static lengths of other arguments."""


@dataclass(frozen=True, slots=True)
class ResultTypes:
    """The types and structure of a function's results.

    Attributes:
        tree: The structure of the nested results.
        types: The types of the results, without lengths unless all arguments have static shapes.
        likely: The types with lengths that hold for most arguments, to be checked at run time: a
            function may take another branch for a symbol than for a number.
    """

    tree: Any
    types: tuple[TensorType, ...]
    likely: tuple[TensorType, ...]


def result_types(function: JaxFunction, types: Sequence[TensorType]) -> ResultTypes:
    """Return the types and structure of a function's results, given argument types.

    Raises:
        SymbolicValueError: If Python code in the function asks for the value of an array.
        OperationError: If JAX cannot trace the function.
    """
    try:
        return _trace(function, tuple(types))
    except ArgumentError as error:
        raise ArgumentError(error.problem, error.remedy) from error
    except Exception as error:
        raise _as_error(error, function, types) from error


@lru_cache(1024)
def _trace(function: JaxFunction, types: tuple[TensorType, ...]) -> ResultTypes:
    first: Exception | None = None
    for assumed in _assumptions(types):
        try:
            with jax.enable_x64(function.wide):
                results = jax.eval_shape(function.result_tree, *assumed.arguments)
        except ArgumentError:
            raise  # The results are wrong for all lengths.
        except Exception as error:
            if first is None or assumed.replaces_error:
                first = error
            if assumed.is_last or (assumed.replaces_error and isinstance(error, NEEDS_VALUES)):
                break
        else:
            return _as_types(results, types, assumed)
    assert first is not None
    raise first


@lru_cache(1024)
def used_arguments(function: JaxFunction, types: tuple[TensorType, ...]) -> tuple[bool, ...]:
    """Return which arguments the results depend on: all if a length is unknown."""
    if not all(type.is_static for type in types):
        return (True,) * len(types)
    with jax.enable_x64(function.wide):
        jaxpr = jax.make_jaxpr(function.result_tree)(*_arguments(types, ())).jaxpr
    return tuple(_live(jaxpr, (True,) * len(jaxpr.outvars)))


def _live(jaxpr: Any, wanted: Sequence[bool]) -> list[bool]:
    """Return which inputs the wanted outputs depend on."""
    live = {y for y, flag in zip(jaxpr.outvars, wanted, strict=True) if flag and not _is_literal(y)}
    for eqn in reversed(jaxpr.eqns):
        flags = [y in live for y in eqn.outvars]
        if any(flags):
            inner = eqn.params.get("jaxpr") if eqn.primitive.name in CALLS else None
            used = [True] * len(eqn.invars) if inner is None else _live(inner.jaxpr, flags)
            pairs = zip(eqn.invars, used, strict=True)
            live |= {x for x, flag in pairs if flag and not _is_literal(x)}
    return [x in live for x in jaxpr.invars]


def _is_literal(x: Any) -> bool:
    return isinstance(x, jax.extend.core.Literal)


@dataclass(frozen=True, slots=True)
class _Assumption:
    """An assumption about unknown lengths.

    Attributes:
        arguments: The shapes and dtypes of the arguments under the assumption.
        gives_lengths: Whether the results have lengths that hold beyond the assumption.
        replaces_error: Whether an error replaces the error of an earlier assumption.
        is_last: Whether no other assumption follows.
    """

    arguments: tuple[Any, ...]
    gives_lengths: bool
    replaces_error: bool = False
    is_last: bool = False


def _assumptions(types: tuple[TensorType, ...]) -> Iterator[_Assumption]:
    unknown = sum(n is None for type in types for n in type.shape)
    if not unknown:
        yield _Assumption(_arguments(types, ()), True, replaces_error=True, is_last=True)
        return
    names = [f"n{i}" for i in range(unknown)]
    positive = jax.export.symbolic_shape(", ".join(names))  # JAX's symbols are 1 or more
    nonnegative = jax.export.symbolic_shape(", ".join(f"{name} - 1" for name in names))
    yield _Assumption(_arguments(types, nonnegative), True)
    yield _Assumption(_arguments(types, positive), True)
    yield _Assumption(_arguments(types, [positive[0]] * unknown), True)
    static = {n for type in types for n in type.shape if n is not None}
    numbers = [*dict.fromkeys(chain(sorted(static, reverse=True), NUMBERS))]
    for n in numbers:
        yield _Assumption(
            _arguments(types, [n] * unknown),
            False,
            replaces_error=n == numbers[0],
            is_last=n == numbers[-1],
        )


def _arguments(types: Iterable[TensorType], lengths: Iterable[Any]) -> tuple[Any, ...]:
    """Return shapes and dtypes for JAX, with the given lengths in place of unknown ones."""
    unused = iter(lengths)
    return tuple(
        jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call]
            tuple(next(unused) if n is None else n for n in type.shape), type.numpy_dtype
        )
        for type in types
    )


def _as_types(results: Any, types: Iterable[TensorType], assumed: _Assumption) -> ResultTypes:
    leaves, tree = jax.tree.flatten(results)
    dtypes = [dtype_name(y.dtype) for y in leaves]
    shapes = [tuple(n if isinstance(n, int) else None for n in y.shape) for y in leaves]
    unknown = [(None,) * len(shape) for shape in shapes]
    is_static = all(x.is_static for x in types)
    return ResultTypes(
        tree,
        tuple(map(TensorType, dtypes, shapes if is_static else unknown)),
        tuple(map(TensorType, dtypes, shapes if assumed.gives_lengths else unknown)),
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
        f"{remedy} 64-bit dtypes are enabled while JAX traces the function, because an input "
        "or jax_enable_x64 needs them: jnp.zeros(3) is float64. Give such arrays a dtype, "
        "jnp.zeros(3, x.dtype), or cast the inputs to 32 bits."
    )


def _as_error(error: Exception, function: JaxFunction, types: Iterable[TensorType]) -> GraphcError:
    call = f"wrap_jax: {function.name}({', '.join(map(repr, types))})"
    text = message_of(error).rstrip(".")
    if isinstance(error, NEEDS_VALUES):
        return SymbolicValueError(
            f"{call} asks for the value of an array, which is not known while JAX traces it: "
            f"{text}.",
            "Write jnp.where, jax.lax.cond or jax.lax.while_loop for a Python if or while, and jnp "
            "for np; or pass a Python number or another static value instead of an array.",
        )
    return OperationError(
        f"{call} failed while JAX traced it: {type(error).__name__}: {text}.",
        "The error above this one has the line in the function. Where it needs lengths that are "
        "unknown here, give them: gt.specify_shape(x, shape)."
        if any(not x.is_static for x in types)
        else remedy_of(text, function.wide),
    )
