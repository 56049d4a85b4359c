"""Bootstrapped means and regression slopes from a table of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(7)
VALUES, OTHERS = random.normal(size=20) + 3, random.normal(size=20)
WEIGHTS = random.multinomial(20, np.full(20, 0.05), size=50)


def program() -> list[Any]:
    values, others = pt.vectors("values", "others")
    weights = pt.lmatrix("weights")
    w = weights / weights.sum(axis=1, keepdims=True)
    means = w @ values
    m = w @ others
    slopes = ((w @ (values * others)) - means * m) / (w @ others**2 - m**2)
    centred = pt.sort(means)
    f = graphc.function(
        [values, others, weights], [means, means.std(), slopes, centred[1], centred[-2]]
    )
    return f(VALUES, OTHERS, WEIGHTS)


def expected() -> list[Any]:
    rows = [np.repeat(np.arange(20), counts) for counts in WEIGHTS]
    means = np.array([VALUES[i].mean() for i in rows])
    slopes = np.array([np.polyfit(OTHERS[i], VALUES[i], 1)[0] for i in rows])
    ordered = sorted(means)
    return [means, np.std(means), slopes, ordered[1], ordered[-2]]
