"""An operation is its parameters: they say what it is, in every process."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import InvalidGraphError, ShapeError, UnsupportedOperationError
from graphc.ir import Graph, Op, TensorType, TupleType, encode
from graphc.tensor import Tensor


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Pair:
    a: int
    b: float


@dataclass(frozen=True, slots=True)
class Scale(Op):
    """A user's own operation."""

    factor: Any

    def infer(self, x: Any) -> Any:
        return x


@dataclass(frozen=True, slots=True)
class Halves(Op):
    """An operation with two results."""

    by_numpy = True

    def infer(self, x: Any) -> Any:
        (n,) = x.shape
        half = TensorType(x.dtype, (None if n is None else n // 2,))
        return TupleType((half, half))

    def perform(self, x: Any) -> Any:
        return x[: len(x) // 2], x[len(x) // 2 :]


class Careless(Op):
    def infer(self, x: Any) -> Any:
        return x


VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, float("nan"), float("inf"), "", "1", "None",
    b"", b"1", (), (1,), (1, 2), ((1,), 2), (1, (2,)), Colour.RED, Colour.BLUE, Pair(1, 2.0),
    Pair(2, 1.0), Scale(1), Scale(2), TensorType("int8", (1,)), TensorType("int8", (None,)),
]  # fmt: skip


def test_parameters_that_differ_are_encoded_differently() -> None:
    assert len({encode(v) for v in VALUES}) == len(VALUES)


@pytest.mark.parametrize(
    "value",
    [np.zeros(3), [1, 2], {1}, object(), lambda: 1],
    ids=["array", "list", "set", "object", "function"],
)
def test_parameters_without_a_form_in_every_process_are_refused(value: Any) -> None:
    with pytest.raises(InvalidGraphError, match="equal across processes"):
        encode(value)


def test_an_operation_that_is_no_dataclass_has_no_key() -> None:
    x = gt.scalar()
    with pytest.raises(InvalidGraphError, match="Careless is not a dataclass"):
        Graph([x], [Tensor.make(Careless(), x)]).key()


@pytest.mark.parametrize("operand", [1.0, [1.0], np.ones(3)], ids=["number", "list", "array"])
def test_an_operand_that_is_no_symbolic_array_is_named(operand: Any) -> None:
    with pytest.raises(InvalidGraphError, match="Scale takes symbolic arrays, not") as caught:
        Tensor.make(Scale(2), operand)
    assert repr(operand) in str(caught.value)


def test_an_operation_without_a_hash_is_refused() -> None:
    with pytest.raises(InvalidGraphError, match=r"Scale has no hash.*\n.*tuples, not lists"):
        Tensor.make(Scale([1, 2]), gt.scalar())


def test_users_operations_are_interned_by_their_parameters() -> None:
    x = gt.scalar()
    assert Tensor.make(Scale(2), x) is Tensor.make(Scale(2), x)
    assert Tensor.make(Scale(2), x) is not Tensor.make(Scale(3), x)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (0, False),
        (0j, complex(0, -0.0)),
        (Pair(1, 0.0), Pair(1, -0.0)),
    ],
)
def test_parameters_that_python_calls_equal_are_not_confused(a: Any, b: Any) -> None:
    x = gt.scalar()
    assert Tensor.make(Scale(a), x) is not Tensor.make(Scale(b), x)


def test_a_parameter_that_is_not_a_number_is_itself() -> None:
    x = gt.scalar()
    assert Tensor.make(Scale(float("nan")), x) is Tensor.make(Scale(float("nan")), x)


@pytest.mark.parametrize(
    ("use", "missing"),
    [
        (lambda op, x: op.perform(np.zeros(())), "perform"),
        (lambda op, x: op.pullback(x, x, x), "pullback"),
        (lambda op, x: op.batch(3, [True], x), "batch"),
    ],
)
def test_what_an_operation_lacks_is_named(use: Any, missing: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"Give Careless a {missing}"):
        use(Careless(), gt.scalar())


def test_an_operation_without_a_type_rule_makes_no_node() -> None:
    with pytest.raises(NotImplementedError, match="Bare has no type rule"):
        Tensor.make(type("Bare", (Op,), {})(), gt.scalar())


def test_a_type_that_does_not_fit_is_told_with_the_line_of_now() -> None:
    x, y = gt.tensor(shape=(3,)), gt.tensor(shape=(4,))
    lines = []
    for a, b in [(x, y), (x, y)]:
        with pytest.raises(ShapeError) as told:
            a + b
        lines.append(told.value.where)
    with pytest.raises(ShapeError) as elsewhere:
        x + y
    assert lines[0] == lines[1] != elsewhere.value.where


def test_the_type_rule_of_a_users_operation_is_asked_each_time() -> None:
    asked = []

    @dataclass(frozen=True, slots=True)
    class Asked(Op):
        def infer(self, x: Any) -> Any:
            asked.append(x)
            return x

    kept = [Tensor.make(Asked(), gt.vector()) for _ in range(2)]
    assert len(asked) == len(kept)


def test_an_operation_in_pytensors_form_is_refused_where_it_is_defined() -> None:
    with pytest.raises(InvalidGraphError, match=r"make_node.*\n.*infer.*operations.md.*test_op.py"):
        type("Doubled", (Op,), {"make_node": lambda self, x: x})


def test_an_operation_is_called_to_apply_it() -> None:
    x = gt.vector("x")
    assert Scale(2)(x) is Tensor.make(Scale(2), x)
    assert Scale(2)(1.5) is Tensor.make(Scale(2), gt.constant(1.5))
    assert Scale(2)([x, x]).type == TensorType("float64", (2, None))


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_several_results_of_an_operation_are_a_list(mode: str) -> None:
    x = gt.vector("x")
    first, second = Halves()(x)
    f = graphc.function([x], second - first, mode=mode, returns="numpy")
    assert f([1.0, 2.0, 5.0, 9.0]).tolist() == [4.0, 7.0]


@dataclass(frozen=True, slots=True)
class Steps(Op):
    """The number of whole steps in each element, which has no derivative."""

    def infer(self, x: TensorType) -> TensorType:
        return x.with_dtype("int64")

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.floor(x).astype(np.int64)


def test_an_op_of_an_integer_result_needs_no_pullback() -> None:
    x = gt.vector("x")
    gradient = graphc.grad((x * Steps()(x)).sum(), x)
    assert gradient.eval({x: [0.5, 2.5, 7.0]}, mode="NUMPY").tolist() == [0.0, 2.0, 7.0]


@dataclass(frozen=True, slots=True)
class Doubled(Op):
    """Twice the first input, for elements of any batch."""

    core_ndim = 0
    is_linear = True

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return 2 * x


def test_an_op_that_is_linear_is_its_own_pushforward() -> None:
    x, t = gt.vector("x"), gt.vector("t")
    assert graphc.pushforward(Doubled()(x), x, t) is Doubled()(t)


def test_an_op_on_elements_of_one_array_is_its_own_batch() -> None:
    x, xs = gt.tensor(shape=(3,)), gt.tensor(shape=(5, 3))
    assert graphc.vectorize_graph(Doubled()(x), {x: xs}) is Doubled()(xs)


@dataclass(frozen=True, slots=True)
class Joined(Op):
    """Two vectors behind each other."""

    rearranges = True

    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        return x.with_shape((x.shape[0] + y.shape[0],))

    def perform(self, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
        return np.concatenate([x, y])

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        n = a.type.shape[0]
        return g[:n], g[n:]


@dataclass(frozen=True, slots=True)
class Multiples(Op):
    """Twice the input, and three times."""

    is_linear = True

    def infer(self, x: TensorType) -> TupleType:
        return TupleType((x, x))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return 2 * x, 3 * x

    def pullback(self, g: Any, y: Any, x: Tensor) -> tuple[Tensor]:
        return (gt.add(*[k * part for k, part in zip((2, 3), g, strict=True)]),)


def test_pushforward_of_an_op_that_is_linear_in_all_inputs_adds_up_all_tangents() -> None:
    a, s = gt.tensor("a", shape=(2,)), gt.tensor("s", shape=(2,))
    b, t = gt.tensor("b", shape=(3,)), gt.tensor("t", shape=(3,))
    joined = Joined()(a, b)
    values = {s: [1.0, 2.0], t: [3.0, 4.0, 5.0]}
    both = graphc.pushforward(joined, [a, b], [s, t]).eval(values, mode="NUMPY")
    assert both.tolist() == [1, 2, 3, 4, 5]
    second = graphc.pushforward(joined, [b], [t]).eval({t: values[t]}, mode="NUMPY")
    assert second.tolist() == [0, 0, 3, 4, 5]


def test_pushforward_of_a_linear_op_of_several_results_is_that_of_each() -> None:
    x, t = gt.tensor("x", shape=(2,)), gt.tensor("t", shape=(2,))
    for y, factor in zip(Multiples()(x), (2, 3), strict=True):
        pushed = graphc.pushforward(y, x, t).eval({t: [1.0, 5.0]}, mode="NUMPY")
        assert pushed.tolist() == [factor, 5 * factor]
