"""Elementwise functions: ``Elemwise``, and the scalar operations that it applies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, static
from graphc.ir import Constant
from graphc.loop.functional import while_loop
from graphc.tensor.core.tensor import Tensor, constant

Converter = Callable[..., Any]


def in_dtype(x: Tensor, dtype: str) -> Tensor:
    """Cast an array; a constant stays a constant, so that rules see its value."""
    if isinstance(x.op, Constant) and x.dtype != dtype:
        return constant(x.op.value.astype(dtype), bake=True)
    return gt.cast(x, dtype)


def elemwise(at: Application, *xs: Tensor) -> list[Tensor]:
    """Apply a scalar operation; each result has the shape that all operands broadcast to."""
    results = at.conversion.scalar(at.of(at.op.scalar_op), [_as_number(x) for x in xs])
    return [spread(at, y, i, xs) for i, y in enumerate(results)]


def _as_number(x: Tensor) -> Tensor:
    """Drop the axes of a constant with one element, as rules match numbers without axes."""
    if x.ndim and isinstance(x.op, Constant) and x.op.value.size == 1:
        return constant(x.op.value.reshape(()))
    return x


def spread(at: Application, y: Tensor, i: int, xs: Sequence[Tensor]) -> Tensor:
    """Broadcast a result with all operands, some of which it may not depend on."""
    wanted = at.types[i]
    assert wanted is not None
    pairs = zip(y.type.shape, wanted.shape, strict=False)
    if y.ndim == wanted.ndim and not any(n == 1 != m for n, m in pairs):
        return y
    return gt.broadcast_arrays(y, *xs)[0]


def in_result(function: Converter) -> Converter:
    """Return a converter that casts the operands to the dtype of the result."""

    def convert(at: Application, *xs: Tensor) -> Tensor:
        return function(*[in_dtype(x, at.dtype) for x in xs])  # type: ignore[no-any-return]

    return convert


def of_all(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function of any number of operands; one operand is returned unchanged."""
    return lambda *xs: reduce(function, xs)


def of_numbers(function: Converter) -> Converter:
    """Return the same kind of converter, which computes with bools as 0 and 1."""

    def convert(at: Application, *xs: Tensor) -> Tensor:
        dtype = "int8" if at.dtype == "bool" else at.dtype
        return function(*[in_dtype(x, dtype) for x in xs])  # type: ignore[no-any-return]

    return convert


def without_casts(function: Converter) -> Converter:
    """Return a converter that passes the operands unchanged."""

    def convert(at: Application, *xs: Tensor) -> Tensor:
        return function(*xs)  # type: ignore[no-any-return]

    return convert


def in_common_dtype(function: Converter) -> Converter:
    """Return a converter that casts both operands to NumPy's common dtype of them."""

    def convert(at: Application, a: Tensor, b: Tensor) -> Tensor:
        dtype = np.result_type(a.type.numpy_dtype, b.type.numpy_dtype).name
        return function(in_dtype(a, dtype), in_dtype(b, dtype))  # type: ignore[no-any-return]

    return convert


def identity(at: Application, x: Any, *rest: Any) -> Any:
    return x


def second(at: Application, a: Tensor, b: Tensor) -> Tensor:
    """Return the second operand; ``spread`` gives it the shape of both."""
    return in_dtype(b, at.dtype)


def switch(at: Application, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return gt.where(condition, in_dtype(a, at.dtype), in_dtype(b, at.dtype))


def of_order(function: Converter) -> Converter:
    """Return the converter of a Bessel function, whose order may be a constant integer."""

    def convert(at: Application, order: Tensor, x: Tensor) -> Tensor:
        n = static(order)
        v = in_dtype(order, at.dtype) if n is None else n
        return function(v, in_dtype(x, at.dtype))  # type: ignore[no-any-return]

    return convert


def x_log_x(at: Application, x: Tensor) -> Tensor:
    x = in_dtype(x, at.dtype)
    return gt.xlogy(x, x)


def multiply_without_zeros(at: Application, a: Tensor, b: Tensor) -> Tensor:
    """Return the product, in which zeros count as ones."""
    a, b = in_dtype(a, at.dtype), in_dtype(b, at.dtype)
    return gt.where(gt.equal(a, 0), b, gt.where(gt.equal(b, 0), a, a * b))


def composite(at: Application, *xs: Tensor) -> list[Any]:
    """Apply a graph of scalar operations to arrays."""
    return at.inner(at.op.fgraph, xs)


def scalar_loop(at: Application, n_steps: Tensor, *xs: Tensor) -> list[Any]:
    """Run a loop for each element; the loops may end after different numbers of steps."""
    graph, stops = at.op.fgraph, bool(at.op.is_while)
    count = len(graph.outputs) - stops
    xs = tuple(in_dtype(x, p.type.dtype) for x, p in zip(xs, graph.inputs, strict=True))
    n, *wide = gt.broadcast_arrays(gt.cast(n_steps, "int64"), *xs)
    constants = wide[count:]

    def goes_on(carry: Any) -> Tensor:
        i, _, condition = carry
        remains = gt.less(i, n)
        return gt.any(gt.logical_and(remains, gt.logical_not(condition)) if stops else remains)

    def step(carry: Any) -> Any:
        i, states, condition = carry
        ended = gt.logical_or(gt.greater_equal(i, n), condition) if stops else i >= n
        new = [*at.inner(graph, [*states, *constants]), condition]
        states = [gt.where(ended, a, b) for a, b in zip(states, new[:count], strict=True)]
        return i + 1, states, gt.where(ended, condition, new[count])

    init = (0, list(wide[:count]), gt.zeros_like(n, dtype="bool"))
    _, states, condition = while_loop(goes_on, step, init, static(n_steps), name=at.op.name)
    # The condition holds where no step was done.
    return [*states, gt.logical_or(condition, n <= 0)] if stops else list(states)


def of_parts(function: Converter) -> Converter:
    """Return a converter that casts the operands to the dtype of a complex result's parts."""

    def convert(at: Application, *xs: Tensor) -> Tensor:
        part = "float32" if at.dtype == "complex64" else "float64"
        return function(*[in_dtype(x, part) for x in xs])  # type: ignore[no-any-return]

    return convert


SCALARS: dict[str, Converter] = {
    # Arithmetic.
    "Add": in_result(of_all(gt.add)),
    "Sub": in_result(gt.subtract),
    "Mul": in_result(of_all(gt.multiply)),
    "MulWithoutZeros": multiply_without_zeros,
    "TrueDiv": in_result(gt.divide),
    "IntDiv": of_numbers(gt.floor_divide),
    "Mod": of_numbers(gt.remainder),
    "Pow": in_result(gt.power),
    "Neg": in_result(gt.negative),
    "Reciprocal": in_result(gt.reciprocal),
    "Sqr": of_numbers(gt.square),
    "Sqrt": in_result(gt.sqrt),
    "Abs": without_casts(gt.abs),
    "Sign": in_result(gt.sign),
    # Rounding.
    "Ceil": in_result(gt.ceil),
    "Floor": in_result(gt.floor),
    "Trunc": in_result(gt.trunc),
    "RoundHalfToEven": in_result(gt.round_half_to_even),
    "RoundHalfAwayFromZero": in_result(gt.round_half_away_from_zero),
    # Selection and conversion.
    "Maximum": in_result(gt.maximum),
    "Minimum": in_result(gt.minimum),
    "Clip": in_result(gt.clip),
    "Switch": switch,
    "Second": second,
    "Identity": identity,
    "Cast": lambda at, x: in_dtype(x, at.dtype),
    # Comparisons and logic.
    "LT": in_common_dtype(gt.less),
    "GT": in_common_dtype(gt.greater),
    "LE": in_common_dtype(gt.less_equal),
    "GE": in_common_dtype(gt.greater_equal),
    "EQ": in_common_dtype(gt.equal),
    "NEQ": in_common_dtype(gt.not_equal),
    "IsNan": without_casts(gt.isnan),
    "IsInf": without_casts(gt.isinf),
    "OR": in_result(gt.bitwise_or),
    "XOR": in_result(gt.bitwise_xor),
    "AND": in_result(gt.bitwise_and),
    "Invert": in_result(gt.invert),
    # Exponentials and trigonometry.
    "Exp": in_result(gt.exp),
    "Exp2": in_result(gt.exp2),
    "Expm1": in_result(gt.expm1),
    "Log": in_result(gt.log),
    "Log2": in_result(gt.log2),
    "Log10": in_result(gt.log10),
    "Log1p": in_result(gt.log1p),
    "Log1mexp": in_result(gt.log1mexp),
    "Sigmoid": in_result(gt.sigmoid),
    "Softplus": in_result(gt.softplus),
    "XlogX": x_log_x,
    "XlogY0": in_result(gt.xlogy),
    "Sin": in_result(gt.sin),
    "Cos": in_result(gt.cos),
    "Tan": in_result(gt.tan),
    "ArcSin": in_result(gt.arcsin),
    "ArcCos": in_result(gt.arccos),
    "ArcTan": in_result(gt.arctan),
    "ArcTan2": in_result(gt.arctan2),
    "Sinh": in_result(gt.sinh),
    "Cosh": in_result(gt.cosh),
    "Tanh": in_result(gt.tanh),
    "ArcSinh": in_result(gt.arcsinh),
    "ArcCosh": in_result(gt.arccosh),
    "ArcTanh": in_result(gt.arctanh),
    "Deg2Rad": in_result(gt.deg2rad),
    "Rad2Deg": in_result(gt.rad2deg),
    # Complex numbers.
    "Real": without_casts(gt.real),
    "Imag": without_casts(gt.imag),
    "Angle": without_casts(gt.angle),
    "Conj": without_casts(gt.conj),
    "Complex": of_parts(gt.complex),
    "ComplexFromPolar": of_parts(gt.complex_from_polar),
    # Special functions.
    "Erf": in_result(gt.erf),
    "Erfc": in_result(gt.erfc),
    "Erfcx": in_result(gt.erfcx),
    "Erfinv": in_result(gt.erfinv),
    "Erfcinv": in_result(gt.erfcinv),
    "NdtriExp": in_result(gt.ndtri_exp),
    "Owens_t": in_result(gt.owens_t),
    "Gamma": in_result(gt.gamma),
    "GammaLn": in_result(gt.gammaln),
    "Psi": in_result(gt.psi),
    "TriGamma": in_result(gt.tri_gamma),
    "PolyGamma": lambda at, n, x: gt.polygamma(n, in_dtype(x, at.dtype)),
    "GammaInc": in_result(gt.gammainc),
    "GammaIncC": in_result(gt.gammaincc),
    "GammaIncInv": in_result(gt.gammaincinv),
    "GammaIncCInv": in_result(gt.gammainccinv),
    "GammaU": in_result(gt.gammau),
    "GammaL": in_result(gt.gammal),
    "BetaInc": in_result(gt.betainc),
    "BetaIncInv": in_result(gt.betaincinv),
    "Hyp2F1": in_result(gt.hyp2f1),
    "J0": in_result(gt.j0),
    "J1": in_result(gt.j1),
    "Jv": of_order(gt.jv),
    "I0": in_result(gt.i0),
    "I1": in_result(gt.i1),
    "Iv": of_order(gt.iv),
    "Ive": of_order(gt.ive),
    "Kve": of_order(gt.kve),
    # Graphs and loops of scalar operations.
    "Composite": composite,
    "ScalarLoop": scalar_loop,
    "Grad2F1Loop": scalar_loop,
}
"""The scalar operations, by the names of their classes."""
