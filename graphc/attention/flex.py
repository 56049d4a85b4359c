"""Attention by functions of single elements as an operation, and its gradient as another.

A backend that lowers them skips empty blocks. For the others, and for derivatives of higher order,
``expand`` gives the same in basic operations: a loop over rows of blocks, each dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from graphc.attention import rows
from graphc.attention.batch import folded
from graphc.attention.mods import INDICES
from graphc.attention.parts import Parts, compute_dtype
from graphc.errors import ShapeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents
from graphc.implicit.array import is_implicit
from graphc.implicit.registry import register
from graphc.ir import Graph, Node, TensorType, TupleType, is_float, picks, replaced
from graphc.ir.lengths import agree
from graphc.loop.evaluate import evaluate
from graphc.loop.step import stand_in
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.tensor import Tensor, as_tensor

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FlexOp(Composite):
    """The base of attention and its gradient.

    Attributes:
        score: The score function, (score, b, h, q, k, *captured), or None.
        mask: The mask function, (b, h, q, k, *captured), or None.
        sparse: Whether there are tables of blocks. Without them, all are partial where there is a
            mask, and full elsewhere.
        block: The numbers of queries and keys of a block.
        scale: The factor of products of queries and keys; None for 1 / sqrt(elements), where the
            number of elements is known at run time only.
        grouped: Whether several heads of queries may share one of keys.
    """

    score: Graph | None
    mask: Graph | None
    sparse: bool
    block: tuple[int, int]
    scale: float | None
    grouped: bool

    @property
    def wanted_captured(self) -> tuple[bool, ...]:
        """Which arrays that the score function captures a gradient operation differentiates."""
        return ()

    def graphs(self) -> tuple[Graph, ...]:
        return tuple(graph for graph in (self.score, self.mask) if graph is not None)

    def passes(self) -> Sequence[Sequence[int | None]]:
        found: list[Sequence[int | None]] = []
        place = 3 + 4 * self.sparse
        for graph, own in ((self.score, len(INDICES) + 1), (self.mask, len(INDICES))):
            if graph is not None:
                n = len(graph.inputs) - own
                found.append((*[None] * own, *range(place, place + n)))
                place += n
        return found

    def with_graphs(self, graphs: Sequence[Graph]) -> FlexOp:
        left = list(graphs)
        score = None if self.score is None else left.pop(0)
        return replace(self, score=score, mask=None if self.mask is None else left.pop(0))

    def with_functions(self, score: Graph | None, mask: Graph | None) -> FlexOp:
        """The operation with functions that each capture one more integer."""
        return replace(self, score=score, mask=mask)

    def parts(self, given: Sequence[T]) -> Parts[T]:
        """The inputs, or values that stand for them, by what they are."""
        left = list(given)

        def taken(n: int) -> list[T]:
            found = left[:n]
            del left[:n]
            return found

        q, k, v = taken(3)
        tables = taken(4 * self.sparse)
        of_score = 0 if self.score is None else len(self.score.inputs) - len(INDICES) - 1
        of_mask = 0 if self.mask is None else len(self.mask.inputs) - len(INDICES)
        return Parts(q, k, v, tables, taken(of_score), taken(of_mask), left)

    def _compare(self, q: TensorType, k: TensorType, v: TensorType) -> None:
        """Raise if lengths of queries, keys and values differ that must be equal."""
        heads = k.shape[1] if self.grouped else q.shape[1]
        fits = [
            agree(q.shape[0], k.shape[0], v.shape[0]),
            agree(heads, k.shape[1], v.shape[1]),
            agree(k.shape[2], v.shape[2]),
            agree(q.shape[3], k.shape[3]),
        ]
        if not all(fits):
            raise ShapeError(f"flex_attention({q!r}, {k!r}, {v!r}): lengths differ.")

    def perform(self, *values: Any) -> tuple[Any, ...]:
        """The expanded operation, computed node by node."""
        inputs = [TensorType(x.dtype, x.shape)() for x in map(np.asarray, values)]
        return tuple(evaluate(Graph(inputs, self.expand(*inputs).inputs), *values))

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Tensor) -> Any:
        """The tangent of the expanded operation."""
        fresh, outputs = self._opened(inputs)
        pairs = zip(fresh, tangents, strict=True)
        made = push(outputs, {x: t for x, t in pairs if t is not None})
        return _filled(made, dict(zip(fresh, inputs, strict=True)))

    def pullback_through(self, g: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
        """The gradients of the expanded operation with respect to all inputs."""
        fresh, outputs = self._opened(inputs)
        pairs = zip(outputs, g, strict=True)
        made = cotangents({y: part for y, part in pairs if part is not None}, fresh)
        return _filled(made, dict(zip(fresh, inputs, strict=True)))

    def _opened(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Node]]:
        fresh = [stand_in(x) for x in inputs]
        return fresh, self.expand(*fresh).inputs

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> tuple[Tensor, ...]:
        """The operation with the batch merged into the sequences."""
        return folded(self, size, batched, inputs)


def _filled(made: Sequence[Any], known: dict[Node, Node]) -> list[Any]:
    """Arrays, of which some may be None, with their stand-in inputs replaced."""
    found = iter(replaced([y for y in made if y is not None], known))
    return [None if y is None else next(found) for y in made]


@dataclass(frozen=True, slots=True)
class Flex(FlexOp):
    """Attention: the result (B, Hq, Q, Ev) of the queries' dtype, and log-sum-exps (B, Hq, Q)."""

    def infer(self, *types: TensorType) -> TupleType:
        q, k, v = types[:3]
        self._compare(q, k, v)
        sums = TensorType(compute_dtype(q.dtype), q.shape[:3])
        return TupleType((q.with_shape((*q.shape[:3], v.shape[3])), sums))

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(inputs), g, y, *inputs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Sequence[Any], y: Any, *inputs: Tensor
    ) -> Sequence[Any]:
        """The gradient as an operation, which recomputes the weights block by block."""
        parts = self.parts(inputs)
        captured = self.parts(wanted).score_captured
        floats = [is_float(x.dtype) for x in parts.score_captured]
        wanted_captured = tuple(a and b for a, b in zip(captured, floats, strict=True))
        out, sums = picks(y)
        pairs = zip((out, sums), g, strict=True)
        given = [zeros_like(x) if part is None else part for x, part in pairs]
        op = FlexGradient(
            self.score,
            self.mask,
            self.sparse,
            self.block,
            self.scale,
            self.grouped,
            wanted_captured,
        )
        found = iter(picks(Node.make(op, *inputs, out, sums, *given)))
        by_arrays = [next(found), next(found), next(found)]
        by_captured = [next(found) if flag else None for flag in wanted_captured]
        tail = [None] * len(parts.mask_captured)
        return [*by_arrays, *[None] * len(parts.tables), *by_captured, *tail]

    def expand(self, *inputs: Tensor) -> Node:
        """A loop over rows of blocks, each with all keys."""
        return rows.attention(self, inputs)


@dataclass(frozen=True, slots=True)
class FlexGradient(FlexOp):
    """The gradients of attention with respect to q, k, v and the score function's arrays.

    The inputs are those of ``Flex``, its results, and their cotangents.

    Attributes:
        wanted: Which of the score function's arrays have a gradient.
    """

    wanted: tuple[bool, ...]

    @property
    def wanted_captured(self) -> tuple[bool, ...]:
        return self.wanted

    def infer(self, *types: TensorType) -> TupleType:
        parts = self.parts(types)
        self._compare(parts.q, parts.k, parts.v)
        return TupleType((parts.q, parts.k, parts.v, *self.wanted_of(parts.score_captured)))

    def with_functions(self, score: Graph | None, mask: Graph | None) -> FlexGradient:
        wanted = self.wanted if score is None else (*self.wanted, False)
        return replace(self, score=score, mask=mask, wanted=wanted)

    def wanted_of(self, captured: Sequence[T]) -> list[T]:
        """The captured arrays that have a gradient."""
        return [x for x, flag in zip(captured, self.wanted, strict=True) if flag]

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """The gradient of the expanded operation."""
        return self.pullback_through(g, inputs)

    def expand(self, *inputs: Tensor) -> Node:
        """A loop over rows of blocks, each with all keys, whose gradients are summed."""
        return rows.gradient(self, inputs)


@register(Flex)
def _of_implicit_keys(*operands: Any, **parameters: Any) -> Any:
    """Read keys and values that are implicit, as a quantized cache, as they are.

    Rows are no longer than the queries, of which a step of a decoder has one.
    """
    q, k, v, *_ = operands
    if is_implicit(q) or not (is_implicit(k) or is_implicit(v)):
        return NotImplemented
    op = Flex(**parameters)
    rows, keys = op.block
    queries = q.type.shape[2]
    if queries is not None:
        op = replace(op, block=(max(1, min(rows, queries)), keys))
    return picks(op.expand(*map(as_tensor, operands)))
