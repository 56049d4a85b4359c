"""NumPy's programs after many calls: written out, with results in memory that is free."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import OperationError, RuntimeShapeError
from graphc.link.numpy.written import WrittenCall
from graphc.link.program import WORTH_WRITING

RANDOM = np.random.default_rng(0)
x, y, a = gt.vector("x"), gt.vector("y"), gt.matrix("a")
i, n = gt.lvector("i"), gt.scalar("n")


def views() -> list[Any]:
    """Values of which something else is a view, which is needed later."""
    e = gt.exp(a)
    turned, first = e.T, gt.sin(a)[0]
    return [gt.tanh(e) + 1, turned * 2, first, gt.tanh(gt.cos(a) + 1).T]


TABLE: dict[str, Callable[[], list[Any]]] = {
    "a chain": lambda: [gt.sin(gt.exp(x * 2) + y) * y, x],
    "outputs in the middle": lambda: [gt.exp(x), gt.sin(gt.exp(x)), gt.exp(x) * 2 - y],
    "one value twice": lambda: [gt.sin(gt.cos(x) * gt.cos(x))] * 2,
    "views": views,
    "another shape": lambda: [gt.exp(x)[None, :] * 2 + gt.exp(n), gt.exp(a) + gt.sin(x)],
    "another dtype": lambda: [gt.exp(x) > gt.sin(y), gt.sqrt(i * i + 1), (i * 2 + 1) * 3],
    "numbers": lambda: [gt.exp(n * 2) + 1, gt.exp(n + 1) * gt.exp(x), gt.sum(gt.exp(x)) * n],
    "not the first operand": lambda: [x - gt.exp(y), x / (gt.exp(y) + 1) - gt.cos(x)],
    "what is passed on": lambda: [x, a.T, gt.constant(np.arange(3.0)) * 1, x + 0],
}


def given() -> list[np.ndarray[Any, Any]]:
    shapes = [(4,), (4,), (3, 4), (4,), ()]
    found = [np.asarray(RANDOM.uniform(0.5, 2, shape)) for shape in shapes]
    found[3] = RANDOM.integers(0, 9, 4)
    return found


def made(outputs: list[Any]) -> graphc.Function:
    return graphc.function([x, y, a, i, n], outputs, mode="NUMPY", on_unused_input="ignore")


def often(f: graphc.Function, *arguments: Any) -> graphc.Function:
    for _ in range(WORTH_WRITING + 6):
        f(*arguments)
    return f


@pytest.mark.parametrize("outputs", TABLE.values(), ids=TABLE)
def test_the_text_gives_what_the_steps_give(outputs: Callable[[], list[Any]]) -> None:
    values = given()
    f, copies = made(outputs()), [np.array(v) for v in values]
    expected = f(*values)
    kept = [np.array(v) for v in expected]
    often(f, *values)
    found = f(*values)
    for result, right, same in zip(found, kept, expected, strict=True):
        assert result.__class__ is np.ndarray
        assert result.dtype == right.dtype
        np.testing.assert_array_equal(result, right)
        np.testing.assert_array_equal(same, right)
    # Results are arrays of their own, and arguments are as they were.
    for result in found:
        result[...] = 7
    for value, copy in zip(values, copies, strict=True):
        np.testing.assert_array_equal(value, copy)
    for result, right in zip(f(*values), kept, strict=True):
        np.testing.assert_array_equal(result, right)


def test_free_memory_is_taken() -> None:
    program = graphc.function([x, y], gt.sin(gt.exp(x * y) + y), mode="NUMPY")._program
    lines = WrittenCall(program, single=True).text.split("\n")
    calls = [line.split(" = ")[1] for line in lines if " = f" in line]
    assert [call.count(",") for call in calls] == [1, 1, 2, 1]


def test_lengths_that_differ_are_named_before_memory_is_taken() -> None:
    f = graphc.function([x, y], gt.exp(x) + gt.exp(y), mode="NUMPY")
    often(f, np.ones(3), np.ones(3))
    for _ in range(2):
        with pytest.raises(RuntimeShapeError, match="differ in length"):
            f(np.ones(3), np.ones(1))
    np.testing.assert_array_equal(f(np.zeros(2), np.zeros(2)), [2, 2])


def test_numbers_that_are_none_come_without_a_warning_and_settings_stay() -> None:
    f = often(graphc.function([x], gt.log(x) / x, mode="NUMPY"), np.ones(3))
    with np.errstate(all="raise"):
        before = np.geterr()
        assert np.isnan(f(-np.ones(2))).all()
        assert np.geterr() == before
        with pytest.raises(FloatingPointError):
            np.log(-np.ones(2))


def test_a_users_operation_sees_the_callers_context_variables() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    @graphc.wrap_py([gt.dvector], gt.dvector)
    def scaled(v: Any) -> Any:
        return v * variable.get()

    f = often(graphc.function([x], scaled(x) + 1, mode="NUMPY"), np.ones(2))
    variable.set(5)
    np.testing.assert_array_equal(f(np.ones(2)), [6, 6])


def test_an_error_names_the_operation_after_many_calls() -> None:
    def refuse(v: Any) -> Any:
        if v[0] < 0:
            raise ZeroDivisionError("below 0")
        return v

    refusing = graphc.wrap_py([gt.dvector], gt.dvector)(refuse)
    f = often(graphc.function([x], refusing(x) * 2, mode="NUMPY"), np.ones(2))
    with pytest.raises(OperationError, match=r"below 0(.|\n)*test_written.py"):
        f(-np.ones(2))
    np.testing.assert_array_equal(f(np.ones(2)), [2, 2])


def test_threads_have_results_of_their_own() -> None:
    f = often(graphc.function([x], gt.sin(gt.exp(x) + 1) * 2, mode="NUMPY"), np.ones(3))
    sizes = (100_000, 50_000)
    arguments = [np.full(size, k / 3) for k, size in enumerate(sizes)]
    found: list[list[Any]] = [[], []]

    def call(k: int) -> None:
        found[k] = [f(arguments[k]) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, argument in enumerate(arguments):
        for result in found[k]:
            np.testing.assert_array_equal(result, np.sin(np.exp(argument) + 1) * 2)
