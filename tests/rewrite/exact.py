"""Values to try rules on, and the true value of a graph, to 400 digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np

import graphc.tensor as gt
from graphc.ir import Constant, Node, is_complex, is_float, is_integer, numpy_dtype, toposort
from graphc.tensor.arrays.reduce import AxisComposite
from tests.reference import evaluate

__all__ = ["DIGITS", "awkward", "is_real_number", "tolerance", "true_value", "values_of"]

DIGITS = 400
"""Enough to tell 1 + exp(-745) from 1, with all digits of a double on either side."""

SMALL = [0.0, -0.0, 1e-300, -1e-300, 1e-40, 1e-20, -1e-20, 1e-8, -1e-8, 1e-3, -1e-3]
MIDDLE = [0.5, -0.5, -0.6931471805599453, 1.0, -1.0, 1.5, 2.0, -2.0, np.pi, -7.3, 10.0, 26.0]
LARGE = [-37.0, 37.0, -88.0, 89.0, 700.0, -700.0, 710.0, -745.0, 800.0, -800.0, 1e10, -1e10]
HUGE = [1e38, -1e38, 1e200, -1e200, 1e308, -1e308]
ENDLESS = [np.inf, -np.inf, np.nan]


def awkward(dtype: str) -> np.ndarray:
    """Values at which formulas break: signed zeros, tiny, huge, infinite, not a number."""
    if dtype == "bool":
        return np.array([False, True])
    if is_integer(dtype):
        bounds = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, bounds.max, bounds.max - 1, bounds.min], dtype)
    if is_complex(dtype):
        # The parts of complex infinities differ between C libraries, so these are finite.
        parts = np.array([0.0, 1e-3, 0.5, -1.0, 2.0, -3.7])
        return np.add.outer(parts, 1j * parts).ravel().astype(dtype)
    values = np.array(SMALL + MIDDLE + LARGE + HUGE + ENDLESS)
    with np.errstate(over="ignore", under="ignore"):
        return np.unique(values.astype(numpy_dtype(dtype)))


def values_of(outputs: Sequence[Node], values: dict[Any, Any]) -> list[np.ndarray]:
    """The outputs by each operation's NumPy reference, named functions taken apart."""
    plain: dict[Node, Node] = {}
    for node in toposort(outputs):
        node_inputs = [plain[x] for x in node.inputs]
        if isinstance(node.op, AxisComposite):
            plain[node] = node.op.expand(*node_inputs)
        else:
            plain[node] = node.with_inputs(node_inputs)
    return evaluate([plain[y] for y in outputs], values)


@lru_cache(maxsize=2**12, typed=True)
def _exp(x: Any) -> Any:
    """Of large integers it is taken as a power of e, which takes longer."""
    return mpmath.exp(x - 0.125) * mpmath.exp(0.125)


def _is_pole(x: Any) -> bool:
    return bool(x <= 0 and mpmath.floor(x) == x)


TRUE: dict[Any, Callable[..., Any]] = {
    gt.add: lambda a, b: a + b,
    gt.subtract: lambda a, b: a - b,
    gt.multiply: lambda a, b: a * b,
    gt.divide: lambda a, b: a / b if b else mpmath.nan,
    gt.negative: lambda x: -x,
    gt.reciprocal: lambda x: 1 / x if x else mpmath.nan,
    gt.square: lambda x: x * x,
    gt.sqrt: mpmath.sqrt,
    gt.power: mpmath.power,
    gt.exp: _exp,
    gt.exp2: lambda x: mpmath.power(2, x),
    gt.expm1: lambda x: _exp(x) - 1,
    gt.log: mpmath.log,
    gt.log2: lambda x: mpmath.log(x, 2),
    gt.log10: lambda x: mpmath.log(x, 10),
    gt.log1p: lambda x: mpmath.log(1 + x),
    gt.sigmoid: lambda x: 1 / (1 + _exp(-x)),
    gt.softplus: lambda x: mpmath.log(1 + _exp(x)),
    gt.log1mexp: lambda x: mpmath.log(1 - _exp(x)),
    gt.logaddexp: lambda a, b: mpmath.log(_exp(a) + _exp(b)),
    gt.cos: mpmath.cos,
    gt.sinh: mpmath.sinh,
    gt.cosh: mpmath.cosh,
    gt.tanh: mpmath.tanh,
    gt.abs: abs,
    gt.gamma: lambda x: mpmath.gamma(x) if abs(x) < 1e3 and not _is_pole(x) else mpmath.nan,
    gt.erf: mpmath.erf,
    gt.erfc: lambda x: mpmath.erfc(x) if abs(x) < 1e6 else 1 - mpmath.sign(x),
}


# Real and complex numbers that are equal are not one here.
@lru_cache(maxsize=2**14, typed=True)
def _true(op: Any, *xs: Any) -> Any:
    """A function's value, remembered, as combinations of operands have each many times."""
    return TRUE[op](*xs)


def true_value(y: Node, values: dict[Any, Any]) -> Any:
    """The value of a graph of scalars, as if numbers had no end."""
    with mpmath.workdps(DIGITS):
        known = dict(values)
        for node in toposort([y], known):
            if isinstance(node.op, Constant):
                known[node] = mpmath.mpmathify(node.op.value.item())
            else:
                known[node] = _true(node.op, *[known[x] for x in node.inputs])
        return known[y]


def is_real_number(value: Any) -> bool:
    """Whether a true value is a finite real number."""
    return isinstance(value, mpmath.mpf) and bool(mpmath.isfinite(value))


def tolerance(dtype: str) -> dict[str, float]:
    """Room for a few roundings."""
    if not is_float(dtype) and not is_complex(dtype):
        return {"rtol": 0, "atol": 0}
    kind = np.finfo(numpy_dtype(dtype))
    return {"rtol": 16 * float(kind.eps), "atol": 4 * float(kind.smallest_subnormal)}
