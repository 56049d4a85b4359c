"""Numbers marked ``runtime``: numbers by themselves, leaves beside symbolic arrays."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from graphc.ir import Constant, Leaf
from graphc.tensor.core.runtime import Runtime, runtime
from tests.modes import uncompiled

NUMBERS = [True, 3, 0.25, 1 + 2j, -0.0, float("inf")]


def leaves(y: gt.Tensor) -> list[Any]:
    return [node.op for node in graphc.Graph([], [y]).nodes if isinstance(node.op, Leaf)]


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_a_marked_number_is_the_number(number: Any) -> None:
    marked = runtime(number)
    assert isinstance(marked, Runtime)
    assert marked == number
    assert hash(marked) == hash(number)
    assert str(marked.number) == str(number)
    assert isinstance(marked, int if isinstance(number, bool) else type(number))


@pytest.mark.parametrize("number", [3, 0.25, 1 + 2j], ids=repr)
@pytest.mark.parametrize(
    "operation", [operator.add, operator.mul, operator.sub, operator.truediv, operator.pow]
)
def test_arithmetic_gives_plain_numbers(number: Any, operation: Callable[..., Any]) -> None:
    for a, b in ((runtime(number), 2), (2, runtime(number)), (runtime(number), runtime(number))):
        got = operation(a, b)
        assert type(got) in (int, float, complex)
        assert got == operation(getattr(a, "number", a), getattr(b, "number", b))


def test_marking_twice_is_marking_once() -> None:
    marked = runtime(0.5)
    assert runtime(marked) is marked
    assert copy.copy(marked) is marked
    assert copy.deepcopy(marked) is marked


@pytest.mark.parametrize("number", [*NUMBERS, np.float32(0.5), np.int8(3)], ids=repr)
def test_a_marked_number_can_be_pickled(number: Any) -> None:
    again = pickle.loads(pickle.dumps(runtime(number)))
    assert isinstance(again, Runtime)
    assert type(again.number) is type(number)
    assert repr(again) == f"runtime({number!r})"


@pytest.mark.parametrize("value", [np.array(0.5, "float32"), jnp.float32(0.5), mx.array(0.5)])
def test_an_array_without_axes_is_its_number(value: Any) -> None:
    assert type(runtime(value).number) is np.float32
    assert runtime(value) == 0.5


@pytest.mark.parametrize("value", ["a", None, [1.0], np.ones(2), gt.scalar("x")], ids=repr)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"is not a number(.|\n)*runtime\(x\.item\(\)\)"):
        runtime(value)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_a_marked_number_is_weak_to_numpy_and_jax(dtype: str) -> None:
    marked = runtime(0.5)
    x = np.ones(3, dtype)
    for y in (x * marked, marked * x, np.add(x, marked), np.where(x > 0, marked, x)):
        assert y.dtype == (x * 0.5).dtype
    if dtype != "float64":
        z = jnp.asarray(x)
        assert (z * marked).dtype == (marked * z).dtype == jnp.add(z, marked).dtype == dtype
    assert jax.jit(jnp.sin)(marked) == jnp.sin(0.5)


def test_a_marked_number_is_weak_to_mlx() -> None:
    x = mx.ones(3, mx.float16)
    assert (x * runtime(0.5)).dtype == (runtime(0.5) * x).dtype == mx.float16
    assert mx.exp(runtime(1.0)).dtype == mx.float32


DTYPES = ["bool", "int8", "int64", "float16", "float32", "float64", "complex64", "complex128"]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, n: x + n,
    "reflected": lambda x, n: n * x,
    "power": lambda x, n: x**n,
    "where": lambda x, n: gt.where(gt.eq(x, x), x, n),
    "maximum": gt.maximum,
    "minimum with the number first": lambda x, n: gt.minimum(n, x),
    "stack": lambda x, n: gt.stack([x[0], n]),
    "list": lambda x, n: gt.as_tensor([x[0], n]),
    "full": lambda x, n: gt.full((2,), n),
    "full like": gt.full_like,
    "NumPy's function": np.add,
    "NumPy's function with the number first": lambda x, n: np.subtract(n, x),
    "NumPy's where": lambda x, n: np.where(gt.eq(x, x), n, x),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [True, 2, 0.5, 1j], ids=repr)
@pytest.mark.parametrize("name", OPERATIONS)
def test_dtypes_are_those_of_the_plain_number(name: str, number: Any, dtype: str) -> None:
    x = gt.vector("x", dtype=dtype)
    try:
        right = OPERATIONS[name](x, number)
    except DTypeError:
        with pytest.raises(DTypeError):
            OPERATIONS[name](x, runtime(number))
        return
    assert OPERATIONS[name](x, runtime(number)).type == right.type


@pytest.mark.parametrize("name", OPERATIONS)
def test_another_number_is_another_leaf_of_an_equal_graph(name: str) -> None:
    x = gt.vector("x")
    graphs = [graphc.Graph([x], [OPERATIONS[name](x, runtime(n))]) for n in (0.5, 0.75)]
    plain = [graphc.Graph([x], [OPERATIONS[name](x, n)]) for n in (0.5, 0.75)]
    assert graphs[0].key() == graphs[1].key()
    assert plain[0].key() != plain[1].key()
    held = [node.op for graph in graphs for node in graph.nodes if isinstance(node.op, Leaf)]
    assert [float(op.array) for op in held] == [0.5, 0.75]


def test_one_number_is_one_leaf() -> None:
    x, rate = gt.vector("x"), runtime(0.5)
    assert x * rate is x * rate
    assert len(leaves((gt.ones(3) * rate + gt.exp(rate)).sum() - rate)) == 1


def test_two_numbers_are_two_leaves_even_if_they_are_equal() -> None:
    x = gt.vector("x")
    assert x * runtime(0.5) is not x * runtime(0.5)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8])
def test_scalars_of_numpy_keep_their_dtype(kind: type) -> None:
    x = gt.vector("x", dtype="float16")
    assert (x * runtime(kind(2))).dtype == (x * kind(2)).dtype
    assert gt.as_tensor(runtime(kind(2))).dtype == np.dtype(kind).name
    assert (np.ones(2, "float16") * runtime(kind(2))).dtype == (
        np.ones(2, "float16") * kind(2)
    ).dtype


def test_as_tensor_and_constant_make_leaves_unless_they_bake() -> None:
    rate = runtime(0.5)
    assert isinstance(gt.as_tensor(rate).op, Leaf)
    assert gt.as_tensor(rate).dtype == "float64"
    assert gt.constant(rate, "rate", "float32").op.name == "rate"
    assert gt.constant(rate, dtype="float32").dtype == "float32"
    assert isinstance(gt.constant(rate, bake=True).op, Constant)
    with graphc.config.change_flags(floatX="float32"):
        assert gt.as_tensor(rate).dtype == "float32"


def test_an_integer_that_does_not_fit_is_refused_as_a_plain_one_is() -> None:
    with pytest.raises(DTypeError, match="the Python integer 300 does not fit int8"):
        gt.vector("x", dtype="int8") + runtime(300)


def test_a_program_is_given_the_number_when_it_runs(mode: str) -> None:
    x = gt.vector("x")
    for number in (0.5, 0.25):
        rate = runtime(number)
        y = (x * rate).sum() + gt.exp(rate)
        f = graphc.function([x], [y, graphc.grad(y, x)], mode=uncompiled(mode))
        value, gradient = f([1.0, 2.0])
        np.testing.assert_allclose(np.asarray(value), 3 * number + np.exp(number), rtol=1e-12)
        np.testing.assert_array_equal(np.asarray(gradient), [number, number])


def test_a_step_of_a_scan_reads_a_number_that_it_captures(mode: str) -> None:
    x = gt.vector("x")
    for number in (0.5, 0.25):
        rate = runtime(number)
        y = graphc.scan(lambda now, last: rate * last + now, sequences=x, outputs_info=0.0)  # noqa: B023
        got = graphc.function([x], y[-1], mode=uncompiled(mode))([1.0, 2.0])
        assert float(got) == number + 2.0


def test_what_decides_a_shape_takes_the_number_as_it_is() -> None:
    x = gt.vector("x")
    assert graphc.function([x], x[: runtime(2)], mode="NUMPY")([1.0, 2.0, 3.0]).tolist() == [1, 2]
    assert gt.zeros(runtime(3)).type.shape == (3,)
