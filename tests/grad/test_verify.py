"""Derivatives that are wrong are found, and right ones are let through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GradientError, VerificationError
from graphc.ir import Op
from graphc.tensor import Tensor

POINT = np.array([0.5, -1.0, 2.0])


@dataclass(frozen=True, slots=True)
class Square(Op):
    """x squared, with a slope of so many times x."""

    slope: float

    def infer(self, x: Any) -> Any:
        return x

    def perform(self, x: Any) -> Any:
        return x * x

    def pullback(self, g: Any, y: Any, x: Any) -> Any:
        return (g * self.slope * x,)


def square(slope: float) -> Callable[[Tensor], Tensor]:
    return lambda x: Tensor.make(Square(slope), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_right_gradient_passes(dtype: str) -> None:
    graphc.verify_grad(square(2.0), [POINT.astype(dtype)])
    graphc.verify_grad(lambda x, y: gt.tanh(x) @ y, [POINT.astype(dtype), POINT.astype(dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wrong_gradient_is_found_and_named(dtype: str) -> None:
    with pytest.raises(VerificationError, match=r"by argument 0 at \(0,\)"):
        graphc.verify_grad(square(2.1), [POINT.astype(dtype)])


def test_the_argument_and_element_that_are_wrong_are_named() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return gt.concatenate([x + y[:2], square(3.0)(y[2:])])

    with pytest.raises(VerificationError, match=r"by argument 1 at \(2,\)"):
        graphc.verify_grad(f, [POINT[:2], POINT])


def test_a_small_error_is_found_with_a_small_tolerance() -> None:
    nearly = square(2.0 + 1e-6)
    graphc.verify_grad(nearly, [POINT])
    with pytest.raises(VerificationError):
        graphc.verify_grad(nearly, [POINT], eps=1e-4, abs_tol=1e-9, rel_tol=1e-9)


def test_a_gradient_that_is_not_a_number_is_found() -> None:
    with pytest.raises(VerificationError, match="nan"):
        graphc.verify_grad(square(float("nan")), [POINT])


def test_more_projections_can_be_asked_for() -> None:
    graphc.verify_grad(square(2.0), [POINT], n_tests=3, rng=np.random.default_rng(3))


def test_an_argument_without_influence_has_the_gradient_zero() -> None:
    graphc.verify_grad(lambda x, y: x**2, [POINT, POINT])
    graphc.verify_grad(gt.zeros_like, [POINT])
    graphc.verify_grad(lambda x: gt.constant(2.0), [POINT])


@pytest.mark.parametrize("point", [np.arange(3), POINT + 1j, POINT.astype("float16")])
def test_a_point_that_is_not_real_floating_is_refused(point: Any) -> None:
    with pytest.raises(GradientError, match="point"):
        graphc.verify_grad(gt.square, [point])


def test_a_result_that_is_not_real_floating_is_refused() -> None:
    with pytest.raises(GradientError, match="not a real floating"):
        graphc.verify_grad(lambda x: x * 1j, [POINT])
