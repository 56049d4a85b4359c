"""The conversion: a walk over a JAX program in which each primitive's converter is called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

import graphc.tensor as gt
from graphc.errors import ArgumentError, OperationError, UnsupportedOperationError
from graphc.ir import Node, Wrapper
from graphc.link.jax.from_jaxpr.control import CONTROL
from graphc.link.jax.from_jaxpr.elementwise import ELEMENTWISE
from graphc.link.jax.from_jaxpr.equation import Converter, Equation, Refusal
from graphc.link.jax.from_jaxpr.index import INDEX
from graphc.link.jax.from_jaxpr.lengths import Lengths
from graphc.link.jax.from_jaxpr.linalg import LINALG
from graphc.link.jax.from_jaxpr.random import RANDOM, packed, unpacked
from graphc.link.jax.from_jaxpr.reduce import REDUCTIONS
from graphc.link.jax.from_jaxpr.shapes import SHAPES
from graphc.link.jax.implicit.interpreter import bound
from graphc.link.jax.jaxprs import live_equations
from graphc.link.jax.wrap import call
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
NOT_COMPUTED = frozenset(CONTROL) | {"dim_as_value"}
"""What is converted also where it depends on no argument: parts of it may be symbolic."""

SYMBOLIC = type(jax.export.symbolic_shape("n")[0])
"""JAX's class of lengths that are not known."""

FEW = 64
"""Up to so many elements, what depends on no argument is computed at once."""


def converted(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results of a JAX function, or of a traced program, as graphs of symbolic arrays."""
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)), is_leaf=_is_symbolic)
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    if not any(isinstance(leaves[i], Node | Wrapper) for i in places):
        raise ArgumentError(
            "from_jaxpr: no symbolic array is among the arguments.",
            "Give one for each array that the graph is to be a function of: gt.vector('x').",
        )
    given = [_symbolic(leaves[i]) for i in places]
    if isinstance(function, ClosedJaxpr):
        return _of_program(function, given)
    if not callable(function):
        raise ArgumentError(f"from_jaxpr: {function!r} is not a function.", "Give a JAX function.")

    def flat(*arrays: Any) -> Any:
        filled = list(leaves)
        for i, array in zip(places, arrays, strict=True):
            filled[i] = array
        args, kwargs = jax.tree.unflatten(tree, filled)
        return function(*args, **kwargs)

    program, result, lengths, inputs = _traced(flat, given, _name_of(function))
    outputs = Conversion(lengths, _needs_x64(given)).run(program, inputs)
    return jax.tree.unflatten(jax.tree.structure(result), outputs)


def _of_program(program: ClosedJaxpr, given: Sequence[Tensor]) -> list[Tensor]:
    wanted = len(program.jaxpr.invars)
    if wanted != len(given):
        raise ArgumentError(
            f"from_jaxpr: the program takes {wanted} arrays, not {len(given)}.",
            "Give one symbolic array for each.",
        )
    wide = _needs_x64(given) or needs_x64(kinds_of(program.jaxpr.outvars))
    return Conversion(Lengths({}), wide).run(program, given)


def _needs_x64(inputs: Sequence[Tensor]) -> bool:
    return needs_x64([x.dtype for x in inputs])


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, Node | Wrapper)


def _is_array(x: Any) -> bool:
    return isinstance(x, Node | Wrapper | np.ndarray | np.generic | jax.Array)


def _symbolic(x: Any) -> Tensor:
    if isinstance(x, jax.Array) and is_key(x.dtype):
        return packed(gt.constant(np.asarray(jax.random.key_data(x))))
    return gt.as_tensor(x.values if isinstance(x, Wrapper) else x)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


NONEMPTY = Assert("from_jaxpr: JAX could trace the function for axes with elements only.")

# Tracing: each unknown length is a symbol of its own, or all are one.


def _traced(
    function: Callable[..., Any], given: Sequence[Tensor], name: str
) -> tuple[ClosedJaxpr, Any, Lengths, list[Tensor]]:
    """A program, what its results are nested like, the lengths, and its inputs."""
    first: Exception | None = None
    wide = _needs_x64(given)
    for specs, lengths, inputs in _assumed(given):
        try:
            with jax.enable_x64(wide):
                program, result = jax.make_jaxpr(function, return_shape=True)(*specs)
        except Exception as error:
            first = first or error
        else:
            return program, result, lengths, inputs
    assert first is not None
    text = message_of(first)
    raise OperationError(
        f"from_jaxpr: JAX cannot trace {name}: {text}",
        "Give inputs static lengths, gt.tensor('x', shape=(8, 3)), where a length must be known."
        if any(None in x.type.shape for x in given)
        else remedy_of(text, wide),
    ) from first


def _assumed(given: Sequence[Tensor]) -> Iterator[tuple[list[Any], Lengths, list[Tensor]]]:
    """Types for JAX, what its symbols stand for, and inputs; what is assumed is checked."""
    unknown = [(i, axis) for i, x in enumerate(given) for axis in _unknown(x)]
    if not unknown:
        yield [_spec(x, x.type.shape) for x in given], Lengths({}), list(given)
        return
    names = [f"n{i}_{axis}" for i, axis in unknown]
    choices = [dict(zip(unknown, names, strict=True)), dict.fromkeys(unknown, names[0])]
    for symbols in choices[: len(unknown)]:
        for least in (0, 1):
            yield _with_symbols(given, symbols, least)


def _unknown(x: Tensor) -> list[int]:
    return [axis for axis, n in enumerate(x.type.shape) if n is None]


def _with_symbols(
    given: Sequence[Tensor], names: Mapping[tuple[int, int], str], least: int
) -> tuple[list[Any], Lengths, list[Tensor]]:
    distinct = list(dict.fromkeys(names.values()))
    bounds = [f"{name} >= {least}" for name in distinct] if least else []
    made = jax.export.symbolic_shape(",".join(distinct), constraints=bounds)
    symbols = dict(zip(distinct, made, strict=True))
    values: dict[str, Tensor] = {}
    for (i, axis), name in names.items():
        values.setdefault(name, given[i].shape[axis])
    specs, inputs = [], []
    for i, x in enumerate(given):
        axes = [(names.get((i, axis)), n) for axis, n in enumerate(x.type.shape)]
        specs.append(_spec(x, [n if name is None else symbols[name] for name, n in axes]))
        wanted = tuple(n if name is None else values[name] for name, n in axes)
        shared = len(distinct) < len(names) and _unknown(x)
        x = specify_shape(x, wanted) if shared else x
        inputs.append(NONEMPTY(x, x.size > 0) if least and _unknown(x) else x)
    return specs, Lengths(values), inputs


def _spec(x: Tensor, shape: Sequence[Any]) -> Any:
    return jax.ShapeDtypeStruct(tuple(shape), x.dtype)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Conversion:
    """One call of ``from_jaxpr``.

    Attributes:
        lengths: The lengths that JAX has as symbols.
        wide: Whether 64-bit dtypes are enabled while JAX traces parts of the program.
    """

    lengths: Lengths
    wide: bool

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Any]) -> list[Tensor]:
        """The results of a program for symbolic operands."""
        # Newer versions of JAX have one class for programs with and without constants.
        bare: Any = getattr(program, "jaxpr", program)
        consts = getattr(program, "consts", ())
        known: dict[Any, Any] = dict(zip(bare.constvars, consts, strict=True))
        known.update(zip(bare.invars, operands, strict=True))

        def read(x: Any) -> Any:
            return _number(x) if isinstance(x, Literal) else known[x]

        for eqn in live_equations(bare):
            found = self._results(eqn, [*map(read, eqn.invars)])
            known.update(zip(eqn.outvars, found, strict=True))
        return [_as_tensor(read(x)) for x in bare.outvars]

    def _results(self, eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        types = avals(eqn.outvars)
        if eqn.primitive.name in NOT_COMPUTED or not all(map(_is_known, (*operands, *types))):
            return self._results_of_graphs(eqn, [*map(_as_tensor, operands)])
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return [np.asarray(x) for x in bound(eqn, operands)]

    def _results_of_graphs(self, eqn: JaxprEqn, operands: Sequence[Tensor]) -> Sequence[Tensor]:
        converter = CONVERTERS.get(eqn.primitive.name)
        if converter is None:
            return _by_jax(eqn, operands, self.wide)
        try:
            found = converter(Equation(eqn, self), *operands)
        except Refusal:
            return _by_jax(eqn, operands, self.wide)
        return [found] if isinstance(found, Tensor) else list(found)


def _number(x: Literal) -> Any:
    """A number that is written into a program."""
    aval: Any = x.aval
    return np.asarray(x.val, aval.dtype)


def _by_jax(eqn: JaxprEqn, operands: Sequence[Tensor], wide: bool) -> list[Tensor]:
    """Return the results of an equation that stays JAX's."""
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
    kinds = kinds_of(eqn.invars)
    given = [unpacked(x) if _is_key(k) else x for k, x in zip(kinds, operands, strict=True)]

    def apply(*arrays: Any) -> list[Any]:
        xs = [_keys_of(k, x) if _is_key(k) else x for k, x in zip(kinds, arrays, strict=True)]
        found = bound(eqn, xs)
        return [jax.random.key_data(y) if _is_key(str(y.dtype)) else y for y in found]

    apply.__name__ = eqn.primitive.name
    results = call(apply, given, {}, wide)
    pairs = zip(kinds_of(eqn.outvars), results, strict=True)
    return [packed(y) if _is_key(k) else y for k, y in pairs]


def avals(variables: Sequence[Any]) -> list[Any]:
    """The types of variables."""
    return [x.aval for x in variables]


def kinds_of(variables: Sequence[Any]) -> list[str]:
    """The names of the dtypes of variables; empty for what has none."""
    return [str(getattr(aval, "dtype", "")) for aval in avals(variables)]


def _is_key(kind: str) -> bool:
    return kind.startswith("key<")


def _keys_of(kind: str, words: Any) -> Any:
    """Words as JAX's keys."""
    name = kind.removeprefix("key<").removesuffix(">[]").removesuffix(">")
    return jax.random.wrap_key_data(words, impl={"fry": "threefry2x32"}.get(name, name))


def _is_known(x: Any) -> bool:
    """Whether an array, or the type of one, has few elements that are numbers; not symbolic."""
    if isinstance(x, Tensor) or _is_key(str(getattr(x, "dtype", "key<"))):
        return False
    lengths = x.shape
    return all(isinstance(n, int) for n in lengths) and math.prod(lengths) <= FEW


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else _symbolic(x)
