"""Examples of the rules in graphc/rewrite/rules/trigonometric.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import Example, w, x

EXAMPLES: dict[str, list[Example]] = {
    "difference_of_scaled_exps": [
        (0.5 * gt.exp(x) - 0.5 * gt.exp(-x), gt.sinh(x) * 1.0),
        (-0.25 * gt.exp(-x) + 0.25 * gt.exp(x), 0.5 * gt.sinh(x)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "difference_of_scaled_exps": [
        0.5 * gt.exp(x) + 0.5 * gt.exp(-x),
        0.5 * gt.exp(x) - 0.5 * gt.exp(w),
        0.5 * gt.exp(x) - 2.0 * gt.exp(-x),
    ],
}
