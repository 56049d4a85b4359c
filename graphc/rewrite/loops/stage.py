"""The stage of loops, and of other operations with graphs, with the entire graph in view.

Loops lose the parts that nothing needs, loops that can be fused are fused, and their steps are
rewritten as any graph. The loops of a gradient first repeat work of the loops that they belong to:
fused loops share equal carries, so that nothing is computed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from graphc.ir import Graph, Node, Op, Pick, dependencies_first
from graphc.loop.sink import sink_into_branches
from graphc.rewrite.engine import RuleApplication
from graphc.rewrite.loops.body import Body, Key, Live, inputs_of, is_all_live, liveness
from graphc.rewrite.loops.merge import LoopGroup, alone, backwards, forwards, share, stay
from graphc.rewrite.rule import LOOPS, Rule, StageRule, stage_rule
from graphc.site import derived_from

UNUSED = stage_rule(
    LOOPS, "loop", "unused_parts_of_loops", "Parts of a loop that nothing needs are removed."
)
SIDE_BY_SIDE = stage_rule(
    LOOPS, "loop", "loops_side_by_side", "Independent loops of the same number of steps are fused."
)
IN_A_ROW = stage_rule(
    LOOPS, "loop", "loops_in_a_row", "A loop that reads the rows of another is fused with it."
)
STAY = stage_rule(LOOPS, "loop", "carries_that_stay", "A carry that no step changes is constant.")
AGREE = stage_rule(LOOPS, "loop", "carries_that_agree", "Carries that are always equal are one.")
STEPS = stage_rule(LOOPS, "loop", "steps_of_loops", "The step of a loop is rewritten.")
FORM = stage_rule(
    LOOPS, "loop", "loop_in_one_form", "A loop takes each array once, and each part of it once."
)
BRANCHES = stage_rule(
    LOOPS, "branch", "work_in_branches", "Work that only one branch needs moves into that branch."
)


class Loops:
    """The stage of the rewriting that follows the passes.

    Args:
        rules: The selected rules.
        better: Function that returns a better graph for an operation's graph.
        recording: Whether to keep each change.

    Attributes:
        attempts: Number of loops tried.
        changes: Number of loops changed.
        records: Each change, if recording.
    """

    def __init__(
        self, rules: Iterable[Rule], better: Callable[[Graph], Graph], *, recording: bool = False
    ) -> None:
        self.attempts = 0
        self.changes = 0
        self.records: list[RuleApplication] = []
        self._rules = {rule for rule in rules if rule.step == LOOPS}
        self._better = better
        self._recording = recording
        self._settled: set[tuple[bool, Node]] = set()

    def concerns(self, graph: Graph) -> bool:
        """Return whether a graph has any loop or other operation with graphs."""
        return bool(self._rules) and any(kind.graphs is not Op.graphs for kind in graph.kinds)

    def __call__(self, graph: Graph) -> Graph:
        """Return an equal graph with fewer loops that do less."""
        if BRANCHES in self._rules:
            graph = self._in_branches(graph)
        together, in_a_row = SIDE_BY_SIDE in self._rules, IN_A_ROW in self._rules
        for grouped in (forwards, backwards):
            live = self._live(graph)
            groups = grouped(graph, live, together=together, in_a_row=in_a_row)
            graph = _Rebuild(self, live, groups, steps=False).graph(graph)
        if STEPS in self._rules:
            live = self._live(graph)
            graph = _Rebuild(self, live, alone(live), steps=True).graph(graph)
        return graph

    def _in_branches(self, graph: Graph) -> Graph:
        new = sink_graph(graph)
        for before, after in zip(graph.outputs, new.outputs, strict=True):
            if before is not after:
                self.note(BRANCHES, before, after)
        return new

    def _live(self, graph: Graph) -> dict[Node, Live]:
        return liveness(graph, everything=UNUSED not in self._rules)

    def better(self, graph: Graph, holder: Node) -> Graph:
        """Return a better graph for a graph of a node's operation."""
        try:
            return self._better(graph)
        except Exception as error:
            error.add_note(f"This was in a step of {holder!r}, {holder.where}.")
            raise

    def is_settled(self, loop: Node, *, steps: bool) -> bool:
        """Return whether a loop, all of whose parts are live, is known not to change."""
        return (steps, loop) in self._settled

    def settle(self, loop: Node, *, steps: bool) -> None:
        """Record that a loop does not change."""
        self._settled.add((steps, loop))

    def has(self, rule: StageRule) -> bool:
        """Return whether a rule is selected."""
        return rule in self._rules

    def simplify_carries(self, body: Body) -> set[StageRule]:
        """Remove carries of a body; return the names of the rules that applied."""
        applied: set[StageRule] = set()
        is_changed = True
        while is_changed:
            changes = {
                rule
                for rule, change in ((STAY, stay), (AGREE, share))
                if rule in self._rules and change(body)
            }
            applied |= changes
            is_changed = bool(changes)
        return applied

    def note(self, rule: StageRule, before: Node, after: Node) -> None:
        """Count a change, and record it if requested."""
        self.changes += 1
        if self._recording:
            self.records.append(RuleApplication(rule, before, after))


class _Rebuild:
    """A graph rebuilt with one loop for each group.

    Args:
        stage: The stage, with its rules.
        live: The live parts of each loop.
        groups: The group of each loop.
        steps: Whether to rewrite the steps, too.
    """

    def __init__(
        self,
        stage: Loops,
        live: Mapping[Node, Live],
        groups: Mapping[Node, LoopGroup],
        *,
        steps: bool,
    ) -> None:
        self._stage = stage
        self._live = live
        self._groups = groups
        self._steps = steps
        self._new: dict[Node, Node] = {}
        self._results: dict[Key, Node] = {}

    def graph(self, graph: Graph) -> Graph:
        done: set[Node | LoopGroup] = set()
        for item in dependencies_first(graph.outputs, self._needs, done):
            done.add(item)
            if isinstance(item, LoopGroup):
                self._put(item)
            elif isinstance(item.op, Pick) and item.inputs[0] in self._groups:
                self._new[item] = self._results[item.inputs[0], item.op.index]
            else:
                self._new[item] = self._rebuild(item)
        outputs = tuple(self._new[y] for y in graph.outputs)
        return graph if outputs == graph.outputs else Graph(graph.inputs, outputs)

    def _needs(self, item: Node | LoopGroup) -> Iterable[Node | LoopGroup]:
        if isinstance(item, LoopGroup):
            return (x for loop in item.loops for x in self._needed_by(loop, item))
        if isinstance(item.op, Pick) and item.inputs[0] in self._groups:
            return (self._groups[item.inputs[0]],)
        return item.inputs

    def _needed_by(self, loop: Node, group: LoopGroup) -> list[Node]:
        read = group.read.get(loop, {}).values()
        rows = {(x.inputs[0], x.op.index): x for x in loop.inputs if isinstance(x.op, Pick)}
        within = {rows[key] for key in read}
        return [x for x in inputs_of(loop, self._live[loop]) if x not in within]

    def _rebuild(self, node: Node) -> Node:
        new = node.with_inputs([self._new[x] for x in node.inputs])
        graphs = node.op.graphs() if self._steps else ()
        better = [self._stage.better(graph, node) for graph in graphs]
        if all(a.outputs == b.outputs for a, b in zip(graphs, better, strict=True)):
            return new
        with derived_from(node.site):
            rebuilt = Node.make(node.op.with_graphs(better), *new.inputs)
        self._stage.note(STEPS, node, rebuilt)
        return rebuilt

    # Loops.

    def _put(self, group: LoopGroup) -> None:
        (first, *others) = group.loops
        same = self._with_new_inputs(first) if not others and self._is_whole(first) else {}
        loop = next(iter(same.values())).inputs[0] if same else None
        if loop is not None and self._stage.is_settled(loop, steps=self._steps):
            self._results |= same
            return
        for loops in self._split_by_stop(group):
            self._stage.attempts += 1
            with derived_from(loops[0].site):
                results, rules = self._fuse(loops, group)
            if results == same or (same and not rules and not self._stage.has(FORM)):
                self._stage.settle(loop, steps=self._steps)  # type: ignore[arg-type]
                self._results |= same
            else:
                self._results |= results
                self._note(loops, results, rules or {FORM})

    def _with_new_inputs(self, loop: Node) -> dict[Key, Node]:
        new = loop.with_inputs([self._new[x] for x in loop.inputs])
        return {(loop, i): Node.make(Pick(i), new) for i in self._live[loop].results}

    def _is_whole(self, loop: Node) -> bool:
        return is_all_live(loop.op, self._live[loop])  # type: ignore[arg-type]

    def _split_by_stop(self, group: LoopGroup) -> list[list[Node]]:
        op: Any = group.loops[0].op
        if not op.stops or len(group.loops) == 1:
            return [group.loops]
        body = self._body(group.loops, group)
        self._stage.simplify_carries(body)
        loops_by_stop: dict[Node, list[Node]] = {}
        for loop, stop in body.stops.items():
            loops_by_stop.setdefault(stop, []).append(loop)
        return list(loops_by_stop.values())

    def _body(self, loops: Sequence[Node], group: LoopGroup) -> Body:
        body = Body.like(loops, self._new)
        for loop in loops:
            body.add(loop, self._live[loop], self._new, group.read.get(loop, {}))
        body.settle()
        return body

    def _fuse(
        self, loops: Sequence[Node], group: LoopGroup
    ) -> tuple[dict[Key, Node], set[StageRule]]:
        body = self._body(loops, group)
        rules = {UNUSED for loop in loops if not self._is_whole(loop)}
        rules |= {SIDE_BY_SIDE} if len(loops) > 1 else set()
        rules |= {IN_A_ROW for loop in loops if loop in group.read}
        rules |= self._stage.simplify_carries(body)
        if self._steps and body.rewrite(partial(self._stage.better, holder=loops[0])):
            body.settle()
            rules |= {STEPS} | self._stage.simplify_carries(body)
        return body.to_results(), rules

    def _note(
        self, loops: Iterable[Node], results: Mapping[Key, Node], rules: set[StageRule]
    ) -> None:
        for loop in loops:
            after = next(y for (source, _), y in results.items() if source is loop)
            if isinstance(after.op, Pick):
                (after,) = after.inputs
            if after is loop:  # the others were fused into this one
                continue
            for rule in sorted(rules, key=lambda rule: rule.name):
                self._stage.note(rule, loop, after)


# Branches.


def sink_graph(graph: Graph) -> Graph:
    """Return an equal graph in which a branch that is not chosen costs nothing.

    The same graph if there is nothing to move.
    """
    outputs = tuple(sink_into_branches(graph.outputs, graph.inputs))
    if outputs == graph.outputs:
        return graph
    new = Graph(graph.inputs, outputs)
    # Ignore a mere reordering of a switch's operands, or rewriting would not end.
    return graph if _count_operations(new) == _count_operations(graph) else new


def _count_operations(graph: Graph) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    level, graphs = 0, [graph]
    while graphs:
        nodes = [node for inner in graphs for node in inner.nodes]
        counts.update((level, node.op.name) for node in nodes)
        level, graphs = level + 1, [inner for node in nodes for inner in node.op.graphs()]
    return counts
