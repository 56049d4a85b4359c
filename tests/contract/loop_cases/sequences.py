"""Sequences: one, several, with taps into the past and the future, of unequal lengths."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan
from tests.contract.loop_case import case


@case((5,))
def a_map_over_one_sequence():
    def build(x):
        return scan(lambda x_t: gt.sin(x_t) * x_t, sequences=x)

    def plain(x):
        return np.array([np.sin(x_t) * x_t for x_t in x])

    return build, plain


@case((4, 3), (4,))
def a_map_over_two_sequences_of_different_ranks():
    def build(x, a):
        return scan(lambda x_t, a_t: a_t * gt.exp(x_t) - x_t[::-1], sequences=[x, a])

    def plain(x, a):
        return np.array([a[t] * np.exp(x[t]) - x[t][::-1] for t in range(4)])

    return build, plain


@case((6,), ())
def a_carry_over_a_sequence():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(0.7 * h - x_t), sequences=x, outputs_info=h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.tanh(0.7 * h - x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((7,), ())
def a_sequence_with_taps_into_the_past():
    def build(x, h0):
        return scan(
            lambda before, now, h: h * before + now**2,
            sequences={"input": x, "taps": [-2, 0]},
            outputs_info=h0,
        )

    def plain(x, h):
        found = []
        for t in range(2, 7):
            h = h * x[t - 2] + x[t] ** 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((7,), ())
def a_sequence_with_taps_into_the_future():
    def build(x, h0):
        return scan(
            lambda now, later, h: gt.sin(h) * now - later**2,
            sequences={"input": x, "taps": [0, 3]},
            outputs_info=h0,
        )

    def plain(x, h):
        found = []
        for t in range(4):
            h = np.sin(h) * x[t] - x[t + 3] ** 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((8,), ())
def a_sequence_with_taps_of_both_signs_in_a_written_order():
    def build(x, h0):
        return scan(
            lambda later, before, h: gt.cos(h * later) - 3 * before**2,
            sequences={"input": x, "taps": [2, -1]},
            outputs_info=h0,
        )

    def plain(x, h):
        found = []
        for t in range(1, 6):
            h = np.cos(h * x[t + 2]) - 3 * x[t - 1] ** 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((7, 2))
def a_sequence_with_past_taps_alone():
    def build(x):
        return scan(
            lambda far, near: far * gt.exp(near[0]), sequences={"input": x, "taps": [-3, -1]}
        )

    def plain(x):
        return np.array([x[t - 3] * np.exp(x[t - 1][0]) for t in range(3, 7)])

    return build, plain


@case((7, 2))
def a_sequence_with_future_taps_alone():
    def build(x):
        return scan(lambda near, far: far * gt.exp(near[1]), sequences={"input": x, "taps": [1, 2]})

    def plain(x):
        return np.array([x[t + 2] * np.exp(x[t + 1][1]) for t in range(5)])

    return build, plain


@case((8,), (6,), ())
def two_sequences_with_different_taps():
    def build(x, z, h0):
        return scan(
            lambda x_old, x_t, z_t, z_next, h: h + x_old * z_next - gt.sin(x_t * z_t),
            sequences=[{"input": x, "taps": [-1, 0]}, {"input": z, "taps": [0, 1]}],
            outputs_info=h0,
        )

    def plain(x, z, h):
        found = []
        # x is read from its second element on, z up to its last but one: five pairs.
        for t in range(5):
            h = h + x[t] * z[t + 1] - np.sin(x[t + 1] * z[t])
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), (3,), (7,))
def sequences_of_unequal_lengths_stop_at_the_shortest():
    def build(x, y, z):
        return scan(lambda a, b, c: a * b**2 * gt.exp(c), sequences=[x, y, z])

    def plain(x, y, z):
        return np.array([a * b**2 * np.exp(c) for a, b, c in zip(x, y, z, strict=False)])

    return build, plain


@case((9,), ())
def fewer_steps_than_the_sequence_has():
    def build(x, h0):
        return scan(lambda x_t, h: h * x_t + 1, sequences=x, outputs_info=h0, n_steps=4)

    def plain(x, h):
        found = []
        for t in range(4):
            h = h * x[t] + 1
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), ())
def a_sequence_read_backwards():
    def build(x, h0):
        return scan(lambda x_t, h: gt.sin(h + x_t) * 2, x, h0, go_backwards=True)

    def plain(x, h):
        found = []
        for x_t in x[::-1]:
            h = np.sin(h + x_t) * 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((8,), ())
def taps_read_backwards():
    def build(x, h0):
        return scan(
            lambda before, later, h: gt.tanh(h) * before + later**2,
            sequences={"input": x, "taps": [-1, 2]},
            outputs_info=h0,
            go_backwards=True,
        )

    def plain(x, h):
        found = []
        for t in range(5, 0, -1):
            h = np.tanh(h) * x[t - 1] + x[t + 2] ** 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((9,), ())
def backwards_and_fewer_steps_begins_at_the_end():
    def build(x, h0):
        return scan(lambda x_t, h: h * x_t + x_t**2, x, h0, n_steps=4, go_backwards=True)

    def plain(x, h):
        found = []
        for t in range(8, 4, -1):
            h = h * x[t] + x[t] ** 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((8,), (5,))
def a_map_read_backwards_over_unequal_lengths():
    def build(x, y):
        return scan(lambda a, b: a - gt.exp(b), sequences=[x, y], go_backwards=True)

    def plain(x, y):
        # Each is reversed from its own end, and only then cut.
        return np.array([x[7 - t] - np.exp(y[4 - t]) for t in range(5)])

    return build, plain


@case((5, 2, 3), (2,))
def a_sequence_of_matrices():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(x_t[:, 1:] @ h), x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.tanh(x_t[:, 1:] @ h)
            found.append(h)
        return np.array(found)

    return build, plain


@case((6,), (4,))
def an_index_as_a_sequence():
    def build(x, w):
        return scan(
            lambda i, h: h * x[i] + w[i % 4] * gt.sin(x[5 - i]),
            sequences=gt.arange(6),
            outputs_info=gt.as_tensor(0.5),
        )

    def plain(x, w):
        h, found = 0.5, []
        for i in range(6):
            h = h * x[i] + w[i % 4] * np.sin(x[5 - i])
            found.append(h)
        return np.array(found)

    return build, plain


@case((6,), np.array([3, 0, 5, 3, 1]))
def an_index_from_an_integer_sequence():
    def build(x, places):
        return scan(lambda i, h: h + x[i] * h**2, sequences=places, outputs_info=gt.as_tensor(0.3))

    def plain(x, places):
        h, found = 0.3, []
        for i in places:
            h = h + x[i] * h**2
            found.append(h)
        return np.array(found)

    return build, plain


@case((4, 5))
def a_transposed_sequence():
    def build(x):
        return scan(lambda x_t, h: gt.sin(h) + x_t, x.T, gt.zeros((4,)))

    def plain(x):
        h, found = np.zeros(4), []
        for t in range(5):
            h = np.sin(h) + x[:, t]
            found.append(h)
        return np.array(found)

    return build, plain


@case((9,), ())
def every_other_element_from_the_end():
    def build(x, h0):
        return scan(lambda x_t, h: h * x_t + 2, x[::-2], h0)

    def plain(x, h):
        found = []
        for t in (8, 6, 4, 2, 0):
            h = h * x[t] + 2
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), ())
def one_sequence_twice():
    def build(x, h0):
        return scan(lambda a, b, h: h * a + b**3, sequences=[x, x[::-1]], outputs_info=h0)

    def plain(x, h):
        found = []
        for a, b in zip(x, x[::-1], strict=True):
            h = h * a + b**3
            found.append(h)
        return np.array(found)

    return build, plain


@case((4, 3))
def the_map_function():
    def build(x):
        return graphc.map(lambda row: (row * row[0]).sum() + gt.exp(row[2]), x)

    def plain(x):
        return np.array([(row * row[0]).sum() + np.exp(row[2]) for row in x])

    return build, plain


@case((5,), (5,), ())
def a_map_of_several_with_a_non_sequence():
    def build(x, y, a):
        return graphc.map(lambda x_t, y_t, a: x_t**a + y_t, [gt.exp(x), y], non_sequences=a)

    def plain(x, y, a):
        return np.array([np.exp(p) ** a + q for p, q in zip(x, y, strict=True)])

    return build, plain


@case((5,), ())
def the_reduce_function():
    def build(x, h0):
        return graphc.reduce(lambda x_t, h: h * gt.cos(x_t) - x_t, x, outputs_info=h0)

    def plain(x, h):
        for x_t in x:
            h = h * np.cos(x_t) - x_t
        return h

    return build, plain


@case((5,), ())
def folds_from_both_ends():
    def build(x, h0):
        step = lambda x_t, h: h * gt.cos(x_t) - x_t  # noqa: E731
        return graphc.foldl(step, x, h0), graphc.foldr(step, x, h0)

    def plain(x, h):
        left = right = h
        for x_t in x:
            left = left * np.cos(x_t) - x_t
        for x_t in x[::-1]:
            right = right * np.cos(x_t) - x_t
        return left, right

    return build, plain


@case((4, 2), (3,), (3,))
def a_sequence_of_one_row_a_step_read_by_two_loops():
    def build(x, a, b):
        first = scan(lambda x_t, h: gt.tanh(h * a[:2] + x_t), x, a[1:])
        second = scan(lambda x_t, y_t, h: h * y_t.sum() + x_t[0], [x, first], b[0])
        return first, second

    def plain(x, a, b):
        h, first = a[1:], []
        for x_t in x:
            h = np.tanh(h * a[:2] + x_t)
            first.append(h)
        k, second = b[0], []
        for x_t, y_t in zip(x, first, strict=True):
            k = k * y_t.sum() + x_t[0]
            second.append(k)
        return np.array(first), np.array(second)

    return build, plain
