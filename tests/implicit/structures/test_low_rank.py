"""Matrices of low rank, against their products."""

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
from graphc.implicit.structured import MULTIPLY
from graphc.implicit.structures.diagonal import Diagonal
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.low_rank import LowRank
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

DENSE = {
    "tensordot", "flat", "rows halved", "w[index, 1]", "concatenate whole", "w + row", "w * same",
    "same * w", "w + same", "same - w", "w - same", "w ** 3", "abs", "sign", "floor", "exp", "tanh",
    "isnan", "where mask", "where same", "max", "max of rows", "min", "prod",
}  # fmt: skip
"""What is not of low rank."""


def make(rng: np.random.Generator) -> Any:
    u, v = rng.normal(size=(8, 2)), rng.normal(size=(2, 10))
    return LowRank(u, v), u @ v


def make_stack(rng: np.random.Generator) -> Any:
    u, v = rng.normal(size=(5, 8, 2)), rng.normal(size=(5, 2, 10))
    return LowRank(u, v), u @ v


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, {case.name for case in CASES} - DENSE)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=("jit", "NUMPY")))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    structured = {
        "x @ w",
        "w.T",
        "w * row",
        "sum",
        "sum of batch",
        "stack[i] product",
        "flat batch",
    }
    check(make_stack, case, way, structured - {"flat batch"})


@given(
    st.sampled_from(["float64", "int32", "int8", "bool", "complex128"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(dtype: str, batch: Any, lengths: Any, seed: int) -> None:
    rng, (m, n, rank) = np.random.default_rng(seed), lengths
    x, y = [
        LowRank(numbers(rng, dtype, *batch, m, rank), numbers(rng, dtype, *batch, rank, n))
        for _ in range(2)
    ]
    required = {"swapped", "swapped times", "times 3", "times itself", "scaled", "added"}
    asked = answers("numpy", x, x.u @ x.v, y, y.u @ y.v, seed)
    confirm(asked, lambda name: name in required or name.startswith(("sum", "window", "rows")))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("level", ["jax", "graphc"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_answers_in_other_libraries(level: str, batch: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = [
        LowRank(numbers(rng, "float64", *batch, 8, 1), numbers(rng, "float64", *batch, 1, 9))
        for _ in range(2)
    ]
    with jax.enable_x64(True):
        confirm(answers(level, x, x.u @ x.v, y, y.u @ y.v, 1))


# What two make together.

U, V = np.random.default_rng(0).normal(size=(2, 9, 2))
W = LowRank(U, V.T)
WHOLE = U @ V.T


@pytest.mark.parametrize(
    ("found", "expected", "rank"),
    [
        (lambda: W @ W, WHOLE @ WHOLE, 2),
        (lambda: W + W.T, WHOLE + WHOLE.T, 4),
        (lambda: W - W * 0.5, WHOLE * 0.5, 4),
        (lambda: W * W, WHOLE * WHOLE, 4),
        (lambda: W + 3.0, WHOLE + 3, 3),
        (lambda: W @ Diagonal(U[:, 0]), WHOLE * U[:, 0], 2),
        (lambda: Diagonal(U[:, 0]) @ W, WHOLE * U[:, :1], 2),
    ],
    ids=["product", "sum", "difference", "element by element", "shift", "columns", "rows"],
)
def test_ranks_of_results(found: Any, expected: Any, rank: int) -> None:
    with materializing("error"):
        y = found()
    assert isinstance(y, LowRank)
    assert y.rank == rank
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


def test_the_sum_with_another_structure_is_an_update_of_it() -> None:
    with materializing("error"):
        y = W + Diagonal(U[:, 0])
    assert isinstance(y, LoRA)
    np.testing.assert_allclose(y, WHOLE + np.diag(U[:, 0]), rtol=1e-12)


def test_a_product_that_would_take_more_than_the_whole_is_whole() -> None:
    x = LowRank(np.ones((4, 3)), np.ones((3, 4)))
    assert x.elementwise(MULTIPLY, x) is NotImplemented


def test_a_sum_over_a_stack_has_the_ranks_together() -> None:
    u, v = np.ones((5, 9, 2)), np.ones((5, 2, 8))
    y = LowRank(u, v).sum(0)
    assert (type(y), y.rank) == (LowRank, 10)
    np.testing.assert_array_equal(y, (u @ v).sum(0))


def test_nested_factors(mode: str) -> None:
    x = LowRank(LowRank(U, V.T), np.asarray(W).T)
    w = gt.implicit(x, name="w")
    with materializing("error"):
        found = graphc.function([w], [U.T @ w, w @ U], mode=uncompiled(mode))(x)
    for y, right in zip(found, (U.T @ WHOLE @ WHOLE.T, WHOLE @ WHOLE.T @ U), strict=True):
        np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-4)


def test_gradients_by_the_factors(mode: str) -> None:
    w = gt.implicit(LowRank, (9, 9), "float64", name="w", rank=2)
    with materializing("error"):
        y = (gt.tanh(U.T @ w @ V) ** 2).sum()
        g = graphc.grad(y, [w.array.u, w.array.v])
        found = graphc.function([w], g, mode=uncompiled(mode))(W)

    def whole(u: Any, v: Any) -> Any:
        return (jnp.tanh(U.T @ (u @ v) @ V) ** 2).sum()

    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(whole, (0, 1)))(jnp.asarray(U), jnp.asarray(V.T))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_no_array_of_the_whole_shape_is_computed() -> None:
    x = LowRank(jnp.ones((50, 2)), jnp.ones((2, 60)))
    jaxpr = jax.make_jaxpr(implicit(lambda w: (w.T[::2] * 3 - w.T[::2]) @ (w @ jnp.ones(60))))(x)
    shapes = {v.aval.shape for eqn in jaxpr.jaxpr.eqns for v in eqn.outvars}
    assert not shapes & {(50, 60), (60, 50), (30, 50)}


def test_casts_that_would_change_the_product_make_it_whole() -> None:
    x = LowRank(np.full((1, 1), 100, "int8"), np.full((1, 1), 2, "int8"))
    assert x.cast(np.dtype("int32")) is NotImplemented
    assert x.cast(np.dtype("float64")) is NotImplemented
    assert int(np.asarray(x.astype("int32")).item()) == -56


@pytest.mark.parametrize(
    ("u", "v"), [((4, 2), (3, 5)), ((4,), (4, 5)), ((2, 4, 2), (2, 5)), ((2, 4, 2), (3, 2, 5))]
)
def test_factors_that_do_not_fit_are_refused(u: Any, v: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="factors of shapes"):
        LowRank(np.ones(u), np.ones(v))


def test_dtypes_that_differ_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="u float32, v float64"):
        LowRank(np.ones((4, 2), "float32"), np.ones((2, 5)))


def test_a_rank_is_asked_for() -> None:
    with pytest.raises(ImplicitArrayError, match="rank=None"):
        gt.implicit(LowRank, (4, 5), "float32")
