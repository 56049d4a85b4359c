"""Orthonormal columns by the modified Gram-Schmidt process, written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

MATRIX = np.random.default_rng(11).normal(size=(5, 3))


def program() -> list[Any]:
    a = pt.tensor("a", shape=(None, 3), dtype="float64")
    columns = []
    for i in range(3):
        v = a[:, i]
        for q in columns:
            v = v - pt.dot(q, v) * q
        columns.append(v / pt.sqrt(pt.sum(pt.sqr(v))))
    q = pt.stack(columns).T
    r = pt.triu(q.T @ a)
    f = graphc.function([a], [q, r, pt.dot(q, r), abs(pt.prod(pt.diagonal(r)))])
    return f(MATRIX)


def expected() -> list[Any]:
    q, r = np.linalg.qr(MATRIX)
    signs = np.sign(np.diag(r))
    gram = MATRIX.T @ MATRIX
    return [q * signs, r * signs[:, None], MATRIX, np.sqrt(np.linalg.det(gram))]
