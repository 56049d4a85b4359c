"""The pipeline from a requested graph to a program: rewritten, decomposed and analysed.

Nothing in it depends on the contents of arrays, so that graphs of equal structure have one program.
Leaves are replaced by slots, and shared variables by new inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.compile.guard import CheckFailure, add_checks, without_checks
from graphc.compile.mode import Mode
from graphc.errors import (
    DynamicShapeError,
    GraphcError,
    ShardingError,
    UnsupportedOperationError,
)
from graphc.implicit.expand import densify_graph
from graphc.ir import Graph, Input, Leaf, Node, Slot, has_equal_operands, replace_nodes
from graphc.link import Host, Program
from graphc.link.fuse import fuse
from graphc.link.legalize import bake, bypass, check_shardings, inline, narrow_dtypes
from graphc.link.program import EqualLengths
from graphc.rewrite import optimize
from graphc.rewrite.facts.lengths import lengths_of
from graphc.rewrite.passes import PassReport, select_rules
from graphc.site import derived_from
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.core.sharding import Shard, shard


@dataclass(frozen=True)
class Signature:
    """The signature of a program: its graph, and how a call's values map to it.

    Attributes:
        graph: A function of the arguments of a call and then the shared variables, giving the
            results of a call and then the shared variables' new values.
        arguments: The number of inputs that are arguments.
        updated: For each new value, the index of the input that it updates.
        single: Whether a call returns its only result itself, not in a list.
        mode: The mode it is compiled for.
        ends: The outputs before sub-graphs are expanded, which have users' derivatives: the outputs
            of ``f.pure``.
    """

    graph: Graph
    arguments: int
    updated: tuple[int, ...]
    single: bool
    mode: Mode
    ends: Sequence[Node] = ()

    @property
    def results(self) -> int:
        """The number of outputs that are results of a call."""
        return len(self.graph.outputs) - len(self.updated)

    def leaves(self) -> list[Node]:
        """Return the graph's leaves, in the order that graphs of equal keys share."""
        if not self.graph.leaves:
            return []
        return [node for node in self.graph.canonical() if isinstance(node.op, Leaf)]


@dataclass(frozen=True)
class LoweredProgram:
    """A program, and the results of the passes that lowered its signature.

    Attributes:
        graph: The rewritten graph.
        host: The part of the graph that is computed on the host.
        passes: A report of each pass of the rewriting.
        program: The steps of the graph.
        baked: The indices of the leaves whose values are part of the program.
        donated: The inputs whose buffers may be reused.
        fresh: For each new value of a shared variable, whether nothing else refers to it.
        failures: The error of each row of the last output; without checks there is no such output.
    """

    graph: Graph
    host: Host | None
    passes: tuple[PassReport, ...]
    program: Program
    baked: tuple[int, ...]
    donated: tuple[int, ...]
    fresh: tuple[bool, ...]
    failures: tuple[CheckFailure, ...]

    @property
    def slots(self) -> tuple[int, ...]:
        """The indices of the leaves that the program takes, in the order of its arguments."""
        return tuple(x.op.position for x in self.graph.leaves)  # type: ignore[attr-defined]


def lower_program(signature: Signature) -> LoweredProgram:
    """Lower a signature to a program."""
    mode = signature.mode
    backend = mode.backend
    leaves = signature.leaves()
    graph = blank(signature.graph, leaves)
    graph = graph if backend.keeps_implicit else densify_graph(graph)
    check_shardings(graph, mode.mesh_axes)
    graph, passes, failures = _prepare(graph, mode)
    host = backend.analyse(graph)
    baked: list[Any] = []
    if host is not None and host.leaves:
        slots = [graph.leaves[i] for i in host.leaves]
        baked = [x.op.position for x in slots]  # type: ignore[attr-defined]
        graph = bake(graph, {x: leaves[i].op.array for x, i in zip(slots, baked, strict=True)})
        host = backend.analyse(graph)
    backend.check(graph, host.nodes if host else (), mode.options)
    return LoweredProgram(
        graph,
        host,
        passes,
        Program(graph, backend, host, single=signature.single and not failures),
        tuple(sorted(baked)),
        () if failures else _donated_inputs(signature, graph, host),
        _fresh(signature, graph),
        failures,
    )


def problems(signature: Signature) -> list[GraphcError]:
    """Return the errors that keep a graph from being compiled."""
    mode = signature.mode
    graph = blank(signature.graph, signature.leaves())
    graph = graph if mode.backend.keeps_implicit else densify_graph(graph)
    errors: list[GraphcError] = []
    try:
        check_shardings(graph, mode.mesh_axes)
    except ShardingError as error:
        errors.append(error)
    graph, _, _ = _prepare(graph, mode)
    host = None
    try:
        host = mode.backend.analyse(graph)
    except DynamicShapeError as error:
        errors.append(error)
    try:
        mode.backend.check(graph, host.nodes if host else (), mode.options)
    except UnsupportedOperationError as error:
        errors.append(error)
    return errors


def _prepare(
    graph: Graph, mode: Mode
) -> tuple[Graph, tuple[PassReport, ...], tuple[CheckFailure, ...]]:
    backend, options, axes = mode.backend, mode.options, mode.mesh_axes
    if options.get("check") is False:
        graph = without_checks(graph)
    if axes is None:
        graph = bypass(graph, Shard)
    graph, passes = _rewrite(graph, mode)
    graph = backend.prepare(inline(graph, backend), options)
    graph, failures = add_checks(graph, backend, options)
    if failures and axes is not None:
        # Every process reads the failures.
        graph = Graph(graph.inputs, [*graph.outputs[:-1], shard(graph.outputs[-1], ())])
    return inline(graph, backend) if failures else graph, passes, failures


def blank(graph: Graph, leaves: Sequence[Node]) -> Graph:
    """Return the graph with numbered inputs and slots, in which nothing holds a value.

    There every pair of commuting operands has a canonical order. A graph of plain inputs whose
    operands have it already is returned itself.
    """
    plain = not leaves and all(type(x.op) is Input for x in graph.inputs)
    if plain and not any(map(has_equal_operands, graph.nodes)):
        return graph
    new: dict[Node, Node] = {}
    for i, x in enumerate(graph.inputs):
        with derived_from(x.site):
            new[x] = Node.make(x.op.blank(i))  # type: ignore[attr-defined]
    for i, x in enumerate(leaves):
        with derived_from(x.site):
            new[x] = Node.make(Slot(i, x.type, x.name))
    return Graph([new[x] for x in graph.inputs], replace_nodes(graph.outputs, new))


def _rewrite(graph: Graph, mode: Mode) -> tuple[Graph, tuple[PassReport, ...]]:
    names = mode.excluded, mode.included
    graph = narrow_dtypes(graph, mode.backend.stand_ins(mode.options))
    done = optimize(graph, excluding=names[0], including=names[1])
    last = fuse(done.graph, mode.backend, select_rules(*names))
    return last.graph, (*done.passes, *last.passes)


def _fresh(signature: Signature, graph: Graph) -> tuple[bool, ...]:
    passed = set(graph.inputs) | set(graph.leaves)
    times = Counter(graph.outputs)
    return tuple(y not in passed and times[y] == 1 for y in _updates(signature, graph))


def _updates(signature: Signature, graph: Graph) -> tuple[Node, ...]:
    """Return the shared variables' new values; checks come after them."""
    return graph.outputs[signature.results : len(signature.graph.outputs)]


def _donated_inputs(signature: Signature, graph: Graph, host: Host | None) -> tuple[int, ...]:
    # A value that decides a shape is read on the host, NumPy's fallback can fail halfway, and wrong
    # lengths that follow from data are detected only after the program has run.
    if "fallback" in signature.mode.options or (host and host.follows):
        return ()
    live = {*graph.outputs, *(graph.inputs[i] for i in (host.inputs if host else ()))}
    updates = zip(signature.updated, _updates(signature, graph), strict=True)
    pairs = {i: (y, graph.inputs[i]) for i, y in updates if graph.inputs[i] not in live}
    donated = {i for i, pair in pairs.items() if _has_shape_of(*pair)}
    if len(donated) < len(pairs):
        checked = EqualLengths(graph.nodes)
        donated |= {i for i, pair in pairs.items() if checked.have_one_shape(*pair)}
    return tuple(sorted(donated))


def _has_shape_of(new: Node, old: Node) -> bool:
    """Return whether a new value, or an operand of its elementwise operation, has the old shape."""
    same = [new]
    if isinstance(new.op, Elementwise):
        same += [x for x in new.inputs if x.type.ndim == new.type.ndim and 1 not in x.type.shape]
    return any(lengths_of(x) == lengths_of(old) for x in same)
