"""Rules of exponentials and logarithms: forms that neither overflow nor lose digits."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from graphc.ir import Node, is_float, is_inexact
from graphc.rewrite.algebra import factors as algebra
from graphc.rewrite.algebra.exponentials import exponentials, log_of_exponentials
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, enter_equation, equation, rewrite, scalar_value
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.core.exponential import (
    exp,
    exp2,
    expm1,
    log,
    log1mexp,
    log1p,
    log2,
    log10,
    logaddexp,
    power,
    sigmoid,
    softplus,
)
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import cosh, tanh

stable = partial(enter_equation, "stabilize", is_float)
stable_inexact = partial(enter_equation, "stabilize", is_inexact)

LN2, LN10 = math.log(2), math.log(10)

# log1p of complex numbers loses more digits in NumPy than log(1 + x) does, so these are real.

stable(
    "log_of_one_plus",
    lambda x: (log(1 + x), log1p(x)),
    ": 1 + x rounds off the digits of a small x",
)
stable(
    "log_of_one_minus",
    lambda x: (log(1 - x), log1p(-x)),
    ": 1 - x rounds off the digits of a small x",
)
stable_inexact("exp_minus_one", lambda x: (exp(x) - 1, expm1(x)), ": exp of a small x rounds to 1")
stable_inexact("one_minus_exp", lambda x: (1 - exp(x), -expm1(x)), ": exp of a small x rounds to 1")
stable(
    "log_of_exp", lambda x: (log(exp(x)), x), ": exp overflows from x = 710 on, and is 0 below -745"
)
stable(
    "log1p_of_expm1",
    lambda x: (log1p(expm1(x)), x),
    ": expm1 overflows from x = 710 on, and is -1 below -37",
)
stable("log1p_of_exp", lambda x: (log1p(exp(x)), softplus(x)), ": exp overflows from x = 710 on")
stable(
    "log1p_of_minus_exp",
    lambda x: (log1p(-exp(x)), log1mexp(x)),
    ", which uses expm1 for a small x",
)
stable(
    "log_of_minus_expm1",
    lambda x: (log(-expm1(x)), log1mexp(x)),
    ", which uses log1p for a very negative x",
)
enter_equation(
    "specialize", is_float, "log_of_sum_of_one_and_exp", lambda x: (logaddexp(0, x), softplus(x))
)


# Functions of statistics.

stable(
    "one_over_one_plus_exp",
    lambda x: (1 / (1 + exp(x)), sigmoid(-x)),
    ", which keeps the digits of its tail",
)
stable(
    "one_minus_sigmoid",
    lambda x: (1 - sigmoid(x), sigmoid(-x)),
    ": sigmoid of a large x rounds to 1",
)
stable("log_of_sigmoid", lambda x: (log(sigmoid(x)), -softplus(-x)), ": sigmoid is 0 below -745")
stable(
    "log1p_of_minus_sigmoid",
    lambda x: (log1p(-sigmoid(x)), -softplus(x)),
    ": sigmoid rounds to 1 from x = 37 on",
)
stable(
    "quotient_by_one_plus_exp",
    lambda a, x: (a / (1 + exp(x)), a * sigmoid(-x)),
    ": exp overflows from x = 710 on",
)
stable(
    "sigmoid_minus_one",
    lambda x: (sigmoid(x) - 1, -sigmoid(-x)),
    ": sigmoid of a large x rounds to 1",
)
stable(
    "twice_sigmoid_minus_one",
    lambda x: (2 * sigmoid(x) - 1, tanh(x / 2)),
    ": sigmoid of a small x rounds to 1/2",
)


# Exponentials and logarithms of each other.

stable(
    "exp_of_log",
    lambda x: (exp(log(x)), ew.where(ew.greater_equal(x, 0), x, np.nan)),
    ": log of a large x keeps few digits of it",
)
stable(
    "exp_of_minus_log",
    lambda x: (exp(-log(x)), ew.where(ew.greater_equal(x, 0), 1 / ew.abs(x), np.nan)),
    ": log of a large x keeps few digits of it",
)
stable(
    "exp_of_log1p",
    lambda x: (exp(log1p(x)), ew.where(ew.greater_equal(x, -1), 1 + x, np.nan)),
    ": log1p of a large x keeps few digits of it",
)
stable(
    "expm1_of_log1p",
    lambda x: (expm1(log1p(x)), ew.where(ew.greater_equal(x, -1), x, np.nan)),
    ": log1p of a large x keeps few digits of it",
)
stable(
    "expm1_of_log",
    lambda x: (expm1(log(x)), ew.where(ew.greater_equal(x, 0), x - 1, np.nan)),
    ": log of a large x keeps few digits of it",
)
stable(
    "exp2_of_log2",
    lambda x: (exp2(log2(x)), ew.where(ew.greater_equal(x, 0), x, np.nan)),
    ": log2 of a large x keeps few digits of it",
)
stable(
    "log2_of_exp2",
    lambda x: (log2(exp2(x)), x),
    ": exp2 overflows from x = 1024 on, and is 0 below -1075",
)


@equation("stabilize", dtypes=is_float)
def log_of_exp2(x: Tensor) -> Equation:
    """``log(exp2(x))`` is ``x * log(2)``: exp2 overflows from x = 1024 on, and is 0 below -1075."""
    return Equation(log(exp2(x)), x * LN2)


@equation("stabilize", dtypes=is_float)
def log2_of_exp(x: Tensor) -> Equation:
    """``log2(exp(x))`` is ``x / log(2)``: exp overflows from x = 710 on, and is 0 below -745."""
    return Equation(log2(exp(x)), x * (1 / LN2))


@equation("stabilize", dtypes=is_float)
def log10_of_exp(x: Tensor) -> Equation:
    """``log10(exp(x))`` is ``x / log(10)``: exp overflows from x = 710 on, and is 0 below -745."""
    return Equation(log10(exp(x)), x * (1 / LN10))


stable(
    "exp_of_softplus",
    lambda x: (exp(softplus(x)), 1 + exp(x)),
    ": a large logarithm has few digits",
)
stable(
    "exp_of_minus_softplus",
    lambda x: (exp(-softplus(x)), sigmoid(-x)),
    ": a large logarithm has few digits",
)
stable(
    "expm1_of_softplus",
    lambda x: (expm1(softplus(x)), exp(x)),
    ": a large logarithm has few digits",
)
stable("expm1_of_minus_softplus", lambda x: (expm1(-softplus(x)), -sigmoid(x)))
stable(
    "exp_of_logaddexp",
    lambda a, b: (exp(logaddexp(a, b)), exp(a) + exp(b)),
    ": a large logarithm has few digits",
)
stable(
    "exp_of_log1mexp",
    lambda x: (exp(log1mexp(x)), ew.where(ew.less_equal(x, 0), -expm1(x), np.nan)),
    ": a large logarithm has few digits",
)
stable(
    "one_plus_expm1", lambda x: (1 + expm1(x), exp(x)), ": expm1 of a very negative x rounds to -1"
)
stable("sqrt_of_exp", lambda x: (ew.sqrt(exp(x)), exp(x / 2)), ": exp overflows from x = 710 on")
stable("one_over_exp", lambda x: (1 / exp(x), exp(-x)), ": exp overflows from x = 710 on")


@rewrite("stabilize", power)
def power_of_exp(node: Node, op: object) -> Node | None:
    """``exp(x)**n`` is ``exp(n * x)``: exp overflows before a root of it does."""
    base, exponent = node.inputs
    n = scalar_value(exponent)
    if base.op is not exp or not is_float(node.type.dtype) or not n or not math.isfinite(n):
        return None
    return fit_to(exp(ew.multiply(n, *base.inputs)), node)


stable("log_of_sqrt", lambda x: (log(ew.sqrt(x)), log(x) / 2), ": the square root adds a rounding")
stable(
    "log_of_square",
    lambda x: (log(ew.square(x)), 2 * log(ew.abs(x))),
    ": the square overflows from 1e154 on",
)


@rewrite("stabilize", log, log2, log10)
def log_of_power(node: Node, op: ew.Elementwise) -> Node | None:
    """``log(x**n)`` is ``n * log(x)``: the power overflows or is 0 where its logarithm is finite.

    The base or the exponent must be constant: an even exponent makes the power of a negative base
    positive.
    """
    (x,) = node.inputs
    if x.op is not power or not is_float(node.type.dtype):
        return None
    base, exponent = x.inputs
    c, n = scalar_value(base), scalar_value(exponent)
    if c is not None and c > 0 and c != 1 and math.isfinite(c):
        return fit_to(ew.multiply(exponent, op(base)), node)
    if not n or not math.isfinite(n):
        return None
    return fit_to(ew.multiply(n, op(ew.abs(base) if n % 2 == 0 else base)), node)


@equation("stabilize", dtypes=is_float)
def log2_of_one_plus(x: Tensor) -> Equation:
    """``log2(1 + x)`` is ``log1p(x) / log(2)``: 1 + x rounds off the digits of a small x."""
    return Equation(log2(1 + x), log1p(x) * (1 / LN2))


@equation("stabilize", dtypes=is_float)
def log10_of_one_plus(x: Tensor) -> Equation:
    """``log10(1 + x)`` is ``log1p(x) / log(10)``: 1 + x rounds off the digits of a small x."""
    return Equation(log10(1 + x), log1p(x) * (1 / LN10))


stable(
    "log_of_expm1", lambda x: (log(expm1(x)), x + log1mexp(-x)), ": expm1 overflows from x = 710 on"
)


@equation("stabilize", dtypes=is_float)
def log_of_difference_of_exps(a: Tensor, b: Tensor) -> Equation:
    """``log(exp(a) - exp(b))`` is ``a + log1mexp(b - a)``, which does not overflow."""
    difference = ew.where(ew.equal(a, b), 0, b - a)
    return Equation(log(exp(a) - exp(b)), a + log1mexp(difference))


@rewrite("stabilize", log, log2, log10)
def log_of_product_with_exp(node: Node, op: ew.Elementwise) -> Node | None:
    """``log(c * exp(x))`` is ``log(c) + x``: exp overflows where its logarithm is finite.

    So are ``log(c * sum(exp(x)))`` and ``log(mean(exp(x)))``.
    """
    (x,) = node.inputs
    if (x.op is not ew.multiply and x.op is not ew.divide) or not is_float(node.type.dtype):
        return None
    factor = next((f for f in algebra.factors(x) if _has_log(f)), None)
    if factor is None:
        return None
    rest = op(algebra.rebuild_any_type(x, {factor.path: algebra.GONE}))
    y = op(factor.node)
    return fit_to(rest - y if factor.below else rest + y, node)


def _has_log(f: algebra.Factor) -> bool:
    """Return whether a factor is positive, with a logarithm that is finite where it is not."""
    if f.kind is Sum:
        total = f.node.inputs[0] if isinstance(f.node.op, ExpandDims) else f.node
        return total.inputs[0].op is exp
    inner = f.node.inputs[0] if isinstance(f.node.op, Index) else f.node
    return inner.op in {exp, exp2, sigmoid, cosh} or len(exponentials(f.node)) > 1


@rewrite("stabilize", log, log1p)
def log_of_exponential_terms(node: Node, op: ew.Elementwise) -> Node | None:
    """``log(2 * exp(a) + exp(b) + 3)`` is a ``logaddexp``, which does not overflow."""
    (x,) = node.inputs
    if not is_float(node.type.dtype):
        return None
    summands = exponentials(x)
    if op is log1p and summands:
        summands = [(None, 1.0), *summands]
    return fit_to(log_of_exponentials(summands), node) if len(summands) > 1 else None


# Pairs of factors, as in derivatives of logarithms: one overflows, or rounds to 0, and the other is
# a share of it.

algebra.cancelling(exp2, power, softplus)


@rewrite("stabilize", ew.multiply, ew.divide)
def factors_together(node: Node, op: object) -> Node | None:
    """``exp(x) * (g / (1 + exp(x)))`` is ``g * sigmoid(x)``: a factor that overflows cancels.

    Sums among the factors are expanded where a term needs it. A NaN or an infinity cancels with its
    factor.
    """
    return algebra.combine_factors(node) if is_float(node.type.dtype) else None


@rewrite("stabilize", ew.multiply, ew.divide)
def product_of_exps(node: Node, op: object) -> Node | None:
    """``g * exp(a) / exp(b)`` is ``g * exp(a - b)``: either exp may overflow.

    With other factors it is ``g * h * h`` with ``h = exp((a - b) / 2)``, which overflows only if
    the product does. Exponentials of smaller shapes than the product stay. All stay if the product
    has too many factors to list: the same exponential may be a factor that is not listed.
    """
    if not is_float(node.type.dtype) or not algebra.is_steep(node):
        return None
    all_factors = algebra.factors(node)
    if len(all_factors) >= algebra.MAX_FACTORS:
        return None
    exps = [f for f in all_factors if f.node.op is exp and f.node.type.shape == node.type.shape]
    if len({f.node for f in exps}) < 2:
        return None
    first, *_, last = exps
    total = first.node.inputs[0]
    for f in exps[1:]:
        (a,) = f.node.inputs
        total = total + a if f.below == first.below else total - a
    changes = {f.path: algebra.GONE for f in exps}
    if all(scalar_value(f.node) is not None for f in all_factors if f not in exps):
        changes[first.path] = algebra.Replacement(exp(total))
    else:
        root = exp(total / 2)
        changes[first.path] = algebra.Replacement(root)
        changes[last.path] = algebra.Replacement(root, first.below != last.below)
    return algebra.rebuild(node, changes)  # type: ignore[no-any-return]


@rewrite("stabilize", ew.subtract)
def difference_of_opposite_sigmoids(node: Node, op: object) -> Node | None:
    """``sigmoid(x) - sigmoid(-x)`` is ``tanh(x / 2)``: both are near 1/2 for a small x."""
    p, q = node.inputs
    if p.op is not sigmoid or q.op is not sigmoid or not algebra.is_minus(*p.inputs, *q.inputs):
        return None
    return fit_to(tanh(ew.divide(p.inputs[0], 2)), node)
