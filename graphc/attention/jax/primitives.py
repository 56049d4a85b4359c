"""What JAX's primitives make of intervals: a rule for each, by its name.

A value is a ``Spread``, a ``Box`` of a captured array, or an array that depends on no index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import RoundingMethod

from graphc.attention.intervals.interval import Interval, casted, chosen, dtype_of, point, unknown
from graphc.attention.intervals.rules import applied
from graphc.attention.jax.lookups import Box, contents, dynamic_slice, gather, squeezed
from graphc.attention.jax.spreads import Spread, combined, hull, is_bounded, of_array, single

__all__ = ["RULES", "Value", "applied_to", "rule", "selected", "spread_of"]

Value = Any
"""As above; None of what has no intervals."""


def spread_of(x: Value, aval: Any) -> Spread:
    """The elements of a value."""
    if isinstance(x, Box):
        return contents(x)
    return x if isinstance(x, Spread) else of_array(x, aval.dtype)


def _spreads(eqn: JaxprEqn, operands: Sequence[Value]) -> list[Spread]:
    """The elements of operands."""
    return [spread_of(x, given.aval) for x, given in zip(operands, eqn.invars, strict=True)]


Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
"""What a primitive gives of values, by its name; None if nothing is known of it."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Have the decorated function say what these primitives give."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


# Elementwise.

Named = Callable[[JaxprEqn], str | None]


def _of(eqn: JaxprEqn) -> Any:
    return eqn.outvars[0].aval


def _elementwise(named: str | Named) -> Rule:
    def apply(eqn: JaxprEqn, *operands: Value) -> Any:
        name = named if isinstance(named, str) else named(eqn)
        if name is None:
            return None
        return _combined(partial(applied_to, name, _of(eqn).dtype), eqn, *operands)

    return apply


def _combined(each: Callable[..., Interval], eqn: JaxprEqn, *operands: Value) -> Any:
    return combined(each, _of(eqn).shape, *_spreads(eqn, operands))


def applied_to(name: str, dtype: Any, *operands: Interval) -> Interval:
    found = applied(name, *operands)
    return unknown(str(dtype)) if found is None else _settled(found)


def _settled(x: Interval) -> Interval:
    """Integers that are known, if they are: other axes may then be looked up in intervals."""
    low, high = x
    is_known = isinstance(low, np.ndarray | np.generic) and low.dtype.kind in "iu"
    return point(low) if is_known and np.array_equal(low, high) else x


def _by_kind(integers: str, floats: str) -> Named:
    return lambda eqn: floats if _of(eqn).dtype.kind == "f" else integers


def _rounding(eqn: JaxprEqn) -> str | None:
    to_even = eqn.params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN
    return "round" if to_even else None


SAME = (
    *("abs", "sign", "square", "floor", "ceil", "sqrt", "cbrt"),
    *("exp", "exp2", "expm1", "log", "log1p", "tanh", "sinh", "sin", "cos"),
)
"""Primitives that are called as their rules are."""

NAMES: dict[str, str | Named] = {
    **{name: name for name in SAME},
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "neg": "negative",
    "div": _by_kind("truncate_divide", "divide"),
    "rem": "fmod",
    "max": "maximum",
    "min": "minimum",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
    "not": "invert",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "shift_left": "left_shift",
    "shift_right_arithmetic": "right_shift",
    "round": _rounding,
    "logistic": "sigmoid",
    "atan": "arctan",
    "asinh": "arcsinh",
}
"""The rules of primitives."""

RULES.update({name: _elementwise(named) for name, named in NAMES.items()})


@rule("shift_right_logical")
def shift_right_logical(eqn: JaxprEqn, *operands: Value) -> Any:
    """That of bits: of numbers that are not negative it is that of numbers."""
    return _combined(_shifted, eqn, *operands)


def _shifted(x: Interval, by: Interval) -> Interval:
    dtype = dtype_of(x.low)
    positive = applied_to("greater_equal", "bool", x, point(np.array(0, dtype)))
    return chosen(positive, applied_to("right_shift", dtype, x, by), unknown(dtype))


@rule("integer_pow")
def integer_pow(eqn: JaxprEqn, x: Value) -> Any:
    """A power by a whole number, which is no operand."""
    exponent = point(np.array(eqn.params["y"]))
    dtype = _of(eqn).dtype
    return _combined(lambda x: applied_to("power", dtype, x, exponent), eqn, x)


@rule("clamp")
def clamp(eqn: JaxprEqn, low: Value, x: Value, high: Value) -> Any:
    """The operand between the others, the upper of which wins."""
    dtype = _of(eqn).dtype
    return _combined(lambda a, x, b: applied_to("clip", dtype, x, a, b), eqn, low, x, high)


@rule("select_n")
def select_n(eqn: JaxprEqn, which: Value, *cases: Value) -> Any:
    """The case of that number, or of a bool."""
    return _combined(selected, eqn, which, *cases)


def selected(which: Interval, *cases: Interval) -> Interval:
    if dtype_of(which.low) == "bool":
        return _settled(chosen(which, *cases[::-1]))
    made = cases[-1]
    for i, case in reversed([*enumerate(cases[:-1])]):
        number = np.array(i, dtype_of(which.low))
        is_it = applied_to("equal", "bool", which, point(number))
        made = _settled(chosen(is_it, case, made))
    return made


@rule("convert_element_type")
def convert_element_type(eqn: JaxprEqn, x: Value) -> Any:
    """The same numbers in another dtype."""
    dtype = _of(eqn).dtype
    if not is_bounded(dtype):
        return None
    return _combined(lambda x: _settled(casted(x, str(dtype))), eqn, x)


# Shapes.


def _rearranged(function: Callable[..., Any]) -> Rule:
    """A rule of what moves elements: it moves the numbers of their intervals."""

    def rearrange(eqn: JaxprEqn, *operands: Value) -> Any:
        (x, *rest) = _spreads(eqn, operands)
        if rest:  # lengths that are known only when it runs
            return None
        return Spread(x.parts, function(x.places, eqn.params))

    return rearrange


def _broadcast(x: Any, params: Any) -> Any:
    shape, axes = params["shape"], params["broadcast_dimensions"]
    lengths = [1] * len(shape)
    for axis, n in zip(axes, x.shape, strict=True):
        lengths[axis] = n
    return np.broadcast_to(x.reshape(lengths), shape)


def _sliced(x: Any, params: Any) -> Any:
    ends = zip(
        params["start_indices"],
        params["limit_indices"],
        params["strides"] or [1] * x.ndim,
        strict=True,
    )
    return x[tuple([slice(*part) for part in ends])]


RULES.update(
    {
        "broadcast_in_dim": _rearranged(_broadcast),
        "reshape": _rearranged(lambda x, params: x.reshape(params["new_sizes"])),
        "expand_dims": _rearranged(lambda x, params: np.expand_dims(x, params["dimensions"])),
        "transpose": _rearranged(lambda x, params: x.transpose(params["permutation"])),
        "rev": _rearranged(lambda x, params: np.flip(x, params["dimensions"])),
        "slice": _rearranged(_sliced),
        "tile": _rearranged(lambda x, params: np.tile(x, params["reps"])),
        "copy": _rearranged(lambda x, params: x),
    }
)


@rule("squeeze")
def squeeze(eqn: JaxprEqn, x: Value) -> Any:
    """Without axes of one element."""
    axes = eqn.params["dimensions"]
    if isinstance(x, Box):
        return squeezed(x, axes)
    (spread,) = _spreads(eqn, [x])
    return Spread(spread.parts, spread.places.squeeze(axes))


def _joined_up(function: Callable[..., Any]) -> Rule:
    """A rule of what puts arrays together."""

    def join(eqn: JaxprEqn, *operands: Value) -> Any:
        found = _spreads(eqn, operands)
        firsts = np.cumsum([0, *[len(x.parts) for x in found[:-1]]])
        places = [x.places + first for x, first in zip(found, firsts, strict=True)]
        parts = tuple([part for x in found for part in x.parts])
        return Spread(parts, function(places, eqn.params))

    return join


RULES.update(
    {
        "concatenate": _joined_up(lambda xs, params: np.concatenate(xs, params["dimension"])),
        "stack": _joined_up(lambda xs, params: np.stack(xs, params["axis"])),
    }
)


# Elements that are chosen.


@rule("dynamic_slice")
def _dynamic_slice(eqn: JaxprEqn, x: Value, *starts: Value) -> Any:
    avals = [variable.aval for variable in eqn.invars[1:]]
    spreads = [spread_of(i, aval) for i, aval in zip(starts, avals, strict=True)]
    return dynamic_slice(eqn, x, [hull(i) for i in spreads])


@rule("gather")
def _gather(eqn: JaxprEqn, x: Value, index: Value) -> Any:
    return gather(eqn, x, spread_of(index, eqn.invars[1].aval))


# Reductions.


def _reduced(name: str) -> Rule:
    """A rule of a reduction that equal elements do not change."""

    def reduce(eqn: JaxprEqn, x: Value) -> Any:
        (spread,) = _spreads(eqn, [x])
        shape, dtype = _of(eqn).shape, _of(eqn).dtype
        axes = eqn.params["axes"]
        rows = np.moveaxis(spread.places, axes, range(-len(axes), 0)).reshape(*shape, -1)
        if not shape or len(spread.parts) == 1:
            return single(_joined(name, dtype, [spread.parts[i] for i in np.unique(rows)]), shape)
        return single(hull(spread), shape)

    return reduce


def _joined(name: str, dtype: Any, parts: Sequence[Interval]) -> Interval:
    made = parts[0]
    for part in parts[1:]:
        made = applied_to(name, dtype, made, part)
    return made


RULES.update(
    {
        "reduce_or": _reduced("bitwise_or"),
        "reduce_and": _reduced("bitwise_and"),
        "reduce_max": _reduced("maximum"),
        "reduce_min": _reduced("minimum"),
    }
)


@rule("reduce_sum")
def reduce_sum(eqn: JaxprEqn, x: Value) -> Any:
    """A sum of integers: as many as there are times one that is between the least and most."""
    aval: Any = eqn.invars[0].aval
    count = aval.size // max(1, _of(eqn).size)
    if aval.dtype.kind not in "iu" or count > np.iinfo(aval.dtype).max:
        return None
    (spread,) = _spreads(eqn, [x])
    number = point(np.array(count, aval.dtype))
    return single(applied_to("multiply", aval.dtype, hull(spread), number), _of(eqn).shape)
