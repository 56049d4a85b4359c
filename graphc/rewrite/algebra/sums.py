"""Sums as coefficients of terms, and how one is put together again.

Integers wrap around, so a sum of them may be taken apart and put together in any order. Floats
may not: ``(a + b) + c`` can be finite where ``b + c`` is not, and a small term that is left at the
end may be added to a large one that is gone by then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer, numpy_dtype, real_dtype
from graphc.rewrite.facts.dtypes import limits
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.rule import number_of
from graphc.tensor.core.elementwise import add, multiply, negative, subtract
from graphc.tensor.core.tensor import Tensor, as_tensor

MOST_TERMS = 8
"""A sum of more is a term of its own, so that a chain of n sums costs n times as much as one."""

MOST_LEVELS = 4
"""How far down a sum is looked into that was not looked at before."""

Terms = Mapping[Node, int]


def real_number(node: Node) -> float | int | None:
    """The finite real number that all elements of a constant are, or None."""
    value = number_of(node)
    if isinstance(value, complex):
        value = value.real if not value.imag else None
    return value if value is not None and math.isfinite(value) else None


def term(node: Node) -> tuple[Any, Node]:
    """A node as a number times another node."""
    if node.op is negative:
        return -1, node.inputs[0]
    if node.op is multiply:
        factor = real_number(node.inputs[0])
        if factor is not None:
            return factor, node.inputs[1]
    return 1, node


def sum_of(terms: Iterable[tuple[Any, Node]], constant: Any, dtype: str) -> Tensor:
    """The sum of terms and a constant, the negative ones subtracted from the others."""
    pairs = list(terms)
    positive = [_scaled(c, x, dtype) for c, x in pairs if not _is_subtracted(c, dtype)]
    negated = [_scaled(-c, x, dtype) for c, x in pairs if _is_subtracted(c, dtype)]
    if positive:
        return _shift(_less(_total(positive), negated), constant, dtype)
    if not negated:
        return constant_of(constant, dtype)
    if constant:
        return subtract(constant_of(constant, dtype), _total(negated))
    if len(pairs) == 1:
        return negative(negated[0])
    return negative(_total(negated))


def _is_subtracted(number: Any, dtype: str) -> bool:
    # The lowest integer has no counterpart above 0.
    return bool(number < 0 and (is_inexact(dtype) or -number <= np.iinfo(dtype).max))


def _scaled(factor: Any, x: Any, dtype: str) -> Tensor:
    return x if factor == 1 else multiply(x, constant_of(factor, dtype))


def _total(xs: list[Tensor]) -> Tensor:
    total, *others = xs
    for x in others:
        total = add(total, x)
    return total


def _less(total: Tensor, xs: list[Tensor]) -> Tensor:
    for x in xs:
        total = subtract(total, x)
    return total


def _shift(x: Tensor, constant: Any, dtype: str) -> Tensor:
    if not constant:
        return x
    if _is_subtracted(constant, dtype):
        return subtract(x, constant_of(-constant, dtype))
    return add(x, constant_of(constant, dtype))


def constant_of(value: Any, dtype: str) -> Tensor:
    """A number in that dtype; a whole one that is outside its range comes back at the other end."""
    if is_integer(dtype):
        bounds = np.iinfo(dtype)
        lowest, highest = int(bounds.min), int(bounds.max)
        value = (int(value) - lowest) % (highest - lowest + 1) + lowest
    return as_tensor(value, dtype=dtype)


# Integers.

_found = Memo[tuple[Terms, int] | None]()


def integer_sum(node: Node) -> Node | None:
    """A sum of integers with equal terms taken together, or None where no two are equal."""
    merged, many = _merged(node, MOST_LEVELS)
    if merged is None or len(merged[0]) + bool(merged[1]) == many:
        return None
    terms, constant = merged
    return sum_of([(c, x) for x, c in terms.items()], constant, node.type.dtype)


def _terms(node: Node, levels: int) -> tuple[Terms, int]:
    """The coefficients of a node's terms, and its constant."""
    if node in _found:
        known = _found[node]
    elif not levels or (node.op is not add and node.op is not subtract):
        known = _one_term(node)
    else:
        known, _ = _merged(node, levels - 1)
    return known or ({node: 1}, 0)


def _one_term(node: Node) -> tuple[Terms, int] | None:
    value = number_of(node)
    if value is not None:
        return {}, value
    factor, x = term(node)
    if x is node:
        return None
    inner, base = term(x)
    return {base: _wrapped(factor * inner, node.type.dtype)}, 0


def _merged(node: Node, levels: int) -> tuple[tuple[Terms, int] | None, int]:
    """The terms of a sum, unless there are too many, and how many there were on both sides."""
    left, right = node.inputs
    sign = -1 if node.op is subtract else 1
    (ours, constant), (theirs, other) = _terms(left, levels), _terms(right, levels)
    if left in theirs:
        ours, constant = {left: 1}, 0
    elif right in ours:
        theirs, other = {right: 1}, 0
    many = len(ours) + len(theirs) + bool(constant) + bool(other)
    if sign == 1 and len(ours) < len(theirs):
        # The terms keep their order, so that a longer sum is found again as it was written.
        ours, theirs = theirs, ours
    dtype = node.type.dtype
    terms = dict(ours)
    for x, c in theirs.items():
        terms[x] = _wrapped(terms.get(x, 0) + sign * c, dtype)
    terms = {x: c for x, c in terms.items() if c}
    found = (terms, _wrapped(constant + sign * other, dtype))
    _found[node] = found if len(terms) <= MOST_TERMS else None
    return _found[node], many


def _wrapped(value: int, dtype: str) -> int:
    """The number nearest to 0 that is the same to integers of that width."""
    span: int = 2 ** (8 * numpy_dtype(dtype).itemsize)
    return (value + span // 2) % span - span // 2


# Floats.


class Shifted(NamedTuple):
    """A node as ``constant + sign * rest``."""

    constant: Any
    sign: int
    rest: Node


def shifted(node: Node) -> Shifted | None:
    """A sum of a number and something else, or None."""
    if node.op is not add and node.op is not subtract:
        return None
    a, b = node.inputs
    sign = -1 if node.op is subtract else 1
    if isinstance(b.op, Constant):
        constant = real_number(b)
        return None if constant is None else Shifted(sign * constant, 1, a)
    constant = real_number(a)
    return None if constant is None else Shifted(constant, sign, b)


def exact_sum(a: Any, b: Any, dtype: str) -> float | None:
    """The sum of two numbers, unless rounding it would lose digits of the smaller one."""
    exact = Fraction(a) + Fraction(b)
    found = rounded(exact, dtype)
    if found is None:
        return None
    lost = abs(Fraction(found) - exact)
    return (
        found
        if lost <= 4 * Fraction(limits(dtype).eps) * min(abs(Fraction(a)), abs(Fraction(b)))
        else None
    )


def rounded(exact: Fraction, dtype: str) -> float | None:
    """The number of that dtype next to a fraction; None if there is none of full precision."""
    kind = numpy_dtype(real_dtype(dtype))
    with np.errstate(over="ignore", under="ignore"):
        try:
            found = float(np.asarray(float(exact)).astype(kind))
        except OverflowError:
            return None
    _, tiny, largest = limits(dtype)
    return found if not exact or tiny <= abs(found) <= largest else None
