"""``flex_attention``: attention with mask and score functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from graphc.attention.checks import check_dtypes, check_mask_broadcast, check_shapes, resolve_scale
from graphc.attention.flex import Flex
from graphc.attention.inputs import BLOCK
from graphc.attention.jax_arrays import jax_arrays
from graphc.attention.mask import BlockMask
from graphc.attention.mods import leaf_of, lift_mod, mask_of, score_of, uses
from graphc.errors import ArgumentError
from graphc.implicit.namespace import has_jax
from graphc.ir import Node, picks
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor


@overload
def flex_attention(
    query: Tensor,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: Literal[False] = False,
    *,
    sequence_axis: Any = None,
    ring: bool = False,
) -> Tensor: ...


@overload
def flex_attention(
    query: Tensor,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_lse: Literal[True],
    sequence_axis: Any = None,
    ring: bool = False,
) -> tuple[Tensor, Tensor]: ...


@overload
def flex_attention(
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
) -> Any: ...


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
    """Return attention with a score function and a block mask.

    The result is ``softmax(where(mask, score_mod(scale * query @ key.T), -inf)) @ value``. Blocks
    that the mask excludes cost nothing, forwards and backwards, and memory grows with the
    lengths, not with their product. Arrays that the functions capture are passed when the program
    runs: other values recompile nothing, and gradients flow to them.

    Args:
        query: (batch, heads, queries, elements), floating; symbolic, or JAX's.
        key: (batch or 1, key heads, keys, elements).
        value: (batch or 1, key heads, keys, value elements).
        score_mod: The new score, ``score_mod(score, b, h, q_idx, kv_idx)`` of scalars, written in
            ``graphc.tensor`` or ``jax.numpy``; for JAX arrays in the latter. The score is float32,
            or float64 if the query is; the indices are int32.
        block_mask: The mask, made by ``create_block_mask`` for these lengths; without a mask,
            every query sees every key.
        scale: The factor of ``query @ key.T``; ``1 / sqrt(elements)`` by default.
        enable_gqa: Let several heads of queries share a head of keys: head h reads the key head
            ``h // (heads // key heads)``.
        return_lse: Return the log-sum-exps of the scores too.
        sequence_axis: For JAX arrays within ``jax.shard_map``: the mesh axis over which the queries
            of a sequence are sharded. Indices and the block mask count from the sequence's start.
        ring: For JAX arrays: shard keys and values over the same axis as the queries, and rotate
            them from device to device, so that no device ever has all of them.

    Returns:
        (batch, heads, queries, value elements) of the query's dtype. With ``return_lse`` a pair:
        the array, and ``log(sum(exp(scores)))``, (batch, heads, queries), in nats, of the scores'
        dtype. A query that sees no key gives zeros and ``-inf``, and its gradients are zero.

    Raises:
        ShapeError: If lengths differ from each other or from the mask's, or if ``score_mod``
            returns no scalar.
        DTypeError: If the arrays are not floating, if their dtypes differ, or if ``score_mod``
            returns no real number.
        ArgumentError: If there are more heads of queries than of keys without ``enable_gqa``, or
            if a function takes other arguments or captures something that is not fixed.
        SymbolicValueError: If ``score_mod`` needs a value, as a Python ``if`` does.

    Source: Dong et al., arXiv:2412.05496, 2024 (the interface); Dao, ICLR 2024 (the algorithm).

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> from graphc.attention import create_block_mask, flex_attention
        >>> q, k, v = (gt.tensor(name, shape=(1, 2, 6, 4)) for name in "qkv")
        >>> slopes = gt.vector("slopes")
        >>> causal = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, 1, 1, 6, 6)
        >>> out = flex_attention(
        ...     q, k, v, lambda score, b, h, i, j: score - slopes[h] * (i - j), causal)
        >>> f = graphc.function([q, k, v, slopes], out, mode="NUMPY")
        >>> x = np.ones((1, 2, 6, 4))
        >>> f(x, x, x * np.arange(6)[:, None], [0.0, 1e3])[0, :, 5, 0].tolist()
        [2.5, 5.0]
    """
    if has_jax(query, key, value):
        args = (query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse)
        return jax_arrays().flex_attention(*args, sequence_axis=sequence_axis, ring=ring)
    if sequence_axis is not None or ring:
        raise ArgumentError(
            f"flex_attention(sequence_axis={sequence_axis!r}, ring={ring!r}) of symbolic arrays.",
            "These are for JAX arrays; shard the inputs of a graph instead.",
        )
    q, k, v = (as_tensor(x) for x in (query, key, value))
    k, v = (_for_each_sequence(x, q) for x in (k, v))
    sizes = check_shapes(q.type, k.type, v.type, block_mask, enable_gqa)
    dtype = check_dtypes(q.type, k.type, v.type)
    mask = None if block_mask is None else mask_of(block_mask.lifted)
    if block_mask is not None and mask is not None:
        sizes = check_mask_broadcast(block_mask, uses(mask.graph), sizes)
    if not enable_gqa and sizes.heads != sizes.key_heads:
        heads = sizes.key_heads if sizes.heads is None else sizes.heads
        sizes = sizes._replace(heads=heads, key_heads=heads)
    factor = resolve_scale(scale, sizes.dim)
    q = specify_shape(q, (sizes.batch, sizes.heads, sizes.queries, sizes.dim))
    k = specify_shape(k, (sizes.batch, sizes.key_heads, sizes.keys, sizes.dim))
    v = specify_shape(v, (sizes.batch, sizes.key_heads, sizes.keys, sizes.value_dim))
    score = None if score_mod is None else score_of(lift_mod(score_mod, "score_mod"), dtype)
    tables = [] if block_mask is None else [leaf_of(x, "block_mask") for x in block_mask.tables]
    op = Flex(
        None if score is None else score.graph,
        None if mask is None else mask.graph,
        block_mask is not None,
        BLOCK if block_mask is None else block_mask.block_size,
        factor,
        enable_gqa,
    )
    captured: list[Tensor] = [x for mod in (score, mask) if mod is not None for x in mod.captured]
    out, sums = picks(Node.make(op, q, k, v, *tables, *captured))
    return (out, sums) if return_lse else out


def _for_each_sequence(x: Tensor, query: Tensor) -> Tensor:
    """Repeat the keys or values of a single sequence for each sequence of queries."""
    ranks = (x.ndim, query.ndim)
    if ranks != (4, 4) or x.type.shape[0] != 1 or query.type.shape[0] == 1:
        return x
    return broadcast_to(x, (length(query, 0), *lengths(x)[1:]))
