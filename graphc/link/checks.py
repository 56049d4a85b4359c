"""Checks of arguments and operands at run time, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

from graphc.errors import ArgumentError, GraphcError, RuntimeShapeError
from graphc.ir import Check, Input, Node
from graphc.ir.law import source_axis
from graphc.tensor.core.elementwise import Elementwise

T = TypeVar("T")


def admit(position: int, node: Node, value: Any) -> None:
    """Raise if an argument's rank or a static length differs from its input's."""
    shape = node.type.shape
    # A length is a symbol, without a shape, while JAX exports a program.
    own = getattr(value, "shape", ())
    if len(own) == len(shape) and all(n is None or n == m for n, m in zip(shape, own, strict=True)):
        return
    raise ArgumentError(
        f"The argument {repr(node.name) if node.name else position}: expected {node.type_text()}, "
        f"got an array of shape {tuple(own)}.",
        "Give it that rank and those lengths, or declare the input differently.",
        node.where,
    )


def compare_lengths(
    checks: Iterable[Check],
    arrays: Sequence[Any],
    compare: Callable[[Any, Any, Callable[[int, int], GraphcError]], None],
    error: Callable[[Check, int, int], GraphcError],
) -> None:
    """Compare lengths of arrays that must be equal; ``error`` takes a check and both lengths."""
    for check in checks:
        a, m, b, n = check
        compare(arrays[a].shape[m], arrays[b].shape[n], partial(error, check))


def unequal_operands(
    node: Node, operands: Sequence[Any], check: Check, length: int, other_length: int
) -> RuntimeShapeError:
    """Return the error of two lengths of operands that must be equal and differ."""
    a, m, b, n = check
    a_shape, b_shape = tuple(operands[a].shape), tuple(operands[b].shape)
    if not all(isinstance(each, int) for each in (*a_shape, *b_shape)):
        problem = f"lengths that must be equal are {length} and {other_length}."
        return RuntimeShapeError(f"{node!r}: {problem}", "Make them equal.", node.where)
    a_name, b_name = _axis_name(node.inputs[a], m), _axis_name(node.inputs[b], n)
    remedy = "Make them equal."
    if a_name == b_name != "":
        remedy += " Dimensions of one name have one length."
    elif isinstance(node.op, Elementwise) and 1 in {a_shape[m], b_shape[n]}:
        remedy += (
            " An axis is repeated only where its length is statically 1, as in "
            "gt.tensor(shape=(1, None)), graphc.shared(value, shape=(1, None)) or x[None, :]."
        )
    return RuntimeShapeError(
        f"{node!r}: axis {m}{a_name} of an operand of shape {a_shape} and axis {n}{b_name} of one "
        f"of shape {b_shape} differ in length.",
        remedy,
        node.where,
    )


def unequal_arguments(
    inputs: Sequence[Node], check: Check, length: int, other_length: int
) -> RuntimeShapeError:
    """Return the error of two lengths of arguments that have one name and differ."""
    a, m, b, n = check
    first, second = (inputs[i].name or f"argument {i}" for i in (a, b))
    if a == b:
        first, second = f"axis {m} of {first}", f"axis {n} of {second}"
    name = inputs[a].op.dims[m]  # type: ignore[attr-defined]
    return RuntimeShapeError(
        f"{name} is {length} in {first} and {other_length} in {second}.",
        "Lengths of one name are equal in all arguments: pass such arrays, or use two names.",
        inputs[b].where,
    )


def _axis_name(x: Node, axis: int) -> str:
    """Return an axis's name in brackets, from the input that the axis comes from, or ""."""
    while not isinstance(x.op, Input):
        source = source_axis(x, axis)
        if source is None:
            return ""
        x, axis = source
    name = (x.op.axes or x.op.dims or {axis: None})[axis]
    return f" ({name!r})" if name else ""


def naming_step(title: str, step: Callable[..., T], *, numbered: bool = False) -> Callable[..., T]:
    """Return the step of a loop, with errors that name the loop and the number of the step."""
    numbers = count()

    def run(*values: Any) -> T:
        i = next(numbers)
        try:
            return step(*values)
        except GraphcError as error:
            prefix = f"{title}, step {i}" if numbered else f"In a step of {title}"
            problem = f"{prefix}: {error.problem}"
            named = type(error)(problem, error.remedy, error.where)
            raise named.with_traceback(error.__traceback__) from error.__cause__

    return run
