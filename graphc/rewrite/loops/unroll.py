"""Loop unrolling: loops of no step or one, computed without a loop."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node, replaced
from graphc.loop.loop import Loop
from graphc.rewrite.loops.dependence import NOT_VECTORIZABLE, AnalysedLoop, Results
from graphc.tensor.arrays.broadcast import repeated
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
    # Rows have the shape that a batch of no steps gives them.
    none = {
        x: repeated(y, 0) for x, y in zip(body.carries, body.given.init, strict=True)
    } | body.known
    try:
        rows = body.at_once(body.rows, none)
    except NOT_VECTORIZABLE:
        return None
    done = [constant(0, dtype="int64")] if body.op.stops else []
    return [*body.given.init, *rows, *done]


def results_of_one_step(loop: Node) -> Results | None:
    """Return the step's outputs for the initial carries and the only elements."""
    if _steps(loop) != 1:
        return None
    body = AnalysedLoop.at(loop)
    given: dict[Any, Node] = dict(zip(body.carries, body.given.init, strict=True))
    given |= {x: y[0] for x, y in body.known.items()}
    made = body.outside(replaced([*body.nexts, *body.rows], given))
    nexts, rows = made[: body.op.carries], made[body.op.carries :]
    count = body.given.count
    done: Any = constant(1, dtype="int64")
    if count is not None:
        done = cast(greater(count, 0), "int64")
        kept = greater(count, 0)
        nexts = [where(kept, y, x) for x, y in zip(body.given.init, nexts, strict=True)]
        rows = [where(kept, y, constant(0, dtype=y.dtype)) for y in rows]
    return [*nexts, *(expand_dims(y, 0) for y in rows), *([done] if body.op.stops else [])]
