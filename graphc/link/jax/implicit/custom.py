"""Functions with custom derivatives or batches, run with implicit operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from graphc.link.jax.implicit.derived import in_both_modes, in_reverse
from graphc.link.jax.implicit.function_pair import FunctionPair, pair_of, run_through
from graphc.link.jax.implicit.interpreter import bound, inline, rule


def _pair(eqn: Any) -> FunctionPair:
    return pair_of(eqn, lambda *operands: inline(eqn.params["call_jaxpr"], operands))


@rule("custom_jvp_call")
def custom_jvp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom JVP, which stays its derivative."""
    return in_both_modes(_pair(eqn), operands)


@rule("custom_vjp_call")
def custom_vjp_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom VJP, which stays its derivative."""
    return in_reverse(_pair(eqn), operands)


@rule("custom_vmap_call")
def custom_vmap_call(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a function with a custom batching rule, which runs with implicit operands too."""

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
    """Batch all arrays of an operand, or none."""
    marks = jax.tree.leaves(flags)
    if not any(marks):
        return x, False
    leaves, tree = jax.tree.flatten(x)
    pairs = zip(leaves, marks, strict=True)
    full = [
        leaf if flag else jnp.broadcast_to(leaf, (size, *jnp.shape(leaf))) for leaf, flag in pairs
    ]
    return jax.tree.unflatten(tree, full), True
