"""Loops of no step and of one: what they give, without a loop."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node, replaced
from graphc.loop.loop import Loop
from graphc.rewrite.at_once import NOT_AT_ONCE, Opened, Results
from graphc.tensor.axes import expand_dims
from graphc.tensor.broadcast import repeated
from graphc.tensor.elementwise import cast, greater, where
from graphc.tensor.tensor import constant

__all__ = ["of_no_step", "of_one_step"]


def _steps(loop: Node) -> int | None:
    op: Loop = loop.op  # type: ignore[assignment]
    return op.steps


def of_no_step(loop: Node) -> Results | None:
    """The initial carries, and no rows."""
    if _steps(loop) != 0:
        return None
    body = Opened.of(loop)
    # Rows have the shape that a batch of no steps gives them.
    none = {
        x: repeated(y, 0) for x, y in zip(body.carries, body.given.init, strict=True)
    } | body.known
    try:
        rows = body.at_once(body.rows, none)
    except NOT_AT_ONCE:
        return None
    done = [constant(0, dtype="int64")] if body.op.stops else []
    return [*body.given.init, *rows, *done]


def of_one_step(loop: Node) -> Results | None:
    """The step applied to the initial carries and the only elements."""
    if _steps(loop) != 1:
        return None
    body = Opened.of(loop)
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
