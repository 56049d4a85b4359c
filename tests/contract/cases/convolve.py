"""Cases of graphc.tensor.signal.convolve."""

from __future__ import annotations

from tests.contract.case import EVERY, SOME, Case

VECTORS = ((7,), (4,))

FAMILIES: dict[str, dict[str, Case]] = {
    "convolve": {
        "convolve": Case(lambda n, a, v: n.convolve(a, v), VECTORS, EVERY),
        "convolve, known lengths": Case(
            lambda n, a, v: n.convolve(a, v, "same"), VECTORS, SOME, static=True
        ),
        "convolve, the same length": Case(lambda n, a, v: n.convolve(v, a, "same"), VECTORS, SOME),
        "convolve, whole sums": Case(lambda n, a, v: n.convolve(v, a, "valid"), VECTORS, EVERY),
        "convolve of 1": Case(lambda n, a, v: n.convolve(a, v, "same"), ((1,), (1,)), SOME),
        "correlate": Case(lambda n, a, v: n.correlate(a, v), VECTORS, SOME),
        "correlate, all sums": Case(lambda n, a, v: n.correlate(v, a, "full"), VECTORS, EVERY),
        "correlate, the same length": Case(
            lambda n, a, v: n.correlate(v, a, "same"), VECTORS, SOME, static=True
        ),
    },
}
