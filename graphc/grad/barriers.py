"""Identity operations with other gradients: none, zero, clipped or scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc.errors import ArgumentError
from graphc.ir import Op, Wrapper, unwrap, wrap_like
from graphc.tensor import Tensor, as_tensor, clip, zeros_like
from graphc.tensor.core.shape import SameArray

X = TypeVar("X", bound=Tensor | Wrapper)


class Barrier(SameArray):
    """An identity operation; backends read its input instead."""

    __slots__ = ()
    core_ndim = 0


@dataclass(frozen=True, slots=True)
class GradStop(Barrier):
    """An identity that no derivative passes."""

    name = "disconnected_grad"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> None:
        return None


@dataclass(frozen=True, slots=True)
class GradZero(Barrier):
    """An identity with the derivative zero."""

    name = "zero_grad"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (zeros_like(x),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Tensor:
        return zeros_like(x)


@dataclass(frozen=True, slots=True)
class GradClip(Barrier):
    """An identity whose gradient is clipped between two numbers; tangents are not."""

    low: float
    high: float
    name = "grad_clip"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (clip(g, self.low, self.high),)


@dataclass(frozen=True, slots=True)
class GradScale(Barrier):
    """An identity whose derivative is multiplied by a number."""

    multiplier: float
    name = "grad_scale"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (g * self.multiplier,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else tangents[0] * self.multiplier


def _barrier(op: Op, x: X) -> X:
    return wrap_like(x, Tensor.make(op, as_tensor(unwrap(x))))  # type: ignore[no-any-return]


def disconnected_grad(x: X) -> X:
    """Return x itself, without a derivative: it counts as a constant.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> float(graphc.grad(x * disconnected_grad(x), x).eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradStop(), x)


def zero_grad(x: X) -> X:
    """Return x itself with the derivative zero: connected, unlike ``disconnected_grad``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> g = graphc.grad(x * graphc.zero_grad(x), x)
        >>> float(g.eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradZero(), x)


def grad_clip(x: X, lower_bound: float, upper_bound: float) -> X:
    """Return x itself with its gradient clipped elementwise.

    Args:
        x: A real floating array.
        lower_bound: The smallest gradient that passes.
        upper_bound: The largest gradient that passes.

    Raises:
        ArgumentError: If the lower bound is above the upper one.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> g = graphc.grad(graphc.grad_clip(x, -1.0, 1.0) ** 2, x)
        >>> float(g.eval({x: 3.0}, mode="NUMPY"))
        1.0
    """
    if not lower_bound <= upper_bound:
        raise ArgumentError(f"grad_clip: {lower_bound} is above {upper_bound}.", "Exchange them.")
    return _barrier(GradClip(float(lower_bound), float(upper_bound)), x)


def grad_scale(x: X, multiplier: float) -> X:
    """Return x itself with its derivative multiplied by a number.

    Args:
        x: A floating or complex array.
        multiplier: A Python number.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> g = graphc.grad(graphc.grad_scale(x, 0.5) ** 2, x)
        >>> float(g.eval({x: 3.0}, mode="NUMPY"))
        3.0
    """
    return _barrier(GradScale(float(multiplier)), x)
