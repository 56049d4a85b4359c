"""Sinking: nodes that only one branch of a choice needs are computed in that branch.

Users write ``ifelse(c, f(x), g(x))``, a choice between two arrays. Before a graph is differentiated
or compiled, the choices of one condition become a switch, and nodes that only one branch needs
become part of that branch. So only the chosen branch is computed, and only its derivative.

All choices are first moved out of branches, where equal nodes are one object; then each node sinks
to where it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphc import ir
from graphc.loop.branch import Switch, choice, is_choice
from graphc.loop.step import Formal
from graphc.site import derived_from
from graphc.tensor.core.shape import Length, Shape
from graphc.tensor.core.tensor import Tensor

MOST_BETWEEN = 100
"""The largest number of nodes between two switches that are copied into branches to join them."""

Condition = tuple[ir.Node, int]
"""An index, and the number of values that it chooses from."""


def sink_into_branches(
    outputs: Sequence[ir.Node], known: Collection[ir.Node] = ()
) -> list[ir.Node]:
    """Move the nodes that only one branch needs into it; the nodes in ``known`` stay."""
    if not any(isinstance(node.op, Switch) for node in ir.toposort(outputs, known)):
        return list(outputs)
    outputs = _float_choices(outputs, known)
    while True:
        placement = _Placement(outputs, known)
        joined = placement.join_switches()
        if joined is None:
            return placement.outputs()
        outputs = joined


def _float_choices(outputs: Sequence[ir.Node], known: Collection[ir.Node]) -> list[ir.Node]:
    """Replace every switch by choices between its branches' results."""
    done: dict[ir.Node, ir.Node] = dict(zip(known, known, strict=True))
    for node in ir.toposort(outputs, done):
        if isinstance(node.op, ir.Pick) and isinstance(node.inputs[0].op, Switch):
            done[node] = _as_choice(node, done)
        else:
            done[node] = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
    return [done[y] for y in outputs]


def _as_choice(node: ir.Node, done: Mapping[ir.Node, ir.Node]) -> ir.Node:
    op: Any = node.op
    (switch_node,) = node.inputs
    switch: Any = switch_node.op
    if is_choice(node):
        return node.with_inputs([done[switch_node]])
    index, *operands = [done[x] for x in switch_node.inputs]
    values: list[ir.Node] = []
    for branch in switch.branches:
        ends = _float_choices([branch.outputs[op.index]], branch.inputs)
        values += ir.replace_nodes(ends, dict(zip(branch.inputs, operands, strict=True)))
    with derived_from(node.site):
        return choice(index, *values, label=switch.label)


@dataclass(frozen=True, slots=True)
class _Choice:
    index: ir.Node
    values: tuple[ir.Node, ...]

    @property
    def condition(self) -> Condition:
        return self.index, len(self.values)


def _has_nested_graph(nodes: Iterable[ir.Node]) -> bool:
    """Return whether nodes include a loop, or another operation with nested graphs but a switch."""
    ops = [x.op for x in nodes if not isinstance(x.op, Switch)]
    return any(type(op).graphs is not ir.Op.graphs for op in ops)


def _is_length(node: ir.Node) -> bool:
    return isinstance(node.op, Length | Shape)


class _Placement:
    """The nodes that are always computed, and those computed only in a branch.

    Attributes:
        always: Nodes that are always computed.
        choices: All choices, also those in branches.
        shared: For each choice, the nodes that all of its values need.
    """

    def __init__(self, outputs: Sequence[ir.Node], known: Collection[ir.Node]) -> None:
        self.results = outputs
        self.known = set(known)
        self.order = ir.toposort(outputs, known)
        self.choices: dict[ir.Node, _Choice] = {}
        self.shared: dict[ir.Node, dict[ir.Node, None]] = {}
        for node in self.order:
            if is_choice(node):
                index, *values = node.inputs[0].inputs
                self.choices[node] = _Choice(index, tuple(values))
                needed = [self._unconditional_nodes([x]) for x in values]
                self.shared[node] = {
                    x: None for x in needed[0] if all(x in nodes for nodes in needed[1:])
                }
        self.always = set(self._unconditional_nodes(outputs)) | self.known
        self.always |= {x for x in self.order if isinstance(x.op, ir.Input | ir.Leaf)}
        self._extend_always()

    def _unconditional_nodes(self, starts: Iterable[ir.Node]) -> dict[ir.Node, None]:
        """Return the nodes that are needed whatever is chosen."""

        def following(node: ir.Node) -> Iterable[ir.Node]:
            if node in self.choices:
                return (self.choices[node].index, *self.shared[node])
            return () if node in self.known else node.inputs

        return ir.reachable_nodes(starts, following)

    def _extend_always(self) -> None:
        """Extend the always computed nodes by those that choices of different conditions need."""
        while several := self._needed_by_several():
            covered: set[ir.Node] = set()
            for node in reversed(self.order):
                if node in several and node not in covered:
                    covered |= self.inside([node]).keys()
                    self.always |= self._unconditional_nodes([node]).keys()
        # The operands of a branch are arrays, not tuples of several results.
        self.always |= {
            x
            for x in self.order
            if isinstance(x.op, ir.Pick) and x not in self.choices and x.inputs[0] in self.always
        }

    def _needed_by_several(self) -> set[ir.Node]:
        conditions: dict[ir.Node, Condition] = {}
        several: set[ir.Node] = set()
        for node, user in self.choices.items():
            if node in self.always:
                inside = [x for x in self.inside(user.values) if x not in self.always]
                several |= {
                    x for x in inside if conditions.setdefault(x, user.condition) != user.condition
                }
        return several

    def inside(
        self, starts: Iterable[ir.Node], condition: Condition | None = None, k: int = 0
    ) -> dict[ir.Node, None]:
        """Return the nodes of a branch and those it reads; ``condition`` chooses branch k."""

        def next_of(node: ir.Node) -> Iterable[ir.Node]:
            if node in self.always:
                return node.inputs if _is_length(node) and node not in self.known else ()
            if node not in self.choices:
                return node.inputs
            chooser = self.choices[node]
            if chooser.condition == condition:
                return (chooser.values[k],)
            return (chooser.index, *chooser.values)

        return ir.reachable_nodes(starts, next_of)

    # Rebuilding the graph.

    def outputs(self) -> list[ir.Node]:
        done: dict[ir.Node, ir.Node] = {x: x for x in self.known}
        for node in ir.dependencies_first(self.results, self.needs, done):
            if node in self.groups:
                done |= self.groups[node].make_switch(done)
            else:
                done[node] = node.with_inputs([done[x] for x in node.inputs])
        return [done[y] for y in self.results]

    def needs(self, node: ir.Node) -> Sequence[ir.Node]:
        """Return the nodes to compute before an always computed node."""
        group = self.groups.get(node)
        return node.inputs if group is None else [group.condition[0], *group.boundary]

    @cached_property
    def groups(self) -> dict[ir.Node, _SwitchGroup]:
        """The group of each choice: independent choices of the same condition."""
        levels: dict[ir.Node, int] = {}
        by_level: dict[tuple[Condition, int], _SwitchGroup] = {}
        groups: dict[ir.Node, _SwitchGroup] = {}
        for node in self.order:
            if node not in self.always:
                continue
            user = self.choices.get(node)
            if user is None:
                levels[node] = max((levels.get(x, 0) for x in node.inputs), default=0)
                continue
            single = _SwitchGroup(self, user.condition, [node])
            ends = [user.index, *single.boundary]
            level = levels[node] = 1 + max(levels.get(x, 0) for x in ends)
            group = by_level.setdefault(
                (user.condition, level), _SwitchGroup(self, user.condition, [])
            )
            group.members.append(node)
            groups[node] = group
        return groups

    def join_switches(self) -> list[ir.Node] | None:
        """Join consecutive switches of a condition and the nodes between, or return None."""
        by_condition: dict[Condition, dict[_SwitchGroup, None]] = {}
        for group in self.groups.values():
            by_condition.setdefault(group.condition, {})[group] = None
        for groups in by_condition.values():
            for i, first in enumerate(groups):
                later = list(groups)[i + 1 :]
                paths = [(group, self._between(first, group)) for group in later]
                followers = [x for group, nodes in paths if nodes for x in (*nodes, *group.members)]
                if followers:
                    return ir.replace_nodes(
                        self.results, first.as_choices([*first.members, *followers])
                    )
        return None

    def _between(self, first: _SwitchGroup, second: _SwitchGroup) -> list[ir.Node]:
        """Return the nodes on paths from one group to another; none if there are too many."""
        order = [node for node in self.order if node in self.always]
        after = set(first.members)
        for node in order:
            if not after.isdisjoint(self.needs(node)):
                after.add(node)
        before = ir.reachable_nodes(second.boundary, self.needs)
        path = [node for node in order if node in after and node in before]
        others = [
            x for x in path if x in self.groups and self.groups[x].condition != first.condition
        ]
        rest = [x for x in path if x not in self.groups]
        if not path or others or _has_nested_graph(rest) or len(path) > MOST_BETWEEN:
            return []
        return [x for x in path if x in self._computed]

    @cached_property
    def _computed(self) -> set[ir.Node]:
        """The arrays that do not depend on lengths alone.

        A function of lengths is static while a backend compiles, and stays outside branches.
        """
        computed = set(self.known)
        for node in self.order:
            is_static = _is_length(node) or isinstance(node.op, ir.Constant)
            if not is_static and not (node.inputs and computed.isdisjoint(node.inputs)):
                computed.add(node)
        return {x for x in computed if isinstance(x.type, ir.TensorType)}


class _SwitchGroup:
    """Choices of one condition that one switch makes."""

    def __init__(self, placement: _Placement, condition: Condition, members: list[ir.Node]) -> None:
        self.placement = placement
        self.condition = condition
        self.members = members

    def values(self, k: int) -> list[ir.Node]:
        return [self.placement.choices[node].values[k] for node in self.members]

    @cached_property
    def inside(self) -> list[dict[ir.Node, None]]:
        """The nodes that each branch computes or reads."""
        numbers = range(self.condition[1])
        return [self.placement.inside(self.values(k), self.condition, k) for k in numbers]

    @cached_property
    def boundary(self) -> list[ir.Node]:
        always = self.placement.always
        reads = dict.fromkeys(x for part in self.inside for x in part if x in always)
        # A branch computes lengths itself, from arrays.
        fixed = self.placement.known
        return [
            x for x in reads if x in fixed or not (isinstance(x.op, ir.Constant) or _is_length(x))
        ]

    def as_choices(self, nodes: Iterable[ir.Node]) -> dict[ir.Node, ir.Node]:
        """Replace nodes by choices between their values in each branch."""
        nodes = list(dict.fromkeys(nodes))
        choices = self.placement.choices
        values = []
        for k in range(self.condition[1]):
            swaps: dict[ir.Node, ir.Node] = {}
            for node in self.placement.order:
                chooser = choices.get(node)
                if chooser is not None and chooser.condition == self.condition:
                    swaps[node] = ir.replace_nodes([chooser.values[k]], swaps)[0]
            values.append(ir.replace_nodes(nodes, swaps))
        return {
            x: choice(self.condition[0], *ys)
            for x, ys in zip(nodes, zip(*values, strict=True), strict=True)
        }

    def make_switch(self, done: Mapping[ir.Node, ir.Node]) -> dict[ir.Node, ir.Node]:
        """Return the results of a switch that makes the choices, over the nodes in ``done``."""
        operands = [done[x] for x in self.boundary]
        formals = [ir.Node.make(Formal(i, x.type)) for i, x in enumerate(operands)]
        inner = dict(zip(self.boundary, formals, strict=True))
        bodies = [
            sink_into_branches(self._branch_results(k, inner), formals)
            for k in range(self.condition[1])
        ]
        branches = tuple(ir.Graph(formals, body) for body in bodies)
        first: Any = self.members[0]
        with derived_from(first.site):
            op = Switch(branches, first.inputs[0].op.label)
            switch_node = ir.Node.make(op, done[self.condition[0]], *operands)
            return {
                node: Tensor.make(ir.Pick(j), switch_node) for j, node in enumerate(self.members)
            }

    def _branch_results(self, k: int, inner: Mapping[ir.Node, ir.Node]) -> list[ir.Node]:
        done = dict(inner)

        def chosen_value(node: ir.Node) -> ir.Node | None:
            chooser = self.placement.choices.get(node)
            return (
                chooser.values[k]
                if chooser is not None and chooser.condition == self.condition
                else None
            )

        def needs(node: ir.Node) -> Iterable[ir.Node]:
            value = chosen_value(node)
            return node.inputs if value is None else (value,)

        for node in ir.dependencies_first(self.values(k), needs, done):
            value = chosen_value(node)
            inputs = [done[x] for x in node.inputs] if value is None else []
            done[node] = node.with_inputs(inputs) if value is None else done[value]
        return [done[y] for y in self.values(k)]


# Sinking comes before derivatives and batches, so that these act on branches as a unit.
ir.GATHERERS.append(sink_into_branches)
