"""Products over axes are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from graphc.ir import TensorType, toposort
from graphc.ir.law import law
from graphc.link import as_numpy
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.axes import Transpose
from graphc.tensor.linalg.dot import DotGeneral
from tests.modes import uncompiled
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
    "inner": (gt.inner, np.inner, (A, B.transpose(1, 2, 0))),
    "inner with a scalar": (gt.inner, np.inner, (A, np.array(2.0))),
    "vdot": (gt.vdot, np.vdot, (A + 1j, B - 2j)),
    "vecdot": (gt.vecdot, np.vecdot, (A + 1j, A[0] - 2j)),
    "vecdot along the first axis": (
        lambda a, b: gt.vecdot(a, b, axis=0), lambda a, b: np.vecdot(a, b, axis=0), (A, A[:, :1]),
    ),
    "matvec": (gt.matvec, np.matvec, (A[:, None] + 1j, A[0] - 1j)),
    "vecmat": (gt.vecmat, np.vecmat, (A[:, :1, :3] + 1j, B[:2] * 1j)),
    "a dtype": (
        lambda a, b: gt.matmul(a, b, dtype="float64"),
        lambda a, b: np.matmul(a, b, dtype="float64"),
        (np.float32([[0.1, 0.2]]), np.float32([0.3, 0.4])),
    ),
    "vectors without elements": (gt.dot, np.dot, (np.zeros(0), np.zeros(0))),
    "matrices without inner length": (
        lambda a, b: a @ b, np.matmul, (np.zeros((2, 0)), np.zeros((0, 3))),
    ),
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
    assert set(law(op, (a, b)).checks) == {(0, 2, 1, 1), (0, 0, 1, 0)}


X, M = gt.tensor("x", shape=(3,)), gt.tensor("m", shape=(2, 4))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "lengths that differ": (lambda: M @ X, ShapeError, "length 4, axis 0 of the second 3"),
    "a matrix product of a scalar": (lambda: M @ 2.0, ShapeError, "expected at least one axis"),
    "too many axes": (lambda: gt.tensordot(M, X, 2), ShapeError, "fewer than 2 axes"),
    "pairs that are none": (
        lambda: gt.tensordot(M, X, ([0, 1], [0])),
        ShapeError,
        "differ in length",
    ),
    "an axis twice": (lambda: gt.tensordot(M, M, ([0, 0], [0, 1])), ShapeError, "is repeated"),
    "no such axis": (lambda: gt.tensordot(M, M, ([2], [0])), ShapeError, "no axis 2"),
    "a matrix of a vector": (lambda: gt.matvec(X, M), ShapeError, "expected at least 2 axes"),
    "a scalar's product": (lambda: gt.vecdot(X, 2.0), ShapeError, "expected at least 1 axes"),
    "no batch": (lambda: gt.batched_dot(M, 2.0), ShapeError, "expected a batch"),
    "a symbolic axis": (lambda: M.sum(gt.lscalar()), DTypeError, "expected Python integers"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_product_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_dot.py:" in str(caught.value)


def test_axes_that_broadcast_are_never_repeated() -> None:
    a, b = gt.tensor(shape=(50, 1, 2, 3)), gt.tensor(shape=(40, 3, 2))
    y = a @ b
    assert y.type.shape == (50, 40, 2, 2)
    assert max(np.prod(node.type.shape) for node in toposort([y])) == np.prod(y.type.shape)
    assert not [node for node in toposort([y]) if isinstance(node.op, BroadcastTo)]


@pytest.mark.parametrize(
    "letters", ["ij,jk->ik", "zij,zjk->zik", "ijk,jkl->il", "ij,j->i", "i,i->"]
)
def test_a_gradient_is_one_product_in_place(letters: str) -> None:
    """No axes are reordered after it."""
    terms = letters.partition("->")[0].split(",")
    a, b = (gt.tensor(shape=tuple(2 + "ijklz".index(x) for x in term)) for term in terms)
    y = gt.einsum(letters, a, b)
    for g in graphc.grad(y.sum(), [a, b]):
        assert not [node for node in toposort([g]) if isinstance(node.op, Transpose)]


@pytest.mark.parametrize("name", ["matmul", "matvec", "vecmat", "vecdot"])
def test_dtype_of_products_is_what_they_compute_in(name: str, mode: str) -> None:
    shapes = {"matmul": ((2, 3), (3, 4)), "matvec": ((2, 3), (3,)), "vecmat": ((3,), (3, 2))}
    a, b = (np.full(s, 100, "int8") for s in shapes.get(name, ((3,), (3,))))
    xs = [gt.tensor(shape=x.shape, dtype=x.dtype) for x in (a, b)]
    y = graphc.function(xs, getattr(gt, name)(*xs, dtype="int64"), mode=uncompiled(mode))(a, b)
    np.testing.assert_array_equal(as_numpy(y), getattr(np, name)(a, b, dtype="int64"))
    with pytest.raises(DTypeError, match="Cast the result"):
        getattr(gt, name)(a * 0.5, b, dtype="int64")
