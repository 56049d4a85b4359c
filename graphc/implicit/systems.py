"""Handlers of linear systems and determinants of structured matrices, in terms of their methods."""

from __future__ import annotations

from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.registry import register
from graphc.implicit.structured import Structured
from graphc.implicit.structures.diagonal import SquareDiagonal
from graphc.ir import is_complex, is_inexact
from graphc.tensor.linalg.determinant import Det, SlogDet
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.solve import Solve

GENERAL = frozenset(("gen", "sym", "her", "banded"))
"""The assumptions under which every element is read."""

DIAGONAL = GENERAL | {"diagonal", "tridiagonal", "lower triangular", "upper triangular"}
"""The assumptions that are true of a diagonal matrix; its diagonal is read under all of them."""


def _fits(a: Structured, assume: str) -> bool:
    if not is_square(a):
        return False
    return assume in (DIAGONAL if isinstance(a, SquareDiagonal) else GENERAL)


def is_square(a: Structured) -> bool:
    """Return whether an array consists of square matrices of floating numbers."""
    return a.ndim >= 2 and a.shape[-1] == a.shape[-2] and is_inexact(str(a.dtype))


def solution(a: Structured, b: Any) -> Any:
    """Return the x with ``a @ x = b``, for matrices b, which may be implicit."""
    if not isinstance(b, ImplicitArray):
        return a.solved(b)
    inverse = a.inverted()
    return inverse if inverse is NotImplemented else numpy_like(a, b).matmul(inverse, b)


@register(Solve)
def _solve(a: Structured, b: Any, *, assume: str, transposed: bool) -> Any:
    if not _fits(a, assume):
        return NotImplemented
    a = a.swapped() if transposed else a
    return solution(a, b) if isinstance(a, Structured) else NotImplemented


@register(Inverse)
def _inverse(a: Structured, *, assume: str) -> Any:
    return a.inverted() if _fits(a, assume) else NotImplemented


@register(SlogDet)
def _slogdet(a: Structured, *, assume: str) -> Any:
    pair = a.slogdet() if _fits(a, assume) else NotImplemented
    return pair if pair is NotImplemented else [*pair]


@register(Det)
def _det(a: Structured, *, assume: str) -> Any:
    return a.det() if _fits(a, assume) else NotImplemented


@register(Mirror)
def _mirror(a: SquareDiagonal, *, lower: bool, conjugated: bool) -> Any:
    return NotImplemented if conjugated and is_complex(str(a.dtype)) else a
