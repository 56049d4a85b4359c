"""Patterns match what they should, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.ir import Node
from graphc.rewrite import Equation, equation, rewrite, scalar_value
from graphc.rewrite.rule import RULES, EquationRule
from graphc.tensor import Tensor

x, y, z = gt.vector("x"), gt.vector("y"), gt.vector("z")
m = gt.matrix("m")
f = gt.fvector("f")


def one_plus(x: Tensor) -> Equation:
    return Equation(gt.log(1 + x), gt.log1p(x))


def factored(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    return Equation(a * b + a * c, a * (b + c))


def nothing_left(a: Tensor, b: Tensor) -> Equation:
    return Equation(a + b * 0, a)


def to_scalar(x: Tensor) -> Equation:
    return Equation(gt.sin(x), gt.as_tensor(0, dtype=x.dtype))


MATCHED = [
    (one_plus, gt.log(1 + x), gt.log1p(x)),
    (one_plus, gt.log(x + 1), gt.log1p(x)),
    (one_plus, gt.log(1 + f), gt.log1p(f)),
    (one_plus, gt.log(np.float32(1) + f), gt.log1p(f)),
    (one_plus, gt.log(np.float64(1) + f), gt.log1p(f.astype("float64"))),
    (one_plus, gt.log(1 + (x * y)), gt.log1p(x * y)),
    (factored, x * y + x * z, x * (y + z)),
    (factored, y * x + z * x, x * (y + z)),
    (factored, z * y + x * z, z * (y + x)),
    (nothing_left, m + x * 0, m),
    (nothing_left, x + m * 0, gt.broadcast_to(x, m.shape)),
    (to_scalar, gt.sin(x), gt.zeros_like(x)),
]

NOT_MATCHED = [
    (one_plus, gt.log(2 + x)),
    (one_plus, gt.log(1 - x)),
    (one_plus, gt.exp(1 + x)),
    (one_plus, gt.log(gt.constant([1.0, 1.0]) + x)),
    (factored, x * y + z * z),
    (nothing_left, gt.scalar("s") + gt.constant([1, 2, 3]) * 0),
]


def rule(function: object) -> EquationRule:
    return EquationRule("canonicalize", function)  # type: ignore[arg-type]


@pytest.mark.parametrize(("function", "node", "expected"), MATCHED)
def test_the_equation_finds_its_left_side(function: object, node: Node, expected: Node) -> None:
    assert rule(function).apply(node) is expected


@pytest.mark.parametrize(("function", "node"), NOT_MATCHED)
def test_the_equation_leaves_other_graphs(function: object, node: Node) -> None:
    found = rule(function).apply(node)
    assert found is None


NUMBERS = [
    (gt.constant(2), 2),
    (gt.constant(2.5, dtype="float32"), 2.5),
    (gt.constant([3, 3, 3]), 3),
    (gt.constant([3, 4]), None),
    (gt.constant(np.zeros(0)), None),
    (gt.ones((2, 3)), 1.0),
    (gt.expand_dims(gt.constant(True), 0), True),
    (gt.cast(gt.constant(2.5), "int8"), 2),
    (gt.cast(gt.full((20, 3), -1.0), "uint8"), 255),
    (gt.constant(1.5, dtype="bfloat16"), 1.5),
    (gt.constant([0.0, -0.0]), None),
    (x, None),
]


@pytest.mark.parametrize(("node", "value"), NUMBERS)
def test_the_number_of_an_array_of_one_number(node: Node, value: object) -> None:
    found = scalar_value(node)
    assert found == value
    assert type(found) is type(value)


def test_a_name_is_taken_once() -> None:
    def sum_with_zero(x: Tensor) -> Equation:
        return Equation(x + 0, x)

    with pytest.raises(ArgumentError, match="two rules"):
        equation("canonicalize")(sum_with_zero)


def test_a_pass_must_exist() -> None:
    with pytest.raises(ArgumentError, match="tidy"):
        rewrite("tidy", gt.add)(lambda node, op: None)


def test_every_rule_says_what_holds() -> None:
    assert [rule.name for rule in RULES.values() if not rule.meaning.endswith((".", "is."))] == []
