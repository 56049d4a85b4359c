"""Cases of graphc.tensor.signal.polynomial."""

from __future__ import annotations

from tests.contract.case import Case, V, X

NUMBERS = ("int8", "float32", "float64", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "polynomial": {
        "polyval": Case(lambda n, p, x: n.polyval(p, x), ((4,), X), NUMBERS, static=True),
        "polyval of none": Case(lambda n, p, x: n.polyval(p, x), ((0,), V), NUMBERS, static=True),
        "polyadd": Case(lambda n, p, q: n.polyadd(p, q), ((3,), (5,)), NUMBERS),
        "polysub": Case(lambda n, p, q: n.polysub(p, q), ((5,), (3,)), NUMBERS, static=True),
        "polymul": Case(lambda n, p, q: n.polymul(p, q), ((3,), (5,)), NUMBERS),
        "polyder": Case(lambda n, p: n.polyder(p, 2), (V,), ("float64",)),
        "polyint": Case(lambda n, p: n.polyint(p, 2, [1, 2]), (V,), ("float64",)),
    },
}
