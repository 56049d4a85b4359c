"""Checks when a program runs: of conditions, indices and numbers.

Each check is a part of the graph, so that it runs on any backend: a bool that is True on failure,
in a vector that is one more output. A loop carries the vector of its step, and a branch returns
that of the chosen branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import BoundsError, GraphcError, NaNError
from graphc.ir import Constant, Graph, Leaf, Node, Op, Pick, TensorType, is_inexact, picks
from graphc.link import Backend, Executable
from graphc.link.legalize import has_kind, without
from graphc.loop import Loop
from graphc.loop.branch import Switch
from graphc.loop.step import opened, stand_in, with_formals
from graphc.loop.subgraph import Subgraph
from graphc.site import derived_from
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import all as all_of, any as any_of
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.assertion import CheckAndRaise, failed
from graphc.tensor.core.elementwise import (
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    logical_or,
)
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True)
class CheckFailure:
    """The error of a failed check.

    Attributes:
        kind: An exception class, the user's or graphc's.
        problem: The error's first sentence.
        remedy: How to fix it.
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


Checks = list[tuple[Tensor, Sequence[CheckFailure]]]
"""Vectors of bools, True on failure, and the error of each element."""


def guarded(
    graph: Graph, backend: Backend, options: Mapping[str, Any]
) -> tuple[Graph, tuple[CheckFailure, ...]]:
    """Add an output to a graph that has its failed checks, and return it with their errors.

    Where there is nothing to check, it is the graph itself.
    """
    guard = _Guard(
        # NumPy's own operations raise.
        conditions=not backend.eager,
        bounds=bool(options.get("check")) and not backend.eager,
        bad=_bad(options),
    )
    if not guard.has_work(graph):
        return graph, ()
    checks: Checks = []
    swaps: dict[Node, Any] = {}
    for x in (*graph.inputs, *graph.leaves):
        swaps[x] = x
        what = "captured array" if isinstance(x.op, Leaf) else "argument"
        guard.number(x, x, f"The {what} {x!r}", checks)
    outputs = guard.follow(graph, swaps, checks)
    if not checks:
        return Graph(graph.inputs, outputs), ()
    failures = tuple(one for _, several in checks for one in several)
    return Graph(graph.inputs, [*outputs, _vector(checks)]), failures


def without_checks(graph: Graph) -> Graph:
    """The graph without its conditions, those in loops and branches included."""
    return without(graph, CheckAndRaise)


def raising(
    execute: Executable, failures: Sequence[CheckFailure], backend: Backend, *, single: bool
) -> Executable:
    """An executable of a guarded program that raises the error of its first failed check."""

    def run(*arguments: Any) -> Any:
        *results, failed_checks = execute(*arguments)
        try:
            flags = backend.numpy(failed_checks)
        except TypeError:
            flags = np.zeros(1, bool)  # JAX traces the call: nothing is known yet
        if flags.any():
            raise failures[int(flags.argmax())].error()
        return results[0] if single else results

    return run


def _bad(options: Mapping[str, Any]) -> tuple[str, Callable[[Tensor], Tensor]] | None:
    """The numbers that are refused: their name, and a test for them."""
    match bool(options.get("check_nan")), bool(options.get("check_inf")):
        case True, True:
            return "NaN or infinite", lambda x: logical_not(isfinite(x))
        case True, False:
            return "NaN", isnan
        case False, True:
            return "infinite", isinf
    return None


def _vector(checks: Checks) -> Tensor:
    return concatenate([flags for flags, _ in checks])


@dataclass(frozen=True)
class _Guard:
    """A pass that adds checks to graphs.

    Attributes:
        conditions: Whether conditions become checks.
        bounds: Whether indices are checked.
        bad: The numbers that are refused: their name, and a test for them.
    """

    conditions: bool
    bounds: bool
    bad: tuple[str, Callable[[Tensor], Tensor]] | None

    def has_work(self, graph: Graph) -> bool:
        """Whether there may be something to check."""
        kinds: tuple[type[Op], ...] = (CheckAndRaise,) if self.conditions else ()
        kinds += (Index, IndexUpdate, CheckedIndices) if self.bounds else ()
        return self.bad is not None or has_kind(graph, kinds)

    def follow(self, graph: Graph, done: dict[Node, Any], checks: Checks) -> list[Any]:
        """The outputs, with checks collected; an operation of several results becomes a list."""
        for node in graph.nodes:
            if node not in done:
                with derived_from(node.site):
                    done[node] = self._guarded(node, [done[x] for x in node.inputs], checks)
        return [done[y] for y in graph.outputs]

    def _guarded(self, node: Node, inputs: Sequence[Any], checks: Checks) -> Any:
        op = node.op
        if isinstance(op, Constant):
            return node
        if isinstance(op, Pick) and isinstance(inputs[0], list):
            made: Any = inputs[0][op.index]
        elif isinstance(op, Loop):
            return self._loop(op, inputs, checks)
        elif isinstance(op, Subgraph):
            given = dict(zip(op.graph.inputs, inputs, strict=True))
            return self.follow(op.graph, given, checks)
        elif isinstance(op, Switch):
            return self._switch(op, inputs, checks)
        elif isinstance(op, CheckAndRaise) and self.conditions:
            return self._condition(node, inputs, checks)
        else:
            made = node.with_inputs(inputs)
        if self.bounds:
            self._bounds(node, inputs, checks)
        self.number(node, made, f"{node!r}", checks)
        return made

    # Checks.

    def number(self, node: Node, x: Any, what: str, checks: Checks) -> None:
        """Add a check that an array has no number that is refused."""
        if self.bad is None or not isinstance(node.type, TensorType):
            return
        if isinstance(node.op, Constant) or not is_inexact(node.type.dtype):
            return
        name, test = self.bad
        remedy = "Every value that goes into it is fine." if node.inputs else ""
        self._enter(any_of(test(x)), checks, NaNError, f"{what} is {name} somewhere.", remedy, node)

    def _condition(self, node: Node, inputs: Sequence[Any], checks: Checks) -> Any:
        op: Any = node.op
        x, *conditions = inputs
        for condition in conditions:
            self._enter(logical_not(all_of(condition)), checks, op.exc_type, op.msg, "", node)
        return x

    def _bounds(self, node: Node, inputs: Sequence[Any], checks: Checks) -> None:
        match node.op:
            case Index() as op:
                self._places(node, op, inputs[0], inputs[1:], checks)
            case IndexUpdate() as op:
                self._places(node, Index(op.entries), inputs[0], inputs[2:], checks)
            case CheckedIndices(what=what):
                i, n = inputs
                outside = logical_or(i < 0, i >= n)
                text = f"{what}: a number is not from 0 on and below the length."
                self._enter(any_of(outside), checks, BoundsError, text, _REMEDY, node)

    def _places(
        self, node: Node, op: Index, x: Tensor, symbolic: Sequence[Tensor], checks: Checks
    ) -> None:
        for axis, i in _indices(op, symbolic):
            if i.dtype == "bool":
                continue
            n = as_tensor(length(x, axis), dtype="int64")
            i = i.astype("int64")
            outside = any_of(logical_or(i < -n, i >= n))
            text = f"{node!r}: an index is outside of axis {axis}."
            self._enter(outside, checks, BoundsError, text, _REMEDY, node)

    def _enter(
        self,
        flag: Tensor,
        checks: Checks,
        kind: type[Exception],
        problem: str,
        remedy: str,
        node: Node,
    ) -> None:
        checks.append((flag.reshape((1,)), [CheckFailure(kind, problem, remedy, node.where)]))

    # Graphs that operations hold.

    def _loop(self, op: Loop, inputs: Sequence[Any], checks: Checks) -> list[Any]:
        """The results of a loop that carries the failed checks of its steps."""
        step, n = op.opened(), op.carries
        inner: Checks = []
        outputs = self.follow(op.step, dict(zip(op.step.inputs, step.inputs, strict=True)), inner)
        if not inner:
            return picks(Node.make(op, *inputs))
        step = step.with_outputs(outputs)
        flags = _vector(inner)
        before = stand_in(flags)
        # A NaN stays in the carry, and operations of later steps would be blamed for it.
        first_time = logical_and(flags, logical_not(any_of(before)))
        wider = replace(
            step,
            carries=[*step.carries, before],
            nexts=[*step.nexts, logical_or(before, first_time)],
        )
        made = replace(op, step=with_formals(wider.inputs, wider.outputs), carries=n + 1)
        first = (op.steps is None) + op.counted + n
        given = [*inputs[:first], zeros(flags.type.shape, dtype="bool"), *inputs[first:]]
        node = Node.make(made, *given)
        results = picks(node)
        failures = [_within(op.title, one) for _, several in inner for one in several]
        checks.append((results.pop(n), failures))
        return results

    def _switch(self, op: Switch, inputs: Sequence[Any], checks: Checks) -> list[Any]:
        """The results of a branch that also returns its failed checks."""
        found = [self._branch(branch) for branch in op.branches]
        sizes = [sum(len(failures) for _, failures in inner) for _, _, inner in found]
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
        failures = [_within(op.title, one) for several in inside for one in several]
        checks.append((results.pop(), failures))
        return results

    def _branch(self, branch: Graph) -> tuple[list[Tensor], list[Any], Checks]:
        parameters, _ = opened(branch)
        inner: Checks = []
        done = dict(zip(branch.inputs, parameters, strict=True))
        return parameters, self.follow(branch, done, inner), inner


_REMEDY = "Run it with mode='NUMPY' to see which index."


def _within(title: str, failure: CheckFailure) -> CheckFailure:
    return replace(failure, problem=f"In {title}: {failure.problem}")


def _indices(op: Index, symbolic: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
    """The axes that symbolic integers index, and these integers."""
    values = iter(symbolic)
    axis = 0
    for entry in op.entries:
        if entry is HOLE:
            yield axis, next(values)
        elif isinstance(entry, Range):
            for _ in range(entry.parts.count(HOLE)):
                next(values)
        axis += entry is not None
