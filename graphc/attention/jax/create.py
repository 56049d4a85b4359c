"""Block tables of mask functions written for JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from graphc.attention import blocks
from graphc.attention.blocks import Tiling
from graphc.attention.jax.bounds import bounds
from graphc.attention.jax.exact import decided
from graphc.attention.jax.functions import captured
from graphc.attention.jax.programs import KEPT, Program, program_of
from graphc.capture import Lifted
from graphc.implicit.level import numpy_like

__all__ = ["tables"]


def tables(
    lifted: Lifted, batch: int, heads: int, queries: int, keys: int, block: tuple[int, int]
) -> tuple[Any, Any, Any, Any]:
    """The partial and the full blocks of a mask function, which JAX traces once for its structure.

    Bounds over blocks of indices decide most of them, and the others are evaluated some at a
    time: memory grows with the number of blocks alone. The tables are exact, but for those of a
    last column of fewer keys than a block, which are partial where they are full.

    Args:
        lifted: The mask function, taken apart: of JAX's functions, or of operators alone.
        batch: The number of sequences.
        heads: The number of heads.
        queries: The number of queries.
        keys: The number of keys.
        block: How many queries and keys a block has.

    Returns:
        The numbers and the indices of partial blocks, then of full ones, int32: NumPy arrays; what
        JAX traces where it traces what the function captures.

    Raises:
        DTypeError: The function gives no bool.
        ShapeError: It gives no scalar.
        SymbolicValueError: It asks for the value of an index, as a Python ``if`` does.
        ArgumentError: It takes other arguments, or captures symbolic arrays.

    Example:
        >>> from graphc.capture import lift
        >>> causal = lift(lambda b, h, q, k: q >= k)
        >>> partial, _, full, indices = tables(causal, 1, 1, 256, 256, (128, 128))
        >>> partial.tolist(), full.tolist(), indices[0, 0, 1].tolist()
        ([[[1, 1]]], [[[0, 1]]], [0, 1])
    """
    with jax.ensure_compile_time_eval():  # constants stay such in what JAX traces
        given = captured("mask_mod", lifted)
    program = program_of(lifted.stripped, given)
    traced = any(isinstance(x, jax.core.Tracer) for x in given)
    uses = program.uses
    tiling = Tiling(batch if uses[0] else 1, heads if uses[1] else 1, queries, keys, block)
    if 0 in tiling.counts:
        nothing = np.zeros((batch, heads, *tiling.counts[2:]), bool)
        return blocks.tables(nothing, nothing, keys, block[1])
    if traced:
        found = _compiled(program, tiling)(*given)
    else:
        with jax.ensure_compile_time_eval():
            found = _tables(program, tiling, given)
    return tuple([_repeated(x, batch, heads) for x in found])


@lru_cache(KEPT)
def _compiled(program: Program, tiling: Tiling) -> Callable[..., Sequence[Any]]:
    """The tables as one compiled function of what is captured, for whoever traces that."""

    @jax.jit
    def make(*captured: Any) -> Sequence[Any]:
        # Nothing is differentiated by what decides on blocks.
        return _tables(program, tiling, jax.lax.stop_gradient(captured))

    return make


def _tables(program: Program, tiling: Tiling, given: Sequence[Any]) -> Sequence[Any]:
    intervals = blocks.indices(*tiling)
    known = blocks.grid(bounds(program, intervals, given), tiling.counts)
    found = decided(program, intervals, given, known, tiling)
    return blocks.tables(*found, tiling.keys, tiling.block[1])


def _repeated(table: Any, batch: int, heads: int) -> Any:
    """A table for all batches and heads, where it is the same for some."""
    shape = (batch, heads, *table.shape[2:])
    if table.shape == shape:
        return table
    return numpy_like(table).broadcast_to(table, shape).copy()
