"""Functions with derivatives or batches of their own, which these keep on implicit operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from graphc.implicit.jax.derived import Ways, in_both_modes, in_reverse, run_through
from graphc.implicit.jax.interpreter import (
    bound,
    inline,
    rule,
    where_of,
)

__all__ = ["custom_jvp_call", "custom_vjp_call", "custom_vmap_call"]


def _ways(eqn: Any, program: Any) -> Ways:
    return Ways(
        lambda *operands: inline(program, operands),
        lambda *values: bound(eqn, values),
        eqn.primitive.name,
        where_of(eqn),
    )


@rule("custom_jvp_call")
def custom_jvp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The function run through, derived by the user's rule."""
    return in_both_modes(_ways(eqn, eqn.params["call_jaxpr"]), operands)


@rule("custom_vjp_call")
def custom_vjp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The function run through, derived in reverse by the user's rule."""
    return in_reverse(_ways(eqn, eqn.params["call_jaxpr"]), operands)


@rule("custom_vmap_call")
def custom_vmap_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """The function run through; a batch of it is what the user's rule says, run through, too."""

    @custom_vmap
    def function(*operands: Any) -> Any:
        return inline(eqn.params["call"], operands)

    @function.def_vmap
    def _rule(size: int, batched: Sequence[Any], *operands: Any) -> Any:
        given = zip(operands, batched, strict=True)
        full = [_batched(size, x, flags) for x, flags in given]
        axes = [0 if flag else None for _, flag in full]
        function = jax.vmap(lambda *values: bound(eqn, values), axes, axis_size=size)
        y = run_through(function, *[x for x, _ in full])
        return y, jax.tree.map(lambda _: True, y)

    y: Sequence[Any] = function(*operands)
    return y


def _batched(size: int, x: Any, flags: Any) -> tuple[Any, bool]:
    """An operand of which all arrays are batched, or none."""
    marks = jax.tree.leaves(flags)
    if not any(marks):
        return x, False
    leaves, tree = jax.tree.flatten(x)
    pairs = zip(leaves, marks, strict=True)
    full = [
        leaf if flag else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))) for leaf, flag in pairs
    ]
    return jax.tree.unflatten(tree, full), True
