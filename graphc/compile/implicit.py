"""Implicit arrays among a function's inputs and outputs: containers of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphc.compile.arguments import MISSING, In, Out, shown
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.expand import expanded
from graphc.implicit.form import Form
from graphc.implicit.node import Implicit, ImplicitTensor
from graphc.ir import Node, flatten, here, rebuild, where

__all__ = ["described", "implicit_inputs", "label_of", "opened_inputs", "opened_outputs"]


def implicit_inputs(containers: tuple[Any, ...]) -> list[ImplicitTensor]:
    """The inputs that are implicit arrays."""
    if not Implicit.used:
        return []
    given = [_variable(x) for x in flatten(containers)]
    return [x for x in given if isinstance(x, ImplicitTensor)]


def opened_inputs(containers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs in which symbolic implicit arrays are containers of their fields."""
    if not implicit_inputs(containers):
        return containers
    return rebuild(containers, [_fields(x) for x in flatten(containers)])  # type: ignore[no-any-return]


def opened_outputs(outputs: Any, wanted: Sequence[Node], ins: Sequence[In]) -> Any:
    """Outputs in which those that handlers keep implicit are containers of their fields."""
    values = expanded(wanted, [x.variable for x in ins])
    return rebuild(outputs, [y.array if isinstance(y, ImplicitTensor) else y for y in values])


def _variable(x: Any) -> Any:
    return x.variable if isinstance(x, In | Out) else x


def _fields(x: Any) -> Any:
    """An input as it is, or the container of inputs that an implicit one is."""
    wanted = x if isinstance(x, In) else In(x)
    if not isinstance(wanted.variable, ImplicitTensor):
        return x
    form, fields = wanted.variable.op.form, wanted.variable.inputs
    values = [MISSING] * len(fields)
    if wanted.value is not MISSING:
        own, values = Form.of(wanted.value)
        if own != form:
            raise ArgumentError(
                f"In({wanted.variable!r}, value=...): {shown(wanted.value)} is of another form.",
                f"Give {wanted.variable.array!r}: its class, static fields and nesting.",
                where(here()),
            )
    names = form.paths(wanted.label) if wanted.label else [None] * len(fields)
    return form.build(
        [
            replace(wanted, variable=field, name=name, value=value)
            for field, name, value in zip(fields, names, values, strict=True)
        ]
    )


def label_of(x: Any) -> str | None:
    """What keyword arguments and messages call an input; None for containers of several."""
    if isinstance(x, In):
        return x.label
    if not isinstance(x, ImplicitArray):
        return None
    form, ins = Form.of(x)
    return form.root([part.label if isinstance(part, In) else None for part in ins])


def described(x: Any, place: int) -> str:
    """An input in the list of them that messages have."""
    if isinstance(x, ImplicitArray):
        form, ins = Form.of(x)
        return f"{label_of(x) or place}: {form.build([part.variable.type for part in ins])!r}"
    ins = flatten(x)
    return ", ".join(f"{part.label or place}: {part.variable.type!r}" for part in ins)
