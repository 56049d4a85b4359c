"""Sinking: what only one branch of a choice needs is computed in that branch.

Users write ``ifelse(c, f(x), g(x))``, a choice between two arrays. Before a graph is differentiated
or compiled, the choices of one condition become a switch, and what only one of its branches needs
becomes part of that branch. So only the chosen branch is computed, and only its derivative.

All choices are taken out of their branches first, as that is the form in which equal parts are one
object; then each part goes where it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphc.ir import (
    GATHERERS,
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    Op,
    Pick,
    TensorType,
    ordered,
    reached,
    replaced,
    toposort,
)
from graphc.loop.branch import Switch, choice, is_choice
from graphc.loop.step import Formal
from graphc.site import derived_from
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.tensor import Tensor

MOST_BETWEEN = 100
"""Of more operations than these, no copies are made for each branch to spare a branch some work."""

Condition = tuple[Node, int]
"""An index, and among how many it chooses."""


def placed(outputs: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Outputs of equal values, in which what only one branch needs is part of that branch.

    Args:
        outputs: Arrays.
        known: Nodes that stay as they are, such as those to differentiate by.
    """
    if not any(isinstance(node.op, Switch) for node in toposort(outputs, known)):
        return list(outputs)
    outputs = _floated(outputs, known)
    while True:
        places = _Placement(outputs, known)
        joined = places.joined()
        if joined is None:
            return places.outputs()
        outputs = joined


def _floated(outputs: Sequence[Node], known: Collection[Node]) -> list[Node]:
    """The outputs with every switch as choices between what its branches give."""
    done: dict[Node, Node] = dict(zip(known, known, strict=True))
    for node in toposort(outputs, done):
        if isinstance(node.op, Pick) and isinstance(node.inputs[0].op, Switch):
            done[node] = _as_choice(node, done)
        else:
            done[node] = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
    return [done[y] for y in outputs]


def _as_choice(node: Node, done: Mapping[Node, Node]) -> Node:
    op: Any = node.op
    (several,) = node.inputs
    switch: Any = several.op
    if is_choice(node):
        return node.with_inputs([done[several]])
    index, *given = [done[x] for x in several.inputs]
    found: list[Node] = []
    for branch in switch.branches:
        ends = _floated([branch.outputs[op.index]], branch.inputs)
        found += replaced(ends, dict(zip(branch.inputs, given, strict=True)))
    with derived_from(node.site):
        return choice(index, *found, label=switch.label)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice: its index and the values it chooses from."""

    index: Node
    given: tuple[Node, ...]

    @property
    def condition(self) -> Condition:
        return self.index, len(self.given)


def _holds(nodes: Iterable[Node]) -> bool:
    """Whether there is a loop among these, or what else holds a graph but is no choice."""
    ops = [x.op for x in nodes if not isinstance(x.op, Switch)]
    return any(type(op).graphs is not Op.graphs for op in ops)


def _is_length(node: Node) -> bool:
    """Whether it is a length, or all lengths, of an array."""
    return isinstance(node.op, Length | Shape)


class _Placement:
    """Which nodes are always computed, and which only in a branch.

    Attributes:
        always: Nodes that are always computed.
        choices: The choices, those in branches too.
        shared: For each of them, the nodes that all of its values need.
    """

    def __init__(self, outputs: Sequence[Node], known: Collection[Node]) -> None:
        self.results = outputs
        self.known = set(known)
        self.order = toposort(outputs, known)
        self.choices: dict[Node, _Choice] = {}
        self.shared: dict[Node, dict[Node, None]] = {}
        for node in self.order:
            if is_choice(node):
                index, *given = node.inputs[0].inputs
                self.choices[node] = _Choice(index, tuple(given))
                parts = [self._needed([x]) for x in given]
                self.shared[node] = {
                    x: None for x in parts[0] if all(x in part for part in parts[1:])
                }
        self.always = set(self._needed(outputs)) | self.known
        self.always |= {x for x in self.order if isinstance(x.op, Input | Leaf)}
        self._settle()

    def _needed(self, starts: Iterable[Node]) -> dict[Node, None]:
        """The nodes that these need whatever is chosen."""

        def following(node: Node) -> Iterable[Node]:
            if node in self.choices:
                return (self.choices[node].index, *self.shared[node])
            return () if node in self.known else node.inputs

        return reached(starts, following)

    def _settle(self) -> None:
        """Let nodes that choices of different conditions need always be computed."""
        while several := self._needed_by_several():
            covered: set[Node] = set()
            for node in reversed(self.order):
                if node in several and node not in covered:
                    covered |= self.inside([node]).keys()
                    self.always |= self._needed([node]).keys()
        # A branch takes arrays, and not the tuple of an operation with several results.
        self.always |= {
            x
            for x in self.order
            if isinstance(x.op, Pick) and x not in self.choices and x.inputs[0] in self.always
        }

    def _needed_by_several(self) -> set[Node]:
        conditions: dict[Node, Condition] = {}
        found: set[Node] = set()
        for node, own in self.choices.items():
            if node in self.always:
                inside = [x for x in self.inside(own.given) if x not in self.always]
                found |= {
                    x for x in inside if conditions.setdefault(x, own.condition) != own.condition
                }
        return found

    def inside(
        self, starts: Iterable[Node], condition: Condition | None = None, k: int = 0
    ) -> dict[Node, None]:
        """The nodes computed in a branch, and the always computed ones where they end.

        Where the condition is given, it is the one that chooses the branch k.
        """

        def next_of(node: Node) -> Iterable[Node]:
            if node in self.always:
                return node.inputs if _is_length(node) and node not in self.known else ()
            if node not in self.choices:
                return node.inputs
            found = self.choices[node]
            if found.condition == condition:
                return (found.given[k],)
            return (found.index, *found.given)

        return reached(starts, next_of)

    # Putting together.

    def outputs(self) -> list[Node]:
        """The outputs, each part in its place."""
        made: dict[Node, Node] = {x: x for x in self.known}
        for node in ordered(self.results, self.needs, made):
            if node in self.groups:
                made |= self.groups[node].switched(made)
            else:
                made[node] = node.with_inputs([made[x] for x in node.inputs])
        return [made[y] for y in self.results]

    def needs(self, node: Node) -> Sequence[Node]:
        """The nodes that must be computed before an always computed node."""
        group = self.groups.get(node)
        return node.inputs if group is None else [group.condition[0], *group.boundary]

    @cached_property
    def groups(self) -> dict[Node, _SwitchGroup]:
        """For each choice, those of its condition that do not depend on each other."""
        levels: dict[Node, int] = {}
        found: dict[tuple[Condition, int], _SwitchGroup] = {}
        groups: dict[Node, _SwitchGroup] = {}
        for node in self.order:
            if node not in self.always:
                continue
            own = self.choices.get(node)
            if own is None:
                levels[node] = max((levels.get(x, 0) for x in node.inputs), default=0)
                continue
            alone = _SwitchGroup(self, own.condition, [node])
            ends = [own.index, *alone.boundary]
            level = levels[node] = 1 + max(levels.get(x, 0) for x in ends)
            group = found.setdefault((own.condition, level), _SwitchGroup(self, own.condition, []))
            group.members.append(node)
            groups[node] = group
        return groups

    def joined(self) -> list[Node] | None:
        """The outputs with one switch for some in a row of one condition; None for none.

        What stands between them is done in each branch, as a choice like them.
        """
        by_condition: dict[Condition, dict[_SwitchGroup, None]] = {}
        for group in self.groups.values():
            by_condition.setdefault(group.condition, {})[group] = None
        for groups in by_condition.values():
            for i, first in enumerate(groups):
                later = list(groups)[i + 1 :]
                tried = [(group, self._between(first, group)) for group in later]
                found = [x for group, nodes in tried if nodes for x in (*nodes, *group.members)]
                if found:
                    return replaced(self.results, first.continued([*first.members, *found]))
        return None

    def _between(self, first: _SwitchGroup, second: _SwitchGroup) -> list[Node]:
        """Nodes on a path from one group to the other; none where these are too many."""
        order = [node for node in self.order if node in self.always]
        after = set(first.members)
        for node in order:
            if not after.isdisjoint(self.needs(node)):
                after.add(node)
        before = reached(second.boundary, self.needs)
        found = [node for node in order if node in after and node in before]
        others = [
            x for x in found if x in self.groups and self.groups[x].condition != first.condition
        ]
        rest = [x for x in found if x not in self.groups]
        if not found or others or _holds(rest) or len(found) > MOST_BETWEEN:
            return []
        return [x for x in found if x in self._computed]

    @cached_property
    def _computed(self) -> set[Node]:
        """The arrays that are not made of lengths alone.

        What is made of lengths is known while a backend compiles, and stays so outside of branches.
        """
        found = set(self.known)
        for node in self.order:
            measured = _is_length(node) or isinstance(node.op, Constant)
            if not measured and not (node.inputs and found.isdisjoint(node.inputs)):
                found.add(node)
        return {x for x in found if isinstance(x.type, TensorType)}


class _SwitchGroup:
    """The choices that one switch makes.

    Attributes:
        condition: The condition of all of them.
        members: The choices.
    """

    def __init__(self, places: _Placement, condition: Condition, members: list[Node]) -> None:
        self.places = places
        self.condition = condition
        self.members = members

    def given(self, k: int) -> list[Node]:
        """The values of the choices in a branch."""
        return [self.places.choices[node].given[k] for node in self.members]

    @cached_property
    def inside(self) -> list[dict[Node, None]]:
        """The nodes that each branch computes or takes."""
        numbers = range(self.condition[1])
        return [self.places.inside(self.given(k), self.condition, k) for k in numbers]

    @cached_property
    def boundary(self) -> list[Node]:
        """The nodes that the branches take from outside."""
        always = self.places.always
        found = dict.fromkeys(x for part in self.inside for x in part if x in always)
        # A length is taken within, of what it is the length of.
        known = self.places.known
        return [x for x in found if x in known or not (isinstance(x.op, Constant) or _is_length(x))]

    def continued(self, nodes: Iterable[Node]) -> dict[Node, Node]:
        """Choices in the place of these nodes, made of what the condition chooses before them."""
        nodes = list(dict.fromkeys(nodes))
        choices = self.places.choices
        found = []
        for k in range(self.condition[1]):
            known: dict[Node, Node] = {}
            for node in self.places.order:
                own = choices.get(node)
                if own is not None and own.condition == self.condition:
                    known[node] = replaced([own.given[k]], known)[0]
            found.append(replaced(nodes, known))
        return {
            x: choice(self.condition[0], *ys)
            for x, ys in zip(nodes, zip(*found, strict=True), strict=True)
        }

    def switched(self, made: Mapping[Node, Node]) -> dict[Node, Node]:
        """The results of a switch that makes the choices, given the nodes made so far."""
        operands = [made[x] for x in self.boundary]
        formals = [Node.make(Formal(i, x.type)) for i, x in enumerate(operands)]
        inner = dict(zip(self.boundary, formals, strict=True))
        bodies = [placed(self._rebuilt(k, inner), formals) for k in range(self.condition[1])]
        branches = tuple(Graph(formals, body) for body in bodies)
        first: Any = self.members[0]
        with derived_from(first.site):
            op = Switch(branches, first.inputs[0].op.label)
            whole = Node.make(op, made[self.condition[0]], *operands)
            return {node: Tensor.make(Pick(j), whole) for j, node in enumerate(self.members)}

    def _rebuilt(self, k: int, inner: Mapping[Node, Node]) -> list[Node]:
        """A branch's results, made of its parameters."""
        done = dict(inner)

        def chosen(node: Node) -> Node | None:
            own = self.places.choices.get(node)
            return own.given[k] if own is not None and own.condition == self.condition else None

        def needs(node: Node) -> Iterable[Node]:
            one = chosen(node)
            return node.inputs if one is None else (one,)

        for node in ordered(self.given(k), needs, done):
            one = chosen(node)
            inputs = [done[x] for x in node.inputs] if one is None else []
            done[node] = node.with_inputs(inputs) if one is None else done[one]
        return [done[y] for y in self.given(k)]


# Derivatives and batches of a branch are of all that it holds, so that no other meets its values.
GATHERERS.append(placed)
