"""Dependence analysis: the parts of a step that depend on carries, or on sequences alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Constant, Input, Node, Pick, TensorType, dependent, replace_nodes, toposort
from graphc.loop.build import OpenedLoop
from graphc.loop.residuals import CHEAP
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import less, where
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, constant
from graphc.tensor.linalg.dot import DotGeneral

Results = list[Node | None]
"""Replacements of a loop's results; None for an unchanged one."""

NOT_VECTORIZABLE = (UnsupportedOperationError, ShapeError)
"""Errors of a part of a step that cannot be computed for all steps at once."""


class AnalysedLoop(OpenedLoop):
    """A loop, with the parts of its step that depend on carries or on sequences."""

    @classmethod
    def at(cls, loop: Node) -> AnalysedLoop:
        """Return the cached analysis of a node whose operation is a ``Loop``."""
        analysis = _analysed.get(loop)
        if analysis is None:
            analysis = _analysed[loop] = cls.of(loop.op, loop.inputs)  # type: ignore[arg-type]
        return analysis

    @cached_property
    def order(self) -> list[Node]:
        """Every node of the step, each after its inputs."""
        return toposort(self.outputs)

    @cached_property
    def on_carries(self) -> set[Node]:
        """Nodes that depend on a carry."""
        return dependent(self.order, self.carries)

    @cached_property
    def on_xs(self) -> set[Node]:
        """Nodes that depend on an element of a sequence."""
        return dependent(self.order, self.xs)

    @cached_property
    def varying(self) -> set[Node]:
        """Nodes that depend on a carry or an element."""
        return self.on_carries | self.on_xs

    @property
    def is_plain(self) -> bool:
        """Whether the loop always runs all of its steps."""
        return not self.op.counted and not self.op.stops

    @property
    def sequences(self) -> dict[Node, Tensor]:
        """The sequences, by the step's inputs that stand for their elements."""
        return dict(zip(self.xs, self.operands.xs, strict=True))

    def is_early(self, node: Node) -> bool:
        """Return whether a node varies, and can be computed before the loop."""
        return node in self.on_xs and node not in self.on_carries

    def varies(self, node: Node) -> bool:
        """Return whether a node on the step's inputs differs between steps."""
        return self._needs(node, {*self.carries, *self.xs})

    def depends(self, node: Node) -> bool:
        """Return whether a node on the step's inputs depends on a carry."""
        return self._needs(node, set(self.carries))

    def _needs(self, node: Node, inputs: set[Any]) -> bool:
        return not inputs.isdisjoint(toposort([node]))

    def outside(self, nodes: Sequence[Node]) -> list[Any]:
        """Return nodes of the step that do not vary as nodes outside the loop."""
        return replace_nodes(nodes, self.constants)

    def at_once(self, parts: Sequence[Node], sequences: Mapping[Node, Tensor]) -> list[Tensor]:
        """Return nodes of the step for all steps at once, along a new leading axis.

        Args:
            parts: Nodes of the step.
            sequences: An array with a row for each step, for all inputs that vary.
        """
        order = toposort(parts, sequences)
        staying = next((x for x in order if x.op.stays_in_step and self.varies(x)), None)
        if staying is not None:
            raise UnsupportedOperationError(f"{staying!r} is done step by step.", "", staying.where)
        read = {*parts, *(x for node in order for x in node.inputs)}
        rows = {x: self._with_length(sequences[x]) for x in sequences if x in read}
        stands = {x: stand_in(y) for x, y in rows.items()}
        varying = dependent(order, stands)
        moving = [y for y in parts if y in varying]
        values: dict[Node, Node] = dict(zip(stands.values(), rows.values(), strict=True))
        batches = (
            replace_nodes(batched(moving, stands), {**values, **self.constants}) if moving else []
        )
        done: dict[Node, Any] = dict(zip(moving, batches, strict=True))
        constant_parts = [y for y in parts if y not in done]
        for y, new in zip(constant_parts, self.outside(constant_parts), strict=True):
            done[y] = batch_of(new, self.steps)
        return [done[y] for y in parts]

    def _with_length(self, rows: Tensor) -> Tensor:
        """Return a sequence with as many elements as there are steps, checked if unknown."""
        return specify_shape(rows, (self.op.steps, *[None] * (rows.ndim - 1)))

    def of_steps_done(self, rows: Tensor) -> Tensor:
        """Return rows with zeros from the number of steps done on."""
        if self.operands.count is None:
            return rows
        done = less(arange(self.steps, dtype="int64"), self.operands.count)
        done = expand_dims(done, tuple(range(1, rows.ndim)))
        return where(done, rows, constant(0, dtype=rows.dtype))

    def results(
        self,
        finals: Mapping[int, Node],
        rows: Mapping[int, Node],
        *,
        swaps: Mapping[Node, Node] | None = None,
        sequences: Mapping[Node, Tensor] | None = None,
    ) -> Results:
        """Return all results: the given ones, and the others from a smaller loop.

        Args:
            finals: Final carries, by index.
            rows: Stacked results, by index.
            swaps: Inputs that replace nodes of the step.
            sequences: Further sequences, by the inputs that stand for their elements.
        """
        carries = {i: y for i, y in enumerate(self.nexts) if i not in finals}
        remaining = [j for j in range(len(self.rows)) if j not in rows]
        outputs: list[Any] = []
        if carries or remaining:
            outputs = self.rebuild(carries, [self.rows[j] for j in remaining], swaps, sequences)
        all_finals = {**finals, **dict(zip(carries, outputs, strict=False))}
        first = len(carries)
        stacked = {**rows, **dict(zip(remaining, outputs[first:], strict=True))}
        return [
            *(all_finals[i] for i in range(self.op.carries)),
            *(stacked[j] for j in range(len(self.rows))),
        ]

    def rebuild(
        self,
        nexts: Mapping[int, Node],
        rows: Sequence[Node],
        swaps: Mapping[Node, Node] | None = None,
        sequences: Mapping[Node, Tensor] | None = None,
    ) -> list[Any]:
        """Return the results of a smaller loop, which does not stop early.

        Args:
            nexts: The carries after a step, by their present indices.
            rows: The rows of a step.
            swaps: Inputs that replace nodes of the step.
            sequences: Further sequences, by the inputs that stand for their elements.
        """
        carries = [self.carries[i] for i in nexts]
        step = LoopStep(carries, (), [*nexts.values()], rows).replace_nodes(swaps or {})
        needed = set(toposort(step.outputs))
        xs = {x: y for x, y in {**self.sequences, **(sequences or {})}.items() if x in needed}
        init = [self.operands.init[i] for i in nexts]
        return self.again(replace(step, xs=[*xs]), init, [*xs.values()])


_analysed: WeakKeyDictionary[Node, AnalysedLoop] = WeakKeyDictionary()

Change = Callable[[Node], Results | None]

_done: WeakKeyDictionary[Node, dict[Change, Results | None]] = WeakKeyDictionary()


def result_of(node: Node, change: Change) -> Node | None:
    """Return the replacement of one result by a change of its loop, which is cached."""
    (loop,) = node.inputs
    results_by_change = _done.setdefault(loop, {})
    if change not in results_by_change:
        results_by_change[change] = change(loop)
    results = results_by_change[change]
    new = None if results is None else results[node.op.index]  # type: ignore[attr-defined]
    if new is None or not isinstance(new.type, TensorType) or node.type.admits(new.type):
        return new
    return specify_shape(new, node.type.shape)


def number_of_elements(x: Node) -> int | None:
    """Return the number of elements of an array, None if unknown."""
    return prod(x.type.shape) if x.type.is_static else None


def is_expensive(node: Node) -> bool:
    """Return whether computing a node takes longer than moving its operands and result."""
    if isinstance(node.op, Pick):
        return is_expensive(node.inputs[0])
    if isinstance(node.op, DotGeneral):
        return bool(node.op.contract[0])
    return not isinstance(node.op, (Input, Constant, *CHEAP))
