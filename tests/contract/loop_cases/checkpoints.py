"""Loops whose gradients store few states and do the steps between again."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan
from tests.contract.loop_case import case

LENGTHS = (0, 1, 2, 7, 16, 17)


def rows_of(x, h, a):
    """The states of a small loop and a row beside each."""
    hs, rows = [], []
    for x_t in x:
        rows.append(h * x_t)
        h = np.tanh(h * a + x_t)
        hs.append(h)
    return np.array(hs).reshape(len(x)), np.array(rows).reshape(len(x))


def at_lengths(checkpoint: Any, lengths: Any, static: bool) -> Any:
    """Loops over the first elements of one sequence, as many as each of the lengths says."""

    def build(x, h0, a):
        found = []
        for n in lengths:
            hs, rows = scan(
                lambda x_t, h: [gt.tanh(h * a + x_t), h * x_t],
                x[:n] if static else x[: gt.minimum(n, x.shape[0])],
                [h0, None],
                checkpoint=checkpoint,
            )
            found += [hs, rows, hs[-1]] if n else [hs, rows]
        return found

    def plain(x, h, a):
        found = []
        for n in lengths:
            hs, rows = rows_of(x[:n], h, a)
            found += [hs, rows, hs[-1]] if n else [hs, rows]
        return found

    return build, plain


@case((17,), (), (), static=True, order=1)
def the_root_of_few_steps():
    return at_lengths("sqrt", LENGTHS[:4], static=True)


@case((17,), (), (), static=True, order=1)
def the_root_of_sixteen_and_of_seventeen_steps():
    return at_lengths("sqrt", LENGTHS[4:], static=True)


@case((17,), (), (), order=1)
def the_root_of_few_steps_of_unknown_number():
    return at_lengths("sqrt", LENGTHS[:4], static=False)


@case((17,), (), (), order=1)
def the_root_of_seventeen_steps_of_unknown_number():
    return at_lengths("sqrt", LENGTHS[4:], static=False)


@case((17,), (), (), static=True, order=1)
def three_steps_at_a_time():
    return at_lengths(3, (2, 7), static=True)


@case((17,), (), (), order=1)
def four_steps_at_a_time_of_an_unknown_number():
    return at_lengths(4, (7, 16), static=False)


@case((7,), (), ())
def one_step_at_a_time():
    return at_lengths(1, (0, 7), static=False)


@case((7, 2), (2, 2))
def segments_with_taps_read_backwards():
    def build(x, first):
        return scan(
            lambda x_t, later, far, near: gt.sin(far) * x_t + 0.5 * near[::-1] * later,
            {"input": x, "taps": [0, 1]},
            {"initial": first, "taps": [-2, -1]},
            go_backwards=True,
            checkpoint=2,
        )

    def plain(x, first):
        all_ = [*first]
        for t in (5, 4, 3, 2, 1, 0):
            all_.append(np.sin(all_[-2]) * x[t] + 0.5 * all_[-1][::-1] * x[t + 1])
        return np.array(all_[2:])

    return build, plain


@case((7,), ())
def segments_in_reverse():
    def build(x, h0):
        return graphc.loop(
            lambda h, x_t: (gt.tanh(h - x_t), h * x_t), h0, x, reverse=True, checkpoint=3
        )

    def plain(x, h):
        rows = np.zeros(7)
        for t in range(6, -1, -1):
            rows[t] = h * x[t]
            h = np.tanh(h - x[t])
        return h, rows

    return build, plain


@case((2,), np.array(7))
def segments_of_a_number_of_steps_that_is_an_input():
    def build(h0, n):
        return scan(lambda h: gt.sin(h[::-1] + 1), outputs_info=h0, n_steps=n, checkpoint="sqrt")

    def plain(h, n):
        found = []
        for _ in range(n):
            h = np.sin(h[::-1] + 1)
            found.append(h)
        return np.array(found)

    return build, plain


@case((4, 3), (), order=1)
def segments_of_loops_in_loops():
    def build(x, a):
        def step(row, h):
            return scan(lambda v, k: gt.tanh(k * a + v), row, h, checkpoint=2)[-1]

        return scan(step, x, gt.as_tensor(0.5), checkpoint=2)

    def plain(x, a):
        h, found = 0.5, []
        for row in x:
            for v in row:
                h = np.tanh(h * a + v)
            found.append(h)
        return np.array(found)

    return build, plain
