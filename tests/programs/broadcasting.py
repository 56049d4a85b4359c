"""Rows, columns and new axes: arrays of different ranks together."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(8)
A, V, C = random.normal(size=(3, 4)), random.normal(size=4), random.normal(size=(3, 1))


def program() -> list[Any]:
    a, v, c, r = pt.matrix("a"), pt.vector("v"), pt.col("c"), pt.row("r")
    table = c * r
    grown = v.dimshuffle("x", 0) + a.dimshuffle(1, 0).dimshuffle(1, 0)
    cube = a[:, :, np.newaxis] * v
    pairs = pt.outer(v, v) - v[:, None] * v[None, :]
    spread = pt.broadcast_to(v, (2, 4)) + pt.zeros((2, 1))
    f = graphc.function(
        [a, v, c, r],
        [
            table,
            grown,
            cube,
            pairs,
            spread,
            (a - a.mean(axis=1, keepdims=True)) / a.std(axis=1)[:, None],
        ],
    )
    shapes = [table.broadcastable == (False, False), c.broadcastable == (False, True)]
    return [*f(A, V, C, V[None]), np.array(shapes)]


def expected() -> list[Any]:
    return [
        np.outer(C, V),
        np.add(A, V),
        np.einsum("ij,k->ijk", A, V),
        np.zeros((4, 4)),
        np.tile(V, (2, 1)),
        np.array([(row - np.mean(row)) / np.std(row) for row in A]),
        np.array([True, True]),
    ]
