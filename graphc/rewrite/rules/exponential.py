"""Rules of exponentials and logarithms: forms that neither overflow nor lose digits."""

from __future__ import annotations

import math

import numpy as np

from graphc.ir import Node, is_float, is_inexact
from graphc.rewrite.algebra.exponentials import exponentials, log_of_exponentials
from graphc.rewrite.algebra.factors import (
    GONE,
    Factor,
    Replacement,
    cancelling,
    factors,
    is_steep,
    merged,
    opposite,
    rebuilt,
    remade,
)
from graphc.rewrite.facts.lengths import fitted
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
    """1 + x rounds away the digits of a small x; log1p keeps them."""
    return Equation(log(1 + x), log1p(x))


@equation("stabilize", dtypes=is_float)
def log_of_one_minus(x: Tensor) -> Equation:
    """1 - x rounds away the digits of a small x; log1p keeps them."""
    return Equation(log(1 - x), log1p(-x))


@equation("stabilize", dtypes=is_inexact)
def exp_minus_one(x: Tensor) -> Equation:
    """``exp(x)`` is next to 1 for a small x, and the difference is lost; expm1 keeps it."""
    return Equation(exp(x) - 1, expm1(x))


@equation("stabilize", dtypes=is_inexact)
def minus_one_plus_exp(x: Tensor) -> Equation:
    """``exp(x)`` is next to 1 for a small x, and the difference is lost; expm1 keeps it."""
    return Equation(-1 + exp(x), expm1(x))


@equation("stabilize", dtypes=is_inexact)
def one_minus_exp(x: Tensor) -> Equation:
    """``exp(x)`` is next to 1 for a small x, and the difference is lost; expm1 keeps it."""
    return Equation(1 - exp(x), -expm1(x))


@equation("stabilize", dtypes=is_float)
def log_of_exp(x: Tensor) -> Equation:
    """``exp`` overflows from x = 710 on, and is 0 below -745."""
    return Equation(log(exp(x)), x)


@equation("stabilize", dtypes=is_float)
def log1p_of_expm1(x: Tensor) -> Equation:
    """expm1 overflows from x = 710 on, and is -1 below -37."""
    return Equation(log1p(expm1(x)), x)


@equation("stabilize", dtypes=is_float)
def log_of_sum_of_exps(a: Tensor, b: Tensor) -> Equation:
    """The larger exponential is taken out before it overflows."""
    return Equation(log(exp(a) + exp(b)), logaddexp(a, b))


@equation("stabilize", dtypes=is_float)
def log1p_of_exp(x: Tensor) -> Equation:
    """``exp`` overflows from x = 710 on, where softplus is x."""
    return Equation(log1p(exp(x)), softplus(x))


@equation("stabilize", dtypes=is_float)
def log1p_of_minus_exp(x: Tensor) -> Equation:
    """``exp`` is next to 1 for a small x; log1mexp goes by expm1 there."""
    return Equation(log1p(-exp(x)), log1mexp(x))


@equation("stabilize", dtypes=is_float)
def log_of_minus_expm1(x: Tensor) -> Equation:
    """expm1 is next to -1 for a very negative x; log1mexp goes by log1p there."""
    return Equation(log(-expm1(x)), log1mexp(x))


@equation("specialize", dtypes=is_float)
def log_of_sum_of_one_and_exp(x: Tensor) -> Equation:
    """``logaddexp`` beside 0 is softplus."""
    return Equation(logaddexp(0, x), softplus(x))


# Functions of statistics.


@equation("stabilize", dtypes=is_float)
def one_over_one_plus_exp(x: Tensor) -> Equation:
    """The logistic function, which neither overflows nor loses the digits of its tail."""
    return Equation(1 / (1 + exp(x)), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def exp_over_one_plus_exp(x: Tensor) -> Equation:
    """``inf / inf`` is NaN from x = 710 on, where sigmoid is 1."""
    return Equation(exp(x) / (1 + exp(x)), sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_over_sum_of_exps(a: Tensor, b: Tensor) -> Equation:
    """``inf / inf`` is NaN; only the difference of a and b matters."""
    return Equation(exp(a) / (exp(a) + exp(b)), sigmoid(a - b))


@equation("stabilize", dtypes=is_float)
def one_minus_sigmoid(x: Tensor) -> Equation:
    """``sigmoid`` is next to 1 for a large x, and the difference is lost."""
    return Equation(1 - sigmoid(x), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def log_of_sigmoid(x: Tensor) -> Equation:
    """``sigmoid`` is 0 below -745; its logarithm goes on as x."""
    return Equation(log(sigmoid(x)), -softplus(-x))


@equation("stabilize", dtypes=is_float)
def log1p_of_minus_sigmoid(x: Tensor) -> Equation:
    """``sigmoid`` is 1 from x = 37 on; the logarithm of the rest goes on as -x."""
    return Equation(log1p(-sigmoid(x)), -softplus(x))


@equation("stabilize", dtypes=is_float)
def quotient_by_one_plus_exp(a: Tensor, x: Tensor) -> Equation:
    """``exp`` overflows from x = 710 on, where a large a is not yet 0 by it."""
    return Equation(a / (1 + exp(x)), a * sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def sigmoid_minus_one(x: Tensor) -> Equation:
    """``sigmoid`` is next to 1 for a large x, and the difference is lost."""
    return Equation(sigmoid(x) - 1, -sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def twice_sigmoid_minus_one(x: Tensor) -> Equation:
    """``sigmoid`` is next to 1/2 for a small x, and the difference is lost."""
    return Equation(2 * sigmoid(x) - 1, tanh(x / 2))


# Exponentials and logarithms of each other.


@equation("stabilize", dtypes=is_float)
def exp_of_log(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(exp(log(x)), where(greater_equal(x, 0), x, np.nan))


@equation("stabilize", dtypes=is_float)
def exp_of_minus_log(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(exp(-log(x)), where(greater_equal(x, 0), 1 / abs(x), np.nan))


@equation("stabilize", dtypes=is_float)
def exp_of_log1p(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(exp(log1p(x)), where(greater_equal(x, -1), 1 + x, np.nan))


@equation("stabilize", dtypes=is_float)
def expm1_of_log1p(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(expm1(log1p(x)), where(greater_equal(x, -1), x, np.nan))


@equation("stabilize", dtypes=is_float)
def expm1_of_log(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(expm1(log(x)), where(greater_equal(x, 0), x - 1, np.nan))


@equation("stabilize", dtypes=is_float)
def exp2_of_log2(x: Tensor) -> Equation:
    """The logarithm of a large x has few digits left for the exponential."""
    return Equation(exp2(log2(x)), where(greater_equal(x, 0), x, np.nan))


@equation("stabilize", dtypes=is_float)
def log2_of_exp2(x: Tensor) -> Equation:
    """exp2 overflows from x = 1024 on, and is 0 below -1075."""
    return Equation(log2(exp2(x)), x)


@equation("stabilize", dtypes=is_float)
def log_of_exp2(x: Tensor) -> Equation:
    """exp2 overflows from x = 1024 on, and is 0 below -1075."""
    return Equation(log(exp2(x)), x * LN2)


@equation("stabilize", dtypes=is_float)
def log2_of_exp(x: Tensor) -> Equation:
    """exp overflows from x = 710 on, and is 0 below -745."""
    return Equation(log2(exp(x)), x * (1 / LN2))


@equation("stabilize", dtypes=is_float)
def log10_of_exp(x: Tensor) -> Equation:
    """exp overflows from x = 710 on, and is 0 below -745."""
    return Equation(log10(exp(x)), x * (1 / LN10))


@equation("stabilize", dtypes=is_float)
def exp_of_softplus(x: Tensor) -> Equation:
    """A large logarithm has few digits left for the exponential."""
    return Equation(exp(softplus(x)), 1 + exp(x))


@equation("stabilize", dtypes=is_float)
def exp_of_minus_softplus(x: Tensor) -> Equation:
    """A large logarithm has few digits left for the exponential."""
    return Equation(exp(-softplus(x)), sigmoid(-x))


@equation("stabilize", dtypes=is_float)
def expm1_of_softplus(x: Tensor) -> Equation:
    """A large logarithm has few digits left for the exponential."""
    return Equation(expm1(softplus(x)), exp(x))


@equation("stabilize", dtypes=is_float)
def expm1_of_minus_softplus(x: Tensor) -> Equation:
    """``1 / (1 + exp(x)) - 1``, the logistic function."""
    return Equation(expm1(-softplus(x)), -sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_of_logaddexp(a: Tensor, b: Tensor) -> Equation:
    """A large logarithm has few digits left for the exponential."""
    return Equation(exp(logaddexp(a, b)), exp(a) + exp(b))


@equation("stabilize", dtypes=is_float)
def exp_of_log1mexp(x: Tensor) -> Equation:
    """A large logarithm has few digits left for the exponential."""
    return Equation(exp(log1mexp(x)), where(less_equal(x, 0), -expm1(x), np.nan))


@equation("stabilize", dtypes=is_float)
def one_plus_expm1(x: Tensor) -> Equation:
    """expm1 is next to -1 for a very negative x, and the sum is lost."""
    return Equation(1 + expm1(x), exp(x))


@equation("stabilize", dtypes=is_float)
def sqrt_of_exp(x: Tensor) -> Equation:
    """exp overflows from x = 710 on, where its square root goes on."""
    return Equation(sqrt(exp(x)), exp(x / 2))


@equation("stabilize", dtypes=is_float)
def one_over_exp(x: Tensor) -> Equation:
    """exp overflows from x = 710 on, where its reciprocal goes on."""
    return Equation(1 / exp(x), exp(-x))


@rewrite("stabilize", power)
def power_of_exp(node: Node, op: object) -> Node | None:
    """The exponent goes into the exponential, which overflows before a root of it."""
    base, exponent = node.inputs
    n = scalar_value(exponent)
    if base.op is not exp or not is_float(node.type.dtype) or not n or not math.isfinite(n):
        return None
    return fitted(exp(multiply(n, *base.inputs)), node)


@equation("stabilize", dtypes=is_float)
def log_of_sqrt(x: Tensor) -> Equation:
    """The square root is one rounding more than a half."""
    return Equation(log(sqrt(x)), log(x) / 2)


@equation("stabilize", dtypes=is_float)
def log_of_square(x: Tensor) -> Equation:
    """The square overflows from 1e154 on, and is 0 below 1e-162."""
    return Equation(log(square(x)), 2 * log(abs(x)))


@rewrite("stabilize", log, log2, log10)
def log_of_power(node: Node, op: Elementwise) -> Node | None:
    """A power overflows or is 0 where its logarithm is a plain number.

    The base or the exponent is constant: of neither known, an integer could make the power of a
    negative base positive.
    """
    (x,) = node.inputs
    if x.op is not power or not is_float(node.type.dtype):
        return None
    base, exponent = x.inputs
    c, n = scalar_value(base), scalar_value(exponent)
    if c is not None and c > 0 and c != 1 and math.isfinite(c):
        return fitted(multiply(exponent, op(base)), node)
    if not n or not math.isfinite(n):
        return None
    return fitted(multiply(n, op(abs(base) if n % 2 == 0 else base)), node)


@equation("stabilize", dtypes=is_float)
def log2_of_one_plus(x: Tensor) -> Equation:
    """1 + x rounds away the digits of a small x; log1p keeps them."""
    return Equation(log2(1 + x), log1p(x) * (1 / LN2))


@equation("stabilize", dtypes=is_float)
def log10_of_one_plus(x: Tensor) -> Equation:
    """1 + x rounds away the digits of a small x; log1p keeps them."""
    return Equation(log10(1 + x), log1p(x) * (1 / LN10))


@equation("stabilize", dtypes=is_float)
def log_of_expm1(x: Tensor) -> Equation:
    """expm1 overflows from x = 710 on, where its logarithm is x."""
    return Equation(log(expm1(x)), x + log1mexp(-x))


@equation("stabilize", dtypes=is_float)
def log_of_difference_of_exps(a: Tensor, b: Tensor) -> Equation:
    """The larger exponential is taken out before it overflows."""
    apart = where(equal(a, b), 0, b - a)
    return Equation(log(exp(a) - exp(b)), a + log1mexp(apart))


@rewrite("stabilize", log, log2, log10)
def log_of_product_with_exp(node: Node, op: Elementwise) -> Node | None:
    """An exponential that overflows is a plain number as a logarithm, whatever it multiplies.

    ``log(c * sum(exp(x)))`` and ``log(mean(exp(x)))`` are of that kind too.
    """
    (x,) = node.inputs
    if (x.op is not multiply and x.op is not divide) or not is_float(node.type.dtype):
        return None
    own = next((f for f in factors(x) if _has_log(f)), None)
    if own is None:
        return None
    rest = op(remade(x, {own.path: GONE}))
    y = op(own.node)
    return fitted(rest - y if own.below else rest + y, node)


def _has_log(f: Factor) -> bool:
    """Whether a factor is positive, and has a logarithm where it overflows or rounds to 0."""
    if f.kind is Sum:
        total = f.node.inputs[0] if isinstance(f.node.op, ExpandDims) else f.node
        return total.inputs[0].op is exp
    inner = f.node.inputs[0] if isinstance(f.node.op, Index) else f.node
    return inner.op in {exp, exp2, sigmoid, cosh} or len(exponentials(f.node)) > 1


@rewrite("stabilize", log, log1p)
def log_of_exponential_terms(node: Node, op: Elementwise) -> Node | None:
    """The largest of several exponentials and positive constants is taken out first."""
    (x,) = node.inputs
    if not is_float(node.type.dtype):
        return None
    found = exponentials(x)
    if op is log1p and found:
        found = [(None, 1.0), *found]
    return fitted(log_of_exponentials(found), node) if len(found) > 1 else None


# Pairs of factors, as derivatives of logarithms have them: one overflows, or rounds to 0, and the
# other is a share of it.

cancelling(exp2, power, softplus)


@rewrite("stabilize", multiply, divide)
def factors_together(node: Node, op: object) -> Node | None:
    """A factor that overflows and its share of a sum cancel, whatever stands between.

    ``exp(x) * (g / (1 + exp(x)))`` is ``g * sigmoid(x)``; sums among the factors are multiplied
    out where a term needs it. What cancels takes a NaN or an infinity along.
    """
    return merged(node) if is_float(node.type.dtype) else None


@rewrite("stabilize", multiply, divide)
def product_of_exps(node: Node, op: object) -> Node | None:
    """``g * exp(a) / exp(b)`` is ``g * exp(a - b)``, where either overflows.

    With other factors it is ``g * h * h``, where h is the root, which overflows only if the
    product does. Exponentials of other shapes than the product stay: they are fewer.
    """
    if not is_float(node.type.dtype) or not is_steep(node):
        return None
    found = factors(node)
    alike = [f for f in found if f.node.op is exp and f.node.type.shape == node.type.shape]
    if len({f.node for f in alike}) < 2:
        return None
    first, *_, last = alike
    total = first.node.inputs[0]
    for f in alike[1:]:
        (a,) = f.node.inputs
        total = total + a if f.below == first.below else total - a
    changes = {f.path: GONE for f in alike}
    if all(scalar_value(f.node) is not None for f in found if f not in alike):
        changes[first.path] = Replacement(exp(total))
    else:
        root = exp(total / 2)
        changes[first.path] = Replacement(root)
        changes[last.path] = Replacement(root, first.below != last.below)
    return rebuilt(node, changes)  # type: ignore[no-any-return]


@rewrite("stabilize", subtract)
def difference_of_opposite_sigmoids(node: Node, op: object) -> Node | None:
    """Both are next to 1/2 for a small x, and the difference is lost."""
    p, q = node.inputs
    if p.op is not sigmoid or q.op is not sigmoid or not opposite(*p.inputs, *q.inputs):
        return None
    return fitted(tanh(divide(p.inputs[0], 2)), node)
