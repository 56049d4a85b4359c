"""Low-rank adapters, against the merged array, and their gradients against finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError, MaterializeError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.quantized import quantize
from graphc.implicit.structures.diagonal import Diagonal, Identity
from graphc.implicit.structures.dora import DoRA
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.zeros import Zeros
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

DENSE = {
    "tensordot", "flat", "rows halved", "w[index, 1]", "concatenate whole", "w * same", "same * w",
    "w * w", "w ** 2", "w ** 3", "abs", "sign", "floor", "exp", "tanh", "isnan", "where mask",
    "where same", "max", "max of rows", "min", "prod", "norm",
}  # fmt: skip
"""What is no update of low rank any more."""

STRUCTURED = {case.name for case in CASES} - DENSE


def make(rng: np.random.Generator) -> Any:
    base, a, b = rng.normal(size=(4, 6)), rng.normal(size=(4, 2)), rng.normal(size=(2, 6))
    scale = np.asarray(rng.uniform(0.5, 2))
    return LoRA(base, a, b, scale), base + scale * (a @ b)


def make_stack(rng: np.random.Generator) -> Any:
    base, a, b = [rng.normal(size=(5, *lengths)) for lengths in ((4, 6), (4, 2), (2, 6))]
    return LoRA(base, a, b), base + a @ b


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, STRUCTURED)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=("jit", "NUMPY")))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    check(make_stack, case, way, {"x @ w", "w.T", "stack[i] product", "sum", "w * row"})


@given(
    st.sampled_from(["float64", "int32", "bool"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(
    dtype: str, batch: Any, lengths: Any, is_scaled: bool, seed: int
) -> None:
    rng, (m, n, rank) = np.random.default_rng(seed), lengths
    pair = [
        LoRA(
            numbers(rng, dtype, *batch, m, n),
            numbers(rng, dtype, *batch, m, rank),
            numbers(rng, dtype, *batch, rank, n),
            np.asarray(numbers(rng, dtype, *batch)) if is_scaled else None,
        )
        for _ in range(2)
    ]
    a, b = [
        x.base | x.a @ x.b if dtype == "bool" and x.scale is None else np.asarray(x) for x in pair
    ]
    confirm(answers("numpy", pair[0], a, pair[1], b, seed), lambda name: name.startswith("sum"))


# Gradients.

ARRAY = LoRA(
    *[np.random.default_rng(i).normal(size=s) for i, s in enumerate([(4, 5), (4, 2), (2, 5)])],
    np.asarray(0.5),
)
X = np.random.default_rng(9).normal(size=(3, 4))


def loss(base: Any, a: Any, b: Any, scale: Any) -> Any:
    return float((np.tanh(X @ (base + scale * (a @ b))) ** 2).sum())


def by_differences(name: str) -> Any:
    """The derivative by a field, from values alone."""
    fields = {"base": ARRAY.base, "a": ARRAY.a, "b": ARRAY.b, "scale": ARRAY.scale}
    x, step = fields[name], 1e-6
    y = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * step
            sides.append(loss(**(fields | {name: moved})))
        y[place] = (sides[0] - sides[1]) / (2 * step)
    return y


@pytest.mark.parametrize("name", ["a", "b", "scale"])
def test_gradient_of_a_graph_by_a_field(name: str, mode: str) -> None:
    w = gt.implicit(ARRAY, name="w")
    x = gt.matrix("x", dtype="float64")
    y = (gt.tanh(x @ w) ** 2).sum()
    with materializing("error"):
        g = graphc.grad(y, getattr(w.array, name))
        found = graphc.function([x, w], g, mode=uncompiled(mode))(X, ARRAY)
    np.testing.assert_allclose(found, by_differences(name), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["a", "b", "scale", "base"])
def test_gradient_in_jax_by_the_array(name: str) -> None:
    @implicit
    def compute(w: Any) -> Any:
        return (jnp.tanh(X @ w) ** 2).sum()

    with jax.enable_x64(True), materializing("error"):
        g = jax.jit(jax.grad(compute))(ARRAY)
    assert isinstance(g, LoRA)
    np.testing.assert_allclose(getattr(g, name), by_differences(name), rtol=1e-5, atol=1e-8)


def shapes_in(jaxpr: Any) -> set[tuple[int, ...]]:
    """The shapes of all that a program of JAX's computes."""
    return {v.aval.shape for eqn in jaxpr.eqns for v in eqn.outvars}


def test_no_array_of_the_bases_shape_is_computed_in_jax() -> None:
    compute = implicit(lambda w: (jnp.tanh(X @ w) ** 2).sum())

    def gradients(a: Any, b: Any) -> Any:
        return jax.grad(lambda a, b: compute(LoRA(ARRAY.base, a, b)), (0, 1))(a, b)

    with jax.enable_x64(True):
        found = shapes_in(jax.make_jaxpr(gradients)(ARRAY.a, ARRAY.b).jaxpr)
    assert not found & {(4, 5), (5, 4)}


def test_no_array_of_the_bases_shape_is_computed_in_a_graph() -> None:
    w = gt.implicit(LoRA, (40, 50), "float64", name="w", rank=2)
    x = gt.tensor("x", shape=(3, 40), dtype="float64")
    g = graphc.grad((gt.tanh(x @ w) ** 2).sum(), [w.array.a, w.array.b])
    computed = {
        y.type.shape for y in graphc.ir.toposort(g) if y.inputs and hasattr(y.type, "shape")
    }
    assert not computed & {(40, 50), (50, 40)}


@pytest.mark.exhaustive
def test_hessian_by_the_factors() -> None:
    def whole(a: Any, b: Any) -> Any:
        return (jnp.tanh(X @ (ARRAY.base + a @ b)) ** 2).sum()

    compute = implicit(lambda w: (jnp.tanh(X @ w) ** 2).sum())
    with jax.enable_x64(True):
        found = jax.hessian(lambda a, b: compute(LoRA(ARRAY.base, a, b)), (0, 1))(ARRAY.a, ARRAY.b)
        wanted = jax.hessian(whole, (0, 1))(ARRAY.a, ARRAY.b)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-9, 1e-12), found, wanted)


# Bases that are implicit themselves.


@pytest.mark.parametrize(
    "base",
    [
        LowRank(np.ones((4, 1)), np.arange(4.0)[None]),
        Diagonal(np.arange(4.0)),
        Identity.of(4, "float64"),
        Zeros.of((4, 4), "float64"),
        LoRA.of(Diagonal(np.arange(4.0)), 3, seed=5),
    ],
    ids=lambda base: type(base).__name__,
)
def test_nested_bases(base: Any, mode: str) -> None:
    w = LoRA(base, X.T[:, :2], X[:2], np.asarray(2.0))
    whole = np.asarray(base) + 2 * (X.T[:, :2] @ X[:2])
    symbol = gt.implicit(w, name="w")
    with materializing("error"):
        f = graphc.function([symbol], [X @ symbol, symbol @ X.T], mode=uncompiled(mode))
        y, z = f(w)
        u = w.astype("float64").T @ X.T
    np.testing.assert_allclose(y, X @ whole, rtol=1e-5)
    np.testing.assert_allclose(z, whole @ X.T, rtol=1e-5)
    np.testing.assert_allclose(u, whole.T @ X.T, rtol=1e-12)
    np.testing.assert_allclose(w.merged(), whole, rtol=1e-12)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4"])
def test_quantised_bases_never_become_whole(kind: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    base = quantize(rng.normal(size=(64, 128)).astype("float32"), kind)
    b = rng.normal(size=(4, 128)).astype("float32")
    w = LoRA(base, LoRA.of(base, 4).a, b)
    whole, x = np.asarray(base) + w.a @ b, rng.normal(size=(3, 64)).astype("float32")
    y = rng.normal(size=(3, 128)).astype("float32")
    symbol = gt.implicit(w, name="w")
    with materializing("error"):
        total = (gt.as_tensor(x) @ symbol).sum()
        outputs = [x @ symbol, y @ symbol.T, graphc.grad(total, symbol.array.b)]
        found = graphc.function([symbol], outputs, mode=uncompiled(mode))(w)
    wanted = [x @ whole, y @ whole.T, (x @ w.a).sum(0)[:, None] + np.zeros((1, 128))]
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, 1e-4, 1e-3)


def test_merged_is_allowed_by_every_policy() -> None:
    with materializing("error"):
        np.testing.assert_allclose(
            ARRAY.merged(), ARRAY.base + 0.5 * (ARRAY.a @ ARRAY.b), rtol=1e-14
        )
        merged = jax.jit(lambda w: w.merged())(ARRAY)
    assert merged.shape == (4, 5)


def test_what_needs_it_whole_is_refused() -> None:
    w = gt.implicit(ARRAY, name="w")
    with materializing("error"), pytest.raises(MaterializeError, match="LoRA"):
        graphc.function([w], gt.exp(w), mode="NUMPY")(ARRAY)


# How one is made.


def test_a_new_adapter_changes_nothing() -> None:
    base = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    w = LoRA.of(base, 3, alpha=6, seed=1)
    assert [x.dtype for x in w.leaves] == ["float32"] * 4
    assert (w.a.shape, w.b.shape, float(w.scale)) == ((6, 3), (3, 4), 2.0)
    np.testing.assert_array_equal(w.merged(), base)


def test_new_factors_have_the_variance_that_is_said() -> None:
    w = LoRA.of(np.zeros((400, 3)), 100, seed=np.random.default_rng(2))
    assert abs(float(np.var(w.a)) * 400 - 1) < 0.05
    assert float(np.abs(w.b).max()) == 0


def test_seeds_decide_on_the_factors() -> None:
    base = np.zeros((4, 3))
    same = [LoRA.of(base, 2, seed=3).a for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (LoRA.of(base, 2, seed=4).a != same[0]).any()


def test_adapters_have_the_library_of_the_base() -> None:
    w = LoRA.of(jnp.ones((4, 3), "bfloat16"), 2)
    assert all(isinstance(x, jax.Array) and x.dtype == "bfloat16" for x in w.leaves)
    w = LoRA.of(mx.ones((4, 3), mx.float16), 2)
    assert all(isinstance(x, mx.array) and x.dtype == mx.float16 for x in w.leaves)


def test_stacks_of_adapters() -> None:
    w = LoRA.of(np.zeros((5, 4, 3)), 2)
    assert (w.a.shape, w.b.shape, w.scale.shape, w.shape) == (
        (5, 4, 2), (5, 2, 3), (5,), (5, 4, 3)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (((4, 5), (4, 2), (3, 5)), r"factors of shapes \[4, 2\] and \[3, 5\]"),
        (((4, 5), (4, 2), (2, 6)), r"base of shape \[4, 5\].*\[4, 6\]"),
        (((2, 4, 5), (4, 2), (2, 5)), r"base of shape \[2, 4, 5\]"),
        (((4, 5), (4, 2), (2, 5), (1,)), r"scale of shape \[1\]"),
        (((4, 5), (4,), (2, 5)), r"factors of shapes \[4\]"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: Any, message: str) -> None:
    with pytest.raises(ImplicitArrayError, match=message):
        LoRA(*map(np.ones, fields))


def test_dtypes_that_differ_are_refused() -> None:
    with pytest.raises(ImplicitArrayError, match="base float64, a float32, b float64"):
        LoRA(np.ones((4, 5)), np.ones((4, 2), "float32"), np.ones((2, 5)))


@pytest.mark.parametrize(
    ("base", "rank"), [(np.ones(3), 2), (np.ones((2, 3), int), 2), (np.ones((2, 3)), 0)]
)
def test_bases_and_ranks_that_make_no_adapter_are_refused(base: Any, rank: int) -> None:
    with pytest.raises(ImplicitArrayError, match=r"LoRA\.of"):
        LoRA.of(base, rank)


def test_a_rank_is_asked_for() -> None:
    with pytest.raises(ImplicitArrayError, match="rank=None"):
        gt.implicit(LoRA, (4, 5), "float32")


def test_a_key_decides_the_draws_of_an_adapter() -> None:
    base = np.ones((4, 3))
    data = np.asarray(jax.random.key_data(jax.random.key(7)))
    first, again = (LoRA.of(base, 2, key=data) for _ in range(2))
    np.testing.assert_array_equal(first.a, again.a)
    np.testing.assert_array_equal(DoRA.of(base, 2, key=data).lora.a, first.a)
    assert (first.a != LoRA.of(base, 2).a).any()
    for key in (jax.random.key(7), gt.random.key(7), "abc", [], [0.5], [-1, 2], {1: 2}, True):
        with pytest.raises(ImplicitArrayError, match="key_data"):
            LoRA.of(base, 2, key=key)
    with pytest.raises(ImplicitArrayError, match="seed=-1"):
        LoRA.of(base, 2, seed=-1)
    with pytest.raises(ImplicitArrayError, match="JAX traces"):
        jax.jit(lambda key: LoRA.of(base, 2, key=key).a)(data)
