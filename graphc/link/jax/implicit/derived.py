"""Values computed from implicit operands, with the derivatives of dense arrays.

A function with a custom derivative has a rule for dense arrays. The value of the function is
computed by interpreting it with implicit operands, so that handlers are called. The derivative is
computed by tracing the derivative of the function of dense arrays, and interpreting that program in
the same way: handlers are called in the rule too. The tangent of an implicit operand is the tangent
of the dense array, and a cotangent reaches an operand's fields through ``materialize``. An implicit
result has its derivative in a ``DeferredResult``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.custom_derivatives import (
    SymbolicZero,
    custom_vjp_primal_tree_values,
)

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import deferred_reports, enforce_policy
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.deferred import Cache, zero_tangent
from graphc.link.jax.implicit.fields import (
    is_differentiable,
    is_perturbed,
    perturbed_leaves,
    pull_back,
    replace_derivative,
    rule_primal,
    tangent_flags,
)
from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    defer_derivative,
    is_traced,
    merge,
    pair_of,
    run_through,
    value_of,
)
from graphc.link.jax.implicit.interpreter import bind_equation, inline, rule


def call_with_jvp(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return a function's results with the derivatives of ``pair.dense``, in both modes."""
    if not is_traced(operands):
        return list(pair.value(*operands))
    trees = _ResultTrees()

    @jax.custom_jvp
    def results(*operands: Any) -> Any:
        return trees.record(pair.value(*operands))

    @partial(results.defjvp, symbolic_zeros=True)
    def _rule(primals: Any, tangents: Any) -> Any:
        dense, cache = trees.dense(results, primals), Cache()
        with pair.original_context():
            y_and_t = pair.jvp(primals, tangents, dense, cache) if dense else None
            y = y_and_t and trees.match(pair.densify, y_and_t[0])
        if y is None:
            pairs = zip(primals, tangents, strict=True)
            y = results(*[rule_primal(x, tangent_flags(t), cache) for x, t in pairs])
        ts = y_and_t[1] if y_and_t else [None] * len(y)
        return y, tuple(map(_tangent, y, ts))

    return [defer_derivative(pair, operands, i, y) for i, y in enumerate(results(*operands))]


def _tangent(y: Any, t: Any) -> Any:
    return jax.tree.map(zero_tangent, y) if t is None else t


def call_with_vjp(pair: FunctionPair, operands: Sequence[Any]) -> list[Any]:
    """Return a function's results with the reverse-mode derivative of ``pair.dense``.

    A result's rule need not be linear, so the cotangents of all its uses must be added up first.
    An implicit result therefore comes with an array of zeros, which JAX differentiates.
    """
    if not is_traced(operands):
        return list(pair.value(*operands))
    trees, zeros = _ResultTrees(), _zeros_of_implicit(pair, operands)

    def value(*operands: Any) -> Any:
        return (*trees.record(pair.value(*operands)), *zeros.values())

    def from_rule(y: Sequence[Any]) -> Any:
        results = trees.match(pair.densify, y)
        # The second derivative of the zeros is the derivative of the rule's results.
        sources = [replace_derivative(pair.densify, x, [y[i]]) for i, x in zeros.items()]
        return results and (*results, *sources)

    def cotangent_indices(results: Any, primals: Any) -> dict[int, int]:
        dense = trees.dense(results, primals)
        return {i: i for i in dense} | {i: trees.count + k for k, i in enumerate(zeros)}

    results = _with_vjp(pair, value, cotangent_indices, from_rule)(*operands)
    toward = dict(zip(zeros, results[trees.count :], strict=True))
    y = results[: trees.count]
    return [StraightThrough(x, toward[i]) if i in toward else x for i, x in enumerate(y)]


def _zeros_of_implicit(pair: FunctionPair, operands: Sequence[Any]) -> dict[int, Any]:
    """Return zeros of the shape of each implicit result by index, as the policy allows."""
    with deferred_reports():
        results = jax.eval_shape(lambda *operands: tuple(pair.value(*operands)), *operands)
    zeros = {}
    for i, x in enumerate(results):
        if is_implicit(x) and is_differentiable(x):
            enforce_policy(value_of(x), f"the derivative of {pair.name}", pair.where)
            zeros[i] = np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return zeros


def _with_vjp(
    pair: FunctionPair,
    value: Callable[..., Any],
    cotangent_indices: Callable[[Any, Any], Mapping[int, int]],
    from_rule: Callable[[Any], Any],
) -> Callable[..., Any]:
    """Return ``value`` with the reverse-mode derivative of a pair.

    Args:
        pair: The function, whose results ``value`` has in another form.
        value: A function of the operands.
        cotangent_indices: A function of ``value`` with its derivative, and of the operands. For
            the pair's results that are differentiated, it returns the index of the cotangent
            among the results of ``value``.
        from_rule: A function from the pair's results, as the rule computes them, to the results of
            ``value``; None if these must be computed by ``value``.
    """

    @jax.custom_vjp
    def results(*operands: Any) -> Any:
        return value(*operands)

    def forward(*operands: Any) -> Any:
        primals = custom_vjp_primal_tree_values(operands)  # type: ignore[no-untyped-call]
        wrt = [i for i, x in enumerate(operands) if is_perturbed(x, primals[i])]
        cache = Cache()
        pairs = zip(primals, operands, strict=True)
        points = [rule_primal(x, perturbed_leaves(mark), cache) for x, mark in pairs]
        indices = cotangent_indices(results, primals)

        def vjp(*values: Any) -> Any:
            function, at = pair.restrict(values, wrt, list(indices))
            return jax.vjp(function, *at, has_aux=True)

        with pair.original_context():
            ys, pullback, others = run_through(vjp, *points)
            y = from_rule(merge(ys, others))
        # Cotangents of implicit operands go on to their fields, so these operands are saved.
        implicit = [primals[i] if is_implicit(primals[i]) else None for i in wrt]
        sources = [None if x is None else indices[i] for i, x in enumerate(ys)]
        saved = pullback, implicit, _CotangentMap(tuple(wrt), len(primals), tuple(sources))
        return results(*points) if y is None else y, saved

    def backward(saved: Any, cotangents: Any) -> Any:
        pullback, implicit, indices = saved
        gs = [None if i is None else _instantiate(cotangents[i]) for i in indices.sources]
        grads: list[Any] = [None] * indices.operand_count
        with pair.original_context():
            dense = run_through(lambda pullback, gs: pullback(gs), pullback, gs)
            for i, x, g in zip(indices.wrt, implicit, map(pair.densify, dense), strict=True):
                leaves = pull_back(pair.densify, x, g)
                tree = jax.tree.structure(x)
                grads[i] = jax.tree.unflatten(tree, leaves) if is_implicit(x) else g
        return tuple(grads)

    results.defvjp(forward, backward, symbolic_zeros=True)
    return results


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[],
    meta_fields=["wrt", "operand_count", "sources"],
)
@dataclass(frozen=True)
class _CotangentMap:
    """The sources and targets of cotangents.

    Attributes:
        wrt: The indices of the operands that get cotangents.
        operand_count: The number of operands.
        sources: For each result of the function, the index of its cotangent; None if it has none.
    """

    wrt: tuple[int, ...]
    operand_count: int
    sources: tuple[int | None, ...]


class _ResultTrees:
    """The tree structure of each implicit result, and None for each dense result."""

    def __init__(self) -> None:
        self.trees: list[Any] | None = None

    def record(self, y: Sequence[Any]) -> tuple[Any, ...]:
        """Record the trees of results; return these without derivatives of implicit results."""
        values = tuple(map(value_of, y))
        self.trees = [_structure(x) for x in values]
        return values

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self.trees or ())

    def dense(self, results: Any, primals: Any) -> list[int]:
        """Return the indices of the dense results of a function, which is traced if needed."""
        if self.trees is None:
            jax.eval_shape(results, *primals)
        return [i for i, tree in enumerate(self.trees or ()) if tree is None]

    def match(self, densify: Callable[[Any], Any], y: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return a rule's results with the recorded trees; None if an implicit result differs."""
        results = []
        for x, tree in zip(y, self.trees or (), strict=True):
            if tree is not None and _structure(value_of(x)) != tree:
                return None
            results.append(densify(x) if tree is None else value_of(x))
        return tuple(results)


def _structure(x: Any) -> Any:
    return jax.tree.structure(x) if is_implicit(x) else None


def _instantiate(g: Any) -> Any:
    return np.zeros(g.shape, g.dtype) if isinstance(g, SymbolicZero) else g


def _pair(eqn: Any) -> FunctionPair:
    return pair_of(eqn, lambda *operands: inline(eqn.params["call_jaxpr"], operands))


@rule("custom_jvp_call")
def custom_jvp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom JVP rule, which stays its derivative."""
    return call_with_jvp(_pair(eqn), operands)


@rule("custom_vjp_call")
def custom_vjp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom VJP rule, which stays its derivative."""
    return call_with_vjp(_pair(eqn), operands)


@rule("custom_vmap_call")
def custom_vmap_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom batching rule, which runs with implicit operands too."""

    @custom_vmap
    def function(*operands: Any) -> Any:
        return inline(eqn.params["call"], operands)

    @function.def_vmap
    def _rule(size: int, batched: Sequence[Any], *operands: Any) -> Any:
        pairs = [_batch(size, x, flags) for x, flags in zip(operands, batched, strict=True)]
        axes = [0 if flag else None for _, flag in pairs]
        function = jax.vmap(lambda *values: bind_equation(eqn, values), axes, axis_size=size)
        y = run_through(function, *[x for x, _ in pairs])
        return y, jax.tree.map(lambda _: True, y)

    y: Sequence[Any] = function(*operands)
    return y


def _batch(size: int, x: Any, flags: Any) -> tuple[Any, bool]:
    """Return an operand with all arrays batched if one is, and whether they are."""
    leaf_flags = jax.tree.leaves(flags)
    if not any(leaf_flags):
        return x, False
    leaves, tree = jax.tree.flatten(x)
    pairs = zip(leaves, leaf_flags, strict=True)
    batches = [
        leaf if flag else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))) for leaf, flag in pairs
    ]
    return jax.tree.unflatten(tree, batches), True
