"""Operations in terms of what structures do, but for products: what is asked, and what is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, MaterializeError
from graphc.implicit import (
    Fill,
    ImplicitArray,
    elementwise,
    implicit,
    materializations,
    materializing,
)
from graphc.implicit.layout import StructureLost
from graphc.ir import numpy_dtype
from tests.implicit.box import Box, numbers
from tests.implicit.programs import Int8
from tests.implicit.reference import FEW, Case, check, runs


def whole_of(shape: tuple[int, ...]) -> Any:
    """A function that makes one of that shape."""

    def make(rng: np.random.Generator) -> Any:
        values = rng.normal(size=shape)
        return Box(values), values

    return make


SHAPES = [(5,), (4, 6), (3, 4, 6)]

LOST = {"concatenate whole", "w[index, 1]"}
"""What structures have no word for: joined with whole arrays, places on several axes."""


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("shape", "case", "way"),
    [(shape, *run.values) for shape in SHAPES for run in runs(len(shape), FEW)],
    ids=str,
)
def test_a_structure_that_can_all_is_never_whole(
    shape: tuple[int, ...], case: Case, way: str
) -> None:
    check(whole_of(shape), case, way, {case.name} - LOST)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float32", "complex64"])
def test_every_dtype_stays_what_it_is(dtype: str) -> None:
    def make(rng: np.random.Generator) -> Any:
        parts = [rng.normal(size=(4, 6)) * 3 for _ in range(2)]
        values = parts[0] + 1j * parts[1] if dtype == "complex64" else parts[0]
        values = values.astype(numpy_dtype(dtype))
        return Box(values), values

    unordered = {"floor", "max", "max of rows", "min", "cast", "cast half", "cast, product"}
    for run in runs(2, ["NUMPY"]):
        case, way = run.values
        if dtype != "complex64" or case.name not in unordered:
            check(make, case, way, {case.name} - LOST)


# Parts.


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap", "promise_in_bounds"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_places_out_of_bounds_are_what_they_are_of_a_whole_array(mode: str, dtype: str) -> None:
    w = jnp.asarray(np.arange(12).reshape(4, 3) % 5, dtype)
    places = jnp.asarray([[3, 0], [-2, 1]] if mode == "promise_in_bounds" else [[7, 0], [-2, -9]])

    for axis, x in ((0, w), (1, w.T)):

        def take(w: Any, axis: int = axis) -> Any:
            if mode != "promise_in_bounds":
                return jnp.take(w, places, axis=axis, mode=mode)
            return w.at[(slice(None),) * axis + (places,)].get(mode=mode)

        with materializing("error"):
            y = implicit(take)(Box(x))
        np.testing.assert_array_equal(np.asarray(y), take(x))
        assert y.dtype == dtype


def test_another_value_may_fill() -> None:
    w = jnp.ones((2, 3))
    y = implicit(lambda w: w.at[jnp.array([0, 5])].get(mode="fill", fill_value=-7))(Box(w))
    assert np.asarray(y)[:, 0].tolist() == [1, -7]


@pytest.mark.parametrize("start", [-9, -1, 0, 2, 9])
def test_computed_starts_are_moved_into_bounds(start: int) -> None:
    w = jnp.arange(60.0).reshape(3, 4, 5)

    def part(w: Any, i: Any) -> Any:
        return lax.dynamic_slice(w, (0, i, i), (3, 2, 3))

    with materializing("error"):
        y = implicit(jax.jit(part))(Box(w), start)
    np.testing.assert_array_equal(np.asarray(y), part(w, start))


INDICES = [
    (1, None, slice(None, None, -2)),
    (slice(-1, -9, -1), 0),
    (slice(2, 1), slice(None)),
    (..., -1),
    (np.array([1, -1]), slice(1, None)),
    (slice(None), np.array([[0, -1], [2, 1]])),
    (0, slice(None), np.array([2, 0])),
    (slice(None), np.array([2, 0]), 1),
    (None, slice(1, 3), np.array(1), None, slice(None, None, 2)),
    (slice(0, 0), np.array([], "int64")),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_of_graphs_take_what_numpy_does(index: Any) -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    w = gt.implicit(Box(values))
    with materializing("error"):
        y = graphc.function([w], w[index], mode="NUMPY")(Box(values))
    np.testing.assert_array_equal(np.asarray(y), values[index])


@pytest.mark.parametrize("index", [Fill(np.int64(-2), (2, 3)), Fill(np.int64(1), ())])
def test_an_implicit_index_in_a_graph_becomes_whole_and_is_reported(index: Fill) -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    places = index.materialize()
    w, i = gt.implicit(Box(values)), gt.implicit(index)
    indices: list[Any] = [(i,), (slice(None), i), (0, i, slice(None)), (i, slice(None), i)]
    with materializations() as report:
        f = graphc.function([w, i], [w[each] for each in indices], mode="NUMPY", returns="numpy")
    assert "an index" in {record.what for record in report if record.type == "Fill"}
    for y, each in zip(f(Box(values), index), indices, strict=True):
        np.testing.assert_array_equal(y, values[tuple(places if x is i else x for x in each)])
    with materializing("error"), pytest.raises(MaterializeError, match="an index"):
        graphc.function([w, i], w[i], mode="NUMPY")


INDEXED: dict[str, tuple[Callable[..., Any], ImplicitArray, tuple[int, ...]]] = {
    "gather": (
        lambda w, i: jnp.take(w, i, axis=1, mode="clip"),
        Box(jnp.arange(12.0).reshape(3, 4)),
        (2, 2),
    ),
    "dynamic slice": (
        lambda w, i: lax.dynamic_slice_in_dim(w, i, 2, -1),
        Box(jnp.arange(12.0).reshape(3, 4)),
        (),
    ),
    "dynamic slice of a stack": (
        lambda w, i: lax.dynamic_slice_in_dim(w, i, 2, 0),
        Int8(jnp.arange(60, dtype=jnp.int8).reshape(3, 4, 5), jnp.arange(3.0)),
        (),
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_implicit_index_in_jax_becomes_whole_and_is_reported(name: str) -> None:
    f, held, shape = INDEXED[name]
    index = Fill(jnp.uint32(1), shape)  # JAX's functions make no signed one positive
    with materializations() as report:
        y = implicit(f)(held, index)
    assert [record.what for record in report] == ["an index"]
    np.testing.assert_array_equal(np.asarray(y), f(held.materialize(), index.materialize()))


def test_places_before_the_first_are_refused_as_those_behind_the_last() -> None:
    w, i = gt.implicit(Box(np.ones((3, 2)))), gt.lvector("i")
    f = graphc.function([w, i], w[i], mode="NUMPY")
    for place in (-4, 3):
        with pytest.raises(BoundsError):
            f(Box(np.ones((3, 2))), [place])


def test_unknown_lengths_are_those_of_the_fields() -> None:
    w = gt.implicit(Box(gt.matrix("values").type))
    x = gt.matrix("x")
    outputs = [w.shape, w.shape[0] * 2, gt.matmul(x, w), w[[0, -1]], w + w]
    value = np.arange(6.0).reshape(2, 3)
    with materializing("error"):
        f = graphc.function([x, w], outputs, mode="NUMPY")
        lengths, twice, product, rows, double = f(np.ones((4, 2)), Box(value))
    assert lengths.tolist() == [2, 3]
    assert twice == 4
    np.testing.assert_array_equal(product, np.ones((4, 2)) @ value)
    np.testing.assert_array_equal(np.asarray(rows), value[[0, -1]])
    np.testing.assert_array_equal(np.asarray(double), 2 * value)


# Stacks of any class.


@dataclass(frozen=True, repr=False)
class Outer(ImplicitArray):
    """Of two vectors, or stacks of them."""

    u: Any
    v: Any

    def materialize(self) -> Any:
        return self.u[..., :, None] * self.v[..., None, :]


STACKS = {
    "element": lambda w, i: w[1],
    "computed element": lambda w, i: w[i[0]],
    "some": lambda w, i: w[1:3],
    "every second": lambda w, i: w[::2],
    "computed": lambda w, i: w[i],
    "window": lambda w, i: lax.dynamic_slice_in_dim(w, i[1], 2, 0),
    "one more axis": lambda w, i: w[0][None],
    "joined": lambda w, i: jnp.concatenate([w, w[:1]]),
    "stacked": lambda w, i: jnp.stack([w[0], w[2]]),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", STACKS)
def test_elements_of_stacks_keep_the_structure_of_any_class(name: str) -> None:
    w = Outer(jnp.asarray(numbers((4, 2))), jnp.asarray(numbers((4, 4))))
    places = jnp.asarray([2, -1])
    with materializing("error"):
        y = implicit(jax.jit(STACKS[name]))(w, places)
    assert isinstance(y, Outer)
    np.testing.assert_allclose(np.asarray(y), STACKS[name](w.materialize(), places), 1e-6)


def test_a_matrix_of_as_many_rows_as_its_fields_is_no_stack() -> None:
    w = Outer(jnp.ones(3), jnp.ones(3))
    with materializations() as report:
        y = implicit(lambda w: w[1:])(w)
    assert np.asarray(y).shape == (2, 3)
    assert [found.what for found in report] == ["slice"]


# Element by element.


def test_operands_without_a_structure_are_none_of_the_adaptors_business() -> None:
    assert elementwise.arithmetic("add", np.ones(2), np.ones(2)) is NotImplemented
    with pytest.raises(StructureLost):
        elementwise.where(np.True_, np.ones(2), np.ones(2))


def test_what_a_structure_cannot_do_is_told_once_and_done_whole() -> None:
    w = jnp.ones((2, 3))

    def product(x: Any, w: Any) -> Any:
        return x @ jnp.cumsum(w, axis=0)

    with materializations() as report:
        y = implicit(product)(w.T, Box(w))
    np.testing.assert_array_equal(np.asarray(y), product(w.T, w))
    assert [(found.what, found.shape) for found in report] == [("cumsum", (2, 3))]
    with materializing("error"), pytest.raises(MaterializeError, match="cumsum"):
        implicit(product)(w.T, Box(w))


def test_division_by_zero_is_that_of_whole_arrays() -> None:
    w = jnp.asarray([[1.0, 0.0, -2.0]])
    y = implicit(lambda w, c: w / c)(Box(w), 0.0)
    np.testing.assert_array_equal(np.asarray(y), w / 0.0)


def test_whole_numbers_are_not_divided_by_reciprocals() -> None:
    w = jnp.asarray([[7, -8, 9]])
    y = implicit(lambda w: lax.div(w, 2))(Box(w))
    assert np.asarray(y).tolist() == [[3, -4, 4]]


@pytest.mark.parametrize("exponent", [-3, -1, 1, 2, 5, 8])
def test_powers_are_products(exponent: int) -> None:
    w = np.asarray([[0.5, -2.0, 3.0]])
    with jax.enable_x64(True), materializing("error"):
        y = implicit(lambda w: lax.integer_pow(w, exponent))(Box(jnp.asarray(w)))
    np.testing.assert_allclose(np.asarray(y), w**exponent, 1e-14)
    x = gt.implicit(Box(w))
    with materializing("error"):
        y = graphc.function([x], x**exponent, mode="NUMPY")(Box(w))
    np.testing.assert_allclose(np.asarray(y), w**exponent, 1e-14)


@dataclass(frozen=True, repr=False)
class Exact(Box):
    """One that is particular about its axes being Python's integers."""

    def elementwise(self, f: Any, *others: Any) -> Any:
        return Exact(super().elementwise(f, *others).values)

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        assert {*map(type, axes)} == {int}
        return super().reduce(name, axes)


def test_axes_are_pythons_integers() -> None:
    w = jnp.ones((3, 4, 4))
    y = implicit(jax.vmap(lambda x: (x * 2).sum()))(Exact(w))
    np.testing.assert_array_equal(np.asarray(y), [32, 32, 32])


# Gradients.


@pytest.mark.parametrize(
    ("barrier", "factor"),
    [
        (graphc.disconnected_grad, 0),
        (graphc.zero_grad, 0),
        (lambda x: graphc.grad_scale(x, 3.0), 3),
    ],
)
def test_barriers_stand_at_the_fields(barrier: Any, factor: int) -> None:
    values = np.arange(6.0).reshape(2, 3)
    w = gt.implicit(Box(values))
    total = gt.sum(gt.matmul(np.ones((1, 2)), barrier(w)) + gt.sum(w, axis=0))
    with materializing("error"):
        gradient = graphc.grad(total, w.array.values)
        f = graphc.function([w], gradient, mode="NUMPY", on_unused_input="ignore")
        g = f(Box(values))
    np.testing.assert_array_equal(g, np.full((2, 3), 1.0 + factor))
