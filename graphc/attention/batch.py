"""The batch rule of attention: the new axis is merged into that of sequences.

Mask and score functions are given the number of a sequence in the merged axis, and split it into
the element of the batch and the sequence within that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.attention.mods import INDICES, looks_at
from graphc.ir import Graph, Node, picks, replaced
from graphc.loop.step import stand_in, with_formals, with_new_inputs
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.attention.flex import FlexOp


def folded(
    op: FlexOp, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The results of attention, or of its gradient, for a batch of elements.

    Args:
        op: The operation of each element.
        size: The number of elements.
        batched: Which inputs have an axis of elements in front.
        inputs: The operation's inputs.
    """
    parts, flags = op.parts(inputs), op.parts(batched)
    batches = length(parts.q, int(flags.q))

    def leading(x: Tensor, flag: bool) -> Tensor:
        return x if flag else broadcast_to(expand_dims(x, 0), (size, *lengths(x)))

    def merged(x: Tensor, flag: bool) -> Tensor:
        x = leading(x, flag)
        return reshape(x, (size * length(x, 1), *lengths(x)[2:]))

    arrays = list(map(merged, parts[:3], flags[:3]))
    rest = list(map(merged, parts.rest, flags.rest))
    mask, of_mask = _with_merged_batches(
        op.mask, 0, parts.mask_captured, flags.mask_captured, batches
    )
    by_batch = mask is not None and looks_at(mask, 0)
    tables = [
        _table(x, flag, by_batch, size, batches) for x, flag in _pairs(parts.tables, flags.tables)
    ]
    # An array with a gradient has a gradient for each element.
    wanted = op.wanted_captured or [False] * len(parts.score_captured)
    now = [flag or is_wanted for flag, is_wanted in _pairs(flags.score_captured, wanted)]
    captured = [
        leading(x, flag) if new else x
        for (x, flag), new in _pairs(_pairs(parts.score_captured, flags.score_captured), now)
    ]
    score, of_score = _with_merged_batches(op.score, 1, captured, now, batches)
    made = op.with_functions(score, mask)
    results = picks(Node.make(made, *arrays, *tables, *of_score, *of_mask, *rest))
    # Gradients of captured arrays have an axis of elements already.
    own = len(results) - sum(op.wanted_captured)
    found = [reshape(y, (size, batches, *lengths(y)[1:])) for y in results[:own]]
    return (*found, *results[own:])


def _pairs(a: Any, b: Any) -> list[Any]:
    return list(zip(a, b, strict=True))


def _table(x: Tensor, flag: bool, by_batch: bool, size: Any, batches: Any) -> Tensor:
    """A table (Bm, ...) for all sequences of all elements.

    One that is the same for all stays, if the mask function does not depend on the sequence.
    """
    if not flag and not by_batch and x.type.shape[0] == 1:
        return x
    own = lengths(x)[2:] if flag else lengths(x)[1:]
    x = x if flag else expand_dims(x, 0)
    return reshape(broadcast_to(x, (size, batches, *own)), (size * batches, *own))


def _with_merged_batches(
    graph: Graph | None,
    first: int,
    captured: Sequence[Tensor],
    flags: Sequence[bool],
    batches: Any,
) -> tuple[Graph | None, list[Tensor]]:
    """A function of the merged axis of sequences, and the arrays that it captures.

    Args:
        graph: The function of the sequences of one element.
        first: The place of the number of the sequence among its inputs.
        captured: The arrays that it captures, with an axis of elements in front where flagged.
        flags: Which have that axis.
        batches: The number of sequences of an element.
    """
    if graph is None:
        return None, []
    own = first + len(INDICES)
    fresh, outputs = with_new_inputs(graph)
    n = cast(as_tensor(batches), "int32")
    inner_n, both = stand_in(n), stand_in(fresh[first])
    swaps: dict[Node, Node] = {fresh[first]: both % inner_n}
    inner = [stand_in(x) for x in captured]
    for old, new, flag in zip(fresh[own:], inner, flags, strict=True):
        swaps[old] = new[both // inner_n] if flag else new
    given = [*fresh[:first], both, *fresh[first + 1 : own], *inner, inner_n]
    return with_formals(given, replaced(outputs, swaps)), [*captured, n]
