"""Triangles of matrices: the elements on one side of a diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.config import config
from graphc.errors import ShapeError
from graphc.tensor.arrays.create import above_diagonal, diagonal_number
from graphc.tensor.arrays.index import nonzero_indices
from graphc.tensor.core.elementwise import cast, where
from graphc.tensor.core.shape import entries, lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, constant, function

__all__ = [
    "tri", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices",
    "triu_indices_from",
]  # fmt: skip


@function
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = None) -> Tensor:  # noqa: N803 (NumPy's names)
    """Return ones at and below a diagonal, zeros above it.

    Args:
        N: The number of rows, a Python or symbolic integer.
        M: The number of columns, by default the number of rows.
        k: The diagonal, a Python or symbolic integer: 0 is the main one, positive ones are
            above it, negative ones below.
        dtype: ``config.floatX`` by default.

    Example:
        >>> tri(2, 3).eval(mode="NUMPY").tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    shape = _counts("tri", N, M)
    return cast(above_diagonal(*shape) <= diagonal_number("tri", k), dtype or config.floatX)


def _counts(op: str, n: Any, m: Any) -> list[Any]:
    static, symbolic = entries(op, (n, n if m is None else m))
    values = iter(symbolic)
    return [next(values) if count is None else count for count in static]


def _triangle(op: str, m: Any, k: Any) -> tuple[Tensor, Tensor, Any]:
    x = as_tensor(m)
    if not x.ndim:
        raise ShapeError(f"{op}: expected a matrix, got {x!r}.")
    # As in NumPy, a vector stands for a square matrix, each row the vector.
    own = lengths(x)[-2:]
    return x, above_diagonal(own[0], own[-1]), diagonal_number(op, k)


@function
def tril(m: Any, k: Any = 0) -> Tensor:
    """Return the matrices in the last two axes, zero above a diagonal.

    Args:
        m: At least one axis; a vector stands for a square matrix, each row the vector.
        k: The diagonal, a Python or symbolic integer: 0 is the main one, positive ones are
            above it, negative ones below.

    Raises:
        ShapeError: m is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.tril([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[1, 0], [3, 4]]
    """
    x, above, offset = _triangle("tril", m, k)
    return where(above <= offset, x, constant(0, dtype=x.dtype))


@function
def triu(m: Any, k: Any = 0) -> Tensor:
    """Return the matrices in the last two axes, zero below a diagonal.

    Args:
        m: At least one axis; a vector stands for a square matrix, each row the vector.
        k: The diagonal, a Python or symbolic integer: 0 is the main one, positive ones are
            above it, negative ones below.

    Raises:
        ShapeError: m is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.triu([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[1, 2], [0, 4]]
    """
    x, above, offset = _triangle("triu", m, k)
    return where(above >= offset, x, constant(0, dtype=x.dtype))


def _indices(op: str, n: Any, k: Any, m: Any, upper: bool) -> tuple[Tensor, ...]:
    rows, columns = _counts(op, n, m)
    if isinstance(rows, int) and isinstance(columns, int) and not isinstance(k, Tensor):
        result = (np.triu_indices if upper else np.tril_indices)(rows, k, columns)
        return tuple(constant(index.astype(np.int64)) for index in result)
    above, offset = above_diagonal(rows, columns), diagonal_number(op, k)
    return nonzero_indices(above >= offset if upper else above <= offset)


@function
def tril_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Tensor, ...]:
    """Return the positions at and below a diagonal, in row-major order.

    Args:
        n: The number of rows, a Python or symbolic integer.
        k: The diagonal, a Python or symbolic integer.
        m: The number of columns, by default the number of rows.

    Returns:
        Two int64 vectors: rows and columns.

    Example:
        >>> [i.eval(mode="NUMPY").tolist() for i in tril_indices(2)]
        [[0, 1, 1], [0, 0, 1]]
    """
    return _indices("tril_indices", n, k, m, upper=False)


@function
def triu_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Tensor, ...]:
    """Return the positions at and above a diagonal; arguments as for ``tril_indices``.

    Example:
        >>> import graphc.tensor as gt
        >>> [part.eval(mode="NUMPY").tolist() for part in gt.triu_indices(2)]
        [[0, 0, 1], [0, 1, 1]]
    """
    return _indices("triu_indices", n, k, m, upper=True)


def matrix_lengths(op: str, a: Any) -> list[int | Tensor]:
    x = as_tensor(a)
    if x.ndim != 2:
        raise ShapeError(f"{op}: expected a matrix, got {x!r}.")
    return lengths(x)


@function
def tril_indices_from(a: TensorLike, k: Any = 0) -> tuple[Tensor, ...]:
    """Return the positions at and below a matrix's diagonal; arguments as for ``tril_indices``.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> [part.eval(mode="NUMPY").tolist() for part in gt.tril_indices_from(np.ones((2, 2)))]
        [[0, 1, 1], [0, 0, 1]]
    """
    n, m = matrix_lengths("tril_indices_from", a)
    return tril_indices(n, k, m)


@function
def triu_indices_from(a: TensorLike, k: Any = 0) -> tuple[Tensor, ...]:
    """Return the positions at and above a matrix's diagonal; arguments as for ``tril_indices``.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> [part.eval(mode="NUMPY").tolist() for part in gt.triu_indices_from(np.ones((2, 2)))]
        [[0, 0, 1], [0, 1, 1]]
    """
    n, m = matrix_lengths("triu_indices_from", a)
    return triu_indices(n, k, m)
