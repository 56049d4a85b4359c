"""Lengths of arrays in terms of named lengths of inputs, as messages and printed graphs show them.

``gt.tensor("x", shape=("n", 3))`` has the length ``n``; a part of it may have ``max(n - 1, 0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.ir import Constant, Input, Node, Pick
from graphc.ir.law import law
from graphc.ir.lengths import AnyLength, SymbolicLength, greatest, is_symbol, least
from graphc.ir.types import shape_text
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

MAX_NODES = 2_000  # a printed type is not worth a walk through a whole program

Item = tuple[Node, int | None]
"""A node and one of its axes; None for the value of an integer scalar."""


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
    """Return a length as an expression of named lengths; None where it depends on others."""
    done: dict[Item, AnyLength | None] = {}
    stack: list[Item] = [(x, axis)]
    while stack and len(done) < MAX_NODES:
        item = stack[-1]
        waiting = [source for source in _sources(item) if source not in done]
        if not waiting:
            stack.pop()
            done[item] = _compute(item, done)
        stack += waiting
    return done.get((x, axis))


def _sources(item: Item) -> list[Item]:
    """Return the lengths and values that a length, or the value of a scalar, is made of."""
    x, axis = item
    if axis is None:
        if isinstance(x.op, Length):
            return [(x.inputs[0], x.op.axis)]
        return [(y, None) for y in x.inputs] if x.op in ARITHMETIC or isinstance(x.op, Cast) else []
    source, n = _rule(x, axis)
    if not isinstance(n, SymbolicLength):
        return []
    return [_operand(source, symbol) for symbol in n.symbols]


def _compute(item: Item, done: dict[Item, AnyLength | None]) -> AnyLength | None:
    x, axis = item
    if axis is None:
        return _value(x, [done[source] for source in _sources(item)])
    if isinstance(x.op, Input):
        name = x.op.dims[axis] if x.op.dims else None
        return x.type.shape[axis] if name is None else SymbolicLength.of("dim", name)
    source, n = _rule(x, axis)
    return _substitute(n, lambda symbol: done[_operand(source, symbol)])


def _rule(x: Node, axis: int) -> tuple[Node, AnyLength | None]:
    """Return the node whose type rule gives a length, and that length in terms of its inputs."""
    source, item = (x.inputs[0], x.op.index) if isinstance(x.op, Pick) else (x, 0)
    if x.type.shape[axis] is not None:
        return source, x.type.shape[axis]
    results = law(source.op, tuple([y.type for y in source.inputs])).results
    return source, results[item][axis] if results else None


def _operand(source: Node, symbol: tuple[Any, ...]) -> Item:
    return source.inputs[symbol[1]], symbol[2] if symbol[0] == "axis" else None


def _value(x: Node, operands: list[AnyLength | None]) -> AnyLength | None:
    """Return the value of an integer scalar, given the values of its inputs."""
    if isinstance(x.op, Constant):
        return int(x.op.value) if x.type.ndim == 0 else None
    if not operands or None in operands:
        return None
    return ARITHMETIC[x.op](*operands) if x.op in ARITHMETIC else operands[0]


ARITHMETIC: dict[Any, Callable[..., Any]] = {
    add: lambda a, b: a + b,
    subtract: lambda a, b: a - b,
    multiply: lambda a, b: a * b,
    floor_divide: lambda a, b: None if b == 0 else a // b,
    maximum: greatest,
    minimum: least,
}
"""Functions of integer scalars that expressions of lengths have."""


def _substitute(n: AnyLength | None, value: Callable[[Any], AnyLength | None]) -> AnyLength | None:
    """Return an expression with other lengths for its symbols; None if one is unknown."""
    if not isinstance(n, SymbolicLength):
        return n
    total: Any = n.constant
    for atom, k in n.terms:
        term = value(atom) if is_symbol(atom) else _function_value(atom, value)
        if term is None:
            return None
        total = total + k * term
    return total  # type: ignore[no-any-return]


def _function_value(
    atom: tuple[Any, ...], value: Callable[[Any], AnyLength | None]
) -> AnyLength | None:
    name, *arguments = atom
    replaced = [_substitute(n, value) for n in arguments]
    pairs = zip(arguments, replaced, strict=True)
    if name not in FUNCTIONS or any(n is None and before is not None for before, n in pairs):
        return None
    return FUNCTIONS[name](*replaced)  # type: ignore[no-any-return]


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
    is_length = isinstance(n, SymbolicLength) and n.constant >= 0 and all(k > 0 for _, k in n.terms)
    return n if is_length else greatest(n, 0)  # type: ignore[no-any-return]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": least,
    "max": greatest,
    "*": ARITHMETIC[multiply],
    "//": ARITHMETIC[floor_divide],
    "slice": _slice_length,
    "arange": _arange_length,
}
"""The functions in expressions that a printed length may have."""
