"""The primitive that applies a function with derivative rules for both modes.

``jax.custom_jvp`` does not suffice: where such a function is linear in an operand, JAX transposes
its value, and the value has lost the derivative. ``jax.custom_vjp`` has no forward mode. Here both
rules belong to the function, and a rule may apply functions again, so that derivatives of any order
are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.link.jax.jaxprs import replace_at


class Rules(NamedTuple):
    """A function of arrays and its derivative rules, in which None is zero.

    Attributes:
        run: From arrays to results.
        jvp: From arrays and tangents to results, with derivatives of higher order, and tangents.
        transpose: From arrays, flags of those in which the function is linear, and cotangents of
            results to cotangents of arrays.
    """

    run: Callable[..., Sequence[Any]]
    jvp: Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
    transpose: Callable[[Sequence[Any], Sequence[bool], Sequence[Any]], Sequence[Any]]


applied_p = Primitive("graphc_applied")
applied_p.multiple_results = True


def apply(rules: Rules, arrays: Sequence[Any]) -> list[Any]:
    """Return a function's results, which have the derivatives of the function's rules."""
    return applied_p.bind(*arrays, rules=rules)  # type: ignore[no-any-return, no-untyped-call]


def _run(*arrays: Any, rules: Rules) -> list[Any]:
    return list(rules.run(*arrays))


def _abstract(*types: Any, rules: Rules) -> tuple[list[Any], Any]:
    """Return the types of the results, and the effects: JAX drops unused equations without."""
    program = jax.make_jaxpr(rules.run)(*types)
    return list(program.out_avals), program.effects


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, rules: Rules) -> Any:
    ys, ts = rules.jvp(primals, [None if _is_zero(t) else t for t in tangents])
    zeros = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in ys]
    return ys, [zero if t is None else t for zero, t in zip(zeros, ts, strict=True)]


def _is_zero(t: Any) -> bool:
    return type(t) is ad.Zero or t.dtype == jax.dtypes.float0


def _transpose(cotangents: Sequence[Any], *arrays: Any, rules: Rules) -> Sequence[Any]:
    is_linear = [ad.is_undefined_primal(x) for x in arrays]  # type: ignore[no-untyped-call]
    pairs = list(zip(arrays, is_linear, strict=True))
    # The derivative of a linear function does not depend on the arrays: zeros do.
    values = [jnp.zeros(x.aval.shape, x.aval.dtype) if flag else x for x, flag in pairs]
    gs = [None if type(g) is ad.Zero else g for g in cotangents]
    has_gradient = any(g is not None for g in gs)
    grads = rules.transpose(values, is_linear, gs) if has_gradient else [None] * len(values)
    return [
        ad.Zero(x.aval) if flag and grad is None else grad
        for (x, flag), grad in zip(pairs, grads, strict=True)
    ]


def _batch(axis: Any, arrays: Sequence[Any], axes: Sequence[Any], *, rules: Rules) -> Any:
    if all(d is None for d in axes):
        ys = apply(rules, arrays)
        return ys, [None] * len(ys)
    pairs = zip(arrays, axes, strict=True)
    batches = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in pairs]
    ys = apply(_map_rules(rules, [None if d is None else 0 for d in axes], axis), batches)
    return ys, [0] * len(ys)


def _map_rules(rules: Rules, axes: Sequence[int | None], axis: Any) -> Rules:
    """Map a function and its rules over a batch axis, which is the first axis or missing."""

    def map_over(function: Callable[..., Any], *axes: Any) -> Callable[..., Any]:
        size, name, spmd_name = axis.size, axis.name, axis.spmd_name
        return jax.vmap(function, axes, axis_size=size, axis_name=name, spmd_axis_name=spmd_name)

    def jvp(arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        wrt = [i for i, t in enumerate(tangents) if t is not None]

        def inner(arrays: Sequence[Any], directions: Sequence[Any]) -> Any:
            return rules.jvp(arrays, replace_at([None] * len(arrays), wrt, directions))

        directions = [tangents[i] for i in wrt]
        return map_over(inner, axes, [axes[i] for i in wrt])(list(arrays), directions)

    def transpose(arrays: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]) -> Any:
        inner = map_over(lambda arrays, gs: rules.transpose(arrays, is_linear, gs), axes, 0)
        pairs = zip(inner(list(arrays), list(gs)), axes, strict=True)
        return [grad if grad is None or d == 0 else grad.sum(0) for grad, d in pairs]

    return Rules(map_over(rules.run, *axes), jvp, transpose)


applied_p.def_impl(_run)  # type: ignore[no-untyped-call]
applied_p.def_effectful_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
mlir.register_lowering(applied_p, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_jvps[applied_p] = _jvp
ad.primitive_transposes[applied_p] = _transpose
batching.fancy_primitive_batchers[applied_p] = _batch
