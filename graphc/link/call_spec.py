"""Call specifications: all that a call of an executable needs, without the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphc.ir import Buckets, Graph, Sharding, TensorType
from graphc.link.slices import length_graph

if TYPE_CHECKING:
    from graphc.link.host import Host


def asks_for_buckets(buckets: Sequence[Buckets | None], options: Mapping[str, Any]) -> bool:
    """Return whether the mode asks for buckets of lengths, or an input does and the mode may."""
    wanted = options.get("lengths")
    return wanted == "buckets" or (wanted is None and any(buckets))


@dataclass(frozen=True)
class CallSpec:
    """The interface of a program, which can be stored in a file.

    Attributes:
        arguments: The types of the arguments: the inputs, then the leaves.
        results: The types of the results.
        inputs: The number of arguments that are inputs.
        single: Whether the call returns its only result itself, and not a list.
        static: The positions of arguments whose values decide shapes.
        counts: The positions of static arguments that decide only numbers of steps.
        sliced: The positions of static arguments that decide only lengths of slices.
        lengths: The graph that computes the lengths of slices from all arguments; None if no
            argument is static.
        follows: Whether a shape depends on the number of steps that a loop does.
        facts: The backend's own data.
        shardings: The declared sharding of each argument over a mesh, or None.
        passed: The number of inputs that a call passes; the others are shared variables.
        buckets: The declared growth of the buckets of each argument's axes, or None.
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
    passed: int
    buckets: tuple[Buckets | None, ...]

    def is_padded(self, options: Mapping[str, Any]) -> bool:
        """Return whether lengths may be padded to buckets: no argument decides another shape."""
        # Narrow and unsigned integers wrap around at lengths that exist.
        wraps = any(self.arguments[i].dtype not in {"int32", "int64"} for i in self.counts)
        exact = wraps or {*self.static} - {*self.counts}
        unknown = any(None in x.shape for x in self.arguments[: self.passed]) or self.counts
        return bool(unknown and not exact and asks_for_buckets(self.buckets, options))

    @classmethod
    def of(
        cls,
        graph: Graph,
        host: Host | None,
        *,
        single: bool,
        facts: Mapping[str, Any],
        passed: int | None = None,
    ) -> CallSpec:
        """Return the specification of a graph.

        Args:
            graph: The graph.
            host: The part of the graph that is computed on the host, or None.
            single: Whether the call returns its only result itself, and not a list.
            facts: The backend's own data.
            passed: The number of inputs that a call passes (default: all).
        """
        return cls(
            tuple(x.type for x in (*graph.inputs, *graph.leaves)),
            tuple(y.type for y in graph.outputs),
            len(graph.inputs),
            single,
            host.inputs if host else (),
            host.counts if host else (),
            host.sliced if host else (),
            length_graph(graph, host.lengths) if host and host.inputs else None,
            host.follows if host else False,
            facts,
            tuple(getattr(x.op, "sharding", None) for x in (*graph.inputs, *graph.leaves)),
            len(graph.inputs) if passed is None else passed,
            tuple(getattr(x.op, "buckets", None) for x in (*graph.inputs, *graph.leaves)),
        )
