"""Rules of exponentials and logarithms: forms that neither overflow nor lose digits."""

from __future__ import annotations

from graphc.ir import is_float, is_inexact
from graphc.rewrite.rule import Equation, equation
from graphc.tensor.elementwise import equal
from graphc.tensor.exponential import (
    exp,
    expm1,
    log,
    log1mexp,
    log1p,
    logaddexp,
    sigmoid,
    softplus,
)
from graphc.tensor.tensor import Tensor

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


# What derivatives of logarithms multiply by: a quotient of what overflows, or rounds to 0, with it.


@equation("stabilize", dtypes=is_float)
def exp_times_share_of_one_plus_exp(a: Tensor, x: Tensor) -> Equation:
    """The slope of log(1 + exp(x)), where exp overflows."""
    return Equation(exp(x) * (a / (1 + exp(x))), a * sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_times_sigmoid_of_negative(x: Tensor) -> Equation:
    """The slope of log(1 + exp(x)), where exp overflows."""
    return Equation(exp(x) * sigmoid(-x), sigmoid(x))


@equation("stabilize", dtypes=is_float)
def exp_of_negative_times_sigmoid(x: Tensor) -> Equation:
    """The slope of -log(1 + exp(-x)), where exp overflows."""
    return Equation(exp(-x) * sigmoid(x), sigmoid(-x))


@equation("stabilize", dtypes=is_float, domain=lambda a, x: equal(x, x))
def exp_times_share_of_exp(a: Tensor, x: Tensor) -> Equation:
    """``inf / inf`` and 0 / 0 are NaN; exp is 0 in rounding alone. A NaN of x is lost."""
    return Equation(exp(x) * (a / exp(x)), a)


@equation("stabilize", dtypes=is_float)
def exp_times_share_of_exps(c: Tensor, a: Tensor, b: Tensor) -> Equation:
    """The slope of log(exp(a) + exp(b)), where exp overflows."""
    return Equation(exp(a) * (c / (exp(a) + exp(b))), c * sigmoid(a - b))


@equation("stabilize", dtypes=is_float, domain=lambda a, x: equal(x, x))
def sigmoid_times_share_of_sigmoid(a: Tensor, x: Tensor) -> Equation:
    """0 / 0 is NaN; sigmoid is 0 in rounding alone. A NaN of x is lost."""
    return Equation(sigmoid(x) * (a / sigmoid(x)), a)


@equation("stabilize", dtypes=is_float, domain=lambda a, b, x: equal(x, x))
def product_with_share_of_sigmoid(a: Tensor, b: Tensor, x: Tensor) -> Equation:
    """0 / 0 is NaN; sigmoid is 0 in rounding alone. A NaN of x is lost."""
    return Equation(sigmoid(x) * (b * (a / sigmoid(x))), a * b)


@equation("stabilize", dtypes=is_float)
def difference_of_shares_of_sigmoids(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Equation:
    """The slope of a log(sigmoid(x)) + b log(1 - sigmoid(x)), where either is 0 in rounding."""
    p, q = sigmoid(x), sigmoid(y)
    return Equation(p * (q * (a / q - b / p)), a * p - b * q)


@equation("stabilize", dtypes=is_float)
def difference_of_shares_of_other_sigmoids(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Equation:
    """The slope of a log(1 - sigmoid(x)) + b log(sigmoid(x)), where either is 0 in rounding."""
    p, q = sigmoid(x), sigmoid(y)
    return Equation(p * (q * (a / p - b / q)), a * q - b * p)


@equation("stabilize", dtypes=is_float)
def sum_of_shares_of_sigmoids(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Equation:
    """The slope of a log(sigmoid(x)) - b log(1 - sigmoid(x)), where either is 0 in rounding."""
    p, q = sigmoid(x), sigmoid(y)
    return Equation(p * (q * (a / q + b / p)), a * p + b * q)
