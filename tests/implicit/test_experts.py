"""Products of rows with the packed matrices that an index or group sizes choose for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.implicit import Diagonal, materializing
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import ExpertMatmul, Quantized, quantize
from tests.modes import uncompiled

RNG = np.random.default_rng(0)

SIZES: Sequence[Sequence[int]] = [(3, 0, 7, 1), (0, 0, 0, 11), (2, 2, 2, 2), (0, 0, 0, 0)]
"""Rows of each group; fewer than there are, too."""


def packed(kind: str, transposed: bool, *shape: int) -> Quantized:
    q: Quantized = quantize(RNG.standard_normal(shape).astype("float32"), kind, group_size=32)
    return q.swapped() if transposed else q  # type: ignore[no-any-return]


def by_groups(x: Any, w: Any, sizes: Any) -> np.ndarray:
    y, start = np.zeros((len(x), w.shape[2])), 0
    for size, each in zip(sizes, w, strict=True):
        y[start : start + size] = x[start : start + size] @ each
        start += size
    return y


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4"])
def test_ragged_products_are_those_of_dense_matrices(
    kind: str, transposed: bool, sizes: Any
) -> None:
    q = packed(kind, transposed, 4, 32, 64)
    dense = np.asarray(q.materialize(), "float64")
    x = RNG.standard_normal((11, q.shape[1])).astype("float32")
    counts = np.array(sizes, "int32")
    with materializing("error"):
        y = jax.jit(implicit(jax.lax.ragged_dot))(x, q.each(jnp.asarray), counts)
    np.testing.assert_allclose(y, by_groups(x, dense, sizes), atol=1e-4)


def test_ragged_products_have_derivatives() -> None:
    q = packed("int4", False, 3, 32, 64)
    x = jnp.asarray(RNG.standard_normal((9, 32)), "float32")
    tangent = jnp.asarray(RNG.standard_normal((9, 32)), "float32")
    sizes = jnp.array([4, 0, 5], "int32")
    parts = q.each(jnp.asarray)

    def loss(x: Any, w: Any) -> Any:
        return jnp.sum(jnp.tanh(jax.lax.ragged_dot(x, w, sizes) / 9) ** 2)

    def ours(scales: Any) -> Any:
        return implicit(loss)(x, replace(parts, scales=scales))

    dense = jnp.asarray(q.materialize())
    for transform in (
        lambda f: jax.grad(f)(x),
        lambda f: jax.jvp(f, (x,), (tangent,)),
        lambda f: jax.jvp(jax.grad(f), (x,), (tangent,)),
    ):
        with materializing("error"):
            found = jax.tree.leaves(transform(lambda x: implicit(loss)(x, parts)))
            # The gradient is itself a product with the transposes, if it is traced first.
            made = implicit(lambda w, f=transform: f(lambda x: loss(x, w)))
            inside = jax.tree.leaves(made(parts))
        expected = jax.tree.leaves(transform(lambda x: loss(x, dense)))
        for a, b, y in zip(found, inside, expected, strict=True):
            np.testing.assert_allclose(a, y, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(b, y, rtol=1e-5, atol=1e-5)
    step = 1e-2
    direction = jnp.asarray(RNG.standard_normal(parts.scales.shape), "float32")
    slope = jnp.vdot(jax.grad(ours)(parts.scales), direction)
    ends = [ours(parts.scales + sign * step * direction) for sign in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-2)


def test_ragged_products_with_other_structures() -> None:
    w = Diagonal(jnp.asarray(RNG.standard_normal((3, 5)), "float32"))
    x = RNG.standard_normal((6, 5)).astype("float32")
    with materializing("error"):
        y = implicit(jax.lax.ragged_dot)(x, w, jnp.array([1, 2, 3], "int32"))
    np.testing.assert_allclose(y, by_groups(x, np.asarray(w.materialize()), (1, 2, 3)), atol=1e-5)


def test_no_expert_is_made_whole() -> None:
    q = quantize(jnp.asarray(RNG.standard_normal((8, 256, 1024)), "float32"), "int4")
    x, sizes = jnp.ones((16, 256)), jnp.full(8, 2, "int32")
    f = implicit(jax.lax.ragged_dot)
    for g in (f, jax.grad(lambda x, *rest: jnp.sum(f(x, *rest) ** 2))):
        found = jax.jit(g).lower(x, q, sizes).compile().memory_analysis()
        assert found.temp_size_in_bytes < 8 * 256 * 1024 * 4 / 8


# In graphs.


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4", "1bit"])
def test_experts_by_an_index(kind: str, transposed: bool, mode: str) -> None:
    q = packed(kind, transposed, 4, 64, 96)
    x, w, i = gt.tensor3("x", dtype="float32"), gt.implicit(q, name="w"), gt.ivector("i")
    with materializing("error"):
        y = x @ w[i]
        f = graphc.function([x, w, i], [y, *graphc.grad((y**2).sum(), [x])], mode=uncompiled(mode))
    assert str(f.plan()).count("= expert_matmul(") == (2 if mode == "MLX" else 0)
    index = [2, 0, -1, 0, 3]
    rows = RNG.standard_normal((5, 2, q.shape[1])).astype("float32")
    found, by_x = f(rows, q, np.array(index, "int32"))
    dense = np.asarray(q.materialize(), "float64")[index]
    expected = rows @ dense
    size = np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-5 * size)
    by_hand = 2 * expected @ np.swapaxes(dense, 1, 2)
    np.testing.assert_allclose(np.asarray(by_x), by_hand, atol=1e-5 * np.abs(by_hand).max())


def test_what_stands_for_experts_is_their_product() -> None:
    q = packed("int4", False, 4, 32, 64)
    op = ExpertMatmul((2,), "affine", 4, 32, False)
    x, i = gt.tensor3("x", dtype="float32"), gt.ivector("i")
    w = gt.implicit(q)
    y = gt.Tensor.make(op, x, *w.inputs, i)
    values = RNG.standard_normal((2, 3, 32)).astype("float32"), np.array([3, 1], "int32")
    expected = values[0] @ q.materialize()[values[1]]
    for made in (y, op.expand(x, *w.inputs, i)):
        found = graphc.function([x, w, i], made, mode="NUMPY")(values[0], q, values[1])
        np.testing.assert_allclose(found, expected, atol=1e-4)
