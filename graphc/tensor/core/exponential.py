"""Powers, exponentials and logarithms: elementwise rows, and functions made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.tensor import TABLE, Tensor, TensorLike, as_tensor, function

__all__ = [
    "exp", "exp2", "expm1", "log", "log1mexp", "log1p", "log2", "log10", "log_sigmoid",
    "logaddexp", "power", "sigmoid", "softplus",
]  # fmt: skip


def _power_slope(g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(b.op, Constant) and b.op.shape == ():
        exponent = b.op.value.item()
        if exponent in (1, 2):
            return (g if exponent == 1 else g * 2 * a), None
        if exponent == 0:
            return TABLE["zeros_like"](y), None
        return g * exponent * a ** (exponent - 1), None
    # At b = 0 the derivative with respect to a is 0, not 0 * a**-1; its derivative with respect to
    # b is 1 / a.
    still = ew.equal(b, 0)
    at_zero = b / ew.where(ew.equal(a, 0), np.inf, a)
    by_base = g * ew.where(still, at_zero, b * a ** ew.where(still, 1, b - 1))
    return by_base, _power_by_exponent(g, y, a)


def _power_by_exponent(g: Any, y: Any, a: Any) -> Any:
    # At a = 0 the power is constant for b > 0: the derivative is 0, not 0 * log(0).
    zero = ew.equal(a, 0)
    return g * ew.where(zero, 0, y * log(ew.where(zero, 1, a)))


def _check_exponent(a: Tensor, b: Tensor) -> None:
    if isinstance(b.op, Constant):
        _refuse_negative(f"{a!r} ** {b!r}", b.op.value)


def _refuse_negative(what: str, exponent: np.ndarray[Any, Any]) -> None:
    if exponent.dtype.kind == "i" and (exponent < 0).any():
        raise ArgumentError(
            f"{what}: an integer to the power of {exponent.min()} is no integer.",
            "Write gt.float_power(a, b), or make a floating: a.astype('float64') ** b.",
        )


def _power(a: Any, b: Any) -> Any:
    _refuse_negative(f"{a.dtype}[{', '.join(map(str, a.shape))}] ** b", b)
    return np.power(a, b)


power = ew.binary(
    "power",
    "a ** b; integers to a negative power are an error in NUMPY and where b is constant, and "
    "1 / a ** -b truncated on JAX and MLX",
    ew.numeric,
    _power_slope,
    _power,
    check=_check_exponent,
)

exp = ew.unary(
    "exp",
    "e ** x",
    ew.inexact,
    lambda g, y, x: g * y,
    facts=ew.Facts(range=ew.NONNEGATIVE, positive=True, trend=ew.RISING),
)
exp2 = ew.unary(
    "exp2",
    "2 ** x",
    ew.inexact,
    lambda g, y, x: g * y * np.log(2).item(),
    facts=ew.Facts(range=ew.NONNEGATIVE, positive=True, trend=ew.RISING),
)
expm1 = ew.unary(
    "expm1",
    "exp(x) - 1, exact for a small x",
    ew.inexact,
    lambda g, y, x: g * exp(x),
    facts=ew.Facts(range=(-1.0, math.inf), trend=ew.RISING, fixed=(0,)),
)
log = ew.unary(
    "log",
    "The natural logarithm",
    ew.inexact,
    lambda g, y, x: g / x,
    facts=ew.Facts(poles=(0.0,), trend=ew.RISING, support=(ew.NONNEGATIVE,)),
    definition="``exp(log(x)) = x``.",
    source="DLMF 4.2.2",
)
log2 = ew.unary(
    "log2",
    "The logarithm to base 2",
    ew.inexact,
    lambda g, y, x: g / (x * np.log(2).item()),
    facts=ew.Facts(poles=(0.0,), trend=ew.RISING, support=(ew.NONNEGATIVE,)),
    definition="``log(x) / log(2)``.",
)
log10 = ew.unary(
    "log10",
    "The logarithm to base 10",
    ew.inexact,
    lambda g, y, x: g / (x * np.log(10).item()),
    facts=ew.Facts(poles=(0.0,), trend=ew.RISING, support=(ew.NONNEGATIVE,)),
    definition="``log(x) / log(10)``.",
)
log1p = ew.unary(
    "log1p",
    "log(1 + x), exact for a small x",
    ew.inexact,
    lambda g, y, x: g / (1 + x),
    facts=ew.Facts(poles=(-1.0,), trend=ew.RISING, support=((-1.0, math.inf),), fixed=(0,)),
)


logaddexp = ew.binary(
    "logaddexp",
    "log(exp(a) + exp(b)) without overflow",
    ew.real_inexact,
    lambda g, y, a, b: (g * _weight(a, b), g * _weight(b, a)),
    commutes=True,
    facts=ew.Facts(trend=(1, 1)),
)


def _weight(a: Any, b: Any) -> Any:
    # The weight of exp(a); two equal infinities share evenly, and inf - inf is never formed.
    return sigmoid(ew.where(ew.equal(a, b) & ew.isinf(a), 0, a - b))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _log1mexp(x: Any) -> Any:
    return np.where(x > -np.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x))).astype(x.dtype)


sigmoid: ew.Unary = ew.unary(
    "sigmoid",
    "1 / (1 + exp(-x))",
    ew.real_inexact,
    lambda g, y, x: g * y * sigmoid(-x),
    ew.from_scipy("expit"),
    facts=ew.Facts(range=(0.0, 1.0), positive=True, trend=ew.RISING),
)
softplus = ew.unary(
    "softplus",
    "log(1 + exp(x)) without overflow",
    ew.real_inexact,
    lambda g, y, x: g * sigmoid(x),
    _softplus,
    facts=ew.Facts(range=ew.NONNEGATIVE, positive=True, trend=ew.RISING),
)
log1mexp = ew.unary(
    "log1mexp",
    "log(1 - exp(x)) for x < 0, exact at both ends",
    ew.real_inexact,
    # expm1(-x) is -0.0 at x = 0, where the derivative is -inf; abs drops the sign.
    lambda g, y, x: -g / ew.abs(expm1(-x)),
    _log1mexp,
    facts=ew.Facts(
        poles=(0.0,), range=(-math.inf, 0.0), trend=ew.FALLING, support=((-math.inf, 0.0),)
    ),
    source="Mächler, Accurately computing ``log(1 - exp(-|a|))``, 2012",
)


@function
def log_sigmoid(x: TensorLike) -> Tensor:
    """Return ``log(sigmoid(x))``, without overflow for a very negative x.

    Args:
        x: Real numbers of any shape.

    Returns:
        An array of x's shape, of a floating dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.log_sigmoid([-1000.0, 0.0]).round(4).eval(mode="NUMPY").tolist()
        [-1000.0, -0.6931]
    """
    return -softplus(-as_tensor(x))
