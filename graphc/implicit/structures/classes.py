"""Products with one-hot arrays, and sums of them: gathers, and sums by class."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from graphc.implicit.array import is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.fill import product_dtype, widened
from graphc.implicit.structures.segments import as_places, segments
from graphc.implicit.treedef import dtype_of

if TYPE_CHECKING:
    from graphc.implicit.structures.one_hot import OneHot


def gathered(one_hot: OneHot, x: Any) -> Any:
    """``x @ one_hot`` where each column has a one: columns of x at the indices."""
    xp = numpy_like(one_hot, x)
    dtype = product_dtype(xp, x, one_hot)
    if not one_hot.classes:
        return xp.zeros((*xp.shape_of(x)[:-1], xp.shape_of(one_hot.indices)[-1]), dtype)
    safe, inside = one_hot.safe(xp)
    if one_hot.ndim == 2:
        # Rows of the transpose, as an array that is implicit itself may have.
        y = xp.swapaxes(xp.getitem(xp.swapaxes(x, -1, -2), safe), -1, -2)
    else:
        y = xp.take_along_axis(x, xp.expand_dims(safe, -2), -1)
    if is_implicit(x):
        return xp.multiply(y, xp.expand_dims(one_hot.kept(xp), -2))
    if one_hot.weights is not None:
        y = xp.multiply(y, xp.expand_dims(one_hot.weights, -2))
    y = xp.cast(y, dtype)
    return xp.where(xp.expand_dims(inside, -2), y, xp.zeros_like(y))


def scattered(one_hot: OneHot, x: Any) -> Any:
    """``x @ one_hot`` where each row has a one: columns of x added up by their indices."""
    xp = numpy_like(one_hot, x)
    values = xp.multiply(x, xp.expand_dims(one_hot.ones(xp), -2))
    sums = _by_class(xp, xp.swapaxes(values, -1, -2), one_hot.indices, one_hot.classes)
    return xp.swapaxes(sums, -1, -2)


def in_sequence(x: OneHot, y: OneHot) -> Any:
    """``x @ y`` where each row has a one: the second is read at the first's indices."""
    if not x.classes:
        return NotImplemented
    xp = numpy_like(x, y)
    safe, inside = x.safe(xp)
    indices = xp.where(inside, xp.take_along_axis(as_places(xp, y.indices), safe, -1), -1)
    if x.weights is None and y.weights is None and x.element == y.element:
        return y.moved(indices)
    read = xp.take_along_axis(y.ones(xp), safe, -1)
    return y.moved(indices, xp.multiply(x.ones(xp), read))


def counted_together(x: OneHot, y: OneHot) -> Any:
    """``x @ y`` summed over their indices: how often each pair of classes comes together."""
    xp = numpy_like(x, y)
    (one, first), (two, second) = x.safe(xp), y.safe(xp)
    pairs = xp.where(xp.logical_and(first, second), one * y.classes + two, -1)
    weights = xp.expand_dims(xp.multiply(x.ones(xp), y.ones(xp)), -1)
    counts = _by_class(xp, weights, pairs, x.classes * y.classes)
    return xp.reshape(counts, (*xp.shape_of(pairs)[:-1], x.classes, y.classes))


def counted(one_hot: OneHot, axes: tuple[int, ...]) -> Any:
    """The sum over axes of indices: how often each class comes, or its weights added up."""
    xp = one_hot.xp
    own = [axis for axis in range(one_hot.ndim) if axis != one_hot.place]
    order = [own.index(axis) for axis in own if axis not in axes]
    k = len(order)
    order += [own.index(axis) for axis in axes]

    def last(x: Any) -> Any:
        """With the axes to add up as one behind the others."""
        x = xp.transpose(x, order)
        lengths = xp.shape_of(x)
        return xp.reshape(x, (*lengths[:k], math.prod(lengths[k:])))

    values = xp.expand_dims(last(one_hot.ones(xp)), -1)
    sums = _by_class(xp, values, last(one_hot.indices), one_hot.classes)
    y = xp.getitem(sums, (..., 0))
    # The classes are last now; an axis that stood behind them does so again.
    is_behind = one_hot.axis == -2 and one_hot.ndim - 1 not in axes
    return xp.swapaxes(y, -1, -2) if is_behind else y


def _by_class(xp: Any, values: Any, indices: Any, classes: int) -> Any:
    """Values ``(*batch, k, m)`` added up by index to ``(*batch, classes, m)``."""
    dtype = dtype_of(values)
    sums = segments(xp, xp.cast(values, widened(dtype)), as_places(xp, indices), classes)
    return xp.cast(sums, dtype)
