"""Captured arrays: passed when a program runs, and no part of it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir import Constant
from graphc.loop.loop import Loop

SMALL = 20_000
"""Bytes: what a program of a few operations may take as text, with the paths of its source."""

LARGE = 25_000_000
"""Elements: 100 MB of float32."""

x = gt.vector("x", dtype="float32")
ONES = np.ones(30, "float32")
WEIGHTS = np.linspace(-1.0, 1.0, 30, dtype="float32")


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """How many bytes the largest program has that JAX lowered since."""
    jax.config.update("jax_dump_ir_to", str(tmp_path))
    try:
        yield lambda: max(path.stat().st_size for path in tmp_path.iterdir())
    finally:
        jax.config.update("jax_dump_ir_to", None)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes the largest program has that MLX traced since, saved to a file."""
    sizes: list[int] = []
    export = mx.export_function

    def exported(path: str, *given: Any) -> None:
        export(path, *given)
        sizes.append(Path(path).stat().st_size)

    monkeypatch.setattr(mx, "export_function", exported)
    return lambda: max(sizes)


def squares(captured: Any, mode: Any) -> float:
    """``sum((x[0] * captured)**2)`` for an x[0] of 3."""
    y = ((x[0] * captured) ** 2).sum()
    return float(graphc.function([x], y, mode=mode)(np.array([3.0, 0.0], "float32")))


def test_100_mb_are_not_in_the_text_that_jax_lowers(texts: Callable[[], int]) -> None:
    captured = np.full(LARGE, 0.5, "float32")
    assert squares(captured, "JAX") == pytest.approx(9 * LARGE / 4, rel=1e-3)
    assert 0 < texts() < SMALL


def test_100_mb_are_not_in_the_program_that_mlx_traces(programs: Callable[[], int]) -> None:
    captured = np.full(LARGE, 0.5, "float32")
    assert squares(captured, "MLX") == pytest.approx(9 * LARGE / 4, rel=1e-3)
    assert 0 < programs() < SMALL


def test_a_captured_array_is_not_in_the_text_of_a_loop_and_its_gradient(
    texts: Callable[[], int],
) -> None:
    captured = np.linspace(-1.0, 1.0, 90_000, dtype="float32").reshape(300, 300)
    states = graphc.scan(lambda h: gt.tanh(h @ captured), outputs_info=x, n_steps=7)
    f = graphc.function([x], graphc.grad(states[-1].sum(), x), mode="JAX")
    f(np.ones(300, "float32"))
    # 360 kB; a loop with its gradient has two bodies.
    assert 0 < texts() < 2 * SMALL


def test_bake_makes_an_array_part_of_the_program_of_jax(texts: Callable[[], int]) -> None:
    captured = np.linspace(0.0, 1.0, SMALL, dtype="float32")
    wanted = squares(captured, "NUMPY")
    assert squares(gt.constant(captured, bake=True), "JAX") == pytest.approx(wanted, rel=1e-4)
    # Each element is written in hexadecimal.
    assert texts() > 8 * SMALL


def test_nine_elements_are_part_of_the_program_and_ten_are_not(mode: str) -> None:
    nine, ten = (
        graphc.function([x], x * np.arange(n, dtype="float32"), mode=mode) for n in (9, 10)
    )
    assert (len(nine.graph.leaves), len(ten.graph.leaves)) == (0, 1)
    held = [node.op for node in nine.graph.nodes if isinstance(node.op, Constant)]
    assert [op.value.tolist() for op in held if op.value.size == 9] == [list(range(9))]
    np.testing.assert_array_equal(np.asarray(nine(ONES[:9])), np.arange(9))
    np.testing.assert_array_equal(np.asarray(ten(ONES[:10])), np.arange(10))


def test_an_array_captured_twice_is_one_leaf(mode: str) -> None:
    f = graphc.function([x], [gt.exp(x * WEIGHTS), gt.sin(x + WEIGHTS)], mode=mode)
    assert len(f.graph.leaves) == 1
    for y, wanted in zip(f(ONES), (np.exp(WEIGHTS), np.sin(1 + WEIGHTS)), strict=True):
        np.testing.assert_allclose(np.asarray(y), wanted, rtol=1e-5)


def test_equal_arrays_that_are_not_the_same_keep_their_own_places(mode: str) -> None:

    # Programs of equal structure are told apart by which leaf goes where.
    one, other = WEIGHTS, WEIGHTS[::-1].copy()
    first = graphc.function([x], gt.exp(x * one) - gt.sin(x * other), mode=mode)
    second = graphc.function([x], gt.exp(x * other) - gt.sin(x * one), mode=mode)
    same = graphc.function([x], gt.exp(x * one) - gt.sin(x * one), mode=mode)
    wanted = (
        (first, np.exp(one) - np.sin(other)),
        (second, np.exp(other) - np.sin(one)),
        (same, np.exp(one) - np.sin(one)),
    )
    for f, y in wanted:
        np.testing.assert_allclose(np.asarray(f(ONES)), y, rtol=1e-5, atol=1e-6)


def test_what_a_scan_step_captures_is_passed_to_the_loop_once(mode: str) -> None:
    captured = np.linspace(-1.0, 1.0, 900, dtype="float32").reshape(30, 30) / 5
    states = graphc.scan(
        lambda x_t, h: gt.tanh(captured @ h + x_t),
        sequences=gt.stack([x, x, x]),
        outputs_info=gt.zeros(30, "float32"),
    )
    f = graphc.function([x], states[-1], mode=mode)
    (leaf,) = f.graph.leaves
    (loop,) = [node for node in f.graph.nodes if isinstance(node.op, Loop)]
    parts = loop.op.parts(loop.inputs)
    needed = graphc.Graph(f.graph.inputs, parts.consts).nodes
    assert leaf in needed
    assert leaf not in graphc.Graph(f.graph.inputs, [*parts.xs, *parts.init]).nodes
    assert not loop.op.step.leaves
    wanted = np.zeros(30, "float32")
    for _ in range(3):
        wanted = np.tanh(captured @ wanted + ONES)
    np.testing.assert_allclose(np.asarray(f(ONES)), wanted, rtol=1e-4)


def test_a_captured_array_has_a_gradient(mode: str) -> None:
    weights = gt.constant(WEIGHTS)
    slope = graphc.grad((gt.exp(x * weights) ** 2).sum(), weights)
    found = graphc.function([x], slope, mode=mode)(2 * ONES)
    np.testing.assert_allclose(np.asarray(found), 4 * np.exp(4 * WEIGHTS), rtol=1e-5)


def test_what_a_scan_step_captures_has_a_gradient(mode: str) -> None:
    decay = gt.constant(WEIGHTS)
    states = graphc.scan(lambda h: decay * h, outputs_info=x, n_steps=3)
    slope = graphc.grad(states[-1].sum(), decay)
    found = graphc.function([x], slope, mode=mode)(ONES)
    np.testing.assert_allclose(np.asarray(found), 3 * WEIGHTS**2, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray, mx.array], ids=["NumPy", "JAX", "MLX"])
def test_arrays_of_every_library_are_captured_alike(kind: Callable[..., Any], mode: str) -> None:
    f = graphc.function([x], (x * kind(WEIGHTS)) @ kind(2 * WEIGHTS), mode=mode)
    assert len(f.graph.leaves) == 2
    np.testing.assert_allclose(float(f(ONES)), 2 * WEIGHTS @ WEIGHTS, rtol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray, mx.array], ids=["NumPy", "JAX", "MLX"])
def test_other_data_need_no_compilation_and_are_used(kind: Callable[..., Any], mode: str) -> None:
    def fitted(data: np.ndarray[Any, Any]) -> Any:
        loss = ((gt.tanh(x * kind(data)) - kind(data + 1)) ** 2).sum()
        return graphc.function([x], graphc.grad(loss, x), mode=mode)(ONES)

    def slopes(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        data = data.astype(np.float64)
        squashed = np.tanh(data)
        return 2 * (squashed - data - 1) * (1 - squashed**2) * data

    np.testing.assert_allclose(np.asarray(fitted(WEIGHTS)), slopes(WEIGHTS), rtol=1e-4, atol=1e-5)
    with graphc.recompile("ignore"), graphc.expect_compiles(0):
        for scale in (-1.0, 0.5, 2.0, 3.0):
            data = WEIGHTS * np.float32(scale)
            np.testing.assert_allclose(np.asarray(fitted(data)), slopes(data), rtol=1e-4, atol=1e-5)


def test_an_array_changed_in_place_between_two_builds_is_used_as_it_is_then(mode: str) -> None:
    captured = WEIGHTS.copy()

    def built() -> Any:
        return graphc.function([x], gt.exp(x * captured), mode=mode)

    before = built()
    before(ONES)
    captured *= 2
    after = built()
    np.testing.assert_allclose(np.asarray(after(ONES)), np.exp(2 * WEIGHTS), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(before(ONES)), np.exp(WEIGHTS), rtol=1e-5)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("called", [False, True])
def test_an_array_dies_with_the_function_that_captured_it(called: bool, mode: str) -> None:
    captured, kept = WEIGHTS.copy(), graphc.shared(WEIGHTS.copy())
    f = graphc.function([x], gt.cos(x * captured) + kept, mode=mode)
    if called:
        f(ONES)
    died = weakref.ref(captured), weakref.ref(kept)
    del captured, kept, f
    gc.collect()
    assert all(each() is None for each in died)


@pytest.mark.exhaustive
def test_what_is_cached_holds_no_array_on_the_device() -> None:
    def held() -> int:
        gc.collect()
        return sum(y.nbytes for y in jax.live_arrays()) + mx.get_active_memory()

    for mode in ("JAX", "MLX"):
        before = held()
        f = graphc.function([x], gt.cos(x[0] * np.ones(1_000_000, "float32")).sum(), mode=mode)
        f(ONES)
        assert held() >= before + 4_000_000
        del f
        assert held() < before + 1_000_000


def test_functions_of_equal_structure_keep_their_own_arrays(mode: str) -> None:
    fs = [graphc.function([x], gt.sin(x) + WEIGHTS * k, mode=mode) for k in range(1, 6)]
    for _ in range(2):
        for k, f in enumerate(fs, 1):
            np.testing.assert_allclose(
                np.asarray(f(ONES)), np.sin(1) + WEIGHTS * np.float32(k), rtol=1e-5
            )


def test_an_array_that_decides_a_shape_is_used_as_it_was_when_each_function_was_made(
    mode: str,
) -> None:
    lengths = np.arange(12)

    def built() -> Any:
        return graphc.function([x], x[: gt.constant(lengths)[3]], mode=mode)

    fs = [built()]
    for n in (5, 3, 7, 5):
        lengths[3] = n
        fs.append(built())
    assert [f(ONES).shape for f in fs] == [(3,), (5,), (3,), (7,), (5,)]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda np, a, b: a + b,
    "subtract": lambda np, a, b: a - b,
    "multiply": lambda np, a, b: a * b,
    "maximum": lambda np, a, b: np.maximum(a, b),
    "sines": lambda np, a, b: np.sin(a) + np.sin(b),
    "swapped": lambda np, a, b: np.tanh(a * b) - b,
}


def expression(np: Any, steps: list[tuple[str, int, int]], sources: list[Any]) -> Any:
    """What the steps make of the sources: each an operation and which two values it takes."""
    values = [*sources]
    for operation, i, j in steps:
        values.append(OPERATIONS[operation](np, values[i % len(values)], values[j % len(values)]))
    return values[-1]


@given(
    st.lists(
        st.tuples(st.sampled_from([*OPERATIONS]), st.integers(0, 20), st.integers(0, 20)),
        min_size=2,
        max_size=9,
    ),
    st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=3, max_size=3),
)
def test_arrays_find_their_places_in_programs_of_equal_structure(
    steps: list[tuple[str, int, int]], orders: list[tuple[int, ...]]
) -> None:
    # Commuting operands, arrays that come twice, and arrays that nothing but their place tells.
    data = np.random.default_rng(0).normal(size=(4, 12))
    v = gt.vector("v")
    for order in orders:
        arrays = [data[i] for i in order]
        y = expression(gt, steps, [v, *arrays])
        if not isinstance(y, gt.TensorVariable):
            continue
        f = graphc.function([v], y, mode="NUMPY", on_unused_input="ignore")
        wanted = expression(np, steps, [data[0] / 2, *arrays])
        np.testing.assert_allclose(f(data[0] / 2), wanted, rtol=1e-9, atol=1e-9)


def test_threads_that_build_the_same_structure_compile_once_and_use_their_own_data(
    mode: str,
) -> None:
    made: list[Any] = []
    errors: list[float] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(5):
            v, rows, wanted = gt.vector("v"), random.normal(size=(16, 12)), random.normal(size=16)
            loss = ((gt.tanh(rows @ v) - wanted) ** 2).sum()
            f = graphc.function([v], graphc.grad(loss, v), mode=mode)
            given = random.normal(size=12)
            z = np.tanh(rows @ given)
            slope = rows.T @ (2 * (z - wanted) * (1 - z**2))
            errors.append(float(np.abs(np.asarray(f(given)) - slope).max()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    with graphc.events.subscribe(made.append):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(errors) == 30
    assert max(errors) < 1e-9
    assert sorted(event.kind for event in made) == ["compile"] + ["hit"] * 29
