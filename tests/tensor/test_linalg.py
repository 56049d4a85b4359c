"""Products over axes, and norms, are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import TensorType
from graphc.tensor.linalg import DotGeneral
from tests.tensor.agreement import DTYPES, arrays, check_agrees

SIGNATURE = hnp.mutually_broadcastable_shapes(
    signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, max_side=3
)


@settings(max_examples=150)
@given(SIGNATURE, st.data())
def test_any_matrices_multiply_as_in_numpy(shapes: Any, data: Any) -> None:
    values = [data.draw(arrays(DTYPES, st.just(s))) for s in shapes.input_shapes]
    check_agrees(lambda a, b: a @ b, np.matmul, *values)


@settings(max_examples=100)
@given(st.data())
def test_any_arrays_have_numpys_dot_and_tensordot(data: Any) -> None:
    n = data.draw(st.integers(0, 2))
    sides = st.lists(st.integers(1, 3), max_size=2).map(tuple)
    common = data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n).map(tuple))
    a = data.draw(arrays(DTYPES, st.just((*data.draw(sides), *common))))
    b = data.draw(arrays(DTYPES, st.just((*common, *data.draw(sides)))))
    check_agrees(lambda x, y: gt.tensordot(x, y, n), lambda x, y: np.tensordot(x, y, n), a, b)
    if n == 1 and b.ndim < 3:
        check_agrees(gt.dot, np.dot, a, b)


A, B = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(4, 3, 2)
SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "tensordot of pairs": (
        lambda a, b: gt.tensordot(a, b, ([0, 1], [2, 1])),
        lambda a, b: np.tensordot(a, b, ([0, 1], [2, 1])), (A, B),
    ),
    "tensordot of one pair": (
        lambda a, b: gt.tensordot(a, b, (-1, 0)), lambda a, b: np.tensordot(a, b, (-1, 0)), (A, B),
    ),
    "dot of tensors": (gt.dot, np.dot, (A, B.transpose(1, 0, 2))),
    "dot with a scalar": (gt.dot, np.dot, (A, np.array(2.0))),
    "outer": (gt.outer, np.outer, (A, B)),
    "norm": (gt.norm, np.linalg.norm, (A[0, 0],)),
    "norm of all": (gt.norm, lambda x: np.linalg.norm(x.ravel()), (A,)),
    "norm of a matrix": (lambda x: gt.norm(x, "fro"), np.linalg.norm, (A[0],)),
    "norm along an axis": (
        lambda x: gt.norm(x, axis=1, keepdims=True),
        lambda x: np.linalg.norm(x, axis=1, keepdims=True), (A,),
    ),
    "norm of complex": (gt.norm, np.linalg.norm, (A[0, 0] + 1j,)),
    "norm of integers": (gt.norm, np.linalg.norm, (np.arange(3),)),
    "vectors without elements": (gt.dot, np.dot, (np.zeros(0), np.zeros(0))),
    "matrices without inner length": (
        lambda a, b: a @ b, np.matmul, (np.zeros((2, 0)), np.zeros((0, 3))),
    ),
} | {
    f"norm of order {p}": (
        lambda x, p=p: gt.norm(x, p, axis=-1),
        lambda x, p=p: np.linalg.norm(x, p, axis=-1),
        (A - 5,),
    )
    for p in (0, 1, 2, 3, 0.5, np.inf, -np.inf)
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_it_is_what_numpy_gives(what: str) -> None:
    ours, theirs, values = SAME[what]
    check_agrees(ours, theirs, *map(np.asarray, values))


def test_a_product_with_batch_axes_is_the_sum_that_it_says() -> None:
    op = DotGeneral(((3, 0), (1, 2)), ((1,), (3,)))
    a = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    b = np.random.default_rng(1).standard_normal((6, 5, 2, 3))
    check_agrees(
        lambda x, y: gt.Tensor.make(op, x, y), lambda x, y: np.einsum("ibfj,gjib->bfg", x, y), a, b
    )


def test_lengths_known_of_one_operand_are_known() -> None:
    op = DotGeneral(((2,), (1,)), ((0,), (0,)))
    a, b = TensorType("float64", (None, 2, None)), TensorType("float64", (5, None, 3))
    assert op.infer(a, b).shape == (5, 2, 3)
    assert set(op.checks(a, b)) == {(0, 2, 1, 1), (0, 0, 1, 0)}


X, M = gt.tensor("x", shape=(3,)), gt.tensor("m", shape=(2, 4))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "lengths that differ": (lambda: M @ X, ShapeError, "length 4, axis 0 of the second 3"),
    "a matrix product of a scalar": (lambda: M @ 2.0, ShapeError, "a scalar is no matrix"),
    "too many axes": (lambda: gt.tensordot(M, X, 2), ShapeError, "no 2 axes in both"),
    "pairs that are none": (lambda: gt.tensordot(M, X, ([0, 1], [0])), ShapeError, "no pairs"),
    "an axis twice": (lambda: gt.tensordot(M, M, ([0, 0], [0, 1])), ShapeError, "comes twice"),
    "no such axis": (lambda: gt.tensordot(M, M, ([2], [0])), ShapeError, "no axis 2"),
    "a matrix norm": (lambda: gt.norm(M, 2), ArgumentError, "matrix norm"),
    "no norm": (lambda: gt.norm(X, "nuc"), ArgumentError, "is no norm"),
    "a symbolic axis": (lambda: M.sum(gt.lscalar()), DTypeError, "a Python integer"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_product_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_linalg.py:" in str(caught.value)
