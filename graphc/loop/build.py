"""Loops put together of a step written with inputs, and taken apart into one again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Node, gathered, picks
from graphc.loop.step import LoopInputs, LoopStep, closed, stand_in
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.loop.loop import Loop

ENDLESS = 2**63 - 1
"""The number of steps of a loop that only its condition ends."""


def build(
    like: Loop,
    steps: int | Tensor,
    count: Tensor | None,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    step: LoopStep,
) -> list[Tensor]:
    """The results of a loop: final carries, stacked rows, and the steps done where it can stop.

    Args:
        like: Has its name, direction and how its derivative is taken; the rest is found here.
        steps: How many there are, or the most where it can stop.
        count: How many of them are done; all by default.
        init: The carries before the first step.
        xs: The sequences, whose leading axis has as many elements as there are steps.
        step: The step; it may refer to any node from outside.

    Raises:
        DTypeError: A carry's dtype changes.
        ShapeError: A carry's rank or a length of it changes.
    """
    init, step = settled(like, list(init), step)
    sources = LoopInputs(None, None, init, xs, ())
    # What only a branch needs is no constant of the loop: it is computed where that is chosen.
    graph, consts = closed(
        step.parameters, gathered(step.outputs, step.parameters), step.outer(sources)
    )
    known = steps if isinstance(steps, int) else None
    op = replace(
        like,
        step=graph,
        carries=len(init),
        sequences=len(xs),
        steps=known,
        counted=count is not None,
        stops=step.stop is not None,
    )
    first: list[Any] = [] if known is not None else [steps]
    counts = [] if count is None else [count]
    return picks(Node.make(op, *first, *counts, *init, *xs, *consts))


def settled(like: Loop, init: list[Tensor], step: LoopStep) -> tuple[list[Tensor], LoopStep]:
    """First carries and a step of which all that is known of a carry's lengths holds throughout."""
    while True:
        swaps: dict[Node, Node] = {}
        nexts = [as_tensor(y) for y in step.nexts]
        for i, (p, x, new) in enumerate(zip(step.carries, init, nexts, strict=True)):
            _check(like, i, p, x, new)
            known = [
                n if m is None else m for n, m in zip(x.type.shape, new.type.shape, strict=True)
            ]
            init[i], nexts[i] = specify_shape(x, known), specify_shape(new, known)
            if p.type is not init[i].type:
                swaps[p] = stand_in(init[i], p.name)
        step = replace(step, nexts=nexts)
        if not swaps:
            return init, step
        step = step.with_parameters([swaps.get(p, p) for p in step.parameters]).replaced(swaps)


def _check(like: Loop, i: int, parameter: Tensor, x: Tensor, new: Tensor) -> None:
    carry = f"{like.title}: the carry {i}" + (f" ({parameter.name})" if parameter.name else "")
    began = f"{carry} begins as {x.type!r}, and a step makes it {new.type!r}"
    if new.dtype != x.dtype:
        raise DTypeError(
            f"{began}.",
            f"Let it begin as {new.dtype}, or cast the result: .astype({x.dtype!r}).",
            new.where,
        )
    pairs = zip(x.type.shape, new.type.shape, strict=False)
    if new.ndim != x.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        raise ShapeError(
            f"{began}: its shape changes.",
            "Let it begin with the shape that a step gives it.",
            new.where,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedLoop(LoopStep):
    """A loop taken apart: its step over new inputs, and the loop's own inputs.

    Attributes:
        op: The loop.
        given: Its inputs.
    """

    op: Loop
    given: LoopInputs[Any]

    @classmethod
    def of(cls, op: Loop, inputs: Sequence[Node]) -> Self:
        """A loop of these inputs, taken apart."""
        step = op.opened()
        return cls(
            carries=step.carries,
            xs=step.xs,
            nexts=step.nexts,
            rows=step.rows,
            stop=step.stop,
            consts=step.consts,
            op=op,
            given=op.parts(inputs),
        )

    @property
    def steps(self) -> int | Tensor:
        """The number of steps."""
        return self.op.steps_of(self.given)

    @cached_property
    def constants(self) -> dict[Node, Node]:
        """The constants, by what stands for them in the step."""
        return dict(zip(self.consts, self.given.consts, strict=True))

    def again(
        self,
        step: LoopStep,
        init: Sequence[Tensor] | None = None,
        xs: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """The results of a loop of as many steps, whose step is made of parts of this one.

        Args:
            step: Its step; it stops where this has a condition.
            init: Its carries before the first step; those of this loop by default.
            xs: Its sequences; those of this loop by default.
        """
        given = self.given
        init, xs = given.init if init is None else init, given.xs if xs is None else xs
        return build(self.op, self.steps, given.count, init, xs, step.replaced(self.constants))
