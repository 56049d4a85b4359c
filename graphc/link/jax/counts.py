"""Integers that are unknown while JAX traces: traced numbers with bounds, or formulas of lengths.

At every call, the host knows the lengths of arguments that are padded to buckets. An integer that
depends on these lengths alone, like ``x.shape[0] - 1``, is a ``Formula``: equal formulas are equal
numbers, so no program compares them, and the host evaluates formulas before and after a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.errors import DynamicShapeError
from graphc.intervals.interval import INTEGERS, Interval
from graphc.intervals.rules import image

LEAST, MOST = -(2**63), 2**63 - 1
UNBOUNDED = 2**48
"""A length from which no buffer fits into memory."""


def is_known(x: Any) -> bool:
    """Return whether a value is static while JAX traces."""
    return isinstance(x, np.ndarray | np.generic | int)


# Formulas.

Atom = int | tuple[Any, ...]
"""The index of a passed length; or the name of a function, and its operands, which are formulas."""

FUNCTIONS: Mapping[str, tuple[Callable[[int, int], int], Callable[[Any, Any], Any]]] = {
    "multiply": (lambda a, b: a * b, lax.mul),
    "floor_divide": (lambda a, b: a // b if b else 0, lambda a, b: _divmod(a, b)[0]),
    "remainder": (lambda a, b: a % b if b else 0, lambda a, b: _divmod(a, b)[1]),
    "minimum": (min, lax.min),
    "maximum": (max, lax.max),
}
"""The functions in formulas: of Python integers, and of traced integers."""


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the quotient, rounded down, and the remainder; both are 0 if ``b`` is, as in NumPy."""
    is_zero = b == 0
    divisor = jnp.where(is_zero, np.int64(1), b)
    zero = np.int64(0)
    return (
        jnp.where(is_zero, zero, jnp.floor_divide(a, divisor)),
        jnp.where(is_zero, zero, jnp.remainder(a, divisor)),
    )


@dataclass(frozen=True, slots=True)
class Formula:
    """A linear combination of atoms, and a constant.

    Attributes:
        terms: The atoms with their coefficients, in a canonical order.
        number: The constant.
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    number: int = 0

    def plus(self, other: Formula, times: int = 1) -> Formula:
        """Return ``self + times * other``."""
        terms = dict(self.terms)
        for atom, n in other.terms:
            terms[atom] = terms.get(atom, 0) + n * times
        return _sum_of(terms, self.number + other.number * times)

    def scale(self, times: int) -> Formula:
        """Return ``times * self``."""
        return _sum_of({atom: n * times for atom, n in self.terms}, self.number * times)

    def evaluate(self, lengths: Sequence[int]) -> int:
        """Return the value of the formula for lengths that are Python integers."""
        total = self.number
        for atom, n in self.terms:
            total += n * _value(atom, lengths, 0)
        return total

    def trace(self, lengths: Sequence[Any]) -> Any:
        """Return the value of the formula for traced lengths, an int64 scalar."""
        total = None
        for atom, n in self.terms:
            value = _value(atom, lengths, 1)
            value = value if n == 1 else lax.mul(value, np.int64(n))
            total = value if total is None else lax.add(total, value)
        if total is None:
            return np.asarray(self.number, np.int64)
        return lax.add(total, np.int64(self.number)) if self.number else total


def _sum_of(terms: Mapping[Atom, int], number: int) -> Formula:
    return Formula(tuple(sorted(((a, n) for a, n in terms.items() if n), key=repr)), number)


def _value(atom: Atom, lengths: Sequence[Any], kind: int) -> Any:
    if isinstance(atom, int):
        return lengths[atom]
    name, *operands = atom
    values = [x.trace(lengths) if kind else x.evaluate(lengths) for x in operands]
    return FUNCTIONS[name][kind](*values)


def length_formula(index: int) -> Formula:
    """Return the formula of a passed length."""
    return Formula(((index, 1),))


def _apply(name: str, a: Formula, b: Formula) -> Formula | None:
    """Return a function of two formulas as a formula, or None."""
    if name in {"add", "subtract"}:
        return a.plus(b, 1 if name == "add" else -1)
    if name == "multiply" and not (a.terms and b.terms):
        return b.scale(a.number) if not a.terms else a.scale(b.number)
    if name not in FUNCTIONS:
        return None
    if not a.terms and not b.terms:
        return Formula((), FUNCTIONS[name][0](a.number, b.number))
    if name in {"multiply", "minimum", "maximum"}:
        a, b = sorted((a, b), key=repr)
        if a == b and name != "multiply":
            return a
    return Formula((((name, a, b), 1),))


def as_json(formula: Formula | None) -> Any:
    """Convert a formula to nested lists for JSON."""
    if formula is None:
        return None
    terms = [
        [atom if isinstance(atom, int) else [atom[0], *map(as_json, atom[1:])], n]
        for atom, n in formula.terms
    ]
    return [terms, formula.number]


def from_json(lists: Any) -> Formula | None:
    """Convert the lists of ``as_json`` to the formula."""
    if lists is None:
        return None
    terms, number = lists
    atoms = [
        (atom if isinstance(atom, int) else (atom[0], *map(from_json, atom[1:])), n)
        for atom, n in terms
    ]
    return Formula(tuple(atoms), number)


_lengths: ContextVar[Sequence[Any]] = ContextVar("lengths", default=())


@contextmanager
def given_lengths(traced: Sequence[Any]) -> Iterator[None]:
    """Define the traced lengths of formulas in this context."""
    token = _lengths.set(traced)
    try:
        yield
    finally:
        _lengths.reset(token)


# Counts.


@dataclass(frozen=True, eq=False, slots=True)
class Count:
    """An integer that is unknown while JAX traces, with its bounds.

    Attributes:
        traced: A traced int64 scalar; None if there is a formula.
        low: The lower bound.
        high: The upper bound.
        formula: The integer as a formula of the passed lengths; None if it depends on other values.
    """

    traced: Any
    low: int = LEAST
    high: int = MOST
    formula: Formula | None = None

    shape = ()
    ndim = 0
    dtype = np.dtype(np.int64)

    @property
    def value(self) -> Any:
        """A traced int64 scalar; formulas are traced where they are used, within loops too."""
        return self.traced if self.formula is None else self.formula.trace(_lengths.get())

    def __repr__(self) -> str:
        return f"{self.low}..{self.high}"


def as_count(n: Any) -> Count:
    """Convert an integer, static or traced, to a ``Count``."""
    if isinstance(n, Count):
        return n
    if is_known(n):
        return Count(None, int(n), int(n), Formula((), int(n)))
    return Count(lax.convert_element_type(n, np.int64))


def is_same(a: Any, b: Any) -> bool:
    """Return whether two integers are certainly equal."""
    x, y = as_count(a), as_count(b)
    if x.low == x.high == y.low == y.high:
        return True
    if x.formula is not None or y.formula is not None:
        return x.formula == y.formula
    return x.traced is y.traced


def plain(x: Any) -> Any:
    """Return a count's value; other values unchanged."""
    return x.value if isinstance(x, Count) else x


def as_static(n: Count) -> Any:
    """Return a count as an integer if its bounds are equal."""
    return np.asarray(n.low, np.int64) if n.low == n.high else n


def combine(name: str, f: Callable[..., Any], *xs: Any) -> Any:
    """Apply an elementwise function to counts.

    Args:
        name: The name of the function's row.
        f: The function of JAX values.
        xs: Two counts or static integers.
    """
    counts = [as_count(x) for x in xs]
    bounds = image(INTEGERS, name, *[Interval(x.low, x.high) for x in counts])
    low, high = (LEAST, MOST) if bounds is None else (bounds.low, bounds.high)
    low, high = max(low, LEAST), min(high, MOST)
    formulas = [x.formula for x in counts if x.formula is not None]
    if len(formulas) == len(counts) == 2:
        formula = _apply(name, *formulas)
        if formula is not None:
            # The bounds of n - n are wider than 0..0.
            low, high = (low, high) if formula.terms else (formula.number, formula.number)
            return as_static(Count(None, low, high, formula))
    return as_static(Count(f(*[x.value for x in counts]), low, high))


def compare(name: str, a: Any, b: Any) -> bool | None:
    """Return the result of a comparison of integers if their bounds decide it, else None."""
    x, y = as_count(a), as_count(b)
    bounds = [Interval(0, 0)] * 2 if is_same(x, y) else [Interval(n.low, n.high) for n in (x, y)]
    result = image(INTEGERS, name, *bounds)
    return bool(result.low) if result is not None and result.low == result.high else None


def plus(a: Any, b: Any) -> Any:
    """Return ``a + b``."""
    for x, y in ((a, b), (b, a)):
        if is_known(x) and int(x) == 0:
            return y
    return combine("add", lax.add, a, b)


def minus(a: Any, b: Any) -> Any:
    """Return ``a - b``."""
    if a is b:
        return np.asarray(0, np.int64)
    if is_known(b) and int(b) == 0:
        return a
    return combine("subtract", lax.sub, a, b)


def times(a: Any, b: Any) -> Any:
    """Return ``a * b``."""
    return combine("multiply", lax.mul, a, b)


def over(n: Any, step: Any) -> Any:
    """Return ``n // step``."""
    if is_known(step) and int(step) == 1:
        return n
    return combine("floor_divide", FUNCTIONS["floor_divide"][1], n, step)


def rest(n: Any, step: Any) -> Any:
    """Return ``n % step``, which has the sign of ``step``."""
    return combine("remainder", FUNCTIONS["remainder"][1], n, step)


def every(n: Any, step: int) -> Any:
    """Return ``ceil(n / step)``, the length of ``x[::step]``."""
    return over(plus(n, step - 1), step)


def least(a: Any, b: Any) -> Any:
    """Return ``min(a, b)``, which is one of the operands if their bounds decide it."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.high <= y.low:
            return as_static(x)
    return combine("minimum", lax.min, a, b)


def most(a: Any, b: Any) -> Any:
    """Return ``max(a, b)``, which is one of the operands if their bounds decide it."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.low >= y.high:
            return as_static(x)
    return combine("maximum", lax.max, a, b)


def product(lengths: Sequence[Any]) -> Any:
    """Return the product of lengths, a Python integer if all lengths are static."""
    total: Any = 1
    for n in lengths:
        is_static = is_known(total) and is_known(n)
        total = int(total) * int(n) if is_static else times(total, n)
    return total


def bound(n: Any) -> int:
    """Return the length of the longest buffer that may be needed.

    Raises:
        DynamicShapeError: If the length has no upper bound.
    """
    count = as_count(n)
    if count.high >= UNBOUNDED:
        raise DynamicShapeError(
            "A length is unknown while JAX compiles, and has no upper bound.",
            "Limit it by gt.minimum(n, most) or, of a loop, by the most steps there can be; or use "
            "mode='NUMPY'.",
        )
    return max(count.high, 0)
