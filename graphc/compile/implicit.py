"""Implicit arrays among a function's inputs and outputs: containers of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphc.compile.arguments import MISSING, In, Out, shown
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.expand import expanded
from graphc.implicit.node import Implicit, ImplicitTensor
from graphc.implicit.treedef import Treedef
from graphc.ir import Node, flatten, rebuild, toposort


def implicit_inputs(containers: tuple[Any, ...]) -> list[ImplicitTensor]:
    """The inputs that are implicit arrays."""
    if not Implicit.used:
        return []
    given = [_variable(x) for x in flatten(containers)]
    return [x for x in given if isinstance(x, ImplicitTensor)]


Structures = tuple[tuple[str, Treedef], ...]
"""Names of implicit arrays, of their class where they have none, and what they are."""


def structures_in(nodes: Sequence[Node]) -> Structures:
    """The implicit arrays that nodes depend on, in the order in which they were made."""
    if not Implicit.used:
        return ()
    found = [x for x in toposort(nodes) if isinstance(x, ImplicitTensor)]
    found.sort(key=lambda x: x.serial)
    return tuple([(x.name or x.op.name, x.op.treedef) for x in found])


def opened_inputs(containers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs in which symbolic implicit arrays are containers of their fields."""
    if not implicit_inputs(containers):
        return containers
    return rebuild(containers, [_fields(x) for x in flatten(containers)])  # type: ignore[no-any-return]


def opened_outputs(outputs: Any, nodes: Sequence[Node], ins: Sequence[In]) -> Any:
    """Outputs in which implicit arrays, as handlers return them, are containers of their fields."""
    values = expanded(nodes, [x.variable for x in ins])
    return rebuild(outputs, [y.array if isinstance(y, ImplicitTensor) else y for y in values])


def _variable(x: Any) -> Any:
    return x.variable if isinstance(x, In | Out) else x


def _fields(x: Any) -> Any:
    """An input; an implicit array as the container of its fields' inputs."""
    parameter = x if isinstance(x, In) else In(x)
    if not isinstance(parameter.variable, ImplicitTensor):
        return x
    treedef, fields = parameter.variable.op.treedef, parameter.variable.inputs
    values = [MISSING] * len(fields)
    if parameter.value is not MISSING:
        own, values = Treedef.of(parameter.value)
        if own != treedef:
            raise ArgumentError(
                f"In({parameter.variable!r}, value=...): {shown(parameter.value)} has "
                "another form.",
                f"Give {parameter.variable.array!r}: its class, static fields and nesting.",
            )
    names = treedef.paths(parameter.label) if parameter.label else [None] * len(fields)
    return treedef.build(
        [
            replace(parameter, variable=field, name=name, value=value)
            for field, name, value in zip(fields, names, values, strict=True)
        ]
    )


def label_of(x: Any) -> str | None:
    """An input's name in keyword arguments and messages; None for a container of several."""
    if isinstance(x, In):
        return x.label
    if not isinstance(x, ImplicitArray):
        return None
    treedef, ins = Treedef.of(x)
    return treedef.root([part.label if isinstance(part, In) else None for part in ins])


def described(x: Any, place: int) -> str:
    """An input as messages list it."""
    if isinstance(x, ImplicitArray):
        treedef, ins = Treedef.of(x)
        return f"{label_of(x) or place}: {treedef.build([part.variable.type for part in ins])!r}"
    ins = flatten(x)
    return ", ".join(f"{part.label or place}: {part.expected!r}" for part in ins)
