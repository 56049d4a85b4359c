"""Executables on JAX: loaded where one was kept, else compiled; the same results either way."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.ir import TensorType
from graphc.link import CompileContext
from graphc.link.jax.call_key import KnownArguments
from graphc.link.jax.executables import Executables
from tests.link.executables import (
    RANDOM,
    Kept,
    as_lists,
    backend,
    gradient,
    loaded,
    made,
    pair,
    same,
    square,
)
from tests.work import python_calls

pytestmark = pytest.mark.gpu

# What a graph is, and an argument for each of its inputs.


def until() -> tuple[list[Any], list[Any], list[Any]]:
    c = gt.scalar("c")
    states = graphc.scan(
        lambda h: (h * 2, graphc.until(h > c)), outputs_info=gt.constant(1.0), n_steps=20
    )
    return [c], [states, states.sum()], [np.array(30.0)]


def unused() -> tuple[list[Any], list[Any], list[Any]]:
    x, y = gt.scalars("x", "y")
    return [x, y], [x * 2], [np.array(1.5), np.array(2.5)]


def ranges() -> tuple[list[Any], list[Any], list[Any]]:
    n, v = gt.scalar("n", dtype="int64"), gt.vector("v", dtype="float32")
    return [n, v], [v[:n] * gt.arange(n, dtype="float32")], [np.array(3), np.ones(5, "float32")]


CASES: dict[str, Callable[[], tuple[list[Any], list[Any], list[Any]]]] = {
    **{
        dtype: lambda dtype=dtype: pair(dtype)  # type: ignore[misc]
        for dtype in ("bool", "int8", "uint64", "float16", "float32", "float64", "complex64")
    },
    "the gradient of a loop": gradient,
    "a loop that stops": until,
    "an input without use": unused,
    "a value that decides a shape": ranges,
}


@pytest.mark.parametrize("x64", [False, True], ids=["x64 off", "x64 on"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_loaded_gives_what_was_compiled(case: str, x64: bool) -> None:
    inputs, outputs, arguments = CASES[case]()
    context = Kept()
    with jax.enable_x64(x64):
        first = made(inputs, outputs, context)(*arguments)
        second = made(inputs, outputs, context, has_program=False)
        for _ in range(3):
            same(second(*arguments), first)
    assert context.kinds == ["compile", "load"]
    by_numpy = graphc.function(inputs, outputs, mode="NUMPY", on_unused_input="ignore")(*arguments)
    for x, y in zip(as_lists(first), by_numpy, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-3 if case == "float16" else 1e-6)


def test_settings_of_x64_are_left_alone_and_have_executables_of_their_own() -> None:
    context = Kept()
    inputs, outputs, arguments = pair("float32")
    for on in (False, True):
        with jax.enable_x64(on):
            made(inputs, outputs, context)(*arguments)
            assert jax.config.jax_enable_x64 is on
    assert len(context.data) == 2


def test_it_is_told_for_which_shapes_and_values() -> None:
    context = Kept()
    n, v = gt.scalar("n", dtype="int64"), gt.vector("v", dtype="float32")
    before = time.perf_counter()
    execute = made([v, n], [v[:n]], context)
    execute(np.ones(5, "float32"), np.array(2))
    execute(np.ones(6, "float32"), np.array(2))
    execute(np.ones(5, "float32"), np.array(2))
    passed = time.perf_counter() - before
    assert context.records == [("compile", [(5,), ()], {1: 2}), ("compile", [(6,), ()], {1: 2})]
    assert all(0 < seconds < passed for seconds in context.seconds)
    shape = gt.vector("shape", dtype="int64", shape=(2,))
    made([shape], [gt.zeros(shape)], context)(np.array([2, 3]))
    assert context.records[2:] == [("compile", [(2,)], {0: (2, 3)})]


def test_a_value_that_decides_a_shape_is_taken_when_it_is_passed() -> None:
    n, v = gt.scalar("n", dtype="int64"), gt.vector("v")
    execute = made([n, v], [gt.arange(n).sum() + v], CompileContext())
    wanted = np.array(3)
    execute(wanted, np.ones(2))
    wanted[()] = 4
    same(execute(np.array(3), np.ones(5)), np.full(5, 4.0))


@pytest.mark.parametrize("x64", [False, True])
def test_there_may_be_no_arguments_and_no_results(x64: bool) -> None:
    context = Kept()
    with jax.enable_x64(x64):
        for has_program in (True, False):
            constant = made([], [gt.arange(12) * 2], context, has_program=has_program)
            same(constant(), np.arange(0, 24, 2))
            same(constant(), np.arange(0, 24, 2))
        with jax.disable_jit():
            same(made([], [gt.arange(12) * 2], context)(), np.arange(0, 24, 2))
        assert context.kinds == ["compile", "load"]
        nothing = [gt.vector("x")], []
        assert [made(*nothing, Kept())(np.ones(3)) for _ in range(2)] == [[], []]


# Donation.


def test_a_loaded_executable_works_in_place_too() -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    made([x], [x + 1], context, donated=(0,))(jnp.zeros(1000, "float32"))
    step = made([x], [x + 1], context, donated=(0,), has_program=False)
    given = step(jnp.zeros(1000, "float32"))
    place = given.unsafe_buffer_pointer()
    y = step(given)
    assert given.is_deleted()
    assert y.unsafe_buffer_pointer() == place
    same(y, np.full(1000, 2, "float32"))
    assert context.kinds == ["compile", "load"]


def test_what_was_given_away_is_refused_as_where_it_was_compiled() -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    for kind in ("compile", "load"):
        step = made([x], [x + 1], context, donated=(0,))
        given = step(step(jnp.zeros(9, "float32")))
        step(given)
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            step(given)
        same(step(jnp.zeros(9, "float32")), np.ones(9, "float32"))
        assert context.kinds[-1] == kind
    assert len(context.records) == 2


def test_what_is_donated_has_an_executable_of_its_own() -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    made([x], [x + 1], context, donated=(0,))(jnp.zeros(9, "float32"))
    given = jnp.zeros(9, "float32")
    made([x], [x + 1], context)(given)
    assert context.kinds == ["compile", "compile"]
    assert not given.is_deleted()


# Bytes that are wrong.


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: bytes(len(data)),
        lambda data: data[:200] + b"\xff" + data[200:],
        lambda data: b"\xff" * 8 + data,
    ],
    ids=["half", "nothing", "zeros", "one byte more", "another head"],
)
def test_bytes_that_are_no_executable_are_compiled_again(spoil: Callable[[bytes], bytes]) -> None:
    inputs, outputs, arguments = pair("float32")
    context = Kept()
    first = made(inputs, outputs, context)(*arguments)
    ((name, data),) = context.data.items()
    context.data[name] = spoil(data)
    same(made(inputs, outputs, context)(*arguments), first)
    assert context.kinds == ["compile", "compile"]
    same(made(inputs, outputs, context, has_program=False)(*arguments), first)
    assert context.kinds[2:] == ["load"]


# Several shapes.


@pytest.fixture
def missed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of the calls that found no executable at once."""
    found: list[str] = []
    again = Executables._again

    def noted(self: Executables, failed: Exception, arguments: Any) -> Any:
        found.append(str(failed))
        return again(self, failed, arguments)

    monkeypatch.setattr(Executables, "_again", noted)
    return found


def test_shapes_that_alternate_find_their_executables_at_once(missed: list[str]) -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    for n in (2, 3):
        made([x], [x * 2], context)(np.ones(n, "float32"))
    execute = made([x], [x * 2], context)
    context.records.clear()
    shapes = (2, 3, 4, 5)
    for n in shapes:
        execute(np.ones(n, "float32"))
    missed.clear()
    for n in shapes * 3:
        same(execute(np.full(n, n, "float32")), np.full(n, 2 * n, "float32"))
        same(execute(jnp.full(n, n, "float32")), np.full(n, 2 * n, "float32"))
    assert not missed
    assert context.kinds == ["load", "load", "compile", "compile"]


def test_each_shape_is_compiled_once(missed: list[str]) -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    execute = made([x], [x * 2], context)
    for n in (2, 3, 2, 3, 4):
        same(execute(np.ones(n, "float32")), np.full(n, 2, "float32"))
    assert context.kinds == ["compile"] * 3
    assert len(missed) == 3


def test_calls_of_each_shape_are_dispatched_by_jax_in_cpp() -> None:
    x = gt.vector("x", dtype="float32")
    execute = made([x], [x * 2], Kept())
    arrays = [np.ones(n, "float32") for n in (2, 3, 4)]
    for array in arrays * 2:
        execute(array)
    for array in arrays:
        assert python_calls(lambda array=array: execute(array)) < 8  # type: ignore[misc]


@pytest.mark.exhaustive
def test_what_jax_was_told_to_forget_is_told_again() -> None:
    x = gt.vector("x", dtype="float32")
    context = Kept()
    execute = made([x], [x * 2], context)
    arrays = [np.ones(n, "float32") for n in (2, 3)]
    for array in arrays:
        execute(array)
    jax.clear_caches()
    for array in arrays * 2:
        same(execute(array), array * 2)
    assert context.kinds == ["compile"] * 4
    for array in arrays:
        assert python_calls(lambda array=array: execute(array)) < 8  # type: ignore[misc]


def test_committed_arrays_are_taken_by_what_was_loaded(missed: list[str]) -> None:
    execute, context = square()
    missed.clear()
    x = jax.device_put(np.array([1, 2, 3], "float32"), jax.devices()[0])
    assert x.committed
    same(execute(x), np.array([1, 4, 9], "float32"))
    assert context.kinds == []
    assert not missed


# Errors.


def test_what_fails_fails_as_where_it_was_compiled() -> None:
    """A check of lengths that follow from data, which is the loaded executable's as well."""
    c, v = gt.scalar("c"), gt.vector("v")
    states = graphc.scan(
        lambda h: (h * 2, graphc.until(h > c)), outputs_info=gt.constant(1.0), n_steps=20
    )
    context = Kept()
    right = np.array(30.0), np.ones(6)
    wrong = np.array(300.0), np.ones(6)
    errors = []
    for _ in range(2):
        execute = made([c, v], [states + v], context)
        execute(*right)
        with pytest.raises(GraphcError) as caught:
            execute(*wrong)
        errors.append((type(caught.value), str(caught.value)))
    assert context.kinds == ["compile", "load"]
    assert errors[0] == errors[1]
    assert "6" in errors[0][1]


def test_arguments_that_do_not_fit_are_refused_and_nothing_is_told() -> None:
    x, y = gt.vectors("x", "y", dtype="float32")
    execute, context = loaded([x, y], [x + y], *[np.ones(3, "float32")] * 2)
    for _ in range(2):
        with pytest.raises(graphc.errors.RuntimeShapeError, match="differ in length"):
            execute(np.ones(3, "float32"), np.ones(4, "float32"))
    assert context.kinds == []
    same(execute(*[np.ones(3, "float32")] * 2), np.full(3, 2, "float32"))


def test_a_refusal_to_make_more_leaves_all_as_it_was() -> None:
    class Full(Kept):
        full = False

        def before_compile(self, shapes: Any, values: Any) -> None:
            if self.full:
                raise graphc.errors.GraphcError("enough")

    x = gt.vector("x", dtype="float32")
    context = Full()
    execute = made([x], [x * 2], context)
    execute(np.ones(2, "float32"))
    context.full = True
    for _ in range(2):
        with pytest.raises(GraphcError, match="enough"):
            execute(np.ones(3, "float32"))
    same(execute(np.ones(2, "float32")), np.full(2, 2, "float32"))
    context.full = False
    same(execute(np.ones(3, "float32")), np.full(3, 2, "float32"))
    assert context.kinds == ["compile"] * 2


def test_a_call_that_misses_keeps_no_arguments_alive() -> None:
    execute, _ = square()
    gc.disable()
    try:
        x = jnp.ones(5, "float32")
        gone = weakref.ref(x)
        execute(x).block_until_ready()
        del x
        assert gone() is None
    finally:
        gc.enable()


# Arrays.


@pytest.mark.sample(every=12)
@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [0, 3, 600])
def test_an_array_is_a_copy_whatever_its_size(n: int, dtype: str) -> None:
    source = np.asfortranarray(RANDOM.integers(0, 2, (n, n)).astype(dtype))
    wanted = source.copy()
    kept = backend.array(source, TensorType(dtype, (n, n)), {})
    every_other = backend.array(source[:, ::2], TensorType(dtype, (n, None)), {})
    source[...] = 7
    gc.collect()
    same(kept, wanted)
    same(every_other, wanted[:, ::2])


def test_a_large_array_is_copied_once() -> None:
    data = np.ones((400, 400))
    kept = backend.array(data, TensorType("float64", (400, 400)), {})
    assert np.asarray(kept).ctypes.data == kept.unsafe_buffer_pointer()
    assert kept.unsafe_buffer_pointer() % 64 == 0
    bumped = jax.jit(lambda x: x + 1, donate_argnums=0)
    with jax.enable_x64(True):
        same(bumped(kept), data + 1)
    assert (data == 1).all()


# What cannot be kept.


def test_what_calls_back_into_python_runs_and_is_not_kept() -> None:
    context = Kept()

    def called_back(x: Any) -> Any:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: np.asarray(x) * 2, like, x)

    for _ in range(2):
        known = KnownArguments()
        execute = Executables(called_back, (), context, known, pure=True, foreign=False).caller()
        same(execute(np.ones(3, "float32")), np.full(3, 2, "float32"))
    assert context.kinds == ["compile"] * 2
    assert not context.data


def test_arrays_that_are_large_are_no_part_of_the_program() -> None:
    data = RANDOM.standard_normal((1000, 1000)).astype("float32")
    x = gt.vector("x", dtype="float32")
    f = graphc.function([x], gt.constant(data) @ x, mode="JAX")
    execute: Any = f._compiled.execute
    assert len(execute.lower(np.ones(1000, "float32"), data).as_text()) < 10_000


# Threads.


def test_threads_that_come_at_once_compile_once() -> None:
    inputs, outputs, arguments = gradient()
    context = Kept()
    execute = made(inputs, outputs, context)
    start = threading.Barrier(4)
    results: list[Any] = []

    def work() -> None:
        start.wait()
        results.extend(as_lists(execute(*arguments)) for _ in range(3))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    for found in results:
        same(found, results[0])
    assert context.kinds == ["compile"]


def test_threads_with_values_that_decide_shapes_compile_each_once() -> None:
    n, v = gt.scalar("n", dtype="int64"), gt.vector("v", dtype="float32")
    context = Kept()
    execute = made([n, v], [gt.arange(n).sum() + v], context)
    start = threading.Barrier(6)
    wrong: list[Any] = []

    def work(count: int) -> None:
        start.wait()
        for _ in range(5):
            found = np.asarray(execute(np.array(count), np.zeros(2, "float32")))
            wrong.extend(y for y in found if y != count * (count - 1) // 2)

    threads = [threading.Thread(target=work, args=(2 + i % 2,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sorted(values[0] for _, _, values in context.records) == [2, 3]
