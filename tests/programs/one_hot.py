"""Labels as rows of zeros and a one, counts of labels and of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

LABELS, GUESSES = np.array([2, 0, 1, 2, 2, 0]), np.array([2, 1, 1, 0, 2, 0])


def program() -> list[Any]:
    labels, guesses = pt.lvectors("labels", "guesses")
    hot = pt.eq(labels[:, None], pt.arange(3)[None, :])
    rows = pt.eye(3)[guesses]
    counts = hot.sum(axis=0)
    confusion = pt.dot(hot.T.astype("float64"), rows)
    table = pt.zeros((3, 3), dtype="int64")[labels, guesses].inc(1)
    accuracy = pt.diag(table).sum() / labels.shape[0]
    f = graphc.function(
        [labels, guesses], [hot, counts, confusion, table, accuracy, pt.cumsum(counts)]
    )
    return f(LABELS, GUESSES)


def expected() -> list[Any]:
    table = np.zeros((3, 3), int)
    for i, j in zip(LABELS, GUESSES, strict=True):
        table[i, j] += 1
    return [
        np.array([[i == k for k in range(3)] for i in LABELS]),
        np.bincount(LABELS),
        table.astype(float),
        table,
        np.mean(LABELS == GUESSES),
        np.add.accumulate(np.bincount(LABELS)),
    ]
