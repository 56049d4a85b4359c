"""Histograms: counts of values in bins, and of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import is_integer
from graphc.tensor.arrays.create import arange, zeros
from graphc.tensor.arrays.index import inc_subtensor
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import any, max, min, sum
from graphc.tensor.arrays.select import checked_indices
from graphc.tensor.arrays.sort import searchsorted
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.shape import length, ravel
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function

__all__ = ["bincount", "digitize", "histogram", "histogram_bin_edges"]


@function
def bincount(
    x: TensorLike,
    weights: TensorLike | None = None,
    minlength: Any = None,
    *,
    length: Any = None,
) -> Tensor:
    """Return how often each integer from 0 on occurs, or the sum of its weights.

    Args:
        x: A vector of integers. Negative ones raise on backends that see values while the
            program runs, and are not counted on others.
        weights: A vector of as many numbers.
        minlength: The least length of the result.
        length: The length of the result, a Python or symbolic integer: larger integers are
            not counted. By default one more than the largest, which compiled backends know of
            constants and of integer inputs alone.

    Returns:
        An int64 vector; with weights, one of float64.

    Raises:
        ShapeError: x is not a vector.
        DTypeError: x does not hold integers.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.lvector("x")
        >>> gt.bincount(x, length=4).eval({x: [1, 3, 1, 7]}).tolist()
        [0, 2, 0, 1]
    """
    x = as_tensor(x)
    if x.ndim != 1:
        raise ShapeError(f"bincount: expected a vector, got {x!r}.")
    if x.dtype != "bool" and not is_integer(x.dtype):
        raise DTypeError(f"bincount: expected integers, got {x!r}.", "Cast them with astype.")
    x = ew.cast(x, "int64")
    if length is None:
        length = max(x, initial=-1) + 1
        length = length if minlength is None else ew.maximum(length, minlength)
    x = checked_indices("bincount", x, np.iinfo(np.int64).max)
    return _counts(
        ew.where(ew.less(x, length) & ew.greater_equal(x, 0), x, length), length, weights, "float64"
    )


def _counts(bins: Tensor, n: Any, weights: Any, dtype: str) -> Tensor:
    """Return the number of occurrences below n, or the sums of weights; drop the value n."""
    one = 1 if weights is None else ew.cast(weights, dtype)
    counts = zeros((n + 1,), "int64" if weights is None else dtype)
    return inc_subtensor(counts[bins], one)[:-1]


@function
def digitize(x: TensorLike, bins: Any, right: bool = False) -> Tensor:
    """Return the bin of each value.

    Args:
        x: Real numbers of any shape.
        bins: A vector of edges, ascending or descending.
        right: Whether each bin holds its right edge, not its left one.

    Returns:
        An int64 array of x's shape: 0 in front of all edges, and the number of edges behind them.

    Raises:
        ShapeError: The bins are not a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.digitize([0.5, 1.0, 9.0], [0, 1, 2]).eval(mode="NUMPY").tolist()
        [1, 2, 3]
    """
    bins = as_tensor(bins)
    if bins.ndim != 1:
        raise ShapeError(f"digitize: expected a vector of bins, got {bins!r}.")
    side = "left" if right else "right"
    n = as_tensor(length(bins, 0))
    descending = any(bins[1:] < bins[:-1])
    return ew.where(descending, n - searchsorted(bins[::-1], x, side), searchsorted(bins, x, side))


@function
def histogram_bin_edges(x: TensorLike, bins: Any = 10, range: Any = None) -> Tensor:
    """Return the edges of bins of equal width; arguments as for ``histogram``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.histogram_bin_edges([1.0, 2.0, 5.0], bins=2).eval(mode="NUMPY").tolist()
        [1.0, 3.0, 5.0]
    """
    x, requested = ravel(as_tensor(x)), bins
    bins = bins if isinstance(bins, str) else as_tensor(bins)
    if not isinstance(bins, str) and bins.ndim == 1:
        return bins  # type: ignore[no-any-return]
    if isinstance(bins, str) or bins.ndim or not is_integer(bins.dtype):
        raise ArgumentError(
            f"histogram: bins={requested!r} is neither a number nor a vector.",
            "Pass the number of bins, or a vector of edges.",
        )
    low, high = _ends(x, range)
    widen = ew.equal(low, high)
    low, high = ew.where(widen, low - 0.5, low), ew.where(widen, high + 0.5, high)
    edges = low + arange(bins) * ((high - low) / bins)
    return concatenate([edges, high[None]])


def _ends(x: Tensor, range: Any) -> tuple[Tensor, Tensor]:
    if range is not None:
        low, high = range
        return as_tensor(low, dtype="float64"), as_tensor(high, dtype="float64")
    # Without values, from 0 to 1.
    x, some = ew.cast(x, "float64"), length(x, 0)
    if isinstance(some, int):
        ends = (min(x), max(x)) if some else (0.0, 1.0)
        return as_tensor(ends[0]), as_tensor(ends[1])
    has_values = some > 0
    return ew.where(has_values, min(x, initial=np.inf), 0.0), ew.where(
        has_values, max(x, initial=-np.inf), 1.0
    )


@function
def histogram(
    x: TensorLike,
    bins: Any = 10,
    range: Any = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the number of values in each bin.

    A bin holds its left edge, and the last one its right edge too.

    Args:
        x: Real numbers of any shape.
        bins: The number of bins of equal width, or a vector of ascending edges.
        range: The outer edges of bins of equal width, by default the smallest and largest value.
        density: Divide counts by the number of values and the bin's width.
        weights: The count of each value; of x's shape.

    Returns:
        The counts, int64 unless there are weights or densities, and the edges.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.histogram([1.0, 2.0, 2.5], 2)]
        [[1, 2], [1.0, 1.75, 2.5]]
    """
    x = ravel(as_tensor(x))
    edges = histogram_bin_edges(x, bins, range)
    n = as_tensor(length(edges, 0)) - 1
    index = searchsorted(edges, x, "right") - 1
    index = ew.where(ew.equal(x, edges[-1]), n - 1, index)
    inside = ew.greater_equal(x, edges[0]) & ew.less_equal(x, edges[-1])
    weights = None if weights is None else ravel(as_tensor(weights))
    dtype = "int64" if weights is None else weights.dtype
    counts = _counts(ew.where(inside, index, n), n, weights, dtype)
    if not density:
        return counts, edges
    return counts / (edges[1:] - edges[:-1]) / sum(counts), edges
