"""Attention of JAX arrays, concrete or traced.

The arrays that a function captures are arguments of one compiled function, which is cached by code
and structure. The derivative is that of ``kernel.py``; derivatives of it are plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from graphc.attention.checks import (
    Sizes,
    check_spread,
    checked_dtype,
    checked_scale,
    checked_shapes,
)
from graphc.attention.mods import lifted
from graphc.attention.parts import BLOCK
from graphc.errors import ArgumentError
from graphc.ir import Node, TensorType
from graphc.link.jax.attention import plain, ring, shards
from graphc.link.jax.attention.functions import MaskFunction, ScoreFunction, captured
from graphc.link.jax.attention.kernel import Spec, backward, forward
from graphc.link.jax.attention.plain import Operands
from graphc.link.jax.attention.programs import program_of
from graphc.link.jax.attention.shards import Sharding
from graphc.link.jax.explicit import explicit_mesh
from graphc.link.jax.varying import vary_as, varying_together

if TYPE_CHECKING:
    from graphc.attention.mask import BlockMask


def flex_attention(  # noqa: PLR0913, PLR0917 (PyTorch's arguments)
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    *,
    sequence_axis: Any = None,
    ring: bool = False,
) -> Any:
    """Attention of JAX arrays, with a score function and a block mask.

    Works within ``jax.jit``, ``grad``, ``vmap``, ``scan`` and ``checkpoint``. The first derivative
    is one in reverse mode: JAX refuses ``jax.jvp`` of functions that bring their own. Derivatives
    of that are of any mode and order, as ``jax.hessian``, or ``jax.jvp`` of a ``jax.grad``. New
    values in arrays that ``score_mod`` and the mask capture compile nothing again.

    Args:
        query: (B, Hq, Q, E), floating.
        key: (B or 1, Hkv, K, E), of that dtype.
        value: (B or 1, Hkv, K, Ev), of that dtype.
        score_mod: ``(score, b, h, q_idx, kv_idx)`` to the new score, written with operators or
            ``jax.numpy`` for scalars: the score is float32, or float64 for such queries, and the
            others are int32. Gradients flow to captured arrays.
        block_mask: Which keys each query sees; all by default.
        scale: What products of queries and keys are multiplied by, ``1 / sqrt(E)`` by default.
        enable_gqa: Whether several heads of queries may read one head of keys.
        return_lse: Whether to give the logarithms of the sums of exponentials as well.
        sequence_axis: Within ``jax.shard_map``, the mesh axis over whose devices the queries of a
            sequence are sharded: indices and the block mask are those of the whole sequence.
        ring: Whether keys and values are sharded as the queries are, and rotate.

    Returns:
        (B, Hq, Q, Ev) of the queries' dtype; zeros for a query that sees no key. With
        ``return_lse`` a pair of it and (B, Hq, Q), float32 or float64, ``-inf`` for such a query.

    Raises:
        ShapeError: Lengths do not fit each other or the mask, or a function gives no scalar.
        DTypeError: A dtype is not floating, dtypes differ, or a function gives another dtype.
        ArgumentError: An argument is symbolic; a function is none, takes other arguments or
            captures what cannot be; there are more heads of queries than of keys.
        SymbolicValueError: A function asks for a value, as a Python ``if`` does.

    Example:
        >>> import jax.numpy as jnp
        >>> from graphc.link.jax.attention.attend import flex_attention
        >>> x = jnp.ones((1, 2, 6, 4))
        >>> slopes = jnp.array([0.5, 0.25])
        >>> flex_attention(x, x, x, lambda s, b, h, i, j: s - slopes[h] * abs(i - j)).shape
        (1, 2, 6, 4)
    """
    q, k, v = (_array(*x) for x in (("query", query), ("key", key), ("value", value)))
    if q.ndim == 4:
        k, v = (_for_each_sequence(x, q.shape[0]) for x in (k, v))
    types = [TensorType(x.dtype, x.shape) for x in (q, k, v)]
    if sequence_axis is None:
        shards.check_ring(ring)
    else:
        types = _of_sequence(types, sequence_axis, block_mask, ring)
    sizes = _checked(types, block_mask, enable_gqa)
    score, of_score = _score(score_mod)
    mask, of_mask, tables = _mask(block_mask, sizes)
    block = BLOCK if block_mask is None else block_mask.block_size
    spec = Spec(score, mask, block, _scale(scale, types[0]))
    how = Sharding(queries=sequence_axis, ring=ring)
    out, lse = _compiled(spec, how, q, k, v, tables, of_score, of_mask)
    return (out, lse) if return_lse else out


def _for_each_sequence(x: Any, batch: int) -> Any:
    """Repeat the keys or values of a single sequence for each sequence of queries."""
    is_single = x.ndim == 4 and x.shape[0] == 1
    return jnp.broadcast_to(x, (batch, *x.shape[1:])) if is_single else x


def _of_sequence(
    types: Sequence[TensorType], axis: Any, block_mask: BlockMask | None, ring: bool
) -> list[TensorType]:
    """The types of whole sequences, of which each device along an axis has a shard."""
    count = shards.axis_size(axis)

    def whole(x: TensorType, what: str, is_shard: bool) -> TensorType:
        b, h, n, e = x.shape
        assert n is not None
        if not is_shard:
            return x
        if block_mask is not None:
            shards.check_blocks(n * count, count, block_mask.block_size[what == "keys"], what)
        return x.with_shape((b, h, n * count, e))

    q, k, v = types
    return [whole(q, "queries", True), whole(k, "keys", ring), whole(v, "keys", ring)]


def _checked(types: Sequence[TensorType], block_mask: BlockMask | None, enable_gqa: bool) -> Sizes:
    query, key, value = types
    checked_dtype(query, key, value)
    return checked_shapes(query, key, value, block_mask, enable_gqa)


def _scale(scale: Any, query: TensorType) -> float:
    known = checked_scale(scale, query.shape[3])
    assert known is not None
    return known


def _score(score_mod: Callable[..., Any] | None) -> tuple[ScoreFunction | None, tuple[Any, ...]]:
    """The score function, and the arrays that it captures."""
    if score_mod is None:
        return None, ()
    apart = lifted(score_mod, "score_mod")
    return ScoreFunction(apart.stripped), captured("score_mod", apart)


Mask = tuple[MaskFunction | None, tuple[Any, ...], tuple[Any, ...]]


def _mask(block_mask: BlockMask | None, sizes: Sizes) -> Mask:
    """The mask function, the arrays that it captures, and the tables of blocks."""
    if block_mask is None:
        return None, (), ()
    tables = tuple(map(_table, block_mask.tables))
    of_mask = captured("mask_mod", block_mask.lifted)
    if block_mask.shape[:2] != (sizes.batch, sizes.heads):
        check_spread(block_mask, program_of(block_mask.stripped, of_mask).uses, sizes)
    return MaskFunction(block_mask.stripped), of_mask, tables


def _array(name: str, x: Any) -> jax.Array:
    if isinstance(x, jax.Array):
        return x
    if isinstance(x, np.ndarray):
        return jnp.array(x)
    what = "symbolic" if isinstance(x, Node) else f"a {type(x).__name__}"
    raise ArgumentError(
        f"flex_attention: {name} is {what}, and among the others are JAX arrays.",
        "Give all three as JAX arrays, or all as symbolic ones.",
    )


def _table(x: Any) -> Any:
    if isinstance(x, Node):
        raise ArgumentError(
            "flex_attention: the block mask is symbolic, and query, key and value are JAX arrays.",
            "Make it with create_block_mask of a function that captures no symbolic arrays.",
        )
    # Compiled functions take NumPy arrays too, and faster.
    return x if isinstance(x, np.ndarray) and x.dtype == np.int32 else jnp.asarray(x, "int32")


def _attention(spec: Spec, how: Sharding, *arrays: Any) -> tuple[Any, Any]:
    """The result and the log-sum-exps of arrays that may be sharded."""
    mesh = explicit_mesh(arrays[:3])
    if mesh is not None:
        found = shards.sharding_of(mesh, spec, arrays, how.ring)
        results: tuple[Any, Any] = shards.over_mesh(_of_any_length, spec, mesh, found, arrays)
        return results
    if how.queries is None:
        return _of_any_length(spec, *arrays)
    q, k, v, tables, *captured = arrays
    rows = shards.own_rows(tables, how.queries) if tables else ()
    own = shards.Shard.of(spec, how, (q, k, v, rows, *captured))
    return _of_any_length(own.spec, *own.arrays)


def _of_any_length(spec: Spec, q: Any, k: Any, v: Any, *others: Any) -> tuple[Any, Any]:
    """The result and the log-sum-exps, where any length may be 0."""
    q, k, v, *rest = varying_together((q, k, v, *others))
    if 0 in (*q.shape[:3], k.shape[2]):
        lse = jnp.full(q.shape[:3], -jnp.inf, jnp.promote_types(q.dtype, "float32"))
        return vary_as((jnp.zeros((*q.shape[:3], v.shape[3]), q.dtype), lse), q)
    out, lse = _attended(spec, *map(_with_elements, (q, k, v)), *rest)
    return out[..., : v.shape[3]], lse


def _with_elements(x: Any) -> Any:
    """The array, or one zero where its last axis has no elements."""
    return x if x.shape[-1] else vary_as(jnp.zeros((*x.shape[:-1], 1), x.dtype), x)


_compiled = jax.jit(_attention, static_argnums=(0, 1))
"""Compiled once for each structure of functions, and types of arrays."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attended(spec: Spec, *given: Any) -> tuple[Any, Any]:
    return _results(spec, *given)


Marks = tuple[tuple[()] | None, ...]
"""A mark for each array that the score function captures, None where it has no gradient."""


def _attended_forward(spec: Spec, *given: Any) -> Any:
    """The results, and the residuals of the gradient, whose size is linear in the lengths."""
    of_score = given[4]
    marks: Marks = tuple(() if x.perturbed else None for x in of_score)
    values = jax.tree.map(lambda x: x.value, given, is_leaf=lambda x: hasattr(x, "perturbed"))
    results = _results(spec, *values)
    return results, (values, results, marks)


def _attended_backward(spec: Spec, kept: Any, g: Any) -> tuple[Any, ...]:
    values, results, marks = kept
    wanted = tuple(mark is not None for mark in marks)
    by_q, by_k, by_v, *others = _gradient(spec, wanted, *values, *results, *map(_instantiated, g))
    found = iter(others)
    by_captured = tuple(next(found) if flag else None for flag in wanted)
    return by_q, by_k, by_v, None, by_captured, None


def _instantiated(g: Any) -> Any:
    return vary_as(jnp.zeros(g.shape, g.dtype), g.aval) if isinstance(g, SymbolicZero) else g


_attended.defvjp(_attended_forward, _attended_backward, symbolic_zeros=True)


# Derivatives of a gradient, in either mode, are those of plain JAX.


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _results(spec: Spec, *given: Any) -> tuple[Any, Any]:
    """The result and the log-sum-exps."""
    return ring.forward(spec, *given) if spec.ring else forward(spec, *given)


@_results.defjvp
def _results_tangent(spec: Spec, given: Any, tangents: Any) -> tuple[Any, Any]:
    def made(*given: Any) -> tuple[Any, Any]:
        return plain.attention(spec, ring.with_all_keys(spec, Operands(*given)))

    return _results(spec, *given), jax.jvp(made, given, tangents)[1]


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _gradient(spec: Spec, wanted: Sequence[bool], *given: Any) -> tuple[Any, ...]:
    """The cotangents of q, k, v and the wanted captured arrays."""
    x = Operands(*given)
    return tuple((ring.backward if spec.ring else backward)(spec, *x, wanted))


@_gradient.defjvp
def _gradient_tangent(
    spec: Spec, wanted: Sequence[bool], given: Any, tangents: Any
) -> tuple[Any, Any]:
    def made(*given: Any) -> tuple[Any, ...]:
        found = plain.gradient(spec, wanted, ring.with_all_keys(spec, Operands(*given)))
        return ring.of_own_keys(spec, found)

    return _gradient(spec, wanted, *given), jax.jvp(made, given, tangents)[1]
