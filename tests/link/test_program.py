"""A program: steps in order, lengths checked once, errors at the user's line, values dropped."""

from __future__ import annotations

import gc
import inspect
import linecache
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    BoundsError,
    OperationError,
    RuntimeShapeError,
)
from graphc.ir import Graph, Op, TensorType
from graphc.link import Program, analyse, load, names
from graphc.link.program import WORTH_WRITING

BACKENDS = names()


def program_of(inputs: list[Any], outputs: list[Any], backend: str = "NUMPY") -> Program:
    """As written: nothing is rewritten away."""
    graph = Graph(inputs, outputs)
    found = load(backend)
    return Program(graph, found, None if found.eager else analyse(graph))


WAYS = ["run", "text", "trace"]
"""A program runs step by step at first, and as text later; a backend may trace it."""


def way_of(program: Program, way: str) -> Callable[..., Any]:
    """A way to run a program."""
    if way == "text":
        program.write()
        return program.run
    return getattr(program, way)  # type: ignore[no-any-return]


def every_way(program: Program) -> list[Callable[..., Any]]:
    """All of them, which give the same."""
    return [way_of(program, way) for way in ("trace", "run", "text")]


def line_of(text: str) -> str:
    """``file:line`` of the first line of this file that ends in a comment of that text."""
    source = inspect.getsource(inspect.getmodule(line_of))  # type: ignore[arg-type]
    for number, line in enumerate(source.splitlines(), 1):
        if line.endswith(f"# {text}"):
            return f"test_program.py:{number}"
    raise AssertionError(text)


def test_a_program_gives_each_output_in_order() -> None:
    x, y = gt.vectors("x", "y")
    program = program_of([x, y], [y, x + y, x, x + y])
    a, b = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    for way in every_way(program):
        found = way(a, b)
        assert isinstance(found, tuple)
        assert [v.tolist() for v in found] == [[10, 20], [11, 22], [1, 2], [11, 22]]


def test_an_operation_is_computed_once() -> None:
    x = gt.vector("x")
    y = gt.exp(x)
    program = program_of([x], [y + y, y * y, gt.sum(y)])
    assert [step.node for step in program.steps].count(y) == 1


def test_leaves_come_after_the_inputs() -> None:
    x = gt.vector("x")
    leaf = gt.constant(np.arange(20.0))
    program = program_of([x], [x + leaf])
    assert program.arguments == (x, leaf)
    for way in every_way(program):
        np.testing.assert_array_equal(way(np.ones(20), np.arange(20.0))[0], np.arange(20) + 1)


def test_constants_are_no_steps() -> None:
    x = gt.vector("x")
    program = program_of([x], [x * 3.0 + 1.0])
    assert len(program.steps) == 2
    assert sorted(float(value) for _, value in program.constants) == [1.0, 3.0]


# Values are dropped after their last use.


@dataclass(frozen=True, slots=True)
class Watched(Op):
    """Twice x, in an array that can be watched; counts those alive when it is computed."""

    label: int

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        y = np.array(x).view(Array) * 2
        ALIVE.add(y)
        COUNTS.append(len(ALIVE))
        return y


class Array(np.ndarray[Any, Any]):
    """An array that can be referred to weakly and compared by identity."""

    __hash__ = object.__hash__


ALIVE: weakref.WeakSet[Any] = weakref.WeakSet()
COUNTS: list[int] = []


@pytest.mark.parametrize("way", ["run", "text"])
def test_a_value_is_dropped_after_its_last_use(way: str) -> None:
    x = gt.vector("x")
    y = x
    for label in range(20):
        y = gt.Tensor.make(Watched(label), y)
    gc.collect()
    COUNTS.clear()
    way_of(program_of([x], [y]), way)(np.ones(3))
    # The operand and the result of the step at work, and no more.
    assert max(COUNTS) == 2


def test_a_value_that_is_an_output_is_kept() -> None:
    x = gt.vector("x")
    first = gt.Tensor.make(Watched(1), x)
    program = program_of([x], [first, gt.Tensor.make(Watched(2), first)])
    assert [v.tolist() for v in program.run(np.ones(2))] == [[2, 2], [4, 4]]


def test_a_value_used_twice_by_one_step_is_dropped_once() -> None:
    x = gt.vector("x")
    y = gt.exp(x)
    assert program_of([x], [(y * y) + 1]).run(np.zeros(2))[0].tolist() == [2, 2]


# Lengths.


def checks(program: Program) -> int:
    return sum(len(step.checks) for step in program.steps)


a, b, c = gt.vectors("a", "b", "c")
fixed = gt.tensor("fixed", shape=(3,))
matrix, other = gt.matrices("matrix", "other")
CHECKED: dict[str, tuple[list[Any], Any, int]] = {
    "a pair": ([a, b], a + b, 1),
    "a pair twice": ([a, b], gt.sin(a + b) * (a - b), 1),
    "three, transitively": ([a, b, c], (a + b) * (b + c) * (a - c), 2),
    "through elementwise functions": ([a, b], gt.exp(a + b) * a * gt.cos(b), 1),
    "through a cast": ([a, b], (a + b) + gt.cast(gt.cast(a, "float32"), "float64"), 1),
    "through where": ([a, b], gt.where(a > b, a, b) + b, 1),
    "with itself": ([a], a * a + gt.exp(a), 0),
    "with a scalar": ([a], a * 2 + a[0], 0),
    "of known lengths": ([fixed], fixed + gt.exp(fixed), 0),
    "unknown beside known": ([a, fixed], (a + fixed) * a, 1),
    "two axes": ([matrix, other], matrix + other, 2),
    "one axis of length 1": ([matrix, a], matrix + a[None, :], 1),
    "a product": ([matrix, other], matrix @ other, 1),
}
"""How many pairs of lengths are left to compare at run time."""


@pytest.mark.parametrize("case", CHECKED)
def test_a_pair_of_lengths_is_checked_once(case: str) -> None:
    inputs, output, expected = CHECKED[case]
    assert checks(program_of(inputs, [output])) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_differ_are_told_at_the_operation_that_needs_them(backend: str) -> None:
    x, y = gt.vectors("x", "y")
    total = x + y  # the add
    z = gt.sin(gt.exp(total))
    f = graphc.function([x, y], z * 2, mode=backend)
    with pytest.raises(RuntimeShapeError, match=r"^x \+ y: float64\[x.0\]") as error:
        f(np.ones(2), np.ones(3))
    assert error.value.where == line_of("the add")
    assert "(2,)" in str(error.value)
    assert "(3,)" in str(error.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unknown_length_of_1_does_not_broadcast(backend: str) -> None:
    x, y = gt.vectors("x", "y")
    f = graphc.function([x, y], x * y, mode=backend)
    with pytest.raises(RuntimeShapeError, match="statically 1"):
        f(np.ones(1), np.ones(3))
    assert f(np.ones(3), np.ones(3)).shape == (3,)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (2,), (3, 1), (4,)])
def test_an_argument_of_another_shape_is_refused(shape: tuple[int, ...], way: str) -> None:
    program = program_of([fixed], [fixed * 2])
    with pytest.raises(ArgumentError, match="'fixed': expected") as error:
        way_of(program, way)(np.ones(shape))
    assert str(shape) in str(error.value)


# Errors.


@dataclass(frozen=True, slots=True)
class Failing(Op):
    """Fails whenever it runs."""

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: Any) -> Any:
        raise ZeroDivisionError("nothing to divide by")


@pytest.mark.parametrize("way", WAYS)
def test_an_operation_that_fails_is_told_with_its_operands_and_line(way: str) -> None:
    x = gt.vector("x")
    y = gt.Tensor.make(Failing(), gt.exp(x))  # the failing
    program = program_of([x], [gt.sin(y)])
    with pytest.raises(OperationError) as error:
        way_of(program, way)(np.ones(3))
    assert error.value.where == line_of("the failing")
    assert "Failing" in str(error.value)
    assert "given float64[3]" in str(error.value)
    assert "ZeroDivisionError: nothing to divide by" in str(error.value)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("way", WAYS)
def test_an_index_out_of_bounds_is_an_index_error(way: str) -> None:
    x, i = gt.vector("x"), gt.lscalar("i")
    program = program_of([x, i], [x[i] * 2])
    with pytest.raises(BoundsError, match=r"^x\[i\]: float64"):
        way_of(program, way)(np.ones(3), np.array(7))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_of_a_derivative_belongs_to_the_line_it_is_of(backend: str) -> None:
    x = gt.matrix("x")
    y = gt.max(x, 0)  # the extreme
    f = graphc.function([x], graphc.grad(gt.sum(y), x), mode=backend)
    with pytest.raises(RuntimeShapeError, match="a slice is empty") as error:
        f(np.zeros((0, 3)))
    assert error.value.where == line_of("the extreme")


def test_the_text_is_one_straight_line_function_that_tracebacks_show() -> None:
    x = gt.vector("x")
    source = program_of([x], [gt.exp(x) + 1]).source
    source.show()
    try:
        assert linecache.getline(source.file, 1) == "def program(a0):\n"
        assert source.text.count("\n") == len(source.steps) + 1
    finally:
        del linecache.cache[source.file]


def test_a_long_chain_is_one_program() -> None:
    x = gt.vector("x")
    y = x
    for _ in range(5000):
        y = gt.sin(y)
    for run in every_way(program_of([x], [y])):
        (found,) = run(np.ones(2))
        assert found.shape == (2,)


def test_a_program_is_written_out_once_it_has_run_often() -> None:
    x = gt.vector("x")
    program = program_of([x], [gt.exp(x) * 2])
    found = [program.run(np.zeros(2))[0].tolist() for _ in range(WORTH_WRITING)]
    assert "source" not in vars(program)
    found.append(program.run(np.zeros(2))[0].tolist())
    assert "source" in vars(program)
    assert found == [[2, 2]] * (WORTH_WRITING + 1)
