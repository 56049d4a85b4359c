"""Rules of products that are summed over axes: less to multiply, and in a better order.

Axes have numbers here: those of the result by their place in it, from 0 on, and those that are
summed over by negative ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer, is_numeric
from graphc.rewrite.algebra.chains import chain_of, least, multiplied
from graphc.rewrite.facts.lengths import (
    admitted,
    equal_lengths,
    fitted,
    is_elsewhere,
    length_of,
    with_lengths,
)
from graphc.rewrite.rule import UNIFORM, rewrite, scalar_value
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where, divide, multiply, negative
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import Tensor, as_tensor
from graphc.tensor.linalg.dot import DotGeneral, contracted, placed

HALF = {"float16", "bfloat16"}


def numbered(node: Node, result: Sequence[int], unused: Iterator[int]) -> tuple[list[int], ...]:
    """The numbers of both operands' axes, given those of the result's."""
    op: DotGeneral = node.op  # type: ignore[assignment]
    batch = len(op.batch_axes[0])
    numbers = [[0] * x.type.ndim for x in node.inputs]
    rest = iter(result[batch:])
    for side, own in enumerate(numbers):
        for axis, number in zip(op.batch_axes[side], result, strict=False):
            own[axis] = number
        for axis in op.free(side, len(own)):
            own[axis] = next(rest)
    for i, j in zip(*op.contract, strict=True):
        numbers[0][i] = numbers[1][j] = next(unused)
    return tuple(numbers)


def numbers_of(node: Node) -> tuple[list[int], list[int], list[int]]:
    """The numbers of both operands' axes, and of the result's."""
    result = list(range(node.type.ndim))
    left, right = numbered(node, result, count(-1, -1))
    return left, right, result


# Fewer axes, in the order they have.


@rewrite("canonicalize", DotGeneral, beside=[Transpose])
def dot_of_transpose(node: Node, op: DotGeneral) -> Node | None:
    """A product finds its axes in any order."""
    if not any(isinstance(x.op, Transpose) for x in node.inputs):
        return None
    *labels, result = numbers_of(node)
    xs = list(node.inputs)
    for i, x in enumerate(xs):
        if isinstance(x.op, Transpose):
            (xs[i],) = x.inputs
            labels[i] = [labels[i][x.op.axes.index(axis)] for axis in range(len(x.op.axes))]
    made = contracted(xs[0], labels[0], xs[1], labels[1], result)  # type: ignore[arg-type]
    return None if isinstance(made.op, Transpose) else made


@rewrite("canonicalize", DotGeneral)
def dot_of_single_axes(node: Node, op: DotGeneral) -> Node | None:
    """Axes of length 1 are left out of the product: those summed over, and new ones."""
    a, b = node.inputs
    if 1 not in a.type.shape and 1 not in b.type.shape:
        return None
    left, right, result = numbers_of(node)
    single = {
        x
        for x, n in zip(left, a.type.shape, strict=True)
        if n == 1 and x in right and b.type.shape[right.index(x)] == 1
    }
    for x, labels, other in ((a, left, right), (b, right, left)):
        if isinstance(x.op, ExpandDims):
            single |= {labels[axis] for axis in x.op.axes if labels[axis] not in other}
    if not single:
        return None
    kept = [[x for x in labels if x not in single] for labels in (left, right, result)]
    made = contracted(
        _without(a, left, single), kept[0], _without(b, right, single), kept[1], kept[2]
    )
    new = tuple(i for i, x in enumerate(result) if x in single)
    return expand_dims(made, new) if new else made


def _without(x: Node, labels: Sequence[int], single: Iterable[int]) -> Tensor:
    axes = tuple(i for i, label in enumerate(labels) if label in single)
    if isinstance(x.op, ExpandDims) and x.op.axes == axes:
        (x,) = x.inputs
        return x  # type: ignore[return-value]
    return squeeze(x, axes) if axes else x  # type: ignore[return-value]


@rewrite("specialize", DotGeneral)
def dot_over_no_axes(node: Node, op: DotGeneral) -> Node | None:
    """Where nothing is summed, elements are multiplied."""
    if op.contract[0]:
        return None
    a, b = node.inputs
    left, right, result = numbers_of(node)
    return admitted(placed(a, left, result) * placed(b, right, result), node)  # type: ignore[arg-type]


@rewrite("canonicalize", DotGeneral)
def dot_in_one_order(node: Node, op: DotGeneral) -> Node | None:
    """Of two operands one of which gives no axis of its own, that one is the second.

    Of two such, the older is the first: equal products are one then, however they were written.
    """
    a, b = node.inputs
    if op.free(0, a.type.ndim):
        return None
    if not op.free(1, b.type.ndim) and a.serial <= b.serial:
        return None
    pairs = sorted(zip(*op.contract[::-1], strict=True))
    contract = tuple(zip(*pairs, strict=True)) or ((), ())
    return Tensor.make(DotGeneral(contract, op.batch_axes[::-1]), b, a)  # type: ignore[arg-type]


# Operands that need no product.


@rewrite("canonicalize", DotGeneral, beside=UNIFORM)
def dot_of_equal_elements(node: Node, op: DotGeneral) -> Node | None:
    """Of zeros, a finite product is 0; of other equal elements, it is a sum times their value."""
    if not is_numeric(node.type.dtype):
        return None
    for side, x in enumerate(node.inputs):
        value = scalar_value(x)
        if value == 0:
            return fitted(as_tensor(0, dtype=node.type.dtype), node)
        # A sum of half-width floats may overflow where the product does not, and so may one of
        # others that were to be made smaller; over no elements, the product with an infinite number
        # is 0.
        large = value is not None and 1 <= abs(value) < math.inf
        if large and node.type.dtype not in HALF:
            return _scaled_sum(node, side, value)
    return None


def _scaled_sum(node: Node, side: int, value: complex) -> Node | None:
    op: DotGeneral = node.op  # type: ignore[assignment]
    x, other = node.inputs[side], node.inputs[1 - side]
    *labels, result = numbers_of(node)
    axes = tuple(sorted(op.contract[1 - side]))
    for own, axis in zip(op.contract[side], op.contract[1 - side], strict=True):
        n = length_of(x, own)
        other = other if is_elsewhere(n, [other]) else with_lengths(other, {axis: n})
    total = Tensor.make(Sum(axes), other) if axes else other
    left = [x for x in labels[1 - side] if x >= 0]
    scale = as_tensor(value, dtype=node.type.dtype)
    return fitted(placed(total, left, result) * scale, node)  # type: ignore[arg-type]


@rewrite("canonicalize", DotGeneral, beside=[Constant, Eye])
def dot_of_identity(node: Node, op: DotGeneral) -> Node | None:
    """The identity changes nothing in a product."""
    if len(op.contract[0]) != 1 or op.batch_axes[0]:
        return None
    for side, x in enumerate(node.inputs):
        if not is_identity(x):
            continue
        other = node.inputs[1 - side]
        (own,), (axis,) = op.contract[side], op.contract[1 - side]
        if x.type.ndim == 2 and equal_lengths(x, own, other, axis):
            rest = [i for i in range(other.type.ndim) if i != axis]
            order = [*rest, axis] if side else [axis, *rest]
            return admitted(transpose(other, order), node)
    return None


def is_identity(x: Node) -> bool:
    """Whether it is a square matrix with ones on its diagonal and zeros elsewhere."""
    while isinstance(x.op, SpecifyShape):
        x = x.inputs[0]
    if isinstance(x.op, Eye):
        return x.op.offset == 0 and equal_lengths(x, 0, x, 1)
    if not isinstance(x.op, Constant) or len(x.op.shape) != 2 or x.op.shape[0] != x.op.shape[1]:
        return False
    return np.array_equal(x.op.value, np.eye(x.op.shape[0], dtype=x.op.value.dtype))


# Scalars, which are multiplied last.


@rewrite("canonicalize", DotGeneral, beside=[negative])
def dot_of_negative(node: Node, op: DotGeneral) -> Node | None:
    """The sign is changed once, of the product, unless that is known to be the larger array."""
    for i, x in enumerate(node.inputs):
        if x.op is negative and not _is_larger(node, x):
            return negative(_with_operand(node, i, x.inputs[0]))
    return None


@rewrite("canonicalize", DotGeneral, beside=[multiply, divide])
def dot_of_scaled(node: Node, op: DotGeneral) -> Node | None:
    """A scalar is multiplied once, with the product, unless that is known to be the larger array.

    Of floats, a constant of magnitude 1 or more, or a divisor of 1 or less: by others, or ones that
    may be, the factors may be scaled for the product not to overflow. So may half-width floats.
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
    """Whether what is made without a factor is infinite only where it is so with it."""
    if factor.type.ndim or is_integer(x.type.dtype):
        return not factor.type.ndim
    value = scalar_value(factor)
    if value is None:
        return False
    size: float = abs(value)
    return 0 < size <= 1 if x.op is divide else 1 <= size < math.inf


def _with_operand(node: Node, i: int, x: Node) -> Node:
    return node.with_inputs([*node.inputs[:i], x, *node.inputs[i + 1 :]])


def _is_larger(a: Node, b: Node) -> bool:
    """Whether an array is known to have more elements: more axes, or more by its lengths."""
    if a.type.is_static and b.type.is_static:
        return bool(math.prod(a.type.shape) > math.prod(b.type.shape))
    return bool(a.type.ndim > b.type.ndim)


# The order of several products.

MOST = 32
"""Products of products are looked at to this number, so that rewriting stays linear."""

EXTREMES = (2, 1000)
"""The values that stand for unknown lengths."""

LEAST, MUCH = 1.25, 4
"""How many times fewer multiplications are worth another order. Much, where it takes more than
twice what the last product took, as others may need the first product in any case."""


@rewrite("canonicalize", DotGeneral, beside=[DotGeneral])
def dot_of_dot(node: Node, op: DotGeneral) -> Node | None:
    """Three factors are multiplied in another order where that takes fewer multiplications.

    Lengths and, where they are unknown, ranks show whether it does. What is made on the way is
    another product, which may overflow where that as written does not, and the other way round.
    """
    for side, between in enumerate(node.inputs):
        if isinstance(between.op, DotGeneral):
            made = _reordered(node, side, between)
            if made is not None and _products_within(node) <= MOST:
                return admitted(made, node)
    return None


@rewrite("canonicalize", DotGeneral, beside=[DotGeneral])
def dot_of_many(node: Node, op: DotGeneral) -> Node | None:
    """Matrices of known lengths are multiplied in the order of the fewest multiplications."""
    chain = chain_of(node)
    if chain is None or len(chain.factors) <= THREE:
        return None
    cost, place = least(chain.sizes)
    enough = LEAST if cost <= 2 * chain.last else MUCH
    if not cost or chain.cost < enough * cost:
        return None
    return admitted(multiplied(chain.factors, place), node)


THREE = 3
"""Of so many factors another order is found without looking at all."""


def _reordered(node: Node, side: int, between: Node) -> Node | None:
    result = list(range(node.type.ndim))
    unused = count(-1, -1)
    outer = numbered(node, result, unused)
    own = numbered(between, outer[side], unused)
    last, last_names = node.inputs[1 - side], outer[1 - side]
    names = [*own, last_names]
    sizes = _sizes([*between.inputs, last], names)
    before = [{*own[0], *own[1]}, {*outer[0], *outer[1]}]
    for i in (1, 0):
        x, rest = between.inputs[i], between.inputs[1 - i]
        kept = _kept(own[i], last_names, own[1 - i])
        after = [{*own[i], *last_names}, {*own[1 - i], *kept}]
        if _gains(before, after, sizes):
            inner = _product([(x, own[i]), (last, last_names)], bool(side), kept)
            return _product([(rest, own[1 - i]), (inner, kept)], not i, result)
    return None


def _product(factors: list[tuple[Node, list[int]]], swapped: bool, out: list[int]) -> Tensor:
    (a, left), (b, right) = factors[::-1] if swapped else factors
    return contracted(a, left, b, right, out)  # type: ignore[arg-type]


def _kept(left: list[int], right: list[int], rest: list[int]) -> list[int]:
    """The numbers of a product's axes that the result or the third factor has."""
    both = [n for n in left if n in right]
    kept = [*both, *(n for n in left if n not in both), *(n for n in right if n not in both)]
    return [n for n in kept if n >= 0 or n in rest]


def _sizes(xs: Sequence[Node], names: Sequence[list[int]]) -> dict[int, int | None]:
    sizes: dict[int, int | None] = {}
    for x, labels in zip(xs, names, strict=True):
        for label, n in zip(labels, x.type.shape, strict=True):
            sizes[label] = n if n is not None else sizes.get(label)
    return sizes


def _gains(
    before: Sequence[set[int]], after: Sequence[set[int]], sizes: dict[int, int | None]
) -> bool:
    """Whether an order takes fewer multiplications, with all unknown lengths short or all long."""
    for n in EXTREMES:
        first, last, *new = (
            math.prod(n if sizes[x] is None else sizes[x] for x in labels)  # type: ignore[misc]
            for labels in (*before, *after)
        )
        gain = (first + last) / sum(new) if last and sum(new) else 0
        if gain < (LEAST if sum(new) <= 2 * last else MUCH):
            return False
    return True


def _products_within(node: Node) -> int:
    """How many products of products an array is, itself among them; not beyond those looked at."""
    found = 0
    waiting = [node]
    while waiting and found <= MOST:
        x = waiting.pop()
        if isinstance(x.op, DotGeneral):
            found += 1
            waiting += x.inputs
    return found


# Sums of products.


@rewrite("specialize", Sum, beside=[multiply])
def sum_of_product(node: Node, op: Sum) -> Node | None:
    """The products of two arrays are added up as they are made, and never all there at once.

    Backends do so themselves where an operand is computed by element on the way.
    """
    (x,) = node.inputs
    if x.op is not multiply or not is_inexact(x.type.dtype) or x.type.dtype in HALF:
        return None
    result = iter(range(node.type.ndim))
    names = [-axis - 1 if axis in op.axes else next(result) for axis in range(x.type.ndim)]
    (a, left), (b, right) = [
        _bare(factor, names[x.type.ndim - factor.type.ndim :]) for factor in x.inputs
    ]
    if {*left} & {*right} != {-axis - 1 for axis in op.axes}:
        return None
    fused = any(isinstance(factor.op, Elementwise | Where | Cast) for factor in (a, b))
    if fused and not ({*left} - {*right} and {*right} - {*left}):
        return None
    kept = [axis for axis in range(node.type.ndim) if axis in left or axis in right]
    made = contracted(a, left, b, right, kept)
    new = tuple(axis for axis in range(node.type.ndim) if axis not in kept)
    return admitted(expand_dims(made, new) if new else made, node)


@rewrite("canonicalize", Sum, beside=[DotGeneral])
def sum_of_dot(node: Node, op: Sum) -> Node | None:
    """Products for each element of a batch that are added up are one product over all of it."""
    (x,) = node.inputs
    if not isinstance(x.op, DotGeneral) or not is_numeric(x.type.dtype):
        return None
    batch = len(x.op.batch_axes[0])
    summed = [axis for axis in op.axes if axis < batch]
    if not summed or x.type.dtype in HALF:
        return None
    left, right, result = numbers_of(x)
    kept = [label for label in result if label not in summed]
    made = contracted(x.inputs[0], left, x.inputs[1], right, kept)  # type: ignore[arg-type]
    rest = tuple(kept.index(axis) for axis in op.axes if axis not in summed)
    return admitted(Tensor.make(Sum(rest), made) if rest else made, node)


def _bare(x: Node, labels: Sequence[int]) -> tuple[Tensor, list[int]]:
    """A factor without the axes of length 1 on which it is broadcast, and the others' labels."""
    ones = tuple(i for i, n in enumerate(x.type.shape) if n == 1)
    left = [label for i, label in enumerate(labels) if i not in ones]
    return _without(x, range(x.type.ndim), ones), left
