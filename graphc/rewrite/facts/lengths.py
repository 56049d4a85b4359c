"""Lengths of arrays in terms of the inputs of a graph, so that no array is computed for one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

from graphc.ir import (
    TINY,
    Constant,
    Node,
    Pick,
    dependencies_first,
    is_integer,
    replace_nodes,
    toposort,
)
from graphc.ir.law import checks_of, length_rule
from graphc.ir.lengths import SymbolicLength, evaluate
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.facts.slices import canonical
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.index import HOLE, Entry, Hole, Index, Range
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.elementwise import add, cast, equal, maximum, minimum, multiply, where
from graphc.tensor.core.shape import Length, Reshape, complete_shape
from graphc.tensor.core.specify import SpecifyShape, specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant

Known = int | Node
"""A length: a number, or an int64 scalar."""

ArrayAxis = tuple[Node, int]
"""An array and one of its axes."""

_lengths = Memo[dict[int, Known | None]]()
"""Lengths by axis; None for a length of the array's own, which would keep the array alive."""


def length_of(x: Node, axis: int) -> Known:
    """Return one length of an array, in terms of nodes as near to the inputs as possible."""
    done: set[ArrayAxis] = set()
    for current in dependencies_first([(x, axis)], lambda item: _sources(*item), done):
        done.add(current)
        if not _has_length(*current):
            lengths = _lengths.get(current[0])
            if lengths is None:
                lengths = _lengths[current[0]] = {}
            lengths[current[1]] = _compute(*current)
    return _computed_length(x, axis)


def _has_length(x: Node, axis: int) -> bool:
    return x.type.shape[axis] is not None or axis in (_lengths.get(x) or ())


def _computed_length(x: Node, axis: int) -> Known:
    static: int | None = x.type.shape[axis]
    length = _lengths[x][axis] if static is None else static
    return _own_length(x, axis) if length is None else length


def _compute(node: Node, axis: int) -> Known | None:
    """Return a length in terms of lengths that are computed already; None for the array's own."""
    source, n = _by_type_rule(node, axis)

    def value(symbol: tuple[Any, ...]) -> Known:
        x: Node = source.inputs[symbol[1]]
        return x if symbol[0] == "value" else _computed_length(x, symbol[2])

    length = evaluate(n, value, FUNCTIONS)
    if length is None:
        length = _by_operation(node, axis)
    return None if length is _own_length(node, axis) else length


def _sources(node: Node, axis: int) -> list[ArrayAxis]:
    """Return the lengths from which a length is computed, if it is not computed yet."""
    if _has_length(node, axis):
        return []
    source, n = _by_type_rule(node, axis)
    if isinstance(node.op, Reshape):
        return [(node.inputs[0], k) for k in range(node.inputs[0].type.ndim)]
    if n is not None:
        return [(source.inputs[symbol[1]], symbol[2]) for symbol in n.symbols if len(symbol) == 3]
    if isinstance(node.op, Pick) and isinstance(source.op, HOLDERS):
        return [x for length in _inner_lengths(node, axis) for x in length.outer_axes().values()]
    return []


def _own_length(x: Node, axis: int) -> Node:
    return Tensor.make(Length(axis), x)


def lengths_of(x: Node) -> list[Known]:
    """Return all lengths of an array, in terms of nodes as near to the inputs as possible."""
    return [length_of(x, axis) for axis in range(x.type.ndim)]


def equal_lengths(a: Node, m: int, b: Node, n: int) -> bool:
    """Return whether axis m of a and axis n of b have equal lengths for all inputs."""
    first, second = length_of(a, m % a.type.ndim), length_of(b, n % b.type.ndim)
    return first is second or (isinstance(first, int) and first == second)


def declared_lengths(x: Node, axis: int) -> list[Known]:
    """Return the length of an axis, and the length to which x is broadcast or specified."""
    lengths = [length_of(x, axis)]
    if isinstance(x.op, BroadcastTo | SpecifyShape) and x.op.shape[axis] != -1:
        lengths.append(complete_shape(x.op.shape, x.inputs[1:])[axis])
    return lengths


def with_lengths(x: Node, wanted: Mapping[int, Known]) -> Tensor:
    """Return an array whose lengths are compared with the wanted ones at run time if necessary.

    A rule calls this for an array that it uses if it removes the operation that compared the
    lengths of the array.
    """
    ndim = x.type.ndim
    uncertain = {axis % ndim: n for axis, n in wanted.items()}
    uncertain = {axis: n for axis, n in uncertain.items() if n not in declared_lengths(x, axis)}
    if not uncertain:
        return x  # type: ignore[return-value]
    return specify_shape(x, [uncertain.get(axis) for axis in range(ndim)])


def inputs_with_checks(node: Node) -> list[Tensor]:
    """Return a node's inputs with comparisons of the lengths that the node compares."""
    xs: list[Any] = [*node.inputs]
    for a, m, b, n in checks_of(node):
        if xs[a].type.shape[m] is None:
            a, m, b, n = b, n, a, m
        xs[b] = with_lengths(xs[b], {n: length_of(xs[a], m % xs[a].type.ndim)})
    return xs


HOLDERS = (Loop, Switch, Subgraph)
"""Operations whose results are computed by nested graphs."""


# Lengths by type rules.


def _by_type_rule(node: Node, axis: int) -> tuple[Node, SymbolicLength | None]:
    source, n = length_rule(node, axis)
    return source, n if isinstance(n, SymbolicLength) else None


def _smallest(*lengths: Known) -> Known:
    return reduce(minimum, dict.fromkeys(lengths))


def _largest(*lengths: Known) -> Known:
    """Return the largest length; a 0 is dropped if another operand cannot be negative."""
    is_positive = any(is_count(n) for n in lengths if n != 0)
    return reduce(maximum, dict.fromkeys(n for n in lengths if n != 0 or not is_positive))


def _arange_length(start: Node, stop: Node, step: Node) -> Known | None:
    """Return the distance over the step, rounded up; None for floats, where rounding decides."""
    if not all(is_integer(x.type.dtype) for x in (start, stop, step)):
        return None
    if isinstance(stop.op, Length) and is_number(start, 0) and is_number(step, 1):
        return stop
    first, last, by = (cast(x, "int64") for x in (start, stop, step))
    return maximum(-((first - last) // by), 0)


def _slice_length(n: Known, *bounds: Known | None) -> Known:
    """Return the length of a slice of an array of n elements."""
    limits: Any = [HOLE if isinstance(bound, Node) else bound for bound in bounds]
    entry = _from_start(canonical(Range(*limits), n if isinstance(n, int) else None))
    source, axis = _array_of_length(n)
    entries = tuple(entry if k == axis else Range() for k in range(source.type.ndim))
    symbolic = [bound for bound in bounds if isinstance(bound, Node)]
    part = Tensor.make(Index(entries), source, *symbolic)
    static: int | None = part.type.shape[axis]
    return _own_length(part, axis) if static is None else static


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": _smallest,
    "max": _largest,
    "*": lambda *lengths: product(lengths),
    "arange": _arange_length,
    "count": lambda x: sum(cast(bare_mask(x), "bool")),
    "slice": _slice_length,
    "total": lambda x: sum(x, dtype="int64"),
}
"""The functions in expressions; a result of None means that only a call decides the length."""


# Lengths of which an operation knows more than its type rule.


def _by_operation(node: Node, axis: int) -> Known | None:
    if isinstance(node.op, Reshape):
        return _of_reshape(node.op, node, axis)
    is_nested = isinstance(node.op, Pick) and isinstance(node.inputs[0].op, HOLDERS)
    return _of_graphs(node, axis) if is_nested else None


def _of_reshape(op: Reshape, node: Node, axis: int) -> Known | None:
    """Return an entry of the new shape; for -1, divide the size by the lengths of other axes."""
    others: list[Known] = complete_shape(op.shape, node.inputs[1:])
    own = others.pop(axis)
    if isinstance(own, int) and own >= 0:
        return own
    if isinstance(own, Node) and (-1 in op.shape or is_count(own)):
        return own
    lengths = lengths_of(node.inputs[0])
    for n in tuple(others):
        if n in lengths:
            lengths.remove(n)
            others.remove(n)
    quotient: Known = product(lengths)
    if others:
        quotient = as_tensor(quotient, dtype="int64") // product(others)
    return quotient if isinstance(own, int) else where(equal(own, -1), quotient, own)


def product(lengths: Sequence[Any]) -> Any:
    """Return the product of lengths."""
    symbolic = [n for n in lengths if isinstance(n, Node)]
    static = prod(n for n in lengths if isinstance(n, int))
    return reduce(multiply, symbolic, *([] if symbolic and static == 1 else [static]))


def is_count(n: Known, depth: int = 2) -> bool:
    """Return whether a number is computed from lengths alone, and so is not negative."""
    if isinstance(n, int):
        return n >= 0
    if isinstance(n.op, Length):
        return True
    if isinstance(n.op, Constant):
        return bool(n.op.value >= 0)
    is_monotone = n.op is multiply or n.op is add
    return is_monotone and depth > 0 and all(is_count(x, depth - 1) for x in n.inputs)


def is_number(x: Node, value: int) -> bool:
    """Return whether a scalar is a constant of this value."""
    return isinstance(x.op, Constant) and bool(x.op.value == value)


# Lengths of results of nested graphs, in terms of the inputs of their operation.


@dataclass(frozen=True, slots=True)
class _InnerLength:
    """The length of a result of a nested graph.

    Attributes:
        n: The length, in terms of the graph's inputs.
        outer: The outer array of each input, and the number of leading axes that only it has.
        same: Inputs that equal their outer arrays in each call of the graph.
    """

    n: Known
    outer: Mapping[Node, ArrayAxis]
    same: Collection[Node]

    def outer_axes(self) -> dict[Node, ArrayAxis]:
        """Return the outer array and axis of each length of an input in the expression."""
        axes = {}
        for node in toposort([self.n] if isinstance(self.n, Node) else []):
            if isinstance(node.op, Length) and node.inputs[0] in self.outer:
                x, leading = self.outer[node.inputs[0]]
                axes[node] = x, node.op.axis + leading
        return axes

    def to_outer(self) -> Known | None:
        """Return the length in terms of outer arrays, or None if calls of the graph differ."""
        if not isinstance(self.n, Node):
            return self.n
        swaps: dict[Node, Node] = {
            node: as_tensor(length_of(*array_axis), dtype="int64")
            for node, array_axis in self.outer_axes().items()
        }
        swaps |= {x: self.outer[x][0] for x in self.same}
        if any(x in self.outer for x in toposort([self.n], swaps)):
            return None
        return replace_nodes([self.n], swaps)[0]


def _inner_lengths(node: Node, axis: int) -> list[_InnerLength]:
    """Return the length of a result in each nested graph that may compute it."""
    (several,) = node.inputs
    op: Any = several.op
    i: int = node.op.index  # type: ignore[attr-defined]
    if isinstance(op, Switch | Subgraph):
        lengths, first = [], int(isinstance(op, Switch))
        for branch in op.graphs():
            operands = dict(zip(branch.inputs, several.inputs[first:], strict=True))
            outer = {x: (y, 0) for x, y in operands.items()}
            lengths.append(_InnerLength(length_of(branch.outputs[i], axis), outer, operands))
        return lengths
    step, operands = op.formal, op.parts(several.inputs)
    if i < op.carries:  # no symbol stands for the known length of an initial carry
        carry = step.carries[i]
        return [_InnerLength(_own_length(carry, axis), {carry: (operands.init[i], 0)}, ())]
    row = step.rows[i - op.carries]
    return [_InnerLength(length_of(row, axis - 1), step.outer(operands), step.consts)]


def _of_graphs(node: Node, axis: int) -> Known | None:
    """Return the length of a result if all nested graphs agree, or None."""
    # Backends can read a length that depends on the branch from the result's shape.
    n, *others = [length.to_outer() for length in _inner_lengths(node, axis)]
    return n if all(other == n for other in others) else None


def bare_mask(mask: Node) -> Node:
    """Return a mask without comparisons of its lengths; a mask that broadcasts is unchanged."""
    is_compared = isinstance(mask.op, SpecifyShape) and 1 not in mask.inputs[0].type.shape
    return mask.inputs[0] if is_compared else mask


def _from_start(entry: Range) -> Range:
    """Return a slice of the same length that drops the first elements instead of the last."""
    match entry:
        case Range(None, int(stop), None) if stop < 0:
            return Range(-stop)
        case Range(int(start), int(stop), None) if stop < 0 <= start:
            return Range(start - stop)
    return entry


def holes(entries: Iterable[Entry]) -> Iterator[Hole]:
    """Yield the holes in the entries of an index, in order."""
    for entry in entries:
        bounds = entry.parts if isinstance(entry, Range) else (entry,)
        yield from (bound for bound in bounds if isinstance(bound, Hole))


def _array_of_length(n: Known) -> ArrayAxis:
    """Return an array and its axis of length n; no program computes the array."""
    if isinstance(n, Node) and isinstance(n.op, Length):
        return n.inputs[0], n.op.axis
    zeros = broadcast_to(constant(0), (n,))
    # Rewriting folds small arrays of constants into constants.
    folded = isinstance(n, int) and n < TINY
    return (Tensor.make(Constant.of(zeros.op.perform(0))) if folded else zeros), 0


def admit(y: Node, node: Node) -> Node | None:
    """Return a replacement of a node if its type allows it, or None."""
    return y if node.type.admits(y.type) else None


def fit_to(y: Node, node: Node) -> Node | None:
    """Broadcast a replacement of a node to the node's shape.

    Lengths that may differ from the node's are compared at run time.

    Returns:
        The replacement, or None if its dtype or a static length differs from the node's.
    """
    if y.type is node.type:
        return y
    if y.type.dtype != node.type.dtype or y.type.ndim > node.type.ndim:
        return None
    lengths = lengths_of(node)
    new = len(lengths) - y.type.ndim
    for axis, n in enumerate(y.type.shape):
        wanted = lengths[new + axis]
        if n not in {None, 1} and isinstance(wanted, int) and n != wanted:
            return None
    return admit(broadcast_to(y, lengths), node)
