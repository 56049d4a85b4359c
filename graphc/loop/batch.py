"""The batch rule of a loop: one loop over carries that have a batch axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.errors import UnsupportedOperationError
from graphc.ir import TensorType, toposort
from graphc.loop.build import build
from graphc.loop.step import LoopStep
from graphc.tensor.arrays.broadcast import batch_of
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
    """Return the loop's results; those that depend on the batch have it as axis 0."""
    return _BatchedLoop(op, size, flags, inputs).results()


class _BatchedLoop:
    """A loop whose step works on a batch.

    Where the elements of the batch do different numbers of steps, the loop continues to the last of
    them, and the elements that are done keep their carries.
    """

    def __init__(
        self, op: Loop, size: int | Tensor, flags: Sequence[bool], inputs: Sequence[Tensor]
    ) -> None:
        self.op, self.size = op, size
        self.depends: list[bool] = []
        self.inputs, self.flags = op.parts(inputs), op.parts(flags)
        if self.flags.steps:
            raise UnsupportedOperationError(
                f"{op.title}: its number of steps differs from one element of the batch to the "
                "next, and so would the shapes of its results.",
                "Give a number of steps that is the same for all, and stop with until.",
            )
        self._find_batched_carries()
        self.ragged = bool(self.flags.count) or (op.stops and self.depends[-1])
        if self.ragged and False in self.depends[: op.carries]:
            # Elements that are done keep their carries, so that the carries differ.
            self.batched = [True] * op.carries
            self._batch_step()

    def _find_batched_carries(self) -> None:
        """Find the carries that differ over the batch from the first step or from a later one."""
        self.batched = list(self.flags.init)
        while True:
            self._batch_step()
            flags = [a or b for a, b in zip(self.batched, self.depends, strict=False)]
            if flags == self.batched:
                return
            self.batched = flags

    def _batch_step(self) -> None:
        step = self.op.with_new_inputs()
        flags = [*self.batched, *self.flags.xs, *self.flags.consts]
        arrays = [*self.inputs.init, *self.inputs.xs, *self.inputs.consts]
        own_flags = [*self.flags.init, *self.flags.xs, *self.flags.consts]
        swaps: dict[Any, Tensor] = {
            x: TensorType(x.dtype, (self._size_of(y, is_batched), *x.type.shape))(x.name)
            for x, flag, y, is_batched in zip(step.inputs, flags, arrays, own_flags, strict=True)
            if flag
        }
        batched = over_batch(step.outputs, swaps) if swaps else step.outputs
        self.depends = [not {*toposort([y])}.isdisjoint(swaps) for y in step.outputs]
        pairs = zip(step.outputs, batched, self.depends, strict=True)
        outputs = [wide if flag else y for y, wide, flag in pairs]
        consts = [swaps.get(x, x) for x in step.consts]
        step = step.with_parameters([swaps.get(x, x) for x in step.parameters])
        self.step = replace(step.with_outputs(outputs), consts=consts)

    def _size_of(self, x: Tensor, is_batched: bool) -> int | None:
        """Return the static size of the batch that an input's type can have, or None."""
        is_open = is_batched and x.type.shape[0] is None
        return self.size if isinstance(self.size, int) and not is_open else None

    def results(self) -> tuple[Tensor, ...]:
        op, inputs, size, c = self.op, self.inputs, self.size, self.op.carries
        step = self.step.replace_nodes(dict(zip(self.step.consts, inputs.consts, strict=True)))
        self.init = [
            batch_of(y, size) if lead and not flag else y
            for y, lead, flag in zip(inputs.init, self.batched, self.flags.init, strict=True)
        ]
        self.xs = [
            moveaxis(y, 0, 1) if flag else y
            for y, flag in zip(inputs.xs, self.flags.xs, strict=True)
        ]
        nexts = [
            batch_of(y, size) if lead and not depends else y
            for y, lead, depends in zip(step.nexts, self.batched, self.depends, strict=False)
        ]
        self.step = replace(step, nexts=nexts)
        rows_over = [self.ragged or depends for depends in op.rows_of(self.depends)]
        ys = self._loop_of_ragged_counts() if self.ragged else self._loop_of_equal_counts()
        stacked = [
            moveaxis(y, 1, 0) if depends else y
            for y, depends in zip(ys[c:], rows_over, strict=False)
        ]
        return (*ys[:c], *stacked, *ys[c + op.stacked :])

    @property
    def _steps(self) -> Any:
        return self.op.steps_of(self.inputs)

    def _loop_of_equal_counts(self) -> list[Tensor]:
        return build(self.op, self._steps, self.inputs.count, self.init, self.xs, self.step)

    def _loop_of_ragged_counts(self) -> list[Tensor]:
        return self._loop_with_conditions() if self.op.stops else self._loop_with_counts()

    def _loop_with_counts(self) -> list[Tensor]:
        index = TensorType("int64")("step")
        count: Any = self.inputs.count
        step = self._mask_step(less(index, count))
        return build(
            self.op,
            self._steps,
            max(count, initial=0),
            self.init,
            [*self.xs, arange(self._steps, dtype="int64")],
            replace(step, xs=[*step.xs, index]),
        )

    def _loop_with_conditions(self) -> list[Tensor]:
        """Carry two more arrays: which elements are done, and after how many steps."""
        size, count, stop = self.size, self.inputs.count, self.step.stop
        done, taken = TensorType("bool", (None,))("done"), TensorType("int64", (None,))("taken")
        active = logical_not(done)
        ends = done | (stop if stop.ndim else batch_of(stop, size))
        begins = zeros((size,), "bool")
        if count is not None:
            begins = begins | less_equal(count, 0)
            ends = ends | greater_equal(taken + 1, count)
        c, r = self.op.carries, self.op.stacked
        step = self._mask_step(active)
        ys = build(
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
        return [*ys[:c], *ys[c + 2 : c + 2 + r], ys[c + 1]]

    def _mask_step(self, active: Tensor) -> LoopStep:
        """Let inactive elements of the batch keep their carries and have zero rows."""
        step = self.step
        nexts = [_update(active, *pair) for pair in zip(step.nexts, step.carries, strict=True)]
        flags = self.depends[self.op.carries :]
        wide = [
            y if flag else batch_of(y, self.size) for y, flag in zip(step.rows, flags, strict=False)
        ]
        rows = [_update(active, y, zeros_like(y)) for y in wide]
        return replace(step, nexts=nexts, rows=rows)


def _update(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    mask = expand_dims(active, tuple(range(1, new.ndim)))
    return where(mask, new, old)
