"""Joins, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.join import Concatenate


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """One after the other; empty ones, which some releases do not take, are left out."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)
