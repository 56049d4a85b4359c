"""Kinds of quantized arrays: their codes against ml_dtypes and NumPy, their products, any axes."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materializing, with_fields
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import AffineQuantized, Microscaled, ScaledQuantized, quantize

FLOATS = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
MICRO = ("mxfp4", "mxfp8", "nvfp4")
KINDS = ("int6", "int5", "int3", "ternary", "ternary5", *FLOATS, *MICRO)


def matrix(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def bits_of(words: Any, bits: int) -> Any:
    """The codes in words, read as one stream of bits, by NumPy's own unpacking."""
    stream = np.unpackbits(np.ascontiguousarray(words).view("uint8"), axis=-1, bitorder="little")
    codes = stream.reshape(*stream.shape[:-1], -1, bits)
    return (codes * 2 ** np.arange(bits)).sum(-1)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("mode", ["NumPy", "JAX", "MLX"])
def test_floating_codes_are_the_bits_of_ml_dtypes(kind: str, mode: str) -> None:
    dtype = ml_dtypes.finfo(kind).dtype
    w = matrix(64, 64) * np.exp(matrix(64, 64, seed=1) * 3)
    # All that the dtype has, halves between neighbours, and a first element that sets the scale.
    own = np.arange(2 ** ml_dtypes.finfo(kind).bits).astype("uint8").view(dtype).astype("float32")
    own = np.sort(own[np.isfinite(own)])
    more = np.concatenate([own, (own[1:] + own[:-1]) / 2])
    w.flat[: more.size] = more
    largest = float(ml_dtypes.finfo(kind).max)
    w[:, 0] = largest
    w = np.clip(w, -largest, largest)
    given = {"NumPy": np.asarray, "JAX": jnp.asarray, "MLX": mx.array}[mode](w)
    q = quantize(given, kind, group_size=64)
    np.testing.assert_array_equal(np.array(q.scales), np.ones((64, 1)))
    expected = w.astype(dtype)
    np.testing.assert_array_equal(np.asarray(q.materialize()), expected.astype("float32"))
    codes = bits_of(np.array(q.packed), ml_dtypes.finfo(kind).bits)
    # Zero may have either sign.
    signed = np.where(expected == 0, 0, expected.view("uint8"))
    np.testing.assert_array_equal(np.where(expected == 0, 0, codes), signed)


def test_floating_codes_of_graphs_are_the_same() -> None:
    x = gt.matrix("x", dtype="float32", shape=(4, 64))
    w = matrix(4, 64)
    for mode in ("JAX", "MLX", "NUMPY"):
        y = quantize(x, "float8_e4m3fn", group_size=-1)
        f = graphc.function([x], [gt.as_tensor(y), y.scales], mode=mode, returns="numpy")
        dense, scales = f(w)
        # A backend may divide by the scale by its reciprocal, and so round another half.
        wanted = (w / scales).astype(ml_dtypes.float8_e4m3fn).astype("float32") * scales
        differs = np.abs(np.asarray(dense) - wanted) > 1e-6
        assert differs.mean() < 0.02, mode


@pytest.mark.parametrize(("bits", "most"), [(8, 127), (4, 7), (3, 3), (2, 1)])
def test_symmetric_integers_are_rounded_shares_of_the_largest(bits: int, most: int) -> None:
    w = matrix(6, 96)
    q = quantize(w, f"int{bits}", symmetric=True, group_size=32)
    assert isinstance(q, ScaledQuantized)
    groups = w.reshape(6, 3, 32)
    scales = np.abs(groups).max(-1) / np.float32(most)
    np.testing.assert_array_equal(q.scales, scales)
    codes = np.rint(groups / scales[..., None]).reshape(6, 96)
    np.testing.assert_array_equal(bits_of(q.packed, bits).astype(int) - 2 ** (bits - 1), codes)


@pytest.mark.parametrize("bits", [3, 5, 6])
def test_codes_that_cross_words_are_those_of_mlx(bits: int) -> None:
    w = matrix(5, 128)
    q = quantize(w, f"int{bits}")
    theirs = mx.quantize(mx.array(w), group_size=64, bits=bits)
    for ours, other in zip((q.packed, q.scales, q.biases), theirs, strict=True):
        np.testing.assert_array_equal(ours, np.array(other))


def test_ternary_codes_are_those_of_the_mean_magnitude() -> None:
    w = matrix(4, 40)
    q = quantize(w, "ternary", group_size=32)
    means = np.stack([np.abs(w[:, :32]).mean(-1), np.abs(w[:, 32:]).mean(-1)], 1)
    np.testing.assert_allclose(q.scales, means, rtol=1e-6)
    wide = np.repeat(means, 32, 1)[:, :40]
    np.testing.assert_allclose(np.asarray(q), np.clip(np.rint(w / wide), -1, 1) * wide, rtol=1e-6)
    assert q.packed.nbytes == 4 * 64 * 2 // 8


def test_five_ternary_codes_are_digits_of_a_byte() -> None:
    digits = np.array(list(itertools.product((-1, 0, 1), repeat=5)), "float32")
    w = np.concatenate([digits.reshape(-1, 15), np.ones((81, 5), "float32")], 1)
    q = quantize(w, "ternary5", group_size=20, channel_axes=None)
    # Scaled by a mean that differs by row, a share is rounded to its own sign.
    np.testing.assert_array_equal(np.sign(np.asarray(q)), w)
    numbers = digits.astype(int).reshape(81, 3, 5) + 1
    fractions = (numbers / 3.0 ** np.arange(1, 6)).sum(-1)
    found = np.ascontiguousarray(q.packed).view("uint8")[:, :3]
    np.testing.assert_array_equal(found, np.ceil(np.round(fractions * 256, 6)))


@pytest.mark.parametrize("axis", [-1, -2])
def test_ternary_codes_five_to_a_byte_are_those_of_two_bits(axis: int) -> None:
    w = matrix(70, 330) if axis == -1 else matrix(330, 70)
    few, many = quantize(w, "ternary5", axis=axis), quantize(w, "ternary", group_size=80, axis=axis)
    np.testing.assert_array_equal(few.scales, many.scales)
    np.testing.assert_array_equal(np.asarray(few), np.asarray(many))
    # 400 elements with those that are padded, at 1.6 bits and at 2.
    assert (few.packed.nbytes, many.packed.nbytes) == (70 * 80, 70 * 100)
    index = np.array([7, 329, 0])
    taken = few[:, index] if axis == -1 else few[index]
    whole = np.asarray(many)
    np.testing.assert_array_equal(taken, whole[:, index] if axis == -1 else whole[index])
    x = matrix(130, w.shape[0], seed=1)
    y = implicit(jnp.matmul)(jnp.asarray(x), few.each(jnp.asarray))
    np.testing.assert_allclose(y, x @ whole, rtol=1e-4, atol=1e-4)
    with pytest.raises(ImplicitArrayError, match="multiple of 20"):
        quantize(w, "ternary5", group_size=64)


@pytest.mark.parametrize(("kind", "size", "most"), [("mxfp4", 32, 2), ("mxfp8", 32, 8)])
def test_microscaling_formats_follow_their_specification(kind: str, size: int, most: int) -> None:
    element = ml_dtypes.float4_e2m1fn if kind == "mxfp4" else ml_dtypes.float8_e4m3fn
    w = matrix(8, 128) * np.exp2(np.arange(8, dtype="float32") * 9 - 30)[:, None]
    w[0, :32], w[1, 0] = 0, 2.0**-20
    q = quantize(w, kind)
    groups = w.reshape(8, -1, size).astype("float64")
    largest = np.abs(groups).max(-1)
    exponent = np.floor(np.log2(np.where(largest > 0, largest, 2.0**-126))) - most
    scales = np.exp2(np.maximum(exponent, -127))
    np.testing.assert_array_equal(q.scales.view(ml_dtypes.float8_e8m0fnu), scales)
    limit = float(ml_dtypes.finfo(element).max)
    shares = np.clip(groups / scales[..., None], -limit, limit)
    wanted = shares.astype(element).astype("float64") * scales[..., None]
    np.testing.assert_array_equal(np.asarray(q), wanted.reshape(w.shape))
    assert q.nbytes == 8 * 128 * (4 if kind == "mxfp4" else 8) // 8 + 8 * 128 // size + 4


def test_nvfp4_has_scales_of_eight_bits_below_a_factor() -> None:
    w = matrix(8, 64) * np.exp(matrix(8, 1, seed=1))
    q = quantize(w, "nvfp4")
    groups = w.reshape(8, 4, 16)
    factor = np.abs(w).max() / np.float32(6 * 448)
    np.testing.assert_allclose(q.factor, [[factor]], rtol=1e-6)
    codes = (np.abs(groups).max(-1) / 6 / q.factor).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(q.scales, codes.view("uint8"))
    scales = codes.astype("float32")[..., None] * q.factor
    wanted = np.clip(groups / scales, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_allclose(
        np.asarray(q), (wanted.astype("float32") * scales).reshape(w.shape), rtol=1e-6
    )


@pytest.mark.parametrize("kind", MICRO)
def test_mlx_reads_microscaled_words(kind: str) -> None:
    q = quantize(matrix(8, 64), kind)
    dense = mx.dequantize(mx.array(q.packed), mx.array(q.scales), mode=kind)
    found = np.array(dense.astype(mx.float32)) * q.factor
    np.testing.assert_allclose(found, np.asarray(q), rtol=1e-6)


BOUNDS = {"float4_e2m1fn": 1 / 6, "mxfp4": 1 / 4, "mxfp8": 1 / 8, "nvfp4": 0.18}


@pytest.mark.parametrize("kind", [*BOUNDS, "ternary", "float8_e4m3fn", "float8_e5m2"])
def test_errors_are_within_the_stated_bounds(kind: str) -> None:
    w = np.concatenate([matrix(40, 64), np.random.default_rng(1).uniform(-1, 1, (40, 64))])
    q = quantize(w.astype("float32"), kind)
    size = 64 if kind not in MICRO else q.coding.group_size
    magnitudes = np.abs(w).reshape(80, -1, size)
    largest = magnitudes.max(-1, keepdims=True)
    mean = magnitudes.mean(-1, keepdims=True)
    if kind in BOUNDS:
        bound = BOUNDS[kind] * largest
    elif kind == "ternary":
        bound = np.maximum(mean / 2, magnitudes - mean)
    else:
        bound = magnitudes * (1 / 16 if kind == "float8_e4m3fn" else 1 / 8) + largest / 28672
    assert (np.abs(np.asarray(q) - w).reshape(80, -1, size) <= bound * (1 + 1e-5)).all()


CASES = [((40, 96), {}), ((300, 33), {"axis": -2}), ((50, 100), {"group_size": -1})]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", [*KINDS, "int4", "int8"])
@pytest.mark.parametrize(("shape", "options"), CASES)
def test_products_are_those_of_whole_arrays(kind: str, shape: Any, options: Any) -> None:
    settings = {} if kind in MICRO and "group_size" in options else options
    q = quantize(matrix(*shape), kind, **settings)
    dense = np.asarray(q)
    w = gt.implicit(q, name="w")
    for m in (1, 3, 20):
        values = matrix(m, shape[0], seed=m)
        wanted = values @ dense
        x = gt.matrix("x", dtype="float32", shape=values.shape)
        with materializing("error"):
            on_jax = jax.tree.map(jnp.asarray, q)
            found = [implicit(jnp.matmul)(jnp.asarray(values), on_jax)]
            for mode in ("MLX", "NUMPY"):
                f = graphc.function([x, w], x @ w, mode=mode, returns="numpy")
                found.append(f(values, q))
        for y in found:
            np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [-1, -2])
def test_parts_and_scaled_ones_are_those_of_whole_arrays(kind: str, axis: int) -> None:
    q = quantize(matrix(3, 70, 66), kind, axis=axis)
    dense, index = np.asarray(q), np.array([5, 0])
    with materializing("error"):
        found = [q[1], q.mT, q * 3, -q, q[1:, :, :], q / 2]
        wanted = [dense[1], np.swapaxes(dense, -1, -2), dense * 3, -dense, dense[1:], dense / 2]
        x = matrix(3, 4, 70, seed=1)
        found.append(np.asarray(x @ q))
        wanted.append(x @ dense)
    found += [q[1][index], q[1][:, index], q.sum(-1)]
    wanted += [dense[1][index], dense[1][:, index], dense.sum(-1)]
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(y), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group_size", [8, 16, 24, 128, 256])
def test_groups_may_have_any_size_that_fills_words(group_size: int) -> None:
    w = matrix(3, 300)
    q = quantize(w, "int8", symmetric=True, group_size=group_size)
    assert q.shape == w.shape
    padded = np.pad(w, [(0, 0), (0, q.padding)])
    largest = np.abs(padded.reshape(3, -1, group_size)).max(-1)
    error = np.abs(np.asarray(q) - w)
    assert (error <= 0.5001 * np.repeat(largest / 127, group_size, 1)[:, :300]).all()
    x = matrix(2, 300, seed=1)
    np.testing.assert_allclose(np.asarray(x @ q.mT), x @ np.asarray(q).T, atol=1e-4)
    y = implicit(lambda x, q: x @ q.mT)(jnp.asarray(x), jax.tree.map(jnp.asarray, q))
    np.testing.assert_allclose(y, x @ np.asarray(q).T, atol=1e-4)


@pytest.mark.parametrize("channels", [(), (0,), (-1,), (0, -1), (1, 2)])
@pytest.mark.parametrize("kind", ["int8", "float8_e4m3fn"])
def test_scales_are_of_channels_along_any_axes(channels: Any, kind: str) -> None:
    w = matrix(3, 5, 6, 20)
    q = quantize(w, kind, symmetric=True, channel_axes=channels)
    over = tuple(axis for axis in range(4) if axis not in {i % 4 for i in channels})
    most = 127 if kind == "int8" else 448
    scale = np.abs(w).max(over, keepdims=True) / np.float32(most)
    shares = np.rint(w / scale) if kind == "int8" else (w / scale).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_allclose(np.asarray(q), shares.astype("float32") * scale, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("int8", {"channel_axes": (-1, -2)}, "of the last two at most one"),
        ("int8", {"channel_axes": (7,)}, "channel_axes=.7,. of the array, which has 2 axes"),
        ("int8", {"channel_axes": (0,), "group_size": 32}, "give one of the two"),
        ("mxfp4", {"group_size": 64}, "groups of 32"),
        ("nf4", {"symmetric": True}, "has no biases"),
        ("int3", {"group_size": 48}, "multiple of 32"),
    ],
)
def test_options_that_do_not_go_together_are_refused(kind: str, options: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        quantize(matrix(64, 64), kind, **options)


def test_shifted_integers_and_weighted_formats_have_another_class() -> None:
    q = quantize(matrix(4, 64), "int8", symmetric=True)
    moved = q + 2
    assert isinstance(moved, AffineQuantized)
    np.testing.assert_allclose(np.asarray(moved), np.asarray(q) + 2, rtol=1e-5)
    q = quantize(matrix(4, 64), "nvfp4")
    weighted = q * np.arange(4, dtype="float32")[:, None]
    assert isinstance(weighted, ScaledQuantized)
    np.testing.assert_allclose(
        np.asarray(weighted), np.asarray(q) * np.arange(4)[:, None], rtol=1e-5
    )


@pytest.mark.parametrize("kind", ["int3", "ternary", "ternary5", "float8_e4m3fn", "mxfp4"])
def test_gradients_of_products_are_those_of_whole_arrays(kind: str) -> None:
    q = quantize(matrix(40, 70), kind, symmetric=kind == "int3")
    q = jax.tree.map(jnp.asarray, q)
    dense, x = jnp.asarray(np.asarray(q)), jnp.asarray(matrix(3, 40))
    name = "factor" if kind == "mxfp4" else "scales"

    def loss(x: Any, part: Any) -> Any:
        return (implicit(jnp.matmul)(x, with_fields(q, {name: part})) ** 2).sum()

    with materializing("error"):
        by_x, by_part = jax.jit(jax.grad(loss, (0, 1)))(x, getattr(q, name))
    g = 2 * (x @ dense)
    np.testing.assert_allclose(by_x, g @ dense.T, rtol=1e-4, atol=1e-3)
    # Each part times its gradient is what the elements in its group times theirs add up to.
    total = np.asarray((x.T @ g) * dense)
    np.testing.assert_allclose(np.asarray(by_part * getattr(q, name)).sum(), total.sum(), rtol=1e-3)


@pytest.mark.parametrize("cls", [ScaledQuantized, Microscaled])
@pytest.mark.parametrize("transposed", [False, True])
def test_spec_has_the_shape_that_was_requested(cls: Any, transposed: bool) -> None:
    x = gt.implicit(cls, (2, 33, 65), "float32", name="w", transposed=transposed)
    assert x.type.shape == (2, 33, 65)


def by_integers(x: Any, w: Any, size: int) -> Any:
    """The product of integers of 8 bits, added up group by group."""
    a = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    rows = np.rint(x / np.where(a > 0, a, 1)).astype("int8")
    groups = w.reshape(-1, size, w.shape[1])
    b = np.abs(groups).max(1, keepdims=True) / np.float32(127)
    columns = np.rint(groups / np.where(b > 0, b, 1)).astype("int8")
    y = np.zeros((len(x), w.shape[1]), "float64")
    for i in range(len(groups)):
        sums = rows[:, i * size : (i + 1) * size].astype("int32") @ columns[i].astype("int32")
        y += sums * b[i].astype("float64")
    return y * a


@pytest.mark.parametrize(("k", "size"), [(64, 32), (2100, -1)])
def test_products_of_integers_are_added_up_in_integers(k: int, size: int) -> None:
    w, x = matrix(k, 10), matrix(3, k, seed=1)
    x[1], w[:, 2] = 0, 0
    q = quantize(w, "w8a8", axis=-2, group_size=size)
    wanted = by_integers(x, w, k if size == -1 else size)
    assert np.abs(wanted - x @ w).max() > 1e-3
    inputs = gt.matrix("x", dtype="float32", shape=x.shape)
    weights = gt.implicit(q, name="w")
    with materializing("error"):
        found = [x @ q, implicit(jnp.matmul)(jnp.asarray(x), jax.tree.map(jnp.asarray, q))]
        for mode in ("JAX", "MLX", "NUMPY"):
            f = graphc.function([inputs, weights], inputs @ weights, mode=mode, returns="numpy")
            found.append(f(x, q))
    for y in found:
        np.testing.assert_allclose(y, wanted, rtol=2e-5, atol=1e-4)


def test_products_of_integers_have_the_derivative_of_those_of_x() -> None:
    w, x = matrix(64, 10), matrix(3, 64, seed=1)
    q = quantize(w, "w8a8", channel_axes=(-1,))
    assert (q.transposed, q.group_size) == (True, 64)
    on_jax, g = jax.tree.map(jnp.asarray, q), matrix(3, 10, seed=2)
    with materializing("error"):
        y, pullback = jax.vjp(lambda x: implicit(jnp.matmul)(x, on_jax), jnp.asarray(x))
        inputs = gt.matrix("x", dtype="float32", shape=x.shape)
        slope = graphc.grad((inputs @ gt.as_tensor(q) * g).sum(), inputs)
        found = graphc.function([inputs], slope, returns="numpy")(x)
    np.testing.assert_allclose(y, by_integers(x, w, 64), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        pullback(jnp.asarray(g))[0], g @ np.asarray(q).T, rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(found, g @ np.asarray(q).T, rtol=1e-4, atol=1e-4)
    with pytest.raises(ImplicitArrayError, match=r"channel_axes=\(-1,\)"):
        quantize(w, "w8a8")
