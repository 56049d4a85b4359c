"""Rules of loops: work for all steps at once instead of step by step, and loops of few steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphc.ir import Constant, Node, Pick, picks, replace_nodes
from graphc.loop.loop import Loop
from graphc.loop.trace import is_reversed, last_row
from graphc.rewrite.loops.dependence import NOT_VECTORIZABLE, AnalysedLoop, Results, result_of
from graphc.rewrite.loops.hoist import early_rows, hoist_draws, hoist_expensive, hoist_small
from graphc.rewrite.loops.recurrences import coupled_carries, known_carries, linear_carries
from graphc.rewrite.loops.sink import sums_after, work_after
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo, batch_of
from graphc.tensor.arrays.index import Index
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, greater, where
from graphc.tensor.core.tensor import constant


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_static_length(node: Node, op: Pick) -> Node | None:
    """``scan`` over a known number of steps has the number in its operation."""
    return result_of(node, _with_static_length)


def _with_static_length(loop: Node) -> Results | None:
    op: Loop = loop.op  # type: ignore[assignment]
    operands = op.parts(loop.inputs)
    if operands.steps is None:
        return None
    lengths = {x.type.shape[0] for x in operands.xs} - {None}
    if isinstance(operands.steps.op, Constant):
        lengths.add(operands.steps.op.value.item())
    if len(lengths) != 1 or min(lengths) < 0:
        return None  # an error when the program runs
    return picks(Node.make(replace(op, steps=lengths.pop()), *loop.inputs[1:]))


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_no_step(node: Node, op: Pick) -> Node | None:
    """``scan`` of no step returns its initial carries, and no rows."""
    return result_of(node, results_of_no_step)


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_one_step(node: Node, op: Pick) -> Node | None:
    """``scan`` of one step is the step itself."""
    return result_of(node, results_of_one_step)


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_without_carries(node: Node, op: Pick) -> Node | None:
    """``scan`` computes rows that depend on no carry for all steps at once.

    The intermediate results of all steps are in memory together, unless they are known to take more
    than 1 GiB. Where memory is short, exclude this rule.
    """
    return result_of(node, early_rows)


@rewrite("specialize", Pick, beside=[Loop])
def sum_after_loop(node: Node, op: Pick) -> Node | None:
    """``total += f(x)`` that no step reads is computed after the loop: products by a contraction.

    Only products that are at least as large as their factors become contractions.
    """
    return result_of(node, sums_after)


@rewrite("specialize", Pick, beside=[Loop])
def product_after_loop(node: Node, op: Pick) -> Node | None:
    """``a @ h``, ``sort(h)`` and the like of a carry for rows alone are computed after the loop."""
    return result_of(node, work_after)


@rewrite("specialize", Pick, beside=[Loop])
def product_before_loop(node: Node, op: Pick) -> Node | None:
    """``a @ x``, ``sort(x)`` and the like of sequence elements are computed before the loop."""
    return result_of(node, hoist_expensive)


@rewrite("specialize", Pick, beside=[Loop])
def draws_before_loop(node: Node, op: Pick) -> Node | None:
    """``normal(key)`` of a key that the loop carries is drawn for all steps before the loop."""
    return result_of(node, hoist_draws)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def work_before_loop(node: Node, op: Pick) -> Node | None:
    """``f(x)`` of few elements of sequences alone is computed for all steps before the loop.

    Enable it where starting an operation takes longer than computing some hundred numbers.
    """
    return result_of(node, hoist_small)


@rewrite("specialize", Pick, beside=[Loop])
def loop_of_known_carries(node: Node, op: Pick) -> Node | None:
    """``h = x[t - 1]``, a carry that is an element of a sequence, is read from the sequence."""
    return result_of(node, known_carries)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def linear_recurrence(node: Node, op: Pick) -> Node | None:
    """``h = a * h + b``, element by element, is one operation, which can run in parallel.

    So are running sums and products. Enable it where a step of a loop is expensive. An infinite or
    NaN value persists in steps that choose something else.
    """
    return result_of(node, linear_carries)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def coupled_recurrence(node: Node, op: Pick) -> Node | None:
    """``h = A @ h + b`` of scalar carries, such as AR(2)'s, is one operation.

    There are at most four carries. Enable it where a step of a loop is a call from Python.
    """
    return result_of(node, coupled_carries)


@rewrite("canonicalize", Index, beside=[Pick, Index])
def last_row_of_loop(node: Node, op: Index) -> Node | None:
    """``hs[-1]`` of the trace of a carry is the carry after the loop.

    Without a step, that is the initial carry.
    """
    return last_row(node)


@rewrite("specialize", Pick, beside=[Loop])
def loop_over_reversed(node: Node, op: Pick) -> Node | None:
    """``scan`` over reversed sequences runs backwards over the sequences."""
    return result_of(node, _reverse)


def _reverse(loop: Node) -> Results | None:
    """Return the loop in the other direction, if that reverses no more rows than sequences."""
    op: Loop = loop.op  # type: ignore[assignment]
    operands = op.parts(loop.inputs)
    sequences = [_free_reversal(x) for x in operands.xs]
    saved = sum(is_reversed(x) for x in operands.xs)
    if op.counted or op.stops or None in sequences or not saved or saved < op.stacked:
        return None
    first = [x for x in (operands.steps,) if x is not None]
    back = replace(op, reverse=not op.reverse)
    reversed_loop = Node.make(back, *first, *operands.init, *sequences, *operands.consts)  # type: ignore[arg-type]
    return [y if i < op.carries else y[::-1] for i, y in enumerate(picks(reversed_loop))]


def _free_reversal(x: Node) -> Node | None:
    if is_reversed(x):
        return x.inputs[0]
    is_same = isinstance(x.op, BroadcastTo) and len(x.op.shape) > x.inputs[0].type.ndim
    return x if is_same or scalar_value(x) is not None else None


# Loops of no step or one.


def results_of_no_step(loop: Node) -> Results | None:
    """Return the initial carries, and no rows."""
    if loop.op.steps != 0:  # type: ignore[attr-defined]
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
    if loop.op.steps != 1:  # type: ignore[attr-defined]
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
