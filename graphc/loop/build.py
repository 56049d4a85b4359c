"""Building a loop from a step over inputs, and a loop's step over new inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Node, picks, to_gathered_form
from graphc.loop.step import LoopInputs, LoopStep, close_graph, stand_in
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
    """Return a loop's results: final carries, stacked rows, and the steps done if it can stop.

    Args:
        like: A loop with the label, the direction and the options of the derivative.
        steps: The number of steps, or their maximum if the loop can stop.
        count: The number of steps that are done; all by default.
        init: The carries before the first step.
        xs: The sequences, of ``steps`` elements along axis 0.
        step: The step; it may refer to any node outside.

    Raises:
        DTypeError: If a step changes a carry's dtype.
        ShapeError: If a step changes a carry's rank or length.
    """
    init, step = unify_lengths(like, list(init), step)
    sources = LoopInputs(None, None, init, xs, ())
    # A node that only a branch needs is no constant of the loop: the branch computes it.
    graph, consts = close_graph(
        step.parameters, to_gathered_form(step.outputs, step.parameters), step.outer(sources)
    )
    static_steps = steps if isinstance(steps, int) else None
    op = replace(
        like,
        step=graph,
        carries=len(init),
        sequences=len(xs),
        steps=static_steps,
        counted=count is not None,
        stops=step.stop is not None,
    )
    first: list[Any] = [] if static_steps is not None else [steps]
    counts = [] if count is None else [count]
    return picks(Node.make(op, *first, *counts, *init, *xs, *consts))


def unify_lengths(like: Loop, init: list[Tensor], step: LoopStep) -> tuple[list[Tensor], LoopStep]:
    """Specify the static lengths of each carry before and after the step wherever one is known."""
    while True:
        swaps: dict[Node, Node] = {}
        nexts = [as_tensor(y) for y in step.nexts]
        for i, (p, x, new) in enumerate(zip(step.carries, init, nexts, strict=True)):
            _check(like, i, p, x, new)
            shape = [
                n if m is None else m for n, m in zip(x.type.shape, new.type.shape, strict=True)
            ]
            init[i], nexts[i] = specify_shape(x, shape), specify_shape(new, shape)
            if p.type is not init[i].type:
                swaps[p] = stand_in(init[i], p.name)
        step = replace(step, nexts=nexts)
        if not swaps:
            return init, step
        step = step.with_parameters([swaps.get(p, p) for p in step.parameters]).replace_nodes(swaps)


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
    """A loop's step over new inputs, and the loop's own inputs.

    Attributes:
        op: The loop.
        operands: The inputs of the loop, by their roles.
    """

    op: Loop
    operands: LoopInputs[Any]

    @classmethod
    def of(cls, op: Loop, inputs: Sequence[Node]) -> Self:
        """Return a loop of these inputs with its step over new ones."""
        step = op.with_new_inputs()
        return cls(
            carries=step.carries,
            xs=step.xs,
            nexts=step.nexts,
            rows=step.rows,
            stop=step.stop,
            consts=step.consts,
            op=op,
            operands=op.parts(inputs),
        )

    @property
    def steps(self) -> int | Tensor:
        """The number of steps."""
        return self.op.steps_of(self.operands)

    @cached_property
    def constants(self) -> dict[Node, Node]:
        """The loop's constants by the step's inputs for them."""
        return dict(zip(self.consts, self.operands.consts, strict=True))

    def again(
        self,
        step: LoopStep,
        init: Sequence[Tensor] | None = None,
        xs: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Return the results with another step; carries and sequences default to this loop's."""
        inputs = self.operands
        init, xs = inputs.init if init is None else init, inputs.xs if xs is None else xs
        return build(
            self.op, self.steps, inputs.count, init, xs, step.replace_nodes(self.constants)
        )
