"""Examples of the rules in graphc/rewrite/rules/assume.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.linalg.assume import Assume
from graphc.tensor.linalg.mirror import Mirror
from tests.rewrite.arrays import Example, make

a = gt.tensor("assumed", shape=(2, 2))
v = gt.tensor("assumed_diagonal", shape=(2,))
VALUES: dict[Node, Any] = {a: np.array([[2.0, 1.0], [1.0, 3.0]]), v: np.array([1.5, -2.0])}

gram = a @ a

EXAMPLES: dict[str, list[Example]] = {
    "assumptions_together": [
        (
            gt.assume(gt.assume(a, symmetric=True), orthogonal=False),
            make(Assume(("symmetric",), ("orthogonal",)), a),
        ),
    ],
    "assumption_of_what_is_known": [
        (gt.assume(gt.diag(v), lower_triangular=True), gt.diag(v)),
        (gt.assume(a.T @ a, symmetric=True), a.T @ a),
        (
            gt.assume(gt.assume(a, positive_definite=True), symmetric=True),
            gt.assume(a, positive_definite=True),
        ),
    ],
    "mirror_of_symmetric": [
        (make(Mirror(True, False), a.T @ a), a.T @ a),
        (make(Mirror(False, True), gt.diag(v)), gt.diag(v)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "assumptions_together": [gt.assume(a, symmetric=True)],
    "assumption_of_what_is_known": [gt.assume(a.T @ a, positive_definite=True)],
    "mirror_of_symmetric": [
        make(Mirror(True, False), a),
        make(Mirror(True, False), gt.assume(gt.zmatrix("z"), symmetric=True)),
    ],
}
