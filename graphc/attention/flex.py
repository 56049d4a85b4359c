"""Attention by functions of single elements, as two operations: it, and its gradient.

A backend that has them skips blocks that are empty. For the others, and for derivatives of higher
order, ``expand`` says what they are made of: a loop over rows of blocks, each dense.
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
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents
from graphc.ir import Check, Graph, Node, TensorType, TupleType, is_float, picks, replaced
from graphc.loop.evaluate import evaluate
from graphc.loop.step import stand_in
from graphc.tensor.create import zeros_like
from graphc.tensor.reduce import Named
from graphc.tensor.tensor import Tensor

__all__ = ["Flex", "FlexGradient", "FlexOp"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FlexOp(Named):
    """What attention and its gradient have in common.

    Attributes:
        score: What becomes of a score, (score, b, h, q, k, *captured); None for nothing.
        mask: Whether it is kept, (b, h, q, k, *captured); None for always.
        sparse: Whether there are tables of blocks. Without them, all are partial where there is a
            mask, and full elsewhere.
        block: How many queries and keys a block has.
        scale: What scores are multiplied by, before all else; None for the root of the number of
            elements, divided into 1, where that is known at run time only.
        grouped: Whether several heads of queries may share one of keys.
    """

    score: Graph | None
    mask: Graph | None
    sparse: bool
    block: tuple[int, int]
    scale: float | None
    grouped: bool

    @property
    def asked(self) -> tuple[bool, ...]:
        """Of a gradient, by which of the arrays that the score function captures there is one."""
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
        """The same of functions that each capture an integer more than its own."""
        return replace(self, score=score, mask=mask)

    def parts(self, given: Sequence[T]) -> Parts[T]:
        """Its inputs, or something for each, apart."""
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

    def checks(self, *types: TensorType) -> Sequence[Check]:
        heads = [] if self.grouped else [(0, 1, 1, 1)]
        same = [(0, 0, 1, 0), (0, 0, 2, 0), (1, 1, 2, 1), (0, 3, 1, 3), (1, 2, 2, 2)]
        return [*same, *heads]

    def perform(self, *values: Any) -> tuple[Any, ...]:
        """What it is made of, computed node by node."""
        inputs = [TensorType(x.dtype, x.shape)() for x in map(np.asarray, values)]
        return tuple(evaluate(Graph(inputs, self.expand(*inputs).inputs), *values))

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Tensor) -> Any:
        """By what it is made of."""
        fresh, outputs = self._opened(inputs)
        pairs = zip(fresh, tangents, strict=True)
        made = push(outputs, {x: t for x, t in pairs if t is not None})
        return _filled(made, dict(zip(fresh, inputs, strict=True)))

    def pullback_through(self, g: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
        """The gradients by all inputs, by what it is made of."""
        fresh, outputs = self._opened(inputs)
        pairs = zip(outputs, g, strict=True)
        made = cotangents({y: part for y, part in pairs if part is not None}, fresh)
        return _filled(made, dict(zip(fresh, inputs, strict=True)))

    def _opened(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Node]]:
        fresh = [stand_in(x) for x in inputs]
        return fresh, self.expand(*fresh).inputs

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> tuple[Tensor, ...]:
        """One with as many more batches, which the functions tell apart again."""
        return folded(self, size, batched, inputs)


def _filled(made: Sequence[Any], known: dict[Node, Node]) -> list[Any]:
    """Arrays, of which some may be None, with what they stand for in the place of inputs."""
    found = iter(replaced([y for y in made if y is not None], known))
    return [None if y is None else next(found) for y in made]


@dataclass(frozen=True, slots=True)
class Flex(FlexOp):
    """Attention: (B, Hq, Q, Ev) of the queries' dtype, and the logarithms of sums (B, Hq, Q)."""

    def infer(self, *types: TensorType) -> TupleType:
        q, _, v = types[:3]
        sums = TensorType(compute_dtype(q.dtype), q.shape[:3])
        return TupleType((q.with_shape((*q.shape[:3], v.shape[3])), sums))

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(inputs), g, y, *inputs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Sequence[Any], y: Any, *inputs: Tensor
    ) -> Sequence[Any]:
        """Another operation, which finds the weights again block by block."""
        parts = self.parts(inputs)
        asked = self.parts(wanted).score_captured
        floats = [is_float(x.dtype) for x in parts.score_captured]
        told = tuple(a and b for a, b in zip(asked, floats, strict=True))
        out, sums = picks(y)
        pairs = zip((out, sums), g, strict=True)
        given = [zeros_like(x) if part is None else part for x, part in pairs]
        op = FlexGradient(
            self.score, self.mask, self.sparse, self.block, self.scale, self.grouped, told
        )
        found = iter(picks(Node.make(op, *inputs, out, sums, *given)))
        by_arrays = [next(found), next(found), next(found)]
        by_captured = [next(found) if flag else None for flag in told]
        tail = [None] * len(parts.mask_captured)
        return [*by_arrays, *[None] * len(parts.tables), *by_captured, *tail]

    def expand(self, *inputs: Tensor) -> Node:
        """Rows of blocks one after the other, each with all keys."""
        return rows.attention(self, inputs)


@dataclass(frozen=True, slots=True)
class FlexGradient(FlexOp):
    """The gradients of attention by q, k, v and what the score function captures.

    Its inputs are those of ``Flex``, both results of that, and their cotangents.

    Attributes:
        wanted: By which of the captured arrays there is one.
    """

    wanted: tuple[bool, ...]

    @property
    def asked(self) -> tuple[bool, ...]:
        return self.wanted

    def infer(self, *types: TensorType) -> TupleType:
        parts = self.parts(types)
        return TupleType((parts.q, parts.k, parts.v, *self.wanted_of(parts.score_captured)))

    def with_functions(self, score: Graph | None, mask: Graph | None) -> FlexGradient:
        wanted = self.wanted if score is None else (*self.wanted, False)
        return replace(self, score=score, mask=mask, wanted=wanted)

    def wanted_of(self, captured: Sequence[T]) -> list[T]:
        """Those of the captured arrays that there is a gradient by."""
        return [x for x, flag in zip(captured, self.wanted, strict=True) if flag]

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """By what it is made of."""
        return self.pullback_through(g, inputs)

    def expand(self, *inputs: Tensor) -> Node:
        """Rows of blocks one after the other, each with all keys; what keys get is summed up."""
        return rows.gradient(self, inputs)
