"""Branches in ``jax.lax``; an index known while JAX traces selects its branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.errors import RuntimeShapeError
from graphc.implicit.policy import dense
from graphc.ir import Graph, Node
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, checked, rule, whole
from graphc.link.jax.counts import plain
from graphc.link.program import Program
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Lower to one conditional for all results."""
    if isinstance(index, np.ndarray | np.generic):
        return _traced(op, op.chosen(index), values)()
    shapes: list[tuple[int, ...]] = []
    branches = [
        _agreeing(op, branch, _traced(op, branch, values), shapes) for branch in op.branches
    ]
    if index.dtype == bool:
        return lax.switch(lax.convert_element_type(index, np.int32), branches)
    # JAX makes the index 32 bits wide before it limits it.
    last = min(len(branches) - 1, np.iinfo(index.dtype).max)
    ends = np.zeros((), index.dtype), np.array(last, index.dtype)
    return lax.switch(
        lax.convert_element_type(lax.clamp(ends[0], index, ends[1]), np.int32), branches
    )


@rule(Switch, of_counts=True)
def of_counts(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lower a branch whose operands have unknown lengths; its results have known ones."""
    index, *others = values
    return lowering(node.op, plain(index), *others)


def _traced(op: Switch, branch: Graph, values: Sequence[Any]) -> Callable[[], tuple[Any, ...]]:
    """Return a branch as a function without parameters, so that known values stay known."""
    known = [i for i, x in enumerate(values) if isinstance(x, np.ndarray)]
    program = Program(branch, backend, analyse(branch, known))
    dtypes = [y.type.numpy_dtype for y in branch.outputs]

    def trace() -> tuple[Any, ...]:
        with checked(None):
            found = program.trace(*values)
        pairs = zip(found, branch.outputs, strict=True)
        results = [whole(dense(y, op.title, node.where), node) for y, node in pairs]
        return tuple(jnp.asarray(y, dtype) for y, dtype in zip(results, dtypes, strict=True))

    return trace


def _agreeing(
    op: Switch, branch: Graph, trace: Callable[[], tuple[Any, ...]], shapes: list[tuple[int, ...]]
) -> Callable[[], tuple[Any, ...]]:
    """Check that a branch's results have the shapes of the branches traced before."""

    def agreed() -> tuple[Any, ...]:
        found = trace()
        shapes.extend(y.shape for y in found[len(shapes) :])
        for y, shape, end in zip(found, shapes, branch.outputs, strict=True):
            if y.shape != shape:
                raise RuntimeShapeError(
                    f"{op.title}: one branch gives the shape {shape}, another {y.shape}: a "
                    "compiled program has one shape for both.",
                    "Give both branches one shape, or use mode='NUMPY'.",
                    end.where,
                )
        return found

    return agreed
