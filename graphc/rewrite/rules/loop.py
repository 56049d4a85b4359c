"""Rules of loops: what need not be done step by step is done for all steps at once."""

from __future__ import annotations

from dataclasses import replace

from graphc.ir import Constant, Node, Pick, picks
from graphc.loop.loop import Loop
from graphc.loop.trace import is_reversed, last_row
from graphc.rewrite.loops.dependence import Results, result_of
from graphc.rewrite.loops.hoist import early_rows, hoisted, hoisted_if_little
from graphc.rewrite.loops.recurrences import coupled_carries, known_carries, linear_carries
from graphc.rewrite.loops.sink import sums_after, work_after
from graphc.rewrite.loops.unroll import results_of_no_step, results_of_one_step
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.index import Index


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_static_length(node: Node, op: Pick) -> Node | None:
    """The number of steps is part of a loop where it is known."""
    return result_of(node, _with_static_length)


def _with_static_length(loop: Node) -> Results | None:
    op: Loop = loop.op  # type: ignore[assignment]
    given = op.parts(loop.inputs)
    if given.steps is None:
        return None
    known = {x.type.shape[0] for x in given.xs} - {None}
    if isinstance(given.steps.op, Constant):
        known.add(given.steps.op.value.item())
    if len(known) != 1 or min(known) < 0:
        return None  # lengths that do not fit are told of when it runs
    made = Node.make(replace(op, steps=known.pop()), *loop.inputs[1:])
    return picks(made)


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_no_step(node: Node, op: Pick) -> Node | None:
    """Without a step, carries stay what they are at first, and there are no rows."""
    return result_of(node, results_of_no_step)


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_of_one_step(node: Node, op: Pick) -> Node | None:
    """One step is done once, without a loop."""
    return result_of(node, results_of_one_step)


@rewrite("canonicalize", Pick, beside=[Loop])
def loop_without_carries(node: Node, op: Pick) -> Node | None:
    """Rows that do not depend on a carry are computed for all steps at once.

    What a step makes on the way is there for all steps at the same time, unless that is known to
    take more than 1 GiB. Where memory is short, leave this rule out.
    """
    return result_of(node, early_rows)


@rewrite("specialize", Pick, beside=[Loop])
def sum_after_loop(node: Node, op: Pick) -> Node | None:
    """A sum that no step reads is computed after the loop, products by one contraction.

    That holds for products that are at least as large as their factors.
    """
    return result_of(node, sums_after)


@rewrite("specialize", Pick, beside=[Loop])
def product_after_loop(node: Node, op: Pick) -> Node | None:
    """Products, sorts and the like that rows alone need are done for all steps at once, after."""
    return result_of(node, work_after)


@rewrite("specialize", Pick, beside=[Loop])
def product_before_loop(node: Node, op: Pick) -> Node | None:
    """Products, sorts and the like of sequences alone are done for all steps at once, before."""
    return result_of(node, hoisted)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def work_before_loop(node: Node, op: Pick) -> Node | None:
    """All work on few elements of sequences alone is done for all steps at once, before.

    That pays where it takes longer to start an operation than to compute some hundred numbers.
    """
    return result_of(node, hoisted_if_little)


@rewrite("specialize", Pick, beside=[Loop])
def loop_of_known_carries(node: Node, op: Pick) -> Node | None:
    """Where all that is carried was in sequences a step before, these are read with a shift."""
    return result_of(node, known_carries)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def linear_recurrence(node: Node, op: Pick) -> Node | None:
    """``h = a * h + b``, element by element, is one operation, which can be done in parallel.

    So are sums and products so far. That pays where a step of a loop is expensive. An infinite or
    NaN value stays so in steps that choose something else.
    """
    return result_of(node, linear_carries)


@rewrite("specialize", Pick, beside=[Loop], optional=True)
def coupled_recurrence(node: Node, op: Pick) -> Node | None:
    """Scalars such as AR(2)'s, each a sum of products with those before, are one operation.

    So are up to four of them. That pays where a step of a loop is a call from Python.
    """
    return result_of(node, coupled_carries)


@rewrite("canonicalize", Index, beside=[Pick, Index])
def last_row_of_loop(node: Node, op: Index) -> Node | None:
    """The last row of a trace is what the loop ends with.

    A carry is what it was at first where there is no step.
    """
    return last_row(node)


@rewrite("specialize", Pick, beside=[Loop])
def loop_over_reversed(node: Node, op: Pick) -> Node | None:
    """Reversed sequences are walked through from their ends."""
    return result_of(node, _reversed)


def _reversed(loop: Node) -> Results | None:
    """The loop in the other direction, where that reverses no more rows than it does sequences."""
    op: Loop = loop.op  # type: ignore[assignment]
    given = op.parts(loop.inputs)
    turned = [_turned(x) for x in given.xs]
    saved = sum(is_reversed(x) for x in given.xs)
    if op.counted or op.stops or None in turned or not saved or saved < op.stacked:
        return None
    first = [x for x in (given.steps,) if x is not None]
    back = replace(op, reverse=not op.reverse)
    made = Node.make(back, *first, *given.init, *turned, *given.consts)  # type: ignore[arg-type]
    return [y if i < op.carries else y[::-1] for i, y in enumerate(picks(made))]


def _turned(x: Node) -> Node | None:
    """The sequence from its end to its start, where nothing needs to be done for that."""
    if is_reversed(x):
        return x.inputs[0]
    is_same = isinstance(x.op, BroadcastTo) and len(x.op.shape) > x.inputs[0].type.ndim
    return x if is_same or scalar_value(x) is not None else None
