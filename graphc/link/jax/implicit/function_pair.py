"""Functions of implicit operands that have the derivatives of functions of dense operands."""

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
from graphc.link.jax.implicit.avals import replace_at
from graphc.link.jax.implicit.deferred import Cache, DeferredResult, ResultType
from graphc.link.jax.implicit.fields import (
    any_leaf,
    is_differentiable,
    push_forward,
    rule_primal,
    tangent_flags,
)
from graphc.link.jax.implicit.interpreter import (
    bind_equation,
    inline,
    report_at,
    where_now,
    where_of,
)
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import StaticLeaf


@dataclass(frozen=True, eq=False)
class FunctionPair:
    """A function in two versions: for implicit operands, and for dense operands.

    Attributes:
        value: The function from operands, dense or implicit, to a sequence of such results.
        dense: The function of dense operands, whose derivative is the derivative of both versions.
        name: The function's name in messages.
        key: A value that is equal for functions which compute the same.
        where: The user's line.
        policy: The policy for arrays that a derivative densifies.
        has_rule: Whether the derivative is a custom rule, not the derivative of the value.
        recompute: A function that returns the results, densified and with derivatives; None if the
            derivative is not the derivative of the value.
    """

    value: Callable[..., Sequence[Any]]
    dense: Callable[..., Sequence[Any]]
    name: str
    key: Hashable
    where: str | None = field(default_factory=where_now)
    policy: str = field(default_factory=policy_of)
    has_rule: bool = False
    recompute: Callable[[Sequence[Any]], Sequence[Any]] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionPair) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @contextmanager
    def original_context(self) -> Iterator[None]:
        """Differentiate with the policy and the reported line of the function's call."""
        with materializing(self.policy), report_at(self.where):
            yield

    def densify(self, x: Any) -> Any:
        """Densify an array for the derivative, as the policy allows."""
        if is_implicit(x):
            return materialized(x, f"the derivative of {self.name}", self.where)
        return x

    def restrict(
        self, values: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return the dense function of the operands with indices ``wrt``, and these operands.

        The function returns two lists of all results: in the first, results that are not
        differentiated are None; in the second, all others are. Differentiated are the results of
        floating dtypes, with indices ``outputs`` if these are given.
        """

        def function(*inputs: Any) -> Any:
            y = self.dense(*replace_at(values, wrt, inputs))
            flags = [
                is_differentiable(x) and (outputs is None or i in outputs) for i, x in enumerate(y)
            ]
            pairs = list(zip(y, flags, strict=True))
            return [x if flag else None for x, flag in pairs], [
                None if flag else x for x, flag in pairs
            ]

        return function, [values[i] for i in wrt]

    def jvp(
        self,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outputs: Sequence[int],
        cache: Cache,
    ) -> tuple[list[Any], list[Any]] | None:
        """Return all results, and dense tangents of some; None if all operands' tangents are zero.

        Args:
            operands: The operands, dense or implicit.
            tangents: The tangents of the operands' arrays.
            outputs: The indices of the results whose tangents are returned; others are None.
            cache: Derivatives of deferred results.
        """
        pairs = list(zip(operands, tangents, strict=True))
        directions = [push_forward(self.densify, x, t, cache) for x, t in pairs]
        wrt = [i for i, t in enumerate(directions) if t is not None]
        if not wrt:
            return None

        def jvp(values: Any, directions: Any) -> Any:
            function, at = self.restrict(values, wrt, outputs)
            return jax.jvp(function, at, directions, has_aux=True)

        points = [rule_primal(x, tangent_flags(t), cache) for x, t in pairs]
        ys, ts, others = run_through(jvp, points, [directions[i] for i in wrt])
        return merge(ys, others), list(map(self.densify, ts))

    def tangent(
        self, operands: Sequence[Any], tangents: Sequence[Any], result: ResultType, cache: Cache
    ) -> Any:
        """Return a result's dense tangent; None for zero."""
        with self.original_context():
            y_and_t = self.jvp(operands, tangents, [result.index], cache)
        return None if y_and_t is None else y_and_t[1][result.index]

    def compute(self, operands: Sequence[Any], result: ResultType) -> Any:
        """Return a dense result; None if its derivative is not the derivative of its value."""
        return None if self.recompute is None else self.recompute(operands)[result.index]

    def rule_primal(
        self, operands: Sequence[Any], has_tangents: Sequence[Any], result: ResultType, cache: Cache
    ) -> Any:
        """Return a result as the derivative rule computes it; None if the rule changes nothing."""
        flags = list(map(any_leaf, has_tangents))
        points = [rule_primal(x, t, cache) for x, t in zip(operands, has_tangents, strict=True)]
        wrt = [i for i, x in enumerate(operands) if is_differentiable(x) and flags[i]]
        if self.has_rule and wrt:
            return self._run_rule(points, wrt)[result.index]
        if all(map(is_, points, operands)):
            return None
        return DeferredResult.of(self, points, result.index, result)

    def _run_rule(self, operands: Sequence[Any], wrt: Sequence[int]) -> Sequence[Any]:
        """Return the results as the derivative rule for operands ``wrt`` computes them."""

        def primal(*values: Any) -> Any:
            function, at = self.restrict(values, wrt)
            ys, _, others = jax.vjp(function, *at, has_aux=True)
            return merge(ys, others)

        with self.original_context():
            results: Sequence[Any] = run_through(primal, *operands)
        return results


def merge(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Return the first list, in which the second's elements replace None."""
    return [b if a is None else a for a, b in zip(first, second, strict=True)]


def key_of(primitive: Any, parameters: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equations that compute the same."""
    return primitive, tuple([(name, StaticLeaf(parameters[name])) for name in sorted(parameters)])


def pair_of(eqn: JaxprEqn, value: Callable[..., Sequence[Any]]) -> FunctionPair:
    """Return an equation with a custom derivative as a pair, whose value ``value`` computes."""
    return FunctionPair(
        value,
        lambda *values: bind_equation(eqn, values),
        eqn.primitive.name,
        key_of(eqn.primitive, eqn.params),
        where_of(eqn),
        has_rule=True,
    )


def run_through(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function of dense arrays on trees of arrays, of which some are implicit."""
    operands, tree = jax.tree.flatten(args, is_leaf=is_implicit)

    def function_of_leaves(*arrays: Any) -> Any:
        return function(*jax.tree.unflatten(tree, arrays))

    program, shapes = jax.make_jaxpr(function_of_leaves, return_shape=True)(*map(aval_of, operands))
    return jax.tree.unflatten(jax.tree.structure(shapes), inline(program, operands))


def value_of(x: Any) -> Any:
    """Return the array that the value of an operand is computed from."""
    while isinstance(x, StraightThrough):
        x = x.array
    return x


def is_traced(operands: Sequence[Any]) -> bool:
    """Return whether a function may be differentiated: JAX traces operands of floating dtypes."""
    leaves = jax.tree.leaves(list(operands))
    return any(isinstance(x, jax.core.Tracer) and is_differentiable(x) for x in leaves)


def defer_derivative(pair: FunctionPair, operands: Sequence[Any], index: int, y: Any) -> Any:
    """Return result y with its derivative, which the fields of an implicit array lack."""
    if not is_implicit(y) or not is_differentiable(y):
        return y
    return StraightThrough(y, DeferredResult.of(pair, operands, index, y))
