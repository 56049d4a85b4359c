"""Implicit arrays under JAX: kept as they are, and dispatched at JAX's primitives."""

from __future__ import annotations

from typing import Any

from graphc.implicit.node import Implicit
from graphc.link.jax.backend import backend


@backend.lower(Implicit)
def implicit(op: Implicit, *fields: Any) -> Any:
    return op.form.build(fields)
