"""Linear algebra over named dimensions; all others are a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import graphc.tensor as gt
from graphc.errors import AxisError
from graphc.xtensor.align import Dims
from graphc.xtensor.core import core_of, named, with_core
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
    return named(gt.linalg.cholesky(values, lower, check_finite=check_finite), [*batch], core)


def solve(
    a: Any,
    b: Any,
    dims: Sequence[str],
    assume_a: str = "gen",
    lower: bool = False,
    check_finite: bool = True,
) -> XTensor:
    """Return the solution x of ``dot(a, x) = b``.

    Args:
        a: Square matrices.
        b: The right sides.
        dims: Two dimensions for vectors: both of ``a``, one of them of ``b``. Three for matrices:
            two of ``a``, two of ``b``, one of them shared.
        assume_a: What ``a`` is, as for ``graphc.tensor.linalg.solve``.
        lower: Of symmetric and positive definite matrices, whether the lower triangle is read.
        check_finite: As in SciPy; non-finite values are computed with in any case.

    Returns:
        An array with the dimensions of both that are not in ``dims``; then that of ``a`` which
        ``b`` lacks; then that of ``b`` which ``a`` lacks.

    Raises:
        AxisError: Another number of dimensions, or they are not shared as said.
        ShapeError: The matrices are not square, or lengths differ.

    Example:
        >>> import graphc.xtensor as gx
        >>> a = gx.as_xtensor([[0.0, 2.0], [4.0, 4.0]], dims=("equation", "unknown"))
        >>> b = gx.as_xtensor([2.0, 8.0], dims=("equation",))
        >>> x = solve(a, b, dims=("equation", "unknown"))
        >>> x.dims, x.eval(mode="NUMPY").tolist()
        (('unknown',), [1.0, 1.0])
    """
    a, b = as_xtensor(a), as_xtensor(b)
    core = core_of("solve", dims, (2, 3))
    rows, unknown, columns = _sorted(a, b, core)
    (left, right), batch = with_core("solve", [a, b], [(*rows, *unknown), (*rows, *columns)])
    made = gt.linalg.solve(
        left, right, assume_a=assume_a, lower=lower, check_finite=check_finite, b_ndim=len(core) - 1
    )
    return named(made, [*batch], (*unknown, *columns))


def _sorted(a: XTensor, b: XTensor, core: Dims) -> tuple[Dims, Dims, Dims]:
    """The core dimensions of both operands, of a alone, and of b alone."""
    both = tuple(dim for dim in core if dim in a.dims and dim in b.dims)
    own = tuple(dim for dim in core if dim in a.dims and dim not in b.dims)
    other = tuple(dim for dim in core if dim in b.dims and dim not in a.dims)
    if (len(both), len(own), len(other)) != (1, 1, len(core) - 2):
        raise AxisError(
            f"solve({a!r}, {b!r}) over {core}.",
            "Of two dimensions a has both and b one; of three, a has two and b two, one is shared.",
        )
    return both, own, other
