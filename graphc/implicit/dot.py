"""``dot_general`` of structured operands, by the matrix products of their structures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from graphc.implicit import layout
from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import dtype_of

Axes = tuple[Sequence[int], Sequence[int]]
Sizes = dict[int, Any]
"""Labels of axes with their lengths."""


def dot_general(a: Any, b: Any, contract: Axes, batch: Axes, dtype: Any) -> Any:
    """Contract pairs of axes of two arrays, at least one of them structured.

    The result has the batch axes first, then a's free axes, then b's. An operand narrower than the
    result is cast before the product, so that sums are in the result's dtype. A result of half
    precision is rounded as the structure's own products are.

    Args:
        a: An array.
        b: An array.
        contract: The axes of a and of b to sum over, pair by pair.
        batch: The batch axes of a and of b, pair by pair.
        dtype: The dtype of the result.

    Returns:
        The product.

    Raises:
        StructureLost: If no operand keeps its structure.
    """
    # Each axis has a label, its number in a; paired axes share one label.
    a_labels = [*range(a.ndim)]
    pairs = dict(zip((*contract[1], *batch[1]), (*contract[0], *batch[0]), strict=True))
    b_labels = [pairs.get(axis, a.ndim + axis) for axis in range(b.ndim)]
    paired = {*contract[0], *batch[0]}
    free = [label for label in (*a_labels, *b_labels) if label not in paired]
    out = [*batch[0], *free]
    sides = ((a, a_labels, b, b_labels), (b, b_labels, a, a_labels))
    attempts = (
        partial(_multiply, matrix, x, x_labels, out, dtype)
        for structure, labels, x, x_labels in sides
        for matrix in _matrices(structure, labels, x_labels, out)
    )
    if isinstance(a, ImplicitArray) and isinstance(b, ImplicitArray):
        return layout.first_without_densifying([*attempts])
    return layout.first_of(attempts)


def _multiply(matrix: MatrixView, x: Any, x_labels: list[int], out: list[int], dtype: Any) -> Any:
    """Return a product with its axes in the order ``out``, in the result's dtype."""
    y, labels = _product(matrix, _widen(x, dtype), x_labels)
    return layout.cast(layout.transpose(y, tuple(map(labels.index, out))), dtype)


def _widen(x: Any, dtype: Any) -> Any:
    if dtype_of(x).itemsize >= dtype.itemsize:
        return x
    try:
        return layout.cast(x, dtype)
    except layout.StructureLost:
        return x


class MatrixView(NamedTuple):
    """A structured operand viewed as batches of matrices that multiply from the right.

    Attributes:
        array: The matrices, ``(*lead, k, n)``.
        lead: The labels and lengths of the leading axes.
        summed: The labels of the axes that are merged into k.
        columns: The labels and lengths of the axes that are merged into n.
    """

    array: Any
    lead: Sizes
    summed: list[int]
    columns: Sizes


def _matrices(x: Any, own: list[int], others: list[int], out: list[int]) -> Iterator[MatrixView]:
    """Yield views of a structured operand as matrices, the most efficient first."""
    if not isinstance(x, Structured):
        return
    sizes = dict(zip(own, x.xp.shape_of(x), strict=True))
    summed = [label for label in own if label not in out]
    columns = {label: sizes[label] for label in own if label not in others}
    if len(summed) == 1 and summed[0] in own[-2:] and columns.keys() & {*own[-2:]}:
        # Free axes in front of a matrix serve as batch axes.
        (n,) = columns.keys() & {*own[-2:]}
        array = x.matrix_transpose() if own[-1] in summed else x
        if array is not NotImplemented:
            lead = {label: sizes[label] for label in own[:-2]}
            yield MatrixView(array, lead, summed, {n: sizes[n]})
    lead = {label: sizes[label] for label in own if label in others and label in out}
    rows = {label: sizes[label] for label in summed}
    for rows_first in (True, False):
        with suppress(layout.StructureLost):
            array = _merge_axes(x, own, (lead, rows, columns), rows_first)
            yield MatrixView(array, lead, summed, columns)


def _merge_axes(x: Structured, own: list[int], kinds: tuple[Sizes, ...], rows_first: bool) -> Any:
    """View a structured operand as matrices whose rows and columns merge several axes."""
    lead, rows, columns = kinds
    first, last = (rows, columns) if rows_first else (columns, rows)
    x = layout.transpose(x, tuple(map(own.index, (*lead, *first, *last))))
    n, m = math.prod(first.values()), math.prod(last.values())
    x = layout.reshape(x, (*lead.values(), n, m))
    order = tuple(range(x.ndim))
    return x if rows_first else layout.transpose(x, (*order[:-2], order[-1], order[-2]))


def _product(matrix: MatrixView, x: Any, labels: list[int]) -> tuple[Any, list[int]]:
    """Multiply an array by matrices; return the product and the labels of its axes.

    Raises:
        StructureLost: If the structure does not define the product.
    """
    array, lead, summed, columns = matrix
    xp = numpy_like(array, x)
    sizes = dict(zip(labels, xp.shape_of(x), strict=True))
    free = {label: n for label, n in sizes.items() if label not in {*lead, *summed}}
    wanted = [*lead, *free, *summed]
    order = [label for label in wanted if label in sizes]
    x = layout.transpose(x, tuple(map(labels.index, order)))
    if order != wanted:
        full = lead | sizes
        x = layout.broadcast(x, [full[label] for label in wanted], tuple(map(wanted.index, order)))
    if len(free) != 1 or len(summed) != 1:
        k = math.prod(sizes[label] for label in summed)
        x = layout.reshape(x, (*lead.values(), math.prod(free.values()), k))
    y = layout.require(array.rmatmul(x)) if isinstance(array, Structured) else xp.matmul(x, array)
    if len(free) != 1 or len(columns) != 1:
        y = layout.reshape(y, (*lead.values(), *free.values(), *columns.values()))
    return y, [*lead, *free, *columns]
