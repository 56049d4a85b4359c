"""The help of elementwise functions: a signature, dtypes and an example, from their rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from graphc.ir import DTYPES, TensorType, is_complex
from graphc.tensor.core.derivative import derivatives
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.tensor.core.elementwise import Elementwise


INDENT = "    "
WIDTH = 84
VARIADIC = inspect.Parameter.VAR_POSITIONAL


class OfInstance:
    """An attribute, such as ``__doc__``, that instances compute and their class has a value of.

    Args:
        of_class: The class's value.
        compute: Gives an instance's value.
    """

    def __init__(self, of_class: Any, compute: Callable[[Any], Any]) -> None:
        self.of_class = of_class
        self.compute = compute

    def __get__(self, instance: Any, cls: type) -> Any:
        return self.of_class if instance is None else self.compute(instance)


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
    parameters = [inspect.Parameter(x, inspect.Parameter.POSITIONAL_ONLY) for x in _names(row)]
    more = [inspect.Parameter("more", VARIADIC)] if row.commutes else []
    return inspect.Signature([*parameters, *more])


def help_of(row: Elementwise) -> str:
    """The text of ``help``."""
    signature = str(signature_of(row)).replace(", /", "")
    takes = "An array or a number" if row.arity == 1 else "Arrays or numbers, which broadcast"
    variables = ", ".join(_names(row))
    sections = {
        "Args": [f"{variables}: {takes}."],
        "Returns": ["A symbolic array. Its dtype by that of the operands:", *_dtypes(row)],
        "Definition": wrap(row.definition, WIDTH),
        "Properties": [*_properties(row)],
        "Derivative": [*_derivatives(row)],
        "Source": [row.source] * bool(row.source),
        "Example": _example(row),
    }
    parts = [f"{row.row}{signature}", f"{row.meaning}; element by element."]
    parts += [
        "\n".join([f"{title}:", *(f"{INDENT}{line}".rstrip() for line in lines)])
        for title, lines in sections.items()
        if lines
    ]
    return "\n\n".join(parts) + "\n"


def _dtypes(row: Elementwise) -> Iterator[str]:
    results: dict[str, list[str]] = {}
    for dtype in DTYPES:
        rule = row.domain(dtype)
        if rule is not None:
            results.setdefault("the same" if rule[1] == dtype else rule[1], []).append(dtype)
    for made, given in results.items():
        yield from wrap(f"- {', '.join(given)} -> {made}", WIDTH, subsequent_indent="  ")


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
    if not row.holomorphic and row.domain("complex128"):
        yield "Of real numbers:"
        yield ""
    for line in derivatives(row, _names(row)):
        yield from wrap(f"- {line}", WIDTH, subsequent_indent="  ", break_long_words=False)


def _example(row: Elementwise) -> list[str]:
    given = [Tensor.input(TensorType(_example_dtype(row), (None,)), name) for name in _names(row)]
    variables = ", ".join(_names(row))
    made = ", ".join(f'gt.vector("{x.name}", dtype="{x.dtype}")' for x in given)
    return [
        ">>> import graphc.tensor as gt",
        f">>> {variables} = {made}",
        f">>> gt.{row.row}({variables})",
        repr(row(*given)),
    ]


def _example_dtype(row: Elementwise) -> str:
    return next(dtype for dtype in ("float64", "int64", "bool", *DTYPES) if row.domain(dtype))
