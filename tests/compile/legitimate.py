"""Programs that make several functions, or several executables of one, as they should.

Each compares what it computes with NumPy, and leaves it to the test to see that nothing warns.
"""

from __future__ import annotations

import copy
import pickle
import threading
from functools import cache, cached_property
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from tests.compile.corpus import case, same

RANDOM = np.random.default_rng(1)
X = np.linspace(-1.0, 1.0, 12)
DATA = RANDOM.normal(size=(32, 5))
UNARY = (
    "abs arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 conj "
    "floor isfinite isinf isnan log1p logical_not negative positive rad2deg rint sign signbit "
    "sin sinc sinh square tan tanh trunc "
)


@case()
def shape_buckets(mode: Any) -> None:
    x = gt.vector("x")
    f = graphc.function([x], gt.exp(x).sum(), mode=mode)
    for n in RANDOM.integers(1, 128, size=50):
        padded = np.full(1 << int(n - 1).bit_length(), -np.inf)
        padded[:n] = 0.0
        same(f(padded), n)


@case()
def two_dtypes(mode: Any) -> None:
    for dtype in ("float32", "float64"):
        x = gt.vector("x", dtype=dtype)
        same(graphc.function([x], gt.tanh(x), mode=mode)(X.astype(dtype)), np.tanh(X))


@case()
def a_helper_for_every_dtype(mode: Any) -> None:
    def summed(values: np.ndarray[Any, Any]) -> Any:
        x = gt.tensor("x", dtype=values.dtype.name, shape=(None,) * values.ndim)
        return graphc.function([x], x.sum(), mode=mode)(values)

    for _ in range(3):
        for dtype in ("int32", "int64", "uint8", "float32", "float64"):
            same(summed(np.ones(6, dtype)), 6)


@case()
def a_loop_over_axes(mode: Any) -> None:
    m = gt.matrix("m")
    for axis in (0, 1, -1, None):
        same(graphc.function([m], m.mean(axis=axis), mode=mode)(DATA), DATA.mean(axis=axis))


@case()
def a_helper_for_every_rank(mode: Any) -> None:
    def largest(values: np.ndarray[Any, Any]) -> Any:
        x = gt.tensor("x", shape=(None,) * values.ndim)
        return graphc.function([x], x.max(), mode=mode)(values)

    for ndim in range(6):
        same(largest(np.arange(2.0**ndim).reshape((2,) * ndim)), 2**ndim - 1)


CELL = """
rate = {rate}
x = gt.vector("x")
f = graphc.function([x], gt.exp(x * rate).sum(), mode=mode)
result = f(X)
"""


@case()
def a_notebook_cell_run_again_after_edits(mode: Any) -> None:
    session = {"gt": gt, "graphc": graphc, "X": X, "mode": mode}
    for rate in (0.1, 0.2, 0.3, 0.4, 0.5):
        exec(compile(CELL.format(rate=rate), "/tmp/ipykernel_7/cell.py", "exec"), session)
        same(session["result"], np.exp(X * rate).sum())


@case()
def a_notebook_cell_run_again_after_another(mode: Any) -> None:
    source = "f = graphc.function([x], gt.tanh(x) * rate, mode=mode)\nresult = f(X)\n"
    session = {"gt": gt, "graphc": graphc, "X": X, "mode": mode, "x": gt.vector("x")}
    for rate in (1.0, 2.0, 3.0, 4.0):
        session["rate"] = rate
        exec(compile(source, "/tmp/ipykernel_7/use.py", "exec"), session)
        same(session["result"], np.tanh(X) * rate)


@case()
def a_factory_of_functions_that_are_kept(mode: Any) -> None:
    x = gt.vector("x")
    powers = [graphc.function([x], x**k, mode=mode) for k in range(2, 14)]
    for k, power in enumerate(powers, 2):
        same(power(X), X**k)


@case()
def functions_by_name(mode: Any) -> None:
    x = gt.vector("x")
    scales = {"metre": 1.0, "inch": 0.0254, "foot": 0.3048, "mile": 1609.344, "yard": 0.9144}
    converters = {}
    for name, scale in scales.items():
        converters[name] = graphc.function([x], x * scale, name=name, mode=mode)
        same(converters[name](X), X * scale)


@case()
def a_cache_of_the_users_own(mode: Any) -> None:
    @cache
    def polynomial(degree: int) -> Any:
        x = gt.vector("x")
        return graphc.function([x], sum(x**k for k in range(degree + 1)), mode=mode)

    for degree in (1, 2, 3, 4, 5, 3, 2, 1):
        same(polynomial(degree)(X), sum(X**k for k in range(degree + 1)))


@case()
def two_modes_side_by_side(mode: Any) -> None:
    x = gt.vector("x")
    y = gt.log1p(gt.exp(x))
    for each in (mode, "NUMPY", graphc.Mode("NUMPY", excluding=["stabilize"])):
        same(graphc.function([x], y, mode=each)(X), np.log1p(np.exp(X)))


@case()
def functions_in_several_modes(mode: Any) -> None:
    x = gt.vector("x")
    modes = ("NUMPY", mode, graphc.Mode(mode, excluding=["stabilize"]), graphc.Mode(mode))
    for name in ("exp", "sin", "tanh", "arctan", "floor"):
        for each in modes:
            same(graphc.function([x], getattr(gt, name)(x), mode=each)(X), getattr(np, name)(X))


@case()
def functions_of_several_dtypes_and_lengths(mode: Any) -> None:
    for name in ("exp", "sin", "tanh", "arctan"):
        for dtype in ("float32", "float64"):
            for n in (2, 3, 5):
                x = gt.tensor("x", dtype=dtype, shape=(n,))
                values = X[:n].astype(dtype)
                same(
                    graphc.function([x], getattr(gt, name)(x), mode=mode)(values),
                    getattr(np, name)(values),
                )


@case()
def a_builder_called_from_several_places(mode: Any) -> None:
    def scaled(scale: float) -> Any:
        x = gt.vector("x")
        return graphc.function([x], gt.sin(x) * scale, mode=mode)(X)

    same(scaled(1.5), np.sin(X) * 1.5)
    same(scaled(2.5), np.sin(X) * 2.5)
    same(scaled(3.5), np.sin(X) * 3.5)


@case()
def a_recursion(mode: Any) -> None:
    def nested(depth: int) -> Any:
        x = gt.vector("x")
        y = graphc.function([x], gt.cos(x) * depth, mode=mode)(X)
        return np.asarray(y) + (nested(depth - 1) if depth > 1 else 0.0)

    same(nested(5), np.cos(X) * 15)


@case()
def functions_made_when_first_needed(mode: Any) -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @cached_property
        def density(self) -> Any:
            x = gt.vector("x")
            return graphc.function([x], gt.exp(-self.scale * x**2), mode=mode)

    models = [Model(1.0 + i) for i in range(5)]
    for _ in range(2):
        for model in models:
            same(model.density(X), np.exp(-model.scale * X**2))


@case()
def copies_of_functions(mode: Any) -> None:
    count, x = graphc.shared(0.0), gt.vector("x")
    f = graphc.function([x], x + count, updates=[(count, count + 1)], mode=mode)
    for _ in range(6):
        same(copy.deepcopy(f)(X), X)


@case()
def functions_from_a_pickle(mode: Any) -> None:
    x = gt.vector("x")
    stored = pickle.dumps(graphc.function([x], gt.sinh(x) + DATA[0, 0], mode=mode))
    for _ in range(6):
        same(pickle.loads(stored)(X), np.sinh(X) + DATA[0, 0])


@case()
def values_of_expressions(mode: Any) -> None:
    x = gt.vector("x")
    expressions = {"exp": np.exp, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt}
    for name, wanted in expressions.items():
        same(getattr(gt, name)(x).eval({x: X + 1}, mode=mode), wanted(X + 1))


@case()
def a_test_of_every_function(mode: Any) -> None:
    x = gt.vector("x")
    for name in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arctan", "sign", "floor"):
        f = graphc.function([x], getattr(gt, name)(x), mode=mode)
        same(f(X), getattr(np, name)(X))


@case()
def a_test_of_a_table_of_functions(mode: Any) -> None:
    x = gt.vector("x")
    for name in UNARY.split():
        f = graphc.function([x], getattr(gt, name)(x), mode=mode)
        same(f(0.9 * X), getattr(np, name)(0.9 * X))


@case()
def derivatives_of_every_order(mode: Any) -> None:
    x = gt.scalar("x")
    y = gt.sin(x)
    for k in range(5):
        same(graphc.function([x], y, mode=mode)(0.3), np.sin(0.3 + k * np.pi / 2))
        y = graphc.grad(y, x)


@case()
def batches_of_functions(mode: Any) -> None:
    a, b = gt.vector("a"), gt.matrix("b")
    for f, wanted in ((gt.sum, np.sum), (gt.max, np.max), (gt.prod, np.prod)):
        one = graphc.function([a], f(a), mode=mode)
        many = graphc.function([b], graphc.vectorize(f, signature="(n)->()")(b), mode=mode)
        same(many(DATA), wanted(DATA, axis=1))
        same(one(DATA[0]), wanted(DATA[0]))


@case()
def loops_over_some_lengths(mode: Any) -> None:
    xs = gt.vector("xs")
    total = graphc.scan(lambda x, s: s + x, sequences=xs, outputs_info=0.0)
    f = graphc.function([xs], total[-1], mode=mode)
    for n in (3, 5, 8, 13, 3, 5, 8, 13):
        same(f(np.ones(n)), n)


@case()
def some_numbers_of_steps(mode: Any) -> None:
    x, n = gt.scalar("x"), gt.lscalar("n")
    states = graphc.scan(lambda h: 0.5 * h + 1, outputs_info=x, n_steps=n)
    f = graphc.function([x, n], states[-1], mode=mode)
    for steps in range(1, 8):
        same(f(2.0, steps), 2.0)


@case()
def variants_by_givens(mode: Any) -> None:
    x, y = gt.vector("x"), gt.vector("y")
    for new, wanted in ((y, X), (y + 1, X + 1), (gt.exp(y), np.exp(X)), (y[::-1], X[::-1])):
        same(graphc.function([y], gt.tanh(x), givens={x: new}, mode=mode)(X), np.tanh(wanted))


@case()
def the_same_function_built_for_every_call(mode: Any) -> None:
    def standardized(values: np.ndarray[Any, Any]) -> Any:
        x = gt.vector("x")
        return graphc.function([x], (x - x.mean()) / x.std(), mode=mode)(values)

    for i in range(1, 20):
        same(standardized(X * i + i), (X - X.mean()) / X.std())


@case()
def the_same_data_captured_for_every_call(mode: Any) -> None:
    def predicted(weights: np.ndarray[Any, Any]) -> Any:
        w = gt.vector("w")
        return graphc.function([w], DATA @ w, mode=mode)(weights)

    for i in range(10):
        same(predicted(np.full(5, i)), DATA.sum(axis=1) * i)


@case()
def threads_that_build_the_same_function(mode: Any) -> None:
    found: list[Any] = []

    def work(i: int) -> None:
        x = gt.vector("x")
        found.append((i, graphc.function([x], gt.arctan(x) * 3, mode=mode)(X * i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for i, y in found:
        same(y, np.arctan(X * i) * 3)


@case()
def what_a_library_compiles_for_its_users(mode: Any) -> None:
    @graphc.events.internal()
    def standardized(center: float) -> Any:
        x = gt.vector("x")
        return graphc.function([x], gt.exp(x - center), mode=mode)(X)

    for i in range(10):
        same(standardized(i / 10), np.exp(X - i / 10))


@case()
def a_change_of_shapes_now_and_then(mode: Any) -> None:
    x = gt.matrix("x")
    f = graphc.function([x], gt.tanh(x).sum(), mode=mode)
    for rows in (32, 32, 32, 20, 32, 32, 20, 1, 32, 64, 64, 7):
        same(f(np.ones((rows, 3))), np.tanh(1.0) * rows * 3)
