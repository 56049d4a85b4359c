"""A graph as one operation, with a name and optional user-defined derivatives.

The compiler expands it, unless the user keeps it as one operation. Until then it is one node, so
that a gradient finds the user's derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

from graphc import ir
from graphc.errors import GradientError, InvalidGraphError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, sum_by_node
from graphc.ir.line import Code, Writer, call
from graphc.loop.evaluate import evaluate
from graphc.loop.step import batch_inputs, close_graph, stand_in
from graphc.site import derived_from
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import sum as sum_of
from graphc.tensor.arrays.vectorize import batched as over_batch
from graphc.tensor.core.tensor import Tensor

Arrays = Sequence[Any]


class Derivatives(Protocol):
    """User-defined derivatives of a sub-graph.

    Derivatives are no part of a program: graphs that differ in them alone are equal when compiled.
    The captured nodes follow the arguments, wherever arguments appear here.
    """

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        """A function from the results' gradients, the results and the arguments to gradients.

        A gradient with respect to a discrete array is None, any other one an array. Gradients with
        respect to captured nodes may be missing: asking for them is an error.
        """

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        """A function from the arguments' tangents, the results and the arguments to tangents."""


@dataclass(frozen=True, slots=True)
class Subgraph(ir.Op):
    """A graph as one operation.

    The first inputs are the arguments; the others are nodes that the graph captured.

    Attributes:
        graph: A graph of formal parameters for all inputs.
        arguments: The number of arguments.
        label: The operation's name in messages and printed graphs.
        inline: Whether the operation is expanded before any rewrite.
        own: User-defined derivatives, or None.
    """

    graph: ir.Graph
    arguments: int
    label: str
    inline: bool = True
    own: Derivatives | None = None

    used: ClassVar[bool] = False
    """Whether a sub-graph was ever created: without one, no search is needed."""

    @property
    def name(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"Subgraph({'' if self.inline else 'kept'})"

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        return call(self.label, inputs, "", write)

    def token(self) -> str:
        name = "" if self.inline else ir.encode(self.label)
        return f"{type(self).__name__}({name},{self.graph.key()})"

    def key_and_numbers(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Return the name and the parameters without the graph, for reports of a difference."""
        return f"Subgraph {self.label}", (("inline", self.inline),)

    def graphs(self) -> tuple[ir.Graph, ...]:
        return (self.graph,)

    def with_graphs(self, graphs: Sequence[ir.Graph]) -> Subgraph:
        return replace(self, graph=graphs[0])

    def passes(self) -> Sequence[Sequence[int | None]]:
        return [range(len(self.graph.inputs))]

    def infer(self, *types: ir.TensorType) -> ir.TupleType:
        for i, (x, given_type) in enumerate(zip(self.graph.inputs, types, strict=True)):
            if not x.type.admits(given_type):
                raise InvalidGraphError(
                    f"{self.label} takes {x.type!r} at place {i}, and is given {given_type!r}."
                )
        Subgraph.used = True
        return ir.TupleType(tuple(y.type for y in self.graph.outputs))

    def perform(self, *values: Any) -> tuple[Any, ...]:
        return tuple(evaluate(self.graph, *values))

    def outputs_over(self, inputs: Sequence[ir.Node]) -> list[Any]:
        """Return the graph's outputs for these inputs."""
        return ir.replace_nodes(
            self.graph.outputs, dict(zip(self.graph.inputs, inputs, strict=True))
        )

    # Derivatives.

    def pullback_to(
        self, wanted: Sequence[bool], g: Sequence[Any], y: Any, *xs: Tensor
    ) -> Sequence[Any]:
        if self.own is not None and self.own.pullback is not None:
            return self._own_pullback(self.own.pullback, g, ir.picks(y), xs)
        indices = [j for j, part in enumerate(g) if part is not None]
        dummies = [stand_in(g[j], "cotangent") for j in indices]
        fresh, ys = self._with_new_inputs()
        chosen = [i for i, x in enumerate(fresh) if wanted[i] and _is_differentiable(x)]
        pairs = zip([ys[j] for j in indices], dummies, strict=True)
        gs = cotangents(sum_by_node(pairs), [fresh[i] for i in chosen])
        present = {i: part for i, part in zip(chosen, gs, strict=True) if part is not None}
        new = self._apply_like(
            "gradient of ", [*dummies, *fresh], [*[g[j] for j in indices], *xs],
            [*present.values()],
        )  # fmt: skip
        return _at_indices(new, [*present], len(xs))

    def _own_pullback(
        self, pullback: Callable[..., Arrays], g: Sequence[Any], ys: Arrays, xs: Sequence[Tensor]
    ) -> Sequence[Any]:
        """Return the user's gradients, with errors for missing gradients of captured nodes."""
        gs = [_or_zeros(part, y) for part, y in zip(g, ys, strict=True)]
        gradients = list(pullback(gs, ys, xs))
        if len(gradients) != len(xs):
            _check_number(self.label, "pullback", gradients, self.arguments, "arguments")
        return [*gradients, *(self._missing_gradient(x) for x in xs[len(gradients) :])]

    def _missing_gradient(self, x: Tensor) -> GradientError | None:
        if not _is_differentiable(x):
            return None
        return GradientError(
            f"{self.label} has a derivative of its own, which gives none by {x!r}: it was taken "
            "from outside.",
            "Pass it as an argument, or let no gradient through with graphc.disconnected_grad.",
            x.where,
        )

    def pushforward(self, tangents: Sequence[Any], y: Any, *xs: Tensor) -> Any:
        if self.own is not None:
            return self._own_pushforward(self.own, tangents, ir.picks(y), xs)
        indices = [i for i, t in enumerate(tangents) if t is not None]
        dummies = [stand_in(tangents[i], "tangent") for i in indices]
        fresh, ys = self._with_new_inputs()
        ts = push(ys, {fresh[i]: t for i, t in zip(indices, dummies, strict=True)})
        moved = [j for j, part in enumerate(ts) if part is not None]
        new = self._apply_like(
            "tangent of ", [*dummies, *fresh], [*[tangents[i] for i in indices], *xs],
            [ts[j] for j in moved],
        )  # fmt: skip
        return _at_indices(new, moved, len(ys))

    def _own_pushforward(
        self, own: Derivatives, tangents: Sequence[Any], ys: Arrays, xs: Sequence[Tensor]
    ) -> Any:
        if own.pushforward is None:
            return NotImplemented
        ts = list(own.pushforward(tangents, ys, xs))
        _check_number(self.label, "pushforward", ts, len(ys), "results")
        return ts

    def _apply_like(
        self,
        prefix: str,
        parameters: Sequence[Tensor],
        operands: Sequence[ir.Node],
        results: Sequence[Any],
    ) -> list[Tensor]:
        """Return results of the graph's nodes as an operation like this one."""
        like = replace(self, label=prefix + self.label, own=None)
        return apply_subgraph(like, parameters, operands, results) if results else []

    def _with_new_inputs(self) -> tuple[list[Tensor], list[Any]]:
        fresh = [stand_in(x) for x in self.graph.inputs]
        return fresh, self.outputs_over(fresh)

    # Batches.

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> tuple[Any, ...]:
        """Batch the graph and its derivatives."""
        fresh, ys = self._with_new_inputs()
        wide = batch_inputs(fresh, batched, size)
        depends = [self.own is not None or not wide.keys().isdisjoint(ir.toposort([y])) for y in ys]
        results = [
            a if flag else y for a, y, flag in zip(over_batch(ys, wide), ys, depends, strict=True)
        ]
        like = replace(self, own=self.own and _OverBatch(self.own, (*batched,)))
        return tuple(apply_subgraph(like, [wide.get(x, x) for x in fresh], xs, results))


@dataclass(frozen=True)
class _OverBatch:
    """User-defined derivatives over a batch; ``arguments`` says which arguments have its axis."""

    of: Derivatives
    arguments: tuple[bool, ...]

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        pullback = self.of.pullback
        return None if pullback is None else partial(self._pull_back, pullback)

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        pushforward = self.of.pushforward
        return None if pushforward is None else partial(self._push_forward, pushforward)

    def _pull_back(self, pullback: Any, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        """Return gradients; an argument without the batch's axis gets the sum over its elements."""
        wide, arguments = [True] * len(ys), xs[: len(self.arguments)]
        gs = _apply_each(pullback, [g, ys, arguments], [wide, wide, self.arguments])
        return [
            part if part is None or flag else sum_of(part, 0)
            for part, flag in zip(gs, self.arguments, strict=False)
        ]

    def _push_forward(self, pushforward: Any, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        n = len(self.arguments)
        flags = [self.arguments, [True] * len(ys), self.arguments]
        return _apply_each(pushforward, [tangents[:n], ys, xs[:n]], flags)


def _apply_each(
    function: Callable[..., Arrays], groups: Sequence[Arrays], flags: Sequence[Sequence[bool]]
) -> list[Any]:
    """Apply a function of single elements to a batch along axis 0; None stays None."""
    swaps: dict[Any, Tensor] = {}
    elements: list[list[Any]] = []
    for arrays, wide in zip(groups, flags, strict=True):
        row: list[Any] = []
        for x, flag in zip(arrays, wide, strict=True):
            element = stand_in(x, axes=1) if flag and x is not None else x
            if element is not x:
                swaps[element] = x
            row.append(element)
        elements.append(row)
    results = list(function(*elements))
    present = [i for i, y in enumerate(results) if y is not None]
    batched = over_batch([results[i] for i in present], swaps)
    return _at_indices(batched, present, len(results))


def _is_differentiable(x: ir.Node) -> bool:
    return ir.is_inexact(x.type.dtype)


def _or_zeros(part: Any, y: Any) -> Any:
    """Return the cotangent, zeros where there is none; None for a discrete array."""
    if not _is_differentiable(y):
        return None
    return zeros_like(y) if part is None else part


def _at_indices(values: Sequence[Any], indices: Sequence[int], n: int) -> list[Any]:
    """Return a list of a length with the values at indices, and None elsewhere."""
    by_index = dict(zip(indices, values, strict=True))
    return [by_index.get(i) for i in range(n)]


def _check_number(label: str, role: str, arrays: Arrays, expected: int, of: str) -> None:
    if len(arrays) != expected:
        raise GradientError(
            f"The {role} of {label} gave {len(arrays)} arrays for {expected} {of}.",
            f"Return one for each of the {of}, None where there is none.",
        )


def apply_subgraph(
    like: Subgraph,
    parameters: Sequence[Tensor],
    operands: Sequence[ir.Node],
    results: Sequence[Any],
) -> list[Tensor]:
    """Return results over ``parameters`` as one operation on ``operands``, like ``like``."""
    graph, outside = close_graph(parameters, results, {})
    return ir.picks(ir.Node.make(replace(like, graph=graph), *operands, *outside))


# Expansion.


def inline_subgraphs(outputs: Sequence[ir.Node], known: Collection[ir.Node] = ()) -> list[ir.Node]:
    """Expand the sub-graphs that are not kept, in nested graphs too; drop their derivatives."""
    return _expand(outputs, known, lambda op: op.inline, inside=True)


def expand_subgraphs(outputs: Sequence[ir.Node], known: Collection[ir.Node] = ()) -> list[ir.Node]:
    """Expand the sub-graphs without user-defined derivatives, but not in nested graphs."""
    return _expand(outputs, known, lambda op: op.inline and op.own is None, inside=False)


def _expand(
    outputs: Sequence[ir.Node],
    known: Collection[ir.Node],
    chosen: Callable[[Subgraph], bool],
    *,
    inside: bool,
) -> list[ir.Node]:
    """Expand chosen sub-graphs; with ``inside`` in nested graphs too."""
    order = ir.toposort(outputs, known) if Subgraph.used else []
    if not any(isinstance(x.op, Subgraph) or (inside and x.op.graphs()) for x in order):
        return list(outputs)
    done: dict[ir.Node, ir.Node] = {x: x for x in known}
    results: dict[ir.Node, Sequence[ir.Node]] = {}

    def within(graph: ir.Graph) -> list[ir.Node]:
        return _expand(graph.outputs, graph.inputs, chosen, inside=inside)

    for node in order:
        new = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
        if isinstance(new.op, Subgraph) and chosen(new.op):
            swaps = dict(zip(new.op.graph.inputs, new.inputs, strict=True))
            with derived_from(node.site):
                results[new] = ir.replace_nodes(within(new.op.graph), swaps)
        elif isinstance(new.op, ir.Pick) and new.inputs[0] in results:
            new = results[new.inputs[0]][new.op.index]
        elif inside and new.op.graphs():
            with derived_from(node.site):
                new = ir.Node.make(_expand_nested_graphs(new.op, within), *new.inputs)
        done[node] = new
    return [done[y] for y in outputs]


def _expand_nested_graphs(op: ir.Op, within: Callable[[ir.Graph], Sequence[ir.Node]]) -> ir.Op:
    nested = op.graphs()
    graphs = [ir.Graph(graph.inputs, within(graph)) for graph in nested]
    if isinstance(op, Subgraph):
        # No program needs derivatives, and they may refer to objects that cannot be saved.
        return replace(op, graph=graphs[0], own=None)
    return op if graphs == [*nested] else op.with_graphs(graphs)


# Sub-graphs come first: they may contain implicit arrays and loops.
ir.GATHERERS.insert(0, expand_subgraphs)
