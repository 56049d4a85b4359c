"""Mask and score functions on MLX: for tiles of elements, one operation at a time.

They are not compiled: a tile may have any number of keys, and MLX would compile for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from graphc.attention.flex import Flex, FlexGradient
from graphc.attention.mods import INDICES, map_over_grid
from graphc.grad.reverse import cotangents
from graphc.ir import Graph, Node, TensorType
from graphc.link.legalize import inline
from graphc.link.mlx.arrays import device_array
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import Segments, steps_between_segments
from graphc.loop.step import stand_in
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.tensor import Tensor

Run = Callable[..., Sequence[Any]]


class Mods:
    """The mask and score functions of attention, or of its gradient, of vectors of indices."""

    def __init__(self, op: Flex | FlexGradient, options: Mapping[str, Any]) -> None:
        self.op = op
        self.options = {**options, "compile": False}

    @cached_property
    def mask_function(self) -> Run | None:
        """The mask function of indices and captured arrays.

        Its result has length 1 along axes that the mask ignores.
        """
        graph = self.op.mask
        if graph is None:
            return None
        indices, captured = _index_inputs(), _captured_inputs(graph, len(INDICES))
        return self._run([*indices, *captured], [map_over_grid(graph, captured, indices)])

    @cached_property
    def score_function(self) -> Run | None:
        """The score function of scores, indices and captured arrays."""
        graph = self._score_graph()
        return None if graph is None else self._run(graph.inputs, graph.outputs)

    @cached_property
    def score_pullback(self) -> Run | None:
        """The pullback of the score function.

        Given cotangents and the arguments of ``score_function``, return the cotangents of the
        scores before the score function, and of captured arrays.
        """
        graph = self._score_graph()
        if graph is None or not isinstance(self.op, FlexGradient):
            return None
        (y,) = graph.outputs
        g = stand_in(y)
        score, *others = graph.inputs
        wrt = [score, *self.op.wanted_of(others[len(INDICES) :])]
        gradients = cotangents({y: g}, wrt)
        pairs = zip(wrt, gradients, strict=True)
        outputs = [zeros_like(x) if gradient is None else gradient for x, gradient in pairs]
        return self._run([g, *graph.inputs], outputs)

    def _score_graph(self) -> Graph | None:
        graph = self.op.score
        if graph is None:
            return None
        score = TensorType(graph.inputs[0].type.dtype, (None,) * len(INDICES))("score")
        indices, captured = _index_inputs(), _captured_inputs(graph, 1 + len(INDICES))
        return Graph([score, *indices, *captured], [map_over_grid(graph, captured, indices, score)])

    def _run(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> Run:
        program = held_program(inline(Graph(inputs, outputs), backend), ())
        # Loops and branches need their drivers.
        is_plain = not steps_between_segments(program)
        run = program.trace if is_plain else Segments(program, self.options).run
        return lambda *arrays: [device_array(y) for y in run(*arrays)]


def _index_inputs() -> list[Tensor]:
    return [TensorType("int32", (None,))(name) for name in INDICES]


def _captured_inputs(graph: Graph, first: int) -> list[Tensor]:
    return [stand_in(x) for x in graph.inputs[first:]]
