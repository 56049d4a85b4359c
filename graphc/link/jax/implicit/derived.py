"""Rules for functions with custom derivatives or batches, whose values handlers compute."""

from __future__ import annotations

from collections.abc import Sequence
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
from graphc.link.jax.implicit.interpreter import inline, rule, where_of
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.jaxprs import bind_equation


@rule("custom_jvp_call", "custom_vjp_call")
def custom_derivative(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom JVP or VJP rule, which stays its derivative."""
    function = FunctionPair(
        lambda *operands: inline(eqn.params["call_jaxpr"], operands),
        lambda *operands: bind_equation(eqn, operands),
        eqn.primitive.name,
        key_of(eqn.primitive, eqn.params),
        where_of(eqn),
    )
    # A VJP rule need not be linear, so the cotangents of all uses of a result are added up first.
    return function(operands, add_up=eqn.primitive.name == "custom_vjp_call")


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
