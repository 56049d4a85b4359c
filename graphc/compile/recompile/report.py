"""The report of a needless compilation: the changes, with old and new values, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.compile.recompile.call_site import user_frames
from graphc.compile.recompile.difference import REPLACEABLE, Cause, Change, SourceName
from graphc.ir import Constant, Leaf, Node, TensorType
from graphc.site import where

if TYPE_CHECKING:
    from graphc.compile.mode import Mode

SHOWN = 3
"""The most changes that are shown."""
MAX_NAMES = 64
"""The most names that a call site's history holds."""
VALUES = 12
"""The most values of a length that are shown."""


@dataclass(frozen=True)
class Report:
    """A change as text.

    Attributes:
        cause: The kind of change.
        lines: The old and new value of each change.
        fix: The remedy.
        about: The variables and lines, without values.
        baked: Whether the changed value is part of the program.
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
        """The lines, each with the kind of change."""
        kind = f"{self.cause}, baked in" if self.baked else self.cause
        return "\n           ".join(f"{line}   [{kind}]" for line in self.lines)


# Changes between two graphs.


def of_changes(
    changes: Sequence[Change], inputs: Sequence[Node], names: dict[Any, SourceName], *, quiet: bool
) -> Report:
    """Report changes, at least one, of one cause or of the replaceable ones.

    ``names`` are the names of the call site so far; new ones are added. A ``quiet`` report is never
    shown, and uses uncertain names too.
    """
    first = changes[0]
    input_names = [x.name for x in inputs if x.name]
    pairs = [(change, _name(change, input_names, names, quiet)) for change in changes[:SHOWN]]
    lines = dict.fromkeys(_line(change, name) for change, name in pairs)
    baked = first.cause in REPLACEABLE and first.old is not first.new
    about = tuple(str(name) for _, name in pairs if name is not None)
    return Report(first.cause, tuple(lines), _fix(pairs), about, baked)


def _name(
    change: Change, input_names: Sequence[str], names: dict[Any, SourceName], quiet: bool
) -> SourceName | None:
    node, user = change.node, change.user
    if node is None or change.cause not in REPLACEABLE:
        return None
    if change.parameter and change.cause == "Python scalar":
        return SourceName(change.parameter, node.where or "")
    sites = [(id(x.site[0]), x.site[1]) for x in (node, user) if x is not None and x.site]
    # An expression may have several values, such as the bounds of a clip.
    role = (
        (user.op.name, user.inputs.index(node))
        if user is not None and node in user.inputs
        else None
    )
    key = (*sites, change.parameter, role)
    source_name = names.get(key)
    if source_name is None or not (source_name.is_sure or quiet):
        from graphc.compile.recompile.naming import name_of  # noqa: PLC0415 (for reports alone)

        value = node.op.array if isinstance(node.op, Leaf) else change.new
        if isinstance(node.op, Constant):  # A change of its type holds types alone.
            value = node.op.value
        try:
            source_name = name_of(node, user, value, user_frames(), input_names)
        except Exception:  # a user's object that raises must not end a compilation
            source_name = None
        source_name = source_name or SourceName("", node.where or "", is_sure=False)
        if len(names) < MAX_NAMES:
            names[key] = source_name
    return source_name


def _line(change: Change, name: SourceName | None) -> str:
    match change.cause:
        case "dtype":
            return f"{_input_text(change.node, change.position)}  {change.old} -> {change.new}"
        case "shape":
            pairs = enumerate(zip(change.old, change.new, strict=True))
            moved = [f"axis {i}: {_text(a)} -> {_text(b)}" for i, (a, b) in pairs if a != b]
            return f"{_input_text(change.node, change.position)}  {', '.join(moved)}"
        case "structure":
            return _line_of_structure(change)
    if change.cause == "captured value" and change.old is change.new:
        return f"{_source(name)}  {change.new!r} of other values"
    return f"{_source(name)}  {_value(change.old, change)} -> {_value(change.new, change)}"


def _source(name: SourceName | None) -> str:
    if name is None or not name.text:
        return f"a value {name}" if name is not None and name.scope else "a value"
    if name.is_sure:
        return str(name)
    return f"what comes from {name}" if name.is_variable else f"a value in {name}"


def _line_of_structure(change: Change) -> str:
    if change.position >= 0:
        return f"{change.old} -> {change.new}"
    texts = [f"{word} {ops}" for word, ops in (("new:", change.new), ("gone:", change.old)) if ops]
    at = where(change.node.site) if change.node is not None else None
    return (", ".join(texts) or "other results") + (f" ({at})" if at else "")


def _value(value: Any, change: Change) -> str:
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


def _fix(named_changes: Sequence[tuple[Change, SourceName | None]]) -> str:
    cause = named_changes[0][0].cause
    its = [*dict.fromkeys(_it(name) for change, name in named_changes if change.cause == cause)]
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
    }
    return fixes[cause]


def _it(name: SourceName | None) -> str:
    if name is None or not (name.is_variable and name.text):
        return "it"
    return name.text if name.is_sure else f"what comes from {name.text}"


def of_mode(old: str, new: str) -> Report:
    """Report a change of the mode."""
    return Report("mode", (f"Mode({old}) -> Mode({new})",), "", ())


def of_structures(old: Any, new: Any) -> Report | None:
    """Report implicit arrays that differ in static fields alone; None otherwise.

    Args:
        old: Names and ``Treedef``s of the implicit arrays of an earlier function.
        new: Names and ``Treedef``s of the implicit arrays of this function.
    """
    if len(old) != len(new) or [name for name, _ in old] != [name for name, _ in new]:
        return None
    lines: dict[str, None] = {}
    for (name, before), (_, after) in zip(old, new, strict=True):
        changed = before.static_changes(after)
        if changed is None:
            return None
        pairs = [(f"{field}={a!r}", f"{field}={b!r}") for field, a, b in changed]
        kind = after.cls.__name__
        if pairs:
            before_text, after_text = [", ".join(side) for side in zip(*pairs, strict=True)]
            title = kind if name == kind else f"`{name}` ({kind})"
            lines[f"{title}  {before_text} -> {after_text}"] = None
    if not lines:
        return None
    fix = "build the function once for each, as static fields are part of a program, and keep it."
    return Report("static parameter", tuple(lines), fix, tuple(name for name, _ in new), True)


# Changes among all functions or executables that used up a budget.

CallShapes = tuple[tuple[tuple[int | None, ...], ...], tuple[tuple[int, Any], ...]]
"""The shape of each argument, and the values of those that decide shapes."""

Table = dict[Any, dict[Any, None]]
"""By key, the values that occurred, in order."""


def of_shapes(
    seen: Sequence[CallShapes],
    inputs: Sequence[Node],
    *,
    declared: bool = False,
    mode: Mode | None = None,
) -> Report:
    """Report the lengths and values of several calls, or those declared in the inputs' types.

    In a ``mode``, the remedy is its option that pads lengths, where it has one.
    """
    lengths: Table = {}
    values: Table = {}
    for shapes, deciding in seen:
        for i, shape in enumerate(shapes[: len(inputs)]):
            for axis, n in enumerate(shape):
                lengths.setdefault((i, axis), {})[n] = None
        for i, value in deciding:
            values.setdefault(i, {})[value] = None

    def fix(first: int | None) -> str:
        name = _label(inputs[first], first)  # type: ignore[index, arg-type]
        return (
            f"where a slice begins at `{name}`, write x[{name} + gt.arange(n)] with one n; where "
            f"`{name}` is a length, round it up to a few values, such as powers of two."
        )

    def pad(first: tuple[int, int] | None) -> str:
        it = "it" if first is None else f"axis {first[1]} of `{_label(inputs[first[0]], first[0])}`"
        none = "declare that length None, or " if declared else _option(mode)
        return f"{none}pad {it} to a few lengths, such as powers of two."

    if _most_varied_keys(values):
        return _report("shape", values, lambda i: f"the value of {_input_text(inputs[i], i)}", fix)
    return _report(
        "shape", lengths, lambda key: f"axis {key[1]} of {_input_text(inputs[key[0]], key[0])}", pad
    )


def _option(mode: Mode | None) -> str:
    """Return how the mode's option that pads lengths helps; empty if the mode has none."""
    if mode is None or "lengths" not in mode.backend.options:
        return ""
    if mode.options.get("lengths") == "buckets":
        return "see in f.plan() why lengths are exact, or "
    return f"use Mode({mode.name!r}, lengths='buckets'), or "


def of_dtypes(seen: Sequence[Sequence[str]], inputs: Sequence[Node]) -> Report:
    """Report the dtypes that inputs were declared with."""
    table: Table = {}
    for dtypes in seen:
        for i, dtype in enumerate(dtypes[: len(inputs)]):
            table.setdefault(i, {})[dtype] = None
    fix = _fix([(Change("dtype"), None)])
    return _report("dtype", table, lambda i: _input_text(inputs[i], i), lambda first: fix)


def _report(
    cause: Cause, table: Table, title: Callable[[Any], str], fix: Callable[[Any], str]
) -> Report:
    keys = _most_varied_keys(table)
    names = tuple(title(key) for key in keys)
    lines = [f"{name}: {_list_values(table[key])}" for name, key in zip(names, keys, strict=True)]
    return Report(cause, tuple(lines), fix(keys[0] if keys else None), names)


def _most_varied_keys(table: Mapping[Any, Mapping[Any, None]]) -> list[Any]:
    varied = sorted((key for key in table if len(table[key]) > 1), key=lambda k: -len(table[k]))
    return [key for key in varied if len(table[key]) == len(table[varied[0]])][:SHOWN]


def _list_values(values: Mapping[Any, None]) -> str:
    shown = [_text(value) for value in values]
    return ", ".join(shown[:VALUES]) + (", ..." if len(shown) > VALUES else "")


def _text(length: Any) -> str:
    return "?" if length is None else str(length)


def _label(node: Node | None, index: int) -> str:
    return (node.name if node is not None else None) or f"argument {index}"


def _input_text(node: Node | None, index: int) -> str:
    line = node.where if node is not None else None
    return f"`{_label(node, index)}`" + (f" ({line})" if line else "")


def seconds_as_text(seconds: float) -> str:
    """Return a time with about two digits.

    Example:
        >>> seconds_as_text(1.14), seconds_as_text(0.0123), seconds_as_text(0.00042)
        ('1.1 s', '12 ms', '0.4 ms')
    """
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.002 else f"{seconds * 1e3:.1f} ms"
