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
    """Return the inputs that are implicit arrays."""
    if not Implicit.used:
        return []
    variables = [_variable(x) for x in flatten(containers)]
    return [x for x in variables if isinstance(x, ImplicitTensor)]


Structures = tuple[tuple[str, Treedef], ...]
"""Names of implicit arrays, or of their classes, and their tree definitions."""


def structures_in(nodes: Sequence[Node]) -> Structures:
    """Return the implicit arrays that nodes depend on, in the order of the graph."""
    if not Implicit.used:
        return ()
    arrays = [x for x in toposort(nodes) if isinstance(x, ImplicitTensor)]
    return tuple([(x.name or x.op.name, x.op.treedef) for x in arrays])


def unpack_inputs(containers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs in which implicit arrays are containers of their fields."""
    if not implicit_inputs(containers):
        return containers
    return rebuild(containers, [_fields(x) for x in flatten(containers)])  # type: ignore[no-any-return]


def unpack_outputs(outputs: Any, nodes: Sequence[Node], ins: Sequence[In]) -> Any:
    """Return outputs in which implicit arrays are containers of their fields."""
    values = expanded(nodes, [x.variable for x in ins])
    return rebuild(outputs, [y.array if isinstance(y, ImplicitTensor) else y for y in values])


def _variable(x: Any) -> Any:
    return x.variable if isinstance(x, In | Out) else x


def _fields(x: Any) -> Any:
    """Return an input, or an implicit array as the container of its fields' inputs."""
    parameter = x if isinstance(x, In) else In(x)
    if not isinstance(parameter.variable, ImplicitTensor):
        return x
    treedef, fields = parameter.variable.op.treedef, parameter.variable.inputs
    values = [MISSING] * len(fields)
    if parameter.value is not MISSING:
        value_treedef, values = Treedef.of(parameter.value)
        if value_treedef != treedef:
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
    """Return an input's name in keyword arguments and messages; None for other containers."""
    if isinstance(x, In):
        return x.label
    if not isinstance(x, ImplicitArray):
        return None
    treedef, ins = Treedef.of(x)
    return treedef.root([part.label if isinstance(part, In) else None for part in ins])


def describe_input(x: Any, index: int) -> str:
    """Return the text of an input in messages."""
    if isinstance(x, ImplicitArray):
        treedef, ins = Treedef.of(x)
        return f"{label_of(x) or index}: {treedef.build([part.variable for part in ins])!r}"
    ins = flatten(x)
    return ", ".join(f"{part.label or index}: {part.expected}" for part in ins)
