"""Products with packed codes: values, gradients in both modes, batches, and memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import Quantized, QuantizedMatmul, quantize
from graphc.link.jax.implicit.numpy_like import NAMESPACE
from graphc.link.jax.implicit.quantized import matmul

pytestmark = pytest.mark.gpu

KINDS = ("int8", "int4", "int2", "nf4", "1bit")


def matrix(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def kernel(q: Quantized, x: Any, *parts: Any) -> Any:
    return matmul(q.coding, q.transposed, x, q.packed, *parts)


def numbers(q: Quantized) -> tuple[Any, ...]:
    return (q.scales,) if q.offsets is None else (q.scales, q.offsets)


def dense_of(q: Quantized, x: Any, *parts: Any) -> Any:
    w = q.coding.dense(NAMESPACE, q.packed, *parts)
    return x @ (jnp.swapaxes(w, -1, -2) if q.transposed else w)


SHAPES = [
    (1, 64, 64),
    (2, 32, 128),
    (3, 17, 64),
    (5, 128, 192),
    (0, 32, 64),
    (2, 0, 64),
    (1, 64, 0),
]
"""Rows of x, rows of words, elements of a row of words."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_the_dense_matrix(kind: str, transposed: bool, shape: Any) -> None:
    m, rows, columns = shape
    rng = np.random.default_rng(0)
    q = quantize(matrix(rng, rows, columns), kind, group_size=32)
    q = q.matrix_transpose() if transposed else q
    x = matrix(rng, m, q.shape[0])
    expected = x.astype("float64") @ q.materialize()
    size = 1e-5 * max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(jax.jit(q.each(jnp.asarray).rmatmul)(x), expected, atol=size)
    np.testing.assert_allclose(q.rmatmul(x), expected, atol=size)
    v, w = gt.matrix("x", dtype="float32"), gt.implicit(q, name="w")
    for mode in ("NUMPY", "JAX", "MLX"):
        with materializing("error"):
            y = graphc.function([v, w], v @ w, mode=mode)(x, q)
        np.testing.assert_allclose(np.asarray(y), expected, atol=size, err_msg=mode)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("kind", ["int4", "nf4"])
def test_blocks_and_what_is_left_of_them(
    monkeypatch: pytest.MonkeyPatch, kind: str, m: int, transposed: bool
) -> None:
    from graphc.link.jax.implicit import quantized  # noqa: PLC0415 (patched)

    for name, value in (("BLOCK", 2**10), ("COLUMNS", 8), ("PRODUCTS", 16)):
        monkeypatch.setattr(quantized, name, value)
    rng = np.random.default_rng(0)
    for rows, columns in ((33, 320), (257, 128)):
        q = quantize(jnp.asarray(matrix(rng, rows, columns)), kind, group_size=32)
        q = q.matrix_transpose() if transposed else q
        x = matrix(rng, m, q.shape[0])
        parameters = {"coding": q.coding, "transposed": transposed, "kind": "cpu"}
        y = quantized._forward(jnp.asarray(x), q.packed, *numbers(q), **parameters)
        np.testing.assert_allclose(y, x @ np.asarray(q.materialize()), atol=2e-4)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_mlx(
    monkeypatch: pytest.MonkeyPatch, kind: str, transposed: bool, m: int, dtype: str
) -> None:
    from graphc.link.mlx.lower import quantized  # noqa: PLC0415 (patched)

    monkeypatch.setattr(quantized, "BLOCK", 2**12)
    rng = np.random.default_rng(0)
    # An odd number of words of one bit in a row; no whole number of blocks.
    q = quantize(matrix(rng, 70, 96, dtype=dtype), kind, group_size=32)
    q = q.matrix_transpose() if transposed else q
    x = matrix(rng, m, q.shape[0], dtype=dtype)
    v, w = gt.matrix("x", dtype=dtype), gt.implicit(q, name="w")
    y = graphc.function([v, w], v @ w, mode=graphc.Mode("MLX", compile=False))(x, q)
    assert y.dtype == dtype
    dense = q.materialize().astype("float64")
    tolerance = {"float64": 1e-14, "float32": 2e-6, "float16": 1e-2}[dtype]
    size = tolerance * np.abs(x.astype("float64") @ dense).max()
    np.testing.assert_allclose(np.array(y), x.astype("float64") @ dense, atol=size)


@pytest.mark.parametrize("axis", [-1, -2])
def test_codes_lie_in_memory_as_their_axes_say(axis: int) -> None:
    q = quantize(matrix(np.random.default_rng(0), 64, 128), "int8", axis=axis)
    assert all(part.flags.c_contiguous for part in (q.packed, q.scales, q.biases))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("kind", "m", "group_size"),
    [("int8", 2, 64), ("int8", 8, 32), ("int4", 2, 32), ("int4", 8, 64)],
)
def test_few_rows_of_x_share_what_is_decoded(kind: str, m: int, group_size: int) -> None:
    from graphc.link.jax.implicit import quantized  # noqa: PLC0415 (how it is done)

    rng = np.random.default_rng(0)
    w = jnp.asarray(matrix(rng, 2048, 48))
    q = quantize(w, kind, axis=-2, group_size=group_size)
    x, tangent = (jnp.asarray(matrix(rng, m, 2048)) for _ in range(2))
    assert quantized._method(q.coding, True, x, q.scales, "cpu") is quantized._few_by_columns
    half = x.astype("bfloat16")
    assert quantized._method(q.coding, True, half, q.scales, "cpu") is quantized._blocks_of_rows
    arrays = x, *numbers(q)
    y, by_x = jax.jvp(lambda x: kernel(q, x, *arrays[1:]), (x,), (tangent,))
    dense = np.asarray(q.materialize(), "float64")
    for found, rows in ((y, x), (by_x, tangent)):
        np.testing.assert_allclose(found, rows @ dense, atol=1e-5 * np.abs(dense).sum(0).max())
    found = jax.jit(jax.grad(lambda x: jnp.sum(kernel(q, x, *arrays[1:]))))(x)
    np.testing.assert_allclose(found, np.ones((m, 48)) @ dense.T, atol=1e-3)


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=10)
@given(
    kind=st.sampled_from(KINDS),
    transposed=st.booleans(),
    batch=st.lists(st.integers(0, 2), max_size=2),
    m=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_batches_of_matrices(
    kind: str, transposed: bool, batch: list[int], m: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    q = quantize(jnp.asarray(matrix(rng, *batch, 3, 64)), kind, group_size=32)
    q = q.matrix_transpose() if transposed else q
    x = matrix(rng, *batch, m, q.shape[-2])
    np.testing.assert_allclose(q.rmatmul(x), x @ np.asarray(q.materialize()), atol=1e-4)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize(("transposed", "m"), [(False, 1), (True, 4)])
@pytest.mark.parametrize("kind", ["int4", "nf4", "1bit"])
def test_derivatives_in_both_modes(kind: str, transposed: bool, m: int) -> None:
    rng = np.random.default_rng(0)
    q = quantize(jnp.asarray(matrix(rng, 16, 64)), kind, group_size=32)
    q = q.matrix_transpose() if transposed else q
    x, parts = jnp.asarray(matrix(rng, m, q.shape[0])), numbers(q)
    weights = jnp.asarray(matrix(rng, m, q.shape[1]))

    def loss(f: Any) -> Any:
        return lambda *arrays: jnp.sum(jnp.tanh(f(q, *arrays) / 10) * weights)

    arrays = (x, *parts)
    every = tuple(range(len(arrays)))
    tangents = tuple(jnp.asarray(matrix(rng, *part.shape)) for part in arrays)
    ours, theirs = loss(kernel), loss(dense_of)
    for transform in (
        lambda f: jax.grad(f, every)(*arrays),
        lambda f: jax.jvp(f, arrays, tangents),
        lambda f: jax.jvp(jax.grad(f, every), arrays, tangents),
        lambda f: jax.hessian(lambda c: f(x, parts[0] * c, *parts[1:]))(jnp.ones(())),
    ):
        by_jit = jax.jit(transform, static_argnums=0)
        found, expected = (jax.tree.leaves(by_jit(f)) for f in (ours, theirs))
        for y, z in zip(found, expected, strict=True):
            np.testing.assert_allclose(y, z, atol=2e-4, rtol=2e-3)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("transposed", [False, True])
def test_batching_of_each_operand(transposed: bool) -> None:
    rng = np.random.default_rng(0)
    q = quantize(jnp.asarray(matrix(rng, 3, 16, 64)), "int4", group_size=32)
    q = q.matrix_transpose() if transposed else q
    x = jnp.asarray(matrix(rng, 3, 2, q.shape[-2]))
    for axes in ((0, None, None, None), (None, 0, 0, 0), (0, 0, 0, 0), (0, None, 0, 0)):
        given = [
            part if axis == 0 else part[0]
            for part, axis in zip((x, q.packed, *numbers(q)), axes, strict=True)
        ]

        def ours(x: Any, packed: Any, *parts: Any) -> Any:
            return matmul(q.coding, q.transposed, x, packed, *parts)

        def theirs(x: Any, packed: Any, *parts: Any) -> Any:
            w = q.coding.dense(NAMESPACE, packed, *parts)
            return x @ (w.T if transposed else w)

        def results(f: Any, *given: Any, axes: Any = axes) -> Any:
            by_x = jax.grad(lambda *arrays: f(*arrays).sum())
            return jax.vmap(f, axes)(*given), jax.vmap(by_x, axes)(*given)

        by_jit = jax.jit(results, static_argnums=0)
        for y, expected in zip(by_jit(ours, *given), by_jit(theirs, *given), strict=True):
            np.testing.assert_allclose(y, expected, atol=1e-4)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("m", [1, 4, 16])
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_no_dense_matrix_is_made(kind: str, m: int, axis: int) -> None:
    w = matrix(np.random.default_rng(0), 1024, 4096)
    q = quantize(jnp.asarray(w), kind, axis=axis)
    x = jnp.ones((m, 1024))

    def temporary(f: Any, *arrays: Any) -> int:
        found = jax.jit(f).lower(*arrays).compile().memory_analysis()
        return int(found.temp_size_in_bytes)

    assert temporary(implicit(lambda x, q: x @ q), x, q) < w.nbytes / 10
    by_x = jax.grad(implicit(lambda x, q: ((x @ q) ** 2).sum()))
    assert temporary(by_x, x, q) < w.nbytes / 4


# In graphs.


@pytest.mark.parametrize("kind", ["int4", "nf4", "1bit"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_gradients_of_graphs(kind: str, transposed: bool, mode: str) -> None:
    rng = np.random.default_rng(0)
    q = quantize(matrix(rng, 16, 64), kind, group_size=32)
    q = q.matrix_transpose() if transposed else q
    x, w = gt.matrix("x", dtype="float32"), gt.implicit(q, name="w")
    parts = numbers(w.array)
    value = matrix(rng, 3, q.shape[0])
    weights = matrix(rng, 3, q.shape[1])
    with materializing("error"):
        loss = (gt.tanh((x @ w) / 10) * weights).sum()
        f = graphc.function([x, w], graphc.grad(loss, [x, *parts]), mode=mode)
        found = f(value, q)
    jq = q.each(jnp.asarray)
    arrays = (jnp.asarray(value), *numbers(jq))
    expected = jax.jit(
        jax.grad(
            lambda *arrays: jnp.sum(jnp.tanh(dense_of(jq, *arrays) / 10) * weights),
            tuple(range(len(arrays))),
        )
    )(*arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, atol=1e-4, rtol=1e-3)


def test_the_gradient_by_x_is_a_product_with_the_same_words() -> None:
    q = quantize(matrix(np.random.default_rng(0), 16, 64), "int4")
    x, w = gt.matrix("x", dtype="float32"), gt.implicit(q, name="w")
    (by_x,) = graphc.grad((x @ w).sum(), [x])
    assert isinstance(by_x.op, QuantizedMatmul)
    assert by_x.op.transposed


@pytest.mark.parametrize("flags", [(1, 0), (0, 1), (1, 1)])
def test_graphs_are_batched(flags: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    q = quantize(matrix(rng, 3, 16, 64), "int4", group_size=32)
    x = matrix(rng, 3, 2, 16)
    one = q.window((range(1), range(16), range(64))).reshape_to((16, 64))
    operands = [x if flags[0] else x[0], q if flags[1] else one]
    expected = np.matmul(operands[0], operands[1].materialize())
    types = [gt.tensor(dtype="float32", shape=(2, 16)), gt.implicit(one)]
    inputs = [gt.tensor(dtype="float32", shape=x.shape) if flags[0] else types[0]]
    inputs.append(gt.implicit(q) if flags[1] else types[1])
    y = Quantized.rmatmul(types[1].array, types[0])
    swaps = {types[0]: inputs[0]} if flags[0] else {}
    if flags[1]:
        swaps |= dict(zip(types[1].inputs, inputs[1].inputs, strict=True))
    (y,) = graphc.vectorize_graph([y], swaps)
    found = graphc.function(inputs, y, mode="NUMPY")(*operands)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_operands_that_do_not_fit_are_refused() -> None:
    q = gt.implicit(quantize(np.ones((16, 64), "float32"), "int4"))
    op = QuantizedMatmul((1,), "affine", 4, 64, False)
    fields = (q.array.packed, q.array.scales, q.array.biases)
    with pytest.raises(ShapeError, match="matrix of 16 rows and 64 columns"):
        gt.Tensor.make(op, gt.tensor(dtype="float32", shape=(3, 17)), *fields)
    with pytest.raises(DTypeError, match="one dtype"):
        gt.Tensor.make(op, gt.tensor(dtype="float64", shape=(3, 16)), *fields)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_other_dtypes_are_promoted(dtype: str) -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        q = quantize(matrix(rng, 16, 64), "int4").each(jnp.asarray)
        x = jnp.asarray(rng.integers(-3, 3, (3, 16)), dtype)
        y = implicit(jnp.matmul)(x, q)
        expected = jnp.matmul(x, q.materialize())
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, atol=1e-4)


def test_mlx_picks_matrices_of_a_stack_by_these_fields() -> None:
    rng = np.random.default_rng(0)
    q = quantize(mx.array(matrix(rng, 3, 64, 128)), "int4", group_size=32)
    x = matrix(rng, 4, 5, 64)
    index = [2, 0, 0, 1]
    y = mx.gather_qmm(
        mx.array(x),
        q.packed,
        q.scales,
        q.biases,
        rhs_indices=mx.array(index, mx.uint32),
        transpose=q.transposed,
        group_size=q.group_size,
        bits=q.bits,
    )
    np.testing.assert_allclose(np.array(y), x @ np.array(q.materialize())[index], atol=1e-4)
