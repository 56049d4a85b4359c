"""Graphs and functions pickled, copied, and used in other processes and threads."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Graph

x = gt.vector("x")
ONES = np.ones(3)


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def counter(mode: str) -> tuple[graphc.Function, graphc.Shared]:
    n = graphc.shared(0, "n")
    return graphc.function([], n, updates=[(n, n + 1)], mode=mode), n


# Copies with other variables, or without updates.


def test_a_copy_may_have_other_variables(mode: str) -> None:
    count, n = counter(mode)
    other = graphc.shared(10, "other")
    copied = count.copy(swap={n: other}, name="copied")
    assert [int(copied()), int(copied()), int(other.get_value()), int(n.get_value())] == [
        10,
        11,
        12,
        0,
    ]
    assert (copied.name, count.copy().name) == ("copied", count.name)
    assert [int(count.copy()()), int(n.get_value())] == [0, 1]


def test_a_copy_may_leave_variables_as_they_are(mode: str) -> None:
    count, n = counter(mode)
    copied = count.copy(delete_updates=True)
    assert [int(copied()), int(copied()), int(n.get_value())] == [0, 0, 0]
    draw = graphc.function([], gt.random.RandomStream(1).normal(), mode=mode)
    same = draw.copy(delete_updates=True)
    assert float(same()) == float(same())


def test_what_cannot_take_a_variables_place_is_refused(mode: str) -> None:
    count, n = counter(mode)
    with pytest.raises(ArgumentError, match=r"x: float64.* is no shared variable"):
        count.copy(swap={n: x})
    with pytest.raises(ArgumentError, match="does not depend on"):
        count.copy(swap={graphc.shared(1): n})
    with pytest.raises(DTypeError, match="can't replace"):
        count.copy(swap={n: graphc.shared(1.0)})


# Pickling.


def test_a_pickled_function_computes_the_same(mode: str) -> None:
    y, rate = gt.scalars("y", "rate")
    ins = [{"x": x, "y": y}, graphc.In(rate, name="speed", value=2.0)]
    outputs = {"a": x * y * rate, "b": (x.sum(), [x * np.arange(20.0)[:3]])}
    f = graphc.function(ins, outputs, mode=mode, name="step", returns="numpy")
    g = again(f)
    assert (repr(g), g.mode, g.graph.key()) == (repr(f), f.mode, f.graph.key())
    for call in (lambda h: h({"x": ONES, "y": 3.0}), lambda h: h({"y": 1.0, "x": ONES}, speed=5.0)):
        a, b = call(f), call(g)
        np.testing.assert_array_equal(a["a"], b["a"])
        assert a["b"][0] == b["b"][0]


def test_a_pickled_function_has_the_shared_values_of_its_time(mode: str) -> None:
    count, n = counter(mode)
    count()
    data = pickle.dumps(count)
    count()
    restored = pickle.loads(data)
    assert [int(restored()), int(restored())] == [1, 2]
    assert n.get_value() == 2


def test_functions_pickled_together_share_their_variables(mode: str) -> None:
    count, n = counter(mode)
    read = graphc.function([], n, mode=mode)
    count, read, n = again((count, read, n))
    count()
    n.set_value(n.get_value() + 10)
    count()
    assert int(read()) == 12


@pytest.mark.sample(every=3)
def test_a_function_is_restored_in_another_process(mode: str, tmp_path: Path) -> None:
    w = graphc.shared(ONES, "w")
    y = gt.scalar("y")
    f = graphc.function(
        [x, graphc.In(y, value=2.0)], (x * w * y).sum(), updates=[(w, w + 1)], mode=mode
    )
    f(ONES)
    file = tmp_path / "function.pickle"
    file.write_bytes(pickle.dumps((f, f.graph, f.graph.key())))
    script = (
        "import pickle, pathlib, sys, numpy as np\n"
        "f, graph, key = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "assert graph.key() == f.graph.key() == key\n"
        "print(float(f(np.ones(3))), float(f(np.ones(3), y=1.0)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, file], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["12.0", "9.0"], done.stderr


def test_a_pickled_graph_has_the_same_key() -> None:
    y = gt.exp(x) @ np.ones((3, 20))
    graph = again(Graph([x], [y, y + 1]))
    assert graph.key() == Graph([x], [y, y + 1]).key()
    assert graph.outputs[1].inputs[-1] is graph.outputs[0] or graph.outputs[0] in graph.nodes


# Copying.


def test_a_deep_copy_has_shared_variables_of_its_own(mode: str) -> None:
    count, n = counter(mode)
    count()
    other = copy.deepcopy(count)
    assert [int(other()), int(other()), int(count())] == [1, 2, 1]
    assert n.get_value() == 2


def test_a_deep_copy_of_one_that_only_reads_keeps_its_value(mode: str) -> None:
    w = graphc.shared(ONES)
    read = graphc.function([], {"w": w}, mode=mode)
    other = copy.deepcopy(read)
    w.set_value(ONES * 5)
    np.testing.assert_array_equal(np.asarray(other()["w"]), ONES)
    np.testing.assert_array_equal(np.asarray(read()["w"]), ONES * 5)


def test_a_copy_is_the_function_itself(mode: str) -> None:
    count, _ = counter(mode)
    assert copy.copy(count) is count


def test_a_node_is_its_own_copy() -> None:
    assert copy.deepcopy([gt.exp(x)])[0] is gt.exp(x)


# Threads.


def test_many_threads_can_call_one_function(mode: str) -> None:
    f = graphc.function([x], [(x**2).sum(), x + 1], mode=mode)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: f(np.full(3, float(i))), range(400)))
    for i, (total, more) in enumerate(found):
        assert float(total) == 3.0 * i**2
        np.testing.assert_array_equal(np.asarray(more), np.full(3, i + 1.0))


def test_a_counter_that_many_threads_advance_ends_exact(mode: str) -> None:
    count, n = counter(mode)
    with ThreadPoolExecutor(8) as pool:
        seen = sorted(pool.map(lambda _: int(count()), range(800)))
    assert seen == list(range(800))
    assert n.get_value() == 800


def test_functions_of_common_variables_take_turns(mode: str) -> None:
    a, b = graphc.shared(0, "a"), graphc.shared(0, "b")
    forth = graphc.function([], updates=[(a, a + 1), (b, b + 1)], mode=mode)
    back = graphc.function([], updates=[(b, b - 1), (a, a - 1)], mode=mode)
    difference = graphc.function([], a - b, mode=mode)
    wrong = []

    def work(step: graphc.Function) -> None:
        for _ in range(200):
            step()
            if int(difference()):
                wrong.append(step)

    workers = [threading.Thread(target=work, args=(step,)) for step in (forth, back) * 2]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert (a.get_value(), b.get_value()) == (0, 0)


def test_many_threads_can_bring_new_lengths(mode: str) -> None:
    n = gt.lscalar("n")
    f = graphc.function([n], gt.arange(n).sum(), mode=mode)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: int(f(i % 10)), range(200)))
    assert found == [sum(range(i % 10)) for i in range(200)]


def test_many_threads_can_compile(mode: str) -> None:
    def made(i: int) -> float:
        return float(graphc.function([x], (x * i).sum(), mode=mode)(ONES))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(made, range(24))) == [3.0 * i for i in range(24)]


@pytest.mark.parametrize("threads", [1, 4])
def test_64_bits_are_right_in_every_thread(threads: int) -> None:
    f = graphc.function([x], x / 3, mode="JAX")
    with ThreadPoolExecutor(threads) as pool:
        for y in pool.map(f, [ONES] * 20):
            assert np.asarray(y)[0] == 1 / 3


def test_what_is_copied_together_shares_its_copies() -> None:
    w = graphc.shared(1.0, name="w")
    f = graphc.function([], w, updates=[(w, w + 1)], mode="NUMPY")
    g = graphc.function([], w * 10, mode="NUMPY")
    own, (f2, g2) = copy.deepcopy((w, (f, g)))
    f2()
    assert (float(g2()), float(own.get_value()), float(w.get_value())) == (20.0, 2.0, 1.0)


def test_a_mode_with_a_device_is_pickled_and_copied() -> None:
    assert again(graphc.Mode("MLX", device=mx.cpu)) == graphc.Mode("MLX", device="cpu")
    for mode in (
        graphc.Mode("JAX", device=jax.devices()[0]),
        graphc.Mode("NUMPY", check_bounds=True),
    ):
        assert again(mode) == mode
        assert copy.copy(mode) is copy.deepcopy(mode) is mode
