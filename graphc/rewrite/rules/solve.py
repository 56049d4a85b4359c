"""Rules of linear systems: the cheapest solver, or none."""

from __future__ import annotations

from typing import Any

from graphc.ir import Node, is_complex
from graphc.rewrite.facts.lengths import admit, fit_to, inputs_with_checks, length_of, with_lengths
from graphc.rewrite.facts.matrices import factors_of, is_square, kron_factors, times
from graphc.rewrite.facts.solvers import KINDS, WHOLE, better, reads_all, rows_for, square_blocks
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
from graphc.tensor.linalg.patterned import BlockDiagonalMatrix
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.triangular import SolveTriangular


def solve_with(assume: str, transposed: bool, a: Node, b: Node) -> Tensor:
    """Return the x of ``a @ x = b``, or of ``a.T @ x = b``."""
    return Tensor.make(Solve(assume, transposed), a, b)


@rewrite("canonicalize", Solve)
def solve_by_structure(node: Node, op: Solve) -> Node | None:
    """``solve(a, b)`` of a matrix known to be triangular, positive definite or such is cheaper."""
    a, b = node.inputs
    kind = better(a, op.assume)
    return None if kind is None else solve_with(kind, op.transposed, a, b)


@rewrite("canonicalize", Solve, beside=[Transpose])
def solve_of_transpose(node: Node, op: Solve) -> Node | None:
    """``solve(a.T, b)`` solves by the factors of ``a``."""
    a, b = node.inputs
    if not is_transpose(a):
        return None
    kind = OTHER_SIDE.get(op.assume, op.assume)
    return solve_with(kind, not op.transposed, a.inputs[0], b)


@rewrite("canonicalize", Solve)
def solve_of_symmetric(node: Node, op: Solve) -> Node | None:
    """``solve(a.T, b)`` is ``solve(a, b)`` for a symmetric matrix."""
    a, b = node.inputs
    if not op.transposed or is_complex(a.type.dtype):
        return None
    symmetric = op.assume in {"sym", "her", "pos", "diagonal"} or facts_of(a).symmetric
    return solve_with(op.assume, False, a, b) if symmetric else None


@rewrite("canonicalize", Solve, beside=[multiply, negative, ExpandDims])
def solve_of_scaled(node: Node, op: Solve) -> Node | None:
    """``solve(a, c * b)`` is ``c * solve(a, b)`` for a scalar c."""
    a, b = node.inputs
    axes = b.op.axes if isinstance(b.op, ExpandDims) else ()
    (x,) = b.inputs if axes else (b,)

    def columns(y: Node) -> Node:
        return expand_dims(y, axes) if axes else y

    if x.op is negative:
        return -solve_with(op.assume, op.transposed, a, columns(*x.inputs))
    if x.op is not multiply:
        return None
    for scale, rest in (x.inputs, x.inputs[::-1]):
        if not scale.type.ndim and rest.type is x.type:
            return scale * solve_with(op.assume, op.transposed, a, columns(rest))
    return None


OTHER_SIDE = {"lower triangular": "upper triangular", "upper triangular": "lower triangular"}


def is_transpose(a: Node) -> bool:
    n = a.type.ndim
    return isinstance(a.op, Transpose) and a.op.axes == (*range(n - 2), n - 1, n - 2)


@rewrite("canonicalize", Solve, beside=[Inverse])
def solve_of_inverse(node: Node, op: Solve) -> Node | None:
    """``solve(inv(a), b)`` is ``a @ b``."""
    a, b = node.inputs
    if not isinstance(a.op, Inverse):
        return None
    (x,) = inputs_with_checks(a)
    if not reads_all(op.assume, a) or not reads_all(a.op.assume, *a.inputs):
        return None
    return admit(matmul(swapaxes(x, -1, -2) if op.transposed else x, b), node)


@rewrite("canonicalize", Solve)
def solve_of_itself(node: Node, op: Solve) -> Node | None:
    """``solve(a, a)`` is the identity, and ``solve(a, a @ b)`` is ``b``."""
    a, b = node.inputs
    if op.transposed or op.assume not in WHOLE:
        return None
    if a is b:
        return fit_to(identity_for(a, node), node)
    factors = factors_of(b)
    if factors is None or factors[0].x is not a or factors[0].transposed:
        return None
    x, is_transposed = factors[1]
    x = _with_side(x, -1 if is_transposed else -2, a)
    return admit(swapaxes(x, -1, -2) if is_transposed else x, node)


def _with_side(x: Node, axis: int, a: Node) -> Tensor:
    """Return an array with one length compared with both lengths of a square matrix."""
    for side in (-2, -1):
        x = with_lengths(x, {axis: length_of(a, a.type.ndim + side)})
    return x  # type: ignore[return-value]


def identity_for(a: Node, node: Node) -> Tensor:
    """Return an identity matrix that still compares the rows and columns of a matrix."""
    rows, columns = (length_of(a, a.type.ndim - i) for i in (2, 1))
    n: Any = columns
    return with_lengths(eye(n, n, dtype=node.type.dtype), {-2: rows})


@rewrite("canonicalize", DotGeneral, beside=[Solve])
def dot_with_solution(node: Node, op: DotGeneral) -> Node | None:
    """``a @ solve(a, b)`` is ``b``."""
    for side in (0, 1):
        product = times(node, side) if isinstance(node.inputs[1 - side].op, Solve) else None
        if product is None or not isinstance(product.columns.op, Solve):
            continue
        solver, (a, b) = product.columns.op, product.columns.inputs
        if a is product.x and solver.transposed == product.transposed and solver.assume in WHOLE:
            return admit(product.restore(_with_side(b, -2, a)), node)
    return None


CHEAP = frozenset(name for name, kind in KINDS if kind != "pos")


@rewrite("canonicalize", Solve, beside=[DotGeneral])
def solve_of_product(node: Node, op: Solve) -> Node | None:
    """``solve(a @ b, c)`` is ``solve(b, solve(a, c))`` for triangles and other cheap matrices."""
    a, b = node.inputs
    factors = factors_of(a)
    if factors is None or op.assume not in WHOLE:
        return None
    if not all(is_square(factor.x) and facts_of(factor.x).held & CHEAP for factor in factors):
        return None
    first, last = factors[::-1] if op.transposed else factors
    for x, is_transposed in (first, last):
        b = solve_with("gen", is_transposed != op.transposed, x, b)
    return admit(b, node)


@rewrite("canonicalize", Solve)
def solve_of_kron(node: Node, op: Solve) -> Node | None:
    """``solve(kron(a, b), c)`` solves with ``a``, then with ``b``."""
    a, b = node.inputs
    pair = kron_factors(a)
    if pair is None or not all(map(is_square, pair)):
        return None
    if op.assume != "diagonal" and not reads_all(op.assume, a):
        return None
    assume = op.assume if op.assume == "diagonal" else "gen"
    a_factor, b_factor = pair
    lengths: list[Any] = [length_of(a_factor, 0), length_of(b_factor, 0), length_of(b, 1)]
    n, m, k = lengths
    flat = solve_with(assume, op.transposed, a_factor, reshape(b, [n, m * k]))
    moved = swapaxes(reshape(flat, [n, m, k]), 0, 1)
    last = solve_with(assume, op.transposed, b_factor, reshape(moved, [m, n * k]))
    return admit(reshape(swapaxes(reshape(last, [m, n, k]), 0, 1), [n * m, k]), node)


@rewrite("canonicalize", Solve, SolveTriangular, beside=[BlockDiagonalMatrix])
def solve_of_blocks(node: Node, op: Solve | SolveTriangular) -> Node | None:
    """``solve(block_diagonal(a, b), c)`` solves for each block by itself."""
    a, b = node.inputs
    blocks = square_blocks(a)
    if blocks is None:
        return None
    b = with_lengths(b, {-2: length_of(a, a.type.ndim - 1)})
    pairs = zip(blocks, rows_for(blocks, b), strict=True)
    return admit(concatenate([Tensor.make(op, x, rows) for x, rows in pairs], -2), node)
