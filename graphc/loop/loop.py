"""The one loop: a step applied over and over, to what it carries and to elements of sequences.

Every scan, map, reduction, while and gradient of these is this operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError, GraphcError, InvalidGraphError, RuntimeShapeError
from graphc.ir import Graph, Node, Op, TensorType, TupleType
from graphc.ir.line import ATOM, PHRASE, Code, Writer, nth
from graphc.loop.batch import batched_loop
from graphc.loop.deciding import deciding
from graphc.loop.derivative import pulled_back, pushed_forward
from graphc.loop.evaluate import evaluate
from graphc.loop.step import LoopInputs, LoopStep, opened
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loop(Op):
    """A step applied ``steps`` times, or fewer: with a count, that often; or until it says stop.

    Its results are the final carries, the stacked rows, and how many steps were done where it can
    stop. Sequences and rows have ``steps`` elements whatever is done; rows of steps not done are
    zero. The first ones are done, in reverse from the last of these to the first.

    Attributes:
        step: Takes the carries, an element of each sequence and the constants; gives the carries
            after it, a row of each stacked result, and where ``stops`` whether to stop after it.
        carries: How many there are.
        sequences: How many there are.
        steps: How many steps there are; None where it is the first input.
        counted: Whether the next input says how many of these are done.
        stops: Whether a step can say that it is the last one.
        reverse: Whether it walks from the end to the start.
        truncate: How many of the last steps the pullback goes back through; None for all.
        recompute: Whether the pullback finds all from the carries again, and stores nothing else.
        unroll: How many steps a backend may write out at a time.
        label: What messages call it.
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

    @property
    def name(self) -> str:
        return "loop"

    def __repr__(self) -> str:
        known = [f"{self.label!r}"] if self.label else []
        known += [f"steps={self.steps}"] if self.steps is not None else []
        known += [f"carries={self.carries}", f"sequences={self.sequences}"]
        known += [name for name in ("counted", "stops", "reverse") if getattr(self, name)]
        return f"Loop({', '.join(known)})"

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

    def parts(self, given: Sequence[T]) -> LoopInputs[T]:
        """Its inputs, or a value for each, sorted by what they are for."""
        left: Iterator[T] = iter(given)
        steps = next(left) if self.steps is None else None
        count = next(left) if self.counted else None
        init = tuple(next(left) for _ in range(self.carries))
        xs = tuple(next(left) for _ in range(self.sequences))
        return LoopInputs(steps, count, init, xs, tuple(left))

    @property
    def formal(self) -> LoopStep:
        """The step over its formal parameters."""
        return self._sorted(self.step.inputs, self.step.outputs)

    def opened(self) -> LoopStep:
        """The step over new inputs."""
        return self._sorted(*opened(self.step))

    def _sorted(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> LoopStep:
        c, x = self.carries, self.carries + self.sequences
        stop = outputs[-1] if self.stops else None
        rows = self.rows_of(outputs)
        return LoopStep(inputs[:c], inputs[c:x], outputs[:c], rows, stop, inputs[x:])

    def graphs(self) -> tuple[Graph, ...]:
        return (self.step,)

    def passes(self) -> tuple[tuple[int | None, ...]]:
        own = self.carries + self.sequences
        first = (self.steps is None) + self.counted + own
        consts = range(first, first + len(self.step.inputs) - own)
        return ((*[None] * own, *consts),)

    def host_inputs(self) -> tuple[int, ...]:
        """The number of steps, and what decides a shape in a step."""
        first = () if self.steps is not None else (0,)
        return (*first, *(i for i in deciding(self) if i not in first))

    def with_graphs(self, graphs: Sequence[Graph]) -> Loop:
        (step,) = graphs
        return replace(self, step=step)

    def steps_of(self, given: LoopInputs[T]) -> int | T:
        """The number of steps, an integer or the input that has it."""
        return given.steps if self.steps is None else self.steps  # type: ignore[return-value]

    def rows_of(self, outputs: Sequence[Any]) -> Sequence[Any]:
        """The rows among a step's outputs, or the stacked ones among the results."""
        return outputs[self.carries :][: self.stacked]

    def infer(self, *types: TensorType) -> TupleType:
        given_types = self.parts(types)
        init, xs, consts = given_types.init, given_types.xs, given_types.consts
        expected = [x.type for x in self.step.inputs]
        given = [*init, *[x.with_shape(x.shape[1:]) for x in xs], *consts]
        for place, (a, b) in enumerate(zip(expected, given, strict=True)):
            if not a.admits(b):
                raise InvalidGraphError(
                    f"{self.title}: expected {a!r} as the step's argument {place}, got {b!r}."
                )
        outputs = [y.type for y in self.step.outputs]
        known = [x.shape[0] for x in xs if x.shape[0] is not None]
        n = self.steps if self.steps is not None else known[0] if known else None
        stacked = [y.with_shape((n, *y.shape)) for y in self.rows_of(outputs)]
        done = [TensorType("int64")] if self.stops else []
        return TupleType((*outputs[: self.carries], *stacked, *done))

    def perform(self, *values: Any) -> tuple[Any, ...]:
        return self.run(partial(evaluate, self.step), values)

    def run(
        self, step: Callable[..., Sequence[Any]], values: Sequence[Any]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """Run the loop on NumPy arrays, with the step as a function of these.

        Raises:
            ArgumentError: A negative number of steps.
            RuntimeShapeError: A sequence of another length, or a carry whose shape changes.
        """
        given = self.parts(values)
        n = self.number_of_steps(given)
        done = n if given.count is None else int(given.count)
        carry, rows = list(given.init), _StackedResults(self, n)
        taken = 0
        for i in range(done)[:: -1 if self.reverse else 1]:
            outputs = step(*carry, *[x[i, ...] for x in given.xs], *given.consts)
            self.check_carry(carry, outputs)
            carry = list(outputs[: self.carries])
            rows.put(i, self.rows_of(outputs))
            taken += 1
            if self.stops and outputs[-1]:
                break
        if rows.are_missing():
            rows.make(self._blank_rows(step, carry, given))
        count = [np.array(taken, np.int64)] if self.stops else []
        return (*carry, *rows.arrays, *count)

    def _blank_rows(
        self, step: Callable[..., Sequence[Any]], carry: Sequence[Any], given: LoopInputs[Any]
    ) -> Sequence[Any]:
        """Rows of the right shapes, where no step is done."""
        wanted = self.rows_of(self.step.outputs)
        if not all(y.type.is_static for y in wanted):
            blanks = [np.zeros(x.shape[1:], x.dtype) for x in given.xs]
            try:
                return self.rows_of(step(*carry, *blanks, *given.consts))
            except (GraphcError, ArithmeticError, LookupError, ValueError):
                pass  # a step of nothing but zeros may fail; no length is wrong where none is known
        known = {_plain(y): x for y, x in zip(self.step.outputs, carry, strict=False)}
        return [known.get(_plain(y), np.zeros([n or 0 for n in y.type.shape])) for y in wanted]

    def number_of_steps(self, given: LoopInputs[Any]) -> int:
        """The number of steps by the inputs' values, which must fit each other."""
        n = int(self.steps_of(given))
        if n < 0:
            raise ArgumentError(f"{self.title}: {n} steps.", "Use a number from 0 on.")
        for i, x in enumerate(given.xs):
            if x.shape[0] != n:
                raise RuntimeShapeError(
                    f"{self.title}: the sequence {i} has {x.shape[0]} elements for {n} steps.",
                    "Give as many elements as steps.",
                )
        return n

    def check_carry(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Raise where a carry's shape is another after a step."""
        for i, x in enumerate(before):
            if x.shape != after[i].shape:
                raise RuntimeShapeError(
                    f"{self.title}: the carry {i} has the shape {tuple(x.shape)} before a step, "
                    f"and {tuple(after[i].shape)} after it.",
                    "Let it begin with the shape that a step gives it.",
                )

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """A loop in the other direction."""
        return pulled_back(self, g, y, inputs)

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """A loop that carries the tangents beside the carries."""
        return pushed_forward(self, tangents, inputs)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> tuple[Any, ...]:
        """A loop over batches."""
        return batched_loop(self, size, batched, inputs)


def _plain(y: Node) -> Node:
    """It without what is said of its shape."""
    return y.inputs[0] if isinstance(y.op, SpecifyShape) else y


class _StackedResults:
    """The stacked results while they are filled: made at the first row, zero elsewhere."""

    def __init__(self, op: Loop, n: int) -> None:
        self.dtypes = [y.type.numpy_dtype for y in op.rows_of(op.step.outputs)]
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.n = n

    def are_missing(self) -> bool:
        return bool(self.dtypes) and not self.arrays

    def make(self, rows: Sequence[Any]) -> None:
        self.arrays = [
            np.zeros((self.n, *row.shape), dtype)
            for row, dtype in zip(rows, self.dtypes, strict=True)
        ]

    def put(self, i: int, rows: Sequence[Any]) -> None:
        if self.are_missing():
            self.make(rows)
        for array, row in zip(self.arrays, rows, strict=True):
            array[i] = row
