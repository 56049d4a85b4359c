"""Products with one-hot arrays, and their sums: gathers, and sums by class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from graphc.implicit.array import is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.entries import as_indices, segment_sum
from graphc.implicit.structures.fill import accumulation_dtype
from graphc.implicit.structures.stacked import joint_dtype
from graphc.implicit.treedef import dtype_of

if TYPE_CHECKING:
    from graphc.implicit.structures.one_hot import OneHot


def gather_columns(one_hot: OneHot, x: Any) -> Any:
    """Return ``x @ one_hot`` for a one in each column: columns of x at the indices."""
    xp = numpy_like(one_hot, x)
    dtype = joint_dtype(xp, x, one_hot)
    if not one_hot.classes:
        return xp.zeros((*xp.shape_of(x)[:-1], xp.shape_of(one_hot.indices)[-1]), dtype)
    safe, inside = one_hot.safe_indices(xp)
    if one_hot.ndim == 2:
        # An implicit x may have a method for rows, so rows of its transpose are taken.
        y = xp.swapaxes(xp.getitem(xp.swapaxes(x, -1, -2), safe), -1, -2)
    else:
        y = xp.take_along_axis(x, xp.expand_dims(safe, -2), -1)
    if is_implicit(x):
        return xp.multiply(y, xp.expand_dims(one_hot.masked_weights(xp), -2))
    if one_hot.weights is not None:
        y = xp.multiply(y, xp.expand_dims(one_hot.weights, -2))
    y = xp.cast(y, dtype)
    return xp.where(xp.expand_dims(inside, -2), y, xp.zeros_like(y))


def scatter_columns(one_hot: OneHot, x: Any) -> Any:
    """Return ``x @ one_hot`` for a one in each row: sums of columns of x by class."""
    xp = numpy_like(one_hot, x)
    values = xp.multiply(x, xp.expand_dims(one_hot.values(xp), -2))
    sums = _sum_by_class(xp, xp.swapaxes(values, -1, -2), one_hot.indices, one_hot.classes)
    return xp.swapaxes(sums, -1, -2)


def compose(x: OneHot, y: OneHot) -> Any:
    """Return ``x @ y`` for a one in each row: y at the indices of x."""
    if not x.classes:
        return NotImplemented
    xp = numpy_like(x, y)
    safe, inside = x.safe_indices(xp)
    indices = xp.where(inside, xp.take_along_axis(as_indices(xp, y.indices), safe, -1), -1)
    if x.weights is None and y.weights is None and x.element == y.element:
        return y.with_indices(indices)
    read = xp.take_along_axis(y.values(xp), safe, -1)
    return y.with_indices(indices, xp.multiply(x.values(xp), read))


def count_pairs(x: OneHot, y: OneHot) -> Any:
    """Return ``x @ y`` for a one in each column of x: counts, or weights, by pair of classes."""
    xp = numpy_like(x, y)
    (x_indices, x_inside), (y_indices, y_inside) = x.safe_indices(xp), y.safe_indices(xp)
    pairs = xp.where(xp.logical_and(x_inside, y_inside), x_indices * y.classes + y_indices, -1)
    weights = xp.expand_dims(xp.multiply(x.values(xp), y.values(xp)), -1)
    counts = _sum_by_class(xp, weights, pairs, x.classes * y.classes)
    return xp.reshape(counts, (*xp.shape_of(pairs)[:-1], x.classes, y.classes))


def count_classes(one_hot: OneHot, axes: tuple[int, ...]) -> Any:
    """Return the sum over axes of the indices: counts, or sums of weights, by class."""
    xp = one_hot.xp
    own = [axis for axis in range(one_hot.ndim) if axis != one_hot.one_hot_axis]
    order = [own.index(axis) for axis in own if axis not in axes]
    k = len(order)
    order += [own.index(axis) for axis in axes]

    def flatten_last(x: Any) -> Any:
        """Return an array whose last axis is all summed axes."""
        x = xp.transpose(x, order)
        lengths = xp.shape_of(x)
        return xp.reshape(x, (*lengths[:k], math.prod(lengths[k:])))

    values = xp.expand_dims(flatten_last(one_hot.values(xp)), -1)
    sums = _sum_by_class(xp, values, flatten_last(one_hot.indices), one_hot.classes)
    y = xp.getitem(sums, (..., 0))
    # The classes are the last axis here; before, another axis may have followed them.
    is_behind = one_hot.axis == -2 and one_hot.ndim - 1 not in axes
    return xp.swapaxes(y, -1, -2) if is_behind else y


def _sum_by_class(xp: Any, values: Any, indices: Any, classes: int) -> Any:
    """Sum values ``(*batch, k, m)`` by class to ``(*batch, classes, m)``."""
    dtype = dtype_of(values)
    sums = segment_sum(
        xp, xp.cast(values, accumulation_dtype(dtype)), as_indices(xp, indices), classes
    )
    return xp.cast(sums, dtype)
