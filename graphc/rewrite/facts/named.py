"""Lengths of arrays in terms of the inputs of a graph, as messages and printed graphs show them.

``gt.tensor("x", shape=("n", 3))`` has the length ``n``; a part of it may have ``max(n - 1, 0)``.
Axis 0 of an input ``y`` has the length ``y.0`` if it has no name, and a scalar ``k`` has its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir import Constant, Input, Node, TensorType, is_integer
from graphc.ir.law import source_axis
from graphc.ir.lengths import AnyLength, SymbolicLength, greatest, is_symbol, least
from graphc.ir.types import shape_text
from graphc.rewrite.facts.lengths import ArrayAxis, Known, holes, length_of
from graphc.rewrite.facts.memo import Memo, memoize
from graphc.tensor.arrays.index import Hole, Index, Range
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

MAX_TEXT = 32
"""A longer expression tells a reader less than ``?``; nested ones grow exponentially."""

MAX_TERMS = 4
"""The most terms of a product of sums that is multiplied out."""

INTEGERS = frozenset({TensorType("int32"), TensorType("int64")})
"""The types of scalars whose arithmetic is shown; others round, or wrap at lengths of arrays."""

_shapes = Memo[tuple[AnyLength | None, ...]]()
"""The lengths of arrays, by axis."""

_expressions = Memo[AnyLength | None]()
"""The values of integer scalars."""


def named_type(x: Node) -> str:
    """Return the text of an array's type, with names and expressions of its unknown lengths.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.tensor("x", shape=("n", 3))
        >>> named_type(gt.concatenate([x, x]))
        'float64[2*n, 3]'
    """
    lengths = memoize(x, _shapes, lambda y: [z for z, _ in _sources(y).values()], _shape)
    return f"{x.type.dtype}[{shape_text(lengths)}]"


def _sources(x: Node) -> dict[int, ArrayAxis]:
    """Return the axes of inputs that have a node's unknown lengths, by axis of the node."""
    axes = [axis for axis, n in enumerate(x.type.shape) if n is None]
    pairs = [(axis, source_axis(x, axis)) for axis in axes]
    return {axis: source for axis, source in pairs if source is not None}


def _shape(x: Node) -> tuple[AnyLength | None, ...]:
    lengths = {axis: _shapes[source][k] for axis, (source, k) in _sources(x).items()}
    axes = range(x.type.ndim)
    return tuple([lengths[k] if k in lengths else named_length(x, k) for k in axes])


def named_length(x: Node, axis: int) -> AnyLength | None:
    """Return a length as an expression of named lengths, and of lengths and values of inputs.

    None where it depends on others, and where its text is longer than ``MAX_TEXT``.
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
        return [length_of(x.inputs[0], n.op.axis), *_bounds(x, n.op.axis)] if _is_slice(x) else ()
    return n.inputs if n.op in ARITHMETIC and n.type in INTEGERS else ()


def _is_slice(x: Node) -> bool:
    return isinstance(x.op, Index) and all(isinstance(entry, Range) for entry in x.op.entries)


def _bounds(x: Node, axis: int) -> list[Node]:
    """Return the symbolic bounds of a slice along one axis."""
    entries: Any = x.op.entries  # type: ignore[attr-defined]
    first = 1 + len([*holes(entries[:axis])])
    return [*x.inputs[first : first + len([*holes(entries[axis : axis + 1])])]]


def _expression(n: Node, lengths: Sequence[Known]) -> AnyLength | None:
    operands = [_expressions[x] if isinstance(x, Node) else x for x in lengths]
    y: AnyLength | None = None
    if operands and None in operands:
        return None
    match n.op:
        case Length(axis) if operands:
            entries: Any = n.inputs[0].op.entries  # type: ignore[attr-defined]
            length, *symbolic = operands
            bounds = [
                symbolic.pop(0) if isinstance(bound, Hole) else bound
                for bound in entries[axis].parts
            ]
            y = _slice_length(length, *bounds)
        case Length(axis):
            y = _length_of_input(n.inputs[0], axis)
        case Constant() if n.type.ndim == 0 and is_integer(n.type.dtype):
            y = int(n.op.value)
        case Input() if n.type.ndim == 0 and is_integer(n.type.dtype) and _has_name(n):
            y = SymbolicLength.of("input", n.op, None)
        case op if operands:
            y = ARITHMETIC[op](*operands)
    return None if len(str(y)) > MAX_TEXT else y


def _length_of_input(x: Node, axis: int) -> AnyLength | None:
    if not isinstance(x.op, Input):
        return None
    name = x.op.dims[axis] if x.op.dims else None
    if name is not None:
        return SymbolicLength.of("dim", name)
    return SymbolicLength.of("input", x.op, axis) if _has_name(x) else None


def _has_name(x: Node) -> bool:
    """Return whether an expression can have an input's name; parameters of loops have others."""
    return x.name is not None and x.name.isidentifier()


def _largest(a: AnyLength, b: AnyLength) -> AnyLength:
    return a if b == 0 and _is_nonnegative(a) else greatest(a, b)


def _product(a: AnyLength, b: AnyLength) -> AnyLength:
    """Return a product without brackets, if that is short."""
    if isinstance(a, int) or isinstance(b, int) or len(a.terms) * len(b.terms) > MAX_TERMS:
        return a * b
    total: AnyLength = a.constant * b + b.constant * a - a.constant * b.constant
    for x, k in a.terms:
        for y, m in b.terms:
            total = total + k * m * (SymbolicLength.of(*x) * SymbolicLength.of(*y))
    return total


ARITHMETIC: dict[Any, Callable[..., Any]] = {
    Cast("int64"): lambda a: a,
    Cast("int32"): lambda a: a,
    add: lambda a, b: a + b,
    subtract: lambda a, b: a - b,
    negative: lambda a: -a,
    multiply: _product,
    floor_divide: lambda a, b: None if b == 0 else a // b,
    maximum: _largest,
    minimum: lambda a, b: None if 0 in (a, b) else least(a, b),  # the other may be negative
}
"""Functions of integer scalars that expressions of lengths have."""


def _slice_length(n: Any, start: Any, stop: Any, step: Any) -> Any:
    """Return the length of ``x[start:stop]`` of n elements; None where signs decide it."""
    if step is not None:
        return None
    if isinstance(start, int) and start < 0 and stop is None:
        return least(n, -start)
    if isinstance(stop, int) and stop < 0 and start is None:
        return _largest(n + stop, 0)
    first, last = 0 if start is None else start, n if stop is None else stop
    size = last - first
    if _is_nonnegative(first) and _is_nonnegative(last):
        if isinstance(size, int):
            return least(_largest(n - first, 0), max(size, 0))
        return _largest(least(n, last) - first, 0)
    # Bounds of other signs select fewer elements, but no more.
    is_window = size != 0 and _is_nonnegative(size)
    return SymbolicLength.of("window", size, n, first, last) if is_window else None


def _is_nonnegative(n: AnyLength) -> bool:
    if isinstance(n, int):
        return n >= 0
    return n.constant >= 0 and all(k > 0 and _is_atom_nonnegative(atom) for atom, k in n.terms)


def _is_atom_nonnegative(atom: tuple[Any, ...]) -> bool:
    if is_symbol(atom):
        return atom[-1] is not None  # an input's value has any sign
    name, *arguments = atom
    return name == "window" or (any if name == "max" else all)(map(_is_nonnegative, arguments))
