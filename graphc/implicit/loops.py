"""Loops and branches whose operands and results stay implicit.

Within a step, an implicit constant of a loop, element of a stack or carry is represented by an
implicit array of parameters, on which handlers are found. Results of one structure in all steps or
branches are implicit outside, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from graphc.implicit import stacks
from graphc.implicit.expand import INSIDE, expanded
from graphc.implicit.node import Implicit
from graphc.ir import Node, TensorType, replace_nodes
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
    """The parameters of an outer array within a step: one, or one for each field.

    Attributes:
        like: An implicit array with the same structure; None if the array stays dense.
        outer: The outer array, or its fields.
        parameters: The parameters that represent them in the step.
    """

    like: Node | None
    outer: tuple[Node, ...]
    parameters: tuple[Tensor, ...]

    @classmethod
    def of(cls, x: Node, axes: int, name: str | None, *, by_fields: bool) -> _StepInput:
        """Return the parameters of an array without its first ``axes`` axes."""
        outer = x.inputs if by_fields else (x,)
        treedef: Any = x.op.treedef if by_fields else None  # type: ignore[attr-defined]
        names = treedef.paths(name) if by_fields and name else [name] * len(outer)
        fresh = [stand_in(y, label, axes) for y, label in zip(outer, names, strict=True)]
        return cls(x if by_fields else None, outer, tuple(fresh))

    @property
    def value(self) -> Tensor:
        """The array that the step computes with."""
        if self.like is None:
            return self.parameters[0]
        return _implicit(self.like.op.treedef, self.parameters)  # type: ignore[attr-defined]

    def has_type_of(self, y: Node) -> bool:
        """Return whether a result of the step has the same structure and types."""
        value = self.value
        same = isinstance(y.op, Implicit) and y.op == value.op
        return same and all(map(stacks.may_equal, _types(value), _types(y)))


class _LoopOfFields:
    """A loop whose step takes the fields of implicit arrays as separate arrays.

    Args:
        node: The loop.
        known: Nodes that are not replaced.
    """

    def __init__(self, node: Node, known: Collection[Node]) -> None:
        op: Any = node.op
        self.op: Loop = op
        self.node = node
        self.known = known
        self.operands = self.op.parts(node.inputs)
        self.consts = [self._input(x, 0) for x in self.operands.consts]
        self.xs = [self._input(x, 1) for x in self.operands.xs]
        self._find_carries()

    def _input(self, x: Node, axes: int) -> _StepInput:
        by_fields = _is_implicit(x, self.known)
        if by_fields and axes:
            by_fields = stacks.element(x.op.treedef, _types(x)) is not None  # type: ignore[attr-defined]
        return _StepInput.of(x, axes, x.name, by_fields=by_fields)

    def _find_carries(self) -> None:
        """Find the carries whose structure the step preserves, and the step's outputs for them."""
        init = self.operands.init
        implicit = {i for i, x in enumerate(init) if _is_implicit(x, self.known)}
        while True:
            carries = [
                _StepInput.of(x, 0, x.name, by_fields=i in implicit) for i, x in enumerate(init)
            ]
            original, outputs = self._outputs(carries)
            lost = {i for i in implicit if not carries[i].has_type_of(outputs[i])}
            if not lost:
                break
            implicit -= lost
        self.carries = carries
        self.outputs = outputs
        self.changed = original != outputs

    def _outputs(self, carries: Sequence[_StepInput]) -> tuple[list[Node], list[Node]]:
        """Return the step's outputs before and after handlers are applied."""
        entries = [*carries, *self.xs, *self.consts]
        values = [entry.value for entry in entries]
        ys = replace_nodes(
            self.op.step.outputs, dict(zip(self.op.step.inputs, values, strict=True))
        )
        return ys, expanded(ys, [p for entry in entries for p in entry.parameters])

    @property
    def rows(self) -> list[Node | None]:
        """The stacked rows that stay implicit outside; None for each other row.

        The rows of steps that do not run are zero, which an array whose fields are zero need not
        be.
        """
        rows = self.op.rows_of(self.outputs)
        if self.op.stops or self.op.counted:
            return [None] * len(rows)
        return [y if _is_element(y) else None for y in rows]

    def results(self) -> list[Tensor] | None:
        """Return the loop's results; None if nothing changed."""
        entries = [*self.carries, *self.xs]
        rows = self.rows
        likes = [entry.like for entry in entries] + rows
        if not self.changed and not any(x is not None for x in likes):
            return None
        op, outputs = self.op, self.outputs
        operands: Any = self.operands
        step = LoopStep(
            _flat([entry.parameters for entry in self.carries]),
            _flat([entry.parameters for entry in self.xs]),
            _flat([_fields(y, x.like) for x, y in zip(self.carries, outputs, strict=False)]),
            _flat([_fields(y, row) for y, row in zip(op.rows_of(outputs), rows, strict=True)]),
            outputs[-1] if op.stops else None,
        )
        ys = build(
            op,
            op.steps_of(operands),
            operands.count,
            _flat([entry.outer for entry in self.carries]),
            _flat([entry.outer for entry in self.xs]),
            step,
        )
        consts: dict[Node, Node] = {}
        for entry in self.consts:
            consts.update(zip(entry.parameters, entry.outer, strict=True))
        return self._assemble(iter(replace_nodes(ys, consts)), rows)

    def _assemble(self, fields: Iterator[Any], rows: Sequence[Node | None]) -> list[Tensor]:
        """Build the loop's results from the results for their fields."""
        likes = [*(entry.like for entry in self.carries), *rows, *[None] * self.op.stops]
        return [
            next(fields)
            if like is None
            else _implicit(like.op.treedef, [*islice(fields, len(like.inputs))])  # type: ignore[attr-defined]
            for like in likes
        ]


def _flat(sequences: Sequence[Sequence[Any]]) -> list[Any]:
    return [x for xs in sequences for x in xs]


def _fields(y: Node, like: Node | None) -> Sequence[Node]:
    return [y] if like is None else y.inputs


def _types(x: Node) -> tuple[TensorType, ...]:
    return tuple([field.type for field in x.inputs])


def _is_element(y: Node) -> bool:
    """Return whether equal elements of this type can be stacked field by field."""
    if not _is_implicit(y):
        return False
    treedef: Any = y.op.treedef  # type: ignore[attr-defined]
    return stacks.of_elements(treedef, _types(y)) is not None


def _loop(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Replace a loop with implicit operands or results by one over their fields."""
    if not isinstance(node.op, Loop):
        return None
    takes_implicit = any(_is_implicit(x, known) for x in node.inputs)
    if not takes_implicit and not any(map(_is_implicit, node.op.step.outputs)):
        return None
    return _LoopOfFields(node, known).results()


def _switch(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Replace a branch with implicit operands by one whose branches take their fields.

    The results are choices between arrays; a later pass moves what only one branch needs back into
    that branch.
    """
    if not isinstance(node.op, Switch):
        return None
    op, (index, *operands) = node.op, node.inputs
    if _is_plain(op):
        return _choose(node, known)
    implicit = [branch for branch in op.branches if any(map(_is_implicit, branch.outputs))]
    if not implicit and not any(_is_implicit(x, known) for x in operands):
        return None
    branches = [
        replace_nodes(branch.outputs, dict(zip(branch.inputs, operands, strict=True)))
        for branch in op.branches
    ]
    return [choice(index, *ys, label=op.label) for ys in zip(*branches, strict=True)]


def _is_plain(op: Switch) -> bool:
    """Return whether each branch returns one of the operands unchanged."""
    inputs = op.branches[0].inputs
    return len(op.branches) == len(inputs) and all(
        branch.outputs == (branch.inputs[i],) for i, branch in enumerate(op.branches)
    )


def _choose(node: Node, known: Collection[Node]) -> Sequence[Node] | None:
    """Select one of several implicit arrays of equal structure, field by field."""
    op: Any = node.op
    index, *operands = node.inputs
    first = operands[0]
    if not all(_is_implicit(x, known) and x.op == first.op for x in operands):
        return None
    if len({tuple([(y.type.dtype, y.type.ndim) for y in x.inputs]) for x in operands}) > 1:
        return None
    columns: list[tuple[Node, ...]] = [*zip(*[x.inputs for x in operands], strict=True)]
    fields = [xs[0] if len({*xs}) == 1 else choice(index, *xs, label=op.label) for xs in columns]
    return [_implicit(first.op.treedef, fields)]  # type: ignore[attr-defined]


INSIDE += [_loop, _switch]
