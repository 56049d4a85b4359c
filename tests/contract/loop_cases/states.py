"""States: one or several past values of each, several outputs, last ones, and what is not kept."""

from __future__ import annotations

import numpy as np

import graphc
import graphc.tensor as gt
from graphc import scan
from tests.contract.loop_case import case


@case((2,))
def the_two_states_before():
    def build(first):
        return scan(
            lambda far, near: gt.sin(near) - 0.5 * far,
            outputs_info={"initial": first, "taps": [-2, -1]},
            n_steps=6,
        )

    def plain(first):
        all_ = [*first]
        for _ in range(6):
            all_.append(np.sin(all_[-1]) - 0.5 * all_[-2])
        return np.array(all_[2:])

    return build, plain


@case((2,))
def the_two_states_before_in_the_other_order():
    def build(first):
        return scan(
            lambda near, far: gt.sin(near) - 0.5 * far,
            outputs_info={"initial": first, "taps": [-1, -2]},
            n_steps=6,
        )

    def plain(first):
        all_ = [*first]
        for _ in range(6):
            all_.append(np.sin(all_[-1]) - 0.5 * all_[-2])
        return np.array(all_[2:])

    return build, plain


@case((3,), (6,))
def states_with_a_gap_between():
    def build(first, x):
        return scan(
            lambda x_t, far, near: far * x_t + near**2 * 0.3,
            sequences=x,
            outputs_info={"initial": first, "taps": [-3, -1]},
        )

    def plain(first, x):
        all_ = [*first]
        for x_t in x:
            all_.append(all_[-3] * x_t + all_[-1] ** 2 * 0.3)
        return np.array(all_[3:])

    return build, plain


@case((5,), (6,))
def more_initial_states_than_are_read():
    def build(first, x):
        return scan(
            lambda x_t, far, near: far * x_t - gt.cos(near),
            sequences=x,
            outputs_info={"initial": first, "taps": [-3, -2]},
        )

    def plain(first, x):
        # Only the first three of them are read.
        all_ = [*first[:3]]
        for x_t in x:
            all_.append(all_[-3] * x_t - np.cos(all_[-2]))
        return np.array(all_[3:])

    return build, plain


@case((11,))
def a_window_of_eleven_states():
    def build(first):
        return scan(
            lambda a, b, c: gt.sin(a) + 0.5 * b - 0.25 * c,
            outputs_info={"initial": first, "taps": [-11, -1, -4]},
            n_steps=14,
        )

    def plain(first):
        all_ = [*first]
        for _ in range(14):
            all_.append(np.sin(all_[-11]) + 0.5 * all_[-1] - 0.25 * all_[-4])
        return np.array(all_[11:])

    return build, plain


@case((10, 2), (3, 2))
def a_window_of_ten_vectors_and_few_steps():
    def build(first, x):
        return scan(
            lambda x_t, *past: x_t * gt.sin(sum((i + 1) * p / 10 for i, p in enumerate(past))),
            sequences=x,
            outputs_info={"initial": 0.1 * first, "taps": [*range(-10, 0)]},
        )

    def plain(first, x):
        all_ = [*(0.1 * first)]
        for x_t in x:
            past = all_[-10:]
            all_.append(x_t * np.sin(sum((i + 1) * p / 10 for i, p in enumerate(past))))
        return np.array(all_[10:])

    return build, plain


@case((4,), (2, 2), ())
def two_states_with_different_taps():
    def build(x, first, k0):
        return scan(
            lambda x_t, near, far, k: [gt.tanh(near * k) - far * x_t, k + near.sum() * x_t],
            sequences=x,
            outputs_info=[{"initial": first, "taps": [-1, -2]}, k0],
        )

    def plain(x, first, k):
        all_, ks = [*first], []
        for x_t in x:
            near, far = all_[-1], all_[-2]
            all_.append(np.tanh(near * k) - far * x_t)
            k = k + near.sum() * x_t
            ks.append(k)
        return np.array(all_[2:]), np.array(ks)

    return build, plain


@case((4,), ())
def outputs_of_all_kinds_in_the_order_written():
    def build(x, h0):
        return scan(
            lambda x_t, h, far, near: [h * x_t, h + x_t, far - near * h, x_t**2],
            sequences=x,
            outputs_info=[h0, None, {"initial": gt.stack([h0, 2 * h0]), "taps": [-2, -1]}, None],
        )

    def plain(x, h):
        found = [], [], [], []
        past = [h, 2 * h]
        for x_t in x:
            made = h * x_t, h + x_t, past[-2] - past[-1] * h, x_t**2
            h = made[0]
            past.append(made[2])
            for row, y in zip(found, made, strict=True):
                row.append(y)
        return [np.array(row) for row in found]

    return build, plain


@case((4,), ())
def outputs_without_a_state_first():
    def build(x, h0):
        a, b, c = scan(
            lambda x_t, h: [gt.exp(h) * x_t, 3 - h, h * x_t + 1],
            sequences=x,
            outputs_info=[None, None, h0],
        )
        return c, a, b

    def plain(x, h):
        a, b, c = [], [], []
        for x_t in x:
            a.append(np.exp(h) * x_t)
            b.append(3 - h)
            h = h * x_t + 1
            c.append(h)
        return np.array(c), np.array(a), np.array(b)

    return build, plain


@case((5,), ())
def the_last_state_alone():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(h * 1.5 + x_t), x, h0)[-1]

    def plain(x, h):
        for x_t in x:
            h = np.tanh(h * 1.5 + x_t)
        return h

    return build, plain


@case((6, 2), (2,))
def the_last_three_states():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(h[::-1] * 1.5 + x_t), x, h0)[-3:]

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.tanh(h[::-1] * 1.5 + x_t)
            found.append(h)
        return np.array(found[-3:])

    return build, plain


@case((6,), ())
def one_state_from_the_middle_and_the_first():
    def build(x, h0):
        trace = scan(lambda x_t, h: gt.sin(h * 1.5 + x_t), x, h0)
        return trace[2], trace[0], trace[-2]

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.sin(h * 1.5 + x_t)
            found.append(h)
        return found[2], found[0], found[-2]

    return build, plain


@case((6,), ())
def a_trace_reduced_in_several_ways():
    def build(x, h0):
        trace = scan(lambda x_t, h: gt.sin(h * 1.5 + x_t), x, h0)
        return trace.sum(), (trace**2).mean(), gt.logsumexp(trace), trace.max()

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.sin(h * 1.5 + x_t)
            found.append(h)
        y = np.array(found)
        return y.sum(), (y**2).mean(), np.log(np.exp(y).sum()), y.max()

    return build, plain


@case((5,), ())
def one_of_two_outputs_is_not_used():
    def build(x, h0):
        kept, *_ = scan(
            lambda x_t, h, k: [gt.tanh(h - x_t), k * h],
            sequences=x,
            outputs_info=[h0, gt.as_tensor(1.0)],
        )
        return kept

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.tanh(h - x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((3, 2), ())
def a_matrix_state():
    def build(m0, a):
        return scan(lambda m: gt.tanh(m @ (m.T @ m) * a) + 0.1, outputs_info=m0, n_steps=3)

    def plain(m, a):
        found = []
        for _ in range(3):
            m = np.tanh(m @ (m.T @ m) * a) + 0.1
            found.append(m)
        return np.array(found)

    return build, plain


@case((3, 3))
def a_state_that_is_transposed_every_step():
    def build(m0):
        return scan(lambda m: m.T * gt.as_tensor([[1.0, 2.0, -1.0]]), outputs_info=m0, n_steps=3)

    def plain(m):
        found = []
        for _ in range(3):
            m = m.T * np.array([[1.0, 2.0, -1.0]])
            found.append(m)
        return np.array(found)

    return build, plain


@case((3,))
def a_state_that_is_only_turned_around():
    def build(h0):
        return scan(lambda h: h[::-1], outputs_info=h0, n_steps=3)

    def plain(h):
        return np.array([h[::-1], h, h[::-1]])

    return build, plain


@case((3,), ())
def a_state_that_never_changes():
    def build(x, h0):
        return scan(lambda x_t, h, k: [h, k * h + x_t], x, [h0, gt.as_tensor(0.0)])

    def plain(x, h):
        k, found = 0.0, []
        for x_t in x:
            k = k * h + x_t
            found.append(k)
        return np.array([h] * 3), np.array(found)

    return build, plain


@case((), ())
def two_states_that_change_places():
    def build(a, b):
        return scan(lambda p, q: [q, p * 1.1], outputs_info=[a, b], n_steps=5)

    def plain(p, q):
        ps, qs = [], []
        for _ in range(5):
            p, q = q, p * 1.1
            ps.append(p)
            qs.append(q)
        return np.array(ps), np.array(qs)

    return build, plain


@case((4, 0), (0,))
def states_without_elements():
    def build(x, h0):
        return scan(lambda x_t, h: gt.tanh(h + x_t), x, h0)

    def plain(x, h):
        return np.zeros((4, 0))

    return build, plain


@case((5,), order=1)
def a_state_that_is_not_kept():
    def build(x):
        last, rows = scan(
            lambda x_t, n: [n * 2 + 1, x_t * n],
            sequences=x,
            outputs_info=[{"initial": gt.as_tensor(1), "traced": False}, None],
        )
        return rows, last

    def plain(x):
        n, found = 1, []
        for x_t in x:
            found.append(x_t * n)
            n = n * 2 + 1
        return np.array(found), np.array(n)

    return build, plain


@case((5,), np.array(12345, "uint32"))
def random_numbers_by_a_generator_of_integers():
    def build(x, seed):
        def step(x_t, h, state):
            new = state * gt.as_tensor(1664525, dtype="uint32") + gt.as_tensor(
                1013904223, dtype="uint32"
            )
            u = gt.cast(new >> 8, "float64") / 2**24
            return [gt.tanh(h + u * x_t), new]

        rows, states = scan(step, x, [gt.as_tensor(0.25), seed])
        return rows, states

    def plain(x, seed):
        h, state, rows, states = 0.25, int(seed), [], []
        for x_t in x:
            state = (state * 1664525 + 1013904223) % 2**32
            h = np.tanh(h + (state >> 8) / 2**24 * x_t)
            rows.append(h)
            states.append(state)
        return np.array(rows), np.array(states, "uint32")

    return build, plain


@case((5,), ())
def an_integer_a_bool_and_a_float():
    def build(x, h0):
        return scan(
            lambda x_t, n, odd, h: [n + 2, ~odd, gt.where(odd, h * x_t, h + n * x_t)],
            sequences=x,
            outputs_info=[gt.as_tensor(3), gt.as_tensor(False), h0],
        )

    def plain(x, h):
        n, odd, ns, odds, hs = 3, False, [], [], []
        for x_t in x:
            n, odd, h = n + 2, not odd, h * x_t if odd else h + n * x_t
            ns.append(n)
            odds.append(odd)
            hs.append(h)
        return np.array(ns), np.array(odds), np.array(hs)

    return build, plain


@case((4,), np.array([2, 3, 1, 2]))
def a_counter_decides_what_is_read():
    def build(x, by):
        return scan(
            lambda k, place, h: [(place + k) % 4, h * x[place] + x[(place + 1) % 4]],
            sequences=by,
            outputs_info=[gt.as_tensor(1), gt.as_tensor(0.5)],
        )

    def plain(x, by):
        place, h, places, hs = 1, 0.5, [], []
        for k in by:
            h = h * x[place] + x[(place + 1) % 4]
            place = (place + k) % 4
            places.append(place)
            hs.append(h)
        return np.array(places), np.array(hs)

    return build, plain


@case((3, 4))
def a_buffer_filled_by_the_steps():
    def build(x):
        def step(i, x_t, filled):
            return gt.set_subtensor(filled[i, 1:], x_t[1:] * (1 + filled[i - 1, 0]) + x_t[0])

        return scan(step, [gt.arange(3), x], gt.ones((3, 4)) * x[0, 0])[-1]

    def plain(x):
        filled = np.ones((3, 4)) * x[0, 0]
        for i in range(3):
            filled[i, 1:] = x[i, 1:] * (1 + filled[i - 1, 0]) + x[i, 0]
        return filled

    return build, plain


@case((5,), (4,), np.array([2, 0, 2, 1, 2]))
def additions_at_places_that_repeat():
    def build(x, h0, places):
        return scan(
            lambda x_t, i, h: gt.inc_subtensor(h[i], x_t * h[3 - i]), [x, places], outputs_info=h0
        )

    def plain(x, h, places):
        found = []
        for x_t, i in zip(x, places, strict=True):
            h = h.copy()
            h[i] += x_t * h[3 - i]
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), (2,), (2, 2))
def an_initial_state_made_of_others():
    def build(x, a, m):
        return scan(lambda x_t, h: gt.tanh(m @ h + x_t), x, gt.exp(m @ a) * x.sum())

    def plain(x, a, m):
        h, found = np.exp(m @ a) * x.sum(), []
        for x_t in x:
            h = np.tanh(m @ h + x_t)
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,))
def an_initial_state_that_is_a_python_number():
    def build(x):
        return scan(lambda x_t, h: h * 0.5 + x_t, x, 0.75)

    def plain(x):
        h, found = 0.75, []
        for x_t in x:
            h = h * 0.5 + x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((4,), (2,), ())
def the_same_initial_state_twice():
    def build(x, h0, a):
        return scan(lambda x_t, h, k: [h * a + x_t, k * x_t + h], x, [h0, h0])

    def plain(x, h, a):
        k, hs, ks = h, [], []
        for x_t in x:
            h, k = h * a + x_t, k * x_t + h
            hs.append(h)
            ks.append(k)
        return np.array(hs), np.array(ks)

    return build, plain


@case((5,), (3, 2))
def many_readings_of_one_state_and_sequence():
    def build(x, first):
        return scan(
            lambda x_old, x_t, far, near: (
                gt.sin(far * x_old) + near * x_t - far * near * x_old + far[::-1] * 0.2
            ),
            sequences={"input": x, "taps": [-1, 0]},
            outputs_info={"initial": first, "taps": [-3, -1]},
        )

    def plain(x, first):
        all_ = [*first]
        for t in range(1, 5):
            far, near = all_[-3], all_[-1]
            all_.append(
                np.sin(far * x[t - 1]) + near * x[t] - far * near * x[t - 1] + far[::-1] * 0.2
            )
        return np.array(all_[3:])

    return build, plain


@case((6,), (2,))
def a_list_for_the_only_output():
    def build(x, h0):
        (found,) = scan(lambda x_t, h: [h * x_t], x, [h0], return_list=True)
        return found

    def plain(x, h):
        found = []
        for x_t in x:
            h = h * x_t
            found.append(h)
        return np.array(found)

    return build, plain


@case((5,), ())
def a_running_maximum():
    def build(x, h0):
        return scan(lambda x_t, h: gt.maximum(h, x_t), x, h0)

    def plain(x, h):
        return np.array([max(h, *x[: t + 1]) for t in range(5)])

    return build, plain


@case((6,), (), order=1)
def a_choice_every_step():
    def build(x, h0):
        # The root of what is not chosen is NaN.
        return scan(lambda x_t, h: gt.where(h > x_t, gt.sqrt(h - x_t + 1), x_t * h), x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            h = np.sqrt(h - x_t + 1) if h > x_t else x_t * h
            found.append(h)
        return np.array(found)

    return build, plain


@case((4,), (3,))
def a_softmax_and_a_sort_every_step():
    def build(x, h0):
        return scan(lambda x_t, h: gt.softmax(gt.sort(h)[::-1] * x_t) + h * 0.1, x, h0)

    def plain(x, h):
        found = []
        for x_t in x:
            e = np.exp(np.sort(h)[::-1] * x_t)
            h = e / e.sum() + h * 0.1
            found.append(h)
        return np.array(found)

    return build, plain


@case(())
def a_shared_value_in_the_step():
    weights = np.array([0.5, -1.25, 2.0])

    def build(a):
        w = graphc.shared(weights, name="w")
        return scan(lambda w_t, h: gt.sin(h * a + w_t) + w[0], w, a)

    def plain(a):
        h, found = a, []
        for w_t in weights:
            h = np.sin(h * a + w_t) + weights[0]
            found.append(h)
        return np.array(found)

    return build, plain
