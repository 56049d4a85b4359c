"""The pass that makes a graph of padded arrays, and how it computes each operation.

Unknown lengths are the number of steps until a loop stops, a number of steps that changes from call
to call, and the lengths of arguments that are padded to buckets. The pass goes through a graph with
a value for each argument. A value is known (a NumPy array), a count (an integer with bounds), an
array of the new graph, or a padded array (``padded.py``).

An operation declares by ``Op.padding_for`` what the padding of its operands must be. Its type rule
says which lengths must be equal and which lengths the results have. Other operations have a rule in
``rules/``, or none: then the graph cannot be padded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import GraphcError
from graphc.grad.barriers import Barrier
from graphc.ir import Constant, Graph, Node, Op, Pick, TensorType, TupleType
from graphc.ir.law import checks_of, law, named_checks
from graphc.ir.lengths import AnyLength, evaluate
from graphc.ir.op import is_own_class
from graphc.link.checks import compare_lengths, unequal_arguments, unequal_operands
from graphc.link.host import SliceLength
from graphc.link.padding.by_numpy import OnLengths
from graphc.link.padding.counts import (
    Count,
    LengthComparison,
    as_count,
    bound,
    current_lengths,
    is_known,
    is_known_to_backend,
    is_same,
    least,
    most,
    padding,
)
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    align,
    along,
    as_node,
    cut,
    indices,
    length_of_buffer,
    make_padded,
    ndim_of,
    shape_of,
    unknown_length,
)
from graphc.link.program import locate_error
from graphc.link.slices import length_of_slice
from graphc.loop.evaluate import perform_node
from graphc.loop.loop import Loop
from graphc.site import derived_from
from graphc.tensor.arrays.create import eye
from graphc.tensor.arrays.reduce import Reduction
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where, cast, minimum, where
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.tensor import Tensor

Rule = Callable[[Any, Node, Sequence[Any]], Any]
"""A function from an operation, its node and operands' values to the value of the result."""

RULES: dict[type[Op], Rule] = {}
"""The rules of operations, by class."""


def rule(*ops: type[Op]) -> Callable[[Rule], Rule]:
    """Register the decorated function for these operations."""

    def enter(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, f))
        return f

    return enter


class PaddedGraph(NamedTuple):
    """A graph of padded arrays.

    Attributes:
        graph: The graph. Its outputs are the buffers of the results, and then the numbers that
            only a run decides.
        lengths: The lengths of each result: formulas of the passed lengths and these numbers, or
            None for the length of the buffer.
        comparisons: The comparisons of such formulas.
    """

    graph: Graph
    lengths: tuple[tuple[AnyLength | None, ...], ...]
    comparisons: tuple[LengthComparison, ...]


def pad(
    graph: Graph,
    host: Collection[Node],
    inputs: Sequence[Node],
    values: Sequence[Any],
    lengths: Sequence[Tensor] = (),
    *,
    has_exact: bool = False,
) -> PaddedGraph:
    """Return the graph of padded arrays for these values of a program's arguments.

    Args:
        graph: The program.
        host: The nodes that NumPy computes where their operands are known.
        inputs: The inputs of the new graph.
        values: A value for each input and leaf of the program, in terms of the new inputs.
        lengths: The passed lengths, int64 scalars of the new graph.
        has_exact: Whether a call can run the exact program instead.

    Raises:
        DynamicShapeError: If an operation has neither a declaration nor a rule.
    """
    arguments = tuple(dict.fromkeys((*graph.inputs, *graph.leaves)))
    with padding(lengths, has_exact=has_exact) as record:
        error = partial(unequal_arguments, graph.inputs)
        compare_lengths(named_checks(graph.inputs), _with_shapes(values), agree, error)
        results = trace(graph, dict(zip(arguments, values, strict=True)), host)
        buffers = [
            as_node(y, node if isinstance(y, Count) else None)
            for y, node in zip(results, graph.outputs, strict=True)
        ]
        lengths_of_results = [
            [None if n is None else record.formula(n) for n in y.counts]
            if isinstance(y, PaddedArray)
            else [None] * ndim_of(y)
            for y in results
        ]
    new = Graph(inputs, [*buffers, *record.numbers])
    return PaddedGraph(new, tuple(map(tuple, lengths_of_results)), tuple(record.comparisons))


def trace(graph: Graph, values: Mapping[Node, Any], host: Collection[Node]) -> list[Any]:
    """Return the values of a graph's outputs.

    Args:
        graph: The graph.
        values: The values of its inputs and leaves.
        host: The nodes that NumPy computes where their operands are known.
    """
    computed = dict(values)
    for node in graph.nodes:
        if node in computed:
            continue
        operands = [computed[x] for x in node.inputs]
        try:
            with derived_from(node.site):
                computed[node] = compute(node, operands, on_host=node in host)
        except GraphcError as error:
            raise locate_error(error, node, ()) from error
    return [computed[y] for y in graph.outputs]


def compute(node: Node, values: Sequence[Any], *, on_host: bool) -> Any:
    """Return the value of a node for values of its operands."""
    op = node.op
    if isinstance(op, Constant):
        return op.value
    if isinstance(op, Pick):
        return as_array(values[0][op.index])
    if isinstance(op, SliceLength):
        return length_of_slice(op)
    if on_host and not isinstance(op, Length | Shape) and all(map(is_known, values)):
        with np.errstate(all="ignore"):
            y = perform_node(node, values)
        return y if isinstance(node.type, TupleType) else np.asarray(y, node.type.numpy_dtype)
    compare_operands(node, values)
    own_rule = next((RULES[cls] for cls in type(op).__mro__ if cls in RULES), None)
    if own_rule is not None and (_needs_rule(node, values) or isinstance(op, Length)):
        return as_array(own_rule(op, node, values))
    return _without_rule(node, values)


def as_array(x: Any) -> Any:
    """Return a value, a NumPy array if it is a Python integer."""
    return np.asarray(x, np.int64) if isinstance(x, int) else x


def _without_rule(node: Node, values: Sequence[Any]) -> Any:
    """Compute a node by what its operation declares, or a user's by NumPy."""
    cls: Any = type(node.op)
    has_padding = any(isinstance(x, PaddedArray) for x in values)
    if _are_shapes_known(node, values) and _declares_padding(node, values):
        return by_declaration(node, values) if has_padding else apply(node, values)
    # A lowering of the user's runs in the exact program, where there is one.
    keeps_lowering = current_lengths().has_exact and not cls.by_numpy
    if is_own_class(cls) or cls.perform is Op.perform or keeps_lowering:
        raise unknown_length(node)
    return on_lengths(node, values)


def compare_operands(node: Node, values: Sequence[Any]) -> None:
    """Compare the lengths of a node's operands that must be equal."""
    checks = checks_of(node)
    if checks:
        operands = _with_shapes(values)
        compare_lengths(checks, operands, agree, partial(unequal_operands, node, operands))


def _with_shapes(values: Sequence[Any]) -> list[SimpleNamespace]:
    return [SimpleNamespace(shape=shape_of(x)) for x in values]


def _needs_rule(node: Node, values: Sequence[Any]) -> bool:
    if any(isinstance(x, PaddedArray | Count) for x in values):
        # An array whose shape depends on exact lengths alone is no padded array.
        return not getattr(node.type, "ndim", 1) or not all(map(_is_without_padding, values))
    # min(n, 10) bounds a number n that is computed from data.
    if node.op is minimum and node.type is TensorType("int64"):
        return True
    return not _are_shapes_known(node, values) or may_have_unknown_steps(node.op)


def _are_shapes_known(node: Node, values: Sequence[Any]) -> bool:
    """Return whether a backend knows, when it compiles, what decides the shape of the result."""
    deciding = law(node.op, tuple([x.type for x in node.inputs])).deciding
    return all(is_known_to_backend(values[i]) for i in deciding)


def _is_without_padding(x: Any) -> bool:
    return x.is_exact if isinstance(x, Count) else not isinstance(x, PaddedArray)


def may_have_unknown_steps(op: Op) -> bool:
    """Return whether an operation is or has a loop whose number of steps may be unknown."""
    is_unknown = isinstance(op, Loop) and (op.stops or op.steps is None)
    return is_unknown or any(map(has_unknown_steps, op.graphs()))


@lru_cache(1024)
def has_unknown_steps(graph: Graph) -> bool:
    """Return whether a graph has a loop whose number of steps may be unknown."""
    return any(may_have_unknown_steps(node.op) for node in graph.nodes)


def apply(node: Node, values: Sequence[Any], op: Op | None = None) -> Any:
    """Apply a node's operation, or another one, to the buffers of values."""
    operands = map(as_node, _with_nodes(node, values) if op is None else values)
    y = Tensor.make(op or node.op, *operands)
    if not isinstance(y.type, TupleType):
        return y
    return tuple([Tensor.make(Pick(i), y) for i in range(len(y.type.items))])


# Operations that declare what padding they read.

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": lambda *lengths: reduce(least, lengths),
    "max": lambda *lengths: reduce(most, lengths),
}
"""The functions in the lengths that type rules give, of counts."""


def by_declaration(node: Node, values: Sequence[Any], fill: Any = None) -> Any:
    """Apply an operation to buffers, with the padding that the operation declares.

    Args:
        node: The node.
        values: The values of its operands.
        fill: The value of the results' padding, if it is known.

    Raises:
        DynamicShapeError: If the operation declares no padding.
    """
    op = node.op
    lengths = law(op, tuple([x.type for x in node.inputs]))
    values = align(node, _with_nodes(node, values))
    if fill is None:
        fill = fill_of_result(node, values)
    operands = [_with_declared_padding(node, i, x) for i, x in enumerate(values)]
    shapes = [[_length(node, n, values) for n in shape] for shape in lengths.results]
    return _pad_results(node, apply(node, operands), shapes, fill)


def _pad_results(node: Node, y: Any, shapes: Sequence[Sequence[Any]], fill: Any) -> Any:
    if not isinstance(node.type, TupleType):
        return make_padded(y, shapes[0], fill)
    return tuple([make_padded(x, shape, fill) for x, shape in zip(y, shapes, strict=True)])


def _with_nodes(node: Node, values: Sequence[Any]) -> list[Any]:
    """Return a node's operands, with counts as nodes."""
    pairs = zip(values, node.inputs, strict=True)
    return [as_node(x, y) if isinstance(x, Count) else x for x, y in pairs]


def on_lengths(node: Node, values: Sequence[Any]) -> Any:
    """Apply an operation that declares no padding to the valid elements of buffers, by NumPy."""
    lengths = law(node.op, tuple([x.type for x in node.inputs])).results
    shapes = [[_length(node, n, values) for n in shape] for shape in lengths]
    types = node.type.items if isinstance(node.type, TupleType) else (node.type,)
    if len(shapes) != len(types):
        raise unknown_length(node)
    sizes = [[None if as_count(n).is_exact else bound(n) for n in shape] for shape in shapes]
    if not all(n is None or isinstance(n, int) for shape in sizes for n in shape):
        raise unknown_length(node)
    buffers = tuple([x.with_shape(tuple(n)) for x, n in zip(types, sizes, strict=True)])
    axes = tuple([x.axes if isinstance(x, PaddedArray) else () for x in values])
    counts = [n for x in values if isinstance(x, PaddedArray) for n in x.counts if n is not None]
    op = OnLengths(node.op, axes, buffers, isinstance(node.type, TupleType))
    return _pad_results(node, apply(node, [*_with_nodes(node, values), *counts], op), shapes, 0)


def _length(node: Node, n: Any, values: Sequence[Any]) -> Any:
    """Return a length of a result, given in terms of the operands."""

    def value(symbol: tuple[Any, ...]) -> Any:
        x = values[symbol[1]]
        return x if symbol[0] == "value" else shape_of(x)[symbol[2]]

    length = evaluate(n, value, FUNCTIONS)
    if length is None:
        raise unknown_length(node)
    return length


def _with_declared_padding(node: Node, i: int, x: Any) -> Any:
    """Return the buffer of an operand, with the padding that the operation declares for it."""
    if not isinstance(x, PaddedArray):
        return x
    declared = _declared_padding(node, i, x)
    if None in declared.values():
        raise unknown_length(node)
    if "identity" in declared.values():
        return pad_with_identity(node, x)
    buffer = x.buffer
    for axis in [axis for axis, v in declared.items() if v == "index"]:
        own = cast(indices(length_of_buffer(buffer, axis)), buffer.dtype)
        buffer = where(x.inside([axis]), buffer, along(own, axis, x.ndim))
    # NaN does not equal itself.
    numbers = {axis: v for axis, v in declared.items() if not isinstance(v, str)}
    for text in dict.fromkeys(map(repr, numbers.values())):
        axes = [axis for axis, v in numbers.items() if repr(v) == text]
        buffer = replace(x, buffer=buffer).with_padding(numbers[axes[0]], axes)
    return buffer


def _declared_padding(node: Node, i: int, x: PaddedArray) -> dict[int, Any]:
    """Return what padding an operation declares for an operand, by axis."""
    return {axis: node.op.padding_for(i, axis, node.inputs[i].type) for axis in x.axes}


def _declares_padding(node: Node, values: Sequence[Any]) -> bool:
    return all(
        None not in _declared_padding(node, i, x).values()
        for i, x in enumerate(values)
        if isinstance(x, PaddedArray)
    )


def pad_with_identity(node: Node, x: Any) -> Tensor:
    """Return the buffer of square matrices, with an identity block as padding."""
    n, m = shape_of(x)[-2:]
    if not is_same(n, m):
        # Its type rule did not compare them: the matrices need not be square.
        raise unknown_length(node)
    buffer = as_node(x)
    size = min([n for n in buffer.type.shape[-2:] if n is not None])
    buffer = cut(cut(buffer, size, buffer.ndim - 2), size, buffer.ndim - 1)
    if not isinstance(n, Count) and not isinstance(m, Count):
        return buffer
    n = m if isinstance(m, Count) else n
    square = PaddedArray(buffer, (*[None] * (buffer.ndim - 2), n, n))
    return where(square.inside(), buffer, eye(size, dtype=buffer.type.dtype))


def fill_of_result(node: Node, values: Sequence[Any]) -> Any:
    """Return the value of a result's padding, where it follows from the operands' padding.

    The value is None if the padding of an operand is unknown, or if the padding of one operand
    meets valid elements of another.
    """
    op, first = node.op, values[0]
    if isinstance(op, ExpandDims | Squeeze | Transpose | Shard) and isinstance(first, PaddedArray):
        return first.fill
    if isinstance(op, Reduction) and isinstance(first, PaddedArray):
        fill = first.fill
        identity = op.identity(first.buffer.type.numpy_dtype)
        return fill if fill is not None and bool(fill == identity) else None
    is_elementwise = isinstance(op, Elementwise | Cast | Where | Barrier) and node.type.ndim
    return _fill_of_elements(node, values) if is_elementwise else None


def _fill_of_elements(node: Node, values: Sequence[Any]) -> Any:
    padded = {axis - x.ndim for x in values if isinstance(x, PaddedArray) for axis in x.axes}
    numbers = []
    for x in values:
        if isinstance(x, PaddedArray) and x.fill is not None:
            if {axis - x.ndim for axis in x.axes} != padded:
                return None
            numbers.append(np.asarray(x.fill, x.buffer.type.numpy_dtype))
        elif is_known(x) and not np.ndim(x):
            numbers.append(np.asarray(x))
        else:
            return None
    with np.errstate(all="ignore"):
        fill = node.op.perform(*numbers)
    # Backends round and wrap numbers out of range in different ways.
    changes = isinstance(node.op, Cast) and not np.all(fill == numbers[0])
    return None if np.ndim(fill) or changes else fill
