"""Mesh axes over which arrays vary within ``jax.shard_map``.

JAX types an array by the axes of the mesh over whose devices it differs, and casts operands of
JAX's primitives to the union of these axes. Carries of loops, operands of graphc's primitives and
residuals of derivatives are cast here.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax

from graphc.link.jax.releases import cast_varying, varying_axes_of

T = TypeVar("T")

Axes = frozenset[Any]


def type_of(x: Any) -> Any:
    """Return the type of an array, or the type itself."""
    return x if isinstance(x, jax.core.ShapedArray) else jax.typeof(x)


def varying_axes(*arrays: Any) -> Axes:
    """Return the mesh axes over which any array varies; none outside of ``jax.shard_map``."""
    axes: Axes = frozenset()
    for x in arrays:
        axes |= varying_axes_of(type_of(x))
    return axes


def vary(x: Any, axes: Axes) -> Any:
    """Cast an array to vary over axes; its cotangent is summed over the axes that are new."""
    missing = tuple(sorted(axes - varying_axes(x), key=str))
    return cast_varying(x, missing) if missing else x


def vary_as(tree: T, *arrays: Any) -> T:
    """Cast the arrays of a tree to vary over all axes over which one of ``arrays`` varies."""
    axes = varying_axes(*arrays)
    cast: T = jax.tree.map(lambda x: vary(x, axes), tree) if axes else tree
    return cast


def varying_together(tree: T) -> T:
    """Cast the arrays of a tree to vary over all axes over which one of them varies."""
    return vary_as(tree, *jax.tree.leaves(tree))
