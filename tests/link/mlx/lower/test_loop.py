"""Loops on MLX, which has none: chunks of any size, in any graph, give what NumPy gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, OperationError, RuntimeShapeError
from graphc.ir import Graph, Op, TensorType
from graphc.link import load
from graphc.link.mlx import segments
from graphc.link.mlx.lower import loop as chunks
from graphc.loop.build import ENDLESS, build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep
from graphc.tensor.core.tensor import Tensor

RANDOM = np.random.default_rng(5)
LENGTHS = (0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100)
STEPS = 70
PLAIN = Loop(Graph([], []), label="small loop")

x, h0, w = gt.matrix("x"), gt.vector("h0"), gt.matrix("w")
v, a, n, m = gt.vector("v"), gt.scalar("a"), gt.lscalar("n"), gt.lscalar("m")
H, W = RANDOM.standard_normal(3), RANDOM.standard_normal((3, 3)) / 2


def rows_of(length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(length).standard_normal((length, 3))


def compare(inputs: list[Any], outputs: Any, *calls: tuple[Any, ...], **options: Any) -> Any:
    """One function on MLX gives what NumPy gives, at every call."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    reference = graphc.function(inputs, outputs, "NUMPY", on_unused_input="ignore")
    f = graphc.function(
        inputs,
        outputs,
        graphc.Mode("MLX", **options),
        on_unused_input="ignore",
        returns="numpy",
    )
    for arguments in calls:
        expected = reference(*arguments)
        for i, (y, right) in enumerate(zip(f(*arguments), expected, strict=True)):
            assert (y.shape, y.dtype) == (right.shape, right.dtype), i
            near = 1e-4 if y.dtype == np.float32 else 1e-10
            np.testing.assert_allclose(y, right, near, near, err_msg=f"output {i}")
    return f


def rnn(**how: Any) -> Any:
    """The states of a small recurrent net."""
    return graphc.scan(
        lambda x_t, h, w: gt.tanh(h @ w + x_t),
        sequences=x,
        outputs_info=h0,
        non_sequences=w,
        **how,
    )


# Chunks.


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("unroll", [1, 5])
def test_any_number_of_steps_has_the_values_and_gradients_of_numpy(
    reverse: bool, unroll: int
) -> None:
    states = rnn(go_backwards=reverse, unroll=unroll)
    loss = (states**2).sum()
    outputs = [states, states[-1:] * 2, loss, *graphc.grad(loss, [x, h0, w])]
    compare([x, h0, w], outputs, *((rows_of(k), H, W) for k in LENGTHS))


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_count_may_end_anywhere_in_a_chunk(reverse: bool) -> None:
    c, y = gt.scalar("c"), gt.scalar("y")
    how = Loop(Graph([], []), reverse=reverse)
    last, rows = build(how, 70, n, [a], [v], LoopStep([c], [y], [gt.sin(c * y)], [c + y]))
    outputs = [last, rows, *graphc.grad(last + (rows**2).sum(), [a, v])]
    data = RANDOM.standard_normal(70)
    compare([a, v, n], outputs, *((1.5, data, k) for k in (0, 1, 31, 32, 33, 64, 69, 70)))


@pytest.mark.parametrize("n", [0, 1, 9, 40])
def test_numpy_runs_loops_of_a_few_integers_alone(n: int) -> None:
    key = gt.tensor(dtype="uint32", shape=(2,))
    step = LoopStep([key], [], [key[::-1] * 3 + 1], [key])
    start = gt.tensor("start", dtype="uint32", shape=(2,))
    results = build(PLAIN, n, None, [start], [], step)
    op: Any = results[0].inputs[0].op
    assert not isinstance(chunks.loop_driver(op, {}), chunks.LoopDriver)
    keys = [np.array([5, 7], "uint32")]
    for _ in range(n):
        keys.append(keys[-1][::-1] * np.uint32(3) + np.uint32(1))
    last, rows = graphc.function([start], results, mode="MLX")(keys[0])
    np.testing.assert_array_equal(last, keys[-1])
    np.testing.assert_array_equal(rows, np.array(keys[:-1], "uint32").reshape(n, 2))


def test_numpy_runs_no_loop_of_integers_that_computes_others_in_a_nested_graph() -> None:
    def largest(key: Any) -> Any:
        return gt.argmax(gt.sin(key.astype("float64")))

    def step(key: Any, _: Any) -> Any:
        i = graphc.switch_case(key[0] % 2, [largest, lambda key: largest(key + 1) + 1], key)
        return gt.stack([key[1] + 7, key[0]]) + i.astype("uint32"), i

    start = gt.tensor("start", dtype="uint32", shape=(2,))
    results = graphc.loop(step, start, n_steps=5)
    f = graphc.function([start], results, mode="MLX", returns="numpy")
    inner = [node.op for node in f.graph.nodes if isinstance(node.op, Loop)]
    assert [isinstance(chunks.loop_driver(op, {}), chunks.LoopDriver) for op in inner] == [True]
    reference = graphc.function([start], results, mode="NUMPY")
    value = np.array([5, 2**31 + 9], "uint32")
    for found, wanted in zip(f(value), reference(value), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_loop_stops_at_every_step() -> None:
    def step(x_t: Any, h: Any) -> Any:
        new = gt.tanh(h * 0.9 + x_t)
        return [new, new * h], graphc.until(x_t > a)

    (states, products) = graphc.scan(step, sequences=v, outputs_info=[h0.sum(), None])
    loss = (states**2).sum() + products[-1]
    outputs = [states, states[-1], products, states.shape[0], *graphc.grad(loss, [v, h0])]
    data = np.linspace(0, 1, STEPS)
    # The step k is the first one above the limit; at last none is.
    limits = [*(data - 0.5 / STEPS), 2.0]
    compare([v, h0, a], outputs, *((data, H, limit) for limit in limits))


@pytest.mark.parametrize("most", [1, 7, 8, 9, 40, 41, 70])
def test_a_loop_that_stops_has_no_more_steps_than_it_may(most: int) -> None:
    def step(h: Any) -> Any:
        return h * 1.1 + 0.1, graphc.until(h > a)

    states = graphc.scan(step, outputs_info=v.sum(), n_steps=most)
    outputs = [states, graphc.grad(states.sum(), v)]
    compare([v, a], outputs, *((H, limit) for limit in (-9.0, 1.0, 3.0, 20.0, 1e9)))


def test_a_loop_may_end_by_its_condition_alone() -> None:
    c = gt.scalar("c")
    outputs = [
        *build(PLAIN, ENDLESS, None, [a], [], LoopStep([c], [], [1.05 * c], [], 1.05 * c > 1e4))
    ]
    compare([a], outputs, (1.5,), (200.0,), (9999.0,), (1e6,))


def test_whole_numbers_and_truths_are_carried() -> None:
    k, b, f = gt.lscalar("k"), gt.scalar("b", dtype="bool"), gt.fscalar("f")

    def step(k_t: Any, k: Any, b: Any, f: Any) -> Any:
        return [k * 3 + k_t, gt.logical_xor(b, k % 2 > 0), f * gt.as_tensor(0.5, dtype="float32")]

    k_ts = gt.lvector("k_ts")
    outputs = graphc.scan(step, sequences=k_ts, outputs_info=[k, b, f])
    calls = [(np.arange(s), 5, True, np.float32(2)) for s in (0, 1, 35, 64)]
    compare([k_ts, k, b, f], outputs, *calls)


@pytest.mark.parametrize("kind", ["float32", "uint8", "int16"])
def test_carries_of_any_dtype_wrap_and_round_as_in_numpy(kind: str) -> None:
    k, ks = TensorType(kind, ())(), TensorType(kind, (None,))()
    states = graphc.scan(lambda k_t, k: (k * k_t + k_t).astype(kind), sequences=ks, outputs_info=k)
    data = (RANDOM.uniform(-1, 1, 70) if kind == "float32" else np.arange(70) % 7).astype(kind)
    compare([ks, k], states, (data, np.asarray(3, kind)), (data[:9], np.asarray(5, kind)))


def test_arrays_without_elements_are_carried_and_read() -> None:
    states = graphc.scan(lambda x_t, h: h * 2 + x_t, sequences=x, outputs_info=h0)
    last = graphc.scan(lambda h: h + 1, outputs_info=h0, n_steps=n)[-1]
    outputs = [states, last, *graphc.grad(states.sum() + last.sum(), [h0])]
    none = np.zeros(0)
    compare([x, h0, n], outputs, (np.zeros((40, 0)), none, 40), (np.zeros((0, 0)), none, 0))


def test_a_carry_may_stay_as_it_is_or_be_a_constant() -> None:
    def step(x_t: Any, h: Any, c: Any, k: Any) -> Any:
        return [h, gt.as_tensor(2.5), h * x_t + k, h, x_t]

    info = [a, gt.as_tensor(1.0), gt.as_tensor(0.5), None, None]
    outputs = graphc.scan(step, sequences=v, outputs_info=info)
    compare([v, a], outputs, *((np.linspace(1, 2, k), 3.0) for k in (1, 8, 33, 70)))


def test_a_step_may_take_nothing_at_all() -> None:
    ones = graphc.scan(lambda: gt.as_tensor(1.5) * 2, n_steps=n)
    squares = graphc.scan(lambda i: i * i, sequences=gt.arange(n))
    compare([n], [ones, squares], *((k,) for k in (0, 1, 9, 70)))


def test_what_a_loop_gave_may_be_used_twice_and_be_given_twice() -> None:
    states = rnn()
    outputs = [states, states, states * 2, states[-1], states[-1], states.sum(0)]
    f = compare([x, h0, w], outputs, (rows_of(40), H, W))
    found = f(rows_of(40), H, W)
    found[0][:] = 0
    assert np.any(found[1])


# Loops among other things.


def test_loops_stand_anywhere_in_a_graph() -> None:
    before = gt.exp(-(x**2)) + x[::-1]
    first = graphc.scan(lambda x_t, h: gt.tanh(h + x_t), sequences=before, outputs_info=h0)
    between = gt.sum(first, 1) / first.shape[0]
    second = graphc.scan(lambda b, c: gt.sin(c) + b, sequences=between, outputs_info=a)
    beside = graphc.scan(lambda c: c * 0.99 + h0.sum(), outputs_info=a, n_steps=n)
    after = (second * beside[-1]).sum() + (first @ h0).max()
    outputs = [after, second, beside, *graphc.grad(after, [x, h0, a])]
    calls = [(rows_of(k), H, 0.5, s) for k, s in ((3, 50), (40, 3), (70, 33), (40, 70))]
    compare([x, h0, a, n], outputs, *calls)


def test_what_a_loop_gave_decides_shapes() -> None:
    def step(h: Any) -> Any:
        return h * 0.8, graphc.until(h < a)

    trace = graphc.scan(step, outputs_info=v.sum(), n_steps=200)
    taken = trace.shape[0]
    found = graphc.scan(lambda i, c: c + i, sequences=gt.arange(taken), outputs_info=gt.constant(0))
    number = gt.cast(gt.floor(trace[-1] * 100), "int64")
    outputs = [gt.arange(taken) * trace, found, gt.zeros(taken) + trace[0], v[: taken % 3]]
    outputs += [gt.arange(number), trace[trace > 0.5], gt.unique(gt.floor(trace))]
    data = np.array([2.0, 1.5, 4.0])
    compare([v, a], outputs, *((data, limit) for limit in (9.0, 1.0, 0.1, 0.001)))


BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "a mask": lambda x_t, h: h + x_t[x_t > h.mean()].sum(),
    "distinct values": lambda x_t, h: h * 0.5 + gt.unique(gt.floor(x_t + h)).shape[0],
    "a range": lambda x_t, h: h / 2 + gt.arange(gt.cast(gt.abs(x_t[0]) * 5, "int64")).sum(),
    "a slice": lambda x_t, h: h / 2 + x_t[: gt.cast(gt.abs(h[0]), "int64") % 3].sum(),
    "a number of steps": lambda x_t, h: graphc.scan(
        lambda g: gt.tanh(g + x_t), outputs_info=h, n_steps=gt.cast(gt.abs(x_t[0]) * 5, "int64") + 1
    )[-1],
    "a stop": lambda x_t, h: graphc.scan(
        lambda g: (g * 0.7 + x_t / 9, graphc.until(gt.abs(g).max() < 0.5)),
        outputs_info=h,
        n_steps=50,
    )[-1],
    "three branches": lambda x_t, h: graphc.switch_case(
        gt.cast(gt.floor(gt.abs(h[0]) * 3), "int64"),
        [lambda: gt.tanh(h + x_t), lambda: h - x_t**2, lambda: gt.sin(h) * x_t],
    ),
}
"""Steps that need a value, or choose by one."""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", BODIES)
def test_a_step_may_need_a_value(name: str) -> None:
    states = graphc.scan(BODIES[name], sequences=x, outputs_info=h0)
    slopes = graphc.grad((states**2).sum(), [x, h0], disconnected_inputs="ignore")
    compare([x, h0], [states, *slopes], *((rows_of(k), H) for k in (1, 9, 35)))
    compare([x, h0], states, (rows_of(0), H))


def test_branches_of_a_step_may_differ_in_shape() -> None:
    def step(x_t: Any, h: Any) -> Any:
        fits = graphc.cond(h[0] > 0.2, lambda: x_t[:2] * w[0, :2], lambda: x_t[:1] * w[0, :1])
        return h / 2 + fits.sum()

    states = graphc.scan(step, sequences=x, outputs_info=h0)
    compare([x, h0, w], states, *((rows_of(k), H, W) for k in (0, 1, 9, 35)))


@pytest.mark.parametrize(("outer", "inner"), [(2, 2), (40, 2), (2, 40), (40, 40), (9, 300)])
def test_loops_are_nested(outer: int, inner: int) -> None:
    def step(x_t: Any, h: Any) -> Any:
        return graphc.scan(lambda g: gt.tanh(g * 0.9 + x_t), outputs_info=h, n_steps=inner)[-1]

    states = graphc.scan(step, sequences=x, outputs_info=h0)
    outputs = [states, *graphc.grad((states**2).sum(), [x, h0])]
    compare([x, h0], outputs, (rows_of(outer), H))


def test_an_inner_loop_has_as_many_steps_as_is_said() -> None:
    def step(x_t: Any, i: Any, h: Any) -> Any:
        by_input = graphc.scan(lambda g: gt.sin(g) + x_t, outputs_info=h, n_steps=n)
        by_step = graphc.scan(lambda g: gt.cos(g) * x_t, outputs_info=h, n_steps=i % 4)
        return by_input[-1] + gt.concatenate([h[None], by_step])[-1]

    states = graphc.scan(step, sequences=[x, gt.arange(x.shape[0])], outputs_info=h0)
    outputs = [states, *graphc.grad((states**2).sum(), [x, h0])]
    calls = [(rows_of(k), H, s) for k, s in ((5, 1), (35, 3), (9, 40), (35, 3))]
    compare([x, h0, n], outputs, *calls)


def test_three_loops_are_nested() -> None:
    def step(x_t: Any, h: Any) -> Any:
        def inner(h_t: Any, c: Any) -> Any:
            return graphc.scan(lambda d: gt.sin(d) + h_t, outputs_info=c, n_steps=n)[-1]

        return gt.tanh(h + graphc.scan(inner, sequences=x_t, outputs_info=h.sum())[-1])

    states = graphc.scan(step, sequences=x, outputs_info=h0)
    outputs = [states, *graphc.grad((states**2).sum(), [x, h0])]
    compare([x, h0, n], outputs, (rows_of(34), H, 2), (rows_of(3), H, 40))


@dataclass(frozen=True, slots=True)
class Doubled(Op):
    """An operation of a user's."""

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if np.any(x > 1e6):
            raise ValueError("too large")
        return np.asarray(x * 2)

    def pullback(self, g: Any, y: Any, x: Any) -> tuple[Any]:
        return (Tensor.make(Doubled(), g),)


@pytest.mark.parametrize("lowered", [False, True], ids=["by NumPy", "by a lowering"])
def test_a_step_may_hold_an_operation_of_the_users(
    lowered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = graphc.scan(
        lambda x_t, h: gt.tanh(Tensor.make(Doubled(), h) + x_t), sequences=x, outputs_info=h0
    )
    outputs = [states, *graphc.grad((states**2).sum(), [x, h0])]
    options = {} if lowered else {"fallback": "numpy"}
    if lowered:
        monkeypatch.setitem(load("MLX").lowerings, Doubled, lambda op, x: x * 2)
    compare([x, h0], outputs, *((rows_of(k), H) for k in (0, 1, 9, 35)), **options)


# The ways in which a loop runs.


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_steps_written_out_and_steps_run_one_by_one_are_the_same(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAX_UNROLLED_STEPS", 0)
    for name, size in (
        ("CHUNK", chunk),
        ("FIRST_CHUNK", 2),
        ("EVALUATE_EVERY", 2),
        ("MAX_TAIL_LENGTHS", 1),
    ):
        monkeypatch.setattr(chunks, name, size)
    for reverse in (False, True):
        states = rnn(go_backwards=reverse)
        outputs = [states, *graphc.grad((states**2).sum(), [x, h0, w])]
        compare([x, h0, w], outputs, *((rows_of(k), H, W) for k in (0, 1, 5, 6, 7)))
    test_a_loop_may_end_by_its_condition_alone()
    test_whole_numbers_and_truths_are_carried()
    test_a_carry_may_stay_as_it_is_or_be_a_constant()


def test_an_uncompiled_loop_is_the_same() -> None:
    states = rnn()
    outputs = [states, *graphc.grad((states**2).sum(), [x, h0, w])]
    compare([x, h0, w], outputs, (rows_of(0), H, W), (rows_of(40), H, W), compile=False)


def test_a_function_is_called_from_several_threads() -> None:
    states = rnn()
    f = graphc.function([x, h0, w], [states, graphc.grad(states.sum(), h0)], "MLX", returns="numpy")
    reference = graphc.function([x, h0, w], [states, graphc.grad(states.sum(), h0)], "NUMPY")
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for k in (3, 40, 33, 70, 8):
                data = rng.standard_normal((k + seed, 3))
                for y, right in zip(f(data, H, W), reference(data, H, W), strict=True):
                    np.testing.assert_allclose(y, right, 1e-10, 1e-10)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


# What goes wrong.


def test_sequences_of_other_lengths_are_told() -> None:
    y = gt.vector("y")
    c, p, q = gt.scalar("c"), gt.scalar("p"), gt.scalar("q")
    last, _ = build(
        PLAIN, v.shape[0], None, [a], [v, y], LoopStep([c], [p, q], [gt.sin(c) + p * q], [c])
    )
    f = graphc.function([a, v, y], last, "MLX")
    with pytest.raises(RuntimeShapeError, match="small loop: the sequence 1 has 4 elements for 5"):
        f(1.0, np.ones(5), np.ones(4))


def test_a_negative_number_of_steps_is_told() -> None:
    f = graphc.function([a, n], graphc.scan(gt.sin, outputs_info=a, n_steps=n), "MLX")
    with pytest.raises(ArgumentError, match="-1 steps"):
        f(1.0, -1)


def test_a_carry_that_grows_is_told() -> None:
    c = gt.vector("c")
    (last,) = build(PLAIN, 40, None, [v], [], LoopStep([c], [], [gt.concatenate([c, c])], []))
    with pytest.raises(RuntimeShapeError, match="small loop: the carry 0 has the shape"):
        graphc.function([v], last, "MLX")(H)


def test_lengths_that_differ_in_a_step_are_told_by_line_and_loop() -> None:
    states = graphc.scan(lambda x_t, h: h @ w + x_t, sequences=x, outputs_info=h0, name="net")
    f = graphc.function([x, h0, w], states, "MLX")
    with pytest.raises((OperationError, RuntimeShapeError), match=r"net") as error:
        f(rows_of(40), H, np.ones((3, 2)))
    assert "test_loop.py:" in str(error.value)
    f(rows_of(40), H, W)


def test_an_operation_that_fails_is_told_by_line_loop_and_step() -> None:
    states = graphc.scan(
        lambda h: Tensor.make(Doubled(), h) + 1, outputs_info=a, n_steps=40, name="growth"
    )
    f = graphc.function([a], states, graphc.Mode("MLX", fallback="numpy"))
    with pytest.raises(OperationError, match=r"growth, step 19: .*too large") as error:
        f(1.0)
    assert "test_loop.py:" in str(error.value)
