"""The interface in which Krylov methods are written: loops and derivatives, in graphs and JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from graphc.errors import GradientError
from graphc.grad.barriers import disconnected_grad
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents
from graphc.implicit.expand import expanded
from graphc.implicit.namespace import SYMBOLIC
from graphc.ir import Node, is_inexact, replace_nodes
from graphc.loop.custom import custom_pullback
from graphc.loop.functional import loop, while_loop
from graphc.loop.step import close_graph, stand_in
from graphc.random.keys import random_bits
from graphc.tensor.arrays.create import zeros, zeros_like
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import bitwise_and, cast
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.eigen import eigh

Map = Callable[[Any], Any]
"""A linear map of blocks of columns, (..., n, k)."""

Method = Callable[[Map, Map | None, Any, Any], tuple[Any, ...]]
"""A solver of systems, called with products, a preconditioner, the right-hand side and an initial
guess; its first result is the solution."""

Search = Callable[[Map, Any, Any], Any]

REMEDY = "Differentiate eigenvalues once; for more, use gt.linalg.eigh of the dense matrix."


class Calculus(Protocol):
    """Loops and derivatives of a library, beside its functions ``xp``."""

    xp: Any

    @property
    def widest(self) -> str:
        """The widest floating dtype, to which integers are converted."""

    def array(self, x: Any) -> Any:
        """Convert to an array of the library; implicit arrays stay implicit."""

    def type_of(self, function: Map, x: Any) -> tuple[tuple[Any, ...], str]:
        """Return the shape and dtype of a function's result, without computing the result."""

    def while_loop(self, goes_on: Any, step: Any, init: Any, most: Any) -> Any:
        """Return the carry, a tuple of arrays, after at most ``most`` steps."""

    def scan(self, step: Any, init: Any, length: int) -> Any:
        """Return a carry, and rows, after ``step(carry, i)`` for each i."""

    def solve(
        self, method: Method, product: Map, precondition: Map | None, sides: Any, symmetric: bool
    ) -> tuple[Any, ...]:
        """Return the results of a method for a right-hand side and an initial guess.

        The solution has the derivative of the implicit function theorem: the cotangent of the
        right-hand side is a solution of the transposed system, and the cotangents of the arrays on
        which products depend follow from one product.
        """

    def constant(self, x: Any) -> Any:
        """Return x without derivative."""

    def eigh(self, x: Any) -> tuple[Any, Any]:
        """Return the eigenvalues and eigenvectors of symmetric matrices."""

    def freeze(self, product: Map, like: Any) -> Map:
        """Return a map whose derivative is with respect to the columns alone."""

    def zeros_with_gradient(self, x: Any, weights: Any) -> Any:
        """Return zeros with the derivative of ``(weights * x).sum(-2)`` with respect to x alone."""

    def zeros_with_gradient_once(self, x: Any, weights: Any, problem: str) -> Any:
        """Return ``zeros_with_gradient(x, weights)``; differentiating the weights is an error."""

    def quadratic(self, product: Map, b: Any, x: Any, search: Search) -> Any:
        """Return ``(b * x).sum(-2)`` for the solution x of ``product(x) = b``.

        The map is symmetric. The derivative ``2 db @ x - x @ dA @ x`` is computed from x.

        Args:
            product: The map.
            b: The right-hand sides.
            x: The solutions.
            search: Returns a solution, called with products, a right-hand side and an initial
                guess.
        """

    def forbid_derivative(self, x: Any, moving: Any, problem: str) -> Any:
        """Return x; to differentiate the result is an error.

        Args:
            x: An array.
            moving: An array that depends on all that x depends on.
            problem: The message.
        """

    def signs(self, key: Any, shape: Sequence[Any], dtype: str) -> Any:
        """Return independent random numbers that are 1 or -1 with equal probability."""


def _pull_back_zeros(g: Any, y: Any, x: Any, weights: Any) -> Any:
    return expand_dims(g, -2) * weights, None


def _push_zeros_forward(tangents: Any, y: Any, x: Any, weights: Any) -> Any:
    return None if tangents[0] is None else (tangents[0] * weights).sum(-2)


@custom_pullback(_pull_back_zeros, _push_zeros_forward)
def _zeros_with_gradient(x: Any, weights: Any) -> Any:
    return zeros((*lengths(x)[:-2], lengths(x)[-1]), dtype=x.dtype)


class SymbolicCalculus:
    """Loops and derivatives of graphs."""

    xp = SYMBOLIC
    widest = "float64"

    array = staticmethod(as_tensor)
    constant = staticmethod(disconnected_grad)
    zeros_with_gradient = staticmethod(_zeros_with_gradient)

    def type_of(self, function: Map, x: Any) -> tuple[tuple[Any, ...], str]:
        y = as_tensor(function(stand_in(x)))
        return y.type.shape, y.dtype

    def while_loop(self, goes_on: Any, step: Any, init: Any, most: Any) -> Any:
        return while_loop(lambda x: goes_on(*x), lambda x: step(*x), tuple(init), max_steps=most)

    def scan(self, step: Any, init: Any, length: int) -> Any:
        return loop(step, init, SYMBOLIC.arange(length))

    def solve(
        self, method: Method, product: Map, precondition: Map | None, sides: Any, symmetric: bool
    ) -> tuple[Any, ...]:
        b, start = sides
        start = zeros_like(b) if start is None else start
        matrix = _LinearMap.of(product, b)
        inverse = None if precondition is None else _LinearMap.of(precondition, b)
        count = len(matrix.outside)

        def bind(rest: Sequence[Any]) -> tuple[_LinearMap, _LinearMap | None]:
            return matrix.bind(rest[:count]), inverse and inverse.bind(rest[count:])

        def solution(b: Any, start: Any, *rest: Any) -> Any:
            a, m = bind(rest)
            return tuple(method(a, m, b, start))

        def solve_again(side: Any, rest: Sequence[Any], transpose: bool) -> Any:
            a, m = bind(rest)
            if transpose and not symmetric:
                a, m = a.transpose(), m and m.transpose()  # type: ignore[assignment]
            return self.solve(method, a, m, (side, None), symmetric)[0]

        def pullback(g: Any, y: Any, b: Any, start: Any, *rest: Any) -> Any:
            g_b = solve_again(g[0], rest, True)
            g_rest = matrix.outside_cotangents(rest[:count], y[0], -g_b)
            return (g_b, None, *g_rest, *[None] * (len(rest) - count))

        def pushforward(tangents: Any, y: Any, b: Any, start: Any, *rest: Any) -> Any:
            change = matrix.outside_tangent(rest[:count], y[0], tangents[2 : 2 + count])
            sides = [x for x in (tangents[0], None if change is None else -change) if x is not None]
            others = [None] * (len(y) - 1)
            if not sides:
                return (None, *others)
            return (
                solve_again(sides[0] if len(sides) == 1 else sides[0] + sides[1], rest, False),
                *others,
            )

        outside = [*matrix.values, *(inverse.values if inverse else ())]
        return custom_pullback(pullback, pushforward)(solution)(b, start, *outside)  # type: ignore[no-any-return]

    def eigh(self, x: Any) -> tuple[Any, Any]:
        w, v = eigh(x)
        return w, v

    def freeze(self, product: Map, like: Any) -> Map:
        matrix = _LinearMap.of(product, like)
        return matrix.bind([disconnected_grad(x) for x in matrix.values])

    def zeros_with_gradient_once(self, x: Any, weights: Any, problem: str) -> Any:
        return _zeros_with_gradient(x, self.forbid_derivative(weights, x, problem))

    def quadratic(self, product: Map, b: Any, x: Any, search: Search) -> Any:
        matrix = _LinearMap.of(product, x)

        def forms(b: Any, x: Any, *rest: Any) -> Any:
            return (b * x).sum(-2)

        def pullback(g: Any, y: Any, b: Any, x: Any, *rest: Any) -> Any:
            weighted = expand_dims(g, -2) * x
            return (2 * weighted, None, *matrix.outside_cotangents(rest, x, -weighted))

        def pushforward(tangents: Any, y: Any, b: Any, x: Any, *rest: Any) -> Any:
            tangent_b, _, *others = tangents
            change = matrix.outside_tangent(rest, x, others)
            terms = [] if tangent_b is None else [2 * tangent_b]
            terms += [] if change is None else [-change]
            return (sum(terms[1:], terms[0]) * x).sum(-2) if terms else None

        return custom_pullback(pullback, pushforward)(forms)(b, x, *matrix.values)

    def forbid_derivative(self, x: Any, moving: Any, problem: str) -> Any:
        def refuse(*_: Any) -> Any:
            raise GradientError(problem, REMEDY)

        def copy(x: Any, moving: Any) -> Any:
            return x * 1

        return custom_pullback(refuse, refuse)(copy)(x, moving)

    def signs(self, key: Any, shape: Sequence[Any], dtype: str) -> Any:
        return 1 - 2 * cast(bitwise_and(random_bits(key, shape, 32), 1), dtype)


@dataclass(frozen=True, eq=False)
class _LinearMap:
    """A linear map as a closed graph.

    Attributes:
        parameter: The parameter of the graph for the argument.
        result: The output of the graph.
        outside: The other parameters of the graph.
        values: The values of the other parameters.
    """

    parameter: Tensor
    result: Node
    outside: Sequence[Any]
    values: Sequence[Any]

    @classmethod
    def of(cls, function: Map, like: Tensor) -> _LinearMap:
        """Return the map of a function; implicit arrays are replaced by their fields."""
        fresh = stand_in(like)
        (y,) = expanded([as_tensor(function(fresh))])
        graph, values = close_graph([fresh], [y], {})
        parameter, *outside = graph.inputs
        return cls(parameter, graph.outputs[0], outside, values)  # type: ignore[arg-type]

    def bind(self, values: Sequence[Any]) -> _LinearMap:
        """Return the map with other values of its other parameters."""
        return replace(self, values=values)

    def __call__(self, x: Any) -> Any:
        return self._at(self.result, x, self.values)

    def _at(self, y: Any, x: Any, values: Sequence[Any]) -> Any:
        pairs = zip([self.parameter, *self.outside], [x, *values], strict=True)
        return replace_nodes([y], dict(pairs))[0]

    def transpose(self) -> Map:
        """Return the map of the transposed matrix."""

        def multiply(x: Any) -> Any:
            fresh = [stand_in(p) for p in (self.parameter, *self.outside)]
            y: Any = self._at(self.result, fresh[0], fresh[1:])
            (cotangent,) = cotangents({y: x}, fresh[:1])
            if cotangent is None:
                return zeros_like(x)
            swaps: dict[Node, Node] = dict(zip(fresh[1:], self.values, strict=True))
            return replace_nodes([cotangent], swaps)[0]

        return multiply

    def outside_cotangents(self, values: Sequence[Any], x: Any, g: Any) -> list[Any]:
        """Return the cotangents of the other parameters, for the cotangent g of the result at x."""
        # Values may depend on each other, and x depends on them: fresh inputs are independent.
        fresh = [stand_in(p) for p in self.outside]
        at = stand_in(x)
        moving = [i for i, p in enumerate(fresh) if is_inexact(p.dtype)]
        weights = stand_in(g)
        y: Any = self._at(self.result, at, fresh)
        gradients = cotangents({y: weights}, [fresh[i] for i in moving])
        swaps: dict[Node, Node] = dict(zip([at, weights, *fresh], [x, g, *values], strict=True))
        results: list[Any] = [None] * len(fresh)
        for i, gradient in zip(moving, gradients, strict=True):
            results[i] = None if gradient is None else replace_nodes([gradient], swaps)[0]
        return results

    def outside_tangent(self, values: Sequence[Any], x: Any, tangents: Sequence[Any]) -> Any:
        """Return the tangent of the result at x for tangents of the other parameters, or None."""
        fresh = [stand_in(p) for p in self.outside]
        at = stand_in(x)
        moving: dict[Node, Any] = {
            p: t for p, t in zip(fresh, tangents, strict=True) if t is not None
        }
        if not moving:
            return None
        (tangent,) = push([self._at(self.result, at, fresh)], moving)
        if tangent is None:
            return None
        swaps: dict[Node, Node] = dict(zip([at, *fresh], [x, *values], strict=True))
        return replace_nodes([tangent], swaps)[0]


CALCULUS = SymbolicCalculus()
