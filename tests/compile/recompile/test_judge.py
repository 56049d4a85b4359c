"""When a function that is made again is told of, and when it is not."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.compile.recompile import history
from graphc.errors import ModeError, RecompileError, RecompileWarning

ONES = np.ones(3)
x = gt.vector("x")


@pytest.fixture(autouse=True)
def warn() -> Iterator[None]:
    """As for users."""
    with graphc.config.change_flags(recompile="warn"):
        yield


@contextmanager
def told() -> Iterator[list[str]]:
    """The texts of warnings within."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    assert {each.category for each in caught} <= {RecompileWarning}
    found += [str(each.message) for each in caught]


def rounds(n: int, each: Callable[[int], Any]) -> list[int]:
    """At which of the first n rounds something is told."""
    at = []
    for i in range(1, n + 1):
        with told() as found:
            each(i)
        at += [i] * len(found)
    return at


def scaled(k: Any, mode: Any = "NUMPY", calls: int = 1) -> Any:
    f = graphc.function([x], gt.sinh(x) * k, mode=mode)
    for _ in range(calls):
        f(ONES)
    return f


def dropped(k: Any, mode: Any = "NUMPY", calls: int = 1) -> None:
    scaled(k, mode, calls)


# Whether predecessors count.


@pytest.mark.parametrize(("calls", "at"), [(0, []), (1, [2]), (3, [2]), (4, []), (9, [])])
def test_a_dropped_function_counts_where_it_was_called_less_than_four_times(
    calls: int, at: list[int], mode: str
) -> None:
    assert rounds(5, lambda i: dropped(i / 8, mode, calls)) == at


def test_a_function_that_is_kept_does_not_count(mode: str) -> None:
    kept = []
    assert rounds(12, lambda i: kept.append(scaled(i / 8, mode))) == []


def test_it_counts_from_when_it_is_dropped() -> None:
    kept = []

    def each(i: int) -> None:
        if i == 4:
            kept.clear()
        kept.append(scaled(i / 8))

    assert rounds(8, each) == [4]


def test_functions_made_before_they_are_called_do_not_count() -> None:
    made = [graphc.function([x], gt.sinh(x) * (i / 8), mode="NUMPY") for i in range(5)]
    assert rounds(5, lambda i: made[i - 1](ONES)) == []


def test_a_generator_of_functions_drops_them() -> None:
    made = (graphc.function([x], gt.sinh(x) * (i / 8), mode="NUMPY") for i in range(5))
    assert rounds(5, lambda i: next(made)(ONES)) == [2]


def test_one_that_is_built_again_with_the_same_number_is_not_told_of(mode: str) -> None:
    assert rounds(5, lambda i: dropped(0.5, mode)) == []


def test_numbers_marked_runtime_are_not_told_of(mode: str) -> None:
    assert rounds(5, lambda i: dropped(graphc.runtime(i / 8), mode)) == []


def test_eval_drops_its_functions(mode: str) -> None:
    assert rounds(4, lambda i: (gt.sinh(x) * (i / 8)).eval({x: ONES}, mode=mode)) == [2]


def test_eval_of_one_expression_is_not_told_of(mode: str) -> None:
    y = gt.sinh(x) * 1.5
    assert rounds(20, lambda i: y.eval({x: ONES * i}, mode=mode)) == []


def test_arrays_of_equal_values_are_not_told_of() -> None:
    assert rounds(4, lambda i: dropped(np.arange(3.0) + np.zeros((12, 1)))) == []


def test_captured_arrays_of_other_values_are_a_cause_in_stats_once(mode: str) -> None:
    def each(i: int) -> Any:
        batch = np.full((12, 3), i / 8)
        f = graphc.function([x], gt.sinh(x) * batch, mode=mode)
        f(ONES)
        return f.stats

    with graphc.expect_compiles(1), told() as warned:
        (cause,) = [each(i) for i in range(4)][-1].causes
    assert warned == []
    assert cause.startswith("captured value: `batch` (local of each, test_judge.py:")
    assert cause.endswith("float64[12, 3] of other values")


def test_a_few_other_elements_of_an_array_are_seen() -> None:
    def each(i: int) -> Any:
        values = np.zeros((12, 3))
        values[i, 1] = 1.0
        return scaled(values).stats

    assert [each(i).causes for i in range(2)][-1][0].startswith("captured value: ")


def test_two_storms_that_take_turns_at_one_place_are_seen_as_such() -> None:
    def each(i: int) -> None:
        y = gt.sinh(x) * (i / 8) if i % 2 else gt.tanh(x).sum() + i / 8
        graphc.function([x], y, mode="NUMPY")(ONES)

    assert rounds(6, each) == [3]


def test_a_mixture_of_changed_and_unchanged_is_told_by_what_changed() -> None:
    def each(rate: float, power: float) -> None:
        graphc.function([x], gt.sinh(x) * rate + x**power, mode="NUMPY")(ONES)

    with told() as found:
        for rate in (0.5, 0.25):
            each(rate, 3.5)
    assert "`rate`" in found[0]
    assert "`power`" not in found[0]


def test_a_number_that_changes_sides_in_a_sum_is_found() -> None:
    """Commuting operands are ordered by age and digest, which the number has a part in."""
    y = gt.vector("y")

    def each(i: int) -> None:
        z = (gt.exp(x) + gt.sin(y) + i / 8) * (gt.cos(x) + gt.sinh(y) * (i / 8))
        graphc.function([x, y], z + z * y, mode="NUMPY")(ONES, ONES)

    with told() as found:
        for i in range(1, 4):
            each(i)
    assert len(found) == 1
    assert "0.125 -> 0.25   [Python scalar, baked in]" in found[0]


# Places.


def test_each_line_is_told_of_once_wherever_it_is_called_from() -> None:
    def storm() -> list[int]:
        return rounds(6, lambda i: dropped(i / 8))

    def other(i: int) -> None:
        graphc.function([x], gt.sinh(x) * (i / 8), mode="NUMPY")(ONES)

    assert storm() == [2]
    assert storm() == []
    assert rounds(6, other) == [2]
    assert rounds(6, lambda i: dropped(1.0, calls=1 + i % 2)) == []
    assert rounds(6, lambda i: dropped(i / 16)) == []


def test_another_cause_at_the_same_line_is_told_as_well() -> None:
    assert rounds(6, lambda i: dropped(i / 8)) == [2]
    assert rounds(6, lambda i: dropped(np.full(3, i / 8))) == [2]


def test_the_lines_that_lead_there_are_part_of_the_place() -> None:
    def all_once() -> None:
        dropped(0.125)
        dropped(0.25)
        dropped(0.5)

    with told() as found:
        all_once()
    assert found == []


def test_a_place_is_the_same_once_the_interpreter_has_specialised_its_code() -> None:
    """Python counts executions, and moves what it says is running by an instruction or so."""

    class Rates:
        def __getitem__(self, i: int) -> None:
            dropped(i / 8)

    def steps() -> Iterator[None]:
        for i in range(1, 100):
            dropped(i / 8)
            yield

    keys = set()
    running, rates = steps(), Rates()
    with told():
        for i in range(40):
            next(running)
            rates[i]
            keys |= {*history._histories}
    mine = [key for key in keys if key[0] == os.environ["PYTEST_CURRENT_TEST"]]
    assert len(mine) == 2


def test_depths_of_a_recursion_are_places() -> None:
    def nested(depth: int) -> None:
        dropped(depth / 8)
        if depth > 1:
            nested(depth - 1)

    assert rounds(1, lambda _: nested(6)) == []


def test_a_cell_that_is_run_again_is_another_place() -> None:
    session = {"graphc": graphc, "gt": gt, "x": x, "ONES": ONES}
    source = "f = graphc.function([x], gt.sinh(x) * k, mode='NUMPY')\nf(ONES)"

    def run(i: int) -> None:
        session["k"] = i / 8  # type: ignore[assignment]
        exec(compile(source, "<cell>", "exec"), session)

    assert rounds(5, run) == []


def test_a_loop_in_a_cell_is_one_place() -> None:
    session: dict[str, Any] = {"graphc": graphc, "gt": gt, "x": x, "ONES": ONES}
    source = (
        "for k in (0.5, 0.25, 0.125):\n"
        "    f = graphc.function([x], gt.sinh(x) * k, mode='NUMPY')\n"
        "    f(ONES)\n"
    )
    with told() as found:
        exec(compile(source, "<cell>", "exec"), session)
    assert len(found) == 1
    assert "`k` (global of <cell>, <cell>:2)  0.5 -> 0.25" in found[0]


def test_tests_of_pytest_are_places_of_their_own(monkeypatch: Any) -> None:
    def each(i: int) -> None:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"test_rate[{i}]")
        dropped(i / 8)

    assert rounds(5, each) == []


def test_threads_of_one_function_are_one_place() -> None:
    def each(i: int) -> None:
        thread = threading.Thread(target=dropped, args=(i / 8,))
        thread.start()
        thread.join()

    with told() as found:
        for i in range(1, 6):
            each(i)
    assert len(found) == 1


def test_places_functions_and_causes_are_bounded() -> None:
    source = "f = graphc.function([x], x * 0.5, mode='NUMPY')\nf(ONES)"
    for _ in range(history.MAX_SITES + 50):
        exec(compile(source, "<cell>", "exec"), {"graphc": graphc, "x": x, "ONES": ONES})
    assert len(history._histories) == history.MAX_SITES
    with graphc.recompile("ignore"):
        for i in range(100):
            f = scaled(i / 8)
    assert len(f.record.history.records) <= history.MAX_FUNCTIONS
    assert len(f.stats.causes) <= history.MAX_CAUSES


def test_summaries_are_bounded_and_what_is_long_ago_is_not_guessed(monkeypatch: Any) -> None:
    monkeypatch.setattr(history, "MAX_NODES", 50)
    monkeypatch.setattr(history, "_summaries", history._SummaryCache())

    def made(i: int) -> Any:
        f = graphc.function([x], gt.sinh(x) * (i / 8) + 1, mode="NUMPY")
        f(ONES)
        return f

    def others() -> None:
        for k in range(20):
            graphc.function([x], gt.cosh(x) * (k / 8) - 1, mode="NUMPY")(ONES)

    with graphc.recompile("ignore"):
        for i in range(2):
            f = made(i)
            others()
    assert f.stats.causes == ["structure: nothing is known of the one before any more"]
    assert sum(len(each.nodes) for each in history._summaries._kept.values()) <= 50


def test_nothing_that_is_remembered_keeps_functions_or_arrays_or_variables_alive() -> None:
    def each(i: int) -> list[weakref.ref[Any]]:
        data, w = np.full((12, 3), float(i)), graphc.shared(np.ones((12, 3)))
        f = graphc.function([x], x * data + w + i / 8, mode="NUMPY")
        f(ONES)
        return [weakref.ref(each) for each in (f, data, w)]

    with told() as found:
        kept = [ref for i in range(4) for ref in each(i)]
    gc.collect()
    assert len(found) == 1
    assert [ref() for ref in kept] == [None] * 12


def test_a_frame_holds_on_to_nothing_that_its_code_dropped() -> None:
    """Reading a frame's variables must not leave references behind in it."""
    data = np.zeros((12, 3))
    gone = []
    with told():
        for i in range(4):
            data = np.full((12, 3), float(i))
            gone.append(weakref.ref(data))
            f = graphc.function([x], x * data, mode="NUMPY")
            f(ONES)
        del f, data
        assert [ref() for ref in gone] == [None] * 4


def test_what_locals_gave_the_user_stays_as_it_is() -> None:
    with told() as found:
        for i in range(3):
            mine = locals()
            graphc.function([x], gt.sinh(x) * (i / 8), mode="NUMPY")(ONES)
            assert mine["i"] == i
    assert len(found) <= 1


# Settings.


def test_an_error_comes_before_anything_is_compiled(mode: str) -> None:
    refused = []
    with graphc.recompile("raise"), graphc.expect_compiles(1):
        for k in (0.5, 0.25, 0.125):
            try:
                dropped(k, mode)
            except RecompileError as error:
                refused.append(error)
    assert ["0.5 -> 0.25" in str(refused[0]), "0.5 -> 0.125" in str(refused[1])] == [True] * 2


def test_a_refused_function_is_refused_at_each_call() -> None:
    def made(k: float) -> Any:
        return graphc.function([x], gt.sinh(x) * k, mode="NUMPY")

    with graphc.recompile("raise"):
        for k in (0.5, 0.25):
            f = made(k)
            if k == 0.5:
                f(ONES)
                continue
            for _ in range(3):
                with pytest.raises(RecompileError):
                    f(ONES)
    with graphc.recompile("ignore"):
        np.testing.assert_allclose(f(ONES), np.sinh(1.0) * 0.25)


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_an_executable_too_many_is_refused_before_it_is_compiled(mode: str) -> None:
    f = graphc.function([x], gt.sinh(x) * 2, mode=mode)
    with graphc.recompile("raise"), graphc.expect_compiles(8):
        for n in range(1, 9):
            f(np.ones(n))
        for _ in range(2):
            with pytest.raises(RecompileError, match=r"axis 0 of `x`.*1, 2, 3, 4, 5, 6, 7, 8, 9"):
                f(np.ones(9))
        f(np.ones(8))
    with graphc.recompile("ignore"):
        np.testing.assert_allclose(np.asarray(f(np.ones(9))), np.sinh(np.ones(9)) * 2, rtol=1e-6)


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_a_changing_length_is_told_once_and_after_eight(mode: str) -> None:
    f = graphc.function([x], gt.sinh(x) * 2, mode=mode)
    assert rounds(14, lambda i: f(np.ones(i))) == [9]


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_eight_lengths_again_and_again_are_not_told_of(mode: str) -> None:
    f = graphc.function([x], gt.sinh(x) * 2, mode=mode)
    assert rounds(40, lambda i: f(np.ones(1 + i % 8))) == []


@pytest.mark.parametrize("mode", ["JAX", "MLX"])
def test_lengths_of_functions_that_are_built_for_each_are_counted_together(mode: str) -> None:
    def each(i: int) -> None:
        graphc.function([x], gt.sinh(x) * 2, mode=mode)(np.ones(i))

    assert rounds(14, each) == [9]


def test_functions_that_are_kept_have_lengths_of_their_own() -> None:
    kept = []

    def each(i: int) -> None:
        f = graphc.function([x], gt.sinh(x) * 2, mode="JAX")
        f(np.ones(i))
        kept.append(f)

    assert rounds(12, each) == []


@pytest.mark.parametrize(
    ("context", "mode", "config", "wanted"),
    [
        (None, None, "raise", "raise"),
        (None, None, "ignore", "ignore"),
        (None, "raise", "ignore", "raise"),
        (None, "ignore", "raise", "ignore"),
        (None, "warn", "ignore", "warn"),
        ("ignore", "raise", "raise", "ignore"),
        ("raise", "ignore", "ignore", "raise"),
        ("warn", "raise", "ignore", "warn"),
    ],
)
def test_the_context_comes_before_the_mode_and_that_before_the_setting(
    context: Any, mode: Any, config: Any, wanted: str
) -> None:
    def storm() -> None:
        for k in (0.5, 0.25):
            dropped(k, graphc.Mode("NUMPY", recompile=mode))

    within = partial(graphc.recompile, context) if context else lambda: graphc.internal().__class__
    with graphc.config.change_flags(recompile=config), told() as found:
        act = within()(storm) if context else storm
        if wanted == "raise":
            with pytest.raises(RecompileError):
                act()
        else:
            act()
    assert len(found) == (wanted == "warn")


def test_settings_may_be_nested_and_come_back() -> None:
    def storm() -> None:
        for k in (0.5, 0.25):
            dropped(k)

    with graphc.recompile("raise"):
        with graphc.recompile("ignore"):
            storm()
        with pytest.raises(RecompileError):
            storm()
    with told() as found:
        storm()
    assert len(found) == 1


def test_what_was_ignored_is_told_of_later() -> None:
    with graphc.recompile("ignore"):
        assert rounds(3, lambda i: dropped(i / 8)) == []

    def each(i: int) -> None:
        with graphc.recompile("ignore" if i < 4 else "warn"):
            dropped(i / 8)

    assert rounds(6, each) == [4]


def test_a_context_is_the_threads_own() -> None:
    found: list[str] = []

    def storm() -> None:
        try:
            for k in (0.5, 0.25):
                dropped(k)
        except RecompileError:
            found.append("raised")

    with told(), graphc.recompile("raise"):
        thread = threading.Thread(target=storm)
        thread.start()
        thread.join()
        storm()
    assert found == ["raised"]


def test_a_context_is_the_tasks_own() -> None:
    found: list[str] = []

    async def storm(name: str, chosen: Any) -> None:
        with graphc.recompile(chosen):
            try:
                for k in (0.5, 0.25):
                    dropped(k)
                    await asyncio.sleep(0)
            except RecompileError:
                found.append(name)

    async def both() -> None:
        await asyncio.gather(storm("a", "raise"), storm("b", "ignore"))

    asyncio.run(both())
    assert found == ["a"]


@pytest.mark.parametrize("wrong", ["error", "", None, True])
def test_a_setting_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="'warn' or 'raise' or 'ignore'"):
        graphc.recompile(wrong)
    if wrong is not None:
        with pytest.raises(ModeError, match="'warn' or 'raise' or 'ignore'"):
            graphc.Mode("NUMPY", recompile=wrong)


def test_a_modes_setting_is_no_part_of_its_programs(mode: str) -> None:
    with graphc.expect_compiles(1):
        for chosen in ("warn", "raise", "ignore", None):
            dropped(0.5, graphc.Mode(mode, recompile=chosen))


def test_a_modes_setting_is_kept_by_changes_and_printed() -> None:
    changed = graphc.Mode("NUMPY", recompile="raise").excluding("stabilize")
    assert changed.recompile == "raise"
    assert repr(changed) == "Mode('NUMPY', excluding=['stabilize'], recompile='raise')"
    assert changed.change(recompile=None).recompile is None


def test_a_warning_that_is_an_error_comes_before_anything_is_compiled() -> None:
    w = graphc.shared(0.0)

    def each(k: float) -> None:
        graphc.function([], updates=[(w, w + k)], mode="NUMPY")()

    def all_of(*numbers: float) -> None:
        for k in numbers:
            each(k)

    with pytest.raises(RecompileWarning):
        all_of(1.0, 2.0)
    assert w.get_value() == 1.0


def test_the_warning_is_a_user_warning_and_public() -> None:
    assert issubclass(graphc.RecompileWarning, UserWarning)
    assert graphc.RecompileWarning is RecompileWarning


# Modes and what else is compared.


def test_other_modes_are_a_cause_in_stats_alone() -> None:
    names = ["stabilize", "canonicalize", "specialize", "log_of_one_plus", "product_with_zero"]
    sets = [[], *[[n] for n in names], *[[a, b] for a in names for b in names if a < b]]

    def each(i: int) -> Any:
        f = graphc.function([x], gt.log(1 + x), mode=graphc.Mode("NUMPY", excluding=sets[i - 1]))
        f(ONES)
        return f.stats

    with told() as found:
        causes = [each(i).causes for i in range(1, 12)][-1]
    assert found == []
    assert causes[0] == "mode: Mode('NUMPY') -> Mode('NUMPY', excluding=['stabilize'])"


def test_another_number_of_inputs_is_structure() -> None:
    a, b = graphc.shared(0.0), graphc.shared(0.0)

    def each(i: int) -> Any:
        updates = [(a, a + 1), (b, b + 1)][: 1 + i % 2]
        f = graphc.function([], updates=updates, mode="NUMPY")
        f()
        return f.stats

    with told() as found:
        causes = [*map(each, range(2))][-1].causes
    assert found == []
    assert causes == ["structure: 1 input -> 2"]


def test_an_input_that_becomes_a_shared_variable_is_structure() -> None:
    def each(i: int) -> Any:
        w: Any = graphc.shared(ONES) if i else gt.vector("w")
        f = graphc.function([x, w][: 2 - i], x * w, mode="NUMPY")
        f(*[ONES] * (2 - i))
        return f.stats

    causes = [*map(each, range(2))][-1].causes
    assert causes == ["structure: the same graph with other arguments or updates"]


def test_a_chain_of_many_nodes_is_compared_in_little_time() -> None:
    y = x
    for i in range(4000):
        y = gt.tanh(y * (1 + i / 4096))

    def each(k: float) -> Any:
        f = graphc.function([x], gt.sinh(y) * k, mode=graphc.Mode("NUMPY", excluding="all"))
        f(ONES)
        return f.stats.causes

    with told() as found:
        for k in (0.5, 0.25):
            each(k)
    assert "0.5 -> 0.25" in found[0]


@pytest.mark.exhaustive
def test_graphs_too_large_to_compare_are_structure() -> None:
    y = x
    for _ in range(11_000):
        y = gt.tanh(-y)

    def each(k: float) -> Any:
        f = graphc.function([x], y * k, mode=graphc.Mode("NUMPY", excluding="all"))
        f(ONES)
        return f.stats.causes

    with told() as found:
        causes = [*map(each, (0.5, 0.25))][-1]
    assert causes[-1].startswith("structure: ")
    assert found == []


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="f_locals is a view there")
def test_under_a_tracer_storms_are_found_as_well() -> None:
    before = sys.gettrace()

    def tracer(*event: Any) -> Any:
        return tracer

    sys.settrace(tracer)
    try:
        at = rounds(4, lambda i: dropped(i / 8))
    finally:
        sys.settrace(before)
    assert at == [2]


def test_other_codes_of_weights_are_told_by_the_array_and_its_field() -> None:
    """What handlers make of the codes has parameters, which mean nothing to the user."""
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype("float32")
    v = gt.vector("v", dtype="float32", shape=(64,))

    def layer(i: int) -> None:
        w = graphc.shared(implicit.quantize(weights, f"int{2 * i}"), "w")
        graphc.function([v], (v * w[np.array([1, 2])]).sum(), mode="NUMPY")(np.ones(64, "float32"))

    with told() as found:
        for i in (2, 1):
            layer(i)
    (text,) = found
    assert "`w` (AffineQuantized)  bits=4 -> bits=2" in text
    assert "step=" not in text
