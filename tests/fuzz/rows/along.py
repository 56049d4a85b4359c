"""Functions along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import (
    DOUBLE,
    EVERY,
    FLOATS,
    NUMBERS,
    REALS,
    Choice,
    Choose,
    on_axis,
    row,
)

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def along(dtypes: frozenset[str], least: int = 0) -> Choose:
    """A value and an axis of some length; the shape stays as it is."""

    def choose(g: Growing) -> Choice | None:
        found = on_axis(g, dtypes, least=least)
        if found is None:
            return None
        (x,) = (v for v in g.pool if v.name == found.operands[0])
        return Choice(found.operands, found.options, ones=x.ones)

    return choose


ALONG = "np.{}({{0}}, axis={{axis}})"
for _name in ("cumsum", "cumprod"):
    row(_name, ALONG.format(_name), along(NUMBERS - {"bfloat16"}), ulps=4, accumulates=True)
for _name in ("sort", "flip"):
    row(_name, ALONG.format(_name), along(REALS), weight=3)
row(
    "argsort",
    "np.argsort({0}, axis={axis}, kind='stable')",
    along(REALS),
    "gt.argsort({0}, axis={axis}, kind='stable')",
)
for _name, _numpy in (
    ("softmax", "softmax({0}, {axis})"),
    ("log_softmax", "{0} - p(logsumexp({0}, {axis}, True))"),
):
    row(
        _name,
        _numpy,
        along(DOUBLE, least=1),
        f"gt.{_name}({{0}}, axis={{axis}})",
        ulps=8,
        accumulates=True,
    )
row(
    "diff",
    "np.diff({0}, axis={axis})",
    lambda g: on_axis(g, NUMBERS - {"bfloat16"}, least=1),
    ulps=1,
    accumulates=True,
)
row("ptp", "np.ptp({0}, axis={axis})", lambda g: on_axis(g, FLOATS | {"int64"}), ulps=1)
row("median", "np.median({0}, axis={axis})", lambda g: on_axis(g, DOUBLE), ulps=2)
row(
    "quantile",
    "quantile({0}, {q}, {axis})",
    lambda g: on_axis(g, DOUBLE, {"q": g.pick(["0.25", "0.5", "0.9", "[0.1, 0.6]", "1.0"])}),
    "gt.quantile({0}, {q}, axis={axis})",
    ulps=8,
    weight=1,
    accumulates=True,
)
row(
    "roll",
    "np.roll({0}, {n}, axis={axis})",
    lambda g: on_axis(g, EVERY, {"n": str(g.integer(-3, 6))}, least=0),
)
row(
    "repeat",
    "np.repeat({0}, {n}, axis={axis})",
    lambda g: on_axis(g, EVERY, {"n": str(g.integer(0, 3))}, least=0),
)
row(
    "tile",
    "np.tile({0}, {n})",
    lambda g: on_axis(
        g, EVERY, {"n": g.pick(["2", "(2, 1)", "(1, 2)", "1", "(2, 1, 1)"])}, least=0
    ),
    weight=1,
)


def padded(g: Growing) -> Choice | None:
    mode = g.pick(["constant", "edge", "reflect", "wrap", "symmetric"])
    widths = [(g.integer(0, 2), g.integer(0, 2)) for _ in range(4)]
    x = g.any(lambda v: v.ndim and v.array.size and v.dtype not in {"bool", "bfloat16"})
    width = x and g.pick([1, widths[0], tuple(widths[: x.ndim])])
    return x and Choice((x.name,), {"width": repr(width), "mode": repr(mode)})


row("pad", "np.pad({0}, {width}, mode={mode})", padded, weight=1)
