"""Draws whose gradients are not those of the steps that lead to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from graphc.errors import DTypeError
from graphc.ir import Check, Graph, TensorType, dtype_name, here, is_float, where
from graphc.loop.evaluate import evaluate
from graphc.random.bits import Lengths, split_words, words_of
from graphc.tensor.broadcast import broadcast_arrays, broadcast_to
from graphc.tensor.elementwise import aligned, broadcast_checks, broadcast_shapes, unbroadcast
from graphc.tensor.reduce import Named
from graphc.tensor.tensor import Tensor

__all__ = ["Lanes", "drawn"]


class Lanes(Named):
    """A number for each place, which chance and the parameters of its distribution decide.

    Inputs are what stands for chance, as the words of a key for each place, and the parameters,
    floating; they broadcast. The gradient by a parameter is how a number changes while the share of
    smaller ones stays, though no step that leads to it may be a smooth function of the parameter.

    Source: Figurnov, Mohamed & Mnih, Implicit reparameterization gradients, NeurIPS 2018.
    """

    __slots__ = ()

    sources: ClassVar[int] = 2
    """How many inputs stand for chance."""

    def infer(self, *types: TensorType) -> TensorType:
        dtype = types[-1].dtype
        if not is_float(dtype):
            raise DTypeError(
                f"{self.name}({', '.join(map(repr, types))}): floating parameters are wanted.",
                "Cast them with astype.",
                where(here()),
            )
        return TensorType(dtype, broadcast_shapes(self.name, types))

    def checks(self, *types: TensorType) -> Sequence[Check]:
        return broadcast_checks(types)

    def numbers(self, *inputs: Tensor) -> Tensor:
        """The numbers, of inputs of one shape."""
        raise NotImplementedError

    def slopes(self, y: Tensor, *params: Tensor) -> Sequence[Tensor]:
        """How a number changes with each parameter."""
        raise NotImplementedError

    def expand(self, *inputs: Tensor) -> Tensor:
        return self.numbers(*broadcast_arrays(*inputs))

    def perform(self, *values: np.ndarray[Any, Any]) -> Any:
        """What it is made of, computed node by node."""
        inputs = [TensorType(dtype_name(x.dtype), x.shape)() for x in map(np.asarray, values)]
        return evaluate(Graph(inputs, [self.expand(*inputs)]), *values)[0]

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        params = inputs[self.sources :]
        slopes = zip(self.slopes(y, *params), params, strict=True)
        return [*[None] * self.sources, *[unbroadcast(g * slope, x) for slope, x in slopes]]

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        slopes = self.slopes(y, *inputs[self.sources :])
        pairs = zip(tangents[self.sources :], slopes, strict=True)
        parts = [tangent * slope for tangent, slope in pairs if tangent is not None]
        return sum(parts[1:], parts[0]) if parts else None

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *aligned(batched, inputs))


def drawn(op: Lanes, key: Any, shape: Lengths, *params: Tensor) -> Tensor:
    """A number for each place of the shape, by a key of its own, for each key."""
    k0, k1 = split_words(words_of(key), shape)
    return Tensor.make(op, k0, k1, *[broadcast_to(x, shape) for x in params])
