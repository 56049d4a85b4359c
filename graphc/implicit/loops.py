"""Loops and branches whose operands and results stay implicit.

A constant of a loop, an element of a stack or a carry that is implicit stands inside the step on
its fields, where handlers find it. What a step or all branches give in one form is implicit
outside, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from graphc.implicit import stacks
from graphc.implicit.expand import INSIDE, expanded
from graphc.implicit.node import Implicit
from graphc.ir import Node, TensorType, replaced
from graphc.loop.branch import Switch, choice
from graphc.loop.build import build
from graphc.loop.loop import Loop
from graphc.loop.step import LoopStep, stand_in
from graphc.tensor import Tensor


def _is_implicit(x: Node, known: Collection[Node] = ()) -> bool:
    return isinstance(x.op, Implicit) and x not in known


def _implicit(treedef: Any, fields: Sequence[Node]) -> Tensor:
    return Tensor.make(Implicit(treedef), *fields)


@dataclass(frozen=True)
class _StepInput:
    """The stand-in of an outer array within a step: one parameter, or one for each field.

    Attributes:
        like: An implicit array of the same form; None where it stays whole.
        outer: The array from outside, or its fields.
        parameters: What stands for these.
    """

    like: Node | None
    outer: tuple[Node, ...]
    parameters: tuple[Tensor, ...]

    @classmethod
    def of(cls, x: Node, axes: int, name: str | None, *, opened: bool) -> _StepInput:
        """Return the stand-in of an array without its first ``axes`` axes."""
        outer = x.inputs if opened else (x,)
        names = _names(x, name) if opened else [name]
        fresh = [stand_in(y, label, axes) for y, label in zip(outer, names, strict=True)]
        return cls(x if opened else None, outer, tuple(fresh))

    @property
    def value(self) -> Tensor:
        """The array that the step computes with."""
        if self.like is None:
            return self.parameters[0]
        return _implicit(self.like.op.treedef, self.parameters)  # type: ignore[attr-defined]

    def kept(self, y: Node) -> bool:
        """Whether a result of the step has the same structure and types."""
        value = self.value
        same = isinstance(y.op, Implicit) and y.op == value.op
        return same and stacks.alike(_types(value), _types(y))


def _names(x: Node, name: str | None) -> list[str | None]:
    treedef: Any = x.op.treedef  # type: ignore[attr-defined]
    return [*treedef.paths(name)] if name else [None] * len(x.inputs)


class _LoopOfFields:
    """A loop whose step takes the fields of implicit arrays as separate arrays.

    Args:
        node: The loop.
        known: Nodes that stay as they are.
    """

    def __init__(self, node: Node, known: Collection[Node]) -> None:
        op: Any = node.op
        self.op: Loop = op
        self.node = node
        self.known = known
        self.given = self.op.parts(node.inputs)
        self.consts = [self._entry(x, 0) for x in self.given.consts]
        self.xs = [self._entry(x, 1) for x in self.given.xs]
        self._settle()

    def _entry(self, x: Node, axes: int) -> _StepInput:
        opened = _is_implicit(x, self.known)
        if opened and axes:
            opened = stacks.element(x.op.treedef, _types(x)) is not None  # type: ignore[attr-defined]
        return _StepInput.of(x, axes, x.name, opened=opened)

    def _settle(self) -> None:
        """Find the carries whose structure the step keeps, and the step's outputs for them."""
        init = self.given.init
        open_to = {i for i, x in enumerate(init) if _is_implicit(x, self.known)}
        while True:
            carries = [_StepInput.of(x, 0, x.name, opened=i in open_to) for i, x in enumerate(init)]
            made, outputs = self._outputs(carries)
            lost = {i for i in open_to if not carries[i].kept(outputs[i])}
            if not lost:
                break
            open_to -= lost
        self.carries = carries
        self.outputs = outputs
        self.changed = made != outputs

    def _outputs(self, carries: Sequence[_StepInput]) -> tuple[list[Node], list[Node]]:
        """Return the step's outputs as written, and with handlers applied."""
        entries = [*carries, *self.xs, *self.consts]
        values = [entry.value for entry in entries]
        made = replaced(self.op.step.outputs, dict(zip(self.op.step.inputs, values, strict=True)))
        return made, expanded(made, [p for entry in entries for p in entry.parameters])

    @property
    def rows(self) -> list[Node | None]:
        """Return the stacked rows that stay implicit outside; None in place of others.

        Rows of steps that are not done are zero, which fields of zeros need not be.
        """
        rows = self.op.rows_of(self.outputs)
        if self.op.stops or self.op.counted:
            return [None] * len(rows)
        return [y if _is_element(y) else None for y in rows]

    def results(self) -> list[Tensor] | None:
        """Return the loop's results; None where nothing changed."""
        entries = [*self.carries, *self.xs]
        rows = self.rows
        opened = [entry.like for entry in entries] + rows
        if not self.changed and not any(x is not None for x in opened):
            return None
        op, outputs = self.op, self.outputs
        given: Any = self.given
        step = LoopStep(
            _flat([entry.parameters for entry in self.carries]),
            _flat([entry.parameters for entry in self.xs]),
            _flat([_fields(y, x.like) for x, y in zip(self.carries, outputs, strict=False)]),
            _flat([_fields(y, row) for y, row in zip(op.rows_of(outputs), rows, strict=True)]),
            outputs[-1] if op.stops else None,
        )
        found = build(
            op,
            op.steps_of(given),
            given.count,
            _flat([entry.outer for entry in self.carries]),
            _flat([entry.outer for entry in self.xs]),
            step,
        )
        consts: dict[Node, Node] = {}
        for entry in self.consts:
            consts.update(zip(entry.parameters, entry.outer, strict=True))
        return self._put_together(iter(replaced(found, consts)), rows)

    def _put_together(self, parts: Iterator[Any], rows: Sequence[Node | None]) -> list[Tensor]:
        """Assemble the loop's results from those of their fields."""
        likes = [*(entry.like for entry in self.carries), *rows, *[None] * self.op.stops]
        return [
            next(parts)
            if like is None
            else _implicit(like.op.treedef, [*islice(parts, len(like.inputs))])  # type: ignore[attr-defined]
            for like in likes
        ]


def _flat(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [x for part in parts for x in part]


def _fields(y: Node, like: Node | None) -> Sequence[Node]:
    return [y] if like is None else y.inputs


def _types(x: Node) -> tuple[TensorType, ...]:
    return tuple([field.type for field in x.inputs])


def _is_element(y: Node) -> bool:
    """Whether equal elements of this type can be stacked field by field."""
    if not _is_implicit(y):
        return False
    treedef: Any = y.op.treedef  # type: ignore[attr-defined]
    return stacks.of_elements(treedef, _types(y)) is not None


def _loop(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Replace a loop with implicit operands or results by one over their fields."""
    if not isinstance(node.op, Loop):
        return None
    given = any(_is_implicit(x, known) for x in node.inputs)
    if not given and not any(map(_is_implicit, node.op.step.outputs)):
        return None
    return _LoopOfFields(node, known).results()


def _switch(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Replace a branch with implicit operands by one whose branches take their fields.

    As choices between arrays; what only one branch needs goes into that again later.
    """
    if not isinstance(node.op, Switch):
        return None
    op, (index, *given) = node.op, node.inputs
    if _is_plain(op):
        return _chosen(node, known)
    implicit = [branch for branch in op.branches if any(map(_is_implicit, branch.outputs))]
    if not implicit and not any(_is_implicit(x, known) for x in given):
        return None
    branches = [
        replaced(branch.outputs, dict(zip(branch.inputs, given, strict=True)))
        for branch in op.branches
    ]
    return [choice(index, *ys, label=op.label) for ys in zip(*branches, strict=True)]


def _is_plain(op: Switch) -> bool:
    """Whether each branch returns one of the operands unchanged."""
    inputs = op.branches[0].inputs
    return len(op.branches) == len(inputs) and all(
        branch.outputs == (branch.inputs[i],) for i, branch in enumerate(op.branches)
    )


def _chosen(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Select one of several implicit arrays of equal structure, field by field."""
    op: Any = node.op
    index, *given = node.inputs
    first = given[0]
    if not all(_is_implicit(x, known) and x.op == first.op for x in given):
        return None
    if not all(_are_of_one_rank(first.inputs, x.inputs) for x in given):
        return None
    columns: list[tuple[Node, ...]] = [*zip(*[x.inputs for x in given], strict=True)]
    fields = [xs[0] if len({*xs}) == 1 else choice(index, *xs, label=op.label) for xs in columns]
    return [_implicit(first.op.treedef, fields)]  # type: ignore[attr-defined]


def _are_of_one_rank(xs: Sequence[Node], ys: Sequence[Node]) -> bool:
    pairs = zip(xs, ys, strict=True)
    return all((x.type.dtype, x.type.ndim) == (y.type.dtype, y.type.ndim) for x, y in pairs)


INSIDE += [_loop, _switch]
