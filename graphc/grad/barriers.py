"""The identity with another gradient: none, zero, limited or scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Op, TensorType, Wrapper, unwrapped, wrapped
from graphc.tensor import Tensor, as_tensor, clip, zeros_like

X = TypeVar("X", bound=Tensor | Wrapper)


class Barrier(Op):
    """The identity forwards; backends see through it."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        """The batch passes as its elements do."""
        return Tensor.make(self, x)


@dataclass(frozen=True, slots=True)
class GradStop(Barrier):
    """The identity, through which no derivative passes."""

    @property
    def name(self) -> str:
        return "disconnected_grad"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> None:
        return None


@dataclass(frozen=True, slots=True)
class GradZero(Barrier):
    """The identity, with zero for its derivative."""

    @property
    def name(self) -> str:
        return "zero_grad"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (zeros_like(x),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Tensor:
        return zeros_like(x)


@dataclass(frozen=True, slots=True)
class GradClip(Barrier):
    """The identity, whose gradient is limited to between two numbers."""

    low: float
    high: float

    @property
    def name(self) -> str:
        return "grad_clip"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (clip(g, self.low, self.high),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        # It limits gradients, which flow backwards; forwards there is nothing to limit.
        return tangents[0]


@dataclass(frozen=True, slots=True)
class GradScale(Barrier):
    """The identity, whose derivative is multiplied by a number."""

    multiplier: float

    @property
    def name(self) -> str:
        return "grad_scale"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (g * self.multiplier,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else tangents[0] * self.multiplier


def _barrier(op: Op, x: X) -> X:
    return wrapped(x, Tensor.make(op, as_tensor(unwrapped(x))))  # type: ignore[no-any-return]


def disconnected_grad(x: X) -> X:
    """x itself, through which no derivative passes: what depends on it counts as constant.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> float(graphc.grad(x * disconnected_grad(x), x).eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradStop(), x)


def zero_grad(x: X) -> X:
    """x itself, with zero for its derivative: connected, unlike ``disconnected_grad``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> slope = graphc.grad(x * graphc.zero_grad(x), x)
        >>> float(slope.eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradZero(), x)


def grad_clip(x: X, lower_bound: float, upper_bound: float) -> X:
    """x itself, whose gradient is limited to between two numbers, elementwise.

    Args:
        x: A real floating array.
        lower_bound: The smallest gradient that passes.
        upper_bound: The largest.

    Raises:
        ArgumentError: The lower bound is above the upper one.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> slope = graphc.grad(graphc.grad_clip(x, -1.0, 1.0) ** 2, x)
        >>> float(slope.eval({x: 3.0}, mode="NUMPY"))
        1.0
    """
    if not lower_bound <= upper_bound:
        raise ArgumentError(f"grad_clip: {lower_bound} is above {upper_bound}.", "Exchange them.")
    return _barrier(GradClip(float(lower_bound), float(upper_bound)), x)


def grad_scale(x: X, multiplier: float) -> X:
    """x itself, whose derivative is multiplied by a number.

    Args:
        x: A floating or complex array.
        multiplier: A Python number.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> slope = graphc.grad(graphc.grad_scale(x, 0.5) ** 2, x)
        >>> float(slope.eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradScale(float(multiplier)), x)
