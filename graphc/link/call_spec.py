"""Call specifications: all that a call of an executable needs to know, without the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphc.ir import Buckets, Graph, Sharding, TensorType
from graphc.link.slices import length_graph

if TYPE_CHECKING:
    from graphc.link.host import Host


@dataclass(frozen=True)
class CallSpec:
    """The interface of a program, which can be stored in a file.

    Attributes:
        arguments: The types of its arguments: its inputs, then its leaves.
        results: The types of what it gives.
        inputs: How many of the arguments are inputs.
        single: Whether its only result is returned itself, and not in a list.
        static: The arguments whose values decide shapes, by position.
        counts: The static arguments that decide numbers of steps alone.
        sliced: The static arguments that decide lengths of slices alone.
        lengths: The graph that computes these lengths from all arguments; None where there are
            none.
        follows: Whether a shape follows from how many steps a loop does.
        facts: What the backend wants to know.
        shardings: What is declared of each argument's sharding over a mesh.
        given: How many of the inputs are a call's own arguments; others are shared variables.
        buckets: For each argument how the buckets of its axes grow, where its input says it.
    """

    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    inputs: int
    single: bool
    static: tuple[int, ...]
    counts: tuple[int, ...]
    sliced: tuple[int, ...]
    lengths: Graph | None
    follows: bool
    facts: Mapping[str, Any]
    shardings: tuple[Sharding | None, ...]
    given: int
    buckets: tuple[Buckets | None, ...]

    @classmethod
    def of(
        cls,
        graph: Graph,
        host: Host | None,
        *,
        single: bool,
        facts: Mapping[str, Any],
        given: int | None = None,
    ) -> CallSpec:
        """That of a graph, given what of it is computed on the host.

        By default all of its inputs are a call's own arguments.
        """
        return cls(
            tuple(x.type for x in (*graph.inputs, *graph.leaves)),
            tuple(y.type for y in graph.outputs),
            len(graph.inputs),
            single,
            host.inputs if host else (),
            host.counts if host else (),
            host.sliced if host else (),
            length_graph(graph, host.lengths) if host and host.lengths else None,
            host.follows if host else False,
            facts,
            tuple(getattr(x.op, "sharding", None) for x in (*graph.inputs, *graph.leaves)),
            len(graph.inputs) if given is None else given,
            tuple(getattr(x.op, "buckets", None) for x in (*graph.inputs, *graph.leaves)),
        )
