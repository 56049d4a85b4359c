"""For each elementwise row: NumPy's function, where its slope is smooth, and where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from graphc.ir import is_complex, numpy_dtype
from graphc.tensor.elementwise import ROWS

__all__ = ["DOMAINS", "EDGES", "FUNCTIONS", "expected", "taken"]

Function = Callable[..., Any]


def _whole(a: Any, b: Any) -> Any:
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, 1j))
    out.real, out.imag = a, b
    return out


FUNCTIONS: dict[str, Function] = {
    # SciPy's.
    "sigmoid": special.expit,
    "erf": special.erf,
    "erfc": special.erfc,
    # Neither has them: these are what they mean, by functions that both have.
    "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
    "log1mexp": lambda x: np.where(x < -1, np.log1p(-np.exp(x)), np.log(-np.expm1(x))).astype(
        x.dtype
    ),
    # a + 1j * b would turn an infinite part into NaN in the other.
    "complex": _whole,
    # Of low > high, np.clip says the result is undefined; here it is high.
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    # Integers are whole already; np.round is to decimals, np.rint would make them floats.
    "round": lambda x: x if x.dtype.kind in "biu" else np.rint(x),
    # np.power refuses negative exponents of integers.
    "power": lambda a, b: whole_power(a, b) if a.dtype.kind == "i" else np.power(a, b),
}
"""NumPy's function has the row's name, but for these. Dividing an integer by zero gives 0 in
NumPy too."""


def whole_power(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The power of integers; 1 / a ** -b cut to an integer where b is negative, 0 for a = 0."""
    a, b = np.broadcast_arrays(a, b)
    pairs = zip(a.flat, b.flat, strict=True)
    cut = [int(x) ** int(-n) if abs(int(x)) == 1 and n < 0 else 0 for x, n in pairs]
    unit = np.array(cut, a.dtype).reshape(a.shape)
    return np.where(b < 0, unit, np.power(a, np.where(b < 0, 0, b)))


def expected(name: str, *xs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What NumPy gives, computed in the dtype that the row says and in its result's."""
    row = ROWS[name]
    rule = row.domain(xs[0].dtype.name)
    assert rule is not None
    computed, result = rule
    wide = "float32" if computed in {"float16", "bfloat16"} else computed
    f = FUNCTIONS.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        # From a narrow float through the wide one, so that only the last step rounds.
        operands = [x.astype(numpy_dtype(computed)).astype(numpy_dtype(wide)) for x in xs]
        return np.asarray(f(*operands)).astype(numpy_dtype(result), copy=False)


def taken(name: str, xs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The values without those for which NumPy has no answer, or no certain one."""
    dtype = xs[0].dtype.name
    keep = np.full(xs[0].shape, True)
    if name in {"divide", "reciprocal"} and is_complex(dtype):
        # Over 0, which part is infinite and which NaN is left to the library.
        keep = xs[-1] != 0
    return [x[keep] for x in xs]


ALL = (-2.0, 2.0)
DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    "divide": (ALL, (0.5, 2.0)),
    "floor_divide": ((1.2, 1.4), (0.5, 0.58)),
    "remainder": ((1.2, 1.4), (0.5, 0.58)),
    "power": ((0.5, 2.0), ALL),
    "sqrt": ((0.5, 3.0),),
    "reciprocal": ((0.5, 3.0),),
    "log": ((0.5, 3.0),),
    "log2": ((0.5, 3.0),),
    "log10": ((0.5, 3.0),),
    "log1p": ((-0.5, 3.0),),
    "log1mexp": ((-3.0, -0.2),),
    "arcsin": ((-0.8, 0.8),),
    "arccos": ((-0.8, 0.8),),
    "arctanh": ((-0.8, 0.8),),
    "arccosh": ((1.3, 3.0),),
    "arctan": ((-0.8, 0.8),),
    "arcsinh": ((-0.8, 0.8),),
    "arctan2": ((0.5, 2.0), ALL),
    "abs": ((0.3, 2.0),),
    "sign": ((0.3, 2.0),),
    "angle": ((0.3, 2.0),),
    "maximum": ((-2.0, 0.0), (0.1, 2.0)),
    "minimum": ((-2.0, 0.0), (0.1, 2.0)),
    "clip": (ALL, (-0.7, -0.6), (0.6, 0.7)),
}
"""Where each operand lies for the slope to exist and to be smooth; ``ALL`` by default. Of a
complex number, each part lies there."""

inf = np.inf
EDGES: dict[str, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "maximum": [((1.0, 1.0), (1.0, 0.0)), ((1.0, 2.0), (0.0, 1.0)), ((2.0, 1.0), (1.0, 0.0))],
    "minimum": [((1.0, 1.0), (1.0, 0.0)), ((1.0, 2.0), (1.0, 0.0)), ((2.0, 1.0), (0.0, 1.0))],
    "clip": [
        ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
        ((1.0, 0.0, 1.0), (1.0, 0.0, 0.0)),
        ((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
        ((2.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    ],
    "abs": [((0.0,), (0.0,)), ((-1.0,), (-1.0,))],
    "power": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((0.0, 2.0), (0.0, 0.0)),
        ((0.0, 1.0), (1.0, 0.0)),
        ((-2.0, 3.0), (12.0, np.nan)),
        ((-2.0, 0.0), (0.0, np.nan)),
    ],
    "logaddexp": [((-inf, -inf), (0.5, 0.5)), ((inf, 1.0), (1.0, 0.0)), ((1.0, -inf), (1.0, 0.0))],
    "sigmoid": [((800.0,), (0.0,)), ((-800.0,), (0.0,))],
    "softplus": [((800.0,), (1.0,)), ((-800.0,), (0.0,))],
    "tanh": [((400.0,), (0.0,)), ((-400.0,), (0.0,))],
    "sqrt": [((0.0,), (inf,)), ((inf,), (0.0,))],
    "log": [((0.0,), (inf,)), ((inf,), (0.0,))],
    "log1mexp": [((-800.0,), (0.0,))],
    "erf": [((30.0,), (0.0,))],
    "erfc": [((-30.0,), (0.0,))],
}
"""Slopes where there is a choice, or where a formula may overflow: operands and the slopes by
each."""
