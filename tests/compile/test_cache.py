"""Functions of equal structure share a program; what differs in more than data never does."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.compile.cache import PROGRAMS
from graphc.config import config
from graphc.errors import ArgumentError, GraphcError, RuntimeShapeError
from graphc.link import load, names
from graphc.tensor.core.elementwise import ROWS

LONG = 12


def is_shared(f: Any, g: Any) -> bool:
    """Whether the second was built after the first and found its program."""
    return f._lowered is not None and g._lowered is None


def product(mode: Any, array: Any, **options: Any) -> Any:
    x = gt.vector("x")
    return graphc.function([x], (x * array).sum(), mode=mode, **options)


def test_other_data_are_the_same_program(mode: str) -> None:
    arrays = np.random.default_rng(0).normal(size=(5, LONG))
    functions = [product(mode, array) for array in arrays]
    assert all(is_shared(functions[0], f) for f in functions[1:])
    # The first ones keep their own values.
    for f, array in zip(functions, arrays, strict=True):
        np.testing.assert_allclose(np.asarray(f(np.ones(LONG))), array.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: (x * np.arange(LONG - 1.0)).sum(),
        lambda x: (x * np.arange(LONG, dtype="int64")).sum(),
        lambda x: (x + np.arange(LONG, dtype="float64")).sum(),
        lambda x: (x * np.arange(3.0)).sum(),
        lambda x: [(x * np.arange(LONG, dtype="float64")).sum()],
        lambda x: ((x * np.arange(LONG, dtype="float64")).sum(), x),
    ],
    ids=["shape", "dtype", "operation", "small array", "list", "more outputs"],
)
def test_what_differs_in_more_is_another_program(other: Callable[[Any], Any]) -> None:
    f = product("NUMPY", np.arange(LONG, dtype="float64"))
    x = gt.vector("x")
    g = graphc.function([x], other(x), mode="NUMPY")
    assert g._lowered is not None
    assert f._lowered is not None


def test_small_arrays_and_numbers_are_part_of_the_program(mode: str) -> None:
    x = gt.vector("x")
    found = []
    for value in (0.0, -0.0, np.array([1.0, -1.0])):
        f = graphc.function([x], gt.copysign(x, value), mode=mode)
        found.append(np.asarray(f(np.full(2, 3.0))).tolist())
        assert f._lowered is not None
    assert found == [[3.0, 3.0], [-3.0, -3.0], [3.0, -3.0]]


def test_modes_do_not_share() -> None:
    made = [product(m, np.ones(LONG))._lowered for m in names()]
    made += [product(graphc.Mode("NUMPY", excluding=["canonicalize"]), np.ones(LONG))._lowered]
    assert None not in made


@given(swap=st.booleans(), older=st.booleans())
def test_leaves_go_where_they_belong_whatever_is_older(swap: bool, older: bool) -> None:
    a, b = np.arange(1.0, 13), np.arange(1.0, 13) ** 2
    x = gt.vector("x")

    def made(a: Any, b: Any, first: str) -> Any:
        a, b = gt.constant(a), gt.constant(b)
        parts = {}
        for name in (first, "sin" if first == "exp" else "exp"):
            parts[name] = gt.exp(-a * x) if name == "exp" else gt.sin(b * x)
        y = parts["exp"] + parts["sin"] if swap else parts["sin"] + parts["exp"]
        return graphc.function([x], y, mode="NUMPY")

    PROGRAMS.clear()
    f = made(a, b, "exp")
    g = made(b, a, "sin" if older else "exp")
    assert is_shared(f, g)
    v = np.linspace(0, 0.1, LONG)
    np.testing.assert_allclose(f(v), np.exp(-a * v) + np.sin(b * v), rtol=1e-12)
    np.testing.assert_allclose(g(v), np.exp(-b * v) + np.sin(a * v), rtol=1e-12)


def test_commuting_leaves_of_one_type_are_not_confused(mode: str) -> None:
    a, b = np.arange(1.0, 13), np.arange(1.0, 13) ** 2
    for first, second in ((a, b), (b, a)):
        p, q = gt.constant(first), gt.constant(second)
        x = gt.vector("x")
        f = graphc.function([x], p * q * x + p - q, mode=mode)
        np.testing.assert_allclose(
            np.asarray(f(np.ones(LONG))), first * second + first - second, rtol=1e-12
        )


def test_leaves_that_decide_shapes_are_part_of_the_program(mode: str) -> None:
    x = gt.vector("x")
    mask = np.arange(LONG) % 3 == 0
    v = np.arange(LONG, dtype="float64")
    for turn in (0, 1, 0):
        kept = np.roll(mask, turn)
        f = graphc.function([x], x[kept] * 2, mode=mode)
        np.testing.assert_array_equal(np.asarray(f(v)), v[kept] * 2)
    assert f._lowered is None


@pytest.mark.sample(every=3)
def test_a_leaf_is_kept_as_long_as_functions_that_hold_it(mode: str) -> None:
    array = np.ones(LONG)
    seen = weakref.ref(array)
    f = product(mode, array)
    f(np.ones(LONG))
    del array, f
    gc.collect()
    assert seen() is None
    assert len(PROGRAMS) == 1


def test_shared_variables_keep_their_own_values(mode: str) -> None:
    functions = []
    for start in (0.0, 10.0):
        total, x = graphc.shared(np.full(LONG, start)), gt.vector("x")
        f = graphc.function([x], total.sum(), updates=[(total, total + x)], mode=mode)
        functions.append((f, total))
    assert is_shared(functions[0][0], functions[1][0])
    for f, _ in functions * 2:
        f(np.ones(LONG))
    assert [float(total.get_value()[0]) for _, total in functions] == [2.0, 12.0]


def test_which_variable_is_updated_is_part_of_the_program(mode: str) -> None:
    for i in (0, 1):
        pair = [graphc.shared(1.0), graphc.shared(2.0)]
        f = graphc.function([], pair[0] + pair[1], updates=[(pair[i], pair[0] * 10)], mode=mode)
        f()
        assert [float(x.get_value()) for x in pair] == [[10.0, 2.0], [1.0, 10.0]][i]


@pytest.mark.sample(every=3)
def test_a_shared_variable_does_not_live_on_in_the_cache(mode: str) -> None:
    total = graphc.shared(np.ones(LONG))
    store = weakref.ref(total)
    f = graphc.function([], total.sum(), mode=mode)
    f()
    del f, total
    gc.collect()
    assert store() is None
    assert len(PROGRAMS) == 1


def test_the_least_recently_used_program_goes() -> None:
    with config.change_flags(programs=2):
        for n in (LONG, LONG + 1, LONG, LONG + 2):
            product("NUMPY", np.ones(n))
        assert len(PROGRAMS) == 2
        assert product("NUMPY", np.ones(LONG))._lowered is None
        assert product("NUMPY", np.ones(LONG + 1))._lowered is not None


def test_what_a_function_uses_is_found_though_the_cache_is_full() -> None:
    with config.change_flags(programs=1):
        f = product("NUMPY", np.ones(LONG))
        product("NUMPY", np.ones(LONG + 1))
        assert is_shared(f, product("NUMPY", np.zeros(LONG)))


def test_threads_that_want_one_program_make_it_once(mode: str) -> None:
    load(mode)
    barrier, functions = threading.Barrier(8), []
    results: list[float] = []

    def work(k: int) -> None:
        barrier.wait()
        f = product(mode, np.full(LONG, float(k)))
        functions.append(f)
        results.append(float(f(np.ones(LONG))) - LONG * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 8
    assert sum(f._lowered is not None for f in functions) == 1
    assert len(PROGRAMS) == 1


def test_what_cannot_be_compiled_fails_for_every_thread_and_leaves_no_lock() -> None:
    x = gt.vector("x")
    for _ in range(3):
        with pytest.raises(GraphcError):
            graphc.function([x], x[x > 0], mode="JAX")
    assert not PROGRAMS._turns


def test_operations_of_the_users_own_are_told_apart_though_their_names_are_equal() -> None:
    def op(factor: float) -> Any:
        @dataclass(frozen=True, slots=True)
        class Scaled(graphc.Op):
            def infer(self, x: Any) -> Any:
                return x

            def perform(self, x: Any) -> Any:
                return factor * x

        return Scaled()

    x = gt.vector("x")
    for factor in (2.0, 3.0):
        y = gt.Tensor.make(op(factor), x)
        f = graphc.function([x], y, mode="NUMPY")
        assert f(np.ones(2)).tolist() == [factor] * 2
        rows = graphc.map(partial(gt.Tensor.make, op(factor)), x)
        assert graphc.function([x], rows, mode="NUMPY")(np.ones(2)).tolist() == [factor] * 2


def test_a_lowering_entered_later_counts() -> None:
    backend = load("NUMPY")
    x = gt.vector("x")
    before, entered = backend.lowerings.get(ROWS["sinh"]), len(backend.entered)
    assert graphc.function([x], gt.cumsum(x), mode="NUMPY")(np.ones(2)).tolist() == [1, 2]
    kind = type(gt.cumsum(x).op)
    try:
        backend.lower(kind)(lambda op, x: -op.perform(x))
        assert graphc.function([x], gt.cumsum(x), mode="NUMPY")(np.ones(2)).tolist() == [-1, -2]
    finally:
        del backend.lowerings[kind], backend.entered[entered:]
    assert before is backend.lowerings.get(ROWS["sinh"])


def test_errors_of_a_shared_program_are_told_with_the_own_names_and_lines(mode: str) -> None:
    a, b = gt.vector("a"), gt.vector("b")
    graphc.function([a, b], a + b, mode=mode)(np.ones(2), np.ones(2))
    c, d = gt.vector("mine"), gt.vector("d")
    y = c + d
    line = y.where
    f = graphc.function([c, d], y, mode=mode)
    assert f._lowered is None
    for _ in range(6):  # as a young function, and as a settled one
        with pytest.raises(RuntimeShapeError) as told:
            f(np.ones(2), np.ones(3))
        assert told.value.where == line
        with pytest.raises(ArgumentError, match="'mine'"):
            f(np.ones((2, 2)), np.ones(3))
        np.testing.assert_array_equal(np.asarray(f(np.ones(2), np.ones(2))), [2, 2])


def test_an_error_of_a_shared_program_changes_no_variable() -> None:
    for _ in range(2):
        x, total = gt.vector("x"), graphc.shared(np.zeros(3))
        f = graphc.function([x], total.sum(), updates=[(total, total + x)], mode="JAX")
        with pytest.raises(RuntimeShapeError):
            f(np.ones(4))
        assert total.get_value().tolist() == [0, 0, 0]


def test_the_plan_and_the_graph_are_of_the_own_variables(mode: str) -> None:
    x = gt.vector("first")
    graphc.function([x], gt.log(1 + x), mode=mode)
    y = gt.vector("second")
    f = graphc.function([y], gt.log(1 + y), mode=mode)
    assert f._lowered is None
    assert f.graph.inputs == (y,)
    assert f.graph.outputs[0] is gt.log1p(y)
    text = str(f.plan())
    assert "second" in text
    assert "first" not in text


def test_a_copy_from_a_pickle_finds_the_program(mode: str) -> None:
    f = product(mode, np.arange(12.0))
    g = pickle.loads(pickle.dumps(f))
    assert is_shared(f, g)
    assert float(g(np.ones(LONG))) == 66.0


def test_a_dropped_function_is_gone_at_once(mode: str) -> None:
    for calls in (0, 1, 10):
        f = product(mode, np.ones(LONG))
        for _ in range(calls):
            f(np.ones(LONG))
        gc.disable()
        try:
            seen = weakref.ref(f)
            del f
            assert seen() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("values", [(1, 1.0, True), (0.0, -0.0, False), ((2,), (2.0,))])
def test_parameters_that_python_calls_equal_are_told_apart(values: tuple[Any, ...]) -> None:
    @dataclass(frozen=True, slots=True)
    class Length(graphc.Op):
        what: int | tuple[int, ...]

        def infer(self, x: Any) -> Any:
            return x

        def perform(self, x: Any) -> Any:
            return np.full(x.shape, float(len(repr(self.what))))

    x = gt.vector("x")
    for value in values:
        f = graphc.function([x], gt.Tensor.make(Length(value), x), mode="NUMPY")
        assert f(np.ones(1)).tolist() == [float(len(repr(value)))]


def test_eval_sees_what_a_mask_holds_now(mode: str) -> None:
    mask = np.arange(LONG) % 2 == 0
    kept = gt.ones(LONG)[gt.constant(mask)]
    assert kept.eval(mode=mode).shape == (LONG // 2,)
    mask[:] = True
    assert kept.eval(mode=mode).shape == (LONG,)


def test_what_is_dropped_may_ask_for_a_program_on_its_way_out() -> None:
    class Last:
        def __del__(self) -> None:
            found.append(PROGRAMS.get("none"))

    def work() -> None:
        with config.change_flags(programs=1):
            PROGRAMS.put("first", Last())
            PROGRAMS.put("second", Last())

    found: list[Any] = []
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    assert found == [None]
    PROGRAMS.clear()


def test_who_is_told_of_a_compilation_may_call_the_function(mode: str) -> None:
    f = product(mode, np.arange(12.0))
    seen: list[float] = []

    def told(event: Any) -> None:
        seen.append(float(f(np.ones(LONG))))

    def call() -> None:
        with graphc.events.subscribe(told):
            f(np.ones(LONG))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert seen == [66.0]


def test_an_operation_may_call_the_function_that_it_is_part_of() -> None:
    @dataclass(frozen=True, slots=True)
    class Factorial(graphc.Op):
        def infer(self, n: Any) -> Any:
            return n

        def perform(self, n: Any) -> Any:
            return n * np.asarray(f(n - 1)) if n > 1 else n

    n = gt.scalar("n")
    for mode in ("NUMPY", graphc.Mode("MLX", fallback="numpy")):
        f = graphc.function([n], gt.Tensor.make(Factorial(), n), mode=mode)
        found: list[float] = []
        thread = threading.Thread(target=lambda f=f, to=found: to.append(f(5.0)), daemon=True)
        thread.start()
        thread.join(60)
        assert [float(x) for x in found] == [120.0]


def test_a_backends_own_lowering_that_is_imported_later_is_no_users() -> None:
    script = """
from graphc.link import load
backend = load("JAX")
import graphc.link.jax.wrap.call
print(backend.is_altered, backend.entered)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "[]"]


@pytest.mark.parametrize(("own", "kept"), [(True, True), (False, False)])
def test_a_lowering_of_a_users_operation_keeps_other_programs_on_disk(
    own: bool, kept: bool
) -> None:
    @dataclass(frozen=True, slots=True)
    class Mine(graphc.Op):
        def infer(self, x: Any) -> Any:
            return x

    backend = load("NUMPY")
    entered = len(backend.entered)
    try:
        backend.entered.append(Mine if own else type(gt.cumsum(gt.vector()).op))
        assert backend.is_altered is not kept
    finally:
        del backend.entered[entered:]
