"""Functions of implicit operands that have the derivatives of functions of dense operands.

The value of such a function is computed by handlers. Its derivative is the derivative of the
function of dense operands, a custom rule for example: JAX traces the derivative, and the traced
program is interpreted with the implicit operands, so that handlers are called in the rule too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import (
    enforce_policy,
    materialized,
    materializing,
    policy_of,
)
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.applied import FunctionApplication, is_differentiable
from graphc.link.jax.implicit.avals import (
    ImplicitAvals,
    flatten,
    per_array,
    replace_at,
    unflatten,
)
from graphc.link.jax.implicit.deferred import (
    Cache,
    defer,
    pull_back,
    push_forward,
)
from graphc.link.jax.implicit.interpreter import inline, report_at, where_now
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import StaticLeaf
from graphc.link.jax.varying import vary_as

Pushed = tuple[Sequence[Any], Mapping[int, Any]]
"""All results of a function, and the dense tangents of some, by their indices."""


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
    """

    value: Callable[..., Sequence[Any]]
    dense: Callable[..., Sequence[Any]]
    name: str
    key: Hashable
    where: str | None = field(default_factory=where_now)
    policy: str = field(default_factory=policy_of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionPair) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __call__(self, operands: Sequence[Any], add_up: bool = False) -> list[Any]:
        """Return the results, with derivatives if JAX traces an operand.

        Args:
            operands: The operands, dense or implicit.
            add_up: Whether the cotangents of all uses of an implicit result are added up before
                they are pulled back. The result then comes with zeros, as the policy allows.
        """
        if not is_traced(operands):
            return list(self.value(*operands))
        pair, operands = self._of_distinct(operands)
        results, zeros = apply_pair(pair, operands, add_up)
        return [
            StraightThrough(y, zeros.get(i, defer(pair, operands, i, y)))
            if _lacks_derivative(y)
            else y
            for i, y in enumerate(results)
        ]

    def _of_distinct(self, operands: Sequence[Any]) -> tuple[FunctionPair, Sequence[Any]]:
        """Return the function of the distinct operands, each differentiated once, and these."""
        distinct = {id(x): x for x in operands}
        if len(distinct) == len(operands):
            return self, operands
        index = {key: i for i, key in enumerate(distinct)}
        order = tuple([index[id(x)] for x in operands])

        def repeat(function: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
            return lambda *xs: function(*[xs[i] for i in order])

        value, dense = repeat(self.value), repeat(self.dense)
        return replace(self, value=value, dense=dense, key=(self.key, order)), [*distinct.values()]

    def densify(self, x: Any) -> Any:
        """Densify an array for the derivative, as the policy allows."""
        if is_implicit(x):
            return materialized(x, f"the derivative of {self.name}", self.where)
        return x

    @contextmanager
    def original_context(self) -> Iterator[None]:
        """Differentiate with the policy and the reported line of the function's call."""
        with materializing(self.policy), report_at(self.where):
            yield

    def jvp(
        self,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outputs: Sequence[int],
        cache: Cache,
    ) -> Pushed | None:
        """Return the results as the rule computes them, and tangents; None if these are zero.

        The derivatives of the returned results are their derivatives of higher order.

        Args:
            operands: The operands, dense or implicit.
            tangents: The tangents of the operands' arrays.
            outputs: The indices of the results whose tangents are returned.
            cache: The results and tangents of deferred results so far.
        """
        with self.original_context():
            pairs = zip(operands, tangents, strict=True)
            pushed = [push_forward(self.densify, x, t, cache) for x, t in pairs]
            wrt = [i for i, (_, t) in enumerate(pushed) if t is not None]
            if not wrt:
                return None

            def rule(points: Sequence[Any], directions: Sequence[Any]) -> Any:
                function, at = self._restrict(points, wrt, outputs)
                _, ts, ys = jax.jvp(function, at, directions, has_aux=True)
                return ys, ts

            ys, ts = run_through(rule, [x for x, _ in pushed], [pushed[i][1] for i in wrt])
            return ys, dict(zip(outputs, map(self.densify, ts), strict=True))

    def _restrict(
        self, values: Sequence[Any], wrt: Sequence[int], outputs: Sequence[int]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return a function of operands ``wrt`` to ``outputs`` and all results; its operands."""

        def function(*inputs: Any) -> tuple[list[Any], list[Any]]:
            ys = self.dense(*replace_at(values, wrt, inputs))
            return [ys[i] for i in outputs], list(ys)

        return function, [values[i] for i in wrt]

    def transpose(
        self, operands: Sequence[Any], wanted: Sequence[bool], gs: Mapping[int, Any]
    ) -> list[Any]:
        """Return the cotangents of arrays in which the function is linear, None for the others.

        Args:
            operands: The operands, with zeros for the linear arrays.
            wanted: For each array of the operands, whether the function is linear in it.
            gs: Dense cotangents of results, by the results' indices.
        """
        remaining = iter(wanted)
        flags = [[next(remaining) for _ in jax.tree.leaves(x)] for x in operands]
        wrt = [i for i, each in enumerate(flags) if any(each)]

        def transpose(constant: Sequence[Any], gs: Mapping[int, Any]) -> Any:
            function, _ = self._restrict(constant, wrt, list(gs))
            types = [aval_of(operands[i]) for i in wrt]
            return jax.linear_transpose(lambda *xs: function(*xs)[0], *types)(list(gs.values()))

        with self.original_context():
            constant = replace_at(operands, wrt, [None] * len(wrt))
            cotangents = map(self.densify, run_through(transpose, constant, dict(gs)))
            grads = [[None] * len(each) for each in flags]
            for i, g in zip(wrt, cotangents, strict=True):
                grads[i] = pull_back(self.densify, operands[i], g, flags[i])
            return [grad for each in grads for grad in each]


def apply_pair(
    pair: FunctionPair, operands: Sequence[Any], with_zeros: bool = False
) -> tuple[list[Any], dict[int, Any]]:
    """Return a function's results; dense ones have derivatives, for which implicit ones get zeros.

    Args:
        pair: The function.
        operands: The operands.
        with_zeros: Whether an array of zeros, which has the derivative, is returned for each
            implicit result, by the result's index.
    """
    leaves, tree = jax.tree.flatten(list(operands))
    traced: list[tuple[ImplicitAvals, tuple[int, ...]]] = []

    def run(*leaves: Any) -> list[Any]:
        results = [value_of(y) for y in pair.value(*jax.tree.unflatten(tree, leaves))]
        implicit = tuple(i for i, y in enumerate(results) if with_zeros and _lacks_derivative(y))
        for i in implicit:
            enforce_policy(results[i], f"the derivative of {pair.name}", pair.where)
        zeros = [jnp.zeros(results[i].shape, results[i].dtype) for i in implicit]
        arrays, kinds = flatten(results)
        traced.append((kinds, implicit))
        return [*arrays, *vary_as(zeros, *leaves)]

    program = jax.make_jaxpr(run)(*leaves)
    kinds, implicit = traced[0]
    sources = (*per_array(kinds, range(len(kinds)), None), *implicit)
    arrays = FunctionApplication(pair, program, tree, sources).apply(leaves)
    count = len(arrays) - len(implicit)
    return unflatten(kinds, arrays[:count]), dict(zip(implicit, arrays[count:], strict=True))


def key_of(primitive: Any, parameters: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal for equations that compute the same."""
    return primitive, tuple([(name, StaticLeaf(parameters[name])) for name in sorted(parameters)])


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


def _lacks_derivative(y: Any) -> bool:
    """Return whether a result is implicit: its fields lack the function's derivative."""
    return is_implicit(y) and is_differentiable(y)
