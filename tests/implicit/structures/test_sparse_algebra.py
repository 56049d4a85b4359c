"""Sparse matrices with each other and with other structures, against SciPy and whole arrays."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import MaterializeError
from graphc.implicit import materialize_nested, materializing
from graphc.implicit.structured import MULTIPLY, ElementwiseFunction
from graphc.implicit.structures.entries import coalesce
from tests.implicit.protocol import numbers
from tests.modes import uncompiled

KINDS = {"CSR": implicit.CSR, "CSC": implicit.CSC, "BCOO": implicit.BCOO}
DTYPES = ("float64", "float32", "int8", "int32", "bool", "complex128")


def whole(x: Any) -> Any:
    return np.asarray(materialize_nested(x, full=True))


def scattered(seed: int, m: int, n: int, count: int, dtype: str = "float64") -> Any:
    """Coordinates at random, several of one element and some behind the last."""
    rng = np.random.default_rng(seed)
    places = np.stack([rng.integers(0, k + 1, count) for k in (m, n)], -1).astype("int32")
    return implicit.BCOO(numbers(rng, dtype, count), places, (m, n))


LENGTHS = st.integers(0, 5)
COUNTS = st.integers(0, 9)


@settings(max_examples=40, deadline=None)
@given(LENGTHS, LENGTHS, COUNTS, st.sampled_from(DTYPES), st.integers(0, 99))
def test_parts_of_an_element_are_added_up(
    m: int, n: int, count: int, dtype: str, seed: int
) -> None:
    w = scattered(seed, m, n, count, dtype)
    once = w.coalesce()
    np.testing.assert_array_equal(whole(once), whole(w))
    _, rows, columns = once.entries()
    places = [place for place in zip(rows.tolist(), columns.tolist(), strict=True) if place[0] < m]
    assert len(set(places)) == len(places)
    assert places == sorted(places)
    assert once.dtype == w.dtype


@settings(max_examples=40, deadline=None)
@given(LENGTHS, LENGTHS, COUNTS, COUNTS, st.sampled_from(DTYPES[:4]), st.integers(0, 99))
def test_functions_of_two_are_on_the_union_of_places(
    m: int, n: int, first: int, second: int, dtype: str, seed: int
) -> None:
    a, b = scattered(seed, m, n, first, dtype), scattered(seed + 100, m, n, second, dtype)
    pairs = {
        "maximum": (np.maximum, np.maximum),
        "less": (lambda x, y: x < y, np.less),
    }
    for function, reference in pairs.values():
        found = a.elementwise(ElementwiseFunction(function, zeros=2), b)
        np.testing.assert_array_equal(whole(found), reference(whole(a), whole(b)))
    np.testing.assert_array_equal(whole(a.elementwise(MULTIPLY, b)), whole(a) * whole(b))
    np.testing.assert_array_equal(whole(b.elementwise(MULTIPLY, a)), whole(a) * whole(b))


@settings(max_examples=40, deadline=None)
@given(LENGTHS, LENGTHS, COUNTS, st.sampled_from(("float64", "int8", "bool")), st.integers(0, 99))
def test_extremes_along_an_axis_count_the_zeros(
    m: int, n: int, count: int, dtype: str, seed: int
) -> None:
    w = scattered(seed, m, n, count, dtype)
    names = ("any", "all") if dtype == "bool" else ("max", "min")
    for name, axis in itertools.product(names, (0, 1)):
        if w.shape[axis]:
            found = w.reduce(name, (axis,))
            np.testing.assert_array_equal(found, getattr(np, name)(whole(w), axis))
            assert found.dtype == w.dtype


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_extremes_along_an_axis_of_infinities_and_nan(value: float) -> None:
    w = implicit.BCOO(np.array([value, 1.0, -1.0]), np.array([[0, 0], [0, 1], [1, 0]]), (2, 2))
    for name, axis in itertools.product(("max", "min"), (0, 1)):
        np.testing.assert_array_equal(
            w.reduce(name, (axis,)), getattr(np, name)(whole(w), axis), err_msg=f"{name} {axis}"
        )


def test_places_beyond_what_integers_count_are_sorted_twice() -> None:
    """Of 2**40 elements, places have no number in 32 bits."""
    rng = np.random.default_rng(0)
    rows, columns = (rng.integers(0, 2**20, 40).astype("int32") for _ in range(2))
    rows[20:], columns[20:] = rows[:20], columns[:20]
    data = jnp.asarray(rng.normal(size=40), "float32")
    xp = implicit.BCOO(data, jnp.zeros((40, 2), "int32"), (1, 1)).xp
    with jax.enable_x64(False):
        found = coalesce(xp, (data, jnp.asarray(rows), jnp.asarray(columns)), (2**20, 2**20))
    wanted = scipy.sparse.coo_array((np.asarray(data), (rows, columns)), (2**20, 2**20))
    wanted.sum_duplicates()
    sums, i, j = map(np.asarray, found)
    inside = i < 2**20
    ours = scipy.sparse.coo_array((sums[inside], (i[inside], j[inside])), wanted.shape)
    assert inside.sum() == wanted.nnz == 20
    assert abs(ours - wanted).max() < 1e-6


# Products.


def pair(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return (
        scipy.sparse.random_array((20, 15), density=0.1, rng=rng),
        scipy.sparse.random_array((15, 30), density=0.1, rng=rng),
    )


@pytest.mark.parametrize(("first", "second"), [*itertools.product(KINDS, KINDS)])
def test_products_of_known_places_have_scipys_pattern(first: str, second: str) -> None:
    a, b = pair()
    x, y = KINDS[first].from_scipy(a), KINDS[second].from_scipy(b)
    with materializing("error"):
        made = [x @ y, graphc.function([], gt.as_tensor(x) @ gt.as_tensor(y))()]
        with jax.enable_x64(True):
            made.append(jax.tree.map(jnp.asarray, x) @ jax.tree.map(jnp.asarray, y))
    for found in made:
        assert isinstance(found, implicit.BCOO)
        assert found.unique
        assert found.nse == (a @ b).nnz
        np.testing.assert_allclose(whole(found), (a @ b).toarray(), 1e-14, 1e-14)


@pytest.mark.parametrize(("first", "second"), [*itertools.product(KINDS, KINDS)])
def test_products_of_unknown_places_are_both_factors(first: str, second: str, mode: str) -> None:
    a, b = pair()
    x, y = KINDS[first].from_scipy(a), KINDS[second].from_scipy(b)
    s, t = gt.implicit(x, name="s"), gt.implicit(y, name="t")
    v = gt.vector("v", shape=(30,))
    with materializing("error"):
        outputs = [s @ t, (s @ t) @ v, (s @ t).sum(0), gt.transpose(s @ t)[2:5, 1:3]]
        f = graphc.function([s, t, v], outputs, uncompiled(mode))
    value = np.arange(30.0)
    product = (a @ b).toarray()
    made, applied, total, part = f(x, y, value)
    assert isinstance(made, implicit.LowRank)
    for found, wanted in [
        (made, product),
        (applied, product @ value),
        (total, product.sum(0)),
        (part, product.T[2:5, 1:3]),
    ]:
        values = np.asarray(materialize_nested(found, full=True))
        np.testing.assert_allclose(values, wanted, 1e-4 if mode == "MLX" else 1e-13, 1e-5)


def test_products_of_unknown_places_in_compiled_functions_of_jax() -> None:
    a, b = pair()
    x, y = (jax.tree.map(jnp.asarray, implicit.CSR.from_scipy(s)) for s in (a, b))
    with materializing("error"):
        found = jax.jit(implicit.implicit(jnp.matmul))(x, y)
    assert isinstance(found, implicit.LowRank)
    np.testing.assert_allclose(whole(found), (a @ b).toarray(), 1e-5, 1e-6)


@settings(max_examples=40, deadline=None)
@given(LENGTHS, LENGTHS, LENGTHS, COUNTS, COUNTS, st.integers(0, 99))
def test_products_of_any_shape(m: int, k: int, n: int, first: int, second: int, seed: int) -> None:
    a, b = scattered(seed, m, k, first), scattered(seed + 1, k, n, second)
    with materializing("error"):
        found = a @ b
    np.testing.assert_allclose(whole(found), whole(a) @ whole(b), 1e-13)


def test_gradients_of_products_with_symbolic_values() -> None:
    """By both values: those of the product at the places that are stored."""
    a, b = (implicit.CSR.from_scipy(s) for s in pair())
    u, v = gt.vector("u", shape=(a.nse,)), gt.vector("v", shape=(b.nse,))
    x = implicit.CSR(u, a.indices, a.indptr, a.lengths, True)
    y = implicit.CSR(v, b.indices, b.indptr, b.lengths, True)
    product = gt.as_tensor(x) @ gt.as_tensor(y)
    with materializing("error"):
        f = graphc.function([u, v], graphc.grad((product**2).sum(), [u, v]), "NUMPY")
    by_u, by_v = f(a.data, b.data)
    p, q = whole(a), whole(b)
    np.testing.assert_allclose(by_u, (2 * p @ q @ q.T)[a.entries()[1:]], 1e-12)
    np.testing.assert_allclose(by_v, (p.T @ (2 * p @ q))[b.entries()[1:]], 1e-12)


def test_what_is_stored_may_be_more_than_one_product_of_an_element() -> None:
    a = implicit.BCOO(np.array([1.0, 2.0]), np.array([[0, 0], [0, 0]]), (1, 2))
    b = implicit.BCOO(np.array([3.0, 4.0]), np.array([[0, 1], [0, 1]]), (2, 2))
    found = a @ b
    assert found.nse == 1
    assert whole(found).tolist() == [[0.0, 21.0]]


# With other structures.


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_functions_with_other_structures(kind: str) -> None:
    rng = np.random.default_rng(0)
    s = KINDS[kind].from_scipy(scipy.sparse.random_array((5, 5), density=0.4, rng=rng))
    others = {
        "Diagonal": implicit.Diagonal(rng.normal(size=5)),
        "Identity": implicit.Identity(np.asarray(2.0), 5),
        "OneHot": implicit.OneHot.of(rng.integers(0, 5, 5), 5, "float64"),
        "Zeros": implicit.Zeros.of((5, 5)),
        "LowRank": implicit.LowRank(rng.normal(size=(5, 1)), rng.normal(size=(1, 5))),
    }
    for name, t in others.items():
        with materializing("error"):
            total, both = s + t, t - s
            product = s @ t, t @ s
        np.testing.assert_allclose(whole(total), whole(s) + whole(t), err_msg=name)
        np.testing.assert_allclose(whole(both), whole(t) - whole(s), err_msg=name)
        np.testing.assert_allclose(whole(product[0]), whole(s) @ whole(t), 1e-12, 1e-12)
        np.testing.assert_allclose(whole(product[1]), whole(t) @ whole(s), 1e-12, 1e-12)
        if name == "LowRank":
            assert isinstance(total, implicit.LoRA)
            continue
        with materializing("error"):
            pairs = s * t, s > t
        np.testing.assert_allclose(whole(pairs[0]), whole(s) * whole(t))
        np.testing.assert_array_equal(whole(pairs[1]), whole(s) > whole(t))


def test_a_sum_with_a_low_rank_matrix_multiplies_and_sums_by_its_parts() -> None:
    rng = np.random.default_rng(0)
    s = implicit.CSR.from_scipy(scipy.sparse.random_array((6, 4), density=0.4, rng=rng))
    low = implicit.LowRank(rng.normal(size=(6, 2)), rng.normal(size=(2, 4)))
    w, x = gt.implicit(s, name="s"), gt.matrix("x", shape=(4, 3))
    with materializing("error"):
        y = (w + gt.as_tensor(low)) @ x
        f = graphc.function([w, x], [y, graphc.grad((y**2).sum(), w.array.data)], "NUMPY")
    value = rng.normal(size=(4, 3))
    found, slope = f(s, value)
    total = whole(s) + whole(low)
    np.testing.assert_allclose(found, total @ value, 1e-12)
    np.testing.assert_allclose(slope, (2 * total @ value @ value.T)[s.entries()[1:]], 1e-12)


def test_a_function_that_changes_zero_is_an_error_that_says_what_to_do() -> None:
    s = implicit.BCOO(np.ones(1), np.zeros((1, 2), int), (2, 2))
    for f in (lambda x: x >= 0, lambda x: x**0.0, lambda x: 2.0**x, lambda x: 2 // x):
        with pytest.raises(MaterializeError, match="materialize"):
            f(s)


def test_known_numbers_are_those_of_each_call() -> None:
    """One compiled function of JAX's is called with several bounds, known and traced."""
    s = implicit.BCOO(jnp.array([2.0, -1.0]), jnp.array([[0, 1], [1, 0]]), (2, 2), True)

    def limited(w: Any) -> Any:
        return jnp.clip(w, -0.5, 0.5), jnp.clip(w, -2.0, 1.5), jnp.clip(w, -0.25, 0.0)

    with materializing("error"):
        found = jax.jit(implicit.implicit(limited))(s)
    for y, wanted in zip(found, limited(whole(s)), strict=True):
        assert isinstance(y, implicit.BCOO)
        np.testing.assert_array_equal(whole(y), wanted)
    moving = implicit.implicit(lambda w, low: jnp.clip(w, low, 3.0))
    np.testing.assert_array_equal(moving(s, jnp.float32(1)), np.clip(whole(s), 1, 3))
    with materializing("error"), pytest.raises(MaterializeError):
        moving(s, jnp.float32(-1))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32"])
def test_results_beside_numbers_have_the_dtypes_of_whole_arrays(dtype: str) -> None:
    places = jnp.array([[0, 1], [1, 0], [1, 0]])
    s = implicit.BCOO(jnp.array([5, -3, 1], dtype), places, (2, 2))

    def results(w: Any) -> Any:
        return jnp.maximum(w, 0), w % 2, w // 2, w % 2.5, w > 1, jnp.clip(w, -1, 1), w**2

    for y, wanted in zip(
        jax.jit(implicit.implicit(results))(s), jax.jit(results)(jnp.asarray(s)), strict=True
    ):
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(whole(y), wanted)


@pytest.mark.parametrize("kind", ["CSR", "CSC"])
def test_values_of_unknown_length_stand_beside_known_places(kind: str, mode: str) -> None:
    data = gt.vector("data")
    w = KINDS[kind](data, np.array([0, 1, 1]), np.array([0, 1, 3]), (2, 2))
    assert w.nse == 3
    f = graphc.function([data], gt.as_tensor(w) @ np.array([1.0, 10.0]), uncompiled(mode))
    same = KINDS[kind](np.array([1.0, 2.0, 3.0]), np.array([0, 1, 1]), np.array([0, 1, 3]), (2, 2))
    np.testing.assert_allclose(np.asarray(f([1.0, 2.0, 3.0])), whole(same) @ [1.0, 10.0])


# Packed matrices with each other.


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(("axis", "other"), [*itertools.product((-1, -2), (-1, -2))])
@pytest.mark.parametrize(
    ("first", "second"), [("int8", "int4"), ("nf4", "1bit"), ("mxfp4", "int3")]
)
def test_packed_matrices_multiply_each_other(
    first: str, second: str, axis: int, other: int
) -> None:
    rng = np.random.default_rng(0)
    size = {} if first == "mxfp4" else {"group_size": 32}
    a = implicit.quantize(rng.normal(size=(70, 96)).astype("float32"), first, axis=axis, **size)
    b = rng.normal(size=(96, 64)).astype("float32")
    b = implicit.quantize(b, second, axis=other, group_size=32)
    s, t = gt.implicit(a, name="a"), gt.implicit(b, name="b")
    with materializing("error"):
        made = [
            a @ b,
            jax.jit(implicit.implicit(jnp.matmul))(*jax.tree.map(jnp.asarray, (a, b))),
            graphc.function([s, t], s @ t, "NUMPY")(a, b),
        ]
    for found in made:
        np.testing.assert_allclose(np.asarray(found), whole(a) @ whole(b), 1e-4, 1e-4)


# Zeros that stay zeros.


@pytest.mark.parametrize(
    "f",
    [
        lambda z, part: jax.lax.dynamic_update_slice(z, part, (z.shape[0] - 3, 1)),
        lambda z, part: jax.lax.dynamic_slice(z, (1, 1), part.shape),
        lambda z, part: z.at[jnp.array([1, 2]), 1:4].set(part),
        lambda z, part: z.at[jnp.array([1, 2]), 1:4].add(part),
        lambda z, part: z.at[1].set(0.0),
        lambda z, part: z[jnp.array([1, 2]), jnp.array([3, 0])],
        lambda z, part: jnp.pad(z, ((1, 0), (2, 1))),
        lambda z, part: jnp.cumsum(z, 0),
        lambda z, part: jnp.sort(z, 0),
        lambda z, part: jnp.roll(z, 1, 0),
    ],
)
def test_zeros_into_and_out_of_zeros(f: Any) -> None:
    z, part = (implicit.Zeros(jnp.zeros(()), lengths) for lengths in ((5, 6), (2, 3)))
    wanted = f(jnp.zeros((5, 6)), jnp.zeros((2, 3)))
    with materializing("error"):
        found = implicit.implicit(f)(z, part)
    assert isinstance(found, implicit.Zeros)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)


def test_other_numbers_written_into_zeros_are_not_lost() -> None:
    z = implicit.Zeros(jnp.zeros(()), (4, 3))
    for f in (
        lambda z: jax.lax.dynamic_update_slice(z, jnp.ones((1, 3)), (1, 0)),
        lambda z: z.at[1].add(2.0),
        lambda z: jnp.pad(z, 1, constant_values=3.0),
    ):
        np.testing.assert_array_equal(implicit.implicit(f)(z), f(jnp.zeros((4, 3))))
        with materializing("error"), pytest.raises(MaterializeError):
            implicit.implicit(f)(z)


def test_zeros_in_graphs() -> None:
    z = gt.implicit(implicit.Zeros, (4, 3), "float64", name="z")
    part = gt.as_tensor(implicit.Zeros.of((2, 3)))
    with materializing("error"):
        written = [gt.set_subtensor(z[1:3], part), gt.inc_subtensor(z[1:3], part)]
        f = graphc.function([z], written, "NUMPY", on_unused_input="ignore")
    for found in f(implicit.Zeros.of((4, 3))):
        assert isinstance(found, implicit.Zeros)
        assert found.shape == (4, 3)


# Parts of filtered trees.


@pytest.mark.parametrize(
    "f",
    [
        lambda w: w + 1,
        lambda w: 2 * w,
        lambda w: w @ jnp.ones(4),
        lambda w: w.T,
        abs,
        lambda w: w.mean(),
        np.asarray,
        jnp.asarray,
        implicit.implicit(lambda w: w @ jnp.ones(4)),
    ],
)
def test_a_part_of_a_filtered_tree_says_that_parts_are_to_be_combined(f: Any) -> None:
    lora = implicit.LoRA(jnp.ones((4, 4)), jnp.ones((4, 1)), jnp.ones((1, 4)))
    for w in (implicit.trainable(lora), jax.tree.map(lambda x: None, lora)):
        with pytest.raises(MaterializeError, match=r"(?s)base.*combine"):
            f(w)
