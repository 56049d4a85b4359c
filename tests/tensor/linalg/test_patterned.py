"""Matrices of a pattern are SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.tensor import linalg
from tests.tensor.agreement import DTYPES, arrays, check_agrees

SIGNED = [dtype for dtype in DTYPES if dtype not in {"bool", "float16"} and dtype[0] != "u"]
VECTORS = hnp.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=5)
MATRICES = hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3)


@settings(max_examples=40)
@given(arrays(SIGNED, VECTORS), arrays(SIGNED, VECTORS))
def test_diagonals_and_antidiagonals_are_constant(c: np.ndarray, r: np.ndarray) -> None:
    r = r.astype(c.dtype) if r.dtype.kind != "c" else c
    check_agrees(linalg.toeplitz, scipy.linalg.toeplitz, c, r)
    check_agrees(linalg.toeplitz, scipy.linalg.toeplitz, c)
    check_agrees(linalg.hankel, scipy.linalg.hankel, c, r)
    check_agrees(linalg.hankel, scipy.linalg.hankel, c)
    check_agrees(linalg.circulant, scipy.linalg.circulant, c)


@settings(max_examples=40)
@given(st.lists(arrays(SIGNED, MATRICES), min_size=1, max_size=3))
def test_blocks_stand_along_the_diagonal(matrices: list[np.ndarray]) -> None:
    dtype = matrices[0].dtype
    matrices = [x.real.astype(dtype) for x in matrices]
    check_agrees(linalg.block_diag, scipy.linalg.block_diag, *matrices)


@pytest.mark.parametrize("n", range(6))
def test_matrices_with_a_name_are_scipys(n: int) -> None:
    check_agrees(lambda: linalg.hilbert(n), lambda: scipy.linalg.hilbert(n) if n else _nothing())
    check_agrees(lambda: linalg.dft(n), lambda: scipy.linalg.dft(n))
    check_agrees(lambda: linalg.dft(n, "sqrtn"), lambda: scipy.linalg.dft(n, "sqrtn"))
    for kind in ("symmetric", "lower", "upper"):
        check_agrees(
            lambda kind=kind: linalg.pascal(n, kind),
            lambda kind=kind: scipy.linalg.pascal(n, kind).astype(np.int64),
        )
    check_agrees(lambda: linalg.hadamard(2**n), lambda: scipy.linalg.hadamard(2**n))


def _nothing() -> np.ndarray:
    return np.zeros((0, 0))


def test_a_symbolic_size_is_one() -> None:
    n = gt.lscalar("n")
    np.testing.assert_allclose(
        linalg.hilbert(n).eval({n: 4}, mode="NUMPY"), scipy.linalg.hilbert(4)
    )


def test_the_eigenvalues_of_a_companion_are_the_roots() -> None:
    a = np.array([2.0, -3.0, -11.0, 6.0])
    check_agrees(linalg.companion, scipy.linalg.companion, a)
    found = linalg.companion(gt.constant(a)).eval(mode="NUMPY")
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(found).real), np.sort(np.roots(a)))


def test_populations_and_differences_are_scipys() -> None:
    f, s = np.array([0.1, 2.0, 1.0]), np.array([0.2, 0.8])
    check_agrees(linalg.leslie, scipy.linalg.leslie, f, s)
    check_agrees(linalg.fiedler, scipy.linalg.fiedler, f)


def test_what_there_is_no_matrix_of_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one"):
        linalg.block_diag()
    with pytest.raises(ArgumentError, match="power of 2"):
        linalg.hadamard(3)
    with pytest.raises(ArgumentError, match="exceeds int64"):
        linalg.pascal(40)
    with pytest.raises(ArgumentError, match="kind"):
        linalg.pascal(3, "odd")
    with pytest.raises(ArgumentError, match="scale"):
        linalg.dft(3, "odd")
    with pytest.raises(ShapeError, match="at least two"):
        linalg.companion(gt.tensor(shape=(1,)))
    with pytest.raises(ShapeError, match="scalar"):
        linalg.toeplitz(gt.scalar())
