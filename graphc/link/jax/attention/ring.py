"""Ring attention: each device has a shard of the keys, and the shards rotate from device to device.

At each step a device attends with its queries to the keys that it holds, and passes the keys on.
The results of the steps are weighted by their log-sum-exps. No device ever has all keys, not even
for the gradient, where the gradients with respect to keys and values rotate with the keys.

Source: Liu, Zaharia & Abbeel, Ring Attention with Blockwise Transformers, ICLR 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.attention.flex import Flex
from graphc.attention.grids import compact, grid_of
from graphc.attention.inputs import compute_dtype, table_pairs
from graphc.link.jax.attention import programs
from graphc.link.jax.attention.programs import Arrays


class _Ring:
    """The devices along mesh axes, each with its shard of keys and values."""

    def __init__(self, op: Flex, axes: Sequence[Any], arrays: Arrays) -> None:
        self.op, self.axes = op, tuple(axes)
        self.q, k, _, tables, self.score_captured, self.mask_captured = arrays
        self.keys = k.shape[2]
        self.count, self.index = lax.axis_size(self.axes), lax.axis_index(self.axes)
        self.grids = [grid_of(*pair) for pair in table_pairs(tables)] if tables else []

    def rotate(self, tree: Any) -> Any:
        """Return the arrays of the previous device."""
        to_next = [(i, (i + 1) % self.count) for i in range(self.count)]
        permute: Any = lax.ppermute
        return jax.tree.map(lambda x: permute(x, self.axes, to_next), tree)

    def tables(self, step: Any) -> tuple[Any, ...]:
        """Return the tables of the keys that a device holds after some steps."""
        columns = self.keys // self.op.block[1]
        start = self._shard(step) * np.int32(columns)
        grids = [lax.dynamic_slice_in_dim(x, start, columns, 3) for x in self.grids]
        return tuple([part for grid in grids for part in compact(grid)])

    def captured_arrays(
        self, step: Any, arrays: Sequence[Any], has_function: bool
    ) -> tuple[Any, ...]:
        """Return captured arrays; the last one, the origin, gets the index of the first key."""
        if not has_function:
            return tuple(arrays)
        *others, origin = arrays
        return (*others, origin.at[3].set(self._shard(step) * np.int32(self.keys)))

    def _shard(self, step: Any) -> Any:
        """Return the index of the shard of keys that this device holds after some steps."""
        return jnp.mod(self.index - step, self.count).astype(jnp.int32)

    def arrays(self, step: Any, k: Any, v: Any) -> Arrays:
        """Return the arrays of attention at a step, with the keys and values that it has."""
        return (
            self.q,
            k,
            v,
            self.tables(step),
            self.captured_arrays(step, self.score_captured, self.op.score is not None),
            self.captured_arrays(step, self.mask_captured, self.op.mask is not None),
        )

    def scan_steps(self, first: Any, rotating: Any, step: Any) -> tuple[Any, Any]:
        """Return the last state, and the rotating arrays, after all steps but the first."""

        def following(state: Any, i: Any) -> Any:
            done, rotating = state
            return step(i, done, self.rotate(rotating)), None

        steps = jnp.arange(1, self.count, dtype=np.int32)
        (done, rotating), _ = lax.scan(following, (first, rotating), steps)
        return done, rotating


def forward(op: Flex, axes: Sequence[Any], arrays: Arrays) -> tuple[Any, Any]:
    """Return the result of attention and the log-sum-exps of the device's queries.

    Args:
        op: The operation, whose functions capture the origin of the device's queries.
        axes: The mesh axes along which keys and values rotate.
        arrays: The arrays of attention: keys and values are the device's shards, and ``tables``
            list blocks of all keys.
    """
    ring, (q, k, v, *_) = _Ring(op, axes, arrays), arrays
    dtype = compute_dtype(str(q.dtype))

    def attend(i: Any, k: Any, v: Any) -> tuple[Any, Any]:
        out, lse = programs.forward(op, ring.arrays(i, k, v))
        return out.astype(dtype), lse

    def step(i: Any, done: Any, rotating: Any) -> Any:
        return _merge(done, attend(i, *rotating)), rotating

    (out, lse), _ = ring.scan_steps(attend(np.int32(0), k, v), (k, v), step)
    return out.astype(q.dtype), lse


def _merge(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return results and log-sum-exps of the union of two sets of keys."""
    lse = jnp.logaddexp(a[1], b[1])
    finite = jnp.where(lse == -np.inf, 0, lse)
    terms = [out * jnp.exp(own_lse - finite)[..., None] for out, own_lse in (a, b)]
    return terms[0] + terms[1], lse


def backward(
    op: Flex, axes: Sequence[Any], wanted: tuple[bool, ...], arrays: Arrays, rest: Sequence[Any]
) -> tuple[Any, ...]:
    """Return the gradients of ``forward`` with respect to q, k, v and the wanted captured arrays.

    Args:
        op: The operation.
        axes: The mesh axes along which keys and values rotate.
        wanted: Whether each of the score function's arrays has a gradient.
        arrays: The arrays of attention.
        rest: The result, the log-sum-exps, and the cotangents of both.
    """
    ring, (q, k, v, *_) = _Ring(op, axes, arrays), arrays

    def gradients(i: Any, k: Any, v: Any) -> Any:
        results = programs.backward(op, wanted, ring.arrays(i, k, v), rest)
        by_q, by_k, by_v, *others = [x.astype(compute_dtype(str(x.dtype))) for x in results]
        return (by_q, *others), (by_k, by_v)

    def step(i: Any, done: Any, rotating: Any) -> Any:
        keys, totals = rotating
        new, by_keys = gradients(i, *keys)
        add = jax.tree.map(jnp.add, (done, totals), (new, by_keys))
        return add[0], (keys, add[1])

    done, by_keys = gradients(np.int32(0), k, v)
    (by_q, *others), (_, by_keys) = ring.scan_steps(done, ((k, v), by_keys), step)
    by_k, by_v = ring.rotate(by_keys)
    captured = [x for x, flag in zip(ring.score_captured, wanted, strict=True) if flag]
    like = (q, k, v, *captured)
    results = (by_q, by_k, by_v, *others)
    return tuple(y.astype(x.dtype) for y, x in zip(results, like, strict=True))
