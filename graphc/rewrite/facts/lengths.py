"""Lengths of arrays in terms of the inputs of a graph, so that no array is computed for one."""

from __future__ import annotations

import operator
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
    is_integer,
    replaced,
    toposort,
)
from graphc.ir.law import checks_of, law
from graphc.ir.lengths import AnyLength, SymbolicLength, is_symbol
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.facts.slices import canonical
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.index import HOLE, Entry, Hole, Index, Range
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.elementwise import add, cast, equal, maximum, minimum, multiply, where
from graphc.tensor.core.shape import Length, Reshape
from graphc.tensor.core.specify import SpecifyShape, specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant

Known = int | Node
"""A length: a number, or an int64 scalar."""

Place = tuple[Node, int]
"""An array and one of its axes."""

_lengths = Memo[dict[int, Known]]()


def length_of(x: Node, axis: int) -> Known:
    """Return one length of an array, in terms of nodes as near to the inputs as possible."""
    own: dict[Place, Node] = {}
    stack = [(x, axis)]
    while stack:
        place = stack[-1]
        if _has_length(place, own):
            stack.pop()
            continue
        waiting = [source for source in _sources(*place) if not _has_length(source, own)]
        if not waiting:
            _compute(place, own)
        stack += waiting
    return _result(x, axis, own)


def _has_length(place: Place, own: dict[Place, Node]) -> bool:
    return place in own or _noted(*place) is not None


def _result(x: Node, axis: int, own: dict[Place, Node]) -> Known:
    noted = _noted(x, axis)
    return own[x, axis] if noted is None else noted


def _noted(x: Node, axis: int) -> Known | None:
    static: int | None = x.type.shape[axis]
    if static is not None:
        return static
    lengths = _lengths.get(x)
    return None if lengths is None else lengths.get(axis)


def _compute(place: Place, own: dict[Place, Node]) -> None:
    """Note a length, after those that it is made of."""
    node, axis = place
    source, n = _by_type_rule(node, axis)

    def value(symbol: tuple[Any, ...]) -> Known:
        x: Node = source.inputs[symbol[1]]
        return x if symbol[0] == "value" else _result(x, symbol[2], own)

    length = _evaluated(n, value)
    if length is None:
        length = _by_operation(node, axis)
    unknown = _own_length(node, axis)
    if length is None or length is unknown:
        # Not noted: the memo would keep the array.
        own[place] = unknown
    else:
        lengths = _lengths.get(node)
        if lengths is None:
            lengths = _lengths[node] = {}
        lengths[axis] = length


def _sources(node: Node, axis: int) -> list[Place]:
    """Return the lengths that a length is made of."""
    source, n = _by_type_rule(node, axis)
    if isinstance(node.op, Reshape):
        return [(node.inputs[0], k) for k in range(node.inputs[0].type.ndim)]
    if n is not None:
        return [(source.inputs[symbol[1]], symbol[2]) for symbol in n.symbols if len(symbol) == 3]
    if isinstance(node.op, Pick) and isinstance(source.op, HOLDERS):
        return [place for part in _inner(node, axis) for place in part.places().values()]
    return []


def _own_length(x: Node, axis: int) -> Node:
    return Tensor.make(Length(axis), x)


def lengths_of(x: Node) -> list[Known]:
    """All lengths of an array, taken from as far towards the inputs as they can be."""
    return [length_of(x, axis) for axis in range(x.type.ndim)]


def symbolic_length(shape: tuple[int | None, ...], symbolic: tuple[Node, ...], axis: int) -> Known:
    """An entry of a shape in which None stands for the next of the symbolic lengths."""
    known = shape[axis]
    return symbolic[shape[:axis].count(None)] if known is None else known


def equal_lengths(a: Node, m: int, b: Node, n: int) -> bool:
    """Whether two lengths are equal whatever the inputs are."""
    left, right = length_of(a, m % a.type.ndim), length_of(b, n % b.type.ndim)
    return left is right or (isinstance(left, int) and left == right)


def stated_lengths(x: Node, axis: int) -> list[Known]:
    """The lengths that an array is compared with on an axis, where it is computed, and its own."""
    found = [length_of(x, axis)]
    if isinstance(x.op, BroadcastTo | SpecifyShape) and x.op.shape[axis] != -1:
        found.append(symbolic_length(x.op.shape, x.inputs[1:], axis))
    return found


def with_lengths(x: Node, wanted: Mapping[int, Known]) -> Tensor:
    """The array, whose lengths are compared with these at run time where they may be others.

    A rule that uses the elements of an array takes it from here where it leaves out what would
    have compared its lengths.
    """
    ndim = x.type.ndim
    left = {axis % ndim: n for axis, n in wanted.items()}
    left = {axis: n for axis, n in left.items() if n not in stated_lengths(x, axis)}
    if not left:
        return x  # type: ignore[return-value]
    return specify_shape(x, [left.get(axis) for axis in range(ndim)])


def checked_inputs(node: Node) -> list[Tensor]:
    """A node's inputs, of which it compares lengths, to be used without it: still compared."""
    xs: list[Any] = [*node.inputs]
    for a, m, b, n in checks_of(node):
        if xs[a].type.shape[m] is None:
            a, m, b, n = b, n, a, m
        xs[b] = with_lengths(xs[b], {n: length_of(xs[a], m % xs[a].type.ndim)})
    return xs


HOLDERS = (Loop, Switch, Subgraph)
"""Operations whose results are made by graphs that they hold."""


# Lengths by type rules.


def _by_type_rule(node: Node, axis: int) -> tuple[Node, SymbolicLength | None]:
    """Return the node whose type rule gives a length, and that length in terms of its inputs."""
    source, item = node, 0
    if isinstance(node.op, Pick):
        (source,) = node.inputs
        item = node.op.index
    results = law(source.op, tuple([x.type for x in source.inputs])).results
    n = results[item][axis] if results else None
    return source, n if isinstance(n, SymbolicLength) else None


Value = Callable[[tuple[Any, ...]], Known]
"""Gives the length or the value that a symbol is."""


def _evaluated(n: AnyLength | None, value: Value) -> Known | None:
    """Return an expression as a number or an int64 scalar; None if it has an unknown function."""
    if n is None or isinstance(n, int):
        return n
    length: Any = 0
    for atom, k in n.terms:
        term: Any = value(atom) if is_symbol(atom) else _function_value(*atom, value=value)
        if term is None:
            return None
        if k < 0:
            length = length - (term if k == -1 else term * -k)
        else:
            term = term if k == 1 else term * k
            length = term if isinstance(length, int) and not length else length + term
    return length + n.constant if n.constant else length  # type: ignore[no-any-return]


def _function_value(name: str, *arguments: Any, value: Value) -> Known | None:
    function = FUNCTIONS.get(name)
    return None if function is None else function(*[_evaluated(n, value) for n in arguments])


def _smallest(*lengths: Known) -> Known:
    return reduce(minimum, dict.fromkeys(lengths))


def _largest(*lengths: Known) -> Known:
    """Return the largest of lengths; 0 is no larger than a length."""
    is_positive = any(is_count(n) for n in lengths if n != 0)
    return reduce(maximum, dict.fromkeys(n for n in lengths if n != 0 or not is_positive))


def _arange_length(start: Node, stop: Node, step: Node) -> Known | None:
    """Return the distance over the step, rounded up; None for floats, whose rounding decides."""
    if not all(is_integer(x.type.dtype) for x in (start, stop, step)):
        return None
    if isinstance(stop.op, Length) and is_number(start, 0) and is_number(step, 1):
        return stop
    first, last, by = (cast(x, "int64") for x in (start, stop, step))
    return maximum(-((first - last) // by), 0)


def _slice_length(n: Known, *bounds: Known | None) -> Known:
    """Return the length of a slice of an array of n elements."""
    parts: Any = [HOLE if isinstance(bound, Node) else bound for bound in bounds]
    entry = _from_start(canonical(Range(*parts), n if isinstance(n, int) else None))
    source, axis = _measured(n)
    entries = tuple(entry if k == axis else Range() for k in range(source.type.ndim))
    symbolic = [bound for bound in bounds if isinstance(bound, Node)]
    part = Tensor.make(Index(entries), source, *symbolic)
    static: int | None = part.type.shape[axis]
    return _own_length(part, axis) if static is None else static


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": _smallest,
    "max": _largest,
    "*": lambda *lengths: product(lengths),
    "//": operator.floordiv,
    "arange": _arange_length,
    "count": lambda x: sum(cast(bare_mask(x), "bool")),
    "slice": _slice_length,
    "total": lambda x: sum(x, dtype="int64"),
}
"""The functions in expressions, of numbers and nodes; None where only a call decides the length."""


# Lengths of which an operation says more than its type rule.


def _by_operation(node: Node, axis: int) -> Known | None:
    if isinstance(node.op, Reshape):
        return _of_reshape(node.op, node, axis)
    is_held = isinstance(node.op, Pick) and isinstance(node.inputs[0].op, HOLDERS)
    return _of_graphs(node, axis) if is_held else None


def _of_reshape(op: Reshape, node: Node, axis: int) -> Known | None:
    """An entry of the shape, or for -1 the number of elements over those of the other axes."""
    asked = [symbolic_length(op.shape, node.inputs[1:], at) for at in range(len(op.shape))]
    own = asked.pop(axis)
    if isinstance(own, int) and own >= 0:
        return own
    if isinstance(own, Node) and (-1 in op.shape or is_count(own)):
        return own
    elements = lengths_of(node.inputs[0])
    for n in tuple(asked):
        if n in elements:
            elements.remove(n)
            asked.remove(n)
    rest: Known = product(elements)
    if asked:
        rest = as_tensor(rest, dtype="int64") // product(asked)
    return rest if isinstance(own, int) else where(equal(own, -1), rest, own)


def product(lengths: Sequence[Any]) -> Any:
    """The product of lengths."""
    symbolic = [n for n in lengths if isinstance(n, Node)]
    known = prod(n for n in lengths if isinstance(n, int))
    return reduce(multiply, symbolic, *([] if symbolic and known == 1 else [known]))


def is_count(n: Known, depth: int = 2) -> bool:
    """Whether it is made of lengths alone, and so is not negative."""
    if isinstance(n, int):
        return n >= 0
    if isinstance(n.op, Length):
        return True
    if isinstance(n.op, Constant):
        return bool(n.op.value >= 0)
    made = n.op is multiply or n.op is add
    return made and depth > 0 and all(is_count(x, depth - 1) for x in n.inputs)


def is_number(x: Node, value: int) -> bool:
    """Whether a scalar is this constant."""
    return isinstance(x.op, Constant) and bool(x.op.value == value)


# Lengths of what graphs make that an operation holds, in terms of what it takes.


@dataclass(frozen=True, slots=True)
class _InnerLength:
    """A length of a result of such a graph.

    Attributes:
        n: It, made of the graph's inputs.
        outer: What these inputs stand for, and how many more axes that has in front.
        same: Those of them that are what they stand for, at all times.
    """

    n: Known
    outer: Mapping[Node, Place]
    same: Collection[Node]

    def places(self) -> dict[Node, Place]:
        """For lengths of inputs in it, what outside has that length."""
        found = {}
        for node in toposort([self.n] if isinstance(self.n, Node) else []):
            if isinstance(node.op, Length) and node.inputs[0] in self.outer:
                x, axes = self.outer[node.inputs[0]]
                found[node] = x, node.op.axis + axes
        return found

    def outside(self) -> Known | None:
        """The length in terms of what is outside, or None where it differs from time to time."""
        if not isinstance(self.n, Node):
            return self.n
        swaps: dict[Node, Node] = {
            node: as_tensor(length_of(*place), dtype="int64")
            for node, place in self.places().items()
        }
        swaps |= {x: self.outer[x][0] for x in self.same}
        if any(x in self.outer for x in toposort([self.n], swaps)):
            return None
        return replaced([self.n], swaps)[0]


def _inner(node: Node, axis: int) -> list[_InnerLength]:
    """A length of a result, from each graph that may make it."""
    (several,) = node.inputs
    op: Any = several.op
    i: int = node.op.index  # type: ignore[attr-defined]
    if isinstance(op, Switch | Subgraph):
        found, first = [], int(isinstance(op, Switch))
        for branch in op.graphs():
            given = dict(zip(branch.inputs, several.inputs[first:], strict=True))
            outer = {x: (y, 0) for x, y in given.items()}
            found.append(_InnerLength(length_of(branch.outputs[i], axis), outer, given))
        return found
    step, given = op.formal, op.parts(several.inputs)
    row = step.rows[i - op.carries]
    return [_InnerLength(length_of(row, axis - 1), step.outer(given), step.consts)]


def _of_graphs(node: Node, axis: int) -> Known | None:
    """Return the length that all graphs give a result."""
    # What depends on the branch chosen is left to backends, which know shapes better than values.
    found, *others = [part.outside() for part in _inner(node, axis)]
    return found if all(n == found for n in others) else None


def bare_mask(mask: Node) -> Node:
    """Return a mask before its lengths were compared; as it is if it would broadcast."""
    is_compared = isinstance(mask.op, SpecifyShape) and 1 not in mask.inputs[0].type.shape
    return mask.inputs[0] if is_compared else mask


def _from_start(entry: Range) -> Range:
    """The slice without the first elements that has the length of one without the last ones."""
    match entry:
        case Range(None, int(stop), None) if stop < 0:
            return Range(-stop)
        case Range(int(start), int(stop), None) if stop < 0 <= start:
            return Range(start - stop)
    return entry


def holes(entries: Iterable[Entry]) -> Iterator[Hole]:
    """Yield the holes in the entries of an index, in order."""
    for entry in entries:
        parts = entry.parts if isinstance(entry, Range) else (entry,)
        yield from (part for part in parts if isinstance(part, Hole))


def _measured(n: Known) -> Place:
    """An array of that length on an axis; none is made for it."""
    if isinstance(n, Node) and isinstance(n.op, Length):
        return n.inputs[0], n.op.axis
    zeros = broadcast_to(constant(0), (n,))
    # Small arrays of constants are constants, once rewritten.
    folded = isinstance(n, int) and n < TINY
    return (Tensor.make(Constant.of(zeros.op.perform(0))) if folded else zeros), 0


def admitted(made: Node, node: Node) -> Node | None:
    """Return a replacement of a node if its type allows it, or None."""
    return made if node.type.admits(made.type) else None


def fitted(y: Node, node: Node) -> Node | None:
    """A value in the shape of the node it is to replace, broadcast where it lost axes.

    Its own lengths are compared with the node's at run time where they may be others. None where
    it can't be: it has another dtype, or lengths that the node is known not to have.
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
    made = broadcast_to(y, lengths)
    return admitted(made, node)
