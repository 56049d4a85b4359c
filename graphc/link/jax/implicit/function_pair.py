"""Functions of implicit operands, with the derivatives of functions of dense ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import jax
from jax.extend.core import JaxprEqn

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import materialized, materializing, policy_of
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.deferred import DeferredResult, Known, ResultType
from graphc.link.jax.implicit.fields import advanced, any_moves, is_smooth, moves, pushed_forward
from graphc.link.jax.implicit.interpreter import bound, inline, on_behalf, where_now, where_of
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import StaticLeaf


@dataclass(frozen=True, eq=False)
class FunctionPair:
    """A function in two versions: for implicit operands, and for dense ones.

    Attributes:
        value: From operands, dense or implicit, to a sequence of results, dense or implicit.
        dense: The same of dense operands alone; its derivative is the function's.
        what: What messages call it.
        key: Equal for functions that compute the same.
        where: The user's line.
        policy: What is done where an array becomes whole for a derivative.
        has_rule: Whether its derivative is a rule of its own, and not that of its value.
        again: Gives its results whole, with their derivatives; None where these are not of it.
    """

    value: Callable[..., Sequence[Any]]
    dense: Callable[..., Sequence[Any]]
    what: str
    key: Hashable
    where: str | None = field(default_factory=where_now)
    policy: str = field(default_factory=policy_of)
    has_rule: bool = False
    again: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionPair) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Derive it as it was called: by the same policy, reported at the same line."""
        with materializing(self.policy), on_behalf(self.where):
            yield

    def whole(self, x: Any) -> Any:
        """Make an array whole for the derivative, as the policy allows."""
        if is_implicit(x):
            return materialized(x, f"the derivative of {self.what}", self.where)
        return x

    def along(
        self, values: Sequence[Any], moving: Sequence[int], places: Sequence[int] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return the dense function of some operands, and these.

        It gives the results that have derivatives, in some places if these are given, and then the
        other results. Each list is as long as there are results, with None for those of the other.
        """

        def function(*others: Any) -> Any:
            given = dict(zip(moving, others, strict=True))
            y = self.dense(*[given.get(i, x) for i, x in enumerate(values)])
            pairs = [(x, is_smooth(x) and (places is None or i in places)) for i, x in enumerate(y)]
            first = [x if is_first else None for x, is_first in pairs]
            return first, [None if is_first else x for x, is_first in pairs]

        return function, [values[i] for i in moving]

    def pushed(
        self,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        places: Sequence[int],
        known: Known,
    ) -> tuple[list[Any], list[Any]] | None:
        """Return all results, and the dense tangents of some; None if no operand moves.

        Args:
            operands: Dense or implicit.
            tangents: Those of their arrays.
            places: The results whose tangents are wanted; others have None.
            known: What was found before of deferred results.
        """
        pairs = list(zip(operands, tangents, strict=True))
        directions = [pushed_forward(self.whole, x, t, known) for x, t in pairs]
        moving = [i for i, t in enumerate(directions) if t is not None]
        if not moving:
            return None

        def jvp(values: Any, directions: Any) -> Any:
            function, at = self.along(values, moving, places)
            return jax.jvp(function, at, directions, has_aux=True)

        points = [advanced(x, moves(t), known) for x, t in pairs]
        found = run_through(jvp, points, [directions[i] for i in moving])
        smooth, slopes, others = found
        return merged(smooth, others), list(map(self.whole, slopes))

    def slope(
        self, operands: Sequence[Any], tangents: Sequence[Any], result: ResultType, known: Known
    ) -> Any:
        """Return a result's dense tangent; None for zero."""
        with self.resumed():
            found = self.pushed(operands, tangents, [result.place], known)
        return None if found is None else found[1][result.place]

    def computed(self, operands: Sequence[Any], result: ResultType) -> Any:
        """Return a whole result; None where its derivative is not that of how it is computed."""
        return None if self.again is None else self.again(operands)[result.place]

    def advanced(
        self, operands: Sequence[Any], moves: Sequence[Any], result: ResultType, known: Known
    ) -> Any:
        """Return a result with the derivative that it has in its own; None if that is the same."""
        points = [advanced(x, flags, known) for x, flags in zip(operands, moves, strict=True)]
        moving = [i for i, flags in enumerate(moves) if is_smooth(operands[i]) and any_moves(flags)]
        if self.has_rule and moving:
            return self._value_of_rule(points, moving)[result.place]
        if all(map(is_, points, operands)):
            return None
        return DeferredResult.of(self, points, result.place, result)

    def _value_of_rule(self, operands: Sequence[Any], moving: Sequence[int]) -> Sequence[Any]:
        def value(*values: Any) -> Any:
            function, at = self.along(values, moving)
            smooth, _, others = jax.vjp(function, *at, has_aux=True)
            return merged(smooth, others)

        with self.resumed():
            found: Sequence[Any] = run_through(value, *operands)
        return found


def merged(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    return [b if a is None else a for a, b in zip(first, second, strict=True)]


def key_of(primitive: Any, parameters: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equations which compute the same."""
    return primitive, tuple([(name, StaticLeaf(parameters[name])) for name in sorted(parameters)])


def pair_of(eqn: JaxprEqn, value: Callable[..., Sequence[Any]]) -> FunctionPair:
    """Return an equation with rules of its own as a function; its value is computed by another."""
    return FunctionPair(
        value,
        lambda *values: bound(eqn, values),
        eqn.primitive.name,
        key_of(eqn.primitive, eqn.params),
        where_of(eqn),
        has_rule=True,
    )


def run_through(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function of dense arrays on trees of arrays, some implicit."""
    operands, tree = jax.tree.flatten(args, is_leaf=is_implicit)

    def flat(*arrays: Any) -> Any:
        return function(*jax.tree.unflatten(tree, arrays))

    program, shapes = jax.make_jaxpr(flat, return_shape=True)(*map(aval_of, operands))
    return jax.tree.unflatten(jax.tree.structure(shapes), inline(program, operands))


def valued(x: Any) -> Any:
    """Return the array that an operand's value is computed from."""
    while isinstance(x, StraightThrough):
        x = x.array
    return x


def is_traced(operands: Sequence[Any]) -> bool:
    """Whether a function of operands may be derived: JAX traces arrays that have derivatives."""
    leaves = jax.tree.leaves(list(operands))
    return any(isinstance(x, jax.core.Tracer) and is_smooth(x) for x in leaves)


def deferred(pair: FunctionPair, operands: Sequence[Any], place: int, y: Any) -> Any:
    """Return a result with its derivative, which an implicit one does not have in its fields."""
    if not is_implicit(y) or not is_smooth(y):
        return y
    return StraightThrough(y, DeferredResult.of(pair, operands, place, y))
