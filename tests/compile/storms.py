"""Programs that compile or build again and again what could be made once.

Each is a loop as users write it. After each round it yields what graphc gives and what NumPy gives.
The line that a warning is to name is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.compile.corpus import case

Rounds = Iterator[tuple[Any, Any]]
RANDOM = np.random.default_rng(0)
X = np.linspace(-1.0, 1.0, 12)
RATE = 0.0
MANY = 40


@case("captured value", "center")
def a_small_array_as_a_constant(mode: Any) -> Rounds:
    x = gt.matrix("x")
    points = X.reshape(4, 3)
    for _ in range(MANY):
        center = RANDOM.normal(size=3)
        distances = ((x - center) ** 2).sum(axis=1)  # <-
        f = graphc.function([x], distances, mode=mode)
        yield f(points), ((points - center) ** 2).sum(axis=1)


@case("Python scalar", "offset")
def a_scalar_offset(mode: Any) -> Rounds:
    x = gt.vector("x")
    for i in range(MANY):
        offset = 0.5 + i
        shifted = graphc.function([x], x + offset, mode=mode)  # <-
        yield shifted(X), X + offset


@case("Python scalar", "decay")
def a_lambda_in_a_loop(mode: Any) -> Rounds:
    x = gt.vector("x")
    for i in range(MANY):
        decay = 1 / (i + 2)
        states = graphc.scan(lambda h: gt.tanh(h * decay), outputs_info=x, n_steps=3)  # <-  # noqa: B023
        wanted = X
        for _ in range(3):
            wanted = np.tanh(wanted * decay)
        yield graphc.function([x], states[-1], mode=mode)(X), wanted


@case("Python scalar", "k")
def a_number_in_a_partial(mode: Any) -> Rounds:
    def scaled(x: Any, k: float) -> Any:
        return gt.tanh(x) * k  # <-

    x = gt.vector("x")
    for i in range(MANY):
        y = partial(scaled, k=1.25 + i)(x)
        yield graphc.function([x], y, mode=mode)(X), np.tanh(X) * (1.25 + i)


@case("Python scalar", "lr")
def a_learning_rate_schedule(mode: Any) -> Rounds:
    x, w = gt.vector("x"), graphc.shared(X, name="w")
    wanted = X
    for i in range(MANY):
        lr = 0.1 / (i + 1)
        slope = graphc.grad(((w - x) ** 2).sum(), w)
        updates = [(w, w - lr * slope)]  # <-
        graphc.function([x], updates=updates, mode=mode)(X * 2)
        wanted = wanted - lr * 2 * (wanted - X * 2)
        yield w.get_value(), wanted


@case("Python scalar", "t")
def a_count_of_steps_in_a_formula(mode: Any) -> Rounds:
    moment = gt.vector("moment")
    for t in range(1, MANY):
        unbiased = moment / (1 - 0.9**t)  # <-
        yield graphc.function([moment], unbiased, mode=mode)(X), X / (1 - 0.9**t)


@case("Python scalar", "self.lr")
def an_attribute_of_self(mode: Any) -> Rounds:
    class Trainer:
        def __init__(self) -> None:
            self.lr = 0.1

        def stepped(self, w: Any) -> Any:
            return w - self.lr * gt.sign(w)  # <-

    w, trainer = gt.vector("w"), Trainer()
    for _ in range(MANY):
        trainer.lr *= 0.5
        f = graphc.function([w], trainer.stepped(w), mode=mode)
        yield f(X), X - trainer.lr * np.sign(X)


@case("Python scalar", "width")
def a_default_argument(mode: Any) -> Rounds:
    x = gt.vector("x")
    for i in range(MANY):

        def kernel(x: Any, width: float = 0.5 + i) -> Any:
            return gt.exp(-(x**2) / width)  # <-

        yield graphc.function([x], kernel(x), mode=mode)(X), np.exp(-(X**2) / (0.5 + i))


@case("Python scalar", "RATE")
def a_global_variable(mode: Any) -> Rounds:
    global RATE  # noqa: PLW0603 (as users do)
    x = gt.vector("x")
    for i in range(MANY):
        RATE = 1.5 + i
        y = gt.exp(x) * RATE  # <-
        yield graphc.function([x], y, mode=mode)(X), np.exp(X) * RATE


@case("static parameter", "t")
def a_growing_slice(mode: Any) -> Rounds:
    x = gt.vector("x")
    for t in range(1, 12):
        seen = x[:t].sum()  # <-
        yield graphc.function([x], seen, mode=mode)(X), X[:t].sum()


@case("static parameter", "t")
def a_number_of_steps(mode: Any) -> Rounds:
    x = gt.vector("x")
    for t in range(2, MANY):
        states = graphc.scan(lambda h: 0.5 * h + 1, outputs_info=x, n_steps=t)  # <-
        wanted = X
        for _ in range(t):
            wanted = 0.5 * wanted + 1
        yield graphc.function([x], states[-1], mode=mode)(X), wanted


@case("shape", "x", at=9)
def lengths_in_the_types_of_inputs(mode: Any) -> Rounds:
    for n in range(2, MANY):
        x = gt.tensor("x", shape=(n, 3))  # <-
        points = RANDOM.normal(size=(n, 3))
        yield (
            graphc.function([x], gt.tanh(x).sum(axis=0), mode=mode)(points),
            np.tanh(points).sum(0),
        )


@case("shape", "x", at=9)
def lengths_of_arguments(mode: Any) -> Rounds:
    x = gt.vector("x")
    f = graphc.function([x], gt.exp(x).sum(), mode=mode)  # <-
    for n in range(2, MANY):
        yield f(np.ones(n)), n * np.e


@case("shape", "n", at=9)
def values_that_decide_lengths(mode: Any) -> Rounds:
    x, n = gt.vector("x"), gt.lscalar("n")
    u, s, _ = gt.linalg.svd(x.reshape((n, -1)), full_matrices=False)  # SVDs cannot be padded
    f = graphc.function([x, n], (abs(u) * s).sum(), mode=mode)  # <-
    points = RANDOM.normal(size=2520)
    for rows in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14):
        u, s, _ = np.linalg.svd(points.reshape(rows, -1), full_matrices=False)
        yield f(points, rows), (abs(u) * s).sum()


@case("dtype", "x", at=9)
def dtypes_that_change(mode: Any) -> Rounds:
    kinds = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    for kind in (*kinds, "float32", "float64", "float16", "bool"):
        x = gt.vector("x", dtype=kind)  # <-
        values = np.ones(4, kind)
        yield graphc.function([x], x.any(), mode=mode)(values), True


@case("structure", at=33)
def a_list_of_arrays_that_grows(mode: Any) -> Rounds:
    xs: list[Any] = []
    for i in range(1, MANY):
        xs.append(gt.scalar(f"x{i}"))
        total = sum(gt.exp(x) for x in xs)
        f = graphc.function(xs, total, mode=mode)  # <-
        yield f(*[1.0] * i), i * np.e


@case("Python scalar", "threshold")
def a_helper_that_compiles_for_each_call(mode: Any) -> Rounds:
    def exceeding(values: np.ndarray[Any, Any], threshold: float) -> Any:
        x = gt.vector("x")
        above = gt.maximum(x - threshold, 0)  # <-
        return graphc.function([x], above, mode=mode)(values)

    for i in range(MANY):
        yield exceeding(X, i / 10), np.maximum(X - i / 10, 0)


@case("Python scalar", "k")
def a_list_comprehension(mode: Any) -> Rounds:
    x = gt.vector("x")
    tables = (
        (graphc.function([x], gt.sinh(x) * k, mode=mode)(X), np.sinh(X) * k)  # <-
        for k in range(2, MANY)
    )
    yield from tables
