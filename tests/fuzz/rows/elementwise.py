"""Elementwise functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fuzz.row import (
    BOOL,
    COMPLEX,
    DOUBLE,
    EVERY,
    FLOATS,
    INEXACT,
    INTEGERS,
    NUMBERS,
    REALS,
    SIGNED,
    Choice,
    elementwise,
    row,
)
from tests.fuzz.values import meet

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def elementwise_rows(names: str, arity: int, dtypes: frozenset[str], **more: Any) -> None:
    slots = ", ".join(f"{{{i}}}" for i in range(arity))
    for name in names.split():
        row(name, f"np.{name}({slots})", elementwise(arity, dtypes), broadcasts=True, **more)


elementwise_rows("add subtract multiply", 2, NUMBERS, weight=6, ulps=1)
elementwise_rows("divide", 2, INEXACT | INTEGERS, weight=4, ulps=2)
TIES = "np.result_type({0}, {1}).kind == 'f' and np.any({0} == {1})"
"""The slope is that of one operand or of the other, and together they may have another one."""
elementwise_rows("maximum minimum", 2, REALS, weight=4, edge=TIES)
elementwise_rows("fmax fmin", 2, REALS - BOOL, edge=TIES)
WHOLE = "hasattr({1}, 'dtype') and ({1}).dtype.kind == 'f' and np.any({0} < 0)"
"""Negative numbers have whole powers alone, which have no slope by an exponent that may move."""
row(
    *("power", "power({0}, {1})", elementwise(2, FLOATS | {"int64", "int32", "uint8"})),
    graphc="gt.power({0}, {1})",
    broadcasts=True,
    ulps=8,
    cusp=True,
    edge=WHOLE,
)
JUMPS = "np.any(np.isclose({0} / {1}, np.round({0} / {1})))"
"""Quotients near a whole number: the result jumps there."""
elementwise_rows("floor_divide remainder fmod", 2, FLOATS | INTEGERS, ulps=2, edge=JUMPS)
elementwise_rows("logaddexp", 2, FLOATS, ulps=4)
elementwise_rows("hypot", 2, FLOATS, ulps=4, cusp=True)
ORIGIN = "np.any(({0} == 0) & ({1} == 0))"
elementwise_rows("arctan2", 2, FLOATS, ulps=4, cusp=True, edge=ORIGIN)
elementwise_rows("copysign", 2, FLOATS)
elementwise_rows("equal not_equal", 2, EVERY, weight=3, edge=TIES)
elementwise_rows("less less_equal greater greater_equal", 2, REALS, weight=2, edge=TIES)
ZEROS = "np.result_type({0}, {1}).kind == 'f' and (np.any({0} == 0) or np.any({1} == 0))"
"""A choice by the truth of a number is another one beside 0."""
elementwise_rows("logical_and logical_or logical_xor", 2, REALS, edge=ZEROS)
elementwise_rows("bitwise_and bitwise_or bitwise_xor", 2, BOOL | INTEGERS)
elementwise_rows("gcd lcm", 2, INTEGERS, weight=1)
elementwise_rows("logical_not", 1, REALS, edge=ZEROS.replace("{1}", "{0}"))
elementwise_rows("invert", 1, BOOL | INTEGERS)
elementwise_rows("negative", 1, SIGNED, weight=4)
elementwise_rows("abs", 1, NUMBERS, weight=3, ulps=1, cusp=True)
elementwise_rows("square", 1, NUMBERS, weight=3, ulps=1)
elementwise_rows("sign", 1, SIGNED - COMPLEX)
elementwise_rows("exp", 1, INEXACT, weight=5, ulps=4)
elementwise_rows("log tanh sin cos", 1, INEXACT, weight=3, ulps=4)
elementwise_rows("sqrt", 1, INEXACT, weight=3, ulps=4, cusp=True)
elementwise_rows("expm1 log1p exp2 log2 log10 tan arctan arcsinh sinh cosh", 1, FLOATS, ulps=8)
STEEP = "np.any(np.abs({0}) == 1)"
"""The slope is infinite there."""
elementwise_rows("arcsin arctanh", 1, FLOATS, weight=1, ulps=8, edge=STEEP)
elementwise_rows("arccos", 1, FLOATS, weight=1, ulps=8, edge=STEEP)
elementwise_rows("arccosh cbrt", 1, FLOATS, weight=1, ulps=8, cusp=True)
elementwise_rows("reciprocal", 1, INEXACT, ulps=2)
elementwise_rows("floor ceil trunc rint", 1, FLOATS)
elementwise_rows("isnan isfinite isinf", 1, INEXACT, weight=1)
elementwise_rows("signbit", 1, FLOATS, weight=1)
elementwise_rows("real imag conj", 1, COMPLEX)
elementwise_rows("angle", 1, COMPLEX, ulps=4)
elementwise_rows("deg2rad rad2deg", 1, FLOATS, weight=1, ulps=2)
elementwise_rows("heaviside", 2, FLOATS, weight=1)
elementwise_rows("sinc", 1, DOUBLE, weight=1, ulps=16)
for _name, _ulps in {"sigmoid": 8, "softplus": 8}.items():
    row(_name, f"{_name}({{0}})", elementwise(1, DOUBLE), f"gt.{_name}({{0}})", ulps=_ulps)


def shifted(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in INTEGERS)
    return x and Choice((x.name, str(g.integer(0, 6))), ones=x.ones)


for _name in ("left_shift", "right_shift"):
    row(_name, f"np.{_name}({{0}}, {{1}})", shifted, weight=1)


def chosen(g: Growing) -> Choice | None:
    """A condition and two values of one dtype."""
    x = g.any()
    condition = x and g.beside(x, fits=lambda v: v.dtype == "bool")
    if x is None or condition is None:
        return None
    # Of where(c, x, x) nothing checks that c has x's lengths, as docs/rewrites.md says.
    y = g.beside(x, condition, fits=lambda v: v.dtype == x.dtype and v.name != x.name)
    if y is None:
        return None
    ones = meet(x, condition, y) or ()
    return Choice((condition.name, *g.random.sample([x.name, y.name], 2)), ones=ones)


row("where", "np.where({0}, {1}, {2})", chosen, weight=6, broadcasts=True)


def clipped(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in REALS - BOOL - {"bfloat16"})
    if x is None:
        return None
    ends = sorted((g.number(x.dtype) for _ in range(2)), key=float)
    if "float" in x.dtype and float(ends[0]) == float(ends[1]):
        return None  # graphc counts the ends as within, and that has another slope there
    return Choice((x.name, *ends), ones=x.ones)


row("clip", "np.clip({0}, {1}, {2})", clipped, edge="np.any(({0} == {1}) | ({0} == {2}))")


def converted(g: Growing) -> Choice | None:
    x = g.any()
    dtype = g.pick(sorted(BOOL | NUMBERS - COMPLEX)) if g.chance(90) else g.pick(sorted(COMPLEX))
    if x is None or (x.dtype in COMPLEX and dtype not in COMPLEX):
        return None
    return Choice((x.name,), {"dtype": repr(dtype)}, ones=x.ones)


row("cast", "cast({0}, {dtype})", converted, "gt.cast({0}, {dtype})", weight=4, ulps=1)
