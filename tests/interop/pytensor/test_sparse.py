"""PyTensor's sparse matrices are graphc's, with gradients, on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor import sparse as ps
from pytensor.gradient import grad

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.errors import UnsupportedOperationError
from graphc.interop.pytensor import from_pytensor, mode as graphc_mode
from tests.interop.pytensor.oracle import check

random = np.random.default_rng(0)
FILLED = np.where(random.random((6, 4)) < 0.4, random.normal(size=(6, 4)), 0.0)
CSR, CSC = scipy.sparse.csr_matrix(FILLED), scipy.sparse.csc_matrix(FILLED)
SQUARE = scipy.sparse.csr_matrix(FILLED.T @ FILLED)
DATA = CSR.data * 1.5

CASES: dict[str, Callable[[], tuple[list[Any], list[Any], list[Any]]]] = {}


def case(build: Callable[[], Any]) -> Callable[[], Any]:
    CASES[build.__name__] = build
    return build


def symbolic(matrix: Any = CSR) -> tuple[Any, Any]:
    """Stored values as an input, and the sparse matrix of them."""
    data = pt.vector("data", shape=matrix.data.shape)
    make = ps.CSR if matrix.format == "csr" else ps.CSC
    return data, make(data, matrix.indices, matrix.indptr, matrix.shape)


@case
def a_design_matrix_times_coefficients() -> Any:
    beta = pt.vector("beta")
    rows, columns = ps.dot(CSR, beta[:, None]), ps.structured_dot(ps.as_sparse(CSC), beta[:, None])
    loss = (rows**2).sum() + pt.exp(columns).sum()
    return [beta], [rows, columns, ps.dot(CSR, beta), grad(loss, beta)], [random.normal(size=4)]


@case
def products_with_matrices() -> Any:
    x, y = pt.matrix("x"), pt.matrix("y")
    outputs = [ps.dot(CSR, x), ps.dot(y, CSC), ps.structured_dot(ps.as_sparse(CSC), x)]
    outputs += [ps.dot(ps.as_sparse(CSR), ps.as_sparse(SQUARE))]
    outputs += [ps.dense_from_sparse(ps.true_dot(ps.as_sparse(CSR), ps.as_sparse(SQUARE)))]
    outputs += grad(sum((z**2).sum() for z in outputs[:3]), [x, y])
    return [x, y], outputs, [random.normal(size=(4, 3)), random.normal(size=(2, 6))]


@case
def stored_values_and_their_gradients() -> Any:
    x = pt.matrix("x")
    data, s = symbolic()
    other, t = symbolic(CSC)
    y = ps.structured_dot(s, x)
    z = ps.structured_dot(t, x)
    outputs = [y, z, *grad((y**2).sum() + (z**3).sum(), [data, other, x])]
    outputs += [ps.dense_from_sparse(s), ps.csm_data(s), ps.csm_indices(s), ps.csm_indptr(s)]
    return [data, other, x], outputs, [DATA, CSC.data, random.normal(size=(4, 3))]


@case
def sums_and_elements() -> Any:
    data, s = symbolic()
    full = ps.dense_from_sparse
    outputs = [ps.sp_sum(s), ps.sp_sum(s, 0), ps.sp_sum(s, 1), s[1, 2], full(s.T), full(s[1:4, :2])]
    outputs += [ps.diag(ps.as_sparse(SQUARE)), full(ps.hstack([s, s])), full(ps.vstack([s, s]))]
    outputs += [s.shape[0], ps.dot(s.T, pt.ones(6)), full(ps.cast(s, "float32"))]
    return [data], outputs, [DATA]


@case
def arithmetic() -> Any:
    data, s = symbolic()
    x = pt.matrix("x")
    full = ps.dense_from_sparse
    outputs = [full(s + s), s + x, full(s * s), full(s * x), full(-s), full(s * 2.0), full(s - s)]
    outputs += [full(ps.structured_exp(s)), full(ps.sqr(s)), full(ps.sin(s))]
    outputs += [
        full(ps.col_scale(ps.as_sparse(CSC), x[0])),
        full(ps.row_scale(ps.as_sparse(CSC), x[:, 0])),
    ]
    outputs += [ps.usmm(pt.as_tensor(2.0), s, x.T, pt.ones((6, 6)))]
    identity = ps.as_sparse(scipy.sparse.eye(6, format="csr"))
    outputs += [full(ps.sampling_dot(x, x, identity))]
    return [data, x], outputs, [DATA, random.normal(size=(6, 4))]


@case
def dense_to_sparse() -> Any:
    x = pt.matrix("x")
    s = ps.csr_from_dense(x)
    return [x], [ps.dense_from_sparse(s), ps.dot(s, pt.ones(4))], [FILLED]


@pytest.mark.parametrize("name", CASES)
def test_sparse_operations_give_what_pytensors_python_code_gives(name: str, mode: str) -> None:
    inputs, outputs, values = CASES[name]()
    check(inputs, outputs, values, mode)


def test_a_products_gradient_is_there_where_older_pytensors_have_none(mode: str) -> None:
    beta = pt.vector("beta", shape=(4,))
    a, y = from_pytensor([beta, (ps.dot(CSR, beta) ** 2).sum()])
    slope = graphc.function([a], graphc.grad(y, a), mode=mode, returns="numpy")
    np.testing.assert_allclose(slope(np.arange(4.0)), 2 * FILLED.T @ FILLED @ np.arange(4.0), 1e-12)


def test_a_function_of_pytensor_has_sparse_constants(mode: str) -> None:
    x = pt.matrix("x")
    f = pytensor.function([x], ps.dot(CSR, x), mode=graphc_mode(mode))
    np.testing.assert_allclose(f(np.ones((4, 2))), FILLED @ np.ones((4, 2)), 1e-12)


def test_a_sparse_variable_is_given_an_implicit_array() -> None:
    s, x = ps.csr_matrix("s"), pt.matrix("x")
    y = ps.dot(s, x)
    with pytest.raises(UnsupportedOperationError, match=r"s: Sparse.*gt\.implicit"):
        from_pytensor(y)
    w = gt.implicit(implicit.CSR.from_scipy(CSR))
    a, y = from_pytensor([x, y], givens={s: w})
    f = graphc.function([w, a], y, mode="NUMPY")
    np.testing.assert_allclose(
        f(implicit.CSR.from_scipy(CSR), np.ones((4, 2))).sum(), FILLED.sum() * 2
    )


def test_a_shared_sparse_matrix_is_copied_and_not_linked() -> None:
    s, x = pytensor.shared(CSR, name="s"), pt.matrix("x")
    y = ps.dot(s, x)
    with pytest.raises(UnsupportedOperationError, match='shared="copied"'):
        from_pytensor(y)
    a, y = from_pytensor([x, y], shared="copied")
    found = graphc.function([a], y, mode="NUMPY")(np.ones((4, 1)))
    np.testing.assert_allclose(found, FILLED @ np.ones((4, 1)))


def test_what_sparse_matrices_lack_is_refused_by_name() -> None:
    s = ps.as_sparse(CSR)
    with pytest.raises(UnsupportedOperationError, match="of a matrix that is computed"):
        from_pytensor(ps.csm_data(s + s))
    with pytest.raises(UnsupportedOperationError, match="has no converter"):
        from_pytensor(ps.eq(s, s))
    given = ps.csr_matrix("s")
    for y, what in ((ps.sp_sum(given), "is no array"), (given.T, "result .* is a sparse matrix")):
        with pytest.raises(UnsupportedOperationError, match=what):
            pytensor.function([given], y, mode=graphc_mode("NUMPY"))
