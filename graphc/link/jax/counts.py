"""Integers that are unknown while JAX traces: traced numbers with bounds, or formulas of lengths.

Lengths of arguments that are padded to buckets are known on the host at every call. What follows
from them alone, as ``x.shape[0] - 1`` does, is a ``Formula``: equal formulas are equal numbers, so
no program compares them, and the host evaluates what it needs of them before and after a call.
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
"""A bound that no buffer can have."""


def is_known(x: Any) -> bool:
    """Whether a value is known while JAX traces."""
    return isinstance(x, np.ndarray | np.generic | int)


# Formulas.

Atom = int | tuple[Any, ...]
"""A length of an argument, by its place among those that are passed; or the name of a function,
and the formulas that it is applied to."""

FUNCTIONS: Mapping[str, tuple[Callable[[int, int], int], Callable[[Any, Any], Any]]] = {
    "multiply": (lambda a, b: a * b, lax.mul),
    "floor_divide": (lambda a, b: a // b if b else 0, lambda a, b: _divided(a, b)[0]),
    "remainder": (lambda a, b: a % b if b else 0, lambda a, b: _divided(a, b)[1]),
    "minimum": (min, lax.min),
    "maximum": (max, lax.max),
}
"""What formulas are made of beside sums: of Python integers, and of traced ones."""


def _divided(a: Any, b: Any) -> tuple[Any, Any]:
    """The quotient, rounded down, and the rest; both 0 where NumPy divides by zero."""
    zero = b == 0
    by = jnp.where(zero, np.int64(1), b)
    nothing = np.int64(0)
    return (
        jnp.where(zero, nothing, jnp.floor_divide(a, by)),
        jnp.where(zero, nothing, jnp.remainder(a, by)),
    )


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of multiples of atoms, and of a number.

    Attributes:
        terms: The atoms and how often each is in it, in one order.
        number: What is added.
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    number: int = 0

    def plus(self, other: Formula, times: int = 1) -> Formula:
        """The sum with a multiple of another one."""
        found = dict(self.terms)
        for atom, n in other.terms:
            found[atom] = found.get(atom, 0) + n * times
        return _sum_of(found, self.number + other.number * times)

    def scaled(self, times: int) -> Formula:
        """A multiple."""
        return _sum_of({atom: n * times for atom, n in self.terms}, self.number * times)

    def evaluate(self, lengths: Sequence[int]) -> int:
        """Return its value for these lengths."""
        found = self.number
        for atom, n in self.terms:
            found += n * _value(atom, lengths, 0)
        return found

    def traced(self, lengths: Sequence[Any]) -> Any:
        """Return its value for traced lengths, an int64 scalar."""
        found = None
        for atom, n in self.terms:
            value = _value(atom, lengths, 1)
            value = value if n == 1 else lax.mul(value, np.int64(n))
            found = value if found is None else lax.add(found, value)
        if found is None:
            return np.asarray(self.number, np.int64)
        return lax.add(found, np.int64(self.number)) if self.number else found


def _sum_of(terms: Mapping[Atom, int], number: int) -> Formula:
    return Formula(tuple(sorted(((a, n) for a, n in terms.items() if n), key=repr)), number)


def _value(atom: Atom, lengths: Sequence[Any], kind: int) -> Any:
    if isinstance(atom, int):
        return lengths[atom]
    name, *parts = atom
    values = [part.traced(lengths) if kind else part.evaluate(lengths) for part in parts]
    return FUNCTIONS[name][kind](*values)


def length_formula(place: int) -> Formula:
    """The formula that is one of the lengths that are passed."""
    return Formula(((place, 1),))


def _combined_formula(name: str, a: Formula, b: Formula) -> Formula | None:
    if name in {"add", "subtract"}:
        return a.plus(b, 1 if name == "add" else -1)
    if name == "multiply" and not (a.terms and b.terms):
        return b.scaled(a.number) if not a.terms else a.scaled(b.number)
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
    """A formula as lists of what JSON has."""
    if formula is None:
        return None
    terms = [
        [atom if isinstance(atom, int) else [atom[0], *map(as_json, atom[1:])], n]
        for atom, n in formula.terms
    ]
    return [terms, formula.number]


def from_json(found: Any) -> Formula | None:
    """The formula of which ``as_json`` made these lists."""
    if found is None:
        return None
    terms, number = found
    atoms = [
        (atom if isinstance(atom, int) else (atom[0], *map(from_json, atom[1:])), n)
        for atom, n in terms
    ]
    return Formula(tuple(atoms), number)


_lengths: ContextVar[Sequence[Any]] = ContextVar("lengths", default=())


@contextmanager
def given_lengths(traced: Sequence[Any]) -> Iterator[None]:
    """A context in which formulas are of these traced lengths."""
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
        given: A traced int64 scalar; None where there is a formula.
        low: The least that it can be.
        high: The most.
        formula: What it is in terms of the lengths that are passed, where it is no more than that.
    """

    given: Any
    low: int = LEAST
    high: int = MOST
    formula: Formula | None = None

    shape = ()
    ndim = 0
    dtype = np.dtype(np.int64)

    @property
    def value(self) -> Any:
        """A traced int64 scalar; by a formula it can be had anywhere, within loops too."""
        return self.given if self.formula is None else self.formula.traced(_lengths.get())

    def __repr__(self) -> str:
        return f"{self.low}..{self.high}"


def as_count(n: Any) -> Count:
    """Convert an integer, known or traced, to a ``Count``."""
    if isinstance(n, Count):
        return n
    if is_known(n):
        return Count(None, int(n), int(n), Formula((), int(n)))
    return Count(lax.convert_element_type(n, np.int64))


def is_same(a: Any, b: Any) -> bool:
    """Whether two integers are seen to be equal."""
    x, y = as_count(a), as_count(b)
    if x.low == x.high == y.low == y.high:
        return True
    if x.formula is not None or y.formula is not None:
        return x.formula == y.formula
    return x.given is y.given


def plain(x: Any) -> Any:
    """Return a count's value; anything else unchanged."""
    return x.value if isinstance(x, Count) else x


def settled(n: Count) -> Any:
    """Return a count whose bounds are equal as an integer."""
    return np.asarray(n.low, np.int64) if n.low == n.high else n


def combined(name: str, f: Callable[..., Any], *xs: Any) -> Any:
    """The count that is an elementwise function of others.

    Args:
        name: The function's row.
        f: The same of values in JAX.
        xs: Two counts or known integers.
    """
    counts = [as_count(x) for x in xs]
    bounds = image(INTEGERS, name, *[Interval(x.low, x.high) for x in counts])
    low, high = (LEAST, MOST) if bounds is None else (bounds.low, bounds.high)
    low, high = max(low, LEAST), min(high, MOST)
    formulas = [x.formula for x in counts if x.formula is not None]
    if len(formulas) == len(counts) == 2:
        formula = _combined_formula(name, *formulas)
        if formula is not None:
            # The bounds of n - n do not say that it is 0.
            low, high = (low, high) if formula.terms else (formula.number, formula.number)
            return settled(Count(None, low, high, formula))
    return settled(Count(f(*[x.value for x in counts]), low, high))


def compared(name: str, a: Any, b: Any) -> bool | None:
    """The result of a comparison of integers that their bounds decide."""
    x, y = as_count(a), as_count(b)
    ends = [Interval(0, 0)] * 2 if is_same(x, y) else [Interval(n.low, n.high) for n in (x, y)]
    found = image(INTEGERS, name, *ends)
    return bool(found.low) if found is not None and found.low == found.high else None


def plus(a: Any, b: Any) -> Any:
    """The sum."""
    for x, y in ((a, b), (b, a)):
        if is_known(x) and int(x) == 0:
            return y
    return combined("add", lax.add, a, b)


def minus(a: Any, b: Any) -> Any:
    """The difference."""
    if a is b:
        return np.asarray(0, np.int64)
    if is_known(b) and int(b) == 0:
        return a
    return combined("subtract", lax.sub, a, b)


def times(a: Any, b: Any) -> Any:
    """The product."""
    return combined("multiply", lax.mul, a, b)


def over(n: Any, step: Any) -> Any:
    """The quotient, rounded down."""
    if is_known(step) and int(step) == 1:
        return n
    return combined("floor_divide", FUNCTIONS["floor_divide"][1], n, step)


def rest(n: Any, step: Any) -> Any:
    """What a division leaves, which has the divisor's sign."""
    return combined("remainder", FUNCTIONS["remainder"][1], n, step)


def every(n: Any, step: int) -> Any:
    """How many there are of a count if one of so many is taken, the first of them included."""
    return over(plus(n, step - 1), step)


def least(a: Any, b: Any) -> Any:
    """The smaller one, which is one of them where that is known."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.high <= y.low:
            return settled(x)
    return combined("minimum", lax.min, a, b)


def most(a: Any, b: Any) -> Any:
    """The larger one, which is one of them where that is known."""
    for x, y in ((as_count(a), as_count(b)), (as_count(b), as_count(a))):
        if x.low >= y.high:
            return settled(x)
    return combined("maximum", lax.max, a, b)


def product(lengths: Sequence[Any]) -> Any:
    """The product of lengths, an integer where all of them are known."""
    found: Any = 1
    for n in lengths:
        known = is_known(found) and is_known(n)
        found = int(found) * int(n) if known else times(found, n)
    return found


def bound(n: Any) -> int:
    """Return the longest buffer that is needed.

    Raises:
        DynamicShapeError: There is no bound.
    """
    count = as_count(n)
    if count.high >= UNBOUNDED:
        raise DynamicShapeError(
            "A length is unknown while JAX compiles, and has no upper bound.",
            "Limit it by gt.minimum(n, most) or, of a loop, by the most steps there can be; or use "
            "mode='NUMPY'.",
        )
    return max(count.high, 0)
