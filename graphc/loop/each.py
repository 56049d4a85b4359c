"""The batch rule of an operation on single elements, as a loop over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir import Node, Op, TupleType, picks
from graphc.loop.functional import loop
from graphc.tensor.core.tensor import Tensor


def over_each(op: Op, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]) -> Any:
    """Apply an operation on one element to each element of a batch of inputs."""
    wide = tuple(x for x, flag in zip(inputs, batched, strict=True) if flag)

    def step(_: None, elements: Sequence[Tensor]) -> tuple[None, Any]:
        remaining = iter(elements)
        xs = [next(remaining) if flag else x for x, flag in zip(inputs, batched, strict=True)]
        y = Node.make(op, *xs)
        return None, tuple(picks(y)) if isinstance(y.type, TupleType) else y

    return loop(step, None, wide, n_steps=size, name=f"batch of {op.name}")[1]
