"""Programs: variables, calls of rows of the table, outputs; rendered as NumPy's or graphc's code.

A program is a list of assignments. Both languages are source text, run statement by statement, so
that the script which reports a fault is literally what was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from tests.fuzz.row import Row

__all__ = ["LAYOUTS", "Body", "Call", "Language", "Program", "Variable", "laid", "used"]

Language = Literal["numpy", "traced", "graphc"]
"""NumPy's code, also with a record of roundings and of lengths that broadcast; graphc's code."""

LAYOUTS = ("C", "F", "reversed", "strided", "readonly")
"""How the elements of an argument lie in memory."""


def laid(x: np.ndarray, layout: str) -> np.ndarray:
    """The same array with its elements elsewhere."""
    if layout == "F" and x.ndim:
        return np.asfortranarray(x)
    if layout == "reversed" and x.ndim:
        return x[::-1].copy()[::-1]
    if layout == "strided" and x.ndim:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    if layout == "readonly":
        x = x.copy()
        x.flags.writeable = False
    return x


@dataclass(frozen=True, eq=False)
class Variable:
    """An input, or a shared variable, and its value.

    Attributes:
        name: In both languages.
        array: The value; a call of the program may have others.
        static: What graphc is told of the shape.
        layout: One of ``LAYOUTS``.
        update: For a shared variable, the name of its next value; itself if it keeps its value.
    """

    name: str
    array: np.ndarray
    static: tuple[int | None, ...]
    layout: str = "C"
    update: str | None = None

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    def declared(self, more: str = "") -> str:
        """The symbolic array, as graphc's code."""
        if self.update is None:
            return f"gt.tensor({self.name!r}, dtype={self.dtype!r}, shape={self.static}{more})"
        return f"graphc.shared({self.name}_value, name={self.name!r}, shape={self.static})"

    def value_text(self) -> str:
        shape = f".reshape({self.array.shape})" if 0 in self.array.shape else ""
        text = f"np.array({self.array.tolist()!r}, {self.dtype!r}){shape}"
        return text if self.layout == "C" else f"laid({text}, {self.layout!r})"


@dataclass(frozen=True)
class Body:
    """The function of a loop or a branch, which may also use what was assigned before it."""

    parameters: tuple[str, ...]
    calls: tuple[Call, ...]
    results: tuple[str, ...]
    until: str | None = None

    def names(self, values: bool = False) -> set[str]:
        """The names it may need; those alone whose values it needs."""
        found = {*self.results} | ({self.until} if self.until else set())
        return found.union(*(call.names(values) for call in self.calls))

    def render(self, name: str, language: Language) -> Iterator[str]:
        yield f"def {name}({', '.join(self.parameters)}):"
        for call in self.calls:
            yield from ("    " + line for line in call.render(language))
        results = self.results[0] if len(self.results) == 1 else f"[{', '.join(self.results)}]"
        if self.until is not None:
            stop = f"graphc.until({self.until})" if language == "graphc" else self.until
            results = f"{results}, {stop}"
        yield f"    return {results}"


@dataclass(frozen=True)
class Call:
    """An assignment: a row of the table, applied.

    Attributes:
        name: What is assigned to.
        row: What is called.
        operands: Names of earlier values, or Python's code of numbers.
        options: Code for the other fields of the row's templates.
        bodies: Functions for ``{f0}``, ``{f1}``, ... of the templates.
        ones: Of which axes graphc must know that their length is 1, so that it broadcasts.
    """

    name: str
    row: Row
    operands: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    bodies: tuple[Body, ...] = ()
    ones: tuple[bool, ...] = ()

    def names(self, values: bool = False) -> set[str]:
        """The names it may need; those alone whose values it needs."""
        operands = () if values and self.row.by_shape else self.operands
        text = " ".join([*operands, *self.options.values()])
        text = re.sub(r"\w+\.(shape|size)", "", text) if values else text
        found = {*re.findall(r"[A-Za-z_]\w*", text)}
        return found.union(*(body.names(values) for body in self.bodies))

    def shape_by_value(self) -> bool:
        """Whether values decide the shape of the result: a row's, or by the end of a loop."""
        return self.row.by_value or any(body.until is not None for body in self.bodies)

    def render(self, language: Language) -> Iterator[str]:
        """The lines of the assignment."""
        functions = {}
        for i, body in enumerate(self.bodies):
            functions[f"f{i}"] = name = f"{self.name}_f{i}"
            yield from body.render(name, language)
        operands = self.operands
        if language == "traced" and self.row.accumulates:
            operands = tuple(f"p({x})" if x.isidentifier() else x for x in operands)
        template = self.row.graphc if language == "graphc" else self.row.numpy
        text = template.format(*operands, **self.options, **functions)
        if language == "traced":
            edge = self.row.edge.format(*self.operands)
            text = f"r({text}, {self.row.ulps}, {self.row.cusp}, {edge})"
        yield f"{self.name} = {text}"
        if language == "traced" and self.row.broadcasts:
            names = [x for x in self.operands if x.isidentifier()]
            names = names[1:] if self.row.broadcasts == "into" else names
            inner = 2 if self.row.broadcasts == "batches" else 0
            met = ", ".join([self.options.get("shape", "()"), *names])
            yield f"meet({self.name!r}, {met}, inner={inner})"


@dataclass(frozen=True)
class Program:
    """Variables, calls, and the names of the outputs."""

    seed: int
    variables: tuple[Variable, ...]
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]

    def __repr__(self) -> str:
        return f"seed {self.seed}"

    def values(self) -> dict[str, np.ndarray]:
        return {v.name: v.array for v in self.variables}

    def names(self) -> set[str]:
        """All that it assigns."""
        return {v.name for v in self.variables} | {call.name for call in self.calls}

    def states(self) -> list[Variable]:
        return [v for v in self.variables if v.update is not None]

    def pruned(self) -> Program:
        """Without what no output needs."""
        needed = used(self.calls, {*self.outputs, *(v.update for v in self.states() if v.update)})
        return replace(
            self,
            variables=tuple(v for v in self.variables if v.name in needed),
            calls=tuple(c for c in self.calls if c.name in needed),
        )

    def size(self) -> tuple[int, int]:
        """What shrinking makes smaller: calls, those in bodies too, and elements of values."""
        calls = sum(1 for _ in every(self.calls))
        elements = sum(v.array.size + v.array.ndim + (v.layout != "C") for v in self.variables)
        return calls, elements + len(self.outputs) + 2 * len(self.states())


def used(calls: tuple[Call, ...], names: set[str], values: bool = False) -> set[str]:
    """All names that some need through the calls; or those whose values, not shapes, they need."""
    found = set(names)
    for call in reversed(calls):
        if call.name in found:
            found |= call.names(values)
    return found


def every(calls: tuple[Call, ...]) -> Iterator[Call]:
    """The calls, and those of their bodies."""
    for call in calls:
        yield call
        for body in call.bodies:
            yield from every(body.calls)
