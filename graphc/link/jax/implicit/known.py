"""Numbers that all elements of an array are known to have, such as the 0 of ``maximum(x, 0)``.

A traced array has no value, so its number is noted while the program is interpreted: the number of
a literal, and of arrays that repeat or cast one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from graphc.context import setting
from graphc.implicit.array import ImplicitArray

Numbers = dict[int, tuple[Any, Any]]
"""By an array's identity, the array and its number."""

_numbers: ContextVar[Numbers] = ContextVar("numbers")

PRESERVING = frozenset(("broadcast_in_dim", "convert_element_type", "reshape", "squeeze"))
"""Primitives of one operand whose results have the number of the operand."""


def known_numbers(numbers: Iterable[tuple[Any, Any]] = ()) -> setting[Numbers]:
    """Note the numbers of arrays that are traced within this context, and forget them afterwards.

    Args:
        numbers: Arrays and their numbers, None if unknown, that are noted first.
    """
    first = {id(x): (x, c) for x, c in numbers if c is not None}
    return setting(_numbers, _numbers.get({}) | first)


def known_number(x: Any) -> Any:
    """Return the number that all elements of an array have; None if unknown."""
    return _numbers.get({}).get(id(x), (None, None))[1]


def known_array(x: Any) -> np.ndarray[Any, Any] | None:
    """Return an array as NumPy's; None if it is traced."""
    return None if isinstance(x, jax.core.Tracer) else np.asarray(x)


def note_number(x: Any, number: Any) -> None:
    """Note the number of an array until the innermost context ends."""
    _numbers.get({})[id(x)] = x, np.asarray(number).astype(x.dtype)[()]


def note_repeated(eqn: JaxprEqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
    """Note the number of a result that repeats or casts an operand's number."""
    if eqn.primitive.name not in PRESERVING:
        return
    number = operands[0] if isinstance(eqn.invars[0], Literal) else known_number(operands[0])
    if number is not None and not isinstance(results[0], ImplicitArray):
        note_number(results[0], number)
