"""Fills, zeros and ones, against whole arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ImplicitArrayError
from graphc.implicit import materializing
from graphc.implicit.functions import implicit
from graphc.implicit.structures.fill import Fill
from graphc.implicit.structures.zeros import Ones, Zeros
from tests.implicit.cases import CASES
from tests.implicit.protocol import answers, confirm, numbers
from tests.implicit.reference import Case, check, runs
from tests.modes import uncompiled

NAMES = {case.name for case in CASES}
DENSE = {"concatenate columns", "concatenate whole", "w[index, 1]", "isnan"}
"""What has several values, or what JAX has no primitive of."""


def make(rng: np.random.Generator) -> Any:
    value = np.asarray(rng.uniform(0.5, 2))
    return Fill(value, (4, 6)), np.full((4, 6), value)


def make_vector(rng: np.random.Generator) -> Any:
    value = np.asarray(rng.uniform(0.5, 2))
    return Fill(value, (6,)), np.full(6, value)


def make_stack(rng: np.random.Generator) -> Any:
    values = rng.uniform(0.5, 2, 5)
    return Fill(values, (4, 6)), np.broadcast_to(values[:, None, None], (5, 4, 6)).copy()


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=2))
def test_operations(case: Case, way: str) -> None:
    check(make, case, way, NAMES - DENSE)


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=1, ways=("jit", "NUMPY")))
def test_operations_of_a_vector(case: Case, way: str) -> None:
    check(make_vector, case, way, NAMES - DENSE - {"concatenate"})


@pytest.mark.sample(every=12, rest=6)
@pytest.mark.parametrize(("case", "way"), runs(ndim=3, ways=("jit", "NUMPY")))
def test_operations_of_a_stack(case: Case, way: str) -> None:
    check(
        make_stack, case, way, {"x @ w", "y @ w.T", "w.T", "w[1]", "sum", "max", "stack[i] product"}
    )


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("cls", [Zeros, Ones])
@pytest.mark.parametrize(("case", "way"), runs(ndim=2, ways=("jit", "NUMPY")))
def test_operations_of_constants(cls: Any, case: Case, way: str) -> None:
    whole = np.full((4, 6), cls.constant, "float64")
    structured = NAMES - {"concatenate whole", "w[index, 1]", "isnan"}
    check(lambda rng: (cls.of((4, 6), "float64"), whole), case, way, structured)


DTYPES = ["float64", "float32", "int32", "int8", "uint8", "bool", "complex128"]


def always(name: str) -> bool:
    """Which questions every fill answers."""
    return not name.startswith("joined")


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(["value", "batch", "zeros", "ones"]),
    st.sampled_from([(), (2,), (2, 3)]),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.integers(0, 2**32 - 1),
)
def test_answers_of_all_shapes(
    dtype: str, kind: str, batch: Any, lengths: tuple[int, int], seed: int
) -> None:
    rng, shape = np.random.default_rng(seed), (*batch, *lengths)

    def fill() -> Any:
        if kind in {"zeros", "ones"}:
            return (Zeros if kind == "zeros" else Ones).of(shape, dtype)
        own = batch if kind == "batch" else ()
        return Fill(np.asarray(numbers(rng, dtype, *own)), shape[len(own) :])

    def whole(x: Any) -> Any:
        value = np.asarray(x.value)
        return np.broadcast_to(value.reshape(value.shape + (1,) * (x.ndim - value.ndim)), x.shape)

    x, y = fill(), fill()
    confirm(answers("numpy", x, whole(x), y, whole(y), seed), always)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("level", ["jax", "graphc"])
@pytest.mark.parametrize("cls", [Fill, Zeros, Ones])
def test_answers_in_other_libraries(level: str, cls: Any) -> None:
    x = cls.of((2, 3), 3.0, "float32") if cls is Fill else cls.of((2, 3), "float32")
    with jax.enable_x64(True):
        confirm(answers(level, x, np.asarray(x), x, np.asarray(x), 0), always)


# Numbers.


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_sums_of_half_width_floats_do_not_overflow_on_the_way(dtype: Any) -> None:
    x = Fill(np.asarray(2.0**-10, dtype), (1 << 17,))
    assert float(x.sum()) == 128
    y = np.ones((1, 1 << 17), dtype) @ Fill(np.asarray(2.0**-10, dtype), (1 << 17, 2))
    np.testing.assert_array_equal(np.asarray(y, "float64"), [[128, 128]])


@given(st.integers(-128, 127), st.integers(0, 1000), st.sampled_from(["sum", "prod"]))
def test_sums_and_products_of_integers_wrap_around(value: int, n: int, name: str) -> None:
    x = Fill(np.asarray(value, "int8"), (n,))
    whole = np.full(n, value, "int8")
    assert x.reduce(name, (0,)) == getattr(whole, name)(dtype="int8")


def test_infinity_times_no_elements_is_zero() -> None:
    assert Fill(np.asarray(np.inf), (0,)).sum() == 0


def test_a_huge_fill_takes_one_number() -> None:
    x = Fill.of((10**6, 10**6), 2.0)
    assert (x.nbytes, float((x.T[:7] * 3 + 1).sum())) == (8, 7e6 * 7)


# Zeros and ones are known to be such.


def test_products_with_zeros_are_zeros_of_static_shape(mode: str) -> None:
    zeros = gt.as_tensor(Zeros.of((4, 5), "float32"))
    x = gt.tensor("x", shape=(3, 4), dtype="float32")
    (y,) = graphc.implicit.expanded([x @ zeros])
    assert isinstance(y.array, Zeros)
    assert (y.type.shape, y.type.dtype) == ((3, 5), "float32")
    g = graphc.grad((x @ zeros).sum(), x)
    f = graphc.function([x], g, mode=uncompiled(mode), on_unused_input="ignore")
    found = f(np.full((3, 4), np.nan, "float32"))
    np.testing.assert_array_equal(np.asarray(found), np.zeros((3, 4)))


def test_lengths_that_are_not_known_come_from_the_operand() -> None:
    x = gt.matrix("x", dtype="float64")
    f = graphc.function([x], x @ gt.as_tensor(Zeros.of((4, 5), "float64")), mode="NUMPY")
    assert f(np.ones((7, 4))).shape == (7, 5)


def test_sums_with_zeros_and_products_with_ones_are_the_operand() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    jaxpr = jax.make_jaxpr(implicit(lambda z, o, x: (x + z) * o))(
        Zeros.of((2, 3), "float32"), Ones.of((2, 3), "float32"), x
    )
    assert not jaxpr.eqns


def test_gradient_by_zeros_is_zero() -> None:
    z = Zeros.of((2, 3), "float32")
    g = jax.grad(implicit(lambda z: ((z + 3.0) ** 2).sum()))(z)
    assert float(g.value) == 0


def test_gradient_by_the_value_adds_up(mode: str) -> None:
    w = gt.implicit(Fill, (4, 5), "float64", name="w")
    x = np.random.default_rng(0).normal(size=(3, 4))
    with materializing("error"):
        g = graphc.grad(((x @ w) ** 2).sum(), w.array.value)
        found = graphc.function([w], g, mode=uncompiled(mode))(Fill(np.asarray(2.0), (4, 5)))
    np.testing.assert_allclose(found, 4 * 5 * (x.sum(1) ** 2).sum(), rtol=1e-5)


def test_stacked_by_vmap_and_scan_the_shape_is_right() -> None:
    fills = jax.vmap(lambda v: Fill(v, (2, 3)))(jnp.arange(4.0))
    assert fills.shape == (4, 2, 3)
    _, rows = jax.lax.scan(lambda c, v: (c, Fill(v, (2,))), 0.0, jnp.arange(4.0))
    np.testing.assert_array_equal(np.asarray(rows), np.repeat(np.arange(4.0)[:, None], 2, 1))


def test_spec_keeps_unknown_lengths_in_the_value() -> None:
    w = gt.implicit(Fill, (None, 3), "float32")
    assert (w.type.shape, w.array.value.type.shape, w.array.lengths) == ((None, 3), (None,), (3,))


@pytest.mark.parametrize("lengths", [(-1,), (2.0,), ("a",)])
def test_lengths_that_are_none_are_refused(lengths: Any) -> None:
    with pytest.raises(ImplicitArrayError, match="lengths"):
        Fill(np.asarray(1.0), lengths)
