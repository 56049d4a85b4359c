"""How it is told what changed, from what to what, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.compile.recompile.cause import CAPTURED, Cause, Change
from graphc.compile.recompile.naming import Name, name_of
from graphc.compile.recompile.place import frames
from graphc.ir import Constant, Leaf, Node, TensorType, where

__all__ = [
    "Signature",
    "Told",
    "seconds_as_text",
    "told",
    "told_of_dtypes",
    "told_of_lengths",
    "told_of_mode",
]

SHOWN = 3
"""How many changes are told."""
NAMES = 64
"""How many names are remembered of a place."""
VALUES = 12
"""How many values of a length are told."""


@dataclass(frozen=True)
class Told:
    """What changed, in words.

    Attributes:
        cause: The kind of it.
        lines: What changed, from what to what; a line for each change.
        fix: What to do about it.
        about: The variables and lines, without values.
        baked: Whether what changed is part of the program.
    """

    cause: Cause
    lines: tuple[str, ...]
    fix: str
    about: tuple[str, ...]
    baked: bool = False

    def __str__(self) -> str:
        return f"{self.cause}: {'; '.join(self.lines)}"

    @property
    def changed(self) -> str:
        """The lines, each with what kind of change it is."""
        kind = f"{self.cause}, baked in" if self.baked else self.cause
        return "\n           ".join(f"{line}   [{kind}]" for line in self.lines)


def told(
    changes: Sequence[Change], inputs: Sequence[Node], names: dict[Any, Name], *, quiet: bool
) -> Told:
    """Changes in words.

    Args:
        changes: Of one kind, or of those that an input would do away with; at least one.
        inputs: The graph's.
        names: What values were found to be called at the place, which is added to.
        quiet: Whether nobody is told of it, so that a name that is not sure is as good.
    """
    first = changes[0]
    known = [x.name for x in inputs if x.name]
    found = [(change, _name(change, known, names, quiet)) for change in changes[:SHOWN]]
    lines = dict.fromkeys(_line(change, name) for change, name in found)
    baked = first.cause in CAPTURED and first.old is not first.new
    about = tuple(str(name) for _, name in found if name is not None)
    return Told(first.cause, tuple(lines), _fix(found), about, baked)


def _name(change: Change, known: Sequence[str], names: dict[Any, Name], quiet: bool) -> Name | None:
    node, user = change.node, change.user
    if node is None or change.cause not in CAPTURED:
        return None
    if change.parameter and change.cause == "Python scalar":
        return Name(change.parameter, node.where or "")
    sites = [(id(x.site[0]), x.site[1]) for x in (node, user) if x is not None and x.site]
    key = (*sites, change.parameter, _taken_as(node, user))
    found = names.get(key)
    if found is None or not (found.is_sure or quiet):
        value = node.op.array if isinstance(node.op, Leaf) else change.new
        if isinstance(node.op, Constant):  # A change of its type holds types alone.
            value = node.op.value
        try:
            found = name_of(node, user, value, frames(), known)
        except Exception:  # what users' objects do when looked at must not end a compilation
            found = None
        found = found or Name("", node.where or "", is_sure=False)
        if len(names) < NAMES:
            names[key] = found
    return found


def _taken_as(node: Node, user: Node | None) -> Any:
    """Which of an expression's values it is: there may be several, as the bounds of a clip."""
    if user is None or node not in user.inputs:
        return None
    return user.op.name, user.inputs.index(node)


def _line(change: Change, name: Name | None) -> str:
    match change.cause:
        case "shape" | "dtype":
            return _line_of_input(change)
        case "structure":
            return _line_of_structure(change)
    called = _called(name)
    if change.cause == "captured value" and change.old is change.new:
        return f"{called}  {change.new!r} of other values"
    values = f"{_text(change.old, change)} -> {_text(change.new, change)}"
    return f"{called}  {values}"


def _called(name: Name | None) -> str:
    if name is None or not name.text:
        return f"a value {name}" if name is not None and name.home else "a value"
    if name.is_sure:
        return str(name)
    return f"what comes from {name}" if name.is_variable else f"a value in {name}"


def _line_of_input(change: Change) -> str:
    assert change.node is not None
    called = _named(change.node, change.place)
    if change.cause == "dtype":
        return f"{called}  {change.old} -> {change.new}"
    axes = [i for i, (a, b) in enumerate(zip(change.old, change.new, strict=True)) if a != b]
    moved = ", ".join(f"axis {i}: {_n(change.old[i])} -> {_n(change.new[i])}" for i in axes)
    return f"{called}  {moved}"


def _n(length: int | None) -> str:
    return "?" if length is None else str(length)


def _label(node: Node | None, place: int) -> str:
    return (node.name if node is not None else None) or f"argument {place}"


def _line_of_structure(change: Change) -> str:
    if change.place >= 0:
        return f"{change.old} -> {change.new}"
    parts = [f"{what} {ops}" for what, ops in (("new:", change.new), ("gone:", change.old)) if ops]
    at = where(change.node.site) if change.node is not None else None
    text = ", ".join(parts) or "other results"
    return f"{text}{f' ({at})' if at else ''}"


def _text(value: Any, change: Change) -> str:
    if isinstance(value, TensorType):
        return repr(value)
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, separator=", ", threshold=6).replace("\n", "")
    if isinstance(value, np.generic):
        return str(value)
    if change.parameter == "entries":
        return f"[{', '.join(map(repr, value))}]"
    text = repr(value)
    text = text if len(text) <= 40 else f"{text[:37]}..."
    return f"{change.parameter}={text}" if change.cause == "static parameter" else text


def _fix(found: Sequence[tuple[Change, Name | None]]) -> str:
    cause = found[0][0].cause
    its = [*dict.fromkeys(_it(name) for change, name in found if change.cause == cause)]
    it, inputs = " and ".join(its), "inputs" if its[1:] else "an input"
    marked = ", ".join(f"graphc.runtime({'...' if x == 'it' or ' ' in x else x})" for x in its)
    once = "build the function once for each value and keep it"
    integers = "integer inputs" if its[1:] else "an integer input"
    fixes = {
        "static parameter": f"make {it} {integers}, as gt.lscalar() is, or {once}.",
        "captured value": f"pass {it} as {inputs}, and build the function once.",
        "Python scalar": f"pass {it} as {inputs}, or mark {'them' if its[1:] else 'it'} {marked}.",
        "dtype": "cast to one dtype before, or keep the function of each dtype.",
        "shape": "declare that length None, or pad to a few lengths, such as powers of two.",
        "structure": "build the function once and keep it; graphc.scan stands for a Python loop.",
        "mode": "build the function once for each mode, and keep it.",
    }
    return fixes[cause]


def _it(name: Name | None) -> str:
    if name is None or not (name.is_variable and name.text):
        return "it"
    return name.text if name.is_sure else f"what comes from {name.text}"


def told_of_mode(old: str, new: str) -> Told:
    """Another mode, in words."""
    line = f"Mode({old}) -> Mode({new})"
    return Told("mode", (line,), _fix([(Change("mode"), None)]), ())


Signature = tuple[tuple[tuple[int | None, ...], ...], tuple[tuple[int, Any], ...]]
"""The shape of each argument, and the values of those that decide shapes."""


def told_of_lengths(
    seen: Sequence[Signature], inputs: Sequence[Node], *, declared: bool = False
) -> Told:
    """The lengths and values that a function was compiled for, in words.

    Args:
        seen: Two at least.
        inputs: The graph's.
        declared: Whether they are part of the inputs' types.
    """
    lengths: dict[tuple[int, int], dict[Any, None]] = {}
    values: dict[int, dict[Any, None]] = {}
    for shapes, known in seen:
        for i, shape in enumerate(shapes[: len(inputs)]):
            for axis, n in enumerate(shape):
                lengths.setdefault((i, axis), {})[n] = None
        for i, value in known:
            values.setdefault(i, {})[value] = None
    by_value = _most_varied(values)
    if by_value:
        names = [f"the value of {_named(inputs[i], i)}" for i in by_value]
        lines = [f"{x}: {_seen(values[i])}" for x, i in zip(names, by_value, strict=True)]
        first = f"`{_label(inputs[by_value[0]], by_value[0])}`"
        fix = f"round {first} up to a few values, such as powers of two."
        return Told("shape", tuple(lines), fix, tuple(names))
    axes = _most_varied(lengths)
    names = [f"axis {axis} of {_named(inputs[i], i)}" for i, axis in axes]
    lines = [f"{x}: {_seen(lengths[key])}" for x, key in zip(names, axes, strict=True)]
    first = f"axis {axes[0][1]} of `{_label(inputs[axes[0][0]], axes[0][0])}`" if axes else "it"
    fix = f"pad {first} to a few lengths, such as powers of two."
    fix = f"declare that length None, or {fix}" if declared else fix
    return Told("shape", tuple(lines), fix, tuple(names))


def told_of_dtypes(seen: Sequence[Sequence[str]], inputs: Sequence[Node]) -> Told:
    """The dtypes that inputs were declared with, in words."""
    found: dict[int, dict[Any, None]] = {}
    for dtypes in seen:
        for i, dtype in enumerate(dtypes[: len(inputs)]):
            found.setdefault(i, {})[dtype] = None
    varied = _most_varied(found)
    names = [_named(inputs[i], i) for i in varied]
    lines = [f"{name}: {_seen(found[i])}" for name, i in zip(names, varied, strict=True)]
    return Told("dtype", tuple(lines), _fix([(Change("dtype"), None)]), tuple(names))


def _named(node: Node, place: int) -> str:
    """An input, and the line that made it."""
    return f"`{_label(node, place)}`" + (f" ({node.where})" if node.where else "")


def _most_varied(table: Mapping[Any, Mapping[Any, None]]) -> list[Any]:
    """What had more than one value, and no other had more."""
    varied = sorted((key for key in table if len(table[key]) > 1), key=lambda k: -len(table[k]))
    return [key for key in varied if len(table[key]) == len(table[varied[0]])][:SHOWN]


def _seen(values: Mapping[Any, None]) -> str:
    shown = ["?" if value is None else str(value) for value in values]
    return ", ".join(shown[:VALUES]) + (", ..." if len(shown) > VALUES else "")


def seconds_as_text(seconds: float) -> str:
    """A time, to two digits or so.

    Example:
        >>> seconds_as_text(1.14), seconds_as_text(0.0123), seconds_as_text(0.00042)
        ('1.1 s', '12 ms', '0.4 ms')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.002 else f"{seconds * 1e3:.1f} ms"
