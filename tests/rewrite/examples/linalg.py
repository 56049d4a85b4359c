"""Examples of the rules in graphc/rewrite/rules/linalg.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.rewrite.rules.linalg import kron_times
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.core.axes import ExpandDims
from tests.rewrite.arrays import Example, make

a, b = gt.tensor("four", shape=(4, 4)), gt.tensor("tall", shape=(4, 3))
t, v = gt.tensor("three", shape=(3, 3)), gt.tensor("scale", shape=(4,))
stack = gt.tensor("pair", shape=(2, 4, 4))
columns, row = gt.tensor("columns", shape=(12, 5)), gt.tensor("row", shape=(12,))
lines = gt.tensor("lines", shape=(5, 12))
turning = gt.tensor("turning", shape=(2, 2))
z = gt.tensor("complex", dtype="complex128", shape=(4, 4))

random = np.random.default_rng(4)
VALUES: dict[Node, Any] = {
    y: random.integers(1, 5, y.type.shape) for y in (a, b, t, v, stack, columns, row, lines)
} | {turning: np.array([[0.0, -1.0], [1.0, 0.0]])}

q = gt.assume(turning, orthogonal=True)
kron = gt.linalg.kron


def scales(x: Node, axis: int) -> Any:
    return make(ExpandDims((axis,)), make(MatrixDiagonal(0), x))


EXAMPLES: dict[str, list[Example]] = {
    "dot_with_diagonal": [
        (gt.diag(v) @ b, scales(gt.diag(v), 1) * b),
        (b.T @ gt.diag(v), b.T * scales(gt.diag(v), 0)),
        (gt.diag(v) @ v, make(MatrixDiagonal(0), gt.diag(v)) * v),
        (
            gt.matmul(stack * gt.eye(4), stack),
            scales(stack * gt.eye(4), 2) * stack,
        ),
    ],
    "dot_of_orthogonal": [
        (q.T @ q, gt.eye(2)),
        (q @ q.T, gt.eye(2)),
    ],
    "dot_of_kron": [
        (kron(a, t) @ columns, kron_times(a, t, columns)),
        (lines @ kron(a, t), kron_times(a.T, t.T, lines.T).T),
        (kron(a, t) @ row, gt.squeeze(kron_times(a, t, gt.expand_dims(row, 1)), 1)),
        (kron(a, t) @ kron(b, t), kron(a @ b, t @ t)),
        (kron(a, t).T @ kron(a, t), kron(a.T @ a, t.T @ t)),
    ],
    "sum_with_diagonal": [
        ((a * gt.eye(4)).sum(), make(MatrixDiagonal(0), a * gt.eye(4)).sum()),
        ((gt.diag(v) * stack).sum((1, 2)), make(MatrixDiagonal(0), gt.diag(v) * stack).sum(1)),
    ],
    "transpose_of_symmetric": [
        ((a @ a.T).T, a @ a.T),
        (
            gt.matrix_transpose(gt.matmul(stack, gt.matrix_transpose(stack))),
            gt.matmul(stack, gt.matrix_transpose(stack)),
        ),
    ],
    "triangle_of_triangular": [
        (gt.tril(gt.diag(v)), gt.diag(v)),
        (gt.triu(gt.diag(v, 1)), gt.diag(v, 1)),
        (gt.tril(gt.diag(v), 1), gt.diag(v)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "dot_with_diagonal": [a @ b, gt.assume(b, diagonal=True).T @ a],
    "dot_of_orthogonal": [q @ q, gt.assume(z, orthogonal=True).T @ gt.assume(z, orthogonal=True)],
    "dot_of_kron": [columns.T @ columns],
    "sum_with_diagonal": [(a * a).sum(), (gt.diag(v) * a).sum(0)],
    "transpose_of_symmetric": [a.T, gt.assume(z, symmetric=True).T],
    "triangle_of_triangular": [gt.tril(a), gt.triu(gt.diag(v), 1)],
}
