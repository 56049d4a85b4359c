"""Events, counts and expectations: what was compiled, found or loaded, and for which function."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile import events
from graphc.compile.cache import PROGRAMS
from graphc.errors import ArgumentError, GraphcError, RecompileError

ONES = np.ones(3)


def made(mode: Any = "NUMPY", *, factor: float = 2.5, name: str | None = None) -> Any:
    """A function of a vector, which a factor tells from others."""
    x = gt.vector("x")
    return graphc.function([x], gt.cosh(x) * factor, name=name, mode=mode)


def kinds(seen: list[events.Event]) -> list[str]:
    return [event.kind for event in seen]


# Events.


def test_the_first_call_compiles_and_that_of_an_equal_function_finds_it(mode: str) -> None:
    seen: list[events.Event] = []
    with events.subscribe(seen.append):
        first, second = made(mode), made(mode)
        assert seen == []
        for f in (first, first, second, second, second, second, second, second):
            f(ONES)
    assert kinds(seen) == ["compile", "hit"]
    assert {event.key for event in seen} == {first.requested.key()}


def test_a_function_that_is_never_called_causes_no_event(mode: str) -> None:
    seen: list[events.Event] = []
    with events.subscribe(seen.append):
        f = made(mode)
        f.plan()
    assert seen == []
    assert (f.stats.compiles, f.stats.hits, f.stats.loads) == (0, 0, 0)


def test_an_event_tells_function_line_shapes_mode_and_time(mode: str) -> None:
    seen: list[events.Event] = []
    x, w = gt.matrix("x"), graphc.shared(np.ones((2, 4)), name="w")
    with events.subscribe(seen.append):
        before = time.perf_counter()
        f = graphc.function([x], x @ w, name="product", mode=mode)
        f(np.ones((5, 2)))
        passed = time.perf_counter() - before
    (event,) = seen
    line = test_an_event_tells_function_line_shapes_mode_and_time.__code__.co_firstlineno + 5
    assert (event.function, event.mode, event.cause) == ("product", mode, None)
    assert event.where == f"test_events.py:{line}"
    assert event.shapes[:2] == ((5, 2), (2, 4))
    assert 0 < event.milliseconds <= passed * 1e3
    assert not event.internal
    assert str(event).startswith(f"compile product (test_events.py:{line}), ")


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_other_shapes_are_events_with_their_lengths_as_cause(mode: str) -> None:
    seen: list[events.Event] = []
    f = made(mode)
    with events.subscribe(seen.append):
        for n in (3, 5, 3, 5):
            f(np.ones(n))
        for _ in range(6):
            f(np.ones(7))
    assert kinds(seen) == ["compile"] * 3
    assert [event.shapes[0] for event in seen] == [(3,), (5,), (7,)]
    assert seen[0].cause is None
    assert "axis 0 of `x`" in str(seen[1].cause)
    assert str(seen[1].cause).endswith("3, 5")
    assert f.stats.compiles == 3


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_an_executable_shared_by_functions_is_told_of_the_one_that_is_called(mode: str) -> None:
    seen: list[events.Event] = []
    first, second = made(mode, name="first"), made(mode, name="second")
    for _ in range(6):
        first(ONES)
        second(ONES)
    with events.subscribe(seen.append):
        second(np.ones(4))
        first(np.ones(5))
    assert [event.function for event in seen] == ["second", "first"]


def test_what_is_loaded_from_disk_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("graphc.compile.disk.edited_since_import", lambda: False)
    seen: list[events.Event] = []
    with graphc.config.change_flags(cache_dir=tmp_path), events.subscribe(seen.append):
        before = made("JAX", factor=1.125)(ONES)
        PROGRAMS.clear()
        f = made("JAX", factor=1.125)
        np.testing.assert_array_equal(f(ONES), before)
    assert kinds(seen) == ["compile", "load"]
    assert (f.stats.compiles, f.stats.loads) == (0, 1)


def test_unsubscribing_ends_it_and_twice_does_nothing() -> None:
    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.append)
    made(factor=1.5)(ONES)
    unsubscribe()
    unsubscribe()
    made(factor=2.0)(ONES)
    assert len(seen) == 1


def test_one_callback_may_be_subscribed_twice() -> None:
    seen: list[events.Event] = []
    with events.subscribe(seen.append):
        with events.subscribe(seen.append):
            made(factor=1.5)(ONES)
        made(factor=2.0)(ONES)
    assert len(seen) == 3


def test_an_error_of_a_callback_is_logged_and_breaks_nothing(caplog: Any) -> None:
    seen: list[events.Event] = []

    def broken(event: events.Event) -> None:
        raise ZeroDivisionError(event.kind)

    with (
        caplog.at_level(logging.ERROR, "graphc"),
        events.subscribe(broken),
        events.subscribe(seen.append),
    ):
        y = made()(ONES)
    np.testing.assert_allclose(y, np.cosh(1.0) * 2.5)
    assert kinds(seen) == ["compile"]
    (record,) = caplog.records
    assert record.exc_info[0] is ZeroDivisionError


def test_what_a_callback_compiles_is_no_event() -> None:
    seen: list[events.Event] = []

    def compiling(event: events.Event) -> None:
        seen.append(event)
        made(factor=float(len(seen)))(ONES)

    with events.subscribe(compiling), graphc.expect_compiles(1):
        made(factor=77.0)(ONES)
    assert kinds(seen) == ["compile"]


def test_a_callback_may_unsubscribe_itself() -> None:
    seen: list[events.Event] = []

    def once(event: events.Event) -> None:
        seen.append(event)
        unsubscribe()

    unsubscribe = events.subscribe(once)
    for factor in (1.0, 2.0, 3.0):
        made(factor=factor)(ONES)
    assert len(seen) == 1


def test_events_of_many_threads_are_all_told() -> None:
    seen: list[tuple[int, str]] = []
    start = threading.Barrier(8)

    def work(i: int) -> None:
        start.wait()
        for k in range(5):
            made(factor=1 + i + k / 8)(ONES)

    with events.subscribe(lambda event: seen.append((threading.get_ident(), event.kind))):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [kind for _, kind in seen] == ["compile"] * 40
    assert len({thread for thread, _ in seen}) > 1


def test_a_subscription_keeps_no_function_alive() -> None:
    seen: list[events.Event] = []
    with events.subscribe(seen.append):
        f = made()
        f(ONES)
        kept = weakref.ref(f)
        del f
    gc.collect()
    assert kept() is None
    assert len(seen) == 1


# Counts.


def test_stats_count_compilations_and_what_they_took(mode: str) -> None:
    f = made(mode)
    for _ in range(6):
        f(ONES)
    assert f.stats.compiles == 1
    assert f.stats.milliseconds > 0
    second = made(mode)
    second(ONES)
    assert (second.stats.compiles, second.stats.hits, second.stats.milliseconds) == (0, 1, 0.0)


def test_stats_tell_the_causes_of_functions_made_there_before() -> None:
    x = gt.vector("x")
    for rate in (0.5, 0.25, 0.125):
        f = graphc.function([x], x * rate, mode="NUMPY")
        f(ONES)
    assert ["0.5 -> 0.25" in cause for cause in f.stats.causes] == [True, False]
    assert "0.25 -> 0.125" in f.stats.causes[1]


# Expectations.


def test_as_many_compilations_as_expected_are_no_error(mode: str) -> None:
    with graphc.expect_compiles(2):
        for factor in (1.5, 2.5, 1.5, 2.5):
            made(mode, factor=factor)(ONES)
    with graphc.expect_compiles(0):
        made(mode, factor=1.5)(ONES)


def test_one_too_many_names_each_with_its_line_and_cause() -> None:
    x = gt.vector("x")

    def all_of(*rates: float) -> None:
        for rate in rates:
            graphc.function([x], x * rate, name="scaled", mode="NUMPY")(ONES)

    with pytest.raises(RecompileError) as caught, graphc.expect_compiles(1):
        all_of(0.5, 0.25)
    text = str(caught.value)
    line = test_one_too_many_names_each_with_its_line_and_cause.__code__.co_firstlineno + 5
    assert text.startswith("Compilations expected: 1; there were 2:\n  compile scaled (")
    assert text.count(f"compile scaled (test_events.py:{line})") == 2
    assert "Python scalar: `rate`" in text
    assert isinstance(caught.value, GraphcError)


def test_one_too_few_is_an_error_too() -> None:
    with (
        pytest.raises(RecompileError, match=r"expected: 1; there were 0\.\n.*in memory"),
        graphc.expect_compiles(1),
    ):
        made()


def test_another_error_is_not_hidden_by_what_was_expected() -> None:
    with pytest.raises(KeyError), graphc.expect_compiles(3):
        raise KeyError


def test_expectations_may_be_nested() -> None:
    with graphc.expect_compiles(2):
        made(factor=1.5)(ONES)
        with graphc.expect_compiles(1):
            made(factor=2.5)(ONES)
        with graphc.expect_compiles(0):
            made(factor=2.5)(ONES)


def test_an_expectation_that_failed_leaves_nothing_behind() -> None:
    with pytest.raises(RecompileError), graphc.expect_compiles(5):
        made(factor=1.5)(ONES)
    with graphc.expect_compiles(1):
        made(factor=2.5)(ONES)


def test_what_other_threads_compile_is_not_counted() -> None:
    with graphc.expect_compiles(0):
        thread = threading.Thread(target=lambda: made(factor=9.5)(ONES))
        thread.start()
        thread.join()


def test_what_other_tasks_compile_is_not_counted() -> None:
    async def compiling(n: int, base: float) -> None:
        with graphc.expect_compiles(n):
            for i in range(n):
                await asyncio.sleep(0)
                made(factor=base + i)(ONES)

    async def both() -> None:
        await asyncio.gather(compiling(2, 1.5), compiling(3, 10.5))

    asyncio.run(both())


def test_what_graphc_compiles_for_itself_is_not_counted() -> None:
    with graphc.expect_compiles(0):
        graphc.verify_grad(lambda x: gt.tanh(x) ** 3, [np.array([0.5, 0.25])])


@pytest.mark.parametrize("wrong", [-1, 1.0, True, None])
def test_a_wrong_number_to_expect_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected an integer of at least 0"):
        graphc.expect_compiles(wrong)


# What is a library's own.


def test_what_a_library_compiles_is_marked(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "a_library_of_models").mkdir()
    source = (
        "import graphc, graphc.tensor as gt\n"
        "def scaled(values, k):\n"
        "    x = gt.vector('x')\n"
        "    return graphc.function([x], gt.sinh(x) * k, mode='NUMPY')(values)\n"
    )
    (tmp_path / "a_library_of_models" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    graphc.mark_internal("a_library_of_models")
    import a_library_of_models as library  # type: ignore[import-not-found]  # noqa: PLC0415

    seen: list[events.Event] = []
    with events.subscribe(seen.append), graphc.recompile("raise"), graphc.expect_compiles(0):
        for k in (1.5, 2.5, 3.5):
            library.scaled(ONES, k)
    assert [event.internal for event in seen] == [True] * 3
    line = test_what_a_library_compiles_is_marked.__code__.co_firstlineno + 16
    assert {event.where for event in seen} == {f"test_events.py:{line}"}


def test_a_block_or_a_decorated_function_may_be_internal() -> None:
    seen: list[events.Event] = []

    @graphc.internal()
    def decorated(k: float) -> None:
        made(factor=k)(ONES)

    with events.subscribe(seen.append), graphc.recompile("raise"):
        for k in (1.5, 2.5, 3.5):
            decorated(k)
        with graphc.internal():
            for k in (4.5, 5.5):
                made(factor=k)(ONES)
        made(factor=6.5)(ONES)
    assert [event.internal for event in seen] == [True] * 5 + [False]


def test_a_decorated_coroutine_is_internal_while_it_runs() -> None:
    seen: list[Any] = []

    @graphc.internal()
    async def decorated(k: float) -> float:
        await asyncio.sleep(0)
        return float(made(factor=k)(ONES).sum())

    async def both() -> list[float]:
        found = await asyncio.gather(decorated(21.5), decorated(22.5))
        made(factor=23.5)(ONES)
        return found

    with events.subscribe(seen.append):
        assert asyncio.run(both()) == [float(made(factor=k)(ONES).sum()) for k in (21.5, 22.5)]
    assert [event.internal for event in seen][:3] == [True, True, False]


async def _asynchronous() -> AsyncIterator[int]:
    yield 1


def _generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "what", [graphc.internal(), graphc.recompile("ignore")], ids=["internal", "recompile"]
)
@pytest.mark.parametrize("generator", [_asynchronous, _generator])
def test_a_generator_cannot_be_decorated(generator: Any, what: Any) -> None:
    with pytest.raises(ArgumentError, match="is a generator, whose code runs after"):
        what(generator)


@pytest.mark.parametrize("wrong", [None, 3, "print", [print]], ids=repr)
def test_what_cannot_be_called_cannot_be_subscribed(wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected a function that takes an event"):
        events.subscribe(wrong)


@pytest.mark.parametrize(
    "wrong",
    ["there_is_no_such_package", "sys", "", "numpy.nothing", None, 3, np, ["numpy"]],
    ids=repr,
)
def test_a_package_that_is_not_there_cannot_be_marked(wrong: str) -> None:
    with pytest.raises(ArgumentError, match="no such package"):
        graphc.mark_internal(wrong)
