"""The conversion of a JAX program: a walk that calls the converter of each primitive."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

import graphc.tensor as gt
from graphc.errors import ArgumentError, OperationError, UnsupportedOperationError
from graphc.ir import Node, Wrapper
from graphc.ir.dtypes import is_jax_key
from graphc.link.jax.from_jaxpr.control import CONTROL
from graphc.link.jax.from_jaxpr.elementwise import ELEMENTWISE
from graphc.link.jax.from_jaxpr.equation import (
    Converter,
    JaxprEquation,
    SymbolicLengths,
    UnsupportedEquationError,
)
from graphc.link.jax.from_jaxpr.index import INDEX
from graphc.link.jax.from_jaxpr.linalg import LINALG
from graphc.link.jax.from_jaxpr.random import RANDOM, pack_keys, unpack_keys
from graphc.link.jax.from_jaxpr.reduce import REDUCTIONS
from graphc.link.jax.from_jaxpr.shapes import SHAPES
from graphc.link.jax.jaxprs import bind_equation, replace_at, walk
from graphc.link.jax.unknown_lengths import Arguments, trace_with_symbols
from graphc.link.jax.wrap.captured import call
from graphc.link.jax.wrap.function import is_key
from graphc.link.jax.wrap.types import message_of, needs_x64, remedy_of
from graphc.tensor import Tensor
from graphc.tensor.core.assertion import Assert
from graphc.tensor.core.specify import specify_shape

CONVERTERS: dict[str, Converter] = {
    **ELEMENTWISE,
    **SHAPES,
    **INDEX,
    **REDUCTIONS,
    **LINALG,
    **RANDOM,
    **CONTROL,
}
NEVER_FOLDED = frozenset(CONTROL) | {"dim_as_value"}
"""Primitives that are converted even if no operand is symbolic: their programs may hold symbols."""

SYMBOLIC = type(jax.export.symbolic_shape("n")[0])
"""JAX's class of symbolic dimensions."""

MAX_FOLDED_SIZE = 64
"""Constants of more elements are computed when the graph runs."""


def convert(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the results of a JAX function, or of a traced program, as graphs."""
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)), is_leaf=_is_symbolic)
    positions = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    if not any(_is_symbolic(leaves[i]) for i in positions):
        raise ArgumentError(
            "from_jaxpr: no symbolic array is among the arguments.",
            "Give one for each array that the graph is to be a function of: gt.vector('x').",
        )
    tensors = [_to_tensor(leaves[i]) for i in positions]
    if isinstance(function, ClosedJaxpr):
        return _convert_program(function, tensors)
    if not callable(function):
        raise ArgumentError(f"from_jaxpr: {function!r} is not a function.", "Give a JAX function.")

    def flat(*arrays: Any) -> Any:
        args, kwargs = jax.tree.unflatten(tree, replace_at(leaves, positions, arrays))
        return function(*args, **kwargs)

    program, result, lengths, inputs = _trace(flat, tensors, _name_of(function))
    outputs = JaxprConversion(lengths, _needs_x64(tensors)).run(program, inputs)
    return jax.tree.unflatten(jax.tree.structure(result), outputs)


def _convert_program(program: ClosedJaxpr, inputs: Sequence[Tensor]) -> list[Tensor]:
    count = len(program.jaxpr.invars)
    if count != len(inputs):
        raise ArgumentError(
            f"from_jaxpr: the program takes {count} arrays, not {len(inputs)}.",
            "Give one symbolic array for each.",
        )
    wide = _needs_x64(inputs) or needs_x64(_dtypes(program.jaxpr.outvars))
    return JaxprConversion(SymbolicLengths({}), wide).run(program, inputs)


def _needs_x64(inputs: Sequence[Tensor]) -> bool:
    return needs_x64([x.dtype for x in inputs])


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, Node | Wrapper)


def _is_array(x: Any) -> bool:
    return _is_symbolic(x) or isinstance(x, np.ndarray | np.generic | jax.Array)


def _to_tensor(x: Any) -> Tensor:
    if isinstance(x, jax.Array) and is_key(x.dtype):
        return pack_keys(gt.constant(np.asarray(jax.random.key_data(x))))
    return gt.as_tensor(x.values if isinstance(x, Wrapper) else x)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


NONEMPTY = Assert("from_jaxpr: JAX could trace the function for axes with elements only.")


def _trace(
    function: Callable[..., Any], tensors: Sequence[Tensor], name: str
) -> tuple[ClosedJaxpr, Any, SymbolicLengths, list[Tensor]]:
    """Return what ``trace`` does; its error names the function."""
    wide = _needs_x64(tensors)
    try:
        return trace(function, tensors, wide)
    except Exception as error:
        text, is_static = message_of(error), all(x.type.is_static for x in tensors)
        remedy = "Give inputs static lengths, gt.tensor('x', shape=(8, 3)), where JAX needs one."
        raise OperationError(
            f"from_jaxpr: JAX cannot trace {name}: {text}",
            remedy_of(text, wide) if is_static else remedy,
        ) from error


def trace(
    function: Callable[..., Any],
    tensors: Sequence[Tensor],
    wide: bool,
    weak: Collection[int] = (),
) -> tuple[ClosedJaxpr, Any, SymbolicLengths, list[Tensor]]:
    """Return the program, the structure of its results, the lengths, and the program's inputs.

    Args:
        function: The function.
        tensors: Its arguments.
        wide: Whether JAX has 64-bit dtypes while it traces.
        weak: The indices of arguments that JAX promotes like Python numbers.
    """

    def run(*specs: Any) -> Any:
        for i in weak:
            specs = (*specs[:i], specs[i].update(weak_type=True), *specs[i + 1 :])
        with jax.enable_x64(wide):
            return jax.make_jaxpr(function, return_shape=True)(*specs)

    (program, result), arguments = trace_with_symbols(run, [x.type for x in tensors])
    values = {}
    for symbol, ((i, axis), *_) in arguments.symbols.items():
        length = tensors[i].shape[axis]
        values[symbol] = length if arguments.least else length + 1
    return program, result, SymbolicLengths(values), _checked(tensors, arguments)


def _checked(tensors: Sequence[Tensor], arguments: Arguments) -> list[Tensor]:
    """Return the inputs, which check at run time what was assumed of their lengths."""
    lengths: list[list[Any]] = [list(x.type.shape) for x in tensors]
    for (first, own), *others in arguments.symbols.values():
        for i, axis in [(first, own), *others]:
            lengths[i][axis] = tensors[first].shape[own]
    inputs = []
    for x, shape in zip(tensors, lengths, strict=True):
        if not x.type.is_static:
            x = specify_shape(x, tuple(shape)) if arguments.are_equal else x
            x = NONEMPTY(x, x.size > 0) if arguments.least else x
        inputs.append(x)
    return inputs


@dataclass(frozen=True)
class JaxprConversion:
    """One call of ``from_jaxpr``.

    Attributes:
        lengths: The scalars of JAX's symbolic dimensions.
        wide: Whether 64-bit dtypes are enabled while JAX traces parts of the program.
        opaque: The names of primitives that are left to JAX, though they have converters.
    """

    lengths: SymbolicLengths
    wide: bool
    opaque: frozenset[str] = frozenset()

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list[Tensor]:
        """Return the results of a program applied to symbolic operands."""
        return [*map(_as_tensor, walk(program, operands, self._results, constant=_constant))]

    def _results(self, eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        types = [x.aval for x in eqn.outvars]
        if eqn.primitive.name in NEVER_FOLDED or not all(map(_is_small, (*operands, *types))):
            return self._symbolic_results(eqn, [*map(_as_tensor, operands)])
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return [np.asarray(x) for x in bind_equation(eqn, operands)]

    def _symbolic_results(self, eqn: JaxprEqn, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        converter = CONVERTERS.get(eqn.primitive.name)
        if converter is None or eqn.primitive.name in self.opaque:
            return _call_jax(eqn, operands, self.wide)
        try:
            result = converter(JaxprEquation(eqn, self), *operands)
        except UnsupportedEquationError:
            return _call_jax(eqn, operands, self.wide)
        return [result] if isinstance(result, Tensor) else list(result)


def _constant(variable: Any, value: Any) -> Any:
    if not isinstance(variable, Literal):
        return value
    aval: Any = variable.aval
    return np.asarray(value, aval.dtype)


def _call_jax(eqn: JaxprEqn, operands: Sequence[Tensor], wide: bool) -> list[Tensor]:
    """Return the results of an equation that JAX computes in a node of the graph."""
    if eqn.effects:
        raise UnsupportedOperationError(
            f"from_jaxpr: {eqn.primitive.name} does something beside computing its results, as "
            "printing, and a graph would lose it.",
            "Leave it out, and use graphc.Print or graphc.wrap_py; or wrap_jax keeps the function.",
        )
    if any(isinstance(n, SYMBOLIC) for n in jax.tree.leaves(dict(eqn.params))):
        raise UnsupportedOperationError(
            f"from_jaxpr: {eqn.primitive.name} is left to JAX, and its parameters depend on "
            "lengths that are unknown.",
            "Give the inputs static lengths: gt.tensor('x', shape=(8, 3)).",
        )
    dtypes = _dtypes(eqn.invars)
    inputs = [unpack_keys(x) if is_jax_key(d) else x for d, x in zip(dtypes, operands, strict=True)]

    def apply(*arrays: Any) -> list[Any]:
        xs = [_wrap_keys(d, x) if is_jax_key(d) else x for d, x in zip(dtypes, arrays, strict=True)]
        ys = bind_equation(eqn, xs)
        return [jax.random.key_data(y) if is_jax_key(str(y.dtype)) else y for y in ys]

    apply.__name__ = eqn.primitive.name
    results = call(apply, inputs, {}, wide)
    pairs = zip(_dtypes(eqn.outvars), results, strict=True)
    return [pack_keys(y) if is_jax_key(d) else y for d, y in pairs]


def _dtypes(variables: Sequence[Any]) -> list[str]:
    """Return the names of the dtypes of variables; empty where a variable has no dtype."""
    return [str(getattr(x.aval, "dtype", "")) for x in variables]


def _wrap_keys(dtype: str, words: Any) -> Any:
    name = dtype.removeprefix("key<").removesuffix(">[]").removesuffix(">")
    return jax.random.wrap_key_data(words, impl={"fry": "threefry2x32"}.get(name, name))


def _is_small(x: Any) -> bool:
    """Return whether x is a small constant, or the type of a small array of static shape."""
    if isinstance(x, Tensor) or is_jax_key(str(getattr(x, "dtype", "key<"))):
        return False
    shape = x.shape
    return all(isinstance(n, int) for n in shape) and math.prod(shape) <= MAX_FOLDED_SIZE


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else _to_tensor(x)
