"""What is checked when a program runs: conditions, indices, numbers.

Each check is a part of the graph, which so runs on any backend: a bool that is True where something
is wrong, in a vector of them that is one more output. A loop carries the vector of its step along,
and a branch gives that of the chosen one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import BoundsError, GraphcError, NaNError
from graphc.ir import (
    Constant,
    Graph,
    Leaf,
    Node,
    Pick,
    TensorType,
    derived_from,
    is_inexact,
    picks,
)
from graphc.link import Backend, Executable
from graphc.loop import Loop
from graphc.loop.branch import Switch
from graphc.loop.step import opened, stand_in, with_formals
from graphc.loop.subgraph import Subgraph
from graphc.tensor.assertion import CheckAndRaise, failed
from graphc.tensor.create import zeros
from graphc.tensor.elementwise import isfinite, isinf, isnan, logical_and, logical_not, logical_or
from graphc.tensor.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.join import concatenate
from graphc.tensor.reduce import all as all_of, any as any_of
from graphc.tensor.select import Within
from graphc.tensor.shape import length
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Told", "guarded", "raising", "without_checks"]


@dataclass(frozen=True)
class Told:
    """What is raised where a check fails.

    Attributes:
        kind: An exception of the user's, or one of graphc's.
        problem: What is wrong.
        remedy: What to do about it.
        where: The user's line.
    """

    kind: type[Exception]
    problem: str
    remedy: str
    where: str | None

    def error(self) -> GraphcError:
        """The exception."""
        kind: Any = self.kind
        made: GraphcError = failed(kind)(self.problem, self.remedy, self.where)
        return made


Wrong = list[tuple[Tensor, Sequence[Told]]]
"""Vectors of bools, and what is told of each element."""


def guarded(
    graph: Graph, backend: Backend, options: Mapping[str, Any]
) -> tuple[Graph, tuple[Told, ...]]:
    """The graph with one more output, which says what is wrong, and what is to be told.

    Where there is nothing to check, it is the graph itself.
    """
    guard = _Guard(
        # NumPy stops at them of its own accord.
        conditions=not backend.eager,
        bounds=bool(options.get("check")) and not backend.eager,
        bad=_bad(options),
    )
    if not guard.has_work(graph):
        return graph, ()
    wrong: Wrong = []
    swaps: dict[Node, Any] = {}
    for x in (*graph.inputs, *graph.leaves):
        swaps[x] = x
        what = "captured array" if isinstance(x.op, Leaf) else "argument"
        guard.number(x, x, f"The {what} {x!r}", wrong)
    outputs = guard.follow(graph, swaps, wrong)
    if not wrong:
        return Graph(graph.inputs, outputs), ()
    told = tuple(one for _, several in wrong for one in several)
    return Graph(graph.inputs, [*outputs, _vector(wrong)]), told


def without_checks(graph: Graph) -> Graph:
    """The graph without its conditions, also in what operations hold."""
    if not _any_node(graph, lambda node: isinstance(node.op, CheckAndRaise)):
        return graph
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node in done:
            continue
        inputs = [done[x] for x in node.inputs]
        if isinstance(node.op, CheckAndRaise):
            done[node] = inputs[0]
            continue
        held = node.op.graphs()
        op = node.op.with_graphs([without_checks(part) for part in held]) if held else node.op
        with derived_from(node.site):
            done[node] = Node.make(op, *inputs) if held else node.with_inputs(inputs)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def raising(
    execute: Executable, told: Sequence[Told], backend: Backend, *, single: bool
) -> Executable:
    """What executes a guarded program, and raises the first of what is wrong."""

    def run(*arguments: Any) -> Any:
        *results, wrong = execute(*arguments)
        try:
            flags = backend.numpy(wrong)
        except TypeError:
            flags = np.zeros(1, bool)  # JAX traces the call: nothing is known yet
        if flags.any():
            raise told[int(flags.argmax())].error()
        return results[0] if single else results

    return run


def _bad(options: Mapping[str, Any]) -> tuple[str, Callable[[Tensor], Tensor]] | None:
    """What numbers are refused, and which they are."""
    match bool(options.get("check_nan")), bool(options.get("check_inf")):
        case True, True:
            return "NaN or infinite", lambda x: logical_not(isfinite(x))
        case True, False:
            return "NaN", isnan
        case False, True:
            return "infinite", isinf
    return None


def _any_node(graph: Graph, holds: Callable[[Node], bool]) -> bool:
    return any(
        holds(node) or any(_any_node(part, holds) for part in node.op.graphs())
        for node in graph.nodes
    )


def _vector(wrong: Wrong) -> Tensor:
    return concatenate([flags for flags, _ in wrong])


@dataclass(frozen=True)
class _Guard:
    """Adds checks to graphs.

    Attributes:
        conditions: Whether conditions become checks.
        bounds: Whether indices are checked.
        bad: What numbers are refused, and which they are.
    """

    conditions: bool
    bounds: bool
    bad: tuple[str, Callable[[Tensor], Tensor]] | None

    def has_work(self, graph: Graph) -> bool:
        """Whether there may be something to check."""
        return self.bad is not None or _any_node(graph, self._concerns)

    def _concerns(self, node: Node) -> bool:
        op = node.op
        if isinstance(op, CheckAndRaise):
            return self.conditions
        return self.bounds and isinstance(op, Index | IndexUpdate | Within)

    def follow(self, graph: Graph, done: dict[Node, Any], wrong: Wrong) -> list[Any]:
        """The outputs with checks added on the way; what has several results becomes a list."""
        for node in graph.nodes:
            if node not in done:
                with derived_from(node.site):
                    done[node] = self._guarded(node, [done[x] for x in node.inputs], wrong)
        return [done[y] for y in graph.outputs]

    def _guarded(self, node: Node, inputs: Sequence[Any], wrong: Wrong) -> Any:
        op = node.op
        if isinstance(op, Constant):
            return node
        if isinstance(op, Pick) and isinstance(inputs[0], list):
            made: Any = inputs[0][op.index]
        elif isinstance(op, Loop):
            return self._loop(op, inputs, wrong)
        elif isinstance(op, Subgraph):
            given = dict(zip(op.graph.inputs, inputs, strict=True))
            return self.follow(op.graph, given, wrong)
        elif isinstance(op, Switch):
            return self._switch(op, inputs, wrong)
        elif isinstance(op, CheckAndRaise) and self.conditions:
            return self._condition(node, inputs, wrong)
        else:
            made = node.with_inputs(inputs)
        if self.bounds:
            self._bounds(node, inputs, wrong)
        self.number(node, made, f"{node!r}", wrong)
        return made

    # Checks.

    def number(self, node: Node, x: Any, what: str, wrong: Wrong) -> None:
        """Check that an array has no number that is refused."""
        if self.bad is None or not isinstance(node.type, TensorType):
            return
        if isinstance(node.op, Constant) or not is_inexact(node.type.dtype):
            return
        name, test = self.bad
        remedy = "Every value that goes into it is fine." if node.inputs else ""
        self._enter(any_of(test(x)), wrong, NaNError, f"{what} is {name} somewhere.", remedy, node)

    def _condition(self, node: Node, inputs: Sequence[Any], wrong: Wrong) -> Any:
        op: Any = node.op
        x, *conditions = inputs
        for condition in conditions:
            self._enter(logical_not(all_of(condition)), wrong, op.exc_type, op.msg, "", node)
        return x

    def _bounds(self, node: Node, inputs: Sequence[Any], wrong: Wrong) -> None:
        match node.op:
            case Index() as op:
                self._places(node, op, inputs[0], inputs[1:], wrong)
            case IndexUpdate() as op:
                self._places(node, Index(op.entries), inputs[0], inputs[2:], wrong)
            case Within(what=what):
                i, n = inputs
                outside = logical_or(i < 0, i >= n)
                text = f"{what}: a number is not from 0 on and below the length."
                self._enter(any_of(outside), wrong, BoundsError, text, _SHOW, node)

    def _places(
        self, node: Node, op: Index, x: Tensor, symbolic: Sequence[Tensor], wrong: Wrong
    ) -> None:
        for axis, i in _indices(op, symbolic):
            if i.dtype == "bool":
                continue
            n = as_tensor(length(x, axis), dtype="int64")
            i = i.astype("int64")
            outside = any_of(logical_or(i < -n, i >= n))
            text = f"{node!r}: an index is outside of axis {axis}."
            self._enter(outside, wrong, BoundsError, text, _SHOW, node)

    def _enter(
        self,
        flag: Tensor,
        wrong: Wrong,
        kind: type[Exception],
        problem: str,
        remedy: str,
        node: Node,
    ) -> None:
        wrong.append((flag.reshape((1,)), [Told(kind, problem, remedy, node.where)]))

    # Graphs that operations hold.

    def _loop(self, op: Loop, inputs: Sequence[Any], wrong: Wrong) -> list[Any]:
        """The results of a loop that carries what was wrong in any of its steps."""
        parameters, _ = opened(op.step)
        inner: Wrong = []
        outputs = self.follow(op.step, dict(zip(op.step.inputs, parameters, strict=True)), inner)
        n = op.carries
        if not inner:
            return picks(Node.make(op, *inputs))
        flags = _vector(inner)
        before = stand_in(flags)
        parameters.insert(n, before)
        # A NaN is carried on to the next step, where other operations would be blamed for it.
        first_time = logical_and(flags, logical_not(any_of(before)))
        outputs.insert(n, logical_or(before, first_time))
        made = replace(op, step=with_formals(parameters, outputs), carries=n + 1)
        first = (op.steps is None) + op.counted + n
        given = [*inputs[:first], zeros(flags.type.shape, dtype="bool"), *inputs[first:]]
        node = Node.make(made, *given)
        results = picks(node)
        told = [_within(op.title, one) for _, several in inner for one in several]
        wrong.append((results.pop(n), told))
        return results

    def _switch(self, op: Switch, inputs: Sequence[Any], wrong: Wrong) -> list[Any]:
        """The results of a branch, which says what was wrong in it."""
        found = [self._branch(branch) for branch in op.branches]
        sizes = [sum(len(told) for _, told in inner) for _, _, inner in found]
        if not any(sizes):
            return picks(Node.make(op, *inputs))
        branches = []
        for k, (parameters, outputs, inner) in enumerate(found):
            parts = [
                _vector(inner) if i == k and inner else zeros((size,), dtype="bool")
                for i, size in enumerate(sizes)
                if size
            ]
            branches.append(with_formals(parameters, [*outputs, concatenate(parts)]))
        node = Node.make(replace(op, branches=tuple(branches)), *inputs)
        results = picks(node)
        inside = [several for *_, inner in found for _, several in inner]
        told = [_within(op.title, one) for several in inside for one in several]
        wrong.append((results.pop(), told))
        return results

    def _branch(self, branch: Graph) -> tuple[list[Tensor], list[Any], Wrong]:
        parameters, _ = opened(branch)
        inner: Wrong = []
        done = dict(zip(branch.inputs, parameters, strict=True))
        return parameters, self.follow(branch, done, inner), inner


_SHOW = "mode='NUMPY' says which."


def _within(title: str, told: Told) -> Told:
    return replace(told, problem=f"In {title}: {told.problem}")


def _indices(op: Index, symbolic: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
    """The axes that integers index, and these."""
    values = iter(symbolic)
    axis = 0
    for entry in op.entries:
        if entry is HOLE:
            yield axis, next(values)
        elif isinstance(entry, Range):
            for _ in range(entry.parts.count(HOLE)):
                next(values)
        axis += entry is not None
