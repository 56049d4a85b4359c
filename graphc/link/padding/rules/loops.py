"""Loops, branches and sub-graphs of padded arrays.

A graph that an operation has is computed with the values of the operation's operands, over new
parameters for what differs from step to step. What the new graph refers to becomes operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any

from graphc.errors import DynamicShapeError
from graphc.ir import Graph, Node, picks
from graphc.link.checks import naming_step
from graphc.link.host import analyse
from graphc.link.padding.counts import (
    UNBOUNDED,
    Count,
    as_count,
    as_known,
    bound,
    exact,
    is_known,
    least,
)
from graphc.link.padding.graph import rule, trace
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    as_node,
    at_least,
    cut,
    extend,
    length_of_buffer,
    make_padded,
    shape_of,
    unequal,
    unknown_length,
    within_held_graph,
)
from graphc.loop.branch import Switch, switch
from graphc.loop.loop import Loop
from graphc.loop.step import LoopInputs, Outer, captured_nodes, close_graph, stand_in
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.elementwise import minimum
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor


@rule(Loop)
def loop(op: Loop, node: Node, values: Sequence[Any]) -> Any:
    """Return the results of a loop; an unknown number of steps becomes a count below a bound."""
    inputs = op.parts(values)
    steps = _number_of_steps(op, inputs, node.where)
    n, is_bound = _length_of_rows(op, steps, inputs.xs)
    count = inputs.count
    if is_bound:
        count = steps if count is None else least(count, steps)
        count = least(count, n if isinstance(n, int) else exact(n))
    xs = [_first(x, n) if is_bound or isinstance(x, PaddedArray) else as_node(x) for x in inputs.xs]
    init = [as_node(x, y) for x, y in zip(inputs.init, op.step.inputs, strict=False)]
    step, captured, rows = _step(op, inputs, init, xs)
    is_static = isinstance(n, int)
    new = replace(op, step=step, steps=n if is_static else None, counted=count is not None)
    operands = [*([] if is_static else [n]), *([] if count is None else [as_node(count)])]
    results = picks(Tensor.make(new, *operands, *init, *xs, *captured))
    carried = [_like(y, x) for y, x in zip(results, inputs.init, strict=False)]
    stacked = [
        make_padded(y, [steps, *shape_of(row)], None if isinstance(row, PaddedArray) else 0)
        for y, row in zip(op.rows_of(results), rows, strict=True)
    ]
    done = [_steps_done(op, as_count(steps), y) for y in results[len(results) - op.stops :]]
    return (*carried, *stacked, *done)


def _like(buffer: Tensor, x: Any) -> Any:
    """Return a buffer as an array with the lengths of another."""
    return PaddedArray(buffer, x.counts) if isinstance(x, PaddedArray) else buffer


def _number_of_steps(op: Loop, inputs: LoopInputs[Any], where: str | None) -> Any:
    """Return the number of steps, an integer or a count; check the sequences' lengths."""
    steps: Any = op.steps_of(inputs)
    at_least(steps, 0, lambda n, zero: op.negative_steps(n, where))
    for i, x in enumerate(inputs.xs):
        agree(shape_of(x)[0], steps, partial(op.unequal_sequence, i, where=where))
    return as_known(as_count(steps))


def _length_of_rows(op: Loop, steps: Any, xs: Sequence[Any]) -> tuple[Any, bool]:
    """Return the length of rows, and whether it is an upper bound of the number of steps.

    The length is an integer, or a node that the backend knows when it compiles; or the number of
    steps of a loop without rows.
    """
    if is_known(steps) or steps.is_exact:
        return (int(steps) if is_known(steps) else steps.node), False
    lengths = [length_of_buffer(as_node(x), 0) for x in xs]
    if steps.high < UNBOUNDED or (not lengths and steps.limit is not None):
        lengths.append(bound(steps))
    if lengths:
        are_static = all(isinstance(n, int) for n in lengths)
        return (min(lengths) if are_static else reduce(minimum, lengths)), True
    if op.stacked:
        raise DynamicShapeError(
            f"{op.title}: the number of rows is not known while the program is compiled, and has "
            "no upper bound.",
            "Give the largest number of steps, max_steps=... or n_steps=gt.minimum(n, most); "
            "use the last step's value alone ([-1]); or mode='NUMPY'.",
        )
    return steps.node, False


def _first(x: Any, n: Any) -> Tensor:
    """Return the first elements of a sequence's buffer."""
    return cut(as_node(x), n, 0) if isinstance(n, int) else as_node(x)[:n]


def _steps_done(op: Loop, steps: Count, done: Tensor) -> Any:
    low = 1 if steps.low > 0 and not op.counted else 0
    return as_known(Count(done, low, steps.high, limit=steps.limit))


# The step of a loop.


def _step(
    op: Loop, inputs: LoopInputs[Any], init: Sequence[Tensor], xs: Sequence[Tensor]
) -> tuple[Graph, list[Node], Sequence[Any]]:
    """Return the step, the nodes that it captures, and a row of each stacked result."""
    operands: list[Outer] = [*[(x, 0) for x in init], *[(x, 1) for x in xs]]
    parameters = [stand_in(x, axes=axes) for x, axes in operands]
    varying: list[Any] = []
    for p, (_, axes), x in zip(parameters, operands, (*inputs.init, *inputs.xs), strict=True):
        counts = x.counts[axes:] if isinstance(x, PaddedArray) else ()
        varying.append(PaddedArray(p, counts) if any(counts) else p)
    with within_held_graph():
        outputs = naming_step(op.title, _trace)(op.step, [*varying, *inputs.consts], len(varying))
        before = varying[: op.carries]
        nexts = _carries_after(op, before, outputs[: op.carries])
    rows = op.rows_of(outputs)
    for row in rows:
        if not all(_is_from_outside(n, parameters) for n in _counts_of(row)):
            raise _varying_length(op, "a row's")
    others = zip(outputs[op.carries :], op.step.outputs[op.carries :], strict=True)
    results = [*nexts, *[as_node(y, like) for y, like in others]]
    outer = dict[Node, Outer](zip(parameters, operands, strict=True))
    graph, captured = close_graph(parameters, results, outer)
    return graph, captured, rows


def _trace(graph: Graph, values: Sequence[Any], varying: int = 0) -> list[Any]:
    """Return the outputs of an operation's graph, whose first inputs differ from step to step."""
    known = [i for i, x in enumerate(values) if is_known(x)]
    host = analyse(graph, known, range(varying)).nodes
    return trace(graph, dict(zip(graph.inputs, values, strict=True)), host)


def _counts_of(x: Any) -> list[Count]:
    return [n for n in x.counts if n is not None] if isinstance(x, PaddedArray) else []


def _is_from_outside(n: Count, parameters: Sequence[Node]) -> bool:
    """Return whether a count depends on no parameter of the graph that computes it."""
    return n.formula is not None or n.scalar in captured_nodes(parameters, [n.node])


def _carries_after(op: Loop, before: Sequence[Any], after: Sequence[Any]) -> list[Tensor]:
    """Return the carries after a step in buffers of the shapes that they had before."""
    pairs = [
        [
            (n, m) if is_known(n) and is_known(m) else (None, None)
            for n, m in zip(shape_of(x), shape_of(y), strict=True)
        ]
        for x, y in zip(before, after, strict=True)
    ]
    shapes = [
        [SimpleNamespace(shape=tuple([pair[i] for pair in each])) for each in pairs] for i in (0, 1)
    ]
    op.check_carry(*shapes)
    return [
        _carry_after(op, x, y, like)
        for x, y, like in zip(before, after, op.step.outputs, strict=False)
    ]


def _carry_after(op: Loop, before: Any, after: Any, like: Node) -> Tensor:
    for n, m in zip(shape_of(before), shape_of(after), strict=True):
        try:
            agree(n, m, lambda a, b: _varying_length(op, "a carry's"))
        except DynamicShapeError:
            raise _varying_length(op, "a carry's") from None
    shape = as_node(before).type.shape
    buffer = as_node(after, like)
    if isinstance(before, PaddedArray) or isinstance(after, PaddedArray):
        buffer = extend(buffer, {axis: n for axis, n in enumerate(shape) if n is not None})
    return specify_shape(buffer, shape)


def _varying_length(op: Loop, owner: str) -> DynamicShapeError:
    return DynamicShapeError(
        f"{op.title}: {owner} length is not known while the program is compiled, and may differ "
        "from step to step.",
        "In a loop within a loop, use the last step's value alone ([-1]), or a fixed number of "
        "steps, n_steps, with gt.where; or mode='NUMPY'.",
    )


# Branches and sub-graphs.


@rule(Switch)
def branches(op: Switch, node: Node, values: Sequence[Any]) -> Any:
    """Return the results of one of several branches, in buffers of common shapes."""
    index, *operands = values
    if is_known(index):
        return tuple(_trace(op.chosen(index), operands))
    outer = {
        stand_in(as_node(x)): as_node(x) for x in operands if isinstance(x, Node | PaddedArray)
    }
    remaining = iter(outer)
    inside = [
        _like(next(remaining), x) if isinstance(x, Node | PaddedArray) else x for x in operands
    ]
    nodes = zip(*[branch.outputs for branch in op.branches], strict=True)
    with within_held_graph():
        results = [_trace(branch, inside) for branch in op.branches]
        by_position = zip(zip(*results, strict=True), nodes, strict=True)
        shapes = [_common_shape(op, ys, likes, [*outer]) for ys, likes in by_position]
    buffers = [
        [
            _with_lengths(as_node(y, like), shape)
            for y, like, shape in zip(ys, branch.outputs, shapes, strict=True)
        ]
        for ys, branch in zip(results, op.branches, strict=True)
    ]
    new = switch(op, as_node(index), [*outer], [*outer.values()], buffers)
    return tuple([make_padded(y, shape) for y, shape in zip(new, shapes, strict=True)])


def _common_shape(
    op: Switch, ys: Sequence[Any], nodes: Sequence[Node], parameters: Sequence[Node]
) -> list[Any]:
    """Return the shape of one result of all branches."""
    for y, node in zip(ys, nodes, strict=True):
        if not all(_is_from_outside(n, parameters) for n in _counts_of(y)):
            raise unknown_length(node)
    shapes = [shape_of(y) for y in ys]
    shape = [next((n for n in ns if is_known(n)), ns[0]) for ns in zip(*shapes, strict=True)]
    for other, node in zip(shapes, nodes, strict=True):
        pairs = list(zip(shape, other, strict=True))
        if any(is_known(n) and is_known(m) and n != m for n, m in pairs):
            raise op.unequal_shapes(shapes[0], other, node.where)
        for n, m in pairs:
            agree(n, m, unequal(node))
    return shape


def _with_lengths(buffer: Tensor, shape: Sequence[Any]) -> Tensor:
    """Return a buffer as long as the lengths of a shape, or as their bounds."""
    bounds = {axis: bound(n) for axis, n in enumerate(shape) if not as_count(n).is_exact}
    return extend(buffer, {axis: n for axis, n in bounds.items() if isinstance(n, int)})


@rule(Subgraph)
def subgraph(op: Subgraph, node: Node, values: Sequence[Any]) -> Any:
    """Return the results of the graph, computed instead of the operation."""
    return tuple(_trace(op.graph, values))
