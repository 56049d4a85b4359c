"""Decorators: functions of NumPy and JAX in graphs, batches, derivatives, graphs as operations."""

from __future__ import annotations

from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.attention import BlockMask, causal, create_block_mask, flex_attention
from graphc.tensor import Tensor


@graphc.as_op(itypes=[gt.dvector], otypes=gt.dvector)
def ranks(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.argsort(np.argsort(x)).astype(float)


@graphc.wrap_jax
def angle(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.arctan2(y, x)


@graphc.vectorize(signature="(n),(n)->()")
def distance(a: Tensor, b: Tensor) -> Tensor:
    return gt.sqrt(((a - b) ** 2).sum())


def straight(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return g


@graphc.custom_pullback(straight)
def rounded(x: Tensor) -> Tensor:
    return gt.round(x)


def lower(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score - (i - j)


def program() -> None:
    x, m = gt.dvector("x"), gt.matrix("m")
    assert_type(ranks(x), Tensor)
    found: Tensor = angle(x, x)
    assert_type(found, Tensor)
    assert_type(distance(m, x), Tensor)
    assert_type(rounded(x), Tensor)
    assert_type(graphc.vectorize_graph([x.sum()], {x: m}), list[Tensor])
    total: Tensor = graphc.OpFromGraph([x], [x.sum()])(x)
    assert_type(total, Tensor)
    q, k, v = (gt.tensor(name, shape=(1, 2, 6, 4)) for name in "qkv")
    mask = create_block_mask(causal, 1, 1, 6, 6)
    assert_type(mask, BlockMask)
    assert_type(flex_attention(q, k, v, lower, mask), Tensor)
    assert_type(flex_attention(q, k, v, return_lse=True), tuple[Tensor, Tensor])
    solution, success = gt.optimize.minimize(((x - 1) ** 2).sum(), x)
    assert_type(solution, Tensor)
    assert_type(success, Tensor)
    assert_type(graphc.runtime(0.5), float)
