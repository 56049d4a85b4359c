"""Joins, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.join import Concatenate


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate; some releases refuse empty arrays, so these are dropped."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)
