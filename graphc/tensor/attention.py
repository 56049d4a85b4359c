"""Functions of neural networks that some backends have as one operation.

They stand for what a user wrote out, and are put in its place as a backend compiles, after all
gradients and batches have been made: that is why they have no pullback. Every other backend
computes what they are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir import Check, TensorType
from graphc.tensor.axes import expand_dims
from graphc.tensor.create import arange
from graphc.tensor.dot import DotGeneral
from graphc.tensor.elementwise import cast, sqrt, square, where
from graphc.tensor.join import concatenate, stack
from graphc.tensor.reduce import Composite, sum
from graphc.tensor.shape import length, lengths, reshape
from graphc.tensor.special import Softmax
from graphc.tensor.tensor import Tensor
from graphc.tensor.trigonometric import cos, sin

__all__ = [
    "Attention",
    "LayerNorm",
    "Normalization",
    "RMSNorm",
    "Rotation",
    "halves_turned",
    "pairs_turned",
]


@dataclass(frozen=True, slots=True)
class Normalization(Composite):
    """Each slice along the last axis, made to have a mean square of 1.

    Attributes:
        axes: The last axis alone.
        eps: What is added to the mean square.
    """

    eps: float

    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return Composite.infer(self, x)

    def checks(self, x: TensorType, *others: TensorType) -> Sequence[Check]:
        return [(0, x.ndim - 1, i + 1, 0) for i in range(len(others))]

    def centred(self, x: Tensor) -> Tensor:
        """What is divided."""
        return x

    def spread(self, x: Tensor) -> Tensor:
        """The square of what it is divided by."""
        (axis,) = self.axes
        return sum(square(x), axis) / cast(length(x, axis), x.dtype) + self.eps

    def expand(self, x: Tensor, *others: Tensor) -> Tensor:
        """Times the weight, the first of the others, and plus the bias, where they are given."""
        x = self.centred(x)
        y = x / expand_dims(sqrt(self.spread(x)), self.axes)
        if others:
            y = y * others[0]
        return y + others[1] if len(others) > 1 else y


class RMSNorm(Normalization):
    """Normalized, then times a weight if there is one."""

    __slots__ = ()


class LayerNorm(Normalization):
    """Normalized less its mean, then times a weight and plus a bias if there are any."""

    __slots__ = ()

    def centred(self, x: Tensor) -> Tensor:
        """Less the mean."""
        return x - expand_dims(
            sum(x, self.axes) / cast(length(x, self.axes[0]), x.dtype), self.axes
        )


@dataclass(frozen=True, slots=True)
class Attention(Composite):
    """Values v weighted by ``softmax(q @ k.T * scale + mask)`` over the keys k.

    Inputs are q, k and v, matrices behind as many batch axes, then the scale if there is one, then
    the mask if there is one. It is added, or tells which scores are kept.

    Attributes:
        axes: The last axis alone: that of the keys, in the weights.
        scaled: ``"*"``, ``"/"`` or ``""``: what is done with the scale, a scalar.
        masked: Whether there is a mask.
        fill: What takes the place of scores where a mask of bools is false; None where it is added.
    """

    scaled: str = ""
    masked: bool = False
    fill: float | None = None

    def infer(self, q: TensorType, k: TensorType, v: TensorType, *others: Any) -> TensorType:  # type: ignore[override]
        scores, values = self.products
        return values.infer(scores.infer(q, k), v)

    def checks(self, q: TensorType, k: TensorType, v: TensorType, *others: Any) -> Sequence[Check]:
        (last,) = self.axes
        batch = [(0, i, j, i) for i in range(last - 1) for j in (1, 2)]
        checks = [(0, last, 1, last), (1, last - 1, 2, last - 1), *batch]
        if self.masked:
            mask: TensorType = others[-1]
            of_scores = [*[(0, axis) for axis in range(last)], (1, last - 1)]
            for i, place in enumerate(of_scores[len(of_scores) - mask.ndim :]):
                if mask.shape[i] != 1:
                    checks.append((*place, 2 + len(others), i))
        return checks

    @property
    def products(self) -> tuple[DotGeneral, DotGeneral]:
        """That of queries with keys, and that of weights with values."""
        (last,) = self.axes
        batch = tuple(range(last - 1))
        return (
            DotGeneral(((last,), (last,)), (batch, batch)),
            DotGeneral(((last,), (last - 1,)), (batch, batch)),
        )

    def expand(self, q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> Tensor:  # type: ignore[override]
        scores, values = self.products
        y = Tensor.make(scores, q, k)
        if self.scaled:
            y = y * others[0] if self.scaled == "*" else y / others[0]
        if self.masked:
            mask = others[-1]
            y = y + mask if self.fill is None else where(mask, y, self.fill)
        return Tensor.make(values, Tensor.make(Softmax(self.axes), y), v)


def halves_turned(x: Tensor, angle: Tensor) -> Tensor:
    """Each element of the first half of a row, and its fellow in the second, turned by an angle."""
    half = length(x, -1) // 2
    a, b = x[..., :half], x[..., half:]
    c, s = _directions(angle, x)
    return concatenate([a * c - b * s, a * s + b * c], -1)


def pairs_turned(x: Tensor, angle: Tensor) -> Tensor:
    """Each two neighbours in a row, turned by an angle."""
    a, b = x[..., ::2], x[..., 1::2]
    c, s = _directions(angle, x)
    return reshape(stack([a * c - b * s, a * s + b * c], -1), lengths(x))


def _directions(angle: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cast(cos(angle), x.dtype), cast(sin(angle), x.dtype)


@dataclass(frozen=True, slots=True)
class Rotation(Composite):
    """Rows of x turned by the row's number times speeds, one for each two elements, in float32.

    Attributes:
        axes: The last axis alone: that of the elements.
        pairs: Neighbours are turned; otherwise an element of the first half and one of the second.
    """

    pairs: bool

    def infer(self, x: TensorType, speed: TensorType) -> TensorType:  # type: ignore[override]
        return Composite.infer(self, x)

    def expand(self, x: Tensor, speed: Tensor) -> Tensor:  # type: ignore[override]
        rows = cast(arange(length(x, -2)), speed.dtype)
        angle = expand_dims(rows, 1) * speed
        return (pairs_turned if self.pairs else halves_turned)(x, angle)
