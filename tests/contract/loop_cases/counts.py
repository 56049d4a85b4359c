"""How many steps there are: constants, lengths, inputs, expressions; none and one."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan
from tests.contract.loop_case import case


def doubled(h, n):
    """The states of a small loop in plain Python."""
    found = []
    for _ in range(n):
        h = np.sin(1.2 * h) + 0.5
        found.append(h)
    return np.array(found).reshape(n, *np.shape(h))


def step(h):
    """The same as a step."""
    return gt.sin(1.2 * h) + 0.5


@case((2,))
def a_constant_number_of_steps():
    def build(h0):
        return scan(step, outputs_info=h0, n_steps=5)

    return build, lambda h: doubled(h, 5)


@case((2,))
def one_step():
    def build(h0):
        trace = scan(step, outputs_info=h0, n_steps=1)
        return trace, trace[-1], trace.sum()

    def plain(h):
        y = doubled(h, 1)
        return y, y[-1], y.sum()

    return build, plain


@case((2,))
def no_step():
    def build(h0):
        trace = scan(step, outputs_info=h0, n_steps=0)
        return trace, trace.sum() + h0[0]

    def plain(h):
        return np.zeros((0, 2)), h[0]

    return build, plain


@case((0,), (3,), np.zeros(0, int), refused={"JAX": "a step of"})
def no_step_whose_inner_number_of_steps_is_an_element():
    def build(x, h0, counts):
        def outer(x_t, n, h):
            return scan(lambda k: gt.sin(k + x_t), outputs_info=h, n_steps=n)[-1]

        return scan(outer, [x, counts], h0).sum(0) + h0

    return build, lambda x, h, counts: h


@case((0,), (2,))
def no_step_over_an_empty_sequence():
    def build(x, h0):
        trace, rows = scan(lambda x_t, h: [h * x_t, h + x_t], x, [h0, None])
        return trace, rows, trace.sum(0) + 2 * h0

    def plain(x, h):
        return np.zeros((0, 2)), np.zeros((0, 2)), 2 * h

    return build, plain


@case((2,), np.array(0))
def no_step_by_an_input():
    def build(h0, n):
        trace = scan(step, outputs_info=h0, n_steps=n)
        return trace, (trace**2).sum() + h0[1]

    def plain(h, n):
        return np.zeros((0, 2)), h[1]

    return build, plain


@case((1,), (2,))
def one_step_over_a_sequence_of_one():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(h * x_t + 1), x, h0)

    def plain(x, h):
        return np.tanh(h * x[0] + 1)[None]

    return build, plain


@case((2,), np.array(6))
def a_number_of_steps_that_is_an_input():
    def build(h0, n):
        return scan(step, outputs_info=h0, n_steps=n)

    return build, lambda h, n: doubled(h, int(n))


@case((2,), np.array(3, "int32"))
def a_number_of_steps_of_a_narrow_dtype():
    def build(h0, n):
        return scan(step, outputs_info=h0, n_steps=n + 1)[-1]

    return build, lambda h, n: doubled(h, int(n) + 1)[-1]


@case((2,))
def a_number_of_steps_that_is_shared():
    def build(h0):
        return scan(step, outputs_info=h0, n_steps=graphc.shared(np.array(4), name="n"))

    return build, lambda h: doubled(h, 4)


@case((2,), (5, 3))
def a_number_of_steps_made_of_lengths():
    def build(h0, x):
        n = x.shape[0] * 2 - x.shape[1]
        return scan(step, outputs_info=h0, n_steps=n), scan(step, outputs_info=h0, n_steps=h0.size)

    return build, lambda h, x: (doubled(h, 7), doubled(h, 2))


@case((8,), (), np.array(5))
def an_input_that_cuts_a_sequence():
    def build(x, h0, n):
        return scan(lambda x_t, h: gt.tanh(h + x_t**2), x, h0, n_steps=n)

    def plain(x, h, n):
        found = []
        for t in range(5):
            h = np.tanh(h + x[t] ** 2)
            found.append(h)
        return np.array(found)

    return build, plain


@case((8,), (), np.array(5))
def an_input_that_cuts_a_sequence_read_backwards():
    def build(x, h0, n):
        return scan(lambda x_t, h: gt.tanh(h + x_t**2), x, h0, n_steps=n, go_backwards=True)[-2:]

    def plain(x, h, n):
        found = []
        for t in range(7, 2, -1):
            h = np.tanh(h + x[t] ** 2)
            found.append(h)
        return np.array(found[-2:])

    return build, plain


@case((7,), (), np.array(3))
def a_sequence_sliced_by_an_input():
    def build(x, h0, n):
        return scan(lambda x_t, h: gt.sin(h + x_t**2), x[n:], h0)

    def plain(x, h, n):
        found = []
        for t in range(3, 7):
            h = np.sin(h + x[t] ** 2)
            found.append(h)
        return np.array(found)

    return build, plain


@case((2,), np.array(4))
def an_index_up_to_an_input():
    def build(h0, n):
        return scan(lambda i, h: gt.sin(h * (i + 1)), gt.arange(n), h0)

    def plain(h, n):
        found = []
        for i in range(n):
            h = np.sin(h * (i + 1))
            found.append(h)
        return np.array(found)

    return build, plain


@case((2,), np.array(3), np.array(6))
def the_larger_of_two_inputs():
    def build(h0, n, m):
        return scan(step, outputs_info=h0, n_steps=gt.maximum(n, m) - n // 2)

    return build, lambda h, n, m: doubled(h, 5)


@case((), (3,))
def the_exponent_is_the_number_of_steps():
    def build(a, x):
        return scan(
            lambda y, a: y * (a + x), outputs_info=gt.ones_like(x), non_sequences=a, n_steps=4
        )[-1]

    return build, lambda a, x: (a + x) ** 4


@case((4, 3), static=True)
def lengths_that_are_known():
    def build(x):
        return scan(lambda x_t, h: gt.tanh(h + x_t), x, x[0])

    def plain(x):
        h, found = x[0], []
        for x_t in x:
            h = np.tanh(h + x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((4, 3), (3,), static=True)
def many_steps_over_known_lengths():
    def build(x, h0):
        def step(i, h):
            return gt.tanh(h + x[i % x.shape[0]] * h[::-1])

        return scan(step, gt.arange(40), h0)[-5:]

    def plain(x, h):
        found = []
        for i in range(40):
            h = np.tanh(h + x[i % 4] * h[::-1])
            found.append(h)
        return np.array(found[-5:])

    return build, plain
