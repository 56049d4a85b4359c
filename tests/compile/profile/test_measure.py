"""Profiles: what is counted and added up, on every backend. No time is judged by itself."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import config
from graphc.errors import ArgumentError, BoundsError, CheckError
from graphc.random import RandomStream

SIZE = 50
"""The length of a square matrix."""


def rows_of(profile: Any, operation: str) -> list[Any]:
    """The rows of a profile in which an operation is computed."""
    return [row for row in profile.rows if operation in re.split(r", ", row.operation)]


def assert_adds_up(profile: Any) -> None:
    """All rows together are the measured time, and what no operation took is in the last."""
    assert math.isclose(sum(row.seconds for row in profile.rows), profile.seconds)
    assert profile.rows[-1].operation == "elsewhere"
    assert all(row.seconds >= -1e-9 for row in profile.rows)
    times = [row.seconds for row in profile.rows[:-1]]
    assert times == sorted(times, reverse=True)
    assert profile.alone > 0
    assert all(seconds >= 0 for seconds in profile.phases.values())


@pytest.mark.parametrize("fused", [True, False])
def test_a_row_has_its_line_calls_and_bytes(mode: str, fused: bool) -> None:
    a, x = gt.matrix("a"), gt.vector("x")
    product = a @ a
    small = gt.exp(x)
    f = graphc.function([a, x], [product, gt.sort(small)], mode=mode, name="heavy")
    profile = f.profile(np.ones((SIZE, SIZE)), np.ones(5), repeat=2, fused=fused)
    assert_adds_up(profile)
    (heavy,) = rows_of(profile, "matmul")
    assert product.where in heavy.where or mode == "MLX"
    assert heavy.calls == 1
    assert heavy.bytes >= 2 * 8 * SIZE**2
    assert profile.lines[heavy.where] >= heavy.seconds
    if mode == "NUMPY" or not fused:
        assert [row.where for row in rows_of(profile, "exp")] == [small.where]


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_a_loop_is_counted_within_it(mode: str, fused: bool) -> None:
    x = gt.vector("x")
    states = graphc.scan(lambda last: gt.sin(gt.sort(last)), outputs_info=x, n_steps=37, name="go")
    f = graphc.function([x], states[-1], mode=mode)
    profile = f.profile(np.linspace(0, 1, 50), repeat=3, fused=fused)
    assert_adds_up(profile)
    assert rows_of(profile, "go")[0].calls == 1
    inside = [row for row in profile.rows if row.frames[0][1] == "go" and len(row.frames) == 2]
    if mode == "NUMPY" or fused == (mode == "JAX"):
        assert {row.calls for row in inside if "sin" in row.operation} == {37}
        assert all(row.name.startswith("go > ") for row in inside)
    else:
        assert not inside  # JAX and MLX run the whole loop as one


def test_a_branch_that_is_not_taken_takes_no_time() -> None:
    x, flag = gt.vector("x"), gt.scalar("flag", dtype="bool")
    y = graphc.ifelse(flag, gt.exp(x).sum(), gt.cos(x).prod())
    profile = graphc.function([flag, x], y, mode="NUMPY").profile(True, np.ones(9))
    (row,) = rows_of(profile, "exp")
    assert row.name == "ifelse > exp"
    assert not rows_of(profile, "cos")


def test_bytes_are_those_of_operands_and_results() -> None:
    x = gt.vector("x")
    f = graphc.function([x], gt.exp(x), mode="NUMPY")
    (row,) = rows_of(f.profile(np.ones(1000)), "exp")
    assert row.bytes == 2 * 8 * 1000


def test_shared_variables_and_streams_stay_as_they_are(mode: str) -> None:
    w = graphc.shared(np.zeros(3), name="w")
    stream = RandomStream(seed=3)
    draw = stream.normal(size=(3,))
    f = graphc.function([], draw + w, updates=[(w, w + 1)], mode=mode)
    f.profile(repeat=2)
    assert not w.get_value().any()
    fresh = graphc.function([], RandomStream(seed=3).normal(size=(3,)), mode="NUMPY")
    np.testing.assert_allclose(f(), fresh(), rtol=1e-5)


def test_numbers_that_decide_shapes_and_lengths_found_by_loops_are_profiled(mode: str) -> None:
    n, limit = gt.scalar("n", dtype="int64"), gt.scalar("limit")
    powers = graphc.scan(
        lambda last: (last * 2, graphc.until(last > limit)), outputs_info=gt.constant(1.0),
        n_steps=20,
    )  # fmt: skip
    f = graphc.function([n, limit], [gt.arange(n) * 2, powers], mode=mode)
    for fused in (True, False):
        assert_adds_up(f.profile(4, 10.0, repeat=1, fused=fused))


def test_wrong_arguments_are_refused_as_in_a_call(mode: str) -> None:
    x = gt.vector("x")
    f = graphc.function([x], x * 2, mode=mode)
    with pytest.raises(ArgumentError) as called:
        f(np.ones((2, 2)))
    with pytest.raises(ArgumentError) as profiled:
        f.profile(np.ones((2, 2)))
    assert str(profiled.value) == str(called.value)
    for repeat in (0, 1.5, True):
        with pytest.raises(ArgumentError, match=r"profile\(repeat=.*\): use a positive integer"):
            f.profile(np.ones(2), repeat=repeat)  # type: ignore[arg-type]


def test_a_condition_that_fails_raises_as_in_a_call(mode: str) -> None:
    x = gt.vector("x")
    f = graphc.function([x], graphc.Assert("all positive")(x, (x > 0).all()) * 2, mode=mode)
    assert f.profile(np.ones(2)).repeat == 5
    with pytest.raises(CheckError, match="all positive"):
        f.profile(-np.ones(2))


def test_an_index_outside_raises_as_in_a_call() -> None:
    x, i = gt.vector("x"), gt.scalar("i", dtype="int64")
    with pytest.raises(BoundsError, match="index"):
        graphc.function([x, i], x[i], mode="NUMPY").profile(np.ones(2), 5)


PHASES = {
    "JAX": ["tracing", "lowering", "compiling by XLA"],
    "MLX": ["tracing and compiling kernels"],
    "NUMPY": ["writing the program"],
}


def test_compiling_is_told_by_phase_and_by_rule(mode: str) -> None:
    x = gt.vector("x")
    profile = graphc.function([x], gt.log(1 + x), mode=mode).profile(np.ones(3))
    names = list(profile.phases)
    assert [name for name in names if not name.startswith("rewriting: ")] == PHASES[mode]
    assert {"rewriting: canonicalize", "rewriting: stabilize", "rewriting: the rest"} <= {*names}
    rules = {rule.name: rule for rule in profile.rules}
    assert rules["log_of_one_plus"].changes == 1
    assert rules["log_of_one_plus"].attempts >= 1


def test_a_profile_leaves_the_caches_alone(mode: str, tmp_path: Path) -> None:
    x = gt.vector("x")
    with config.change_flags(cache_dir=tmp_path):
        f = graphc.function([x], gt.tanh(x) * 3, mode=mode)
        f(np.ones(3))
        before = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        f.profile(np.ones(3))
        assert {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        with graphc.expect_compiles(0):
            f(np.ones(3))


def test_where_the_profiler_of_jax_is_in_use_operations_are_timed(tmp_path: Path) -> None:
    x = gt.vector("x")
    f = graphc.function([x], gt.sort(gt.exp(x)), mode="JAX")
    with jax.profiler.trace(tmp_path):
        profile = f.profile(np.ones(3))
    assert "each operation timed by itself" in profile.method
    assert profile.method.endswith("as jax.profiler is in use")
    assert {"exp", "sort"} <= {row.operation for row in profile.rows}
    assert_adds_up(profile)


def test_where_jax_tells_no_times_operations_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.link.jax.profile.events", lambda folder: ([], True))
    x = gt.vector("x")
    profile = graphc.function([x], gt.sort(gt.exp(x)), mode="JAX").profile(np.ones(3))
    assert profile.method.endswith("as jax.profiler has no times of XLA's instructions here")
    assert {"exp", "sort"} <= {row.operation for row in profile.rows}


def test_a_trace_that_lacks_events_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.link.jax.fusions.MOST_EVENTS", 1)
    x = gt.vector("x")
    profile = graphc.function([x], gt.exp(x), mode="JAX").profile(np.ones(3))
    assert "left out some events" in profile.method


def profile_of_a_loop() -> Any:
    x = gt.vector("x")
    states = graphc.scan(gt.sin, outputs_info=x, n_steps=5, name="a<b")
    y = states[-1] + gt.exp(x)
    return graphc.function([x], y, mode="NUMPY", name="f").profile(np.ones(1000))


def test_the_text_has_each_row_and_the_total() -> None:
    profile = profile_of_a_loop()
    lines = str(profile).splitlines()
    assert lines[0].startswith("function f in mode NUMPY: NumPy")
    shown = [
        line for line in lines if line.endswith(("> sin", "exp", "arguments and results", "total"))
    ]
    shares = [float(re.search(r"s +(-?[\d.]+) ", line)[1]) for line in shown]  # type: ignore[index]
    assert len(shown) == 4
    assert shares[-1] == 100
    assert sum(shares[:-1]) <= 100.5


def test_further_rows_are_added_up_in_the_text() -> None:
    x = gt.vector("x")
    names = ["exp", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "log1p", "expm1"]
    y = [getattr(gt, name)(getattr(gt, other)(x)) for name in names for other in names[:5]]
    profile = graphc.function([x], y, mode="NUMPY").profile(np.ones(3))
    many = len(profile.rows) - 1
    assert many < 41 or f"{many - 40} further rows" in str(profile)


def test_a_saved_trace_has_boxes_as_wide_as_their_time(tmp_path: Path) -> None:
    profile = profile_of_a_loop()
    rows = tuple(replace(row, seconds=1.0) for row in profile.rows)
    replace(profile, rows=rows, seconds=float(len(rows))).save(tmp_path / "profile.json")
    events = json.loads((tmp_path / "profile.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    call, *inside = events
    assert (call["name"], call["ts"], call["dur"]) == (profile.title, 0, len(rows) * 1e6)
    loop = next(event for event in inside if event["name"] == "a<b")
    step = next(event for event in inside if event["name"].startswith("sin"))
    assert loop["dur"] >= step["dur"] > 0
    # A box lies within the box above it, and boxes beside each other do not overlap.
    assert loop["ts"] <= step["ts"]
    assert step["ts"] + step["dur"] <= loop["ts"] + loop["dur"]


def test_a_profile_is_saved_under_names_of_known_kinds(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no \.png"):
        profile_of_a_loop().save(tmp_path / "profile.png")
