"""The batch rule of attention: the new axis is merged into the axis of sequences.

Mask and score functions receive the index of a sequence in the merged axis, and split this index
into the element of the batch and the sequence within the element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.attention.mods import INDICES, looks_at
from graphc.ir import Graph, Node, picks, replace_nodes
from graphc.loop.step import stand_in, with_formals, with_new_inputs
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.attention.flex import FlexOp


def merge_batch(
    op: FlexOp, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Return the results of attention, or of its gradient, for a batch of elements.

    Args:
        op: The operation of each element.
        size: The number of elements.
        batched: Whether each input has a leading axis of elements.
        inputs: The operation's inputs.
    """
    operands, flags = op.split_inputs(inputs), op.split_inputs(batched)
    batches = length(operands.q, int(flags.q))

    def with_batch_axis(x: Tensor, flag: bool) -> Tensor:
        return x if flag else broadcast_to(expand_dims(x, 0), (size, *lengths(x)))

    def merge(x: Tensor, flag: bool) -> Tensor:
        x = with_batch_axis(x, flag)
        return reshape(x, (size * length(x, 1), *lengths(x)[2:]))

    arrays = list(map(merge, operands[:3], flags[:3]))
    rest = list(map(merge, operands.rest, flags.rest))
    mask, mask_captured = _with_merged_batches(
        op.mask, 0, operands.mask_captured, flags.mask_captured, batches
    )
    by_batch = mask is not None and looks_at(mask, 0)
    tables = [
        _table(x, flag, by_batch, size, batches)
        for x, flag in zip(operands.tables, flags.tables, strict=True)
    ]
    # An array with a gradient has a gradient for each element.
    wanted = op.wanted_captured or [False] * len(operands.score_captured)
    score_flags = [a or b for a, b in zip(flags.score_captured, wanted, strict=True)]
    captured = [
        with_batch_axis(x, flag) if new else x
        for x, flag, new in zip(
            operands.score_captured, flags.score_captured, score_flags, strict=True
        )
    ]
    score, score_captured = _with_merged_batches(op.score, 1, captured, score_flags, batches)
    merged_op = op.with_functions(score, mask)
    results = picks(Node.make(merged_op, *arrays, *tables, *score_captured, *mask_captured, *rest))
    # Gradients of captured arrays have an axis of elements already.
    merged_count = len(results) - sum(op.wanted_captured)
    split_results = [reshape(y, (size, batches, *lengths(y)[1:])) for y in results[:merged_count]]
    return (*split_results, *results[merged_count:])


def _table(x: Tensor, flag: bool, by_batch: bool, size: Any, batches: Any) -> Tensor:
    """Return a table (Bm, ...) for all sequences of all elements.

    A table that all sequences share stays, if the mask function does not depend on the sequence.
    """
    if not flag and not by_batch and x.type.shape[0] == 1:
        return x
    table_shape = lengths(x)[2:] if flag else lengths(x)[1:]
    x = x if flag else expand_dims(x, 0)
    return reshape(broadcast_to(x, (size, batches, *table_shape)), (size * batches, *table_shape))


def _with_merged_batches(
    graph: Graph | None,
    first: int,
    captured: Sequence[Tensor],
    flags: Sequence[bool],
    batches: Any,
) -> tuple[Graph | None, list[Tensor]]:
    """Return a function of the merged axis of sequences, and the arrays that it captures.

    Args:
        graph: The function of the sequences of one element.
        first: The position of the sequence's index among its inputs.
        captured: The arrays that it captures, with a leading axis of elements where flagged.
        flags: Whether each captured array has a leading axis of elements.
        batches: The number of sequences of an element.
    """
    if graph is None:
        return None, []
    captured_start = first + len(INDICES)
    fresh, outputs = with_new_inputs(graph)
    n = cast(as_tensor(batches), "int32")
    formal_n, merged_index = stand_in(n), stand_in(fresh[first])
    swaps: dict[Node, Node] = {fresh[first]: merged_index % formal_n}
    formals = [stand_in(x) for x in captured]
    for old, new, flag in zip(fresh[captured_start:], formals, flags, strict=True):
        swaps[old] = new[merged_index // formal_n] if flag else new
    inputs = [*fresh[:first], merged_index, *fresh[first + 1 : captured_start], *formals, formal_n]
    return with_formals(inputs, replace_nodes(outputs, swaps)), [*captured, n]
