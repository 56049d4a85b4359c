"""Exponentials among the terms of a sum, or factors of a product, and logarithms of their sums."""

from __future__ import annotations

import math
from typing import Any

from graphc.ir import Node
from graphc.rewrite.algebra.factors import (
    GONE,
    Factor,
    Replacement,
    is_minus,
    multiple,
    terms,
    together,
)
from graphc.rewrite.rule import scalar_value
from graphc.tensor.core.elementwise import add, subtract
from graphc.tensor.core.exponential import exp, expm1, logaddexp, sigmoid
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.core.trigonometric import cosh, sinh, tanh

Term = tuple[Any, float]
"""``c exp(a)`` as a and c; without an a, c."""


def exponentials(y: Node) -> list[Term]:
    """Return the terms of a sum of exponentials and positive constants; [] for other nodes."""
    result = []
    for x, is_subtracted in terms(y):
        term = _exponential(x)
        if term is None or is_subtracted:
            return []
        result.append(term)
    return result if any(a is not None for a, _ in result) else []


def _exponential(x: Node) -> Term | None:
    scale, x = multiple(x)
    a, c = (x.inputs[0], 1.0) if x.op is exp else (None, scalar_value(x))
    return (a, c * scale) if c is not None and 0 < c * scale < math.inf else None


def log_of_exponentials(summands: list[Term]) -> Tensor:
    """Return the logarithm of the sum of these terms."""
    constant = sum(c for a, c in summands if a is None)
    logs = [a if c == 1 else a + math.log(c) for a, c in summands if a is not None]
    total: Any = logs[0]
    for x in logs[1:]:
        total = logaddexp(total, x)
    return logaddexp(total, math.log(constant)) if constant else as_tensor(total)


Changes = tuple[Replacement, Replacement] | None


@together(exp, exp)
def exp_and_exp(f: Factor, g: Factor) -> Changes:
    """``exp(a) * exp(-a)`` is 1."""
    return (GONE, GONE) if f.below == g.below and is_minus(*f.node.inputs, *g.node.inputs) else None


@together(exp, sigmoid)
def exp_and_sigmoid(f: Factor, g: Factor) -> Changes:
    """``exp(-b) * sigmoid(b)`` is ``sigmoid(-b)``, and ``exp(b) / sigmoid(b)`` ``1 + exp(b)``."""
    (a,), (b,) = f.node.inputs, g.node.inputs
    if not g.below and not f.below and is_minus(a, b):
        return GONE, Replacement(sigmoid(a))
    if not g.below and f.below and a is b:
        return GONE, Replacement(sigmoid(-a))
    if g.below and not f.below and a is b:
        return Replacement(1 + f.node), GONE
    return None


@together(sigmoid, sigmoid)
def sigmoid_and_sigmoid(f: Factor, g: Factor) -> Changes:
    """``sigmoid(a) / sigmoid(-a)`` is ``exp(a)``."""
    (a,), (b,) = f.node.inputs, g.node.inputs
    return (Replacement(exp(a)), GONE) if g.below and not f.below and is_minus(a, b) else None


@together(exp, expm1)
def exp_and_expm1(f: Factor, g: Factor) -> Changes:
    """``expm1(a) / exp(a)`` is ``-expm1(-a)``; ``exp(a) * expm1(-a)`` is ``-expm1(a)``."""
    (a,), (b,) = f.node.inputs, g.node.inputs
    if f.below != g.below and a is b:
        return GONE, Replacement(-expm1(-a))
    if f.below == g.below and is_minus(a, b):
        return GONE, Replacement(-expm1(a))
    return None


@together(expm1, sigmoid)
def expm1_and_sigmoid(f: Factor, g: Factor) -> Changes:
    """``(exp(a) - 1) / (exp(a) + 1)`` is ``tanh(a / 2)``."""
    (a,), (b,) = f.node.inputs, g.node.inputs
    return (
        (Replacement(tanh(a / 2)), GONE) if not f.below and not g.below and is_minus(a, b) else None
    )


@together(exp, add)
def exp_and_sum(f: Factor, g: Factor) -> Changes:
    """``exp(a) / (exp(a) + exp(b))`` is ``sigmoid(a - b)``, and so for more terms."""
    if f.below or not g.below:
        return None
    (a,) = f.node.inputs
    summands = exponentials(g.node)
    top = next((term for term in summands if term[0] is a), None)
    if top is None or len(summands) < 2:
        return None
    rest = [term for term in summands if term is not top]
    if len(rest) == 1:
        ((b, c),) = rest
        delta = a if b is None else a - b
        share: Any = sigmoid(delta if c == top[1] else delta + math.log(top[1] / c))
    else:
        others = [exp(-a if b is None else b - a) * (c / top[1]) for b, c in rest]
        share = 1 / sum(others, 1)
    return Replacement(share if top[1] == 1 else share / top[1]), GONE


@together(exp, subtract)
def exp_and_difference(f: Factor, g: Factor) -> Changes:
    """``exp(a) / (exp(a) - exp(b))`` is ``1 / (1 - exp(b - a))``, and so for ``exp(b)``."""
    p, q = g.node.inputs
    if f.below or not g.below or p.op is not exp or q.op is not exp:
        return None
    (a,), (b,) = p.inputs, q.inputs
    if f.node is p:
        return GONE, Replacement(-expm1(b - a))
    return (GONE, Replacement(expm1(a - b))) if f.node is q else None


@together(sinh, cosh)
def sinh_and_cosh(f: Factor, g: Factor) -> Changes:
    """``sinh(a) / cosh(a)`` is ``tanh(a)``."""
    (a,) = f.node.inputs
    return (Replacement(tanh(a)), GONE) if f.below != g.below and g.node.inputs[0] is a else None


@together(sinh, add)
def sinh_and_sum(f: Factor, g: Factor) -> Changes:
    """``2 sinh(a) / (exp(a) + exp(-a))`` is ``tanh(a)``."""
    (a,) = f.node.inputs
    arguments = [x.inputs[0] for x in g.node.inputs if x.op is exp]
    if f.below or not g.below or len(arguments) < 2 or a not in arguments:
        return None
    return (Replacement(tanh(a) / 2), GONE) if is_minus(*arguments) else None
