"""Rules of systems of equations: the cheapest solver, and none where there is no need of one."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node, is_complex
from graphc.rewrite.facts.blocks import rows_for, square_blocks
from graphc.rewrite.facts.lengths import (
    Known,
    admitted,
    checked_inputs,
    fitted,
    length_of,
    with_lengths,
)
from graphc.rewrite.facts.matrices import factors_of, is_square, kron_factors, times
from graphc.rewrite.facts.solvers import KINDS, WHOLE, better, reads_all
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.create import eye
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, swapaxes
from graphc.tensor.core.elementwise import multiply, negative
from graphc.tensor.core.shape import reshape
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral, matmul
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.patterned import BlockDiagonal
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.triangular import SolveTriangular


def solved(assume: str, transposed: bool, a: Node, b: Node) -> Tensor:
    """x in ``a @ x = b``, or of a's transpose."""
    return Tensor.make(Solve(assume, transposed), a, b)


@rewrite("canonicalize", Solve)
def solve_by_structure(node: Node, op: Solve) -> Node | None:
    """A matrix that is known to be triangular, positive definite or such needs less work."""
    a, b = node.inputs
    kind = better(a, op.assume)
    return None if kind is None else solved(kind, op.transposed, a, b)


@rewrite("canonicalize", Solve, beside=[Transpose])
def solve_of_transpose(node: Node, op: Solve) -> Node | None:
    """Equations of a transpose are solved by the factors of the matrix."""
    a, b = node.inputs
    if not is_transpose(a):
        return None
    kind = OTHER_SIDE.get(op.assume, op.assume)
    return solved(kind, not op.transposed, a.inputs[0], b)


@rewrite("canonicalize", Solve)
def solve_of_symmetric(node: Node, op: Solve) -> Node | None:
    """A symmetric matrix and its transpose have one solution."""
    a, b = node.inputs
    if not op.transposed or is_complex(a.type.dtype):
        return None
    symmetric = op.assume in {"sym", "her", "pos", "diagonal"} or facts_of(a).symmetric
    return solved(op.assume, False, a, b) if symmetric else None


@rewrite("canonicalize", Solve, beside=[multiply, negative, ExpandDims])
def solve_of_scaled(node: Node, op: Solve) -> Node | None:
    """A scalar that right-hand sides are multiplied with is multiplied with the solution."""
    a, b = node.inputs
    axes = b.op.axes if isinstance(b.op, ExpandDims) else ()
    (x,) = b.inputs if axes else (b,)

    def columns(y: Node) -> Node:
        return expand_dims(y, axes) if axes else y

    if x.op is negative:
        return -solved(op.assume, op.transposed, a, columns(*x.inputs))
    if x.op is not multiply:
        return None
    for scale, rest in (x.inputs, x.inputs[::-1]):
        if not scale.type.ndim and rest.type is x.type:
            return scale * solved(op.assume, op.transposed, a, columns(rest))
    return None


OTHER_SIDE = {
    "lower triangular": "upper triangular",
    "upper triangular": "lower triangular",
}


def is_transpose(a: Node) -> bool:
    n = a.type.ndim
    return isinstance(a.op, Transpose) and a.op.axes == (*range(n - 2), n - 1, n - 2)


@rewrite("canonicalize", Solve, beside=[Inverse])
def solve_of_inverse(node: Node, op: Solve) -> Node | None:
    """Equations of an inverse are solved by a product with the matrix."""
    a, b = node.inputs
    if not isinstance(a.op, Inverse):
        return None
    (x,) = checked_inputs(a)
    if not reads_all(op.assume, a) or not reads_all(a.op.assume, *a.inputs):
        return None
    return admitted(matmul(swapaxes(x, -1, -2) if op.transposed else x, b), node)


@rewrite("canonicalize", Solve)
def solve_of_itself(node: Node, op: Solve) -> Node | None:
    """A matrix is solved by the identity, and its product with another by that one."""
    a, b = node.inputs
    if op.transposed or op.assume not in WHOLE:
        return None
    if a is b:
        return fitted(identity_for(a, node), node)
    factors = factors_of(b)
    if factors is None or factors[0].x is not a or factors[0].turned:
        return None
    (x, turned) = factors[1]
    x = with_lengths(x, {-1 if turned else -2: _side(a)})
    return admitted(swapaxes(x, -1, -2) if turned else x, node)


def _side(a: Node) -> Known:
    """The number of rows of matrices that must be square."""
    rows, columns = (length_of(a, a.type.ndim - i) for i in (2, 1))
    return columns if isinstance(columns, int) else rows


def identity_for(a: Node, node: Node) -> Tensor:
    """The identity that a node of square matrices is, which are still checked to be so."""
    rows, columns = (length_of(a, a.type.ndim - i) for i in (2, 1))
    n: Any = columns
    return with_lengths(eye(n, n, dtype=node.type.dtype), {-2: rows})


@rewrite("canonicalize", DotGeneral, beside=[Solve])
def dot_with_solution(node: Node, op: DotGeneral) -> Node | None:
    """A matrix times the solution of its equations is their right-hand side."""
    for side in (0, 1):
        found = times(node, side) if isinstance(node.inputs[1 - side].op, Solve) else None
        if found is None or not isinstance(found.columns.op, Solve):
            continue
        solver, (a, b) = found.columns.op, found.columns.inputs
        if a is found.x and solver.transposed == found.turned and solver.assume in WHOLE:
            return admitted(found.restored(with_lengths(b, {-2: _side(a)})), node)
    return None


CHEAP = frozenset(name for name, kind in KINDS if kind != "pos")


@rewrite("canonicalize", Solve, beside=[DotGeneral])
def solve_of_product(node: Node, op: Solve) -> Node | None:
    """Where the factors of a matrix are triangular or such, one is solved after the other."""
    a, b = node.inputs
    factors = factors_of(a)
    if factors is None or op.assume not in WHOLE:
        return None
    if not all(is_square(factor.x) and facts_of(factor.x).held & CHEAP for factor in factors):
        return None
    first, last = factors[::-1] if op.transposed else factors
    for x, turned in (first, last):
        b = solved("gen", turned != op.transposed, x, b)
    return admitted(b, node)


@rewrite("canonicalize", Solve)
def solve_of_kron(node: Node, op: Solve) -> Node | None:
    """Equations of a Kronecker product are those of one factor, then of the other."""
    a, b = node.inputs
    pair = kron_factors(a)
    if pair is None or not all(map(is_square, pair)):
        return None
    if op.assume != "diagonal" and not reads_all(op.assume, a):
        return None
    assume = op.assume if op.assume == "diagonal" else "gen"
    left, right = pair
    lengths: list[Any] = [length_of(left, 0), length_of(right, 0), length_of(b, 1)]
    n, m, k = lengths
    flat = solved(assume, op.transposed, left, reshape(b, [n, m * k]))
    moved = swapaxes(reshape(flat, [n, m, k]), 0, 1)
    last = solved(assume, op.transposed, right, reshape(moved, [m, n * k]))
    return admitted(reshape(swapaxes(reshape(last, [m, n, k]), 0, 1), [n * m, k]), node)


@rewrite("canonicalize", Solve, SolveTriangular, beside=[BlockDiagonal])
def solve_of_blocks(node: Node, op: Solve | SolveTriangular) -> Node | None:
    """Blocks along a diagonal have equations of their own."""
    a, b = node.inputs
    blocks = square_blocks(a)
    if blocks is None:
        return None
    b = with_lengths(b, {-2: length_of(a, a.type.ndim - 1)})
    pairs = zip(blocks, rows_for(blocks, b), strict=True)
    return admitted(concatenate([Tensor.make(op, x, rows) for x, rows in pairs], -2), node)
