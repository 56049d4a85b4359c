"""Functions that JAX transforms, with graphc's derivatives and batches: a primitive of JAX's own.

A ``jax.custom_jvp`` would have JAX transpose the tangents' program, and a ``jax.custom_vjp`` has no
forward mode. A primitive has a rule for each; and what a rule gives is the primitive again, of
another graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from graphc.link.transformable import Transformable

call = Primitive("graphc")
"""Parameters are the function, and how many of its last arguments it is linear in."""
call.multiple_results = True


def transformable(function: Transformable) -> Executable:
    """Return a function that JAX can transform, in the floating dtypes that JAX has now."""

    def run(*arrays: Any) -> list[Any]:
        pairs = zip(arrays, function.arguments, strict=True)
        given = [_as(x, _own(t.numpy_dtype)) for x, t in pairs]
        return call.bind(*given, function=function, linear=0)  # type: ignore[no-any-return, no-untyped-call]

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
    dtypes = [_own(t.numpy_dtype) for t in function.results]
    with jax.enable_x64(True):
        pairs = zip(arrays, function.arguments, strict=True)
        found = function.run(*[_as(x, t.numpy_dtype) for x, t in pairs])
        return [_as(y, dtype) for y, dtype in zip(found, dtypes, strict=True)]


def _abstract(*types: Any, function: Transformable, linear: int) -> list[Any]:
    shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]  # type: ignore[no-untyped-call]
    found = jax.eval_shape(lambda *xs: _run(*xs, function=function, linear=linear), *shapes)
    return [jax.core.ShapedArray(y.shape, y.dtype) for y in found]


call.def_impl(_run)  # type: ignore[no-untyped-call]
call.def_abstract_eval(_abstract)  # type: ignore[no-untyped-call]
mlir.register_lowering(call, mlir.lower_fun(_run, multiple_results=True))


def _inexact(function: Transformable) -> tuple[int, ...]:
    """The results that have tangents."""
    return tuple(i for i, t in enumerate(function.results) if is_inexact(t.dtype))


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, function: Transformable, linear: int
) -> tuple[Any, Any]:
    results = call.bind(*primals, function=function, linear=linear)  # type: ignore[no-untyped-call]
    found = [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    moved = tuple(i for i, t in enumerate(tangents) if type(t) is not ad.Zero)
    wanted = _inexact(function)
    if not moved or not wanted:
        return results, found
    first = len(primals) - linear
    if min(moved) >= first:
        given = [*primals[:first], *map(ad.instantiate_zeros, tangents[first:])]
        made = call.bind(*given, function=function, linear=linear)  # type: ignore[no-untyped-call]
        return results, made
    given = [*primals, *[tangents[i] for i in moved]]
    pushed = function.jvp(moved, wanted)
    made = call.bind(*given, function=pushed, linear=len(moved))  # type: ignore[no-untyped-call]
    for i, t in zip(wanted, made, strict=True):
        found[i] = t
    return results, found


ad.primitive_jvps[call] = _jvp


def _transpose(
    cotangents: Sequence[Any], *arguments: Any, function: Transformable, linear: int
) -> list[Any]:
    del linear
    wanted = tuple(i for i, x in enumerate(arguments) if _is_open(x))
    given = tuple(i for i, g in enumerate(cotangents) if type(g) is not ad.Zero)
    found: list[Any] = [None] * len(arguments)
    if not given:
        return [ad.Zero(x.aval) if _is_open(x) else None for x in arguments]
    pulled, before = function.transpose(wanted, given)
    known = [_known(arguments[i]) for i in before]
    gs = [_conjugate(cotangents[i]) for i in given]
    made = call.bind(*known, *gs, function=pulled, linear=len(gs))  # type: ignore[no-untyped-call]
    for i, g in zip(wanted, made, strict=True):
        found[i] = _conjugate(g)
    return found


def _conjugate(g: Any) -> Any:
    """Convert a cotangent between conventions: JAX's is the conjugate of graphc's."""
    return lax.conj(g) if jnp.iscomplexobj(g) else g


def _is_open(x: Any) -> bool:
    """Whether an argument is one that is to be transposed."""
    return ad.is_undefined_primal(x)  # type: ignore[no-any-return, no-untyped-call]


def _known(x: Any) -> Any:
    """Return an argument; for linear ones any value does."""
    return jnp.zeros(x.aval.shape, x.aval.dtype) if _is_open(x) else x


ad.primitive_transposes[call] = _transpose


def _batch(
    arguments: Sequence[Any], axes: Sequence[Any], *, function: Transformable, linear: int
) -> tuple[Any, Any]:
    flags = tuple(axis is not None for axis in axes)
    given = [
        jnp.moveaxis(x, axis, 0) if flag else x
        for x, axis, flag in zip(arguments, axes, flags, strict=True)
    ]
    made = call.bind(*given, function=function.batch(flags), linear=linear)  # type: ignore[no-untyped-call]
    return made, [0] * len(made)


batching.primitive_batchers[call] = _batch


def with_gradient(value: Callable[..., Any], both: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar function whose gradient is computed together with its value, as one program.

    Args:
        value: A function of a state and a place, two pytrees, to a real scalar.
        both: Of the same, to the scalar and its gradient with respect to the floating arrays of
            the place, a pytree of these alone.

    Returns:
        ``value``, with derivatives of any order. Those with respect to the state are its own.
    """
    function = jax.custom_jvp(value)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        state, place = primals
        y, slopes = both(state, place)
        given = [t for t in jax.tree.leaves(tangents[1], is_leaf=_is_zero) if not _is_discrete(t)]
        pairs = zip(jax.tree.leaves(slopes), given, strict=True)
        moved = [jnp.vdot(g, t) for g, t in pairs if not _is_zero(t)]
        if not all(map(_is_zero, jax.tree.leaves(tangents[0], is_leaf=_is_zero))):
            by_state = jax.tree.map(_instantiated, tangents[0], is_leaf=_is_zero)
            moved.append(jax.jvp(lambda s: value(s, place), (state,), (by_state,))[1])
        return y, _as(sum(moved, jnp.zeros((), y.dtype)), y.dtype)

    function.defjvp(rule, symbolic_zeros=True)
    return function


def _is_zero(t: Any) -> bool:
    return isinstance(t, SymbolicZero)


def _is_discrete(t: Any) -> bool:
    """Whether a tangent is one of integers."""
    return getattr(t, "dtype", None) == jax.dtypes.float0


def _instantiated(t: Any) -> Any:
    if not _is_zero(t):
        return t
    return np.zeros(t.shape, t.dtype) if _is_discrete(t) else jnp.zeros(t.shape, t.dtype)
