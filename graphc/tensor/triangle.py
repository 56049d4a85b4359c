"""What is on which side of a diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.config import config
from graphc.errors import DTypeError, ShapeError
from graphc.ir import here, is_integer, where as where_is
from graphc.tensor.axes import expand_dims
from graphc.tensor.create import arange
from graphc.tensor.elementwise import cast, where
from graphc.tensor.index import nonzero_places
from graphc.tensor.shape import entries, lengths
from graphc.tensor.tensor import Tensor, as_tensor, constant, function

__all__ = ["above_diagonal", "diagonal_number", "matrix_lengths"]


def above_diagonal(n: int | Tensor, m: int | Tensor) -> Tensor:
    """How far above the main diagonal each element of an n by m matrix is."""
    return expand_dims(arange(m), 0) - expand_dims(arange(n), 1)


def diagonal_number(op: str, k: Any) -> Any:
    """Which diagonal: a Python integer or a symbolic one."""
    x = as_tensor(k)
    if x.ndim or not is_integer(x.dtype):
        raise DTypeError(f"{op}: {k!r} is no diagonal.", "Use an integer.", where_is(here()))
    return cast(x, "int64")


@function
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = None) -> Tensor:  # noqa: N803 (NumPy's names)
    """Ones at and below a diagonal, zeros above it.

    Args:
        N: How many rows, an integer, Python's or symbolic.
        M: How many columns, as many as rows by default.
        k: Which diagonal, Python's or symbolic: 0 the main one, above it from 1 on, below it from
            -1 down.
        dtype: ``config.floatX`` by default.

    Example:
        >>> tri(2, 3).eval(mode="NUMPY").tolist()
        [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    shape = _counts("tri", N, M)
    return cast(above_diagonal(*shape) <= diagonal_number("tri", k), dtype or config.floatX)


def _counts(op: str, n: Any, m: Any) -> list[Any]:
    static, symbolic = entries(op, (n, n if m is None else m))
    given = iter(symbolic)
    return [next(given) if known is None else known for known in static]


def _triangle(op: str, m: Any, k: Any) -> tuple[Tensor, Tensor, Any]:
    x = as_tensor(m)
    if not x.ndim:
        raise ShapeError(f"{op}: {x!r} is no matrix.", "", where_is(here()))
    # As in NumPy, a vector stands for a square matrix, each row the vector.
    own = lengths(x)[-2:]
    return x, above_diagonal(own[0], own[-1]), diagonal_number(op, k)


@function
def tril(m: Any, k: Any = 0) -> Tensor:
    """The matrices in the last two axes, zero above a diagonal.

    Args:
        m: At least one axis; a vector stands for a square matrix, each row the vector.
        k: Which diagonal, Python's or symbolic: 0 the main one, above it from 1 on, below it from
            -1 down.

    Raises:
        ShapeError: A scalar.
    """
    x, above, offset = _triangle("tril", m, k)
    return where(above <= offset, x, constant(0, dtype=x.dtype))  # type: ignore[no-any-return]


@function
def triu(m: Any, k: Any = 0) -> Tensor:
    """The matrices in the last two axes, zero below a diagonal.

    Args:
        m: At least one axis; a vector stands for a square matrix, each row the vector.
        k: Which diagonal, Python's or symbolic: 0 the main one, above it from 1 on, below it from
            -1 down.

    Raises:
        ShapeError: A scalar.
    """
    x, above, offset = _triangle("triu", m, k)
    return where(above >= offset, x, constant(0, dtype=x.dtype))  # type: ignore[no-any-return]


def _places(op: str, n: Any, k: Any, m: Any, upper: bool) -> tuple[Tensor, ...]:
    rows, columns = _counts(op, n, m)
    if isinstance(rows, int) and isinstance(columns, int) and not isinstance(k, Tensor):
        found = (np.triu_indices if upper else np.tril_indices)(rows, k, columns)
        return tuple(constant(places.astype(np.int64)) for places in found)
    above, offset = above_diagonal(rows, columns), diagonal_number(op, k)
    return nonzero_places(above >= offset if upper else above <= offset)


@function
def tril_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Tensor, ...]:
    """The places at and below a diagonal, in row-major order.

    Args:
        n: How many rows, an integer, Python's or symbolic.
        k: Which diagonal, Python's or symbolic.
        m: How many columns, as many as rows by default.

    Returns:
        Two int64 vectors: rows and columns.

    Example:
        >>> [places.eval(mode="NUMPY").tolist() for places in tril_indices(2)]
        [[0, 1, 1], [0, 0, 1]]
    """
    return _places("tril_indices", n, k, m, upper=False)


@function
def triu_indices(n: Any, k: Any = 0, m: Any = None) -> tuple[Tensor, ...]:
    """The places at and above a diagonal; arguments as for ``tril_indices``."""
    return _places("triu_indices", n, k, m, upper=True)


def matrix_lengths(op: str, a: Any) -> list[int | Tensor]:
    x = as_tensor(a)
    if x.ndim != 2:
        raise ShapeError(f"{op}: {x!r} is no matrix.", "", where_is(here()))
    return lengths(x)


@function
def tril_indices_from(a: Any, k: Any = 0) -> tuple[Tensor, ...]:
    """The places at and below a diagonal of a matrix; further arguments as for ``tril_indices``."""
    n, m = matrix_lengths("tril_indices_from", a)
    return tril_indices(n, k, m)


@function
def triu_indices_from(a: Any, k: Any = 0) -> tuple[Tensor, ...]:
    """The places at and above a diagonal of a matrix; further arguments as for ``tril_indices``."""
    n, m = matrix_lengths("triu_indices_from", a)
    return triu_indices(n, k, m)
