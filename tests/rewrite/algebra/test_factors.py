"""Products of exponentials and their shares have the values they were written with."""

from __future__ import annotations

import pytest

from graphc.ir import Graph
from graphc.rewrite import optimize
from tests.rewrite.random_products import random_product
from tests.rewrite.rounding import Bounds, Exactly, evaluated

CHUNKS, EACH = 8, 50


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_products_keep_their_values(chunk: int) -> None:
    for seed in range(EACH * chunk, EACH * (chunk + 1)):
        written = random_product(seed)
        (made,) = optimize(Graph(written.values, [written.y]), checking=True).graph.outputs
        found = evaluated([made], written.values, Exactly())[made]
        assert not Bounds([written.y], written.values).wrong(0, found), seed
