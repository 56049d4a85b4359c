"""Arrays whose sharding over a mesh of devices is declared within a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphc.ir import OPEN, Node, encode
from graphc.tensor.core.shape import SameArray
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor

__all__ = ["shard"]


@dataclass(frozen=True, slots=True)
class Shard(SameArray):
    """The array itself, which backends with a mesh shard as declared.

    Attributes:
        sharding: An entry for each axis.
        role: The array's role in messages: a field of an implicit array, or a variable's value.
    """

    sharding: tuple[str | tuple[str, ...] | None, ...]
    role: str = field(default="", compare=False, repr=False)

    rearranges = True
    folds = False
    name = "shard"
    core_ndim = 0

    def token(self) -> str:
        return f"shard({encode(self.sharding)})"

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Shard the gradient like the array."""
        return (Tensor.make(self, g),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        """Shard each element likewise; the compiler chooses for the batch axis."""
        return Tensor.make(Shard((OPEN, *self.sharding)), x)


def shard(x: TensorLike, sharding: Any) -> Tensor:
    """Return the array, which modes with a mesh of devices shard over it as declared.

    Without a mesh the result is the array itself, on every backend. Gradients are sharded in the
    same way. On JAX the function is ``jax.lax.with_sharding_constraint``.

    An implicit array remains one: its fields are sharded as its class says.

    Args:
        x: Any shape and dtype.
        sharding: For each axis the name of an axis of the mesh, a tuple of names, None for a
            replicated axis, or ``"*"`` where the compiler may choose; a
            ``jax.sharding.PartitionSpec`` is taken too. Missing entries at the end are None.

    Returns:
        An array of x's type.

    Raises:
        ShardingError: An axis of the mesh occurs twice, there are more entries than axes, or an
            implicit array cannot be sharded so; when a function is compiled: the mesh has no such
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
    from graphc.ir.sharding import declared_sharding  # noqa: PLC0415 (few programs have one)

    implicit = x.shard_fields(sharding, subject)
    if implicit is not None:
        return implicit
    return Tensor.make(Shard(declared_sharding(sharding, x.type.shape, subject)), x)
