"""One program for all lengths of a bucket: an LSTM with its gradient, beside programs for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.table import Line, benchmark
from benchmarks.timing import Ratio, agree, compared

FEATURES = 8
LENGTHS = 200
LONGEST = 1000
TIMED = 6
"""How many exact programs are compiled; the time of the others is taken to be as long."""
MOST_COMPILATIONS = 11
GAIN = 1 / 15
CALL = 1.1
BUCKETS = graphc.Mode("JAX", lengths="buckets")


def lstm(mode: Any, hidden: int) -> graphc.Function:
    """The mean squared error of an LSTM's outputs, and its gradient with respect to weights."""
    x, y = gt.fmatrix("x"), gt.fvector("y")
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return graphc.shared((rng.normal(size=shape) * 0.3).astype(np.float32))

    w, u, b, v = (
        weights(FEATURES, 4 * hidden),
        weights(hidden, 4 * hidden),
        weights(4 * hidden),
        weights(hidden),
    )

    def step(row: Any, h: Any, c: Any) -> tuple[Any, Any]:
        gates = row @ w + h @ u + b
        i, f, o, g = [gates[k * hidden : (k + 1) * hidden] for k in range(4)]
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        return gt.sigmoid(o) * gt.tanh(c), c

    start = gt.zeros(hidden, dtype="float32")
    states, _ = graphc.scan(step, sequences=[x], outputs_info=[start, start])
    loss = ((states @ v - y) ** 2).mean()
    return graphc.function([x, y], [loss, *graphc.grad(loss, [w, u, b, v])], mode=mode)


def values(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, FEATURES)).astype("f4"), rng.normal(size=n).astype("f4")


@benchmark("lengths")
def calls() -> Iterator[Line]:
    """A call in a bucket, beside the exact program for the bucket's length."""
    buckets, exact = lstm(BUCKETS, 32), lstm("JAX", 32)
    buckets(*values(5))
    for longest, n in ((128, 128), (128, 100), (1024, 1024), (1024, 700)):
        agree(buckets(*values(n)), exact(*values(n)), rtol=1e-4)
        given, whole = values(n), values(longest)
        ratio = compared(lambda given=given: buckets(*given), lambda whole=whole: exact(*whole))
        yield Line(f"LSTM with gradient: {n} of {longest}", ratio, CALL)


@benchmark("lengths wall", long=True)
def many() -> Iterator[Line]:
    """Many lengths: all time of programs in buckets, beside a compilation for each length."""
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, LONGEST + 1, LENGTHS)]
    buckets, exact = lstm(BUCKETS, 31), lstm("JAX", 31)
    with graphc.recompile("ignore"):
        own = _total(buckets, lengths)
        compiles = buckets.stats.compiles
        assert compiles <= MOST_COMPILATIONS, compiles
        some = list(dict.fromkeys(lengths))[:TIMED]
        first = _total(exact, some)
        again = _total(exact, some)
    # Each distinct length compiles; all calls run.
    whole = (first - again) / TIMED * len(set(lengths)) + again / TIMED * LENGTHS
    yield Line(f"LSTM, {LENGTHS} lengths, {compiles} compilations", Ratio.of([own], [whole]), GAIN)


def _total(f: graphc.Function, lengths: Sequence[int]) -> float:
    start = perf_counter()
    for n in lengths:
        np.asarray(f(*values(n))[0])
    return perf_counter() - start
