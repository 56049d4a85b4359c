"""What minima and roots have in common: an operation that holds a graph, and SciPy that calls it.

At a solution x(a) of f(x, a) = 0, the chain rule gives dx/da = -(df/dx)^-1 df/da, whatever way led
there. So the gradient takes one linear solve, and is an ordinary graph that has a gradient in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.grad.jacobian import jacobian
from graphc.grad.reverse import cotangents
from graphc.ir import (
    Graph,
    Node,
    Op,
    TensorType,
    TupleType,
    gathered,
    here,
    is_float,
    is_inexact,
    picks,
    replaced,
    toposort,
    where,
)
from graphc.loop.deciding import deciding
from graphc.loop.each import over_each
from graphc.loop.evaluate import evaluate
from graphc.loop.step import closed, stand_in
from graphc.optimize.settings import Settings
from graphc.tensor.create import zeros_like
from graphc.tensor.pack import pack, unpack
from graphc.tensor.shape import lengths, reshape
from graphc.tensor.solve import solve
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = [
    "Problem",
    "Variables",
    "as_function",
    "as_value",
    "chosen_method",
    "scipy_optimize",
    "solved",
]

Function = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


def scipy_optimize() -> Any:
    """SciPy's module, loaded when something is solved."""
    return import_module("scipy.optimize")


@dataclass(frozen=True, slots=True)
class Problem(Op):
    """A solution found by SciPy, and whether it is one.

    Inputs are where to start, in the place of the variable, what else the graph depends on, and
    then, if there are any, numbers that the method asks for.

    Attributes:
        graph: Of formal parameters, the variable first: a value, and its derivatives by the
            variable as far as they are wanted.
        method: SciPy's name for the way.
        settings: What else SciPy is given.
    """

    graph: Graph
    method: str
    settings: Settings

    by_numpy = True
    stays_in_step = True

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(method={self.method!r})"

    def unwritten(self) -> Hashable:
        return self.settings.objects or None

    def graphs(self) -> tuple[Graph, ...]:
        return (self.graph,)

    def with_graphs(self, graphs: Sequence[Graph]) -> Problem:
        return replace(self, graph=graphs[0])

    def passes(self) -> Sequence[Sequence[int | None]]:
        return [[None, *range(1, len(self.graph.inputs))]]

    def host_inputs(self) -> tuple[int, ...]:
        """What decides a shape in the graph."""
        return deciding(self)

    def infer(self, start: TensorType, *types: TensorType) -> TupleType:
        for place, (x, given) in enumerate(zip(self.graph.inputs, (start, *types), strict=False)):
            if not x.type.admits(given):
                raise ShapeError(
                    f"{self.name} takes {x.type!r} at place {place}, and is given {given!r}.",
                    "",
                    where(here()),
                )
        return TupleType((start, TensorType("bool")))

    def perform(self, start: Any, *values: Any) -> tuple[Any, Any]:
        given, numbers = self._parted(values)
        start = np.asarray(start)
        if not start.size:
            return start, np.True_
        with np.errstate(all="ignore"):
            found, success = self.search(start, given, numbers)
        return np.asarray(found).reshape(start.shape).astype(start.dtype), np.bool_(success)

    def _parted(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        n = len(self.graph.inputs) - 1
        return values[:n], values[n:]

    def search(
        self, start: np.ndarray[Any, Any], given: Sequence[Any], numbers: Sequence[Any]
    ) -> tuple[Any, bool]:
        """What SciPy finds, and whether it says that it is a solution."""
        raise NotImplementedError(f"{type(self).__qualname__} has no way to search.")

    def function(self, i: int, like: Any, given: Sequence[Any], *, to: int | None = None) -> Any:
        """One output as a function of a flat variable, or several outputs up to another one."""
        return as_function(self.graph, slice(i, to or i + 1), np.asarray(like), given)

    def residual(self, value: Tensor, x: Tensor) -> Tensor:
        """What is zero at a solution, made of the graph's first output."""
        raise NotImplementedError(f"{type(self).__qualname__} does not say what is zero.")

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """By the implicit function theorem; where the search starts does not matter."""
        n = len(self.graph.inputs)
        start, given, numbers = inputs[0], inputs[1:n], inputs[n:]
        rest = [zeros_like(x) for x in numbers]
        if g[0] is None:
            return [zeros_like(start), *([None] * len(given)), *rest]
        fresh = [stand_in(x) for x in (start, *given)]
        swaps: dict[Node, Node] = dict(zip(self.graph.inputs, fresh, strict=True))
        value: Any = replaced(self.graph.outputs[:1], swaps)[0]
        zero = self.residual(value, fresh[0])
        slope = _slope(zero, fresh[0])
        weights = stand_in(zero)
        wanted = [x for x in fresh[1:] if is_inexact(x.dtype)]
        parts = cotangents({zero: weights}, wanted)
        actual: dict[Node, Node] = dict(zip(fresh, (picks(y)[0], *given), strict=True))
        (at_solution,) = replaced([slope], actual)
        actual[weights] = -_backwards(at_solution, g[0])  # type: ignore[arg-type]
        by_fresh = {
            x: replaced([part], actual)[0]
            for x, part in zip(wanted, parts, strict=True)
            if part is not None
        }
        return [zeros_like(start), *(by_fresh.get(x) for x in fresh[1:]), *rest]

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        return over_each(self, size, batched, inputs)


def _slope(y: Tensor, x: Tensor) -> Tensor:
    """The matrix of derivatives of flattened arrays."""
    found = jacobian(y, x, disconnected_inputs="ignore")
    n = math.prod(lengths(x))
    return reshape(found, (n, n))


def _backwards(slope: Tensor, g: Tensor) -> Tensor:
    """What of a cotangent arrives at the residual: the transposed slope's solve."""
    if not g.ndim:
        return g / reshape(slope, ())
    return reshape(solve(slope.mT, reshape(g, (-1,))), lengths(g))


@lru_cache(1024)
def _part(graph: Graph, first: int, end: int) -> Graph:
    return Graph(graph.inputs, graph.outputs[first:end])


def as_function(
    graph: Graph, outputs: slice, like: np.ndarray[Any, Any], given: Sequence[Any]
) -> Any:
    """Some of a graph's outputs as a function of a flat float64 array.

    Args:
        graph: Its first input is the variable.
        outputs: Which; of a single one, the function gives it by itself.
        like: Has the variable's shape and dtype.
        given: The other inputs.
    """
    part = _part(graph, outputs.start, outputs.stop)

    def call(x: Any, *_: Any) -> Any:
        # SciPy computes in float64, and writes into what it passed.
        found = evaluate(part, np.array(x, like.dtype).reshape(like.shape), *given)
        wide = [np.asarray(y, np.float64) for y in found]
        return wide[0] if len(wide) == 1 else tuple(wide)

    return call


# What users write, as such an operation.


@dataclass(frozen=True)
class Variables:
    """What is searched for: one array, or several packed into a vector.

    Attributes:
        start: Where to start.
        variable: What stands for it in the graph.
        shapes: Of the arrays that were packed; None for one array.
    """

    start: Tensor
    variable: Tensor
    shapes: list[Tensor] | None

    @classmethod
    def of(cls, title: str, x: Any, value: Tensor) -> tuple[Variables, Tensor]:
        """These, and a value that depends on them made of what stands for them."""
        several = isinstance(x, list | tuple)
        xs = [_checked(title, one, value) for one in (x if several else [x])]
        if not several:
            variable = stand_in(xs[0])
            return cls(xs[0], variable, None), _in_terms(value, xs, [variable])
        start, shapes = pack(*xs)
        variable = stand_in(start)
        parts = [
            part.astype(one.dtype) for part, one in zip(unpack(variable, shapes), xs, strict=True)
        ]
        return cls(start, variable, shapes), _in_terms(value, xs, parts)

    def unpacked(self, solution: Tensor) -> Any:
        """A solution as the user named the variables."""
        return solution if self.shapes is None else unpack(solution, self.shapes)


def _in_terms(value: Tensor, xs: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    (made,) = gathered(replaced([value], dict(zip(xs, parts, strict=True))), parts)
    return made  # type: ignore[return-value]


def _checked(title: str, x: Any, value: Tensor) -> Tensor:
    if not isinstance(x, Tensor) or x not in toposort([value]):
        raise ArgumentError(
            f"{title}: {value!r} does not depend on {x!r}.",
            "Give a symbolic array that it is made of, or a list of several.",
            where(here()),
        )
    if not is_float(x.dtype):
        raise DTypeError(
            f"{title}: {x!r} is searched for, whose dtype is not real floating.",
            "Declare it floating, or cast it before it is used.",
            where(here()),
        )
    return x


def as_value(title: str, value: Any) -> Tensor:
    """What is minimised or to be zero: real floating."""
    made: Tensor = as_tensor(value)
    if not is_float(made.dtype):
        raise DTypeError(
            f"{title} of {made!r}, whose dtype is not real floating.",
            "Cast it with .astype('float64').",
            where(here()),
        )
    return made


def chosen_method(title: str, method: Any, known: Sequence[str]) -> str:
    """SciPy's name of a method."""
    name = str(method).lower()
    if not isinstance(method, str) or name not in known:
        raise ArgumentError(
            f"{title}: method={method!r}.", f"There are {', '.join(known)}.", where(here())
        )
    return name


def solved(
    op: type[Problem],
    variables: Variables,
    outputs: Sequence[Tensor],
    method: str,
    settings: Settings,
    numbers: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor]:
    """The solution and whether it is one, as results of an operation.

    Args:
        op: Which.
        variables: What is searched for.
        outputs: The value, and derivatives of it.
        method: SciPy's.
        settings: What else SciPy is given.
        numbers: What the method asks for.
    """
    graph, outside = closed([variables.variable], outputs, {})
    made = Node.make(op(graph, method, settings), variables.start, *outside, *numbers)
    solution, success = picks(made)
    return solution, success
