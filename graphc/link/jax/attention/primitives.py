"""JAX's primitives as functions of graphs of scalars: a rule for each, by its name.

A rule takes an equation and its operands, ``Scalars`` or a ``Box``, and gives a result like these;
None where there is no such graph. Where JAX's result is another than graphc's, as beyond the end of
an array or by division by zero, the graph says so, or leaves the value open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode, RoundingMethod

import graphc.tensor as gt
from graphc.intervals.rules import has_image
from graphc.link.jax.attention.scalars import (
    MOST,
    Box,
    Scalars,
    combined,
    hull,
    index_within,
    moved,
    number,
    opaque,
    scalars,
    single,
    value_of,
)
from graphc.link.jax.implicit.primitives import rows_of_primitives
from graphc.tensor import Tensor

Value = Scalars | Box
Rule = Callable[..., Value | None]

RULES: dict[str, Rule] = {}
"""The rules, by the names of the primitives."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of these primitives."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def _result(eqn: JaxprEqn) -> Any:
    """The type of an equation's result."""
    return eqn.outvars[0].aval


# Elementwise.


def _elementwise(function: Callable[..., Tensor]) -> Callable[..., Scalars]:
    """The rule of a primitive that computes a function of each element."""

    def apply(eqn: JaxprEqn, *operands: Value) -> Scalars:
        return combined(function, _result(eqn).shape, *map(scalars, operands))

    return apply


def _zero(x: Tensor) -> Tensor:
    return number(0, x.dtype)


def _where_not(excluded: Sequence[Tensor], value: Tensor) -> Tensor:
    """A value, left open where a condition holds."""
    held = [x for x in excluded if value_of(x) is not False]
    if not held:
        return value
    kept: Tensor = gt.where(reduce(gt.logical_or, held), opaque(value.dtype, [value]), value)
    return kept


def _equals(x: Tensor, value: int) -> Tensor:
    """Whether a scalar has a value; a constant where that is known."""
    known = value_of(x)
    if known is not None:
        return number(known == value, bool)
    return gt.equal(x, number(value, x.dtype))


def _divided(a: Tensor, b: Tensor) -> Tensor:
    """A quotient; of integers, rounded towards zero."""
    kind = np.dtype(a.dtype).kind
    if kind == "f":
        return gt.divide(a, b)
    if kind == "u":
        return _where_not([_equals(b, 0)], gt.floor_divide(a, b))
    size = gt.abs(b) if value_of(b) is None else number(abs(value_of(b)), b.dtype)
    # One of the two is zero.
    above, below = gt.maximum(a, _zero(a)), gt.maximum(gt.negative(a), _zero(a))
    quotient = gt.subtract(gt.floor_divide(above, size), gt.floor_divide(below, size))
    if (value_of(b) or -1) < 0:
        quotient = gt.multiply(quotient, gt.sign(b))
    least = int(np.iinfo(a.dtype).min)
    return _where_not([_equals(b, 0), _equals(b, least), _equals(a, least)], quotient)


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    rest = gt.fmod(a, b)
    return rest if np.dtype(a.dtype).kind == "f" else _where_not([_equals(b, 0)], rest)


def _shifted(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of bits and by how many places they are shifted, which are not more than these."""

    def shift(x: Tensor, by: Tensor) -> Tensor:
        bits, known = np.iinfo(x.dtype).bits, value_of(by)
        if known is not None and 0 <= known < bits:
            return function(x, by)
        outside = [gt.less(by, _zero(by)), gt.greater_equal(by, number(bits, by.dtype))]
        return _where_not(outside, function(x, by))

    return shift


def _shifted_logically(x: Tensor, by: Tensor) -> Tensor:
    """Bits shifted to the right, zeros after them: numbers, where these are not negative."""
    return _where_not([gt.less(x, _zero(x))], gt.right_shift(x, by))


def selected(which: Tensor, *cases: Tensor) -> Tensor:
    """The case of a number, or of a bool."""
    made = cases[-1]
    for i, case in reversed([*enumerate(cases[:-1])]):
        is_case = gt.logical_not(which) if which.dtype == "bool" else _equals(which, i)
        made = gt.where(is_case, case, made)
    return made


COMPLEX = {"conj", "real"}
"""Primitives of complex numbers, of which there are no intervals."""

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{
        name: row
        for name, row in rows_of_primitives().items()
        if has_image(row) and name not in COMPLEX
    },
    "div": _divided,
    "rem": _remainder,
    "shift_left": _shifted(gt.left_shift),
    "shift_right_arithmetic": _shifted(gt.right_shift),
    "shift_right_logical": _shifted(_shifted_logically),
    "clamp": lambda low, x, high: gt.minimum(gt.maximum(x, low), high),
    "select_n": selected,
    "copy": lambda x: x,
    "pcast": lambda x: x,
    "pvary": lambda x: x,
}
"""Primitives by a function of scalars that computes them."""

RULES.update({name: _elementwise(function) for name, function in FUNCTIONS.items()})


@rule("round")
def _rounded(eqn: JaxprEqn, x: Value) -> Value | None:
    if eqn.params["rounding_method"] != RoundingMethod.TO_NEAREST_EVEN:
        return None
    return _elementwise(gt.round)(eqn, x)


@rule("integer_pow")
def _power(eqn: JaxprEqn, x: Value) -> Value:
    exponent = number(eqn.params["y"], _result(eqn).dtype)
    return _elementwise(lambda x: gt.power(x, exponent))(eqn, x)


@rule("convert_element_type")
def _converted(eqn: JaxprEqn, x: Value) -> Value:
    return _elementwise(lambda x: gt.cast(x, str(_result(eqn).dtype)))(eqn, x)


# Shapes.


def _rearranged(function: Callable[[Any, Any], Any]) -> Rule:
    """The rule of what moves elements, by the function that moves their places."""

    def rearrange(eqn: JaxprEqn, x: Value, *lengths: Value) -> Scalars | None:
        if lengths:  # known only when it runs
            return None
        parts, places = scalars(x)
        return Scalars(parts, function(places, eqn.params))

    return rearrange


def _broadcast(places: Any, params: Any) -> Any:
    lengths = [1] * len(params["shape"])
    for axis, n in zip(params["broadcast_dimensions"], places.shape, strict=True):
        lengths[axis] = n
    return np.broadcast_to(places.reshape(lengths), params["shape"])


def _sliced(places: Any, params: Any) -> Any:
    steps = params["strides"] or [1] * places.ndim
    ends = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return places[tuple([slice(*part) for part in ends])]


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda places, params: places.reshape(params["new_sizes"]),
    "expand_dims": lambda places, params: np.expand_dims(places, params["dimensions"]),
    "transpose": lambda places, params: places.transpose(params["permutation"]),
    "rev": lambda places, params: np.flip(places, params["dimensions"]),
    "slice": _sliced,
    "tile": lambda places, params: np.tile(places, params["reps"]),
}

RULES.update({name: _rearranged(function) for name, function in MOVES.items()})


@rule("squeeze")
def _squeezed(eqn: JaxprEqn, x: Value) -> Value:
    axes = eqn.params["dimensions"]
    if isinstance(x, Box):
        return x._replace(axes=tuple([a for i, a in enumerate(x.axes) if i not in axes]))
    return Scalars(x.parts, x.places.squeeze(axes))


def _joined(function: Callable[[Sequence[Any], Any], Any]) -> Rule:
    """The rule of what puts arrays together."""

    def join(eqn: JaxprEqn, *operands: Value) -> Scalars:
        found = [*map(scalars, operands)]
        firsts = np.cumsum([0, *[len(x.parts) for x in found[:-1]]])
        places = [x.places + first for x, first in zip(found, firsts, strict=True)]
        return Scalars(tuple([part for x in found for part in x.parts]), function(places, eqn))

    return join


RULES["concatenate"] = _joined(lambda xs, eqn: np.concatenate(xs, eqn.params["dimension"]))
RULES["stack"] = _joined(lambda xs, eqn: np.stack(xs, eqn.params["axis"]))


# Elements that are chosen.


def _chosen(x: Box, starts: Sequence[Tensor | None], sizes: Sequence[int]) -> Box:
    """A box in a box; starts are clipped to where it fits in."""
    places, counts = list(x.starts), list(x.sizes)
    for axis, start, size in zip(x.axes, starts, sizes, strict=True):
        if start is not None:
            places[axis] = moved(places[axis], index_within(start, x.sizes[axis] - size))
        counts[axis] = size
    return x._replace(starts=tuple(places), sizes=tuple(counts))


@rule("dynamic_slice")
def _sliced_dynamically(eqn: JaxprEqn, x: Value, *starts: Value) -> Value:
    sizes = eqn.params["slice_sizes"]
    if isinstance(x, Scalars):
        return single(hull(x), sizes)
    return _chosen(x, [hull(scalars(i)) for i in starts], sizes)


@rule("gather")
def _gathered(eqn: JaxprEqn, x: Value, indices: Value) -> Value:
    """Boxes of an array: one for each vector of indices, which are their last axis."""
    how, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    vectors, shape = scalars(indices), _result(eqn).shape
    fills = eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP
    if isinstance(x, Scalars) or how.operand_batching_dims:
        found = hull(scalars(x))
        return single(gt.where(opaque("bool"), found, _fill(eqn)) if fills else found, shape)
    starts: list[Tensor | None] = [None] * len(sizes)
    for i, axis in enumerate(how.start_index_map):
        starts[axis] = hull(_column(vectors, i))
    box = _chosen(x, starts, sizes)
    if fills:
        box = box._replace(fills=(*box.fills, (_is_inside(x.shape, starts, sizes), _fill(eqn))))
    if vectors.places.ndim > 1:
        return single(hull(scalars(box)), shape)
    return box._replace(axes=tuple([box.axes[i] for i in _kept_axes(how, len(sizes))]))


def _kept_axes(how: Any, rank: int) -> list[int]:
    return [i for i in range(rank) if i not in how.collapsed_slice_dims]


def _column(vectors: Scalars, i: int) -> Scalars:
    """One index of each vector."""
    places = vectors.places[..., i]
    used, numbers = np.unique(places, return_inverse=True)
    return Scalars(tuple([vectors.parts[n] for n in used]), numbers.reshape(places.shape))


def _is_inside(
    shape: Sequence[int], starts: Sequence[Tensor | None], sizes: Sequence[int]
) -> Tensor:
    """Whether a box is within an array."""
    made = number(True, bool)
    for n, start, size in zip(shape, starts, sizes, strict=True):
        if start is not None:
            most = number(min(n - size, int(np.iinfo(start.dtype).max)), start.dtype)
            inside = gt.greater_equal(start, _zero(start)), gt.less_equal(start, most)
            made = gt.logical_and(made, gt.logical_and(*inside))
    return made


def _fill(eqn: JaxprEqn) -> Tensor:
    """The value of elements beyond the ends of an array."""
    dtype, value = _result(eqn).dtype, eqn.params["fill_value"]
    if value is None and dtype.kind in "iu":
        kind = np.iinfo(dtype)
        value = kind.min or kind.max
    elif value is None:
        value = True if dtype.kind == "b" else np.nan
    return number(value, dtype)


# Reductions.


def _reduced(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """The rule of a reduction that equal elements do not change."""

    def apply(eqn: JaxprEqn, x: Value) -> Scalars:
        parts, rows = _rows(eqn, scalars(x))
        if len(rows) > MOST:
            return single(hull(scalars(x)), _result(eqn).shape)
        made = [reduce(function, [parts[i] for i in np.unique(row)]) for row in rows]
        return Scalars(tuple(made), np.arange(len(rows)).reshape(_result(eqn).shape))

    return apply


def _rows(eqn: JaxprEqn, x: Scalars) -> tuple[Sequence[Tensor], Any]:
    """The distinct elements, and the places of those that each element of the result is made of."""
    axes = eqn.params["axes"]
    last = np.moveaxis(x.places, axes, range(-len(axes), 0))
    return x.parts, last.reshape(_result(eqn).size, -1)


RULES["reduce_or"] = _reduced(gt.bitwise_or)
RULES["reduce_and"] = _reduced(gt.bitwise_and)
RULES["reduce_max"] = _reduced(gt.maximum)
RULES["reduce_min"] = _reduced(gt.minimum)


@rule("reduce_sum")
def _summed(eqn: JaxprEqn, x: Value) -> Scalars | None:
    """A sum of integers; of many, as many times one that may be any of them."""
    dtype = _result(eqn).dtype
    parts, rows = _rows(eqn, scalars(x))
    count = rows.shape[1]
    if dtype.kind not in "iu" or count > np.iinfo(dtype).max:
        return None
    if rows.size > MOST:
        total = gt.multiply(hull(scalars(x)), number(count, dtype))
        return single(total, _result(eqn).shape)
    made = [reduce(gt.add, [parts[i] for i in row]) for row in rows]
    return Scalars(tuple(made), np.arange(len(rows)).reshape(_result(eqn).shape))
