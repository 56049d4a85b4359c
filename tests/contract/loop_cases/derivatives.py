"""Gradients through some of the steps, with stored or repeated steps, and of derivatives."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan, until
from tests.contract.loop_case import case


def walked(x, h, a, backwards=False):
    """The states of a small loop in plain Python."""
    found = []
    for x_t in x[::-1] if backwards else x:
        h = np.tanh(h * a + x_t)
        found.append(h)
    return np.array(found)


def truncated(k, backwards=False):
    """What a gradient through the last k steps sees: those before are as they are."""

    def felt(point, moved):
        (x0, h0, a0), (x, h, a) = point, moved
        n = len(x)
        if k >= n:
            return walked(x, h, a, backwards)
        before = walked(x0, h0, a0, backwards)[: n - k]
        last = x[:k] if backwards else x[n - k :]
        return np.concatenate([before, walked(last, before[-1], a, backwards)])

    return felt


@case((6,), (), (), felt=truncated(2))
def a_gradient_through_the_last_two_steps():
    def build(x, h0, a):
        return scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=2)

    return build, walked


@case((6,), (), (), felt=truncated(1))
def a_gradient_through_the_last_step():
    def build(x, h0, a):
        return scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=1)

    return build, walked


@case((4,), (), (), felt=truncated(4))
def a_gradient_through_as_many_steps_as_there_are():
    def build(x, h0, a):
        return scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=4)

    return build, walked


@case((4,), (), (), felt=truncated(9))
def a_gradient_through_more_steps_than_there_are():
    def build(x, h0, a):
        return scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=9)

    return build, walked


@case((6,), (), (), felt=truncated(3), static=True)
def a_gradient_through_the_last_three_steps_of_known_length():
    def build(x, h0, a):
        return scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=3)

    return build, walked


@case((6,), (), (), felt=truncated(2, backwards=True))
def a_gradient_through_the_last_two_steps_backwards():
    def build(x, h0, a):
        return scan(
            lambda x_t, h: gt.tanh(h * a + x_t), x, h0, truncate_gradient=2, go_backwards=True
        )

    def plain(x, h, a):
        return walked(x, h, a, backwards=True)

    return build, plain


def tapped(x, first, begin=0, past=None):
    """The states of a loop with taps from a step on, given the states before it."""
    all_ = [*first] if past is None else past
    for t in range(begin, 5):
        all_.append(np.sin(all_[-2]) * x[t] + 0.5 * all_[-1] * x[t + 2])
    return all_


def tapped_felt(point, moved):
    """The same as a gradient through the last two steps sees it."""
    before = tapped(*point)[: 2 + 3]
    return np.array(tapped(*moved, begin=3, past=before)[2:])


@case((7,), (2,), felt=tapped_felt)
def a_gradient_through_the_last_two_steps_with_taps():
    def build(x, first):
        return scan(
            lambda x_t, later, far, near: gt.sin(far) * x_t + 0.5 * near * later,
            {"input": x, "taps": [0, 2]},
            {"initial": first, "taps": [-2, -1]},
            truncate_gradient=2,
        )

    return build, lambda x, first: np.array(tapped(x, first)[2:])


def stopped(x, h, a, begin=0):
    """The states until one is above 2.5, from a step on."""
    found = []
    for x_t in x[begin:]:
        h = h * a + x_t**2
        found.append(h)
        if h > 2.5:
            break
    return np.array(found)


def stopped_felt(point, moved):
    """The same as a gradient through the last two steps that were done sees it."""
    before = stopped(*point)
    n = len(before)
    assert 3 < n < len(point[0])
    x, _, a = moved
    return np.concatenate([before[: n - 2], stopped(x, before[n - 3], a, n - 2)])


@case((8,), np.array(0.2), np.array(0.9), felt=stopped_felt)
def a_gradient_through_the_last_two_steps_done():
    def build(x, h0, a):
        def step(x_t, h):
            new = h * a + x_t**2
            return new, until(new > 2.5)

        return scan(step, x, h0, truncate_gradient=2)

    return build, stopped


@case((5,), (), ())
def a_cost_of_the_gradient_of_a_loop():
    def build(x, h0, a):
        trace = scan(lambda x_t, h: gt.tanh(h * a + x_t), x, h0)
        slope, by_a = graphc.grad((trace**2).sum(), [x, a])
        return (slope**2).sum() + by_a * trace[-1]

    def plain(x, h, a):
        states = walked(x, h, a)
        before = np.concatenate([[h], states[:-1]])
        slope, by_a, g = np.zeros(5) * x, 0.0, 0.0
        for t in (4, 3, 2, 1, 0):
            g = (g + 2 * states[t]) * (1 - states[t] ** 2)
            slope[t] = g
            by_a = by_a + g * before[t]
            g = g * a
        return (slope**2).sum() + by_a * states[-1]

    return build, plain


@case((4,), (2,), order=1)
def the_jacobian_of_a_trace():
    def build(x, h0):
        trace = scan(lambda x_t, h: gt.sin(h[::-1] * x_t), x, h0)
        return graphc.jacobian(trace, h0), graphc.jacobian(trace[-1], x)

    def plain(x, h):
        by_h, by_x = np.eye(2), np.zeros((2, 4))
        found = []
        for t, x_t in enumerate(x):
            slope = np.cos(h[::-1] * x_t)
            by_h = slope[:, None] * x_t * by_h[::-1]
            by_x = slope[:, None] * x_t * by_x[::-1]
            by_x[:, t] += slope * h[::-1]
            h = np.sin(h[::-1] * x_t)
            found.append(by_h)
        return np.array(found), by_x

    return build, plain


@case((4,), (2,), order=1)
def the_hessian_of_a_last_state():
    def build(x, w):
        last = scan(lambda x_t, h: h * w[0] + x_t * w[1], x, gt.as_tensor(1.0))[-1]
        return graphc.hessian(last, w)

    def plain(x, w):
        # The last state is w0**4 + w1 * sum of x_t w0**(3 - t).
        powers = np.array([3, 2, 1, 0])
        first = 12 * w[0] ** 2 + w[1] * sum(
            x[t] * p * (p - 1) * w[0] ** (p - 2) for t, p in enumerate(powers) if p > 1
        )
        mixed = sum(x[t] * p * w[0] ** (p - 1) for t, p in enumerate(powers) if p > 0)
        return np.array([[first, mixed], [mixed, 0.0 * mixed]])

    return build, plain


def barred(x, h, squares=None):
    """States with a part that can be held: the squares, which are given back."""
    found, seen = [], []
    for t, x_t in enumerate(x):
        seen.append(h**2)
        h = np.tanh(h + x_t * (h**2 if squares is None else squares[t]))
        found.append(h)
    return np.array(found), seen


@case((5,), (), felt=lambda point, moved: barred(*moved, barred(*point)[1])[0])
def a_part_that_no_gradient_passes():
    def build(x, h0):
        def step(x_t, h):
            return gt.tanh(h + x_t * graphc.disconnected_grad(h**2))

        return scan(step, x, h0)

    return build, lambda x, h: barred(x, h)[0]


@case((5, 2), (2, 2), (2,))
def a_matrix_shared_by_all_steps():
    def build(x, w, h0):
        return scan(lambda x_t, h: gt.tanh(x_t @ w + h @ w.T), x, h0)

    def plain(x, w, h):
        found = []
        for x_t in x:
            h = np.tanh(x_t @ w + h @ w.T)
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), (4,))
def an_element_of_a_constant_chosen_by_the_step():
    def build(x, table):
        def step(i, x_t, h):
            return gt.tanh(h + x_t * table[i // 2] * table[-1 - i // 2])

        return scan(step, [gt.arange(5), x], gt.as_tensor(0.3))

    def plain(x, table):
        h, found = 0.3, []
        for i, x_t in enumerate(x):
            h = np.tanh(h + x_t * table[i // 2] * table[-1 - i // 2])
            found.append(h)
        return np.array(found)

    return build, plain


@case((6,), (), ())
def a_linear_recurrence():
    def build(x, h0, a):
        return scan(lambda x_t, h: h * (a + x_t) + x_t**2, x, h0)

    def plain(x, h, a):
        found = []
        for x_t in x:
            h = h * (a + x_t) + x_t**2
            found.append(h)
        return np.array(found)

    return build, plain


@case((6, 2))
def cumulative_sums_and_products():
    def build(x):
        sums = scan(lambda x_t, h: h + x_t, x, gt.zeros((2,)))
        products = scan(lambda x_t, h: h * x_t, x, gt.ones((2,)))
        return sums, products

    return build, lambda x: (np.cumsum(x, 0), np.cumprod(x, 0))


@case((6, 2), ())
def cumulative_sums_from_the_end():
    def build(x, h0):
        return scan(lambda x_t, h: h + x_t.sum() * x_t[0], x, h0, go_backwards=True)

    return build, lambda x, h0: h0 + np.cumsum((x.sum(1) * x[:, 0])[::-1])


@case((6,), ())
def exponential_smoothing():
    def build(x, a):
        rate = gt.sigmoid(a)
        return scan(lambda x_t, h: rate * x_t + (1 - rate) * h, x[1:], x[0])

    def plain(x, a):
        rate, h, found = 1 / (1 + np.exp(-a)), x[0], []
        for x_t in x[1:]:
            h = rate * x_t + (1 - rate) * h
            found.append(h)
        return np.array(found)

    return build, plain
