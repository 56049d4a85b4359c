"""Sums and means over the processes of a program, and the processes there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DistributedError, DTypeError
from graphc.ir import Node, Op, TensorType, is_inexact
from graphc.ir.walk import nodes_within
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a program, of which this is one.

    Attributes:
        backend: The mode whose arrays they exchange.
        rank: The number of this process, from 0.
        size: The number of processes.
        gather: Function that returns the NumPy arrays of all processes along a new first axis.
    """

    backend: str
    rank: int
    size: int
    gather: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]


_joined: list[ProcessGroup] = []


def join(group: ProcessGroup) -> None:
    """Make this process one of a group from now on."""
    _joined[:] = [group]


def process_group() -> ProcessGroup | None:
    """Return the group of this process; None if it has joined none."""
    return _joined[0] if _joined else None


@dataclass(frozen=True, slots=True)
class AllReduce(Op):
    """A linear function of the arrays that all processes have."""

    folds = False
    is_linear = True

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the array itself, in a process that is alone."""
        self.refuse_others("NUMPY")
        return x

    def refuse_others(self, mode: str) -> None:
        """Raise if there are other processes, whose arrays a mode does not have."""
        group = process_group()
        if group is not None and group.size > 1:
            raise DistributedError(
                f"{self.name} in mode {mode}, in process {group.rank} of {group.size}, which "
                f"began with backend={group.backend!r}.",
                f"Compile it for mode={group.backend!r}, whose arrays they exchange.",
            )

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Sum the gradients as well: each process's array is in the results of all."""
        return (Tensor.make(self, g),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        return Tensor.make(self, x)

    def unwritten(self) -> Any:
        """Return the process group, as an executable of a lone process fits no group."""
        group = process_group()
        if group is None or group.backend == "JAX":  # which keys executables by the processes
            return None
        return group.backend, group.rank, group.size


def holds_sums(nodes: Iterable[Node]) -> bool:
    """Return whether nodes, or the graphs that they hold, have a sum over processes."""
    return any(isinstance(x.op, AllReduce) for x in nodes_within(nodes))


class AllSum(AllReduce):
    """The sum of the arrays that all processes have."""

    __slots__ = ()

    name = "all_sum"

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype == "bool":
            raise DTypeError(f"all_sum({x}): bool has no sum.", "Cast it: x.astype('int64').")
        return x


class AllMean(AllReduce):
    """The mean of the arrays that all processes have."""

    __slots__ = ()

    name = "all_mean"

    def infer(self, x: TensorType) -> TensorType:
        if not is_inexact(x.dtype):
            raise DTypeError(
                f"all_mean({x}): a mean is floating or complex.", "Cast it: x.astype('float32')."
            )
        return x


def all_sum(x: TensorLike) -> Tensor:
    """Return the sum of the arrays that all processes of a program have.

    - In mode MLX, each process computes with different arrays, such as its part of a batch.
      ``graphc.distributed.initialize(backend="MLX")`` joins processes, and this is
      ``mx.distributed.all_sum``.
    - In mode JAX, a program over a mesh is one for all devices and processes. Its arrays are
      global and already summed: this is the array itself, and XLA adds the communication.
    - In mode NUMPY, and wherever a process is alone, it is the array itself.

    So a graph that computes with a part of a batch, and takes sums and means over the processes
    where they belong, gives the same numbers on MLX with several processes as on a mesh.

    The derivative is of the results of all processes together: their cotangents are summed as
    well. ``all_sum(graphc.grad(loss, w))`` is the gradient with respect to a ``w`` that all have in
    common, where each ``loss`` is the sum over a process's part.

    Args:
        x: An array of one shape and dtype in all processes; any dtype but bool.

    Returns:
        An array of x's type, the same in all processes.

    Raises:
        DTypeError: ``x`` is bool.
        DistributedError: In a call: another process has ended or sums something else, or the mode
            does not reach the other processes.
        ArgumentError: In a call: it is within ``jax.shard_map``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> total = graphc.function([x], gt.all_sum(x.sum()))
        >>> float(total([1.0, 2.0]))  # this process is alone
        3.0
    """
    return Tensor.make(AllSum(), as_tensor(x))


def all_mean(x: TensorLike) -> Tensor:
    """Return the mean of the arrays that all processes of a program have.

    The mean is ``all_sum`` divided by the number of processes; its notes apply. If a batch is
    divided into equal parts and a loss is the mean over a part, the mean of the gradients is the
    gradient over the full batch.

    Args:
        x: An array of one shape and dtype in all processes; floating or complex.

    Returns:
        An array of x's type, the same in all processes.

    Raises:
        DTypeError: ``x`` is not floating or complex.
        DistributedError: As for ``all_sum``.
        ArgumentError: As for ``all_sum``.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> x, w = gt.matrix("x"), graphc.shared(np.ones(3), name="w")
        >>> gradient = gt.all_mean(graphc.grad((x @ w).mean(), w))
        >>> train = graphc.function([x], updates=[(w, w - 0.5 * gradient)])
        >>> train(np.ones((4, 3)))
        >>> w.get_value().tolist()
        [0.5, 0.5, 0.5]
    """
    return Tensor.make(AllMean(), as_tensor(x))
