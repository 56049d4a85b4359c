"""Packed codes: MLX's layout, errors against dense arrays, and what is done with structure."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit.quantized import NF4, AffineQuantized, OneBit, Quantized, quantize
from graphc.implicit.quantized.coding import NORMAL_FLOATS
from graphc.implicit.trees import leaves
from tests.implicit.reference import FEW, Case, check, runs

KINDS = ("int8", "int4", "int2", "nf4", "1bit")

Rng = np.random.Generator


# Only an array with biases takes a sum; a cut through a group is of the whole.
OF_ALL_KINDS = (
    "x @ w",
    "y @ w.T",
    "xs @ w",
    "w.T @ c",
    "w.T",
    "w * 2",
    "-w",
    "cast",
    "sum",
    "w[i]",
)


def matrix(rng: Rng, shape: tuple[int, ...] = (6, 64), dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def both(x: Quantized) -> tuple[Quantized, Any]:
    return x, np.asarray(x.materialize())


def affine(rng: Rng) -> Any:
    return both(quantize(matrix(rng, (6, 64), "float64"), "int4", group_size=32))


def affine_transposed(rng: Rng) -> Any:
    return both(quantize(matrix(rng, (64, 6), "float64"), "int8", group_size=32, axis=-2))


def normal_floats(rng: Rng) -> Any:
    return both(quantize(matrix(rng, (6, 64), "float64"), "nf4", group_size=32))


def signs(rng: Rng) -> Any:
    return both(quantize(matrix(rng, (6, 64), "float64"), "1bit", group_size=32))


def stack(rng: Rng) -> Any:
    return both(quantize(matrix(rng, (5, 4, 72), "float64"), "int4", group_size=32))


STRUCTURED = frozenset(
    {
        *("x @ w", "y @ w.T", "xs @ w", "ys @ w.T", "w @ x.T", "w @ v", "c @ w", "w.T @ c"),
        *("einsum free between", "tensordot", "layer", "two layers", "w.T", "rows halved"),
        *("new axis", "new axis and back", "new axis, product", "repeated", "w[1]", "w[-1]"),
        *("w[1:3]", "w[::2]", "w[::-1]", "w[:0]", "w[None]", "w[i]", "w[index]", "w[table]"),
        *("w[-index]", "w[:, columns]", "w[:, index]", "take", "take columns", "concatenate"),
        *("concatenate columns", "stack", "split in two", "w * 2", "s * w", "w / s", "-w", "w + 1"),
        *("w - s", "1 - w", "w * column", "w * xs", "where flag", "cast", "cast, product"),
        *("cast half", "sum", "sum of columns", "sum of rows", "sum kept", "mean"),
    }
)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations_of_affine_codes(case: Case, way: str) -> None:
    check(affine, case, way, STRUCTURED)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize("make", [affine_transposed, normal_floats, signs])
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("NUMPY",)))
def test_operations_of_other_kinds(make: Any, case: Case, way: str) -> None:
    check(make, case, way, OF_ALL_KINDS)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=FEW))
def test_operations_of_stacks(case: Case, way: str) -> None:
    check(stack, case, way, ())


# Layout and errors.


@settings(deadline=None)
@given(
    bits=st.sampled_from([2, 4, 8]),
    group_size=st.sampled_from([32, 64, 128]),
    lead=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    groups=st.integers(1, 3),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_affine_codes_are_those_of_mlx_bit_for_bit(
    bits: int, group_size: int, lead: list[int], groups: int, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    w = matrix(rng, (*lead, groups * group_size)) * np.float32(scale)
    w[..., 0, :] = np.float32(rng.choice([0.0, 1.0, -1.0]))
    w = w.astype("float32")
    q = quantize(w, f"int{bits}", group_size=group_size)
    theirs = mx.quantize(mx.array(w), group_size=group_size, bits=bits)
    for ours, other in zip((q.packed, q.scales, q.biases), theirs, strict=True):
        np.testing.assert_array_equal(ours, np.array(other))
    dense = mx.dequantize(*theirs, group_size=group_size, bits=bits)
    np.testing.assert_array_equal(q.materialize(), np.array(dense))


def bound(kind: str, w: Any, group_size: int, q: Quantized) -> Any:
    """What an element may be off by, for each group."""
    groups = w.reshape(w.shape[0], w.shape[1] // group_size, group_size)
    largest = np.abs(groups).max(-1, keepdims=True)
    if kind == "nf4":
        table = np.array(NORMAL_FLOATS)
        return np.diff(table).max() / 2 * largest
    if kind == "1bit":
        mean = np.abs(groups).mean(-1, keepdims=True)
        return np.maximum(mean, np.abs(np.abs(groups) - mean))
    return np.abs(np.asarray(q.scales, "float64"))[..., None]


@settings(deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    group_size=st.sampled_from([32, 64, 128]),
    counts=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    dtype=st.sampled_from(["float32", "float64", "float16", "bfloat16"]),
    ends=st.tuples(st.floats(-100, 100), st.floats(-100, 100)),
    seed=st.integers(0, 2**32 - 1),
)
def test_errors_are_within_the_stated_bounds(
    kind: str, group_size: int, counts: Any, dtype: str, ends: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, groups = counts
    w = rng.uniform(*sorted(ends), (rows, groups * group_size)).astype(jnp.dtype(dtype))
    q = quantize(w, kind, group_size=group_size)
    assert q.shape == w.shape
    assert q.dtype == w.dtype
    error = np.abs(w.astype("float64") - np.asarray(q.materialize()).astype("float64"))
    size = np.abs(w.astype("float64")).max(initial=0.0)
    rounding = 4 * float(jnp.finfo(jnp.dtype(dtype)).eps) * size + 1e-7
    whole = bound(kind, w.astype("float64"), group_size, q) + rounding
    assert (error.reshape(rows, groups, group_size) <= whole).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_group_of_zeros_stays_exactly_zero(kind: str, dtype: str) -> None:
    w = matrix(np.random.default_rng(0), (2, 128), dtype)
    w[0, :64] = 0
    dense = quantize(w, kind).materialize()
    assert (dense[0, :64] == 0).all()
    assert np.isfinite(dense).all()


@pytest.mark.parametrize(
    ("kind", "per_element"), [("int8", 8), ("int4", 4), ("int2", 2), ("nf4", 4), ("1bit", 1)]
)
def test_codes_are_packed(kind: str, per_element: int) -> None:
    q = quantize(matrix(np.random.default_rng(0), (128, 256)), kind)
    numbers = 2 if kind.startswith("int") else 1
    assert q.nbytes == 128 * 256 * per_element // 8 + numbers * 4 * 128 * 256 // 64
    assert q.packed.nbytes == 128 * 256 * per_element // 8


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_library_quantizes_alike(kind: str) -> None:
    w = matrix(np.random.default_rng(0), (4, 128))
    ours = quantize(w, kind)
    on_jax = quantize(jnp.asarray(w), kind)
    assert isinstance(on_jax.packed, jax.Array)
    on_mlx = quantize(mx.array(w), kind)
    assert isinstance(on_mlx.packed, mx.array)
    for other in (on_jax, on_mlx):
        np.testing.assert_array_equal(np.array(other.packed), ours.packed)
        np.testing.assert_allclose(np.array(other.scales), ours.scales, rtol=1e-6)
    x = gt.matrix("x", dtype="float32")
    made = quantize(x, kind)
    whole = graphc.function([x], gt.as_tensor(made), mode="NUMPY")(w)
    np.testing.assert_allclose(np.asarray(whole), ours.materialize(), rtol=1e-4, atol=0.05)


def test_traced_arrays_can_be_quantized() -> None:
    w = jnp.asarray(matrix(np.random.default_rng(0), (4, 128)))
    inside = jax.jit(lambda w: quantize(w, "int4").materialize())(w)
    np.testing.assert_allclose(inside, quantize(w, "int4").materialize(), atol=1e-5)


# Bad input.


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("library", [np.asarray, jnp.asarray, mx.array])
def test_numbers_that_are_none_are_named(bad: float, library: Any) -> None:
    w = matrix(np.random.default_rng(0), (4, 128))
    w[2, 5] = w[3, 7] = bad
    with pytest.raises(ImplicitArrayError, match=r"2 elements .* at \(2, 5\), \(3, 7\)"):
        quantize(library(w), "int4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_size": 44}, r"Groups of 44 .*\nTake a multiple of 8"),
        ({"group_size": 0}, "Groups of 0"),
        ({"kind": "int7"}, r"kind='int7'.*\nTake one of 'int8'"),
        ({"axis": 0}, "axis=0"),
        ({"where": "w"}, "of an array"),
    ],
)
def test_arguments_that_do_not_fit_say_what_would(arguments: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        quantize(np.ones((64, 96), "float32"), **arguments)


def test_a_last_group_that_is_shorter_is_padded() -> None:
    w = matrix(np.random.default_rng(0), (3, 100))
    q = quantize(w)
    assert (q.shape, q.padding) == ((3, 100), 28)
    error = np.abs(np.asarray(q) - w)
    assert (error <= np.repeat(np.abs(q.scales), 64, 1)[:, :100]).all()


@pytest.mark.parametrize("x", [np.ones(64), np.ones((2, 64), "int32"), np.ones((2, 64), complex)])
def test_what_is_no_floating_matrix_is_refused(x: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="Floating arrays of two axes"):
        quantize(x)


def fields(**changes: Any) -> dict[str, Any]:
    q = quantize(matrix(np.random.default_rng(0), (4, 128)), "int4")
    return {"packed": q.packed, "scales": q.scales, "biases": q.biases} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"packed": np.zeros((4, 16), "int32")}, "dtype int32"),
        ({"packed": np.zeros((4, 15), "uint32")}, r"\(4, 15\)"),
        ({"packed": np.zeros((3, 16), "uint32")}, r"\(3, 16\) with scales of shape \(4, 2\)"),
        ({"packed": np.zeros(16, "uint32"), "scales": np.zeros(2, "float32")}, "two axes"),
        ({"biases": np.zeros((4, 1), "float32")}, r"biases of shape \(4, 1\)"),
        ({"biases": np.zeros((4, 2), "float64")}, "biases of dtype float64 in an array of float32"),
        ({"scales": np.zeros((4, 2), "int32")}, "dtype int32"),
        ({"bits": 7}, "codes of 7 bits"),
        ({"group_size": 12}, "Groups of 12"),
    ],
)
def test_fields_that_do_not_fit_each_other_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        AffineQuantized(**fields(**changes))


# Trees.


def tree(rng: Rng) -> Any:
    layer = {"w": matrix(rng, (64, 128)), "b": matrix(rng, (128,))}
    return {"embed": matrix(rng, (10, 64)), "layers": [dict(layer), dict(layer)], "step": 3}


def names(made: Any) -> list[str]:
    return [type(x).__name__ for x in leaves(made)]


@pytest.mark.parametrize(
    "where",
    [
        "layers/*/w",
        re.compile(r"/w$"),
        lambda path, x: path[-1] == "w",
    ],
)
def test_where_chooses_by_path(where: Any) -> None:
    made = quantize(tree(np.random.default_rng(0)), "int8", where=where)
    assert [type(layer["w"]) for layer in made["layers"]] == [AffineQuantized] * 2
    assert isinstance(made["embed"], np.ndarray)


def test_by_default_matrices_are_quantized_and_others_kept() -> None:
    made = quantize(tree(np.random.default_rng(0)), "nf4")
    assert names(made) == ["NF4", "ndarray", "NF4", "ndarray", "NF4", "int"]
    assert names(quantize(made, "int4")) == names(made)


def test_errors_in_a_tree_name_the_path() -> None:
    with pytest.raises(ImplicitArrayError, match="the array at 'layers/0/w' has 1 elements"):
        quantize({"layers": [{"w": np.diag([1, 2, np.nan])}]})
    with pytest.raises(ImplicitArrayError, match="fits no array"):
        quantize({"w": np.ones((64, 64))}, where="v")
    with pytest.raises(ImplicitArrayError, match="the array at 'b' is float64"):
        quantize({"b": np.ones(64)}, where="b")


# Structure.


def test_a_shifted_sign_is_a_code_of_one_bit() -> None:
    q, dense = signs(np.random.default_rng(0))
    moved = q.add_number(np.float64(3))
    assert isinstance(moved, AffineQuantized)
    np.testing.assert_allclose(moved.materialize(), dense + 3, rtol=1e-14)


@pytest.mark.parametrize("cls", [AffineQuantized, NF4, OneBit])
@pytest.mark.parametrize("transposed", [False, True])
def test_spec_has_the_shape_asked_for(cls: Any, transposed: bool) -> None:
    shape = (2, 64, 128)
    x = gt.implicit(cls, shape, "float32", name="w", group_size=32, transposed=transposed)
    assert x.type.shape == shape
    shape = (33, 64) if transposed else (64, 33)
    assert cls.spec(shape, "float32", transposed=transposed).shape == shape


@pytest.mark.parametrize(
    ("dtype", "most"), [("float16", 6e4), ("float32", 3e38), ("float64", 1e308)]
)
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4", "1bit"])
def test_numbers_whose_range_overflows_are_refused(kind: str, dtype: str, most: float) -> None:
    x = (np.linspace(-1, 1, 128) * most).astype(dtype).reshape(2, 64)
    with pytest.raises(ImplicitArrayError, match="may overflow"):
        quantize(x, kind, group_size=32)
    safe = x / np.array(4000, dtype)
    assert np.isfinite(np.asarray(quantize(safe, kind, group_size=32), "float64")).all()


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_what_is_smaller_than_the_least_step_is_near_zero(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 64)).astype("float32") * 1e-7
    np.testing.assert_allclose(np.asarray(quantize(x, kind, group_size=32)), x, rtol=0, atol=1.5e-7)
