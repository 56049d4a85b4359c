"""Whether a rewritten graph is right; and where it is not, the smallest part that shows it.

What is wrong is cut down: to one output, to the first node that shows it, with the values of what
lies before in place of that where they suffice. Then each rule that had a part is left out in
turn: where the fault goes with it, it is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any

import numpy as np

import graphc
from graphc.errors import GraphcError
from graphc.ir import (
    Graph,
    Input,
    Node,
    Pick,
    TupleType,
    dprint,
    graph_inputs,
    replace_nodes,
    toposort,
)
from graphc.link import names
from graphc.rewrite import optimize
from graphc.rewrite.rule import PASSES, RULES
from graphc.tensor.core.elementwise import Cast, multiply
from tests.modes import lacks
from tests.rewrite.random_graphs import Sample
from tests.rewrite.rounding import Bounds, Exactly, evaluated

__all__ = ["LOSING", "Fault", "faults", "report"]

LOSING = (
    "stabilize", "dot", "elementwise", "exponential", "special", "trigonometric",
    *(name for name, rule in RULES.items() if getattr(rule, "absorbing", False)),
)  # fmt: skip
"""Rules that may make a number of what is NaN in the formula alone: algebra and stable forms."""

FAILURES = (GraphcError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError)
"""What a crash raises."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with what became of a graph.

    Attributes:
        sample: The graph as written and values for its inputs.
        what: What is wrong.
        backend: Where it shows, if it is a value; a name, and whether the graph was rewritten.
        place: Which output.
    """

    sample: Sample
    what: str
    backend: tuple[str, bool] | None = None
    place: int = 0


def rewritten(sample: Sample, excluding: Collection[str] = ()) -> tuple[Node, ...]:
    """The outputs after all passes, checked after each."""
    graph = Graph(sample.inputs, sample.outputs)
    return optimize(graph, excluding=excluding, checking=True).graph.outputs


def computed(
    groups: Sequence[tuple[Mapping[Node, Any], Sequence[Node]]], backend: str
) -> list[list[Any]]:
    """The outputs of several graphs by one function of a backend, no rule applied."""
    # An input of which nothing is left may be of a dtype that the backend has not.
    used = [{*graph_inputs(ends)} for _, ends in groups]
    given = [
        {x: v for x, v in values.items() if x in own}
        for (values, _), own in zip(groups, used, strict=True)
    ]
    # One example of a rule can be a part of several graphs: each has inputs of its own.
    swaps = [{x: Node.input(x.type, x.name) for x in values} for values in given]
    outputs = [replace_nodes(ends, swap) for (_, ends), swap in zip(groups, swaps, strict=True)]
    f = graphc.function(
        [x for swap in swaps for x in swap.values()],
        outputs,
        mode=graphc.Mode(backend, excluding=PASSES),
        on_unused_input="ignore",
        returns="numpy",
    )
    found: list[list[Any]] = f(*[v for values in given for v in values.values()])
    return found


def faults(samples: Sequence[Sample], backends: Collection[str] = tuple(names())) -> list[Fault]:
    """What is wrong with any of the graphs on any of the backends, rewritten or as written.

    Compiled backends take long, so they get every fourth graph as written.
    """
    found: list[Fault] = []
    bounds: list[Bounds] = []
    pairs: list[tuple[Sample, tuple[Node, ...]]] = []
    for sample in samples:
        excluding = excluded(sample)
        try:
            after = rewritten(sample, excluding)
            again = rewritten(Sample(sample.seed, sample.inputs, [*after]), excluding)  # type: ignore[list-item]
        except FAILURES as error:
            found.append(Fault(sample, _crash(error)))
            continue
        for i, (y, z) in enumerate(zip(after, again, strict=True)):
            if y is not z:
                found.append(Fault(sample, "rewriting it again changes it again", None, i))
        bounds.append(Bounds(sample.outputs, sample.inputs, losing=not excluding))
        pairs.append((sample, after))
    for backend in backends:
        found += _wrong_values(backend, pairs, bounds)
    return found


def _crash(error: BaseException) -> str:
    """The error and, where it is one of a rule's own, the rule's line."""
    frames = [f for f in extract_tb(error.__traceback__) if "/rewrite/" in f.filename]
    last = f" ({frames[-1].name}, {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{last}"


def excluded(sample: Sample) -> tuple[str, ...]:
    """Every fourth graph is rewritten without the rules that lose NaN, so that none may be lost."""
    return LOSING if sample.seed % 4 == 0 else ()


def _wrong_values(
    backend: str, pairs: Sequence[tuple[Sample, Sequence[Node]]], bounds: Sequence[Bounds]
) -> list[Fault]:
    graphs = [
        (sample, bound, is_rewritten, after if is_rewritten else sample.outputs)
        for (sample, after), bound in zip(pairs, bounds, strict=True)
        for is_rewritten in (True, False)
        if is_rewritten or backend == "NUMPY" or sample.seed % 4 == 1
    ]
    graphs = [graph for graph in graphs if _is_known(backend, graph[-1])]
    try:
        values = computed([(sample.inputs, outputs) for sample, _, _, outputs in graphs], backend)
    except FAILURES as error:
        if len(pairs) > 1:
            return [
                fault
                for pair, bound in zip(pairs, bounds, strict=True)
                for fault in _wrong_values(backend, [pair], [bound])
            ]
        return [Fault(pairs[0][0], _crash(error), (backend, True))]
    found: list[Fault] = []
    for (sample, bound, is_rewritten, outputs), ys in zip(graphs, values, strict=True):
        if backend == "JAX" and _multiplies_by_bools(outputs):
            bound = Bounds(sample.outputs, sample.inputs, losing=True)
        for i, y in enumerate(ys):
            what = bound.wrong(i, y)
            # XLA makes a * c / b of a / (b / c), whatever overflows.
            if what is not None and (backend == "NUMPY" or not bound.is_extreme(i)):
                found.append(Fault(sample, what, (backend, is_rewritten), i))
    return found


def _multiplies_by_bools(outputs: Sequence[Node]) -> bool:
    """Return whether XLA makes a choice of a product, and 0 of ``nan * False``."""
    return any(
        isinstance(x.op, Cast) and x.inputs[0].type.dtype == "bool"
        for node in toposort(outputs)
        if node.op is multiply
        for x in node.inputs
    )


def _is_known(backend: str, outputs: Sequence[Node]) -> bool:
    """Whether the backend has all dtypes in the graph."""
    types = [t for node in toposort(outputs) for t in getattr(node.type, "items", (node.type,))]
    return not any(lacks(backend, t.dtype) for t in types)


# Cutting down.


def like(fault: Fault) -> Callable[[Sample], bool]:
    """Whether a graph shows a fault of the same kind."""
    backends = [fault.backend[0]] if fault.backend else []
    kind = fault.what.partition(":")[0] if fault.backend is None else ""

    def shows(sample: Sample) -> bool:
        try:
            found = faults([sample], backends)
        except FAILURES:
            return False
        return any(
            other.backend == fault.backend and other.what.startswith(kind) for other in found
        )

    return shows


def smallest(fault: Fault) -> Sample:
    """The smallest part of a graph found that shows the fault."""
    shows = like(fault)
    sample = fault.sample
    for node in toposort(sample.outputs):
        alone = _of(sample, [node])
        if not isinstance(node.type, TupleType) and node.inputs and shows(alone):
            sample = alone
            break
    known = evaluated(sample.outputs, sample.inputs, Exactly())
    for node in reversed(toposort(sample.outputs)[:-1]):
        if isinstance(node.op, Input | Pick) or isinstance(node.type, TupleType):
            continue
        x = Node.input(node.type, f"v{node.serial}")
        cut = Sample(
            sample.seed,
            {**sample.inputs, x: known[node]},
            replace_nodes(sample.outputs, {node: x}),  # type: ignore[arg-type]
        )
        cut = _of(cut, cut.outputs)
        if len(toposort(cut.outputs)) < len(toposort(sample.outputs)) and shows(cut):
            sample = cut
    return sample


def _of(sample: Sample, outputs: Sequence[Node]) -> Sample:
    used = set(toposort(outputs))
    inputs = {x: v for x, v in sample.inputs.items() if x in used}
    return Sample(sample.seed, inputs, [*outputs])  # type: ignore[list-item]


def guilty(sample: Sample, fault: Fault) -> list[str]:
    """The rules without which the fault is gone, each by itself."""
    found = []
    for name in applied(sample):
        rule = RULES.pop(name)
        try:
            if not like(fault)(sample):
                found.append(name)
        finally:
            RULES[name] = rule
    return found


def applied(sample: Sample) -> list[str]:
    """The rules that have a part in what becomes of a graph."""
    graph = Graph(sample.inputs, sample.outputs)
    try:
        done = optimize(graph, excluding=excluded(sample), recording=True)
    except FAILURES:
        return []
    return [*dict.fromkeys(c.rule.name for report in done.passes for c in report.records)]


def report(fault: Fault) -> str:
    """All there is to know of a fault, to be read."""
    sample = smallest(fault)
    lines = [f"seed {fault.sample.seed}, output {fault.place}: {fault.what}"]
    if fault.backend is not None:
        name, is_rewritten = fault.backend
        lines.append(f"on {name}, {'rewritten' if is_rewritten else 'as written'}")
    if fault.backend is None or fault.backend[1]:
        lines.append(f"rules applied: {', '.join(applied(sample)) or 'none'}")
        lines.append(f"to blame, each by itself: {', '.join(guilty(sample, fault)) or 'none'}")
    lines += [str(dprint(sample.outputs, file="str"))]
    lines += [f"{x!r} = {np.asarray(v).tolist()}" for x, v in sample.inputs.items()]
    try:
        after = rewritten(sample, excluded(sample))
        lines += ["becomes", str(dprint(after, file="str"))]
    except FAILURES as error:
        lines.append(str(error))
    again = [other.what for other in faults([sample])]
    return "\n".join([*lines, f"there: {'; '.join(again)}"])
