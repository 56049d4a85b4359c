"""Branches in ``jax.lax``; an index known while JAX traces selects its branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.errors import RuntimeShapeError
from graphc.implicit.policy import dense
from graphc.ir import Graph, Node
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    agree,
    checked,
    inner,
    ragged,
    rule,
    unequal,
    whole,
)
from graphc.link.jax.counts import bound, is_known, plain
from graphc.link.jax.symbolic import is_on_host
from graphc.link.program import Program
from graphc.loop.branch import Switch


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Lower to one conditional for all results."""
    if isinstance(index, np.ndarray | np.generic):
        return _traced(op, op.chosen(index), values)()
    shapes: list[Sequence[Any]] = []
    branches = [
        _agreeing(op, branch, _traced(op, branch, values), shapes) for branch in op.branches
    ]
    if index.dtype == bool:
        found = lax.switch(lax.convert_element_type(index, np.int32), branches)
    else:
        # JAX makes the index 32 bits wide before it limits it.
        last = min(len(branches) - 1, np.iinfo(index.dtype).max)
        ends = np.zeros((), index.dtype), np.array(last, index.dtype)
        limited = lax.clamp(ends[0], index, ends[1])
        found = lax.switch(lax.convert_element_type(limited, np.int32), branches)
    return tuple(ragged(y, shape) for y, shape in zip(found, shapes, strict=True))


@rule(Switch, of_counts=True)
def of_counts(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lower a branch whose operands have unknown lengths."""
    index, *others = values
    return lowering(node.op, plain(index), *others)


def _traced(op: Switch, branch: Graph, values: Sequence[Any]) -> Callable[[], tuple[Any, ...]]:
    """Return a branch as a function without parameters, so that known values stay known."""
    known = [i for i, x in enumerate(values) if is_on_host(x)]
    program = Program(branch, backend, analyse(branch, known))

    def trace() -> tuple[Any, ...]:
        with checked(None):
            found = program.trace(*values)
        pairs = zip(found, branch.outputs, strict=True)
        return tuple(_result(dense(y, op.title, node.where), node) for y, node in pairs)

    return trace


def _result(y: Any, node: Node) -> Any:
    """A result, whose lengths are known outside of the branch too."""
    dtype = node.type.numpy_dtype
    if isinstance(y, Ragged) and all(n is None or n.formula for n in y.counts):
        return replace(y, buffer=jnp.asarray(y.buffer, dtype))
    return jnp.asarray(whole(y, node), dtype)


def _agreeing(
    op: Switch, branch: Graph, trace: Callable[[], tuple[Any, ...]], shapes: list[Sequence[Any]]
) -> Callable[[], tuple[Any, ...]]:
    """Give a branch's results the shapes of the branches traced before."""

    def agreed() -> tuple[Any, ...]:
        found = trace()
        shapes.extend(y.shape for y in found[len(shapes) :])
        results = zip(found, shapes, branch.outputs, strict=True)
        return tuple(_in_shape(op, y, shape, end) for y, shape, end in results)

    return agreed


def _in_shape(op: Switch, y: Any, shape: Sequence[Any], end: Node) -> Any:
    """The buffer of a result in a shape, which it must have."""
    pairs = list(zip(shape, y.shape, strict=True))
    if any(is_known(n) and is_known(m) and n != m for n, m in pairs):
        raise RuntimeShapeError(
            f"{op.title}: one branch gives the shape {tuple(shape)}, another {y.shape}: a "
            "compiled program has one shape for both.",
            "Give both branches one shape, or use mode='NUMPY'.",
            end.where,
        )
    for n, m in pairs:
        agree(n, m, unequal(end))
    buffer = inner(y)
    lengths = [n if is_symbolic_dim(n) else bound(n) for n in shape]
    sides = [(0, n - m, 0) for n, m in zip(lengths, buffer.shape, strict=True)]
    is_longer = any(n != 0 for _, n, _ in sides)
    return lax.pad(buffer, np.zeros((), buffer.dtype), sides) if is_longer else buffer
