"""Subgraphs in JAX: traced inline, within a named scope."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from graphc.implicit.policy import as_dense
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import is_on_host
from graphc.link.program import Program
from graphc.loop.subgraph import Subgraph


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """Trace the graph's operations in a scope that profiles show."""
    on_host = [i for i, x in enumerate(values) if is_on_host(x)]
    program = Program(op.graph, backend, analyse(op.graph, on_host))
    with jax.named_scope(op.label):
        results = program.trace(*values)
    return tuple(
        jnp.asarray(as_dense(y, op.label, node.where), node.type.numpy_dtype)
        for y, node in zip(results, op.graph.outputs, strict=True)
    )
