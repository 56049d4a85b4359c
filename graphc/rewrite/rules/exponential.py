"""Rules of exponentials and logarithms: forms that neither overflow nor lose digits."""

from __future__ import annotations

import math

import numpy as np

from graphc.ir import Node, is_float, is_inexact
from graphc.rewrite.algebra.exponentials import exponentials, log_of_exponentials
from graphc.rewrite.algebra.factors import (
    GONE,
    MAX_FACTORS,
    Factor,
    Replacement,
    cancelling,
    combine_factors,
    factors,
    is_minus,
    is_steep,
    rebuild,
    rebuild_any_type,
)
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, equation, rewrite, scalar_value
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.core.elementwise import (
    Elementwise,
    abs,
    divide,
    equal,
    greater_equal,
    less_equal,
    multiply,
    sqrt,
    square,
    subtract,
    where,
)
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

LN2, LN10 = math.log(2), math.log(10)

# log1p of complex numbers loses more digits in NumPy than log(1 + x) does, so these are real.


@equation("stabilize", dtypes=is_float)
def log_of_one_plus(x: Tensor) -> Equation:
    """``log(1 + x)`` is ``log1p(x)``: 1 + x rounds off the digits of a small x."""
    return Equation(log(1 + x), log1p(x))


@equation("stabilize", dtypes=is_float)
def log_of_one_minus(x: Tensor) -> Equation:
    """``log(1 - x)`` is ``log1p(-x)``: 1 - x rounds off the digits of a small x."""
    return Equation(log(1 - x), log1p(-x))


@equation("stabilize", dtypes=is_inexact)
def exp_minus_one(x: Tensor) -> Equation:
    """``exp(x) - 1`` is ``expm1(x)``: exp of a small x rounds to 1."""
    return Equation(exp(x) - 1, expm1(x))


@equation("stabilize", dtypes=is_inexact)
def minus_one_plus_exp(x: Tensor) -> Equation:
    """``-1 + exp(x)`` is ``expm1(x)``: exp of a small x rounds to 1."""
    return Equation(-1 + exp(x), expm1(x))


@equation("stabilize", dtypes=is_inexact)
def one_minus_exp(x: Tensor) -> Equation:
    """``1 - exp(x)`` is ``-expm1(x)``: exp of a small x rounds to 1."""
    return Equation(1 - exp(x), -expm1(x))


@equation("stabilize", dtypes=is_float)
def log_of_exp(x: Tensor) -> Equation:
    """``log(exp(x))`` is ``x``: exp overflows from x = 710 on, and is 0 below -745."""
    return Equation(log(exp(x)), x)


@equation("stabilize", dtypes=is_float)
def log1p_of_expm1(x: Tensor) -> Equation:
    """``log1p(expm1(x))`` is ``x``: expm1 overflows from x = 710 on, and is -1 below -37."""
    return Equation(log1p(expm1(x)), x)


@equation("stabilize", dtypes=is_float)
def log_of_sum_of_exps(a: Tensor, b: Tensor) -> Equation:
    """``log(exp(a) + exp(b))`` is ``logaddexp(a, b)``, which does not overflow."""
    return Equation(log(exp(a) + exp(b)), logaddexp(a, b))


@equation("stabilize", dtypes=is_float)
def log1p_of_exp(x: Tensor) -> Equation:
    """``log1p(exp(x))`` is ``softplus(x)``: exp overflows from x = 710 on."""
    return Equation(log1p(exp(x)), softplus(x))


@equation("stabilize", dtypes=is_float)
def log1p_of_minus_exp(x: Tensor) -> Equation:
    """``log1p(-exp(x))`` is ``log1mexp(x)``, which uses expm1 for a small x."""
    return Equation(log1p(-exp(x)), log1mexp(x))


@equation("stabilize", dtypes=is_float)
def log_of_minus_expm1(x: Tensor) -> Equation:
    """``log(-expm1(x))`` is ``log1mexp(x)``, which uses log1p for a very negative x."""
    return Equation(log(-expm1(x)), log1mexp(x))


@equation("specialize", dtypes=is_float)
def log_of_sum_of_one_and_exp(x: Tensor) -> Equation:
    """``logaddexp(0, x)`` is ``softplus(x)``."""
    return Equation(logaddexp(0, x), softplus(x))


# Functions of statistics.


@equation("stabilize", dtypes=is_float)
def one_over_one_plus_exp(x: Tensor) -> Equation:
    """``1 / (1 + exp(x))`` is ``sigmoid(-x)``, which keeps the digits of its tail."""
    return Equation(1 / (1 + exp(x)), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def exp_over_one_plus_exp(x: Tensor) -> Equation:
    """``exp(x) / (1 + exp(x))`` is ``sigmoid(x)``: from x = 710 on, ``inf / inf`` is NaN."""
    return Equation(exp(x) / (1 + exp(x)), sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_over_sum_of_exps(a: Tensor, b: Tensor) -> Equation:
    """``exp(a) / (exp(a) + exp(b))`` is ``sigmoid(a - b)``: ``inf / inf`` is NaN."""
    return Equation(exp(a) / (exp(a) + exp(b)), sigmoid(a - b))


@equation("stabilize", dtypes=is_float)
def one_minus_sigmoid(x: Tensor) -> Equation:
    """``1 - sigmoid(x)`` is ``sigmoid(-x)``: sigmoid of a large x rounds to 1."""
    return Equation(1 - sigmoid(x), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def log_of_sigmoid(x: Tensor) -> Equation:
    """``log(sigmoid(x))`` is ``-softplus(-x)``: sigmoid is 0 below -745."""
    return Equation(log(sigmoid(x)), -softplus(-x))


@equation("stabilize", dtypes=is_float)
def log1p_of_minus_sigmoid(x: Tensor) -> Equation:
    """``log1p(-sigmoid(x))`` is ``-softplus(x)``: sigmoid rounds to 1 from x = 37 on."""
    return Equation(log1p(-sigmoid(x)), -softplus(x))


@equation("stabilize", dtypes=is_float)
def quotient_by_one_plus_exp(a: Tensor, x: Tensor) -> Equation:
    """``a / (1 + exp(x))`` is ``a * sigmoid(-x)``: exp overflows from x = 710 on."""
    return Equation(a / (1 + exp(x)), a * sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def sigmoid_minus_one(x: Tensor) -> Equation:
    """``sigmoid(x) - 1`` is ``-sigmoid(-x)``: sigmoid of a large x rounds to 1."""
    return Equation(sigmoid(x) - 1, -sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def twice_sigmoid_minus_one(x: Tensor) -> Equation:
    """``2 * sigmoid(x) - 1`` is ``tanh(x / 2)``: sigmoid of a small x rounds to 1/2."""
    return Equation(2 * sigmoid(x) - 1, tanh(x / 2))


# Exponentials and logarithms of each other.


@equation("stabilize", dtypes=is_float)
def exp_of_log(x: Tensor) -> Equation:
    """``exp(log(x))`` is ``x`` for ``x >= 0``: log of a large x keeps few digits of it."""
    return Equation(exp(log(x)), where(greater_equal(x, 0), x, np.nan))


@equation("stabilize", dtypes=is_float)
def exp_of_minus_log(x: Tensor) -> Equation:
    """``exp(-log(x))`` is ``1 / x`` for ``x >= 0``: log of a large x keeps few digits of it."""
    return Equation(exp(-log(x)), where(greater_equal(x, 0), 1 / abs(x), np.nan))


@equation("stabilize", dtypes=is_float)
def exp_of_log1p(x: Tensor) -> Equation:
    """``exp(log1p(x))`` is ``1 + x`` for ``x >= -1``: log1p of a large x keeps few digits of it."""
    return Equation(exp(log1p(x)), where(greater_equal(x, -1), 1 + x, np.nan))


@equation("stabilize", dtypes=is_float)
def expm1_of_log1p(x: Tensor) -> Equation:
    """``expm1(log1p(x))`` is ``x`` for ``x >= -1``: log1p of a large x keeps few digits of it."""
    return Equation(expm1(log1p(x)), where(greater_equal(x, -1), x, np.nan))


@equation("stabilize", dtypes=is_float)
def expm1_of_log(x: Tensor) -> Equation:
    """``expm1(log(x))`` is ``x - 1`` for ``x >= 0``: log of a large x keeps few digits of it."""
    return Equation(expm1(log(x)), where(greater_equal(x, 0), x - 1, np.nan))


@equation("stabilize", dtypes=is_float)
def exp2_of_log2(x: Tensor) -> Equation:
    """``exp2(log2(x))`` is ``x`` for ``x >= 0``: log2 of a large x keeps few digits of it."""
    return Equation(exp2(log2(x)), where(greater_equal(x, 0), x, np.nan))


@equation("stabilize", dtypes=is_float)
def log2_of_exp2(x: Tensor) -> Equation:
    """``log2(exp2(x))`` is ``x``: exp2 overflows from x = 1024 on, and is 0 below -1075."""
    return Equation(log2(exp2(x)), x)


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


@equation("stabilize", dtypes=is_float)
def exp_of_softplus(x: Tensor) -> Equation:
    """``exp(softplus(x))`` is ``1 + exp(x)``: a large logarithm has few digits."""
    return Equation(exp(softplus(x)), 1 + exp(x))


@equation("stabilize", dtypes=is_float)
def exp_of_minus_softplus(x: Tensor) -> Equation:
    """``exp(-softplus(x))`` is ``sigmoid(-x)``: a large logarithm has few digits."""
    return Equation(exp(-softplus(x)), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def expm1_of_softplus(x: Tensor) -> Equation:
    """``expm1(softplus(x))`` is ``exp(x)``: a large logarithm has few digits."""
    return Equation(expm1(softplus(x)), exp(x))


@equation("stabilize", dtypes=is_float)
def expm1_of_minus_softplus(x: Tensor) -> Equation:
    """``expm1(-softplus(x))`` is ``-sigmoid(x)``."""
    return Equation(expm1(-softplus(x)), -sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_of_logaddexp(a: Tensor, b: Tensor) -> Equation:
    """``exp(logaddexp(a, b))`` is ``exp(a) + exp(b)``: a large logarithm has few digits."""
    return Equation(exp(logaddexp(a, b)), exp(a) + exp(b))


@equation("stabilize", dtypes=is_float)
def exp_of_log1mexp(x: Tensor) -> Equation:
    """``exp(log1mexp(x))`` is ``-expm1(x)`` for ``x <= 0``: a large logarithm has few digits."""
    return Equation(exp(log1mexp(x)), where(less_equal(x, 0), -expm1(x), np.nan))


@equation("stabilize", dtypes=is_float)
def one_plus_expm1(x: Tensor) -> Equation:
    """``1 + expm1(x)`` is ``exp(x)``: expm1 of a very negative x rounds to -1."""
    return Equation(1 + expm1(x), exp(x))


@equation("stabilize", dtypes=is_float)
def sqrt_of_exp(x: Tensor) -> Equation:
    """``sqrt(exp(x))`` is ``exp(x / 2)``: exp overflows from x = 710 on."""
    return Equation(sqrt(exp(x)), exp(x / 2))


@equation("stabilize", dtypes=is_float)
def one_over_exp(x: Tensor) -> Equation:
    """``1 / exp(x)`` is ``exp(-x)``: exp overflows from x = 710 on."""
    return Equation(1 / exp(x), exp(-x))


@rewrite("stabilize", power)
def power_of_exp(node: Node, op: object) -> Node | None:
    """``exp(x)**n`` is ``exp(n * x)``: exp overflows before a root of it does."""
    base, exponent = node.inputs
    n = scalar_value(exponent)
    if base.op is not exp or not is_float(node.type.dtype) or not n or not math.isfinite(n):
        return None
    return fit_to(exp(multiply(n, *base.inputs)), node)


@equation("stabilize", dtypes=is_float)
def log_of_sqrt(x: Tensor) -> Equation:
    """``log(sqrt(x))`` is ``log(x) / 2``: the square root adds a rounding."""
    return Equation(log(sqrt(x)), log(x) / 2)


@equation("stabilize", dtypes=is_float)
def log_of_square(x: Tensor) -> Equation:
    """``log(x**2)`` is ``2 * log(abs(x))``: the square overflows from 1e154 on."""
    return Equation(log(square(x)), 2 * log(abs(x)))


@rewrite("stabilize", log, log2, log10)
def log_of_power(node: Node, op: Elementwise) -> Node | None:
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
        return fit_to(multiply(exponent, op(base)), node)
    if not n or not math.isfinite(n):
        return None
    return fit_to(multiply(n, op(abs(base) if n % 2 == 0 else base)), node)


@equation("stabilize", dtypes=is_float)
def log2_of_one_plus(x: Tensor) -> Equation:
    """``log2(1 + x)`` is ``log1p(x) / log(2)``: 1 + x rounds off the digits of a small x."""
    return Equation(log2(1 + x), log1p(x) * (1 / LN2))


@equation("stabilize", dtypes=is_float)
def log10_of_one_plus(x: Tensor) -> Equation:
    """``log10(1 + x)`` is ``log1p(x) / log(10)``: 1 + x rounds off the digits of a small x."""
    return Equation(log10(1 + x), log1p(x) * (1 / LN10))


@equation("stabilize", dtypes=is_float)
def log_of_expm1(x: Tensor) -> Equation:
    """``log(expm1(x))`` is ``x + log1mexp(-x)``: expm1 overflows from x = 710 on."""
    return Equation(log(expm1(x)), x + log1mexp(-x))


@equation("stabilize", dtypes=is_float)
def log_of_difference_of_exps(a: Tensor, b: Tensor) -> Equation:
    """``log(exp(a) - exp(b))`` is ``a + log1mexp(b - a)``, which does not overflow."""
    difference = where(equal(a, b), 0, b - a)
    return Equation(log(exp(a) - exp(b)), a + log1mexp(difference))


@rewrite("stabilize", log, log2, log10)
def log_of_product_with_exp(node: Node, op: Elementwise) -> Node | None:
    """``log(c * exp(x))`` is ``log(c) + x``: exp overflows where its logarithm is finite.

    So are ``log(c * sum(exp(x)))`` and ``log(mean(exp(x)))``.
    """
    (x,) = node.inputs
    if (x.op is not multiply and x.op is not divide) or not is_float(node.type.dtype):
        return None
    factor = next((f for f in factors(x) if _has_log(f)), None)
    if factor is None:
        return None
    rest = op(rebuild_any_type(x, {factor.path: GONE}))
    y = op(factor.node)
    return fit_to(rest - y if factor.below else rest + y, node)


def _has_log(f: Factor) -> bool:
    """Return whether a factor is positive, with a logarithm that is finite where it is not."""
    if f.kind is Sum:
        total = f.node.inputs[0] if isinstance(f.node.op, ExpandDims) else f.node
        return total.inputs[0].op is exp
    inner = f.node.inputs[0] if isinstance(f.node.op, Index) else f.node
    return inner.op in {exp, exp2, sigmoid, cosh} or len(exponentials(f.node)) > 1


@rewrite("stabilize", log, log1p)
def log_of_exponential_terms(node: Node, op: Elementwise) -> Node | None:
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

cancelling(exp2, power, softplus)


@rewrite("stabilize", multiply, divide)
def factors_together(node: Node, op: object) -> Node | None:
    """``exp(x) * (g / (1 + exp(x)))`` is ``g * sigmoid(x)``: a factor that overflows cancels.

    Sums among the factors are expanded where a term needs it. A NaN or an infinity cancels with its
    factor.
    """
    return combine_factors(node) if is_float(node.type.dtype) else None


@rewrite("stabilize", multiply, divide)
def product_of_exps(node: Node, op: object) -> Node | None:
    """``g * exp(a) / exp(b)`` is ``g * exp(a - b)``: either exp may overflow.

    With other factors it is ``g * h * h`` with ``h = exp((a - b) / 2)``, which overflows only if
    the product does. Exponentials of smaller shapes than the product stay, and those of a product
    that has too many factors to list: the same exponential may be a factor that is not listed.
    """
    if not is_float(node.type.dtype) or not is_steep(node):
        return None
    all_factors = factors(node)
    if len(all_factors) >= MAX_FACTORS:
        return None
    exps = [f for f in all_factors if f.node.op is exp and f.node.type.shape == node.type.shape]
    if len({f.node for f in exps}) < 2:
        return None
    first, *_, last = exps
    total = first.node.inputs[0]
    for f in exps[1:]:
        (a,) = f.node.inputs
        total = total + a if f.below == first.below else total - a
    changes = {f.path: GONE for f in exps}
    if all(scalar_value(f.node) is not None for f in all_factors if f not in exps):
        changes[first.path] = Replacement(exp(total))
    else:
        root = exp(total / 2)
        changes[first.path] = Replacement(root)
        changes[last.path] = Replacement(root, first.below != last.below)
    return rebuild(node, changes)  # type: ignore[no-any-return]


@rewrite("stabilize", subtract)
def difference_of_opposite_sigmoids(node: Node, op: object) -> Node | None:
    """``sigmoid(x) - sigmoid(-x)`` is ``tanh(x / 2)``: both are near 1/2 for a small x."""
    p, q = node.inputs
    if p.op is not sigmoid or q.op is not sigmoid or not is_minus(*p.inputs, *q.inputs):
        return None
    return fit_to(tanh(divide(p.inputs[0], 2)), node)
