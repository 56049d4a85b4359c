"""Integers that are unknown when a padded graph is built: scalars of the graph, with bounds.

At every call, the host knows the lengths of arguments that are padded to buckets. An integer that
depends on these lengths alone, like ``x.shape[0] - 1``, also has a formula: equal formulas are
equal numbers, so no program compares them, and the host evaluates formulas before and after a call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from graphc.context import setting
from graphc.errors import DynamicShapeError, GraphcError
from graphc.intervals.interval import INTEGERS, Interval
from graphc.intervals.rules import image
from graphc.ir import Constant, Node
from graphc.ir.lengths import AnyLength, SymbolicLength, evaluate, label_of
from graphc.tensor.core.elementwise import (
    add,
    cast,
    floor_divide,
    maximum,
    minimum,
    multiply,
    remainder,
    subtract,
)
from graphc.tensor.core.tensor import Tensor, constant

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UNBOUNDED = 2**48
"""A length from which no buffer fits into memory."""


def is_known(x: Any) -> bool:
    """Return whether a value is a number or an array that is known when the graph is built."""
    return isinstance(x, np.ndarray | np.generic | int)


# Formulas: expressions of the lengths that are passed at a call.


def passed_length(i: int) -> AnyLength:
    """Return the formula of the passed length of an index."""
    return SymbolicLength.of("value", i)


OF_NODES: Mapping[str, Callable[..., Any]] = {"min": minimum, "max": maximum}
"""The functions in formulas, of nodes."""

OF_INTEGERS: Mapping[str, Callable[..., Any]] = {
    "//": lambda a, b: a // b if b else 0,
    "min": min,
    "max": max,
}
"""The functions in formulas, of Python integers; a quotient by 0 is 0, as in NumPy."""


def value_of(formula: AnyLength, lengths: Sequence[Any]) -> int:
    """Return the value of a formula for passed lengths and then the numbers of a run."""
    return evaluate(formula, lambda symbol: int(lengths[symbol[1]]), OF_INTEGERS)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class LengthComparison:
    """A check that two integers are equal, or that the first is at least the second.

    Attributes:
        a: A formula of the passed lengths and of the numbers that only a run decides.
        b: Another formula.
        at_least: Whether ``a > b`` is allowed.
        error: Returns the error, given both integers; None if the exact program raises it.
    """

    a: AnyLength
    b: AnyLength
    at_least: bool
    error: Callable[[int, int], GraphcError] | None

    def difference(self, lengths: Sequence[Any]) -> tuple[int, int] | None:
        """Return both integers if the check fails for these lengths and numbers, else None."""
        a, b = value_of(self.a, lengths), value_of(self.b, lengths)
        return None if a == b or (self.at_least and a > b) else (a, b)


@dataclass
class LengthRecord:
    """The lengths that one padded graph knows, and the comparisons that it makes.

    Attributes:
        passed: The lengths that a call passes, int64 scalars.
        numbers: The integers that only a run decides, and their positions among each other.
        comparisons: The comparisons, as an ordered set.
        depth: The number of steps of loops and branches around the operation.
        has_exact: Whether a call can run the exact program instead.
    """

    passed: Sequence[Tensor]
    numbers: dict[Tensor, int] = field(default_factory=dict)
    comparisons: dict[LengthComparison, None] = field(default_factory=dict)
    depth: int = 0
    has_exact: bool = False

    def formula(self, n: Count) -> AnyLength:
        """Return the formula of a count, which becomes one of the numbers if it has none."""
        if n.formula is not None:
            return n.formula
        return passed_length(len(self.passed) + self.numbers.setdefault(n.node, len(self.numbers)))


_lengths: ContextVar[LengthRecord] = ContextVar("lengths")
current_lengths = _lengths.get


def padding(passed: Sequence[Tensor], *, has_exact: bool = False) -> setting[LengthRecord]:
    """Collect comparisons of lengths in this context, where these lengths are passed."""
    return setting(_lengths, LengthRecord(passed, has_exact=has_exact))


# Counts.


def _operators(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    return lambda a, b: combine(name, a, b), lambda b, a: combine(name, a, b)


@dataclass(frozen=True, eq=False, slots=True)
class Count:
    """An integer that is unknown when the graph is built, with its bounds.

    Attributes:
        scalar: An int64 scalar; None if there is a formula.
        low: The lower bound.
        high: The upper bound.
        formula: The integer as a formula of the passed lengths; None if it depends on other values.
        limit: An upper bound that a backend knows when it compiles, or None.
        is_exact: Whether a backend knows the integer when it compiles.
    """

    __array_ufunc__ = None  # NumPy's integers leave the operators to this class.

    scalar: Tensor | None
    low: int = INT64_MIN
    high: int = INT64_MAX
    formula: AnyLength | None = None
    limit: Tensor | None = None
    is_exact: bool = False

    @property
    def node(self) -> Tensor:
        """The integer as an int64 scalar."""
        if self.formula is None:
            assert self.scalar is not None
            return self.scalar
        value = evaluate(self.formula, lambda symbol: _lengths.get().passed[symbol[1]], OF_NODES)
        return constant(np.int64(value)) if isinstance(value, int) else value

    def __repr__(self) -> str:
        return f"{self.low}..{self.high}"

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __floordiv__, __rfloordiv__ = _operators("floor_divide")
    __mod__, __rmod__ = _operators("remainder")


def exact(scalar: Tensor) -> Count:
    """Return a length that a backend knows when it compiles."""
    return Count(scalar, 0, limit=scalar, is_exact=True)


def as_count(n: Any) -> Count:
    """Convert an integer, known or a scalar of the graph, to a ``Count``."""
    if isinstance(n, Count):
        return n
    if is_known(n):
        return Count(None, int(n), int(n), int(n))
    if isinstance(n.op, Constant):
        return as_count(n.op.value)
    return Count(cast(n, "int64"))


def is_known_to_backend(x: Any) -> bool:
    """Return whether a backend knows a number or an array when it compiles."""
    return is_known(x) or (isinstance(x, Count) and (x.is_exact or x.low == x.high))


def is_same(a: Any, b: Any) -> bool:
    """Return whether two integers are certainly equal."""
    x, y = as_count(a), as_count(b)
    if x.low == x.high == y.low == y.high:
        return True
    if x.formula is not None or y.formula is not None:
        return x.formula == y.formula
    return x.scalar is y.scalar


def as_known(n: Count) -> Any:
    """Return a count as a Python integer if its bounds are equal."""
    return n.low if n.low == n.high else n


def combine(name: str, a: Any, b: Any) -> Any:
    """Apply the elementwise function of a row to two integers."""
    x, y = as_count(a), as_count(b)
    if name == "subtract" and is_same(x, y):
        return 0
    of_nodes, of_formulas, _ = FUNCTIONS[name]
    is_commutative = name in {"add", "multiply", "minimum", "maximum"}
    for first, second in ((x, y), (y, x))[: 1 + is_commutative]:
        if _is_first(name, first, second):
            return as_known(first)
    bounds = image(INTEGERS, name, Interval(x.low, x.high), Interval(y.low, y.high))
    low, high = (INT64_MIN, INT64_MAX) if bounds is None else (bounds.low, bounds.high)
    low, high = max(low, INT64_MIN), min(high, INT64_MAX)
    if x.formula is not None and y.formula is not None:
        formula = of_formulas(x.formula, y.formula)
        if formula is not None:
            return (
                formula if isinstance(formula, int) else as_known(Count(None, low, high, formula))
            )
    scalar = of_nodes(x.node, y.node)
    if is_known_to_backend(x) and is_known_to_backend(y):
        return replace(exact(scalar), low=low)
    return as_known(Count(scalar, low, high, limit=_limit(name, x, y)))


def _is_first(name: str, x: Count, y: Count) -> bool:
    """Return whether the bounds of two integers decide that the result is the first one."""
    if name == "minimum":
        return x.high <= y.low or is_same(x, y) or (y.is_exact and x.limit is y.scalar)
    if name == "maximum":
        return x.low >= y.high or is_same(x, y)
    return y.low == y.high == FUNCTIONS[name][2]


def _limit(name: str, x: Count, y: Count) -> Tensor | None:
    """Return an upper bound of a function of two integers that a backend knows, or None."""
    if name == "minimum":
        return x.limit if y.limit is None else y.limit
    if (name == "subtract" and y.low >= 0) or (name == "floor_divide" and y.low >= 1):
        return x.limit
    if name == "maximum" and y.high <= 0:
        return x.limit
    if name == "subtract" and y.low > -UNBOUNDED and x.limit is not None:
        return add(x.limit, -y.low)
    a, b = [max(n.high, 0) if n.high < UNBOUNDED else n.limit for n in (x, y)]
    if name != "add" or a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return None
    return add(a, b)


def _remainder(a: AnyLength, b: AnyLength) -> Any:
    """Return the remainder; None for an unknown divisor, which may be 0."""
    return a - a // b * b if isinstance(b, int) and b else None


def _extreme(name: str, a: AnyLength, b: AnyLength) -> AnyLength:
    return a if a == b else SymbolicLength.of(name, *sorted((a, b), key=label_of))


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], Callable[..., Any], int | None]] = {
    "add": (add, operator.add, 0),
    "subtract": (subtract, operator.sub, 0),
    "multiply": (multiply, operator.mul, 1),
    "floor_divide": (floor_divide, OF_INTEGERS["//"], 1),
    "remainder": (remainder, _remainder, None),
    "minimum": (minimum, partial(_extreme, "min"), None),
    "maximum": (maximum, partial(_extreme, "max"), None),
}
"""Elementwise functions by row: of nodes, of formulas, and the second operand of no effect."""


def compare(name: str, a: Any, b: Any) -> bool | None:
    """Return the result of a comparison of integers if their bounds decide it, else None."""
    x, y = as_count(a), as_count(b)
    bounds = [Interval(0, 0)] * 2 if is_same(x, y) else [Interval(n.low, n.high) for n in (x, y)]
    result = image(INTEGERS, name, *bounds)
    return bool(result.low) if result is not None and result.low == result.high else None


def ceil_divide(n: Any, step: int) -> Any:
    """Return ``ceil(n / step)``, the length of ``x[::step]``."""
    return (n + (step - 1)) // step


def least(a: Any, b: Any) -> Any:
    """Return ``min(a, b)``."""
    return combine("minimum", a, b)


def most(a: Any, b: Any) -> Any:
    """Return ``max(a, b)``."""
    return combine("maximum", a, b)


def bound(n: Any) -> Any:
    """Return the length of the longest buffer that may be needed: an integer, or a node.

    A node is a length that a backend knows when it compiles.

    Raises:
        DynamicShapeError: If the length has no upper bound.
    """
    count = as_count(n)
    if count.high < UNBOUNDED:
        return max(count.high, 0)
    if count.limit is not None:
        return count.limit
    raise DynamicShapeError(
        "A length is unknown while the program is compiled, and has no upper bound.",
        "Limit it by gt.minimum(n, most) or, of a loop, by the most steps there can be; or use "
        "mode='NUMPY'.",
    )


def is_scalar_of_integers(x: Any) -> bool:
    """Return whether a value is an integer: a count, a number or a scalar of the graph."""
    if isinstance(x, Count):
        return True
    if isinstance(x, Node):
        return not x.type.ndim and x.type.numpy_dtype.kind in "iu"
    return is_known(x) and not np.ndim(x) and np.asarray(x).dtype.kind in "iu"
