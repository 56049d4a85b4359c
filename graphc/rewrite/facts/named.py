"""Lengths of arrays in terms of named lengths of inputs, as messages and printed graphs show them.

``gt.tensor("x", shape=("n", 3))`` has the length ``n``; a part of it may have ``max(n - 1, 0)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir import Constant, Node, TensorType, is_integer
from graphc.ir.lengths import AnyLength, SymbolicLength, greatest, is_symbol, least
from graphc.ir.types import shape_text
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.facts.memo import Memo, memoize
from graphc.tensor.arrays.index import Index, Range
from graphc.tensor.core.elementwise import (
    Cast,
    add,
    floor_divide,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
)
from graphc.tensor.core.shape import Length

MAX_TEXT = 80
"""A longer expression tells a reader less than ``?``; nested ones grow exponentially."""

INT64 = TensorType("int64")

_expressions = Memo[AnyLength | None]()
"""The values of integer scalars."""


def named_type(x: Node) -> str:
    """Return the text of an array's type, with names and expressions for its unknown lengths.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.tensor("x", shape=("n", 3))
        >>> named_type(gt.concatenate([x, x]))
        'float64[2*n, 3]'
    """
    lengths = [n if n is not None else named_length(x, k) for k, n in enumerate(x.type.shape)]
    return f"{x.type.dtype}[{shape_text(lengths)}]"


def named_length(x: Node, axis: int) -> AnyLength | None:
    """Return a length as an expression of named lengths; None where it depends on others.

    Also None for an expression whose text is longer than ``MAX_TEXT``.
    """
    length = length_of(x, axis)
    if isinstance(length, int):
        return length
    # A length that only an analysis needs lives no longer than this dictionary.
    operands: dict[Node, Sequence[Known]] = {}

    def sources(n: Node) -> list[Node]:
        operands[n] = _operands(n)
        return [x for x in operands[n] if isinstance(x, Node)]

    return memoize(length, _expressions, sources, lambda n: _expression(n, operands[n]))


def _operands(n: Node) -> Sequence[Known]:
    """Return the lengths and values that an integer scalar is made of."""
    if isinstance(n.op, Length):
        (x,) = n.inputs
        return [length_of(x.inputs[0], n.op.axis)] if _is_slice(x) else ()
    # Other dtypes round, or wrap at lengths that arrays have.
    return n.inputs if n.op in ARITHMETIC and n.type is INT64 else ()


def _is_slice(x: Node) -> bool:
    return isinstance(x.op, Index) and all(isinstance(entry, Range) for entry in x.op.entries)


def _expression(n: Node, lengths: Sequence[Known]) -> AnyLength | None:
    operands = [_expressions[x] if isinstance(x, Node) else x for x in lengths]
    y: AnyLength | None = None
    match n.op:
        case Length(axis) if operands:
            entries: Any = n.inputs[0].op.entries  # type: ignore[attr-defined]
            y = _slice_length(*operands, *entries[axis].parts)
        case Length(axis):
            name = (getattr(n.inputs[0].op, "dims", None) or {axis: None})[axis]
            y = None if name is None else SymbolicLength.of("dim", name)
        case Constant() if n.type.ndim == 0 and is_integer(n.type.dtype):
            y = int(n.op.value)
        case op if operands and None not in operands:
            y = ARITHMETIC[op](*operands)
    return None if len(str(y)) > MAX_TEXT else y


def _largest(a: AnyLength, b: AnyLength) -> AnyLength:
    return a if b == 0 and _is_nonnegative(a) else greatest(a, b)


ARITHMETIC: dict[Any, Callable[..., Any]] = {
    Cast("int64"): lambda a: a,
    add: lambda a, b: a + b,
    subtract: lambda a, b: a - b,
    negative: lambda a: -a,
    multiply: lambda a, b: a * b,
    floor_divide: lambda a, b: None if b == 0 else a // b,
    maximum: _largest,
    minimum: lambda a, b: None if 0 in (a, b) else least(a, b),  # the other may be negative
}
"""Functions of integer scalars that expressions of lengths have."""


def _slice_length(n: Any, start: Any, stop: Any, step: Any) -> Any:
    """Return the length of ``x[start:stop]`` where one bound is a number and the other is open."""
    if n is None or step is not None:
        return None
    match start, stop:
        case int(start), None:
            return greatest(n - start, 0) if start >= 0 else least(n, -start)
        case None, int(stop):
            return least(n, stop) if stop >= 0 else greatest(n + stop, 0)
    return None


def _is_nonnegative(n: AnyLength) -> bool:
    if isinstance(n, int):
        return n >= 0
    return n.constant >= 0 and all(k > 0 and _is_atom_nonnegative(atom) for atom, k in n.terms)


def _is_atom_nonnegative(atom: tuple[Any, ...]) -> bool:
    if is_symbol(atom):
        return True
    name, *arguments = atom
    return (any if name == "max" else all)(map(_is_nonnegative, arguments))
