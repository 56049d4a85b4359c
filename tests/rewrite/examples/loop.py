"""Examples of the rules in graphc/rewrite/rules/loop.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Graph, Node, toposort
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import CumProd, CumSum, Recurrence
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.linalg.dot import DotGeneral
from tests.rewrite.arrays import Example, entries, make, n, rows, scalar, w, x

PLAIN = Loop(Graph([], []))
BACK = replace(PLAIN, reverse=True)

row, state, number, total = gt.vector("row"), gt.vector("state"), gt.scalar(), gt.scalar()
square = gt.matrix("square")


def over(
    xs: Any, nexts: Any = (), out: Any = (), init: Any = (), carries: Any = (), like: Loop = PLAIN
) -> list[Any]:
    """The results of a loop over the rows of x, or of another array."""
    read = row in toposort([*nexts, *out])
    sequences = ([xs], [row]) if read else ([], [])
    return build(like, rows, None, init, sequences[0], LoopStep(carries, sequences[1], nexts, out))


def powers(steps: Any, count: Any = None) -> list[Any]:
    """Doubled so many times, and what it was before each."""
    return build(PLAIN, steps, count, [scalar], [], LoopStep([number], [], [number * 2], [number]))


def net(xs: Any, inside: Any) -> list[Any]:
    return over(xs, [gt.tanh(state + inside)], [state], [w], [state])


def adding(term: Any, init: Any, carry: Any, like: Loop = PLAIN) -> Any:
    return over(x, [carry + term], [], [init], [carry], like)[0]


def begun(first: Any, rest: Any) -> Any:
    return gt.concatenate([gt.expand_dims(first, 0), rest])


once = gt.minimum(n, 1)
weights = x.T @ x
spread = gt.zeros((4, 4))
last, before = over(x, [row], [row - state], [w], [state])
shifted = begun(w, x)
whole = gt.broadcast_to(x, (rows, entries))
faded = over(x, [state * row + 1], [state], [w], [state])
ones = gt.broadcast_to(gt.expand_dims(gt.ones((rows,)), 1), (rows, entries))
fading = make(Recurrence(0), begun(gt.ones_like(w), whole), begun(w, ones))
summed = over(x, [state + row], [state], [w], [state], BACK)
grown = over(x, [state * row], [state], [w], [state])
doubled = gt.tanh(state) * 2
column, before_that = x[:, 0], gt.scalar()
pair: Any = (PLAIN, rows, None, [scalar, scalar], [column])
coupled = build(
    *pair, LoopStep([total, before_that], [number], [total * number + before_that, total], [])
)[0]
squared = build(
    *pair, LoopStep([total, before_that], [number], [total * before_that, total + number], [])
)[0]
each, each_one, each_none = (
    gt.broadcast_to(y, (rows,)) for y in (column, gt.ones((rows,)), gt.zeros((rows,)))
)
one_first = gt.ones_like(scalar)
step_factors = gt.stack(
    [
        gt.stack([begun(one_first, each), begun(one_first, each_one)]),
        gt.stack([begun(one_first, each_one), begun(one_first, each_none)]),
    ]
)
step_terms = gt.stack([begun(scalar, each_none)] * 2)
together = make(CoupledRecurrence(), step_factors, step_terms)
traced = over(x, [doubled + row], [doubled + row, (doubled + row) * row], [w], [state])
back = over(x, [doubled], [doubled], [w], [state], BACK)
stopped = build(
    PLAIN,
    rows,
    None,
    [w],
    [x],
    LoopStep([state], [row], [doubled + row], [doubled + row], gt.all(row > 0)),
)
scaled = build(
    PLAIN, rows, None, [w], [x[:, 0]], LoopStep([state], [number], [state * gt.exp(number)], [])
)[0]
scales = LoopStep([state], [number], [state * number], [])
one: Any = {"init": [w], "carries": [state]}
start, key = gt.constant(np.array([3, 1], "uint32")), gt.tensor(dtype="uint32", shape=(2,))
keys = build(PLAIN, 9, None, [start], [], LoopStep([key], [], [key * 3 + 1], [key]))[1]


def least(key: Any) -> Any:
    """A number that follows from a key, and takes more than moving it."""
    return gt.cast(gt.sort(key, axis=-1)[..., 0], "float64")


def drawing(drawn: Any, following: Any, like: Loop = PLAIN, steps: Any = 9) -> Any:
    step = LoopStep([total, key], [], [total * drawn, following], [])
    return build(like, steps, None, [scalar, start], [], step)[0]


EXAMPLES: dict[str, list[Example]] = {
    "loop_of_static_length": [
        (powers(gt.constant(3))[1], powers(3)[1]),
    ],
    "loop_of_no_step": [(powers(0)[0], scalar)],
    "loop_of_one_step": [
        (powers(1)[0], scalar * 2),
        (powers(1)[1], gt.expand_dims(scalar, 0)),
        (powers(1, once)[0], gt.where(gt.greater(once, 0), scalar * 2, scalar)),
    ],
    "loop_without_carries": [
        (over(x, [], [gt.exp(row) + w])[0], gt.exp(x) + w),
        (over(x, [], [row @ w])[0], make(DotGeneral(((1,), (0,))), x, w)),
        (over(x, [doubled], [row * 2], [w], [state])[1], x * 2),
        (over(x, [doubled], [row * 2], [w], [state])[0], over(x, [doubled], [], [w], [state])[0]),
    ],
    "sum_after_loop": [
        (adding(gt.exp(row), w, state), w + make(Sum((0,)), gt.exp(x))),
        (
            adding(gt.expand_dims(row, 1) * gt.expand_dims(row, 0), spread, square),
            spread + make(DotGeneral(((0,), (0,))), x, x),
        ),
        (adding(row @ row, scalar, total), scalar + make(DotGeneral(((0, 1), (0, 1))), x, x)),
    ],
    "product_before_loop": [(net(x, row @ weights)[1], net(x @ weights, row)[1])],
    "product_after_loop": [
        (
            over(x, [doubled], [state @ weights], [w], [state])[1],
            over(x, [doubled], [state], [w], [state])[1] @ weights,
        ),
    ],
    "draws_before_loop": [
        (
            drawing(least(key), key * 3 + 1),
            build(
                PLAIN,
                9,
                None,
                [scalar],
                [least(keys)],
                LoopStep([total], [number], [total * number], []),
            )[0],
        ),
    ],
    "work_before_loop": [
        (scaled, build(PLAIN, rows, None, [w], [gt.exp(x[:, 0])], scales)[0]),
    ],
    "loop_of_known_carries": [(last, shifted[-1])],
    "linear_recurrence": [
        (faded[0], fading[-1]),
        (summed[0], make(CumSum(0, True), gt.concatenate([whole, gt.expand_dims(w, 0)]))[0]),
        (grown[0], make(CumProd(0), begun(w, whole))[-1]),
    ],
    "coupled_recurrence": [(coupled, together[0][-1])],
    "last_row_of_loop": [
        (traced[1][-1], traced[0]),
        (traced[2][-1], traced[0] * x[-1]),
        (traced[1][-1, 1:], traced[0][1:]),
        (back[1][0], back[0]),
        (stopped[1][: stopped[2]][-1], stopped[0]),
    ],
    "loop_over_reversed": [
        (
            over(x[::-1], [doubled + row], [state], [w], [state])[1],
            over(x, [doubled + row], [state], [w], [state], BACK)[1][::-1],
        ),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "loop_of_static_length": [powers(3)[0], last],
    "loop_of_no_step": [powers(1)[0], powers(n)[0]],
    "loop_of_one_step": [powers(2)[0], powers(n)[0]],
    "loop_without_carries": [
        before,
        over(x, [], [gt.exp(row)], like=replace(PLAIN, recompute=True))[0],
        build(PLAIN, rows, None, [], [x], LoopStep([], [row], [], [row * 2], gt.all(row > 0)))[0],
    ],
    "sum_after_loop": [
        summed[0],
        adding(gt.exp(row), w, state, replace(PLAIN, recompute=True)),
    ],
    "product_before_loop": [
        net(x, gt.exp(row))[1],
        over(x, [doubled + gt.cumsum(row)], like=replace(PLAIN, recompute=True), **one)[0],
    ],
    "product_after_loop": [faded[1]],
    "draws_before_loop": [
        drawing(least(key), key + gt.cast(total, "uint32")),
        drawing(least(key), key * 3 + 1, replace(PLAIN, recompute=True)),
        drawing(gt.cast(key[0], "float64"), key * 3 + 1),
        drawing(least(key), key * 3 + 1, steps=rows),
    ],
    "work_before_loop": [
        net(x, gt.exp(row))[1],
        over(x, [state * row[0]], like=replace(PLAIN, recompute=True), **one)[0],
    ],
    "loop_of_known_carries": [faded[0], powers(n)[0]],
    "linear_recurrence": [over(x, [gt.tanh(state) + row], [], [w], [state])[0]],
    "coupled_recurrence": [squared],
    "last_row_of_loop": [
        traced[1][0],
        traced[1][-2],
        before[-1],
        back[1][-1],
        stopped[1][-1],
        traced[1][1:][-1],
    ],
    "loop_over_reversed": [faded[1], over(x[::-2], [doubled + row], [], [w], [state])[0]],
}
