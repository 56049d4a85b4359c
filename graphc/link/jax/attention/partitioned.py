"""Attention in programs over a mesh: each device attends with its own sequences, heads and queries.

XLA chooses how the arrays around attention are sharded, and the choice is not known while JAX
traces. Therefore a program with attention is lowered twice (``partitions.py``). In the first
lowering, attention is a call without a body: a sharding rule relates the axes of its arrays, and
XLA reports their shardings. In the second lowering, attention is a ``jax.shard_map`` over these
axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from graphc.link.jax.attention.aligned import Roles
from graphc.link.jax.attention.shards import Sharding
from graphc.link.jax.explicit import Claims, Entry, axes_of
from graphc.link.jax.partitions import choices
from graphc.link.jax.varying import varying_together

BATCH, HEADS, QUERIES = range(3)

DECIDING = 3
"""The number of operands, and of results, that decide the sharding: queries, keys, values."""

NAMES = ("batch", "heads", "queries")
"""The names of the factors in XLA's sharding rule."""


@dataclass(frozen=True)
class PartitionedComputation:
    """A computation that can be sharded over batches, heads and queries.

    Attributes:
        run: A function of a sharding and of a device's arrays to a sequence of results. A result
            that lacks a sharded axis is the device's term in a sum over that axis.
        operands: The roles of the operands' axes.
        results: The roles of the results' axes.
        counts: The numbers of batches, heads and queries that can be sharded; heads that share
            keys, and queries of a block, stay together.
    """

    run: Callable[[Sharding, Sequence[Any]], Sequence[Any]]
    operands: Sequence[Roles]
    results: Sequence[Roles]
    counts: tuple[int, int, int]

    def choose_sharding(
        self, mesh: Mesh, operands: Sequence[Any], results: Sequence[Any]
    ) -> Sharding:
        """Return the computation's sharding, from the shardings that XLA gives its arrays."""
        claims = Claims(mesh)
        pairs = [
            *zip(self.operands[:DECIDING], operands, strict=False),
            *zip(self.results[:DECIDING], results, strict=False),
        ]
        entries_by_role = []
        for role, count in enumerate(self.counts):
            entries = [
                entry
                for roles, x in pairs
                for axis_role, entry in zip(roles, _spec_of(x), strict=False)
                if axis_role == role
            ]
            entries_by_role.append(claims.claim(count, *entries))
        return Sharding(*entries_by_role)

    def specs(self, sharding: Sharding, arrays: Sequence[Roles]) -> list[Any]:
        """Return JAX's partition specs of arrays."""
        named: Any = PartitionSpec
        entries: dict[int | None, Entry] = dict(enumerate(sharding.entries))
        return [named(*[entries.get(role) for role in roles]) for roles in arrays]

    def shard_map(self, mesh: Mesh, sharding: Sharding, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the results, where each device computes with its shards of the arrays."""

        def local(*shards: Any) -> Any:
            results = self.run(sharding, varying_together(shards))
            return tuple(map(_psum, results, [_missing(sharding, x) for x in self.results]))

        run: Any = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=tuple(self.specs(sharding, self.operands)),
            out_specs=tuple(self.specs(sharding, self.results)),
        )
        return run(*arrays)  # type: ignore[no-any-return]

    def rule(self, operands: Sequence[Any], results: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """Return the sharding rule that ``custom_partitioning`` takes, which relates the axes."""
        replicated: list[str] = []
        alone: set[str] = set()
        sizes: dict[str, int] = {}

        def fresh() -> str:
            replicated.append(f"whole{len(replicated)}")
            return replicated[-1]

        def factor(role: int | None, length: int) -> str:
            if role is None:
                return fresh()
            name, count = NAMES[role], self.counts[role]
            if length == count:
                alone.add(name)
                return name
            rest = fresh()
            sizes.update({name: count, rest: length // count})
            return f"({name} {rest})"

        def format_axes(arrays: Sequence[Any], roles: Sequence[Roles]) -> str:
            pairs = zip(arrays, roles, strict=True)
            return ", ".join(" ".join(map(factor, roles, x.shape)) for x, roles in pairs)

        text = f"{format_axes(operands, self.operands)} -> {format_axes(results, self.results)}"
        compound = {name: n for name, n in sizes.items() if name not in alone}
        return text, {"need_replication_factors": tuple(replicated), **compound}


def _missing(sharding: Sharding, roles: Roles) -> tuple[Any, ...]:
    """Return the mesh axes over which a result is summed."""
    pairs = enumerate(sharding.entries)
    return tuple([axis for role, entry in pairs if role not in roles for axis in axes_of(entry)])


def _psum(x: Any, axes: tuple[Any, ...]) -> Any:
    return lax.psum(x, axes) if axes else x  # type: ignore[no-untyped-call]


def _spec_of(x: Any) -> Sequence[Entry]:
    return tuple(x.sharding.spec) if isinstance(x.sharding, NamedSharding) else ()


# XLA's choice.


def over_mesh(
    computation: PartitionedComputation, mesh: Mesh, arrays: Sequence[Any]
) -> Sequence[Any]:
    """Return the results of a computation in a program over a mesh."""
    shardings = choices()
    if shardings is None or mesh.size == 1:
        # Other code compiles the program.
        return computation.run(Sharding(), arrays)
    index = shardings.next()
    if shardings.are_known:
        return computation.shard_map(mesh, shardings.choices[index] or Sharding(), arrays)
    return _ask_xla(computation, mesh, arrays, lambda sharding: shardings.enter(index, sharding))


def _ask_xla(
    computation: PartitionedComputation,
    mesh: Mesh,
    arrays: Sequence[Any],
    report: Callable[[Sharding], None],
) -> Sequence[Any]:
    """Return zeros for the results; ``report`` gets the sharding that XLA chooses."""
    results = jax.eval_shape(lambda *xs: tuple(computation.run(Sharding(), xs)), *arrays)

    def stand_in(*arrays: Any) -> Any:
        del arrays
        return tuple([_zeros(y.shape, y.dtype) for y in results])

    def partition(current_mesh: Any, operands: Any, outputs: Any) -> Any:
        del current_mesh  # empty if no array has a mesh
        sharding = computation.choose_sharding(mesh, operands, outputs)
        report(sharding)
        of_operands, of_results = (
            tuple([NamedSharding(mesh, spec) for spec in computation.specs(sharding, roles)])
            for roles in (computation.operands, computation.results)
        )
        shapes = [s.shard_shape(y.shape) for s, y in zip(of_results, results, strict=True)]
        dtypes = [y.dtype for y in results]
        return mesh, lambda *_: tuple(map(_zeros, shapes, dtypes)), of_results, of_operands

    call: Any = custom_partitioning(stand_in)  # type: ignore[no-untyped-call]
    text, factors = computation.rule(arrays, results)
    call.def_partition(partition, sharding_rule=text, **factors)
    return call(*arrays)  # type: ignore[no-any-return]


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    # XLA calls from another thread, which has the settings of the process.
    with jax.enable_x64(True):
        return lax.full(shape, 0, dtype)
