"""Ring attention: each device has a shard of the keys, and the shards rotate from device to device.

At each step a device attends with its queries to the keys that it holds, and passes the keys on.
The results of the steps are weighted by their log-sum-exps. No device ever has all keys, not even
for the gradient, where the gradients with respect to keys and values rotate with the keys.

Source: Liu, Zaharia & Abbeel, Ring Attention with Blockwise Transformers, ICLR 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.attention.grids import compact, grid_of
from graphc.attention.inputs import table_pairs
from graphc.link.jax.attention import kernel
from graphc.link.jax.attention.kernel import Spec
from graphc.link.jax.attention.layout import score_dtype
from graphc.link.jax.attention.plain import Operands


class _Ring:
    """The devices along mesh axes, each with its shard of keys and values."""

    def __init__(self, spec: Spec, k: Any, tables: Sequence[Any]) -> None:
        self.spec, self.axes, self.keys = replace(spec, ring=()), spec.ring, k.shape[2]
        self.count, self.index = lax.axis_size(spec.ring), lax.axis_index(spec.ring)
        self.grids = [grid_of(*pair) for pair in table_pairs(tables)] if tables else []

    def rotate(self, tree: Any) -> Any:
        """Return the arrays of the previous device."""
        to_next = [(i, (i + 1) % self.count) for i in range(self.count)]
        permute: Any = lax.ppermute
        return jax.tree.map(lambda x: permute(x, self.axes, to_next), tree)

    def tables(self, step: Any) -> tuple[Any, ...]:
        """Return the tables of the keys that a device holds after some steps."""
        columns = self.keys // self.spec.block[1]
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

    def arrays(self, step: Any, score_captured: Any, mask_captured: Any) -> tuple[Any, Any, Any]:
        """Return tables and captured arrays at a step."""
        return (
            self.tables(step),
            self.captured_arrays(step, score_captured, self.spec.score is not None),
            self.captured_arrays(step, mask_captured, self.spec.mask is not None),
        )

    def scan_steps(self, first: Any, rotating: Any, step: Any) -> tuple[Any, Any]:
        """Return the last state, and the rotating arrays, after all steps but the first."""

        def following(state: Any, i: Any) -> Any:
            done, rotating = state
            return step(i, done, self.rotate(rotating)), None

        steps = jnp.arange(1, self.count, dtype=np.int32)
        (done, rotating), _ = lax.scan(following, (first, rotating), steps)
        return done, rotating


def forward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec, q: Any, k: Any, v: Any, tables: Any, score_captured: Any, mask_captured: Any
) -> tuple[Any, Any]:
    """Return the result of attention and the log-sum-exps of the device's queries.

    Takes the arguments of ``kernel.forward``: keys and values are the device's shards,
    ``tables`` list blocks of all keys, and the last array that each function captures is the
    origin of the device's queries.
    """
    ring, dtype = _Ring(spec, k, tables), score_dtype(q.dtype)

    def attend(i: Any, k: Any, v: Any) -> tuple[Any, Any]:
        out, lse = kernel.forward(
            ring.spec, q, k, v, *ring.arrays(i, score_captured, mask_captured)
        )
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


def backward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec,
    q: Any,
    k: Any,
    v: Any,
    tables: Any,
    score_captured: Any,
    mask_captured: Any,
    out: Any,
    lse: Any,
    g_out: Any,
    g_lse: Any,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Return the gradients of ``forward``, from the arguments of ``kernel.backward``."""
    ring = _Ring(spec, k, tables)

    def gradients(i: Any, k: Any, v: Any) -> Any:
        arrays = ring.arrays(i, score_captured, mask_captured)
        results = kernel.backward(ring.spec, q, k, v, *arrays, out, lse, g_out, g_lse, wanted)
        by_q, by_k, by_v, *others = [x.astype(score_dtype(x.dtype)) for x in results]
        return (by_q, *others), (by_k, by_v)

    def step(i: Any, done: Any, rotating: Any) -> Any:
        keys, totals = rotating
        new, by_keys = gradients(i, *keys)
        add = jax.tree.map(jnp.add, (done, totals), (new, by_keys))
        return add[0], (keys, add[1])

    done, by_keys = gradients(np.int32(0), k, v)
    (by_q, *others), (_, by_keys) = ring.scan_steps(done, ((k, v), by_keys), step)
    by_k, by_v = ring.rotate(by_keys)
    captured = [x for x, flag in zip(score_captured, wanted, strict=True) if flag]
    like = (q, k, v, *captured)
    results = (by_q, by_k, by_v, *others)
    return tuple(y.astype(x.dtype) for y, x in zip(results, like, strict=True))


# Plain JAX computes derivatives of the gradient, from all keys.


def with_all_keys(spec: Spec, operands: Operands) -> Operands:
    """Return the operands with the keys and values of all devices, which tables and origins fit."""
    if not spec.ring:
        return operands

    def gather(x: Any) -> Any:
        return lax.all_gather(x, spec.ring, axis=2, tiled=True)

    return operands._replace(k=gather(operands.k), v=gather(operands.v))


def reduce_to_own_keys(spec: Spec, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return gradients in which all keys' gradients are reduced to the device's own keys."""
    if not spec.ring:
        return gradients

    def reduce_scatter(x: Any) -> Any:
        scatter: Any = lax.psum_scatter
        return scatter(x, spec.ring, scatter_dimension=2, tiled=True)

    by_q, by_k, by_v, *others = gradients
    return (by_q, reduce_scatter(by_k), reduce_scatter(by_v), *others)
