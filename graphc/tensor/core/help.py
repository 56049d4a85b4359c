"""The help of elementwise functions, from their rows; the documentation shows the same text."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from itertools import chain, product
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.ir import DTYPES, is_complex
from graphc.tensor.core.derivative import derivatives

if TYPE_CHECKING:
    from graphc.tensor.core.elementwise import Elementwise


INDENT = "    "
VARIADIC = inspect.Parameter.VAR_POSITIONAL

WIDTH = 84
"""The columns of a section's text."""

EXAMPLES: dict[str, tuple[Any, ...]] = {
    "float64": (0.5, 2.0, -1.5, 1.0, 3.0, -0.5, 0.25, math.nan, math.inf),
    "complex128": (3 + 4j, -1 - 2j),
    "int64": (12, 2, 6, 3),
    "bool": (False, True),
}
"""Values to show a function with, in the order of preference."""


SMALLEST = 1e-3
"""The absolute value above which a result shows its digits; and the sign of 0 is a library's."""


def _names(row: Elementwise) -> Sequence[str]:
    """The names of the operands: those of the gradient's parameters, which follow g and y."""
    letters = ("x",) if row.arity == 1 else ("a", "b", "c", "z")[: row.arity]
    if row.slope is None:
        return letters
    slope: Any = getattr(row.slope, "parts", (row.slope,))[0]
    found = [name for name, p in inspect.signature(slope).parameters.items() if p.kind != VARIADIC]
    return found[2:] if len(found) == 2 + row.arity else letters


def signature_of(row: Elementwise) -> inspect.Signature:
    """The operands, by position; a function that commutes takes any number from two on."""
    parameters = [
        inspect.Parameter(x, inspect.Parameter.POSITIONAL_ONLY, annotation="TensorLike")
        for x in _names(row)
    ]
    more = [inspect.Parameter("more", VARIADIC, annotation="TensorLike")] if row.commutes else []
    return inspect.Signature([*parameters, *more], return_annotation="Tensor")


def help_of(row: Elementwise) -> str:
    """The text of ``help``, in sections; one is left out where nothing is known for it."""
    names = [*_names(row), *(["*more"] if row.commutes else [])]
    takes = "An array or a number" if row.arity == 1 else "Arrays or numbers, which broadcast"
    sections = {
        "Args": [f"{', '.join(_names(row))}: {takes}."],
        "Returns": [
            "A symbolic array, of a dtype that depends on those of the operands.",
            "",
            *_dtypes(row),
        ],
        "Definition": wrap(row.definition, WIDTH),
        "Properties": _of_reals([*_properties(row)], bool(row.domain("complex128"))),
        "Derivative": _of_reals([*_derivatives(row)], not row.holomorphic),
        "Source": [row.source] * bool(row.source),
        "Example": _example(row),
    }
    head = f"{row.row}({', '.join(names)})\n\n{row.meaning}; element by element.\n"
    return head + "".join(
        f"\n{title}:\n" + "".join(f"{INDENT}{line}".rstrip() + "\n" for line in lines)
        for title, lines in sections.items()
        if lines
    )


def _dtypes(row: Elementwise) -> Iterator[str]:
    results: dict[str, list[str]] = {}
    for dtype in DTYPES:
        rule = row.domain(dtype)
        if rule is not None:
            results.setdefault("the same" if rule[1] == dtype else rule[1], []).append(dtype)
    for made, given in results.items():
        yield from wrap(f"- {', '.join(given)} -> {made}", WIDTH, subsequent_indent="  ")


# Facts.


def _of_reals(lines: list[str], alone: bool) -> list[str]:
    """Lines that are true of real numbers; they say so if other numbers are taken too."""
    return ["Of real numbers:", "", *lines] if lines and alone else lines


def _properties(row: Elementwise) -> Iterator[str]:
    """The facts of a row in words."""
    facts, names = row.facts, _names(row)
    bounds = [_between(*ends, name) for ends, name in zip(facts.support, names, strict=False)]
    if any(bounds):
        yield f"- domain: {', '.join(filter(None, bounds))}; NaN elsewhere"
    if facts.poles:
        poles = ["..." if pole is ... else _number(pole) for pole in facts.poles]
        yield f"- poles: {', '.join(poles)}"
    if facts.range != (-math.inf, math.inf):
        yield f"- range: {_between(*facts.range, 'result')}"
    for trend, word in ((1, "nondecreasing"), (-1, "nonincreasing")):
        along = [name for name, own in zip(names, facts.trend, strict=False) if own == trend]
        if along:
            yield f"- {word} in {' and '.join(along)}"
    if facts.parity:
        yield "- even: f(-x) = f(x)" if facts.parity == 1 else "- odd: f(-x) = -f(x)"


def _between(low: float, high: float, name: str) -> str:
    left = "" if low == -math.inf else f"{_number(low)} <= "
    right = "" if high == math.inf else f" <= {_number(high)}"
    if left and not right:
        return f"{name} >= {_number(low)}"
    return f"{left}{name}{right}" if left or right else ""


def _number(x: float) -> str:
    """A number, multiples of pi and e by their names."""
    for value, name in ((math.pi, "pi"), (math.pi / 2, "pi / 2"), (1 / math.e, "1 / e")):
        if abs(x) == value:
            return name if x > 0 else f"-{name}"
    return f"{x:g}"


def _derivatives(row: Elementwise) -> Iterator[str]:
    rule = row.domain("float64")
    if row.slope is None or rule is None or is_complex(rule[1]):
        return
    for line in derivatives(row, _names(row)):
        yield from wrap(f"- {line}", WIDTH, subsequent_indent="  ", break_long_words=False)


# Example.


def _dtype(row: Elementwise) -> str:
    """The dtype to show a function with: complex where that is what it is about."""
    is_of_complex = not row.holomorphic and row.domain("complex128") is not None
    first = "complex128" if is_of_complex else "float64"
    rules = {dtype: row.domain(dtype) for dtype in (first, "int64", "bool")}
    return next(rule[0] for rule in rules.values() if rule is not None)


def _example(row: Elementwise) -> list[str]:
    operands, results = _chosen(row)
    given = ", ".join(map(repr, operands)).replace("nan", "gt.nan").replace("inf", "gt.inf")
    rounded = ".round(4)" if results.dtype.kind in "fc" else ""
    return [
        ">>> import graphc.tensor as gt",
        f'>>> gt.{row.row}({given}).eval(mode="NUMPY"){rounded}.tolist()',
        repr((results.round(4) if rounded else results).tolist()),
    ]


def _chosen(row: Elementwise) -> tuple[list[list[Any]], np.ndarray[Any, Any]]:
    """One or two values of each operand, and the results, which are finite and differ."""
    values = EXAMPLES[_dtype(row)]
    found: dict[Any, tuple[Any, ...]] = {}
    for operands in chain(_rotations(values, row.arity), product(values, repeat=row.arity)):
        with np.errstate(all="ignore"):
            result = row.perform(*[np.array(x, _dtype(row)) for x in operands])
        if np.isfinite(result) and (result.dtype.kind not in "fc" or abs(result) > SMALLEST):
            found.setdefault(result.item(), operands)
        if len(found) == (2 if row.arity <= 2 else 1):
            break
    return [list(xs) for xs in zip(*found.values(), strict=True)], np.array([*found])


def _rotations(values: tuple[Any, ...], n: int) -> Iterator[tuple[Any, ...]]:
    """N successive values, from each of them on."""
    return (tuple((values[i:] + values[:i])[:n]) for i in range(len(values)))
