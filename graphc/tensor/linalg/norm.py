"""Norms of vectors and matrices."""

from __future__ import annotations

import builtins
import math
from numbers import Real
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import is_inexact
from graphc.tensor.arrays.reduce import any, max, min, sum
from graphc.tensor.core.arithmetic import squared_magnitude
from graphc.tensor.core.axes import expand_dims, moveaxis, squeeze
from graphc.tensor.core.elementwise import abs, cast, equal, not_equal, sqrt, where
from graphc.tensor.core.exponential import power
from graphc.tensor.core.tensor import (
    TABLE,
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    known_axes,
)
from graphc.tensor.linalg.spectra import as_matrices, rounded_back
from graphc.tensor.linalg.svd import Svdvals

__all__ = ["matrix_norm", "norm", "vector_norm"]

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
"""Orders as strings."""


@function
def norm(x: TensorLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the norm of vectors or matrices.

    The gradient at 0 is 0, a subgradient.

    Args:
        x: Any shape; real or complex. Integers become float64.
        ord: Infinity may be the string ``"inf"``, or ``"-inf"``.
            Of vectors, None or 2 for the root of the sum of squares, 1 for the sum of magnitudes,
            ``inf`` and ``-inf`` for the largest and smallest magnitude, 0 for the number of
            nonzeros, any other number p for ``sum(|x|**p)**(1/p)``. Of matrices, None or ``"fro"``
            for the root of the sum of squares, 1 and -1 for the largest and smallest sum of
            magnitudes of a column, ``inf`` and ``-inf`` of a row, 2 and -2 for the largest and
            smallest singular value, ``"nuc"`` for the sum of all.
        axis: The axis of the vectors, or the two of the matrices' rows and columns; by default the
            last two axes are matrices, and the only one of a vector is a vector. (NumPy takes more
            than two axes as one vector; here ``vector_norm`` does.)
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        A real array without ``axis``.

    Raises:
        ArgumentError: ``ord`` is none of these.
        AxisError: x lacks some of the axes.
        ShapeError: There are more than two of them.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.grad(norm(x), x).eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
        [0.0, 0.0]
    """
    x = _floating(x)
    requested = range(builtins.max(x.ndim - 2, 0), x.ndim) if axis is None else known_axes(axis)
    wanted = [requested] if isinstance(requested, int) else requested
    axes = tuple(axes_of("norm", a, x.ndim)[0] for a in wanted)
    axes_of("norm", axes, x.ndim)
    ord = INFINITIES.get(ord, ord) if isinstance(ord, str) else ord
    if len(axes) == 1 and x.ndim > 1 and ord in ("fro", "f"):
        ord = None
    if len(axes) == 1 or ord is None:
        result = _vector_norm(x, ord, axes)
    elif len(axes) == 2:
        result = _matrix_norm(x, ord, *axes)
    else:
        raise ShapeError(
            f"norm({x!r}): {len(axes)} axes are neither a vector nor a matrix.",
            "Pass one or two of them as axis=; vector_norm takes several as one vector.",
        )
    return _drop_axes(result, axes, keepdims)


def _as_in_numpy(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return ``np.linalg.norm``; without ``ord`` and ``axis``, x is flattened to a vector."""
    if ord is None and axis is None:
        return vector_norm(x, keepdims=keepdims)
    return norm(x, ord, axis, keepdims)


TABLE["norm_as_in_numpy"] = _as_in_numpy


@function
def vector_norm(
    x: TensorLike, *, axis: Axis = None, keepdims: bool = False, ord: builtins.float = 2
) -> Tensor:
    """Return the norm of vectors.

    Args:
        x: Any shape; real or complex.
        axis: The axis of the vectors, or several to be taken as one; all by default.
        keepdims: Keep the reduced axes, of length 1.
        ord: The order, as for ``norm``.

    Returns:
        A real array without ``axis``.

    Raises:
        ArgumentError: ``ord`` is not a number.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vector_norm(gt.constant([3.0, -4.0]), ord=1).eval(mode="NUMPY").item()
        7.0
    """
    x = _floating(x)
    axes = axes_of("vector_norm", axis, x.ndim)
    return _drop_axes(_vector_norm(x, ord, axes), axes, keepdims)


@function
def matrix_norm(x: TensorLike, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Return the norm of matrices, which are the last two axes.

    Args:
        x: At least two axes; real or complex.
        keepdims: Keep the two axes, of length 1.
        ord: The order, as for ``norm``.

    Returns:
        A real array without the last two axes.

    Raises:
        ShapeError: x has fewer than two axes.
        ArgumentError: ``ord`` is not a matrix norm.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.matrix_norm(gt.constant([[1.0, -2.0], [3.0, 4.0]]), ord=1).eval(mode="NUMPY").item()
        6.0
    """
    x = _floating(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm: expected matrices, got {x!r}.")
    axes = (x.ndim - 2, x.ndim - 1)
    return _drop_axes(_matrix_norm(x, ord, *axes), axes, keepdims)


def _floating(x: Any) -> Tensor:
    x = as_tensor(x)
    return x if is_inexact(x.dtype) else cast(x, "float64")


def _drop_axes(y: Tensor, axes: Any, keepdims: bool) -> Tensor:
    axes = tuple(range(axes)) if isinstance(axes, int) else axes
    return y if keepdims or not axes else squeeze(y, axes)


def _vector_norm(x: Tensor, ord: Any, axes: tuple[int, ...]) -> Tensor:
    """Return the norm of vectors, with axes of length 1."""
    if ord is None or ord == 2:
        return _root(sum(squared_magnitude(x), axes, keepdims=True))
    x = abs(x)
    if ord == 1:
        return sum(x, axes, keepdims=True)
    if ord == math.inf:
        return max(x, axes, keepdims=True)
    if ord == -math.inf:
        return min(x, axes, keepdims=True)
    if ord == 0:
        return sum(cast(not_equal(x, 0), x.dtype), axes, keepdims=True)
    if isinstance(ord, Real):
        return _power_norm(x, float(ord), axes)
    raise ArgumentError(
        f"norm: ord={ord!r} is not a norm of vectors.", "Use None, inf, -inf or a number."
    )


def _root(squares: Tensor) -> Tensor:
    # The root has no derivative at 0; the branch chosen there has derivative 0.
    zero = equal(squares, 0)
    return where(zero, 0, sqrt(where(zero, 1, squares)))


def _power_norm(x: Tensor, ord: float, axes: tuple[int, ...]) -> Tensor:
    # Neither power has a finite derivative everywhere at 0, where 0 is chosen. A zero among the
    # elements makes the norm of negative order 0.
    zero = equal(x, 0)
    powers = where(zero, 0, power(where(zero, 1, x), ord))
    total = sum(powers, axes, keepdims=True)
    none = any(zero, axes, keepdims=True) if ord < 0 else equal(total, 0)
    return where(none, 0, power(where(none, 1, total), 1 / ord))


def _matrix_norm(x: Tensor, ord: Any, row: int, column: int) -> Tensor:
    """Return the norm of matrices, with axes of length 1."""
    if ord in (2, -2, "nuc"):
        return _spectral_norm(x, ord, row, column)
    if ord is None or ord in ("fro", "f"):
        return _root(sum(squared_magnitude(x), (row, column), keepdims=True))
    x = abs(x)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"norm: ord={ord!r} is not a norm of matrices.",
            "Use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.",
        )
    summed, other = (row, column) if ord in (1, -1) else (column, row)
    extreme = max if ord > 0 else min
    return extreme(sum(x, summed, keepdims=True), other, keepdims=True)


def _spectral_norm(x: Tensor, ord: Any, row: int, column: int) -> Tensor:
    values, dtype = as_matrices("norm", moveaxis(x, (row, column), (-2, -1)))
    combine: Any = {2: max, -2: min, "nuc": sum}[ord]
    norms = rounded_back(combine(Tensor.make(Svdvals(), values), -1), dtype)
    return expand_dims(norms, tuple(sorted((row, column))))
