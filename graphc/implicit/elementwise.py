"""Elementwise functions of structured arrays and of arrays that broadcast with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.known import as_number, number_of, value_at_zero
from graphc.implicit.layout import (
    StructureLost,
    broadcast,
    first_of,
    kept,
    reshaped,
    sparing,
    structural,
)
from graphc.implicit.namespace import numpy_like
from graphc.implicit.places import sparse_of
from graphc.implicit.structured import Structured, is_scalar
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name, is_inexact

Shape = tuple[int | None, ...]


def mapped(name: str, x: Any) -> Any:
    """Apply a unary function, given by NumPy's name."""
    return x.mapped(name) if isinstance(x, Structured) else NotImplemented


@structural
def combined(name: str, a: Any, b: Any) -> Any:
    """Add, subtract, multiply or divide two arrays, of which one is structured."""
    if not isinstance(a, Structured) and not isinstance(b, Structured):
        return NotImplemented
    return COMBINED[name](a, b)


@structural
def powered(x: Structured, exponent: int) -> Any:
    """Raise a structured array to an integer power other than 0."""
    if exponent > 1:
        y = x.transformed(lambda v: numpy_like(v).power(v, exponent), True)
        if y is not NotImplemented:
            return y
    return _powered(x, exponent)


PAIRED = (
    *("maximum", "minimum", "fmax", "fmin", "power", "hypot", "arctan2", "nextafter", "copysign"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("remainder", "floor_divide", "fmod", "left_shift", "right_shift"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
    *("logical_and", "logical_or", "logical_xor"),
)
"""NumPy's names of the other functions of two arrays that keep zeros, of some numbers at least."""

BY_FIRST = frozenset(("remainder", "floor_divide", "fmod", "left_shift", "right_shift"))
"""Functions of two arrays that are zero where the first one is."""
BY_EITHER = frozenset(("bitwise_and", "logical_and"))
"""Functions of two arrays that are zero where either is."""


@structural
def paired(name: str, a: Any, b: Any) -> Any:
    """Apply a function of ``PAIRED`` to two arrays, of which one is structured."""
    shape = _common(a, b)
    sides = [(x, other, first) for x, other, first in ((a, b, True), (b, a, False))]
    structured = [side for side in sides if isinstance(side[0], Structured)]
    ways = [partial(_beside_number, name, *side, shape) for side in structured]
    ways += [partial(_zipped, name, *side, shape) for side in structured]
    ways += [
        partial(_as_sparse, lambda x, *rest: _zipped(name, x, *rest), *side, shape)
        for side in structured
    ]
    ways += [
        partial(_against, name, *side, shape)
        for side in structured
        if name in BY_EITHER or (name in BY_FIRST and side[2])
    ]
    return first_of(ways)


@structural
def clipped(x: Any, low: Any, high: Any) -> Any:
    """Limit a structured array to two bounds that are known before the program runs."""
    bounds = number_of(low), number_of(high)
    if not isinstance(x, Structured) or any(c is None for c in bounds):
        return NotImplemented
    x = _stretched(x, _common(x, low, high))
    if not isinstance(x, Structured):
        raise StructureLost
    a, b = as_number(bounds[0], low), as_number(bounds[1], high)
    return x.transformed(lambda v: numpy_like(v).clip(v, a, b), bool(min(max(0, a), b) == 0))


def _function(name: str, first: bool) -> Callable[[Any, Any], Any]:
    """Return a function of two arrays, with the operands exchanged where ``first`` is false."""

    def apply(x: Any, y: Any) -> Any:
        return getattr(numpy_like(x, y), name)(*((x, y) if first else (y, x)))

    return apply


def _beside_number(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    """A function of an array and a number that is known before the program runs."""
    number = number_of(other)
    if number is None:
        raise StructureLost
    function, c = _function(name, first), as_number(number, other)
    x = _stretched(x, shape)
    if not isinstance(x, Structured):
        return function(x, c)
    return x.transformed(lambda v: function(v, c), value_at_zero(name, x.dtype, c, first))


def _zipped(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    x, other = _stretched(x, shape), _stretched(other, shape, x)
    if not isinstance(x, Structured) or not isinstance(other, Structured):
        raise StructureLost
    zero = as_number(0, other)
    return x.zipped(_function(name, first), other, value_at_zero(name, x.dtype, zero, first))


def _against(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    x = _stretched(x, shape)
    if not isinstance(x, Structured):
        raise StructureLost
    return x.against(_function(name, first), _stretched(other, shape, x))


@structural
def chosen(mask: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where a mask holds and ``b`` elsewhere; one of the two is structured."""
    shape = _common(mask, a, b)
    ways = [
        partial(_chosen, x, mask, other, first, shape)
        for x, other, first in ((a, b, True), (b, a, False))
        if isinstance(x, Structured)
    ]
    return sparing(ways) if len(ways) > 1 else first_of(ways)


def _chosen(x: Structured, mask: Any, other: Any, first: bool, shape: Shape) -> Any:
    x, is_zero = _stretched(x, shape), number_of(other) == 0
    mask = mask if is_scalar(mask) else _stretched(mask, shape, x)
    if is_zero and isinstance(x, Structured):
        found = _masked(x, mask, first)
        if found is not NotImplemented:
            return found
    return x.chosen(mask, _stretched(other, shape, x), first)


def _masked(x: Structured, mask: Any, keep: bool) -> Any:
    """With zeros in place of the elements where a mask is not as said."""

    def choose(v: Any, mask: Any) -> Any:
        xp = numpy_like(v, mask)
        pair = (v, xp.zeros_like(v))
        return xp.where(mask, *(pair if keep else pair[::-1]))

    if is_scalar(mask):
        return x.transformed(lambda v: choose(v, mask), True)
    return x.against(choose, mask)


def _mapped(name: str, x: Any) -> Any:
    """Apply a unary function to an array, structured or whole."""
    return kept(x.mapped(name)) if isinstance(x, Structured) else getattr(numpy_like(x), name)(x)


def _add(a: Any, b: Any) -> Any:
    if not isinstance(a, Structured) and not isinstance(b, Structured):
        return numpy_like(a, b).add(a, b)
    return _either(_sum, a, b)


def _subtract(a: Any, b: Any) -> Any:
    return _add(a, _mapped("negative", b))


def _multiply(a: Any, b: Any) -> Any:
    if not isinstance(a, Structured) and not isinstance(b, Structured):
        return numpy_like(a, b).multiply(a, b)
    return _either(_product, a, b)


def _divide(a: Any, b: Any) -> Any:
    if not is_inexact(dtype_name(dtype_of(a))):
        raise StructureLost
    if isinstance(a, Structured) and _is_one(b):
        x = _stretched(a, _common(a, b))
        return kept(x.divided(_scalar(b))) if isinstance(x, Structured) else x / b
    return _multiply(a, _mapped("reciprocal", b))


COMBINED = {"add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide}


def _powered(x: Any, exponent: int) -> Any:
    if exponent == 0:
        raise StructureLost
    if exponent < 0:
        return _powered(_mapped("reciprocal", x), -exponent)
    if exponent == 1:
        return x
    half = _powered(_mapped("square", x), exponent // 2)
    return _multiply(half, x) if exponent % 2 else half


def _either(function: Callable[[Structured, Any, Shape], Any], a: Any, b: Any) -> Any:
    """Apply a commutative function by the method of either operand that is structured."""
    shape = _common(a, b)
    pairs = [(x, other) for x, other in ((a, b), (b, a)) if isinstance(x, Structured)]
    ways = [partial(function, x, other, shape) for x, other in pairs]
    if len(ways) > 1:
        ways.append(partial(_as_sparse, function, a, b, shape))
    return sparing(ways) if len(ways) > 1 else first_of(ways)


def _as_sparse(function: Callable[..., Any], x: Any, other: Any, *rest: Any) -> Any:
    """A function of a structure of few elements, made a sparse matrix, and another one."""
    sparse = sparse_of(x)
    if sparse is None:
        raise StructureLost
    return function(sparse, other, *rest)


def _sum(x: Structured, other: Any, shape: Shape) -> Any:
    x = _stretched(x, shape)
    if not isinstance(x, Structured):
        return _add(x, other)
    return x.shifted(_scalar(other)) if _is_one(other) else x.added(_stretched(other, shape, x))


def _product(x: Structured, other: Any, shape: Shape) -> Any:
    x = _stretched(x, shape)
    if not isinstance(x, Structured):
        return _multiply(x, other)
    if _is_one(other):
        return x.scaled(_scalar(other))
    return first_of(
        [lambda: _weighted(x, other), lambda: x.multiplied(_stretched(other, shape, x))]
    )


def _weighted(x: Structured, other: Any) -> Any:
    """Multiply by weights that vary along one axis only."""
    lengths = lengths_of(other)
    (axis, *more) = [i for i, n in enumerate(lengths, x.ndim - len(lengths)) if n != 1]
    if more or isinstance(other, ImplicitArray):
        raise StructureLost
    return x.weighted(numpy_like(other).reshape(other, (-1,)), axis)


# Shapes.


def _lengths(x: Any) -> Shape:
    return lengths_of(x) if hasattr(x, "shape") else ()


def _common(*xs: Any) -> Shape:
    """Return the broadcast shape; an unknown length takes that of the other operands."""
    shapes = [_lengths(x) for x in xs]
    found: list[int | None] = []
    for axis in range(-max(map(len, shapes)), 0):
        seen = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        known = seen - {None}
        found.append(known.pop() if known else None if seen else 1)
    return tuple(found)


def _is_one(x: Any) -> bool:
    """Whether an array is known to hold exactly one element."""
    return all(n == 1 for n in _lengths(x))


def _scalar(x: Any) -> Any:
    """Return the single element as an array without axes."""
    return reshaped(x, ()) if _lengths(x) else x


def _fits(lengths: Sequence[int | None], shape: Shape) -> bool:
    """Whether two shapes agree in all lengths that both know."""
    pairs = zip(lengths, shape, strict=False)
    return len(lengths) == len(shape) and all(n == m or None in {n, m} for n, m in pairs)


def _stretched(x: Any, shape: Shape, like: Any = None) -> Any:
    """Broadcast an array to a shape whose unknown lengths are those of another array."""
    lengths = _lengths(x)
    if _fits(lengths, shape):
        return x
    axes = tuple(range(len(shape) - len(lengths), len(shape)))
    wanted = shape if None not in shape or like is None else numpy_like(like).shape_of(like)
    return broadcast(x, wanted, axes)
