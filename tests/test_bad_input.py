"""Wrong programs: each is refused with what was asked, what is wrong, the way out, and the line."""
# ruff: noqa: E501 (a row is a line)

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    AxisError,
    BoundsError,
    DisconnectedInputError,
    DTypeError,
    DynamicShapeError,
    FrozenError,
    GradientError,
    GraphcError,
    InvalidGraphError,
    MissingInputError,
    ModeError,
    OperationError,
    RuntimeShapeError,
    ShapeError,
    SymbolicValueError,
    UnusedInputError,
)

x, y, m = gt.vector("x"), gt.vector("y"), gt.matrix("m")
s, n, k = gt.scalar("s"), gt.lscalar("n"), gt.lvector("k")
z = gt.zvector("z")
x3, x4 = gt.vector("x3", shape=(3,)), gt.vector("x4", shape=(4,))
w = graphc.shared(np.ones(3), name="w", shape=(3,))

ONE, TWO, THREE, FOUR = (np.ones(length) for length in (1, 2, 3, 4))
MATRIX = np.ones((2, 3))

Row = tuple[Callable[..., Any], type[GraphcError], type[Exception], tuple[str, ...]]

# fmt: off
BUILT: list[Row] = [
    # Shapes that cannot fit.
    (lambda: x3 + x4, ShapeError, ValueError, ("add(x3: float64[3], x4: float64[4])", "lengths differ on axis -1", "or one of them 1")),
    (lambda: gt.where(x3 > 0, x4, 0.0), ShapeError, ValueError, ("where(x3 > 0.0: bool[3], x4: float64[4], 0.0: float64[])", "lengths differ")),
    (lambda: x3 @ x4, ShapeError, ValueError, ("x3: float64[3] and x4: float64[4]", "Make them equal")),
    (lambda: m @ s, ShapeError, ValueError, ("matmul(m: float64[?, ?], s: float64[])", "expected at least one axis, got a scalar", "Use *")),
    (lambda: gt.tensordot(m, x, 3), ShapeError, ValueError, ("an operand has fewer than 3 axes",)),
    (lambda: x4.reshape((3,)), ShapeError, ValueError, ("reshape(x4: float64[4], (3,))", "4 elements do not fit", "or one -1")),
    (lambda: x.reshape((-1, -1)), ShapeError, ValueError, ("-1 is repeated",)),
    (lambda: gt.concatenate([x, m]), ShapeError, ValueError, ("concatenate(x: float64[?], m: float64[?, ?])", "one rank", "gt.stack")),
    (lambda: gt.concatenate([]), ShapeError, ValueError, ("at least one array",)),
    (lambda: gt.stack([x, m]), ShapeError, ValueError, ("stack(x: float64[?], m: float64[?, ?])", "one rank")),
    (lambda: gt.stack([x3, x4]), ShapeError, ValueError, ("x3, axes=(0,)): float64[1, 3]", "x4, axes=(0,)): float64[1, 4]")),
    (lambda: gt.broadcast_to(x3, (4,)), ShapeError, ValueError, ("broadcast_to(x3: float64[3], (4,))", "static length 1")),
    (lambda: gt.squeeze(x3, 0), ShapeError, ValueError, ("the length of axis 0 is not 1", "x[0]")),
    (lambda: x3[:2].set(THREE), ShapeError, ValueError, ("float64[3]", "float64[2]", "or 1")),
    (lambda: gt.zeros((-1, 2)), ShapeError, ValueError, ("the length -1 is negative",)),
    (lambda: gt.zeros(3.0), DTypeError, TypeError, ("zeros: expected integer lengths, got 3.0", "gt.zeros(int(n))")),
    (lambda: gt.eye(-1), ShapeError, ValueError, ("eye: the length -1 is negative",)),
    (lambda: gt.tensor("q", shape=(-1,)), ShapeError, ValueError, ("-1 is not a static length", "None where the length is known at run time")),
    (lambda: gt.tensor("q"), ShapeError, ValueError, ("expected either shape or ndim",)),
    (lambda: gt.vector("q", shape=(2, 3)), ShapeError, ValueError, ("vector: expected a shape of 1 axes, got (2, 3)", "gt.tensor(shape=...)")),
    (lambda: gt.zeros(k), ShapeError, ValueError, ("the number of entries", "k: int64[?]", "gt.tensor(shape=(3,))")),
    (lambda: gt.arange(0, 5, 0), ShapeError, ValueError, ("the step is 0",)),
    (lambda: x[::0], ShapeError, ValueError, ("x: float64[?]", "step 0")),
    # Axes.
    (lambda: x.sum(axis=1), AxisError, IndexError, ("sum: no axis 1 in an array of 1 axes", "Use -1 to 0")),
    (lambda: s.max(axis=0), AxisError, IndexError, ("max: no axis 0", "A 0-d array has no axes")),
    (lambda: m.sum(axis=(0, 0)), AxisError, IndexError, ("an axis is repeated in (0, 0)",)),
    (lambda: x.sum(axis=1.0), DTypeError, TypeError, ("expected Python integers as axes, got 1.0",)),
    (lambda: m.transpose(0, 0), ShapeError, ValueError, ("transpose(m: float64[?, ?], (0, 0))", "the axes are not a permutation")),
    (lambda: gt.swapaxes(m, 0, 5), AxisError, IndexError, ("no axis 5", "Use -2 to 1")),
    (lambda: m.dimshuffle(0, "y"), DTypeError, TypeError, ("dimshuffle", "'y'")),
    # Indices.
    (lambda: x3[5], BoundsError, IndexError, ("Index 5 is outside axis 0 of x3: float64[3], of length 3",)),
    (lambda: x3[-4], BoundsError, IndexError, ("Index -4",)),
    (lambda: x3[np.array([True, False])], ShapeError, ValueError, ("does not fit x3: float64[3]", "2 elements", "has 3")),
    (lambda: x[0, 0], BoundsError, IndexError, ("x: float64[?] has 1 axes", "the index 2")),
    (lambda: x[1.5], DTypeError, TypeError, ("1.5 is not an index of x", "Use integers, slices")),
    (lambda: x[float("nan")], DTypeError, TypeError, ("nan is not an index of x",)),
    (lambda: x["a"], DTypeError, TypeError, ("'a' is not an index of x",)),
    (lambda: x[s], DTypeError, TypeError, ("s: float64[] is not an index", "integer or bool arrays")),
    (lambda: gt.nonzero(s), ShapeError, ValueError, ("expected at least one axis, got a scalar",)),
    # Dtypes.
    (lambda: gt.vector("q", dtype="float63"), DTypeError, TypeError, ("'float63' is not a dtype", "float64, complex64")),
    (lambda: x.astype("str"), DTypeError, TypeError, ("'str' is not a dtype", "Use one of bool")),
    (lambda: gt.constant(["a"]), DTypeError, TypeError, ("is not a dtype of symbolic arrays",)),
    (lambda: gt.as_tensor([[1, 2], [3]]), DTypeError, TypeError, ("[[1, 2], [3]] is no array of numbers",)),
    (lambda: x & y, DTypeError, TypeError, ("bitwise_and(x: float64[?], y: float64[?])", "astype")),
    (lambda: ~x, DTypeError, TypeError, ("invert(x: float64[?])", "astype")),
    (lambda: z < 1, DTypeError, TypeError, ("not defined for complex128",)),
    (lambda: gt.max(z), DTypeError, TypeError, ("complex numbers are not ordered",)),
    (lambda: gt.bscalar("b") + 300, DTypeError, TypeError, ("the Python integer 300 does not fit int8", "wider dtype")),
    (lambda: gt.zeros((2.5,)), DTypeError, TypeError, ("expected integer lengths, got 2.5",)),
    (lambda: gt.zeros((s,)), DTypeError, TypeError, ("expected integer scalars as lengths, got s: float64[]", "astype('int64')")),
    (lambda: gt.arange(1j), DTypeError, TypeError, ("expected real scalars",)),
    (lambda: k[0].set(1.5), DTypeError, TypeError, ("a value of float64 cannot be stored in k: int64[?]", "Cast it")),
    (lambda: gt.norm(x, ord="x"), ArgumentError, TypeError, ("ord='x' is not a norm",)),
    (lambda: gt.histogram(x, "auto"), ArgumentError, TypeError, ("bins='auto'", "vector of edges")),
    (lambda: gt.interp(x, [1.0, 2.0], [1.0, 2.0, 3.0]), ShapeError, ValueError, ("float64[2]", "float64[3]", "one length")),
    # A symbolic array has no value.
    (lambda: bool(x.sum() > 0), SymbolicValueError, TypeError, ("truth value", "sum(x) > 0.0: bool[]", "gt.where")),
    (lambda: 1 if s else 0, SymbolicValueError, TypeError, ("truth value", "s: float64[]")),
    (lambda: len(x), SymbolicValueError, TypeError, ("len()", "x: float64[?]", "x.shape[0]")),
    (lambda: list(x), SymbolicValueError, TypeError, ("Iteration", "Its length is unknown")),
    (lambda: float(s), SymbolicValueError, TypeError, ("float()", "s: float64[]", "eval")),
    (lambda: int(n), SymbolicValueError, TypeError, ("int()", "n: int64[]")),
    (lambda: range(n), SymbolicValueError, TypeError, ("A Python integer", "as it is")),
    (lambda: np.asarray(x), SymbolicValueError, TypeError, ("A NumPy array", "eval")),
    (lambda: 1.0 in x, SymbolicValueError, TypeError, ("A search", "gt.any(gt.equal(x, value))")),
    (lambda: np.apply_over_axes(np.sum, m, 0), SymbolicValueError, TypeError, ("np.apply_over_axes", "graphc.tensor")),
    (lambda: np.hypot.reduce(x), SymbolicValueError, TypeError, ("np.hypot.reduce", "graphc.tensor")),
    # A graph never changes.
    (lambda: x.__setitem__(0, 1.0), SymbolicValueError, TypeError, ("Item assignment", "x[index].set(value)")),
    (lambda: setattr(x + 1, "type", x.type), FrozenError, AttributeError, (".type", "never changes", "graphc.clone_replace")),
    (lambda: setattr(x + 1, "name", 1), InvalidGraphError, ValueError, ("name is a string, not 1",)),
    (lambda: x.set(1.0), ArgumentError, TypeError, ("not a part of an array", "x[index].set(value)")),
    (lambda: gt.vector(3), InvalidGraphError, ValueError, ("name is a string, not 3",)),
    # Derivatives.
    (lambda: graphc.grad(x, x), GradientError, TypeError, ("x: float64[?], which is not a scalar", ".sum()", "graphc.jacobian")),
    (lambda: graphc.grad(n, x), GradientError, TypeError, ("n: int64[]", "not real floating")),
    (lambda: graphc.grad(z.sum(), z), GradientError, TypeError, ("complex128", "magnitude")),
    (lambda: graphc.jacobian(s * n, n), GradientError, TypeError, ("with respect to n: int64[]", "not continuous", "cast it")),
    (lambda: graphc.grad(s, 3), GradientError, TypeError, ("with respect to 3", "not a symbolic array")),
    (lambda: graphc.grad(s, x), DisconnectedInputError, ValueError, ("does not depend on x: float64[?]", "disconnected_inputs='ignore'")),
    (lambda: graphc.jacobian(z, x), GradientError, TypeError, ("z: complex128[?]", ".real and .imag")),
    (lambda: graphc.Lop(x, x, [y, y]), ArgumentError, TypeError, ("1 arrays and 2 cotangents",)),
    (lambda: graphc.Rop(x * 2, x, s), ArgumentError, TypeError, ("The tangent s: float64[] of x", "rank")),
    (lambda: graphc.grad_clip(x, 2, 1), ArgumentError, TypeError, ("2 is above 1",)),
    (lambda: graphc.clone_replace(x, {x: m}), DTypeError, TypeError, ("m: float64[?, ?] can't replace x",)),
    # Shared variables.
    (lambda: w.set_value(FOUR), ArgumentError, TypeError, ("shape (4,)", "float64[3]")),
    (lambda: w.set_value(THREE * 1j), DTypeError, TypeError, ("complex128", "float64[3]", "astype")),
    (lambda: graphc.shared(x), ArgumentError, TypeError, ("symbolic", "x.eval")),
    (lambda: graphc.shared("text"), DTypeError, TypeError, ("not a dtype of symbolic arrays",)),
]
"""What is wrong whatever the backend: a program, its error, also a built-in one, and words of it."""

COMPILED: list[Row] = [
    # Functions that cannot be made.
    (lambda f: f([x], x + y), MissingInputError, ValueError, ("y: float64[?]", "not among the inputs", "givens")),
    (lambda f: f([x, y], x), UnusedInputError, ValueError, ("No output depends on the input y", "on_unused_input='ignore'")),
    (lambda f: f([x, x], x), ArgumentError, TypeError, ("x: float64[?] occurs twice",)),
    (lambda f: f([3], x), ArgumentError, TypeError, ("The input 3 is no symbolic variable", "gt.vector")),
    (lambda f: f([w], w), ArgumentError, TypeError, ("shared variable", "givens")),
    (lambda f: f([x], "abc"), ArgumentError, TypeError, ("The output 'abc' is no symbolic array",)),
    (lambda f: f([x], [x, None]), ArgumentError, TypeError, ("The output None",)),
    (lambda f: f([x], x, updates=[(y, x)]), ArgumentError, TypeError, ("y: float64[?] is no shared variable", "graphc.shared")),
    (lambda f: f([], updates=w), ArgumentError, TypeError, ("updates=w: float64[3]", "pairs")),
    (lambda f: f([], updates=[(w, 1j * w)]), DTypeError, TypeError, ("w: float64[3] can't become", "complex128[3]", "Take its real part, new.real")),
    (lambda f: f([m], updates=[(w, m)]), DTypeError, TypeError, ("w: float64[3] can't become m", "Give it 1 axes, not 2")),
    (lambda f: f([x4], updates=[(w, x4)]), DTypeError, TypeError, ("w: float64[3] can't become x4", "Give it the shape of float64[3]")),
    (lambda f: f([], updates=[(graphc.shared(1), 1.5)]), DTypeError, TypeError, ("int64[] can't become 1.5: float64[]", "new.astype('int64')")),
    (lambda f: f([], updates=[(w, w), (w, w)]), ArgumentError, TypeError, ("w: float64[3] is updated twice",)),
    (lambda f: f([n], x, givens=[(x, n)]), DTypeError, TypeError, ("n: int64[] can't replace x: float64[?]", "same dtype")),
    (lambda f: f([x4], x3, givens={x3: x4}), DTypeError, TypeError, ("x4: float64[4] can't replace x3",)),
    (lambda f: f([x], x, mode="MXL"), ModeError, ValueError, ("mode='MXL' names no backend", "JAX, MLX, NUMPY")),
    (lambda f: f([x], x, mode="jax"), ModeError, ValueError, ("names no backend", "Did you mean 'JAX'?")),
    (lambda f: f([x], x, returns="torch"), ArgumentError, TypeError, ("returns='torch'", "'numpy', 'native' or None")),
    (lambda f: (x + y).eval({x: TWO}), MissingInputError, ValueError, ("y: float64[?]",)),
    (lambda f: x.eval({"q": TWO}), ArgumentError, TypeError, ("'q' is no input",)),
    (lambda f: x.eval(TWO), ArgumentError, TypeError, ("expected a dict of values",)),
    # Arguments.
    (lambda f: f([x, y], x + y)(TWO), ArgumentError, TypeError, ("the argument 'y' is missing", "x: float64[?], y: float64[?]")),
    (lambda f: f([x], x)(TWO, TWO), ArgumentError, TypeError, ("expected 1 argument, got 2", "x: float64[?]")),
    (lambda f: f([x], x)(q=TWO), ArgumentError, TypeError, ("no single input called 'q'", "x: float64[?]")),
    (lambda f: f([{"x": x}], x)(x=TWO), ArgumentError, TypeError, ("the input 'x' is in a list, tuple or dict", "by position")),
    (lambda f: f([x], x)(TWO, x=TWO), ArgumentError, TypeError, ("'x' is given twice",)),
    (lambda f: f([{"a": x}], x)({"b": TWO}), ArgumentError, TypeError, ("expected a dict with the keys ['a'], got ['b']", "same kinds")),
    (lambda f: f([x], x)(MATRIX), ArgumentError, TypeError, ("'x': expected float64[?]", "(2, 3)", "that rank")),
    (lambda f: f([x3], x3)(FOUR), ArgumentError, TypeError, ("'x3': expected float64[3]", "(4,)", "those lengths")),
    (lambda f: f([x], x)(TWO * 1j), DTypeError, TypeError, ("'x': expected float64[?]", "complex128[2]", "astype('float64')")),
    (lambda f: f([k], k)(TWO), DTypeError, TypeError, ("int64[?]", "float64[2]", "allow_input_downcast=True")),
    (lambda f: f([x, n], x[n])(THREE, float("nan")), DTypeError, TypeError, ("'n': expected int64[]", "float nan")),
    (lambda f: f([gt.bscalar("b")], n * 0, givens={n: 1}, on_unused_input="ignore")(300), DTypeError, TypeError, ("int8", "int 300")),
    (lambda f: f([x], x)("abc"), ArgumentError, TypeError, ("str 'abc'", "Give numbers")),
    (lambda f: f([n], n)(2**70), ArgumentError, TypeError, ("int 11805916", "its dtype holds")),
    (lambda f: f([x], x)(None), ArgumentError, TypeError, ("NoneType None",)),
    (lambda f: f([x], x)(y), ArgumentError, TypeError, ("the symbolic y: float64[?]", "Give a value")),
    (lambda f: f([x], x)([1.0, [2.0]]), ArgumentError, TypeError, ("list [1.0, [2.0]]", "inhomogeneous")),
    (lambda f: f([x], x)(np.array(["2020"], "M8[D]")), ArgumentError, TypeError, ("datetime64[D][1]",)),
    # Shapes found not to fit in a call.
    (lambda f: f([x, y], x + y)(TWO, THREE), RuntimeShapeError, ValueError, ("x + y: float64[x.0]", "(2,)", "(3,)", "Make them equal")),
    (lambda f: f([x, y], x + y)(ONE, THREE), RuntimeShapeError, ValueError, ("(1,)", "(3,)", "statically 1", "x[None, :]")),
    (lambda f: f([m, x], m @ x)(MATRIX, TWO), RuntimeShapeError, ValueError, ("(2, 3)", "(2,)", "axis 1")),
    (lambda f: f([x, y], gt.dot(x, y))(TWO, THREE), RuntimeShapeError, ValueError, ("(2,)", "(3,)")),
    (lambda f: f([m], gt.concatenate([m, m.T]))(MATRIX), RuntimeShapeError, ValueError, ("concatenate", "(2, 3)", "(3, 2)")),
    (lambda f: f([x, y], gt.where(x > 0, x, y))(TWO, THREE), RuntimeShapeError, ValueError, ("where(", "(2,)", "(3,)")),
    (lambda f: f([x], w + x)(FOUR), RuntimeShapeError, ValueError, ("(3,)", "(4,)")),
    (lambda f: f([x, n], x.reshape((n, 2)))(FOUR, 3), RuntimeShapeError, ValueError, ("4 elements", "(3, 2)")),
    (lambda f: f([x, n], gt.broadcast_to(x, (n,)))(THREE, 4), RuntimeShapeError, ValueError, ("(3,)", "(4,)", "gt.tensor(shape=(1, None))")),
    (lambda f: f([n], gt.zeros((n, 2)))(-1), RuntimeShapeError, ValueError, ("(-1, 2) is not a shape", "Pass lengths of 0 or more")),
    (lambda f: f([n], gt.eye(n))(-1), RuntimeShapeError, ValueError, ("(-1, -1)",)),
    (lambda f: f([n], gt.arange(0, 5, n))(0), RuntimeShapeError, ValueError, ("the step is 0",)),
    (lambda f: f([x], x.max())(np.ones(0)), RuntimeShapeError, ValueError, ("max", "(0,)", "a slice is empty")),
    (lambda f: f([x, y], x[:2].set(y))(FOUR, THREE), RuntimeShapeError, ValueError, ("set: an array of shape (3,)", "the shape (2,)")),
    (lambda f: f([m], gt.squeeze(m, 0))(MATRIX), OperationError, RuntimeError, ("squeeze(m, axes=(0,))", "float64[2, 3]")),
    (lambda f: f([x, n], x[::n])(THREE, 0), OperationError, RuntimeError, ("x[::n]", "zero")),
    (lambda f: f([x], x[7])(THREE), BoundsError, IndexError, ("x[7]", "float64[3]", "index 7")),
]
"""What a backend refuses, given ``function`` in its mode."""

DYNAMIC: list[Row] = [
    (lambda f: f([x], x[x > 0]), DynamicShapeError, TypeError, ("x: float64[?]", "gt.where(mask, a, b)", "x[mask].set(scalar)", "mode='NUMPY'")),
    (lambda f: f([s], gt.arange(s)), DynamicShapeError, TypeError, ("s: float64[]", "integer inputs", "mode='NUMPY'")),
    (lambda f: f([m, n], gt.zeros((m.astype("int64")[0, 0],)), on_unused_input="ignore"), DynamicShapeError, TypeError, ("m: float64[?, ?]",)),
]
"""What backends that compile refuse."""
# fmt: on


def lines(rows: list[Row]) -> list[str]:
    """The number of the line where each program is."""
    return [str(row[0].__code__.co_firstlineno) for row in rows]


def refused(run: Callable[[], Any], row: Row) -> str:
    """The message of a wrong program, after its kind and its words are seen to."""
    _, error, builtin, words = row
    with pytest.raises(error) as caught:
        run()
    assert type(caught.value) is error
    assert isinstance(caught.value, builtin)
    message = str(caught.value)
    for word in words:
        assert word in message
    return message


def compiler(mode: str) -> Callable[..., graphc.Function]:
    """``graphc.function`` in a mode."""
    return lambda inputs=(), outputs=None, **options: graphc.function(
        list(inputs), outputs, **{"mode": mode, **options}
    )


@pytest.mark.parametrize("row", BUILT, ids=lines(BUILT))
def test_what_types_show_is_refused_on_its_own_line(row: Row) -> None:
    message = refused(row[0], row)
    assert message.endswith(f"   test_bad_input.py:{row[0].__code__.co_firstlineno}")


@pytest.mark.parametrize("row", COMPILED, ids=lines(COMPILED))
def test_what_a_function_shows_is_refused_with_a_line(row: Row, mode: str) -> None:
    with graphc.config.change_flags(mode=mode):
        message = refused(lambda: row[0](compiler(mode)), row)
    if "returns=" not in message:
        assert re.search(r"   test_bad_input\.py:\d+$", message)


@pytest.mark.parametrize("row", DYNAMIC, ids=lines(DYNAMIC))
def test_a_shape_that_depends_on_values_is_refused_on_its_own_line(row: Row) -> None:
    message = refused(lambda: row[0](compiler("JAX")), row)
    assert message.endswith(f"   test_bad_input.py:{row[0].__code__.co_firstlineno}")


def test_a_wrong_call_leaves_a_function_that_works(mode: str) -> None:
    f = graphc.function([x, y], x + y, mode=mode)
    for wrong in ((TWO,), (TWO, THREE), (MATRIX, TWO), ("a", TWO), (TWO, None)):
        with pytest.raises(GraphcError):
            f(*wrong)
        np.testing.assert_array_equal(np.asarray(f(TWO, TWO)), TWO * 2)


@pytest.mark.parametrize("wrong", ["text", None, object(), {}])
def test_what_is_no_array_has_no_operator(wrong: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        x + wrong


def test_a_function_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = gt.nonsense
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = x.nonsense
