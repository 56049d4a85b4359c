"""Rules for functions with custom derivatives or batches, which handlers may run through.

The derivative of ``jax.custom_jvp`` and ``jax.custom_vjp`` functions stays the user's rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.extend.core import JaxprEqn

from graphc.link.jax.implicit.function_pair import (
    FunctionPair,
    apply_pair,
    key_of,
    run_through,
)
from graphc.link.jax.implicit.interpreter import bind_equation, inline, rule, where_of
from graphc.link.jax.implicit.partition import aval_of


@rule("custom_jvp_call")
def custom_jvp_call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom JVP rule, which stays its derivative."""
    return FunctionPair(**_versions(eqn))(operands)


@rule("custom_vjp_call")
def custom_vjp_call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom VJP rule, which stays its derivative.

    A rule need not be linear, so the cotangents of all uses of a result must be added up first. An
    implicit result therefore comes with an array of zeros, which JAX differentiates.
    """
    return FunctionPair(**_versions(eqn))(operands, add_up=True)


def _versions(eqn: JaxprEqn) -> Mapping[str, Any]:
    """Return the attributes of an equation as a ``FunctionPair``."""
    return {
        "value": lambda *operands: inline(eqn.params["call_jaxpr"], operands),
        "dense": lambda *operands: bind_equation(eqn, operands),
        "name": eqn.primitive.name,
        "key": key_of(eqn.primitive, eqn.params),
        "where": where_of(eqn),
    }


@rule("custom_lin")
def custom_lin(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Stage the linear function that JAX transposes by a VJP rule: forward mode is JAX's error."""

    def value(*operands: Any) -> Sequence[Any]:
        zeros = [jnp.zeros(x.shape, x.dtype) for x in map(aval_of, operands)]
        return bind_equation(eqn, zeros)

    def dense(*operands: Any) -> Sequence[Any]:
        return bind_equation(eqn, operands)

    return apply_pair(FunctionPair(value, dense, "custom_vjp_call", None), operands)[0]


@rule("custom_vmap_call")
def custom_vmap_call(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
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
