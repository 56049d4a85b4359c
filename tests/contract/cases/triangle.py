"""Cases of graphc.tensor.arrays.triangle."""

from __future__ import annotations

from tests.contract.case import EVERY, Case, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "triangle": {
        "tril": Case(lambda n, x: n.tril(x, 1), (X,), EVERY),
        "triu": Case(lambda n, x: n.triu(x, -1), (X,)),
        "triu of a vector": Case(lambda n, x: n.triu(x), (V,)),
    },
}  # fmt: skip
