"""Which arrays are one number that a program of JAX's says, as the 0 of ``maximum(x, 0)``.

An array is traced, and its value unknown. So the number is noted beside it while the program is
interpreted: of literals, and of what repeats or casts them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from graphc.implicit.array import ImplicitArray


class _Numbers(threading.local):
    """The arrays of known numbers in this thread.

    Attributes:
        numbers: By the array's identity, it and its number.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[Any, Any]] = {}


_state = _Numbers()

SPREADING = frozenset(("broadcast_in_dim", "convert_element_type", "reshape", "squeeze"))
"""Primitives of one operand that give an array of one number for such."""


@contextmanager
def known_numbers(numbers: Iterable[tuple[Any, Any]] = ()) -> Iterator[None]:
    """Remember of which number arrays are that are traced within this context.

    Args:
        numbers: Arrays and their numbers, or None where it is not known, to begin with.
    """
    before = _state.numbers
    _state.numbers = before | {id(x): (x, c) for x, c in numbers if c is not None}
    try:
        yield
    finally:
        _state.numbers = before


def known_number(x: Any) -> Any:
    """Return the number that all elements of an array are, which the program says; else None."""
    return _state.numbers.get(id(x), (None, None))[1]


def known_array(x: Any) -> np.ndarray[Any, Any] | None:
    """Return an array that is not traced as NumPy's; else None."""
    return None if isinstance(x, jax.core.Tracer) else np.asarray(x)


def note_number(x: Any, number: Any) -> None:
    """Note of which number an array is, until the innermost context ends."""
    _state.numbers[id(x)] = x, np.asarray(number).astype(x.dtype)[()]


def note_spread(eqn: JaxprEqn, operands: Sequence[Any], results: Sequence[Any]) -> None:
    """Note the number of a result that repeats or casts a known one."""
    if eqn.primitive.name not in SPREADING:
        return
    number = operands[0] if isinstance(eqn.invars[0], Literal) else known_number(operands[0])
    if number is not None and not isinstance(results[0], ImplicitArray):
        note_number(results[0], number)
