"""Attention where each device has some of the keys, which rotate from device to device.

At each step a device attends with its queries to the keys that it holds, and passes them on. The
results of the steps are weighted by their log-sum-exps. No device ever has all keys, in the
gradient neither: there the gradients with respect to keys and values go round with them.

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
from graphc.attention.parts import paired
from graphc.link.jax.attention import kernel
from graphc.link.jax.attention.kernel import Spec
from graphc.link.jax.attention.layout import wide
from graphc.link.jax.attention.plain import Operands


class _Ring:
    """The devices along mesh axes, each with its shard of keys and values."""

    def __init__(self, spec: Spec, k: Any, tables: Sequence[Any]) -> None:
        self.spec, self.axes, self.keys = replace(spec, ring=()), spec.ring, k.shape[2]
        self.count, self.index = lax.axis_size(spec.ring), lax.axis_index(spec.ring)
        self.grids = [grid_of(*pair) for pair in paired(tables)] if tables else []

    def passed_on(self, tree: Any) -> Any:
        """The arrays of the device before this one."""
        to_next = [(i, (i + 1) % self.count) for i in range(self.count)]
        permute: Any = lax.ppermute
        return jax.tree.map(lambda x: permute(x, self.axes, to_next), tree)

    def tables(self, step: Any) -> tuple[Any, ...]:
        """The tables of the keys that a device has after some steps."""
        columns = self.keys // self.spec.block[1]
        start = self._shard(step) * np.int32(columns)
        grids = [lax.dynamic_slice_in_dim(x, start, columns, 3) for x in self.grids]
        return tuple([part for grid in grids for part in compact(grid)])

    def captured(self, step: Any, arrays: Sequence[Any], has_function: bool) -> tuple[Any, ...]:
        """Captured arrays, whose last one is the origin, with the first key after some steps."""
        if not has_function:
            return tuple(arrays)
        *others, origin = arrays
        return (*others, origin.at[3].set(self._shard(step) * np.int32(self.keys)))

    def _shard(self, step: Any) -> Any:
        """The number of the shard of keys that this device has after some steps."""
        return jnp.mod(self.index - step, self.count).astype(jnp.int32)

    def arrays(self, step: Any, of_score: Any, of_mask: Any) -> tuple[Any, Any, Any]:
        """Tables and captured arrays at a step."""
        return (
            self.tables(step),
            self.captured(step, of_score, self.spec.score is not None),
            self.captured(step, of_mask, self.spec.mask is not None),
        )

    def over_steps(self, first: Any, rotating: Any, step: Any) -> tuple[Any, Any]:
        """The last state, and what rotates, after all steps but the one that gave ``first``."""

        def following(state: Any, i: Any) -> Any:
            done, moving = state
            return step(i, done, self.passed_on(moving)), None

        steps = jnp.arange(1, self.count, dtype=np.int32)
        (done, moving), _ = lax.scan(following, (first, rotating), steps)
        return done, moving


def forward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec, q: Any, k: Any, v: Any, tables: Any, of_score: Any, of_mask: Any
) -> tuple[Any, Any]:
    """The result of attention and the log-sum-exps, as ``kernel.forward`` has them.

    Args:
        spec: The functions, whose last captured array is the origin of the device's queries; and
            the axes of the mesh along which keys rotate.
        q: The device's queries.
        k: Its keys.
        v: Its values.
        tables: Of its queries and all keys.
        of_score: The arrays that the score function captures.
        of_mask: The arrays that the mask function captures.
    """
    ring, dtype = _Ring(spec, k, tables), wide(q.dtype)

    def attend(i: Any, k: Any, v: Any) -> tuple[Any, Any]:
        out, lse = kernel.forward(ring.spec, q, k, v, *ring.arrays(i, of_score, of_mask))
        return out.astype(dtype), lse

    def step(i: Any, done: Any, moving: Any) -> Any:
        return _joined(done, attend(i, *moving)), moving

    (out, lse), _ = ring.over_steps(attend(np.int32(0), k, v), (k, v), step)
    return out.astype(q.dtype), lse


def _joined(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """Results and log-sum-exps of two sets of keys together."""
    lse = jnp.logaddexp(a[1], b[1])
    seen = jnp.where(lse == -np.inf, 0, lse)
    parts = [out * jnp.exp(own - seen)[..., None] for out, own in (a, b)]
    return parts[0] + parts[1], lse


def backward(  # noqa: PLR0913, PLR0917 (arrays of attention)
    spec: Spec,
    q: Any,
    k: Any,
    v: Any,
    tables: Any,
    of_score: Any,
    of_mask: Any,
    out: Any,
    lse: Any,
    g_out: Any,
    g_lse: Any,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """The gradients of ``forward``, as ``kernel.backward`` has them.

    Args:
        spec: As given to ``forward``, as are all up to ``of_mask``.
        q: The device's queries.
        k: Its keys.
        v: Its values.
        tables: Of its queries and all keys.
        of_score: The arrays that the score function captures.
        of_mask: The arrays that the mask function captures.
        out: The first result of ``forward``.
        lse: The second.
        g_out: The cotangent of the first.
        g_lse: The cotangent of the second.
        wanted: Which of the score function's arrays have gradients.
    """
    ring = _Ring(spec, k, tables)

    def gradients(i: Any, k: Any, v: Any) -> Any:
        own = ring.arrays(i, of_score, of_mask)
        found = kernel.backward(ring.spec, q, k, v, *own, out, lse, g_out, g_lse, wanted)
        by_q, by_k, by_v, *others = [x.astype(wide(x.dtype)) for x in found]
        return (by_q, *others), (by_k, by_v)

    def step(i: Any, done: Any, moving: Any) -> Any:
        keys, totals = moving
        new, by_keys = gradients(i, *keys)
        add = jax.tree.map(jnp.add, (done, totals), (new, by_keys))
        return add[0], (keys, add[1])

    done, by_keys = gradients(np.int32(0), k, v)
    (by_q, *others), (_, by_keys) = ring.over_steps(done, ((k, v), by_keys), step)
    by_k, by_v = ring.passed_on(by_keys)
    captured = [x for x, flag in zip(of_score, wanted, strict=True) if flag]
    like = (q, k, v, *captured)
    found = (by_q, by_k, by_v, *others)
    return tuple(y.astype(x.dtype) for y, x in zip(found, like, strict=True))


# Derivatives of the gradient, which are those of plain JAX, take all keys.


def with_all_keys(spec: Spec, given: Operands) -> Operands:
    """The operands with the keys and values of all devices; tables and origins fit them."""
    if not spec.ring:
        return given

    def gathered(x: Any) -> Any:
        return lax.all_gather(x, spec.ring, axis=2, tiled=True)

    return given._replace(k=gathered(given.k), v=gathered(given.v))


def of_own_keys(spec: Spec, found: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients with respect to a device's keys and values, given those of all keys."""
    if not spec.ring:
        return found

    def summed(x: Any) -> Any:
        scatter: Any = lax.psum_scatter
        return scatter(x, spec.ring, scatter_dimension=2, tiled=True)

    by_q, by_k, by_v, *others = found
    return (by_q, summed(by_k), summed(by_v), *others)
