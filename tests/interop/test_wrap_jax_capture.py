"""Arrays that wrapped functions capture are inputs: never stale, differentiable, not baked in."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.cache import PROGRAMS
from graphc.errors import ArgumentError, GradientError, OperationError
from graphc.interop import wrap_jax
from graphc.ir import Leaf, toposort
from graphc.link.jax.wrap.captured import Captured
from tests.interop.by_hand import assert_equal_trees, by_hand, computed

RNG = np.random.default_rng(5)
WEIGHTS = np.arange(12.0)
BATCH = RNG.normal(size=(4, 12))


def leaves_of(y: Any) -> list[np.ndarray[Any, Any]]:
    return [node.op.array for node in toposort([y]) if isinstance(node.op, Leaf)]


def closure(w: Any) -> Any:
    return lambda x: x @ w


def default(w: Any) -> Any:
    def f(x: Any, w: Any = w) -> Any:
        return x @ w

    return f


def keyword_default(w: Any) -> Any:
    def f(x: Any, *, w: Any = w) -> Any:
        return x @ w

    return f


def partial(w: Any) -> Any:
    return functools.partial(lambda w, x: x @ w, w)


def partial_by_name(w: Any) -> Any:
    return functools.partial(lambda x, w: x @ w, w=w)


class Model:
    def __init__(self, w: Any) -> None:
        self.w = w

    def predict(self, x: Any) -> Any:
        return x @ self.w


def bound_method(w: Any) -> Any:
    return Model(w).predict


@dataclass(frozen=True)
class Product:
    w: Any

    def __call__(self, x: Any) -> Any:
        return x @ self.w


def nested(w: Any) -> Any:
    def inner(x: Any) -> Any:
        return x @ w

    def middle(x: Any) -> Any:
        return inner(x)

    return lambda x: 1.0 * middle(x)


def in_a_tuple(w: Any) -> Any:
    functions = (lambda x: x @ w, {"unused": jnp.sin})
    return lambda x: 1.0 * functions[0](x)


def jitted(w: Any) -> Any:
    return jax.jit(lambda x: x @ w)


def calls_jitted(w: Any) -> Any:
    inner = jax.jit(lambda x: x @ w)
    return lambda x: 1.0 * inner(x)


def jitted_method(w: Any) -> Any:
    class Jitted:
        def __init__(self) -> None:
            self.w = w

        @functools.partial(jax.jit, static_argnums=0)
        def predict(self, x: Any) -> Any:
            return x @ self.w

    return Jitted().predict


def with_custom_slope(w: Any) -> Any:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x @ w

    f.defjvp(lambda xs, ts: (xs[0] @ w, 2 * ts[0] @ w))
    return lambda x: 1.0 * f(x)


def vectorized(w: Any) -> Any:
    return jax.vmap(lambda row: row @ w)


def checkpointed(w: Any) -> Any:
    return jax.checkpoint(lambda x: x @ w)


def wrapped(w: Any) -> Any:
    inner = wrap_jax(lambda x: x @ w)
    return lambda x: 1.0 * inner(x)


WAYS = {
    f.__name__: f
    for f in (
        *(closure, default, keyword_default, partial, partial_by_name, bound_method, Product),
        *(nested, in_a_tuple, jitted, calls_jitted, jitted_method, with_custom_slope),
        *(vectorized, checkpointed, wrapped),
    )
}


@pytest.mark.parametrize("way", WAYS)
def test_a_captured_array_is_a_leaf(way: str) -> None:
    x = gt.matrix("x")
    y = wrap_jax(WAYS[way](WEIGHTS))(x)
    assert [leaf is WEIGHTS for leaf in leaves_of(y)] == [True]
    np.testing.assert_allclose(computed("JAX", [x], y, BATCH), BATCH @ WEIGHTS)


@pytest.mark.parametrize("way", WAYS)
def test_other_values_in_a_capture_are_the_same_program(way: str) -> None:
    x = gt.matrix("x")
    keys = set()
    for i in range(3):
        y = wrap_jax(WAYS[way](WEIGHTS + i))(x)
        keys.add(graphc.Graph([x], [y]).key())
        np.testing.assert_allclose(computed("JAX", [x], y, BATCH), BATCH @ (WEIGHTS + i))
    assert len(keys) == 1


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "with_custom_slope"])
def test_a_captured_symbolic_array_has_a_gradient(way: str, mode: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    y = wrap_jax(WAYS[way](w))(x)
    slope = graphc.grad((y**2).sum(), w)
    found = computed(mode, [x, w], slope, BATCH, WEIGHTS)
    np.testing.assert_allclose(found, 2 * BATCH.T @ (BATCH @ WEIGHTS))


@pytest.mark.parametrize("w", [WEIGHTS, gt.constant(WEIGHTS)], ids=["array", "symbolic"])
def test_a_custom_rule_may_capture_what_no_gradient_is_taken_by(w: Any) -> None:
    x = gt.matrix("x")
    y = wrap_jax(with_custom_slope(w))(x)
    found = computed("JAX", [x], [y, graphc.grad(y.sum(), x)], BATCH)
    np.testing.assert_allclose(found[0], BATCH @ WEIGHTS)
    np.testing.assert_allclose(found[1], np.tile(2 * WEIGHTS, (4, 1)))


def test_a_gradient_by_what_a_custom_rule_captures_is_refused() -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    y = wrap_jax(with_custom_slope(w))(x)
    with pytest.raises(GradientError, match="make the array an argument of that function"):
        graphc.grad(y.sum(), w)
    with pytest.raises(OperationError, match="make the array an argument of that function"):
        graphc.pushforward(y, w, w)


def test_captured_arrays_have_their_names_in_the_graph() -> None:
    x = gt.matrix("x")
    shared_name = {"again": np.ones(12)}
    results = [
        wrap_jax(closure(WEIGHTS.copy()))(x),
        wrap_jax(bound_method(WEIGHTS.copy()))(x),
        wrap_jax(lambda x: x @ shared_name["again"])(x),
    ]
    names = [node.op.given_name for node in toposort(results) if isinstance(node.op, Leaf)]
    assert names == ["w", "self.w", "shared_name['again']"]


GLOBAL = np.arange(12.0)


def reads_a_global(x: Any) -> Any:
    return x @ GLOBAL


def test_a_global_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    f = wrap_jax(reads_a_global)
    x = gt.matrix("x")
    before = f(x)
    monkeypatch.setitem(globals(), "GLOBAL", WEIGHTS * 3)
    after = f(x)
    found = computed("JAX", [x], [before, after], BATCH)
    np.testing.assert_allclose(found[0], BATCH @ np.arange(12.0))
    np.testing.assert_allclose(found[1], BATCH @ (WEIGHTS * 3))


def test_an_array_captured_twice_is_one_leaf() -> None:
    w = np.arange(12.0)
    table = {"again": w}
    x = gt.vector("x")
    y = wrap_jax(lambda x, w=w: (x + w) * table["again"] + functools.partial(jnp.add, w)(x))(x)
    assert [leaf is w for leaf in leaves_of(y)] == [True]


def test_captured_jax_arrays_are_leaves() -> None:
    w = jnp.arange(12.0, dtype="float32")
    x = gt.matrix("x")
    y = wrap_jax(lambda x: x @ w)(x)
    assert [leaf.tolist() for leaf in leaves_of(y)] == [w.tolist()]
    np.testing.assert_allclose(computed("JAX", [x], y, BATCH), BATCH @ WEIGHTS)


def test_a_captured_random_key_is_the_key() -> None:
    key = jax.random.key(7)
    with jax.enable_x64(True):
        y = wrap_jax(lambda: jax.random.normal(key, (20,), "float64"))()
    wanted = by_hand(lambda: jax.random.normal(key, (20,), "float64"))
    np.testing.assert_array_equal(computed("JAX", [], y), wanted)


def test_a_gradient_by_a_captured_constant_is_jaxs() -> None:
    w = gt.constant(WEIGHTS)
    x = gt.matrix("x")

    def f(x: Any, w: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    found = computed("JAX", [x], graphc.grad(wrap_jax(lambda x: f(x, w))(x), w), BATCH)
    assert_equal_trees(found, by_hand(jax.grad(f, 1), BATCH, WEIGHTS))


def test_a_captured_shared_variable_is_read_at_each_call() -> None:
    w = graphc.shared(WEIGHTS, "w")
    x = gt.matrix("x")
    y = wrap_jax(lambda x: x @ w)(x)
    step = graphc.function([x], y.sum(), updates=[(w, w - 0.1 * graphc.grad((y**2).sum(), w))])
    value = WEIGHTS
    for _ in range(3):
        np.testing.assert_allclose(step(BATCH), (BATCH @ value).sum())
        value = value - 0.1 * 2 * BATCH.T @ (BATCH @ value)
    np.testing.assert_allclose(w.get_value(), value)


def test_small_arrays_and_numbers_are_part_of_the_program() -> None:
    small, number = np.array([1.0, 2.0]), 3.0
    x = gt.vector("x")

    def build(small: Any, number: Any) -> Any:
        return wrap_jax(lambda x: x * small + number)(x)

    y = build(small, number)
    assert leaves_of(y) == []
    assert build(small.copy(), number) is y
    assert build(small + 1, number) is not y
    assert build(small, 3) is not y
    assert computed("JAX", [x], y, [1.0, 1.0]).tolist() == [4, 5]


def test_a_runtime_number_is_passed_and_stays_weak() -> None:
    x = gt.vector("x", dtype="float32")

    def build(rate: float) -> Any:
        rate = graphc.runtime(rate)
        return wrap_jax(lambda x, other: x * rate + other)(x, rate)

    programs = [build(0.5), build(0.25)]
    assert len({graphc.Graph([x], [y]).key() for y in programs}) == 1
    for y, rate in zip(programs, (0.5, 0.25), strict=True):
        assert y.dtype == "float32"
        assert computed("JAX", [x], y, np.ones(2, "float32")).tolist() == [2 * rate] * 2


def test_captures_are_one_input_of_a_scan() -> None:
    w = RNG.normal(size=(12, 12))
    h = gt.vector("h")
    states = graphc.scan(wrap_jax(lambda h: jnp.tanh(h @ w)), outputs_info=h, n_steps=3)
    assert [leaf is w for leaf in leaves_of(states)] == [True]
    slope = graphc.grad(states[-1].sum(), h)

    def same(h: Any) -> Any:
        for _ in range(3):
            h = jnp.tanh(h @ w)
        return h.sum()

    assert_equal_trees(computed("JAX", [h], slope, WEIGHTS), by_hand(jax.grad(same), WEIGHTS))


def test_a_batch_captured_anew_50_times_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []
    call = Captured.result_tree
    monkeypatch.setattr(Captured, "result_tree", lambda *x: [traces.append(1), call(*x)][1])
    w = gt.vector("w")
    value, wanted = WEIGHTS / 100, WEIGHTS / 100
    counts, events = [], []
    unsubscribe = graphc.events.subscribe(lambda event: events.append(event.kind))
    for _ in range(50):
        batch = RNG.normal(size=(32, 12))

        def loss(w: Any, batch: Any = batch) -> Any:
            return jnp.mean(jnp.tanh(batch @ w) ** 2)

        step = graphc.function([w], graphc.grad(wrap_jax(loss)(w), w), returns="numpy")
        value = value - 0.1 * step(value)
        t = np.tanh(batch @ wanted)
        wanted = wanted - 0.1 * batch.T @ (2 * t * (1 - t**2)) / 32
        counts.append(len(traces))
    unsubscribe()
    np.testing.assert_allclose(value, wanted)
    # Its types are found and the program is made once, whatever the batch is.
    assert counts[0] == counts[-1] > 0
    assert events == ["compile", *["hit"] * 49]


def test_different_code_is_never_the_same() -> None:
    x = gt.vector("x")
    results = {wrap_jax(f)(x) for f in (lambda x: x + 1, lambda x: x - 1, lambda x: x + 1.0)}
    assert len(results) == 3


def test_different_defaults_and_globals_are_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gt.vector("x")

    def make(n: int) -> Any:
        return lambda x, n=n: x + n

    assert wrap_jax(make(1))(x) is wrap_jax(make(1))(x)
    assert wrap_jax(make(1))(x) is not wrap_jax(make(2))(x)
    before = wrap_jax(scaled)(x)
    monkeypatch.setitem(globals(), "SCALE", 3)
    after = wrap_jax(scaled)(x)
    assert [y.tolist() for y in computed("JAX", [x], [before, after], [1.0])] == [[2], [3]]


SCALE = 2


def scaled(x: Any) -> Any:
    return SCALE * x


def test_what_cannot_be_lifted_is_refused_by_name() -> None:
    x = gt.vector("x")
    count = 0

    def counting(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    with pytest.raises(ArgumentError, match="count") as told:
        wrap_jax(counting)(x)
    assert "counting" in str(told.value)


def test_functions_known_by_identity_alone_are_told_apart() -> None:
    x = gt.vector("x")

    class Settings:
        scale = 2.0

    def f(x: Any) -> Any:
        return x * Settings.scale

    def g(x: Any) -> Any:
        return x + Settings.scale

    a, b = wrap_jax(f)(x), wrap_jax(g)(x)
    for y, wanted in ((a - b, -2.0), (b - a, 2.0), (a - a, 0.0)):
        assert computed("JAX", [x], y, [0.0]).tolist() == [wanted]
    assert wrap_jax(f)(x) is a


def test_static_arguments_of_jit_and_partial_stay_python_numbers() -> None:
    x = gt.matrix("x")

    @functools.partial(jax.jit, static_argnames="axis")
    def total(x: Any, axis: int) -> Any:
        assert isinstance(axis, int)
        return x.sum(axis)

    results = [
        wrap_jax(total)(x, axis=0),
        wrap_jax(functools.partial(total, axis=1))(x),
        wrap_jax(functools.partial(jnp.sum, axis=0, keepdims=True))(x),
    ]
    assert [y.type.shape for y in results] == [(None,), (None,), (1, None)]
    found = computed("JAX", [x], results, BATCH)
    for y, wanted in zip(found, (BATCH.sum(0), BATCH.sum(1), BATCH.sum(0)[None]), strict=True):
        np.testing.assert_allclose(y, wanted)


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_a_cache_on_disk_gives_the_same(mode: str, tmp_path: Path) -> None:
    x = gt.matrix("x")
    y = wrap_jax(closure(WEIGHTS))(x)
    with graphc.config.change_flags(cache_dir=tmp_path):
        for _ in range(2):
            PROGRAMS.clear()
            found = computed(mode, [x], graphc.grad((y**2).sum(), x), BATCH)
            np.testing.assert_allclose(found, np.outer(2 * BATCH @ WEIGHTS, WEIGHTS))


PORTABLE = {
    "closure": closure,
    "nested": nested,
    "partial": partial,
    "jitted": jitted,
    "custom rule": with_custom_slope,
    "of a library": lambda w: functools.partial(jnp.inner, w),
}


@pytest.mark.parametrize("name", PORTABLE)
def test_a_gradient_goes_through_pickle(name: str) -> None:
    x = gt.matrix("x")
    y = wrap_jax(PORTABLE[name](WEIGHTS))(x)
    graph = graphc.Graph([x], [y, graphc.grad(y.sum(), x)])
    again = pickle.loads(pickle.dumps(graph))
    assert again.key() == graph.key()
    pairs = [computed("JAX", [*g.inputs], list(g.outputs), BATCH) for g in (graph, again)]
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_array_equal(a, b)


SECOND_PROCESS = """
import sys
import threading
import weakref
import numpy as np, jax.numpy as jnp
import graphc, graphc.tensor as gt
x = gt.vector("x")
w = np.arange(12.0) * float(sys.argv[1])
y = graphc.wrap_jax(lambda x: jnp.sum(jnp.tanh(x * w)))(x)
kinds = []
with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
    f = graphc.function([x], graphc.grad(y, x), returns="numpy")
    print(np.allclose(f(np.ones(12)), w / np.cosh(w) ** 2))
print(*sorted(set(kinds)))
"""


@pytest.mark.exhaustive
def test_a_second_process_finds_the_program_on_disk(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SECOND_PROCESS)
    environment = {**os.environ, "GRAPHC_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for factor in ("1.0", "0.5"):
        command = [sys.executable, str(script), factor]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        told.append(run.stdout.split())
    assert [x[0] for x in told] == ["True", "True"]
    assert [x[1:] for x in told] == [["compile"], ["load"]]


def test_an_executable_from_disk_follows_jaxs_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.compile.disk.edited_since_import", lambda: False)
    x = gt.vector("x", shape=(4,), dtype="float32")
    v = np.ones(4, "float32")

    def noisy(x: Any) -> Any:
        return x + jax.random.normal(jax.random.key(0, impl="threefry2x32"), (4,), "float32")

    kinds: list[str] = []
    with graphc.config.change_flags(cache_dir=tmp_path):
        for partitionable in (True, True, False, True):
            PROGRAMS.clear()
            with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
                f = graphc.function([x], wrap_jax(noisy)(x), returns="numpy")
                with jax.threefry_partitionable(partitionable):
                    np.testing.assert_allclose(f(v), noisy(v), rtol=1e-6)
                with jax.threefry_partitionable(not partitionable):
                    np.testing.assert_allclose(f(v), noisy(v), rtol=1e-6)
    assert kinds == ["compile", "compile", *["load"] * 6]


def test_threads_share_one_program_and_keep_their_captures() -> None:
    found: dict[int, float] = {}
    compiled: list[str] = []

    def build(i: int) -> None:
        x, scale = gt.vector("x"), np.full(12, float(i))
        y = wrap_jax(lambda x: jnp.sum(x**2 * scale))(x)
        slope = graphc.function([x], graphc.grad(y, x), returns="numpy")
        found[i] = float(slope(np.ones(12))[0])

    with graphc.events.subscribe(lambda event: compiled.append(event.kind)):
        threads = [threading.Thread(target=build, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {i: 2.0 * i for i in range(8)}
    assert compiled.count("compile") == 1


@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_a_step_captures_what_is_symbolic_outside_of_the_loop(mode: str) -> None:
    h, w = gt.vector("h"), gt.vector("w")
    last = graphc.scan(wrap_jax(lambda h: jnp.tanh(h * w)), outputs_info=h, n_steps=3)[-1]

    def same(h: Any, w: Any) -> Any:
        for _ in range(3):
            h = jnp.tanh(h * w)
        return h.sum()

    found = computed(mode, [h, w], graphc.grad(last.sum(), [h, w]), WEIGHTS, WEIGHTS / 7)
    assert_equal_trees(tuple(found), by_hand(jax.grad(same, (0, 1)), WEIGHTS, WEIGHTS / 7))


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("mode", ["JAX", "NUMPY"])
def test_a_captured_array_dies_with_the_functions_that_hold_it(mode: str) -> None:
    def build() -> weakref.ref[Any]:
        x, w = gt.matrix("x"), np.arange(12.0)
        y = wrap_jax(closure(w))(x)
        computed(mode, [x], [y, graphc.grad((y**2).sum(), x)], BATCH)
        return weakref.ref(w)

    held = build()
    gc.collect()
    assert held() is None
