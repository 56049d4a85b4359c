"""Products with packed codes that are sharded over explicit axes of a mesh.

Each device multiplies its shards. If the summed axis is sharded, the products are added up over its
devices. Nothing else is communicated, unless x is sharded differently from the codes.
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


class ProductSharding(NamedTuple):
    """The shardings of the arrays of a product.

    Attributes:
        x: The spec of x.
        codes: The spec of words, scales and biases; each group is on one device.
        y: The spec of the result.
        summed: The mesh axes over which the summed axis is sharded.
    """

    x: Spec
    codes: Spec
    y: Spec
    summed: tuple[Any, ...]

    @classmethod
    def of(cls, mesh: Any, transposed: bool, arrays: Sequence[Any]) -> ProductSharding:
        """Return the shardings of a product: x keeps its rows' axes, the codes keep the others."""
        x, packed, scales, *_ = map(spec_of, arrays)
        claims, groups = Claims(mesh), arrays[2].shape
        # A mesh axis that shards x's rows cannot shard the columns of the result.
        pairs = zip(x[:-2], packed[:-2], scales[:-2], strict=True)
        batch = [claims.claim(n, *own) for n, own in zip(arrays[0].shape, pairs, strict=False)]
        rows = claims.claim(arrays[0].shape[-2], x[-2])
        along, across = (-1, -2) if transposed else (-2, -1)
        k = claims.claim(groups[along], packed[along], scales[along], x[-1])
        n = claims.claim(groups[across], packed[across], scales[across])
        codes = (*batch, n, k) if transposed else (*batch, k, n)
        return cls((*batch, rows, k), codes, (*batch, rows, n), axes_of(k))


def matmul_shards(
    one: Callable[..., Any], coding: Coding, transposed: bool, mesh: Any, arrays: Sequence[Any]
) -> Any:
    """Return the product of sharded arrays.

    Args:
        one: A function that returns the product of one device's shards.
        coding: The coding of the words.
        transposed: Whether the words code w's transpose.
        mesh: The mesh over whose explicit axes the arrays are sharded.
        arrays: x, words, scales, and biases if there are any.
    """
    sharding = ProductSharding.of(mesh, transposed, arrays)
    specs = (sharding.x, *[sharding.codes] * (len(arrays) - 1))
    arrays = [reshard(x, mesh, spec) for x, spec in zip(arrays, specs, strict=True)]
    pspec: Any = PartitionSpec

    def local(*shards: Any) -> Any:
        y = one(coding, transposed, *shards)
        return lax.psum(y, sharding.summed) if sharding.summed else y  # type: ignore[no-untyped-call]

    run: Any = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=tuple(pspec(*spec) for spec in specs),
        out_specs=pspec(*sharding.y),
        axis_names=explicit_axes(mesh),
    )
    return run(*arrays)
