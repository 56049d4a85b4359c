"""Loop unrolling: loops of no step or one step, without a loop."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node, replace_nodes
from graphc.loop.loop import Loop
from graphc.rewrite.loops.dependence import NOT_VECTORIZABLE, AnalysedLoop, Results
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, greater, where
from graphc.tensor.core.tensor import constant


def _steps(loop: Node) -> int | None:
    op: Loop = loop.op  # type: ignore[assignment]
    return op.steps


def results_of_no_step(loop: Node) -> Results | None:
    """Return the initial carries, and no rows."""
    if _steps(loop) != 0:
        return None
    body = AnalysedLoop.at(loop)
    # Rows have the shape of a batch of no steps.
    none = {
        x: batch_of(y, 0) for x, y in zip(body.carries, body.operands.init, strict=True)
    } | body.sequences
    try:
        rows = body.at_once(body.rows, none)
    except NOT_VECTORIZABLE:
        return None
    done = [constant(0, dtype="int64")] if body.op.stops else []
    return [*body.operands.init, *rows, *done]


def results_of_one_step(loop: Node) -> Results | None:
    """Return the step's outputs for the initial carries and the only elements."""
    if _steps(loop) != 1:
        return None
    body = AnalysedLoop.at(loop)
    values: dict[Any, Node] = dict(zip(body.carries, body.operands.init, strict=True))
    values |= {x: y[0] for x, y in body.sequences.items()}
    outputs = body.outside(replace_nodes([*body.nexts, *body.rows], values))
    nexts, rows = outputs[: body.op.carries], outputs[body.op.carries :]
    count = body.operands.count
    done: Any = constant(1, dtype="int64")
    if count is not None:
        done = cast(greater(count, 0), "int64")
        is_done = greater(count, 0)
        nexts = [where(is_done, y, x) for x, y in zip(body.operands.init, nexts, strict=True)]
        rows = [where(is_done, y, constant(0, dtype=y.dtype)) for y in rows]
    return [*nexts, *(expand_dims(y, 0) for y in rows), *([done] if body.op.stops else [])]
