"""Parts of arrays, read and changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.row import (
    EVERY,
    NUMBERS,
    Choice,
    Choose,
    row,
)
from tests.fuzz.values import Value

if TYPE_CHECKING:
    from tests.fuzz.generate import Growing


def index(g: Growing, x: Value) -> str:
    """An index: integers, slices, new axes, an ellipsis, arrays, lengths."""
    parts: list[str] = []
    places = g.integer(1, 3)
    for axis, n in enumerate(x.shape[: g.integer(1, x.ndim)]):
        parts += _entry(g, x, axis, n, places if g.chance(30) else 0)
    if g.chance(10):
        parts.append("...")
    return ", ".join(parts) if len(parts) > 1 else parts[0] + ("," if parts[0] == "..." else "")


def _entry(g: Growing, x: Value, axis: int, n: int, places: int) -> list[str]:
    kind = g.integer(0, 9)
    if places and n:
        array = [g.integer(-n, n - 1) for _ in range(places)]
        return [f"np.array({array})" if kind else f"np.array([{array}])"]
    if kind <= 1 and n:
        return [str(g.integer(-n, n - 1))]
    if kind == 2:
        return ["None", ":"]
    if kind == 3:
        return [g.pick(["::-1", "::-2", "::2", "-1::-1", ":-1"])]
    if kind == 4:
        return [f"{x.name}.shape[{axis}] // 2:" if g.chance(50) else f":{x.name}.shape[{axis}] - 1"]
    ends = [g.pick(["", str(g.integer(-n - 1, n + 1))]) for _ in range(2)]
    return [":".join([*ends, *g.pick([[], [], [], ["2"], ["-1"]])])]


def indexed(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim)
    return x and Choice((x.name,), {"index": index(g, x)})


row("index", "{0}[{index}]", indexed, weight=12)


def by_scalar(g: Growing) -> Choice | None:
    """An index, or an end of a slice, that is an input."""
    x = g.any(lambda v: v.ndim and v.shape[0])
    if x is None:
        return None
    i = g.variable("int64", (), g.integer(-x.shape[0], x.shape[0] - 1))
    return Choice((x.name, i.name))


row("index_by_input", "{0}[{1}]", by_scalar, depth=0)
row("slice_from_input", "{0}[{1}:]", by_scalar, depth=0)
row("slice_to_input", "{0}[:{1}]", by_scalar, depth=0)


def by_array(g: Growing) -> Choice | None:
    """Places that are an input."""
    x = g.any(lambda v: v.ndim and v.shape[0])
    if x is None:
        return None
    n = x.shape[0]
    shape = g.pick([(g.integer(0, 4),), (g.integer(1, 2), g.integer(1, 3))])
    places = np.reshape([g.integer(-n, n - 1) for _ in range(int(np.prod(shape)))], shape)
    i = g.variable(g.pick(["int64", "int32"]), shape, places)
    return Choice((x.name, i.name))


row("gather", "{0}[{1}]", by_array, weight=3, depth=0)
row("take", "np.take({0}, {1}, axis=0)", by_array, weight=1, depth=0)
row(
    "inc_gathered",
    "inc({0}, {1}, 1)",
    lambda g: _numbers(by_array(g), g),
    "{0}[{1}].inc(1)",
    depth=0,
    ulps=1,
)


def _numbers(found: Choice | None, g: Growing) -> Choice | None:
    x = next((v for v in g.pool if found and v.name == found.operands[0]), None)
    return found if x is not None and x.dtype in NUMBERS - {"bfloat16"} else None


def positions(g: Growing, n: int, shape: tuple[int, ...]) -> Value:
    """A new input: an index array of an axis of n elements."""
    array = np.reshape([g.integer(-n, n - 1) for _ in range(int(np.prod(shape)))], shape)
    return g.variable("int64", shape, array)


def by_two_vectors(g: Growing) -> Choice | None:
    """Two vectors of one length, which other calls of the program may give two."""
    x = g.any(lambda v: v.ndim > 1 and 0 not in v.shape[:2])
    if x is None:
        return None
    shape = (g.integer(0, 3),)
    i, j = (positions(g, n, shape) for n in x.shape[:2])
    return Choice((x.name, i.name, j.name))


row("gather_pairs", "{0}[{1}, {2}]", by_two_vectors, depth=0, broadcasts="into")


def updated_vector(dtypes: frozenset[str], *, masked: bool = False) -> Choose:
    """Elements of a vector, by positions or by a mask, and a value for each of them."""

    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.ndim == 1 and v.dtype in dtypes and v.shape[0])
        if x is None:
            return None
        if masked:
            i = g.variable("bool", x.shape)
            count = f"(int(np.sum({i.name})),)"
        else:
            i = positions(g, x.shape[0], (g.integer(0, 3),))
            count = f"{i.name}.shape"
        value = g.variable(x.dtype, np.shape(x.array[i.array]))
        return Choice((x.name, value.name), {"index": i.name, "shape": count}, ones=x.ones)

    return choose


for _name, _write, _dtypes in (("set", "put", EVERY), ("inc", "inc", NUMBERS - {"bfloat16"})):
    for _masked in (False, True):
        row(
            f"{_name}_{'masked' if _masked else 'gathered'}_by_input",
            f"{_write}({{0}}, {{index}}, {{1}})",
            updated_vector(_dtypes, masked=_masked),
            f"{{0}}[{{index}}].{_name}({{1}})",
            depth=0,
            broadcasts="into",
            by_value=_masked,
            ulps=_name == "inc",
            accumulates=_name == "inc",
        )


def by_mask(g: Growing) -> Choice | None:
    x = g.any(lambda v: v.ndim)
    mask = x and g.any(lambda v: v.dtype == "bool" and v.shape == x.shape[: v.ndim] and v.ndim)
    return mask and Choice((x.name, mask.name))


row("mask", "masked({0}, {1})", by_mask, "{0}[{1}]", weight=3, by_value=True, depth=0)


def updated(dtypes: frozenset[str]) -> Choose:
    """A part and a value for it: a number, or an array of the part's shape."""

    def choose(g: Growing) -> Choice | None:
        x = g.any(lambda v: v.ndim and v.dtype in dtypes)
        if x is None:
            return None
        where = index(g, x)
        part = eval(f"{x.name}[{where}]", {x.name: x.array, "np": np})
        if not np.ndim(part) and any(c.name == x.name and c.row.name == "shape" for c in g.calls):
            return None  # a length that graphc knows is a number, and no part of an array
        y = g.any(lambda v: v.dtype == x.dtype and v.shape == np.shape(part))
        value = y.name if y is not None and g.chance(75) else g.number(x.dtype)
        options = {"index": where, "shape": f"np.shape({x.name}[{where}])"}
        return Choice((x.name, value), options, ones=x.ones)

    return choose


row(
    "set",
    "put({0}, np.s_[{index}], {1})",
    updated(EVERY),
    "{0}[{index}].set({1})",
    weight=5,
    broadcasts="into",
)
row(
    "inc",
    "inc({0}, np.s_[{index}], {1})",
    updated(NUMBERS - {"bfloat16"}),
    "{0}[{index}].inc({1})",
    broadcasts="into",
    weight=4,
    ulps=1,
    accumulates=True,
)
