"""The Threefry hash in ``jax.lax``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import threefry2x32_p

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, aligned, arrays, inner, ragged, rule
from graphc.link.jax.lower.core.elementwise import fitted
from graphc.link.jax.symbolic import has_symbols
from graphc.random.threefry import Threefry, hash_words


@backend.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> tuple[Any, Any]:
    """Hash counters; with one key all rounds are written out and fuse with their uses.

    Hashes of hashes, as of the keys that rejection goes by, would take long to compile so: those of
    several keys are JAX's own, which on the processor is a loop.
    """
    arrays = tuple(map(jnp.asarray, words))
    if has_symbols(arrays) or math.prod(arrays[0].shape) > 1:
        y, z = threefry2x32_p.bind(*jnp.broadcast_arrays(*arrays))  # type: ignore[no-untyped-call]
        return y, z
    k0, k1, x0, x1 = fitted(*arrays)
    y, z = hash_words(k0, k1, x0, x1, rotated)
    return y, z


def rotated(x: Any, bits: int) -> Any:
    """Rotate the bits of each word to the left."""
    up, down = np.uint32(bits), np.uint32(32 - bits)
    return lax.bitwise_or(lax.shift_left(x, up), lax.shift_right_logical(x, down))


@rule(Threefry)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Hash ragged counters; unused words stay unused."""
    found, shape = aligned(node, arrays(node, values), node.inputs)
    return tuple(ragged(y, shape) for y in lowering(node.op, *[inner(x) for x in found]))
