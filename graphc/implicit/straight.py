"""The value of one array with the derivative of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from graphc.grad.barriers import disconnected_grad
from graphc.implicit.array import ImplicitArray, aux_field
from graphc.implicit.form import Form, dtype_of, lengths_of
from graphc.implicit.level import numpy_like
from graphc.implicit.policy import whole
from graphc.implicit.registry import dispatch
from graphc.ir import Op, TensorType
from graphc.tensor import Tensor, as_tensor, broadcast_to
from graphc.tensor.reduce import Composite

__all__ = ["Moved", "Straight", "moved"]


@dataclass(frozen=True, slots=True)
class Moved(Composite):
    """The first array; its derivative is that of the second, too."""

    axes: tuple[int, ...] = ()

    def infer(self, value: TensorType, toward: TensorType) -> TensorType:  # type: ignore[override]
        return value

    def expand(self, value: Tensor, toward: Tensor) -> Tensor:  # type: ignore[override]
        """The value: what has been differentiated needs the other no more."""
        return value

    def perform(self, value: np.ndarray[Any, Any], toward: Any) -> np.ndarray[Any, Any]:
        return value

    def pullback(self, g: Tensor, y: Tensor, value: Tensor, toward: Tensor) -> tuple[Any, Any]:
        return g, g

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        known = [t for t in tangents if t is not None]
        return known[0] + known[1] if len(known) > 1 else next(iter(known), None)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Of both, as one that is not batched is the same for each."""
        flags = zip(inputs, batched, strict=True)
        full = [x if flag else broadcast_to(x, (size, *x.shape)) for x, flag in flags]
        return Tensor.make(self, *full)


def moved(value: Any, toward: Any) -> Tensor:
    """The first of two symbolic arrays of one type, derived as their sum is."""
    return Tensor.make(Moved(), as_tensor(value), as_tensor(toward))


@dataclass(frozen=True, repr=False)
class Straight(ImplicitArray):
    """The value of an implicit array with the derivative of another array.

    What ``ste`` gives where its function gives an implicit array, and what a function with a
    derivative of its own gives where handlers keep its result implicit. Operations find the
    handlers of ``array``; a gradient goes to ``toward``.

    Attributes:
        array: Has the value; no derivative by its fields.
        toward: Has the derivative, and the same shape and dtype; its value is not used.
        opaque: Whether operations take it whole, and find no handlers.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal
        >>> Straight(Diagonal(np.ones(2)), np.zeros((2, 2))).materialize()
        array([[1., 0.],
               [0., 1.]])
    """

    materialize_through: ClassVar[bool] = False

    array: Any
    toward: Any
    opaque: bool = aux_field(default=False)

    @property
    def shape(self) -> tuple[Any, ...]:
        return lengths_of(self.array)

    @property
    def dtype(self) -> Any:
        return dtype_of(self.array)

    def materialize(self) -> Any:
        level = numpy_like(self)
        if level.name == "graphc":
            toward = as_tensor(self.toward)
            return moved(disconnected_grad(whole(self.array)), toward)
        if level.name == "JAX":
            return import_module("graphc.implicit.jax.fields").joined(self.array, self.toward)
        return whole(self.array)

    @classmethod
    def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
        """What the handlers of the values give, with the derivative of the whole."""
        if any(isinstance(x, Straight) and x.opaque for x in operands):
            return NotImplemented
        if isinstance(target, Op):
            return _symbolic(target, operands, parameters)
        return import_module("graphc.implicit.jax.derived").handled(target, operands, parameters)


def _symbolic(op: Op, operands: Sequence[Any], parameters: dict[str, Any]) -> Any:
    """Of symbolic arrays: the handlers' value; the derivative is that of whole arrays."""
    found = dispatch(op, [_fixed(x) for x in operands], parameters)
    if found is NotImplemented:
        return NotImplemented
    dense = [x.materialize() if isinstance(x, Straight) else as_tensor(x) for x in operands]
    toward = Tensor.make(op, *dense)
    if isinstance(found, ImplicitArray):
        return Straight(_still(found), toward)
    return moved(disconnected_grad(found), toward)


def _fixed(x: Any) -> Any:
    """What a value is computed with."""
    while isinstance(x, Straight):
        x = x.array
    return x


def _still(x: ImplicitArray) -> Any:
    """The same, by whose arrays nothing is derived."""
    form, leaves = Form.of(x)
    return form.build([disconnected_grad(leaf) for leaf in leaves])
