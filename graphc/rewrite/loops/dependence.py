"""Dependence analysis: the parts of a loop's step that depend on carries, or on sequences alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Constant, Input, Node, Pick, TensorType, dependent, replaced, toposort
from graphc.loop.build import OpenedLoop
from graphc.loop.residuals import CHEAP
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor.arrays.broadcast import repeated
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import less, where
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, constant
from graphc.tensor.linalg.dot import DotGeneral

Results = list[Node | None]
"""Replacements of a loop's results; None for one that stays."""

NOT_VECTORIZABLE = (UnsupportedOperationError, ShapeError)
"""Errors of a part of a step that cannot be computed for all steps at once."""


class AnalysedLoop(OpenedLoop):
    """A loop taken apart, with the parts of its step that depend on carries or on sequences."""

    @classmethod
    def at(cls, loop: Node) -> AnalysedLoop:
        """The analysis of a node whose operation is a ``Loop``, made once."""
        found = _analysed.get(loop)
        if found is None:
            found = _analysed[loop] = cls.of(loop.op, loop.inputs)  # type: ignore[arg-type]
        return found

    @cached_property
    def order(self) -> list[Node]:
        """Every node of the step, each after its inputs."""
        return toposort(self.outputs)

    @cached_property
    def on_carries(self) -> set[Node]:
        """The nodes that depend on a carry."""
        return dependent(self.order, self.carries)

    @cached_property
    def on_xs(self) -> set[Node]:
        """The nodes that depend on an element of a sequence."""
        return dependent(self.order, self.xs)

    @cached_property
    def varying(self) -> set[Node]:
        """The nodes that depend on either."""
        return self.on_carries | self.on_xs

    @property
    def is_plain(self) -> bool:
        """Whether it does all of its steps, whatever happens."""
        return not self.op.counted and not self.op.stops

    @property
    def known(self) -> dict[Node, Tensor]:
        """The sequences, by the step's inputs that stand for their elements."""
        return dict(zip(self.xs, self.given.xs, strict=True))

    def is_early(self, node: Node) -> bool:
        """Whether it varies, and is known before the loop runs."""
        return node in self.on_xs and node not in self.on_carries

    def varies(self, node: Node) -> bool:
        """Whether any part of the step's graph, one made of it included, differs between steps."""
        return self._needs(node, {*self.carries, *self.xs})

    def depends(self, node: Node) -> bool:
        """Whether any such part depends on a carry."""
        return self._needs(node, set(self.carries))

    def _needs(self, node: Node, wanted: set[Any]) -> bool:
        return not wanted.isdisjoint(toposort([node]))

    def outside(self, nodes: Sequence[Node]) -> list[Any]:
        """Parts of the step that do not vary, as parts of the graph around the loop."""
        return replaced(nodes, self.constants)

    def at_once(self, parts: Sequence[Node], known: Mapping[Node, Tensor]) -> list[Tensor]:
        """Parts of the step for all steps at once, along a new leading axis.

        Args:
            parts: Nodes of the step.
            known: For all that varies in them, an array with a row for each step.

        Raises:
            UnsupportedOperationError: An operation has no rule for batches, or its result's shape
                would differ from one step to the next.
        """
        order = toposort(parts, known)
        staying = next((x for x in order if x.op.stays_in_step and self.varies(x)), None)
        if staying is not None:
            raise UnsupportedOperationError(f"{staying!r} is done step by step.", "", staying.where)
        read = {*parts, *(x for node in order for x in node.inputs)}
        rows = {x: self._fitted(known[x]) for x in known if x in read}
        stands = {x: stand_in(y) for x, y in rows.items()}
        varying = dependent(order, stands)
        moving = [y for y in parts if y in varying]
        inside: dict[Node, Node] = dict(zip(stands.values(), rows.values(), strict=True))
        made = replaced(batched(moving, stands), {**inside, **self.constants}) if moving else []
        done: dict[Node, Any] = dict(zip(moving, made, strict=True))
        still = [y for y in parts if y not in done]
        for y, new in zip(still, self.outside(still), strict=True):
            done[y] = repeated(new, self.steps)
        return [done[y] for y in parts]

    def _fitted(self, rows: Tensor) -> Tensor:
        """A sequence that is known to have as many elements as there are steps."""
        return specify_shape(rows, (self.op.steps, *[None] * (rows.ndim - 1)))

    def of_steps_done(self, rows: Tensor) -> Tensor:
        """Rows that are zero from the number of steps done on."""
        if self.given.count is None:
            return rows
        done = less(arange(self.steps, dtype="int64"), self.given.count)
        done = expand_dims(done, tuple(range(1, rows.ndim)))
        return where(done, rows, constant(0, dtype=rows.dtype))

    def results(
        self,
        finals: Mapping[int, Node],
        rows: Mapping[int, Node],
        *,
        swaps: Mapping[Node, Node] | None = None,
        known: Mapping[Node, Tensor] | None = None,
    ) -> Results:
        """All results: those given by their numbers, and the others of a loop that lacks these.

        Args:
            finals: Final carries.
            rows: Stacked results.
            swaps: Inputs in the place of parts of the step.
            known: Further sequences, by what stands for their elements.
        """
        carries = {i: y for i, y in enumerate(self.nexts) if i not in finals}
        left = [j for j in range(len(self.rows)) if j not in rows]
        made: list[Any] = []
        if carries or left:
            made = self.rebuilt(carries, [self.rows[j] for j in left], swaps, known)
        found = {**finals, **dict(zip(carries, made, strict=False))}
        first = len(carries)
        stacked = {**rows, **dict(zip(left, made[first:], strict=True))}
        return [
            *(found[i] for i in range(self.op.carries)),
            *(stacked[j] for j in range(len(self.rows))),
        ]

    def rebuilt(
        self,
        nexts: Mapping[int, Node],
        rows: Sequence[Node],
        swaps: Mapping[Node, Node] | None = None,
        known: Mapping[Node, Tensor] | None = None,
    ) -> list[Any]:
        """The results of a loop of the same kind, which does not stop.

        Args:
            nexts: The carries after a step, by their numbers here.
            rows: What a step adds to stacked results.
            swaps: Inputs in the place of parts of the step.
            known: Further sequences, by what stands for their elements.
        """
        carries = [self.carries[i] for i in nexts]
        step = LoopStep(carries, (), [*nexts.values()], rows).replaced(swaps or {})
        needed = set(toposort(step.outputs))
        xs = {x: y for x, y in {**self.known, **(known or {})}.items() if x in needed}
        init = [self.given.init[i] for i in nexts]
        return self.again(replace(step, xs=[*xs]), init, [*xs.values()])


_analysed: WeakKeyDictionary[Node, AnalysedLoop] = WeakKeyDictionary()

Change = Callable[[Node], Results | None]

_done: WeakKeyDictionary[Node, dict[Change, Results | None]] = WeakKeyDictionary()


def result_of(node: Node, change: Change) -> Node | None:
    """Return the replacement of one result of a loop, by a change of the whole loop made once."""
    (loop,) = node.inputs
    known = _done.setdefault(loop, {})
    if change not in known:
        known[change] = change(loop)
    found = known[change]
    new = None if found is None else found[node.op.index]  # type: ignore[attr-defined]
    if new is None or not isinstance(new.type, TensorType) or node.type.admits(new.type):
        return new
    return specify_shape(new, node.type.shape)


def number_of_elements(x: Node) -> int | None:
    """How many elements an array has, where that is known."""
    return prod(x.type.shape) if x.type.is_static else None


def is_expensive(node: Node) -> bool:
    """Whether its computation takes more than to move what it takes and gives."""
    if isinstance(node.op, Pick):
        return is_expensive(node.inputs[0])
    if isinstance(node.op, DotGeneral):
        return bool(node.op.contract[0])
    return not isinstance(node.op, (Input, Constant, *CHEAP))
