"""The stage of loops, and of other operations that hold graphs, with the whole graph in view.

Loops lose what nothing needs; those that run side by side, or one behind the other, are one; and
their steps are rewritten as any graph is. A gradient makes loops of its own, which begin by doing
again what was done before: as loops that are one share what is equal, nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from graphc.ir import Graph, Node, Op, Pick, ordered
from graphc.rewrite.engine import Change
from graphc.rewrite.loops.body import Body, Key
from graphc.rewrite.loops.branch import sunk
from graphc.rewrite.loops.dead import Live, inputs_of, is_whole, liveness
from graphc.rewrite.loops.merge import LoopGroup, alone, backwards, forwards, share, stay
from graphc.rewrite.rule import LOOPS, Rule, StageRule, stage_rule
from graphc.site import derived_from

UNUSED = stage_rule(
    LOOPS, "loop", "unused_parts_of_loops", "A loop computes only what something needs."
)
SIDE_BY_SIDE = stage_rule(
    LOOPS, "loop", "loops_side_by_side", "Loops of as many steps that wait for no other are one."
)
IN_A_ROW = stage_rule(
    LOOPS, "loop", "loops_in_a_row", "A loop that reads the rows of another is one with it."
)
STAY = stage_rule(LOOPS, "loop", "carries_that_stay", "A carry that no step changes is constant.")
AGREE = stage_rule(
    LOOPS, "loop", "carries_that_agree", "Carries that begin and go on as equals are one."
)
STEPS = stage_rule(LOOPS, "loop", "steps_of_loops", "The step of a loop is rewritten, too.")
FORM = stage_rule(
    LOOPS, "loop", "loop_in_one_form", "A loop takes an array once, and no part of it twice."
)
BRANCHES = stage_rule(
    LOOPS, "branch", "work_in_branches", "What only one branch needs is computed in that branch."
)


class Loops:
    """The stage of the rewriting that follows the passes.

    Args:
        rules: Those selected.
        better: What makes a better graph of one that an operation holds.
        recording: Keep each change.

    Attributes:
        attempts: How many loops were looked at.
        changes: How many became others.
        records: Each change, where recording.
    """

    def __init__(
        self, rules: Iterable[Rule], better: Callable[[Graph], Graph], *, recording: bool = False
    ) -> None:
        self.attempts = 0
        self.changes = 0
        self.records: list[Change] = []
        self._rules = {rule for rule in rules if rule.step == LOOPS}
        self._better = better
        self._recording = recording
        self._settled: set[tuple[bool, Node]] = set()

    def concerns(self, graph: Graph) -> bool:
        """Whether a graph holds any loop or other operation with graphs."""
        return bool(self._rules) and any(kind.graphs is not Op.graphs for kind in graph.kinds)

    def __call__(self, graph: Graph) -> Graph:
        """Return an equal graph of fewer loops that do less."""
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
        new = sunk(graph)
        for before, after in zip(graph.outputs, new.outputs, strict=True):
            if before is not after:
                self.note(BRANCHES, before, after)
        return new

    def _live(self, graph: Graph) -> dict[Node, Live]:
        return liveness(graph, everything=UNUSED not in self._rules)

    def better(self, graph: Graph, holder: Node) -> Graph:
        """Return a better graph than the one that a node's operation holds."""
        try:
            return self._better(graph)
        except Exception as error:
            error.add_note(f"This was in a step of {holder!r}, {holder.where}.")
            raise

    def is_settled(self, loop: Node, *, steps: bool) -> bool:
        """Whether a loop, all of whose parts are needed, stays as it is."""
        return (steps, loop) in self._settled

    def settle(self, loop: Node, *, steps: bool) -> None:
        """Record that a loop stays."""
        self._settled.add((steps, loop))

    def has(self, rule: StageRule) -> bool:
        """Whether a rule is selected."""
        return rule in self._rules

    def tidied(self, body: Body) -> set[StageRule]:
        """Remove carries of a body; return the names of the rules that applied."""
        found: set[StageRule] = set()
        more = True
        while more:
            made = {
                rule
                for rule, change in ((STAY, stay), (AGREE, share))
                if rule in self._rules and change(body)
            }
            found |= made
            more = bool(made)
        return found

    def note(self, rule: StageRule, before: Node, after: Node) -> None:
        """Count a change, and record it if requested."""
        self.changes += 1
        if self._recording:
            self.records.append(Change(rule, before, after))


class _Rebuild:
    """A graph rebuilt with one loop in the place of each group.

    Args:
        stage: What rules there are.
        live: What is needed of each loop.
        groups: The group of each.
        steps: Whether the steps are rewritten, too.
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
        """Return the rebuilt graph."""
        done: set[Node | LoopGroup] = set()
        for item in ordered(graph.outputs, self._needs, done):
            done.add(item)
            if isinstance(item, LoopGroup):
                self._put(item)
            elif isinstance(item.op, Pick) and item.inputs[0] in self._groups:
                self._new[item] = self._results[item.inputs[0], item.op.index]
            else:
                self._new[item] = self._made(item)
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

    def _made(self, node: Node) -> Node:
        new = node.with_inputs([self._new[x] for x in node.inputs])
        graphs = node.op.graphs() if self._steps else ()
        better = [self._stage.better(graph, node) for graph in graphs]
        if all(a.outputs == b.outputs for a, b in zip(graphs, better, strict=True)):
            return new
        with derived_from(node.site):
            made = Node.make(node.op.with_graphs(better), *new.inputs)
        self._stage.note(STEPS, node, made)
        return made

    # Loops.

    def _put(self, group: LoopGroup) -> None:
        (first, *others) = group.loops
        same = self._as_it_is(first) if not others and self._is_whole(first) else {}
        loop = next(iter(same.values())).inputs[0] if same else None
        if loop is not None and self._stage.is_settled(loop, steps=self._steps):
            self._results |= same
            return
        for loops in self._of_one_end(group):
            self._stage.attempts += 1
            with derived_from(min(loops, key=lambda loop: loop.serial).site):
                made, rules = self._together(loops, group)
            if made == same or (same and not rules and not self._stage.has(FORM)):
                self._stage.settle(loop, steps=self._steps)  # type: ignore[arg-type]
                self._results |= same
            else:
                self._results |= made
                self._note(loops, made, rules or {FORM})

    def _as_it_is(self, loop: Node) -> dict[Key, Node]:
        """Return a loop's results on the new inputs."""
        new = loop.with_inputs([self._new[x] for x in loop.inputs])
        return {(loop, i): Node.make(Pick(i), new) for i in self._live[loop].results}

    def _is_whole(self, loop: Node) -> bool:
        return is_whole(loop.op, self._live[loop])  # type: ignore[arg-type]

    def _of_one_end(self, group: LoopGroup) -> list[list[Node]]:
        """Split a group into parts whose loops end at the same step."""
        op: Any = group.loops[0].op
        if not op.stops or len(group.loops) == 1:
            return [group.loops]
        body = self._body(group.loops, group)
        self._stage.tidied(body)
        found: dict[Node, list[Node]] = {}
        for loop, stop in body.stops.items():
            found.setdefault(stop, []).append(loop)
        return list(found.values())

    def _body(self, loops: Sequence[Node], group: LoopGroup) -> Body:
        body = Body.like(loops, self._new)
        for loop in loops:
            body.add(loop, self._live[loop], self._new, group.read.get(loop, {}))
        body.settle()
        return body

    def _together(
        self, loops: Sequence[Node], group: LoopGroup
    ) -> tuple[dict[Key, Node], set[StageRule]]:
        """Return the results of fused loops, and the rules that applied."""
        body = self._body(loops, group)
        rules = {UNUSED for loop in loops if not self._is_whole(loop)}
        rules |= {SIDE_BY_SIDE} if len(loops) > 1 else set()
        rules |= {IN_A_ROW for loop in loops if loop in group.read}
        rules |= self._stage.tidied(body)
        if self._steps and body.rewrite(partial(self._stage.better, holder=loops[0])):
            body.settle()
            rules |= {STEPS} | self._stage.tidied(body)
        return body.closed(), rules

    def _note(self, loops: Iterable[Node], made: Mapping[Key, Node], rules: set[StageRule]) -> None:
        for loop in loops:
            after = next(y for (source, _), y in made.items() if source is loop)
            if isinstance(after.op, Pick):
                (after,) = after.inputs
            if after is loop:  # the others became this one
                continue
            for rule in sorted(rules, key=lambda rule: rule.name):
                self._stage.note(rule, loop, after)
