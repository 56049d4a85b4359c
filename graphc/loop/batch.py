"""A loop for every element of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.errors import UnsupportedOperationError
from graphc.ir import Node, TensorType, replaced, toposort
from graphc.loop.build import build
from graphc.loop.step import opened
from graphc.tensor.axes import expand_dims, moveaxis
from graphc.tensor.broadcast import repeated
from graphc.tensor.create import arange, zeros
from graphc.tensor.elementwise import less, logical_not, where
from graphc.tensor.reduce import all, max
from graphc.tensor.create import zeros_like
from graphc.tensor.tensor import Tensor
from graphc.tensor.vectorize import batched as over_batch

if TYPE_CHECKING:
    from graphc.loop.loop import Loop

__all__ = ["batched_loop"]


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
        op = self.op
        fresh, outputs = opened(op.step)
        flags = [*self.leads, *self.flags.xs, *self.flags.consts]
        known = self.size if isinstance(self.size, int) else None
        self.parameters = [
            TensorType(x.dtype, (known, *x.type.shape))(x.name) if flag else x
            for x, flag in zip(fresh, flags, strict=True)
        ]
        swaps: dict[Any, Tensor] = {
            x: new for x, new in zip(fresh, self.parameters, strict=True) if new is not x
        }
        found = over_batch(outputs, swaps) if swaps else outputs
        self.over = [_is_over(y, swaps) for y in outputs]
        self.outputs: list[Any] = [
            new if flag else y for y, new, flag in zip(outputs, found, self.over, strict=True)
        ]

    def results(self) -> tuple[Tensor, ...]:
        op, given = self.op, self.given
        c, x = op.carries, op.carries + op.sequences
        outside: dict[Node, Node] = dict(zip(self.parameters[x:], given.consts, strict=True))
        outputs: list[Any] = replaced(self.outputs, outside)
        nexts = [
            repeated(y, self.size) if lead and not over else y
            for y, lead, over in zip(outputs, self.leads, self.over, strict=False)
        ]
        rows, rows_over = outputs[c : c + op.stacked], self.over[c : c + op.stacked]
        init = [
            repeated(y, self.size) if lead and not flag else y
            for y, lead, flag in zip(given.init, self.leads, self.flags.init, strict=True)
        ]
        xs = [
            moveaxis(y, 0, 1) if flag else y
            for y, flag in zip(given.xs, self.flags.xs, strict=True)
        ]
        steps = op.steps if given.steps is None else given.steps
        carries, elements = list(self.parameters[:c]), list(self.parameters[c:x])
        if self.ragged:
            made = self._ragged(steps, init, xs, carries, elements, nexts, rows, outputs[-1])
            rows_over = [True] * len(rows)
        else:
            stop = outputs[-1] if op.stops else None
            made = build(
                op,
                steps,
                given.count,
                init,
                xs,
                [*carries, *elements],
                nexts,
                rows,
                stop,  # type: ignore[arg-type]
            )
        stacked = [
            moveaxis(y, 1, 0) if over else y
            for y, over in zip(made[c : c + len(rows)], rows_over, strict=True)
        ]
        return (*made[:c], *stacked, *made[c + len(rows) :])

    def _ragged(
        self,
        steps: Any,
        init: list[Tensor],
        xs: list[Tensor],
        carries: list[Tensor],
        elements: list[Tensor],
        nexts: list[Tensor],
        rows: list[Tensor],
        stop: Tensor,
    ) -> list[Tensor]:
        """The results where each element of the batch has its own number of steps."""
        op, given = self.op, self.given
        count = given.count
        extra: list[Tensor] = []
        if op.stops:
            done, taken = TensorType("bool", (None,))("done"), TensorType("int64", (None,))("taken")
            active = logical_not(done)
            if count is not None:
                raise UnsupportedOperationError(f"{op.title}: both a count and a condition.")
            stops = repeated(stop, self.size) if stop.ndim == 0 else stop
            extra = [done, taken]
            init = [*init, zeros((self.size,), "bool"), zeros((self.size,), "int64")]
            ends = [done | stops, taken + active]
            whole: Tensor | None = all(ends[0])
        else:
            index = TensorType("int64")("step")
            elements, xs = [*elements, index], [*xs, arange(steps, dtype="int64")]
            active, ends, whole = less(index, count), [], None
            count = max(count)
        kept = [_chosen(active, new, old) for new, old in zip(nexts, carries, strict=True)]
        shown = [
            _chosen(active, y if over else repeated(y, self.size), None)
            for y, over in zip(rows, self.over[op.carries :], strict=False)
        ]
        made = build(
            op,
            steps,
            count,
            init,
            xs,
            [*carries, *extra, *elements],
            [*kept, *ends],
            shown,
            whole,
        )
        if not op.stops:
            return made
        c = op.carries
        return [*made[:c], *made[c + 2 : c + 2 + len(rows)], made[c + 1]]


def _chosen(active: Tensor, new: Tensor, old: Tensor | None) -> Tensor:
    mask = expand_dims(active, tuple(range(1, new.ndim)))
    return where(mask, new, zeros_like(new) if old is None else old)  # type: ignore[no-any-return]


def _is_over(y: Node, swaps: Any) -> bool:
    return any(x in swaps for x in toposort([y]))
