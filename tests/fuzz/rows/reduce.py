"""Reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.row import (
    DOUBLE,
    EVERY,
    FLOATS,
    INEXACT,
    INTEGERS,
    REALS,
    Choice,
    Choose,
    on_axis,
    row,
)

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def reduced(dtypes: frozenset[str], *, several: bool = True, empty: bool = True) -> Choose:
    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.dtype in dtypes and v.ndim and (empty or v.array.size))
        if x is None:
            return None
        axes: Any = g.pick([None, g.axis(x), g.axis(x), g.axes(x) if several else g.axis(x)])
        keepdims = g.chance(40)
        gone = range(x.ndim) if axes is None else np.ravel(axes) % x.ndim
        ones = tuple(
            True if i in gone else one for i, one in enumerate(x.ones) if keepdims or i not in gone
        )
        return Choice((x.name,), {"axis": repr(axes), "keepdims": repr(keepdims)}, ones=ones)

    return choose


REDUCTION = "np.{name}({{0}}, axis={{axis}}, keepdims={{keepdims}})"
for _name, _choose, _more in (
    ("sum", reduced(EVERY), {"weight": 8}),
    ("mean", reduced(INEXACT | INTEGERS, empty=False), {"weight": 4}),
    ("prod", reduced(EVERY - {"bfloat16"}), {}),
    ("var", reduced(FLOATS, empty=False), {}),
    ("std", reduced(FLOATS, empty=False), {"cusp": True}),
):
    row(_name, REDUCTION.format(name=_name), _choose, ulps=8, accumulates=True, **_more)
for _name in ("max", "min"):
    row(_name, REDUCTION.format(name=_name), reduced(REALS), weight=4)
for _name in ("any", "all"):
    row(_name, REDUCTION.format(name=_name), reduced(REALS - {"bfloat16"}))
for _name in ("argmax", "argmin"):
    row(_name, REDUCTION.format(name=_name), reduced(REALS, several=False))
row("count_nonzero", REDUCTION.format(name="count_nonzero"), reduced(EVERY - {"bfloat16"}))
row(
    "logsumexp",
    "logsumexp({0}, {axis}, {keepdims})",
    lambda g: on_axis(g, DOUBLE, {"keepdims": repr(g.chance(40))}),
    "gt.logsumexp({0}, {axis}, keepdims={keepdims})",
    ulps=8,
    accumulates=True,
)
