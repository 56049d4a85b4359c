"""Elementwise functions, and reductions, of structured arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.implicit import layout
from graphc.implicit.array import ImplicitArray
from graphc.implicit.known import as_number, is_zero_at, number_of
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import (
    ADD,
    MULTIPLY,
    ElementwiseFunction,
    Structured,
    function_named,
    scaling,
)
from graphc.implicit.structures.block_diagonal import BlockDiagonal
from graphc.implicit.structures.formats import BCOO, bcoo_from_entries
from graphc.implicit.structures.sparse import HasEntries, Sparse, entries_of
from graphc.implicit.treedef import dtype_of, lengths_of, shapes_fit
from graphc.ir import dtype_name, is_inexact

Shape = tuple[int | None, ...]


def unary(name: str, x: Any) -> Any:
    """Apply a unary function with this NumPy name."""
    return x.elementwise(function_named(name)) if isinstance(x, Structured) else NotImplemented


def arithmetic(name: str, a: Any, b: Any) -> Any:
    """Add, subtract, multiply or divide two arrays, at least one of them structured."""
    if not isinstance(a, Structured) and not isinstance(b, Structured):
        return NotImplemented
    return ARITHMETIC[name](a, b)


def integer_power(x: Structured, exponent: int) -> Any:
    """Raise a structured array to an integer power other than 0."""
    if exponent > 1:
        f = ElementwiseFunction(lambda v: numpy_like(v).power(v, exponent), zeros=1)
        if (y := x.elementwise(f)) is not NotImplemented:
            return y
    return _power(x, exponent)


def power(a: Any, b: Any) -> Any:
    """Raise an array to a power; a known integer needs products and reciprocals alone."""
    number = number_of(b)
    is_known = isinstance(a, Structured) and number is not None and np.isfinite(number)
    is_integer = is_known and number == np.round(number.real)
    attempts = [partial(integer_power, a, int(number.real))] if is_integer else []
    return layout.first_of([*attempts, partial(binary, "power", a, b)])


BINARY = (
    *("maximum", "minimum", "fmax", "fmin", "power", "hypot", "arctan2", "nextafter", "copysign"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("remainder", "floor_divide", "fmod", "left_shift", "right_shift"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
    *("logical_and", "logical_or", "logical_xor"),
)
"""NumPy's names of other binary functions that map zeros to zeros, at least for some operands."""

BY_FIRST = frozenset(("remainder", "floor_divide", "fmod", "left_shift", "right_shift"))
"""Binary functions that are zero where the first operand is."""
BY_EITHER = frozenset(("bitwise_and", "logical_and"))
"""Binary functions that are zero where either operand is."""


def binary(name: str, a: Any, b: Any) -> Any:
    """Apply a function of ``BINARY`` to two arrays, at least one of them structured."""
    shape = _common(a, b)
    sides = [(x, other, first) for x, other, first in ((a, b, True), (b, a, False))]
    structured = [side for side in sides if isinstance(side[0], Structured)]
    attempts = [partial(_with_number, name, *side, shape) for side in structured]
    attempts += [partial(_zip, name, *side, shape) for side in structured]
    attempts += [
        partial(_as_sparse, lambda x, *rest: _zip(name, x, *rest), *side, shape)
        for side in structured
    ]
    attempts += [
        partial(_with_array, name, *side, shape)
        for side in structured
        if name in BY_EITHER or (name in BY_FIRST and side[2])
    ]
    return layout.first_of(attempts)


def clip(x: Any, low: Any, high: Any) -> Any:
    """Limit a structured array to two bounds that are known before the program runs."""
    bounds = number_of(low), number_of(high)
    if not isinstance(x, Structured) or any(c is None for c in bounds):
        return NotImplemented
    x = _broadcast(x, _common(x, low, high))
    a, b = as_number(bounds[0], low), as_number(bounds[1], high)
    zeros = int(min(max(0, a), b) == 0)
    return _apply(ElementwiseFunction(lambda v: numpy_like(v).clip(v, a, b), zeros=zeros), x)


def _apply(f: ElementwiseFunction, x: Any, *others: Any) -> Any:
    """Apply a function to an array that may have become dense by broadcasting."""
    if not isinstance(x, Structured):
        return f(x, *others)
    return layout.require(x.elementwise(f, *others))


def _function(name: str, first: bool) -> Callable[[Any, Any], Any]:
    """Return a binary function; its operands are exchanged unless ``first`` holds."""

    def apply(x: Any, y: Any) -> Any:
        return getattr(numpy_like(x, y), name)(*((x, y) if first else (y, x)))

    return apply


def _with_number(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    number = number_of(other)
    if number is None:
        raise layout.StructureLost
    function, c = _function(name, first), as_number(number, other)
    zeros = int(is_zero_at(name, x.dtype, c, first))
    f = ElementwiseFunction(lambda v: function(v, c), zeros=zeros)
    return _apply(f, _broadcast(x, shape))


def _zip(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    x, other = _broadcast(x, shape), _broadcast(other, shape, x)
    if not isinstance(x, Structured) or not isinstance(other, Structured):
        raise layout.StructureLost
    zeros = 2 * is_zero_at(name, x.dtype, as_number(0, other), first)
    return x.elementwise(ElementwiseFunction(_function(name, first), zeros=zeros), other)


def _with_array(name: str, x: Structured, other: Any, first: bool, shape: Shape) -> Any:
    x = _broadcast(x, shape)
    if not isinstance(x, Structured):
        raise layout.StructureLost
    if _has_zeros(other) and not is_zero_at(name, x.dtype, as_number(0, other), first):
        raise layout.StructureLost  # 0 % 0 is NaN
    f = ElementwiseFunction(_function(name, first), zeros=1)
    return x.elementwise(f, _broadcast(other, shape, x))


def _has_zeros(x: Any) -> bool:
    """Return whether an array is known to have zeros, which no field need hold."""
    return isinstance(x, HasEntries | BlockDiagonal) or number_of(x) == 0


def where(mask: Any, a: Any, b: Any) -> Any:
    """Return ``where(mask, a, b)``; a or b is structured."""
    shape = _common(mask, a, b)
    attempts = [
        partial(_chosen, x, mask, other, first, shape)
        for x, other, first in ((a, b, True), (b, a, False))
        if isinstance(x, Structured)
    ]
    choose = layout.first_without_densifying if len(attempts) > 1 else layout.first_of
    return choose(attempts)


def _chosen(x: Structured, mask: Any, other: Any, first: bool, shape: Shape) -> Any:
    x, is_zero = _broadcast(x, shape), number_of(other) == 0
    masks = [_broadcast(mask, shape, x)] if _lengths(mask) else []

    def choose(v: Any, w: Any, choice: Any = mask) -> Any:
        return numpy_like(v, w, choice).where(choice, *((v, w) if first else (w, v)))

    if is_zero and isinstance(x, Structured):
        f = ElementwiseFunction(lambda v, *m: choose(v, numpy_like(v).zeros_like(v), *m), zeros=1)
        if (y := x.elementwise(f, *masks)) is not NotImplemented:
            return y
    f, other = ElementwiseFunction(choose, "where", zeros=2), _broadcast(other, shape, x)
    if masks or not isinstance(x, Structured) or not x.fits(other):
        return _apply(f, x, other, *masks)
    # The fields of two arrays that differ in values alone are chosen by one boolean.
    y = x.elementwise(f, other)
    return x.each(f, other) if y is NotImplemented else y


def _apply_unary(name: str, x: Any) -> Any:
    return _apply(function_named(name), x)


def _divide(a: Any, b: Any) -> Any:
    if not is_inexact(dtype_name(dtype_of(a))):
        raise layout.StructureLost
    if isinstance(a, Structured) and _is_one(b):
        return _apply(scaling(_scalar(b), "divide"), _broadcast(a, _common(a, b)))
    return _multiply(a, _apply_unary("reciprocal", b))


def _power(x: Any, exponent: int) -> Any:
    if exponent == 0:
        raise layout.StructureLost
    if exponent < 0:
        return _power(_apply_unary("reciprocal", x), -exponent)
    if exponent == 1:
        return x
    half = _power(_apply_unary("square", x), exponent // 2)
    return _multiply(half, x) if exponent % 2 else half


def _commute(
    function: Callable[[Structured, Any, Shape], Any], f: ElementwiseFunction, a: Any, b: Any
) -> Any:
    """Apply a commutative function by the method of either structured operand."""
    pairs = [(x, other) for x, other in ((a, b), (b, a)) if isinstance(x, Structured)]
    if not pairs:
        return f(a, b)
    shape = _common(a, b)
    attempts = [partial(function, x, other, shape) for x, other in pairs]
    if len(attempts) == 1:
        return layout.first_of(attempts)
    return layout.first_without_densifying([*attempts, partial(_as_sparse, function, a, b, shape)])


def _as_sparse(function: Callable[..., Any], x: Any, other: Any, *rest: Any) -> Any:
    """Apply a function after converting a structure of few elements to a sparse matrix."""
    sparse = sparse_of(x)
    if sparse is None:
        raise layout.StructureLost
    return function(sparse, other, *rest)


def _sum(x: Structured, other: Any, shape: Shape) -> Any:
    x = _broadcast(x, shape)
    if not isinstance(x, Structured):
        return _add(x, other)
    if not _is_one(other):
        return x.elementwise(ADD, _broadcast(other, shape, x))
    c = _scalar(other)
    return x.elementwise(ElementwiseFunction(lambda v: ADD(v, c), shift=c))


def _product(x: Structured, other: Any, shape: Shape) -> Any:
    x = _broadcast(x, shape)
    if not isinstance(x, Structured):
        return _multiply(x, other)
    if _is_one(other):
        return x.elementwise(scaling(_scalar(other)))
    whole = lambda: x.elementwise(MULTIPLY, _broadcast(other, shape, x))  # noqa: E731
    return layout.first_of([lambda: _scale_along(x, other), whole])


def _scale_along(x: Structured, other: Any) -> Any:
    lengths = lengths_of(other)
    (axis, *other_axes) = [i for i, n in enumerate(lengths, x.ndim - len(lengths)) if n != 1]
    if other_axes or isinstance(other, ImplicitArray):
        raise layout.StructureLost
    return x.scale_along(numpy_like(other).reshape(other, (-1,)), axis)


_add, _multiply = partial(_commute, _sum, ADD), partial(_commute, _product, MULTIPLY)
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": _add,
    "subtract": lambda a, b: _add(a, _apply_unary("negative", b)),
    "multiply": _multiply,
    "divide": _divide,
}


# Shapes.


def _lengths(x: Any) -> Shape:
    return lengths_of(x) if hasattr(x, "shape") else ()


def _common(*xs: Any) -> Shape:
    """Return the broadcast shape; an unknown length is taken from another operand."""
    shapes = [_lengths(x) for x in xs]
    common: list[int | None] = []
    for axis in range(-max(map(len, shapes)), 0):
        lengths_at = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        static = lengths_at - {None}
        common.append(static.pop() if static else None if lengths_at else 1)
    return tuple(common)


def _is_one(x: Any) -> bool:
    """Return whether an array is known to hold exactly one element."""
    return all(n == 1 for n in _lengths(x))


def _scalar(x: Any) -> Any:
    return layout.reshape(x, ()) if _lengths(x) else x


def _broadcast(x: Any, shape: Shape, like: Any = None) -> Any:
    """Broadcast an array to a shape; ``like`` has the lengths that are unknown."""
    lengths = _lengths(x)
    if shapes_fit(lengths, shape):
        return x
    axes = tuple(range(len(shape) - len(lengths), len(shape)))
    wanted = shape if None not in shape or like is None else numpy_like(like).shape_of(like)
    return layout.broadcast(x, wanted, axes)


# Structures of few elements as sparse matrices, for results that only those can represent.


def sparse_of(x: Any) -> BCOO | None:
    """Return a structure whose elements have known positions as a sparse matrix, else None.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal
        >>> sparse_of(Diagonal(np.ones(3)))
        BCOO(float64[3], int64[3, 2], lengths=(3, 3), unique=True)
    """
    if isinstance(x, Sparse) or not isinstance(x, HasEntries) or not isinstance(x, Structured):
        return None
    if x.ndim < 2 or None in x.shape:
        return None
    m, n = x.shape[-2:]
    return bcoo_from_entries(entries_of(x), (m, n), True)


def reduce(x: Structured, name: str, axes: tuple[int, ...]) -> Any:
    """Reduce a structure over axes, as a sparse matrix if the structure itself cannot."""
    if name in {"max", "min"} and 0 in [x.shape[axis] for axis in axes]:
        return NotImplemented
    y = x.reduce(name, axes)
    if y is not NotImplemented:
        return y
    sparse = sparse_of(x)
    return NotImplemented if sparse is None else sparse.reduce(name, axes)
