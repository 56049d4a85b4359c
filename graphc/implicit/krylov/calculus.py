"""What the methods are written in: loops and derivatives, in graphs and in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from graphc.errors import GradientError
from graphc.grad.barriers import disconnected_grad
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents
from graphc.implicit.expand import expanded
from graphc.implicit.namespace import SYMBOLIC
from graphc.ir import Node, is_inexact, replaced
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
"""Solves a system: given products, a preconditioner, the right-hand side and a start; the first
result is the solution."""

Search = Callable[[Map, Any, Any], Any]

REMEDY = "Differentiate eigenvalues once; for more, use gt.linalg.eigh of the whole matrix."


class Calculus(Protocol):
    """Loops and derivatives of a library, beside its functions ``xp``."""

    xp: Any

    @property
    def widest(self) -> str:
        """The widest floating dtype, in which integers are computed with."""

    def array(self, x: Any) -> Any:
        """An array of the library; implicit ones stay what they are."""

    def type_of(self, function: Map, x: Any) -> tuple[tuple[Any, ...], str]:
        """The shape and dtype of what a function gives; nothing is computed."""

    def while_loop(self, goes_on: Any, step: Any, init: Any, most: Any) -> Any:
        """A carry, a tuple of arrays, after steps while a condition holds, and at most so many."""

    def scan(self, step: Any, init: Any, length: int) -> Any:
        """A carry, and rows, after ``step(carry, i)`` for each i."""

    def solved(
        self, method: Method, product: Map, precondition: Map | None, sides: Any, symmetric: bool
    ) -> tuple[Any, ...]:
        """What a method gives for a right-hand side and a start, with the solution's derivative.

        By the implicit function theorem: the cotangent of the side is a solution of the transposed
        system, and that of what products depend on goes through one product.
        """

    def constant(self, x: Any) -> Any:
        """x itself, without derivative."""

    def eigh(self, x: Any) -> tuple[Any, Any]:
        """The eigenvalues and eigenvectors of symmetric matrices."""

    def frozen(self, product: Map, like: Any) -> Map:
        """The same products, without derivatives by what they depend on beside the columns."""

    def slope(self, x: Any, weights: Any) -> Any:
        """Zeros, with the derivative of ``(weights * x).sum(-2)`` by x, and none by the weights."""

    def slope_once(self, x: Any, weights: Any, problem: str) -> Any:
        """The same, where to differentiate the weights is an error."""

    def quadratic(self, product: Map, b: Any, x: Any, search: Search) -> Any:
        """``(b * x).sum(-2)`` for the solution x of ``product(x) = b``, of a symmetric map.

        The derivative ``2 db @ x - x @ dA @ x`` is found from x.

        Args:
            product: The map.
            b: The right-hand sides.
            x: The solutions.
            search: Finds a solution, given products, a right-hand side and a start.
        """

    def underivable(self, x: Any, moving: Any, problem: str) -> Any:
        """x itself; to differentiate it is an error.

        Args:
            x: An array.
            moving: Another one, which depends on what x depends on.
            problem: The message.
        """

    def signs(self, key: Any, shape: Sequence[Any], dtype: str) -> Any:
        """Independent numbers that are 1 or -1, one as often as the other."""


class SymbolicCalculus:
    """Loops and derivatives of graphs."""

    xp = SYMBOLIC
    widest = "float64"

    def array(self, x: Any) -> Any:
        return as_tensor(x)

    def type_of(self, function: Map, x: Any) -> tuple[tuple[Any, ...], str]:
        y = as_tensor(function(stand_in(x)))
        return y.type.shape, y.dtype

    def while_loop(self, goes_on: Any, step: Any, init: Any, most: Any) -> Any:
        return while_loop(lambda x: goes_on(*x), lambda x: step(*x), tuple(init), max_steps=most)

    def scan(self, step: Any, init: Any, length: int) -> Any:
        return loop(step, init, SYMBOLIC.arange(length))

    def solved(
        self, method: Method, product: Map, precondition: Map | None, sides: Any, symmetric: bool
    ) -> tuple[Any, ...]:
        b, start = sides
        start = zeros_like(b) if start is None else start
        inside = _Linear.of(product, b)
        nearly = None if precondition is None else _Linear.of(precondition, b)
        count = len(inside.outside)

        def parts(rest: Sequence[Any]) -> tuple[_Linear, _Linear | None]:
            near = nearly and _Linear(nearly.parameter, nearly.result, nearly.outside, rest[count:])
            return _Linear(inside.parameter, inside.result, inside.outside, rest[:count]), near

        def solution(b: Any, start: Any, *rest: Any) -> Any:
            own, near = parts(rest)
            return tuple(method(own, near, b, start))

        def again(side: Any, rest: Sequence[Any], turned: bool) -> Any:
            own, near = parts(rest)
            if turned and not symmetric:
                own, near = own.transposed(), near and near.transposed()  # type: ignore[assignment]
            return self.solved(method, own, near, (side, None), symmetric)[0]

        def pullback(g: Any, y: Any, b: Any, start: Any, *rest: Any) -> Any:
            by_b = again(g[0], rest, True)
            by_rest = inside.by_outside(rest[:count], y[0], -by_b)
            return (by_b, None, *by_rest, *[None] * (len(rest) - count))

        def pushforward(tangents: Any, y: Any, b: Any, start: Any, *rest: Any) -> Any:
            moved = inside.along_outside(rest[:count], y[0], tangents[2 : 2 + count])
            sides = [x for x in (tangents[0], None if moved is None else -moved) if x is not None]
            others = [None] * (len(y) - 1)
            if not sides:
                return (None, *others)
            return (
                again(sides[0] if len(sides) == 1 else sides[0] + sides[1], rest, False),
                *others,
            )

        outside = [*inside.given, *(nearly.given if nearly else ())]
        return custom_pullback(pullback, pushforward)(solution)(b, start, *outside)  # type: ignore[no-any-return]

    def constant(self, x: Any) -> Any:
        return disconnected_grad(x)

    def eigh(self, x: Any) -> tuple[Any, Any]:
        w, v = eigh(x)
        return w, v

    def frozen(self, product: Map, like: Any) -> Map:
        own = _Linear.of(product, like)
        own.given = [disconnected_grad(x) for x in own.given]
        return own

    def slope(self, x: Any, weights: Any) -> Any:
        return _slope(x, weights)

    def slope_once(self, x: Any, weights: Any, problem: str) -> Any:
        return _slope(x, self.underivable(weights, x, problem))

    def quadratic(self, product: Map, b: Any, x: Any, search: Search) -> Any:
        inside = _Linear.of(product, x)

        def forms(b: Any, x: Any, *rest: Any) -> Any:
            return (b * x).sum(-2)

        def pullback(g: Any, y: Any, b: Any, x: Any, *rest: Any) -> Any:
            weighted = expand_dims(g, -2) * x
            return (2 * weighted, None, *inside.by_outside(rest, x, -weighted))

        def pushforward(tangents: Any, y: Any, b: Any, x: Any, *rest: Any) -> Any:
            by_b, _, *others = tangents
            moved = inside.along_outside(rest, x, others)
            parts = [] if by_b is None else [2 * by_b]
            parts += [] if moved is None else [-moved]
            return (sum(parts[1:], parts[0]) * x).sum(-2) if parts else None

        return custom_pullback(pullback, pushforward)(forms)(b, x, *inside.given)

    def underivable(self, x: Any, moving: Any, problem: str) -> Any:
        def refuse(*_: Any) -> Any:
            raise GradientError(problem, REMEDY)

        def unchanged(x: Any, moving: Any) -> Any:
            return x * 1

        return custom_pullback(refuse, refuse)(unchanged)(x, moving)

    def signs(self, key: Any, shape: Sequence[Any], dtype: str) -> Any:
        return 1 - 2 * cast(bitwise_and(random_bits(key, shape, 32), 1), dtype)


def _slope_back(g: Any, y: Any, x: Any, weights: Any) -> Any:
    return expand_dims(g, -2) * weights, None


def _slope_forth(tangents: Any, y: Any, x: Any, weights: Any) -> Any:
    return None if tangents[0] is None else (tangents[0] * weights).sum(-2)


@custom_pullback(_slope_back, _slope_forth)
def _slope(x: Any, weights: Any) -> Any:
    return zeros((*lengths(x)[:-2], lengths(x)[-1]), dtype=x.dtype)


class _Linear:
    """A linear map as a closed graph.

    Args:
        parameter: What stands for the argument.
        result: What is made of it.
        outside: What else the result is made of: stand-ins.
        given: What takes their place.
    """

    def __init__(self, parameter: Tensor, result: Node, outside: Sequence[Any], given: Any) -> None:
        self.parameter, self.result = parameter, result
        self.outside, self.given = outside, given

    @classmethod
    def of(cls, function: Map, like: Tensor) -> _Linear:
        """The map that a function computes, whose implicit arrays become their fields."""
        fresh = stand_in(like)
        (y,) = expanded([as_tensor(function(fresh))])
        graph, outside = close_graph([fresh], [y], {})
        parameter, *rest = graph.inputs
        return cls(parameter, graph.outputs[0], rest, outside)  # type: ignore[arg-type]

    def __call__(self, x: Any) -> Any:
        return self._at(self.result, x, self.given)

    def _at(self, y: Any, x: Any, given: Sequence[Any]) -> Any:
        pairs = zip([self.parameter, *self.outside], [x, *given], strict=True)
        return replaced([y], dict(pairs))[0]

    def transposed(self) -> Map:
        """The map whose matrix is the transpose."""

        def transposed(x: Any) -> Any:
            fresh = [stand_in(p) for p in (self.parameter, *self.outside)]
            y: Any = self._at(self.result, fresh[0], fresh[1:])
            (found,) = cotangents({y: x}, fresh[:1])
            if found is None:
                return zeros_like(x)
            own: dict[Node, Node] = dict(zip(fresh[1:], self.given, strict=True))
            return replaced([found], own)[0]

        return transposed

    def by_outside(self, given: Sequence[Any], x: Any, g: Any) -> list[Any]:
        """The cotangents of what the map is made of, for that of its result at x."""
        # What it is made of may depend on other parts of it, and x does.
        fresh = [stand_in(p) for p in self.outside]
        at = stand_in(x)
        moving = [i for i, p in enumerate(fresh) if is_inexact(p.dtype)]
        weights = stand_in(g)
        y: Any = self._at(self.result, at, fresh)
        parts = cotangents({y: weights}, [fresh[i] for i in moving])
        swaps: dict[Node, Node] = dict(zip([at, weights, *fresh], [x, g, *given], strict=True))
        found: list[Any] = [None] * len(fresh)
        for i, part in zip(moving, parts, strict=True):
            found[i] = None if part is None else replaced([part], swaps)[0]
        return found

    def along_outside(self, given: Sequence[Any], x: Any, tangents: Sequence[Any]) -> Any:
        """The tangent of the result at x; None where nothing moves."""
        fresh = [stand_in(p) for p in self.outside]
        at = stand_in(x)
        moving: dict[Node, Any] = {
            p: t for p, t in zip(fresh, tangents, strict=True) if t is not None
        }
        if not moving:
            return None
        (found,) = push([self._at(self.result, at, fresh)], moving)
        if found is None:
            return None
        swaps: dict[Node, Node] = dict(zip([at, *fresh], [x, *given], strict=True))
        return replaced([found], swaps)[0]


CALCULUS = SymbolicCalculus()
