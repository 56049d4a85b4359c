"""The batch of an operation that takes one element at a time, as a loop over the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir import Node, Op, TupleType, picks
from graphc.loop.functional import loop
from graphc.tensor.core.tensor import Tensor


def over_each(op: Op, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]) -> Any:
    """Return the batch of an operation that computes each element by itself.

    Args:
        op: The operation on one element.
        size: How many there are.
        batched: Which inputs have the batch's axis.
        inputs: Of the operation.
    """
    wide = tuple(x for x, flag in zip(inputs, batched, strict=True) if flag)

    def step(_: None, elements: Sequence[Tensor]) -> tuple[None, Any]:
        own = iter(elements)
        given = [next(own) if flag else x for x, flag in zip(inputs, batched, strict=True)]
        made = Node.make(op, *given)
        return None, tuple(picks(made)) if isinstance(made.type, TupleType) else made

    return loop(step, None, wide, n_steps=size, name=f"batch of {op.name}")[1]
