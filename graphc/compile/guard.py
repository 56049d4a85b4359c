"""Checks when a program runs: of conditions, indices and numbers.

Each check is a part of the graph, so that it runs on any backend: a row of a matrix that is one
more output. A row begins with a flag, True on failure; where indices are checked, the index and the
length of its axis follow. A loop carries the rows of its step, and a branch returns the rows of the
chosen branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import BoundsError, GraphcError, NaNError
from graphc.ir import Constant, Graph, Leaf, Node, Op, Pick, TensorType, is_inexact, picks
from graphc.link import Backend, Executable
from graphc.link.legalize import bypass, has_kind
from graphc.loop import Loop
from graphc.loop.branch import Switch
from graphc.loop.step import stand_in, with_formals, with_new_inputs
from graphc.loop.subgraph import Subgraph
from graphc.site import derived_from
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.arrays.reduce import all as all_of, any as any_of, max as max_of, min as min_of
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.assertion import CheckAndRaise, error_class
from graphc.tensor.core.elementwise import (
    cast,
    isfinite,
    isinf,
    isnan,
    logical_not,
    logical_or,
    where,
)
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True)
class CheckFailure:
    """The error of a failed check.

    Attributes:
        kind: An exception class, the user's or graphc's.
        problem: The error's first sentence; ``INDEX`` and ``SIZE`` are replaced by values.
        remedy: The remedy in the message.
        where: The user's line.
    """

    kind: type[Exception]
    problem: str
    remedy: str
    where: str | None

    def error(self, index: int, size: int) -> GraphcError:
        """Return the exception, given the index that is out of bounds and the size of its axis."""
        kind: Any = self.kind
        problem = self.problem
        if kind is BoundsError:
            problem = problem.replace(INDEX, str(index)).replace(SIZE, str(size))
        return error_class(kind)(problem, self.remedy, self.where)  # type: ignore[no-any-return]


INDEX, SIZE = "<index>", "<size>"

Checks = list[tuple[Tensor, Sequence[CheckFailure]]]
"""Matrices with a row for each check, and the error of each row."""


def add_checks(
    graph: Graph, backend: Backend, options: Mapping[str, Any]
) -> tuple[Graph, tuple[CheckFailure, ...]]:
    """Return a graph with one more output, its checks, and the error of each check.

    Without checks, the graph itself is returned.
    """
    guard = _Guard(
        # NumPy's own operations raise.
        conditions=not backend.eager,
        bounds=bool(options.get("check_bounds")) and not backend.eager,
        bad=_bad(options),
    )
    if not guard.has_work(graph):
        return graph, ()
    checks: Checks = []
    swaps: dict[Node, Any] = {}
    for x in (*graph.inputs, *graph.leaves):
        swaps[x] = x
        kind = "captured array" if isinstance(x.op, Leaf) else "argument"
        guard.number(x, x, f"The {kind} {x!r}", checks)
    outputs = guard.follow(graph, swaps, checks)
    if not checks:
        return Graph(graph.inputs, outputs), ()
    failures = tuple(one for _, several in checks for one in several)
    return Graph(graph.inputs, [*outputs, _rows(checks)]), failures


def without_checks(graph: Graph) -> Graph:
    """Return the graph without its conditions, those in loops and branches included."""
    return bypass(graph, CheckAndRaise)


def raising(
    execute: Executable, failures: Sequence[CheckFailure], backend: Backend, *, single: bool
) -> Executable:
    """Return an executable that raises the error of the first failed check of the program."""

    def run(*arguments: Any) -> Any:
        *results, failed_checks = execute(*arguments)
        try:
            rows = backend.numpy(failed_checks)
        except TypeError:
            rows = np.zeros((1, 1), bool)  # JAX traces the call: there are no values
        if rows[:, 0].any():
            i = int(rows[:, 0].argmax())
            index, size = rows[i, 1:].tolist() or (0, 0)
            raise failures[i].error(index, size)
        return results[0] if single else results

    return run


def _bad(options: Mapping[str, Any]) -> tuple[str, Callable[[Tensor], Tensor]] | None:
    """Return the name of the numbers that are refused, and a test for them."""
    match bool(options.get("check_nan")), bool(options.get("check_inf")):
        case True, True:
            return "NaN or infinite", lambda x: logical_not(isfinite(x))
        case True, False:
            return "NaN", isnan
        case False, True:
            return "infinite", isinf
    return None


def _rows(checks: Checks) -> Tensor:
    return concatenate([rows for rows, _ in checks])


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
        kinds: tuple[type[Op], ...] = (CheckAndRaise,) if self.conditions else ()
        kinds += (Index, IndexUpdate, CheckedIndices) if self.bounds else ()
        return self.bad is not None or has_kind(graph, kinds)

    def no_failures(self, count: int) -> Tensor:
        """Return the rows of ``count`` checks that do not fail."""
        return zeros((count, 3), dtype="int64") if self.bounds else zeros((count, 1), dtype="bool")

    def follow(self, graph: Graph, done: dict[Node, Any], checks: Checks) -> list[Any]:
        """Return the outputs and collect checks; an operation of several results becomes a list."""
        for node in graph.nodes:
            if node not in done:
                with derived_from(node.site):
                    done[node] = self._follow_node(node, [done[x] for x in node.inputs], checks)
        return [done[y] for y in graph.outputs]

    def _follow_node(self, node: Node, inputs: Sequence[Any], checks: Checks) -> Any:
        op = node.op
        if isinstance(op, Constant):
            return node
        if isinstance(op, Pick) and isinstance(inputs[0], list):
            copy: Any = inputs[0][op.index]
        elif isinstance(op, Loop):
            return self._loop(op, inputs, checks)
        elif isinstance(op, Subgraph):
            swaps = dict(zip(op.graph.inputs, inputs, strict=True))
            return self.follow(op.graph, swaps, checks)
        elif isinstance(op, Switch):
            return self._switch(op, inputs, checks)
        elif isinstance(op, CheckAndRaise) and self.conditions:
            return self._condition(node, inputs, checks)
        else:
            copy = node.with_inputs(inputs)
        if self.bounds:
            self._bounds(node, inputs, checks)
        self.number(node, copy, f"{node!r}", checks)
        return copy

    # Checks.

    def number(self, node: Node, x: Any, what: str, checks: Checks) -> None:
        """Add a check that an array has no refused number."""
        if self.bad is None or not isinstance(node.type, TensorType):
            return
        if isinstance(node.op, Constant) or not is_inexact(node.type.dtype):
            return
        name, test = self.bad
        remedy = "Every value that goes into it is fine." if node.inputs else ""
        failure = CheckFailure(NaNError, f"{what} is {name} somewhere.", remedy, node.where)
        self._enter(any_of(test(x)), failure, checks)

    def _condition(self, node: Node, inputs: Sequence[Any], checks: Checks) -> Any:
        op: Any = node.op
        x, *conditions = inputs
        for condition in conditions:
            failure = CheckFailure(op.exc_type, op.msg, "", node.where)
            self._enter(logical_not(all_of(condition)), failure, checks)
        return x

    def _bounds(self, node: Node, inputs: Sequence[Any], checks: Checks) -> None:
        match node.op:
            case Index() as op:
                self._index_bounds(node, op, inputs[0], inputs[1:], checks)
            case IndexUpdate() as op:
                self._index_bounds(node, Index(op.entries), inputs[0], inputs[2:], checks)
            case CheckedIndices(what=what):
                i, n = inputs
                problem = f"{what}: the number {INDEX} is not from 0 on and below {SIZE}."
                self._index(node, i, (0, n), problem, checks)

    def _index_bounds(
        self, node: Node, op: Index, x: Tensor, symbolic: Sequence[Tensor], checks: Checks
    ) -> None:
        for axis, i in _indices(op, symbolic):
            if i.dtype == "bool":
                continue
            n = as_tensor(length(x, axis), dtype="int64")
            problem = f"{node!r}: index {INDEX} is out of bounds for axis {axis} with size {SIZE}."
            self._index(node, i, (-n, n), problem, checks)

    def _index(
        self, node: Node, i: Tensor, limits: tuple[Any, Any], problem: str, checks: Checks
    ) -> None:
        """Add a check that integers are at least the first limit, and below the second."""
        i = i.astype("int64")
        first, end = limits
        highest, lowest = max_of(i, initial=-1), min_of(i, initial=0)
        is_high = highest >= end
        flag = logical_or(is_high, lowest < first)
        values = where(is_high, highest, lowest), end
        self._enter(flag, CheckFailure(BoundsError, problem, "", node.where), checks, values)

    def _enter(
        self, flag: Tensor, failure: CheckFailure, checks: Checks, values: tuple[Any, Any] = (0, 0)
    ) -> None:
        row = stack([cast(x, "int64") for x in (flag, *values)]) if self.bounds else flag
        checks.append((row.reshape((1, -1)), [failure]))

    # Nested graphs.

    def _loop(self, op: Loop, inputs: Sequence[Any], checks: Checks) -> list[Any]:
        """Return the results of a loop that carries the failed checks of its steps."""
        step, n = op.with_new_inputs(), op.carries
        inner: Checks = []
        outputs = self.follow(op.step, dict(zip(op.step.inputs, step.inputs, strict=True)), inner)
        if not inner:
            return picks(Node.make(op, *inputs))
        step = step.with_outputs(outputs)
        rows, failures = _rows(inner), [one for _, several in inner for one in several]
        before = stand_in(rows)
        # A NaN remains in the carry, and would be reported for operations of later steps.
        first_failed = where(any_of(cast(before[:, 0], "bool")), before, rows)
        wider = replace(step, carries=[*step.carries, before], nexts=[*step.nexts, first_failed])
        checked = replace(op, step=with_formals(wider.inputs, wider.outputs), carries=n + 1)
        first = (op.steps is None) + op.counted + n
        node = Node.make(checked, *inputs[:first], self.no_failures(len(failures)), *inputs[first:])
        results = picks(node)
        checks.append((results.pop(n), [_within(op.title, one) for one in failures]))
        return results

    def _switch(self, op: Switch, inputs: Sequence[Any], checks: Checks) -> list[Any]:
        """Return the results of a branch that also returns its failed checks."""
        traced = [self._branch(branch) for branch in op.branches]
        sizes = [sum(len(failures) for _, failures in inner) for _, _, inner in traced]
        if not any(sizes):
            return picks(Node.make(op, *inputs))
        branches = []
        for k, (parameters, outputs, inner) in enumerate(traced):
            rows = [
                _rows(inner) if i == k and inner else self.no_failures(size)
                for i, size in enumerate(sizes)
                if size
            ]
            branches.append(with_formals(parameters, [*outputs, concatenate(rows)]))
        node = Node.make(replace(op, branches=tuple(branches)), *inputs)
        results = picks(node)
        inside = [several for *_, inner in traced for _, several in inner]
        failures = [_within(op.title, one) for several in inside for one in several]
        checks.append((results.pop(), failures))
        return results

    def _branch(self, branch: Graph) -> tuple[list[Tensor], list[Any], Checks]:
        parameters, _ = with_new_inputs(branch)
        inner: Checks = []
        done = dict(zip(branch.inputs, parameters, strict=True))
        return parameters, self.follow(branch, done, inner), inner


def _within(title: str, failure: CheckFailure) -> CheckFailure:
    return replace(failure, problem=f"In {title}: {failure.problem}")


def _indices(op: Index, symbolic: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
    """Yield the axes that symbolic integers index, and these integers."""
    values = iter(symbolic)
    axis = 0
    for entry in op.entries:
        if entry is HOLE:
            yield axis, next(values)
        elif isinstance(entry, Range):
            for _ in range(entry.parts.count(HOLE)):
                next(values)
        axis += entry is not None
