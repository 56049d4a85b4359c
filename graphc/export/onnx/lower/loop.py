"""Loops and branches. A loop is a ``Scan``, or a ``Loop`` if it has no sequences or can stop early.

The body reads constants from the scopes around it: its inputs are carries and elements only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphc.export.onnx import builder as ob
from graphc.export.onnx.lowering import emit_graph, onnx
from graphc.ir import Graph, Node, TensorType, is_complex, real_dtype
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.specify import SpecifyShape


def split_parts(values: Sequence[Any]) -> list[ob.Value]:
    """Return real arrays, and the parts of complex ones, in one list."""
    arrays = []
    for x in values:
        arrays += [x.re, x.im] if isinstance(x, ob.Complex) else [x]
    return arrays


def part_types(types: Sequence[TensorType]) -> list[TensorType]:
    """Return the types of the arrays that ``split_parts`` returns for arrays of these types."""
    real_types = []
    for t in types:
        complex = is_complex(t.dtype)
        real_types += [t.with_dtype(real_dtype(t.dtype))] * 2 if complex else [t]
    return real_types


def join_parts(types: Sequence[TensorType], parts: Sequence[ob.Value]) -> list[Any]:
    """Return the arrays of types from their parts: the inverse of ``split_parts``."""
    remaining = iter(parts)
    return [
        ob.Complex(next(remaining), next(remaining)).with_type(t)
        if is_complex(t.dtype)
        else next(remaining).with_type(t)
        for t in types
    ]


def split_nodes(nodes: Sequence[Node]) -> list[tuple[Node, int]]:
    """Return pairs of a node and the number of a part, in the order of ``split_parts``."""
    return [
        (x, i)
        for x in map(without_shape_assertion, nodes)
        for i in range(1 + is_complex(x.type.dtype))
    ]


def without_shape_assertion(y: Node) -> Node:
    return y.inputs[0] if isinstance(y.op, SpecifyShape) else y


@onnx.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    return tuple(emit_graph(op.graph, values))


@onnx.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """Emit a ``Scan`` over sequences that have elements: onnxruntime's fails without."""
    has_elements = any(x.type.shape[0] for x in op.parts(values).xs)
    if has_elements and not op.stops and not op.counted:
        return _Scan(op, values).results()
    return _Loop(op, values).results()


class _Body:
    """A loop with its operands, and the types of the inputs and outputs of its body."""

    def __init__(self, op: Loop, values: Sequence[Any]) -> None:
        self.op = op
        self.operands = op.parts(values)
        inputs = [x.type for x in op.step.inputs]
        outputs = [y.type for y in op.step.outputs]
        self.carries = inputs[: op.carries]
        self.elements = inputs[op.carries :][: op.sequences]
        self.rows = op.rows_of(outputs)

    def new(self, types: Sequence[TensorType], name: str) -> list[ob.Value]:
        """Return newly named inputs of the body, one for each real array."""
        builder = ob.CURRENT.get()
        return [ob.Value(builder.name(name), t.dtype, t) for t in part_types(types)]

    def step(self, carries: Sequence[ob.Value], elements: Sequence[Any]) -> list[Any]:
        inputs = [*join_parts(self.carries, carries), *elements, *self.operands.consts]
        return emit_graph(self.op.step, inputs)

    @property
    def stacked(self) -> list[TensorType]:
        return [t.with_shape((None, *t.shape)) for t in self.rows]


class _Scan(_Body):
    """A loop over all elements of its sequences."""

    def results(self) -> tuple[Any, ...]:
        op = self.op
        carries, elements = self.new(self.carries, "carry"), self.new(self.elements, "element")

        def build() -> list[ob.Value]:
            return split_parts(self.step(carries, join_parts(self.elements, elements)))

        body = ob.CURRENT.get().body([*carries, *elements], build)
        inputs = split_parts([*self.operands.init, *self.operands.xs])
        rows = part_types(self.stacked)
        directions = {
            "scan_input_directions": [int(op.reverse)] * len(elements),
            "scan_output_directions": [int(op.reverse)] * len(rows),
        }
        dtypes = [x.dtype for x in carries] + [t.dtype for t in rows]
        results = ob.emit_several(
            "Scan", inputs, dtypes, body=body, num_scan_inputs=len(elements), **directions
        )
        return tuple(join_parts([*self.carries, *self.stacked], results))


class _Loop(_Body):
    """A loop of a number of steps, which a step may stop."""

    def results(self) -> tuple[Any, ...]:
        op = self.op
        n = self._steps()
        done = n if self.operands.count is None else ob.scalar(ob.as_length(self.operands.count))
        carries = self.new(self.carries, "carry")
        i, go_on = self._number()
        # If a step may stop the loop, the number of done steps is carried too.
        count = self.new([TensorType("int64", ())] if op.stops else [], "count")

        def build() -> Iterator[ob.Value]:
            index = done - 1 - i if op.reverse else i
            elements = [self._element(x, index) for x in split_parts(self.operands.xs)]
            outputs = self.step(carries, join_parts(self.elements, elements))
            yield ~outputs[-1] if op.stops else go_on
            yield from split_parts(outputs[: op.carries])
            yield from (x + 1 for x in count)
            yield from split_parts(op.rows_of(outputs))

        body = ob.CURRENT.get().body([i, go_on, *carries, *count], build)
        rows = part_types(self.stacked)
        dtypes = [x.dtype for x in (*carries, *count)] + [t.dtype for t in rows]
        start = [ob.constant(0, "int64")] * len(count)
        inputs = [done, ob.constant(True, "bool"), *split_parts(self.operands.init), *start]
        results = ob.emit_several("Loop", inputs, dtypes, body=body)
        last, steps_done = results[: len(carries)], results[len(carries) :][: len(count)]
        stacked = [
            self._pad_rows(self._with_carry_shape(y, i), t, n, done)
            for i, (y, t) in enumerate(
                zip(results[-len(rows) :] if rows else [], rows, strict=True)
            )
        ]
        types = [*self.carries, *self.stacked]
        return (*join_parts(types, [*last, *stacked]), *steps_done)

    def _steps(self) -> ob.Value:
        if self.op.steps is not None:
            return ob.constant(self.op.steps, "int64")
        return ob.scalar(ob.as_length(self.operands.steps))

    def _number(self) -> tuple[ob.Value, ob.Value]:
        (i,) = self.new([TensorType("int64", ())], "step")
        (go_on,) = self.new([TensorType("bool", ())], "go_on")
        return i, go_on

    def _element(self, x: ob.Value, index: ob.Value) -> ob.Value:
        return ob.emit("Gather", x, index, axis=0)

    def _with_carry_shape(self, y: ob.Value, i: int) -> ob.Value:
        """Reshape stacked carries to the carry's shape, which 0 steps leave unknown."""
        steps = split_nodes(self.op.rows_of(self.op.step.outputs))
        carried = dict(
            zip(split_nodes(self.op.step.outputs), split_parts(self.operands.init), strict=False)
        )
        if steps[i] not in carried or steps[i][0].type.is_static:
            return y
        number = ob.emit("Shape", y, dtype="int64", start=0, end=1)
        shape = ob.emit("Shape", carried[steps[i]], dtype="int64")
        return ob.emit("Reshape", y, ob.emit("Concat", number, shape, axis=0), allowzero=1)

    def _pad_rows(self, y: ob.Value, type: TensorType, n: ob.Value, done: ob.Value) -> ob.Value:
        """Pad rows with zeros for the steps that were not done."""
        op = self.op
        y = ob.reverse_axis(y, 0) if op.reverse else y
        if not op.stops and not op.counted:
            return y
        count = ob.emit("Shape", y, dtype="int64", start=0, end=1)
        before = ob.emit("Reshape", done, ob.vector([1])) - count if op.reverse else ob.vector([0])
        after = ob.emit("Reshape", n, ob.vector([1])) - count - before
        zeros = ob.vector([0] * (type.ndim - 1))
        widths = ob.emit("Concat", before, zeros, after, zeros, axis=0)
        return ob.emit("Pad", y, widths, ob.constant(0, y.dtype))


# Branches: an ``If`` for two, nested ``If``s for more.


@onnx.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Emit nested ``If``s, whose branches have no inputs: they read values of the scopes around."""
    types = [y.type for y in op.branches[0].outputs]
    components = _emit_branches(op.branches, index.cast("int64"), values, 0)
    return tuple(join_parts(types, components))


def _emit_branches(
    branches: Sequence[Graph], index: ob.Value, values: Sequence[Any], first: int
) -> list[ob.Value]:
    """Emit the branch of an index, among the branches from number ``first`` on."""
    if len(branches) == 1:
        return split_parts(emit_graph(branches[0], values))
    builder = ob.CURRENT.get()
    now = builder.body([], lambda: split_parts(emit_graph(branches[0], values)))
    later = builder.body([], lambda: _emit_branches(branches[1:], index, values, first + 1))
    dtypes = [x.dtype for x in _part_types(branches[0])]
    return ob.emit_several("If", [index <= first], dtypes, then_branch=now, else_branch=later)


def _part_types(branch: Graph) -> list[Any]:
    return part_types([y.type for y in branch.outputs])
