"""Block tables of mask functions written for JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax

from graphc.attention import blocks
from graphc.attention.blocks import Tiling
from graphc.capture import Lifted
from graphc.link.jax.attention.exact import decided
from graphc.link.jax.attention.functions import captured
from graphc.link.jax.attention.programs import KEPT, Program, program_of


def tables(
    lifted: Lifted, batch: int, heads: int, queries: int, keys: int, block: tuple[int, int]
) -> tuple[Any, Any, Any, Any]:
    """The tables of a mask function, which JAX traces once for each structure.

    Bounds over blocks of indices decide most of them, and the others are evaluated some at a
    time: memory grows with the number of blocks alone. The tables are exact, but for those of a
    last column of fewer keys than a block, which are partial where they are full.

    Args:
        lifted: The mask function and its arrays.
        batch: The number of sequences.
        heads: The number of heads.
        queries: The number of queries.
        keys: The number of keys.
        block: How many queries and keys a block has.

    Returns:
        Counts and indices of partial blocks, then of full ones, int32: NumPy arrays, or tracers
        where the function captures tracers.

    Raises:
        DTypeError: The function returns no bool.
        ShapeError: It returns no scalar.
        SymbolicValueError: It needs the value of an index, as a Python ``if`` does.
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

    def find(own: Tiling) -> Sequence[Any]:
        if any(isinstance(x, jax.core.Tracer) for x in given):
            return _compiled(program, own)(*given)
        with jax.ensure_compile_time_eval():
            return _tables(program, own, given)

    return blocks.tables_by(program.uses, Tiling(batch, heads, queries, keys, block), find)


@lru_cache(KEPT)
def _compiled(program: Program, tiling: Tiling) -> Callable[..., Sequence[Any]]:
    """The tables as one compiled function of the captured arrays, for tracers."""

    @jax.jit
    def make(*captured: Any) -> Sequence[Any]:
        # Tables have no gradient.
        return _tables(program, tiling, jax.lax.stop_gradient(captured))

    return make


def _tables(program: Program, tiling: Tiling, given: Sequence[Any]) -> Sequence[Any]:
    intervals = blocks.indices(*tiling)
    known = blocks.grid(program.bounds(intervals, given, tiling.span), tiling.counts)
    found = decided(program, intervals, given, known, tiling)
    return blocks.tables(*found, tiling.keys, tiling.block[1])
