"""Attention of JAX arrays, concrete or traced: the operation of graphs as a function of JAX.

The arrays that a function captures are arguments of one compiled function, which is cached by code
and structure. The program of the gradient is the first derivative; JAX takes higher ones from the
rules of both programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from graphc.attention.checks import (
    AttentionLengths,
    check_dtypes,
    check_mask_broadcast,
    check_shapes,
    resolve_scale,
)
from graphc.attention.flex import Flex
from graphc.attention.inputs import BLOCK, compute_dtype
from graphc.attention.mods import lift_mod
from graphc.capture import Stripped
from graphc.config import config
from graphc.errors import ArgumentError
from graphc.ir import Node, TensorType
from graphc.link.jax.attention import programs, ring, shards
from graphc.link.jax.attention.accelerated import with_kernels
from graphc.link.jax.attention.functions import captured_arrays
from graphc.link.jax.attention.mods import mask_program, score_program, types_of
from graphc.link.jax.attention.shards import Sharding
from graphc.link.jax.explicit import explicit_mesh
from graphc.link.jax.varying import vary_as, varying_together

if TYPE_CHECKING:
    from graphc.attention.mask import BlockMask


Axes = tuple[Any, ...]
"""The mesh axes along which keys and values rotate; empty if they do not."""


@dataclass(frozen=True)
class _CompiledCall:
    """A call of attention without its arrays, compiled once.

    Attributes:
        score: The score function without the arrays that it captures, or None.
        mask: The mask function without the arrays that it captures, or None.
        block: The numbers of queries and keys of a block.
        scale: The factor of products of queries and keys.
        sharding: The mesh axes over which a surrounding ``jax.shard_map`` shards the arrays.
        kernels: The option ``attention`` of the default mode.
    """

    score: Stripped | None
    mask: Stripped | None
    block: tuple[int, int]
    scale: float
    sharding: Sharding
    kernels: str | None


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
    """Return attention of JAX arrays; ``graphc.attention.flex_attention`` documents the arguments.

    Works within ``jax.jit``, ``grad``, ``vmap``, ``scan`` and ``checkpoint``. The first derivative
    is in reverse mode: JAX refuses ``jax.jvp`` of functions with a custom gradient. Further
    derivatives are of any mode and order, as ``jax.hessian``, or ``jax.jvp`` of a ``jax.grad``. New
    values in arrays that ``score_mod`` and the mask capture recompile nothing.

    Raises:
        ShapeError: If lengths differ from each other or from the mask's, or if a function returns
            no scalar.
        DTypeError: If a dtype is not floating, if dtypes differ, or if a function returns another
            dtype.
        ArgumentError: If an argument is symbolic, if a function takes other arguments or captures
            something that is not fixed, or if there are more heads of queries than of keys.
        SymbolicValueError: If a function needs a value, as a Python ``if`` does.

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
        types = _global_types(types, sequence_axis, block_mask, ring)
    sizes = _check_types(types, block_mask, enable_gqa)
    score, score_captured = _score(score_mod)
    (mask, mask_captured), tables = _mask(block_mask, sizes)
    block = BLOCK if block_mask is None else block_mask.block_size
    factor = resolve_scale(scale, types[0].shape[3])
    assert factor is not None
    sharding = Sharding(queries=sequence_axis, ring=ring)
    call = _CompiledCall(score, mask, block, factor, sharding, _kernels())
    out, lse = _compiled(call, q, k, v, tables, score_captured, mask_captured)
    return (out, lse) if return_lse else out


def _kernels() -> str | None:
    """Return the option ``attention`` of the default mode, if that is one of JAX."""
    is_jax = getattr(config.mode, "name", None) == "JAX"
    return config.mode.options.get("attention") if is_jax else None


def _for_each_sequence(x: Any, batch: int) -> Any:
    """Repeat the keys or values of a single sequence for each sequence of queries."""
    is_single = x.ndim == 4 and x.shape[0] == 1
    return jnp.broadcast_to(x, (batch, *x.shape[1:])) if is_single else x


def _global_types(
    types: Sequence[TensorType], axis: Any, block_mask: BlockMask | None, ring: bool
) -> list[TensorType]:
    """Return the types of global sequences, of which each device along an axis has a shard."""
    count = shards.axis_size(axis)

    def global_type(x: TensorType, what: str) -> TensorType:
        b, h, n, e = x.shape
        assert n is not None
        if block_mask is not None:
            shards.check_blocks(n * count, count, block_mask.block_size[what == "keys"], what)
        return x.with_shape((b, h, n * count, e))

    q, k, v = types
    q = global_type(q, "queries")
    return [q, global_type(k, "keys"), global_type(v, "keys")] if ring else [q, k, v]


def _check_types(
    types: Sequence[TensorType], block_mask: BlockMask | None, enable_gqa: bool
) -> AttentionLengths:
    query, key, value = types
    check_dtypes(query, key, value)
    return check_shapes(query, key, value, block_mask, enable_gqa)


Captured = tuple[Stripped | None, tuple[Any, ...]]
"""A function without the arrays that it captures, and the arrays."""


def _score(score_mod: Callable[..., Any] | None) -> Captured:
    if score_mod is None:
        return None, ()
    function = lift_mod(score_mod, "score_mod")
    return function.stripped, captured_arrays("score_mod", function)


def _mask(block_mask: BlockMask | None, sizes: AttentionLengths) -> tuple[Captured, Any]:
    """Return the mask function and its arrays, and the tables of blocks."""
    if block_mask is None:
        return (None, ()), ()
    tables = tuple(map(_table, block_mask.tables))
    stripped, arrays = block_mask.stripped, captured_arrays("mask_mod", block_mask.lifted)
    if block_mask.shape[:2] != (sizes.batch, sizes.heads):
        check_mask_broadcast(block_mask, mask_program(stripped, types_of(arrays)).uses, sizes)
    return (stripped, arrays), tables


def _array(name: str, x: Any) -> jax.Array:
    if isinstance(x, jax.Array):
        return x
    if isinstance(x, np.ndarray):
        return jnp.array(x)
    kind = "symbolic" if isinstance(x, Node) else f"a {type(x).__name__}"
    raise ArgumentError(
        f"flex_attention: {name} is {kind}, and among the others are JAX arrays.",
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


def _attention(call: _CompiledCall, *arrays: Any) -> tuple[Any, Any]:
    """Return the result and the log-sum-exps of arrays that may be sharded."""
    q, k, v, tables, score_captured, mask_captured = arrays
    score = mask = None
    if call.score is not None:
        dtype = compute_dtype(str(q.dtype))
        program = score_program(call.score, types_of(score_captured), dtype)
        score, score_captured = program.graph, program.captured(score_captured)
    if call.mask is not None:
        program = mask_program(call.mask, types_of(mask_captured))
        mask, mask_captured = program.graph, program.captured(mask_captured)
    op = with_kernels(Flex(score, mask, bool(tables), call.block, call.scale, True), call.kernels)
    arrays, sharding = (q, k, v, tables, score_captured, mask_captured), call.sharding
    mesh = explicit_mesh(arrays[:3])
    if mesh is not None:
        sharding = shards.sharding_of(mesh, op, arrays, sharding.ring)
        results: tuple[Any, Any] = shards.over_mesh(
            _attention_of_any_length, op, mesh, sharding, arrays
        )
        return results
    if sharding.queries is None:
        return _attention_of_any_length(op, (), *arrays)
    rows = shards.own_rows(tables, sharding.queries) if tables else ()
    shard = (q, k, v, rows, score_captured, mask_captured)
    return _attention_of_any_length(*shards.of_device(op, sharding, shard))


def _attention_of_any_length(
    op: Flex, axes: Axes, q: Any, k: Any, v: Any, *others: Any
) -> tuple[Any, Any]:
    """Return the result and the log-sum-exps; any length may be 0."""
    q, k, v, *rest = varying_together((q, k, v, *others))
    if 0 in (*q.shape[:3], k.shape[2]):
        lse = jnp.full(q.shape[:3], -jnp.inf, jnp.promote_types(q.dtype, "float32"))
        return vary_as((jnp.zeros((*q.shape[:3], v.shape[3]), q.dtype), lse), q)
    out, lse = _attend(op, axes, *map(_with_elements, (q, k, v)), *rest)
    return out[..., : v.shape[3]], lse


def _with_elements(x: Any) -> Any:
    """Return the array, or one zero if its last axis has no elements."""
    return x if x.shape[-1] else vary_as(jnp.zeros((*x.shape[:-1], 1), x.dtype), x)


_compiled = jax.jit(_attention, static_argnums=0)
"""The compiled function, for each structure of functions and types of arrays."""


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(op: Flex, axes: Axes, *arrays: Any) -> tuple[Any, Any]:
    return _results(op, axes, arrays)


def _results(op: Flex, axes: Axes, arrays: programs.Arrays) -> tuple[Any, Any]:
    return ring.forward(op, axes, arrays) if axes else programs.forward(op, arrays)


Marks = tuple[tuple[()] | None, ...]
"""A mark for each array that the score function captures, None where it has no gradient."""


def _attend_forward(op: Flex, axes: Axes, *arrays: Any) -> Any:
    """Return the results, and the gradient's residuals, whose size is linear in the lengths."""
    marks: Marks = tuple(() if x.perturbed else None for x in arrays[4])
    values = jax.tree.map(lambda x: x.value, arrays, is_leaf=lambda x: hasattr(x, "perturbed"))
    results = _results(op, axes, values)
    return results, (values, results, marks)


def _attend_backward(op: Flex, axes: Axes, residuals: Any, g: Any) -> tuple[Any, ...]:
    values, results, marks = residuals
    wanted = tuple(mark is not None for mark in marks)
    rest = [*results, *map(_instantiate, g)]
    by_q, by_k, by_v, *others = (
        ring.backward(op, axes, wanted, values, rest)
        if axes
        else programs.backward(op, wanted, values, rest)
    )
    remaining = iter(others)
    by_captured = tuple(next(remaining) if flag else None for flag in wanted)
    return by_q, by_k, by_v, None, by_captured, None


def _instantiate(g: Any) -> Any:
    return vary_as(jnp.zeros(g.shape, g.dtype), g.aval) if isinstance(g, SymbolicZero) else g


_attend.defvjp(_attend_forward, _attend_backward, symbolic_zeros=True)
