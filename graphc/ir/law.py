"""Run an operation's type rule on expressions of lengths: lengths of results, run-time checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from graphc.ir.graph import Graph
from graphc.ir.lengths import AnyLength, Comparisons, StaticLength, SymbolicLength, comparisons
from graphc.ir.node import Node, Pick
from graphc.ir.op import Check, Op, is_own_class
from graphc.ir.types import TensorType, TupleType, Type
from graphc.ir.walk import reachable_nodes


@dataclass(frozen=True, slots=True)
class Law:
    """The lengths of an operation's results in terms of its inputs.

    Attributes:
        results: For each result its lengths: numbers, expressions, and None where the type rule
            gives none.
        checks: The lengths of inputs that must be equal, and that types leave unknown.
        deciding: The positions of the inputs whose values decide a length.
    """

    results: tuple[tuple[AnyLength | None, ...], ...]
    checks: tuple[Check, ...]
    deciding: tuple[int, ...]


NOTHING = Law((), (), ())


def law(op: Op, types: tuple[Any, ...]) -> Law:
    """Return what an operation's type rule says about lengths, for inputs of these types."""
    if not types:
        return NOTHING  # not cached: a constant or a leaf is its array
    cls: Any = type(op)
    # A user's type rule may depend on more than its arguments; a graph makes a large key.
    is_cached = is_own_class(cls) and not op.infers_by_numbers and not op.graphs()
    return _cached_law(op, types) if is_cached else _law(op, types)


def deciding_inputs(node: Node) -> tuple[int, ...]:
    """Return the positions of the inputs whose values decide a length."""
    return law(node.op, tuple([x.type for x in node.inputs])).deciding


def checks_of(node: Node) -> tuple[Check, ...]:
    """Return the lengths of a node's inputs that must be equal, and that types leave unknown."""
    types = tuple([x.type for x in node.inputs])
    if all(x.is_static for x in types if isinstance(x, TensorType)):
        return ()
    return law(node.op, types).checks


def length_rule(x: Node, axis: int) -> tuple[Node, AnyLength | None]:
    """Return the node whose type rule gives a length, and that length in terms of its inputs."""
    source, item = (x.inputs[0], x.op.index) if isinstance(x.op, Pick) else (x, 0)
    results = law(source.op, tuple([y.type for y in source.inputs])).results
    return source, results[item][axis] if results else None


def source_axis(x: Node, axis: int) -> tuple[Node, int] | None:
    """Return an input of a node, and its axis that has the length of an axis of the node."""
    source, length = length_rule(x, axis)
    position = None if source.op.graphs() else _position(length)
    return None if position is None else (source.inputs[position[0]], position[1])


def _law(op: Op, types: tuple[Any, ...]) -> Law:
    shapes = None
    with comparisons() as record:
        if not op.infers_by_numbers:
            symbolic = [x.with_symbols(i) if _is_array(x) else x for i, x in enumerate(types)]
            shapes = _shapes(op, symbolic)
    if shapes is None:
        shapes = _by_numbers(op, types)
    return Law(
        tuple([_with_most_axes(shape, record.groups, types) for shape in shapes]),
        tuple(_checks(record.pairs)),
        tuple(sorted(_deciding(shapes, record) | _deciding_in_graphs(op))),
    )


_cached_law = lru_cache(4096)(_law)


def _is_array(type: Type) -> bool:
    return isinstance(type, TensorType)


def _shapes(op: Op, types: Sequence[Any]) -> list[Sequence[Any]] | None:
    """Return the shapes of results; None where a user's type rule takes no such types."""
    try:
        y = op.infer(*types)
    except Exception:
        cls: Any = type(op)
        if is_own_class(cls) and not op.infers_by_numbers:
            raise
        return None
    items = y.items if isinstance(y, TupleType) else (y,)
    return [x.shape if isinstance(x, TensorType) else () for x in items]


MARKS = ((1009, 101), (53, 7))
"""Lengths for type rules that compute with numbers alone: the least, and the step to the next.

The numbers are small, because foreign code may loop over a length. A result has an input's length
if both series say so. One series ascends from axis to axis and the other descends, because a rule
may return the larger of two lengths; they are far apart, because a rule may bound a length.
"""


def _by_numbers(op: Op, types: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the shapes of results: lengths that the type rule copies from inputs, None for others.

    A number in the result may hold for these inputs alone.
    """
    count = sum(list(x.shape).count(None) for x in types if _is_array(x))
    ascending, descending = ([n + step * i for i in range(count)] for n, step in MARKS)
    first = _with_marks(op, types, ascending)
    second = _with_marks(op, types, descending[::-1])
    if [len(shape) for shape in first] != [len(shape) for shape in second]:
        return []
    pairs = [zip(a, b, strict=True) for a, b in zip(first, second, strict=True)]
    return [[n if n is m and not isinstance(n, int) else None for n, m in shape] for shape in pairs]


def _with_marks(op: Op, types: Sequence[Any], marks: Iterable[int]) -> list[Sequence[Any]]:
    """Return the shapes of results for inputs whose unknown lengths are these numbers."""
    remaining = iter(marks)
    lengths: dict[int, SymbolicLength] = {}
    numbered = []
    for i, x in enumerate(types):
        if not _is_array(x):
            numbered.append(x)
            continue
        shape = list(x.shape)
        for k in [k for k, n in enumerate(shape) if n is None]:
            shape[k] = next(remaining)
            lengths[shape[k]] = SymbolicLength.of("axis", i, k)
        numbered.append(x.with_shape(shape))
    shapes = _shapes(op, numbered) or ()
    return [[lengths.get(n, n) for n in shape] for shape in shapes]


def _deciding(shapes: Sequence[Sequence[Any]], record: Comparisons) -> set[int]:
    lengths = [*chain(*shapes), *chain(*record.pairs), *record.required]
    symbols = [symbol for n in lengths if isinstance(n, SymbolicLength) for symbol in n.symbols]
    return {symbol[1] for symbol in symbols if symbol[0] == "value"}


def _deciding_in_graphs(op: Op) -> set[int]:
    """Return the inputs of an operation whose values decide a length in a graph that it holds."""
    indices = {
        passed[i]
        for graph, passed in zip(op.graphs(), op.passes(), strict=True)
        for i in deciding_in_graph(graph)
    }
    return {i for i in indices if i is not None}


@lru_cache(1024)
def deciding_in_graph(graph: Graph) -> tuple[int, ...]:
    """Return the positions of a graph's inputs whose values decide a length in it."""
    positions = {x: i for i, x in enumerate(graph.inputs)}
    ends = [
        node.inputs[i]
        for node in graph.nodes
        if node not in positions
        for i in deciding_inputs(node)
    ]

    def sources(node: Node) -> Iterable[Node]:
        return () if node in positions or node.op.reads_shapes_alone else node.inputs

    demanded = reachable_nodes(ends, sources)
    return tuple(i for x, i in positions.items() if x in demanded)


def _with_most_axes(
    shape: Sequence[Any], groups: Sequence[Sequence[Any]], types: Sequence[Any]
) -> tuple[AnyLength | None, ...]:
    """Return a shape in which each length is taken from the input with most axes that has it.

    So all lengths of a result come from one input where they can, and results that have the lengths
    of one input have equal lengths.
    """
    equal: dict[AnyLength, list[AnyLength]] = {}
    for group in groups:
        joined = [*dict.fromkeys(m for n in group for m in equal.get(n, [n]))]
        equal |= dict.fromkeys(joined, joined)

    def rank(n: AnyLength) -> tuple[int, ...]:
        position = _position(n)
        return (1,) if position is None else (0, -types[position[0]].ndim, *position)

    return tuple(
        [n if n is None or isinstance(n, int) else min(equal.get(n, [n]), key=rank) for n in shape]
    )


def _checks(pairs: Sequence[tuple[AnyLength, AnyLength]]) -> list[Check]:
    """Return the pairs of axes to compare when a program runs, each once.

    Lengths that are no input's alone are compared by the operation itself.
    """
    positions = [(_position(a), _position(b)) for a, b in pairs]
    checks = [(*a, *b) for a, b in positions if a is not None and b is not None and a != b]
    return [*dict.fromkeys(checks)]


def _position(n: AnyLength | None) -> tuple[int, int] | None:
    """Return the input and the axis whose length this is, or None."""
    return n.position if isinstance(n, StaticLength | SymbolicLength) else None


def named_checks(inputs: Sequence[Node]) -> list[Check]:
    """Return the axes of inputs that declare one name, each with the first axis of that name."""
    first: dict[str, tuple[int, int]] = {}
    checks: list[Check] = []
    for i, x in enumerate(inputs):
        for axis, name in enumerate(getattr(x.op, "dims", None) or ()):
            if name is not None and first.setdefault(name, (i, axis)) != (i, axis):
                checks.append((*first[name], i, axis))
    return checks
