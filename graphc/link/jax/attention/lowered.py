"""Attention as an operation: the kernel, given mask and score graphs as functions of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from graphc.attention.flex import Flex, FlexGradient, FlexOp
from graphc.attention.mods import INDICES
from graphc.attention.parts import Parts, scale_of
from graphc.errors import RuntimeShapeError
from graphc.implicit.policy import dense
from graphc.ir import Graph
from graphc.link.host import analyse
from graphc.link.jax.attention.aligned import divided, roles_of
from graphc.link.jax.attention.kernel import Spec, backward, forward
from graphc.link.jax.attention.partitioned import BATCH, HEADS, QUERIES, Part, Roles, over_mesh
from graphc.link.jax.attention.shards import Sharding, origin
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import checked, whole
from graphc.link.jax.mesh import current
from graphc.link.program import Program

UNDIVIDED = Sharding()


def flex(op: Flex, values: Sequence[Any]) -> Any:
    """Attention, where blocks that are not in the tables cost nothing."""

    def attend(spec: Spec, x: Parts[Any]) -> Sequence[Any]:
        return forward(spec, *_operands(x))

    given = _given(op, values)
    roles = _roles(op, given)
    return _over_mesh(op, given, roles, attend, [roles.q, roles.q[:3]])


def flex_gradient(op: FlexGradient, values: Sequence[Any]) -> Any:
    """The gradient, with weights recomputed block by block."""

    def attend(spec: Spec, x: Parts[Any]) -> Sequence[Any]:
        # The place of a device's part is among what it captures.
        wanted = (*op.wanted, *[False] * (len(x.score_captured) - len(op.wanted)))
        out, sums, g_out, g_sums = x.rest
        return backward(spec, *_operands(x), out, sums, g_out, g_sums, wanted)

    given = _given(op, values)
    roles = _roles(op, given)
    by_captured = op.wanted_of(roles.score_captured)
    return _over_mesh(op, given, roles, attend, [roles.q, roles.k, roles.v, *by_captured])


def _operands(x: Parts[Any]) -> tuple[Any, Any, Any, Any, Any, Any]:
    """The operands that the kernel takes first."""
    return x.q, x.k, x.v, x.tables, x.score_captured, x.mask_captured


def _given(op: FlexOp, values: Sequence[Any]) -> Parts[Any]:
    """The operands as JAX arrays.

    Captured arrays that are known while JAX traces stay so, unless they have a gradient.
    """
    x = op.parts(values)
    q, k, v = map(jnp.asarray, (x.q, x.k, x.v))
    if q.shape[1] % max(k.shape[1], 1):
        raise RuntimeShapeError(
            f"flex_attention: {q.shape[1]} heads of queries do not divide into groups for "
            f"{k.shape[1]} heads of keys.",
            "Give a multiple of the heads of keys.",
        )
    wanted = op.wanted_captured or [False] * len(x.score_captured)
    pairs = zip(x.score_captured, wanted, strict=True)
    of_score = [jnp.asarray(y) if flag else y for y, flag in pairs]
    tables, rest = ([jnp.asarray(y) for y in group] for group in (x.tables, x.rest))
    return Parts(q, k, v, tables, of_score, x.mask_captured, rest)


def _flat(parts: Parts[Any]) -> list[Any]:
    """The operands in their order."""
    groups = parts.tables, parts.score_captured, parts.mask_captured, parts.rest
    return [parts.q, parts.k, parts.v, *[x for group in groups for x in group]]


# Over a mesh.


def _roles(op: FlexOp, given: Parts[Any]) -> Parts[Roles]:
    """The roles of the operands' axes."""
    batch, heads, queries = given.q.shape[:3]
    # A device has whole rows of blocks.
    is_even = not given.tables or queries % op.block[0] == 0
    rows = QUERIES if is_even else None
    lengths = (batch, heads, queries if is_even else -1)

    def of_table(x: Any) -> Roles:
        own = [role if n > 1 else None for role, n in zip((BATCH, HEADS), x.shape, strict=False)]
        return (*own, rows, *[None] * (x.ndim - 3))

    def of_captured(graph: Graph | None, arrays: Sequence[Any]) -> list[Roles]:
        shapes = [x.shape for x in arrays]
        found = [] if graph is None else roles_of(graph, lengths, shapes)
        pairs = zip(arrays, found, strict=True)
        return [(None,) * x.ndim if isinstance(x, np.ndarray) else own for x, own in pairs]

    own: Roles = (BATCH, HEADS, rows, None)
    of_keys: Roles = (BATCH, HEADS if given.k.shape[1] > 1 else None, None, None)
    return Parts(
        own,
        of_keys,
        of_keys,
        [of_table(x) for x in given.tables],
        of_captured(op.score, given.score_captured),
        of_captured(op.mask, given.mask_captured),
        [own[: x.ndim] for x in given.rest],
    )


def _over_mesh(
    op: FlexOp,
    given: Parts[Any],
    roles: Parts[Roles],
    attend: Callable[[Spec, Parts[Any]], Sequence[Any]],
    results: Sequence[Roles],
) -> Any:
    """The results of a kernel; where there is a mesh, of each device's part.

    Args:
        op: The operation.
        given: Its operands.
        roles: The roles of these.
        attend: The kernel, given the functions and the operands of the whole or of a part.
        results: The roles of its results.
    """
    layout = current()
    if layout is None:
        return attend(*_of_part(op, given, roles, UNDIVIDED))
    flat, own = _flat(given), _flat(roles)
    places = [i for i, x in enumerate(flat) if not isinstance(x, np.ndarray)]

    def run(how: Sharding, arrays: Sequence[Any]) -> Sequence[Any]:
        made = dict(enumerate(flat)) | dict(zip(places, arrays, strict=True))
        return attend(*_of_part(op, op.parts([*made.values()]), roles, how))

    tables, heads = given.tables, max(given.k.shape[1], 1)
    counts = (
        given.q.shape[0],
        heads if heads > 1 else given.q.shape[1],
        tables[0].shape[2] if tables else given.q.shape[2],
    )
    part = Part(run, [own[i] for i in places], results, counts)
    return over_mesh(part, layout.mesh, [flat[i] for i in places])


def _of_part(
    op: FlexOp, given: Parts[Any], roles: Parts[Roles], how: Sharding
) -> tuple[Spec, Parts[Any]]:
    """The functions of a device's part, and its operands."""
    parts = None if how == UNDIVIDED else (roles.score_captured, roles.mask_captured)
    start = () if parts is None else (origin(how, given.q.shape),)

    def made(title: str, graph: Graph | None, group: int, own: int) -> tuple[Any, list[Any]]:
        captured = (given.score_captured, given.mask_captured)[group]
        if graph is None:
            return None, []
        function = _scalar(title, graph, captured, parts and parts[group], own)
        return function, [*map(jnp.asarray, captured), *start]

    score, of_score = made("score_mod", op.score, 0, len(INDICES) + 1)
    mask, of_mask = made("mask_mod", op.mask, 1, len(INDICES))
    spec = Spec(score, mask, op.block, scale_of(op, given.q.shape[3]))
    return spec, given._replace(score_captured=of_score, mask_captured=of_mask)


def _scalar(
    title: str,
    graph: Graph,
    captured: Sequence[Any],
    roles: Sequence[Roles] | None,
    own: int,
) -> Callable[..., Any]:
    """A closed graph as a function of JAX scalars and the arrays that it captures.

    Args:
        title: Its name in messages.
        graph: The graph.
        captured: The arrays; those of NumPy are known while JAX traces.
        roles: Their roles where it is for a device's part; the last array that it takes is then
            the part's place.
        own: How many scalars it takes.
    """
    known = {i: x for i, x in enumerate(captured) if isinstance(x, np.ndarray)}
    (node,) = graph.outputs
    made = graph if roles is None else divided(graph, roles)
    inner = range(own + len(captured), len(made.inputs))
    host = analyse(made, [own + i for i in known], [*range(own), *inner])
    program = Program(made, backend, host)

    def scalar(*given: Any) -> Any:
        first = own - len(INDICES)
        places: Sequence[Any] = given[first:own]
        arrays = [known.get(i, x) for i, x in enumerate(given[own : own + len(captured)])]
        if roles is not None:
            inside = places[: len(inner)]
            places = [x + given[-1][i] for i, x in enumerate(places)]
            arrays += inside
        with checked(None):
            (found,) = program.trace(*given[:first], *places, *arrays)
        found = whole(dense(found, title, node.where), node)
        return jnp.asarray(found, node.type.numpy_dtype)

    return scalar
