"""For each elementwise row: NumPy's function, where its slope is smooth, and where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from graphc.ir import is_complex, numpy_dtype
from graphc.tensor.core.elementwise import ROWS

__all__ = ["DOMAINS", "EDGES", "FIXED", "FUNCTIONS", "SUMMED", "UNCERTAIN", "expected", "taken"]

Function = Callable[..., Any]


def _whole(a: Any, b: Any) -> Any:
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, 1j))
    out.real, out.imag = a, b
    return out


def in_doubles(name: str) -> Function:
    """SciPy's function computed in float64."""

    def f(*xs: Any) -> Any:
        y = getattr(special, name)(*[x.astype(np.float64) for x in xs])
        return np.asarray(y).astype(xs[0].dtype)

    return f


FUNCTIONS: dict[str, Function | None] = {
    # NumPy's goes by the bits of integers of its own, and takes no floats for them.
    "ldexp": lambda a, b: np.where(
        np.isnan(b), b, np.ldexp(a, np.clip(np.nan_to_num(b), -9999, 9999).astype(int))
    ),
    "exponent": lambda x: np.frexp(x)[1].astype(x.dtype),
    # NumPy takes no bool.
    "bitwise_count": lambda x: np.bitwise_count(x.astype(np.uint8) if x.dtype == bool else x),
    # SciPy's.
    "sigmoid": special.expit,
    "erf": special.erf,
    "erfc": special.erfc,
    **{
        name: getattr(special, name)
        for name in ROWS
        if hasattr(special, name) and (name == "i0" or not hasattr(np, name))
    },
    # In narrower floats SciPy's intermediate results overflow, or lose digits.
    **{name: in_doubles(name) for name in ("betainc", "betaincinv", "polygamma")},
    # In float32 NumPy's keeps few digits where the result is next to 0.
    "logaddexp2": lambda a, b: np.logaddexp2(a.astype(float), b.astype(float)).astype(a.dtype),
    "tri_gamma": lambda x: special.polygamma(1, x).astype(x.dtype),
    "betaln": None,
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
}
"""NumPy's function has the row's name, but for these. Dividing an integer by zero gives 0 in
NumPy too."""


NARROW = {"nextafter"}
"""What half-width floats have of their own, and is not computed in float32."""


def expected(name: str, *xs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What NumPy gives, computed in the dtype that the row says and in its result's."""
    row = ROWS[name]
    rule = row.domain(xs[0].dtype.name)
    assert rule is not None
    computed, result = rule
    half = computed in {"float16", "bfloat16"} and name not in NARROW
    wide = "float32" if half else computed
    f = FUNCTIONS.get(name) or getattr(np, name, row.reference)
    with np.errstate(all="ignore"):
        # From a narrow float through the wide one, so that only the last step rounds.
        operands = [x.astype(numpy_dtype(computed)).astype(numpy_dtype(wide)) for x in xs]
        return np.asarray(f(*operands)).astype(numpy_dtype(result), copy=False)


def _tiny(x: Any) -> Any:
    return (x != 0) & (np.abs(x) < 1e-30)


def _bessel(v: Any, x: Any) -> Any:
    # From there on SciPy has NaN, or loses the phase; infinite orders have no certain limit; and
    # it has NaN, or the wrong sign, for what is infinite at 0 for a negative order that is no
    # whole number. At infinity it has NaN for some.
    at_zero = (x == 0) & ~(v >= 0) & (v != np.floor(v))
    return ~(np.abs(v) < 1e6) | ~(np.abs(x) < 1e6) | _tiny(x) | at_zero


def _half_orders(v: Any, x: Any) -> Any:
    # SciPy's is 2e-12 off for the orders 3/2 and -3/2.
    return _bessel(v, x) | ((np.abs(v) == 1.5) & (np.abs(x) < 1))


def _high_frequency(v: Any, x: Any) -> Any:
    # Beside its amplitude it is exact to 1e-12, which is fewer digits of a small value.
    return _bessel(v, x) | ((np.abs(v) > 100) & (np.abs(x) > np.abs(v)))


def _halves(n: Any, x: Any) -> Any:
    # Between two poles terms of opposite sign cancel, and SciPy stops adding before. Orders that
    # are no whole numbers mean nothing, and to SciPy some are whole, or even.
    between = (n % 2 == 0) & (n > 8) & (x < -1) & (2 * x == np.floor(2 * x))
    return between | (n > 2**53) | _tiny(n)


def _extreme(*xs: Any) -> Any:
    return np.logical_or.reduce([(np.abs(x) > 8) | _tiny(x) for x in xs])


def _slope_of_hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    # Where c is a or b, the part that decays slower is nothing, and cancels.
    less = ((c == a) | (c == b)) & (z < -10)
    return _extreme(a, b, c) | (z > 0.9) | (z < -100) | (c <= 0) | less


def _shares(x: Any, y: Any) -> Any:
    # SciPy's quotient overflows, or is 0.
    quotient = np.abs(x / np.where(y == 0, 1, y))
    return (quotient > 1e300) | ((x > 0) & (quotient < 1e-300))


def _outside(a: Any, y: Any) -> Any:
    # SciPy has 0 for y below 0 or above 1 where a is small, NaN elsewhere; for a = 0 it has 0 for
    # some y, and NaN. A product with the smallest numbers is subnormal, which XLA takes for 0.
    return (y < 0) | (y > 1) | ((a < 1e-30) | (a > 1e300)) & (y > 0) & (y < 1)


def _two_at_once(a: Any, b: Any, x: Any) -> Any:
    # SciPy has 1 for what is 1/2; a product with the smallest numbers is subnormal.
    return _tiny(b) & (_tiny(a) | (x > 0.9))


UNCERTAIN: dict[str, Function] = {
    **dict.fromkeys(("iv", "ive", "kv", "kve"), _half_orders),
    "jv": _high_frequency,
    # SciPy's phase has no digits left.
    "j0": lambda x: np.abs(x) > 1e30,
    "j1": lambda x: np.abs(x) > 1e30,
    # SciPy lets a pole win over NaN; of an infinite s the sign of a term below 0 is unknown; and
    # of a large s it has NaN for 0.
    "zeta": lambda s, q: np.isnan(s) | ((s == np.inf) & (q < 0)) | ((s > 1e30) & (q > 1)),
    "polygamma": _halves,
    # SciPy has NaN for 0 or 1.
    "gammainc": lambda a, x: (a > 1e300) & (x < 1e300),
    "gammaincc": lambda a, x: (a > 1e300) & (x < 1e300),
    # Nothing is left of the difference of two numbers as large.
    "gammainc_by_a": lambda a, x: (a > 1e30) & (x > 1e30),
    "log_gamma_by_a": lambda a, u: (a > 1e30) | (u > 100),
    "betainc": _two_at_once,
    "betainc_by_a": lambda a, b, x: _tiny(a) | _tiny(b),
    "betainc_by_b": lambda a, b, x: _tiny(a) | _tiny(b),
    # Of large parameters SciPy's is a few digits off; poles, and infinite ones, differ by library.
    "hyp2f1": lambda a, b, c, z: _extreme(a, b, c) | (z >= 1) | (np.abs(z) > 100) | (c <= 0),
    **{f"hyp2f1_by_{p}": _slope_of_hyp2f1 for p in "abc"},
    "gammaincinv": _outside,
    "gammainccinv": _outside,
    # SciPy has NaN for some of the smallest y.
    "betaincinv": lambda a, b, y: _tiny(a) | _tiny(b) | _tiny(y),
    # SciPy's is 3 % off for the smallest a.
    "owens_t": lambda h, a: (a != 0) & (np.abs(a) < 1e-10) & (np.abs(h) > 5) & (np.abs(h) < 40),
    "kl_div": _shares,
}
"""Where SciPy has no answer, or a wrong one: mpmath's values there are in tests/tensor."""


def taken(name: str, xs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The values without those for which NumPy has no answer, or no certain one."""
    dtype = xs[0].dtype.name
    keep = np.full(xs[0].shape, True)
    if name in {"divide", "reciprocal"} and is_complex(dtype):
        # Over 0, which part is infinite and which NaN is left to the library.
        keep = xs[-1] != 0
    if name == "power" and xs[1].dtype.kind == "i":
        keep = xs[1] >= 0
    if name in UNCERTAIN:
        with np.errstate(all="ignore"):
            keep = ~UNCERTAIN[name](*[x.astype(np.float64) for x in xs])
    return [x[keep] for x in xs]


SUMMED = {"betaln": 1.0}
"""The size of logarithms that cancel where a function of ours alone is next to 0."""

ALL = (-2.0, 2.0)
PART = (0.3, 0.7)
SOME = (0.3, 3.0)
DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    "cbrt": ((0.5, 3.0),),
    "copysign": ((0.3, 2.0), (-2.0, -0.5)),
    "fmax": ((-2.0, 0.0), (0.1, 2.0)),
    "fmin": ((-2.0, 0.0), (0.1, 2.0)),
    "fmod": ((1.2, 1.4), (0.5, 0.58)),
    "heaviside": ((0.3, 2.0), ALL),
    "erfinv": ((-0.5, 0.5),),
    "erfcinv": ((0.5, 1.5),),
    "ndtri": (PART,),
    "ndtri_exp": ((-8.0, -0.2),),
    "logit": (PART,),
    "xlogy": (ALL, SOME),
    "xlog1py": (ALL, SOME),
    "entr": (SOME,),
    "rel_entr": (SOME, SOME),
    "kl_div": (SOME, SOME),
    "expi": (SOME,),
    "gamma": (SOME,),
    "gammaln": (SOME,),
    "digamma": (SOME,),
    "tri_gamma": (SOME,),
    "polygamma": ((2.0, 2.0), SOME),
    "zeta": ((2.0, 2.0), SOME),
    "gammainc_by_a": (SOME, SOME),
    "log_gamma_by_a": (SOME, ALL),
    "vonmises_by_kappa": ((0.3, 2.5), SOME),
    "betaln": (SOME, SOME),
    "betainc": (SOME, SOME, PART),
    "betainc_by_a": (SOME, SOME, PART),
    "betainc_by_b": (SOME, SOME, PART),
    "betaincinv": (SOME, SOME, PART),
    "hyp2f1": (SOME, SOME, SOME, (-0.8, 0.8)),
    "jv": ((2.5, 2.5), SOME),
    "iv": ((2.5, 2.5), SOME),
    "ive": ((2.5, 2.5), SOME),
    "kv": ((2.5, 2.5), SOME),
    "kve": ((2.5, 2.5), SOME),
    "i0e": (SOME,),
    "i1e": (SOME,),
    "gammainc": (SOME, SOME),
    "gammaincc": (SOME, SOME),
    "gammaincinv": (SOME, PART),
    "gammainccinv": (SOME, PART),
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

FIXED: dict[str, tuple[int, ...]] = {
    "polygamma": (0,),
    "zeta": (0,),
    "gammainc_by_a": (0,),
    "log_gamma_by_a": (0,),
    "vonmises_by_kappa": (1,),
    "betainc_by_a": (0, 1),
    "betainc_by_b": (0, 1),
    "jv": (0,),
    "iv": (0,),
    "ive": (0,),
    "kv": (0,),
    "kve": (0,),
    **{f"hyp2f1_by_{p}": (0, 1, 2, 3) for p in "abc"},
}
"""The operands by which a row has no slope: to ask for it is an error."""

inf = np.inf
EDGES: dict[str, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "hypot": [
        ((0.0, 0.0), (0.0, 0.0)),
        ((0.0, -2.0), (0.0, -1.0)),
        ((1e200, 1e200), (0.5**0.5, 0.5**0.5)),
        ((-inf, 1.0), (-1.0, 0.0)),
    ],
    "cbrt": [((0.0,), (inf,)), ((-8.0,), (1 / 12,)), ((inf,), (0.0,))],
    "copysign": [((-2.0, 1.0), (-1.0, 0.0)), ((0.0, -0.0), (-1.0, 0.0))],
    "fmax": [((1.0, 1.0), (1.0, 0.0)), ((np.nan, 1.0), (0.0, 1.0)), ((1.0, np.nan), (1.0, 0.0))],
    "fmin": [((1.0, 1.0), (1.0, 0.0)), ((np.nan, 1.0), (0.0, 1.0)), ((1.0, np.nan), (1.0, 0.0))],
    "heaviside": [((0.0, 0.5), (0.0, 1.0)), ((-1.0, 0.5), (0.0, 0.0))],
    "logaddexp2": [
        ((-inf, -inf), (0.5, 0.5)),
        ((inf, 1.0), (1.0, 0.0)),
        ((1.0, -inf), (1.0, 0.0)),
    ],
    "ldexp": [((3.0, 4.0), (16.0, 0.0)), ((3.0, -2.0), (0.25, 0.0))],
    "nextafter": [((1.0, 2.0), (1.0, 0.0))],
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
    "xlogy": [((0.0, 0.0), (-inf, 0.0)), ((0.0, 2.0), (np.log(2.0), 0.0))],
    "xlog1py": [((0.0, -1.0), (-inf, 0.0)), ((0.0, 1.0), (np.log(2.0), 0.0))],
    "rel_entr": [((1.0, 1.0), (1.0, -1.0))],
    "kl_div": [((1.0, 1.0), (0.0, 0.0))],
    "sinc": [((0.0,), (0.0,))],
    "erfcx": [((1e8,), (-1 / np.sqrt(np.pi) * 1e-16,))],
    "log_ndtr": [((40.0,), (0.0,)), ((-1e8,), (1e8,))],
    "ndtri_exp": [((-5e15,), (1e-8,))],
    "gammaln": [((1e10,), (np.log(1e10) - 0.5e-10,))],
    "gammainc": [((1.0, 0.0), (0.0, 1.0)), ((2.0, 0.0), (0.0, 0.0))],
    "erfc": [((-30.0,), (0.0,))],
}
"""Slopes where there is a choice, or where a formula may overflow: operands and the slopes by
each."""
