"""Cases of graphc.tensor.arrays.difference."""

from __future__ import annotations

from tests.contract.case import NUMERIC, Case, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "difference": {
        "diff": Case(lambda n, x: n.diff(x, 2), (X,), NUMERIC),
        "diff of bools": Case(lambda n, x: n.diff(x), (V,), ("bool",)),
        "diff with more": Case(
            lambda n, x: n.diff(x, prepend=1, append=x[:2]), (V,), ("int8", "float32", "float64")
        ),
        "gradient": Case(
            lambda n, x: n.gradient(x, 0.5, axis=1), (X,), ("float32", "float64", "complex128")
        ),
        "gradient by coordinates": Case(
            lambda n, x: n.gradient(x, n.cumsum(n.abs(x) + 1), edge_order=2), (V,), ("float64",)
        ),
    },
}  # fmt: skip
