"""Gradients are what finite differences give, and what was chosen where these have no answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import (
    ArgumentError,
    DisconnectedInputError,
    DTypeError,
    GradientError,
    UnsupportedOperationError,
)
from graphc.ir import Node, Op, Pick, TupleType, toposort
from graphc.tensor import Tensor
from graphc.tensor.core.elementwise import ROWS
from graphc.tensor.linalg import DotGeneral
from tests.contract.rows import FIXED
from tests.grad.differences import check_derivatives, check_gradient
from tests.reference import evaluate

RNG = np.random.default_rng(0)
OPERANDS = [
    RNG.uniform(0.1, 0.45, (2, 3)),
    RNG.uniform(0.55, 0.9, 3),
    RNG.uniform(0.55, 0.9, (2, 1)),
    np.array(0.3),
]

POINTS: dict[str, list[np.ndarray]] = {
    "arccosh": [1 + OPERANDS[0]],
    "zeta": [1 + OPERANDS[1], OPERANDS[0]],
    "log1mexp": [-OPERANDS[0] * 3],
    "clip": [np.array([[-1.0, 0.2, 3.0], [0.5, 5.0, -4.0]]), OPERANDS[1] - 1, OPERANDS[2] + 1],
    "remainder": [OPERANDS[0] * 9, OPERANDS[1]],
    "floor_divide": [OPERANDS[0] * 9, OPERANDS[1]],
}
"""Where a row is smooth, if it is not between 0.1 and 0.9; operands broadcast."""

HELD = {
    **FIXED,
    "gammainc": (0,),
    "gammaincc": (0,),
    "gammaincinv": (0,),
    "gammainccinv": (0,),
    "betainc": (0, 1),
    "betaincinv": (0, 1),
    "hyp2f1": (0, 1, 2),
}
"""Operands by which a row has no second derivative. The first is tested in ``tests/contract``."""

FLOATING = [
    row
    for row in ROWS.values()
    if row.domain("float64") is not None and len(HELD.get(row.name, ())) < row.arity
]
COMPLEX = [row for row in ROWS.values() if row.domain("complex128") is not None]


@pytest.mark.parametrize("row", FLOATING, ids=repr)
def test_a_real_row_has_the_derivatives_of_its_differences(row: Any) -> None:
    operands = POINTS.get(row.name, OPERANDS[: row.arity])
    held = {i: operands[i] for i in HELD.get(row.name, ())}

    def of_the_others(*xs: Any) -> Any:
        others = iter(xs)
        return row(*(held[i] if i in held else next(others) for i in range(row.arity)))

    check_derivatives(of_the_others, *(x for i, x in enumerate(operands) if i not in held))


@pytest.mark.parametrize("row", COMPLEX, ids=repr)
def test_a_complex_row_has_the_derivatives_of_its_differences(row: Any) -> None:
    parts = [0.2j + x - 0.5j * x for x in OPERANDS[: row.arity]]
    check_derivatives(row, *parts)


@pytest.mark.parametrize("name", ["multiply", "divide", "power", "add", "subtract"])
def test_real_and_complex_operands_mix(name: str) -> None:
    check_derivatives(ROWS[name], OPERANDS[0], OPERANDS[1] + 0.3j)
    check_derivatives(ROWS[name], OPERANDS[0] + 0.3j, OPERANDS[1])


A = RNG.standard_normal((2, 3, 4))
V = RNG.standard_normal(4)
C = A + 1j * RNG.standard_normal((2, 3, 4))
POSITIVE = np.abs(A) + 0.5
INDEX = np.array([[0, 2], [2, 1]])

OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "where": (lambda a, b: gt.where(a > 0, a * b, b**2), (A, V)),
    "where over a scalar": (lambda a, b: gt.where(a > 0, b, b * b), (A, np.array(0.7))),
    "where of complex": (lambda a, b: gt.where(gt.real(a) > 0, a * b, b**2), (C, V)),
    "cast to complex": (lambda a: a.astype("complex128") ** 2, (A,)),
    "reshape": (lambda a: a.reshape(4, -1) ** 2, (A,)),
    "transpose": (lambda a: a.transpose(2, 0, 1) ** 2, (A,)),
    "expand_dims": (lambda a: gt.expand_dims(a, (0, 2)) ** 2, (A,)),
    "squeeze": (lambda a: a[:1].squeeze(0) ** 2, (A,)),
    "broadcast_to": (lambda a: gt.broadcast_to(a[:, :1], (5, 2, 3, 4)) ** 2, (A,)),
    "concatenate": (lambda a, b: gt.concatenate([a, b, a], 1) ** 2, (A, A[:, :1])),
    "stack": (lambda a, b: gt.stack([a, b], 1) ** 2, (V, V + 1)),
    "sum": (lambda a: a.sum((0, 2)) ** 2, (A,)),
    "sum of complex": (lambda a: a.sum((0, 2), keepdims=True) ** 2, (C,)),
    "prod": (lambda a: a.prod(1), (A,)),
    "prod of complex": (lambda a: a.prod((0, 2)), (C,)),
    "prod with a zero": (lambda a: a.prod(), (np.array([2.0, 0.0, 3.0]),)),
    "prod with two zeros": (lambda a: a.prod(), (np.array([2.0, 0.0, 3.0, 0.0]),)),
    "prod with three zeros": (lambda a: a.prod(1), (np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]),)),
    "prod of complex with a zero": (lambda a: a.prod(), (np.array([2.0 + 1j, 0.0, 3.0]),)),
    "max": (lambda a: a.max(1) ** 2, (A,)),
    "min": (lambda a: a.min() ** 2, (A,)),
    "mean": (lambda a: a.mean(0) ** 2, (A,)),
    "var": (lambda a: a.var(1, ddof=1), (A,)),
    "var of complex": (lambda a: a.var(1), (C,)),
    "std": (lambda a: a.std((0, 1)), (A,)),
    "logsumexp": (lambda a: gt.logsumexp(a, 1), (A,)),
    "softmax": (lambda a: gt.softmax(a, (0, 2)), (A,)),
    "log_softmax": (lambda a: gt.log_softmax(a, -1), (A,)),
    "argmax": (lambda a: a[:, a.argmax(1)[0, 0]], (A,)),
    "dot": (gt.dot, (A, V)),
    "dot of vectors": (gt.dot, (V, V + 1)),
    "matmul": (lambda a, b: a @ b, (A, A.swapaxes(1, 2) + 1)),
    "matmul that broadcasts": (lambda a, b: a @ b, (A[:1], A.swapaxes(1, 2))),
    "matmul of complex": (lambda a, b: a @ b, (C, C.swapaxes(1, 2) + 1)),
    "matmul of a matrix": (lambda a, b: a @ b, (A[0].T, A)),
    "tensordot": (lambda a, b: gt.tensordot(a, b, ([2, 0], [0, 1])), (A, A.transpose(2, 0, 1))),
    "product over shuffled pairs": (
        lambda a, b: Tensor.make(DotGeneral(((2, 0), (0, 2)), ((1,), (1,))), a, b),
        (A, A.transpose(2, 1, 0)),
    ),
    "outer": (gt.outer, (V, A[0, 0])),
    "norm": (lambda a: gt.norm(a, axis=1), (A,)),
    "norm of complex": (gt.norm, (C,)),
    "norm of order 3": (lambda a: gt.norm(a, 3, axis=1), (A,)),
    "norm of order inf": (lambda a: gt.norm(a, np.inf, axis=1), (A,)),
    "getitem": (lambda a: a[:, 1:, ::-2] ** 2, (A,)),
    "getitem of integers": (lambda a: a[1, -1] ** 2, (A,)),
    "getitem of arrays": (lambda a: a[:, INDEX, 1] ** 2, (A,)),
    "getitem of arrays apart": (lambda a: a[0, :, INDEX] ** 2, (A,)),
    "getitem of a mask": (lambda a: a[np.array([True, False])] ** 2, (A,)),
    "set": (lambda a, b: a[:, 1].set(b) ** 2, (A, V)),
    "set to a number": (lambda a: a[:, 1].set(2.0) ** 2, (A,)),
    "inc": (lambda a, b: a[:, :, 0].inc(b) ** 2, (A, A[:, :1, 1])),
    "inc of repeated places": (lambda a, b: a[:, INDEX].inc(b) ** 2, (A, V)),
    "set of a mask": (lambda a, b: a[np.array([True, False])].set(b) ** 2, (A, np.array(0.3))),
    "set of complex": (lambda a, b: a[0].set(b) ** 2, (C, V + 1j)),
    "flip": (lambda a: gt.flip(a, 1) * a, (A,)),
    "take": (lambda a: a.take(INDEX, 1) ** 2, (A,)),
    "power by a constant": (lambda a: a**3 + a**2.5 + a**-1, (POSITIVE,)),
    "power of a constant": (lambda a: 2.0**a, (A,)),
    "log_sigmoid": (gt.log_sigmoid, (A,)),
    "a float32 path": (lambda a: (a.astype("float32").astype("float64") * 0 + a) ** 2, (A,)),
    "full_like": (lambda a, b: gt.full_like(a, b) * a, (A, np.array(0.3))),
    "no operation": (lambda a: a, (A,)),
    "a sum of all kinds": (
        lambda a, b: (gt.softmax(a @ b, 0) * gt.tanh(a[:, :, 0])).sum() + gt.exp(b).prod(), (A, V),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_has_the_derivatives_of_its_differences(name: str) -> None:
    f, points = OPERATIONS[name]
    check_derivatives(f, *points)


INF = np.inf
AWKWARD: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "a root where it is taken": (
        lambda x: gt.where(x > 0, gt.sqrt(x), 0), [[0.0, 4.0]], [[0, 0.25]],
    ),
    "a logarithm where it is taken": (
        lambda x: gt.where(x > 0, gt.log(x) * x, x), [[0.0, 1.0]], [[1, 1]],
    ),
    "nested choices": (
        lambda x: gt.where(x > 0, gt.where(x < 1, gt.sqrt(x), 1 / x), 0), [[0.0, 0.25, 2]],
        [[0, 1, -0.25]],
    ),
    "a chain within a choice": (
        lambda x: gt.where(x > 0, gt.exp(gt.log(gt.sqrt(x))), 0), [[0.0, 4.0]], [[0, 0.25]],
    ),
    "a transposed choice": (
        lambda x: gt.where(x.T > 0, gt.sqrt(x).T, 0), [[[0.0, 4.0]]], [[[0, 0.25]]],
    ),
    "a reshaped choice": (
        lambda x: gt.where(x[:, None] > 0, gt.sqrt(x)[:, None], 0), [[0.0, 4.0]], [[0, 0.25]],
    ),
    "a choice of read roots": (
        lambda x: gt.where(gt.arange(3) > 0, gt.sqrt(x)[[0, 1, 1]], 0), [[0.0, 4.0]], [[0, 0.5]],
    ),
    "a reshaped choice by numbers": (
        lambda x: gt.where(x.reshape(2, 1) > 0, gt.sqrt(x).reshape(2, 1), 0),
        [[0.0, 4.0]], [[0, 0.25]],
    ),
    "a choice over a broadcast root": (
        lambda x, s: gt.where(x > 0, gt.sqrt(s) * x, 0), [[-1.0, -2.0], 0.0], [[0, 0], 0],
    ),
    "a choice of a summed root": (
        lambda x: gt.where(x.sum() > 0, gt.sqrt(x).sum(), 0), [[0.0, 0.0]], [[0, 0]],
    ),
    "a choice of joined roots": (
        lambda x: gt.where(gt.concatenate([x, x]) > 0, gt.concatenate([gt.sqrt(x), x]), 0),
        [[0.0, 4.0]], [[0, 1.25]],
    ),
    "a norm at zero": (gt.norm, [[0.0, 0.0]], [[0, 0]]),
    "a norm of rows, one zero": (
        lambda x: gt.norm(x, axis=1), [[[0.0, 0.0], [3.0, 4.0]]], [[[0, 0], [0.6, 0.8]]],
    ),
    "x**0 at 0": (lambda x: x**0, [0.0], [0]),
    "x**1 at 0": (lambda x: x**1, [0.0], [1]),
    "x**2 at 0": (lambda x: x**2, [0.0], [0]),
    "x**0.5 at 0": (lambda x: x**0.5, [0.0], [INF]),
    "x**y at 0": (
        lambda x, y: x**y, [[0.0] * 4, [0.0, 1.0, 2.0, 0.5]], [[0, 1, 0, INF], [0, 0, 0, 0]],
    ),
    "x**y of a negative x": (lambda x, y: x**y, [-2.0, 3.0], [12, np.nan]),
    "x**3 of a negative x": (lambda x: x**3, [-2.0], [12]),
    "softplus": (gt.softplus, [[-1000.0, 0, 1000, INF, -INF]], [[0, 0.5, 1, 1, 0]]),
    "sigmoid": (gt.sigmoid, [[-1000.0, 0, 1000, INF, -INF]], [[0, 0.25, 0, 0, 0]]),
    "log_sigmoid": (gt.log_sigmoid, [[-1000.0, 0, 1000, INF, -INF]], [[1, 0.5, 0, 0, 1]]),
    "logaddexp": (
        gt.logaddexp,
        [[1000.0, -1000, 1000, -INF, INF, -INF, 0], [1000.0, 1000, -1000, -INF, 0, 0, INF]],
        [[0.5, 0, 1, 0.5, 1, 0, 0], [0.5, 1, 0, 0.5, 0, 1, 1]],
    ),
    "logsumexp of -inf": (gt.logsumexp, [[-INF, -INF]], [[0, 0]]),
    "logsumexp with -inf": (gt.logsumexp, [[-INF, 0.0, 0.0]], [[0, 0.5, 0.5]]),
    "softmax with -inf": (lambda x: gt.softmax(x)[1], [[-INF, 0.0]], [[0, 0]]),
    "log_softmax with -inf": (lambda x: gt.log_softmax(x)[1], [[-INF, 0.0]], [[0, 0]]),
    "abs": (abs, [[-2.0, 0.0, 3.0]], [[-1, 0, 1]]),
    "equal extremes": (lambda x: x.max(), [[2.0, 1.0, 2.0]], [[0.5, 0, 0.5]]),
    "equal extremes of rows": (
        lambda x: x.min(1), [[[1.0, 1.0], [0.0, 1.0]]], [[[0.5, 0.5], [1, 0]]],
    ),
    "maximum of equals": (gt.maximum, [1.0, 1.0], [1, 0]),
    "minimum of equals": (gt.minimum, [1.0, 1.0], [1, 0]),
    "clip at its limits": (lambda x: gt.clip(x, 0.0, 1.0), [[0.0, 1.0, 2.0]], [[1, 1, 0]]),
    "prod with one zero": (lambda x: x.prod(), [[2.0, 0.0, 3.0]], [[0, 6, 0]]),
    "prod with two zeros": (lambda x: x.prod(), [[2.0, 0.0, 0.0]], [[0, 0, 0]]),
    "prod of nothing": (lambda x: x.prod(), [np.zeros(0)], [np.zeros(0)]),
    "sign": (gt.sign, [[-1.0, 0.0]], [[0, 0]]),
    "sqrt at 0": (gt.sqrt, [0.0], [INF]),
    "arctan2 of the axes": (gt.arctan2, [[0.0, 1.0], [1.0, 0.0]], [[1, 0], [0, -1]]),
    "tanh far out": (gt.tanh, [[-1000.0, 1000.0, INF]], [[0, 0, 0]]),
    "erf far out": (gt.erf, [[-1000.0, 1000.0, INF]], [[0, 0, 0]]),
    "log1mexp of a small number": (gt.log1mexp, [-1e-10], [-1e10]),
    "log1mexp of zeros": (gt.log1mexp, [[0.0, -0.0]], [[-INF, -INF]]),
    "expm1 of a small number": (gt.expm1, [-1000.0], [0]),
    "the angle of a complex zero": (gt.abs, [0j], [0]),
}  # fmt: skip


@pytest.mark.parametrize("what", AWKWARD)
def test_a_slope_at_an_awkward_point_is_the_one_chosen(what: str) -> None:
    f, points, expected = AWKWARD[what]
    arrays = [np.asarray(p) for p in points]
    xs = [gt.tensor(shape=p.shape, dtype=p.dtype) for p in arrays]
    slopes = graphc.grad(f(*xs).sum(), xs, disconnected_inputs="ignore")
    for slope, right in zip(
        evaluate(slopes, dict(zip(xs, arrays, strict=True))), expected, strict=True
    ):
        np.testing.assert_allclose(slope, right, rtol=1e-7, atol=1e-300)


SECOND: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "softplus": (gt.softplus, [-1000.0, 0.0, 1000.0], [0, 0.25, 0]),
    "log_sigmoid": (gt.log_sigmoid, [-1000.0, 0.0, 1000.0], [0, -0.25, 0]),
    "sigmoid": (gt.sigmoid, [-1000.0, 0.0, 1000.0], [0, 0, 0]),
    "a root where it is taken": (
        lambda x: gt.where(x > 0, gt.sqrt(x), 0), [0.0, 4.0], [0, -1 / 32],
    ),
    "a cube at 0": (lambda x: x**3, [0.0], [0]),
    "a square at 0": (lambda x: x**2, [0.0], [2]),
    "a norm squared at 0": (lambda x: gt.norm(x) ** 2, [0.0], [0]),
}  # fmt: skip


@pytest.mark.parametrize("what", SECOND)
def test_second_derivatives_at_awkward_points_are_finite(what: str) -> None:
    f, values, expected = SECOND[what]
    x = gt.tensor(shape=(len(values),))
    slope = graphc.grad(f(x).sum(), x)
    (second,) = evaluate([graphc.grad(slope.sum(), x)], {x: values})
    np.testing.assert_allclose(second, expected, atol=1e-15)


# Arguments.


def test_derivatives_come_in_the_container_of_their_variables() -> None:
    x, y = gt.vectors(2)
    cost = (x * y).sum() ** 2
    assert [g.type for g in graphc.grad(cost, [x, y])] == [x.type, y.type]
    for kind in (list, tuple):
        xs = kind([x, y])
        for found in (
            graphc.grad(cost, xs),
            graphc.jacobian(x * y, xs),
            graphc.hessian(cost, xs),
            graphc.hessian_vector_product(cost, xs, [x, y]),
            graphc.Lop(x * y, xs, x),
            graphc.Rop(kind([x * y, x]), x, y),
        ):
            assert type(found) is kind
    assert isinstance(graphc.grad(cost, x), Tensor)


def test_a_gradient_by_an_inner_node_is_by_that_node() -> None:
    x = gt.vector()
    h = gt.exp(x)
    (slope,) = evaluate([graphc.grad((h**2).sum(), h)], {x: [0.0, 1.0]})
    np.testing.assert_allclose(slope, 2 * np.exp([0.0, 1.0]))


def test_a_gradient_by_the_cost_is_one() -> None:
    x = gt.scalar()
    assert float(evaluate([graphc.grad(x, x)], {x: 3.0})[0]) == 1.0


def test_a_gradient_has_the_type_of_what_it_is_by() -> None:
    for dtype in ("float32", "complex64", "float16"):
        x = gt.tensor(shape=(3, None), dtype=dtype)
        cost = gt.real(x.sum() * gt.constant(2.0)).astype("float64")
        assert graphc.grad(cost, x).type.dtype == dtype
        assert graphc.grad(cost, x).ndim == 2


def test_an_input_without_influence_is_an_error() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    with pytest.raises(DisconnectedInputError, match=r"does not depend on y: float64\[\]"):
        graphc.grad(x * 2, [x, y])


def test_an_input_without_influence_can_be_warned_of() -> None:
    x, y = gt.scalar("x"), gt.vector("y")
    with pytest.warns(UserWarning, match="does not depend on y") as caught:
        slope = graphc.grad(x, y, disconnected_inputs="warn")
    assert caught[0].filename == __file__
    assert evaluate([slope], {y: [1.0, 2.0]})[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("returned", "none"), [("zero", False), ("none", True)])
def test_an_input_without_influence_can_be_ignored(returned: Any, none: bool) -> None:
    x, y = gt.scalar("x"), gt.vector("y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slope = graphc.grad(x, y, None, "ignore", return_disconnected=returned)
    assert (slope is None) is none


THROUGH: dict[str, Callable[[Any], Any]] = {
    "rounding": lambda x: gt.floor(x).sum(),
    "integers": lambda x: x.astype("int64").astype("float64").sum(),
    "comparison": lambda x: (x > 0).sum().astype("float64"),
    "an index": lambda x: gt.arange(3.0)[x[0].astype("int64")],
    "its length": lambda x: x.size.astype("float64"),
    "its shape": lambda x: gt.zeros(x.shape).sum(),
    "the place of the largest": lambda x: x.argmax().astype("float64"),
    "a barrier": lambda x: graphc.disconnected_grad(x).sum(),
}


@pytest.mark.parametrize("what", THROUGH)
def test_nothing_flows_through_what_is_not_continuous(what: str) -> None:
    x = gt.vector()
    with pytest.raises(DisconnectedInputError):
        graphc.grad(THROUGH[what](x), x)


def test_parts_considered_constant_let_nothing_through() -> None:
    x = gt.vector()
    h = x * x
    (slope,) = evaluate([graphc.grad((x * h).sum(), x, consider_constant=[h])], {x: [3.0]})
    assert slope.tolist() == [9.0]
    with pytest.raises(DisconnectedInputError):
        graphc.grad(h.sum(), x, h)


def test_known_gradients_start_in_the_middle() -> None:
    x = gt.vector("x")
    h = gt.exp(x)
    slope = graphc.grad(None, x, known_grads={h: gt.as_tensor([1.0, 10.0])})
    (found,) = evaluate([slope], {x: [0.0, 1.0]})
    np.testing.assert_allclose(found, [1.0, 10 * np.e])


def test_known_gradients_add_to_those_of_a_cost() -> None:
    x = gt.vector("x")
    h = x * 2
    slope = graphc.grad(h.sum(), x, known_grads={h: gt.as_tensor([10.0, 20.0])})
    assert evaluate([slope], {x: [0.0, 0.0]})[0].tolist() == [22.0, 42.0]


def test_a_pullback_is_a_vector_times_the_jacobian() -> None:
    x = gt.vector("x")
    fs = [x**2, gt.stack([x.sum(), x.prod()])]
    back = graphc.pullback(fs, [x], [gt.as_tensor([1.0, 10.0]), gt.as_tensor([0.5, 2.0])])
    (found,) = evaluate(back, {x: [3.0, 4.0]})
    np.testing.assert_allclose(found, [6 + 0.5 + 8, 80 + 0.5 + 6])
    assert graphc.Lop(x**2, x, gt.ones(2)) is graphc.pullback(x**2, x, gt.ones(2))


x, n = gt.vector("x"), gt.lvector("n")
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a vector as cost": (lambda: graphc.grad(x, x), GradientError, "not a scalar"),
    "an integer cost": (lambda: graphc.grad(n.sum(), x), GradientError, "not real floating"),
    "a complex cost": (lambda: graphc.grad((x * 1j).sum(), x), GradientError, "not real floating"),
    "no symbolic input": (lambda: graphc.grad(x.sum(), 3.0), GradientError, "not a symbolic array"),
    "neither cost nor gradients": (lambda: graphc.grad(None, x), ArgumentError, "neither a cost"),
    "an unknown choice": (
        lambda: graphc.grad(x.sum(), gt.scalar(), disconnected_inputs="no"), ArgumentError, "'no'",
    ),
    "cotangents of another number": (
        lambda: graphc.pullback([x, x], x, [x]), ArgumentError, "2 arrays and 1 cotangents",
    ),
    "a cotangent of another rank": (
        lambda: graphc.pullback(x, x, gt.scalar()), GradientError, "a cotangent of its shape",
    ),
    "the cotangent of an integer": (
        lambda: graphc.grad(None, x, known_grads={x: x.sum()}), GradientError, "its shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ERRORS)
def test_what_has_no_gradient_is_refused(what: str) -> None:
    make, error, message = ERRORS[what]
    with pytest.raises(error, match=message):
        make()


# Operations of others.


@dataclass(frozen=True, slots=True)
class Halves(Op):
    """Two results: sine and cosine."""

    def infer(self, x: Any) -> Any:
        return TupleType((x, x))

    def perform(self, x: Any) -> Any:
        return np.sin(x), np.cos(x)

    def pullback(self, g: Any, y: Any, x: Any) -> Any:
        by_sine, by_cosine = g
        parts = []
        if by_sine is not None:
            parts.append(by_sine * gt.cos(x))
        if by_cosine is not None:
            parts.append(-by_cosine * gt.sin(x))
        return (gt.add(*parts) if len(parts) > 1 else parts[0],)


def halves(x: Tensor) -> list[Tensor]:
    several = Node.make(Halves(), x)
    return [Tensor.make(Pick(i), several) for i in range(2)]


def test_several_results_are_differentiated_together() -> None:
    z = gt.tensor(shape=(4,))
    sine, cosine = halves(z)
    for cost in ((sine * cosine).sum(), (sine**2).sum(), gt.exp(cosine).sum()):
        check_gradient(cost, [z], {z: V})


def test_an_operation_without_a_pullback_is_named() -> None:
    @dataclass(frozen=True)
    class Plain(Op):
        def infer(self, x: Any) -> Any:
            return x

    with pytest.raises(UnsupportedOperationError, match="Plain has no derivative"):
        graphc.grad(Tensor.make(Plain(), x).sum(), x)


@pytest.mark.parametrize(
    ("returned", "message"), [((), "its pullback gave 0"), ((3.0,), "gave 3.0 for the input")]
)
def test_a_pullback_that_gives_no_gradient_is_named(returned: Any, message: str) -> None:
    @dataclass(frozen=True)
    class Wrong(Op):
        def infer(self, x: Any) -> Any:
            return x

        def pullback(self, g: Any, y: Any, x: Any) -> Any:
            return returned

    with pytest.raises(GradientError, match=message):
        graphc.grad(Tensor.make(Wrong(), x).sum(), x)


def test_a_gradient_needs_only_what_it_needs() -> None:
    z = gt.vector()
    unused = gt.exp(z)
    cost = (z * 2).sum() + graphc.disconnected_grad(unused).sum()
    assert unused not in toposort([graphc.grad(cost, z)])


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, data: ((data @ x - 1.5) ** 2).mean(),
        lambda x, data: gt.log(1 + gt.exp(-(data @ x) * data[:, 0])).mean(),
        lambda x, data: (2.5 / (data - x)).sum(),
    ],
    ids=["squares", "logistic", "quotients"],
)
def test_a_gradient_makes_no_node_that_it_does_not_use(loss: Callable[..., Any]) -> None:
    x = gt.tensor("x", shape=(4,))
    data = gt.constant(RNG.normal(size=(3, 4)))
    cost = loss(x, data)
    first = gt.scalar().serial
    gradient = graphc.grad(cost, x)
    last = gt.scalar().serial
    used = [node for node in toposort([gradient]) if node.serial > first]
    assert used
    assert len(used) == last - first - 1


def test_gradients_of_the_parts_of_a_graph_are_those_of_the_whole() -> None:
    x, w, v = gt.vector("x"), gt.vector("w"), gt.vector("v")
    h = gt.tanh(w * x)
    first, second = (h**2).sum(), (v * h).sum()
    (by_v,), (by_h,) = graphc.gradient.subgraph_grad([v], [h], cost=second)
    (by_w,), (by_x,), behind, own = graphc.gradient.subgraph_grad(
        [w], [x], start={h: by_h}, cost=first, details=True
    )
    values = {x: [1.0, 2.0], w: [0.5, -0.25], v: [3.0, 4.0]}
    expected = graphc.grad(first + second, [v, w, x])
    for found, whole in zip([by_v, by_w, by_x], expected, strict=True):
        np.testing.assert_allclose(
            found.eval(values, mode="NUMPY"),
            whole.eval(values, mode="NUMPY"),
        )
    assert [len(behind), len(own)] == [2, 2]
    with pytest.raises(ArgumentError, match="neither start nor cost"):
        graphc.gradient.subgraph_grad([w], [x])


@dataclass
class Layer:
    """Parameters of a layer."""

    w: Any
    b: Any


def test_grad_has_the_structure_of_wrt() -> None:
    w, b, s = gt.matrix("w"), gt.vector("b"), gt.scalar("s")
    cost = (w**2).sum() + (b**3).sum() + s
    wrt = {"layers": [Layer(w, b), (s,)], "again": b}
    slopes = graphc.grad(cost, wrt)
    assert list(slopes) == ["layers", "again"]
    assert isinstance(slopes["layers"][0], Layer)
    assert slopes["layers"][0].w is graphc.grad(cost, w)
    assert slopes["layers"][0].b is slopes["again"] is graphc.grad(cost, b)
    assert slopes["layers"][1] == (graphc.grad(cost, s),)
    rows = graphc.jacobian(b**2, {"b": b})
    assert rows["b"] is graphc.jacobian(b**2, b)
    with pytest.raises(GradientError, match="respect to None"):
        graphc.grad(cost, {"w": None})


def test_known_grads_of_integers_are_their_gradients() -> None:
    n, x, g = gt.ivector("n"), gt.vector("x"), gt.vector("g")
    slope = graphc.grad(None, n, known_grads={n: g})
    values = {n: [1, 2], x: [3.0, 4.0], g: [0.5, -2.0]}
    np.testing.assert_array_equal(slope.eval({g: values[g]}, mode="NUMPY"), [0.5, -2.0])
    both = graphc.grad((n * x).sum(), [n, x], known_grads={n: g})
    np.testing.assert_array_equal(both[0].eval({k: values[k] for k in (n, x, g)}), [3.5, 2.0])
    np.testing.assert_array_equal(both[1].eval({k: values[k] for k in (n, x)}), [1.0, 2.0])


def test_a_function_as_a_cost_is_an_error_that_says_to_call_it() -> None:
    w = gt.vector("w")
    for use in (
        lambda: graphc.grad(lambda w: (w**2).sum(), w),
        lambda: gt.optimize.root(lambda y: y**2 - 2, w),
        lambda: gt.optimize.minimize(lambda y: (y**2).sum(), w),
        lambda: gt.exp(np.sum),
    ):
        with pytest.raises(DTypeError, match="call it with symbolic arrays"):
            use()
