"""Examples of the rules of equations, inverses, determinants and Cholesky factors."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node, picks
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.determinant import Adjugate, Det, SlogDet
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.triangular import SolveTriangular
from tests.rewrite.arrays import Example, make, scalar

a, b = gt.tensor("regular", shape=(3, 3)), gt.tensor("sides", shape=(3, 2))
positive, turning = gt.tensor("positive", shape=(3, 3)), gt.tensor("quarter", shape=(3, 3))
small, y = gt.tensor("smaller", shape=(2, 2)), gt.tensor("right", shape=(3,))
v = gt.tensor("powers", shape=(3,))
several = gt.tensor("several", shape=(2, 3, 3))
six = gt.tensor("six", shape=(6, 2))
five = gt.tensor("five", shape=(5, 2))
z = gt.tensor("complex_square", dtype="complex128", shape=(3, 3))

VALUES: dict[Node, Any] = {
    # Elimination is exact for these: all that is divided by is a power of 2.
    a: np.array([[4.0, 1.0, 0.5], [1.0, 2.25, 1.125], [-2.0, 0.5, 1.25]]),
    positive: np.array([[4.0, 2.0, 2.0], [2.0, 5.0, 3.0], [2.0, 3.0, 6.0]]),
    b: np.array([[1.0, 2.0], [-3.0, 0.5], [2.0, 1.0]]),
    y: np.array([1.0, -2.0, 4.0]),
    v: np.array([2.0, 0.5, 4.0]),
    turning: np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
    small: np.array([[1.0, 2.0], [0.5, 2.0]]),
    several: np.array([np.diag([1.0, 2.0, 4.0]) + np.eye(3, k=1), np.eye(3) * 2 + np.eye(3, k=-1)]),
    five: np.arange(1.0, 11.0).reshape(5, 2),
    six: np.arange(1.0, 13.0).reshape(6, 2),
}

low, up = gt.tril(a), gt.triu(a)
known = gt.assume(positive, positive_definite=True)
symmetric = gt.assume(positive, symmetric=True)
three = gt.triu(gt.tril(positive, 1), -1)
q = gt.assume(turning, orthogonal=True)
kron, blocks = gt.linalg.kron, gt.linalg.block_diag

oblong = blocks(gt.tensor("tall", shape=(3, 2)), gt.tensor("wide", shape=(2, 3)))


def solve(a: Node, b: Node, assume: str = "gen", transposed: bool = False) -> Any:
    return make(Solve(assume, transposed), a, b)


def inv(a: Node, assume: str = "gen") -> Any:
    return make(Inverse(assume), a)


def det(a: Node, assume: str = "gen") -> Any:
    return make(Det(assume), a)


def slogdet(a: Node, assume: str = "gen") -> list[Any]:
    return picks(Node.make(SlogDet(assume), a))


def cholesky(a: Node) -> Any:
    return make(Cholesky(), a)


def column(x: Node) -> Any:
    return make(ExpandDims((1,)), x)


def main(x: Node) -> Any:
    return make(MatrixDiagonal(0), x)


EXAMPLES: dict[str, list[Example]] = {
    "solve_by_structure": [
        (solve(low, b), solve(low, b, "lower triangular")),
        (solve(up, b, transposed=True), solve(up, b, "upper triangular", True)),
        (solve(known, b), solve(known, b, "pos")),
        (solve(q, b), solve(q, b, "orthogonal")),
        (solve(three, b), solve(three, b, "tridiagonal")),
        (
            solve(gt.assume(three, positive_definite=True), b, "pos", True),
            solve(gt.assume(three, positive_definite=True), b, "tridiagonal", True),
        ),
        (solve(gt.diag(v), b, "pos"), solve(gt.diag(v), b, "diagonal")),
        (solve(gt.diag(v), b, "lower triangular"), solve(gt.diag(v), b, "diagonal")),
        (solve(a.T @ a + 0.5 * gt.eye(3), b), solve(a.T @ a + 0.5 * gt.eye(3), b, "pos")),
    ],
    "solve_of_transpose": [
        (solve(a.T, b), solve(a, b, transposed=True)),
        (solve(low.T, b, "upper triangular"), solve(low, b, "lower triangular", True)),
    ],
    "solve_of_symmetric": [
        (solve(positive, b, "pos", True), solve(positive, b, "pos")),
        (solve(symmetric, b, "gen", True), solve(symmetric, b)),
    ],
    "solve_of_scaled": [
        (solve(a, scalar * b), scalar * solve(a, b)),
        (solve(a, -b), -solve(a, b)),
        (solve(a, column(y * 2.0)), 2.0 * solve(a, column(y))),
    ],
    "solve_of_inverse": [
        (solve(inv(a), b), a @ b),
        (solve(inv(a), b, transposed=True), a.T @ b),
    ],
    "solve_of_itself": [
        (solve(a, a), gt.eye(3)),
        (solve(a, a @ b), b),
        (solve(positive, positive @ a.T, "pos"), a.T),
    ],
    "dot_with_solution": [
        (a @ solve(a, b), b),
        (a.T @ solve(a, b, transposed=True), b),
    ],
    "solve_of_product": [
        (solve(low @ up, b), solve(up, solve(low, b))),
        (solve(low @ low.T, b), solve(low, solve(low, b), transposed=True)),
        (
            solve(q @ up, b, transposed=True),
            solve(q, solve(up, b, transposed=True), transposed=True),
        ),
    ],
    "solve_of_kron": [
        (
            solve(kron(a, small), six),
            gt.reshape(
                gt.swapaxes(
                    gt.reshape(
                        solve(
                            small,
                            gt.reshape(
                                gt.swapaxes(
                                    gt.reshape(solve(a, gt.reshape(six, (3, 4))), (3, 2, 2)), 0, 1
                                ),
                                (2, 6),
                            ),
                        ),
                        (2, 3, 2),
                    ),
                    0,
                    1,
                ),
                (6, 2),
            ),
        ),
    ],
    "solve_of_blocks": [
        (
            solve(blocks(a, small), five),
            gt.concatenate([solve(a, five[0:3]), solve(small, five[3:5])], 0),
        ),
        (
            solve(blocks(small, low), five, "lower triangular", True),
            gt.concatenate(
                [
                    solve(small, five[0:2], "lower triangular", True),
                    solve(low, five[2:5], "lower triangular", True),
                ],
                0,
            ),
        ),
        (
            make(SolveTriangular(True, False, True), blocks(small, a), five),
            gt.concatenate(
                [
                    make(SolveTriangular(True, False, True), small, five[0:2]),
                    make(SolveTriangular(True, False, True), a, five[2:5]),
                ],
                0,
            ),
        ),
    ],
    "triangle_that_is_read": [
        (
            make(SolveTriangular(True, False, False), low, b),
            make(SolveTriangular(True, False, False), a, b),
        ),
        (
            make(SolveTriangular(False, True, True), gt.triu(a, -1), b),
            make(SolveTriangular(False, True, True), a, b),
        ),
        (solve(low, b, "lower triangular"), solve(a, b, "lower triangular")),
        (inv(up, "upper triangular"), inv(a, "upper triangular")),
        (det(low, "lower triangular"), det(a, "lower triangular")),
    ],
    "diagonal_of_triangle": [
        (main(low), main(a)),
        (make(MatrixDiagonal(-1), gt.triu(a, -1)), make(MatrixDiagonal(-1), a)),
    ],
    "inverse_by_structure": [
        (inv(low), inv(low, "lower triangular")),
        (inv(known), inv(known, "pos")),
        (inv(q), inv(q, "orthogonal")),
        (inv(three), inv(three, "tridiagonal")),
    ],
    "dot_with_inverse": [
        (inv(a) @ b, solve(a, b)),
        (b.T @ inv(a), solve(a, b.T.T, transposed=True).T),
        (inv(positive, "pos") @ y, gt.squeeze(solve(positive, column(y), "pos"), 1)),
        (gt.matmul(inv(several), several), solve(several, several)),
    ],
    "inverse_of_inverse": [(inv(inv(a)), a), (inv(inv(positive, "pos")), positive)],
    "inverse_of_transpose": [
        (inv(a.T), inv(a).T),
        (inv(low.T, "upper triangular"), inv(low, "lower triangular").T),
    ],
    "inverse_of_diagonal": [
        (inv(gt.diag(v), "diagonal"), gt.diag(1 / main(gt.diag(v)))),
        (inv(q, "orthogonal"), q.T),
    ],
    "inverse_of_kron": [(inv(kron(a, small)), kron(inv(a), inv(small)))],
    "inverse_of_blocks": [
        (inv(blocks(a, small)), blocks(inv(a), inv(small))),
        (inv(blocks(positive, known), "pos"), blocks(inv(positive, "pos"), inv(known, "pos"))),
    ],
    "det_of_blocks": [
        (det(blocks(a, small)), det(a) * det(small)),
        (slogdet(blocks(a, small))[0], slogdet(a)[0] * slogdet(small)[0]),
        (
            slogdet(blocks(positive, known), "pos")[1],
            slogdet(positive, "pos")[1] + slogdet(known, "pos")[1],
        ),
        (det(blocks(several, several)), det(several) * det(several)),
    ],
    "det_by_structure": [
        (det(low), det(low, "lower triangular")),
        (det(known), det(known, "pos")),
    ],
    "slogdet_by_structure": [
        (slogdet(up)[0], slogdet(up, "upper triangular")[0]),
        (slogdet(known)[1], slogdet(known, "pos")[1]),
    ],
    "adjugate_of_regular": [
        (
            make(Adjugate("gen"), known),
            make(ExpandDims((0, 1)), det(known, "pos")) * inv(known, "pos"),
        ),
    ],
    "log_of_det": [
        (gt.log(det(positive, "pos")), slogdet(positive, "pos")[1]),
        (gt.log(gt.abs(det(a))), slogdet(a)[1]),
        (gt.log(det(a)), gt.log(slogdet(a)[0]) + slogdet(a)[1]),
    ],
    "sign_of_det": [(gt.sign(det(a)), slogdet(a)[0])],
    "slogdet_that_is_known": [
        (slogdet(q)[1], gt.constant(0.0)),
        (slogdet(positive, "pos")[0], gt.constant(1.0)),
        (slogdet(known)[0], gt.constant(1.0)),
    ],
    "det_of_transpose": [
        (det(a.T), det(a)),
        (slogdet(low.T, "upper triangular")[1], slogdet(low, "lower triangular")[1]),
    ],
    "det_of_inverse": [
        (det(inv(a)), 1 / det(a)),
        (slogdet(inv(a))[0], slogdet(a)[0]),
        (slogdet(inv(positive, "pos"))[1], -slogdet(positive, "pos")[1]),
    ],
    "det_of_product": [
        (det(low @ up), det(low) * det(up)),
        (slogdet(low @ low.T)[1], slogdet(low)[1] + slogdet(low)[1]),
        (slogdet(low @ up)[0], slogdet(low)[0] * slogdet(up)[0]),
    ],
    "det_of_kron": [
        (det(kron(a, small)), det(a) ** 2.0 * det(small) ** 3.0),
        (slogdet(kron(a, small))[1], slogdet(a)[1] * 2.0 + slogdet(small)[1] * 3.0),
    ],
    "det_of_triangle": [
        (det(low, "lower triangular"), gt.prod(main(low), -1)),
        (slogdet(gt.diag(v), "diagonal")[0], gt.prod(gt.sign(main(gt.diag(v))), -1)),
        (slogdet(up, "upper triangular")[1], gt.sum(gt.log(gt.abs(main(up))), -1)),
    ],
    "cholesky_of_mirror": [(cholesky(make(Mirror(True, False), positive)), cholesky(positive))],
    "cholesky_of_diagonal": [(cholesky(gt.diag(v)), gt.diag(gt.sqrt(main(gt.diag(v)))))],
    "cholesky_of_kron": [
        (cholesky(kron(known, gt.eye(2))), kron(cholesky(known), cholesky(gt.eye(2)))),
    ],
    "dot_of_cholesky": [
        (cholesky(positive) @ cholesky(positive).T, make(Mirror(True, True), positive)),
        (cholesky(known) @ cholesky(known).T, known),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "det_by_structure": [det(three), det(q)],
    "solve_by_structure": [
        solve(a, b),
        solve(known, b, "pos"),
        solve(known, b, "lower triangular"),
        solve(three, b, "upper triangular"),
        solve(gt.tril(positive, 1), b),
        solve(a.T @ a, b),
    ],
    "solve_of_transpose": [solve(a, b)],
    "solve_of_symmetric": [
        solve(symmetric, b),
        solve(a, b, transposed=True),
        solve(gt.assume(z, symmetric=True), z, transposed=True),
    ],
    "solve_of_scaled": [solve(a, b * y[:, None]), solve(a, b + 1)],
    "solve_of_itself": [
        solve(a, a, transposed=True),
        solve(a, a, "lower triangular"),
        solve(a, a.T @ b),
    ],
    "dot_with_solution": [a @ solve(a, b, transposed=True), positive @ solve(a, b)],
    "solve_of_blocks": [solve(oblong, five)],
    "inverse_of_blocks": [inv(oblong)],
    "det_of_blocks": [det(oblong), slogdet(oblong)[1]],
    "solve_of_product": [solve(low @ a, b), solve(low @ up, b, "lower triangular")],
    "triangle_that_is_read": [
        solve(up, b, "lower triangular"),
        solve(low, b),
        make(SolveTriangular(True, False, False), gt.tril(a, -1), b),
    ],
    "diagonal_of_triangle": [
        main(gt.tril(a, -1)),
        make(MatrixDiagonal(1), low),
        main(gt.where(a > 0, a, 0.0)),
    ],
    "inverse_of_inverse": [inv(inv(a), "lower triangular"), inv(inv(a, "lower triangular"))],
    "adjugate_of_regular": [make(Adjugate("gen"), positive), make(Adjugate("gen"), low)],
    "log_of_det": [gt.log(det(z)), gt.log(det(a) + 1)],
    "slogdet_that_is_known": [slogdet(q)[0], slogdet(a)[1], slogdet(known)[1]],
    "det_of_inverse": [det(inv(z))],
    "det_of_product": [det(a @ low)],
    "det_of_triangle": [det(low), slogdet(positive, "pos")[1]],
    "cholesky_of_mirror": [cholesky(make(Mirror(False, False), positive))],
    "cholesky_of_diagonal": [cholesky(low)],
    "cholesky_of_kron": [cholesky(kron(positive, small))],
    "dot_of_cholesky": [cholesky(positive).T @ cholesky(positive)],
}
