"""Examples of the order of many products."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import Example

flat, tall = gt.tensor("chain_flat", shape=(2, 30)), gt.tensor("chain_tall", shape=(30, 3))
square = gt.tensor("chain_square", shape=(30, 30))
other = gt.tensor("chain_other", shape=(3, 30))

random = np.random.default_rng(8)
# Small whole numbers, whose products are exact in any order.
VALUES: dict[Node, Any] = {
    x: random.integers(-3, 4, x.type.shape).astype(float) for x in (flat, tall, square, other)
}

EXAMPLES: dict[str, list[Example]] = {
    "dot_of_many": [
        (flat @ ((tall @ other) @ square), ((flat @ tall) @ other) @ square),
        (
            flat @ ((tall @ other) @ gt.constant(np.ones((30, 4)), bake=True)),
            (flat @ tall) @ (other @ gt.constant(np.ones((30, 4)), bake=True)),
        ),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "dot_of_many": [
        square @ square @ square @ square,
        (flat @ tall) @ other,
        gt.matrix() @ gt.matrix() @ gt.matrix() @ gt.matrix(),
        (square @ square) @ (square @ square),
    ],
}
