"""Factors of sparse, symmetric, positive definite matrices, such as precision matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.structures.formats import CSC
from graphc.implicit.structures.sparse import Sparse
from graphc.implicit.structures.sparse_product import indices_of
from graphc.ir import Node, is_complex, picks
from graphc.tensor import as_tensor
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.index import set_subtensor
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.axes import expand_dims, moveaxis, squeeze
from graphc.tensor.core.elementwise import (
    cast,
    equal,
    isnan,
    less,
    logical_not,
    where,
    wide_dtype_name,
)
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor, TensorLike
from graphc.tensor.linalg.sparse.operations import (
    LogDetSlope,
    SparseRoot,
    SparseSlogDet,
    SparseSolve,
)

REFUSED = CheckAndRaise(np.linalg.LinAlgError, "sparse_cholesky: not positive definite.")


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix as the inputs of operations.

    Attributes:
        data: The values, (..., nse).
        rows: The row indices, (nse,) or of data's shape.
        columns: The column indices.
        n: The number of rows and columns.
    """

    data: Tensor
    rows: Tensor
    columns: Tensor
    n: int

    @classmethod
    def of(cls, title: str, x: Sparse, data: Any = None) -> SparseMatrix:
        """Convert a sparse array; known indices are constants of the graph.

        Raises:
            ShapeError: If the array is not square.
            DTypeError: If the values are complex.
        """
        m, n = x.matrix
        if m != n:
            raise ShapeError(f"{title}: {x!r} of {m} rows and {n} columns.", "Give a square one.")
        values = as_tensor(x.values if data is None else data)
        if is_complex(values.dtype):
            raise DTypeError(
                f"{title}: {x!r} of dtype {values.dtype}.",
                "Sparse factors are real: give real values, or the dense matrix, q.dense().",
            )
        dtype = wide_dtype_name(values.dtype) if values.dtype.startswith("float") else "float64"
        rows, columns = indices_of(x)
        return cls(cast(values, dtype), as_tensor(rows), as_tensor(columns), n)

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs of operations."""
        return self.data, self.rows, self.columns


@dataclass(frozen=True, eq=False)
class SparseCholesky:
    """The Cholesky factor of a sparse matrix, made by ``gt.linalg.sparse_cholesky``.

    The factor is symbolic: its methods return symbolic arrays, all of which share one factorisation
    when a function runs. The factor stays on the host.

    Attributes:
        matrix: The matrix Q that is factorised.
        triangle: The triangle of Q that is read, ``"lower"`` or ``"upper"``.
        on_error: The behaviour if Q is not positive definite, ``"nan"`` or ``"raise"``.
    """

    matrix: SparseMatrix
    triangle: str
    on_error: str

    def __repr__(self) -> str:
        n, data = self.matrix.n, self.matrix.data
        return f"SparseCholesky({n} by {n}, values {data.type!r})"

    def _check_definite(self, y: Tensor, x: Tensor) -> Tensor:
        return REFUSED(y, logical_not(isnan(x))) if self.on_error == "raise" else y

    def logdet(self) -> Tensor:
        """Return the logarithm of the determinant, one number for each matrix.

        The gradient consists of the elements of the inverse at the positions of Q (Takahashi's
        equations), and is differentiable in turn.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).logdet().eval(mode="NUMPY").round(4).item()
            1.3863
        """
        op = SparseSlogDet(self.matrix.n, self.triangle)
        _, y = picks(Node.make(op, *self.matrix.inputs))
        return self._check_definite(y, y)

    def solve(self, b: TensorLike, *, b_ndim: int | None = None) -> Tensor:
        """Return the solution x of ``Q @ x = b``.

        Args:
            b: Vectors (..., n), or matrices (..., n, c) of columns; leading axes as in Q's values.
            b_ndim: 1 for vectors, 2 for matrices; by default 2 if b has more axes than Q's values.

        Returns:
            An array of b's shape.

        Raises:
            ShapeError: If the lengths do not fit.
            ArgumentError: If ``b_ndim`` is neither 1 nor 2.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).solve([6.0, 4.0]).eval(mode="NUMPY").round(9).tolist()
            [1.0, 1.0]
        """
        op = SparseSolve(self.matrix.n, self.triangle, False)
        return self._by_columns(op, b, b_ndim)

    def inverse_root(self, z: TensorLike, *, b_ndim: int | None = None) -> Tensor:
        """Multiply by a square root R of the inverse, ``R @ R.T = inv(Q)``.

        The order of R's columns is unspecified: z should be an array of independent numbers. There
        is a gradient with respect to z, and none with respect to Q.

        Args:
            z: Vectors (..., n), or matrices (..., n, c) of columns; leading axes as in Q's values.
            b_ndim: As for ``solve``.

        Example:
            >>> import numpy as np, scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 0.0], [0.0, 1.0]])
            >>> r = gt.linalg.sparse_cholesky(q).inverse_root(np.eye(2)).eval(mode="NUMPY")
            >>> (r @ r.T).tolist()
            [[0.25, 0.0], [0.0, 1.0]]
        """
        op = SparseRoot(self.matrix.n, self.triangle, False)
        return self._by_columns(op, z, b_ndim)

    def sample(self, rng: Any, size: int | None = None) -> Tensor:
        """Draw from the normal distribution of mean 0 and precision Q.

        Args:
            rng: A generator of graphc, such as ``gt.random.RandomStream(seed)``.
            size: The number of draws; None for one draw, without an axis for draws.

        Returns:
            (..., n), with draws along a leading axis if there is a size.

        Example:
            >>> import numpy as np, scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> draws = gt.linalg.sparse_cholesky(q).sample(gt.random.RandomStream(1), 20_000)
            >>> np.cov(draws.eval(mode="NUMPY").T).round(1).tolist()
            [[0.5, -0.5], [-0.5, 1.0]]
        """
        data = self.matrix.data
        shape = (*lengths(data)[:-1], self.matrix.n, 1 if size is None else size)
        z = cast(rng.normal(size=shape), data.dtype)
        y = self.inverse_root(z, b_ndim=2)
        return squeeze(y, -1) if size is None else moveaxis(y, -1, 0)

    def inverse(self) -> Tensor:
        """Return the elements of the inverse at the positions of Q's values.

        Returns:
            An array of the shape of Q's values, with zeros in the triangle that is not read.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).inverse().eval(mode="NUMPY").round(9).tolist()
            [0.5, -0.5, 0.0, 1.0]
        """
        m = self.matrix
        y = Tensor.make(LogDetSlope(m.n, self.triangle), *m.inputs)
        return self._check_definite(where(equal(m.rows, m.columns), y, y / 2), y)

    def variances(self) -> Tensor:
        """Return the diagonal of the inverse: the variance of each element, (..., n).

        Raises:
            ShapeError: If each matrix of a stack has another pattern.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).variances().eval(mode="NUMPY").round(9).tolist()
            [0.5, 1.0]
        """
        m = self.matrix
        if m.rows.ndim != 1:
            raise ShapeError(
                "variances() of a stack whose matrices have different patterns.",
                "Give the values of all to one pattern: sparse_cholesky(pattern, data).",
            )
        index = where(equal(m.rows, m.columns) & less(m.rows, m.n), m.rows, m.n)
        # One more element collects everything off the diagonal.
        empty = zeros((*lengths(m.data)[:-1], m.n + 1), dtype=m.data.dtype)
        return set_subtensor(empty[..., index], self.inverse())[..., : m.n]

    def _by_columns(self, op: Any, b: TensorLike, b_ndim: int | None) -> Tensor:
        data = self.matrix.data
        b = cast(as_tensor(b), data.dtype)
        ndim = (2 if b.ndim > data.ndim else 1) if b_ndim is None else b_ndim
        if ndim not in {1, 2}:
            raise ArgumentError(f"{op.name}: b_ndim={b_ndim!r}.", "Use 1 or 2.")
        x = apply_to_columns(op, self.matrix, b, ndim)
        return self._check_definite(x, x)


def apply_to_columns(op: Any, matrix: SparseMatrix, b: Tensor, ndim: int) -> Tensor:
    """Apply an operation to vectors, or matrices of columns, broadcast to the matrix's batch."""
    columns = expand_dims(b, b.ndim) if ndim == 1 else b
    batch = lengths(matrix.data)[:-1]
    if columns.ndim - 2 < len(batch):
        columns = broadcast_to(columns, (*batch, *lengths(columns)[-2:]))
    y = Tensor.make(op, *matrix.inputs, columns)
    return squeeze(y, -1) if ndim == 1 else y


def sparse_cholesky(
    q: Any, data: TensorLike | None = None, *, lower: bool = True, on_error: str = "nan"
) -> SparseCholesky:
    """Factorise a sparse, symmetric, positive definite matrix, such as a precision matrix.

    SciPy's SuperLU factorises when a function runs; the pattern of the gradient is computed once,
    and the values may change from call to call. One triangle is read, and the gradient is with
    respect to the values of this triangle, as for ``gt.linalg.cholesky``.

    Args:
        q: A symbolic or other ``CSC``, ``CSR`` or ``BCOO``, a sparse expression of these, or a
            matrix of ``scipy.sparse``.
        data: Values instead of q's, (..., nse), whose leading axes are a batch of matrices with the
            pattern of q.
        lower: Whether the lower triangle is read, or the upper one.
        on_error: The results for a matrix that is not positive definite: ``"nan"`` for NaN,
            ``"raise"`` for an error when the program runs.

    Returns:
        A ``SparseCholesky``, with ``logdet``, ``solve``, ``sample``, ``inverse``, ``variances`` and
        ``inverse_root``.

    Raises:
        ArgumentError: If q is no sparse matrix, or ``on_error`` is unknown.
        ShapeError: If q is not square.
        DTypeError: If q is complex.
        LinAlgError: When the program runs, with ``on_error="raise"``, if q is not positive
            definite. The error is both NumPy's and a GraphcError.

    Example:
        >>> import numpy as np, scipy.sparse, graphc, graphc.tensor as gt
        >>> path = scipy.sparse.diags_array([[-1.0] * 4, [2.5] * 5, [-1.0] * 4], offsets=[-1, 0, 1])
        >>> q, x = gt.implicit(graphc.implicit.CSC.from_scipy(path), name="q"), gt.vector("x")
        >>> factor = gt.linalg.sparse_cholesky(q)
        >>> log_density = factor.logdet() / 2 - x @ (q @ x) / 2
        >>> f = graphc.function([q, x], [log_density, graphc.grad(log_density, q.array.data)])
        >>> value, gradient = f(graphc.implicit.CSC.from_scipy(path), np.ones(5))
        >>> gradient.shape
        (13,)
    """
    if on_error not in {"nan", "raise"}:
        raise ArgumentError(
            f"sparse_cholesky: unknown on_error={on_error!r}.", "Use 'nan' or 'raise'."
        )
    if isinstance(q, Node) and not isinstance(q, ImplicitTensor):
        (q,) = expanded([q])  # such as a number times a sparse matrix
    array = q.array if isinstance(q, ImplicitTensor) else q
    if not isinstance(array, Sparse) and hasattr(array, "tocsc"):
        array = CSC.from_scipy(array)
    if not isinstance(array, Sparse):
        raise ArgumentError(
            f"sparse_cholesky: {q!r} is no sparse matrix.",
            "Give a CSC, CSR or BCOO of graphc.implicit, or of scipy.sparse; of a dense matrix, "
            "use gt.linalg.cholesky.",
        )
    if data is not None and array.ndim != 2:
        raise ShapeError(f"sparse_cholesky: {array!r} is a stack, and data is given as well.")
    matrix = SparseMatrix.of("sparse_cholesky", array, data)
    return SparseCholesky(matrix, "lower" if lower else "upper", on_error)
