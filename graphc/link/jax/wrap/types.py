"""Result types of a JAX function for arguments with unknown lengths, found by tracing.

Unknown lengths are symbols (``unknown_lengths.py``). If JAX cannot trace the function so, they are
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax

from graphc.errors import ArgumentError, GraphcError, OperationError, SymbolicValueError
from graphc.ir import TensorType, dtype_name
from graphc.link.jax.backend import WIDE
from graphc.link.jax.jaxprs import operands_of_results
from graphc.link.jax.unknown_lengths import Arguments, specs, trace_first, trace_with_symbols

if TYPE_CHECKING:
    from graphc.link.jax.wrap.function import JaxFunction

NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""The errors that JAX raises where Python code asks for an array's value."""

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
    def trace(*arguments: Any) -> Any:
        with jax.enable_x64(function.wide):
            return jax.eval_shape(function.result_tree, *arguments)

    try:
        return _as_types(trace_with_symbols(trace, types)[0], types)
    except ArgumentError:
        raise
    except Exception:
        if all(x.is_static for x in types):
            raise
    return _as_types(_trace_with_numbers(trace, types), types, holds=False)


def _trace_with_numbers(trace: Callable[..., Any], types: tuple[TensorType, ...]) -> Any:
    """Return what ``trace`` returns with the first number for which it raises no error.

    All unknown lengths are that number. If all numbers fail, the first one's error is raised.
    """
    static = {n for x in types for n in x.shape if n is not None}
    unknown = sum(n is None for x in types for n in x.shape)
    numbers = dict.fromkeys(chain(sorted(static, reverse=True), NUMBERS))
    candidates = (Arguments(specs(types, [n] * unknown), {}, n) for n in numbers)
    return trace_first(trace, candidates, NEEDS_VALUES)[0]


@lru_cache(1024)
def used_arguments(function: JaxFunction, types: tuple[TensorType, ...]) -> tuple[bool, ...]:
    """Return which arguments the results depend on: all if a length is unknown."""
    if not all(type.is_static for type in types):
        return (True,) * len(types)
    with jax.enable_x64(function.wide):
        program = jax.make_jaxpr(function.result_tree)(*specs(types, ()))
    used = operands_of_results(program)
    return tuple(i in used for i in range(len(types)))


def _as_types(results: Any, types: Iterable[TensorType], holds: bool = True) -> ResultTypes:
    """Return the results' types; ``holds`` says whether lengths hold for other arguments too."""
    leaves, tree = jax.tree.flatten(results)
    dtypes = [dtype_name(y.dtype) for y in leaves]
    shapes = [tuple(n if isinstance(n, int) else None for n in y.shape) for y in leaves]
    unknown = [(None,) * len(shape) for shape in shapes]
    is_static = all(x.is_static for x in types)
    return ResultTypes(
        tree,
        tuple(map(TensorType, dtypes, shapes if is_static else unknown)),
        tuple(map(TensorType, dtypes, shapes if holds else unknown)),
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
