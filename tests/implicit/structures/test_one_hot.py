"""One-hot arrays, against whole ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.structures.one_hot import OneHot
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

NAMES = {case.name for case in CASES}
DENSE = {
    "tensordot", "flat", "w[index, 1]", "concatenate columns", "concatenate whole", "w + 1",
    "w - s", "1 - w", "exp", "isnan", "where mask", "where same", "where flag", "min",
}  # fmt: skip
"""What has more than one element that is not zero in a row."""


def whole(x: OneHot) -> Any:
    """Written out in NumPy."""
    hits = np.expand_dims(x.indices, -1) == np.arange(x.classes)
    weights = np.ones_like(x.indices, x.element) if x.weights is None else x.weights
    y = hits * np.expand_dims(weights, -1)
    return (y if x.axis == -1 else np.swapaxes(y, -1, -2)).astype(weights.dtype)


def make(rng: np.random.Generator) -> Any:
    x = OneHot(rng.integers(0, 6, 4), 6, None, "float64")
    return x, whole(x)


def make_weighted(rng: np.random.Generator) -> Any:
    x = OneHot(rng.integers(-1, 7, 4).astype("int8"), 6, rng.normal(size=4))
    return x, whole(x)


def make_transposed(rng: np.random.Generator) -> Any:
    x = OneHot(rng.integers(0, 4, 6).astype("uint8"), 4, None, "float64", -2)
    return x, whole(x)


def make_stack(rng: np.random.Generator) -> Any:
    x = OneHot(rng.integers(0, 6, (5, 4)), 6, rng.normal(size=(5, 4)))
    return x, whole(x)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, NAMES - DENSE)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("jit", "NUMPY")))
def test_operations_with_weights(case: Case, way: str) -> None:
    check(make_weighted, case, way, NAMES - DENSE - {"max", "prod", "max of rows"})


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("jit", "NUMPY")))
def test_operations_of_a_transpose(case: Case, way: str) -> None:
    check(make_transposed, case, way, {"x @ w", "y @ w.T", "w.T", "w[1:3]", "w * 2", "sum"})


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=("jit", "NUMPY")))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    check(make_stack, case, way, {"x @ w", "w.T", "w[1]", "sum", "w * row", "stack[i] product"})


@given(
    st.sampled_from(["float64", "int32", "bool", "complex128"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([-1, -2]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(
    dtype: str, batch: Any, lengths: tuple[int, int], axis: int, is_weighted: bool, seed: int
) -> None:
    rng, (k, classes) = np.random.default_rng(seed), lengths

    def one() -> OneHot:
        indices = rng.integers(-1, classes + 1, (*batch, k))
        weights = np.asarray(numbers(rng, dtype, *batch, k)) if is_weighted else None
        return OneHot(indices, classes, weights, dtype, axis)

    x, y = one(), one()
    required = {"swapped", "swapped times", "times 3", "scaled"}
    confirm(answers("numpy", x, whole(x), y, whole(y), seed), lambda name: name in required)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("level", ["jax", "graphc"])
@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_answers_in_other_libraries(level: str, axis: int, batch: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = [OneHot(rng.integers(-1, 5, (*batch, 3)), 4, None, "float64", axis) for _ in range(2)]
    with jax.enable_x64(True):
        confirm(answers(level, x, whole(x), y, whole(y), 1))


# What one-hot arrays are for.


def test_an_embedding_is_a_gather() -> None:
    table, places = jnp.arange(20.0).reshape(5, 4), np.array([3, 0, 3])
    jaxpr = jax.make_jaxpr(implicit(lambda i, t: OneHot.of(i, 5) @ t))(places, table)
    shapes = {v.aval.shape for eqn in jaxpr.jaxpr.eqns for v in eqn.outvars}
    assert (3, 5) not in shapes
    assert "dot_general" not in str(jaxpr)


def test_a_cross_entropy_reads_one_element_a_row(mode: str) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(4, 6)), rng.integers(0, 6, 4)
    x = gt.tensor("x", shape=(4, 6), dtype="float64")
    targets = gt.implicit(OneHot, (4, 6), "float64", name="targets", index="int64")
    with materializing("error"):
        loss = -(targets * gt.log_softmax(x, axis=-1)).sum()
        f = graphc.function([x, targets], [loss, graphc.grad(loss, x)], mode=uncompiled(mode))
        y, g = f(logits, OneHot.of(labels, 6, "float64"))
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    chances = shifted / shifted.sum(1, keepdims=True)
    np.testing.assert_allclose(y, -np.log(chances[np.arange(4), labels]).sum(), rtol=1e-5)
    np.testing.assert_allclose(g, chances - np.eye(6)[labels], rtol=1e-4, atol=1e-6)


def test_the_gradient_by_a_table_adds_up(mode: str) -> None:
    places = np.array([3, 0, 3])
    one_hot = gt.implicit(OneHot, (3, 5), "float64", name="w", index="int64")
    table = gt.tensor("table", shape=(5, 2), dtype="float64")
    with materializing("error"):
        g = graphc.grad(((one_hot @ table) ** 2).sum(), table)
        f = graphc.function([one_hot, table], g, mode=uncompiled(mode))
        found = f(OneHot.of(places, 5, "float64"), np.arange(10.0).reshape(5, 2))
    eye = np.eye(5)[places]
    np.testing.assert_allclose(found, 2 * eye.T @ eye @ np.arange(10.0).reshape(5, 2), rtol=1e-6)


def test_counts_are_exact() -> None:
    n = 70_000
    labels = OneHot.of(np.zeros(n, "int32"), 3, "float32")
    np.testing.assert_array_equal(labels.reduce("sum", (0,)), [n, 0, 0])
    half = OneHot.of(np.arange(5000) % 2, 2, "float16").reduce("sum", (0,))
    np.testing.assert_array_equal(half, np.asarray([2500, 2500], "float16"))


def test_a_table_of_pairs_is_counted() -> None:
    rng = np.random.default_rng(0)
    x, y = [OneHot.of(rng.integers(0, 4, 50), 4, "float64") for _ in range(2)]
    with materializing("error"):
        found = x.T @ y
    np.testing.assert_array_equal(found, whole(x).T @ whole(y))


def test_products_of_one_hot_arrays_are_one_hot() -> None:
    order = OneHot.of(np.array([2, 0, 1]), 3, "float64")
    twice = order @ order
    assert isinstance(twice, OneHot)
    np.testing.assert_array_equal(twice, whole(order) @ whole(order))


@pytest.mark.parametrize("index", [-1, 5, 200])
def test_indices_outside_make_zeros(index: int) -> None:
    dtype = "uint8" if index > 127 else "int8"
    x = OneHot.of(np.asarray([index, 1], dtype), 5, "float64")
    y = x @ np.full((5, 2), np.inf)
    np.testing.assert_array_equal(y, [[0, 0], [np.inf, np.inf]])
    np.testing.assert_array_equal(x.sum(1), [0, 1])


def test_stacked_by_vmap_the_shape_is_right() -> None:
    x = jax.vmap(lambda i: OneHot.of(i, 5))(jnp.arange(6).reshape(3, 2))
    assert x.shape == (3, 2, 5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((np.ones(3), 4), "indices are float64"),
        ((np.ones(3, int), -1), "-1 classes"),
        ((np.ones((), int), 4, None, "float32", -2), "axis=-2"),
        ((np.ones(3, int), 4, np.ones(2)), r"weights of shape \[2\]"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        OneHot(*fields)


def test_the_number_of_classes_is_asked_for() -> None:
    with pytest.raises(ImplicitArrayError, match="number of classes"):
        gt.implicit(OneHot, (4, None), "float32")
