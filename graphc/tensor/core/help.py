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
"""Results up to this absolute value are no examples: their digits and signs are a library's."""


def _names(row: Elementwise) -> Sequence[str]:
    """Return the operands' names: the parameters of the gradient that follow g and y."""
    letters = ("x",) if row.arity == 1 else ("a", "b", "c", "z")[: row.arity]
    if row.slope is None:
        return letters
    slope: Any = getattr(row.slope, "parts", (row.slope,))[0]
    parameters = [
        name for name, p in inspect.signature(slope).parameters.items() if p.kind != VARIADIC
    ]
    return parameters[2:] if len(parameters) == 2 + row.arity else letters


def signature_of(row: Elementwise) -> inspect.Signature:
    """Return the operands, by position; a function that commutes takes any number from two on."""
    parameters = [
        inspect.Parameter(x, inspect.Parameter.POSITIONAL_ONLY, annotation="TensorLike")
        for x in _names(row)
    ]
    rest = [inspect.Parameter("more", VARIADIC, annotation="TensorLike")] if row.commutes else []
    return inspect.Signature([*parameters, *rest], return_annotation="Tensor")


def help_of(row: Elementwise) -> str:
    """Return the text of ``help``, in sections without the empty ones."""
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
    for result, operands in results.items():
        yield from wrap(f"- {', '.join(operands)} -> {result}", WIDTH, subsequent_indent="  ")


# Facts.


def _of_reals(lines: list[str], alone: bool) -> list[str]:
    """Return the lines, headed as true of real numbers if the function takes others too."""
    return ["Of real numbers:", "", *lines] if lines and alone else lines


def _properties(row: Elementwise) -> Iterator[str]:
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
    lower = "" if low == -math.inf else f"{_number(low)} <= "
    upper = "" if high == math.inf else f" <= {_number(high)}"
    if lower and not upper:
        return f"{name} >= {_number(low)}"
    return f"{lower}{name}{upper}" if lower or upper else ""


def _number(x: float) -> str:
    """Format a number, multiples of pi and e by their names."""
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
    """Return the dtype to show a function with: complex for functions of complex numbers."""
    is_of_complex = not row.holomorphic and row.domain("complex128") is not None
    first = "complex128" if is_of_complex else "float64"
    rules = {dtype: row.domain(dtype) for dtype in (first, "int64", "bool")}
    return next(rule[0] for rule in rules.values() if rule is not None)


def _example(row: Elementwise) -> list[str]:
    operands, results = _choose_operands(row)
    arguments = ", ".join(map(repr, operands)).replace("nan", "gt.nan").replace("inf", "gt.inf")
    rounded = ".round(4)" if results.dtype.kind in "fc" else ""
    return [
        ">>> import graphc.tensor as gt",
        f'>>> gt.{row.row}({arguments}).eval(mode="NUMPY"){rounded}.tolist()',
        repr((results.round(4) if rounded else results).tolist()),
    ]


def _choose_operands(row: Elementwise) -> tuple[list[list[Any]], np.ndarray[Any, Any]]:
    """Return one or two values of each operand, and the results, which are finite and differ."""
    values = EXAMPLES[_dtype(row)]
    examples: dict[Any, tuple[Any, ...]] = {}
    for operands in chain(_rotations(values, row.arity), product(values, repeat=row.arity)):
        with np.errstate(all="ignore"):
            result = row.perform(*[np.array(x, _dtype(row)) for x in operands])
        if np.isfinite(result) and (result.dtype.kind not in "fc" or abs(result) > SMALLEST):
            examples.setdefault(result.item(), operands)
        if len(examples) == (2 if row.arity <= 2 else 1):
            break
    return [list(xs) for xs in zip(*examples.values(), strict=True)], np.array([*examples])


def _rotations(values: tuple[Any, ...], n: int) -> Iterator[tuple[Any, ...]]:
    """Return n successive values, from each of them on."""
    return (tuple((values[i:] + values[:i])[:n]) for i in range(len(values)))
