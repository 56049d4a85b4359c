"""Neural-network functions that some backends provide as one operation.

They replace the user's expression when a backend compiles, after gradients and batches, so they
have no pullback. Other backends compute their definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.errors import ShapeError
from graphc.ir import TensorType
from graphc.ir.lengths import agree
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import broadcast_fits
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
        if not agree(x.shape[-1], *[other.shape[0] for other in others]):
            raise ShapeError(f"{self.name}({x!r}, {others!r}): the last lengths differ.")
        return AxisComposite.infer(self, x)

    def center(self, x: Tensor) -> Tensor:
        return x

    def spread(self, x: Tensor) -> Tensor:
        (axis,) = self.axes
        return sum(square(x), axis) / cast(length(x, axis), x.dtype) + self.eps

    def expand(self, x: Tensor, *others: Tensor) -> Tensor:
        """Scale, multiply with the weight and add the bias, if there are any."""
        x = self.center(x)
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

    def center(self, x: Tensor) -> Tensor:
        return x - expand_dims(
            sum(x, self.axes) / cast(length(x, self.axes[0]), x.dtype), self.axes
        )


@dataclass(frozen=True, slots=True)
class Attention(AxisComposite):
    """Scaled dot-product attention, ``softmax(q @ k.T * scale + mask) @ v``.

    Inputs are q, k and v, matrices behind as many batch axes, then the scale if there is one, then
    the mask if there is one. The mask is added, or selects scores.

    Attributes:
        axes: The last axis alone: the axis of the keys, in the weights.
        scaled: ``"*"``, ``"/"`` or ``""``: the operation that applies the scale, a scalar.
        masked: Whether there is a mask.
        fill: The score where a bool mask is false; None where the mask is added.
    """

    scaled: str = ""
    masked: bool = False
    fill: float | None = None

    def infer(self, q: TensorType, k: TensorType, v: TensorType, *others: Any) -> TensorType:  # type: ignore[override]
        product, values = self.products
        scores = product.infer(q, k)
        if self.masked and not broadcast_fits(others[-1], scores):
            raise ShapeError(f"attention: a mask of type {others[-1]!r} for scores {scores!r}.")
        return values.infer(scores, v)

    @property
    def products(self) -> tuple[DotGeneral, DotGeneral]:
        """The products of queries with keys, and of weights with values."""
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


def rotate_halves(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate each element of a row's first half with its partner in the second half."""
    half = length(x, -1) // 2
    a, b = x[..., :half], x[..., half:]
    c, s = _directions(angle, x)
    return concatenate([a * c - b * s, a * s + b * c], -1)


def rotate_pairs(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate each pair of neighbouring elements of a row."""
    a, b = x[..., ::2], x[..., 1::2]
    c, s = _directions(angle, x)
    return reshape(stack([a * c - b * s, a * s + b * c], -1), lengths(x))


def _directions(angle: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cast(cos(angle), x.dtype), cast(sin(angle), x.dtype)


@dataclass(frozen=True, slots=True)
class Rotation(AxisComposite):
    """Rotary position embedding: row i rotated by i times one speed for each pair, in float32.

    Attributes:
        axes: The last axis alone: the axis of the elements.
        pairs: Whether neighbours are rotated, not elements of the first half with the second.
    """

    pairs: bool

    def infer(self, x: TensorType, speed: TensorType) -> TensorType:  # type: ignore[override]
        return AxisComposite.infer(self, x)

    def expand(self, x: Tensor, speed: Tensor) -> Tensor:  # type: ignore[override]
        rows = cast(arange(length(x, -2)), speed.dtype)
        angle = expand_dims(rows, 1) * speed
        return (rotate_pairs if self.pairs else rotate_halves)(x, angle)
