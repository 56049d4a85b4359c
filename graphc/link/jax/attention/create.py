"""Block tables of mask functions written for JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax

from graphc.attention.blocks import (
    Tiling,
    block_indices,
    block_tables,
    bounds_of_blocks,
    shared_tables,
)
from graphc.capture import Lifted
from graphc.link.jax.attention.exact import decide_by_values
from graphc.link.jax.attention.functions import captured_arrays
from graphc.link.jax.attention.programs import CACHE_SIZE, MaskProgram, program_of


def mask_tables(
    lifted: Lifted, batch: int, heads: int, queries: int, keys: int, block: tuple[int, int]
) -> tuple[Any, Any, Any, Any]:
    """Return the tables of a mask function, which JAX traces once for each structure.

    Bounds over blocks of indices decide most blocks; the mask is evaluated on the others, some at
    a time, so memory is linear in the number of blocks. The tables are exact, except that full
    blocks of a last column of fewer keys than a block are listed as partial.

    Args:
        lifted: The mask function and its arrays.
        batch: The number of sequences.
        heads: The number of heads.
        queries: The number of queries.
        keys: The number of keys.
        block: The numbers of queries and keys of a block.

    Returns:
        Counts and indices of partial blocks, then of full ones, int32: NumPy arrays, or tracers
        if the function captures tracers.

    Raises:
        DTypeError: If the function returns no bool.
        ShapeError: If the function returns no scalar.
        SymbolicValueError: If the function needs the value of an index, as a Python ``if`` does.
        ArgumentError: If the function takes other arguments, or captures symbolic arrays.

    Example:
        >>> from graphc.capture import lift
        >>> causal = lift(lambda b, h, q, k: q >= k)
        >>> partial, _, full, indices = mask_tables(causal, 1, 1, 256, 256, (128, 128))
        >>> partial.tolist(), full.tolist(), indices[0, 0, 1].tolist()
        ([[[1, 1]]], [[[0, 1]]], [0, 1])
    """
    with jax.ensure_compile_time_eval():  # so that constants do not become tracers
        arrays = captured_arrays("mask_mod", lifted)
    program = program_of(lifted.stripped, arrays)

    def compute(reduced: Tiling) -> Sequence[Any]:
        if any(isinstance(x, jax.core.Tracer) for x in arrays):
            return _compile(program, reduced)(*arrays)
        with jax.ensure_compile_time_eval():
            return _tables(program, reduced, arrays)

    return shared_tables(program.uses, Tiling(batch, heads, queries, keys, block), compute)


@lru_cache(CACHE_SIZE)
def _compile(program: MaskProgram, tiling: Tiling) -> Callable[..., Sequence[Any]]:
    """Return the tables as a compiled function of the captured arrays, for tracers."""

    @jax.jit
    def make(*captured: Any) -> Sequence[Any]:
        # Tables have no gradient.
        return _tables(program, tiling, jax.lax.stop_gradient(captured))

    return make


def _tables(program: MaskProgram, tiling: Tiling, captured: Sequence[Any]) -> Sequence[Any]:
    intervals = block_indices(*tiling)
    bounds = bounds_of_blocks(program.bounds(intervals, captured, tiling.span), tiling.counts)
    bounds = decide_by_values(program, intervals, captured, bounds, tiling)
    return block_tables(*bounds, tiling.keys, tiling.block[1])
