"""Sums as coefficients of terms, and sums from coefficients of terms.

Integers wrap around, so that their sums may be reordered at will. Floats may not: ``(a + b) + c``
can be finite where ``b + c`` is not, and a small term may be rounded off beside a large one that
cancels later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer, numpy_dtype, real_dtype
from graphc.ir.dtypes import limits
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.rule import number_of
from graphc.tensor.core.elementwise import add, multiply, negative, subtract
from graphc.tensor.core.tensor import Tensor, as_tensor

MAX_TERMS = 8
"""A longer sum counts as one term, so that n nested sums cost only n times as much as one."""

MAX_LEVELS = 4
"""Depth to which a new sum is expanded."""

Terms = Mapping[Node, int]


def real_number(node: Node) -> float | int | None:
    """Return the finite real number that all elements of a constant equal, or None."""
    value = number_of(node)
    if isinstance(value, complex):
        value = value.real if not value.imag else None
    return value if value is not None and math.isfinite(value) else None


def term(node: Node) -> tuple[Any, Node]:
    """Return a node as a number times another node."""
    if node.op is negative:
        return -1, node.inputs[0]
    if node.op is multiply:
        factor = real_number(node.inputs[0])
        if factor is not None:
            return factor, node.inputs[1]
    return 1, node


def sum_of(terms: Iterable[tuple[Any, Node]], constant: Any, dtype: str) -> Tensor:
    """Return the sum of terms and a constant, with negative terms subtracted."""
    pairs = list(terms)
    positive = [_multiple(c, x, dtype) for c, x in pairs if not _is_subtracted(c, dtype)]
    negated = [_multiple(-c, x, dtype) for c, x in pairs if _is_subtracted(c, dtype)]
    if positive:
        return _shift(_subtract_all(_total(positive), negated), constant, dtype)
    if not negated:
        return constant_of(constant, dtype)
    if constant:
        return subtract(constant_of(constant, dtype), _total(negated))
    if len(pairs) == 1:
        return negative(negated[0])
    return negative(_total(negated))


def _is_subtracted(number: Any, dtype: str) -> bool:
    # The lowest integer has no positive counterpart.
    return bool(number < 0 and (is_inexact(dtype) or -number <= np.iinfo(dtype).max))


def _multiple(factor: Any, x: Any, dtype: str) -> Tensor:
    return x if factor == 1 else multiply(x, constant_of(factor, dtype))


def _total(xs: list[Tensor]) -> Tensor:
    total, *others = xs
    for x in others:
        total = add(total, x)
    return total


def _subtract_all(total: Tensor, xs: list[Tensor]) -> Tensor:
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
    """Return a number in that dtype; integers wrap around at its limits."""
    if is_integer(dtype):
        bounds = np.iinfo(dtype)
        lowest, highest = int(bounds.min), int(bounds.max)
        value = (int(value) - lowest) % (highest - lowest + 1) + lowest
    return as_tensor(value, dtype=dtype)


# Integers.

_cached_terms = Memo[tuple[Terms, int] | None]()


def integer_sum(node: Node) -> Node | None:
    """Return a sum of integers with equal terms combined, or None where no two are equal."""
    merged, count = _combine_terms(node, MAX_LEVELS)
    if merged is None or len(merged[0]) + bool(merged[1]) == count:
        return None
    terms, constant = merged
    return sum_of([(c, x) for x, c in terms.items()], constant, node.type.dtype)


def _linear_form(node: Node, levels: int) -> tuple[Terms, int]:
    if node in _cached_terms:
        terms = _cached_terms[node]
    elif not levels or (node.op is not add and node.op is not subtract):
        terms = _one_term(node)
    else:
        terms, _ = _combine_terms(node, levels - 1)
    return terms or ({node: 1}, 0)


def _one_term(node: Node) -> tuple[Terms, int] | None:
    value = number_of(node)
    if value is not None:
        return {}, value
    factor, x = term(node)
    if x is node:
        return None
    inner, base = term(x)
    return {base: _wrap(factor * inner, node.type.dtype)}, 0


def _combine_terms(node: Node, levels: int) -> tuple[tuple[Terms, int] | None, int]:
    """Return the combined terms of a sum, None if too many, and their count before."""
    a, b = node.inputs
    sign = -1 if node.op is subtract else 1
    (ours, constant), (theirs, other) = (_linear_form(a, levels), _linear_form(b, levels))
    if a in theirs:
        ours, constant = {a: 1}, 0
    elif b in ours:
        theirs, other = {b: 1}, 0
    count = len(ours) + len(theirs) + bool(constant) + bool(other)
    if sign == 1 and len(ours) < len(theirs):
        # Keep the order of the longer sum's terms, so that it is recognized later.
        ours, theirs = theirs, ours
    dtype = node.type.dtype
    terms = dict(ours)
    for x, c in theirs.items():
        terms[x] = _wrap(terms.get(x, 0) + sign * c, dtype)
    terms = {x: c for x, c in terms.items() if c}
    result = (terms, _wrap(constant + sign * other, dtype))
    _cached_terms[node] = result if len(terms) <= MAX_TERMS else None
    return _cached_terms[node], count


def _wrap(value: int, dtype: str) -> int:
    """Return the number nearest to 0 that is congruent modulo the integer range."""
    span: int = 2 ** (8 * numpy_dtype(dtype).itemsize)
    return (value + span // 2) % span - span // 2


# Floats.


class Shifted(NamedTuple):
    """A node as ``constant + sign * rest``."""

    constant: Any
    sign: int
    rest: Node


def as_shifted(node: Node) -> Shifted | None:
    """Return a sum of a number and a node in this form, or None."""
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
    """Return the sum of two numbers, or None if rounding loses digits of the smaller one."""
    exact = Fraction(a) + Fraction(b)
    result = round_to_dtype(exact, dtype)
    if result is None:
        return None
    error = abs(Fraction(result) - exact)
    return (
        result
        if error <= 4 * Fraction(limits(dtype).eps) * min(abs(Fraction(a)), abs(Fraction(b)))
        else None
    )


def round_to_dtype(exact: Fraction, dtype: str) -> float | None:
    """Return the nearest number of that dtype; None if it is subnormal or overflows."""
    kind = numpy_dtype(real_dtype(dtype))
    with np.errstate(over="ignore", under="ignore"):
        try:
            result = float(np.asarray(float(exact)).astype(kind))
        except OverflowError:
            return None
    _, tiny, largest = limits(dtype)
    return result if not exact or tiny <= abs(result) <= largest else None
