"""Loops that stop by a condition: at the first step, in the middle, at the last, never."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan, until
from tests.contract.loop_case import case


def grown(h, limit, most):
    """The states until one is above a limit, which is kept."""
    found = []
    for _ in range(most):
        h = h * 1.5 + 0.1
        found.append(h)
        if h > limit:
            break
    return np.array(found)


def growing(h0, limit, most):
    """The same as a scan."""

    def step(h):
        new = h * 1.5 + 0.1
        return new, until(new > limit)

    return scan(step, outputs_info=h0, n_steps=most)


@case(np.array(0.4))
def stops_in_the_middle():
    return lambda h0: growing(h0, 3.0, 9), lambda h: grown(h, 3.0, 9)


@case(np.array(0.4))
def stops_at_the_first_step():
    return lambda h0: growing(h0, 0.2, 9), lambda h: grown(h, 0.2, 9)


@case(np.array(0.4))
def stops_at_the_last_step():
    def build(h0):
        return growing(h0, 3.0, 5), growing(h0, 3.0, 5).sum()

    def plain(h):
        y = grown(h, 3.0, 9)
        assert len(y) == 5
        return y, y.sum()

    return build, plain


@case(np.array(0.4))
def never_stops():
    return lambda h0: growing(h0, 1e9, 6), lambda h: grown(h, 1e9, 6)


@case(np.array(0.4))
def the_last_state_of_a_loop_that_stops():
    return lambda h0: growing(h0, 3.0, 9)[-1], lambda h: grown(h, 3.0, 9)[-1]


@case(np.array(0.4))
def what_is_made_of_a_trace_that_stops():
    def build(h0):
        y = growing(h0, 3.0, 9)
        return gt.exp(-y).sum(), y.mean(), y[::-1] * 2, y.max(), y[0], y[1:] - y[:-1]

    def plain(h):
        y = grown(h, 3.0, 9)
        return np.exp(-y).sum(), y.mean(), y[::-1] * 2, y.max(), y[0], y[1:] - y[:-1]

    return build, plain


@case(np.array(0.4), order=0)
def how_many_steps_were_done():
    return lambda h0: growing(h0, 3.0, 9).shape[0], lambda h: np.array(len(grown(h, 3.0, 9)))


@case((8,), np.array(2.0))
def stops_over_a_sequence():
    def build(x, a):
        def step(x_t, h):
            new = h + x_t**2 * a
            return [new, gt.sin(x_t) * new], until(new > 3.0)

        return scan(step, x, [gt.as_tensor(0.1), None])

    def plain(x, a):
        h, hs, rows = 0.1, [], []
        for x_t in x:
            h = h + x_t**2 * a
            hs.append(h)
            rows.append(np.sin(x_t) * h)
            if h > 3.0:
                break
        assert 1 < len(hs) < 8
        return np.array(hs), np.array(rows)

    return build, plain


@case((9,), np.array(2.0))
def stops_over_a_sequence_read_backwards_with_taps():
    def build(x, a):
        def step(before, x_t, h):
            new = h + x_t**2 * a + 0.1 * gt.sin(before)
            return new, until(new > 2.5)

        taps = {"input": x, "taps": [-1, 0]}
        return scan(step, taps, gt.as_tensor(0.1), go_backwards=True)

    def plain(x, a):
        h, hs = 0.1, []
        for t in range(8, 0, -1):
            h = h + x[t] ** 2 * a + 0.1 * np.sin(x[t - 1])
            hs.append(h)
            if h > 2.5:
                break
        assert 1 < len(hs) < 8
        return np.array(hs)

    return build, plain


@case((8,), np.array([0.1, 0.2]))
def stops_with_two_states_before():
    def build(x, first):
        def step(x_t, far, near):
            new = near + 0.5 * far + x_t**2
            return new, until(new > 2.0)

        return scan(step, x, {"initial": first, "taps": [-2, -1]})

    def plain(x, first):
        all_ = [*first]
        for x_t in x:
            all_.append(all_[-1] + 0.5 * all_[-2] + x_t**2)
            if all_[-1] > 2.0:
                break
        assert 3 < len(all_) < 9
        return np.array(all_[2:])

    return build, plain


@case((3, 3), (3,))
def power_iteration_until_it_settles():
    def build(m, v0):
        a = m @ m.T + gt.eye(3)

        def step(v):
            w = a @ v
            new = w / gt.sqrt((w**2).sum())
            return new, until(((new - v) ** 2).sum() < 0.001)

        return scan(step, outputs_info=v0, n_steps=60)[-1]

    def plain(m, v):
        a = m @ m.T + np.eye(3)
        settled, taken = False, 0
        while not settled:
            w = a @ v
            new = w / np.sqrt((w**2).sum())
            settled = ((new - v) ** 2).sum() < 0.001
            v, taken = new, taken + 1
        assert 1 < taken < 60
        return v

    return build, plain


@case(np.array(0.7), np.array(4))
def a_bound_that_is_an_input():
    return lambda h0, n: growing(h0, 1e9, n), lambda h, n: grown(h, 1e9, int(n))


@case(np.array(0.7), np.array(20))
def a_bound_that_is_an_input_and_is_not_reached():
    return lambda h0, n: growing(h0, 4.0, n), lambda h, n: grown(h, 4.0, int(n))


@case(np.array(0.7), np.array([5.0, 7.0]), (6,))
def a_stop_by_a_counter_and_a_captured_limit():
    def build(a, limits, x):
        def step(x_t, n, h):
            new = h * a + x_t
            return [n + 2, new], until(n + 2 > limits[0])

        return scan(step, x, [gt.as_tensor(0), gt.as_tensor(1.0)])

    def plain(a, limits, x):
        n, h, ns, hs = 0, 1.0, [], []
        for x_t in x:
            n, h = n + 2, h * a + x_t
            ns.append(n)
            hs.append(h)
            if n > limits[0]:
                break
        return np.array(ns), np.array(hs)

    return build, plain


@case((6,), np.array(0.5))
def a_stop_that_only_a_row_decides():
    def build(x, a):
        return scan(lambda x_t: (gt.exp(x_t * a), until(x_t < -0.8)), x)

    def plain(x, a):
        found = []
        for x_t in x:
            found.append(np.exp(x_t * a))
            if x_t < -0.8:
                break
        assert 1 < len(found) < 6
        return np.array(found)

    return build, plain


@case(np.array(0.3), np.array(0.9), order=0)
def a_while_loop_without_a_bound():
    def build(a, b):
        return graphc.while_loop(
            lambda c: c[0] + c[1] < 50, lambda c: (c[0] * 2 + a, c[1] + b), (a, b)
        )

    def plain(a, b):
        p, q = a, b
        while p + q < 50:
            p, q = p * 2 + a, q + b
        return p, q

    return build, plain


@case(np.array(0.3), np.array(0.9))
def a_while_loop_with_a_bound():
    def build(a, b):
        return graphc.while_loop(
            lambda c: c[0] + c[1] < 50,
            lambda c: (c[0] * 2 + a * c[1], gt.sin(c[1] + b)),
            (a, b),
            max_steps=30,
        )

    def plain(a, b):
        p, q = a, b
        while p + q < 50:
            p, q = p * 2 + a * q, np.sin(q + b)
        return p, q

    return build, plain


@case(np.array(60.0))
def a_while_loop_whose_condition_is_false_at_first():
    def build(a):
        return graphc.while_loop(lambda c: c < 50, lambda c: c * 2 + 1, a * 1.25, max_steps=5)

    return build, lambda a: a * 1.25
