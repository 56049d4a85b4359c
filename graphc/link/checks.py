"""Checks of arguments and operands at run time, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from graphc.errors import ArgumentError, GraphcError, RuntimeShapeError
from graphc.ir import Check, Input, Node
from graphc.ir.law import source_axis

T = TypeVar("T")


def admit(place: int, node: Node, value: Any) -> None:
    """Raise where an argument's rank or a static length is not its input's."""
    shape = node.type.shape
    if len(value.shape) == len(shape) and all(
        n is None or n == m for n, m in zip(shape, value.shape, strict=True)
    ):
        return
    expected = node.op.expected if isinstance(node.op, Input) else repr(node.type)
    raise ArgumentError(
        f"The argument {repr(node.name) if node.name else place}: expected {expected}, got an "
        f"array of shape {tuple(value.shape)}.",
        "Give it that rank and those lengths, or declare the input differently.",
        node.where,
    )


def equal_lengths(node: Node, check: Check, operands: Sequence[Any]) -> None:
    """Raise where two lengths that must be equal are not."""
    a, m, b, n = check
    left, right = operands[a].shape, operands[b].shape
    if left[m] == right[n]:
        return
    one, other = _name(node.inputs[a], m), _name(node.inputs[b], n)
    remedy = (
        "Make them equal. An axis is repeated only where its length is statically 1, as in "
        "gt.tensor(shape=(1, None)) or x[None, :]."
    )
    raise RuntimeShapeError(
        f"{node!r}: axis {m}{one} of an operand of shape {tuple(left)} and axis {n}{other} of one "
        f"of shape {tuple(right)} differ in length.",
        "Make them equal: dimensions of one name have one length." if one and other else remedy,
        node.where,
    )


def _name(x: Node, axis: int) -> str:
    """Return the name of an axis in messages, which the input that it comes from gives it."""
    while not isinstance(x.op, Input):
        source = source_axis(x, axis)
        if source is None:
            return ""
        x, axis = source
    return f" ({x.op.axes[axis]!r})" if x.op.axes else ""


def naming_step(title: str, step: Callable[..., T], *, numbered: bool = False) -> Callable[..., T]:
    """The step of a loop, whose errors name the loop and the number of the step."""
    numbers = count()

    def run(*values: Any) -> T:
        i = next(numbers)
        try:
            return step(*values)
        except GraphcError as error:
            place = f"{title}, step {i}" if numbered else f"In a step of {title}"
            problem = f"{place}: {error.problem}"
            raise type(error)(problem, error.remedy, error.where) from error

    return run
