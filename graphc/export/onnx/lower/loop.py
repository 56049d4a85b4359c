"""Loops: a ``Scan`` over sequences, or a ``Loop`` where there are none or a step can stop it.

The body reads constants from around it, so that it takes its carries and elements alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphc.export.onnx.builder import (
    CURRENT,
    Complex,
    Value,
    as_length,
    constant,
    emit,
    flipped,
    scalar,
    several,
    vector,
)
from graphc.export.onnx.lowering import evaluated, onnx
from graphc.ir import Node, TensorType, is_complex, real_dtype
from graphc.loop.loop import Loop
from graphc.loop.subgraph import Subgraph
from graphc.tensor.core.specify import SpecifyShape


def flat(values: Sequence[Any]) -> list[Value]:
    """The real arrays among some, and the parts of complex ones."""
    found = []
    for x in values:
        found += [x.re, x.im] if isinstance(x, Complex) else [x]
    return found


def part_types(types: Sequence[TensorType]) -> list[TensorType]:
    """The types of these."""
    found = []
    for t in types:
        complex = is_complex(t.dtype)
        found += [t.with_dtype(real_dtype(t.dtype))] * 2 if complex else [t]
    return found


def shaped(types: Sequence[TensorType], parts: Sequence[Value]) -> list[Any]:
    """The arrays of types, given what ``flat`` gave."""
    left = iter(parts)
    return [
        Complex(next(left), next(left)).typed(t) if is_complex(t.dtype) else next(left).typed(t)
        for t in types
    ]


def flat_nodes(nodes: Sequence[Node]) -> list[tuple[Node, int]]:
    """The real arrays that nodes are, or the numbers of the parts of complex ones."""
    return [(x, i) for x in map(unspecified, nodes) for i in range(1 + is_complex(x.type.dtype))]


def unspecified(y: Node) -> Node:
    """It without what is said of its shape."""
    return y.inputs[0] if isinstance(y.op, SpecifyShape) else y


@onnx.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Any:
    """Written out."""
    return tuple(evaluated(op.graph, values))


@onnx.lower(Loop)
def loop(op: Loop, *values: Any) -> Any:
    """A loop over whole sequences is a scan; onnxruntime's takes none of no elements."""
    is_filled = any(x.type.shape[0] for x in op.parts(values).xs)
    if is_filled and not op.stops and not op.counted:
        return _Scan(op, values).results()
    return _Loop(op, values).results()


class _Body:
    """A loop, with its inputs and the types of what its body takes and gives."""

    def __init__(self, op: Loop, values: Sequence[Any]) -> None:
        self.op = op
        self.given = op.parts(values)
        inputs = [x.type for x in op.step.inputs]
        outputs = [y.type for y in op.step.outputs]
        self.carries = inputs[: op.carries]
        self.elements = inputs[op.carries :][: op.sequences]
        self.rows = op.rows_of(outputs)

    def new(self, types: Sequence[TensorType], what: str) -> list[Value]:
        """A name for each real array that the body takes."""
        builder = CURRENT.get()
        return [Value(builder.name(what), t.dtype, t) for t in part_types(types)]

    def step(self, carries: Sequence[Value], elements: Sequence[Any]) -> list[Any]:
        """The outputs of a step."""
        inputs = [*shaped(self.carries, carries), *elements, *self.given.consts]
        return evaluated(self.op.step, inputs)

    @property
    def stacked(self) -> list[TensorType]:
        return [t.with_shape((None, *t.shape)) for t in self.rows]


class _Scan(_Body):
    """A loop over whole sequences."""

    def results(self) -> tuple[Any, ...]:
        op = self.op
        carries, elements = self.new(self.carries, "carry"), self.new(self.elements, "element")

        def build() -> list[Value]:
            return flat(self.step(carries, shaped(self.elements, elements)))

        body = CURRENT.get().body([*carries, *elements], build)
        inputs = flat([*self.given.init, *self.given.xs])
        rows = part_types(self.stacked)
        directions = {
            "scan_input_directions": [int(op.reverse)] * len(elements),
            "scan_output_directions": [int(op.reverse)] * len(rows),
        }
        dtypes = [x.dtype for x in carries] + [t.dtype for t in rows]
        found = several(
            "Scan", inputs, dtypes, body=body, num_scan_inputs=len(elements), **directions
        )
        return tuple(shaped([*self.carries, *self.stacked], found))


class _Loop(_Body):
    """A loop of a number of steps, or until a step says stop."""

    def results(self) -> tuple[Any, ...]:
        op = self.op
        n = self._steps()
        done = n if self.given.count is None else scalar(as_length(self.given.count))
        carries = self.new(self.carries, "carry")
        i, go_on = self._number()
        # How many steps are done is carried too, where a step may stop.
        count = self.new([TensorType("int64", ())] if op.stops else [], "count")

        def build() -> Iterator[Value]:
            place = done - 1 - i if op.reverse else i
            elements = [self._element(x, place) for x in flat(self.given.xs)]
            outputs = self.step(carries, shaped(self.elements, elements))
            yield ~outputs[-1] if op.stops else go_on
            yield from flat(outputs[: op.carries])
            yield from (x + 1 for x in count)
            yield from flat(op.rows_of(outputs))

        body = CURRENT.get().body([i, go_on, *carries, *count], build)
        rows = part_types(self.stacked)
        dtypes = [x.dtype for x in (*carries, *count)] + [t.dtype for t in rows]
        start = [constant(0, "int64")] * len(count)
        inputs = [done, constant(True, "bool"), *flat(self.given.init), *start]
        found = several("Loop", inputs, dtypes, body=body)
        last, taken = found[: len(carries)], found[len(carries) :][: len(count)]
        stacked = [
            self._placed(self._of_no_steps(y, i), t, n, done)
            for i, (y, t) in enumerate(zip(found[-len(rows) :] if rows else [], rows, strict=True))
        ]
        types = [*self.carries, *self.stacked]
        return (*shaped(types, [*last, *stacked]), *taken)

    def _steps(self) -> Value:
        if self.op.steps is not None:
            return constant(self.op.steps, "int64")
        return scalar(as_length(self.given.steps))

    def _number(self) -> tuple[Value, Value]:
        (i,) = self.new([TensorType("int64", ())], "step")
        (go_on,) = self.new([TensorType("bool", ())], "go_on")
        return i, go_on

    def _element(self, x: Value, place: Value) -> Value:
        return emit("Gather", x, place, axis=0)

    def _of_no_steps(self, y: Value, i: int) -> Value:
        """Rows in the shape of the carry that they are: of no steps, their lengths are unknown."""
        steps = flat_nodes(self.op.rows_of(self.op.step.outputs))
        carried = dict(zip(flat_nodes(self.op.step.outputs), flat(self.given.init), strict=False))
        if steps[i] not in carried or steps[i][0].type.is_static:
            return y
        number = emit("Shape", y, dtype="int64", start=0, end=1)
        shape = emit("Shape", carried[steps[i]], dtype="int64")
        return emit("Reshape", y, emit("Concat", number, shape, axis=0), allowzero=1)

    def _placed(self, y: Value, type: TensorType, n: Value, done: Value) -> Value:
        """Rows at their places, with zeros for steps that are not done."""
        op = self.op
        y = flipped(y, 0) if op.reverse else y
        if not op.stops and not op.counted:
            return y
        taken = emit("Shape", y, dtype="int64", start=0, end=1)
        before = emit("Reshape", done, vector([1])) - taken if op.reverse else vector([0])
        after = emit("Reshape", n, vector([1])) - taken - before
        zeros = vector([0] * (type.ndim - 1))
        widths = emit("Concat", before, zeros, after, zeros, axis=0)
        return emit("Pad", y, widths, constant(0, y.dtype))
