"""Implicit arrays in JAX programs: values that primitives dispatch on."""

from __future__ import annotations

from typing import Any

from graphc.implicit.node import Implicit
from graphc.link.jax.backend import backend


@backend.lower(Implicit)
def implicit(op: Implicit, *fields: Any) -> Any:
    return op.treedef.build(fields)
