"""What MLX compiles of a program: few functions, of bounded size, with all values as arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.link.mlx import arrays
from graphc.link.mlx.arrays import MAX_OPERATIONS, current
from graphc.link.mlx.lower import loop as chunks
from graphc.link.mlx.segments import CompiledFunction

x, h0, w = gt.matrix("x"), gt.vector("h0"), gt.matrix("w")
v, a, n = gt.vector("v"), gt.scalar("a"), gt.lscalar("n")
H, W = np.array([0.5, -1.0, 0.25]), np.eye(3) / 2

Traces = list[list[Any]]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Traces:
    """The arguments of each trace since the test began."""
    found: Traces = []
    trace = CompiledFunction.trace

    def counted(self: CompiledFunction, *given: Any, **how: Any) -> Any:
        found.append([self.function, *given])
        return trace(self, *given, **how)

    monkeypatch.setattr(CompiledFunction, "trace", counted)
    return found


def sizes(traces: Traces) -> list[int]:
    """How many steps each traced chunk has."""
    functions = [f for f, *_ in traces if isinstance(f, partial)]
    return [f.args[0] for f in functions if isinstance(f.args[0], int)]


def grown(x: Any, **how: Any) -> Any:
    """A loop over a sequence that has a scalar, an integer and a constant beside it."""
    return graphc.scan(
        lambda x_t, h: gt.tanh(h * a + x_t * 1.25) + n, sequences=x, outputs_info=h0, **how
    )


# How often.


def test_values_of_inputs_never_retrace(traces: Traces) -> None:
    def step(x_t: Any, h: Any) -> Any:
        return h * 0.9 + x_t, graphc.until(h.sum() > a)

    stopped = graphc.scan(step, sequences=x, outputs_info=h0)
    states = grown(x)
    loss = (states**2).sum() + stopped[-1].sum()
    f = graphc.function([x, h0, a, n], [loss, *graphc.grad(loss, [x, h0, a])], "MLX")
    data = np.linspace(0, 1, 210).reshape(70, 3)
    f(data, H, 1e9, 1)
    first = len(traces)
    assert first
    for k in range(2, 8):
        f(data * k, H / k, 1e9 + k, k)
    assert len(traces) == first


@pytest.mark.parametrize("gradient", [False, True])
def test_ever_other_numbers_of_steps_come_to_an_end_of_compiling(
    gradient: bool, traces: Traces
) -> None:
    states = graphc.scan(lambda h: gt.sin(h) + 0.5, outputs_info=a, n_steps=n)
    y = graphc.grad(states.sum(), a) if gradient else states[-1]
    f = graphc.function([a, n], y, "MLX")
    for k in [*range(1, 130, 3), 500, 77, 78]:
        f(0.5, k)
    # A whole chunk, a few last ones as they are, and powers of two.
    for_each_loop = 1 + chunks.MAX_TAIL_LENGTHS + 5
    assert len(sizes(traces)) <= for_each_loop * (3 if gradient else 1)
    before = len(traces)
    for k in (1000, 333, 79):
        f(0.25, k)
    assert len(sizes(traces)) - len(sizes(traces[:before])) == 0


@pytest.mark.parametrize(("unroll", "expected"), [(1, {32, 6}), (7, {7}), (50, {50, 20})])
def test_unroll_is_how_many_steps_a_chunk_has(
    unroll: int, expected: set[int], traces: Traces
) -> None:
    f = graphc.function([x, h0, a, n], grown(x, unroll=unroll), "MLX")
    f(np.ones((70, 3)), H, 0.5, 1)
    assert {*sizes(traces)} == expected
    assert len(sizes(traces)) == len(expected)


def test_a_loop_that_stops_begins_with_a_short_chunk(traces: Traces) -> None:
    states = graphc.scan(lambda h: (h * 1.5, graphc.until(h > 10)), outputs_info=a, n_steps=1000)
    f = graphc.function([a], states, "MLX")
    f(9.0)
    assert sizes(traces) == [chunks.FIRST_CHUNK]
    f(1e-9)
    assert sizes(traces) == [chunks.FIRST_CHUNK, chunks.CHUNK]


@pytest.mark.exhaustive
def test_a_long_inner_loop_shortens_the_chunk_of_the_outer_one(traces: Traces) -> None:
    def step(x_t: Any, h: Any) -> Any:
        return graphc.scan(lambda g: gt.tanh(g * 0.9 + x_t), outputs_info=h, n_steps=n)[-1]

    f = graphc.function([x, h0, n], graphc.scan(step, sequences=x, outputs_info=h0), "MLX")
    data = np.ones((64, 3))
    for inner in (2, 200, MAX_OPERATIONS, 2):
        f(data, H, inner)
    assert len(traces) < 20
    assert chunks.CHUNK in sizes(traces)


# What enters.


def captured(function: Any) -> Iterator[Any]:
    """The arrays that a function holds."""
    held = [*function.args] if isinstance(function, partial) else []
    plain = function.func if isinstance(function, partial) else function
    held += [cell.cell_contents for cell in plain.__closure__ or ()]
    while held:
        value = held.pop()
        if isinstance(value, list | tuple):
            held += value
        elif isinstance(value, dict):
            held += value.values()
        elif isinstance(value, mx.array):
            yield value


def test_no_value_is_part_of_what_is_compiled(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    from_numpy = arrays.from_numpy

    def noted(value: Any) -> Any:
        if current() is not None:
            made.append(value)
        return from_numpy(value)

    monkeypatch.setattr(arrays, "from_numpy", noted)
    states = grown(x)
    chosen = graphc.scan(
        lambda x_t, h: graphc.ifelse(h.sum() > 1.5, h * 0.25, h + x_t), sequences=x, outputs_info=h0
    )
    short = graphc.scan(lambda h: gt.sin(h) * 0.75, outputs_info=h0, n_steps=4)
    loss = (states**2).sum() * 2.5 + chosen[-1].sum() + short.sum()
    f = graphc.function([x, h0, a, n], [loss, *graphc.grad(loss, [x, h0, a])], "MLX")
    f(np.ones((40, 3)), H, 0.5, 1)
    assert len(traces) >= 3
    assert [value.shape for value in made if value.dtype.kind == "f"] == []
    for function, *_ in traces:
        assert [*captured(function)] == []


def test_arrays_of_one_call_are_not_kept_for_the_next() -> None:
    f = graphc.function([x, h0, a, n], grown(x)[-1].sum(), "MLX")
    f(np.ones((64, 3)), H, 0.5, 1)
    mx.clear_cache()
    before = mx.get_active_memory()
    f(np.ones((64, 1000)), np.ones(1000), 0.5, 1)
    mx.clear_cache()
    assert mx.get_active_memory() - before < 64_000


def test_another_length_of_a_last_chunk_is_made_of_the_same_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So it has the same kernels: nothing of a step is fused with the next one.
    ends = []
    contiguous = mx.contiguous
    monkeypatch.setattr(mx, "contiguous", lambda y: (ends.append(1), contiguous(y))[1])
    uncompiled = graphc.Mode("MLX", compile=False)
    made = []
    for steps in (5, 9, chunks.CHUNK):
        ends.clear()
        graphc.function([x, h0, a, n], grown(x), uncompiled)(np.ones((steps, 3)), H, 0.5, 1)
        made.append(len(ends))
    if mx.default_device().type == mx.cpu:
        assert made[1] - made[0] == 4
    assert made[2] < made[0]


# How large, and when.


def test_chunks_are_evaluated_while_the_next_is_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    evaluate = mx.async_eval
    monkeypatch.setattr(mx, "async_eval", lambda *ys: (calls.append(1), evaluate(*ys)))
    f = graphc.function([x, h0, a, n], grown(x), "MLX")
    f(np.ones((320, 3)), H, 0.5, 1)
    # And the outputs at last.
    assert len(calls) == 320 // chunks.CHUNK + 1


@pytest.mark.exhaustive
def test_a_long_loop_holds_no_more_memory_than_a_short_one() -> None:
    f = graphc.function(
        [h0, n], graphc.scan(lambda h: gt.tanh(h) + 1, outputs_info=h0, n_steps=n)[-1], "MLX"
    )
    size = 50_000
    peaks = []
    for steps in (256, 2560):
        mx.clear_cache()
        mx.reset_peak_memory()
        f(np.ones(size), steps)
        peaks.append(mx.get_peak_memory())
    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 200 * size * 8


def test_a_long_chain_is_cut(traces: Traces) -> None:
    y = v
    for _ in range(MAX_OPERATIONS // 2 + 300):
        y = gt.sin(y) * a
    f = graphc.function([v, a], [y, y.sum()], "MLX", returns="numpy")
    found, _ = f(np.ones(3), 1.01)
    assert len(traces) == 2
    expected = np.ones(3)
    for _ in range(MAX_OPERATIONS // 2 + 300):
        expected = np.sin(expected) * 1.01
    np.testing.assert_allclose(found, expected, 1e-9)


LIMITS = """
import sys
import numpy as np
import mlx.core as mx
import graphc, graphc.tensor as gt

h0, w, n, a = gt.vector("h0"), gt.vector("w"), gt.lscalar("n"), gt.scalar("a")

def forward(steps):
    states = graphc.scan(lambda h: gt.tanh(h * w + 0.1), outputs_info=h0, n_steps=n)
    return graphc.function([h0, w, n], [states[-1], states.sum()], "MLX")(H, H, steps)[1]

def gradient(steps):
    states = graphc.scan(lambda h: gt.sin(h * w) + h[::-1], outputs_info=h0, n_steps=n)
    loss = (states * 1e-3).sum()
    slopes = graphc.grad(loss, [h0, w])
    return graphc.function([h0, w, n], slopes, "MLX")(H, H, steps)[1]

def stops(steps):
    states = graphc.scan(lambda h: (gt.tanh(h * w) + 1e-9, graphc.until(h.sum() > 99)),
                         outputs_info=h0, n_steps=n)
    return graphc.function([h0, w, n], [states[-1], states.shape[0]], "MLX")(H, H, steps)[1]

def chain(nodes):
    y = h0
    for _ in range(nodes // 2):
        y = gt.sin(y) * a
    return graphc.function([h0, a], y, graphc.Mode("MLX", excluding="all"))(H, 1.0)

H = np.array([0.5, 0.25, -0.5])
found = globals()[sys.argv[1]](int(sys.argv[2]))
assert np.all(np.isfinite(np.asarray(found)))
print(mx.get_peak_memory())
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("what", "size"),
    [
        ("gradient", 2000),
        *(
            pytest.param(what, size, marks=pytest.mark.exhaustive)
            for what, size in [
                ("forward", 100_000),
                ("gradient", 20_000),
                ("stops", 100_000),
                ("chain", 20_000),
            ]
        ),
    ],
)
def test_nothing_is_too_long_for_the_stack(what: str, size: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITS, what, str(size)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # What the gradient stores, and little more.
    assert int(done.stdout) < 400 * size + 2**25
