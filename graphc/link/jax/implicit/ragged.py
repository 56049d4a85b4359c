"""``lax.ragged_dot`` of a stack of structured matrices, such as the packed experts of a model.

Rows are multiplied in tiles of one group each: a tile decodes the matrix of its group, and no
matrix is densified.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit import index
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.layout import StructureLost, require, transpose
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef
from graphc.link.jax.implicit.rules import at_precision
from graphc.link.jax.varying import varying_together

MAX_TILE = 128
"""The largest number of rows in a tile."""


@register("ragged_dot_general")
def _ragged_dot(
    x: Any,
    w: Structured,
    sizes: Any,
    *,
    ragged_dot_dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    **_: Any,
) -> Any:
    numbers = ragged_dot_dimension_numbers
    ((x_axis,), (w_axis,)), batch = numbers.dot_dimension_numbers
    ragged = *map(int, numbers.lhs_ragged_dimensions), *map(int, numbers.rhs_group_dimensions)
    is_plain = not any(batch) and ragged == (0, 0) and x_axis == 1
    if not is_plain or is_implicit(x) or sizes.ndim != 1:
        return NotImplemented
    w = w if w_axis == 1 else transpose(w, (0, 2, 1))
    dtype = preferred_element_type or jnp.promote_types(x.dtype, w.dtype)
    with at_precision(precision):
        return _product(x, w, sizes, dtype)


def _product(x: Any, w: Any, sizes: Any, dtype: Any) -> Any:
    m, n, groups = x.shape[0], w.shape[2], sizes.shape[0]
    if not (m and n and groups):
        return jnp.zeros((m, n), dtype)
    treedef, leaves = Treedef.of(w)
    x, sizes, *leaves = varying_together([x, sizes, *leaves])
    w = treedef.build(leaves)
    # The mean number of rows of a group, rounded up to a power of two.
    size = min(MAX_TILE, m, 1 << (-(-m // groups) - 1).bit_length())

    def add_tile(y: Any, tile: Any) -> tuple[Any, None]:
        group, start, stop = tile

        def add(y: Any) -> Any:
            first = jnp.minimum(start, m - size)
            product = require(index.take_slices(w, group, 0).rmatmul(_rows(x, first, size)))
            if isinstance(product, ImplicitArray):
                raise StructureLost
            positions = first + jnp.arange(size)
            inside = (start <= positions) & (positions < stop)
            rows = _rows(y, first, size) + jnp.where(inside[:, None], product, 0).astype(dtype)
            return lax.dynamic_update_slice_in_dim(y, rows, first, 0)

        return lax.cond(start < stop, add, lambda y: y, y), None

    # The gradient decodes matrices again: saved, all of them would be in memory together.
    zero, _ = varying_together([jnp.zeros((m, n), dtype), x])
    return lax.scan(jax.checkpoint(add_tile), zero, _tiles(sizes, m, size))[0]


def _rows(x: Any, start: Any, count: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, count)


def _tiles(sizes: Any, m: int, size: int) -> tuple[Any, Any, Any]:
    """Return the group, the first row and the stop row of each tile of at most ``size`` rows.

    The number of tiles is the largest possible; the last tiles may be empty.
    """
    groups = sizes.shape[0]
    counts, stops = -(-sizes // size), jnp.cumsum(sizes)
    ends = jnp.cumsum(counts)
    tile = jnp.arange(min(groups, m) + m // size, dtype=sizes.dtype)
    group = jnp.minimum(jnp.searchsorted(ends, tile, side="right"), groups - 1)
    start = stops[group] - sizes[group] + (tile - ends[group] + counts[group]) * size
    # Sizes may add up to more than m; tiles behind the last group's are empty.
    return group, start, jnp.minimum(jnp.minimum(start + size, stops[group]), m)
