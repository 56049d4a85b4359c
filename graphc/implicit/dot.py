"""``dot_general`` with structured operands, as matrix products that structures compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from graphc.implicit.array import ImplicitArray
from graphc.implicit.layout import (
    StructureLost,
    broadcast,
    cast,
    first_of,
    kept,
    reshaped,
    sparing,
    structural,
    transposed,
)
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import dtype_of

Axes = tuple[Sequence[int], Sequence[int]]
Sizes = dict[int, Any]
"""Labels of axes with their lengths."""


@structural
def dot_general(a: Any, b: Any, contract: Axes, batch: Axes, dtype: Any) -> Any:
    """Contract pairs of axes of two arrays, of which at least one is structured.

    The result has the batch axes first, then a's free axes, then b's. An operand narrower than the
    result is cast before the product, so that sums are in the result's dtype; a result in half
    width is what the structure's own products round to.

    Args:
        a: An array.
        b: An array.
        contract: a's axes that are summed over, and b's, pair by pair.
        batch: a's batch axes, and b's, pair by pair.
        dtype: The result's.

    Returns:
        NotImplemented where no operand's structure is kept.
    """
    # Axes have labels: a's own numbers, which those of b have that they are paired with.
    left = [*range(a.ndim)]
    pairs = dict(zip((*contract[1], *batch[1]), (*contract[0], *batch[0]), strict=True))
    right = [pairs.get(axis, a.ndim + axis) for axis in range(b.ndim)]
    bound = {*contract[0], *batch[0]}
    free = [label for label in (*left, *right) if label not in bound]
    out = [*batch[0], *free]
    sides = ((a, left, b, right), (b, right, a, left))
    ways = (
        partial(_placed, matrix, x, others, out, dtype)
        for structure, own, x, others in sides
        for matrix in _matrices(structure, own, others, out)
    )
    if isinstance(a, ImplicitArray) and isinstance(b, ImplicitArray):
        return sparing([*ways])
    return first_of(ways)


def _placed(matrix: Matrix, x: Any, others: list[int], out: list[int], dtype: Any) -> Any:
    """Return a product with its axes in order, in the result's dtype."""
    y, labels = _product(matrix, _wide(x, dtype), others)
    return cast(transposed(y, tuple(map(labels.index, out))), dtype)


def _wide(x: Any, dtype: Any) -> Any:
    """Cast an operand to the result's dtype where that is wider."""
    if dtype_of(x).itemsize >= dtype.itemsize:
        return x
    try:
        return cast(x, dtype)
    except StructureLost:
        return x


class Matrix(NamedTuple):
    """A structured operand as batches of matrices that multiply from the right.

    Attributes:
        array: Of shape ``(*lead, k, n)``.
        lead: The labels and lengths of the axes in front.
        summed: The labels of the axes that k is made of.
        columns: The labels and lengths of the axes that n is made of.
    """

    array: Any
    lead: Sizes
    summed: list[int]
    columns: Sizes


def _matrices(x: Any, own: list[int], others: list[int], out: list[int]) -> Iterator[Matrix]:
    """Yield the ways to view a structured operand as matrices, the best first."""
    if not isinstance(x, Structured):
        return
    sizes = dict(zip(own, x.xp.shape_of(x), strict=True))
    summed = [label for label in own if label not in out]
    columns = {label: sizes[label] for label in own if label not in others}
    if len(summed) == 1 and summed[0] in own[-2:] and columns.keys() & {*own[-2:]}:
        # Free axes in front of a matrix are as good as batch axes.
        (n,) = columns.keys() & {*own[-2:]}
        array = x.swapped() if own[-1] in summed else x
        if array is not NotImplemented:
            lead = {label: sizes[label] for label in own[:-2]}
            yield Matrix(array, lead, summed, {n: sizes[n]})
    lead = {label: sizes[label] for label in own if label in others and label in out}
    rows = {label: sizes[label] for label in summed}
    for rows_first in (True, False):
        array = _merged(x, own, (lead, rows, columns), rows_first)
        if array is not NotImplemented:
            yield Matrix(array, lead, summed, columns)


@structural
def _merged(x: Structured, own: list[int], kinds: tuple[Sizes, ...], rows_first: bool) -> Any:
    """View a structured operand as matrices whose rows and columns merge several axes."""
    lead, rows, columns = kinds
    first, last = (rows, columns) if rows_first else (columns, rows)
    x = transposed(x, tuple(map(own.index, (*lead, *first, *last))))
    n, m = math.prod(first.values()), math.prod(last.values())
    x = reshaped(x, (*lead.values(), n, m))
    order = tuple(range(x.ndim))
    return x if rows_first else transposed(x, (*order[:-2], order[-1], order[-2]))


def _product(matrix: Matrix, x: Any, labels: list[int]) -> tuple[Any, list[int]]:
    """Multiply an array by matrices; return the product and the labels of its axes.

    Raises:
        StructureLost: The structure does not say what it is.
    """
    array, lead, summed, columns = matrix
    xp = numpy_like(array, x)
    sizes = dict(zip(labels, xp.shape_of(x), strict=True))
    free = {label: n for label, n in sizes.items() if label not in {*lead, *summed}}
    wanted = [*lead, *free, *summed]
    order = [label for label in wanted if label in sizes]
    x = transposed(x, tuple(map(labels.index, order)))
    if order != wanted:
        full = lead | sizes
        x = broadcast(x, [full[label] for label in wanted], tuple(map(wanted.index, order)))
    if len(free) != 1 or len(summed) != 1:
        k = math.prod(sizes[label] for label in summed)
        x = reshaped(x, (*lead.values(), math.prod(free.values()), k))
    y = kept(array.times(x)) if isinstance(array, Structured) else xp.matmul(x, array)
    if len(free) != 1 or len(columns) != 1:
        y = reshaped(y, (*lead.values(), *free.values(), *columns.values()))
    return y, [*lead, *free, *columns]
