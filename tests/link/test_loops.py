"""Loops on every backend: as the reference has them, compiled seldom, their errors told by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    BoundsError,
    DynamicShapeError,
    RuntimeShapeError,
    UnsupportedOperationError,
)
from graphc.ir import Graph, TensorType
from graphc.link import analyse, names
from graphc.link.jax.traced import TracedProgram
from graphc.loop.build import ENDLESS, build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep

PLAIN = Loop(Graph([], []), label="small loop")
RANDOM = np.random.default_rng(0)
BACKENDS = names()

x, h0, w = gt.matrix("x"), gt.vector("h0"), gt.matrix("w")
a, n = gt.scalar("a"), gt.lscalar("n")
H, W = RANDOM.standard_normal(3), RANDOM.standard_normal((3, 3)) / 2
COUNTS = (1, 2, 3, 5, 7, 8, 9, 11, 12, 13, 20, 30)


def sequences(length: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal((length, 3))


def rnn(steps: Any = None, **how: Any) -> Any:
    """The states of a small recurrent net."""
    return graphc.scan(
        lambda x_t, h, w: gt.tanh(h @ w + x_t),
        sequences=x,
        outputs_info=h0,
        non_sequences=w,
        n_steps=steps,
        **how,
    )


def rnn_until() -> Any:
    """The same, until the states are large."""

    def step(x_t: Any, h: Any, w: Any) -> Any:
        new = gt.tanh(h @ w + x_t)
        return new, graphc.until(new.sum() > 1.5)

    return graphc.scan(step, sequences=x, outputs_info=h0, non_sequences=w)


def compare(inputs: list[Any], outputs: list[Any], *calls: tuple[Any, ...]) -> None:
    """Every backend gives what NumPy gives, at every call."""
    functions = [graphc.function(inputs, outputs, mode=mode, returns="numpy") for mode in BACKENDS]
    reference = functions[BACKENDS.index("NUMPY")]
    for arguments in calls:
        expected = reference(*arguments)
        for f in functions:
            for y, right in zip(f(*arguments), expected, strict=True):
                assert (y.shape, y.dtype) == (right.shape, right.dtype)
                np.testing.assert_allclose(y, right, 1e-10, 1e-12)


_compiled: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: _compiled.append(event)
)


@pytest.fixture
def compilations() -> Callable[[], int]:
    """How many executables JAX made since the test began."""
    _compiled.clear()
    return lambda: _compiled.count("/jax/core/compile/backend_compile_duration")


# Steps that are known while a backend traces.


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 3])
def test_a_scan_of_any_length_has_the_values_and_gradients_of_numpy(
    reverse: bool, unroll: int
) -> None:
    states = rnn(go_backwards=reverse, unroll=unroll)
    loss = (states**2).sum()
    outputs = [states, loss, *graphc.grad(loss, [x, h0, w])]
    compare([x, h0, w], outputs, *((sequences(k), H, W) for k in (0, 1, 7)))


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_steps_not_done_are_zero(reverse: bool) -> None:
    c, y = gt.scalar("c"), gt.scalar("y")
    how = Loop(Graph([], []), reverse=reverse)
    v = gt.vector("v")
    last, rows = build(how, 5, n, [a], [v], LoopStep([c], [y], [gt.sin(c * y)], [c + y]))
    loss = last + (rows**2).sum()
    outputs = [last, rows, *graphc.grad(loss, [a, v])]
    data = RANDOM.standard_normal(5)
    compare([a, v, n], outputs, *((1.5, data, k) for k in (0, 1, 3, 5)))


def test_a_loop_may_end_by_its_condition_alone() -> None:
    c = gt.scalar("c")
    outputs = build(PLAIN, ENDLESS, None, [a], [], LoopStep([c], [], [2 * c], [], 2 * c > 100))
    compare([a], outputs, (1.5,), (200.0,))


def test_the_program_of_a_scan_is_the_one_written_by_hand() -> None:
    def by_hand(x: Any, h: Any, w: Any) -> Any:
        def step(h: Any, x_t: Any) -> Any:
            new = jax.numpy.tanh(h @ w + x_t)
            return new, new

        return lax.scan(step, h, x)[1]

    f = graphc.function([x, h0, w], rnn(), mode="JAX")
    with jax.enable_x64(True):
        arguments = sequences(50), H, W
        ours = jax.make_jaxpr(TracedProgram(f._compiled.spec, lambda: f._program).function)(
            *arguments
        )
        theirs = jax.make_jaxpr(by_hand)(*arguments)
    for one in (ours, theirs):
        assert [str(e.primitive) for e in one.eqns] == ["scan"]
    steps = [one.eqns[0].params["jaxpr"].eqns for one in (ours, theirs)]
    assert [str(e.primitive) for e in steps[0]] == [str(e.primitive) for e in steps[1]]


# Integers that decide shapes in a step.

v = gt.vector("v")
IN_A_STEP: dict[str, Callable[[Any], Any]] = {
    "a range": lambda c: c * 0.5 + gt.arange(n, dtype="float64").sum(),
    "a slice": lambda c: gt.sin(c) * v[:n].sum(),
    "a length": lambda c: c * 0.1 + gt.zeros(v.shape[0] + n).sum() + v[: v.shape[0] - n].sum(),
    "an inner loop": lambda c: graphc.scan(lambda d: gt.sin(d) * 1.1, outputs_info=c, n_steps=n)[
        -1
    ],
    "an inner loop's rows": lambda c: graphc.scan(
        lambda v_t, d: gt.sin(d + v_t), sequences=v[:n], outputs_info=c
    ).sum(),
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("case", IN_A_STEP)
def test_a_const_of_a_loop_may_decide_shapes_in_its_step(case: str) -> None:
    states = graphc.scan(IN_A_STEP[case], outputs_info=a, n_steps=4)
    gradients = graphc.grad((states**2).sum(), [a, v], disconnected_inputs="ignore")
    again = graphc.grad(sum(gt.sum(g**2) for g in gradients), a)
    data = RANDOM.standard_normal(9)
    outputs = [states, *gradients, again]
    compare([a, n, v], outputs, *((0.5, k, data) for k in (1, 2, 3, 4, 5, 6, 7, 8)))


def test_a_shape_that_a_carry_decides_is_refused_with_the_line_and_a_way_out() -> None:
    def step(i: Any, c: Any) -> Any:
        return i + 1, c + gt.arange(3 * i - 2).sum()  # the line, in no other test

    states = graphc.scan(step, outputs_info=[gt.as_tensor(1), a], n_steps=3)
    assert graphc.function([a], states, mode="NUMPY")(1.0)[1][-1] == 1 + 0 + 6 + 21
    with pytest.raises(DynamicShapeError, match=r"In a step of a loop.*\n.*gt\.where") as error:
        graphc.function([a], states, mode="JAX")
    assert "test_loops.py" in str(error.value.where)


def test_a_shared_variable_may_be_the_number_of_steps() -> None:
    for mode in BACKENDS:
        steps = graphc.shared(np.int64(3), name="steps")
        states = graphc.scan(lambda c: 2 * c, outputs_info=a, n_steps=steps)
        f = graphc.function([a], states, updates=[(steps, steps + 1)], mode=mode)
        assert [f(1.0).tolist() for _ in range(2)] == [[2, 4, 8], [2, 4, 8, 16]]


# Numbers of steps that keep changing.


def test_numbers_of_steps_that_keep_changing_share_an_executable(
    compilations: Callable[[], int],
) -> None:
    states = rnn(steps=n)
    loss = (states**2).sum() + states[-1].sum()
    gradient = graphc.grad(loss, [x, h0, w])
    outputs = [states, loss, *gradient, *graphc.grad((gradient[1] ** 2).sum(), [x, h0])]
    data = sequences(40)
    compare([x, h0, w, n], outputs, *((data, H, W, k) for k in (*COUNTS, 40)))
    assert compilations() <= 6


def test_numbers_of_steps_and_other_lengths_that_keep_changing_share_executables(
    compilations: Callable[[], int],
) -> None:
    m = gt.lscalar("m")
    states = graphc.scan(lambda c: 2 * c, outputs_info=a, n_steps=n)
    f = graphc.function([a, n, m], [states, gt.eye(m)], mode="JAX", returns="numpy")
    for k in range(1, 20):
        powers, identity = f(1.0, k, 21 - k)
        np.testing.assert_array_equal(powers, 2.0 ** np.arange(1, k + 1))
        np.testing.assert_array_equal(identity, np.eye(21 - k))
    assert compilations() <= 5


def test_a_loop_without_sequences_goes_by_powers_of_two(compilations: Callable[[], int]) -> None:
    states = graphc.scan(lambda c: gt.sin(c) * 1.1, outputs_info=a, n_steps=n)
    loss = (states**2).sum()
    outputs = [states, graphc.grad(loss, a), states[-1], states[1:-1]]
    compare([a, n], outputs, *((1.5, k) for k in (*COUNTS[2:], 31, 40, 60)))
    assert compilations() <= 6


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint32"])
def test_a_changing_number_of_steps_has_any_integer_dtype(dtype: str) -> None:
    k = gt.scalar("k", dtype=dtype)
    states = graphc.scan(lambda c: c * 0.5, outputs_info=a, n_steps=k + 1)
    numbers = [np.array(i, dtype) for i in (0, 1, 3, 4, 6, 9, 11)]
    compare([a, k], [states, k + 2, gt.arange(k // 2 + 3)], *((1.5, i) for i in numbers))


def test_loops_that_stop_by_their_data_have_one_executable(
    compilations: Callable[[], int],
) -> None:
    states = rnn_until()
    loss = (states**2).sum() + states[-1].sum() + gt.exp(states).mean()
    gradient = graphc.grad(loss, [x, h0, w])
    outputs = [states, loss, *gradient, *graphc.grad((gradient[1] ** 2).sum(), [x, h0, w])]
    compare([x, h0, w], outputs, *((sequences(40), H, W) for _ in range(8)))
    assert compilations() == 1


def test_a_number_that_decides_more_than_steps_has_an_executable_for_each_value(
    compilations: Callable[[], int],
) -> None:
    states = graphc.scan(lambda c: 2 * c, outputs_info=a, n_steps=n)
    square = states[:, None] * states
    compare([a, n], [square], *((1.5, k) for k in (1, 2, 3, 4, 5, 6, 7)))
    assert compilations() <= 8


ROWS: dict[str, Callable[[Any], Any]] = {
    "a sum": lambda r: r.sum(),
    "sums of rows": lambda r: r.sum(1),
    "a product": lambda r: r.prod(0),
    "extremes": lambda r: r.max(0) - r.min(),
    "a variance": lambda r: r.var(0),
    "a place": lambda r: r.argmax(0),
    "truth": lambda r: (r < 1).all() & (r > 0.5).any(),
    "elements": lambda r: gt.exp(r) * 2 + 1,
    "the sequence": lambda r: r * x[: r.shape[0]],
    "the first and the last": lambda r: r[0] * r[-1],
    "the last three": lambda r: r[-3:],
    "differences": lambda r: r[1:] - r[:-1],
    "the other way": lambda r: r[::-1],
    "every other": lambda r: r[1::2],
    "a column": lambda r: r[:, 0],
    "columns": lambda r: r.T,
    "a product of matrices": lambda r: r @ W,
    "a sum of squares": lambda r: r.T @ r,
    "running sums": lambda r: r.cumsum(0),
    "the start before": lambda r: gt.concatenate([h0[None], r]),
    "twice": lambda r: gt.concatenate([r, 2 * r]),
    "side by side": lambda r: gt.concatenate([r, 2 * r], axis=1),
    "zeros": gt.zeros_like,
    "numbers": lambda r: (r * gt.arange(r.shape[0])[:, None]).sum(0),
    "groups": lambda r: r.reshape((r.shape[0], 3, 1)),
    "a vector": lambda r: r.ravel(),
    "shares": lambda r: gt.softmax(r, axis=0),
    "a choice": lambda r: gt.where(r > 0, r, -1.0),
    "a part changed": lambda r: r[-1].inc(h0),
    "rows changed": lambda r: r[1:].set(0.5),
    "padding": lambda r: gt.pad(r, [(1, 2), (0, 0)]),
    "rows by number": lambda r: r[gt.as_tensor([0, -1])],
    "order": lambda r: gt.sort(r, axis=0),
    "order in rows": lambda r: gt.sort(r, axis=1),
    "a matrix of its own length": lambda r: gt.zeros((40, 3))[: r.shape[0]].set(r),
    "another scan": lambda r: graphc.scan(lambda y, c: gt.sin(c + y), r, h0),
    "another scan back": lambda r: graphc.scan(lambda y, c: c / 2 + y, r, h0, go_backwards=True),
    "taps": lambda r: graphc.scan(lambda y, z, c: c / 2 + y * z, {"input": r, "taps": [-1, 0]}, h0),
    "a map": lambda r: graphc.map(lambda y: gt.sin(y).sum(), r),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("case", ROWS)
def test_what_follows_from_a_trace_of_unknown_length_needs_none(
    case: str, compilations: Callable[[], int]
) -> None:
    y = ROWS[case](rnn_until())
    outputs = [y]
    if y.dtype == "float64":
        weighted = (gt.cos(y) * y).sum()
        outputs += graphc.grad(weighted, [x, h0], disconnected_inputs="ignore")
    compare([x, h0, w], outputs, *((sequences(40) + 0.1, H, W) for _ in range(3)))
    assert compilations() == 1


def test_a_number_of_steps_may_be_computed_from_data() -> None:
    steps = gt.cast(gt.abs(x).sum(), "int64")
    last = graphc.scan(lambda c: gt.sin(c) + 1, outputs_info=a, n_steps=steps)[-1]
    compare([x, a], [last], (sequences(3), 0.5), (sequences(2), 0.5))


def test_a_limit_of_what_is_computed_from_data_is_a_bound(compilations: Callable[[], int]) -> None:
    counts = gt.lvector("counts")

    def step(v_t: Any, k: Any, c: Any) -> Any:
        inner = graphc.scan(lambda d: gt.sin(d + v_t), outputs_info=c, n_steps=gt.minimum(k, 5))
        return inner[-1]

    states = graphc.scan(step, sequences=[v, counts], outputs_info=a)
    steps = gt.minimum(gt.cast(gt.abs(v).sum(), "int64") + 1, 20)
    others = graphc.scan(lambda c: gt.sin(c) + 1, outputs_info=a, n_steps=steps)
    outputs = [states, others, *graphc.grad((states**2).sum() + (others**2).sum(), [v, a])]
    calls = ((RANDOM.standard_normal(4), RANDOM.integers(1, 6, 4), 0.5) for _ in range(4))
    compare([v, counts, a], outputs, *calls)
    assert compilations() == 1


def test_rows_without_a_bound_are_refused_with_a_way_out() -> None:
    steps = gt.cast(gt.abs(x).sum(), "int64")
    states = graphc.scan(lambda c: gt.sin(c) + 1, outputs_info=a, n_steps=steps)
    with pytest.raises(DynamicShapeError, match="max_steps") as error:
        graphc.function([x, a], states.sum(), mode="JAX")(sequences(3), 0.5)
    assert "test_loops.py" in str(error.value.where)


def test_what_needs_to_know_how_many_steps_there_are_is_refused_with_a_way_out() -> None:
    states = rnn_until()
    with pytest.raises(DynamicShapeError, match=r"\[-1\].*\n*.*mode='NUMPY'") as error:
        graphc.function([x, h0, w], gt.fft.rfft(states, axis=0), mode="JAX")(sequences(9), H, W)
    assert "test_loops.py" in str(error.value.where)


def test_a_carry_whose_unknown_length_moves_to_another_axis_is_refused() -> None:
    trace = gt.specify_shape(rnn_until(), (None, None))
    mirrored = graphc.scan(lambda c: c[:, ::-1], outputs_info=trace, n_steps=3)[-1]
    compare([x, h0, w], [mirrored.sum(0)], (sequences(9), H, W))
    turned = graphc.scan(lambda c: c.T, outputs_info=trace, n_steps=3)[-1]
    with pytest.raises(DynamicShapeError, match="a carry's length") as error:
        graphc.function([x, h0, w], turned, mode="JAX")(sequences(9), H, W)
    assert "test_loops.py" in str(error.value.where)


def test_lengths_that_differ_are_found_when_the_program_has_run() -> None:
    y = rnn_until()[:, 0] + v
    f = graphc.function([x, h0, w, v], y, mode="JAX")
    data = sequences(40)
    k = len(graphc.function([x, h0, w], rnn_until(), mode="NUMPY")(data, H, W))
    assert f(data, H, W, np.ones(k)).shape == (k,)
    with pytest.raises(RuntimeShapeError, match="lengths that must be equal"):
        f(data, H, W, np.ones(k + 1))


def test_a_trace_of_unknown_length_does_not_leave_the_users_own_trace() -> None:
    f = graphc.function([x, h0, w], rnn_until(), mode="JAX", returns="native")
    with jax.enable_x64(True), pytest.raises(DynamicShapeError, match=r"outside of jax\.jit"):
        jax.jit(f)(*map(jax.numpy.asarray, (sequences(9), H, W)))


# Errors.


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_failure_in_a_step_names_its_line_and_the_loop(mode: str) -> None:
    def step(c: Any) -> Any:
        return gt.cos(1.25 * c) + h0  # unlike the steps of other tests, whose lines equal ones have

    states = graphc.scan(step, outputs_info=v, n_steps=3, name="growing")
    f = graphc.function([v, h0], states, mode=mode)
    with pytest.raises(RuntimeShapeError, match="growing") as error:
        f(np.ones(2), np.ones(3))
    assert "test_loops.py" in str(error.value.where)


def test_a_failure_at_run_time_names_the_step() -> None:
    def step(i: Any) -> Any:
        return i + 1, v[i]

    c = gt.lscalar("i")
    zero = gt.as_tensor(np.int64(0))
    outputs = build(PLAIN, 5, None, [zero], [], LoopStep([c], [], *[[y] for y in step(c)]))
    with pytest.raises(BoundsError, match=r"small loop, step 3: .* index 3") as error:
        graphc.function([v], outputs, mode="NUMPY")(np.ones(3))
    assert "test_loops.py" in str(error.value.where)


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_carry_that_changes_its_shape_is_refused(mode: str) -> None:
    c = gt.vector("c")
    outputs = build(PLAIN, 3, None, [v], [], LoopStep([c], [], [gt.concatenate([c, c])]))
    with pytest.raises(RuntimeShapeError, match=r"small loop: the carry 0 .* \(2,\) .* \(4,\)"):
        graphc.function([v], outputs, mode=mode)(np.ones(2))


@pytest.mark.parametrize("mode", BACKENDS)
def test_sequences_and_steps_must_fit(mode: str) -> None:
    c, y = gt.scalar("c"), gt.scalar("y")
    outputs = build(PLAIN, n, None, [a], [v], LoopStep([c], [y], [gt.sin(c + y)]))
    f = graphc.function([a, v, n], outputs, mode=mode)
    for k in (1, 2, 3, 4, 5, 6):
        f(1.0, np.ones(k), k)
    with pytest.raises(RuntimeShapeError, match="the sequence 0 has 9 elements for 8 steps"):
        f(1.0, np.ones(9), 8)
    with pytest.raises(ArgumentError, match="-2 steps"):
        f(1.0, np.ones(2), -2)


class Foreign(graphc.Op):
    """An operation without a lowering."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Foreign

    def __hash__(self) -> int:
        return 1

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        return x

    def token(self) -> str:
        return "foreign"


def test_operations_missing_in_steps_are_told_with_their_lines() -> None:
    states = graphc.scan(lambda c: gt.Tensor.make(Foreign(), c), outputs_info=a, n_steps=3)
    with pytest.raises(UnsupportedOperationError, match=r"Foreign   test_loops\.py"):
        graphc.function([a], states, mode="JAX")


def test_named_functions_are_taken_apart_in_steps() -> None:
    states = graphc.scan(gt.softmax, outputs_info=v, n_steps=3)
    compare([v], [states], (np.arange(3.0),))


# The analysis.


def test_what_a_step_needs_on_the_host_its_loop_does() -> None:
    states = graphc.scan(lambda c: c + gt.arange(n).sum(), outputs_info=a, n_steps=4)
    host = analyse(Graph([a, n], [states]))
    assert host.inputs == (1,)


def test_integers_that_decide_lengths_are_told_from_vectors_of_lengths() -> None:
    m, sizes = gt.lscalar("m"), gt.lvector("sizes", shape=(1,))
    states = graphc.scan(lambda c: 2 * c, outputs_info=a, n_steps=n)
    host = analyse(Graph([a, n, m, sizes], [states, gt.eye(m), gt.zeros(sizes)]))
    assert (host.inputs, host.counts) == ((1, 2, 3), (1, 2))


def test_a_traced_number_of_steps_is_refused_with_the_way_out() -> None:
    states = graphc.scan(lambda c: 2 * c, outputs_info=a, n_steps=n)
    f = graphc.function([a, n], states[-1], mode="JAX", returns="native")
    with jax.enable_x64(True):
        assert jax.jit(f, static_argnums=1)(1.0, 3) == 8.0
        with pytest.raises(DynamicShapeError, match=r"argument 1 .*\n.*static_argnums"):
            jax.jit(f)(1.0, 3)
