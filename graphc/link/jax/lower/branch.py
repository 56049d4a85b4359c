"""Branches in ``jax.lax``; an index that is known while JAX traces selects one branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
from graphc.tensor.core.shape import are_equal


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Lower to one conditional, or to the chosen branch alone."""
    if isinstance(index, np.ndarray | np.generic):
        return _branch_function(op, op.chosen(index), values)()
    shapes: list[tuple[Any, ...]] = []
    branches = [
        _with_shapes(op, branch, _branch_function(op, branch, values), shapes)
        for branch in op.branches
    ]
    if index.dtype == bool:
        return lax.switch(lax.convert_element_type(index, np.int32), branches)
    # JAX makes the index 32 bits wide before it limits it.
    last = min(len(branches) - 1, np.iinfo(index.dtype).max)
    bounds = np.zeros((), index.dtype), np.array(last, index.dtype)
    limited = lax.clamp(bounds[0], index, bounds[1])
    return lax.switch(lax.convert_element_type(limited, np.int32), branches)


def _branch_function(
    op: Switch, branch: Graph, values: Sequence[Any]
) -> Callable[[], tuple[Any, ...]]:
    """Return a branch as a function without parameters: lax.switch traces all parameters."""
    on_host = [i for i, x in enumerate(values) if is_on_host(x)]
    program = Program(branch, backend, analyse(branch, on_host))

    def trace() -> tuple[Any, ...]:
        results = program.trace(*values)
        pairs = zip(results, branch.outputs, strict=True)
        return tuple(
            jnp.asarray(as_dense(y, op.title, node.where), node.type.numpy_dtype)
            for y, node in pairs
        )

    return trace


def _with_shapes(
    op: Switch,
    branch: Graph,
    trace: Callable[[], tuple[Any, ...]],
    shapes: list[tuple[Any, ...]],
) -> Callable[[], tuple[Any, ...]]:
    """Compare the shapes of a branch's results with the shapes of earlier branches' results."""

    def results_of_shapes() -> tuple[Any, ...]:
        results = trace()
        shapes.extend(y.shape for y in results[len(shapes) :])
        for y, shape, node in zip(results, shapes, branch.outputs, strict=True):
            if not all(map(are_equal, y.shape, shape)):
                raise op.unequal_shapes(shape, y.shape, node.where)
        return results

    return results_of_shapes
