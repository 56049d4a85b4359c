"""Mask functions traced by JAX, once for each structure and types of captured arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from graphc.attention.intervals.graphs import bounds
from graphc.attention.intervals.interval import Interval
from graphc.attention.mods import INDICES, uses
from graphc.capture import Stripped
from graphc.ir import Graph
from graphc.link.jax.attention.functions import MaskFunction
from graphc.link.jax.attention.importer import import_program
from graphc.link.jax.varying import Axes, vary, varying_axes, varying_together

CACHE_SIZE = 256
"""The number of structures of mask functions that are cached, of a few kilobytes each."""

Type = tuple[tuple[int, ...], Any, bool]
"""The shape, the dtype and the weak type of an array."""


@dataclass(frozen=True, eq=False)
class MaskProgram:
    """A traced mask function: (b, h, q, k, *captured) to one bool.

    Attributes:
        traced: The function as JAX traced it.
        graph: Its graph, which serves only bounds: (b, h, q, k, *arrays) to one bool.
        arrays: The program from captured arrays to the graph's arrays.
    """

    traced: ClosedJaxpr
    graph: Graph
    arrays: ClosedJaxpr

    @cached_property
    def uses(self) -> tuple[bool, bool]:
        """Whether the result depends on the index of the sequence, and on the index of the head."""
        return uses(self.graph)

    @cached_property
    def _arrays_of(self) -> Callable[..., Sequence[Any]]:
        run = jaxpr_as_fun(self.arrays)
        return jax.jit(run) if self.arrays.jaxpr.eqns else run

    def bounds(self, indices: Sequence[Interval], captured: Sequence[Any], span: int) -> Interval:
        """Return the interval of the function: whether it is certainly true, and whether possibly.

        Args:
            indices: The intervals of b, h, q and k, NumPy integers that broadcast.
            captured: The arrays that the function captures.
            span: The longest range of a captured array whose elements are bounded exactly.

        Returns:
            Arrays of the shape to which the indices broadcast; NumPy arrays, unless tracers are
            captured.

        Example:
            >>> from graphc.attention.intervals.interval import point
            >>> from graphc.capture import lift
            >>> program = program_of(lift(lambda b, h, q, k: q >= k).stripped, ())
            >>> q = Interval(np.array([0, 4], np.int32), np.array([3, 7], np.int32))
            >>> zero, k = point(np.array(0, np.int32)), point(np.array(3, np.int32))
            >>> certain, possible = program.bounds((zero, zero, q, k), (), 8)
            >>> certain, possible
            (array([False,  True]), array([ True,  True]))
        """
        arrays = [_to_numpy(x) for x in self._arrays_of(*captured)]
        return bounds(self.graph, indices, arrays, span)

    def __call__(self, *arguments: Any) -> Any:
        """Return whether the query sees the key, for (b, h, q, k, *captured)."""
        (keep,) = jaxpr_as_fun(self.traced)(*varying_together(arguments))
        return keep


def _to_numpy(x: Any) -> Any:
    """Return an array as a NumPy array, unless it is a tracer."""
    return x if isinstance(x, jax.core.Tracer) else np.asarray(x, jax.typeof(x).dtype)


def program_of(stripped: Stripped, captured: Sequence[Any]) -> MaskProgram:
    """Return a mask function traced for captured arrays of these types, from a cache.

    Args:
        stripped: The function without its arrays.
        captured: The arrays, or Python numbers.

    Raises:
        DTypeError: If the function returns no bool.
        ShapeError: If the function returns no scalar.
        SymbolicValueError: If the function needs the value of an index, as a Python ``if`` does.
        ArgumentError: If the function takes other arguments, or is written for symbolic arrays.
    """
    settings: Any = jax.config
    axes, wide = varying_axes(*captured), settings.jax_enable_x64
    if axes:
        avals = tuple([jax.typeof(vary(x, axes)) for x in captured])
        return _trace_in_shards(stripped, avals, axes, jax.sharding.get_abstract_mesh(), wide)
    return _trace(stripped, tuple(map(_type_of, captured)), wide)


def _type_of(x: Any) -> Type:
    kind = jax.typeof(x)
    return kind.shape, kind.dtype, kind.weak_type


_ArrayType: Any = jax.ShapeDtypeStruct


@lru_cache(CACHE_SIZE)
def _trace(stripped: Stripped, types: tuple[Type, ...], wide: bool) -> MaskProgram:
    index = _ArrayType((), jnp.int32)
    captured = [_ArrayType(shape, dtype, weak_type=weak) for shape, dtype, weak in types]
    return _program(stripped, index, captured)


@lru_cache(CACHE_SIZE)
def _trace_in_shards(
    stripped: Stripped, avals: tuple[Any, ...], axes: Axes, mesh: Any, wide: bool
) -> MaskProgram:
    """Trace the function within ``jax.shard_map``, where all of its arguments vary."""
    return _program(stripped, jax.typeof(vary(jnp.int32(0), axes)), avals)


def _program(stripped: Stripped, index: Any, captured: Sequence[Any]) -> MaskProgram:
    traced = jax.make_jaxpr(MaskFunction(stripped))(*[index] * len(INDICES), *captured)
    return MaskProgram(traced, *import_program(traced, captured))
