"""Polynomials are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from tests.tensor.agreement import arrays, check_agrees

POLYNOMIALS = hnp.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=5)


@settings(max_examples=40)
@given(data=st.data(), m=st.integers(0, 3))
def test_sums_products_and_derivatives_are_numpys(data: Any, m: int) -> None:
    p = data.draw(arrays(["int64", "float64", "complex128"], POLYNOMIALS))
    # NumPy leaves out leading zeros, whose number depends on values.
    p[0] = 1
    q = data.draw(arrays([str(p.dtype)], POLYNOMIALS))
    q[0] = 2
    check_agrees(gt.polyadd, np.polyadd, p, q)
    check_agrees(gt.polysub, np.polysub, p, q)
    check_agrees(gt.polymul, np.polymul, p, q)
    if m < len(p):
        check_agrees(lambda p: gt.polyder(p, m), lambda p: np.polyder(p, m), p)
    check_agrees(lambda p: gt.polyint(p, m, 3), lambda p: np.polyint(p, m, 3), p)


def test_the_derivative_of_a_value_is_that_of_the_derived_polynomial() -> None:
    p, x = gt.tensor("p", shape=(4,)), gt.vector("x")
    slope = graphc.grad(gt.sum(gt.polyval(p, x)), x)
    f = graphc.function([p, x], [slope, gt.polyval(gt.polyder(p), x)], "NUMPY")
    found, wanted = f([1.0, -2.0, 0.5, 3.0], np.linspace(-2, 2, 9))
    np.testing.assert_allclose(found, wanted, 1e-12)


def test_what_is_no_polynomial_is_refused() -> None:
    with pytest.raises(
        ShapeError,
        match=r"number of coefficients is unknown(.|\n)*shape=\(3,\)(.|\n)*test_polynomial",
    ):
        gt.polyval(gt.vector(), 1.0)
    with pytest.raises(ShapeError, match="expected a vector"):
        gt.polyder(gt.matrix())
    with pytest.raises(ArgumentError, match="m=-1"):
        gt.polyder(gt.vector(), -1)
    with pytest.raises(ArgumentError, match="2 constants for 3 integrations"):
        gt.polyint(gt.vector(), 3, [1, 2])
