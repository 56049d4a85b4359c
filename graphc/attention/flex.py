"""Attention by functions of single elements as an operation, and its gradient as another.

A backend that lowers these operations skips empty blocks. For other backends, and for derivatives
of higher order, ``expand`` returns basic operations: a loop over rows of blocks, each dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from graphc.attention import rows
from graphc.attention.batch import merge_batch
from graphc.attention.inputs import AttentionInputs, compute_dtype
from graphc.attention.mods import INDICES
from graphc.errors import ShapeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents
from graphc.implicit.array import is_implicit
from graphc.implicit.registry import register
from graphc.ir import Graph, Node, TensorType, TupleType, is_float, picks, replace_nodes
from graphc.ir.lengths import agree
from graphc.loop.evaluate import evaluate
from graphc.loop.step import stand_in
from graphc.loop.subgraph import Subgraph
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
        sparse: Whether there are tables of blocks. Without tables all blocks are partial if there
            is a mask, and full otherwise.
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
        """Whether a gradient operation differentiates each array of the score function."""
        return ()

    def graphs(self) -> tuple[Graph, ...]:
        return tuple(graph for graph in (self.score, self.mask) if graph is not None)

    def passes(self) -> Sequence[Sequence[int | None]]:
        passed: list[Sequence[int | None]] = []
        first = 3 + 4 * self.sparse
        for graph, scalars in ((self.score, len(INDICES) + 1), (self.mask, len(INDICES))):
            if graph is not None:
                n = len(graph.inputs) - scalars
                passed.append((*[None] * scalars, *range(first, first + n)))
                first += n
        return passed

    def with_graphs(self, graphs: Sequence[Graph]) -> FlexOp:
        remaining = list(graphs)
        score = None if self.score is None else remaining.pop(0)
        return replace(self, score=score, mask=None if self.mask is None else remaining.pop(0))

    def with_functions(self, score: Graph | None, mask: Graph | None) -> FlexOp:
        """Return the operation with functions that each capture one more integer."""
        return replace(self, score=score, mask=mask)

    def split_inputs(self, values: Sequence[T]) -> AttentionInputs[T]:
        """Return the inputs, or one value for each of them, by their roles."""
        remaining = list(values)

        def take(n: int) -> list[T]:
            first = remaining[:n]
            del remaining[:n]
            return first

        q, k, v = take(3)
        tables = take(4 * self.sparse)
        of_score = 0 if self.score is None else len(self.score.inputs) - len(INDICES) - 1
        of_mask = 0 if self.mask is None else len(self.mask.inputs) - len(INDICES)
        return AttentionInputs(q, k, v, tables, take(of_score), take(of_mask), remaining)

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
        """Compute the expanded operation node by node."""
        inputs = [TensorType(x.dtype, x.shape)() for x in map(np.asarray, values)]
        return tuple(evaluate(Graph(inputs, self.expand(*inputs).inputs), *values))

    def pushforward(self, tangents: Sequence[Any], y: Any, *inputs: Tensor) -> Any:
        """Return the tangents of the expanded operation."""
        fresh, outputs = self._expand_stand_ins(inputs)
        pairs = zip(fresh, tangents, strict=True)
        tangents = push(outputs, {x: t for x, t in pairs if t is not None})
        return _replace_inputs(tangents, dict(zip(fresh, inputs, strict=True)))

    def pullback_through(self, g: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
        """Return the gradients of the expanded operation with respect to all inputs."""
        fresh, outputs = self._expand_stand_ins(inputs)
        pairs = zip(outputs, g, strict=True)
        gradients = cotangents({y: part for y, part in pairs if part is not None}, fresh)
        return _replace_inputs(gradients, dict(zip(fresh, inputs, strict=True)))

    def _expand_stand_ins(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Sequence[Node]]:
        fresh = [stand_in(x) for x in inputs]
        return fresh, self.expand(*fresh).inputs

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the results for a batch, which is merged into the sequences."""
        return merge_batch(self, size, batched, inputs)


def _has_own_derivatives(graph: Graph) -> bool:
    """Return whether a graph has an operation with derivatives that a user defined."""
    return any(
        (isinstance(node.op, Subgraph) and node.op.own is not None)
        or any(map(_has_own_derivatives, node.op.graphs()))
        for node in graph.nodes
    )


def _replace_inputs(ys: Sequence[Any], replacements: dict[Node, Node]) -> list[Any]:
    """Replace stand-in inputs in arrays, of which some may be None."""
    replaced_ys = iter(replace_nodes([y for y in ys if y is not None], replacements))
    return [None if y is None else next(replaced_ys) for y in ys]


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
        """Return the gradient as an operation, which recomputes the weights block by block."""
        if self.score is not None and _has_own_derivatives(self.score):
            # The operation differentiates the score as a program, which lacks users' derivatives.
            return self.pullback_through(g, inputs)
        operands = self.split_inputs(inputs)
        captured = self.split_inputs(wanted).score_captured
        floats = [is_float(x.dtype) for x in operands.score_captured]
        wanted_captured = tuple(a and b for a, b in zip(captured, floats, strict=True))
        out, sums = picks(y)
        pairs = zip((out, sums), g, strict=True)
        seeds = [zeros_like(x) if part is None else part for x, part in pairs]
        op = self.gradient(wanted_captured)
        gradients = iter(picks(Node.make(op, *inputs, out, sums, *seeds)))
        by_arrays = [next(gradients), next(gradients), next(gradients)]
        by_captured = [next(gradients) if flag else None for flag in wanted_captured]
        tail = [None] * len(operands.mask_captured)
        return [*by_arrays, *[None] * len(operands.tables), *by_captured, *tail]

    def gradient(self, wanted: tuple[bool, ...]) -> FlexGradient:
        """Return the gradient with respect to q, k, v and the wanted arrays of the score."""
        parameters = {x.name: getattr(self, x.name) for x in fields(self)}
        return FlexGradient(**parameters, wanted=wanted)

    def expand(self, *inputs: Tensor) -> Node:
        """Return a loop over rows of blocks, each with all keys."""
        return rows.attention(self, inputs)


@dataclass(frozen=True, slots=True)
class FlexGradient(FlexOp):
    """The gradients of attention with respect to q, k, v and the score function's arrays.

    The inputs are the inputs of ``Flex``, its results, and their cotangents.

    Attributes:
        wanted: Whether each of the score function's arrays has a gradient.
    """

    wanted: tuple[bool, ...]

    @property
    def wanted_captured(self) -> tuple[bool, ...]:
        return self.wanted

    def infer(self, *types: TensorType) -> TupleType:
        q, k, v, _, captured, *_ = self.split_inputs(types)
        self._compare(q, k, v)
        return TupleType((q, k, v, *self.wanted_of(captured)))

    def with_functions(self, score: Graph | None, mask: Graph | None) -> FlexGradient:
        wanted = self.wanted if score is None else (*self.wanted, False)
        return replace(self, score=score, mask=mask, wanted=wanted)

    def wanted_of(self, captured: Sequence[T]) -> list[T]:
        """Return the captured arrays that have a gradient."""
        return [x for x, flag in zip(captured, self.wanted, strict=True) if flag]

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """Return the gradient of the expanded operation."""
        return self.pullback_through(g, inputs)

    def expand(self, *inputs: Tensor) -> Node:
        """Return a loop over rows of blocks, each with all keys, whose gradients are summed."""
        return rows.gradient(self, inputs)


@register(Flex)
def _expand_implicit_keys(*operands: Any, **parameters: Any) -> Any:
    """Expand attention to keys and values that are implicit, as a quantized cache is.

    A row of blocks is at most as long as the queries: a decoder's step has one query.
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
