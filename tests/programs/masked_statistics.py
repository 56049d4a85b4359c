"""Means and losses of what is there, by switch and where; gradients without NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

DATA = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 2.0], [4.0, 5.0, 6.0]])


def program() -> list[Any]:
    x = pt.dmatrix("x")
    there = pt.invert(pt.isnan(x))
    count = there.sum(axis=0)
    filled = pt.switch(there, x, 0)
    mean = filled.sum(axis=0) / count
    off = pt.where(there, x - mean, 0)
    deviation = pt.sqrt((off**2).sum(axis=0) / count)
    positive = pt.switch(pt.gt(x, 2.5), pt.sqrt(pt.maximum(x - 2.5, 0)), 0.0)
    some = pt.any(there, axis=1) & ~pt.all(there, axis=1)
    cost = filled.sum() + pt.log(pt.clip(filled, 1e-3, 10)).sum()
    f = graphc.function([x], [mean, deviation, positive, some, graphc.grad(cost, x)])
    return f(DATA)


def expected() -> list[Any]:
    masked = np.ma.masked_invalid(DATA)
    here = np.isfinite(DATA)
    return [
        masked.mean(0).data,
        masked.std(0).data,
        np.sqrt(np.nan_to_num(DATA - 2.5).clip(0)),
        np.array([True, True, False]),
        np.where(here, 1 + 1 / np.nan_to_num(DATA, nan=1.0), 0),
    ]
