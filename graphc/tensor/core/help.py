"""The help of elementwise functions: signature, dtypes, domain, gradients, example, from rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from itertools import chain, product
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import GradientError
from graphc.ir import DTYPES, TensorType, pprint
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.tensor.core.elementwise import Elementwise


INDENT = "    "
VARIADIC = inspect.Parameter.VAR_POSITIONAL

LONGEST = 100
"""The characters up to which a derivative is written down."""

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
    if row.arity == 1 or row.slope is None:
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
    """The text of ``help``, in sections: Args, Returns, Domain, Gradients and Example.

    A section is left out where nothing is known for it.
    """
    names = [*_names(row), *(["*more"] if row.commutes else [])]
    takes = "An array or a number" if row.arity == 1 else "Arrays or numbers, which broadcast"
    sections = {
        "Args": [f"{', '.join(_names(row))}: {takes}."],
        "Returns": ["A symbolic array. Its dtype by that of the operands:", *_dtypes(row)],
        "Domain": [*_domain(row)],
        "Gradients": [*_gradients(row)],
        "Example": _example(row),
    }
    head = f"{row.row}({', '.join(names)})\n\n{row.meaning}; element by element.\n"
    return head + "".join(
        f"\n{title}:\n" + "".join(f"{INDENT}{line}\n" for line in lines)
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
        yield from fill(f"{', '.join(given)} -> {made}", 80).split("\n")


# Domain.


def _domain(row: Elementwise) -> Iterator[str]:
    """What is known of the intervals of real operands and results."""
    if row.facts.support != (-math.inf, math.inf):
        yield f"Of real numbers: {' and '.join(_names(row))} in {_interval(row.facts.support)}."
        yield "Outside, the result is NaN."
    if row.facts.range != (-math.inf, math.inf):
        yield f"Results are in {_interval(row.facts.range)}, but for NaN."


def _interval(interval: tuple[float, float]) -> str:
    low, high = (f"{end:.6g}" for end in interval)
    return f"{'(' if low == '-inf' else '['}{low}, {high}{')' if high == 'inf' else ']'}"


# Gradients.


def _gradients(row: Elementwise) -> Iterator[str]:
    if row.slope is None:
        yield "It passes none."
        return
    dtype = _dtype(row)
    xs = [Tensor.input(TensorType(dtype, ()), name) for name in _names(row)]
    y = Tensor.make(row, *xs)
    g = Tensor.input(TensorType(y.dtype, ()), "g")
    yield "Each operand's, from g, the gradient with respect to the result:"
    for x, part in zip(xs, row.pullback(g, y, *xs), strict=True):
        yield f"{x.name}: {_gradient(part)}"


def _gradient(part: Any) -> str:
    if part is None:
        return "0"
    if isinstance(part, GradientError):
        return "none, and an error where it is needed"
    text = pprint(part, LONGEST)
    return "known" if "…" in text else text


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
