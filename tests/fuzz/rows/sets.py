"""Sets, places and counts, many of which have shapes that depend on values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import DOUBLE, INTEGERS, Choice, Choose, anything, row

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing

VALUES = DOUBLE | {"int64", "int32", "uint8"}

TIED = "np.asarray({0}).dtype.kind == 'f' and np.any(np.diff(np.sort({0}, axis=None)) == 0)"
"""Equal numbers are one element of the result, and two where one of them is moved."""
row("unique", "np.unique({0})", anything(VALUES, 1), by_value=True, depth=0, edge=TIED)
row(
    "unique_counts",
    "np.unique({0}, return_counts=True)[1]",
    anything(VALUES, 1),
    by_value=True,
    depth=0,
)
row(
    "unique_inverse",
    "np.unique({0}, return_inverse=True)[1]",
    anything(VALUES, 1, 1),
    by_value=True,
    depth=0,
)
row("flatnonzero", "np.flatnonzero({0})", anything(least=1), by_value=True, depth=0)
row("nonzero", "np.nonzero({0})[0]", anything(VALUES | {"bool"}, 1), by_value=True, depth=0)
row("argwhere", "np.argwhere({0})", anything(VALUES | {"bool"}, 1), by_value=True, depth=0)


def pair(least: int, most: int) -> Choose:
    """Two values of one dtype."""

    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.dtype in VALUES and least <= v.ndim <= most)
        y = x and g.any(lambda v: v.dtype == x.dtype and least <= v.ndim <= most)
        return y and Choice((x.name, y.name))

    return choose


for _name in ("intersect1d", "union1d", "setdiff1d", "setxor1d"):
    row(
        _name,
        f"np.{_name}({{0}}, {{1}})",
        pair(1, 1),
        weight=1,
        by_value=True,
        depth=0,
        edge=TIED.replace("{0}", "np.concatenate([{0}, {1}])"),
    )
row("isin", "np.isin({0}, {1})", pair(0, 2))


def sorted_and_values(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in VALUES and v.ndim == 1)
    y = x and g.any(lambda v: v.dtype == x.dtype)
    return y and Choice((x.name, y.name), {"side": g.pick(["'left'", "'right'"])})


row("searchsorted", "np.searchsorted(np.sort({0}), {1}, side={side})", sorted_and_values)
row("digitize", "np.digitize({1}, np.sort({0}))", sorted_and_values, weight=1)


def counted(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.dtype in INTEGERS - {"uint64"} and v.ndim == 1)
    return x and Choice((f"{x.name}",), {"most": str(g.integer(3, 7))})


row(
    "bincount",
    "np.bincount(np.clip({0}, 0, {most}), minlength={most} + 1)",
    counted,
    "gt.bincount(gt.clip({0}, 0, {most}), minlength={most} + 1)",
    weight=1,
    by_value=True,
    depth=0,
)
