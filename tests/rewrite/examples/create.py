"""Examples of the rules in graphc/rewrite/rules/create.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.create import Arange, Eye
from tests.rewrite.arrays import (
    Example,
    make,
    n,
    two,
)

EXAMPLES: dict[str, list[Example]] = {
    "arange_made_static": [
        (make(Arange("int64"), gt.constant(1), gt.constant(20), two), gt.arange(1, 20, 2)),
    ],
    "eye_made_static": [
        (make(Eye((None, None), 1, "float32"), n, two), gt.eye(n, 2, 1, "float32")),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {}
