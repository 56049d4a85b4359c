"""Examples of the rules in graphc/rewrite/rules/diagonal.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.core.axes import Squeeze
from tests.rewrite.arrays import Example, make

a, b = gt.tensor("square", shape=(3, 3)), gt.tensor("other", shape=(3, 3))
wide = gt.tensor("flat", shape=(3, 5))
v = gt.tensor("on_diagonal", shape=(3,))
stack, single = gt.tensor("stack", shape=(2, 3, 3)), gt.tensor("single", shape=(2, 1, 1))

random = np.random.default_rng(3)
VALUES: dict[Node, Any] = {
    y: random.normal(size=y.type.shape) for y in (a, b, wide, v, stack, single)
}


def main(x: Node) -> Any:
    return make(MatrixDiagonal(0), x)


def above(x: Node) -> Any:
    return make(MatrixDiagonal(1), x)


EXAMPLES: dict[str, list[Example]] = {
    "diagonal_of_rearranged": [
        (main(gt.diag(v)), v),
        (above(gt.diag(v, 1)), v),
        (main(gt.eye(3)), gt.ones(3)),
        (main(gt.assume(a, symmetric=True)), main(a)),
        (main(a.T), main(a)),
        (main(gt.matrix_transpose(stack)), main(stack)),
    ],
    "diagonal_of_elements": [
        (main(gt.exp(a)), gt.exp(main(a))),
        (above(wide * 2 + wide), above(wide * 2) + above(wide)),
        (main(stack * single), main(stack) * make(Squeeze((2,)), single)),
        (main(stack * a), main(stack) * main(a)),
        (main(a * v), main(a) * v),
        (main(a * v[:, None]), main(a) * make(Squeeze((1,)), v[:, None])),
        (main(gt.cast(a, "float32")), gt.cast(main(a), "float32")),
    ],
    "diagonal_of_dot": [
        (main(a @ b), (a * b.T).sum(-1)),
        (main(wide @ wide.T), (wide * wide).sum(-1)),
        (main(gt.matmul(stack, stack)), (stack * gt.matrix_transpose(stack)).sum(-1)),
    ],
    "diagonal_of_kron": [
        (main(gt.linalg.kron(a, b)), gt.ravel(main(a)[:, None] * main(b))),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "diagonal_of_rearranged": [main(gt.diag(v, 1)), above(a.T)],
    "diagonal_of_elements": [above(a * v), main(wide * wide[:, :1])],
    "diagonal_of_dot": [main(a.T @ wide), above(a @ b)],
    "diagonal_of_kron": [main(gt.linalg.kron(wide, a))],
}
