"""Branches in ``jax.lax``; an index that is known while JAX traces selects one branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.errors import RuntimeShapeError
from graphc.implicit.policy import as_dense
from graphc.ir import Graph, Node
from graphc.link.host import analyse
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    agree,
    collect_checks,
    inner,
    make_ragged,
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
    """Lower to one conditional, or to the chosen branch alone."""
    if isinstance(index, np.ndarray | np.generic):
        return _branch_function(op, op.chosen(index), values)()
    shapes: list[Sequence[Any]] = []
    branches = [
        _with_common_shapes(op, branch, _branch_function(op, branch, values), shapes)
        for branch in op.branches
    ]
    if index.dtype == bool:
        results = lax.switch(lax.convert_element_type(index, np.int32), branches)
    else:
        # JAX makes the index 32 bits wide before it limits it.
        last = min(len(branches) - 1, np.iinfo(index.dtype).max)
        bounds = np.zeros((), index.dtype), np.array(last, index.dtype)
        limited = lax.clamp(bounds[0], index, bounds[1])
        results = lax.switch(lax.convert_element_type(limited, np.int32), branches)
    return tuple(make_ragged(y, shape) for y, shape in zip(results, shapes, strict=True))


@rule(Switch, of_counts=True)
def ragged_switch(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lower a branch whose operands have unknown lengths."""
    index, *operands = values
    return lowering(node.op, plain(index), *operands)


def _branch_function(
    op: Switch, branch: Graph, values: Sequence[Any]
) -> Callable[[], tuple[Any, ...]]:
    """Return a branch as a function without parameters: lax.switch traces all parameters."""
    on_host = [i for i, x in enumerate(values) if is_on_host(x)]
    program = Program(branch, backend, analyse(branch, on_host))

    def trace() -> tuple[Any, ...]:
        with collect_checks(None):
            results = program.trace(*values)
        pairs = zip(results, branch.outputs, strict=True)
        return tuple(_cast_result(as_dense(y, op.title, node.where), node) for y, node in pairs)

    return trace


def _cast_result(y: Any, node: Node) -> Any:
    """Return a result in its dtype; its lengths must be known outside of the branch."""
    dtype = node.type.numpy_dtype
    if isinstance(y, Ragged) and all(n is None or n.formula for n in y.counts):
        return replace(y, buffer=jnp.asarray(y.buffer, dtype))
    return jnp.asarray(whole(y, node), dtype)


def _with_common_shapes(
    op: Switch, branch: Graph, trace: Callable[[], tuple[Any, ...]], shapes: list[Sequence[Any]]
) -> Callable[[], tuple[Any, ...]]:
    """Pad a branch's results to the shapes of the branches traced before."""

    def padded_results() -> tuple[Any, ...]:
        results = trace()
        shapes.extend(y.shape for y in results[len(shapes) :])
        triples = zip(results, shapes, branch.outputs, strict=True)
        return tuple(_pad_to_shape(op, y, shape, node) for y, shape, node in triples)

    return padded_results


def _pad_to_shape(op: Switch, y: Any, shape: Sequence[Any], node: Node) -> Any:
    """Return the buffer of a result, padded to a shape that must be the result's own."""
    pairs = list(zip(shape, y.shape, strict=True))
    if any(is_known(n) and is_known(m) and n != m for n, m in pairs):
        raise RuntimeShapeError(
            f"{op.title}: one branch gives the shape {tuple(shape)}, another {y.shape}; a "
            "compiled program has one shape for both.",
            "Give both branches one shape, or use mode='NUMPY'.",
            node.where,
        )
    for n, m in pairs:
        agree(n, m, unequal(node))
    buffer = inner(y)
    lengths = [n if is_symbolic_dim(n) else bound(n) for n in shape]
    padding = [(0, n - m, 0) for n, m in zip(lengths, buffer.shape, strict=True)]
    has_padding = any(n != 0 for _, n, _ in padding)
    return lax.pad(buffer, np.zeros((), buffer.dtype), padding) if has_padding else buffer
