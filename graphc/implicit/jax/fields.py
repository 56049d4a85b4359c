"""Derivatives by what implicit arrays stand for, from and to those by their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero, zero_from_primal

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import whole
from graphc.implicit.straight import Straight

__all__ = ["flat", "is_perturbed", "is_smooth", "joined", "moved", "pulled_back", "pushed_forward"]

Whole = Callable[[Any], Any]
"""Makes an implicit array whole, and leaves another as it is."""


def is_smooth(x: Any) -> bool:
    """Whether there are derivatives by arrays of its dtype."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


def pushed_forward(whole: Whole, x: Any, t: Any) -> Any:
    """The tangent of the whole of an array, given that of its fields; None where it is zero."""
    while isinstance(x, Straight):
        x, t = x.toward, t.toward
    if not is_implicit(x):
        return None if _is_zero(t) else t
    slopes = jax.tree.leaves(t)
    moving = [i for i, slope in enumerate(slopes) if not _is_zero(slope)]
    if not moving or not is_smooth(x):
        return None
    function, moved = _by_fields(whole, x, moving)
    return jax.jvp(function, moved, [slopes[i] for i in moving])[1]


def pulled_back(whole: Whole, x: Any, g: Any) -> Any:
    """The cotangent of an array's fields, given that of its whole; of None, the latter."""
    if not is_implicit(x):
        return g
    if isinstance(x, Straight):
        return Straight(None, pulled_back(whole, x.toward, g))
    leaves, tree = jax.tree.flatten(x)
    moving = [i for i, leaf in enumerate(leaves) if is_smooth(leaf)]
    function, moved = _by_fields(whole, x, moving)
    _, pullback = jax.vjp(function, *moved)
    given = dict(zip(moving, pullback(g), strict=True))
    return jax.tree.unflatten(tree, [given.get(i) for i in range(len(leaves))])


def is_perturbed(x: Any, value: Any) -> bool:
    """Whether there is a derivative by an operand, each array of which says so of itself."""
    while isinstance(value, Straight):
        x, value = x.toward, value.toward
    marks = jax.tree.leaves(x, is_leaf=_is_marked)
    return is_smooth(value) and any(mark.perturbed and is_smooth(mark.value) for mark in marks)


def _is_marked(x: Any) -> bool:
    return hasattr(x, "perturbed")


def _is_zero(t: Any) -> bool:
    return isinstance(t, SymbolicZero) or t.dtype == jax.dtypes.float0


def _by_fields(whole: Whole, x: Any, moving: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
    """The whole of an implicit array as a function of some of its arrays, and these."""
    leaves, tree = jax.tree.flatten(x)

    def function(*moved: Any) -> Any:
        given = dict(zip(moving, moved, strict=True))
        return whole(jax.tree.unflatten(tree, [given.get(i, x) for i, x in enumerate(leaves)]))

    return function, [leaves[i] for i in moving]


flat: Callable[[Any], Any] = partial(zero_from_primal, symbolic_zeros=True)
"""No tangent of an array, which is never an array itself."""


def moved(whole: Whole, y: Any, towards: Sequence[Any]) -> Any:
    """A dense array, derived as the sum of others is, which may be implicit."""

    @jax.custom_jvp
    def value(y: Any, *towards: Any) -> Any:
        return y

    @partial(value.defjvp, symbolic_zeros=True)
    def _rule(primals: Any, tangents: Any) -> Any:
        y = value(*primals)
        pairs = zip(primals[1:], tangents[1:], strict=True)
        found = [pushed_forward(whole, x, t) for x, t in pairs]
        slopes = [t.astype(y.dtype) for t in found if t is not None]
        return y, sum(slopes[1:], slopes[0]) if slopes else flat(y)

    return value(y, *towards)


def joined(array: Any, toward: Any) -> Any:
    """The whole of the first array with the derivative of the second."""
    return moved(whole, whole(array), [toward])
