"""set_subtensor and inc_subtensor: arrays with a part replaced or added to."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

START = np.arange(12.0).reshape(3, 4)


def program() -> list[Any]:
    x, v = pt.matrix("x"), pt.vector("v")
    i = pt.lvector("i")
    rows = pt.set_subtensor(x[1], v)
    column = pt.inc_subtensor(x[:, 0], v[:3])
    corner = x[:2, :2].set(0)
    thrice = x[i].inc(v)
    once = pt.set_subtensor(x[i, 0], -1.0)
    twice = pt.inc_subtensor(rows[1, ::2], 10)
    negative = pt.set_subtensor(x[x < 5], 0)
    by_v = graphc.grad((thrice**2).sum(), v)
    f = graphc.function([x, v, i], [rows, column, corner, thrice, once, twice, negative, by_v])
    return f(START, [1.0, 2.0, 3.0, 4.0], [0, 2, 0])


def expected() -> list[Any]:
    v, i = np.array([1.0, 2.0, 3.0, 4.0]), [0, 2, 0]
    rows, column, corner, thrice, once = (START.copy() for _ in range(5))
    rows[1] = v
    column[:, 0] += v[:3]
    corner[:2, :2] = 0
    np.add.at(thrice, i, v)
    once[i, 0] = -1
    twice = rows.copy()
    twice[1, ::2] += 10
    return [
        rows,
        column,
        corner,
        thrice,
        once,
        twice,
        np.where(START < 5, 0, START),
        2 * thrice[i].sum(0),
    ]
