"""Mesh axes over which arrays vary within ``jax.shard_map``.

There JAX types an array by the axes of the mesh over whose devices it differs, and casts operands
of its own primitives to what they vary over together. Carries of loops, operands of graphc's own
primitives and residuals of derivatives are cast here.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax
from jax import lax

T = TypeVar("T")

Axes = frozenset[Any]


def type_of(x: Any) -> Any:
    """The type of an array, or the type itself."""
    return x if isinstance(x, jax.core.ShapedArray) else jax.typeof(x)


def varying_axes(*arrays: Any) -> Axes:
    """The mesh axes over which any of the arrays varies; none outside of ``jax.shard_map``."""
    found: Axes = frozenset()
    for x in arrays:
        found |= _axes_of(type_of(x))
    return found


def _axes_of(aval: Any) -> Axes:
    # JAX up to 0.9 has the axes in the type itself.
    kind = getattr(aval, "manual_axis_type", None)
    axes: Any = getattr(aval, "vma", ()) if kind is None else kind.varying
    return frozenset(axes)


def vary(x: Any, axes: Axes) -> Any:
    """The array, cast to vary over axes; its cotangent is summed over those that are new."""
    missing = tuple(sorted(axes - varying_axes(x), key=str))
    if not missing:
        return x
    cast: Any = lax
    # JAX up to 0.8 has one of the two.
    if hasattr(cast, "pcast"):
        return cast.pcast(x, missing, to="varying")
    return cast.pvary(x, missing)


def vary_as(tree: T, *arrays: Any) -> T:
    """The arrays of a tree, cast to vary over what any of the arrays varies over."""
    axes = varying_axes(*arrays)
    found: T = jax.tree.map(lambda x: vary(x, axes), tree) if axes else tree
    return found


def varying_together(tree: T) -> T:
    """The arrays of a tree, each cast to vary over what any of them varies over."""
    return vary_as(tree, *jax.tree.leaves(tree))
