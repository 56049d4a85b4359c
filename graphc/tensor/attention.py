"""Neural-network functions that some backends provide as one operation.

They replace the expression that a user wrote when a backend compiles, after all gradients and
batches have been made, so they have no pullback. Other backends compute their definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir import Check, TensorType
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.arrays.reduce import AxisComposite, sum
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, sqrt, square, where
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import cos, sin
from graphc.tensor.linalg.dot import DotGeneral
from graphc.tensor.special.special import Softmax


@dataclass(frozen=True, slots=True)
class Normalization(AxisComposite):
    """Each slice along the last axis, scaled to a mean square of 1.

    Attributes:
        axes: The last axis alone.
        eps: Added to the mean square.
    """

    eps: float

    def infer(self, x: TensorType, *others: TensorType) -> TensorType:
        return AxisComposite.infer(self, x)

    def checks(self, x: TensorType, *others: TensorType) -> Sequence[Check]:
        return [(0, x.ndim - 1, i + 1, 0) for i in range(len(others))]

    def centred(self, x: Tensor) -> Tensor:
        """The array that is scaled."""
        return x

    def spread(self, x: Tensor) -> Tensor:
        """The square of the divisor."""
        (axis,) = self.axes
        return sum(square(x), axis) / cast(length(x, axis), x.dtype) + self.eps

    def expand(self, x: Tensor, *others: Tensor) -> Tensor:
        """The definition: scaled, times the weight and plus the bias where they are given."""
        x = self.centred(x)
        y = x / expand_dims(sqrt(self.spread(x)), self.axes)
        if others:
            y = y * others[0]
        return y + others[1] if len(others) > 1 else y


class RMSNorm(Normalization):
    """Root-mean-square normalization, times a weight if there is one."""

    __slots__ = ()


class LayerNorm(Normalization):
    """Layer normalization: less the mean, scaled, times a weight, plus a bias if they are given."""

    __slots__ = ()

    def centred(self, x: Tensor) -> Tensor:
        """The array less its mean."""
        return x - expand_dims(
            sum(x, self.axes) / cast(length(x, self.axes[0]), x.dtype), self.axes
        )


@dataclass(frozen=True, slots=True)
class Attention(AxisComposite):
    """Scaled dot-product attention, ``softmax(q @ k.T * scale + mask) @ v``.

    Inputs are q, k and v, matrices behind as many batch axes, then the scale if there is one, then
    the mask if there is one. It is added, or tells which scores are kept.

    Attributes:
        axes: The last axis alone: that of the keys, in the weights.
        scaled: ``"*"``, ``"/"`` or ``""``: how the scale, a scalar, is applied.
        masked: Whether there is a mask.
        fill: The score where a bool mask is false; None where the mask is added.
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
        """The product of queries with keys, and that of weights with values."""
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
    """Rotate each element of a row's first half with its partner in the second half."""
    half = length(x, -1) // 2
    a, b = x[..., :half], x[..., half:]
    c, s = _directions(angle, x)
    return concatenate([a * c - b * s, a * s + b * c], -1)


def pairs_turned(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate each pair of neighbouring elements of a row."""
    a, b = x[..., ::2], x[..., 1::2]
    c, s = _directions(angle, x)
    return reshape(stack([a * c - b * s, a * s + b * c], -1), lengths(x))


def _directions(angle: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cast(cos(angle), x.dtype), cast(sin(angle), x.dtype)


@dataclass(frozen=True, slots=True)
class Rotation(AxisComposite):
    """Rotary position embedding: row i turned by i times one speed for each pair, in float32.

    Attributes:
        axes: The last axis alone: that of the elements.
        pairs: Neighbours are turned; otherwise an element of the first half and one of the second.
    """

    pairs: bool

    def infer(self, x: TensorType, speed: TensorType) -> TensorType:  # type: ignore[override]
        return AxisComposite.infer(self, x)

    def expand(self, x: Tensor, speed: Tensor) -> Tensor:  # type: ignore[override]
        rows = cast(arange(length(x, -2)), speed.dtype)
        angle = expand_dims(rows, 1) * speed
        return (pairs_turned if self.pairs else halves_turned)(x, angle)
