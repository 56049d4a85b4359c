"""A loop made from a step written with inputs: its carries' types settled, its captures found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Node, gathered, here, picks, replaced, where
from graphc.loop.step import Outer, closed, stand_in
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from graphc.loop.loop import Loop

__all__ = ["ENDLESS", "build", "settled"]

ENDLESS = 2**63 - 1
"""The number of steps of a loop that only its condition ends."""


def build(  # noqa: PLR0913, PLR0917 (what a loop is made of)
    like: Loop,
    steps: int | Tensor,
    count: Tensor | None,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    parameters: Sequence[Tensor],
    nexts: Sequence[Node],
    rows: Sequence[Node] = (),
    stop: Node | None = None,
) -> list[Tensor]:
    """The results of a loop: final carries, stacked rows, and the steps done where it can stop.

    Args:
        like: Has its name, direction and how its derivative is taken; the rest is found here.
        steps: How many there are, or the most where it can stop.
        count: How many of them are done; all by default.
        init: The carries at first.
        xs: The sequences, whose leading axis has as many elements as there are steps.
        parameters: Inputs that stand for the carries and the elements of the sequences.
        nexts: The carries after a step.
        rows: What a step adds to stacked results.
        stop: Whether to stop after this step, a bool scalar.

    Raises:
        DTypeError: A carry's dtype changes.
        ShapeError: A carry's rank or a length of it changes.
    """
    carries = len(init)
    init, parameters, outputs = settled(
        like, list(init), list(parameters), [*nexts, *rows, *([] if stop is None else [stop])]
    )
    outer: dict[Node, Outer] = {}
    for p, x in zip(parameters, [*init, *xs], strict=True):
        outer[p] = (x, len(outer) >= carries)
    # What only a branch needs is no constant of the loop: it is computed where that is chosen.
    step, consts = closed(parameters, gathered(outputs, parameters), outer)
    known = _number(steps)
    op = replace(
        like,
        step=step,
        carries=carries,
        sequences=len(xs),
        steps=known,
        counted=count is not None,
        stops=stop is not None,
    )
    first: list[Any] = [] if known is not None else [steps]
    counts = [] if count is None else [count]
    node = Node.make(op, *first, *counts, *init, *xs, *consts)
    return picks(node)


def _number(steps: int | Tensor) -> int | None:
    return steps if isinstance(steps, int) else None


def settled(
    like: Loop, init: list[Tensor], parameters: list[Tensor], outputs: list[Any]
) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    """All that is known of a carry's lengths at first or after a step holds at all times."""
    while True:
        swaps: dict[Node, Node] = {}
        for i, x in enumerate(init):
            new = as_tensor(outputs[i])
            _check(like, i, parameters[i], x, new)
            known = [
                n if m is None else m for n, m in zip(x.type.shape, new.type.shape, strict=True)
            ]
            init[i], outputs[i] = specify_shape(x, known), specify_shape(new, known)
            if parameters[i].type is not init[i].type:
                swaps[parameters[i]] = stand_in(init[i], parameters[i].name)
        if not swaps:
            return init, parameters, outputs
        parameters = [swaps.get(p, p) for p in parameters]  # type: ignore[misc]
        outputs = replaced(outputs, swaps)


def _check(like: Loop, i: int, parameter: Tensor, x: Tensor, new: Tensor) -> None:
    carry = f"{like.title}: the carry {i}" + (f" ({parameter.name})" if parameter.name else "")
    began = f"{carry} begins as {x.type!r}, and a step makes it {new.type!r}"
    if new.dtype != x.dtype:
        raise DTypeError(
            f"{began}.",
            f"Let it begin as {new.dtype}, or cast the result: .astype({x.dtype!r}).",
            new.where or where(here()),
        )
    pairs = zip(x.type.shape, new.type.shape, strict=False)
    if new.ndim != x.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        raise ShapeError(
            f"{began}: its shape changes.",
            "Let it begin with the shape that a step gives it.",
            new.where or where(here()),
        )
