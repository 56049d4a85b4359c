"""Rules of trigonometric and hyperbolic functions: forms that neither overflow nor cancel."""

from __future__ import annotations

import math

from graphc.ir import Node, is_float
from graphc.rewrite.algebra.factors import is_minus, multiple
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, equation, rewrite
from graphc.tensor.core.elementwise import abs, add, less, square, subtract, where
from graphc.tensor.core.exponential import exp, log, log1mexp, log1p, sigmoid
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import arctanh, cos, cosh, sin, sinh, tanh


@equation("stabilize", dtypes=is_float)
def one_minus_cos(x: Tensor) -> Equation:
    """``1 - cos(x)`` is ``2 * sin(x / 2)**2``: cos of a small x rounds to 1."""
    return Equation(1 - cos(x), 2 * square(sin(x / 2)))


@equation("stabilize", dtypes=is_float)
def cos_minus_one(x: Tensor) -> Equation:
    """``cos(x) - 1`` is ``-2 * sin(x / 2)**2``: cos of a small x rounds to 1."""
    return Equation(cos(x) - 1, -2 * square(sin(x / 2)))


@equation("stabilize", dtypes=is_float)
def exp_minus_exp_of_negative(x: Tensor) -> Equation:
    """``exp(x) - exp(-x)`` is ``2 * sinh(x)``: both exps of a small x round to 1."""
    return Equation(exp(x) - exp(-x), 2 * sinh(x))


@equation("stabilize", dtypes=is_float)
def exp_of_negative_minus_exp(x: Tensor) -> Equation:
    """``exp(-x) - exp(x)`` is ``-2 * sinh(x)``: both exps of a small x round to 1."""
    return Equation(exp(-x) - exp(x), -2 * sinh(x))


@rewrite("stabilize", add, subtract)
def difference_of_scaled_exps(node: Node, op: object) -> Node | None:
    """``0.5 * exp(x) - 0.5 * exp(-x)`` is ``sinh(x)``, which keeps the digits of a small x."""
    if not is_float(node.type.dtype):
        return None
    (c, p), (d, q) = map(multiple, node.inputs)
    if p.op is not exp or q.op is not exp or c != (-d if op is add else d):
        return None
    if not is_minus(*p.inputs, *q.inputs):
        return None
    return fit_to((2 * c) * sinh(*p.inputs), node)


@equation("stabilize", dtypes=is_float)
def one_plus_tanh(x: Tensor) -> Equation:
    """``1 + tanh(x)`` is ``2 * sigmoid(2 * x)``: tanh of a very negative x rounds to -1."""
    return Equation(1 + tanh(x), 2 * sigmoid(2 * x))


@equation("stabilize", dtypes=is_float)
def one_minus_tanh(x: Tensor) -> Equation:
    """``1 - tanh(x)`` is ``2 * sigmoid(-2 * x)``: tanh of a large x rounds to 1."""
    return Equation(1 - tanh(x), 2 * sigmoid(-2 * x))


@equation("stabilize", dtypes=is_float)
def half_of_exp_and_exp_of_negative(x: Tensor) -> Equation:
    """``(exp(x) + exp(-x)) / 2`` is ``cosh(x)``: exp overflows before its half."""
    return Equation((exp(x) + exp(-x)) / 2, cosh(x))


@equation("stabilize", dtypes=is_float)
def half_times_exp_and_exp_of_negative(x: Tensor) -> Equation:
    """``0.5 * (exp(x) + exp(-x))`` is ``cosh(x)``: exp overflows before its half."""
    return Equation(0.5 * (exp(x) + exp(-x)), cosh(x))


@equation("stabilize", dtypes=is_float)
def sinh_over_cosh(x: Tensor) -> Equation:
    """``sinh(x) / cosh(x)`` is ``tanh(x)``: from x = 711 on, ``inf / inf`` is NaN."""
    return Equation(sinh(x) / cosh(x), tanh(x))


@equation("stabilize", dtypes=is_float)
def log_of_cosh(x: Tensor) -> Equation:
    """``log(cosh(x))`` without overflow from x = 711 on, and with the digits of a small x."""
    magnitude = abs(x)
    near = log1p(2 * square(sinh(x / 2)))
    far = magnitude + log1p(exp(-2 * magnitude)) - math.log(2)
    return Equation(log(cosh(x)), where(less(magnitude, 1), near, far))


@equation("stabilize", dtypes=is_float)
def log_of_sinh(x: Tensor) -> Equation:
    """``log(sinh(x))`` is ``x + log1mexp(-2 * x) - log(2)``: sinh overflows from x = 711 on."""
    return Equation(log(sinh(x)), x + log1mexp(-2 * x) - math.log(2))


@equation("stabilize", dtypes=is_float)
def arctanh_by_hand(x: Tensor) -> Equation:
    """``log((1 + x) / (1 - x))`` is ``2 * arctanh(x)``, which keeps the digits of a small x."""
    return Equation(log((1 + x) / (1 - x)), 2 * arctanh(x))
