"""Masks that are true on a band of diagonals, as ``tril`` and ``triu`` make them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from graphc.ir import Constant, Node, TensorType
from graphc.rewrite.facts.facts import ANYWHERE, Band
from graphc.rewrite.facts.lengths import is_number
from graphc.tensor.arrays.create import Arange, StaticArange
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims

MAX_DEPTH = 6
"""Depth to which a mask's expression is analysed."""


class MaskBands(NamedTuple):
    """The diagonals on which a mask can be true, and on which it can be false."""

    inside: Band
    outside: Band


UNKNOWN = MaskBands(ANYWHERE, ANYWHERE)


def mask_bands(mask: Node, depth: int = MAX_DEPTH) -> MaskBands:
    """Return the diagonals on which a mask can be true, and on which false.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> mask_bands(gt.tril(x).inputs[0])
        MaskBands(inside=Band(low=-inf, high=0), outside=Band(low=1, high=inf))
    """
    if not isinstance(mask.type, TensorType) or not depth or 1 in mask.type.shape[-2:]:
        # A single row or column may be broadcast along the matrix.
        return UNKNOWN
    if mask.op is ew.logical_not:
        return MaskBands(*mask_bands(mask.inputs[0], depth - 1)[::-1])
    if mask.op in {ew.logical_and, ew.logical_or}:
        a, b = (mask_bands(x, depth - 1) for x in mask.inputs)
        if mask.op is ew.logical_and:
            return MaskBands(a.inside & b.inside, a.outside | b.outside)
        return MaskBands(a.inside | b.inside, a.outside & b.outside)
    if isinstance(mask.op, Constant) and mask.type.ndim == 2:
        return _of_array(mask.op)
    return _of_comparison(mask)


@lru_cache(maxsize=256)
def _of_array(op: Constant) -> MaskBands:
    x = op.value
    if x.size > 2**16 or x.dtype != bool:
        return UNKNOWN
    bands = []
    for part in (x, ~x):
        rows, columns = np.nonzero(part)
        distances = columns - rows
        ends = (int(distances.min()), int(distances.max())) if distances.size else (0, 0)
        bands.append(Band(*ends))
    return MaskBands(*bands)


COMPARED = {
    # Comparisons of ``column - row - k`` with 0.
    ew.less_equal: lambda k: MaskBands(Band(high=k), Band(low=k + 1)),
    ew.less: lambda k: MaskBands(Band(high=k - 1), Band(low=k)),
    ew.greater_equal: lambda k: MaskBands(Band(low=k), Band(high=k - 1)),
    ew.greater: lambda k: MaskBands(Band(low=k + 1), Band(high=k)),
    ew.equal: lambda k: MaskBands(Band(k, k), ANYWHERE),
}

TURNED = {
    ew.less_equal: ew.greater_equal,
    ew.less: ew.greater,
    ew.greater_equal: ew.less_equal,
    ew.greater: ew.less,
    ew.equal: ew.equal,
}
"""The comparison of the negated operands."""


def _of_comparison(mask: Node) -> MaskBands:
    if mask.op not in COMPARED or mask.type.ndim != 2:
        return UNKNOWN
    a_line, b_line = (_line(x) for x in mask.inputs)
    if a_line is None or b_line is None:
        return UNKNOWN
    columns, rows, number = (a - b for a, b in zip(a_line, b_line, strict=True))
    if (columns, rows) == (1, -1):
        return COMPARED[mask.op](-number)
    if (columns, rows) == (-1, 1):
        return COMPARED[TURNED[mask.op]](number)
    return UNKNOWN


Line = tuple[int, int, int]
"""Coefficients of the column index, the row index, and 1 in a sum."""


def _line(x: Node, depth: int = MAX_DEPTH) -> Line | None:
    if isinstance(x.op, Constant) and x.op.value.size == 1 and x.op.value.dtype.kind in "iu":
        return (0, 0, int(x.op.value.item()))
    if x.op in SIGNS:
        return _line_of_sum(x, depth - 1) if depth else None
    if x.type.ndim == 1:
        return (1, 0, 0) if is_counting(x) else None
    for axis, line in ((1, (1, 0, 0)), (0, (0, 1, 0))):
        if x.type.ndim == 2 and x.type.shape[1 - axis] == 1 and _counts_along(x, axis):
            return line
    return None


SIGNS = {ew.add: (1, 1), ew.subtract: (1, -1), ew.negative: (-1,)}


def _line_of_sum(x: Node, depth: int) -> Line | None:
    lines = [_line(operand, depth) for operand in x.inputs]
    known_lines = [part for part in lines if part is not None]
    if len(known_lines) < len(lines):
        return None
    signs = SIGNS[x.op]  # type: ignore[index]
    columns, rows, number = (
        sum(sign * n for sign, n in zip(signs, each, strict=True))
        for each in zip(*known_lines, strict=True)
    )
    return columns, rows, number


def _counts_along(x: Node, axis: int) -> bool:
    if isinstance(x.op, ExpandDims):
        return x.op.axes == (1 - axis,) and is_counting(x.inputs[0])
    return isinstance(x.op, Constant) and _is_count(x.op)


def is_counting(x: Node) -> bool:
    """Return whether a vector is 0, 1, 2 and so on."""
    match x.op:
        case StaticArange(start=0, step=1):
            return True
        case Arange():
            start, _, step = x.inputs
            return is_number(start, 0) and is_number(step, 1)
        case Constant():
            return x.type.ndim == 1 and _is_count(x.op)
    return False


@lru_cache(maxsize=256)
def _is_count(op: Constant) -> bool:
    x = op.value.reshape(-1)
    return x.dtype.kind in "iu" and np.array_equal(x, np.arange(x.size))
