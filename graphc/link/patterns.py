"""Patterns of several nodes for which some backends have one operation.

A pattern yields the candidates that may replace a node. If a computation has many forms, the
candidate is expanded, and compared to the nodes in normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Constant, Graph, Node, is_complex, is_inexact, replace_nodes, toposort
from graphc.rewrite import optimize
from graphc.rewrite.facts.facts import Band
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.facts.masks import mask_bands
from graphc.rewrite.rule import FUSE, StageRule, number_of, stage_rule
from graphc.tensor import attention
from graphc.tensor.arrays.create import Arange
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.join import Concatenate, concatenate
from graphc.tensor.core.axes import ExpandDims, Transpose, transpose
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    add,
    cast,
    divide,
    equal,
    multiply,
    sqrt,
    subtract,
)
from graphc.tensor.core.shape import Length, Reshape, length
from graphc.tensor.core.trigonometric import cos, sin
from graphc.tensor.linalg.cholesky import CholeskyGradient
from graphc.tensor.linalg.dot import DotGeneral, ProductAndSum
from graphc.tensor.linalg.triangular import SolveTriangular
from graphc.tensor.special.special import Softmax

Find = Callable[[Node], Iterator[Node]]


@dataclass(frozen=True, slots=True)
class FusionPattern:
    """A pattern of nodes that one operation may replace; ``find`` yields nodes of the operation.

    Reports and modes select or exclude the pattern by its rule.
    """

    op: type
    rule: StageRule
    find: Find


PATTERNS: list[FusionPattern] = []
"""The patterns, in the order in which they are tried on a node."""


def pattern(op: type) -> Callable[[Find], Find]:
    """Register the decorated function as the search for an operation."""

    def enter(find: Find) -> Find:
        subject = op.__module__.rpartition(".")[2]
        meaning = (find.__doc__ or "").partition("\n")[0]
        rule = stage_rule(FUSE, subject, find.__name__, meaning)
        PATTERNS.append(FusionPattern(op, rule, find))
        return find

    return enter


def _have_one_normal_form(pairs: Sequence[tuple[Node, Node]], arguments: Sequence[Node]) -> bool:
    """Return whether the nodes of each pair have one normal form as functions of ``at``."""
    new = {x: Node.input(x.type) for x in arguments}
    inputs = [*new.values()]
    # In normal form a length is that of the array from which the argument is computed.
    x: Any = inputs[0]
    lengths = [(length_of(arguments[0], axis), length(x, axis)) for axis in range(x.ndim)]
    new |= {
        n: new_length
        for n, new_length in lengths
        if isinstance(n, Node) and isinstance(new_length, Node)
    }
    nodes = replace_nodes([y for pair in pairs for y in pair], new)
    if any(not (x.inputs or x in inputs or isinstance(x.op, Constant)) for x in toposort(nodes)):
        return False
    outputs = optimize(Graph(inputs, nodes)).graph.outputs
    return outputs[::2] == outputs[1::2]


def _both_orders(node: Node) -> tuple[tuple[Node, Node], ...]:
    a, b = node.inputs
    return (a, b), (b, a)


def _normalizations(op: type[attention.Normalization], node: Node) -> Iterator[Node]:
    """Yield the normalization that equals a quotient by the root of a mean square and eps."""
    for y, radicand in _quotients_by_root(node):
        is_centered = y.op is subtract and isinstance(y.inputs[1].op, ExpandDims)
        eps = number_of(radicand.inputs[0]) if radicand.op is add else None
        if not isinstance(eps, float) or (op is attention.LayerNorm) != is_centered:
            continue
        x: Any = y.inputs[0] if is_centered else y
        candidate = op((node.type.ndim - 1,), eps)
        expected = candidate.center(x)
        if _have_one_normal_form([(y, expected), (radicand, candidate.spread(expected))], [x]):
            yield Node.make(candidate, x)


def _quotients_by_root(node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the dividend and the radicand of quotients by a root over the last axis."""
    if node.op not in {divide, multiply}:
        return
    for x, divisor in _both_orders(node) if node.op is multiply else (node.inputs,):
        if not isinstance(divisor.op, ExpandDims) or divisor.op.axes != (node.type.ndim - 1,):
            continue
        (root,) = divisor.inputs
        if node.op is multiply and root.op is divide and number_of(root.inputs[0]) == 1:
            root = root.inputs[1]
        elif node.op is multiply:
            continue
        if root.op is sqrt:
            yield x, root.inputs[0]


def _vector_operands(combine: Elementwise, node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield a vector operand and the other operand."""
    if node.op is combine:
        for vector, x in _both_orders(node):
            if vector.type.ndim == 1 and vector.type.shape != (1,):
                yield vector, x


def _weighted_normalizations(op: type[attention.Normalization], node: Node) -> Iterator[Node]:
    for weight, x in _vector_operands(multiply, node):
        for norm in _normalizations(op, x):
            yield Node.make(norm.op, *norm.inputs, weight)


@pattern(attention.LayerNorm)
def fused_layer_norm(node: Node) -> Iterator[Node]:
    """A layer norm, also without bias, or without bias and weight, is one operation."""
    yield from _normalizations(attention.LayerNorm, node)
    yield from _weighted_normalizations(attention.LayerNorm, node)
    for bias, x in _vector_operands(add, node):
        for norm in _weighted_normalizations(attention.LayerNorm, x):
            yield Node.make(norm.op, *norm.inputs, bias)


@pattern(attention.RMSNorm)
def fused_rms_norm(node: Node) -> Iterator[Node]:
    """``x / sqrt(mean(x**2) + eps)``, with or without a weight, is one operation."""
    yield from _normalizations(attention.RMSNorm, node)
    yield from _weighted_normalizations(attention.RMSNorm, node)


MASKED_SCORE = -1e9
"""In a softmax with scores above half of this value, masked scores have the weight 0."""


@pattern(attention.Attention)
def fused_attention(node: Node) -> Iterator[Node]:
    """``softmax(scale * q @ k.T + mask) @ v`` is one operation, also without scale or mask."""
    if not isinstance(node.op, DotGeneral):
        return
    weights, v = node.inputs
    last = weights.type.ndim - 1
    orders = _matrix_orders(node.op, weights.type.ndim, v.type.ndim)
    if weights.op != Softmax((last,)) or not orders or orders[0] != (*range(last + 1),):
        return
    for mask, fill, y in _unmasked_scores(weights.inputs[0]):
        for scaling, scale, product in _unscaled_products(y):
            if not isinstance(product.op, DotGeneral) or product.type != weights.type:
                continue
            q, k = product.inputs
            first_orders = _matrix_orders(product.op, q.type.ndim, k.type.ndim, columns_first=True)
            if first_orders:
                op = attention.Attention((last,), scaling, bool(mask), fill)
                arrays: Any = (q, k, v)
                transposed = map(_transpose_to, arrays, (*first_orders, orders[1]))
                yield Node.make(op, *transposed, *scale, *mask)


def _matrix_orders(
    op: DotGeneral, a: int, b: int, *, columns_first: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the orders of axes that make operands of a and b axes batches of matrices, or None.

    With ``columns_first``, the second matrices are transposed.
    """
    rows, columns = op.free(0, a), op.free(1, b)
    if len(op.contract[0]) != 1 or len(rows) != 1 or len(columns) != 1:
        return None
    last_axes = (columns, op.contract[1]) if columns_first else (op.contract[1], columns)
    return (
        (*op.batch_axes[0], *rows, *op.contract[0]),
        (*op.batch_axes[1], *last_axes[0], *last_axes[1]),
    )


def _transpose_to(x: Any, axes: tuple[int, ...]) -> Node:
    return x if axes == (*range(x.ndim),) else transpose(x, axes)


def _unmasked_scores(scores: Node) -> Iterator[tuple[tuple[Node, ...], float | None, Node]]:
    """Yield the mask, the number that masked scores become, and the scores without the mask."""
    yield (), None, scores
    if scores.op is add:
        for mask, y in _both_orders(scores):
            yield (mask,), None, y
    if isinstance(scores.op, Where):
        mask, y, fill = scores.inputs
        value = number_of(fill)
        # The number is lower than any finite float16, in which it is -inf.
        if value is not None and value <= MASKED_SCORE:
            yield (mask,), value, y


def _unscaled_products(y: Node) -> Iterator[tuple[str, tuple[Node, ...], Node]]:
    """Yield the kind of scaling, the scales, and the factor that they scale."""
    yield "", (), y
    if y.op is multiply:
        for scale, product in _both_orders(y):
            if not scale.type.ndim:
                yield "*", (scale,), product
    if y.op is divide and not y.inputs[1].type.ndim:
        yield "/", (y.inputs[1],), y.inputs[0]


def _rotate_by_halves(x: Any, c: Any, s: Any) -> Node:
    half = length(x, -1) // 2
    other = concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cast(c, x.dtype) + other * cast(s, x.dtype)  # type: ignore[no-any-return]


def _with_repeated_angles(x: Any, angle: Any) -> Node:
    twice = concatenate([angle, angle], -1)
    return _rotate_by_halves(x, cos(twice), sin(twice))


def _with_repeated_cosines(x: Any, angle: Any) -> Node:
    c, s = cos(angle), sin(angle)
    return _rotate_by_halves(x, concatenate([c, c], -1), concatenate([s, s], -1))


ROTATIONS: dict[Callable[..., Node], bool] = {
    attention.rotate_halves: False,
    _with_repeated_angles: False,
    _with_repeated_cosines: False,
    attention.rotate_pairs: True,
}
"""The forms of a rotation, and whether each rotates pairs of adjacent elements."""

MAX_DISTANCE = 6
"""The largest number of operations between a rotation's result and the cosines of its angles."""


@pattern(attention.Rotation)
def fused_rotation(node: Node) -> Iterator[Node]:
    """A rotation of pairs by angles proportional to the row number, from 0 on, is one operation."""
    if node.op is not add and not isinstance(node.op, Concatenate | Reshape):
        return
    nodes = _nodes_nearby(node)
    angles = [_without_repetition(x.inputs[0]) for x in nodes if x.op is cos]
    arrays = [x.inputs[0] for x in nodes if isinstance(x.op, Index)]
    for x in dict.fromkeys(x for x in arrays if x.type == node.type and x.type.ndim > 1):
        for angle in dict.fromkeys(angles):
            for frequencies in _frequencies(angle, length_of(x, x.type.ndim - 2)):
                for form, pairs in ROTATIONS.items():
                    if _have_one_normal_form([(node, form(x, angle))], [x, angle]):
                        yield Node.make(
                            attention.Rotation((node.type.ndim - 1,), pairs), x, frequencies
                        )


def _nodes_nearby(node: Node) -> dict[Node, None]:
    nodes = {node: None}
    for _ in range(MAX_DISTANCE):
        nodes |= dict.fromkeys([x for y in nodes for x in y.inputs])
    return nodes


def _without_repetition(angles: Node) -> Node:
    """Return the angles of one half, if both halves have the same angles."""
    match angles.op:
        case Concatenate() if len(set(angles.inputs)) == 1:
            return angles.inputs[0]
    return angles


def _frequencies(angle: Node, n: Known) -> Iterator[Node]:
    """Yield the float32 factors of angles that are row number times factor, for n rows."""
    if angle.op is not multiply or angle.type.ndim != 2 or angle.type.dtype != "float32":
        return
    for frequencies, rows in _both_orders(angle):
        if isinstance(frequencies.op, ExpandDims) and frequencies.op.axes == (0,):
            (frequencies,) = frequencies.inputs
        if frequencies.type.ndim == 1 and _is_row_numbers(rows, n):
            yield frequencies


def _is_row_numbers(rows: Node, n: Known) -> bool:
    """Return whether a node is a column of the numbers 0 to n - 1."""
    if isinstance(rows.op, Constant):
        column = np.arange(n)[:, None] if isinstance(n, int) else None
        return np.array_equal(rows.op.value, column)  # type: ignore[arg-type]
    if not isinstance(rows.op, ExpandDims) or rows.op.axes != (1,):
        return False
    (x,) = rows.inputs
    if isinstance(x.op, Cast):
        (x,) = x.inputs
    if not isinstance(x.op, Arange):
        return False
    start, stop, step = x.inputs
    if isinstance(stop.op, Length):
        end: Known = length_of(stop.inputs[0], stop.op.axis)
    else:
        end = number_of(stop)
    ends_at_n = end is n or (isinstance(n, int) and end == n)
    return ends_at_n and number_of(start) == 0 and number_of(step) == 1


@pattern(ProductAndSum)
def fused_product_and_sum(node: Node) -> Iterator[Node]:
    """``a @ b + c`` is one operation."""
    if node.op is not add or not is_inexact(node.type.dtype) or is_complex(node.type.dtype):
        return
    for y, c in _both_orders(node):
        if not isinstance(y.op, DotGeneral) or [*fused_attention(y)]:
            continue
        a, b = y.inputs
        last = a.type.ndim - 1
        plain = DotGeneral(((last,), (0,)))
        if y.op == plain and last > 0 and b.type.ndim == 2 and y.type == node.type:
            yield Node.make(ProductAndSum((last,)), a, b, c)


@pattern(CholeskyGradient)
def fused_cholesky_gradient(node: Node) -> Iterator[Node]:
    """The gradient of a Cholesky factorisation, two systems with the factor, is one operation."""
    total = _without_half_diagonal(node)
    if total is None or total.op is not add:
        return
    solve = SolveTriangular(lower=True, transposed=True, unit_diagonal=False)
    for gradient, other in _both_orders(total):
        if gradient.op != solve or _matrix_transpose(other) is not gradient:
            continue
        y, half = gradient.inputs[0], _matrix_transpose(gradient.inputs[1])
        if half is None or half.op != solve or half.inputs[0] is not y:
            continue
        inner = _without_half_diagonal(half.inputs[1])
        if inner is not None and _is_product_of_transpose(inner, y):
            yield Node.make(CholeskyGradient(), y, inner.inputs[1])


def _without_half_diagonal(node: Node) -> Node | None:
    """Return the matrices of which a node is the lower triangles with half their diagonals."""
    if not isinstance(node.op, Where) or not isinstance(node.inputs[2].op, Where):
        return None
    below, x, rest = node.inputs
    diagonal, half, zero = rest.inputs
    is_half = half.op is multiply and number_of(half.inputs[0]) == 0.5 and half.inputs[1] is x
    is_below = mask_bands(below) == (Band(high=-1), Band(low=0))
    return x if is_half and is_below and _is_eye(diagonal) and number_of(zero) == 0 else None


def _is_eye(mask: Node) -> bool:
    if isinstance(mask.op, Constant):
        value = mask.op.value
        return value.ndim == 2 and np.array_equal(value, np.eye(*value.shape))
    return mask.op is equal and mask_bands(mask).inside == Band(0, 0)


def _matrix_transpose(x: Node) -> Node | None:
    """Return the matrices whose transposes a node is."""
    n = x.type.ndim
    exchange = (*range(n - 2), n - 1, n - 2)
    return x.inputs[0] if isinstance(x.op, Transpose) and x.op.axes == exchange else None


def _is_product_of_transpose(product: Node, y: Node) -> bool:
    """Return whether matrices are products of the transposes of y with others."""
    op = product.op
    if not isinstance(op, DotGeneral) or product.inputs[0] is not y:
        return False
    n = y.type.ndim - 2
    return product.type.ndim == n + 2 and op == DotGeneral(((n,), (n,)), ((*range(n),),) * 2)
