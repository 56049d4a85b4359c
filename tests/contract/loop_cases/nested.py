"""Loops in loops, and branches in loops."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan, until
from tests.contract.loop_case import case


@case((4,), ())
def an_inner_loop_of_fixed_length():
    def build(x, a):
        def step(x_t, h):
            return scan(lambda k: gt.sin(k * a + x_t), outputs_info=h, n_steps=3)[-1]

        return scan(step, x, gt.as_tensor(0.5))

    def plain(x, a):
        h, found = 0.5, []
        for x_t in x:
            for _ in range(3):
                h = np.sin(h * a + x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((3, 4), ())
def an_inner_loop_over_the_element():
    def build(x, a):
        def step(row, h):
            return scan(lambda x_t, k: gt.sin(k * a) + x_t, row, h)[-1]

        return scan(step, x, gt.as_tensor(0.5))

    def plain(x, a):
        h, found = 0.5, []
        for row in x:
            for x_t in row:
                h = np.sin(h * a) + x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((3,), (4,))
def an_inner_loop_over_a_captured_sequence():
    def build(x, y):
        def step(x_t, h):
            inner = scan(lambda y_t, k: gt.tanh(k * x_t + y_t), y, h)
            return inner.sum() * 0.5

        return scan(step, x, gt.as_tensor(0.5))

    def plain(x, y):
        h, found = 0.5, []
        for x_t in x:
            k, total = h, 0.0
            for y_t in y:
                k = np.tanh(k * x_t + y_t)
                total += k
            h = total * 0.5
            found.append(h)
        return np.array(found)

    return build, plain


@case((3, 2), (2,))
def an_inner_map_that_keeps_its_rows():
    def build(x, w):
        return scan(lambda row: scan(lambda v: gt.exp(v * row.sum()) - w, row), x)

    def plain(x, w):
        return np.array([[np.exp(v * row.sum()) - w for v in row] for row in x])

    return build, plain


@case((3, 2), (2,), np.array(4))
def an_inner_loop_as_long_as_an_outer_input():
    def build(x, h0, n):
        def step(x_t, h):
            return scan(lambda k: gt.sin(k[::-1] + x_t), outputs_info=h, n_steps=n)[-1]

        return scan(step, x, h0)

    def plain(x, h, n):
        found = []
        for x_t in x:
            for _ in range(n):
                h = np.sin(h[::-1] + x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((3, 2), (5, 2))
def an_inner_loop_as_long_as_an_outer_length():
    def build(x, y):
        def step(x_t, h):
            inner = scan(lambda k: gt.sin(k + x_t), outputs_info=h, n_steps=y.shape[0] - 2)
            return inner[-1] * y[0]

        return scan(step, x, y[1])

    def plain(x, y):
        h, found = y[1], []
        for x_t in x:
            for _ in range(3):
                h = np.sin(h + x_t)
            h = h * y[0]
            found.append(h)
        return np.array(found)

    return build, plain


@case((2, 3), (2, 3))
def three_levels():
    def build(x, y):
        def inner(v, row):
            return scan(lambda u, k: gt.tanh(k * v + u), row, v)[-1]

        def middle(row, other, h):
            return scan(lambda v, k: k * 0.5 + inner(v, other), row, h)[-1]

        return scan(middle, [x, y], gt.as_tensor(0.25))

    def plain(x, y):
        h, found = 0.25, []
        for row, other in zip(x, y, strict=True):
            for v in row:
                k = v
                for u in other:
                    k = np.tanh(k * v + u)
                h = h * 0.5 + k
            found.append(h)
        return np.array(found)

    return build, plain


@case((4,), (), order=1)
def a_gradient_taken_in_the_step():
    def build(x, h0):
        def step(x_t, h):
            cost = scan(lambda k: gt.sin(k * x_t), outputs_info=h, n_steps=2)[-1]
            return h - 0.3 * graphc.grad(cost, h)

        return scan(step, x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            inner = np.sin(h * x_t)
            h = h - 0.3 * np.cos(inner * x_t) * x_t * np.cos(h * x_t) * x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((2, 2), (3,))
def gradient_descent_on_a_captured_cost():
    def build(m, rates):
        def cost(w):
            return ((m @ w - 1) ** 2).sum() + (w**4).sum()

        return scan(lambda r, w: w - 0.1 * r * graphc.grad(cost(w), w), rates, gt.ones((2,)))

    def plain(m, rates):
        w, found = np.ones(2), []
        for r in rates:
            w = w - 0.1 * r * (2 * m.T @ (m @ w - 1) + 4 * w**3)
            found.append(w)
        return np.array(found)

    return build, plain


def inner_stops(x, a):
    """The states of a loop in plain Python, whose inner loops stop."""
    h, found = 0.2, []
    for row in x:
        h = h * 0.25
        for v in row:
            h = h + v**2 * a
            if h > 1.0:
                break
        found.append(h)
    return np.array(found)


def inner_stopping(last, x, a, **kept):
    """The same as a scan, given how the last state of the inner one is read."""

    def step(row, h):
        def inner(v, k):
            new = k + v**2 * a
            return new, until(new > 1.0)

        return last(scan(inner, row, dict(initial=h * 0.25, **kept)))

    return scan(step, x, gt.as_tensor(0.2))


@case((3, 4), np.array(0.5))
def an_inner_loop_that_stops():
    return lambda x, a: inner_stopping(lambda y: y, x, a, traced=False), inner_stops


@case((3, 4), np.array(0.5))
def an_inner_loop_that_stops_and_has_a_trace():
    return lambda x, a: inner_stopping(lambda y: y[-1], x, a), inner_stops


@case((3, 5))
def an_inner_loop_read_backwards_with_taps():
    def build(x):
        def step(row, h):
            taps = {"input": row, "taps": [0, 1]}
            return scan(lambda v, later, k: k * later + v, taps, h, go_backwards=True)[-1]

        return scan(step, x, gt.as_tensor(0.2), go_backwards=True)

    def plain(x):
        h, found = 0.2, []
        for row in x[::-1]:
            for t in (3, 2, 1, 0):
                h = h * row[t + 1] + row[t]
            found.append(h)
        return np.array(found)

    return build, plain


def inner_lengths(x, counts):
    """The states of a loop in plain Python, with inner loops of these lengths."""
    h, found = 0.3, []
    for x_t, n in zip(x, counts, strict=True):
        for _ in range(n):
            h = np.sin(h + x_t)
        found.append(h)
    return np.array(found)


@case((3,), np.array([1, 3, 2]), refused={"JAX": "a step of"})
def an_inner_loop_of_another_length_every_step():
    def build(x, counts):
        def step(x_t, n, h):
            return scan(lambda k: gt.sin(k + x_t), outputs_info=h, n_steps=n)[-1]

        return scan(step, [x, counts], gt.as_tensor(0.3))

    return build, inner_lengths


@case((3,), np.array([1, 3, 2]))
def an_inner_loop_with_a_bound_that_stops_at_another_step_every_time():
    def build(x, counts):
        def step(x_t, n, h):
            def inner(done, k):
                return [done + 1, gt.sin(k + x_t)], until(done + 1 >= n)

            first = [{"initial": y, "traced": False} for y in (0, h)]
            return scan(inner, outputs_info=first, n_steps=5)[1]

        return scan(step, [x, counts], gt.as_tensor(0.3))

    return build, inner_lengths


@case((5,), np.array(0.4))
def a_branch_every_step():
    def build(x, h0):
        def step(x_t, h):
            return graphc.cond(x_t > 0, lambda: gt.cos(h) * x_t, lambda: h - 2 * x_t)

        return scan(step, x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.cos(h) * x_t if x_t > 0 else h - 2 * x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), np.array(0.4))
def a_choice_by_ifelse_every_step():
    def build(x, h0):
        return scan(lambda x_t, h: graphc.ifelse(h < x_t, gt.sin(h) + 1, h * x_t), x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.sin(h) + 1 if h < x_t else h * x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), np.array([2, 0, 1, 1, 2]))
def one_of_three_branches_every_step():
    def build(x, which):
        def step(x_t, k, h):
            branches = [lambda h: h + x_t, lambda h: h * x_t, gt.sin]
            return graphc.switch_case(k, branches, h)

        return scan(step, [x, which], gt.as_tensor(0.4))

    def plain(x, which):
        h, found = 0.4, []
        for x_t, k in zip(x, which, strict=True):
            h = [h + x_t, h * x_t, np.sin(h)][k]
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), np.array(0.4))
def a_loop_in_one_branch_of_a_step():
    def build(x, a):
        def long(h, x_t):
            return scan(lambda k: gt.sin(k * a + x_t), outputs_info=h, n_steps=3)[-1]

        def step(x_t, h):
            return graphc.cond(x_t > 0, lambda: long(h, x_t), lambda: h * 0.5)

        return scan(step, x, gt.as_tensor(0.3))

    def plain(x, a):
        h, found = 0.3, []
        for x_t in x:
            if x_t > 0:
                for _ in range(3):
                    h = np.sin(h * a + x_t)
            else:
                h = h * 0.5
            found.append(h)
        return np.array(found)

    return build, plain


@case((3, 2), (2, 2))
def a_loop_over_what_an_inner_loop_gave():
    def build(x, w):
        rows = scan(lambda row: scan(lambda v, k: k * w[0] + v, row, w[1]), x)
        return scan(lambda m, h: gt.tanh(m @ h), rows, w[0])

    def plain(x, w):
        h, found = w[0], []
        for row in x:
            k, m = w[1], []
            for v in row:
                k = k * w[0] + v
                m.append(k)
            h = np.tanh(np.array(m) @ h)
            found.append(h)
        return np.array(found)

    return build, plain
