"""Arrays joined and taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import (
    Choice,
    Choose,
    promotes,
    row,
)
from tests.fuzz.values import Value

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def joined(same_shape: bool) -> Choose:
    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: same_shape or v.ndim)
        if x is None:
            return None
        axis = g.random.randrange(-x.ndim - same_shape, x.ndim + same_shape)
        rest = [*x.shape]
        if not same_shape:
            rest[axis] = -1

        def fits(v: Value) -> bool:
            if v.ndim != x.ndim or not promotes(x, v):
                return False
            return all(n in {-1, m} for n, m in zip(rest, v.shape, strict=True))

        others = [g.any(fits) or x for _ in range(g.integer(1, 2))]
        parts = ", ".join(v.name for v in g.random.sample([x, *others], 1 + len(others)))
        return Choice((), {"parts": parts, "axis": str(axis)})

    return choose


row("concatenate", "np.concatenate([{parts}], axis={axis})", joined(False), weight=5)
row("stack", "np.stack([{parts}], axis={axis})", joined(True), weight=3)


def split(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim and v.shape[0])
    return x and Choice((x.name,), {"at": str(g.integer(0, x.shape[0])), "i": g.pick(["0", "1"])})


row("array_split", "np.array_split({0}, [{at}])[{i}]", split)


def _unstacked(g: Growing) -> Choice | None:
    known = {v.name: v.static for v in g.variables}
    x = g.any(lambda v: v.ndim and v.shape[0] and known.get(v.name, (None,))[0] is not None)
    return x and Choice((x.name,), {"i": str(g.integer(0, x.shape[0] - 1))})


row("unstack", "np.unstack({0})[{i}]", _unstacked, weight=1)
