"""Loops for each element of a batch."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan, until
from graphc.ir import TensorType
from tests.contract.loop_case import case


def over(f, *batched):
    """The graph of f over the leading axis of those that are flagged."""

    def build(*xs):
        single = [
            TensorType(x.dtype, x.type.shape[1:] if flag else x.type.shape)()
            for x, flag in zip(xs, batched, strict=True)
        ]
        ys = f(*single)
        swaps = {one: x for one, x, flag in zip(single, xs, batched, strict=True) if flag}
        rest = {one: x for one, x, flag in zip(single, xs, batched, strict=True) if not flag}
        made = graphc.vectorize_graph(list(ys), swaps)
        made = graphc.clone_replace(made, rest) if rest else made
        size = next(x for x, flag in zip(xs, batched, strict=True) if flag).shape[0]
        # What does not depend on the batch is the same for all of it.
        return [
            gt.broadcast_to(new, (size, *new.shape)) if new.ndim == y.ndim else new
            for y, new in zip(ys, made, strict=True)
        ]

    return build


def each(f, *batched):
    """What f gives for each element, stacked."""

    def plain(*xs):
        size = next(len(x) for x, flag in zip(xs, batched, strict=True) if flag)
        rows = [
            f(*(x[i] if flag else x for x, flag in zip(xs, batched, strict=True)))
            for i in range(size)
        ]
        return [np.array(column) for column in zip(*rows, strict=True)]

    return plain


def pair(build, plain, *batched):
    return over(build, *batched), each(plain, *batched)


def small(x, h0, a):
    """A scan."""
    trace = scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0)
    return trace, trace[-1]


def small_plain(x, h, a):
    """The same in plain Python."""
    found = []
    for x_t in x:
        h = np.tanh(h * a + x_t)
        found.append(h)
    return np.array(found), h


@case((2, 4), (), ())
def a_batch_of_sequences():
    return pair(small, small_plain, True, False, False)


@case((4,), (3,), ())
def a_batch_of_initial_states():
    return pair(small, small_plain, False, True, False)


@case((4,), (), (2,))
def a_batch_of_constants():
    return pair(small, small_plain, False, False, True)


@case((3, 4), (3,), (3,))
def a_batch_of_everything():
    return pair(small, small_plain, True, True, True)


def backwards(x, h0):
    """A scan from the end, with taps."""
    taps = {"input": x, "taps": [0, 1]}
    return [scan(lambda x_t, later, h: gt.sin(h) * x_t + later, taps, h0, go_backwards=True)]


def backwards_plain(x, h):
    """The same in plain Python."""
    found = []
    for t in range(len(x) - 2, -1, -1):
        h = np.sin(h) * x[t] + x[t + 1]
        found.append(h)
    return (np.array(found),)


@case((2, 5), (2,))
def a_batch_read_backwards_with_taps():
    return pair(backwards, backwards_plain, True, True)


def nested(x, w):
    """A loop in a loop."""

    def step(row, h):
        return scan(lambda v, k: gt.tanh(k * w[0] + v), row, h + w[1])[-1]

    return [scan(step, x, gt.as_tensor(0.5))]


def nested_plain(x, w):
    """The same in plain Python."""
    h, found = 0.5, []
    for row in x:
        h = h + w[1]
        for v in row:
            h = np.tanh(h * w[0] + v)
        found.append(h)
    return (np.array(found),)


@case((2, 3, 2), (2,))
def a_batch_of_nested_loops():
    return pair(nested, nested_plain, True, False)


@case((3, 2), (2, 2))
def a_batch_of_what_nested_loops_read():
    return pair(nested, nested_plain, False, True)


def climbing(h0, a):
    """A scan that stops; its last state and a sum over the steps done."""

    def step(h, total):
        new = h * 1.5 + a
        return [new, total + gt.sin(0.2 * new)], until(new > 2.0)

    # The traces would have different lengths.
    first = [{"initial": x, "traced": False} for x in (h0, gt.as_tensor(0.0))]
    return scan(step, outputs_info=first, n_steps=8)


def climbing_plain(h, a):
    """The same in plain Python."""
    total = 0.0
    for _ in range(8):
        h = h * 1.5 + a
        total = total + np.sin(0.2 * h)
        if h > 2.0:
            break
    return h, total


@case(np.array([0.1, 1.4, 0.6, -0.5]), np.array(0.1))
def a_batch_that_stops_at_different_steps():
    return pair(climbing, climbing_plain, True, False)


@case(np.array(0.3), np.array([0.05, 0.9]))
def a_batch_of_constants_that_decide_the_stop():
    return pair(climbing, climbing_plain, False, True)


@case(np.array([0.1, 1.4, 0.6]), np.array([0.1, 0.2, -0.1]))
def a_batch_of_all_that_decides_the_stop():
    return pair(climbing, climbing_plain, True, True)


def climbing_with_traces(h0, a):
    """The same as a scan with traces."""

    def step(h, total):
        new = h * 1.5 + a
        return [new, total + gt.sin(0.2 * new)], until(new > 2.0)

    hs, totals = scan(step, outputs_info=[h0, 0.0], n_steps=8)
    return hs[-1], totals[-1]


@case(np.array([0.1, 1.4, 0.6]), np.array([0.1, 0.2, -0.1]))
def a_batch_of_last_states_of_traces_that_stop():
    return pair(climbing_with_traces, climbing_plain, True, True)


def held(x):
    """A loop beside a stop that does not differ over the batch."""

    def step(n, h):
        return [n + 1, h * x + 0.5], until(n >= 2)

    first = [{"initial": start, "traced": False} for start in (0, 1.0)]
    return [scan(step, outputs_info=first, n_steps=9)[1]]


def held_plain(x):
    """The same in plain Python."""
    h = 1.0
    for _ in range(3):
        h = h * x + 0.5
    return (h,)


@case((4,))
def a_batch_that_stops_at_one_step():
    return pair(held, held_plain, True)


def jumping(k, h0):
    """A branch every step."""
    return [scan(lambda n, h: graphc.cond(n > 1, lambda: gt.sin(h) * n, lambda: h**2 + 0.5), k, h0)]


def jumping_plain(k, h):
    """The same in plain Python."""
    found = []
    for n in k:
        h = np.sin(h) * n if n > 1 else h**2 + 0.5
        found.append(h)
    return (np.array(found),)


@case(np.array([[0, 2, 1], [3, 1, 2]]), (2,))
def a_batch_of_branches_in_a_loop():
    return pair(jumping, jumping_plain, True, True)


@case((3,), np.array([[0, 2, 1], [3, 1, 2]]), order=1)
def a_jacobian_over_a_batch():
    def build(h0, k):
        h = gt.scalar()
        trace = scan(lambda x_t, h: gt.sin(h * x_t), gt.cast(k[1], "float64"), h)
        (made,) = graphc.vectorize_graph([trace], {h: h0})
        return graphc.jacobian(made[:, -1], h0)

    def plain(h, k):
        slope = 1.0
        for x_t in k[1]:
            slope = slope * np.cos(h * x_t) * x_t
            h = np.sin(h * x_t)
        return np.diag(slope)

    return build, plain
