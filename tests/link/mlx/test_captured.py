"""Arrays that graphs hold, on MLX: arguments of functions that all graphs of a structure share."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Signature, lower_program
from graphc.errors import RecompileError, RuntimeShapeError
from graphc.ir import Graph, Op
from graphc.link import CallSpec, CompileContext, Executable, load
from graphc.link.mlx.segments import CompiledFunction
from graphc.tensor import Tensor
from tests.tracing import _copied

x, w, h0 = gt.matrix("x"), gt.vector("w"), gt.vector("h0")
n = gt.lscalar("n")
Record = tuple[list[tuple[int, ...]], dict[int, Any]]
COMPILED = Mode("MLX", compile=True)
STEPS = 70
"""More than two chunks of a loop."""


class Recorder(CompileContext):
    """A context that keeps records, and refuses to compile where it is set to."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.seconds: list[float] = []
        self.refuses = False

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        if self.refuses:
            raise RecompileError(f"{shapes}")

    def record(
        self,
        kind: str,
        shapes: Sequence[tuple[int, ...]],
        values: Mapping[int, Any],
        seconds: float,
    ) -> None:
        assert kind == "compile"
        self.records.append(([*shapes], {**values}))
        self.seconds.append(seconds)


def executable(
    inputs: list[Any], output: Any, context: CompileContext, mode: Any = "MLX"
) -> Executable:
    """What MLX's backend makes of a graph."""
    mode = get_mode(mode)
    signature = Signature(Graph(inputs, [output]), len(inputs), (), True, mode)
    made = lower_program(signature)
    spec = CallSpec.of(made.graph, made.host, single=True, facts={})
    return mode.backend.compile(spec, lambda: made.program, mode.options, (), context)


@pytest.fixture(autouse=True, scope="module")
def _begun() -> None:
    """MLX traces the first function of a process twice, and the others once."""
    first = mx.compile(lambda a: [a * 2 + 1])
    for _ in range(2):
        mx.eval(first(mx.array(1.0)))


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """The arguments of each trace since the test began."""
    found: list[list[Any]] = []
    trace = CompiledFunction.trace

    def counted(self: CompiledFunction, *given: Any, **how: Any) -> Any:
        found.append([*given])
        return trace(self, *given, **how)

    monkeypatch.setattr(CompiledFunction, "trace", counted)
    return found


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[int, list[int]]]:
    """Of each function that MLX would compile, its size in a file and those of its arguments."""
    found: list[tuple[int, list[int]]] = []

    def compiled(function: Any) -> Any:
        seen: set[Any] = set()

        def run(*arrays: Any) -> Any:
            key = tuple([a.shape for a in arrays])
            if key not in seen:
                seen.add(key)
                path = tmp_path / f"{len(found)}.mlxfn"
                mx.export_function(str(path), function, *arrays)
                found.append((path.stat().st_size, [a.nbytes for a in arrays]))
            return function(*arrays)

        return run

    monkeypatch.setattr(mx, "contiguous", _copied)
    monkeypatch.setattr(mx, "compile", compiled)
    return found


def loss_over(batch: np.ndarray[Any, Any]) -> Any:
    """A loss that holds a batch."""
    return gt.sum(gt.tanh(batch @ w) ** 2)


def recurrent(captured: np.ndarray[Any, Any]) -> Any:
    """The last state of a loop whose steps take a captured array."""
    return graphc.scan(lambda h: gt.tanh(h @ captured), outputs_info=h0, n_steps=STEPS)[-1]


# Shared.


def test_a_new_captured_batch_traces_nothing_and_gives_its_own_gradient(
    traces: list[list[Any]],
) -> None:
    at = np.linspace(-1, 1, 5)
    for seed in range(5):
        batch = np.random.default_rng(seed).normal(size=(4, 5))
        step = graphc.function([w], graphc.grad(loss_over(batch), w), mode="MLX", returns="numpy")
        y = np.tanh(batch @ at)
        np.testing.assert_allclose(step(at), 2 * (y * (1 - y * y)) @ batch, rtol=1e-12)
        if not seed:
            first = len(traces)
    assert len(traces) == first


def test_a_loop_over_a_new_captured_array_traces_nothing_and_takes_the_new_one(
    traces: list[list[Any]],
) -> None:
    for seed in range(3):
        matrix = np.random.default_rng(seed).normal(size=(4, 4))
        h = np.linspace(0.1, 0.4, 4)
        found = graphc.function([h0], recurrent(matrix), mode="MLX", returns="numpy")(h)
        for _ in range(STEPS):
            h = np.tanh(h @ matrix)
        np.testing.assert_allclose(found, h, rtol=1e-9)
        if not seed:
            first = len(traces)
    assert len(traces) == first


def test_functions_that_share_an_executable_give_their_own_results_in_threads() -> None:
    batches = [np.full((4, 5), float(i)) for i in range(2)]
    functions = [graphc.function([w], gt.sum(b @ w), mode="MLX") for b in batches]
    assert functions[0]._compiled is functions[1]._compiled
    found: list[list[float]] = [[], []]

    def call(i: int) -> None:
        found[i] = [float(functions[i](np.ones(5))) for _ in range(200)]

    threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0.0] * 200, [20.0] * 200]


def test_an_executable_keeps_no_argument() -> None:
    run = executable([h0], recurrent(np.eye(4)), CompileContext())
    held = mx.array(np.eye(4))
    run(mx.array(np.ones(4)), held)
    dead = ref(held)
    del held
    gc.collect()
    assert dead() is None


# Small.


def test_100_megabytes_are_an_argument_of_a_small_program(
    exported: list[tuple[int, list[int]]],
) -> None:
    large = np.ones((2500, 5000))
    gradient = graphc.grad(loss_over(large), w)
    graphc.function([w], gradient, mode=COMPILED)(np.zeros(5000))
    assert exported
    for size, arguments in exported:
        assert size < 10_000
        assert arguments.count(large.nbytes) == 1


def test_a_chunk_of_a_loop_takes_what_its_steps_captured_once(
    exported: list[tuple[int, list[int]]],
) -> None:
    matrix = np.eye(300)
    graphc.function([h0], recurrent(matrix), mode=COMPILED)(np.ones(300))
    chunks = [item for item in exported if matrix.nbytes in item[1]]
    assert chunks
    for size, arguments in chunks:
        assert size < matrix.nbytes / 10
        assert arguments.count(matrix.nbytes) == 1


# Record.


@pytest.mark.parametrize("mode", ["MLX", Mode("MLX", compile=False)], ids=["compiled", "eager"])
def test_compilations_are_recorded_once_for_each_set_of_shapes(mode: Any) -> None:
    context = Recorder()
    before = time.perf_counter()
    run = executable([x], gt.tanh(x) * 2 + x, context, mode)
    for rows in (2, 3, 2, 3, 3):
        run(np.ones((rows, 4)))
    passed = time.perf_counter() - before
    assert context.records == [([(2, 4)], {}), ([(3, 4)], {})]
    assert all(0 < seconds < passed for seconds in context.seconds)


def test_the_record_has_values_that_decide_shapes() -> None:
    context = Recorder()
    run = executable([n], gt.sum(gt.exp(gt.arange(n))), context)
    for length in (3, 5, 3):
        run(np.array(length))
    assert context.records == [([()], {0: 3}), ([()], {0: 5})]


def test_another_number_of_steps_is_told_where_it_needs_another_chunk() -> None:
    states = graphc.scan(lambda h: gt.tanh(h) * 0.9, outputs_info=h0, n_steps=n)
    context = Recorder()
    run = executable([h0, n], states[-1], context)
    for steps in (64, 96, 100, 100):
        run(np.ones(3), np.array(steps))
    assert [values[1] for _, values in context.records] == [64, 100]


def test_a_captured_array_is_among_the_shapes() -> None:
    context = Recorder()
    run = executable([w], loss_over(np.ones((4, 5))), context)
    run(np.ones(5), mx.array(np.ones((4, 5))))
    assert context.records == [([(5,), (4, 5)], {})]


def test_what_computes_nothing_on_the_device_is_told_at_its_first_call() -> None:
    context = Recorder()
    run = executable([n], n + 1, context)
    assert int(run(np.array(1))) == 2
    run(np.array(1))
    assert len(context.records) == 1


def test_a_call_that_fails_is_not_told() -> None:
    context = Recorder()
    a, b = gt.vector("a"), gt.vector("b")
    run = executable([a, b], a + b, context)
    for _ in range(2):
        with pytest.raises(RuntimeShapeError):
            run(np.ones(2), np.ones(3))
    assert context.records == []
    np.testing.assert_array_equal(np.array(run(np.ones(2), np.ones(2))), [2.0, 2.0])
    assert context.records == [([(2,), (2,)], {})]


def test_an_executable_called_within_another_is_recorded_for_itself() -> None:
    inner, outer = Recorder(), Recorder()
    run_inner = executable([w], gt.exp(w) + 1, inner)

    @dataclass(frozen=True, slots=True)
    class Calling(Op):
        def infer(self, y: Any) -> Any:
            return y

        def perform(self, y: Any) -> Any:
            return np.array(run_inner(y))

    y = gt.tanh(Tensor.make(Calling(), gt.tanh(w))) * 2
    run = executable([w], y, outer, Mode("MLX", fallback="numpy"))
    for length in (2, 3, 2):
        found = np.array(run(np.ones(length)))
        np.testing.assert_allclose(found, 2 * np.tanh(np.exp(np.tanh(1.0)) + 1), rtol=1e-6)
    assert inner.records == outer.records == [([(2,)], {}), ([(3,)], {})]


def test_what_is_refused_is_not_compiled_and_the_rest_goes_on(traces: list[list[Any]]) -> None:
    context = Recorder()
    run = executable([x], gt.tanh(x) * 2, context)
    run(np.ones((2, 2)))
    context.refuses = True
    first = len(traces)
    with pytest.raises(RecompileError):
        run(np.ones((3, 3)))
    np.testing.assert_allclose(np.array(run(np.zeros((2, 2)))), 0)
    context.refuses = False
    assert run(np.ones((3, 3))).shape == (3, 3)
    assert len(traces) > first
    assert [shapes for shapes, _ in context.records] == [[(2, 2)], [(3, 3)]]


def test_the_build_names_the_version_and_the_device() -> None:
    build = load("MLX").build({"device": "cpu"})
    assert build.startswith("MLX ")
    assert "cpu" in build
