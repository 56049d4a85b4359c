"""Derivatives with respect to implicit arrays and to their fields, converted both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import densify
from graphc.implicit.straight_through import StraightThrough
from graphc.link.jax.implicit.applied import apply
from graphc.link.jax.implicit.deferred import DeferredResult, Known, flat, is_zero

Whole = Callable[[Any], Any]
"""Makes an implicit array whole, and leaves another as it is."""


def is_smooth(x: Any) -> bool:
    """Whether arrays of its dtype have derivatives."""
    return bool(jnp.issubdtype(jnp.result_type(x), jnp.inexact))


def pushed_forward(whole: Whole, x: Any, t: Any, known: Known | None = None) -> Any:
    """Return the whole array's tangent, given those of its fields; None where it is zero."""
    while isinstance(x, StraightThrough):
        x, t = x.toward, t.toward
    if not is_implicit(x):
        return None if is_zero(t) else t
    if isinstance(x, DeferredResult):
        return x.slope(t.arrays, {} if known is None else known)
    slopes = jax.tree.leaves(t)
    moving = [i for i, slope in enumerate(slopes) if not is_zero(slope)]
    if not moving or not is_smooth(x):
        return None
    function, moved = _by_fields(whole, x, moving)
    return jax.jvp(function, moved, [slopes[i] for i in moving])[1]


def moves(t: Any) -> Any:
    """Return which of an array's leaves have tangents, in the array's tree."""
    return jax.tree.map(lambda slope: not is_zero(slope), t)


def any_moves(moves: Any) -> bool:
    """Whether any leaf of an array has a tangent."""
    return any(jax.tree.leaves(moves))


def advanced(x: Any, moves: Any, known: Known) -> Any:
    """Return an operand as its derivative's program has it: see ``DeferredResult.advanced``."""
    if isinstance(x, DeferredResult):
        return x.advanced(moves.arrays, known)
    if not isinstance(x, StraightThrough):
        return x
    toward = advanced(x.toward, moves.toward, known)
    return x if toward is x.toward else StraightThrough(x.array, toward)


def pulled_back(whole: Whole, x: Any, g: Any, wanted: Sequence[bool] | None = None) -> list[Any]:
    """Return the cotangents of an array's leaves, given that of the whole array; None for zero.

    Args:
        whole: Makes an array whole.
        x: The array.
        g: The cotangent of the whole.
        wanted: Which leaves' cotangents are, by default all.
    """
    leaves = jax.tree.leaves(x)
    flags = [True] * len(leaves) if wanted is None else list(wanted)
    if not is_implicit(x):
        return [g]
    if isinstance(x, StraightThrough):
        count = len(jax.tree.leaves(x.array))
        return [*[None] * count, *pulled_back(whole, x.toward, g, flags[count:])]
    moving = [i for i, leaf in enumerate(leaves) if flags[i] and is_smooth(leaf)]
    if isinstance(x, DeferredResult):
        pullback = _by_arrays(x, moving)
    else:
        function, moved = _by_fields(whole, x, moving)
        _, pullback = jax.vjp(function, *moved)
    given = dict(zip(moving, pullback(g), strict=True))
    return [given.get(i) for i in range(len(leaves))]


def _by_arrays(x: DeferredResult, moving: Sequence[int]) -> Callable[[Any], Sequence[Any]]:
    """Return the pullback of a deferred result to some of its arrays."""
    fixed = list(map(flat, x.arrays))

    def slope(*slopes: Any) -> Any:
        given = dict(zip(moving, slopes, strict=True))
        return x.slope([given.get(i, t) for i, t in enumerate(fixed)], {})

    pullback: Any = jax.linear_transpose(slope, *[x.arrays[i] for i in moving])
    return pullback  # type: ignore[no-any-return]


def is_perturbed(x: Any, value: Any) -> bool:
    """Whether an operand is perturbed, given the marks of its arrays."""
    while isinstance(value, StraightThrough):
        x, value = x.toward, value.toward
    return is_smooth(value) and any_moves(perturbed(x))


def perturbed(x: Any) -> Any:
    """Return which leaves of an operand are perturbed, in its tree, given their marks."""

    def moves(mark: Any) -> bool:
        return bool(mark.perturbed and is_smooth(mark.value))

    return jax.tree.map(moves, x, is_leaf=_is_marked)


def _is_marked(x: Any) -> bool:
    return hasattr(x, "perturbed")


def _by_fields(whole: Whole, x: Any, moving: Sequence[int]) -> tuple[Callable[..., Any], list[Any]]:
    """Return the whole array as a function of some of its fields, and these fields."""
    leaves, tree = jax.tree.flatten(x)

    def function(*moved: Any) -> Any:
        given = dict(zip(moving, moved, strict=True))
        return whole(jax.tree.unflatten(tree, [given.get(i, x) for i, x in enumerate(leaves)]))

    return function, [leaves[i] for i in moving]


def replace_derivative(whole: Whole, y: Any, towards: Sequence[Any]) -> Any:
    """Give a dense array the derivative of a sum of others, which may be implicit."""
    leaves, tree = jax.tree.flatten(list(towards))
    (found,) = apply(_Replaced(whole, tree), [y, *leaves])
    return found


@dataclass(frozen=True, eq=False)
class _Replaced:
    """The first array, with the derivative of the sum of others.

    Attributes:
        whole: Makes the others whole.
        towards: Their tree.
    """

    whole: Whole
    towards: Any

    def run(self, *leaves: Any) -> list[Any]:
        return [leaves[0]]

    def derived(self, leaves: Sequence[Any], tangents: Sequence[Any]) -> Any:
        y, *others = leaves
        known: Known = {}
        pairs = list(zip(self._built(others), self._built(tangents[1:]), strict=True))
        found = [pushed_forward(self.whole, x, t, known) for x, t in pairs]
        slopes = [t.astype(y.dtype) for t in found if t is not None]
        again = replace_derivative(self.whole, y, [advanced(x, moves(t), known) for x, t in pairs])
        return [again], [sum(slopes[1:], slopes[0]) if slopes else None]

    def transposed(
        self, leaves: Sequence[Any], opened: Sequence[bool], gs: Sequence[Any]
    ) -> list[Any]:
        found: list[Any] = [None]
        for x in self._built(leaves[1:]):
            flags = opened[len(found) : len(found) + len(jax.tree.leaves(x))]
            found += (
                pulled_back(self.whole, x, gs[0].astype(x.dtype), flags)
                if any(flags)
                else [None] * len(flags)
            )
        return found

    def _built(self, leaves: Sequence[Any]) -> Any:
        return jax.tree.unflatten(self.towards, leaves)


def joined(array: Any, toward: Any) -> Any:
    """Return the whole first array with the derivative of the second."""
    if isinstance(toward, DeferredResult):
        found = toward.computed()
        if found is not None:
            return found
    return replace_derivative(densify, densify(array), [toward])
