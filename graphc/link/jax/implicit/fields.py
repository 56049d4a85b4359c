"""Derivatives with respect to implicit arrays, and with respect to their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import densify
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.applied import apply
from graphc.link.jax.implicit.avals import replace_at
from graphc.link.jax.implicit.deferred import Cache, DeferredResult, is_zero, zero_tangent

Densify = Callable[[Any], Any]
"""A function that densifies an implicit array, and returns another array unchanged."""


def is_differentiable(x: Any) -> bool:
    """Return whether arrays of x's dtype have derivatives."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


def push_forward(densify: Densify, x: Any, t: Any, cache: Cache) -> Any:
    """Return the dense array's tangent, given the fields' tangents; None for zero."""
    while isinstance(x, StraightThrough):
        x, t = x.toward, t.toward
    if not is_implicit(x):
        return None if is_zero(t) else t
    if isinstance(x, DeferredResult):
        return x.tangent(t.arrays, cache)
    ts = jax.tree.leaves(t)
    wrt = [i for i, leaf in enumerate(ts) if not is_zero(leaf)]
    if not wrt or not is_differentiable(x):
        return None
    function, fields = _function_of_fields(densify, x, wrt)
    return jax.jvp(function, fields, [ts[i] for i in wrt])[1]


def tangent_flags(t: Any) -> Any:
    """Return which leaves of an array have tangents, in the array's tree."""
    return jax.tree.map(lambda leaf: not is_zero(leaf), t)


def any_leaf(flags: Any) -> bool:
    """Return whether any leaf of a tree is true."""
    return any(jax.tree.leaves(flags))


def rule_primal(x: Any, tangent_flags: Any, cache: Cache) -> Any:
    """Return an operand as a derivative rule computes it: see ``DeferredResult.rule_primal``."""
    if isinstance(x, DeferredResult):
        return x.rule_primal(tangent_flags.arrays, cache)
    if not isinstance(x, StraightThrough):
        return x
    toward = rule_primal(x.toward, tangent_flags.toward, cache)
    return x if toward is x.toward else StraightThrough(x.array, toward)


def pull_back(densify: Densify, x: Any, g: Any, wanted: Sequence[bool] | None = None) -> list[Any]:
    """Return the cotangents of an array's leaves, given the dense cotangent; None for zero.

    Args:
        densify: The function that densifies an array.
        x: The array.
        g: The cotangent of the dense array.
        wanted: For each leaf, whether its cotangent is needed; default: all are.
    """
    leaves = jax.tree.leaves(x)
    flags = [True] * len(leaves) if wanted is None else list(wanted)
    if not is_implicit(x):
        return [g]
    if isinstance(x, StraightThrough):
        count = len(jax.tree.leaves(x.array))
        return [*[None] * count, *pull_back(densify, x.toward, g, flags[count:])]
    wrt = [i for i, leaf in enumerate(leaves) if flags[i] and is_differentiable(leaf)]
    if isinstance(x, DeferredResult):
        pullback = _deferred_pullback(x, wrt)
    else:
        function, fields = _function_of_fields(densify, x, wrt)
        _, pullback = jax.vjp(function, *fields)
    return replace_at([None] * len(leaves), wrt, pullback(g))


def _deferred_pullback(x: DeferredResult, wrt: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
    """Return the pullback of a deferred result to some of its arrays."""
    zeros = list(map(zero_tangent, x.arrays))

    def tangent(*tangents: Any) -> Any:
        return x.tangent(replace_at(zeros, wrt, tangents), {})

    pullback: Any = jax.linear_transpose(tangent, *[x.arrays[i] for i in wrt])
    return pullback  # type: ignore[no-any-return]


def is_perturbed(x: Any, value: Any) -> bool:
    """Return whether an operand is perturbed; x is the value with JAX's marks as leaves."""
    while isinstance(value, StraightThrough):
        x, value = x.toward, value.toward
    return is_differentiable(value) and any_leaf(perturbed_leaves(x))


def perturbed_leaves(x: Any) -> Any:
    """Return which leaves of an operand are perturbed, in its tree; x has JAX's marks as leaves."""
    return jax.tree.map(
        lambda mark: bool(mark.perturbed and is_differentiable(mark.value)),
        x,
        is_leaf=lambda mark: hasattr(mark, "perturbed"),
    )


def _function_of_fields(
    densify: Densify, x: Any, wrt: Sequence[int]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return the dense array as a function of some of its fields, and these fields."""
    leaves, tree = jax.tree.flatten(x)

    def function(*fields: Any) -> Any:
        return densify(jax.tree.unflatten(tree, replace_at(leaves, wrt, fields)))

    return function, [leaves[i] for i in wrt]


def replace_derivative(densify: Densify, y: Any, sources: Sequence[Any]) -> Any:
    """Return the dense array y with the derivative of the sum of arrays, which may be implicit."""
    leaves, tree = jax.tree.flatten(list(sources))
    (result,) = apply(_ReplacedDerivative(densify, tree), [y, *leaves])
    return result


@dataclass(frozen=True, eq=False)
class _ReplacedDerivative:
    """The first array, with the derivative of the sum of the others.

    Attributes:
        densify: The function that densifies the others.
        tree: The tree of the others.
    """

    densify: Densify
    tree: Any

    def run(self, *leaves: Any) -> list[Any]:
        return [leaves[0]]

    def jvp(self, leaves: Sequence[Any], tangents: Sequence[Any]) -> Any:
        y, *others = leaves
        cache: Cache = {}
        pairs = list(zip(self._unflatten(others), self._unflatten(tangents[1:]), strict=True))
        dense = [push_forward(self.densify, x, t, cache) for x, t in pairs]
        ts = [t.astype(y.dtype) for t in dense if t is not None]
        sources = [rule_primal(x, tangent_flags(t), cache) for x, t in pairs]
        y = replace_derivative(self.densify, y, sources)
        return [y], [sum(ts[1:], ts[0]) if ts else None]

    def transpose(
        self, leaves: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]
    ) -> list[Any]:
        cotangents: list[Any] = [None]
        for x in self._unflatten(leaves[1:]):
            flags = is_linear[len(cotangents) : len(cotangents) + len(jax.tree.leaves(x))]
            cotangents += (
                pull_back(self.densify, x, gs[0].astype(x.dtype), flags)
                if any(flags)
                else [None] * len(flags)
            )
        return cotangents

    def _unflatten(self, leaves: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.tree, leaves)


def with_derivative_of(array: Any, toward: Any) -> Any:
    """Return the first array, densified, with the derivative of the second."""
    if isinstance(toward, DeferredResult):
        y = toward.compute()
        if y is not None:
            return y
    return replace_derivative(densify, densify(array), [toward])
