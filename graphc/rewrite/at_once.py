"""A loop taken apart: what in its step depends on carries, and what on sequences alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Constant, Input, Node, Pick, TensorType, replaced, toposort
from graphc.loop.build import build
from graphc.loop.loop import Loop, Parts
from graphc.loop.residuals import CHEAP, dependent
from graphc.loop.step import opened, stand_in
from graphc.tensor.axes import expand_dims
from graphc.tensor.broadcast import repeated
from graphc.tensor.create import arange
from graphc.tensor.dot import DotGeneral
from graphc.tensor.elementwise import less, where
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, constant
from graphc.tensor.vectorize import batched

__all__ = ["NOT_AT_ONCE", "Opened", "Results", "is_dear", "number_of_elements", "result_of"]

Results = list[Node | None]
"""What may stand for each result of a loop; None for one that stays."""

NOT_AT_ONCE = (UnsupportedOperationError, ShapeError)
"""What a part of a step raises that can't be computed for all steps at once."""


class Opened:
    """A loop's step over new inputs.

    Args:
        loop: A node whose operation is a ``Loop``.

    Attributes:
        op: The loop.
        given: What it takes.
        carries: What stands for the carries before a step.
        xs: What stands for the elements of the sequences.
        consts: What stands for what every step takes.
        nexts: The carries after a step.
        rows: What a step adds to stacked results.
        order: Every node of the step, each after its inputs.
        on_carries: Those of them that depend on a carry.
        on_xs: Those that depend on a sequence.
        varying: Those that depend on either.
    """

    @classmethod
    def of(cls, loop: Node) -> Opened:
        """The step of a loop, opened once."""
        found = _opened.get(loop)
        if found is None:
            found = _opened[loop] = cls(loop)
        return found

    def __init__(self, loop: Node) -> None:
        self.op: Loop = loop.op  # type: ignore[assignment]
        op = self.op
        self.given: Parts[Any] = op.parts(loop.inputs)
        fresh, outputs = opened(op.step)
        c, x = op.carries, op.carries + op.sequences
        self.carries, self.xs, self.consts = fresh[:c], fresh[c:x], fresh[x:]
        self.nexts, self.rows = outputs[:c], outputs[c : c + op.stacked]
        self.order = toposort(outputs)
        self.on_carries = dependent(self.order, self.carries)
        self.on_xs = dependent(self.order, self.xs)
        self.varying = self.on_carries | self.on_xs
        self._outside: dict[Node, Node] = dict(zip(self.consts, self.given.consts, strict=True))

    @property
    def steps(self) -> int | Tensor:
        """How many steps there are."""
        return self.op.steps_of(self.given)

    @property
    def is_plain(self) -> bool:
        """Whether it does all of its steps, whatever happens."""
        return not self.op.counted and not self.op.stops

    @property
    def known(self) -> dict[Node, Tensor]:
        """What is known for all steps: the sequences, by what stands for their elements."""
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
        return replaced(nodes, self._outside)

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
        made = replaced(batched(moving, stands), {**inside, **self._outside}) if moving else []
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
        return where(done, rows, constant(0, dtype=rows.dtype))  # type: ignore[no-any-return]

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
            made = self.again(carries, [self.rows[j] for j in left], swaps, known)
        found = {**finals, **dict(zip(carries, made, strict=False))}
        first = len(carries)
        stacked = {**rows, **dict(zip(left, made[first:], strict=True))}
        return [
            *(found[i] for i in range(self.op.carries)),
            *(stacked[j] for j in range(len(self.rows))),
        ]

    def again(
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
        ends = replaced([*nexts.values(), *rows], swaps or {})
        needed = set(toposort(ends))
        xs = {x: y for x, y in {**self.known, **(known or {})}.items() if x in needed}
        ends = self.outside(ends)
        return build(
            self.op,
            self.steps,
            self.given.count,
            [self.given.init[i] for i in nexts],
            list(xs.values()),
            [*(self.carries[i] for i in nexts), *xs],  # type: ignore[list-item]
            ends[: len(nexts)],
            ends[len(nexts) :],
        )


_opened: WeakKeyDictionary[Node, Opened] = WeakKeyDictionary()

Change = Callable[[Node], Results | None]

_done: WeakKeyDictionary[Node, dict[Change, Results | None]] = WeakKeyDictionary()


def result_of(node: Node, change: Change) -> Node | None:
    """What a change of a whole loop makes of the one result that a node picks."""
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


def is_dear(node: Node) -> bool:
    """Whether its computation takes more than to move what it takes and gives."""
    if isinstance(node.op, Pick):
        return is_dear(node.inputs[0])
    if isinstance(node.op, DotGeneral):
        return bool(node.op.contract[0])
    return not isinstance(node.op, (Input, Constant, *CHEAP))
