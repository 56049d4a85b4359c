"""A loop for every element of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.errors import UnsupportedOperationError
from graphc.ir import Node, TensorType, toposort
from graphc.loop.build import build
from graphc.loop.step import LoopStep
from graphc.tensor.arrays.broadcast import repeated
from graphc.tensor.arrays.create import arange, zeros, zeros_like
from graphc.tensor.arrays.reduce import all, max
from graphc.tensor.arrays.vectorize import batched as over_batch
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.elementwise import greater_equal, less, less_equal, logical_not, where
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.loop.loop import Loop


def batched_loop(
    op: Loop, size: int | Tensor, flags: Sequence[bool], inputs: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The loop's results, each with the batch as its leading axis where it depends on it."""
    return _Batched(op, size, flags, inputs).results()


class _Batched:
    """A loop whose step works on a batch.

    Where elements of the batch do different numbers of steps, it goes on to the last of them, and
    those that are done keep what they have.
    """

    def __init__(
        self, op: Loop, size: int | Tensor, flags: Sequence[bool], inputs: Sequence[Tensor]
    ) -> None:
        self.op, self.size = op, size
        self.over: list[bool] = []
        self.given, self.flags = op.parts(inputs), op.parts(flags)
        if self.flags.steps:
            raise UnsupportedOperationError(
                f"{op.title}: its number of steps differs from one element of the batch to the "
                "next, and so would the shapes of its results.",
                "Give a number of steps that is the same for all, and stop with until.",
            )
        self._spread()
        self.ragged = bool(self.flags.count) or (op.stops and self.over[-1])
        if self.ragged and False in self.over[: op.carries]:
            # Those that are done keep their carries, so that each has its own.
            self.leads = [True] * op.carries
            self._follow()

    def _spread(self) -> None:
        """Which carries differ over the batch: those that begin so, or become so."""
        self.leads = list(self.flags.init)
        while True:
            self._follow()
            more = [a or b for a, b in zip(self.leads, self.over, strict=False)]
            if more == self.leads:
                return
            self.leads = more

    def _follow(self) -> None:
        """The step for the batch, given which carries differ over it."""
        step = self.op.opened()
        flags = [*self.leads, *self.flags.xs, *self.flags.consts]
        given = [*self.given.init, *self.given.xs, *self.given.consts]
        own = [*self.flags.init, *self.flags.xs, *self.flags.consts]
        swaps: dict[Any, Tensor] = {
            x: TensorType(x.dtype, (self._size_of(y, has), *x.type.shape))(x.name)
            for x, flag, y, has in zip(step.inputs, flags, given, own, strict=True)
            if flag
        }
        found = over_batch(step.outputs, swaps) if swaps else step.outputs
        self.over = [_is_over(y, swaps) for y in step.outputs]
        pairs = zip(step.outputs, found, self.over, strict=True)
        outputs = [new if flag else y for y, new, flag in pairs]
        consts = [swaps.get(x, x) for x in step.consts]
        step = step.with_parameters([swaps.get(x, x) for x in step.parameters])
        self.step = replace(step.with_outputs(outputs), consts=consts)

    def _size_of(self, given: Tensor, has: bool) -> int | None:
        """The size of the batch where it is known; of a value that has it, by its type too."""
        is_open = has and given.type.shape[0] is None
        return self.size if isinstance(self.size, int) and not is_open else None

    def results(self) -> tuple[Tensor, ...]:
        """The final carries, the stacked rows, and the number of steps done."""
        op, given, size, c = self.op, self.given, self.size, self.op.carries
        step = self.step.replaced(dict(zip(self.step.consts, given.consts, strict=True)))
        self.init = [
            repeated(y, size) if lead and not flag else y
            for y, lead, flag in zip(given.init, self.leads, self.flags.init, strict=True)
        ]
        self.xs = [
            moveaxis(y, 0, 1) if flag else y
            for y, flag in zip(given.xs, self.flags.xs, strict=True)
        ]
        nexts = [
            repeated(y, size) if lead and not over else y
            for y, lead, over in zip(step.nexts, self.leads, self.over, strict=False)
        ]
        self.step = replace(step, nexts=nexts)
        rows_over = [self.ragged or over for over in op.rows_of(self.over)]
        made = self._ragged() if self.ragged else self._even()
        stacked = [
            moveaxis(y, 1, 0) if over else y for y, over in zip(made[c:], rows_over, strict=False)
        ]
        return (*made[:c], *stacked, *made[c + op.stacked :])

    @property
    def _steps(self) -> Any:
        return self.op.steps_of(self.given)

    def _even(self) -> list[Tensor]:
        """The results where all elements of the batch do the same steps."""
        return build(self.op, self._steps, self.given.count, self.init, self.xs, self.step)

    def _ragged(self) -> list[Tensor]:
        """The results where each element of the batch has its own number of steps."""
        return self._stopping() if self.op.stops else self._counted()

    def _counted(self) -> list[Tensor]:
        index = TensorType("int64")("step")
        count: Any = self.given.count
        step = self._masked(less(index, count))
        return build(
            self.op,
            self._steps,
            max(count, initial=0),
            self.init,
            [*self.xs, arange(self._steps, dtype="int64")],
            replace(step, xs=[*step.xs, index]),
        )

    def _stopping(self) -> list[Tensor]:
        """With two carries more: who is done, and after how many steps."""
        size, count, stop = self.size, self.given.count, self.step.stop
        done, taken = TensorType("bool", (None,))("done"), TensorType("int64", (None,))("taken")
        active = logical_not(done)
        ends = done | (stop if stop.ndim else repeated(stop, size))
        begins = zeros((size,), "bool")
        if count is not None:
            begins = begins | less_equal(count, 0)
            ends = ends | greater_equal(taken + 1, count)
        c, r = self.op.carries, self.op.stacked
        step = self._masked(active)
        made = build(
            self.op,
            self._steps,
            None if count is None else max(count, initial=0),
            [*self.init, begins, zeros((size,), "int64")],
            self.xs,
            replace(
                step,
                carries=[*step.carries, done, taken],
                nexts=[*step.nexts, ends, taken + active],
                stop=all(ends),
            ),
        )
        return [*made[:c], *made[c + 2 : c + 2 + r], made[c + 1]]

    def _masked(self, active: Tensor) -> LoopStep:
        """The step where inactive elements of the batch keep their carries and give zero rows."""
        step = self.step
        nexts = [_chosen(active, *pair) for pair in zip(step.nexts, step.carries, strict=True)]
        over = self.over[self.op.carries :]
        wide = [
            y if flag else repeated(y, self.size) for y, flag in zip(step.rows, over, strict=False)
        ]
        rows = [_chosen(active, y, zeros_like(y)) for y in wide]
        return replace(step, nexts=nexts, rows=rows)


def _chosen(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    mask = expand_dims(active, tuple(range(1, new.ndim)))
    return where(mask, new, old)


def _is_over(y: Node, swaps: Any) -> bool:
    return any(x in swaps for x in toposort([y]))
