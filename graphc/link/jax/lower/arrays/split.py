"""Splits in ``jax.lax``; the sections' lengths are Python integers here."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.split import Split


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Return one slice for each section."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    return tuple(lax.slice_in_dim(x, *ends, axis=op.axis) for ends in pairwise(bounds))
