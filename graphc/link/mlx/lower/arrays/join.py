"""Joins."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.join import Concatenate


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """One after the other, of one dtype; empty ones add nothing."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return filled[0] if len(filled) == 1 else mx.concatenate(filled, op.axis)
