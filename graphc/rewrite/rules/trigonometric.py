"""Rules of trigonometric and hyperbolic functions: forms that neither overflow nor cancel."""

from __future__ import annotations

import math

from graphc.ir import Node, is_float
from graphc.rewrite.algebra.factors import multiple, opposite
from graphc.rewrite.facts.lengths import fitted
from graphc.rewrite.rule import Equation, equation, rewrite
from graphc.tensor.core.elementwise import abs, add, less, square, subtract, where
from graphc.tensor.core.exponential import exp, log, log1mexp, log1p, sigmoid
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import arctanh, cos, cosh, sin, sinh, tanh


@equation("stabilize", dtypes=is_float)
def one_minus_cos(x: Tensor) -> Equation:
    """``cos`` is next to 1 for a small x, and the difference is lost."""
    return Equation(1 - cos(x), 2 * square(sin(x / 2)))


@equation("stabilize", dtypes=is_float)
def cos_minus_one(x: Tensor) -> Equation:
    """``cos`` is next to 1 for a small x, and the difference is lost."""
    return Equation(cos(x) - 1, -2 * square(sin(x / 2)))


@equation("stabilize", dtypes=is_float)
def exp_minus_exp_of_negative(x: Tensor) -> Equation:
    """Both are next to 1 for a small x, and the difference is lost."""
    return Equation(exp(x) - exp(-x), 2 * sinh(x))


@equation("stabilize", dtypes=is_float)
def exp_of_negative_minus_exp(x: Tensor) -> Equation:
    """Both are next to 1 for a small x, and the difference is lost."""
    return Equation(exp(-x) - exp(x), -2 * sinh(x))


@rewrite("stabilize", add, subtract)
def difference_of_scaled_exps(node: Node, op: object) -> Node | None:
    """``0.5 * exp(x) - 0.5 * exp(-x)``: the difference is lost for a small x."""
    if not is_float(node.type.dtype):
        return None
    (c, p), (d, q) = map(multiple, node.inputs)
    if p.op is not exp or q.op is not exp or c != (-d if op is add else d):
        return None
    if not opposite(*p.inputs, *q.inputs):
        return None
    return fitted((2 * c) * sinh(*p.inputs), node)


@equation("stabilize", dtypes=is_float)
def one_plus_tanh(x: Tensor) -> Equation:
    """``tanh`` is next to -1 for a very negative x, and the sum is lost."""
    return Equation(1 + tanh(x), 2 * sigmoid(2 * x))


@equation("stabilize", dtypes=is_float)
def one_minus_tanh(x: Tensor) -> Equation:
    """``tanh`` is next to 1 for a large x, and the difference is lost."""
    return Equation(1 - tanh(x), 2 * sigmoid(-2 * x))


@equation("stabilize", dtypes=is_float)
def half_of_exp_and_exp_of_negative(x: Tensor) -> Equation:
    """The exponential overflows before its half does."""
    return Equation((exp(x) + exp(-x)) / 2, cosh(x))


@equation("stabilize", dtypes=is_float)
def half_times_exp_and_exp_of_negative(x: Tensor) -> Equation:
    """The exponential overflows before its half does."""
    return Equation(0.5 * (exp(x) + exp(-x)), cosh(x))


@equation("stabilize", dtypes=is_float)
def sinh_over_cosh(x: Tensor) -> Equation:
    """``inf / inf`` is NaN from x = 711 on, where tanh is 1."""
    return Equation(sinh(x) / cosh(x), tanh(x))


@equation("stabilize", dtypes=is_float)
def log_of_cosh(x: Tensor) -> Equation:
    """``cosh`` overflows from x = 711 on, and is next to 1 for a small x."""
    size = abs(x)
    near = log1p(2 * square(sinh(x / 2)))
    far = size + log1p(exp(-2 * size)) - math.log(2)
    return Equation(log(cosh(x)), where(less(size, 1), near, far))


@equation("stabilize", dtypes=is_float)
def log_of_sinh(x: Tensor) -> Equation:
    """``sinh`` overflows from x = 711 on."""
    return Equation(log(sinh(x)), x + log1mexp(-2 * x) - math.log(2))


@equation("stabilize", dtypes=is_float)
def arctanh_by_hand(x: Tensor) -> Equation:
    """Both are next to 1 for a small x, and so is their quotient."""
    return Equation(log((1 + x) / (1 - x)), 2 * arctanh(x))
