"""Mask and score functions on MLX: for tiles of elements, one operation at a time.

Nothing of them is compiled: a tile may have any number of keys, and MLX would compile for each.
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
from graphc.link.mlx.segments import Segments, driven_steps
from graphc.loop.step import stand_in
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.tensor import Tensor

Run = Callable[..., Sequence[Any]]


class Mods:
    """The functions that attention holds, of vectors of indices.

    Attributes:
        op: The attention, or its gradient.
        options: The mode's.
    """

    def __init__(self, op: Flex | FlexGradient, options: Mapping[str, Any]) -> None:
        self.op = op
        self.options = {**options, "compile": False}

    @cached_property
    def kept(self) -> Run | None:
        """Of indices and what it captures: what is kept, 1 along axes it does not look at."""
        graph = self.op.mask
        if graph is None:
            return None
        indices, captured = _indices(), _captured(graph, len(INDICES))
        return self._run([*indices, *captured], [map_over_grid(graph, captured, indices)])

    @cached_property
    def scored(self) -> Run | None:
        """Of scores, indices and what it captures: the scores that it makes of them."""
        made = self._scores()
        return None if made is None else self._run(made.inputs, made.outputs)

    @cached_property
    def pulled(self) -> Run | None:
        """Of cotangents, and what ``scored`` takes: those of the scores before, and of arrays."""
        made = self._scores()
        if made is None or not isinstance(self.op, FlexGradient):
            return None
        (y,) = made.outputs
        g = stand_in(y)
        score, *others = made.inputs
        wrt = [score, *self.op.wanted_of(others[len(INDICES) :])]
        found = cotangents({y: g}, wrt)
        pairs = zip(wrt, found, strict=True)
        zeros = [zeros_like(x) if part is None else part for x, part in pairs]
        return self._run([g, *made.inputs], zeros)

    def _scores(self) -> Graph | None:
        graph = self.op.score
        if graph is None:
            return None
        score = TensorType(graph.inputs[0].type.dtype, (None,) * len(INDICES))("score")
        indices, captured = _indices(), _captured(graph, 1 + len(INDICES))
        return Graph([score, *indices, *captured], [map_over_grid(graph, captured, indices, score)])

    def _run(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> Run:
        program = held_program(inline(Graph(inputs, outputs), backend), ())
        # Loops and the like have drivers of their own.
        is_plain = not driven_steps(program)
        run = program.trace if is_plain else Segments(program, self.options).run
        return lambda *arrays: [device_array(y) for y in run(*arrays)]


def _indices() -> list[Tensor]:
    return [TensorType("int32", (None,))(name) for name in INDICES]


def _captured(graph: Graph, first: int) -> list[Tensor]:
    return [stand_in(x) for x in graph.inputs[first:]]
