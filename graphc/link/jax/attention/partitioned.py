"""Attention in programs over a mesh: each device attends with its own sequences, heads and queries.

How the arrays around attention are divided is XLA's choice, and no array says so while JAX traces.
So a program with attention is lowered twice (``divided.py``). The first time, attention is a call
without a body: a rule tells XLA which axes belong together, and XLA tells how it divides them. The
second time it is a ``jax.shard_map`` over these axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from graphc.link.jax.attention.shards import Sharding
from graphc.link.jax.divided import choices
from graphc.link.jax.explicit import Claims, Entry, axes_of
from graphc.link.jax.varying import varying_together

Roles = tuple[int | None, ...]
"""For each axis of an array what it counts: batches (0), heads (1), queries (2), or others."""

BATCH, HEADS, QUERIES = range(3)

DECIDING = 3
"""How many of its first operands, and results, decide how it is divided: queries, keys, values."""

NAMES = ("batch", "heads", "queries")
"""The factors of lengths in the rule that XLA is given."""


@dataclass(frozen=True)
class Part:
    """A computation of which each device can do its part.

    Attributes:
        run: How it is divided, and arrays, to a sequence of results. Of what is not divided by all
            of these axes, each device gives what its own part adds to it.
        operands: The roles of its arrays.
        results: The roles of its results.
        counts: How many batches, heads and queries there are to divide; heads that share keys, and
            queries of a block, stay together.
    """

    run: Callable[[Sharding, Sequence[Any]], Sequence[Any]]
    operands: Sequence[Roles]
    results: Sequence[Roles]
    counts: tuple[int, int, int]

    def chosen(self, mesh: Mesh, operands: Sequence[Any], results: Sequence[Any]) -> Sharding:
        """How it is divided where XLA divides its arrays so."""
        claims = Claims(mesh)
        pairs = [
            *zip(self.operands[:DECIDING], operands, strict=False),
            *zip(self.results[:DECIDING], results, strict=False),
        ]
        found = []
        for role, count in enumerate(self.counts):
            entries = [
                entry
                for roles, x in pairs
                for own, entry in zip(roles, _spec_of(x), strict=False)
                if own == role
            ]
            found.append(claims.claim(count, *entries))
        return Sharding(*found)

    def specs(self, how: Sharding, arrays: Sequence[Roles]) -> list[Any]:
        """JAX's specs of arrays."""
        named: Any = PartitionSpec
        entries: dict[int | None, Entry] = dict(enumerate(how.entries))
        return [named(*[entries.get(role) for role in roles]) for roles in arrays]

    def over(self, mesh: Mesh, how: Sharding, arrays: Sequence[Any]) -> Sequence[Any]:
        """The results, each device with its part of the arrays."""

        def local(*parts: Any) -> Any:
            found = self.run(how, varying_together(parts))
            return tuple(map(_summed, found, [_missing(how, x) for x in self.results]))

        run: Any = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=tuple(self.specs(how, self.operands)),
            out_specs=tuple(self.specs(how, self.results)),
        )
        return run(*arrays)  # type: ignore[no-any-return]

    def rule(self, operands: Sequence[Any], results: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """Which axes of the arrays belong together, as ``custom_partitioning`` takes it."""
        whole: list[str] = []
        alone: set[str] = set()
        sizes: dict[str, int] = {}

        def fresh() -> str:
            whole.append(f"whole{len(whole)}")
            return whole[-1]

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

        def written(arrays: Sequence[Any], roles: Sequence[Roles]) -> str:
            pairs = zip(arrays, roles, strict=True)
            return ", ".join(" ".join(map(factor, roles, x.shape)) for x, roles in pairs)

        text = f"{written(operands, self.operands)} -> {written(results, self.results)}"
        compound = {name: n for name, n in sizes.items() if name not in alone}
        return text, {"need_replication_factors": tuple(whole), **compound}


def _missing(how: Sharding, roles: Roles) -> tuple[Any, ...]:
    """The axes of the mesh over which parts of a result are to be added up."""
    pairs = enumerate(how.entries)
    return tuple([axis for role, entry in pairs if role not in roles for axis in axes_of(entry)])


def _summed(x: Any, axes: tuple[Any, ...]) -> Any:
    return lax.psum(x, axes) if axes else x  # type: ignore[no-untyped-call]


def _spec_of(x: Any) -> Sequence[Entry]:
    return tuple(x.sharding.spec) if isinstance(x.sharding, NamedSharding) else ()


# XLA's choice.


def over_mesh(part: Part, mesh: Mesh, arrays: Sequence[Any]) -> Sequence[Any]:
    """The results of a computation in a program over a mesh."""
    known = choices()
    if known is None or mesh.size == 1:
        # It is part of other code, whose compilation is not ours.
        return part.run(Sharding(), arrays)
    place = known.next()
    if known.are_known:
        return part.over(mesh, known.found[place] or Sharding(), arrays)
    return _asked(part, mesh, arrays, lambda how: known.enter(place, how))


def _asked(
    part: Part, mesh: Mesh, arrays: Sequence[Any], tell: Callable[[Sharding], None]
) -> Sequence[Any]:
    """Zeros for the results; ``tell`` is told how the computation is divided."""
    results = jax.eval_shape(lambda *xs: tuple(part.run(Sharding(), xs)), *arrays)

    def stand_in(*arrays: Any) -> Any:
        del arrays
        return tuple([_zeros(y.shape, y.dtype) for y in results])

    def partition(given: Any, operands: Any, made: Any) -> Any:
        del given  # an empty mesh where no array has one
        how = part.chosen(mesh, operands, made)
        tell(how)
        taken, made = (
            tuple([NamedSharding(mesh, spec) for spec in part.specs(how, roles)])
            for roles in (part.operands, part.results)
        )
        shapes = [s.shard_shape(y.shape) for s, y in zip(made, results, strict=True)]
        dtypes = [y.dtype for y in results]
        return mesh, lambda *_: tuple(map(_zeros, shapes, dtypes)), made, taken

    call: Any = custom_partitioning(stand_in)  # type: ignore[no-untyped-call]
    text, factors = part.rule(arrays, results)
    call.def_partition(partition, sharding_rule=text, **factors)
    return call(*arrays)  # type: ignore[no-any-return]


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    # XLA asks in a thread of its own, which has the settings of the process.
    with jax.enable_x64(True):
        return lax.full(shape, 0, dtype)
