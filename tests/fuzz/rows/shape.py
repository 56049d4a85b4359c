"""Axes, shapes, and arrays made of lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.row import (
    EVERY,
    NUMBERS,
    Choice,
    Choose,
    anything,
    elementwise,
    row,
)

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def transposed(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim > 1)
    if x is None:
        return None
    order = g.random.sample(range(x.ndim), x.ndim)
    return Choice((x.name,), {"order": repr(order)}, ones=tuple(x.ones[i] for i in order))


row("transpose", "np.transpose({0}, {order})", transposed, weight=4)


def expanded(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim < 4)
    if x is None:
        return None
    axis = g.random.randrange(-x.ndim - 1, x.ndim + 1)
    ones = list(x.ones)
    ones.insert(axis % (x.ndim + 1), True)
    return Choice((x.name,), {"axis": str(axis)}, ones=tuple(ones))


row("expand_dims", "np.expand_dims({0}, {axis})", expanded, weight=5)


def squeezed(g: Growing) -> Choice | None:
    x = g.any(lambda v: any(v.ones))
    if x is None:
        return None
    axis = g.pick([i for i, one in enumerate(x.ones) if one])
    ones = x.ones[:axis] + x.ones[axis + 1 :]
    return Choice((x.name,), {"axis": str(axis)}, ones=ones)


row("squeeze", "np.squeeze({0}, {axis})", squeezed)


def moved(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim > 1)
    return x and Choice((x.name,), {"a": str(g.axis(x)), "b": str(g.axis(x))})


row("moveaxis", "np.moveaxis({0}, {a}, {b})", moved, weight=1)
row("swapaxes", "np.swapaxes({0}, {a}, {b})", moved)


def reshaped(g: Growing) -> Choice | None:
    x = g.any()
    if x is None:
        return None
    size = x.array.size
    shapes = ["(-1,)", f"({size},)", f"({x.name}.size,)"]
    shapes += ["(1, -1)", "(-1, 1)"] if size else ["(1, 0)", "(0, 3)"]
    shapes += [f"({n}, -1)" for n in (2, 3) if size and size % n == 0]
    shapes += [f"({x.name}.shape[0], -1)", f"(-1, {x.name}.shape[-1])"] if x.ndim and size else []
    return Choice((x.name,), {"shape": g.pick(shapes)})


row("reshape", "np.reshape({0}, {shape})", reshaped, weight=5)
row("ravel", "np.ravel({0})", anything(), weight=1)


def broadcast(g: Growing) -> Choice | None:
    x = g.any()
    if x is None:
        return None
    shape = [str(n) if g.chance(50) else f"{x.name}.shape[{i}]" for i, n in enumerate(x.shape)]
    wide = [
        str(g.integer(0, 3)) if one and g.chance(50) else n
        for n, one in zip(shape, x.ones, strict=True)
    ]
    front = [str(g.integer(1, 3))] if g.chance(60) and x.ndim < 4 else []
    ones = tuple(n == "1" for n in front) + tuple(
        n == "1" or (one and ".shape" in n) for n, one in zip(wide, x.ones, strict=True)
    )
    return Choice((x.name,), {"shape": f"({''.join(n + ', ' for n in front + wide)})"}, ones=ones)


row("broadcast_to", "np.broadcast_to({0}, {shape})", broadcast, weight=4, broadcasts=True)


def of_length(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim)
    return x and Choice((x.name,), {"axis": str(g.axis(x))})


row("length", "np.int64({0}.shape[{axis}])", of_length, "{0}.shape[{axis}]", by_shape=True)
row("size", "np.int64(np.size({0}))", anything(), "gt.size({0})", weight=1, by_shape=True)
row("shape", "np.array({0}.shape)", anything(least=1), "gt.shape({0})", weight=1, by_shape=True)
row("arange", "np.arange({0}.shape[{axis}])", of_length, by_shape=True)
row("zeros_like", "np.zeros_like({0})", elementwise(1, EVERY), by_shape=True)
row("ones_like", "np.ones_like({0})", elementwise(1, EVERY), by_shape=True)


def filled(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim)
    if x is None:
        return None
    shape = f"({x.name}.shape[{g.axis(x)}], {g.integer(1, 3)})"
    return Choice((), {"shape": shape, "value": g.pick(["0.0", "1.5", "-2.0"])})


row("full", "np.full({shape}, {value})", filled, weight=1)


def on_diagonals(least: int) -> Choose:
    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.ndim >= least)
        return x and Choice((x.name,), {"k": str(g.integer(-2, 2))})

    return choose


for _name in ("tril", "triu"):
    row(_name, f"np.{_name}({{0}}, {{k}})", on_diagonals(2))


row("trace", "np.trace({0})", anything(NUMBERS - {"bfloat16"}, 2), ulps=2, accumulates=True)


def _diag(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim in {1, 2})
    return x and Choice((x.name,), {"k": str(g.integer(-2, 2))})


row("diagonal", "np.diagonal({0}, {k})", on_diagonals(2))
row("diag", "np.diag({0}, {k})", _diag)
