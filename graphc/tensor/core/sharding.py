"""Arrays whose sharding over a mesh of devices is declared within a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.ir import OPEN, Node, Op, TensorType, encode
from graphc.lazy import provided
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor


@dataclass(frozen=True, slots=True)
class Shard(Op):
    """The array itself, which a backend with a mesh divides so.

    Attributes:
        sharding: An entry for each axis.
        role: What it is besides, in messages: a field of an implicit array, or a variable's value.
    """

    sharding: tuple[str | tuple[str, ...] | None, ...]
    role: str = field(default="", compare=False, repr=False)

    rearranges = True
    folds = False
    name = "shard"

    def token(self) -> str:
        return f"shard({encode(self.sharding)})"

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """The gradient lies as the array does."""
        return (Tensor.make(self, g),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        """Each of the batch lies so; how the batch lies is for the compiler to choose."""
        return Tensor.make(Shard((OPEN, *self.sharding)), x)


def shard(x: TensorLike, sharding: Any) -> Tensor:
    """Return the array, which a mode with a mesh of devices divides over it as declared.

    Without a mesh it is the array itself, on every backend. Gradients with respect to it are
    divided in the same way. On JAX it is ``jax.lax.with_sharding_constraint``.

    An implicit array stays one: its fields are divided as its class says.

    Args:
        x: Any shape and dtype.
        sharding: For each axis the name of an axis of the mesh, a tuple of names, None for an axis
            that every device has whole, or ``"*"`` where the compiler may choose; a
            ``jax.sharding.PartitionSpec`` is taken too. Missing entries at the end are None.

    Returns:
        An array of x's type.

    Raises:
        ShardingError: An axis of the mesh occurs twice, there are more entries than axes, or an
            implicit array cannot be divided so; when a function is compiled: the mesh has no such
            axis, or a length cannot be divided.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> hidden = shard(gt.tanh(x), ("data", "model"))
        >>> hidden.eval({x: [[0.0, 1.0]]}, mode="NUMPY").round(2).tolist()
        [[0.0, 0.76]]
    """
    x = as_tensor(x)
    if sharding is None:
        return x
    subject = f"shard({x!r})"
    if hasattr(type(x), "array"):  # an implicit one
        constrained = provided(__name__, "constrained")
        return as_tensor(constrained(x.array, sharding, subject))  # type: ignore[attr-defined]
    declared = provided(__name__, "declared_sharding")
    return Tensor.make(Shard(declared(sharding, x.type.shape, subject)), x)
