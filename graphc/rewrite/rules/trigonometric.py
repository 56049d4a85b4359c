"""Rules of trigonometric and hyperbolic functions: forms that neither overflow nor cancel."""

from __future__ import annotations

import math
from functools import partial

from graphc.ir import Node, is_float
from graphc.rewrite.algebra.factors import is_minus, multiple
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, enter_equation, equation, rewrite
from graphc.tensor.core.elementwise import abs, add, less, square, subtract, where
from graphc.tensor.core.exponential import exp, log, log1mexp, log1p, sigmoid
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import arctanh, cos, cosh, sin, sinh, tanh

stable = partial(enter_equation, "stabilize", is_float)


stable(
    "one_minus_cos",
    lambda x: (1 - cos(x), 2 * square(sin(x / 2))),
    ": cos of a small x rounds to 1",
)
stable(
    "cos_minus_one",
    lambda x: (cos(x) - 1, -2 * square(sin(x / 2))),
    ": cos of a small x rounds to 1",
)
stable(
    "exp_of_negative_minus_exp",
    lambda x: (exp(-x) - exp(x), -2 * sinh(x)),
    ": both exps of a small x round to 1",
)


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


stable(
    "one_plus_tanh",
    lambda x: (1 + tanh(x), 2 * sigmoid(2 * x)),
    ": tanh of a very negative x rounds to -1",
)
stable(
    "one_minus_tanh",
    lambda x: (1 - tanh(x), 2 * sigmoid(-2 * x)),
    ": tanh of a large x rounds to 1",
)
stable(
    "half_of_exp_and_exp_of_negative",
    lambda x: ((exp(x) + exp(-x)) / 2, cosh(x)),
    ": exp overflows before its half",
)
stable(
    "half_times_exp_and_exp_of_negative",
    lambda x: (0.5 * (exp(x) + exp(-x)), cosh(x)),
    ": exp overflows before its half",
)


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


stable(
    "arctanh_by_hand",
    lambda x: (log((1 + x) / (1 - x)), 2 * arctanh(x)),
    ", which keeps the digits of a small x",
)
