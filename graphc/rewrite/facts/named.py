"""Lengths of arrays in terms of named lengths of inputs, as messages and printed graphs show them.

``gt.tensor("x", shape=("n", 3))`` has the length ``n``; a part of it may have ``max(n - 1, 0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.ir import Constant, Input, Node, TensorType, dependencies_first, is_integer
from graphc.ir.law import length_rule
from graphc.ir.lengths import AnyLength, SymbolicLength, evaluate, greatest, is_symbol, least
from graphc.ir.types import shape_text
from graphc.rewrite.facts.memo import Memo
from graphc.tensor.core.elementwise import (
    Cast,
    add,
    floor_divide,
    maximum,
    minimum,
    multiply,
    subtract,
)
from graphc.tensor.core.shape import Length

MAX_TEXT = 80
"""A longer expression tells a reader less than ``?``; nested ones grow exponentially."""

Item = tuple[Node, int | None]
"""A node and one of its axes; None for the value of an integer scalar."""

INT64 = TensorType("int64")

_expressions = Memo[dict[int | None, AnyLength | None]]()


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
    done: set[Item] = set()
    for item in dependencies_first([(x, axis)], _sources, done):
        done.add(item)
        if not _is_known(item):
            n = _compute(item)
            by_axis = _expressions.get(item[0]) or {}
            _expressions[item[0]] = by_axis | {item[1]: None if len(str(n)) > MAX_TEXT else n}
    return _expression((x, axis))


def _is_known(item: Item) -> bool:
    return item[1] in (_expressions.get(item[0]) or ())


def _expression(item: Item) -> AnyLength | None:
    return _expressions[item[0]][item[1]]


def _sources(item: Item) -> list[Item]:
    """Return the lengths and values that a length, or the value of a scalar, is made of."""
    x, axis = item
    if _is_known(item):
        return []
    if axis is None:
        if isinstance(x.op, Length):
            return [(x.inputs[0], x.op.axis)]
        # Other dtypes round, or wrap at lengths that arrays have.
        is_followed = x.op in ARITHMETIC or isinstance(x.op, Cast)
        return [(y, None) for y in x.inputs] if is_followed and x.type is INT64 else []
    source, n = _rule(x, axis)
    if not isinstance(n, SymbolicLength):
        return []
    return [_operand(source, symbol) for symbol in n.symbols]


def _compute(item: Item) -> AnyLength | None:
    x, axis = item
    if axis is None:
        return _value(x, [_expression(source) for source in _sources(item)])
    if isinstance(x.op, Input):
        name = x.op.dims[axis] if x.op.dims else None
        return x.type.shape[axis] if name is None else SymbolicLength.of("dim", name)
    source, n = _rule(x, axis)
    return evaluate(n, lambda symbol: _expression(_operand(source, symbol)), FUNCTIONS)  # type: ignore[no-any-return]


def _rule(x: Node, axis: int) -> tuple[Node, AnyLength | None]:
    static: int | None = x.type.shape[axis]
    return length_rule(x, axis) if static is None else (x, static)


def _operand(source: Node, symbol: tuple[Any, ...]) -> Item:
    return source.inputs[symbol[1]], symbol[2] if symbol[0] == "axis" else None


def _value(x: Node, operands: list[AnyLength | None]) -> AnyLength | None:
    """Return the value of an integer scalar, given the values of its inputs."""
    if isinstance(x.op, Constant):
        return int(x.op.value) if x.type.ndim == 0 and is_integer(x.type.dtype) else None
    if not operands or None in operands:
        return None
    return ARITHMETIC[x.op](*operands) if x.op in ARITHMETIC else operands[0]


def _quotient(a: AnyLength, b: AnyLength) -> AnyLength | None:
    return None if b == 0 else a // b


ARITHMETIC: dict[Any, Callable[..., Any]] = {
    add: lambda a, b: a + b,
    subtract: lambda a, b: a - b,
    multiply: lambda a, b: a * b,
    floor_divide: _quotient,
    maximum: greatest,
    minimum: lambda a, b: None if 0 in (a, b) else least(a, b),  # the other may be negative
}
"""Functions of integer scalars that expressions of lengths have."""


def _slice_length(n: Any, start: Any, stop: Any, step: Any) -> Any:
    """Return the length of ``x[start:stop]`` where one bound is a number and the other is open."""
    if step is not None:
        return None
    match start, stop:
        case int(start), None:
            return greatest(n - start, 0) if start >= 0 else least(n, -start)
        case None, int(stop):
            return least(n, stop) if stop >= 0 else greatest(n + stop, 0)
    return None


def _arange_length(start: Any, stop: Any, step: Any) -> AnyLength | None:
    if step != 1:
        return None
    n = stop - start
    return n if _is_nonnegative(n) else greatest(n, 0)  # type: ignore[no-any-return]


def _is_nonnegative(n: AnyLength) -> bool:
    if isinstance(n, int):
        return n >= 0
    return n.constant >= 0 and all(k > 0 and _is_atom_nonnegative(atom) for atom, k in n.terms)


def _is_atom_nonnegative(atom: tuple[Any, ...]) -> bool:
    if is_symbol(atom):
        return True
    name, *arguments = atom
    return (any if name == "max" else all)(map(_is_nonnegative, arguments))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": least,
    "max": greatest,
    "//": _quotient,
    "slice": _slice_length,
    "arange": _arange_length,
}
"""The functions in expressions that a printed length may have."""
