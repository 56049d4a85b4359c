"""Elementwise functions of structured arrays and of arrays that broadcast with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphc.implicit.array import ImplicitArray
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
    return _powered(x, exponent)


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
    x = _stretched(x, shape)
    mask = mask if is_scalar(mask) else _stretched(mask, shape, x)
    return x.chosen(mask, _stretched(other, shape, x), first)


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
    return sparing(ways) if len(ways) > 1 else first_of(ways)


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
