"""Convolutions in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    at_least,
    common,
    make_ragged,
    rule,
    unequal,
    zero_beyond,
)
from graphc.link.jax.counts import Count, minus, plus
from graphc.link.jax.lower.arrays.bounded_index import shift
from graphc.tensor.signal.convolve import Convolution, FourierConvolution

MAX_UNROLLED_TAPS = 8
"""The largest number of products with elements of the shorter operand in one step of a loop."""


@backend.lower(Convolution)
def convolve(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve; for bools, count the true products in int32."""
    a, b, shape = op.merge_axes(jnp.asarray(a), jnp.asarray(b))
    dtype = a.dtype
    is_bool = dtype.kind == "b"
    if not prod(shape) or not a.shape[2]:
        return jnp.zeros(shape, dtype)
    wide = _wide(dtype)
    a, b = lax.convert_element_type(a, wide), lax.convert_element_type(b, wide)
    spatial = shape[len(shape) - a.ndim + 3 :]
    by_taps = partial(_by_taps, op, spatial=spatial)
    if a.ndim > 6 or wide.kind != "f":
        y = by_taps(a, b)
    elif a.shape[0] == 1:
        y = _by_library(op, a, b)
    else:
        # On the CPU XLA's convolution in groups takes a hundred times as long.
        y = lax.platform_dependent(a, b, cpu=by_taps, default=partial(_by_library, op))
    return lax.reshape(lax.ne(y, y.dtype.type(0)) if is_bool else y.astype(dtype), shape)


@backend.lower(FourierConvolution)
def fourier_convolve(op: FourierConvolution, a: Any, b: Any) -> Any:
    """Convolve by Fourier transforms; half-width floats in float32."""
    wide = _wide(a.dtype)
    return op.by(jnp.fft, jnp.asarray(a, wide), jnp.asarray(b, wide)).astype(a.dtype)


def _wide(dtype: Any) -> Any:
    """Return the dtype of sums: float32 for half-width floats, an integer for bools."""
    if dtype.kind == "b":
        return np.dtype(np.int32)
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _by_library(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve all groups and channels in one call; JAX's convolution does not flip b."""
    groups, rows, channels, *sizes = a.shape
    columns, kernel = b.shape[1], b.shape[3:]
    lhs = lax.reshape(jnp.swapaxes(a, 0, 1), (rows, groups * channels, *sizes))
    rhs = lax.reshape(lax.rev(b, range(3, b.ndim)), (groups * columns, channels, *kernel))
    padding = [(k - 1, k - 1) if op.full else (0, 0) for k in kernel]
    y = lax.conv_general_dilated(lhs, rhs, (1,) * len(kernel), padding, feature_group_count=groups)
    return jnp.swapaxes(lax.reshape(y, (rows, groups, columns, *y.shape[2:])), 0, 1)


def _by_taps(op: Convolution, a: Any, b: Any, *, spatial: tuple[int, ...]) -> Any:
    """Add the products with each element of the shorter operand."""
    if op.full and prod(a.shape[3:]) < prod(b.shape[3:]):
        return jnp.swapaxes(_by_taps(op, b, a, spatial=spatial), 1, 2)
    kernel = b.shape[3:]
    if op.full:
        a = lax.pad(a, a.dtype.type(0), [*[(0, 0, 0)] * 3, *((k - 1, k - 1, 0) for k in kernel)])
    taps = lax.reshape(b, (*b.shape[:3], prod(kernel)))

    def add(i: Any, y: Any) -> Any:
        offsets = [k - 1 - t for k, t in zip(kernel, jnp.unravel_index(i, kernel), strict=True)]
        zeros = [jnp.zeros_like(i)] * 3
        part = lax.dynamic_slice(a, [*zeros, *offsets], (*a.shape[:3], *spatial))
        return y + _product(part, lax.dynamic_index_in_dim(taps, i, 3, keepdims=False))

    y = jnp.zeros((*a.shape[:2], b.shape[1], *spatial), a.dtype)
    return lax.fori_loop(0, prod(kernel), add, y, unroll=min(prod(kernel), MAX_UNROLLED_TAPS))


def _product(a: Any, tap: Any) -> Any:
    """Multiply one element of b, in all groups and channels, by all of a."""
    if a.shape[2] == 1:
        return a * lax.reshape(tap, (tap.shape[0], 1, tap.shape[1], *(1,) * (a.ndim - 3)))
    return jnp.einsum("grc...,gkc->grk...", a, tap, preferred_element_type=a.dtype)


@rule(Convolution)
def ragged_convolve(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Convolve ragged arrays; unused elements are zero along spatial and summed axes."""
    op: Any = node.op
    for pair in op.pairs():
        values, _ = common(node, values, pair)
    a, b = values
    groups, rows = a.shape[: op.groups], a.shape[op.groups : op.groups + op.rows]
    columns = b.shape[op.groups : op.groups + op.columns]
    pairs = list(zip(a.shape[op.first(0) :], b.shape[op.first(1) :], strict=True))
    for n, k in pairs:
        at_least(k, 1, unequal(node))
        at_least(n, 1 if op.full else k, unequal(node))
    buffers = [
        zero_beyond(x, range(op.groups + own, x.ndim)) for x, own in ((a, op.rows), (b, op.columns))
    ]
    front = [*groups, *rows, *columns]
    if op.full or not any(isinstance(k, Count) for _, k in pairs):
        spatial = [
            minus(plus(n, k), 1) if op.full else plus(minus(n, k), np.asarray(1, np.int64))
            for n, k in pairs
        ]
        return make_ragged(lowering(op, *buffers), [*front, *spatial])
    # A valid convolution is the full one from the last valid element of b on.
    y = lowering(replace(op, full=True), *buffers)
    spatial = [plus(minus(n, k), 1) for n, k in pairs]
    for i, (_, k) in enumerate(pairs):
        y = shift(y, minus(k, 1), spatial[i], len(front) + i)
    return make_ragged(y, [*front, *spatial])
