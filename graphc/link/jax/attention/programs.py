"""Mask functions as JAX traces them: once for each structure, and types of captured arrays."""

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
from graphc.link.jax.attention.importer import imported
from graphc.link.jax.varying import Axes, vary, varying_axes, varying_together

KEPT = 256
"""The number of structures of mask functions that are cached, of a few kilobytes each."""

Type = tuple[tuple[int, ...], Any, bool]
"""The shape, the dtype and the weak type of an array."""


@dataclass(frozen=True, eq=False)
class Program:
    """A mask function traced: (b, h, q, k, *captured) to one bool.

    Attributes:
        traced: The function as JAX traced it.
        graph: Its graph, which is for bounds alone: (b, h, q, k, *arrays) to one bool.
        arrays: The program of captured arrays that gives those of the graph.
    """

    traced: ClosedJaxpr
    graph: Graph
    arrays: ClosedJaxpr

    @cached_property
    def uses(self) -> tuple[bool, bool]:
        """Whether the result depends on the number of the sequence, and on that of the head."""
        return uses(self.graph)

    @cached_property
    def _arrays_of(self) -> Callable[..., Sequence[Any]]:
        run = jaxpr_as_fun(self.arrays)
        return jax.jit(run) if self.arrays.jaxpr.eqns else run

    def bounds(self, indices: Sequence[Interval], captured: Sequence[Any], span: int) -> Interval:
        """Intervals of the function: where it is certainly true, and where possibly.

        Args:
            indices: The intervals of b, h, q and k, integers of NumPy's that broadcast.
            captured: The arrays that the function captures.
            span: The longest range of a captured array that is looked up as such.

        Returns:
            Arrays to which the indices broadcast; NumPy arrays, unless tracers are captured.

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
        arrays = [_readable(x) for x in self._arrays_of(*captured)]
        return bounds(self.graph, indices, arrays, span)

    def __call__(self, *given: Any) -> Any:
        """Whether the query sees the key, for (b, h, q, k, *captured)."""
        (kept,) = jaxpr_as_fun(self.traced)(*varying_together(given))
        return kept


def _readable(x: Any) -> Any:
    """An array as NumPy's, where it has values."""
    return x if isinstance(x, jax.core.Tracer) else np.asarray(x, jax.typeof(x).dtype)


def program_of(stripped: Stripped, captured: Sequence[Any]) -> Program:
    """A mask function traced for captured arrays of these types; nothing is traced twice.

    Args:
        stripped: The function without its arrays.
        captured: The arrays, or Python numbers.

    Raises:
        DTypeError: The function returns no bool.
        ShapeError: It returns no scalar.
        SymbolicValueError: It needs the value of an index, as a Python ``if`` does.
        ArgumentError: It takes other arguments, or is written for symbolic arrays.
    """
    settings: Any = jax.config
    axes, wide = varying_axes(*captured), settings.jax_enable_x64
    if axes:
        avals = tuple([jax.typeof(vary(x, axes)) for x in captured])
        return _traced_in_shards(stripped, avals, axes, jax.sharding.get_abstract_mesh(), wide)
    return _traced(stripped, tuple(map(_type_of, captured)), wide)


def _type_of(x: Any) -> Type:
    kind = jax.typeof(x)
    return kind.shape, kind.dtype, kind.weak_type


_Typed: Any = jax.ShapeDtypeStruct


@lru_cache(KEPT)
def _traced(stripped: Stripped, types: tuple[Type, ...], wide: bool) -> Program:
    index = _Typed((), jnp.int32)
    captured = [_Typed(shape, dtype, weak_type=weak) for shape, dtype, weak in types]
    return _program(stripped, index, captured)


@lru_cache(KEPT)
def _traced_in_shards(
    stripped: Stripped, avals: tuple[Any, ...], axes: Axes, mesh: Any, wide: bool
) -> Program:
    """The function traced within ``jax.shard_map``, where all that it is given varies."""
    return _program(stripped, jax.typeof(vary(jnp.int32(0), axes)), avals)


def _program(stripped: Stripped, index: Any, captured: Sequence[Any]) -> Program:
    traced = jax.make_jaxpr(MaskFunction(stripped))(*[index] * len(INDICES), *captured)
    return Program(traced, *imported(traced, captured))
