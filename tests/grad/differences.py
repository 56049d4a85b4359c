"""Derivatives by central differences, of graphs evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir import TensorType, is_inexact
from graphc.tensor import Tensor
from tests.reference import evaluate

__all__ = ["check_derivatives", "check_gradient", "numeric_gradient"]

STEP = 1e-6
"""Of values near 1: the error of a difference is about 1e-10, by rounding and by curvature."""

TOLERANCE = 2e-7


def numeric_gradient(cost: Tensor, x: Tensor, values: dict[Any, np.ndarray]) -> np.ndarray:
    """The gradient by an input; df/dRe + i df/dIm where it is complex."""

    def at(moved: np.ndarray) -> float:
        return float(evaluate([cost], {**values, x: moved})[0])

    found = np.zeros_like(values[x])
    for place in np.ndindex(found.shape):
        for direction in (1, 1j) if found.dtype.kind == "c" else (1,):
            step = np.zeros_like(found)
            step[place] = direction * STEP
            slope = (at(values[x] + step) - at(values[x] - step)) / (2 * STEP)
            found[place] += direction * slope
    return found


def check_gradient(cost: Tensor, xs: Sequence[Tensor], values: dict[Any, np.ndarray]) -> None:
    """The gradient by each input is what differences give."""
    slopes = graphc.grad(cost, list(xs), disconnected_inputs="ignore")
    for x, slope, found in zip(xs, slopes, evaluate(slopes, values), strict=True):
        assert slope.type.admits(x.type) or x.type.admits(slope.type)
        expected = numeric_gradient(cost, x, values)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def _random_like(values: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(7)
    for value in values:
        part = rng.uniform(0.5, 1.5, value.shape)
        if value.dtype.kind == "c":
            part = part - 1j * rng.uniform(0.5, 1.5, value.shape)
        yield part.astype(value.dtype)


def _weighted(ys: Sequence[Tensor], weights: Sequence[np.ndarray]) -> Tensor:
    parts = [gt.real(y * w).sum() for y, w in zip(ys, weights, strict=True)]
    return gt.add(*parts) if len(parts) > 1 else parts[0]


def check_derivatives(f: Callable[..., Any], *points: Any) -> None:
    """Reverse, forward and second derivatives at a point are what differences give."""
    arrays = [np.asarray(p) for p in points]
    xs = [TensorType(p.dtype, p.shape)() for p in arrays]
    values = dict(zip(xs, arrays, strict=True))
    y = gt.as_tensor(f(*xs))
    if not is_inexact(y.dtype):
        return
    cost = _weighted([y], [*_random_like(evaluate([y], values))])
    check_gradient(cost, xs, values)
    slopes = graphc.grad(cost, xs, disconnected_inputs="ignore")
    check_gradient(_weighted(slopes, [*_random_like(arrays)]), xs, values)
    _check_pushed(y, xs, values)


def _check_pushed(y: Tensor, xs: list[Tensor], values: dict[Any, np.ndarray]) -> None:
    tangents = [*_random_like([values[x] for x in xs])]
    pushed = graphc.pushforward(
        y, xs, [gt.constant(t) for t in tangents], disconnected_outputs="ignore"
    )
    ends = [
        evaluate([y], {x: values[x] + sign * STEP * t for x, t in zip(xs, tangents, strict=True)})
        for sign in (1, -1)
    ]
    expected = (ends[0][0] - ends[1][0]) / (2 * STEP)
    (found,) = evaluate([pushed], values)
    assert y.type.admits(pushed.type) or pushed.type.admits(y.type)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
