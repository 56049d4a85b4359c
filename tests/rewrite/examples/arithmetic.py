"""Examples of the rules in graphc/rewrite/rules/arithmetic.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import Example

# Apart, so that no difference is lost to rounding.
a, b = gt.matrix("a"), gt.vector("b")
single = gt.matrix("single", shape=(3, 1))
VALUES: dict[Node, Any] = {
    a: np.linspace(1, 2, 12).reshape(3, 4),
    b: np.linspace(7, 5, 4),
    single: np.array([[1.0], [4.0], [16.0]]),
}
products = 2.0 * (b * a)
column, line = gt.expand_dims(b, 1), gt.squeeze(single, 1)

EXAMPLES: dict[str, list[Example]] = {
    "square_of_difference": [
        (gt.square(b) + gt.square(a) - products, gt.square(a - b)),
        (gt.square(b) - products + gt.square(a), gt.square(a - b)),
        (-products + (gt.square(b) + gt.square(a)), gt.square(a - b)),
        (gt.square(b) + gt.square(a) + (2.0 * a) * b, gt.square(b + a)),
        (
            gt.expand_dims(gt.square(b), 1) + 1.0 * gt.square(b + 9) - 2.0 * (column * (b + 9)),
            gt.square(column - (b + 9)),
        ),
        (
            gt.expand_dims(gt.square(line), 1) + gt.square(line + 9) - 2.0 * (single * (line + 9)),
            gt.square((line + 9) - single),
        ),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "square_of_difference": [
        gt.square(a) + gt.square(b) - a * b,
        gt.square(a) - gt.square(b) - products,
        gt.square(a) + gt.square(b) - 2.0 * (a * a),
        gt.square(a) + b - products,
        gt.square(a) + gt.square(b) - 2.0 * a,
    ],
}
