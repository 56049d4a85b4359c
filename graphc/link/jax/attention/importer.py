"""A mask function that JAX traced, as a graph of scalars.

What depends on no index stays JAX's: a program of the captured arrays, whose results are inputs of
the graph. The rest becomes nodes, by the rules of ``primitives.py``; a primitive that has no rule
becomes an opaque node, of which bounds know nothing.
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
from graphc.link.jax.attention.primitives import RULES, Value, selected
from graphc.link.jax.attention.scalars import (
    Scalars,
    combined,
    hull,
    number,
    opaque,
    scalars,
    single,
    whole,
)
from graphc.link.jax.implicit.interpreter import bound
from graphc.link.jax.jaxprs import CALLS, needed
from graphc.tensor import Tensor

INLINED = {**CALLS, **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), "call_jaxpr")}
"""Primitives whose value is that of a program, and the parameter that has it."""

BOUNDED = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
) | {"float32", "float64"}
"""The dtypes of which there are intervals: no random keys, complex or very narrow numbers."""


class Fixed(NamedTuple):
    """An array that depends on no index.

    Attributes:
        array: The array as JAX computes it.
        node: Of an integer that is as soon computed as compiled, the node that computes it.
    """

    array: Any
    node: Tensor | None = None


def imported(traced: ClosedJaxpr, captured: Sequence[Any]) -> tuple[Graph, ClosedJaxpr]:
    """The graph of a mask function, and the program of the arrays that it is given.

    Args:
        traced: ``(b, h, q, k, *captured)`` to a bool.
        captured: The types of the captured arrays.

    Returns:
        A graph of b, h, q, k and arrays, to a scalar whose bounds are those of the function; and
        a program of the captured arrays that gives these arrays.

    Example:
        >>> ids = jax.ShapeDtypeStruct((9,), "int32")
        >>> index = jax.ShapeDtypeStruct((), "int32")
        >>> traced = jax.make_jaxpr(lambda b, h, q, k, ids: ids[q] == 2 * k)(*[index] * 4, ids)
        >>> graph, arrays = imported(traced, [ids])
        >>> len(graph.inputs), len(arrays.jaxpr.eqns)
        (5, 0)
    """
    indices = [TensorType("int32", ())(name) for name in INDICES]
    importer = _Importer()
    result: list[Tensor] = []

    def arrays(*captured: Any) -> list[Any]:
        operands: list[Value | Fixed] = [single(x) for x in indices]
        operands += [Fixed(x) for x in captured]
        (y,) = importer.run(traced, operands)
        result.append(hull(scalars(importer.value(y))))
        return importer.taken(result[0])

    program = jax.make_jaxpr(arrays)(*captured)
    return Graph([*indices, *importer.nodes.values()], result), _without_unused(program)


def _without_unused(program: ClosedJaxpr) -> ClosedJaxpr:
    """A program without the equations that its results do not depend on."""
    bare = program.jaxpr
    return ClosedJaxpr(bare.replace(eqns=needed(bare)), program.consts)


class _Importer:
    """The walk over a program's equations.

    Attributes:
        arrays: Arrays that depend on no index, by identity, which the graph takes.
        nodes: The graph's inputs in their place.
    """

    def __init__(self) -> None:
        self.arrays: dict[int, Any] = {}
        self.nodes: dict[int, Tensor] = {}

    def run(self, program: ClosedJaxpr | Jaxpr, operands: Sequence[Value | Fixed]) -> list[Any]:
        """The results of a program."""
        bare, consts = (
            (program, ()) if isinstance(program, Jaxpr) else (program.jaxpr, program.consts)
        )
        known: dict[Any, Value | Fixed] = dict(zip(bare.constvars, map(Fixed, consts), strict=True))
        known.update(zip(bare.invars, operands, strict=True))

        def read(x: Any) -> Value | Fixed:
            return _literal(x) if isinstance(x, Literal) else known[x]

        for eqn in bare.eqns:
            found = self._results(eqn, [*map(read, eqn.invars)])
            known.update(zip(eqn.outvars, found, strict=True))
        return [*map(read, bare.outvars)]

    def _results(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> Sequence[Value | Fixed]:
        name = INLINED.get(eqn.primitive.name)
        if name is not None:
            return self.run(eqn.params[name], operands)
        fixed = [x for x in operands if isinstance(x, Fixed)]
        if len(fixed) == len(operands):
            return self._fixed(eqn, fixed)
        if not all(map(_is_bounded, _variables(eqn))):
            return self._opaque(eqn, operands)
        if eqn.primitive.name == "cond":
            return self._branches(eqn, operands)
        rule = RULES.get(eqn.primitive.name)
        found = None if rule is None else rule(eqn, *map(self.value, operands))
        return self._opaque(eqn, operands) if found is None else [found]

    def _fixed(self, eqn: JaxprEqn, operands: Sequence[Fixed]) -> list[Fixed]:
        arrays = bound(eqn, [x.array for x in operands])
        rule = RULES.get(eqn.primitive.name)
        if rule is None or not all(map(_is_step, _variables(eqn))):
            return [*map(Fixed, arrays)]
        found = rule(eqn, *map(self.value, operands))
        node = None if found is None else hull(scalars(found))
        return [Fixed(arrays[0], node)]

    def _opaque(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> list[Scalars]:
        """Results of which nothing is known but what they depend on."""
        known = [scalars(x) for x in operands if not isinstance(x, Fixed)]
        inputs = [part for x in known for part in x.parts]
        return [single(opaque(_dtype(x), inputs), _shape(x)) for x in eqn.outvars]

    def _branches(self, eqn: JaxprEqn, operands: Sequence[Value | Fixed]) -> list[Scalars]:
        """All branches, and of their results that of the number."""
        which, *given = operands
        branches = eqn.params["branches"]
        found = [[*map(self.value, self.run(branch, given))] for branch in branches]
        (case,) = scalars(self.value(which)).parts
        if case.dtype != "bool":
            case = gt.clip(case, *[number(n, case.dtype) for n in (0, len(branches) - 1)])
        return [
            combined(partial(selected, case), _shape(x), *map(scalars, values))
            for x, *values in zip(eqn.outvars, *found, strict=True)
        ]

    def value(self, x: Value | Fixed) -> Value:
        """A value as nodes."""
        if not isinstance(x, Fixed):
            return x
        if x.node is not None:
            return single(x.node)
        key = id(x.array)
        if key not in self.nodes:
            kind = jax.typeof(x.array)
            self.arrays[key] = x.array
            self.nodes[key] = TensorType(str(kind.dtype), kind.shape)()
        node = self.nodes[key]
        return whole(node) if node.ndim else single(node)

    def taken(self, result: Tensor) -> list[Any]:
        """The arrays that a graph of this result takes; the others are forgotten."""
        used = set(toposort([result]))
        self.nodes = {key: node for key, node in self.nodes.items() if node in used}
        return [self.arrays[key] for key in self.nodes]


def _literal(x: Literal) -> Fixed:
    """A number that is written into a program."""
    aval: Any = x.aval
    array = np.asarray(x.val, aval.dtype)
    return Fixed(array, number(array, array.dtype) if _is_bounded(x) else None)


def _shape(x: Any) -> tuple[int, ...]:
    """The lengths of a variable; none where it is no array."""
    return tuple(getattr(x.aval, "shape", ()))


def _dtype(x: Any) -> str:
    """The dtype of a variable; bool where it has none of those that there are intervals of."""
    return str(x.aval.dtype) if _is_bounded(x) else "bool"


def _variables(eqn: JaxprEqn) -> list[Any]:
    return [*eqn.invars, *eqn.outvars]


def _is_bounded(x: Any) -> bool:
    """Whether a variable is an array that has elements, of which there are intervals."""
    return str(getattr(x.aval, "dtype", None)) in BOUNDED and 0 not in _shape(x)


def _is_step(x: Any) -> bool:
    """Whether a variable is a single integer or bool, which is as soon computed as compiled."""
    return _is_bounded(x) and not _shape(x) and x.aval.dtype.kind != "f"
