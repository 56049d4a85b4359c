"""Functions that JAX transforms with graphc's derivatives and batch rules: a primitive of JAX.

With ``jax.custom_jvp``, JAX would transpose the program of the tangents, and ``jax.custom_vjp`` has
no forward mode. A primitive has a rule for each transformation; a rule binds the same primitive to
another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import filterfalse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.ir import is_inexact
from graphc.link.backend import Executable
from graphc.link.jax.devices import compiling_for
from graphc.link.jax.jaxprs import replace_at
from graphc.link.transformable import Transformable

call = Primitive("graphc")
"""Parameters: the function, and the number of last arguments in which it is linear."""
call.multiple_results = True


def transformable(function: Transformable) -> Executable:
    """Return a function that JAX can transform, in the floating dtypes that JAX has now."""

    def run(*arrays: Any) -> list[Any]:
        pairs = zip(arrays, function.arguments, strict=True)
        values = [_as(x, _own(t.numpy_dtype)) for x, t in pairs]
        return call.bind(*values, function=function, linear=0)  # type: ignore[no-any-return, no-untyped-call]

    return run


def _own(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return JAX's version of a dtype: 32 bits without ``jax_enable_x64``."""
    return jax.dtypes.canonicalize_dtype(dtype)


def in_own_dtype(x: jax.Array) -> jax.Array:
    """Cast an array to JAX's version of its dtype."""
    return _as(x, _own(x.dtype))  # type: ignore[no-any-return]


def _as(x: Any, dtype: np.dtype[Any]) -> Any:
    is_right = isinstance(x, jax.Array) and x.dtype == dtype and not x.weak_type
    return x if is_right else lax.convert_element_type(x, dtype)


def _run(*arrays: Any, function: Transformable, linear: int) -> list[Any]:
    """Return the results in JAX's dtypes, computed in graphc's."""
    del linear
    return run_as([_own(t.numpy_dtype) for t in function.results], function, *arrays)


def run_as(dtypes: Sequence[Any], function: Transformable, *arrays: Any) -> list[Any]:
    """Return the results in these dtypes, computed in graphc's."""
    with jax.enable_x64(True):
        pairs = zip(arrays, function.arguments, strict=True)
        results = function.run(*[_as(x, t.numpy_dtype) for x, t in pairs])
        return [_as(y, dtype) for y, dtype in zip(results, dtypes, strict=True)]


def _abstract(*types: Any, function: Transformable, linear: int) -> list[Any]:
    run = jax.make_jaxpr(lambda *xs: _run(*xs, function=function, linear=linear))
    results: list[Any] = run(*types).out_avals
    return results


call.def_impl(_run)  # type: ignore[no-untyped-call]
call.def_abstract_eval(_abstract)  # type: ignore[no-untyped-call]


def _lower(context: Any, *operands: Any, function: Transformable, linear: int) -> Any:
    del linear
    run = partial(run_as, [y.dtype for y in context.avals_out], function)
    # JAX builds the bodies of reductions, as of argmax, while it lowers them.
    with jax.enable_x64(True), compiling_for(context.module_context.platforms):
        return mlir.lower_fun(run, multiple_results=True)(context, *operands)


mlir.register_lowering(call, _lower)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, function: Transformable, linear: int
) -> tuple[Any, Any]:
    results = call.bind(*primals, function=function, linear=linear)  # type: ignore[no-untyped-call]
    out_tangents = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    moved = tuple(i for i, t in enumerate(tangents) if type(t) is not ad.Zero)
    wanted = tuple(i for i, t in enumerate(function.results) if is_inexact(t.dtype))
    if not moved or not wanted:
        return results, out_tangents
    first = len(primals) - linear
    if min(moved) >= first:
        # A function that is linear in the moved arguments is its own derivative.
        operands = [*primals[:first], *map(ad.instantiate_zeros, tangents[first:])]
        return results, call.bind(*operands, function=function, linear=linear)  # type: ignore[no-untyped-call]
    operands = [*primals, *[tangents[i] for i in moved]]
    jvp = function.jvp(moved, wanted)
    computed = call.bind(*operands, function=jvp, linear=len(moved))  # type: ignore[no-untyped-call]
    return results, replace_at(out_tangents, wanted, computed)


ad.primitive_jvps[call] = _jvp


def _transpose(
    cotangents: Sequence[Any], *arguments: Any, function: Transformable, linear: int
) -> list[Any]:
    del linear
    wanted = tuple(i for i, x in enumerate(arguments) if _is_linear(x))
    nonzero = tuple(i for i, g in enumerate(cotangents) if type(g) is not ad.Zero)
    if not nonzero:
        return [ad.Zero(x.aval) if _is_linear(x) else None for x in arguments]
    transpose, before = function.transpose(wanted, nonzero)
    values = [_value(arguments[i]) for i in before]
    gs = [_conjugate(cotangents[i]) for i in nonzero]
    computed = call.bind(*values, *gs, function=transpose, linear=len(gs))  # type: ignore[no-untyped-call]
    return replace_at([None] * len(arguments), wanted, map(_conjugate, computed))


def _conjugate(g: Any) -> Any:
    """Convert a cotangent between conventions: JAX's is the conjugate of graphc's."""
    return lax.conj(g) if jnp.iscomplexobj(g) else g


def _is_linear(x: Any) -> bool:
    """Return whether a transpose is with respect to an argument."""
    return ad.is_undefined_primal(x)  # type: ignore[no-any-return, no-untyped-call]


def _value(x: Any) -> Any:
    """Return the value of an argument; zeros for linear arguments, where any value does."""
    return jnp.zeros(x.aval.shape, x.aval.dtype) if _is_linear(x) else x


ad.primitive_transposes[call] = _transpose


def _batch(
    arguments: Sequence[Any], axes: Sequence[Any], *, function: Transformable, linear: int
) -> tuple[Any, Any]:
    flags = tuple(axis is not None for axis in axes)
    operands = [
        jnp.moveaxis(x, axis, 0) if flag else x
        for x, axis, flag in zip(arguments, axes, flags, strict=True)
    ]
    results = call.bind(*operands, function=function.batch(flags), linear=linear)  # type: ignore[no-untyped-call]
    return results, [0] * len(results)


batching.primitive_batchers[call] = _batch


def with_gradient(
    value: Callable[..., Any], value_and_grad: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a scalar function whose value and gradient are computed by one program.

    Args:
        value: A function of a state and a point, two pytrees, that returns a real scalar.
        value_and_grad: A function of the same arguments that returns the scalar and its gradient
            with respect to the floating arrays of the point, a pytree of these arrays alone.

    Returns:
        ``value``, with derivatives of any order; JAX derives those with respect to the state.
    """
    function = jax.custom_jvp(value)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        state, point = primals
        y, gradient = value_and_grad(state, point)
        leaves = jax.tree.leaves(tangents[1], is_leaf=_is_zero)
        pairs = zip(jax.tree.leaves(gradient), filterfalse(_is_discrete, leaves), strict=True)
        terms = [jnp.vdot(g, t) for g, t in pairs if not _is_zero(t)]
        if not all(map(_is_zero, jax.tree.leaves(tangents[0], is_leaf=_is_zero))):
            by_state = jax.tree.map(_instantiate, tangents[0], is_leaf=_is_zero)
            terms.append(jax.jvp(lambda s: value(s, point), (state,), (by_state,))[1])
        return y, _as(sum(terms, jnp.zeros((), y.dtype)), y.dtype)

    function.defjvp(rule, symbolic_zeros=True)
    return function


def _is_zero(t: Any) -> bool:
    return isinstance(t, SymbolicZero)


def _is_discrete(t: Any) -> bool:
    """Return whether a tangent belongs to an array of integers."""
    return getattr(t, "dtype", None) == jax.dtypes.float0


def _instantiate(t: Any) -> Any:
    if not _is_zero(t):
        return t
    return np.zeros(t.shape, t.dtype) if _is_discrete(t) else jnp.zeros(t.shape, t.dtype)
