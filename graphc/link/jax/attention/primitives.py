"""Rules that turn JAX's primitives into graphs of scalars, by the primitives' names.

A rule takes an equation and its operands, ``Scalars`` or an ``ArrayWindow``, and returns one of
these; None if there is no such graph. Where JAX and graphc differ, as beyond the end of an array or
for division by zero, the graph computes JAX's result or makes the value unknown.
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
    MAX_ELEMENTS,
    ArrayWindow,
    Scalars,
    add_offset,
    hull,
    index_within,
    map_elements,
    number,
    opaque,
    scalars,
    uniform,
    value_of,
)
from graphc.link.jax.implicit.primitives import rows_of_primitives
from graphc.tensor import Tensor

Value = Scalars | ArrayWindow
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
    """Return the type of an equation's result."""
    return eqn.outvars[0].aval


# Elementwise.


def _elementwise(function: Callable[..., Tensor]) -> Callable[..., Scalars]:
    """Return the rule of a primitive that computes a function of each element."""

    def apply(eqn: JaxprEqn, *operands: Value) -> Scalars:
        return map_elements(function, _result(eqn).shape, *map(scalars, operands))

    return apply


def _zero(x: Tensor) -> Tensor:
    return number(0, x.dtype)


def _where_not(excluded: Sequence[Tensor], value: Tensor) -> Tensor:
    """Return a value, which is unknown where a condition holds."""
    possible = [x for x in excluded if value_of(x) is not False]
    if not possible:
        return value
    y: Tensor = gt.where(reduce(gt.logical_or, possible), opaque(value.dtype, [value]), value)
    return y


def _equals(x: Tensor, value: int) -> Tensor:
    """Return whether a scalar equals a value; a constant if that is known."""
    constant = value_of(x)
    if constant is not None:
        return number(constant == value, bool)
    return gt.equal(x, number(value, x.dtype))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    """Return a quotient; integer quotients are rounded towards zero."""
    kind = np.dtype(a.dtype).kind
    if kind == "f":
        return gt.divide(a, b)
    if kind == "u":
        return _where_not([_equals(b, 0)], gt.floor_divide(a, b))
    size = gt.abs(b) if value_of(b) is None else number(abs(value_of(b)), b.dtype)
    # Either ``above`` or ``below`` is zero.
    above, below = gt.maximum(a, _zero(a)), gt.maximum(gt.negative(a), _zero(a))
    quotient = gt.subtract(gt.floor_divide(above, size), gt.floor_divide(below, size))
    if (value_of(b) or -1) < 0:
        quotient = gt.multiply(quotient, gt.sign(b))
    least = int(np.iinfo(a.dtype).min)
    return _where_not([_equals(b, 0), _equals(b, least), _equals(a, least)], quotient)


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    rest = gt.fmod(a, b)
    return rest if np.dtype(a.dtype).kind == "f" else _where_not([_equals(b, 0)], rest)


def _checked_shift(
    function: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a shift of bits, which is unknown if it is by too many bits."""

    def shift(x: Tensor, by: Tensor) -> Tensor:
        bits, constant = np.iinfo(x.dtype).bits, value_of(by)
        if constant is not None and 0 <= constant < bits:
            return function(x, by)
        outside = [gt.less(by, _zero(by)), gt.greater_equal(by, number(bits, by.dtype))]
        return _where_not(outside, function(x, by))

    return shift


def _shift_right_logical(x: Tensor, by: Tensor) -> Tensor:
    """Return bits shifted to the right, filled with zeros; unknown for negative numbers."""
    return _where_not([gt.less(x, _zero(x))], gt.right_shift(x, by))


def select(which: Tensor, *cases: Tensor) -> Tensor:
    """Return the case of an index or a bool."""
    y = cases[-1]
    for i, case in reversed([*enumerate(cases[:-1])]):
        is_case = gt.logical_not(which) if which.dtype == "bool" else _equals(which, i)
        y = gt.where(is_case, case, y)
    return y


COMPLEX = {"conj", "real"}
"""Primitives of complex numbers, which have no intervals."""

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{
        name: row
        for name, row in rows_of_primitives().items()
        if has_image(row) and name not in COMPLEX
    },
    "div": _divide,
    "rem": _remainder,
    "shift_left": _checked_shift(gt.left_shift),
    "shift_right_arithmetic": _checked_shift(gt.right_shift),
    "shift_right_logical": _checked_shift(_shift_right_logical),
    "clamp": lambda low, x, high: gt.minimum(gt.maximum(x, low), high),
    "select_n": select,
    "copy": lambda x: x,
    "pcast": lambda x: x,
    "pvary": lambda x: x,
}
"""A function of scalars for each elementwise primitive."""

RULES.update({name: _elementwise(function) for name, function in FUNCTIONS.items()})


@rule("round")
def _round(eqn: JaxprEqn, x: Value) -> Value | None:
    if eqn.params["rounding_method"] != RoundingMethod.TO_NEAREST_EVEN:
        return None
    return _elementwise(gt.round)(eqn, x)


@rule("integer_pow")
def _integer_power(eqn: JaxprEqn, x: Value) -> Value:
    exponent = number(eqn.params["y"], _result(eqn).dtype)
    return _elementwise(lambda x: gt.power(x, exponent))(eqn, x)


@rule("convert_element_type")
def _convert(eqn: JaxprEqn, x: Value) -> Value:
    return _elementwise(lambda x: gt.cast(x, str(_result(eqn).dtype)))(eqn, x)


# Shapes.


def _rearrangement(function: Callable[[Any, Any], Any]) -> Rule:
    """Return the rule of a primitive that moves elements, from the function that moves indices."""

    def rearrange(eqn: JaxprEqn, x: Value, *lengths: Value) -> Scalars | None:
        if lengths:  # they are known only at run time
            return None
        elements, indices = scalars(x)
        return Scalars(elements, function(indices, eqn.params))

    return rearrange


def _broadcast(indices: Any, params: Any) -> Any:
    lengths = [1] * len(params["shape"])
    for axis, n in zip(params["broadcast_dimensions"], indices.shape, strict=True):
        lengths[axis] = n
    return np.broadcast_to(indices.reshape(lengths), params["shape"])


def _slice(indices: Any, params: Any) -> Any:
    steps = params["strides"] or [1] * indices.ndim
    ends = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return indices[tuple([slice(*part) for part in ends])]


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda indices, params: indices.reshape(params["new_sizes"]),
    "expand_dims": lambda indices, params: np.expand_dims(indices, params["dimensions"]),
    "transpose": lambda indices, params: indices.transpose(params["permutation"]),
    "rev": lambda indices, params: np.flip(indices, params["dimensions"]),
    "slice": _slice,
    "tile": lambda indices, params: np.tile(indices, params["reps"]),
}

RULES.update({name: _rearrangement(function) for name, function in MOVES.items()})


@rule("squeeze")
def _squeeze(eqn: JaxprEqn, x: Value) -> Value:
    axes = eqn.params["dimensions"]
    if isinstance(x, ArrayWindow):
        return x._replace(axes=tuple([axis for i, axis in enumerate(x.axes) if i not in axes]))
    return Scalars(x.elements, x.indices.squeeze(axes))


def _join_rule(function: Callable[[Sequence[Any], Any], Any]) -> Rule:
    """Return the rule of a primitive that joins arrays."""

    def join(eqn: JaxprEqn, *operands: Value) -> Scalars:
        xs = [*map(scalars, operands)]
        firsts = np.cumsum([0, *[len(x.elements) for x in xs[:-1]]])
        indices = [x.indices + first for x, first in zip(xs, firsts, strict=True)]
        return Scalars(tuple([y for x in xs for y in x.elements]), function(indices, eqn))

    return join


RULES["concatenate"] = _join_rule(lambda xs, eqn: np.concatenate(xs, eqn.params["dimension"]))
RULES["stack"] = _join_rule(lambda xs, eqn: np.stack(xs, eqn.params["axis"]))


# Indexing.


def _subwindow(
    x: ArrayWindow, starts: Sequence[Tensor | None], sizes: Sequence[int]
) -> ArrayWindow:
    """Return a window in a window, whose starts are clipped to where it fits."""
    new_starts, new_sizes = list(x.starts), list(x.sizes)
    for axis, start, size in zip(x.axes, starts, sizes, strict=True):
        if start is not None:
            offset = index_within(start, x.sizes[axis] - size)
            new_starts[axis] = add_offset(new_starts[axis], offset)
        new_sizes[axis] = size
    return x._replace(starts=tuple(new_starts), sizes=tuple(new_sizes))


@rule("dynamic_slice")
def _dynamic_slice(eqn: JaxprEqn, x: Value, *starts: Value) -> Value:
    sizes = eqn.params["slice_sizes"]
    if isinstance(x, Scalars):
        return uniform(hull(x), sizes)
    return _subwindow(x, [hull(scalars(i)) for i in starts], sizes)


@rule("gather")
def _gather(eqn: JaxprEqn, x: Value, indices: Value) -> Value:
    """Return windows of an array, one for each vector of indices along the last axis."""
    dimensions, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    vectors, shape = scalars(indices), _result(eqn).shape
    fills = eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP
    if isinstance(x, Scalars) or dimensions.operand_batching_dims:
        element = hull(scalars(x))
        return uniform(gt.where(opaque("bool"), element, _fill(eqn)) if fills else element, shape)
    starts: list[Tensor | None] = [None] * len(sizes)
    for i, axis in enumerate(dimensions.start_index_map):
        starts[axis] = hull(_column(vectors, i))
    window = _subwindow(x, starts, sizes)
    if fills:
        window = window._replace(
            fills=(*window.fills, (_is_inside(x.shape, starts, sizes), _fill(eqn)))
        )
    if vectors.indices.ndim > 1:
        return uniform(hull(scalars(window)), shape)
    axes = [axis for i, axis in enumerate(window.axes) if i not in dimensions.collapsed_slice_dims]
    return window._replace(axes=tuple(axes))


def _column(vectors: Scalars, i: int) -> Scalars:
    """Return one index of each vector."""
    column = vectors.indices[..., i]
    used, indices = np.unique(column, return_inverse=True)
    return Scalars(tuple([vectors.elements[n] for n in used]), indices.reshape(column.shape))


def _is_inside(
    shape: Sequence[int], starts: Sequence[Tensor | None], sizes: Sequence[int]
) -> Tensor:
    """Return whether a window lies within an array."""
    is_inside = number(True, bool)
    for n, start, size in zip(shape, starts, sizes, strict=True):
        if start is not None:
            last = number(min(n - size, int(np.iinfo(start.dtype).max)), start.dtype)
            conditions = gt.greater_equal(start, _zero(start)), gt.less_equal(start, last)
            is_inside = gt.logical_and(is_inside, gt.logical_and(*conditions))
    return is_inside


def _fill(eqn: JaxprEqn) -> Tensor:
    """Return the value of elements beyond the ends of an array."""
    dtype, value = _result(eqn).dtype, eqn.params["fill_value"]
    if value is None and dtype.kind in "iu":
        kind = np.iinfo(dtype)
        value = kind.min or kind.max
    elif value is None:
        value = True if dtype.kind == "b" else np.nan
    return number(value, dtype)


# Reductions.


def _idempotent_reduction(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """Return the rule of a reduction that equal elements do not change."""

    def apply(eqn: JaxprEqn, x: Value) -> Scalars:
        elements, rows = _reduced_rows(eqn, scalars(x))
        if len(rows) > MAX_ELEMENTS:
            return uniform(hull(scalars(x)), _result(eqn).shape)
        results = [reduce(function, [elements[i] for i in np.unique(row)]) for row in rows]
        return Scalars(tuple(results), np.arange(len(rows)).reshape(_result(eqn).shape))

    return apply


def _reduced_rows(eqn: JaxprEqn, x: Scalars) -> tuple[Sequence[Tensor], Any]:
    """Return the distinct elements, and the indices that each element of the result reduces."""
    axes = eqn.params["axes"]
    last = np.moveaxis(x.indices, axes, range(-len(axes), 0))
    return x.elements, last.reshape(_result(eqn).size, -1)


RULES["reduce_or"] = _idempotent_reduction(gt.bitwise_or)
RULES["reduce_and"] = _idempotent_reduction(gt.bitwise_and)
RULES["reduce_max"] = _idempotent_reduction(gt.maximum)
RULES["reduce_min"] = _idempotent_reduction(gt.minimum)


@rule("reduce_sum")
def _reduce_sum(eqn: JaxprEqn, x: Value) -> Scalars | None:
    """Return a sum of integers; a long sum is the count times one element that may be any."""
    dtype = _result(eqn).dtype
    elements, rows = _reduced_rows(eqn, scalars(x))
    count = rows.shape[1]
    if dtype.kind not in "iu" or count > np.iinfo(dtype).max:
        return None
    if rows.size > MAX_ELEMENTS:
        total = gt.multiply(hull(scalars(x)), number(count, dtype))
        return uniform(total, _result(eqn).shape)
    results = [reduce(gt.add, [elements[i] for i in row]) for row in rows]
    return Scalars(tuple(results), np.arange(len(rows)).reshape(_result(eqn).shape))
