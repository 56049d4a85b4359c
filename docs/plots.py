"""Plots of functions and densities for the pages of ``api``, drawn while Sphinx builds them.

Each is an SVG within the page, so that its text and axes have the colour of the page's theme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from densities import distribution

from graphc.tensor.core.elementwise import ROWS, Elementwise
from graphc.tensor.core.help import signature_of

INK = "#123456"
"""Stands for the colour of the page's text."""

COLOURS = ("#3b8ede", "#e8833a", "#3fa66b")
"""The colours of the curves, visible on white and on black."""

EDGE = 1e-9
"""Distance from the ends of an axis to a density's curve: at an end it may be infinite."""


@dataclass(frozen=True)
class Plot:
    """Axis and curves of a function's plot.

    Attributes:
        low: The lower end of the axis.
        high: The upper end of the axis.
        settings: The other operands of each curve.
        limits: The ends of the vertical axis; by default the range of the values.
        along: Index of the operand along the axis; the last by default.
    """

    low: float
    high: float
    settings: tuple[tuple[float, ...], ...] = ((),)
    limits: tuple[float, float] | None = None
    along: int = -1


WIDE = Plot(-4, 4)
UNIT = Plot(0, 1, limits=(-4, 4))
ORDERS = ((0,), (1,), (2,))
SHAPES = ((0.5,), (1,), (3,))
PAIRS = ((0.5, 0.5), (2, 2), (2, 5))

PLOTS: dict[str, Plot] = {
    "sqrt": Plot(0, 4),
    "cbrt": WIDE,
    "reciprocal": Plot(-3, 3, limits=(-5, 5)),
    "remainder": Plot(-4, 4, ((2,), (-2,)), along=0),
    "fmod": Plot(-4, 4, ((2,),), along=0),
    "power": Plot(0, 2, ((-0.5,), (0.5,), (2,)), (0, 4), along=0),
    **{name: Plot(-3, 3) for name in ("floor", "ceil", "trunc")},
    # Exponentials and logarithms.
    **{name: Plot(-3, 2) for name in ("exp", "exp2", "expm1")},
    **{name: Plot(0, 4, limits=(-3, 3)) for name in ("log", "log2", "log10")},
    "log1p": Plot(-1, 3, limits=(-3, 2)),
    "log1mexp": Plot(-4, 0, limits=(-4, 0.2)),
    "logaddexp": Plot(-4, 4, ((-1,), (1,)), along=0),
    "sigmoid": Plot(-6, 6),
    "softplus": WIDE,
    "logit": UNIT,
    # Angles.
    "sin": Plot(-7, 7),
    "cos": Plot(-7, 7),
    "tan": Plot(-4.5, 4.5, limits=(-6, 6)),
    "arcsin": Plot(-1, 1),
    "arccos": Plot(-1, 1),
    "arctan": Plot(-6, 6),
    "arctan2": Plot(-2, 2, ((-1,), (1,)), along=0),
    "sinh": Plot(-3, 3),
    "cosh": Plot(-3, 3),
    "tanh": WIDE,
    "arcsinh": WIDE,
    "arccosh": Plot(1, 5),
    "arctanh": Plot(-1, 1, limits=(-3, 3)),
    # The error function and the normal distribution.
    "erf": Plot(-3, 3),
    "erfc": Plot(-3, 3),
    "erfcx": Plot(-1, 5),
    "erfinv": Plot(-1, 1, limits=(-2, 2)),
    "erfcinv": Plot(0, 2, limits=(-2, 2)),
    "ndtr": WIDE,
    "ndtri": Plot(0, 1, limits=(-3, 3)),
    "log_ndtr": WIDE,
    "ndtri_exp": Plot(-6, 0, limits=(-4, 3)),
    "owens_t": Plot(-4, 4, ((0.5,), (1,), (4,)), along=0),
    "sinc": Plot(-5, 5),
    "expi": Plot(-3, 3, limits=(-4, 8)),
    # Entropies.
    "entr": Plot(0, 2),
    "rel_entr": Plot(0, 2, ((0.5,), (1,)), along=0),
    "kl_div": Plot(0, 2, ((0.5,), (1,)), along=0),
    "xlogy": Plot(0, 3, ((0.5,), (1,), (2,)), (-2, 3)),
    "xlog1py": Plot(-1, 2, ((0.5,), (1,), (2,)), (-2, 3)),
    # Gamma functions.
    "gamma": Plot(-4.3, 4.3, limits=(-6, 8)),
    "gammaln": Plot(-4, 5, limits=(-2, 5)),
    "digamma": Plot(-4, 4, limits=(-6, 6)),
    "tri_gamma": Plot(-4, 4, limits=(0, 20)),
    "polygamma": Plot(0.2, 4, ORDERS, (-8, 8)),
    "zeta": Plot(0.3, 4, ((1.5,), (2,), (4,)), (0, 8)),
    "gammainc": Plot(0, 8, SHAPES),
    "gammaincc": Plot(0, 8, SHAPES),
    "gammaincinv": Plot(0, 1, SHAPES, (0, 6)),
    "gammainccinv": Plot(0, 1, SHAPES, (0, 6)),
    "gammainc_by_a": Plot(0, 8, SHAPES),
    "betaln": Plot(0.1, 4, SHAPES),
    "betainc": Plot(0, 1, PAIRS),
    "betaincinv": Plot(0, 1, PAIRS),
    "betainc_by_a": Plot(0, 1, PAIRS),
    "betainc_by_b": Plot(0, 1, PAIRS),
    "hyp2f1": Plot(-3, 1, ((0.5, 1, 1.5), (1, 1, 2), (-2, 1, 1)), (0, 5)),
    "hyp2f1_by_a": Plot(-3, 0.95, ((0.5, 1, 1.5), (1, 1, 2))),
    "hyp2f1_by_b": Plot(-3, 0.95, ((0.5, 1, 1.5), (1, 1, 2))),
    "hyp2f1_by_c": Plot(-3, 0.95, ((0.5, 1, 1.5), (1, 1, 2))),
    # Bessel functions.
    **{name: Plot(-15, 15) for name in ("j0", "j1")},
    "jv": Plot(0, 20, ((0,), (0.5,), (3,))),
    **{name: Plot(-3, 3) for name in ("i0", "i1")},
    **{name: Plot(-8, 8) for name in ("i0e", "i1e")},
    "iv": Plot(0, 4, ORDERS),
    "ive": Plot(0, 8, ORDERS),
    "kv": Plot(0, 4, ORDERS, (0, 4)),
    "kve": Plot(0, 4, ORDERS, (0, 6)),
}
"""The elementwise functions that have a plot."""


def draw_function(name: str) -> str:
    """Plot an elementwise function, as SVG."""
    plot, row = PLOTS[name], ROWS[name]
    names = [x for x in signature_of(row).parameters if x != "more"]
    title = f"{name}({', '.join(names)})"
    axis = names.pop(plot.along)
    figure, axes = _empty(axis, title)
    for colour, setting in zip(COLOURS, plot.settings, strict=False):
        label = ", ".join(f"{x} = {value:g}" for x, value in zip(names, setting, strict=True))
        axes.plot(*_curve(row, plot, setting), color=colour, label=label)
    for pole in _poles(row, plot):
        axes.axvline(pole, color=INK, linewidth=0.6, linestyle=":")
    axes.set(xlim=(plot.low, plot.high), ylim=plot.limits)
    return _write_svg(figure, axes, f"Plot of {name}", legend=len(plot.settings) > 1)


def _poles(row: Elementwise, plot: Plot) -> Iterator[float]:
    poles: list[Any] = [*row.facts.poles]
    if poles and poles[-1] is ...:
        poles[-1:] = [poles[-2] + k * (poles[-2] - poles[-3]) for k in range(1, 9)]
    yield from sorted({pole for pole in poles if plot.low < pole < plot.high})


def _curve(row: Elementwise, plot: Plot, setting: tuple[float, ...]) -> tuple[Any, Any]:
    """Return the points of a curve, with NaN at poles and where the function jumps."""
    poles = [*_poles(row, plot)]
    near = [pole + side * 10.0**-k for pole in poles for side in (1, -1) for k in (1.5, 2, 2.5, 3)]
    x = np.sort([*np.linspace(plot.low, plot.high, 481), *poles, *near])
    xs: list[Any] = [np.full_like(x, value) for value in setting]
    xs.insert(plot.along % row.arity, x)
    with np.errstate(all="ignore"):
        y = np.array(row.perform(*xs), float)
    y[np.isin(x, poles) | ~np.isfinite(y)] = np.nan
    shown = np.ptp(plot.limits) if plot.limits else np.nanmax(y) - np.nanmin(y)
    y[np.abs(y) > 20 * shown] = np.nan
    return x, np.where(_jumps(y, 0.2 * shown), np.nan, y)


def _jumps(y: Any, height: float) -> Any:
    """Return where a function jumps: it steps to the next point and is flat around."""
    step = np.abs(np.diff(y, append=y[-1]))
    around = np.maximum(np.roll(step, 1), np.roll(step, -1))
    return (step > height) & (step > 10 * around)


# Densities.


@dataclass(frozen=True)
class Density:
    """Axis of a distribution's plot, and the parameters of each curve."""

    low: float
    high: float
    settings: tuple[dict[str, float], ...]


def _scaled(low: float, high: float) -> Density:
    return Density(low, high, ({"loc": 0, "scale": 1}, {"loc": 1, "scale": 2}))


DENSITIES: dict[str, Density] = {
    "uniform": Density(-2, 4, ({"low": 0, "high": 1}, {"low": -1, "high": 3})),
    "normal": _scaled(-6, 8),
    "standard_normal": Density(-4, 4, ({},)),
    "lognormal": Density(0, 6, ({"mean": 0, "sigma": 1}, {"mean": 1, "sigma": 0.3})),
    "halfnormal": _scaled(0, 7),
    "truncnorm": Density(
        -2, 3, ({"a": -1, "b": 2, "loc": 0, "scale": 1}, {"a": 0, "b": 0.5, "loc": 1, "scale": 2})
    ),
    "t": Density(-6, 6, ({"df": 1, "loc": 0, "scale": 1}, {"df": 10, "loc": 0, "scale": 1})),
    **{name: _scaled(-8, 10) for name in ("cauchy", "laplace", "logistic", "gumbel")},
    "halfcauchy": _scaled(0, 10),
    "exponential": Density(0, 6, ({"scale": 1}, {"scale": 3})),
    "truncexpon": Density(0, 4, ({"b": 1, "loc": 0, "scale": 1}, {"b": 3, "loc": 0.5, "scale": 1})),
    "gamma": Density(0, 10, ({"shape": 1, "scale": 2}, {"shape": 4, "scale": 1})),
    "invgamma": Density(0, 4, ({"shape": 1, "scale": 1}, {"shape": 3, "scale": 2})),
    "gengamma": Density(0, 4, ({"alpha": 2, "p": 1, "lambd": 1}, {"alpha": 2, "p": 3, "lambd": 2})),
    "chisquare": Density(0, 12, ({"df": 2}, {"df": 5})),
    "beta": Density(0, 1, ({"alpha": 0.5, "beta": 0.5}, {"alpha": 2, "beta": 5})),
    "weibull": Density(0, 3, ({"shape": 1}, {"shape": 3})),
    "rayleigh": Density(0, 8, ({"scale": 1}, {"scale": 2})),
    "pareto": Density(0, 6, ({"b": 1.5, "scale": 1}, {"b": 4, "scale": 2})),
    "vonmises": Density(-3.15, 3.15, ({"mu": 0, "kappa": 1}, {"mu": 1, "kappa": 8})),
    "wald": Density(0, 4, ({"mean": 1, "scale": 1}, {"mean": 1.5, "scale": 8})),
    "triangular": Density(
        -1, 3, ({"left": 0, "mode": 0.5, "right": 1}, {"left": -1, "mode": 2, "right": 3})
    ),
    "bernoulli": Density(0, 1, ({"p": 0.2}, {"p": 0.7})),
    "binomial": Density(0, 20, ({"n": 10, "p": 0.3}, {"n": 20, "p": 0.7})),
    "betabinom": Density(0, 10, ({"n": 10, "a": 2, "b": 3}, {"n": 10, "a": 0.5, "b": 0.5})),
    "nbinom": Density(0, 20, ({"n": 1, "p": 0.3}, {"n": 10, "p": 0.6})),
    "geometric": Density(0, 12, ({"p": 0.5}, {"p": 0.2})),
    "poisson": Density(0, 16, ({"lam": 1}, {"lam": 8})),
    "hypergeometric": Density(
        0, 10, ({"ngood": 20, "nbad": 30, "nsample": 10}, {"ngood": 5, "nbad": 5, "nsample": 6})
    ),
    "integers": Density(0, 10, ({"low": 1, "high": 7}, {"low": 2, "high": 5})),
}
"""The distributions that have a plot."""


def draw_density(name: str) -> str:
    """Plot a distribution, as SVG."""
    plot, stated = DENSITIES[name], distribution(name)
    figure, axes = _empty(stated.variable, stated.title)
    whole = stated.variable == "k"
    for colour, setting in zip(COLOURS, plot.settings, strict=False):
        inside = np.linspace(plot.low + EDGE, plot.high - EDGE, 401)
        x = np.arange(plot.low, plot.high + 1) if whole else inside
        y = stated.density(x, setting)
        label = ", ".join(f"{key} = {value:g}" for key, value in setting.items())
        style = {"marker": "o", "markersize": 3, "linewidth": 0.8} if whole else {}
        axes.plot(x, np.minimum(y, 3), color=colour, label=label, **style)
    axes.set_ylim(bottom=0)
    return _write_svg(figure, axes, f"Plot of {name}", legend=len(plot.settings) > 1)


def _empty(across: str, up: str) -> tuple[Any, Any]:
    import matplotlib as mpl  # noqa: PLC0415 (an extra: the tests import this file without it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    mpl.rcParams.update({"svg.hashsalt": up, "svg.fonttype": "none", **dict.fromkeys(inked, INK)})
    figure = Figure(figsize=(7.4, 2.6))
    axes = figure.add_axes((0.07, 0.19, 0.54, 0.7))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.set_xlabel(across)
    axes.set_title(up, loc="left", fontsize="medium")
    return figure, axes


def _write_svg(figure: Any, axes: Any, label: str, *, legend: bool) -> str:
    if legend:
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue().replace(INK, "currentColor")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1; font-family: inherit", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return f'<div class="plot" role="img" aria-label="{label}">{svg[svg.index("<svg") :]}</div>'
