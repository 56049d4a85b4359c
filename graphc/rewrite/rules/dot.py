"""Rules of ``dot_general``: fewer multiplications, and a better order of them.

Axes have labels: an axis of the result its index, a contracted axis a negative number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer, is_numeric, precedes
from graphc.rewrite.algebra.chains import chain_of, cheapest_splits, multiply_chain
from graphc.rewrite.facts.lengths import admit, equal_lengths, fit_to, length_of, with_lengths
from graphc.rewrite.facts.matrices import labels_of, operand_labels
from graphc.rewrite.rule import UNIFORM, rewrite, scalar_value
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where, divide, multiply, negative
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.dot import DotGeneral, align_axes, contract_axes

HALF = {"float16", "bfloat16"}

# Simpler axes.


@rewrite("canonicalize", DotGeneral, beside=[Transpose])
def dot_of_transpose(node: Node, op: DotGeneral) -> Node | None:
    """``dot(a.T, b)`` is a ``dot_general`` of ``a`` and ``b`` with other axes."""
    if not any(isinstance(x.op, Transpose) for x in node.inputs):
        return None
    *labels, result = labels_of(node)
    xs = list(node.inputs)
    for i, x in enumerate(xs):
        if isinstance(x.op, Transpose):
            (xs[i],) = x.inputs
            labels[i] = [labels[i][x.op.axes.index(axis)] for axis in range(len(x.op.axes))]
    product = contract_axes(xs[0], labels[0], xs[1], labels[1], result)  # type: ignore[arg-type]
    return None if isinstance(product.op, Transpose) else product


@rewrite("canonicalize", DotGeneral)
def dot_of_single_axes(node: Node, op: DotGeneral) -> Node | None:
    """``dot(a, b)`` is computed without the axes of length 1, which are restored in the result."""
    a, b = node.inputs
    if 1 not in a.type.shape and 1 not in b.type.shape:
        return None
    a_labels, b_labels, result = labels_of(node)
    single = {
        x
        for x, n in zip(a_labels, a.type.shape, strict=True)
        if n == 1 and x in b_labels and b.type.shape[b_labels.index(x)] == 1
    }
    for x, labels, other in ((a, a_labels, b_labels), (b, b_labels, a_labels)):
        if isinstance(x.op, ExpandDims):
            single |= {labels[axis] for axis in x.op.axes if labels[axis] not in other}
    if not single:
        return None
    rest = [[x for x in labels if x not in single] for labels in (a_labels, b_labels, result)]
    product = contract_axes(
        _without(a, a_labels, single), rest[0], _without(b, b_labels, single), rest[1], rest[2]
    )
    new = tuple(i for i, x in enumerate(result) if x in single)
    return expand_dims(product, new) if new else product


def _without(x: Node, labels: Sequence[int], single: Iterable[int]) -> Tensor:
    axes = tuple(i for i, label in enumerate(labels) if label in single)
    if isinstance(x.op, ExpandDims) and x.op.axes == axes:
        (x,) = x.inputs
        return x  # type: ignore[return-value]
    return squeeze(x, axes) if axes else x  # type: ignore[return-value]


@rewrite("specialize", DotGeneral)
def dot_over_no_axes(node: Node, op: DotGeneral) -> Node | None:
    """``dot_general(a, b)`` that contracts no axis is an elementwise product."""
    if op.contract[0]:
        return None
    a, b = node.inputs
    a_labels, b_labels, result = labels_of(node)
    return admit(align_axes(a, a_labels, result) * align_axes(b, b_labels, result), node)  # type: ignore[arg-type]


@rewrite("canonicalize", DotGeneral)
def dot_in_one_order(node: Node, op: DotGeneral) -> Node | None:
    """``dot(a, b)`` is ``dot(b, a)``: an operand with no axis in the result comes second.

    Two operands without such an axis have their canonical order, so that equal products are one
    node.
    """
    a, b = node.inputs
    if op.free(0, a.type.ndim):
        return None
    if not op.free(1, b.type.ndim) and not precedes(b, a):
        return None
    pairs = sorted(zip(*op.contract[::-1], strict=True))
    contract = tuple(zip(*pairs, strict=True)) or ((), ())
    return Tensor.make(DotGeneral(contract, op.batch_axes[::-1]), b, a)  # type: ignore[arg-type]


# Trivial operands.


@rewrite("canonicalize", DotGeneral, beside=UNIFORM)
def dot_of_equal_elements(node: Node, op: DotGeneral) -> Node | None:
    """``dot(zeros, x)`` is 0 for a finite product, and ``dot(full(c), x)`` is ``c * sum(x)``."""
    if not is_numeric(node.type.dtype):
        return None
    for side, x in enumerate(node.inputs):
        value = scalar_value(x)
        if value == 0:
            return fit_to(as_tensor(0, dtype=node.type.dtype), node)
        # A sum of half-width floats may overflow where the product does not, as may a sum scaled
        # by less than 1; over no elements, the product with an infinite number is 0.
        large = value is not None and 1 <= abs(value) < math.inf
        if large and node.type.dtype not in HALF:
            return _scaled_sum(node, side, value)
    return None


def _scaled_sum(node: Node, side: int, value: complex) -> Node | None:
    op: DotGeneral = node.op  # type: ignore[assignment]
    x, other = node.inputs[side], node.inputs[1 - side]
    *labels, result = labels_of(node)
    axes = tuple(sorted(op.contract[1 - side]))
    for x_axis, axis in zip(op.contract[side], op.contract[1 - side], strict=True):
        other = with_lengths(other, {axis: length_of(x, x_axis)})
    total = Tensor.make(Sum(axes), other) if axes else other
    free_labels = [x for x in labels[1 - side] if x >= 0]
    scale = as_tensor(value, dtype=node.type.dtype)
    return fit_to(align_axes(total, free_labels, result) * scale, node)  # type: ignore[arg-type]


@rewrite("canonicalize", DotGeneral, beside=[Constant, Eye])
def dot_of_identity(node: Node, op: DotGeneral) -> Node | None:
    """``dot(eye(n), x)`` is ``x``."""
    if len(op.contract[0]) != 1 or op.batch_axes[0]:
        return None
    for side, x in enumerate(node.inputs):
        if not is_identity(x):
            continue
        other = node.inputs[1 - side]
        (x_axis,), (axis,) = op.contract[side], op.contract[1 - side]
        if x.type.ndim == 2 and equal_lengths(x, x_axis, other, axis):
            rest = [i for i in range(other.type.ndim) if i != axis]
            order = [*rest, axis] if side else [axis, *rest]
            return admit(transpose(other, order), node)
    return None


def is_identity(x: Node) -> bool:
    """Return whether an array is a square matrix with ones on the diagonal and zeros elsewhere."""
    while isinstance(x.op, SpecifyShape):
        x = x.inputs[0]
    if isinstance(x.op, Eye):
        return x.op.offset == 0 and equal_lengths(x, 0, x, 1)
    if not isinstance(x.op, Constant) or len(x.op.shape) != 2 or x.op.shape[0] != x.op.shape[1]:
        return False
    return np.array_equal(x.op.value, np.eye(x.op.shape[0], dtype=x.op.value.dtype))


# Scalar factors, which are multiplied last.


@rewrite("canonicalize", DotGeneral, beside=[negative])
def dot_of_negative(node: Node, op: DotGeneral) -> Node | None:
    """``dot(-a, b)`` is ``-dot(a, b)``, unless the product is known to be the larger array."""
    for i, x in enumerate(node.inputs):
        if x.op is negative and not _is_larger(node, x):
            return negative(_with_operand(node, i, x.inputs[0]))
    return None


@rewrite("canonicalize", DotGeneral, beside=[multiply, divide])
def dot_of_scaled(node: Node, op: DotGeneral) -> Node | None:
    """``dot(c * a, b)`` is ``c * dot(a, b)`` for a scalar c, unless the product is larger.

    For floats, only a constant of magnitude 1 or more, or a divisor of 1 or less: other factors may
    prevent overflow of the product, and so may any factor of half-width floats.
    """
    if node.type.dtype in HALF:
        return None
    for i, x in enumerate(node.inputs):
        if x.op not in {multiply, divide} or _is_larger(node, x):
            continue
        pairs = [x.inputs] if x.op is divide else [x.inputs, x.inputs[::-1]]
        for rest, factor in pairs:
            if rest.type is x.type and _can_wait(factor, x):
                return x.op(_with_operand(node, i, rest), factor)
    return None


def _can_wait(factor: Node, x: Node) -> bool:
    """Return whether the product without the factor overflows only if the product with it does."""
    if factor.type.ndim or is_integer(x.type.dtype):
        return not factor.type.ndim
    value = scalar_value(factor)
    if value is None:
        return False
    magnitude: float = abs(value)
    return 0 < magnitude <= 1 if x.op is divide else 1 <= magnitude < math.inf


def _with_operand(node: Node, i: int, x: Node) -> Node:
    return node.with_inputs([*node.inputs[:i], x, *node.inputs[i + 1 :]])


def _is_larger(a: Node, b: Node) -> bool:
    """Return whether an array is known to have more elements, or has more axes."""
    if a.type.is_static and b.type.is_static:
        return bool(math.prod(a.type.shape) > math.prod(b.type.shape))
    return bool(a.type.ndim > b.type.ndim)


# The order of several products.

MAX_PRODUCTS = 32
"""Largest number of nested products to reorder, so that rewriting stays linear."""

TYPICAL_LENGTHS = (2, 1000)
"""Two values, tried in the place of unknown lengths."""

MIN_GAIN, MIN_LARGE_GAIN = 1.25, 4
"""Ratio of multiplications before and after reordering. The large one applies where the new order
takes over twice the work of the last product, as other nodes may need the first one anyway."""


@rewrite("canonicalize", DotGeneral, beside=[DotGeneral])
def dot_of_dot(node: Node, op: DotGeneral) -> Node | None:
    """``(a @ b) @ c`` is ``a @ (b @ c)`` where that takes fewer multiplications.

    Lengths decide, and ranks where lengths are unknown. The intermediate product is another one,
    which may overflow where the original does not, and conversely.
    """
    for side, product in enumerate(node.inputs):
        if isinstance(product.op, DotGeneral):
            result = _reorder(node, side, product)
            if result is not None and _count_products(node) <= MAX_PRODUCTS:
                return admit(result, node)
    return None


@rewrite("canonicalize", DotGeneral, beside=[DotGeneral])
def dot_of_many(node: Node, op: DotGeneral) -> Node | None:
    """``a @ b @ c @ d`` of known lengths is computed with the fewest multiplications."""
    chain = chain_of(node)
    if chain is None or len(chain.factors) <= REORDERED_FACTORS:
        return None
    cost, splits = cheapest_splits(chain.sizes)
    enough = MIN_GAIN if cost <= 2 * chain.last else MIN_LARGE_GAIN
    if not cost or chain.cost < enough * cost:
        return None
    return admit(multiply_chain(chain.factors, splits), node)


REORDERED_FACTORS = 3
"""Number of factors that ``dot_of_dot`` reorders."""


def _reorder(node: Node, side: int, product: Node) -> Node | None:
    result = list(range(node.type.ndim))
    unused = count(-1, -1)
    outer = operand_labels(node, result, unused)
    inner_labels = operand_labels(product, outer[side], unused)
    last, last_labels = node.inputs[1 - side], outer[1 - side]
    labels = [*inner_labels, last_labels]
    sizes = _sizes([*product.inputs, last], labels)
    before = [{*inner_labels[0], *inner_labels[1]}, {*outer[0], *outer[1]}]
    for i in (1, 0):
        x, rest = product.inputs[i], product.inputs[1 - i]
        inner_result = _result_labels(inner_labels[i], last_labels, inner_labels[1 - i])
        after = [{*inner_labels[i], *last_labels}, {*inner_labels[1 - i], *inner_result}]
        if _gains(before, after, sizes):
            inner = _product([(x, inner_labels[i]), (last, last_labels)], bool(side), inner_result)
            return _product([(rest, inner_labels[1 - i]), (inner, inner_result)], not i, result)
    return None


def _product(factors: list[tuple[Node, list[int]]], swapped: bool, out: list[int]) -> Tensor:
    (a, a_labels), (b, b_labels) = factors[::-1] if swapped else factors
    return contract_axes(a, a_labels, b, b_labels, out)  # type: ignore[arg-type]


def _result_labels(left: list[int], right: list[int], rest: list[int]) -> list[int]:
    common = [n for n in left if n in right]
    order = [*common, *(n for n in left if n not in common), *(n for n in right if n not in common)]
    return [n for n in order if n >= 0 or n in rest]


def _sizes(xs: Sequence[Node], names: Sequence[list[int]]) -> dict[int, int | None]:
    sizes: dict[int, int | None] = {}
    for x, labels in zip(xs, names, strict=True):
        for label, n in zip(labels, x.type.shape, strict=True):
            sizes[label] = n if n is not None else sizes.get(label)
    return sizes


def _gains(
    before: Sequence[set[int]], after: Sequence[set[int]], sizes: dict[int, int | None]
) -> bool:
    """Return whether an order takes fewer multiplications for all short and all long lengths."""
    for n in TYPICAL_LENGTHS:
        first, last, *new = (
            math.prod(n if sizes[x] is None else sizes[x] for x in labels)  # type: ignore[misc]
            for labels in (*before, *after)
        )
        gain = (first + last) / sum(new) if last and sum(new) else 0
        if gain < (MIN_GAIN if sum(new) <= 2 * last else MIN_LARGE_GAIN):
            return False
    return True


def _count_products(node: Node) -> int:
    n = 0
    waiting = [node]
    while waiting and n <= MAX_PRODUCTS:
        x = waiting.pop()
        if isinstance(x.op, DotGeneral):
            n += 1
            waiting += x.inputs
    return n


# Sums of products.


@rewrite("specialize", Sum, beside=[multiply])
def sum_of_product(node: Node, op: Sum) -> Node | None:
    """``sum(a * b, axes)`` is a ``dot_general``, which does not store the product.

    Backends fuse the sum themselves where an operand is elementwise.
    """
    (x,) = node.inputs
    if x.op is not multiply or not is_inexact(x.type.dtype) or x.type.dtype in HALF:
        return None
    result = iter(range(node.type.ndim))
    names = [-axis - 1 if axis in op.axes else next(result) for axis in range(x.type.ndim)]
    (a, a_labels), (b, b_labels) = [
        _bare(factor, names[x.type.ndim - factor.type.ndim :]) for factor in x.inputs
    ]
    if {*a_labels} & {*b_labels} != {-axis - 1 for axis in op.axes}:
        return None
    fused = any(isinstance(factor.op, Elementwise | Where | Cast) for factor in (a, b))
    if fused and not ({*a_labels} - {*b_labels} and {*b_labels} - {*a_labels}):
        return None
    result_axes = [axis for axis in range(node.type.ndim) if axis in a_labels or axis in b_labels]
    product = contract_axes(a, a_labels, b, b_labels, result_axes)
    new = tuple(axis for axis in range(node.type.ndim) if axis not in result_axes)
    return admit(expand_dims(product, new) if new else product, node)


@rewrite("canonicalize", Sum, beside=[DotGeneral])
def sum_of_dot(node: Node, op: Sum) -> Node | None:
    """``sum(matmul(a, b), batch)`` is one product that contracts the batch axis."""
    (x,) = node.inputs
    if not isinstance(x.op, DotGeneral) or not is_numeric(x.type.dtype):
        return None
    batch = len(x.op.batch_axes[0])
    summed = [axis for axis in op.axes if axis < batch]
    if not summed or x.type.dtype in HALF:
        return None
    a_labels, b_labels, result = labels_of(x)
    result_labels = [label for label in result if label not in summed]
    product = contract_axes(x.inputs[0], a_labels, x.inputs[1], b_labels, result_labels)  # type: ignore[arg-type]
    rest = tuple(result_labels.index(axis) for axis in op.axes if axis not in summed)
    return admit(Tensor.make(Sum(rest), product) if rest else product, node)


def _bare(x: Node, labels: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Return a factor without its axes of length 1, and the labels of the others."""
    single = tuple(i for i, n in enumerate(x.type.shape) if n == 1)
    labels_left = [label for i, label in enumerate(labels) if i not in single]
    return _without(x, range(x.type.ndim), single), labels_left
