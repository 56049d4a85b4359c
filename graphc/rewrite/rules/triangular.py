"""Rules of triangular matrices."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node
from graphc.rewrite.facts.masks import mask_bands
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.core.elementwise import Where
from graphc.tensor.linalg.determinant import Det
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.triangular import SolveTriangular


@rewrite("specialize", SolveTriangular, Solve, Inverse, Det, beside=[Where])
def triangle_that_is_read(node: Node, op: Any) -> Node | None:
    """``solve_triangular(tril(a), b)`` is ``solve_triangular(a, b)``: the rest is never read."""
    a, *rest = node.inputs
    if not isinstance(a.op, Where) or a.inputs[0].type.ndim != 2:
        return None
    mask, x, _ = a.inputs
    outside, last = mask_bands(mask).outside, 0
    if isinstance(op, SolveTriangular):
        lower, last = op.lower, -int(op.unit_diagonal)
    elif op.assume in {"lower triangular", "upper triangular"}:
        lower = op.assume == "lower triangular"
    else:
        return None
    unread = outside.low > last if lower else outside.high < -last
    return node.with_inputs([x, *rest]) if unread and x.type is a.type else None


@rewrite("canonicalize", MatrixDiagonal, beside=[Where])
def diagonal_of_triangle(node: Node, op: MatrixDiagonal) -> Node | None:
    """``diagonal(tril(a))`` is ``diagonal(a)``."""
    (a,) = node.inputs
    if not isinstance(a.op, Where) or a.inputs[0].type.ndim != 2:
        return None
    mask, x, _ = a.inputs
    outside = mask_bands(mask).outside
    inside = outside.low > op.offset or outside.high < op.offset
    return node.with_inputs([x]) if inside and x.type is a.type else None
