"""Patterns of several operations that some backends have one operation for.

Each finds what may stand for a node. Where nodes can be written in many ways, the operation is
written out and compared to them in their common normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Constant, Graph, Node, is_complex, is_inexact, replaced, toposort
from graphc.rewrite import optimize
from graphc.rewrite.facts.lengths import Known, length_of
from graphc.rewrite.rule import FUSE, StageRule, number_of, stage_rule
from graphc.tensor.arrays.create import Arange
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.join import Concatenate, concatenate
from graphc.tensor.attention import (
    Attention,
    LayerNorm,
    Normalization,
    RMSNorm,
    Rotation,
    rotate_halves,
    rotate_pairs,
)
from graphc.tensor.core.axes import ExpandDims, transpose
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    add,
    cast,
    divide,
    multiply,
    sqrt,
    subtract,
)
from graphc.tensor.core.shape import Length, Reshape, length
from graphc.tensor.core.trigonometric import cos, sin
from graphc.tensor.linalg.dot import DotGeneral, ProductAndSum
from graphc.tensor.special.special import Softmax

Find = Callable[[Node], Iterator[Node]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of nodes that one operation may replace.

    Attributes:
        op: The operation.
        rule: What reports call it; its names leave it out.
        find: Gives nodes of the operation that may stand for a node.
    """

    op: type
    rule: StageRule
    find: Find


PATTERNS: list[Pattern] = []
"""In the order they are tried on a node."""


def pattern(op: type) -> Callable[[Find], Find]:
    """Enter the decorated function as what finds an operation."""

    def enter(find: Find) -> Find:
        subject = op.__module__.rpartition(".")[2]
        meaning = (find.__doc__ or "").partition("\n")[0]
        rule = stage_rule(FUSE, subject, find.__name__, meaning)
        PATTERNS.append(Pattern(op, rule, find))
        return find

    return enter


def _alike(pairs: Sequence[tuple[Node, Node]], at: Sequence[Node]) -> bool:
    """Whether the nodes of each pair have one normal form, whatever these are."""
    new = {x: Node.input(x.type) for x in at}
    given = [*new.values()]
    # In normal form a length is that of what the array is made of.
    x: Any = given[0]
    known = [(length_of(at[0], axis), length(x, axis)) for axis in range(x.ndim)]
    new |= {n: own for n, own in known if isinstance(n, Node) and isinstance(own, Node)}
    nodes = replaced([y for pair in pairs for y in pair], new)
    if any(not (x.inputs or x in given or isinstance(x.op, Constant)) for x in toposort(nodes)):
        return False
    found = optimize(Graph(given, nodes)).graph.outputs
    return found[::2] == found[1::2]


def _either(node: Node) -> tuple[tuple[Node, Node], ...]:
    a, b = node.inputs
    return (a, b), (b, a)


def _normal(op: type[Normalization], node: Node) -> Iterator[Node]:
    """Of a quotient by the root of a mean square and a small number."""
    for y, under in _by_root(node):
        centred = y.op is subtract and isinstance(y.inputs[1].op, ExpandDims)
        eps = number_of(under.inputs[0]) if under.op is add else None
        if not isinstance(eps, float) or (op is LayerNorm) != centred:
            continue
        x: Any = y.inputs[0] if centred else y
        made = op((node.type.ndim - 1,), eps)
        wanted = made.centred(x)
        if _alike([(y, wanted), (under, made.spread(wanted))], [x]):
            yield Node.make(made, x)


def _by_root(node: Node) -> Iterator[tuple[Node, Node]]:
    """Quotients by a root over the last axis: the dividend, and the argument of the root."""
    if node.op not in {divide, multiply}:
        return
    for x, size in _either(node) if node.op is multiply else (node.inputs,):
        if not isinstance(size.op, ExpandDims) or size.op.axes != (node.type.ndim - 1,):
            continue
        (root,) = size.inputs
        if node.op is multiply and root.op is divide and number_of(root.inputs[0]) == 1:
            root = root.inputs[1]
        elif node.op is multiply:
            continue
        if root.op is sqrt:
            yield x, root.inputs[0]


def _beside(combine: Elementwise, node: Node) -> Iterator[tuple[Node, Node]]:
    """A vector that is multiplied by or added, and what with."""
    if node.op is combine:
        for vector, x in _either(node):
            if vector.type.ndim == 1 and vector.type.shape != (1,):
                yield vector, x


def _weighted(op: type[Normalization], node: Node) -> Iterator[Node]:
    for weight, x in _beside(multiply, node):
        for made in _normal(op, x):
            yield Node.make(made.op, *made.inputs, weight)


@pattern(LayerNorm)
def fused_layer_norm(node: Node) -> Iterator[Node]:
    """A layer norm, with a weight and a bias, or a weight, or neither, is one operation."""
    yield from _normal(LayerNorm, node)
    yield from _weighted(LayerNorm, node)
    for bias, x in _beside(add, node):
        for made in _weighted(LayerNorm, x):
            yield Node.make(made.op, *made.inputs, bias)


@pattern(RMSNorm)
def fused_rms_norm(node: Node) -> Iterator[Node]:
    """A norm by the root of mean squares, with a weight or without, is one operation."""
    yield from _normal(RMSNorm, node)
    yield from _weighted(RMSNorm, node)


LOW = -1e9
"""Beside a score that is no lower than half of it, one so low has no weight at all."""


@pattern(Attention)
def fused_attention(node: Node) -> Iterator[Node]:
    """Values weighted by a softmax of products are one operation; so with a scale and a mask."""
    if not isinstance(node.op, DotGeneral):
        return
    weights, v = node.inputs
    last = weights.type.ndim - 1
    orders = _orders(node.op, weights.type.ndim, v.type.ndim)
    if weights.op != Softmax((last,)) or not orders or orders[0] != (*range(last + 1),):
        return
    for masks, fill, y in _masked(weights.inputs[0]):
        for scaled, scale, product in _scaled(y):
            if not isinstance(product.op, DotGeneral) or product.type != weights.type:
                continue
            q, k = product.inputs
            first = _orders(product.op, q.type.ndim, k.type.ndim, columns_first=True)
            if first:
                op = Attention((last,), scaled, bool(masks), fill)
                arrays: Any = (q, k, v)
                ordered = map(_ordered, arrays, (*first, orders[1]))
                yield Node.make(op, *ordered, *scale, *masks)


def _orders(
    op: DotGeneral, a: int, b: int, *, columns_first: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The orders of axes that make batches of matrices of both operands, of as many axes as these.

    None where they are none. The second is to be multiplied as it is, or transposed.
    """
    rows, columns = op.free(0, a), op.free(1, b)
    if len(op.contract[0]) != 1 or len(rows) != 1 or len(columns) != 1:
        return None
    behind = (columns, op.contract[1]) if columns_first else (op.contract[1], columns)
    return (
        (*op.batch_axes[0], *rows, *op.contract[0]),
        (*op.batch_axes[1], *behind[0], *behind[1]),
    )


def _ordered(x: Any, axes: tuple[int, ...]) -> Node:
    return x if axes == (*range(x.ndim),) else transpose(x, axes)


def _masked(scores: Node) -> Iterator[tuple[tuple[Node, ...], float | None, Node]]:
    """The mask if there is one, what it fills in if that is how, and what it is a mask of."""
    yield (), None, scores
    if scores.op is add:
        for mask, y in _either(scores):
            yield (mask,), None, y
    if isinstance(scores.op, Where):
        mask, y, fill = scores.inputs
        value = number_of(fill)
        # Lower than any finite float16, where such a number is an infinity.
        if value is not None and value <= LOW:
            yield (mask,), value, y


def _scaled(y: Node) -> Iterator[tuple[str, tuple[Node, ...], Node]]:
    """A product's kind of scaling, its scales, and the factor that they scale."""
    yield "", (), y
    if y.op is multiply:
        for scale, product in _either(y):
            if not scale.type.ndim:
                yield "*", (scale,), product
    if y.op is divide and not y.inputs[1].type.ndim:
        yield "/", (y.inputs[1],), y.inputs[0]


def _by_turned_halves(x: Any, c: Any, s: Any) -> Node:
    half = length(x, -1) // 2
    other = concatenate([-x[..., half:], x[..., :half]], -1)
    return x * cast(c, x.dtype) + other * cast(s, x.dtype)  # type: ignore[no-any-return]


def _angles_twice(x: Any, angle: Any) -> Node:
    twice = concatenate([angle, angle], -1)
    return _by_turned_halves(x, cos(twice), sin(twice))


def _cosines_twice(x: Any, angle: Any) -> Node:
    c, s = cos(angle), sin(angle)
    return _by_turned_halves(x, concatenate([c, c], -1), concatenate([s, s], -1))


ROTATIONS: dict[Callable[..., Node], bool] = {
    rotate_halves: False,
    _angles_twice: False,
    _cosines_twice: False,
    rotate_pairs: True,
}
"""The forms of a rotation, and whether each turns neighbouring elements."""

NEAR = 6
"""So many operations are between a rotation's result and the cosines of its angles at most."""


@pattern(Rotation)
def fused_rotation(node: Node) -> Iterator[Node]:
    """Pairs turned by angles in proportion to their row's number, from 0 on, are one operation."""
    if node.op is not add and not isinstance(node.op, Concatenate | Reshape):
        return
    near = _near(node)
    angles = [_once(x.inputs[0]) for x in near if x.op is cos]
    arrays = [x.inputs[0] for x in near if isinstance(x.op, Index)]
    for x in dict.fromkeys(x for x in arrays if x.type == node.type and x.type.ndim > 1):
        for angle in dict.fromkeys(angles):
            for speed in _speeds(angle, length_of(x, x.type.ndim - 2)):
                for written, pairs in ROTATIONS.items():
                    if _alike([(node, written(x, angle))], [x, angle]):
                        yield Node.make(Rotation((node.type.ndim - 1,), pairs), x, speed)


def _near(node: Node) -> dict[Node, None]:
    found = {node: None}
    for _ in range(NEAR):
        found |= dict.fromkeys([x for y in found for x in y.inputs])
    return found


def _once(angles: Node) -> Node:
    """Angles, which may be there twice side by side."""
    match angles.op:
        case Concatenate() if len(set(angles.inputs)) == 1:
            return angles.inputs[0]
    return angles


def _speeds(angle: Node, n: Known) -> Iterator[Node]:
    """The float32 factors of angles, which are those times the number of each of n rows."""
    if angle.op is not multiply or angle.type.ndim != 2 or angle.type.dtype != "float32":
        return
    for speed, rows in _either(angle):
        if isinstance(speed.op, ExpandDims) and speed.op.axes == (0,):
            (speed,) = speed.inputs
        if speed.type.ndim == 1 and _numbers(rows, n):
            yield speed


def _numbers(rows: Node, n: Known) -> bool:
    """Whether this is a column of the numbers 0 to n - 1."""
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
    same = end is n or (isinstance(n, int) and end == n)
    return same and number_of(start) == 0 and number_of(step) == 1


@pattern(ProductAndSum)
def fused_product_and_sum(node: Node) -> Iterator[Node]:
    """A matrix product and what is added to it are one operation."""
    if node.op is not add or not is_inexact(node.type.dtype) or is_complex(node.type.dtype):
        return
    for y, c in _either(node):
        if not isinstance(y.op, DotGeneral) or [*fused_attention(y)]:
            continue
        a, b = y.inputs
        last = a.type.ndim - 1
        plain = DotGeneral(((last,), (0,)))
        if y.op == plain and last > 0 and b.type.ndim == 2 and y.type == node.type:
            yield Node.make(ProductAndSum((last,)), a, b, c)
