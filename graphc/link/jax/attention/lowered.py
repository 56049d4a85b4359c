"""Lowerings of attention: the kernel, called with mask and score graphs as scalar functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graphc.attention.flex import Flex, FlexGradient, FlexOp
from graphc.attention.inputs import AttentionInputs, scale_of
from graphc.attention.mods import INDICES
from graphc.errors import RuntimeShapeError
from graphc.implicit.policy import as_dense
from graphc.ir import Graph
from graphc.link.host import analyse
from graphc.link.jax.attention.aligned import Roles, localize, roles_of
from graphc.link.jax.attention.kernel import Spec, backward, forward
from graphc.link.jax.attention.partitioned import (
    BATCH,
    HEADS,
    QUERIES,
    PartitionedComputation,
    over_mesh,
)
from graphc.link.jax.attention.shards import Sharding, origin
from graphc.link.jax.backend import backend
from graphc.link.jax.mesh import current
from graphc.link.program import Program

UNSHARDED = Sharding()


def flex(op: Flex, values: Sequence[Any]) -> Any:
    """Return attention; blocks that the tables do not list cost nothing."""

    def attend(spec: Spec, x: AttentionInputs[Any]) -> Sequence[Any]:
        return forward(spec, *_operands(x))

    operands = _to_jax(op, values)
    roles = _roles(op, operands)
    return _over_mesh(op, operands, roles, attend, [roles.q, roles.q[:3]])


def flex_gradient(op: FlexGradient, values: Sequence[Any]) -> Any:
    """Return the gradient of attention, with weights recomputed block by block."""

    def attend(spec: Spec, x: AttentionInputs[Any]) -> Sequence[Any]:
        # A shard's origin is the last captured array.
        wanted = (*op.wanted, *[False] * (len(x.score_captured) - len(op.wanted)))
        out, sums, g_out, g_sums = x.rest
        return backward(spec, *_operands(x), out, sums, g_out, g_sums, wanted)

    operands = _to_jax(op, values)
    roles = _roles(op, operands)
    by_captured = op.wanted_of(roles.score_captured)
    return _over_mesh(op, operands, roles, attend, [roles.q, roles.k, roles.v, *by_captured])


def _operands(x: AttentionInputs[Any]) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return the first operands of the kernel."""
    return x.q, x.k, x.v, x.tables, x.score_captured, x.mask_captured


def _to_jax(op: FlexOp, values: Sequence[Any]) -> AttentionInputs[Any]:
    """Return the operands as JAX arrays.

    Captured arrays that are known while JAX traces stay NumPy arrays, unless they have a gradient.
    """
    x = op.split_inputs(values)
    q, k, v = map(jnp.asarray, (x.q, x.k, x.v))
    if q.shape[1] % max(k.shape[1], 1):
        raise RuntimeShapeError(
            f"flex_attention: {q.shape[1]} heads of queries do not divide into groups for "
            f"{k.shape[1]} heads of keys.",
            "Give a multiple of the heads of keys.",
        )
    wanted = op.wanted_captured or [False] * len(x.score_captured)
    pairs = zip(x.score_captured, wanted, strict=True)
    score_captured = [jnp.asarray(y) if flag else y for y, flag in pairs]
    tables, rest = ([jnp.asarray(y) for y in group] for group in (x.tables, x.rest))
    return AttentionInputs(q, k, v, tables, score_captured, x.mask_captured, rest)


def _flatten(inputs: AttentionInputs[Any]) -> list[Any]:
    """Return the inputs in their order."""
    groups = inputs.tables, inputs.score_captured, inputs.mask_captured, inputs.rest
    return [inputs.q, inputs.k, inputs.v, *[x for group in groups for x in group]]


# Over a mesh.


def _roles(op: FlexOp, operands: AttentionInputs[Any]) -> AttentionInputs[Roles]:
    """Return the roles of the operands' axes."""
    batch, heads, queries = operands.q.shape[:3]
    # Tables are sharded by rows of blocks, so queries must fill their blocks.
    is_even = not operands.tables or queries % op.block[0] == 0
    rows = QUERIES if is_even else None
    lengths = (batch, heads, queries if is_even else -1)

    def table_roles(x: Any) -> Roles:
        first = [role if n > 1 else None for role, n in zip((BATCH, HEADS), x.shape, strict=False)]
        return (*first, rows, *[None] * (x.ndim - 3))

    def captured_roles(graph: Graph | None, arrays: Sequence[Any]) -> list[Roles]:
        shapes = [x.shape for x in arrays]
        roles = [] if graph is None else roles_of(graph, lengths, shapes)
        pairs = zip(arrays, roles, strict=True)
        return [(None,) * x.ndim if isinstance(x, np.ndarray) else role for x, role in pairs]

    query_roles: Roles = (BATCH, HEADS, rows, None)
    key_roles: Roles = (BATCH, HEADS if operands.k.shape[1] > 1 else None, None, None)
    return AttentionInputs(
        query_roles,
        key_roles,
        key_roles,
        [table_roles(x) for x in operands.tables],
        captured_roles(op.score, operands.score_captured),
        captured_roles(op.mask, operands.mask_captured),
        [query_roles[: x.ndim] for x in operands.rest],
    )


def _over_mesh(
    op: FlexOp,
    operands: AttentionInputs[Any],
    roles: AttentionInputs[Roles],
    attend: Callable[[Spec, AttentionInputs[Any]], Sequence[Any]],
    results: Sequence[Roles],
) -> Any:
    """Return the results of a kernel, sharded if there is a mesh.

    Args:
        op: The operation.
        operands: The operands.
        roles: The roles of the operands' axes.
        attend: The kernel, of the functions and the operands or their shards.
        results: The roles of the results' axes.
    """
    layout = current()
    if layout is None:
        return attend(*_shard_operands(op, operands, roles, UNSHARDED))
    flat, flat_roles = _flatten(operands), _flatten(roles)
    positions = [i for i, x in enumerate(flat) if not isinstance(x, np.ndarray)]

    def run(sharding: Sharding, arrays: Sequence[Any]) -> Sequence[Any]:
        values = dict(enumerate(flat)) | dict(zip(positions, arrays, strict=True))
        return attend(*_shard_operands(op, op.split_inputs([*values.values()]), roles, sharding))

    tables, heads = operands.tables, max(operands.k.shape[1], 1)
    counts = (
        operands.q.shape[0],
        heads if heads > 1 else operands.q.shape[1],
        tables[0].shape[2] if tables else operands.q.shape[2],
    )
    computation = PartitionedComputation(run, [flat_roles[i] for i in positions], results, counts)
    return over_mesh(computation, layout.mesh, [flat[i] for i in positions])


def _shard_operands(
    op: FlexOp, operands: AttentionInputs[Any], roles: AttentionInputs[Roles], sharding: Sharding
) -> tuple[Spec, AttentionInputs[Any]]:
    """Return the functions of a device's shard, and its operands."""
    is_sharded = sharding != UNSHARDED
    start = (origin(sharding, operands.q.shape),) if is_sharded else ()

    def function(
        title: str, graph: Graph | None, captured: Any, own_roles: Any, scalars: int
    ) -> tuple[Any, list[Any]]:
        if graph is None:
            return None, []
        own_graph = localize(graph, own_roles) if is_sharded else graph
        of_scalars = _scalar(title, own_graph, captured, scalars)
        return of_scalars, [*map(jnp.asarray, captured), *start]

    score, score_captured = function(
        "score_mod", op.score, operands.score_captured, roles.score_captured, len(INDICES) + 1
    )
    mask, mask_captured = function(
        "mask_mod", op.mask, operands.mask_captured, roles.mask_captured, len(INDICES)
    )
    spec = Spec(score, mask, op.block, scale_of(op, operands.q.shape[3]))
    return spec, operands._replace(score_captured=score_captured, mask_captured=mask_captured)


def _scalar(title: str, graph: Graph, captured: Sequence[Any], scalars: int) -> Callable[..., Any]:
    """Return a closed graph as a function of JAX scalars and captured arrays.

    Args:
        title: The graph's name in messages.
        graph: The graph.
        captured: The captured arrays; NumPy arrays are constants while JAX traces.
        scalars: The number of scalars that the graph takes.
    """
    constants = {scalars + i: x for i, x in enumerate(captured) if isinstance(x, np.ndarray)}
    host = analyse(graph, list(constants), range(scalars))
    program = Program(graph, backend, host)
    (node,) = graph.outputs

    def scalar(*operands: Any) -> Any:
        (y,) = program.trace(*[constants.get(i, x) for i, x in enumerate(operands)])
        return jnp.asarray(as_dense(y, title, node.where), node.type.numpy_dtype)

    return scalar
