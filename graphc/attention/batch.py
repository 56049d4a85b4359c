"""Attention of a batch: its axis becomes part of that of batches.

Mask and score functions are given the number of a batch among all, and find out again which element
it belongs to, and which batch of that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.attention.mods import INDICES, looks_at
from graphc.ir import Graph, Node, picks, replaced
from graphc.loop.step import opened, stand_in, with_formals
from graphc.tensor.axes import expand_dims
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.elementwise import cast
from graphc.tensor.shape import length, lengths, reshape
from graphc.tensor.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.attention.flex import FlexOp

__all__ = ["folded"]


def folded(
    op: FlexOp, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The results of attention, or of its gradient, for a batch.

    Args:
        op: What is done for each element.
        size: How many elements there are.
        batched: Which inputs have an axis of elements in front.
        inputs: The operation's.
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
    mask, of_mask = _telling_apart(op.mask, 0, parts.mask_captured, flags.mask_captured, batches)
    apart = mask is not None and looks_at(mask, 0)
    tables = [
        _table(x, flag, apart, size, batches) for x, flag in _pairs(parts.tables, flags.tables)
    ]
    # What there is a gradient by has one for each element.
    asked = op.asked or [False] * len(parts.score_captured)
    now = [flag or is_asked for flag, is_asked in _pairs(flags.score_captured, asked)]
    captured = [
        leading(x, flag) if new else x
        for (x, flag), new in _pairs(_pairs(parts.score_captured, flags.score_captured), now)
    ]
    score, of_score = _telling_apart(op.score, 1, captured, now, batches)
    made = op.with_functions(score, mask)
    results = picks(Node.make(made, *arrays, *tables, *of_score, *of_mask, *rest))
    # Those by captured arrays have an axis of elements already.
    own = len(results) - sum(op.asked)
    found = [reshape(y, (size, batches, *lengths(y)[1:])) for y in results[:own]]
    return (*found, *results[own:])


def _pairs(a: Any, b: Any) -> list[Any]:
    return list(zip(a, b, strict=True))


def _table(x: Tensor, flag: bool, apart: bool, size: Any, batches: Any) -> Tensor:
    """A table (Bm, ...) for all batches of all the elements.

    One that is equal for all stays, where the mask function does not tell batches apart.
    """
    if not flag and not apart and x.type.shape[0] == 1:
        return x
    own = lengths(x)[2:] if flag else lengths(x)[1:]
    x = x if flag else expand_dims(x, 0)
    return reshape(broadcast_to(x, (size, batches, *own)), (size * batches, *own))


def _telling_apart(
    graph: Graph | None,
    first: int,
    captured: Sequence[Tensor],
    flags: Sequence[bool],
    batches: Any,
) -> tuple[Graph | None, list[Tensor]]:
    """A function of batches of all elements, and what it captures.

    Args:
        graph: The function of batches of one element.
        first: The place of the number of the batch among its inputs.
        captured: What it captures, with an axis of elements in front where the flag says so.
        flags: Where that is.
        batches: How many batches an element has.
    """
    if graph is None:
        return None, []
    own = first + len(INDICES)
    fresh, outputs = opened(graph)
    n = cast(as_tensor(batches), "int32")
    inner_n, both = stand_in(n), stand_in(fresh[first])
    swaps: dict[Node, Node] = {fresh[first]: both % inner_n}
    inner = [stand_in(x) for x in captured]
    for old, new, flag in zip(fresh[own:], inner, flags, strict=True):
        swaps[old] = new[both // inner_n] if flag else new
    given = [*fresh[:first], both, *fresh[first + 1 : own], *inner, inner_n]
    return with_formals(given, replaced(outputs, swaps)), [*captured, n]
