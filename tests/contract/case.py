"""A case: a graph, and the NumPy function it must equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import DTYPES

__all__ = [
    "EMPTY",
    "EVERY",
    "FLOATING",
    "NONE",
    "NUMERIC",
    "REAL",
    "SOME",
    "Case",
    "Function",
    "S",
    "V",
    "X",
]

Function = Callable[..., Any]

EVERY = DTYPES
SOME = ("bool", "int8", "uint64", "bfloat16", "float32", "float64", "complex128")
NUMERIC = tuple(d for d in DTYPES if d != "bool")
REAL = tuple(d for d in DTYPES if not d.startswith("complex"))
FLOATING = ("bfloat16", "float16", "float32", "float64")


@dataclass(frozen=True)
class Case:
    """A function of symbolic arrays and the same of NumPy's.

    Attributes:
        build: Takes ``graphc.tensor`` and symbolic arrays; only arrays if ``numpy`` is given.
        shapes: Of its operands, each a tuple of lengths.
        dtypes: It is tried in each.
        numpy: Takes NumPy arrays; by default ``build`` with ``numpy`` for ``graphc.tensor``.
        static: The lengths are part of the types.
        special: Infinities, NaN and equal values are among the elements.
        values: Its operand by dtype, where moderate numbers do not do.
        differentiated: Its gradient is compared with differences here, and not by another test.
    """

    build: Function
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = SOME
    numpy: Function | None = None
    static: bool = False
    special: bool = False
    values: Callable[[str], Any] | None = None
    differentiated: bool = True

    def symbolic(self, *xs: Any) -> Any:
        """The graph."""
        return self.build(*xs) if self.numpy else self.build(gt, *xs)

    def expected(self, *xs: Any) -> Any:
        """What NumPy gives."""
        return self.numpy(*xs) if self.numpy else self.build(np, *xs)


X, V, S, EMPTY, NONE = (2, 3, 4), (5,), (), (0, 3), (2, 0, 4)
