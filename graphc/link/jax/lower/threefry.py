"""The Threefry hash in ``jax.lax``."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import threefry2x32_p

from graphc.link.jax.backend import backend
from graphc.link.jax.lower.elementwise import broadcast_operands
from graphc.link.jax.symbolic import has_symbols
from graphc.random.threefry import Threefry, hash_words


@backend.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> tuple[Any, Any]:
    """Hash counters; for one key, write out all rounds, which fuse with their uses.

    For several keys, as in rejection sampling, JAX's own hash compiles faster: a loop on the CPU.
    """
    words = tuple(map(jnp.asarray, words))
    if has_symbols(words) or math.prod(words[0].shape) > 1:
        y, z = threefry2x32_p.bind(*jnp.broadcast_arrays(*words))  # type: ignore[no-untyped-call]
        return y, z
    k0, k1, x0, x1 = broadcast_operands(*words)
    y, z = hash_words(k0, k1, x0, x1, rotate_left)
    return y, z


def rotate_left(x: Any, bits: int) -> Any:
    up, down = np.uint32(bits), np.uint32(32 - bits)
    return lax.bitwise_or(lax.shift_left(x, up), lax.shift_right_logical(x, down))
