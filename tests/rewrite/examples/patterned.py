"""Examples of the rules of matrices that have others along their diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.mirror import Mirror
from tests.rewrite.arrays import Example, make

a, b = gt.tensor("block", shape=(3, 3)), gt.tensor("small_block", shape=(2, 2))
tall, wide = gt.tensor("tall_block", shape=(3, 2)), gt.tensor("wide_block", shape=(2, 3))
x, y = gt.tensor("five_rows", shape=(5, 4)), gt.tensor("five", shape=(5,))
batch = gt.tensor("blocks", shape=(2, 2, 2))
columns = gt.tensor("columns", shape=(2, 4, 3))
open_a, open_b = gt.matrix("open_block"), gt.matrix("other_open_block")

random = np.random.default_rng(3)
VALUES: dict[Node, Any] = {
    node: random.normal(size=node.type.shape) for node in (tall, wide, x, y, batch, columns)
} | {
    a: np.array([[4.0, 2.0, 2.0], [2.0, 5.0, 3.0], [2.0, 3.0, 6.0]]),
    b: np.array([[2.0, 0.5], [0.5, 1.0]]),
    open_a: random.normal(size=(2, 3)),
    open_b: random.normal(size=(3, 2)),
}

blocks = gt.linalg.block_diag
known_a, known_b = (gt.assume(z, positive_definite=True) for z in (a, b))
symmetric = Assume(("symmetric",), ())


def cholesky(x: Node) -> Any:
    return make(Cholesky(), x)


def main(x: Node) -> Any:
    return make(MatrixDiagonal(0), x)


def rows(*parts: Node) -> Any:
    return gt.concatenate(parts, -2)


EXAMPLES: dict[str, list[Example]] = {
    "transpose_of_blocks": [
        (blocks(a, tall).T, blocks(a.T, tall.T)),
        (gt.matrix_transpose(blocks(batch, batch)), blocks(*[gt.matrix_transpose(batch)] * 2)),
    ],
    "dot_with_blocks": [
        (blocks(a, b) @ x, rows(a @ x[0:3], b @ x[3:5])),
        (blocks(tall, wide) @ blocks(wide, a), blocks(tall @ wide, wide @ a)),
        (
            blocks(a, b) @ y,
            gt.squeeze(rows(a @ gt.expand_dims(y, 1)[0:3], b @ gt.expand_dims(y, 1)[3:5]), 1),
        ),
        (x.T @ blocks(a, b), rows(a.T @ x.T.T[0:3], b.T @ x.T.T[3:5]).T),
        (
            gt.matmul(blocks(batch, batch), columns),
            rows(gt.matmul(batch, columns[:, 0:2]), gt.matmul(batch, columns[:, 2:4])),
        ),
    ],
    "cholesky_of_blocks": [
        (cholesky(blocks(known_a, known_b)), blocks(cholesky(known_a), cholesky(known_b))),
    ],
    "mirror_of_blocks": [
        (
            make(Mirror(True, True), blocks(b, a)),
            blocks(make(Mirror(True, True), b), make(Mirror(True, True), a)),
        ),
    ],
    "assumption_of_blocks": [
        (make(symmetric, blocks(a, b)), blocks(make(symmetric, a), make(symmetric, b))),
    ],
    "diagonal_of_blocks": [
        (main(blocks(a, b)), gt.concatenate([main(a), main(b)], 0)),
        (main(blocks(batch, batch)), gt.concatenate([main(batch)] * 2, -1)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "transpose_of_blocks": [gt.moveaxis(blocks(batch, batch), 0, 1)],
    "cholesky_of_blocks": [cholesky(blocks(known_a, b)), cholesky(blocks(tall, wide))],
    "mirror_of_blocks": [make(Mirror(True, True), blocks(tall, wide))],
    "assumption_of_blocks": [
        make(Assume((), ("orthogonal",)), blocks(a, b)),
        make(symmetric, blocks(open_a, open_b)),
    ],
    "diagonal_of_blocks": [make(MatrixDiagonal(1), blocks(a, b)), main(blocks(tall, wide))],
}
