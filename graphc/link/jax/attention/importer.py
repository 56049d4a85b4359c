"""A mask function that JAX traced, as a graph of scalars.

Equations that depend on no index stay a JAX program of the captured arrays, whose results are
inputs of the graph. All others become nodes, by the rules of ``primitives.py``; a primitive without
a rule becomes an opaque node, whose bounds are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

import graphc.tensor as gt
from graphc.attention.mods import INDICES
from graphc.ir import Graph, TensorType, toposort
from graphc.link.jax.attention.primitives import RULES, Value, select
from graphc.link.jax.attention.scalars import (
    Scalars,
    full_window,
    hull,
    map_elements,
    number,
    opaque,
    scalars,
    uniform,
)
from graphc.link.jax.implicit.interpreter import bind_equation
from graphc.link.jax.jaxprs import CALLS, live_equations
from graphc.tensor import Tensor

INLINED = {**CALLS, **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), "call_jaxpr")}
"""Primitives that call a jaxpr, and the parameter that holds the jaxpr."""

BOUNDED = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
) | {"float32", "float64"}
"""The dtypes that have intervals: no random keys, complex or very narrow numbers."""


class Fixed(NamedTuple):
    """An array that depends on no index.

    Attributes:
        array: The array as JAX computes it.
        node: The node that computes a scalar which needs no compiled program, or None.
    """

    array: Any
    node: Tensor | None = None


def import_program(traced: ClosedJaxpr, captured: Sequence[Any]) -> tuple[Graph, ClosedJaxpr]:
    """Return the graph of a mask function, and the program of the graph's arrays.

    Args:
        traced: ``(b, h, q, k, *captured)`` to a bool.
        captured: The types of the captured arrays.

    Returns:
        A graph of b, h, q, k and arrays to a scalar, whose bounds are bounds of the function; and
        a program of the captured arrays that returns the graph's arrays.

    Example:
        >>> ids = jax.ShapeDtypeStruct((9,), "int32")
        >>> index = jax.ShapeDtypeStruct((), "int32")
        >>> traced = jax.make_jaxpr(lambda b, h, q, k, ids: ids[q] == 2 * k)(*[index] * 4, ids)
        >>> graph, arrays = import_program(traced, [ids])
        >>> len(graph.inputs), len(arrays.jaxpr.eqns)
        (5, 0)
    """
    indices = [TensorType("int32", ())(name) for name in INDICES]
    importer = _Importer()
    result: list[Tensor] = []

    def arrays(*captured: Any) -> list[Any]:
        operands: list[Value | Fixed] = [uniform(x) for x in indices]
        operands += [Fixed(x) for x in captured]
        (y,) = importer.run(traced, operands)
        result.append(hull(scalars(importer.value(y))))
        return importer.arrays_of(result[0])

    program = jax.make_jaxpr(arrays)(*captured)
    return Graph([*indices, *importer.nodes.values()], result), _drop_unused_equations(program)


def _drop_unused_equations(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program without the equations that its results do not depend on."""
    bare = program.jaxpr
    return ClosedJaxpr(bare.replace(eqns=live_equations(bare)), program.consts)


class _Importer:
    """The walk over a program's equations.

    Attributes:
        arrays: Arrays that depend on no index and are inputs of the graph, by identity.
        nodes: The graph's inputs that stand for these arrays, by identity of the array.
    """

    def __init__(self) -> None:
        self.arrays: dict[int, Any] = {}
        self.nodes: dict[int, Tensor] = {}

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Value | Fixed]) -> list[Any]:
        """Return the results of a program."""
        bare, consts = (
            (program, ()) if isinstance(program, Jaxpr) else (program.jaxpr, program.consts)
        )
        values: dict[Any, Value | Fixed] = dict(
            zip(bare.constvars, map(Fixed, consts), strict=True)
        )
        values.update(zip(bare.invars, operands, strict=True))

        def read(x: Any) -> Value | Fixed:
            return _literal(x) if isinstance(x, Literal) else values[x]

        for eqn in bare.eqns:
            results = self._results(eqn, [*map(read, eqn.invars)])
            values.update(zip(eqn.outvars, results, strict=True))
        return [*map(read, bare.outvars)]

    def _results(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> Sequence[Value | Fixed]:
        name = INLINED.get(eqn.primitive.name)
        if name is not None:
            return self.run(eqn.params[name], operands)
        fixed = [x for x in operands if isinstance(x, Fixed)]
        if len(fixed) == len(operands):
            return self._evaluate(eqn, fixed)
        if not all(map(_is_bounded, _variables(eqn))):
            return self._opaque(eqn, operands)
        if eqn.primitive.name == "cond":
            return self._branches(eqn, operands)
        rule = RULES.get(eqn.primitive.name)
        result = None if rule is None else rule(eqn, *map(self.value, operands))
        return self._opaque(eqn, operands) if result is None else [result]

    def _evaluate(self, eqn: JaxprEqn, operands: Sequence[Fixed]) -> list[Fixed]:
        arrays = bind_equation(eqn, [x.array for x in operands])
        rule = RULES.get(eqn.primitive.name)
        if rule is None or not all(map(_is_cheap, _variables(eqn))):
            return [*map(Fixed, arrays)]
        result = rule(eqn, *map(self.value, operands))
        node = None if result is None else hull(scalars(result))
        return [Fixed(arrays[0], node)]

    def _opaque(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> list[Scalars]:
        """Return results that are unknown except for the inputs that they depend on."""
        inputs = [y for x in operands if not isinstance(x, Fixed) for y in scalars(x).elements]
        return [uniform(opaque(_dtype(x), inputs), _shape(x)) for x in eqn.outvars]

    def _branches(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> list[Scalars]:
        """Return the results of all branches, and select the branch of the index."""
        which, *arguments = operands
        branches = eqn.params["branches"]
        results = [[*map(self.value, self.run(branch, arguments))] for branch in branches]
        (case,) = scalars(self.value(which)).elements
        if case.dtype != "bool":
            case = gt.clip(case, *[number(n, case.dtype) for n in (0, len(branches) - 1)])
        return [
            map_elements(partial(select, case), _shape(x), *map(scalars, values))
            for x, *values in zip(eqn.outvars, *results, strict=True)
        ]

    def value(self, x: Value | Fixed) -> Value:
        """Return a value as nodes."""
        if not isinstance(x, Fixed):
            return x
        if x.node is not None:
            return uniform(x.node)
        key = id(x.array)
        if key not in self.nodes:
            kind = jax.typeof(x.array)
            self.arrays[key] = x.array
            self.nodes[key] = TensorType(str(kind.dtype), kind.shape)()
        node = self.nodes[key]
        return full_window(node) if node.ndim else uniform(node)

    def arrays_of(self, result: Tensor) -> list[Any]:
        """Return the arrays that the graph of a result takes, and drop all others."""
        used = set(toposort([result]))
        self.nodes = {key: node for key, node in self.nodes.items() if node in used}
        return [self.arrays[key] for key in self.nodes]


def _literal(x: Literal) -> Fixed:
    """Return a number that is written into a program."""
    aval: Any = x.aval
    array = np.asarray(x.val, aval.dtype)
    return Fixed(array, number(array, array.dtype) if _is_bounded(x) else None)


def _shape(x: Any) -> tuple[int, ...]:
    """Return the lengths of a variable; empty if it is no array."""
    return tuple(getattr(x.aval, "shape", ()))


def _dtype(x: Any) -> str:
    """Return the dtype of a variable; bool if its dtype has no intervals."""
    return str(x.aval.dtype) if _is_bounded(x) else "bool"


def _variables(eqn: JaxprEqn) -> list[Any]:
    return [*eqn.invars, *eqn.outvars]


def _is_bounded(x: Any) -> bool:
    """Return whether a variable is an array with elements whose dtype has intervals."""
    return str(getattr(x.aval, "dtype", None)) in BOUNDED and 0 not in _shape(x)


def _is_cheap(x: Any) -> bool:
    """Return whether a variable is a single integer or bool, which needs no compiled program."""
    return _is_bounded(x) and not _shape(x) and x.aval.dtype.kind != "f"
