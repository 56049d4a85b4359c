"""Codes whose scales are quantized, too; and matrices whose channels are in another order."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import ImplicitArrayError
from graphc.implicit import (
    AffineQuantized,
    ChannelPermuted,
    DoubleQuantized,
    ScaledQuantized,
    materializing,
)

KINDS = {
    "2 bits": {"bits": 2, "group_size": 16, "per_factor": 16},
    "4 bits": {"bits": 4, "group_size": 32, "per_factor": 8},
    "5 bits": {"bits": 5, "group_size": 32, "per_factor": 2},
    "6 bits": {"bits": 6, "group_size": 16, "per_factor": 16, "symmetric": True},
}


def made(kind: str, *lead: int, blocks: int = 2, seed: int = 0) -> Any:
    options, rng = KINDS[kind], np.random.default_rng(seed)
    groups = blocks * int(options["per_factor"])
    words = groups * int(options["group_size"]) * int(options["bits"]) // 32
    packed = rng.integers(0, 2**32, (*lead, words), dtype="uint32")
    symmetric = "symmetric" in options
    parts = []
    for low in (-64 if symmetric else 0, *([] if symmetric else [0])):
        parts.append(rng.integers(low, 64, (*lead, groups)).astype("int8"))
        parts.append(rng.uniform(0.5, 2, (*lead, blocks)).astype("float32"))
    return DoubleQuantized(packed, *parts, **options)


def dense(w: Any) -> Any:
    """What the fields of an array stand for, bit by bit."""
    bits = np.unpackbits(w.packed.view("uint8"), axis=-1, bitorder="little")
    codes = (bits.reshape(*bits.shape[:-1], -1, w.bits) * 2 ** np.arange(w.bits)).sum(-1)
    size = w.group_size
    steps = np.repeat(w.scales.astype("float32") * np.repeat(w.factors, w.per_factor, -1), size, -1)
    if w.symmetric:
        return (codes - 2 ** (w.bits - 1)).astype("float32") * steps
    least = w.minimums.astype("float32") * np.repeat(w.minimum_factors, w.per_factor, -1)
    return codes.astype("float32") * steps - np.repeat(least, size, -1)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_codes_times_scales_less_minimums(kind: str) -> None:
    for lead in ((5,), (2, 3)):
        w = made(kind, *lead)
        np.testing.assert_array_equal(np.asarray(w), dense(w))
        np.testing.assert_array_equal(np.asarray(w.once_quantized), dense(w))
        turned = np.asarray(w.matrix_transpose())
        np.testing.assert_array_equal(turned, np.swapaxes(dense(w), -1, -2))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("lead", [(5,), (2, 3)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_products_stay_packed(kind: str, transposed: bool, lead: tuple[int, ...]) -> None:
    w = made(kind, *lead)
    w = w.matrix_transpose() if transposed else w
    whole = np.asarray(w)
    x = np.random.default_rng(1).standard_normal((*whole.shape[:-2], 3, whole.shape[-2]))
    x = x.astype("float32")
    expected = x.astype("float64") @ whole
    limit = 1e-5 * np.abs(expected).max()
    v, symbol = gt.tensor("x", dtype="float32", shape=x.shape), gt.implicit(w, name="w")
    with materializing("error"):
        found = [w.rmatmul(x), jax.jit(implicit.implicit(jnp.matmul))(x, w)]
        for mode in ("NUMPY", "JAX", "MLX"):
            by_x = graphc.grad(((v @ symbol) ** 2).sum(), v)
            f = graphc.function([v, symbol], [v @ symbol, by_x], mode=mode, returns="numpy")
            y, slope = f(x, w)
            found.append(y)
            wanted = 2 * expected @ np.swapaxes(whole, -1, -2)
            np.testing.assert_allclose(slope, wanted, atol=2e-5 * np.abs(wanted).max())
    for y in found:
        np.testing.assert_allclose(np.asarray(y), expected, atol=limit)


def test_parts_keep_the_structure_that_they_have() -> None:
    w = made("4 bits", 6)
    whole = dense(w)
    cases = [
        (w[1:3], whole[1:3], DoubleQuantized),
        (w[:, 256:], whole[:, 256:], DoubleQuantized),
        (w[::2, :256], whole[::2, :256], DoubleQuantized),
        (w.T[256:], whole.T[256:], DoubleQuantized),
        (w[:, 32:96], whole[:, 32:96], AffineQuantized),
        (w.reshape(12, 256), whole.reshape(12, 256), DoubleQuantized),
        (w.reshape(2, 3, 512), whole.reshape(2, 3, 512), DoubleQuantized),
        (w * np.float32(2), whole * 2, DoubleQuantized),
        (w / np.float32(2), whole / 2, DoubleQuantized),
        (w + np.float32(1), whole + 1, AffineQuantized),
        (made("6 bits", 4)[:, 16:48], dense(made("6 bits", 4))[:, 16:48], ScaledQuantized),
    ]
    for found, expected, kind in cases:
        assert type(found) is kind
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(w[np.array([4, 1])]), whole[[4, 1]])
    np.testing.assert_array_equal(np.asarray(w.T[np.array([4, 300])]), whole.T[[4, 300]])
    assert w.astype("float16").dtype == "float16"
    layers = implicit.implicit(lambda a, b: jnp.concatenate([a, b]))(w, made("4 bits", 2, seed=1))
    assert type(layers) is DoubleQuantized
    np.testing.assert_array_equal(np.asarray(layers)[:6], whole)
    beside = implicit.implicit(lambda a, b: jnp.concatenate([a, b], 1))(w, w)
    np.testing.assert_array_equal(np.asarray(beside), np.concatenate([whole, whole], 1))


def test_inputs_are_declared_by_shape() -> None:
    w = made("5 bits", 6)
    symbol = gt.implicit(DoubleQuantized, (6, 128), "float32", name="w", **KINDS["5 bits"])
    assert str(symbol.array.packed.type) == "uint32[6, 20]"
    x = np.ones(6, "float32")
    v = gt.vector("x", dtype="float32", shape=(6,))
    with materializing("error"):
        y = graphc.function([v, symbol], v @ symbol, returns="numpy")(x, w)
    np.testing.assert_allclose(y, dense(w).sum(0), rtol=1e-5)
    with pytest.raises(ImplicitArrayError, match="100 elements along the packed axis"):
        DoubleQuantized.spec((6, 100), "float32")


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        ("scales", np.zeros((6, 16), "uint8"), "scales of dtype uint8"),
        ("scales", np.zeros((6, 8), "int8"), r"packed of shape \(6, 64\)"),
        ("factors", np.zeros((6, 4), "float32"), r"factors of shape \(6, 4\)"),
        ("factors", np.zeros((6, 2), "int32"), "DoubleQuantized of dtype int32"),
        ("minimums", None, "fields packed, scales, factors, minimum_factors"),
        ("scales", None, "fields packed, factors, minimums, minimum_factors"),
        ("minimum_factors", np.zeros((6, 2), "float16"), "minimum_factors of dtype float16"),
        ("packed", np.zeros((6, 64), "int32"), "packed of dtype int32"),
        ("padding", 3, "along the packed axis"),
    ],
)
def test_fields_that_do_not_fit_are_refused(change: str, value: Any, message: str) -> None:
    w = made("4 bits", 6)
    fields = {
        **implicit.fields_of(w),
        **{name: getattr(w, name) for name in ("bits", "group_size", "per_factor")},
    }
    DoubleQuantized(**fields)
    with pytest.raises(ImplicitArrayError, match=message):
        DoubleQuantized(**{**fields, change: value})


ORDER = np.array([3, 0, 4, 1, 5, 2], "int32")


def permuted(*lead: int, columns: bool = False) -> tuple[Any, Any]:
    """An array whose rows, or columns, are in another order; and the matrix."""
    rng = np.random.default_rng(0)
    shape = (*lead, 32, 6) if columns else (*lead, 6, 32)
    of = implicit.quantize(
        rng.standard_normal(shape).astype("float32"),
        "int8",
        group_size=32,
        axis=-2 if columns else -1,
    )
    order = np.stack([np.roll(ORDER, i) for i in range(lead[0])]) if lead else ORDER
    whole = np.empty(shape, "float32")
    for at in np.ndindex(lead):
        if columns:
            whole[at][:, order[at]] = np.asarray(of)[at]
        else:
            whole[at][order[at]] = np.asarray(of)[at]
    return ChannelPermuted(of, order, columns=columns), whole


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("lead", [(), (2,)], ids=str)
def test_channels_in_another_order(lead: tuple[int, ...], columns: bool) -> None:
    w, whole = permuted(*lead, columns=columns)
    np.testing.assert_array_equal(np.asarray(w), whole)
    rng = np.random.default_rng(1)
    for own, matrix in ((w, whole), (w.matrix_transpose(), np.swapaxes(whole, -1, -2))):
        x = rng.standard_normal((*lead, 3, matrix.shape[-2])).astype("float32")
        expected = x @ matrix
        v, symbol = gt.tensor("x", dtype="float32", shape=x.shape), gt.implicit(own, name="w")
        with materializing("error"):
            found = [own.rmatmul(x), jax.jit(implicit.implicit(jnp.matmul))(x, own)]
            for mode in ("NUMPY", "JAX", "MLX"):
                by_x = graphc.grad((v @ symbol).sum(), v)
                f = graphc.function([v, symbol], [v @ symbol, by_x], mode=mode, returns="numpy")
                y, slope = f(x, own)
                found.append(y)
                wanted = np.broadcast_to(matrix.sum(-1)[..., None, :], slope.shape)
                np.testing.assert_allclose(slope, wanted, atol=1e-4)
        for y in found:
            np.testing.assert_allclose(np.asarray(y), expected, atol=1e-4)
    np.testing.assert_allclose(np.asarray(w * np.float32(2)), whole * 2)
    assert w.astype("float16").of.dtype == "float16"
    if not lead:
        index = np.array([2, 0])
        np.testing.assert_array_equal(np.asarray(w[index]), whole[index])
        np.testing.assert_array_equal(np.asarray(w.each(mx.array).materialize()), whole)


def test_orders_that_do_not_fit_are_refused() -> None:
    w, _ = permuted()
    for order in (ORDER[:5], ORDER.astype("float32")):
        with pytest.raises(ImplicitArrayError, match=r"an order of"):
            ChannelPermuted(w.of, order)
