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

SIZES: Sequence[Sequence[int]] = [(3, 0, 7, 1), (0, 0, 0, 11), (2, 2, 2, 2), (0, 0, 0, 0)]
"""Rows of each group; fewer than there are, too."""


def packed(kind: str, transposed: bool, *shape: int) -> Quantized:
    rng = np.random.default_rng(0)
    q: Quantized = quantize(rng.standard_normal(shape).astype("float32"), kind, group_size=32)
    return q.matrix_transpose() if transposed else q  # type: ignore[no-any-return]


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
    rng = np.random.default_rng(1)
    q = packed(kind, transposed, 4, 32, 64)
    dense = np.asarray(q.materialize(), "float64")
    x = rng.standard_normal((11, q.shape[1])).astype("float32")
    counts = np.array(sizes, "int32")
    with materializing("error"):
        y = jax.jit(implicit(jax.lax.ragged_dot))(x, q.each(jnp.asarray), counts)
    np.testing.assert_allclose(y, by_groups(x, dense, sizes), atol=1e-4)


def test_ragged_products_have_derivatives() -> None:
    rng = np.random.default_rng(1)
    q = packed("int4", False, 3, 32, 64)
    x = jnp.asarray(rng.standard_normal((9, 32)), "float32")
    tangent = jnp.asarray(rng.standard_normal((9, 32)), "float32")
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
            found = jax.tree.leaves(
                jax.jit(transform, static_argnums=0)(lambda x: implicit(loss)(x, parts))
            )
            # The gradient is itself a product with the transposes, if it is traced first.
            made = implicit(lambda w, f=transform: f(lambda x: loss(x, w)))
            inside = jax.tree.leaves(jax.jit(made)(parts))
        expected = jax.tree.leaves(jax.jit(transform, static_argnums=0)(lambda x: loss(x, dense)))
        for a, b, y in zip(found, inside, expected, strict=True):
            np.testing.assert_allclose(a, y, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(b, y, rtol=1e-5, atol=1e-5)
    by_scales = jax.jit(
        jax.grad(lambda scales: loss(x, replace(parts, scales=scales).materialize()))
    )
    np.testing.assert_allclose(
        jax.jit(jax.grad(ours))(parts.scales), by_scales(parts.scales), rtol=1e-4, atol=1e-4
    )


def test_ragged_products_with_other_structures() -> None:
    rng = np.random.default_rng(1)
    w = Diagonal(jnp.asarray(rng.standard_normal((3, 5)), "float32"))
    x = rng.standard_normal((6, 5)).astype("float32")
    with materializing("error"):
        y = implicit(jax.lax.ragged_dot)(x, w, jnp.array([1, 2, 3], "int32"))
    np.testing.assert_allclose(y, by_groups(x, np.asarray(w.materialize()), (1, 2, 3)), atol=1e-5)


def test_no_expert_is_made_whole() -> None:
    rng = np.random.default_rng(1)
    q = quantize(jnp.asarray(rng.standard_normal((8, 256, 1024)), "float32"), "int4")
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
    rng = np.random.default_rng(1)
    q = packed(kind, transposed, 4, 64, 96)
    x, w, i = gt.tensor3("x", dtype="float32"), gt.implicit(q, name="w"), gt.ivector("i")
    with materializing("error"):
        y = x @ w[i]
        f = graphc.function([x, w, i], [y, *graphc.grad((y**2).sum(), [x])], mode=uncompiled(mode))
    assert str(f.plan()).count("= expert_matmul(") == (2 if mode == "MLX" else 0)
    index = [2, 0, -1, 0, 3]
    rows = rng.standard_normal((5, 2, q.shape[1])).astype("float32")
    found, by_x = f(rows, q, np.array(index, "int32"))
    dense = np.asarray(q.materialize(), "float64")[index]
    expected = rows @ dense
    size = np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-5 * size)
    by_hand = 2 * expected @ np.swapaxes(dense, 1, 2)
    np.testing.assert_allclose(np.asarray(by_x), by_hand, atol=1e-5 * np.abs(by_hand).max())


def test_what_stands_for_experts_is_their_product() -> None:
    rng = np.random.default_rng(1)
    q = packed("int4", False, 4, 32, 64)
    op = ExpertMatmul((2,), "affine", 4, 32, False)
    x, i = gt.tensor3("x", dtype="float32"), gt.ivector("i")
    w = gt.implicit(q)
    y = gt.Tensor.make(op, x, *w.inputs, i)
    values = rng.standard_normal((2, 3, 32)).astype("float32"), np.array([3, 1], "int32")
    expected = values[0] @ q.materialize()[values[1]]
    for made in (y, op.expand(x, *w.inputs, i)):
        found = graphc.function([x, w, i], made, mode="NUMPY")(values[0], q, values[1])
        np.testing.assert_allclose(found, expected, atol=1e-4)
