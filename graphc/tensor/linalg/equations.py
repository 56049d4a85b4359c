"""Matrix equations: Sylvester's, Lyapunov's and Riccati's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Shape, TensorType
from graphc.ir.lengths import AnyLength, agree, common
from graphc.tensor.arrays.create import eye
from graphc.tensor.core.elementwise import conj
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import spectra
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, check_floats, common_lengths, square
from graphc.tensor.linalg.solve import Solve


def batch_shape(op: str, *types: TensorType) -> Shape:
    """Return the common lengths of the axes in front of matrices.

    Raises:
        ShapeError: The lengths differ.
        DTypeError: The dtypes differ.
    """
    check_floats(op, *types)
    for t in types:
        spectra.check_matrix(op, t)
    return common_lengths(op, types, [t.shape[:-2] for t in types])


def _equal(op: str, *lengths: AnyLength | None) -> Any:
    if not agree(*lengths):
        raise ShapeError(f"{op}: the lengths {', '.join(map(str, lengths))} differ.")
    return common(*lengths)


@dataclass(frozen=True, slots=True)
class Sylvester(MatrixOp):
    """The solution x of ``a @ x + x @ b = q``; NaN where a matrix is not finite.

    There is one such x unless an eigenvalue of a is one of -b.
    """

    by_numpy = True
    name = "solve_sylvester"

    def infer(self, a: TensorType, b: TensorType, q: TensorType) -> TensorType:
        heads = batch_shape(self.name, a, b, q)
        n = _equal(self.name, square(self.name, a).shape[-1], q.shape[-2])
        m = _equal(self.name, square(self.name, b).shape[-1], q.shape[-1])
        return q.with_shape((*heads, n, m))

    def perform(self, a: Any, b: Any, q: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        def one(a: Any, b: Any, q: Any) -> Any:
            return (scipy.linalg.solve_sylvester(a, b, q),)

        (x,) = spectra.map_matrices(one, [a, b, q], [q.shape[-2:]], [q.dtype])
        return x

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor, q: Tensor) -> Sequence[Tensor]:
        """Source: Kao & Hennequin, arXiv:2011.11430, 2020."""
        by_q = Tensor.make(self, adjoint(a), adjoint(b), g)
        return -matmul(by_q, adjoint(y)), -matmul(adjoint(y), by_q), by_q

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        a, b, _ = inputs
        da, db, dq = tangents
        terms = [] if dq is None else [dq]
        terms += [] if da is None else [-matmul(da, y)]
        terms += [] if db is None else [-matmul(y, db)]
        return Tensor.make(self, a, b, sum(terms[1:], terms[0])) if terms else None


@dataclass(frozen=True, slots=True)
class DiscreteRiccati(MatrixOp):
    """The stabilising solution of the discrete algebraic Riccati equation; NaN if none.

    ``a.H @ x @ a - x - a.H @ x @ b @ inv(r + b.H @ x @ b) @ b.H @ x @ a + q = 0``, where q and r
    stand for the means of them and their adjoints.
    """

    by_numpy = True
    name = "solve_discrete_are"

    def infer(self, a: TensorType, b: TensorType, q: TensorType, r: TensorType) -> TensorType:
        heads = batch_shape(self.name, a, b, q, r)
        n = _equal(
            self.name, square(self.name, a).shape[-1], square(self.name, q).shape[-1], b.shape[-2]
        )
        _equal(self.name, square(self.name, r).shape[-1], b.shape[-1])
        return a.with_shape((*heads, n, n))

    def perform(self, a: Any, b: Any, q: Any, r: Any) -> Any:
        import scipy.linalg

        def one(a: Any, b: Any, q: Any, r: Any) -> Any:
            q, r = (q + q.conj().T) / 2, (r + r.conj().T) / 2
            return (scipy.linalg.solve_discrete_are(a, b, q, r),)

        (x,) = spectra.map_matrices(one, [a, b, q, r], [a.shape[-2:]], [a.dtype])
        return x

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Tensor]:
        """Apply the implicit function theorem, with the feedback k and closed loop ``a - b @ k``.

        Source: Kao & Hennequin, arXiv:2011.11430, 2020.
        """
        a, b, _, r = inputs
        inner = (r + adjoint(r)) / 2 + matmul(adjoint(b), matmul(y, b))
        k = Tensor.make(Solve("gen", False), inner, matmul(adjoint(b), matmul(y, a)))
        loop = a - matmul(b, k)
        s = _discrete_lyapunov(loop, (g + adjoint(g)) / 2)
        by_a = 2 * matmul(matmul(y, loop), s)
        by_r = matmul(matmul(k, s), adjoint(k))
        return by_a, -matmul(by_a, adjoint(k)), s, by_r


def _discrete_lyapunov(a: Tensor, q: Tensor) -> Tensor:
    """Return the solution x of ``x = a @ x @ a.H + q``, by a Sylvester equation.

    ``(a - 1) / (a + 1)`` maps the unit circle to the imaginary axis.
    """
    unit = eye(length(a, -1), dtype=a.dtype)
    solve = Solve("gen", False)
    # With c = inv(a + 1): (a - 1) c x + x ((a - 1) c).H = -2 c q c.H.
    transform = Tensor.make(solve, a + unit, a - unit)
    half = Tensor.make(solve, a + unit, q)
    right_side = adjoint(Tensor.make(solve, a + unit, adjoint(half)))
    return Tensor.make(Sylvester(), transform, adjoint(transform), -2 * right_side)


@function
def solve_sylvester(A: TensorLike, B: TensorLike, Q: TensorLike) -> Tensor:  # noqa: N803 (SciPy's names)
    """Return the solution x of ``A @ x + x @ B = Q``.

    Args:
        A: Matrices of n by n, the last two axes; those in front broadcast.
        B: Matrices of m by m.
        Q: Matrices of n by m.

    Returns:
        Matrices of n by m; NaN where one holds NaN or infinity. Where an eigenvalue of A is one of
        -B, there is no unique solution, and the result is meaningless.

    Raises:
        ShapeError: Lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.solve_sylvester([[2.0]], [[1.0]], [[6.0]]).eval(mode="NUMPY").tolist()
        [[2.0]]
    """
    (a, b, q), dtype = spectra.as_batched_matrices("solve_sylvester", A, B, Q)
    return spectra.rounded_back(Tensor.make(Sylvester(), a, b, q), dtype)


@function
def solve_continuous_lyapunov(A: TensorLike, Q: TensorLike) -> Tensor:  # noqa: N803 (SciPy's names)
    """Return the solution x of ``A @ x + x @ A.H = Q``.

    Args:
        A: Matrices of n by n, the last two axes; those in front broadcast.
        Q: Matrices of n by n.

    Returns:
        Matrices of n by n, as from ``solve_sylvester``.

    Raises:
        ShapeError: Lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.solve_continuous_lyapunov([[-1.0]], [[4.0]]).eval(mode="NUMPY").tolist()
        [[-2.0]]
    """
    (a, q), dtype = spectra.as_batched_matrices("solve_continuous_lyapunov", A, Q)
    return spectra.rounded_back(Tensor.make(Sylvester(), a, adjoint(a), q), dtype)


@function
def solve_discrete_lyapunov(A: TensorLike, Q: TensorLike, method: str = "bilinear") -> Tensor:  # noqa: N803
    """Return the solution x of ``x = A @ x @ A.H + Q``.

    Args:
        A: Matrices of n by n, the last two axes; those in front broadcast.
        Q: Matrices of n by n.
        method: ``"bilinear"``, by a continuous Lyapunov equation: n cubed operations; A must not
            have the eigenvalue -1. ``"direct"``, by n squared linear equations: for small n.

    Returns:
        Matrices of n by n.

    Raises:
        ArgumentError: There is no such method.
        ShapeError: Lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.linalg.solve_discrete_lyapunov([[0.5]], [[3.0]])
        >>> x.eval(mode="NUMPY").round(12).tolist()
        [[4.0]]
    """
    if method not in {"bilinear", "direct"}:
        raise ArgumentError(
            f"solve_discrete_lyapunov: unknown method={method!r}.",
            "Use 'bilinear' or 'direct'.",
        )
    (a, q), dtype = spectra.as_batched_matrices("solve_discrete_lyapunov", A, Q)
    heads = batch_shape("solve_discrete_lyapunov", a.type, q.type)
    Sylvester().infer(a.type, a.type, q.type.with_shape((*heads, *q.type.shape[-2:])))
    return spectra.rounded_back(
        _discrete_lyapunov(a, q) if method == "bilinear" else _direct(a, q), dtype
    )


def _direct(a: Tensor, q: Tensor) -> Tensor:
    """Solve for the rows of x, one after the other, as one vector of n**2 unknowns."""
    n = length(a, -1)
    pairs = a[..., :, None, :, None] * conj(a)[..., None, :, None, :]
    front = lengths(a)[:-2]
    matrix = eye(n * n, dtype=a.dtype) - reshape(pairs, (*front, n * n, n * n))
    x = Tensor.make(Solve("gen", False), matrix, reshape(q, (*front, n * n, 1)))
    return reshape(x, (*front, n, n))


@function
def solve_discrete_are(A: TensorLike, B: TensorLike, Q: TensorLike, R: TensorLike) -> Tensor:  # noqa: N803 (SciPy's names)
    """Return the stabilising solution of the discrete algebraic Riccati equation.

    x in ``A.H @ x @ A - x - A.H @ x @ B @ inv(R + B.H @ x @ B) @ B.H @ x @ A + Q = 0`` for which
    the eigenvalues of ``A - B @ inv(R + B.H @ x @ B) @ B.H @ x @ A`` lie within the unit circle.
    The gradient follows from the implicit function theorem.

    Args:
        A: Matrices of n by n, the last two axes; those in front broadcast.
        B: Matrices of n by k.
        Q: Hermitian matrices of n by n: the mean of each and its adjoint is taken.
        R: Hermitian matrices of k by k, likewise.

    Returns:
        Hermitian matrices of n by n; NaN where there is no such solution, or a matrix holds NaN or
        infinity.

    Raises:
        ShapeError: Lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> one = [[1.0]]
        >>> gt.linalg.solve_discrete_are(one, one, one, one).eval(mode="NUMPY").round(6).tolist()
        [[1.618034]]
    """
    xs, dtype = spectra.as_batched_matrices("solve_discrete_are", A, B, Q, R)
    return spectra.rounded_back(Tensor.make(DiscreteRiccati(), *xs), dtype)
