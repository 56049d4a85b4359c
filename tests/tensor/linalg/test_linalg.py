"""Products of matrices are NumPy's, in an order that gains."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import toposort
from graphc.tensor.linalg.dot import DotGeneral
from tests.tensor.agreement import DTYPES, arrays, check_agrees


@settings(max_examples=60)
@given(arrays(DTYPES), arrays(DTYPES))
def test_any_arrays_have_numpys_kronecker_product(a: np.ndarray, b: np.ndarray) -> None:
    check_agrees(gt.kron, np.kron, a, b)


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((2, 3), (3,)), ((4, 1, 3), (2, 3)), ((0, 3), (3,))]
)
def test_crosses_are_numpys(shapes: Any) -> None:
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    check_agrees(gt.cross, np.cross, *values)


def test_crosses_along_other_axes_are_numpys() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 3, 4)), np.random.default_rng(1).normal(size=3)
    check_agrees(lambda a, b: gt.cross(a, b, 1, 0, 0), lambda a, b: np.cross(a, b, 1, 0, 0), a, b)
    check_agrees(
        lambda a, b: gt.cross(a, b, axis=1), lambda a, b: np.cross(a, b, axis=1), a, a[::-1] + 1
    )


def test_vectors_found_not_to_have_three_elements_are_refused() -> None:
    a = gt.vector("a")
    f = graphc.function([a], gt.cross(a, [1.0, 2.0, 3.0]), mode="NUMPY")
    assert f(np.ones(3)).shape == (3,)
    for n in (2, 4):
        with pytest.raises(ShapeError):
            f(np.ones(n))


@pytest.mark.parametrize("n", range(-4, 9))
def test_powers_of_matrices_are_numpys(n: int) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 3))
    x = x + 5 * np.eye(3, dtype=int) if n < 0 else x
    for value in (x, x.astype("float32"), x + 0.5j):
        check_agrees(lambda x: gt.matrix_power(x, n), lambda x: np.linalg.matrix_power(x, n), value)


def test_a_power_takes_few_products() -> None:
    x = gt.matrix()
    products = [
        node for node in toposort([gt.matrix_power(x, 1000)]) if isinstance(node.op, DotGeneral)
    ]
    assert len(products) == 9 + 5


LENGTHS = [(10, 100, 5, 50), (3, 7), (1, 20, 1, 20, 1), (30, 35, 15, 5, 10, 20, 25)]


def cost(y: Any) -> int:
    """Multiplications in all matrix products of a graph."""
    return sum(
        int(np.prod(node.inputs[0].type.shape, dtype=int) * node.inputs[1].type.shape[-1])
        for node in toposort([y])
        if isinstance(node.op, DotGeneral)
    )


def every_order(xs: list[Any]) -> Any:
    if len(xs) == 1:
        yield xs[0]
    for k in range(1, len(xs)):
        for a, b in itertools.product(every_order(xs[:k]), every_order(xs[k:])):
            yield a @ b


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_many_matrices_are_multiplied_in_the_best_order(lengths: tuple[int, ...]) -> None:
    xs = [gt.tensor(shape=pair) for pair in itertools.pairwise(lengths)]
    xs += [gt.tensor(shape=(lengths[-1], 2))]
    assert cost(gt.multi_dot(xs)) == min(map(cost, every_order(xs)))


@pytest.mark.parametrize("ends", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_ends_of_a_product_may_be_vectors(ends: tuple[int, int]) -> None:
    shapes = [(3, 4)[-ends[0] :], (4, 2), (2, 5), (5, 3)[: ends[1]]]
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    check_agrees(lambda *xs: gt.multi_dot(xs), lambda *xs: np.linalg.multi_dot(xs), *values)
    check_agrees(gt.matrix_dot, lambda *xs: reduce(np.dot, xs), *values)


def test_linear_algebra_has_its_own_module() -> None:
    for name in ("norm", "kron", "trace", "multi_dot", "matrix_power", "cross", "vecdot"):
        assert getattr(gt.linalg, name) is getattr(gt, name)


M, V = gt.tensor("m", shape=(2, 3)), gt.tensor("v", shape=(2,))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a vector in a plane": (lambda: gt.cross(V, V), ShapeError, "vectors of 3 elements, got 2"),
    "one matrix": (lambda: gt.multi_dot([M]), ArgumentError, "at least two"),
    "no matrix": (gt.matrix_dot, ArgumentError, "at least one"),
    "a vector between": (lambda: gt.multi_dot([M.T, V, M]), ShapeError, "array 1 is"),
    "lengths that differ": (lambda: gt.multi_dot([M, M, M]), ShapeError, "length 3"),
    "no square": (lambda: gt.matrix_power(M, 2), ShapeError, "not square"),
    "a power of 1/2": (lambda: gt.matrix_power(M @ M.T, 0.5), ArgumentError, "a Python integer"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_product_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_linalg.py:" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex64"])
@pytest.mark.parametrize("options", [{}, {"N": 5}, {"N": 2, "increasing": True}, {"N": 0}], ids=str)
def test_powers_of_a_vector_are_numpys(dtype: str, options: Any) -> None:
    value = np.array([2, 0, 3]).astype(dtype)
    check_agrees(lambda x: gt.vander(x, **options), lambda x: np.vander(x, **options), value)


def test_powers_are_of_a_vector() -> None:
    with pytest.raises(ShapeError, match="expected a vector"):
        gt.vander(gt.matrix())
