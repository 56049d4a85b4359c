"""Branches in ``jax.lax``, and subgraphs, which are traced within a named scope.

An index that is known while JAX traces selects one branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.implicit.policy import as_dense
from graphc.ir import Graph
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import is_on_host
from graphc.link.program import Program
from graphc.loop.branch import Switch
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.shape import are_equal


def trace_graph(title: str, graph: Graph, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a graph as part of the program that JAX traces."""
    on_host = [i for i, x in enumerate(values) if is_on_host(x)]
    results = Program(graph, backend, analyse(graph, on_host)).trace(*values)
    return tuple(
        jnp.asarray(as_dense(y, title, node.where), node.type.numpy_dtype)
        for y, node in zip(results, graph.outputs, strict=True)
    )


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """Trace the graph's operations in a scope that profiles show."""
    with jax.named_scope(op.label):
        return trace_graph(op.label, op.graph, values)


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Lower to one conditional, or to the chosen branch alone."""
    if isinstance(index, np.ndarray | np.generic):
        return trace_graph(op.title, op.chosen(index), values)
    shapes: list[tuple[Any, ...]] = []
    # Functions without parameters: lax.switch traces all parameters.
    branches = [partial(_branch_results, op, branch, values, shapes) for branch in op.branches]
    if index.dtype == bool:
        return lax.switch(lax.convert_element_type(index, np.int32), branches)
    # JAX makes the index 32 bits wide before it limits it.
    last = min(len(branches) - 1, np.iinfo(index.dtype).max)
    bounds = np.zeros((), index.dtype), np.array(last, index.dtype)
    limited = lax.clamp(bounds[0], index, bounds[1])
    return lax.switch(lax.convert_element_type(limited, np.int32), branches)


def _branch_results(
    op: Switch, branch: Graph, values: Sequence[Any], shapes: list[tuple[Any, ...]]
) -> tuple[Any, ...]:
    """Return a branch's results; compare their shapes with those of earlier branches."""
    results = trace_graph(op.title, branch, values)
    shapes.extend(y.shape for y in results[len(shapes) :])
    for y, shape, node in zip(results, shapes, branch.outputs, strict=True):
        if not all(map(are_equal, y.shape, shape)):
            raise op.unequal_shapes(shape, y.shape, node.where)
    return results
