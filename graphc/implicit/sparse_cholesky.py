"""Factors of sparse, symmetric, positive definite matrices, such as precision matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.implicit.array import with_fields
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.structures.compressed import CSC
from graphc.implicit.structures.sparse import Sparse
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
class Matrix:
    """A sparse matrix as operations take it.

    Attributes:
        data: The values, (..., nse).
        rows: Their rows, (nse,) or of data's shape.
        columns: Their columns.
        n: The number of rows and columns.
    """

    data: Tensor
    rows: Tensor
    columns: Tensor
    n: int

    @classmethod
    def of(cls, title: str, x: Sparse, data: Any = None) -> Matrix:
        """Take a sparse array; of fields that are known, the places are found once.

        Raises:
            ShapeError: It is not square.
            DTypeError: It is complex.
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
        _, rows, columns = known_places(x).entries()
        return cls(cast(values, dtype), as_tensor(rows), as_tensor(columns), n)

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs of operations."""
        return self.data, self.rows, self.columns


def known_places(x: Sparse) -> Sparse:
    """The matrix with places of NumPy's, where those are known while the graph is built."""
    places = {name: _value(field) for name, field in vars(x).items() if name in x.own_axes()}
    del places["data"]
    if any(value is None for value in places.values()):
        return x
    shape = places["indices"].shape[: x.ndim - 1]
    return with_fields(x, {"data": np.zeros(shape, np.float32), **places})  # type: ignore[no-any-return]


def _value(field: Any) -> Any:
    """The array in a field; None where it is not known."""
    if isinstance(field, np.ndarray):
        return field
    return getattr(field, "data", None) if isinstance(field, Node) else None


@dataclass(frozen=True, eq=False)
class SparseCholesky:
    """The Cholesky factor of a sparse matrix, made by ``gt.linalg.sparse_cholesky``.

    It is symbolic: its methods give symbolic arrays, all of which use one factor when a function
    runs. The factor stays on the host.

    Attributes:
        matrix: What is factorised.
        triangle: Which of its triangles is read, ``"lower"`` or ``"upper"``.
        on_error: What happens where it is not positive definite, ``"nan"`` or ``"raise"``.
    """

    matrix: Matrix
    triangle: str
    on_error: str

    def __repr__(self) -> str:
        n, data = self.matrix.n, self.matrix.data
        return f"SparseCholesky({n} by {n}, values {data.type!r})"

    def _checked(self, y: Tensor, x: Tensor) -> Tensor:
        return REFUSED(y, logical_not(isnan(x))) if self.on_error == "raise" else y

    def logdet(self) -> Tensor:
        """The logarithm of the determinant, one number for each matrix.

        Its gradient takes the elements of the inverse in the places of Q (Takahashi's equations),
        and has a derivative in its turn.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).logdet().eval(mode="NUMPY").round(4).item()
            1.3863
        """
        op = SparseSlogDet(self.matrix.n, self.triangle)
        _, y = picks(Node.make(op, *self.matrix.inputs))
        return self._checked(y, y)

    def solve(self, b: TensorLike, *, b_ndim: int | None = None) -> Tensor:
        """The solution x of ``Q @ x = b``.

        Args:
            b: Vectors (..., n), or matrices (..., n, c) of columns; leading axes as of Q's values.
            b_ndim: 1 for vectors, 2 for matrices; by default what Q's leading axes leave.

        Returns:
            An array of b's shape.

        Raises:
            ShapeError: Lengths do not fit.
            ArgumentError: No such ``b_ndim``.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).solve([6.0, 4.0]).eval(mode="NUMPY").round(9).tolist()
            [1.0, 1.0]
        """
        op = SparseSolve(self.matrix.n, self.triangle, False)
        return self._by_columns(op, b, b_ndim)

    def inverse_root(self, z: TensorLike, *, b_ndim: int | None = None) -> Tensor:
        """A square root R of the inverse, ``R @ R.T = inv(Q)``, times z.

        The columns of R have an order of their own: z is an array of independent numbers. There is
        a gradient with respect to z, and none with respect to Q.

        Args:
            z: Vectors (..., n), or matrices (..., n, c) of columns; leading axes as of Q's values.
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
            rng: A generator of graphc's, such as ``gt.random.RandomStream(seed)``.
            size: The number of draws; None for one, without an axis of them.

        Returns:
            (..., n), with draws along a leading axis of the given size.

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
        """The elements of the inverse in the places of Q's values, zero in the other triangle.

        Returns:
            An array of the shape of Q's values.

        Example:
            >>> import scipy.sparse, graphc.tensor as gt
            >>> q = scipy.sparse.csc_array([[4.0, 2.0], [2.0, 2.0]])
            >>> gt.linalg.sparse_cholesky(q).inverse().eval(mode="NUMPY").round(9).tolist()
            [0.5, -0.5, 0.0, 1.0]
        """
        m = self.matrix
        y = Tensor.make(LogDetSlope(m.n, self.triangle), *m.inputs)
        return self._checked(where(equal(m.rows, m.columns), y, y / 2), y)

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
                "variances() of a stack whose matrices have places of their own.",
                "Give the values of all to one pattern: sparse_cholesky(pattern, data).",
            )
        on = where(equal(m.rows, m.columns) & less(m.rows, m.n), m.rows, m.n)
        # One more element takes what is not on the diagonal.
        empty = zeros((*lengths(m.data)[:-1], m.n + 1), dtype=m.data.dtype)
        return set_subtensor(empty[..., on], self.inverse())[..., : m.n]

    def _by_columns(self, op: Any, b: TensorLike, b_ndim: int | None) -> Tensor:
        data = self.matrix.data
        b = cast(as_tensor(b), data.dtype)
        ndim = (2 if b.ndim > data.ndim else 1) if b_ndim is None else b_ndim
        if ndim not in {1, 2}:
            raise ArgumentError(f"{op.name}: b_ndim={b_ndim!r}.", "Use 1 or 2.")
        x = solved_columns(op, self.matrix, b, ndim)
        return self._checked(x, x)


def solved_columns(op: Any, matrix: Matrix, b: Tensor, ndim: int) -> Tensor:
    """What an operation makes of vectors, or of matrices of columns; heads of the matrix's."""
    columns = expand_dims(b, b.ndim) if ndim == 1 else b
    heads = lengths(matrix.data)[:-1]
    if columns.ndim - 2 < len(heads):
        columns = broadcast_to(columns, (*heads, *lengths(columns)[-2:]))
    y = Tensor.make(op, *matrix.inputs, columns)
    return squeeze(y, -1) if ndim == 1 else y


def sparse_cholesky(
    q: Any, data: TensorLike | None = None, *, lower: bool = True, on_error: str = "nan"
) -> SparseCholesky:
    """Factorise a sparse, symmetric, positive definite matrix, such as a precision matrix.

    SciPy's SuperLU factorises when a function runs; the pattern of the gradient is computed once,
    and the values may change from call to call. One triangle is read, and the gradient is with
    respect to the values of this triangle, as of ``gt.linalg.cholesky``.

    Args:
        q: A symbolic or other ``CSC``, ``CSR`` or ``BCOO``, a sparse expression of these,
            or a matrix of ``scipy.sparse``.
        data: Values in place of q's, (..., nse), whose leading axes are a batch of matrices with
            the pattern of q.
        lower: Whether the lower triangle is read, or the upper one.
        on_error: What results are for a matrix that is not positive definite: ``"nan"`` for NaN,
            ``"raise"`` for an error when the program runs.

    Returns:
        A ``SparseCholesky``, with ``logdet``, ``solve``, ``sample``, ``inverse``, ``variances`` and
        ``inverse_root``.

    Raises:
        ArgumentError: q is no sparse matrix, or no such ``on_error``.
        ShapeError: q is not square.
        DTypeError: q is complex.
        LinAlgError: When it runs, with ``on_error="raise"``; NumPy's, and a GraphcError.

    Example:
        >>> import numpy as np, scipy.sparse, graphc, graphc.tensor as gt
        >>> path = scipy.sparse.diags_array([[-1.0] * 4, [2.5] * 5, [-1.0] * 4], offsets=[-1, 0, 1])
        >>> q, x = gt.implicit(graphc.implicit.CSC.from_scipy(path), name="q"), gt.vector("x")
        >>> factor = gt.linalg.sparse_cholesky(q)
        >>> log_density = factor.logdet() / 2 - x @ (q @ x) / 2
        >>> f = graphc.function([q, x], [log_density, graphc.grad(log_density, q.array.data)])
        >>> value, slope = f(graphc.implicit.CSC.from_scipy(path), np.ones(5))
        >>> slope.shape
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
    made = Matrix.of("sparse_cholesky", array, data)
    return SparseCholesky(made, "lower" if lower else "upper", on_error)
