"""From the graph that a user asks for to a program: rewritten, taken apart, analysed.

Nothing of it depends on what arrays hold, so that graphs of equal structure have one program. In
the place of a leaf stands a slot; in the place of a variable, an input of no one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.compile.guard import Told, guarded, without_checks
from graphc.compile.mode import Mode
from graphc.errors import DynamicShapeError, GraphcError, UnsupportedOperationError
from graphc.implicit.expand import densified
from graphc.ir import Graph, Leaf, Node, Slot, derived_from, replaced
from graphc.link import Host, Program
from graphc.link.fuse import fuse
from graphc.link.legalize import bake, inline, narrowed
from graphc.rewrite import optimize
from graphc.rewrite.lengths import lengths_of
from graphc.rewrite.passes import PassReport, selected
from graphc.tensor.elementwise import Elementwise

__all__ = ["Asked", "Built", "built", "problems"]


@dataclass(frozen=True)
class Asked:
    """What a program is to be made of.

    Attributes:
        graph: Of the arguments of a call and then the shared variables; it gives the results of a
            call and then the shared variables' new values.
        arguments: How many of the inputs are arguments.
        updated: Which input each new value goes to.
        single: Whether the only result of a call is wanted itself.
        mode: Where it is to run.
    """

    graph: Graph
    arguments: int
    updated: tuple[int, ...]
    single: bool
    mode: Mode

    @property
    def results(self) -> int:
        """How many outputs are results of a call."""
        return len(self.graph.outputs) - len(self.updated)

    def leaves(self) -> list[Node]:
        """The graph's leaves, in the order that graphs of equal keys share."""
        if not self.graph.leaves:
            return []
        return [node for node in self.graph.canonical() if isinstance(node.op, Leaf)]


@dataclass(frozen=True)
class Built:
    """A program, and what became of what was asked.

    Attributes:
        graph: What it computes.
        host: What of that is computed on the host.
        passes: What each pass of the rewriting did.
        program: Its steps.
        baked: The leaves whose values are part of it, by place.
        donated: The inputs whose buffers may be reused.
        fresh: Whether each new value of a shared variable is nobody else's.
        told: What is raised where an element of its last output is True; where there is nothing to
            check, there is no such output.
    """

    graph: Graph
    host: Host | None
    passes: tuple[PassReport, ...]
    program: Program
    baked: tuple[int, ...]
    donated: tuple[int, ...]
    fresh: tuple[bool, ...]
    told: tuple[Told, ...]

    @property
    def slots(self) -> tuple[int, ...]:
        """The places of the leaves that it takes, in the order in which it takes them."""
        return tuple(x.op.place for x in self.graph.leaves)  # type: ignore[attr-defined]


def built(asked: Asked) -> Built:
    """The program for what is asked."""
    mode = asked.mode
    backend = mode.backend
    leaves = asked.leaves()
    graph = _blank(asked.graph, leaves)
    graph = graph if backend.keeps_implicit else densified(graph)
    graph, passes, told = _prepared(graph, mode)
    host = backend.analyse(graph)
    baked: list[Any] = []
    if host is not None and host.leaves:
        slots = [graph.leaves[i] for i in host.leaves]
        baked = [x.op.place for x in slots]  # type: ignore[attr-defined]
        graph = bake(graph, {x: leaves[i].op.array for x, i in zip(slots, baked, strict=True)})
        host = backend.analyse(graph)
    backend.check(graph, host.nodes if host else (), mode.options)
    return Built(
        graph,
        host,
        passes,
        Program(graph, backend, host, single=asked.single and not told),
        tuple(sorted(baked)),
        () if told else _donated(asked, graph, host),
        _fresh(asked, graph),
        told,
    )


def problems(asked: Asked) -> list[GraphcError]:
    """What keeps a graph from being compiled: all that the backend cannot do."""
    mode = asked.mode
    graph = _blank(asked.graph, asked.leaves())
    graph = graph if mode.backend.keeps_implicit else densified(graph)
    graph, _, _ = _prepared(graph, mode)
    found: list[GraphcError] = []
    host = None
    try:
        host = mode.backend.analyse(graph)
    except DynamicShapeError as error:
        found.append(error)
    try:
        mode.backend.check(graph, host.nodes if host else (), mode.options)
    except UnsupportedOperationError as error:
        found.append(error)
    return found


def _prepared(graph: Graph, mode: Mode) -> tuple[Graph, tuple[PassReport, ...], tuple[Told, ...]]:
    """Rewritten, in terms of what the backend has, and with what is to be checked."""
    backend, options = mode.backend, mode.options
    if options.get("check") is False:
        graph = without_checks(graph)
    graph, passes = _rewritten(graph, mode)
    graph = inline(graph, backend)
    graph, told = guarded(graph, backend, options)
    return inline(graph, backend) if told else graph, passes, told


def _blank(graph: Graph, leaves: Sequence[Node]) -> Graph:
    """The same without the user's variables, which may hold values, and without arrays."""
    blank: dict[Node, Node] = {}
    for x in graph.inputs:
        with derived_from(x.site):
            blank[x] = Node.input(x.type, x.name)
    for i, x in enumerate(leaves):
        with derived_from(x.site):
            blank[x] = Node.make(Slot(i, x.type, x.name))
    return Graph([blank[x] for x in graph.inputs], replaced(graph.outputs, blank))


def _rewritten(graph: Graph, mode: Mode) -> tuple[Graph, tuple[PassReport, ...]]:
    """By the rules that the mode has, and with what its backend has one operation for."""
    names = mode.excluded, mode.included
    graph = narrowed(graph, mode.backend.stand_ins(mode.options))
    done = optimize(graph, excluding=names[0], including=names[1])
    last = fuse(done.graph, mode.backend, selected(*names))
    return last.graph, (*done.passes, *last.passes)


def _fresh(asked: Asked, graph: Graph) -> tuple[bool, ...]:
    passed = set(graph.inputs) | set(graph.leaves)
    times = Counter(graph.outputs)
    return tuple(y not in passed and times[y] == 1 for y in _updates(asked, graph))


def _updates(asked: Asked, graph: Graph) -> tuple[Node, ...]:
    """The shared variables' new values: what is checked stands behind them."""
    return graph.outputs[asked.results : len(asked.graph.outputs)]


def _donated(asked: Asked, graph: Graph, host: Host | None) -> tuple[int, ...]:
    """Which shared variables' buffers may be reused."""
    # What decides a shape is read on the host, and what NumPy computes can fail halfway.
    if "fallback" in asked.mode.options:
        return ()
    kept = {*graph.outputs, *(graph.inputs[i] for i in (host.inputs if host else ()))}
    new = _updates(asked, graph)
    found = {
        i
        for i, y in zip(asked.updated, new, strict=True)
        if graph.inputs[i] not in kept and _of_equal_lengths(y, graph.inputs[i])
    }
    return tuple(sorted(found))


def _of_equal_lengths(new: Node, old: Node) -> bool:
    """Whether one is known to have the shape of the other; elementwise, an operand's is enough."""
    same = [new]
    if isinstance(new.op, Elementwise):
        same += [x for x in new.inputs if x.type.ndim == new.type.ndim and 1 not in x.type.shape]
    return any(lengths_of(x) == lengths_of(old) for x in same)
