"""The passes in order, and ``optimize``, which runs them until nothing changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from time import perf_counter

import graphc.rewrite.rules  # noqa: F401 (fills RULES)
from graphc.errors import ArgumentError
from graphc.ir import Graph, Input, Node, replace_nodes
from graphc.ir.graph import check, check_same_interface
from graphc.rewrite.engine import Chosen, RuleApplication, Sweep, index_of
from graphc.rewrite.loops.stage import Loops
from graphc.rewrite.rule import FUSE, LOOPS, PASSES, RULES, Rule

EVERY = "all"
"""The name of all rules together."""

MAX_ROUNDS = 10
"""Largest number of rounds of all passes; a later pass may enable rules of an earlier one."""


@dataclass(frozen=True, slots=True)
class PassReport:
    """The report of one run of a pass.

    Attributes:
        name: Name of the pass.
        seconds: Duration of the run.
        before: Number of nodes before the run.
        after: Number of nodes after the run.
        attempts: Number of rules tried.
        changes: Number of rules applied.
        records: Each change, if recording; changes of loops in any case.
        graph: The graph after the run, if recording.
    """

    name: str
    seconds: float
    before: int
    after: int
    attempts: int
    changes: int
    records: tuple[RuleApplication, ...]
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """An equal graph, and the report of each pass."""

    graph: Graph
    passes: tuple[PassReport, ...]


def optimize(
    graph: Graph,
    *,
    excluding: Iterable[str] = (),
    including: Iterable[str] | None = None,
    recording: bool = False,
    checking: bool = False,
) -> Rewritten:
    """Return an equal graph that is more accurate, smaller, or has cheaper operations.

    Args:
        graph: Any graph; it is not changed.
        excluding: Rules to exclude, by name, pass or subject (``"reduce"``), or ``"all"``.
        including: Rules to include, by the same names (default: all). The narrower name counts: a
            rule's own before its pass and subject.
        recording: Whether to keep each change in the reports.
        checking: Whether to check after each pass that the graph is valid, with the same inputs
            and output types.

    Returns:
        The graph and a report for each run of a pass.

    Raises:
        ArgumentError: If no rule, pass or subject has a given name.
        InvalidGraphError: If a rule is wrong.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.ir import Graph
        >>> x = gt.vector("x")
        >>> optimize(Graph([x], [gt.log(1 + x)])).graph.outputs[0] is gt.log1p(x)
        True
    """
    rules = select_rules(excluding, including)
    run = _PassRunner(rules, recording=recording, checking=checking)
    # Rules inspect nodes, but must not look beyond the graph's inputs.
    hidden = {x: Node.input(x.type) for x in graph.inputs if not isinstance(x.op, Input)}
    if hidden:
        inputs = [hidden.get(x, x) for x in graph.inputs]
        done = run.rounds(Graph(inputs, replace_nodes(graph.outputs, hidden)))
        shown = replace_nodes(done.graph.outputs, {new: x for x, new in hidden.items()})
        return Rewritten(Graph(graph.inputs, shown), done.passes)
    return run.rounds(graph)


class _PassRunner:
    """The passes over a graph and over the graphs of its operations.

    Args:
        rules: The selected rules.
        recording: Whether to keep each change.
        checking: Whether to check each new graph.
    """

    def __init__(self, rules: list[Rule], *, recording: bool, checking: bool) -> None:
        index, chosen = index_of(tuple(rules)), dict[Node, Chosen]()
        self._sweeps = {step: Sweep(step, index, chosen, recording=recording) for step in PASSES}
        self._loops = Loops(rules, self.better, recording=recording)
        self._recording = recording
        self._checking = checking
        self._better: dict[Graph, Graph] = {}

    def better(self, graph: Graph) -> Graph:
        result = self._better.get(graph)
        if result is None:
            result = self._better[graph] = self.rounds(graph).graph
            self._better[result] = result
        return result

    def rounds(self, graph: Graph) -> Rewritten:
        """Run the passes until nothing changes."""
        settled: dict[str, tuple[Node, ...]] = {}
        reports: list[PassReport] = []
        for _ in range(MAX_ROUNDS):
            report_count = len(reports)
            for step in (LOOPS, *PASSES):
                if settled.get(step) == graph.outputs:
                    continue
                before = graph
                if step == LOOPS and not self._loops.concerns(graph):
                    continue
                graph, report = self._run(step, before)
                reports.append(report)
                if step != LOOPS or before.outputs == graph.outputs:
                    settled[step] = graph.outputs
                if self._checking:
                    check(graph)
                    check_same_interface(before, graph)
            if len(reports) == report_count:
                break
        return Rewritten(graph, tuple(reports))

    def _run(self, step: str, graph: Graph) -> tuple[Graph, PassReport]:
        """Run a pass or the stage once; return its report, with the changes in steps of loops."""
        counting: list[Sweep | Loops] = (
            [*self._sweeps.values(), self._loops] if step == LOOPS else [self._sweeps[step]]
        )
        attempts = sum(one.attempts for one in counting)
        changes = sum(one.changes for one in counting)
        records = [len(one.records) for one in counting]
        start = perf_counter()
        new = self._loops(graph) if step == LOOPS else _sweep(self._sweeps[step], graph)
        report = PassReport(
            name=step,
            seconds=perf_counter() - start,
            before=len(graph),
            after=len(new),
            attempts=sum(one.attempts for one in counting) - attempts,
            changes=sum(one.changes for one in counting) - changes,
            records=tuple(
                change
                for one, first in zip(counting, records, strict=True)
                for change in one.records[first:]
            ),
            graph=new if self._recording else None,
        )
        return new, report


def _sweep(sweep: Sweep, graph: Graph) -> Graph:
    sweep.normal_forms(graph.nodes)
    outputs = tuple(sweep.form(y) for y in graph.outputs)
    return graph if outputs == graph.outputs else Graph(graph.inputs, outputs)


def names_of(names: Iterable[str] | None) -> frozenset[str]:
    """Return names of rules, passes and subjects as a set; ``{"all"}`` for None."""
    if names is None:
        return frozenset([EVERY])
    return frozenset([names] if isinstance(names, str) else names)


def select_rules(excluding: Iterable[str], including: Iterable[str] | None) -> list[Rule]:
    """Return the rules selected by names of rules, passes and subjects.

    The narrower name counts: a rule's own before its pass and subject, these before ``"all"``.
    Of two equally narrow names, the excluded one counts.
    """
    out, wanted = names_of(excluding), names_of(including)
    rules = list(RULES.values())
    valid_names = {EVERY, *PASSES, LOOPS, FUSE, *RULES, *(rule.subject for rule in rules)}
    for name in sorted(out | wanted):
        if name not in valid_names:
            close = get_close_matches(name, valid_names)
            raise ArgumentError(
                f"No rule, pass or subject of rules is called {name!r}.",
                f"Did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"The passes are {', '.join((*PASSES, LOOPS, FUSE))}.",
            )
    return [rule for rule in rules if _is_selected(rule, out, wanted)]


def _is_selected(rule: Rule, out: frozenset[str], wanted: frozenset[str]) -> bool:
    for names in ({rule.name}, {rule.step, rule.subject}, {EVERY}):
        if names & out:
            return False
        if names & wanted:
            return not rule.optional or rule.name in wanted
    return False
