"""Functions of several parts of NumPy that fit no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import (
    BOOL,
    COMPLEX,
    DOUBLE,
    EVERY,
    FLOATS,
    INEXACT,
    INTEGERS,
    REALS,
    Choice,
    Choose,
    anything,
    elementwise,
    on_axis,
    row,
)
from tests.fuzz.rows.elementwise import WHOLE

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing

# Of rounding and parts.


def _rounded(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in DOUBLE)
    return x and Choice((x.name,), {"n": str(g.integer(-1, 3))}, ones=x.ones)


for _i in (0, 1):
    row(
        f"divmod{_i}",
        f"np.divmod({{0}}, {{1}})[{_i}]",
        elementwise(2, DOUBLE | {"int64", "int32"}),
        weight=1,
        ulps=2,
        broadcasts=True,
    )
    row(f"modf{_i}", f"np.modf({{0}})[{_i}]", elementwise(1, DOUBLE), weight=1)
row("nan_to_num", "np.nan_to_num({0})", elementwise(1, FLOATS | COMPLEX), weight=1)
row("round", "np.round({0}, {n})", _rounded, weight=1, ulps=2)
row("bitwise_count", "np.bitwise_count({0})", elementwise(1, INTEGERS), weight=1)
row("isclose", "np.isclose({0}, {1})", elementwise(2, DOUBLE), weight=1, broadcasts=True)
for _name in ("nextafter", "logaddexp2", "float_power"):
    row(
        _name,
        f"np.{_name}({{0}}, {{1}})",
        elementwise(2, frozenset({"float64"})),
        weight=1,
        ulps=0 if _name == "nextafter" else 8,
        broadcasts=True,
        cusp=_name == "float_power",
        edge=WHOLE if _name == "float_power" else "False",
    )


# Of NaN.
for _name in ("nansum", "nanmax", "nanmean", "nanprod", "nanstd"):
    row(
        _name,
        f"np.{_name}(np.where({{0}} > 1, np.nan, {{0}}), axis={{axis}})",
        lambda g: on_axis(g, DOUBLE),
        f"gt.{_name}(gt.where({{0}} > 1, np.nan, {{0}}), axis={{axis}})",
        weight=1,
        ulps=8,
        accumulates=True,
        cusp=_name == "nanstd",
    )

# Of statistics and signals.


def samples(g: Growing) -> Choice | None:
    """Rows of samples; of one row NumPy gives an array without axes."""
    x = g.any(lambda v: v.ndim == 2 and v.dtype in DOUBLE and v.array.size)
    return x and Choice((x.name,))


for _name, _numpy in (("cov", "np.cov"), ("corrcoef", "correlations")):
    row(
        _name,
        f"np.reshape({_numpy}({{0}}), ({{0}}.shape[0], -1))",
        samples,
        f"gt.reshape(gt.{_name}({{0}}), ({{0}}.shape[0], -1))",
        weight=1,
        ulps=64,
        accumulates=True,
        cusp=True,
    )


def two_vectors(dtypes: frozenset[str], *, equal: bool = False) -> Choose:
    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.ndim == 1 and v.dtype in dtypes and v.array.size)
        y = x and g.any(
            lambda v: (
                v.ndim == 1
                and v.dtype == x.dtype
                and v.array.size
                and (not equal or v.shape == x.shape)
            )
        )
        return y and Choice((x.name, y.name), {"mode": repr(g.pick(["full", "same", "valid"]))})

    return choose


for _name in ("convolve", "correlate"):
    row(
        _name,
        f"np.{_name}({{0}}, {{1}}, mode={{mode}})",
        two_vectors(INEXACT - {"float16"}),
        weight=1,
        ulps=16,
        accumulates=True,
    )
row(
    "polyval",
    "np.polyval([1.5, -1.0, 2.0], {0})",
    anything(frozenset({"float64"}), 0, 2),
    weight=1,
    ulps=8,
    accumulates=True,
)
row("vander", "np.vander({0})", anything(DOUBLE, 1, 1), weight=1, ulps=8)
row("trapezoid", "np.trapezoid({0}, axis={axis})", lambda g: on_axis(g, DOUBLE), weight=1, ulps=8)
row(
    "gradient",
    "np.gradient({0}, axis={axis})",
    lambda g: on_axis(g, DOUBLE, least=2),
    weight=1,
    ulps=4,
    accumulates=True,
)
row("ediff1d", "np.ediff1d({0})", anything(DOUBLE, 1, 2), weight=1, ulps=2, accumulates=True)
row(
    "interp",
    "np.interp({0}, [0.0, 1.0, 2.0], [1.0, -1.0, 2.0])",
    anything(DOUBLE, 0, 2),
    weight=1,
    ulps=8,
    accumulates=True,
)

# Of Fourier transforms, which MLX computes in 32 bits.
for _name, _dtypes in (
    ("fft", frozenset({"complex64"})),
    ("ifft", frozenset({"complex64"})),
    ("rfft", frozenset({"float32"})),
    ("irfft", frozenset({"complex64"})),
):
    row(
        f"fft.{_name}",
        f"np.fft.{_name}({{0}}, axis={{axis}})",
        lambda g, dtypes=_dtypes: on_axis(g, dtypes, least=2),
        weight=1,
        ulps=16,
        accumulates=True,
    )

# Of places.


def along_places(g: Growing) -> Choice | None:
    """Places along an axis, as argsort gives them."""
    x = g.any(lambda v: v.ndim and v.dtype in EVERY)
    if x is None:
        return None
    places = g.any(lambda v: v.dtype == "int64" and v.shape == x.shape)
    return places and Choice((x.name, places.name), {"axis": str(g.axis(x))})


row(
    "take_along_axis",
    "take_along_axis({0}, {1}, {axis})",
    along_places,
    "gt.take_along_axis({0}, {1}, axis={axis})",
)


def chosen_parts(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim and v.shape[0])
    places = x and str(g.integer(-x.shape[0], x.shape[0] - 1))
    return x and Choice((x.name,), {"at": places})


row("delete", "np.delete({0}, {at}, axis=0)", chosen_parts, weight=1)
row("insert", "np.insert({0}, {at}, 1, axis=0)", chosen_parts, weight=1)
row("append", "np.append({0}, {0}, axis=0)", anything(least=1), weight=1)


def _turned(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim >= 2)
    return x and Choice((x.name,), {"k": str(g.integer(-1, 3))})


row("rot90", "np.rot90({0}, {k})", _turned, weight=1)
row("flipud", "np.flipud({0})", anything(least=1), weight=1)
row("atleast_2d", "np.atleast_2d({0})", anything(most=1), weight=1)


def stacked(g: Growing) -> Choice | None:
    x = g.any(lambda v: 1 <= v.ndim <= 3 and v.dtype in REALS | BOOL)
    y = x and g.any(lambda v: v.shape == x.shape and v.dtype == x.dtype)
    return y and Choice((x.name, y.name))


for _name in ("hstack", "vstack", "dstack", "column_stack"):
    row(_name, f"np.{_name}([{{0}}, {{1}}])", stacked, weight=1)

# Made of numbers.


def between(g: Growing) -> Choice:
    ends = {"start": g.number("float64"), "stop": g.number("float64")}
    return Choice((), {**ends, "n": str(g.integer(0, 5)), "k": str(g.integer(-2, 2))})


row("linspace", "np.linspace({start}, {stop}, {n})", between, weight=1, ulps=4)
row("eye", "np.eye({n}, 3, {k})", between, weight=1)
row("tri", "np.tri({n}, 3, {k})", between, weight=1)
