"""The operation of a solution that SciPy finds, differentiated by the implicit function theorem.

At a solution x(a) of f(x, a) = 0, the chain rule gives dx/da = -(df/dx)^-1 df/da. The gradient
takes one linear solve, and is an ordinary graph that has a gradient in turn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.grad.jacobian import jacobian
from graphc.grad.reverse import cotangents
from graphc.ir import Graph, Node, Op, TensorType, TupleType, is_inexact, picks, replace_nodes
from graphc.loop.evaluate import evaluate
from graphc.loop.functional import over_each
from graphc.loop.step import stand_in
from graphc.optimize.options import SolverOptions
from graphc.optimize.solvers import SOLVERS
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.shape import lengths, reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.solve import solve


@dataclass(frozen=True, slots=True)
class Problem(Op):
    """A minimum or root found by SciPy, and whether SciPy reports success.

    Inputs are the start, the other arrays that the graph depends on, and then the ends of a
    bracket, if there is one.

    Attributes:
        graph: A graph of formal parameters, the variable first. Its outputs are the value and the
            derivatives with respect to the variable that the method uses.
        solver: The function of SciPy, a key of ``SOLVERS``.
        method: SciPy's name of the method.
        options: Further keywords of SciPy's function.
    """

    graph: Graph
    solver: str
    method: str
    options: SolverOptions

    by_numpy = True
    stays_in_step = True

    def __repr__(self) -> str:
        return f"{self.name}(method={self.method!r})"

    @property
    def name(self) -> str:
        return self.solver

    def unwritten(self) -> Hashable:
        return self.options.objects or None

    def graphs(self) -> tuple[Graph, ...]:
        return (self.graph,)

    def with_graphs(self, graphs: Sequence[Graph]) -> Problem:
        return replace(self, graph=graphs[0])

    def passes(self) -> Sequence[Sequence[int | None]]:
        return [[None, *range(1, len(self.graph.inputs))]]

    def infer(self, start: TensorType, *types: TensorType) -> TupleType:
        for index, (x, type) in enumerate(zip(self.graph.inputs, (start, *types), strict=False)):
            if not x.type.admits(type):
                raise ShapeError(
                    f"{self.name}: expected {x.type!r} as input {index}, got {type!r}.",
                    "Give an array of that type, as with specify_shape or astype.",
                )
        return TupleType((start, TensorType("bool")))

    def perform(self, start: Any, *values: Any) -> tuple[Any, Any]:
        n = len(self.graph.inputs) - 1
        arguments, ends = values[:n], values[n] if values[n:] else None
        start = np.asarray(start)
        if not start.size:
            return start, np.True_

        def outputs(*indices: int) -> Any:
            return self._function(indices, start, arguments)

        order = len(self.graph.outputs) - 1
        keywords = {"method": self.method, **self.options.keywords}
        with np.errstate(all="ignore"):
            solution, success = SOLVERS[self.solver].search(outputs, order, start, ends, **keywords)
        return np.asarray(solution).reshape(start.shape).astype(start.dtype), np.bool_(success)

    def _function(self, indices: tuple[int, ...], like: Any, arguments: Sequence[Any]) -> Any:
        """Return one output, or a tuple of several, as a function of a flat float64 array."""
        graph, rank = _part(self.graph, indices), SOLVERS[self.solver].rank
        shapes = [() if rank is None else (like.size,) * (i + rank) for i in indices]

        def call(x: Any, *_: Any) -> Any:
            # SciPy computes in float64, and writes into the array that it passed.
            results = evaluate(graph, np.array(x, like.dtype).reshape(like.shape), *arguments)
            wide = [
                np.asarray(y, np.float64).reshape(n) for y, n in zip(results, shapes, strict=True)
            ]
            return wide[0] if len(wide) == 1 else tuple(wide)

        return call

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """Return the gradient by the implicit function theorem; zero for the start."""
        n = len(self.graph.inputs)
        start, arguments, ends = inputs[0], inputs[1:n], inputs[n:]
        rest = [zeros_like(x) for x in ends]
        if g[0] is None:
            return [zeros_like(start), *([None] * len(arguments)), *rest]
        fresh = [stand_in(x) for x in (start, *arguments)]
        swaps: dict[Node, Node] = dict(zip(self.graph.inputs, fresh, strict=True))
        value: Any = replace_nodes(self.graph.outputs[:1], swaps)[0]
        zero = SOLVERS[self.solver].residual(value, fresh[0])
        matrix = _jacobian_matrix(zero, fresh[0])
        weights = stand_in(zero)
        wanted = [x for x in fresh[1:] if is_inexact(x.dtype)]
        gradients = cotangents({zero: weights}, wanted)
        actual: dict[Node, Node] = dict(zip(fresh, (picks(y)[0], *arguments), strict=True))
        (at_solution,) = replace_nodes([matrix], actual)
        actual[weights] = -_solve_transpose(at_solution, g[0])  # type: ignore[arg-type]
        by_fresh = {
            x: replace_nodes([part], actual)[0]
            for x, part in zip(wanted, gradients, strict=True)
            if part is not None
        }
        return [zeros_like(start), *(by_fresh.get(x) for x in fresh[1:]), *rest]

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        return over_each(self, size, batched, inputs)


@lru_cache(1024)
def _part(graph: Graph, indices: tuple[int, ...]) -> Graph:
    return Graph(graph.inputs, [graph.outputs[i] for i in indices])


def _jacobian_matrix(y: Tensor, x: Tensor) -> Tensor:
    matrix = jacobian(y, x, disconnected_inputs="ignore")
    n = math.prod(lengths(x))
    return reshape(matrix, (n, n))


def _solve_transpose(matrix: Tensor, g: Tensor) -> Tensor:
    """Return the cotangent of the residual, given the cotangent of the solution."""
    if not g.ndim:
        return g / reshape(matrix, ())
    return reshape(solve(matrix.mT, reshape(g, (-1,))), lengths(g))
