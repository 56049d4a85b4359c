"""Functions of statistics and physics, as in ``scipy.special``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.tensor.elementwise import from_scipy, real_inexact, unary
from graphc.tensor.exponential import exp, log
from graphc.tensor.reduce import Composite, Peak, composed, restored, sum
from graphc.tensor.tensor import Axis, Tensor, function

__all__ = ["LogSoftmax", "Softmax", "log_softmax", "softmax"]


# Rows.

erf = unary(
    "erf",
    "The error function",
    real_inexact,
    lambda g, y, x: g * (2 / np.sqrt(np.pi).item()) * exp(-x * x),
    from_scipy("erf"),
)
erfc = unary(
    "erfc",
    "1 - erf(x), exact for a large x",
    real_inexact,
    lambda g, y, x: -g * (2 / np.sqrt(np.pi).item()) * exp(-x * x),
    from_scipy("erfc"),
)

# Composites.


class Softmax(Composite):
    """``exp(x) / sum(exp(x))`` within each slice, without overflow."""

    __slots__ = ()

    def expand(self, x: Tensor) -> Tensor:
        weights = exp(x - restored(Tensor.make(Peak(self.axes), x), self.axes))
        return weights / sum(weights, self.axes, keepdims=True)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (y * (g - sum(g * y, self.axes, keepdims=True)),)


class LogSoftmax(Composite):
    """``log(softmax(x))`` within each slice, exact also where softmax is 0."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "log_softmax"

    def expand(self, x: Tensor) -> Tensor:
        shifted = x - restored(Tensor.make(Peak(self.axes), x), self.axes)
        return shifted - log(sum(exp(shifted), self.axes, keepdims=True))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (g - exp(y) * sum(g, self.axes, keepdims=True),)


@function
def softmax(x: Any, axis: Axis = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` over axes, without overflow: positive numbers that add up to 1.

    Args:
        x: Logarithms of weights; real, any shape.
        axis: The axes that are added over, all by default.

    Returns:
        An array of x's shape and floating dtype.

    Raises:
        DTypeError: x is complex.
        ShapeError: x has no such axis.
    """
    return composed(Softmax, x, axis)


@function
def log_softmax(x: Any, axis: Axis = None) -> Tensor:
    """``log(softmax(x, axis))``, exact also where softmax rounds to 0; arguments as there."""
    return composed(LogSoftmax, x, axis)
