"""The loop operation: a step applied repeatedly to carries and to elements of sequences.

Every scan, map, reduction, while loop and gradient of these is this operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError, GraphcError, InvalidGraphError, RuntimeShapeError
from graphc.ir import Graph, Node, Op, TensorType, TupleType
from graphc.ir.lengths import common, require
from graphc.ir.line import ATOM, PHRASE, Code, Writer, nth
from graphc.loop.batch import batched_loop
from graphc.loop.derivative import pull_back_loop, push_forward_loop
from graphc.loop.evaluate import evaluate
from graphc.loop.step import LoopInputs, LoopStep, with_new_inputs
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loop(Op):
    """A step applied ``steps`` times, or fewer with a count or a stop condition.

    The results are the final carries, the stacked rows, and the number of steps done if the loop
    can stop. Sequences and rows always have ``steps`` elements; rows of steps not done are zero.
    The steps done are the first ones; in reverse, the loop goes from the last of them to the first.

    Attributes:
        step: A graph from the carries, an element of each sequence and the constants to the next
            carries, a row of each stacked result, and if ``stops`` whether this step is the last.
        carries: The number of carries.
        sequences: The number of sequences.
        steps: The number of steps; None if the first input has it.
        counted: Whether the next input is the number of steps that are done.
        stops: Whether the step has a stop condition.
        reverse: Whether the loop goes from the last step to the first.
        truncate: The number of last steps that the pullback goes back through; None for all.
        recompute: Whether the pullback stores the carries alone, and recomputes all else.
        unroll: The number of steps that a backend may unroll.
        label: The loop's name in messages.
    """

    step: Graph
    carries: int = 0
    sequences: int = 0
    steps: int | None = None
    counted: bool = False
    stops: bool = False
    reverse: bool = False
    truncate: int | None = None
    recompute: bool = False
    unroll: int = 1
    label: str | None = None
    name = "loop"

    def __repr__(self) -> str:
        arguments = [f"{self.label!r}"] if self.label else []
        arguments += [f"steps={self.steps}"] if self.steps is not None else []
        arguments += [f"carries={self.carries}", f"sequences={self.sequences}"]
        arguments += [name for name in ("counted", "stops", "reverse") if getattr(self, name)]
        return f"Loop({', '.join(arguments)})"

    @property
    def title(self) -> str:
        """The loop's name in messages."""
        return self.label or "loop"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        return self.title, ATOM

    def result_as_code(self, index: int, inputs: Sequence[Node], write: Writer) -> Code:
        if index == self.carries + self.stacked:
            return f"the number of steps of {self.title}", PHRASE
        if index >= self.carries:
            return f"the {nth(index - self.carries)} result of {self.title}", PHRASE
        carry = "last carry" if self.carries == 1 else f"last value of carry {index}"
        return f"the {carry} of {self.title}", PHRASE

    @property
    def stacked(self) -> int:
        """The number of stacked results."""
        return len(self.step.outputs) - self.carries - self.stops

    def parts(self, values: Sequence[T]) -> LoopInputs[T]:
        """Sort the loop's inputs, or one value for each, by role."""
        remaining: Iterator[T] = iter(values)
        steps = next(remaining) if self.steps is None else None
        count = next(remaining) if self.counted else None
        init = tuple(next(remaining) for _ in range(self.carries))
        xs = tuple(next(remaining) for _ in range(self.sequences))
        return LoopInputs(steps, count, init, xs, tuple(remaining))

    @property
    def formal(self) -> LoopStep:
        """The step over its formal parameters."""
        return self._sort(self.step.inputs, self.step.outputs)

    def with_new_inputs(self) -> LoopStep:
        """Return the step over new inputs."""
        return self._sort(*with_new_inputs(self.step))

    def _sort(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> LoopStep:
        c, x = self.carries, self.carries + self.sequences
        stop = outputs[-1] if self.stops else None
        rows = self.rows_of(outputs)
        return LoopStep(inputs[:c], inputs[c:x], outputs[:c], rows, stop, inputs[x:])

    def graphs(self) -> tuple[Graph, ...]:
        return (self.step,)

    def passes(self) -> tuple[tuple[int | None, ...]]:
        varying = self.carries + self.sequences
        first = (self.steps is None) + self.counted + varying
        consts = range(first, first + len(self.step.inputs) - varying)
        return ((*[None] * varying, *consts),)

    def with_graphs(self, graphs: Sequence[Graph]) -> Loop:
        (step,) = graphs
        return replace(self, step=step)

    def steps_of(self, inputs: LoopInputs[T]) -> int | T:
        """Return the number of steps: an integer, or the input that has it."""
        return inputs.steps if self.steps is None else self.steps  # type: ignore[return-value]

    def rows_of(self, outputs: Sequence[Any]) -> Sequence[Any]:
        """Return the rows among a step's outputs, or the stacked arrays among the results."""
        return outputs[self.carries :][: self.stacked]

    def infer(self, *types: TensorType) -> TupleType:
        inputs = self.parts(types)
        init, xs, consts = inputs.init, inputs.xs, inputs.consts
        expected = [x.type for x in self.step.inputs]
        arguments = [*init, *[x.with_shape(x.shape[1:]) for x in xs], *consts]
        for i, (a, b) in enumerate(zip(expected, arguments, strict=True)):
            if not a.admits(b):
                raise InvalidGraphError(
                    f"{self.title}: expected {a!r} as the step's argument {i}, got {b!r}."
                )
        outputs = [y.type for y in self.step.outputs]
        # A carry keeps its lengths, and there is a row for each step; the loop compares both.
        carried = [_with_symbols(y, x) for y, x in zip(outputs, init, strict=False)]
        steps = self.steps if inputs.steps is None else inputs.steps.value
        require(steps)
        n = common(steps, *[x.shape[0] for x in xs])
        stacked = [y.with_shape((n, *y.shape)) for y in self.rows_of(outputs)]
        count = [TensorType("int64")] if self.stops else []
        return TupleType((*carried, *stacked, *count))

    def perform(self, *values: Any) -> tuple[Any, ...]:
        return self.run(partial(evaluate, self.step), values)

    def run(
        self, step: Callable[..., Sequence[Any]], values: Sequence[Any]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """Run the loop on NumPy arrays, with the step as a function of arrays.

        Raises:
            ArgumentError: If the number of steps is negative.
            RuntimeShapeError: If a sequence has another length, or a carry's shape changes.
        """
        inputs = self.parts(values)
        n = self.number_of_steps(inputs)
        done = n if inputs.count is None else int(inputs.count)
        carry, rows = list(inputs.init), _StackedResults(self, n)
        taken = 0
        for i in range(done)[:: -1 if self.reverse else 1]:
            outputs = step(*carry, *[x[i, ...] for x in inputs.xs], *inputs.consts)
            self.check_carry(carry, outputs)
            carry = list(outputs[: self.carries])
            rows.put(i, self.rows_of(outputs))
            taken += 1
            if self.stops and outputs[-1]:
                break
        if rows.are_missing():
            blanks = [np.zeros(x.shape[1:], x.dtype) for x in inputs.xs]
            rows.make(self.blank_shapes(carry, lambda: step(*carry, *blanks, *inputs.consts)))
        count = [np.array(taken, np.int64)] if self.stops else []
        return (*carry, *rows.arrays, *count)

    def blank_shapes(
        self, carry: Sequence[Any], step: Callable[[], Sequence[Any]]
    ) -> list[tuple[int, ...]]:
        """Return the shapes of the rows of a loop without steps.

        Args:
            carry: The initial carries.
            step: A function that returns a step's outputs for zero elements. It is called if a
                row's type lacks a length, and may fail, as it may index an empty array.
        """
        wanted = self.rows_of(self.step.outputs)
        if not all(y.type.is_static for y in wanted):
            with suppress(GraphcError, ArithmeticError, LookupError, ValueError):
                return [tuple(y.shape) for y in self.rows_of(step())]
        carried = {
            _without_specify(y): x.shape for y, x in zip(self.step.outputs, carry, strict=False)
        }
        return [
            carried.get(_without_specify(y), tuple(n or 0 for n in y.type.shape)) for y in wanted
        ]

    def number_of_steps(self, inputs: LoopInputs[Any]) -> int:
        """Return the number of steps; raise if a sequence has another length."""
        n = int(self.steps_of(inputs))
        if n < 0:
            raise self.negative_steps(n)
        for i, x in enumerate(inputs.xs):
            if x.shape[0] != n:
                raise self.unequal_sequence(i, x.shape[0], n)
        return n

    def negative_steps(self, n: Any, where: str | None = None) -> ArgumentError:
        """Return the error for a negative number of steps."""
        return ArgumentError(f"{self.title}: {n} steps.", "Use a number from 0 on.", where)

    def unequal_sequence(
        self, i: int, length: Any, n: Any, where: str | None = None
    ) -> RuntimeShapeError:
        """Return the error for sequence ``i``, whose length is not the number of steps."""
        return RuntimeShapeError(
            f"{self.title}: the sequence {i} has {length} elements for {n} steps.",
            "Give as many elements as steps.",
            where,
        )

    def check_carry(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Raise if a step changes a carry's shape."""
        for i, x in enumerate(before):
            if x.shape != after[i].shape:
                raise RuntimeShapeError(
                    f"{self.title}: the carry {i} has the shape {tuple(x.shape)} before a step, "
                    f"and {tuple(after[i].shape)} after it.",
                    "Let it begin with the shape that a step gives it.",
                )

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        return pull_back_loop(self, g, y, inputs)

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        return push_forward_loop(self, tangents, inputs)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> tuple[Any, ...]:
        return batched_loop(self, size, batched, inputs)


def _with_symbols(y: TensorType, x: TensorType) -> TensorType:
    """Return a type with the symbols of another for its unknown lengths."""
    pairs = zip(y.shape, x.shape, strict=True)
    return y.with_shape(tuple(m if n is None and not isinstance(m, int) else n for n, m in pairs))


def _without_specify(y: Node) -> Node:
    return y.inputs[0] if isinstance(y.op, SpecifyShape) else y


class _StackedResults:
    """The stacked results of a running loop: allocated at the first row, zero elsewhere."""

    def __init__(self, op: Loop, n: int) -> None:
        self.dtypes = [y.type.numpy_dtype for y in op.rows_of(op.step.outputs)]
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.n = n

    def are_missing(self) -> bool:
        return bool(self.dtypes) and not self.arrays

    def make(self, shapes: Sequence[tuple[int, ...]]) -> None:
        pairs = zip(shapes, self.dtypes, strict=True)
        self.arrays = [np.zeros((self.n, *shape), dtype) for shape, dtype in pairs]

    def put(self, i: int, rows: Sequence[Any]) -> None:
        if self.are_missing():
            self.make([row.shape for row in rows])
        for array, row in zip(self.arrays, rows, strict=True):
            array[i] = row
