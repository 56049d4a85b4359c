"""Shared variables of several processes: the same values in all of them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.compile.checkpoint import variables_in
from graphc.errors import DistributedError
from graphc.ir.containers import unwrap
from graphc.ir.walk import dependent
from graphc.link.jax.distributed import allgather, process
from graphc.tensor.core.all_sum import holds_sums

if TYPE_CHECKING:
    from graphc.compile.shared import Shared
    from graphc.ir import Graph, Node


def broadcast(variables: Iterable[Any]) -> None:
    """Set shared variables to their values in process 0.

    Every process calls it, with the same variables in the same order. A process that is alone
    keeps its values. With JAX, variables on a mesh have one value in all processes anyhow.

    Args:
        variables: Shared variables, implicit ones too, and ``RandomStream``, which then draws the
            same numbers in all processes.

    Raises:
        ArgumentError: If ``variables`` has something else.
        DistributedError: Processes have variables of other shapes or dtypes, or one has ended.

    Example:
        >>> import numpy as np, graphc
        >>> w = graphc.shared(np.random.default_rng().normal(size=3), name="w")
        >>> graphc.distributed.broadcast([w])
    """
    shared = [part for i, x in enumerate(variables) for _, part in variables_in(str(i), unwrap(x))]
    values = [x.get_value() for x in shared]
    kinds = repr([(x.dtype.name, x.shape) for x in values])
    if not _is_same(kinds.encode()):
        raise DistributedError(
            f"broadcast: process {process()} has variables of {kinds}, and another one others.",
            "Give the same variables in the same order in every process.",
        )
    for variable, value in zip(shared, values, strict=True):
        # As bytes, which every dtype has.
        first = allgather(np.frombuffer(value.tobytes(), np.uint8))[0]
        new = np.frombuffer(first.tobytes(), value.dtype).reshape(value.shape)
        variable.set_value(new)


def refuse_different(graph: Graph, updates: Iterable[tuple[Shared, Node]]) -> None:
    """Raise if processes have different values of a variable that is updated by their sums.

    Every process has to call it.

    Args:
        graph: The function's graph.
        updates: The variables, and outputs of the graph as their new values.

    Raises:
        DistributedError: A variable is not the same in all processes.
    """
    sums = [x for x in graph.nodes if holds_sums([x])]
    of_sums = dependent(graph.nodes, sums)
    for x in [x for x, new in updates if new in of_sums]:
        value = x.get_value()
        if not _is_same(value.tobytes() + repr((value.dtype.name, value.shape)).encode()):
            raise DistributedError(
                f"{x!r} is not the same in all processes, and its new value is of all_sum or "
                "all_mean: each process would go on with its own.",
                "Call graphc.distributed.broadcast([...]) with such variables at first.",
            )


def _is_same(content: bytes) -> bool:
    digest = np.frombuffer(blake2b(content, digest_size=8).digest(), np.uint8)
    return bool((allgather(digest) == digest).all())
