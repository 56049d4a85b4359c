"""The help of elementwise functions: a signature, dtypes and an example, from their rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from graphc.ir import DTYPES, TensorType
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.tensor.core.elementwise import Elementwise


INDENT = "    "
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
    if row.arity == 1 or row.slope is None:
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
    results: dict[str, list[str]] = {}
    for dtype in DTYPES:
        rule = row.domain(dtype)
        if rule is not None:
            results.setdefault("the same" if rule[1] == dtype else rule[1], []).append(dtype)
    dtypes = "\n".join(
        fill(f"{', '.join(given)} -> {made}", 80, initial_indent=INDENT, subsequent_indent=INDENT)
        for made, given in results.items()
    )
    given = [Tensor.input(TensorType(_example_dtype(row), (None,)), name) for name in _names(row)]
    variables = ", ".join(str(x.name) for x in given)
    made = ", ".join(f'gt.vector("{x.name}", dtype="{x.dtype}")' for x in given)
    return f"""{row.row}{signature}

{row.meaning}; element by element.

Args:
    {variables}: {takes}.

Returns:
    A symbolic array. Its dtype by that of the operands:
{dtypes}

Example:
    >>> {variables} = {made}
    >>> gt.{row.row}({variables})
    {row(*given)!r}
"""


def _example_dtype(row: Elementwise) -> str:
    return next(dtype for dtype in ("float64", "int64", "bool", *DTYPES) if row.domain(dtype))
