"""Programs run unfused until compiling kernels pays, and give the same in each way to run them."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.mlx import backend, segments, tiers
from graphc.link.mlx.tiers import WORKER

WAYS = {way: graphc.Mode("MLX", compile=way) for way in (True, False, "auto")}
"""Fused from the first call on, by Python's calls of MLX, and by a tier."""

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")

x, h0 = gt.matrix("x"), gt.vector("h0")
X, H = np.linspace(-1, 1, 120).reshape(40, 3), np.array([0.5, -1.0, 0.25])


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> graphc.Mode:
    """A mode for each way to run a program."""
    return WAYS[request.param]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The functions that run fused from now on; kernels cost nothing, so that all soon do."""
    found: list[Any] = []
    fuse = segments.CompiledFunction.fuse

    def noted(self: segments.CompiledFunction) -> None:
        found.append(self)
        fuse(self)

    monkeypatch.setattr(tiers, "LEAST", 0.0)
    monkeypatch.setattr(segments.CompiledFunction, "fuse", noted)
    monkeypatch.setattr(tiers, "has_kernels", lambda key: False)
    monkeypatch.setattr(tiers.shutil, "which", lambda name: name)
    yield found
    WORKER.wait()


def recurrent() -> Any:
    """The states of a small recurrent network."""
    return graphc.scan(lambda x_t, h: gt.tanh(h * 0.5 + x_t), sequences=x, outputs_info=h0)


def with_slope() -> list[Any]:
    """A loss of those, and its gradient."""
    loss = (recurrent() ** 2).sum()
    return [loss, graphc.grad(loss, h0)]


# When.


def test_all_functions_of_a_program_are_fused_once_that_pays(fused: list[Any]) -> None:
    f = graphc.function([x, h0], with_slope(), "MLX", returns="numpy")
    expected = graphc.function([x, h0], with_slope(), "NUMPY")(X, H)
    for _ in range(4):
        for y, wanted in zip(f(X, H), expected, strict=True):
            np.testing.assert_allclose(y, wanted, 1e-9)
        WORKER.wait()
    assert "\n  kernels: about " in str(f.plan())
    # Chunks of 32 steps and 8, forwards and backwards, and what is around them.
    assert len(fused) >= 4
    assert len({*fused}) == len(fused)
    assert f.stats.compiles == 1


def test_chunks_of_another_length_are_fused_later(fused: list[Any]) -> None:
    f = graphc.function([x, h0], recurrent()[-1], "MLX")
    for _ in range(3):
        f(X, H)
        WORKER.wait()
    before = len(fused)
    for _ in range(3):
        f(X[:37], H)
        WORKER.wait()
    assert len(fused) == before + 1
    assert f.stats.compiles == 2


def test_kernels_that_cost_more_than_calls_so_far_are_left(
    fused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "kernels_of", lambda ys: ["CompiledSin"])
    monkeypatch.setattr(tiers.SECONDS, "each", math.inf)
    f = graphc.function([x], gt.sin(x) + 1, "MLX")
    for _ in range(5):
        f(X)
        WORKER.wait()
    assert not fused
    assert "kernels: about 1, to be compiled once calls take inf s" in str(f.plan())


@pytest.mark.parametrize("problem", ["no g++", "no memory"])
def test_what_cannot_be_compiled_runs_on_unfused(
    problem: str, fused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def outputs(self: segments.CompiledFunction, arrays: Any) -> Any:
        tried.append(self)
        raise RuntimeError(problem)

    monkeypatch.setattr(segments.CompiledFunction, "outputs", outputs)
    f = graphc.function([x], gt.sin(x) + 1, "MLX")
    for _ in range(5):
        np.testing.assert_allclose(np.asarray(f(X)), np.sin(X) + 1, 1e-12)
        WORKER.wait()
    assert not fused
    assert len(tried) == 1


def test_a_program_whose_kernels_are_kept_is_fused_at_once(
    fused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "has_kernels", lambda key: True)
    graphc.function([x], gt.sin(x) + 1, "MLX")(X)
    assert len(fused) == 1


def test_without_a_compiler_nothing_is_fused(
    fused: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(backend, "prepare_compiler", lambda device: None)
    f = graphc.function([x], gt.sin(x) + 1, "MLX")
    for _ in range(4):
        f(X)
        WORKER.wait()
    assert not fused


def test_a_new_length_is_one_compilation_in_each_way(way: graphc.Mode) -> None:
    f = graphc.function([x, h0], recurrent(), way)
    for steps in (40, 40, 12, 12, 40):
        f(X[:steps], H)
    assert f.stats.compiles == 2


# The same in each way.


def test_results_and_gradients(way: graphc.Mode) -> None:
    expected = graphc.function([x, h0], with_slope(), "NUMPY")(X, H)
    found = graphc.function([x, h0], with_slope(), way, returns="numpy")(X, H)
    for y, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, wanted, 1e-10)


def test_shared_variables_and_random_draws(way: graphc.Mode) -> None:
    def three(mode: Any) -> list[Any]:
        state, rng = graphc.shared(np.zeros(3)), gt.random.shared_rng(seed=3)
        following, draws = rng.normal(size=3)
        updates = {state: state + h0, rng: following}
        f = graphc.function([h0], state + draws, mode, updates=updates)
        return [np.asarray(f(H)) for _ in range(3)]

    np.testing.assert_allclose(three(way), three("NUMPY"), 1e-9)


def test_checks_and_errors(way: graphc.Mode) -> None:
    f = graphc.function([x, h0], x + h0, way)
    for _ in range(2):
        with pytest.raises(graphc.errors.RuntimeShapeError):
            f(X, np.ones(4))
        f(X, H)
    checked = graphc.Assert("not positive")(h0, (h0 > 0).all())
    g = graphc.function([h0], checked * 2, way)
    for _ in range(2):
        with pytest.raises(AssertionError, match="not positive"):
            g(H)


def test_captured_arrays(way: graphc.Mode) -> None:
    for scale in (1.0, 2.0):
        captured = np.full((40, 3), scale)
        y = graphc.function([x], (x * captured).sum(), way)(X)
        np.testing.assert_allclose(np.asarray(y), (X * scale).sum(), atol=1e-12)


def test_outputs_are_arrays_of_their_own(way: graphc.Mode) -> None:
    f = graphc.function([h0], [h0, h0, h0 * 1], way)
    given = mx.array(H, mx.float64)
    first, second, third = f(given)
    first[0] = 7.0
    for y in (given, second, third):
        np.testing.assert_array_equal(np.asarray(y), H)


# What MLX cannot save, or cannot run again.


def test_what_mlx_cannot_save_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []
    saved = tiers.saved_program

    def noted(*given: Any) -> Any:
        found = saved(*given)
        refused.append(found is None)
        return found

    monkeypatch.setattr(tiers, "saved_program", noted)
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    m = gt.matrix("m")
    f = graphc.function([m], gt.linalg.solve(m, gt.ones(2)) * 2, "MLX")
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(f(a)), np.linalg.solve(a, np.ones(2)) * 2)
    assert refused == [True]


def test_a_full_disk_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def export(path: str, *_: Any) -> None:
        raise RuntimeError("[write] Unable to write 8 bytes to file.")

    monkeypatch.setattr(mx, "export_function", export)
    f = graphc.function([h0], gt.exp(h0) + 1, "MLX")
    np.testing.assert_allclose(np.asarray(f(H)), np.exp(H) + 1)


def test_another_thread_gets_the_same(way: graphc.Mode) -> None:
    f = graphc.function([x, h0], with_slope(), way, returns="numpy")
    expected = f(X, H)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(f(X, H)))
    thread.start()
    thread.join()
    for y, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, wanted, 1e-12)


# With the C++ compiler.


KERNELS = """
import sys
import numpy as np
import graphc, graphc.tensor as gt
from graphc.link.mlx import tiers
tiers.LEAST = 0.0
tiers.SECONDS.each = 0.0
x = gt.vector("x")
f = graphc.function([x], gt.sin(x) * 2 + x, "MLX")
X = np.linspace(0, 1, 9)
for _ in range(3):
    np.testing.assert_allclose(np.asarray(f(X)), np.sin(X) * 2 + X, 1e-12)
    if sys.argv[1] == "wait":
        tiers.WORKER.wait()
"""


@needs_compiler
def test_kernels_are_compiled_beside_the_program_and_kept(tmp_path: Path) -> None:
    run(KERNELS, tmp_path, "wait")
    assert len([*tmp_path.glob("mlx/*/cpu/*.so")]) == 1
    assert len([*tmp_path.glob("mlx/*/cpu/graphc-*")]) == 1


@needs_compiler
def test_a_process_ends_while_kernels_are_compiled(tmp_path: Path) -> None:
    run(KERNELS, tmp_path, "leave")


def run(script: str, folder: Path, *arguments: str) -> None:
    """Raise where a process of its own fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
