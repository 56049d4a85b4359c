"""Products with packed codes that are sharded over explicit axes of a mesh.

Each device multiplies its shards. Where the summed axis is sharded, products are added up over its
devices; nothing else is communicated, unless x is sharded otherwise than the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax import lax
from jax.sharding import PartitionSpec

from graphc.implicit.quantized.coding import Coding
from graphc.link.jax.explicit import Claims, Entry, axes_of, explicit_axes, reshard, spec_of

Spec = tuple[Entry, ...]


class Placement(NamedTuple):
    """How the arrays of a product are sharded.

    Attributes:
        x: The spec of x.
        codes: That of words, scales and biases: whole groups lie on one device.
        y: That of the result.
        summed: The mesh axes over which the summed axis is sharded.
    """

    x: Spec
    codes: Spec
    y: Spec
    summed: tuple[Any, ...]

    @classmethod
    def of(cls, mesh: Any, transposed: bool, arrays: Sequence[Any]) -> Placement:
        """The placement of a product on a mesh: x keeps its rows, and the codes all they can."""
        x, packed, scales, *_ = map(spec_of, arrays)
        claims, groups = Claims(mesh), arrays[2].shape
        # A mesh axis that shards x's rows cannot shard the columns of the result.
        pairs = zip(x[:-2], packed[:-2], scales[:-2], strict=True)
        batch = [claims.claim(n, *own) for n, own in zip(arrays[0].shape, pairs, strict=False)]
        rows_of_x = claims.claim(arrays[0].shape[-2], x[-2])
        along, across = (-1, -2) if transposed else (-2, -1)
        k = claims.claim(groups[along], packed[along], scales[along], x[-1])
        n = claims.claim(groups[across], packed[across], scales[across])
        codes = (*batch, n, k) if transposed else (*batch, k, n)
        return cls((*batch, rows_of_x, k), codes, (*batch, rows_of_x, n), axes_of(k))


def sharded(
    one: Callable[..., Any], coding: Coding, transposed: bool, mesh: Any, arrays: Sequence[Any]
) -> Any:
    """The product of sharded arrays.

    Args:
        one: The product of the shards of one device.
        coding: What the codes mean.
        transposed: Whether the words are those of w's transpose.
        mesh: Over whose explicit axes they are sharded.
        arrays: x, words, scales, and biases where there are any.
    """
    place = Placement.of(mesh, transposed, arrays)
    specs = (place.x, *[place.codes] * (len(arrays) - 1))
    given = [reshard(x, mesh, spec) for x, spec in zip(arrays, specs, strict=True)]
    named: Any = PartitionSpec

    def local(*shards: Any) -> Any:
        y = one(coding, transposed, *shards)
        return lax.psum(y, place.summed) if place.summed else y  # type: ignore[no-untyped-call]

    run: Any = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=tuple(named(*spec) for spec in specs),
        out_specs=named(*place.y),
        axis_names=explicit_axes(mesh),
    )
    return run(*given)
