"""Shared variables: values between calls, which updates change, and no other array with them."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import warnings
from typing import Any

import jax
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import numpy_dtype
from graphc.link import as_numpy, names

pytestmark = pytest.mark.gpu

x = gt.vector("x")
ONES = np.ones(3)


def jax_array(value: Any) -> jax.Array:
    with jax.enable_x64(True):
        return jax.numpy.asarray(value)


def mlx_array(value: Any) -> mx.array:
    return mx.array(value, mx.float64)


# Making, reading and setting.


@pytest.mark.parametrize(
    ("value", "dtype", "rank"),
    [
        (1, "int64", 0),
        (1.5, "float64", 0),
        (True, "bool", 0),
        (1j, "complex128", 0),
        ([1, 2], "int64", 1),
        (np.float32(1), "float32", 0),
        (np.ones((2, 3), "int8"), "int8", 2),
        (np.ones(3, ">f4"), "float32", 1),
        (jax.numpy.ones(2), "float32", 1),
        (mx.ones((2, 1)), "float32", 2),
        (mx.array([1.5, 2.5], mx.bfloat16), "bfloat16", 1),
    ],
)
def test_a_shared_variable_has_its_values_dtype_and_rank(value: Any, dtype: str, rank: int) -> None:
    w = graphc.shared(value)
    assert (w.dtype, w.ndim) == (dtype, rank)
    np.testing.assert_array_equal(w.get_value(), as_numpy(value))


def test_a_python_float_is_floatx() -> None:
    with graphc.config.change_flags(floatX="float32"):
        assert graphc.shared(1.5).dtype == "float32"


def test_lengths_are_open_unless_given() -> None:
    assert graphc.shared(ONES).type.shape == (None,)
    assert graphc.shared(ONES, shape=(3,)).type.shape == (3,)
    with pytest.raises(ArgumentError, match=r"shape \(3,\)"):
        graphc.shared(ONES, shape=(4,))


def test_get_value_gives_a_copy() -> None:
    w = graphc.shared(ONES)
    w.get_value()[:] = 5.0
    np.testing.assert_array_equal(w.get_value(), ONES)


def test_shared_and_set_value_take_a_copy(mode: str) -> None:
    given = np.ones(3)
    w = graphc.shared(given)
    given[:] = 5.0
    read = graphc.function([], w, mode=mode)
    np.testing.assert_array_equal(np.asarray(read()), ONES)
    w.set_value(given)
    given[:] = 7.0
    np.testing.assert_array_equal(np.asarray(read()), ONES * 5)


def test_borrow_takes_and_gives_the_array_itself() -> None:
    given = np.ones(3)
    w = graphc.shared(given, borrow=True)
    assert w.get_value(borrow=True) is given
    other = np.zeros(2)
    w.set_value(other, borrow=True)
    assert w.get_value(borrow=True) is other


def test_set_value_may_change_lengths_that_are_open(mode: str) -> None:
    w = graphc.shared(np.ones(3))
    total = graphc.function([], w.sum(), mode=mode)
    assert float(total()) == 3.0
    w.set_value(np.ones(5))
    assert float(total()) == 5.0


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.ones((2, 2)), ArgumentError),
        (np.ones(4), ArgumentError),
        (1.0, ArgumentError),
        (np.ones(3, complex), DTypeError),
        (["a", "b", "c"], DTypeError),
    ],
    ids=["rank", "length", "number", "complex", "text"],
)
def test_set_value_refuses_another_type(value: Any, error: type[Exception]) -> None:
    w = graphc.shared(np.ones(3), shape=(3,))
    with pytest.raises(error, match="does not fit a shared variable of"):
        w.set_value(value)
    np.testing.assert_array_equal(w.get_value(), ONES)


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 300), ("int64", 1.5), ("float32", np.ones(())), ("uint8", -1)]
)
def test_set_value_loses_nothing(dtype: str, value: Any) -> None:
    w = graphc.shared(np.zeros((), dtype))
    with pytest.raises(DTypeError, match=dtype):
        w.set_value(value)


def test_set_value_takes_python_numbers() -> None:
    w = graphc.shared(np.float32(0))
    w.set_value(0.1)
    assert w.get_value() == np.float32(0.1)


@pytest.mark.parametrize("value", ["a", None, object(), [1, [2]], np.array(["2020"], "M8[D]")])
def test_a_shared_value_is_an_array_of_numbers(value: Any) -> None:
    with pytest.raises(DTypeError):
        graphc.shared(value)


def test_a_shared_value_is_not_symbolic() -> None:
    with pytest.raises(ArgumentError, match="symbolic"):
        graphc.shared(x)


def test_strict_wants_a_numpy_array() -> None:
    with pytest.raises(ArgumentError, match="strict"):
        graphc.shared([1.0], strict=True)
    assert graphc.shared(ONES, strict=True).ndim == 1


def test_shared_variables_of_equal_values_are_distinct() -> None:
    assert graphc.shared(1.0, "w") is not graphc.shared(1.0, "w")


# Updates.


@pytest.mark.parametrize("form", [list, dict])
def test_updates_come_after_the_outputs(form: Any, mode: str) -> None:
    n = graphc.shared(0)
    count = graphc.function([], n, updates=form([(n, n + 1)]), mode=mode)
    assert [int(count()) for _ in range(3)] == [0, 1, 2]
    assert int(n.get_value()) == 3


def test_all_new_values_are_computed_from_old_ones(mode: str) -> None:
    a, b = graphc.shared(ONES), graphc.shared(ONES * 2)
    swap = graphc.function([], updates=[(a, b), (b, a)], mode=mode)
    for expected in ([2.0, 1.0], [1.0, 2.0], [2.0, 1.0]):
        swap()
        assert [a.get_value()[0], b.get_value()[0]] == expected


def test_a_swap_leaves_two_values_that_change_apart(mode: str) -> None:
    a, b = graphc.shared(ONES), graphc.shared(ONES * 2)
    graphc.function([], updates=[(a, b), (b, b)], mode=mode)()
    grow = graphc.function([], updates=[(a, a + 1)], mode=mode)
    grow()
    grow()
    assert [a.get_value()[0], b.get_value()[0]] == [4.0, 2.0]


def test_an_update_may_be_an_output(mode: str) -> None:
    w = graphc.shared(ONES)
    step = graphc.function([], [w, w * 2], updates=[(w, w * 2)], mode=mode)
    results = [step() for _ in range(4)]
    for i, (old, new) in enumerate(results):
        np.testing.assert_array_equal(np.asarray(old), ONES * 2**i)
        np.testing.assert_array_equal(np.asarray(new), ONES * 2 ** (i + 1))


PASSED = {
    "input": lambda x: x,
    "reshape": lambda x: x.reshape((3,)),
    "barrier": graphc.disconnected_grad,
    "slice": lambda x: x[:],
    "part": lambda x: x[:3],
}


@pytest.mark.parametrize("kind", ["numpy", "jax", "mlx"])
@pytest.mark.parametrize("passed", PASSED.values(), ids=PASSED)
def test_an_argument_kept_by_an_update_stays_the_callers(passed: Any, kind: str, mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    keep = graphc.function([x], w, updates=[(w, passed(x))], mode=mode)
    grow = graphc.function([], updates=[(w, w + 1)], mode=mode)
    make = {"numpy": np.asarray, "jax": jax_array, "mlx": mlx_array}
    given = make[kind](np.ones(3))
    for _ in range(2):
        keep(given)
        grow()
        grow()
        np.testing.assert_array_equal(w.get_value(), ONES * 3)
        np.testing.assert_array_equal(np.asarray(given), ONES)
    if kind != "jax":
        keep(given)
        given[:] = 7.0
        np.testing.assert_array_equal(w.get_value(), ONES)


def test_outputs_of_earlier_calls_stay(mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    step = graphc.function(
        [], [w, w + 1, graphc.disconnected_grad(w)], updates=[(w, w + 1)], mode=mode
    )
    results = [step() for _ in range(5)]
    for i, found in enumerate(results):
        for y, expected in zip(found, (i, i + 1, i), strict=True):
            np.testing.assert_array_equal(np.asarray(y), np.full(3, float(expected)))


@pytest.mark.parametrize("options", [{"borrow": True}, {"return_internal_type": True}])
def test_a_value_that_was_read_stays(options: Any, mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    step = graphc.function([], updates=[(w, w + 1)], mode=mode)
    held = []
    for _ in range(4):
        held.append(w.get_value(**options))
        step()
        held.append(w.get_value(**options))
        step()
    for i, value in enumerate(held):
        np.testing.assert_array_equal(np.asarray(value), np.full(3, float(i)))


def test_a_borrowed_array_is_not_written_to(mode: str) -> None:
    given = np.zeros(3)
    w = graphc.shared(given, borrow=True)
    step = graphc.function([], updates=[(w, w[0:1].set(5.0))], mode=mode)
    step()
    np.testing.assert_array_equal(given, np.zeros(3))
    np.testing.assert_array_equal(w.get_value(), [5.0, 0.0, 0.0])


def test_one_variable_serves_two_functions(mode: str) -> None:
    w = graphc.shared(1.0)
    double = graphc.function([], updates=[(w, w * 2)], mode=mode)
    read = graphc.function([], w, mode=mode)
    double()
    assert float(read()) == 2.0
    double()
    assert float(read()) == 4.0


def test_one_variable_serves_every_backend() -> None:
    w = graphc.shared(ONES)
    steps = [graphc.function([], updates=[(w, w * 2)], mode=mode) for mode in names()]
    for _ in range(3):
        for step in steps:
            step()
    np.testing.assert_array_equal(w.get_value(), ONES * 2.0 ** (3 * len(steps)))


@pytest.mark.parametrize(
    ("mode", "kind"), [("JAX", jax.Array), ("MLX", mx.array), ("NUMPY", np.ndarray)]
)
def test_the_internal_value_is_the_backends(mode: str, kind: type) -> None:
    w = graphc.shared(ONES)
    graphc.function([], updates=[(w, w + 1)], mode=mode)()
    assert isinstance(w.get_value(return_internal_type=True), kind)
    assert isinstance(w.get_value(borrow=True), np.ndarray)
    np.testing.assert_array_equal(w.get_value(borrow=True), ONES * 2)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16", "float64", "complex64"])
def test_a_value_of_any_dtype_is_read_set_copied_and_pickled(dtype: str, mode: str) -> None:
    first, second = (np.array(v).astype(numpy_dtype(dtype)) for v in ([0, 1, 1], [1, 1, 0]))
    w = graphc.shared(first)
    read = graphc.function([], w, updates=[(w, w[::-1])], mode=mode, returns="numpy")
    for value in (first, first[::-1]):
        np.testing.assert_array_equal(read(), value)
    copied, unpickled = copy.deepcopy(w), pickle.loads(pickle.dumps(w))
    w.set_value(second)
    np.testing.assert_array_equal(read(), second)
    for kept in (copied, unpickled):
        assert kept.get_value().dtype == first.dtype
        np.testing.assert_array_equal(kept.get_value(), first)


def test_a_value_may_be_set_to_an_array_of_any_library(mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    read = graphc.function([], w * 1, mode=mode, returns="numpy")
    for value in (jax_array(ONES), mlx_array(ONES * 2), mx.full(3, 3.0, mx.bfloat16)):
        w.set_value(value)
        np.testing.assert_array_equal(read(), as_numpy(value))
    with pytest.raises(DTypeError, match="complex64"):
        w.set_value(mx.array([1j, 1j, 1j]))


def test_writing_into_what_a_call_gave_changes_no_shared_value(mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    step = graphc.function([], [w, w + 1, w + 1], updates=[(w, w + 1)], mode=mode)
    for i in range(3):
        for y in step():
            if not isinstance(y, jax.Array):
                y[0] = 100.0
        np.testing.assert_array_equal(w.get_value(), ONES * (i + 1))


def test_an_update_may_change_open_lengths(mode: str) -> None:
    w = graphc.shared(np.ones(1))
    grow = graphc.function([], updates=[(w, gt.concatenate([w, w]))], mode=mode)
    for _ in range(3):
        grow()
    np.testing.assert_array_equal(w.get_value(), np.ones(8))


def test_an_update_may_be_a_number_of_the_variables_dtype(mode: str) -> None:
    w = graphc.shared(np.float32(3))
    graphc.function([], updates=[(w, 0)], mode=mode)()
    assert w.get_value() == 0
    assert w.get_value().dtype == "float32"


def test_a_variable_that_is_not_read_can_be_updated(mode: str) -> None:
    w = graphc.shared(ONES)
    graphc.function([x], updates=[(w, x * 2)], mode=mode)(ONES)
    np.testing.assert_array_equal(w.get_value(), ONES * 2)


def test_a_call_that_fails_leaves_the_values(mode: str) -> None:
    w = graphc.shared(ONES)
    step = graphc.function([x], updates=[(w, w + x)], mode=mode)
    step(ONES)
    with pytest.raises(graphc.errors.RuntimeShapeError):
        step(np.ones(4))
    np.testing.assert_array_equal(w.get_value(), ONES * 2)
    step(ONES)
    np.testing.assert_array_equal(w.get_value(), ONES * 3)


def test_lengths_that_are_seen_to_be_wrong_after_the_run_leave_the_values(mode: str) -> None:
    """On JAX those that follow from data, and from a number of steps once there were several."""
    most, n = gt.scalar("most"), gt.lscalar("n")

    def until_above(x: Any) -> Any:
        return x * 2, graphc.until(x > most)

    w = graphc.shared(np.zeros(6))
    stopped = graphc.scan(until_above, outputs_info=gt.constant(1.0), n_steps=20)
    counted = graphc.scan(lambda x: x * 2, outputs_info=gt.constant(1.0), n_steps=n)
    by_data = graphc.function([most], updates=[(w, w + stopped)], mode=mode)
    by_count = graphc.function([n], updates=[(w, w + counted)], mode=mode)
    right, wrong = {by_data: 30.0, by_count: 6}, {by_data: [300.0], by_count: [2, 3, 4, 5, 7]}
    for f in (by_data, by_count):
        f(right[f])
        before = w.get_value()
        for value in wrong[f]:
            with pytest.raises(graphc.errors.RuntimeShapeError):
                f(value)
            np.testing.assert_array_equal(w.get_value(), before)


@pytest.mark.parametrize(
    "update",
    [
        lambda w, x: gt.clip(w + x, 0, 1),
        lambda w, x: (w + x) / gt.sum(w + x),
        lambda w, x: gt.where(x > 0, w, x),
    ],
)
def test_a_buffer_is_reused_where_a_check_makes_lengths_equal(update: Any) -> None:
    w = graphc.shared(ONES)
    f = graphc.function([x], updates=[(w, update(w, x))], mode="JAX")
    f(ONES)
    held = w.op.store.value
    f(ONES)
    assert held.is_deleted()
    with pytest.raises(graphc.errors.RuntimeShapeError):
        f(np.ones(4))
    assert w.get_value().shape == (3,)


def test_thousands_of_updates_keep_the_value_right(mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    n = graphc.shared(0)
    step = graphc.function([x], w.sum(), updates=[(w, w + x), (n, n + 1)], mode=mode)
    for _ in range(3000):
        step(ONES)
    np.testing.assert_array_equal(w.get_value(), np.full(3, 3000.0))
    assert n.get_value() == 3000


@pytest.mark.parametrize(
    "new",
    [gt.fvector("new"), gt.matrix("new"), gt.scalar("new"), gt.vector("new", shape=(4,))],
    ids=["dtype", "matrix", "scalar", "length"],
)
def test_an_update_keeps_the_variables_type(new: Any, mode: str) -> None:
    w = graphc.shared(ONES, shape=(3,), name="w")
    with pytest.raises(DTypeError, match=r"w: float64\[3\] can't become new"):
        graphc.function([new], updates=[(w, new)], mode=mode)


def test_only_shared_variables_are_updated(mode: str) -> None:
    with pytest.raises(ArgumentError, match="no shared variable"):
        graphc.function([x], x, updates=[(x, x + 1)], mode=mode)


def test_a_variable_is_updated_once(mode: str) -> None:
    w = graphc.shared(1.0)
    with pytest.raises(ArgumentError, match="twice"):
        graphc.function([], updates=[(w, w + 1), (w, w + 2)], mode=mode)


def test_gradients_by_shared_variables_descend(mode: str) -> None:
    w = graphc.shared(np.zeros(3))
    loss = ((w - x) ** 2).sum()
    step = graphc.function([x], loss, updates=[(w, w - 0.25 * graphc.grad(loss, w))], mode=mode)
    losses = [float(step(ONES)) for _ in range(20)]
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_allclose(w.get_value(), ONES, atol=1e-5)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_an_update_while_jax_traces_is_refused_and_leaves_the_value(transform: Any) -> None:
    w = graphc.shared(np.ones(3, "float32"))
    v = gt.vector("v", dtype="float32")
    f = graphc.function([v], (v * w).sum(), updates=[(w, w + v.sum())], mode="JAX")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of buffers that a trace does not give back
        with pytest.raises(ArgumentError, match="while JAX traces"):
            transform(f)(
                np.ones((2, 3), "float32") if transform is jax.vmap else np.ones(3, "float32")
            )
    np.testing.assert_array_equal(w.get_value(), np.ones(3))
    assert float(f(np.ones(3, "float32"))) == 3.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_calls_and_makes_functions_in_numpy() -> None:
    script = """
import os, numpy as np, graphc, graphc.tensor as gt
x, total = gt.vector("x"), graphc.shared(0.0)
f = graphc.function([x], total, updates=[(total, total + x.sum())], mode="NUMPY")
f([1.0, 2.0])
child = os.fork()
if not child:
    f([3.0])
    g = graphc.function([x], 2 * x, mode="NUMPY")
    os._exit(total.get_value() == 6 and g([4.0]).tolist() == [8.0])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), total.get_value())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "3.0"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("floating", ["float32", "float64"])
def test_allow_downcast_of_shared_never_widens(
    dtype: str, floating: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphc.config, "floatX", floating)
    x = graphc.shared(np.array([1.0, 2.0], dtype), allow_downcast=True)
    assert x.dtype == min(dtype, floating, key=lambda name: np.dtype(name).itemsize)


def test_set_value_of_integers_takes_whole_python_numbers() -> None:
    n = graphc.shared(7)
    n.set_value(8.0)
    assert n.get_value().dtype == "int64"
    assert n.get_value() == 8
    with pytest.raises(DTypeError, match="float64"):
        n.set_value(8.5)
    with pytest.raises(DTypeError, match="float64"):
        n.set_value(np.float64(9.0))
