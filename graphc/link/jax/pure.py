"""Functions that JAX transforms with graphc's derivatives and batch rules, which are graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import filterfalse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from graphc.ir import is_inexact
from graphc.link.backend import Executable
from graphc.link.jax.applied import Rules, zeros_for_types
from graphc.link.jax.jaxprs import replace_at
from graphc.link.transformable import Transformable


def transformable(function: Transformable) -> Executable:
    """Return a function that JAX can transform, in the floating dtypes that JAX has now."""

    def run(*arrays: Any) -> list[Any]:
        pairs = zip(arrays, function.arguments, strict=True)
        return GraphRules(function).apply([_as(x, _own(t.numpy_dtype)) for x, t in pairs])

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


class GraphRules(Rules):
    """A graph's program with graphc's derivatives and batches; it computes in graphc's dtypes.

    Args:
        function: The function.
        linear: The number of last arguments in which the function is linear.
    """

    wide = droppable = True

    def __init__(self, function: Transformable, linear: int = 0) -> None:
        self.function = function
        self.linear = linear
        # The results' dtypes in JAX, which lowers the function under another setting.
        self.dtypes = [_own(t.numpy_dtype) for t in function.results]

    def run(self, *arrays: Any) -> list[Any]:
        with jax.enable_x64(True):
            pairs = zip(arrays, self.function.arguments, strict=True)
            results = self.function.run(*[_as(x, t.numpy_dtype) for x, t in pairs])
            return [_as(y, dtype) for y, dtype in zip(results, self.dtypes, strict=True)]

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        results, none = self.apply(arrays), [None] * len(self.dtypes)
        moved = tuple(i for i, t in enumerate(tangents) if t is not None)
        wanted = tuple(i for i, t in enumerate(self.function.results) if is_inexact(t.dtype))
        if not moved or not wanted:
            return results, none
        first = len(arrays) - self.linear
        if min(moved) >= first:
            # A function that is linear in the moved arguments is its own derivative.
            pairs = zip(arrays[first:], tangents[first:], strict=True)
            directions = [jnp.zeros_like(x) if t is None else t for x, t in pairs]
            return results, self.apply([*arrays[:first], *directions])
        rules = GraphRules(self.function.jvp(moved, wanted), len(moved))
        computed = rules.apply([*arrays, *[tangents[i] for i in moved]])
        return results, replace_at(none, wanted, computed)

    def transpose(self, arrays: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]) -> Any:
        wanted = tuple(i for i, flag in enumerate(is_linear) if flag)
        nonzero = tuple(i for i, g in enumerate(gs) if g is not None)
        transpose, before = self.function.transpose(wanted, nonzero)
        cotangents = [_conjugate(gs[i]) for i in nonzero]
        rules = GraphRules(transpose, len(nonzero))
        computed = rules.apply([*zeros_for_types([arrays[i] for i in before]), *cotangents])
        return replace_at([None] * len(arrays), wanted, map(_conjugate, computed))

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None], axis: Any) -> list[Any]:
        flags = tuple(d is not None for d in axes)
        return GraphRules(self.function.batch(flags), self.linear).apply(arrays)


def _conjugate(g: Any) -> Any:
    """Convert a cotangent between conventions: JAX's is the conjugate of graphc's."""
    return lax.conj(g) if jnp.iscomplexobj(g) else g


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
