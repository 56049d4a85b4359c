"""Loops over containers: ``graphc.loop`` with tuples, dicts, named tuples and dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import graphc
import graphc.tensor as gt
from tests.contract.loop_case import case


class Pair(NamedTuple):
    """A carry."""

    mean: Any
    spread: Any


@dataclass(frozen=True)
class Filter:
    """A carry, one field of which is a container."""

    level: Any
    inner: Any


@case((5,), ())
def a_carry_that_is_an_array():
    def build(x, h0):
        last, rows = graphc.loop(lambda h, x_t: (gt.tanh(h + x_t), h * x_t), h0, x)
        return last, rows

    def plain(x, h):
        rows = []
        for x_t in x:
            rows.append(h * x_t)
            h = np.tanh(h + x_t)
        return h, np.array(rows)

    return build, plain


@case((5,), ())
def a_carry_without_rows():
    def build(x, h0):
        last, rows = graphc.loop(lambda h, x_t: (gt.tanh(h + x_t), None), h0, x)
        assert rows is None
        return last

    def plain(x, h):
        for x_t in x:
            h = np.tanh(h + x_t)
        return h

    return build, plain


@case((5,), ())
def a_tuple_in_reverse():
    def build(x, h0):
        def step(carry, x_t):
            a, b = carry
            return (b, gt.sin(a) * x_t), a - x_t

        (a, b), rows = graphc.loop(step, (h0, 2 * h0), x, reverse=True)
        return a, b, rows

    def plain(x, h):
        a, b, rows = h, 2 * h, np.zeros(5)
        for t in (4, 3, 2, 1, 0):
            rows[t] = a - x[t]
            a, b = b, np.sin(a) * x[t]
        return a, b, rows

    return build, plain


@case((4, 2), (4,), ())
def dicts_of_everything():
    def build(x, y, h0):
        def step(carry, given):
            total = carry["total"] + given["x"].sum() * given["y"]
            return (
                {"total": total, "last": given["x"] * carry["total"]},
                {"squares": total**2, "turned": given["x"][::-1] * carry["last"]},
            )

        init = {"total": h0, "last": gt.zeros((2,))}
        final, rows = graphc.loop(step, init, {"x": x, "y": y})
        return final["last"], final["total"], rows["turned"], rows["squares"]

    def plain(x, y, total):
        last, squares, turned = np.zeros(2), [], []
        for x_t, y_t in zip(x, y, strict=True):
            turned.append(x_t[::-1] * last)
            last = x_t * total
            total = total + x_t.sum() * y_t
            squares.append(total**2)
        return last, total, np.array(turned), np.array(squares)

    return build, plain


@case((5,), ())
def a_named_tuple():
    def build(x, h0):
        def step(carry, x_t):
            off = x_t - carry.mean
            new = Pair(carry.mean + 0.25 * off, 0.5 * carry.spread + off**2)
            return new, Pair(off, new.mean)

        final, rows = graphc.loop(step, Pair(h0, gt.exp(h0)), x)
        return final.mean, final.spread, rows.mean, rows.spread

    def plain(x, mean):
        spread, offs, means = np.exp(mean), [], []
        for x_t in x:
            off = x_t - mean
            mean, spread = mean + 0.25 * off, 0.5 * spread + off**2
            offs.append(off)
            means.append(mean)
        return mean, spread, np.array(offs), np.array(means)

    return build, plain


@case((5,), ())
def a_dataclass_with_a_list_in_it():
    def build(x, h0):
        def step(carry, x_t):
            a, b = carry.inner
            return Filter(carry.level * a + x_t, [gt.cos(b), a * x_t]), (carry.level, [a])

        final, (levels, (a,)) = graphc.loop(step, Filter(h0, [h0 + 1, h0**2]), x)
        return final.level, *final.inner, levels, a

    def plain(x, level):
        a, b, levels, rows = level + 1, level**2, [], []
        for x_t in x:
            levels.append(level)
            rows.append(a)
            level, a, b = level * a + x_t, np.cos(b), a * x_t
        return level, a, b, np.array(levels), np.array(rows)

    return build, plain


@case((2,), ())
def a_number_of_steps_without_sequences():
    def build(h0, a):
        return graphc.loop(lambda h, _: (gt.sin(h * a) + 1, h[0]), h0, n_steps=4)

    def plain(h, a):
        rows = []
        for _ in range(4):
            rows.append(h[0])
            h = np.sin(h * a) + 1
        return h, np.array(rows)

    return build, plain


@case((6,), (), np.array(4))
def fewer_steps_than_elements_by_an_input():
    def build(x, h0, n):
        return graphc.loop(lambda h, x_t: (gt.sin(h * x_t) + 1, h), h0, x[:n], n_steps=n)

    def plain(x, h, n):
        rows = []
        for x_t in x[:n]:
            rows.append(h)
            h = np.sin(h * x_t) + 1
        return h, np.array(rows)

    return build, plain


@case((6,))
def python_numbers_as_carries():
    def build(x):
        def step(carry, x_t):
            n, total, seen = carry
            return (n + 1, total + x_t * n, seen | (x_t < -0.5)), total

        return [*graphc.loop(step, (0, 0.0, False), x)[0]]

    def plain(x):
        return np.array(6), np.sum(x * np.arange(6)), np.array(bool(np.any(x < -0.5)))

    return build, plain


@case((8,), np.array(0.9))
def a_loop_until_its_carry_is_large():
    def build(x, a):
        def step(h, x_t):
            return h * a + x_t**2, h - x_t

        return graphc.loop(step, gt.as_tensor(0.1), x, until=lambda h: h > 2.0)

    def plain(x, a):
        h, rows = 0.1, []
        for x_t in x:
            rows.append(h - x_t)
            h = h * a + x_t**2
            if h > 2.0:
                break
        assert 1 < len(rows) < 8
        return h, np.array(rows)

    return build, plain


@case((8,), np.array(0.9))
def a_loop_in_reverse_until_its_carry_is_large():
    def build(x, a):
        def step(h, x_t):
            return h * a + x_t**2, h - x_t

        return graphc.loop(step, gt.as_tensor(0.1), x, until=lambda h: h > 2.0, reverse=True)

    def plain(x, a):
        h, rows = 0.1, []
        for x_t in x[::-1]:
            rows.append(h - x_t)
            h = h * a + x_t**2
            if h > 2.0:
                break
        assert 1 < len(rows) < 8
        return h, np.array(rows[::-1])

    return build, plain


@case(np.array(0.3), np.array(0.2))
def a_loop_with_a_bound_and_no_sequences():
    def build(a, b):
        return graphc.loop(
            lambda c, _: ((c[0] * 1.5 + b, c[1] + gt.sin(c[0])), None),
            (a, b),
            until=lambda c: c[0] > 3,
            max_steps=20,
        )[0]

    def plain(p, q):
        b = q
        while True:
            p, q = p * 1.5 + b, q + np.sin(p)
            if p > 3:
                return p, q

    return build, plain


@case((9,), ())
def steps_written_out_three_at_a_time():
    def build(x, h0):
        return graphc.loop(lambda h, x_t: (gt.tanh(h - x_t), h * x_t), h0, x, unroll=3)

    def plain(x, h):
        rows = []
        for x_t in x:
            rows.append(h * x_t)
            h = np.tanh(h - x_t)
        return h, np.array(rows)

    return build, plain


@case((7,), ())
def steps_written_out_four_at_a_time_in_reverse():
    def build(x, h0):
        return graphc.loop(
            lambda h, x_t: (gt.tanh(h - x_t), h * x_t), h0, x, unroll=4, reverse=True
        )

    def plain(x, h):
        rows = np.zeros(7)
        for t in range(6, -1, -1):
            rows[t] = h * x[t]
            h = np.tanh(h - x[t])
        return h, rows

    return build, plain
