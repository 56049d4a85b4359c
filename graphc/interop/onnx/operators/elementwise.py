"""Operators of single elements: arithmetic, comparisons, casts, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register, register_all
from graphc.interop.onnx.source import is_narrow
from graphc.interop.onnx.values import Refusal
from graphc.ir import is_float, is_inexact, is_integer
from graphc.tensor import Tensor

register_all(
    {
        "Abs": gt.abs,
        "Acos": gt.arccos,
        "Acosh": gt.arccosh,
        "Add": gt.add,
        "And": gt.logical_and,
        "Asin": gt.arcsin,
        "Asinh": gt.arcsinh,
        "Atan": gt.arctan,
        "Atanh": gt.arctanh,
        "BitwiseAnd": gt.bitwise_and,
        "BitwiseNot": gt.invert,
        "BitwiseOr": gt.bitwise_or,
        "BitwiseXor": gt.bitwise_xor,
        "Ceil": gt.ceil,
        "Cos": gt.cos,
        "Cosh": gt.cosh,
        "Equal": gt.equal,
        "Erf": gt.erf,
        "Exp": gt.exp,
        "Floor": gt.floor,
        "Greater": gt.greater,
        "GreaterOrEqual": gt.greater_equal,
        "Identity": lambda x: x,
        "IsNaN": gt.isnan,
        "Less": gt.less,
        "LessOrEqual": gt.less_equal,
        "Log": gt.log,
        "Mul": gt.multiply,
        "Neg": gt.negative,
        "Not": gt.logical_not,
        "Or": gt.logical_or,
        "Reciprocal": gt.reciprocal,
        "Round": gt.rint,
        "Sigmoid": gt.sigmoid,
        "Sign": gt.sign,
        "Sin": gt.sin,
        "Sinh": gt.sinh,
        "Softplus": gt.softplus,
        "Sqrt": gt.sqrt,
        "Sub": gt.subtract,
        "Tan": gt.tan,
        "Tanh": gt.tanh,
        "Where": gt.where,
        "Xor": gt.logical_xor,
    }
)


def divided(a: Any, b: Any) -> Any:
    """The quotient; of integers, rounded towards zero."""
    if not is_integer(a.dtype):
        return a / b
    quotient = a // b
    if a.dtype.startswith("u"):
        return quotient
    inexact = gt.logical_and(gt.not_equal(quotient * b, a), gt.less(quotient, 0))
    return quotient + gt.cast(inexact, a.dtype)


@register("Div")
def _div(_: Operation, a: Tensor, b: Tensor) -> Tensor:
    return divided(a, b)  # type: ignore[no-any-return]


@register("Mod")
def _mod(op: Operation, a: Tensor, b: Tensor) -> Tensor:
    return gt.fmod(a, b) if op["fmod"] else gt.remainder(a, b)


@register("Pow")
def _pow(_: Operation, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == b.dtype:
        return gt.power(a, b)
    if is_inexact(a.dtype):
        return gt.power(a, b.astype(a.dtype))
    return gt.power(a.astype("float64"), b.astype("float64")).astype(a.dtype)


@register("BitShift")
def _bit_shift(op: Operation, a: Tensor, b: Tensor) -> Tensor:
    return gt.left_shift(a, b) if op["direction"] == "LEFT" else gt.right_shift(a, b)


def _variadic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda _, *operands: reduce(function, operands)


register("Sum")(_variadic(gt.add))
register("Max")(_variadic(gt.maximum))
register("Min")(_variadic(gt.minimum))


@register("Mean")
def _mean(_: Operation, *operands: Tensor) -> Tensor:
    return reduce(gt.add, operands) / len(operands)


@register("IsInf")
def _is_inf(op: Operation, x: Tensor) -> Tensor:
    signs = bool(op["detect_negative"]), bool(op["detect_positive"])
    if all(signs):
        return gt.isinf(x)
    if not any(signs):
        return gt.zeros_like(x, dtype="bool")
    return gt.isneginf(x) if signs[0] else gt.isposinf(x)


# Casts.


def cast(x: Tensor, dtype: str) -> Tensor:
    """Another dtype; of a float as a bool, whether it is not zero."""
    return gt.not_equal(x, 0) if dtype == "bool" and x.dtype != "bool" else x.astype(dtype)


@register("Cast")
def _cast(op: Operation, x: Tensor) -> Tensor:
    if is_narrow(op["to"]):
        raise Refusal("integers of 2 or 4 bits are read from initializers alone")
    return cast(x, op.dtype("to", x.dtype))


@register("BitCast")
def _bit_cast(op: Operation, x: Tensor) -> Tensor:
    dtype = op.dtype("to", x.dtype)
    if not (is_integer(x.dtype) and is_integer(dtype)) or x.dtype.lstrip("u") != dtype.lstrip("u"):
        raise Refusal(f"{x.dtype} as {dtype}: graphc reads the bits of integers of one size alone")
    return x.astype(dtype)


@register("CastLike")
def _cast_like(op: Operation, x: Tensor, like: Tensor) -> Tensor:
    if getattr(op.value(1), "is_narrow", False):
        raise Refusal("integers of 2 or 4 bits are read from initializers alone")
    return cast(x, like.dtype)


# Bounds and activations. Python's numbers take the dtype of the array.


@register("Clip")
def _clip(op: Operation, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    low = op["min"] if low is None and op.version < 11 else low
    high = op["max"] if high is None and op.version < 11 else high
    x = x if low is None else gt.maximum(x, low)
    return x if high is None else gt.minimum(x, high)


@register("Relu")
def _relu(_: Operation, x: Tensor) -> Tensor:
    return gt.maximum(x, 0)


@register("LeakyRelu")
def _leaky_relu(op: Operation, x: Tensor) -> Tensor:
    return gt.where(x < 0, op.number("alpha") * x, x)


@register("PRelu")
def _prelu(_: Operation, x: Tensor, slope: Tensor) -> Tensor:
    return gt.where(x < 0, slope * x, x)


@register("ThresholdedRelu")
def _thresholded_relu(op: Operation, x: Tensor) -> Tensor:
    return gt.where(x > op.number("alpha"), x, 0)


def _below_zero(x: Tensor) -> Tensor:
    """exp(x) - 1 of negative numbers, 0 of others; none overflows."""
    return gt.expm1(gt.minimum(x, 0))


@register("Elu")
def _elu(op: Operation, x: Tensor) -> Tensor:
    return gt.maximum(x, 0) + op.number("alpha") * _below_zero(x)


@register("Selu")
def _selu(op: Operation, x: Tensor) -> Tensor:
    return op.number("gamma") * (gt.maximum(x, 0) + op.number("alpha") * _below_zero(x))


@register("Celu")
def _celu(op: Operation, x: Tensor) -> Tensor:
    alpha = op.number("alpha", 1.0)
    return gt.maximum(x, 0) + alpha * _below_zero(x / alpha)


@register("HardSigmoid")
def _hard_sigmoid(op: Operation, x: Tensor) -> Tensor:
    return gt.clip(op.number("alpha") * x + op.number("beta"), 0, 1)


@register("HardSwish")
def _hard_swish(_: Operation, x: Tensor) -> Tensor:
    return x * gt.clip(x / 6 + 0.5, 0, 1)


@register("Mish")
def _mish(_: Operation, x: Tensor) -> Tensor:
    return x * gt.tanh(gt.softplus(x))


@register("Softsign")
def _softsign(_: Operation, x: Tensor) -> Tensor:
    return x / (1 + gt.abs(x))


@register("Shrink")
def _shrink(op: Operation, x: Tensor) -> Tensor:
    bias, bound = op.number("bias"), op.number("lambd")
    if not is_float(x.dtype):
        bias, bound = int(bias), int(bound)
    return gt.where(x < -bound, x + bias, gt.where(x > bound, x - bias, gt.zeros_like(x)))


def gelu(x: Tensor, *, approximate: bool = False) -> Tensor:
    """x where a standard normal number is below it; or nearly so, by tanh."""
    if approximate:
        return 0.5 * x * (1 + gt.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + gt.erf(x / math.sqrt(2)))


@register("Gelu")
def _gelu(op: Operation, x: Tensor) -> Tensor:
    return gelu(x, approximate=op["approximate"] == "tanh")


@register("Gelu", domain="com.microsoft")
def _gelu_of_ort(_: Operation, x: Tensor) -> Tensor:
    return gelu(x)


@register("BiasGelu", domain="com.microsoft")
def _bias_gelu(_: Operation, x: Tensor, bias: Tensor) -> Tensor:
    return gelu(x + bias)


@register("FastGelu", domain="com.microsoft")
def _fast_gelu(_: Operation, x: Tensor, bias: Any = None) -> Tensor:
    return gelu(x if bias is None else x + bias, approximate=True)


@register("QuickGelu", domain="com.microsoft")
def _quick_gelu(op: Operation, x: Tensor) -> Tensor:
    return x * gt.sigmoid(op.number("alpha", 1.702) * x)


@register("Swish")
def _swish(op: Operation, x: Tensor) -> Tensor:
    return x * gt.sigmoid(op.number("alpha") * x)


@register("Dropout")
def _dropout(op: Operation, x: Tensor, *more: Any) -> tuple[Tensor, ...]:
    """What inference does: nothing."""
    if op.has(2) and bool(op.known(2, "training_mode")):
        raise Refusal("training_mode draws random numbers: export the model for inference")
    return (x, gt.ones_like(x, dtype="bool")) if op.wants(1) else (x,)
