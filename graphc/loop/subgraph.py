"""A graph as one operation, with a name and, optionally, derivatives of its own.

It is replaced by what it computes before a graph is compiled, unless it is to be kept. Until then
it stands for itself, so that a gradient finds the derivatives that the user gave it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

from graphc.errors import GradientError, InvalidGraphError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, summed
from graphc.ir import (
    GATHERERS,
    Graph,
    Node,
    Op,
    Pick,
    TensorType,
    TupleType,
    encode,
    is_inexact,
    picks,
    replaced,
    toposort,
)
from graphc.ir.line import Code, Writer, call
from graphc.loop.deciding import deciding
from graphc.loop.evaluate import evaluate
from graphc.loop.step import closed, stand_in, widened
from graphc.site import derived_from
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import sum as sum_of
from graphc.tensor.arrays.vectorize import batched as over_batch
from graphc.tensor.core.tensor import Tensor

Arrays = Sequence[Any]


class Derivatives(Protocol):
    """Derivatives of a sub-graph that are not made of what it computes.

    They are no part of a program: graphs that differ in them alone run alike. What the graph took
    from outside comes behind the arguments, wherever these are meant here.
    """

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        """The gradients by the arguments, given those by the results, the results, the arguments.

        A cotangent of what is not continuous is None, any other one an array. Gradients by what
        came from outside may be left out: to ask for them is an error.
        """

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        """The results' tangents, given the arguments' or None, the results, the arguments."""


@dataclass(frozen=True, slots=True)
class Subgraph(Op):
    """A graph as one operation.

    The first inputs are the arguments; the others are what the graph took from outside.

    Attributes:
        graph: Of formal parameters, which stand for the inputs.
        arguments: How many of the inputs are arguments.
        label: What messages and printed graphs call it.
        inline: Whether it is replaced by the graph before anything is rewritten.
        own: Derivatives of its own.
    """

    graph: Graph
    arguments: int
    label: str
    inline: bool = True
    own: Derivatives | None = None

    used: ClassVar[bool] = False
    """Whether there ever was one: all other programs are spared the search."""

    @property
    def name(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"Subgraph({'' if self.inline else 'kept'})"

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        return call(self.label, inputs, "", write)

    def token(self) -> str:
        name = "" if self.inline else encode(self.label)
        return f"{type(self).__name__}({name},{self.graph.key()})"

    def described(self) -> tuple[str, tuple[tuple[str, Any], ...]]:
        """Its name and parameters without the graph, for comparisons that report what changed."""
        return f"Subgraph {self.label}", (("inline", self.inline),)

    def graphs(self) -> tuple[Graph, ...]:
        return (self.graph,)

    def with_graphs(self, graphs: Sequence[Graph]) -> Subgraph:
        return replace(self, graph=graphs[0])

    def passes(self) -> Sequence[Sequence[int | None]]:
        return [range(len(self.graph.inputs))]

    def host_inputs(self) -> tuple[int, ...]:
        """The inputs whose values decide a shape in the graph."""
        return deciding(self)

    def infer(self, *types: TensorType) -> TupleType:
        for place, (x, given) in enumerate(zip(self.graph.inputs, types, strict=True)):
            if not x.type.admits(given):
                raise InvalidGraphError(
                    f"{self.label} takes {x.type!r} at place {place}, and is given {given!r}."
                )
        Subgraph.used = True
        return TupleType(tuple(y.type for y in self.graph.outputs))

    def perform(self, *values: Any) -> tuple[Any, ...]:
        return tuple(evaluate(self.graph, *values))

    def written_out(self, inputs: Sequence[Node]) -> list[Any]:
        """The results, made of these inputs without the operation."""
        return replaced(self.graph.outputs, dict(zip(self.graph.inputs, inputs, strict=True)))

    # Derivatives.

    def pullback(self, g: Sequence[Any], y: Any, *xs: Tensor) -> Sequence[Any]:
        return self.pullback_to([True] * len(xs), g, y, *xs)

    def pullback_to(
        self, wanted: Sequence[bool], g: Sequence[Any], y: Any, *xs: Tensor
    ) -> Sequence[Any]:
        if self.own is not None and self.own.pullback is not None:
            return self._own_pullback(self.own.pullback, g, picks(y), xs)
        given = [j for j, part in enumerate(g) if part is not None]
        dummies = [stand_in(g[j], "cotangent") for j in given]
        fresh, ys = self._opened()
        chosen = [i for i, x in enumerate(fresh) if wanted[i] and _moves(x)]
        pairs = zip([ys[j] for j in given], dummies, strict=True)
        parts = cotangents(summed(pairs), [fresh[i] for i in chosen])
        found = {i: part for i, part in zip(chosen, parts, strict=True) if part is not None}
        made = self._derived(
            "gradient of ", [*dummies, *fresh], [*[g[j] for j in given], *xs],
            [*found.values()],
        )  # fmt: skip
        return _placed(made, [*found], len(xs))

    def _own_pullback(
        self, pullback: Callable[..., Arrays], g: Sequence[Any], ys: Arrays, xs: Sequence[Tensor]
    ) -> Sequence[Any]:
        """The gradients as given; those by what came from outside may be missing."""
        parts = [_or_zeros(part, y) for part, y in zip(g, ys, strict=True)]
        found = list(pullback(parts, ys, xs))
        if len(found) != len(xs):
            _check_number(self.label, "pullback", found, self.arguments, "arguments")
        return [*found, *(self._untold(x) for x in xs[len(found) :])]

    def _untold(self, x: Tensor) -> GradientError | None:
        if not _moves(x):
            return None
        return GradientError(
            f"{self.label} has a derivative of its own, which gives none by {x!r}: it was taken "
            "from outside.",
            "Pass it as an argument, or let no gradient through with graphc.disconnected_grad.",
            x.where,
        )

    def pushforward(self, tangents: Sequence[Any], y: Any, *xs: Tensor) -> Any:
        if self.own is not None:
            return self._own_pushforward(self.own, tangents, picks(y), xs)
        given = [i for i, t in enumerate(tangents) if t is not None]
        dummies = [stand_in(tangents[i], "tangent") for i in given]
        fresh, ys = self._opened()
        found = push(ys, {fresh[i]: t for i, t in zip(given, dummies, strict=True)})
        moved = [j for j, part in enumerate(found) if part is not None]
        made = self._derived(
            "tangent of ", [*dummies, *fresh], [*[tangents[i] for i in given], *xs],
            [found[j] for j in moved],
        )  # fmt: skip
        return _placed(made, moved, len(ys))

    def _own_pushforward(
        self, own: Derivatives, tangents: Sequence[Any], ys: Arrays, xs: Sequence[Tensor]
    ) -> Any:
        if own.pushforward is None:
            return NotImplemented
        found = list(own.pushforward(tangents, ys, xs))
        _check_number(self.label, "pushforward", found, len(ys), "results")
        return found

    def _derived(
        self,
        what: str,
        parameters: Sequence[Tensor],
        operands: Sequence[Node],
        results: Sequence[Any],
    ) -> list[Tensor]:
        """Results made of what is in the graph, as an operation like this one."""
        like = replace(self, label=what + self.label, own=None)
        return applied(like, parameters, operands, results) if results else []

    def _opened(self) -> tuple[list[Tensor], list[Any]]:
        fresh = [stand_in(x) for x in self.graph.inputs]
        return fresh, self.written_out(fresh)

    # Batches.

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> tuple[Any, ...]:
        """The graph for the whole batch, and its derivatives for it."""
        fresh, ys = self._opened()
        wide = widened(fresh, batched, size)
        over = [self.own is not None or not wide.keys().isdisjoint(toposort([y])) for y in ys]
        made = [a if flag else y for a, y, flag in zip(over_batch(ys, wide), ys, over, strict=True)]
        like = replace(self, own=self.own and _OverBatch(self.own, (*batched,)))
        return tuple(applied(like, [wide.get(x, x) for x in fresh], xs, made))


@dataclass(frozen=True)
class _OverBatch:
    """Derivatives for each element of a batch, whose axis all results have.

    Attributes:
        of: Those of one element.
        arguments: Which arguments have the batch's axis.
    """

    of: Derivatives
    arguments: tuple[bool, ...]

    @property
    def pullback(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        pullback = self.of.pullback
        return None if pullback is None else partial(self._pulled_back, pullback)

    @property
    def pushforward(self) -> Callable[[Arrays, Arrays, Arrays], Arrays] | None:
        pushforward = self.of.pushforward
        return None if pushforward is None else partial(self._pushed, pushforward)

    def _pulled_back(self, pullback: Any, g: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        """Gradients; an argument shared by the whole batch gets the sum over its elements."""
        wide, own = [True] * len(ys), xs[: len(self.arguments)]
        found = _of_each(pullback, [g, ys, own], [wide, wide, self.arguments])
        return [
            part if part is None or flag else sum_of(part, 0)
            for part, flag in zip(found, self.arguments, strict=False)
        ]

    def _pushed(self, pushforward: Any, tangents: Arrays, ys: Arrays, xs: Arrays) -> Arrays:
        n = len(self.arguments)
        flags = [self.arguments, [True] * len(ys), self.arguments]
        return _of_each(pushforward, [tangents[:n], ys, xs[:n]], flags)


def _of_each(
    function: Callable[..., Arrays], given: Sequence[Arrays], flags: Sequence[Sequence[bool]]
) -> list[Any]:
    """Apply a function of single elements to a batch along a first axis; None stays None."""
    swaps: dict[Any, Tensor] = {}
    elements: list[list[Any]] = []
    for arrays, wide in zip(given, flags, strict=True):
        row: list[Any] = []
        for x, flag in zip(arrays, wide, strict=True):
            element = stand_in(x, axes=1) if flag and x is not None else x
            if element is not x:
                swaps[element] = x
            row.append(element)
        elements.append(row)
    found = list(function(*elements))
    present = [i for i, y in enumerate(found) if y is not None]
    made = over_batch([found[i] for i in present], swaps)
    return _placed(made, present, len(found))


def _moves(x: Node) -> bool:
    return is_inexact(x.type.dtype)


def _or_zeros(part: Any, y: Any) -> Any:
    """A cotangent where nothing arrives is zero; there is none of what is not continuous."""
    if not _moves(y):
        return None
    return zeros_like(y) if part is None else part


def _placed(parts: Sequence[Any], places: Sequence[int], number: int) -> list[Any]:
    """Parts at their places, and None elsewhere."""
    found = dict(zip(places, parts, strict=True))
    return [found.get(i) for i in range(number)]


def _check_number(label: str, what: str, found: Arrays, expected: int, of: str) -> None:
    if len(found) != expected:
        raise GradientError(
            f"The {what} of {label} gave {len(found)} arrays for {expected} {of}.",
            f"Return one for each of the {of}, None where there is none.",
        )


def applied(
    like: Subgraph, parameters: Sequence[Tensor], operands: Sequence[Node], results: Sequence[Any]
) -> list[Tensor]:
    """Results that are made of parameters, as one operation on operands.

    Args:
        like: All but the graph.
        parameters: Inputs that the results are made of, beside what else they refer to.
        operands: What these stand for.
        results: Arrays.
    """
    graph, outside = closed(parameters, results, {})
    return picks(Node.make(replace(like, graph=graph), *operands, *outside))


# Written out.


def inlined(outputs: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Outputs of equal values without the sub-graphs that are not to be kept.

    So too in the graphs that operations hold. What had derivatives of its own has its graph's.

    Args:
        outputs: Arrays.
        known: Nodes that stay as they are.
    """
    return _written_out(outputs, known, lambda op: op.inline, inside=True)


def opened(outputs: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Outputs in which sub-graphs without derivatives of their own are written out.

    Arguments as for ``inlined``.
    """
    return _written_out(outputs, known, lambda op: op.inline and op.own is None, inside=False)


def _written_out(
    outputs: Sequence[Node],
    known: Collection[Node],
    chosen: Callable[[Subgraph], bool],
    *,
    inside: bool,
) -> list[Node]:
    """Outputs without some sub-graphs; ``inside`` held graphs too."""
    order = toposort(outputs, known) if Subgraph.used else []
    if not any(isinstance(x.op, Subgraph) or (inside and x.op.graphs()) for x in order):
        return list(outputs)
    done: dict[Node, Node] = {x: x for x in known}
    results: dict[Node, Sequence[Node]] = {}

    def within(graph: Graph) -> list[Node]:
        return _written_out(graph.outputs, graph.inputs, chosen, inside=inside)

    for node in order:
        new = node.with_inputs([done[x] for x in node.inputs]) if node.inputs else node
        if isinstance(new.op, Subgraph) and chosen(new.op):
            swaps = dict(zip(new.op.graph.inputs, new.inputs, strict=True))
            with derived_from(node.site):
                results[new] = replaced(within(new.op.graph), swaps)
        elif isinstance(new.op, Pick) and new.inputs[0] in results:
            new = results[new.inputs[0]][new.op.index]
        elif inside and new.op.graphs():
            with derived_from(node.site):
                new = Node.make(_with_others_inside(new.op, within), *new.inputs)
        done[node] = new
    return [done[y] for y in outputs]


def _with_others_inside(op: Op, within: Callable[[Graph], Sequence[Node]]) -> Op:
    """An operation with other outputs of the graphs that it holds, if they are others."""
    held = op.graphs()
    graphs = [Graph(graph.inputs, within(graph)) for graph in held]
    if isinstance(op, Subgraph):
        # No program needs derivatives, and they may hold what cannot be written to disk.
        return replace(op, graph=graphs[0], own=None)
    return op if graphs == [*held] else op.with_graphs(graphs)


# Before anything else is done: what is in them may be implicit, or a loop.
GATHERERS.insert(0, opened)
