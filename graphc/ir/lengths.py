"""Unknown lengths as expressions, with which an operation's type rule computes.

``graphc.ir.law`` runs ``infer`` on types that have an expression for each unknown length. So one
rule gives the static type, the lengths of the result as expressions, and the lengths that must be
equal.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from graphc.context import setting

MAX_LABEL = 128
"""The longest text of a length within another; a digest has as many characters."""


class StaticLength(int):
    """A length that the type of an input has.

    Attributes:
        position: The input's number and the axis.
    """

    position: tuple[int, int]

    def __new__(cls, n: int, position: tuple[int, int]) -> StaticLength:
        length = super().__new__(cls, n)
        length.position = position
        return length


class SymbolicLength:
    """A linear combination of atoms with integer coefficients; equal ones are one object.

    Attributes:
        terms: Pairs of an atom and its coefficient, in canonical order. An atom is the name of
            a function and its arguments: ``("axis", i, k)`` is the length of axis k of input i,
            ``("value", i)`` is the value of input i, ``("dim", name)`` is a named length,
            ``("input", op, k)`` is the length of axis k of a graph's input, or its value where k
            is None, and the arguments of all others are lengths.
        constant: The number that is added.
        symbols: The atoms in it that are lengths or values of inputs, or named lengths.
        symbol: The input's length or value, or the named length, that this is; None for others.
        label: The text, or its digest if the text is long: equal for equal lengths alone, and the
            same in every process. Labels order atoms, and longer texts are made of labels.

    Example:
        >>> n, m = SymbolicLength.of("axis", 0, 0), SymbolicLength.of("axis", 1, 0)
        >>> n + m - n - 1, n - n, least(n, 3)
        (#1.0 - 1, 0, min(#0.0, 3))
    """

    __slots__ = ("__weakref__", "constant", "label", "symbol", "symbols", "terms")

    terms: tuple[tuple[tuple[Any, ...], int], ...]
    constant: int
    symbols: tuple[tuple[Any, ...], ...]
    symbol: tuple[Any, ...] | None
    label: str

    _interned: ClassVar[WeakValueDictionary[Any, SymbolicLength]] = WeakValueDictionary()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def of(cls, name: str, *arguments: Any) -> SymbolicLength:
        """Return the length that is a single atom."""
        return cls._sum({(name, *arguments): 1}, 0)  # type: ignore[return-value]

    @classmethod
    def _sum(cls, terms: dict[tuple[Any, ...], int], constant: int) -> AnyLength:
        nonzero = [(atom, k) for atom, k in terms.items() if k]
        if not nonzero:
            return constant
        key = tuple(sorted(nonzero, key=lambda term: _order(term[0]))), constant
        with cls._lock:
            interned = cls._interned.get(key)
            if interned is None:
                interned = cls._interned[key] = object.__new__(cls)
                interned._fill(*key)
        return interned

    def _fill(self, terms: tuple[tuple[tuple[Any, ...], int], ...], constant: int) -> None:
        self.terms, self.constant = terms, constant
        atoms = [atom for atom, _ in terms]
        composite = [atom for atom in atoms if not is_symbol(atom)]
        inner = [n for atom in composite for n in atom[1:] if isinstance(n, SymbolicLength)]
        symbols = [*filter(is_symbol, atoms), *(symbol for n in inner for symbol in n.symbols)]
        self.symbols = tuple(dict.fromkeys(symbols))
        is_alone = terms == ((atoms[0], 1),) and not constant and not composite
        self.symbol = atoms[0] if is_alone else None
        text = repr(self)
        # Written in full, nested lengths grow exponentially.
        is_long = len(text) > MAX_LABEL
        self.label = blake2b(text.encode()).hexdigest() if is_long else text

    @property
    def position(self) -> tuple[int, int] | None:
        """The input and the axis whose length this is; None for other expressions."""
        return self.symbol[1:] if self.symbol is not None and self.symbol[0] == "axis" else None

    def __add__(self, other: AnyLength) -> Any:
        if isinstance(other, int):
            return SymbolicLength._sum(dict(self.terms), self.constant + other)
        if not isinstance(other, SymbolicLength):
            return NotImplemented
        terms = dict(self.terms)
        for atom, k in other.terms:
            terms[atom] = terms.get(atom, 0) + k
        return SymbolicLength._sum(terms, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: AnyLength) -> Any:
        return self + -other

    def __rsub__(self, other: int) -> Any:
        return -self + other

    def __mul__(self, other: AnyLength) -> Any:
        if isinstance(other, int):
            terms = {atom: k * other for atom, k in self.terms}
            return SymbolicLength._sum(terms, self.constant * other)
        if not isinstance(other, SymbolicLength):
            return NotImplemented
        return SymbolicLength.of("*", *sorted((self, other), key=lambda n: n.label))

    __rmul__ = __mul__

    def __floordiv__(self, other: AnyLength) -> Any:
        if not isinstance(other, int | SymbolicLength):
            return NotImplemented
        return self if other == 1 else SymbolicLength.of("//", self, other)

    def __rfloordiv__(self, other: int) -> Any:
        return SymbolicLength.of("//", other, self)

    def __reduce__(self) -> Any:
        return SymbolicLength._sum, (dict(self.terms), self.constant)

    def __repr__(self) -> str:
        text = ""
        for atom, k in sorted(self.terms, key=lambda term: term[1] < 0):
            sign = " - " if k < 0 else " + "
            shown = f"({_text(atom)})" if atom[0] == "//" and abs(k) > 1 else _text(atom)
            text += sign + (shown if abs(k) == 1 else f"{abs(k)}*{shown}")
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text.removeprefix(" + ").removeprefix(" ")


AnyLength = int | SymbolicLength


def is_symbol(atom: tuple[Any, ...]) -> bool:
    """Return whether an atom is the length of an input's axis, its value, or a named length."""
    return atom[0] in {"axis", "value", "dim", "input"}


def _order(atom: tuple[Any, ...]) -> tuple[Any, ...]:
    if atom[0] == "input":
        return 0, "input", _text(atom), id(atom[1])  # inputs may have one name
    return (0, *atom) if is_symbol(atom) else (1, _text(atom))


def _text(atom: tuple[Any, ...]) -> str:
    match atom:
        case (("axis" | "value"), *position):
            return f"#{'.'.join(map(str, position))}"
        case "dim", name:
            return str(name)
        case "input", op, axis:
            return str(op.name) if axis is None else f"{op.name}.{axis}"
        case "window", size, *_:
            return f"min({size}, ...)"
        case ("*" | "//") as sign, a, b:
            return f"{_operand(a)}{'*' if sign == '*' else ' // '}{_operand(b)}"
    name, *arguments = atom
    return f"{name}({', '.join(map(_nested, arguments))})"


def _operand(n: AnyLength) -> str:
    """Return the text of an operand of a product or a quotient, in brackets if it needs them."""
    if isinstance(n, int):
        return str(n) if n >= 0 else f"({n})"
    is_alone = len(n.terms) == 1 and n.terms[0][1] == 1 and not n.constant
    return _nested(n) if is_alone and n.terms[0][0][0] not in OPERATORS else f"({_nested(n)})"


def _nested(n: AnyLength | None) -> str:
    """Return the text of a length within another, with the present names of inputs if short."""
    if isinstance(n, SymbolicLength) and any(symbol[0] == "input" for symbol in n.symbols):
        return repr(n) if len(n.label) < MAX_LABEL else n.label
    return label_of(n)


def label_of(n: AnyLength | None) -> str:
    """Return a text that only equal lengths have, for a canonical order."""
    return n.label if isinstance(n, SymbolicLength) else str(n)


def evaluate(
    n: AnyLength | None,
    value: Callable[[tuple[Any, ...]], Any],
    functions: Mapping[str, Callable[..., Any]],
    memo: dict[SymbolicLength, Any] | None = None,
) -> Any:
    """Return the value of an expression, or None.

    Args:
        n: The expression.
        value: Returns the value of a symbol; None if it has none.
        functions: The functions by name, beside the operators of the values; one that is missing,
            or returns None, gives None.
        memo: The values of parts of the expression, each of which is computed once.
    """
    if n is None or isinstance(n, int):
        return n
    memo = {} if memo is None else memo
    if n not in memo:
        memo[n] = _evaluate(n, value, functions, memo)
    return memo[n]


def _evaluate(
    n: SymbolicLength,
    value: Callable[[tuple[Any, ...]], Any],
    functions: Mapping[str, Callable[..., Any]],
    memo: dict[SymbolicLength, Any],
) -> Any:
    total: Any = None
    for atom, k in n.terms:
        if is_symbol(atom):
            term = value(atom)
        else:
            function = functions.get(atom[0], OPERATORS.get(atom[0]))
            # A slice has None for a bound that is left out.
            operands = [x for x in atom[1:] if x is not None]
            values = {x: evaluate(x, value, functions, memo) for x in operands}
            if function is None or any(y is None for y in values.values()):
                return None
            term = function(*[values.get(x) for x in atom[1:]])
        if term is None:
            return None
        term = term if abs(k) == 1 else term * abs(k)
        if total is None:
            total = term if k > 0 else 0 - term
        else:
            total = total + term if k > 0 else total - term
    return total + n.constant if n.constant else total


OPERATORS: Mapping[str, Callable[..., Any]] = {"*": operator.mul, "//": operator.floordiv}


# What type rules call. None is a length of which nothing is known.


def least(*lengths: AnyLength | None) -> Any:
    """Return the smallest of lengths."""
    return 0 if 0 in lengths else _extreme("min", min, lengths)


def greatest(*lengths: AnyLength | None) -> Any:
    """Return the largest of lengths."""
    return _extreme("max", max, lengths)


def _extreme(name: str, of_numbers: Any, lengths: tuple[AnyLength | None, ...]) -> AnyLength | None:
    numbers = [n for n in lengths if isinstance(n, int)]
    number = [of_numbers(numbers)] if numbers else []
    others = [*dict.fromkeys(n for n in lengths if not isinstance(n, int))]
    if None in others:
        return None
    arguments = [*others, *number]
    return arguments[0] if len(arguments) == 1 else SymbolicLength.of(name, *arguments)


def total(*lengths: AnyLength | None) -> Any:
    """Return the sum of lengths."""
    return None if None in lengths else sum(n for n in lengths if n is not None)


def product(*lengths: AnyLength | None) -> Any:
    """Return the product of lengths."""
    return None if None in lengths else math.prod(n for n in lengths if n is not None)


@dataclass
class Comparisons:
    """The lengths that type rules compare while they run.

    Attributes:
        pairs: Lengths that must be equal, and that are not known to be.
        groups: Sets of equal lengths, of which results have one.
        required: Lengths that must be known, though no result has them.
    """

    pairs: list[tuple[AnyLength, AnyLength]] = field(default_factory=list)
    groups: list[list[AnyLength]] = field(default_factory=list)
    required: list[AnyLength | None] = field(default_factory=list)


_comparisons: ContextVar[Comparisons | None] = ContextVar("comparisons", default=None)


def agree(*lengths: AnyLength | None) -> bool:
    """Return whether lengths may be equal. Unknown lengths are compared when a function runs.

    Example:
        >>> agree(3, None, 3), agree(3, None, 4)
        (True, False)
    """
    specified = [n for n in lengths if n is not None]
    if len({n for n in specified if isinstance(n, int)}) > 1:
        return False
    first, *others = specified or [0]
    differences = [n - first for n in others]
    if any(isinstance(difference, int) and difference for difference in differences):
        return False
    record = _comparisons.get()
    if record is not None:
        pairs = zip(others, differences, strict=True)
        record.pairs += [(first, n) for n, difference in pairs if difference]
    return True


def require(*lengths: AnyLength | None) -> None:
    """Record that lengths must be known, though no result has them."""
    record = _comparisons.get()
    if record is not None:
        record.required += lengths


def common(*lengths: AnyLength | None) -> Any:
    """Return one of equal lengths: a number if one is known, else an expression."""
    specified = [n for n in lengths if n is not None]
    record = _comparisons.get()
    if record is not None:
        record.groups.append(specified)
    return next((n for n in specified if isinstance(n, int)), specified[0] if specified else None)


def comparisons() -> setting[Comparisons]:
    """Collect what type rules compare."""
    return setting(_comparisons, Comparisons())
