"""Block tables of mask functions that capture tracers of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from graphc import hooks
from graphc.attention.blocks import Tiling
from graphc.attention.mods import mask_of
from graphc.attention.undecided import symbolic_tables
from graphc.capture import Lifted, Stripped
from graphc.link.jax.attention.functions import captured_arrays
from graphc.link.jax.attention.mods import Types, call_mod, placeholders, types_of, words
from graphc.link.jax.varying import varying_together

CACHE_SIZE = 256
"""The number of programs that are cached."""


def traced_tables(function: Lifted, tiling: Tiling) -> Sequence[Any]:
    """Return the tables of a mask function that captures tracers, which have no gradient.

    Args:
        function: The mask function and its arrays.
        tiling: The blocks.

    Returns:
        Counts and indices of partial blocks, then of full ones, int32.
    """
    arrays = jax.lax.stop_gradient(captured_arrays("mask_mod", function))
    types = types_of(arrays)
    run = _compile(function.stripped, types, tiling)
    pairs = zip(arrays, types[0], strict=True)
    return run(*varying_together([jnp.asarray(words(x), t.dtype) for x, t in pairs]))


@lru_cache(CACHE_SIZE)
def _compile(stripped: Stripped, types: Types, tiling: Tiling) -> Callable[..., Sequence[Any]]:
    """Return the tables as a function of the captured arrays that JAX traces."""
    captured = placeholders(types[0])
    mod = mask_of(Lifted(stripped, tuple(captured)), call_mod)
    inputs = [x.array for x in captured]
    tables = list(symbolic_tables(mod, tiling))
    function = hooks.compile_function(inputs, tables, mode="JAX", on_unused_input="ignore")
    run: Callable[..., Sequence[Any]] = function.pure
    return run
