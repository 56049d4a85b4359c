"""Draws with implicit reparameterization gradients, from the distribution function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from graphc.errors import DTypeError
from graphc.ir import Graph, TensorType, dtype_name, is_float
from graphc.loop.evaluate import evaluate
from graphc.random.keys import Lengths, split_words, words_of
from graphc.tensor.arrays.broadcast import broadcast_arrays, broadcast_to
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.elementwise import align_ranks, broadcast_shapes, unbroadcast
from graphc.tensor.core.tensor import Tensor


class ReparameterizedDraw(Composite):
    """A draw for each element, differentiable in the parameters by implicit reparameterization.

    Inputs are the sources of randomness, such as the words of a key for each element, and the
    floating parameters; they broadcast. The derivative with respect to a parameter is the one of a
    quantile at a constant cumulative probability; sampling need not be smooth.

    Source: Figurnov, Mohamed & Mnih, Implicit reparameterization gradients, NeurIPS 2018.
    """

    __slots__ = ()

    sources: ClassVar[int] = 2
    """The number of inputs that are sources of randomness."""

    def infer(self, *types: TensorType) -> TensorType:
        dtype = types[-1].dtype
        if not is_float(dtype):
            raise DTypeError(
                f"{self.name}({', '.join(map(repr, types))}): expected floating parameters.",
                "Cast them with astype.",
            )
        return TensorType(dtype, broadcast_shapes(self.name, types))

    def draw(self, *inputs: Tensor) -> Tensor:
        """Return the draws, from inputs of one shape."""
        raise NotImplementedError

    def derivatives(self, y: Tensor, *params: Tensor) -> Sequence[Tensor]:
        """Return the derivative of a draw with respect to each parameter."""
        raise NotImplementedError

    def expand(self, *inputs: Tensor) -> Tensor:
        return self.draw(*broadcast_arrays(*inputs))

    def perform(self, *values: np.ndarray[Any, Any]) -> Any:
        inputs = [TensorType(dtype_name(x.dtype), x.shape)() for x in map(np.asarray, values)]
        return evaluate(Graph(inputs, [self.expand(*inputs)]), *values)[0]

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        params = inputs[self.sources :]
        derivatives = zip(self.derivatives(y, *params), params, strict=True)
        return [*[None] * self.sources, *[unbroadcast(g * dy, x) for dy, x in derivatives]]

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        derivatives = self.derivatives(y, *inputs[self.sources :])
        pairs = zip(tangents[self.sources :], derivatives, strict=True)
        terms = [t * dy for t, dy in pairs if t is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *align_ranks(batched, inputs))


def draw_each(op: ReparameterizedDraw, key: Any, shape: Lengths, *params: Tensor) -> Tensor:
    """Draw a number for each element of the shape, each with another key."""
    k0, k1 = split_words(words_of(key), shape)
    return Tensor.make(op, k0, k1, *[broadcast_to(x, shape) for x in params])
