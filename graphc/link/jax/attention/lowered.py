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
from graphc.link.jax.attention.kernel import Spec, backward, forward
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import checked, whole
from graphc.link.program import Program


def flex(op: Flex, values: Sequence[Any]) -> Any:
    """Attention, where blocks that are not in the tables cost nothing."""
    given = op.parts(values)
    return forward(_spec(op, given), *_operands(given))


def flex_gradient(op: FlexGradient, values: Sequence[Any]) -> Any:
    """The gradient, with weights recomputed block by block."""
    given = op.parts(values)
    out, sums, g_out, g_sums = map(jnp.asarray, given.rest)
    operands = (*_operands(given), out, sums, g_out, g_sums)
    return backward(_spec(op, given), *operands, op.wanted)


def _operands(given: Parts[Any]) -> tuple[Any, Any, Any, Any, Any, Any]:
    """The operands of the kernel as JAX arrays."""
    q, k, v = (jnp.asarray(x) for x in (given.q, given.k, given.v))
    if q.shape[1] % max(k.shape[1], 1):
        raise RuntimeShapeError(
            f"flex_attention: {q.shape[1]} heads of queries do not divide into groups for "
            f"{k.shape[1]} heads of keys.",
            "Give a multiple of the heads of keys.",
        )
    groups = (given.tables, given.score_captured, given.mask_captured)
    tables, score_captured, mask_captured = ([jnp.asarray(x) for x in group] for group in groups)
    return q, k, v, tables, score_captured, mask_captured


def _spec(op: FlexOp, given: Parts[Any]) -> Spec:
    wanted = op.wanted_captured or [False] * len(given.score_captured)
    score = _scalar("score_mod", op.score, given.score_captured, wanted, len(INDICES) + 1)
    never = [False] * len(given.mask_captured)
    mask = _scalar("mask_mod", op.mask, given.mask_captured, never, len(INDICES))
    return Spec(score, mask, op.block, scale_of(op, given.q.shape[3]))


def _scalar(
    title: str, graph: Graph | None, captured: Sequence[Any], wanted: Sequence[bool], own: int
) -> Callable[..., Any] | None:
    """A closed graph as a function of JAX scalars and the arrays that it captures.

    Arrays that are known while JAX traces stay so, unless they have a gradient.
    """
    if graph is None:
        return None
    pairs = zip(captured, wanted, strict=True)
    known = {i: x for i, (x, flag) in enumerate(pairs) if isinstance(x, np.ndarray) and not flag}
    program = Program(graph, backend, analyse(graph, [own + i for i in known], range(own)))
    (node,) = graph.outputs

    def scalar(*given: Any) -> Any:
        arrays = [known.get(i, x) for i, x in enumerate(given[own:])]
        with checked(None):
            (found,) = program.trace(*given[:own], *arrays)
        found = whole(dense(found, title, node.where), node)
        return jnp.asarray(found, node.type.numpy_dtype)

    return scalar
