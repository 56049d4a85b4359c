"""Linear algebra over named dimensions; all others are a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError
from graphc.ir import is_complex
from graphc.xtensor.align import Dims
from graphc.xtensor.batch import core_of, with_core
from graphc.xtensor.type import XTensor, as_xtensor

__all__ = ["cholesky", "solve"]


def cholesky(
    x: Any, lower: bool = True, *, check_finite: bool = True, dims: Sequence[str]
) -> XTensor:
    """Return the triangular factor of positive definite matrices.

    Args:
        x: The matrices.
        lower: Whether the factor is lower triangular.
        check_finite: As in SciPy; non-finite values give NaN in any case.
        dims: The dimensions of the matrices' rows and columns.

    Returns:
        An array with the other dimensions of ``x``, then ``dims``.

    Raises:
        AxisError: Another number of dimensions than two, or ``x`` lacks one.
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.as_xtensor([[4.0, 2.0], [2.0, 10.0]], dims=("row", "column"))
        >>> cholesky(x, dims=("row", "column")).eval(mode="NUMPY").tolist()
        [[2.0, 0.0], [1.0, 3.0]]
    """
    core = core_of("cholesky", dims, (2,))
    (values,), batch = with_core("cholesky", [x], [core])
    factor = gt.linalg.cholesky(values, lower, check_finite=check_finite)
    return XTensor(factor, [*batch, *core])


def solve(  # noqa: PLR0913 (PyTensor's arguments)
    a: Any,
    b: Any,
    dims: Sequence[str],
    assume_a: str = "gen",
    lower: bool = False,
    check_finite: bool = True,
    *,
    rows: str | None = None,
) -> XTensor:
    """Return the solution of a system of linear equations.

    Args:
        a: Square matrices.
        b: The right sides.
        dims: Two dimensions for vectors: both of ``a``, one of them of ``b``. Three for matrices:
            two of ``a``, two of ``b``, one of them shared.
        assume_a: The structure of ``a``, as for ``graphc.tensor.linalg.solve``.
        lower: Whether the lower triangle of symmetric and positive definite matrices is read.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        rows: The dimension of ``a`` that numbers the equations. With a dimension of ``b``, the
            result x fulfils ``dot(a, x) = b``; with the other one, which PyTensor takes, it solves
            the transposed system. A symmetric matrix needs no choice.

    Returns:
        An array with the dimensions of both that are not in ``dims``, then the one of ``a`` which
        ``b`` lacks, then the one of ``b`` which ``a`` lacks.

    Raises:
        ArgumentError: The matrix is not assumed to be symmetric, and there is no ``rows``.
        AxisError: Another number of dimensions, or they are not shared in this way.
        ShapeError: The matrices are not square, or lengths differ.

    Example:
        >>> import graphc.xtensor as gx
        >>> a = gx.as_xtensor([[0.0, 2.0], [4.0, 4.0]], dims=("equation", "unknown"))
        >>> b = gx.as_xtensor([2.0, 8.0], dims=("equation",))
        >>> x = solve(a, b, dims=("equation", "unknown"), rows="equation")
        >>> x.dims, x.eval(mode="NUMPY").tolist()
        (('unknown',), [1.0, 1.0])
    """
    a, b = as_xtensor(a), as_xtensor(b)
    core = core_of("solve", dims, (2, 3))
    shared, a_only, columns = _split_core(a, b, core)
    matrix = _matrix(a, (*a_only, *shared), assume_a, rows)
    (lhs, rhs), batch = with_core("solve", [a, b], [matrix, (*shared, *columns)])
    solution = gt.linalg.solve(
        lhs, rhs, assume_a=assume_a, lower=lower, check_finite=check_finite, b_ndim=len(core) - 1
    )
    return XTensor(solution, [*batch, *a_only, *columns])


SYMMETRIC = {"sym", "symmetric", "pos", "positive definite", "positive_definite", "diagonal"}
"""The values of ``assume_a`` for matrices that equal their transpose."""


def _matrix(a: XTensor, core: Dims, assume_a: str, rows: str | None) -> Dims:
    """Return the dimensions of the matrices' rows and columns."""
    if rows is None:
        is_real = not is_complex(a.dtype)
        if assume_a not in SYMMETRIC and not (is_real and assume_a in {"her", "hermitian"}):
            raise ArgumentError(
                f"solve({a!r}): which dimension numbers the equations, {core[0]!r} or {core[1]!r}?",
                f"Say rows={core[1]!r}, and dot(a, x) is b; rows={core[0]!r} is what PyTensor "
                "solves. A symmetric matrix needs neither: assume_a='sym' or 'pos'.",
            )
        return core
    if rows not in core:
        raise AxisError(f"solve: rows={rows!r}.", f"Choose one of {core}.")
    return core if rows == core[0] else core[::-1]


def _split_core(a: XTensor, b: XTensor, core: Dims) -> tuple[Dims, Dims, Dims]:
    """Return the core dimensions of both operands, of ``a`` alone, and of ``b`` alone."""
    common = tuple(dim for dim in core if dim in a.dims and dim in b.dims)
    a_only = tuple(dim for dim in core if dim in a.dims and dim not in b.dims)
    b_only = tuple(dim for dim in core if dim in b.dims and dim not in a.dims)
    if (len(common), len(a_only), len(b_only)) != (1, 1, len(core) - 2):
        raise AxisError(
            f"solve({a!r}, {b!r}) over {core}.",
            "Of two dimensions a has both and b one; of three, a has two and b two, one is shared.",
        )
    return common, a_only, b_only
