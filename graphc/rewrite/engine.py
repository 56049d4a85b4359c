"""The engine: one sweep brings a graph to a form in which no rule of a pass applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from graphc.errors import InvalidGraphError
from graphc.ir import Constant, Input, Leaf, Node, Slot
from graphc.progress import tell
from graphc.rewrite.rule import PASSES, EquationRule, Root, Rule, kind, sort
from graphc.site import derived_from

TOLD = "loop"
"""The subject of rules whose changes a plan reports."""

MAX_CHANGES_PER_NODE = 50
"""Largest number of changes a node, against endless rules; real programs need about 3."""

ATOMS = frozenset({Constant, Input, Leaf, Slot})
"""Operations that no rule replaces."""

Chosen = Mapping[str, tuple[Rule, ...]]
"""Rules by their pass."""


@dataclass(frozen=True, slots=True)
class RuleApplication:
    """One application of a rule: the node it replaced, and the replacement."""

    rule: Rule
    before: Node
    after: Node


MAX_SORTS = 20_000
"""Largest number of cached sorts of nodes; a program has some hundreds."""


class RuleIndex:
    """An index of rules, by the operations of a node and its operands.

    Args:
        rules: All rules, in the order to try them.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_root: dict[Root, list[Rule]] = {}
        self._numbers: set[Any] = set()
        for rule in rules:
            for root in rule.roots:
                self._by_root.setdefault(root, []).append(rule)
            if isinstance(rule, EquationRule) and rule.number is not None:
                self._numbers.add(rule.number)
        self._by_sort: dict[tuple[Any, ...], Chosen] = {}

    def __call__(self, node: Node) -> Chosen:
        """Return the rules for a node, by their pass."""
        key = sort(node, self._numbers)
        rules = self._by_sort.get(key)
        if rules is None:
            rules = self._chosen(node)
            if len(self._by_sort) >= MAX_SORTS:
                self._by_sort.clear()
            self._by_sort[key] = rules
        return rules

    def _chosen(self, node: Node) -> Chosen:
        roots = dict.fromkeys([kind(node), *type(node.op).__mro__])
        rules_by_step: dict[str, dict[Rule, None]] = {step: {} for step in PASSES}
        for root in roots:
            for rule in self._by_root.get(root, ()):
                if rule.concerns(node):
                    rules_by_step[rule.step][rule] = None
        return {step: tuple(rules) for step, rules in rules_by_step.items()}


@lru_cache(maxsize=16)
def index_of(rules: tuple[Rule, ...]) -> RuleIndex:
    """Return the index of some rules, which all programs share."""
    return RuleIndex(rules)


def apply_rule(rule: Rule, node: Node) -> Node | None:
    """Apply a rule to a node; add the rule's name to an error."""
    try:
        return rule.apply(node)
    except Exception as error:
        error.add_note(f"The rule {rule.name} was at {node!r}, {node.where}.")
        raise


Apply = Callable[[Rule, Node], Node | None]

APPLY: ContextVar[Apply] = ContextVar("apply", default=apply_rule)
"""The function by which sweeps apply a rule to a node; a profile times it."""


class Sweep:
    """The normal forms of nodes under the rules of a pass, each computed once.

    Args:
        step: The pass.
        rules: The rules to try on a node.
        chosen: The cached rules of nodes, shared by all passes.
        recording: Whether to keep each change.

    Attributes:
        attempts: Number of rules tried.
        changes: Number of rules applied.
        recording: Whether each change is kept.
        records: Each change, if recording; changes of loops in any case.
    """

    def __init__(
        self, step: str, rules: RuleIndex, chosen: dict[Node, Chosen], *, recording: bool = False
    ) -> None:
        self.attempts = 0
        self.changes = 0
        self.records: list[RuleApplication] = []
        self.recording = recording
        self._pass = step
        self._rules = rules
        self._chosen = chosen
        self._apply = APPLY.get()
        self._done: dict[Node, Node] = {}
        self._became: dict[Node, tuple[Node, Rule | None]] = {}

    def normal_forms(self, nodes: Sequence[Node]) -> None:
        """Compute the normal form of each node; inputs come first.

        Raises:
            InvalidGraphError: If rules undo each other or grow the graph without end, or a rule
                returns a node of another type.
        """
        tell(self._progress)
        most = self.changes + MAX_CHANGES_PER_NODE * (len(nodes) + MAX_CHANGES_PER_NODE)
        done = self._done
        with derived_from(None) as origin:
            for node in nodes:
                if node in done:
                    continue
                if type(node.op) in ATOMS:
                    done[node] = node
                    continue
                new, rule = self._step(node, origin)
                if rule is None and new not in self._became:
                    done[node] = done.setdefault(new, new)
                else:
                    self._became[node] = new, rule
                    self._settle([node, new], most, origin)

    def form(self, node: Node) -> Node:
        """Return the form that a node was brought to."""
        return self._done[node]

    def _settle(self, stack: list[Node], most: int, origin: derived_from) -> None:
        # A node waits on the stack for its inputs first, then for the form of its replacement.
        done, became = self._done, self._became
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
            elif node in became:
                new, _ = became[node]
                if new not in done or self.changes > most:
                    raise self._endless(stack)
                done[node] = done[new]
                del became[node]
            elif waiting := [x for x in node.inputs if x not in done]:
                stack.extend(reversed(waiting))
            else:
                new, rule = self._step(node, origin)
                if rule is None and new not in became:
                    done[node] = done.setdefault(new, new)
                elif self.changes > most:
                    raise self._endless(stack)
                else:
                    became[node] = new, rule
                    stack.append(new)

    def _step(self, node: Node, origin: derived_from) -> tuple[Node, Rule | None]:
        """Return the node on its inputs' forms, or its replacement by the first rule to apply."""
        done = self._done
        new = node
        for x in node.inputs:
            if done[x] is not x:
                new = node.with_inputs([done[x] for x in node.inputs])
                if new in done or new in self._became:
                    return done.get(new, new), None
                break
        chosen = self._chosen.get(new)
        if chosen is None:
            chosen = self._chosen[new] = self._rules(new)
        rules = chosen[self._pass]
        if rules:
            apply = self._apply
            origin.move(node.site)
            for i, rule in enumerate(rules, 1):
                replacement = apply(rule, new)
                if replacement is not None and replacement is not new:
                    self.attempts += i
                    self._note(rule, new, replacement)
                    return replacement, rule
            self.attempts += len(rules)
        return new, None

    def _note(self, rule: Rule, before: Node, after: Node) -> None:
        if not before.type.admits(after.type):
            raise InvalidGraphError(
                f"The rule {rule.name} replaced {before!r} by {after!r}, of another type.",
                f"Exclude it: excluding=[{rule.name!r}].",
                before.where,
            )
        self.changes += 1
        tell(self._progress)
        if self.recording or rule.subject == TOLD:
            self.records.append(RuleApplication(rule, before, after))

    def _progress(self) -> str:
        return f"rewriting, {self._pass}: {self.changes:,} changes"

    def _endless(self, stack: Sequence[Node]) -> InvalidGraphError:
        steps = [self._became[node] for node in stack if node in self._became]
        names = dict.fromkeys(rule.name for _, rule in reversed(steps) if rule is not None)
        node = stack[-1]
        return InvalidGraphError(
            f"Rewriting {node!r} does not come to an end: the rules {', '.join(names)} lead back "
            "to it, or on to ever more nodes.",
            "Exclude one of them with excluding=[...].",
            node.where,
        )
