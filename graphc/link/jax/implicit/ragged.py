"""``lax.ragged_dot`` of a stack of structured matrices, such as the packed experts of a model.

Rows are multiplied some at a time, each time by the one matrix of their group: none of the others
is decoded, and none is made whole.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit import index
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.layout import StructureLost, require, structural, transpose
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef
from graphc.link.jax.implicit.rules import at_precision
from graphc.link.jax.varying import varying_together

MOST = 128
"""So many rows are multiplied at a time, at most."""


@register("ragged_dot_general")
@structural
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
    ((left,), (right,)), batch = numbers.dot_dimension_numbers
    ragged = *map(int, numbers.lhs_ragged_dimensions), *map(int, numbers.rhs_group_dimensions)
    is_plain = not any(batch) and ragged == (0, 0) and left == 1
    if not is_plain or is_implicit(x) or sizes.ndim != 1:
        return NotImplemented
    w = w if right == 1 else transpose(w, (0, 2, 1))
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
    # A group has so many rows on average, in a power of two.
    some = min(MOST, m, 1 << (-(-m // groups) - 1).bit_length())

    def add(y: Any, tile: Any) -> tuple[Any, None]:
        group, start, stop = tile

        def added(y: Any) -> Any:
            first = jnp.minimum(start, m - some)
            found = _whole(require(index.take_slices(w, group, 0)).times(_rows(x, first, some)))
            places = first + jnp.arange(some)
            inside = (start <= places) & (places < stop)
            total = _rows(y, first, some) + jnp.where(inside[:, None], found, 0).astype(dtype)
            return lax.dynamic_update_slice_in_dim(y, total, first, 0)

        return lax.cond(start < stop, added, lambda y: y, y), None

    # A gradient decodes the matrices again: to keep them would be to keep all of them.
    zero, _ = varying_together([jnp.zeros((m, n), dtype), x])
    return lax.scan(jax.checkpoint(add), zero, _tiles(sizes, m, some))[0]


def _rows(x: Any, start: Any, count: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, count)


def _whole(y: Any) -> Any:
    """Return a product that is no implicit array.

    Raises:
        StructureLost: It is one, or none.
    """
    if isinstance(require(y), ImplicitArray):
        raise StructureLost
    return y


def _tiles(sizes: Any, m: int, some: int) -> tuple[Any, Any, Any]:
    """So many rows of one group each: the group, the first row, and the one behind the last.

    As many as there may be; those that are not needed are empty.
    """
    groups = sizes.shape[0]
    counts, stops = -(-sizes // some), jnp.cumsum(sizes)
    ends = jnp.cumsum(counts)
    number = jnp.arange(min(groups, m) + m // some, dtype=sizes.dtype)
    group = jnp.minimum(jnp.searchsorted(ends, number, side="right"), groups - 1)
    start = stops[group] - sizes[group] + (number - ends[group] + counts[group]) * some
    # Rows beyond the last are none of x, and the numbers beyond the last tile are none of a group.
    return group, start, jnp.minimum(jnp.minimum(start + some, stops[group]), m)
