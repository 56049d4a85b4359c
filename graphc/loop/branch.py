"""A switch between branches, of which one is computed: the operation with its derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphc import ir
from graphc.errors import DTypeError, InvalidGraphError, RuntimeShapeError, ShapeError
from graphc.grad.barriers import disconnected_grad
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, sum_by_node
from graphc.ir.line import ATOM, PHRASE, Code, Writer, nth
from graphc.loop.evaluate import evaluate
from graphc.loop.step import Formal, Outer, batch_inputs, close_graph, stand_in
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.reduce import any as any_of, sum as sum_of
from graphc.tensor.arrays.vectorize import batched as over_batch
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import cast, clip, equal, logical_and, where as select
from graphc.tensor.core.tensor import Tensor, as_tensor


@dataclass(frozen=True, slots=True)
class Switch(ir.Op):
    """The results of one of several branches; the others are not computed.

    The first input is the branch's number, an integer or bool scalar; a number outside the range
    selects the nearest branch, on every backend. The other inputs are the operands of all branches.

    Attributes:
        branches: Graphs of the same formal parameters, with results of equal dtypes and ranks.
        label: The switch's name in messages.
    """

    branches: tuple[ir.Graph, ...]
    label: str | None = None
    name = "switch"

    def __repr__(self) -> str:
        arguments = [f"{self.label!r}"] if self.label else []
        return f"Switch({', '.join([*arguments, f'branches={len(self.branches)}'])})"

    @property
    def title(self) -> str:
        """The switch's name in messages."""
        return self.label or "ifelse"

    def as_code(self, inputs: Sequence[ir.Node], write: Writer) -> Code:
        return self.title, ATOM

    def result_as_code(self, index: int, inputs: Sequence[ir.Node], write: Writer) -> Code:
        ordinal = f"{nth(index)} " if len(self.branches[0].outputs) > 1 else ""
        return f"the {ordinal}result of {self.title}", PHRASE

    def graphs(self) -> tuple[ir.Graph, ...]:
        return self.branches

    def with_graphs(self, graphs: Sequence[ir.Graph]) -> Switch:
        return replace(self, branches=tuple(graphs))

    def passes(self) -> Sequence[Sequence[int | None]]:
        return [range(1, 1 + len(branch.inputs)) for branch in self.branches]

    def infer(self, index: ir.TensorType, *types: ir.TensorType) -> ir.TupleType:
        check_index(self.title, index)
        for branch in self.branches:
            expected = [x.type for x in branch.inputs]
            for i, (a, b) in enumerate(zip(expected, types, strict=True)):
                if not a.admits(b):
                    raise InvalidGraphError(
                        f"{self.title}: expected {a!r} as a branch's argument {i}, got {b!r}."
                    )
        results = zip(*(branch.outputs for branch in self.branches), strict=True)
        return ir.TupleType(tuple(common_type(self.title, ys) for ys in results))

    def unequal_shapes(self, shape: Any, other: Any, where: str | None) -> RuntimeShapeError:
        """Return the error for branches whose results differ in shape in a compiled program."""
        return RuntimeShapeError(
            f"{self.title}: one branch gives the shape {shape}, another {other}; a compiled "
            "program has one shape for both.",
            "Give both branches one shape, or use mode='NUMPY'.",
            where,
        )

    def chosen(self, index: Any) -> ir.Graph:
        """Return the branch that an index selects."""
        return self.branches[min(max(int(index), 0), len(self.branches) - 1)]

    def perform(self, index: Any, *values: Any) -> tuple[Any, ...]:
        return tuple(evaluate(self.chosen(index), *values))

    def pullback(self, g: Sequence[Any], y: Any, index: Tensor, *xs: Tensor) -> Sequence[Any]:
        """Switch between the branches' pullbacks."""
        present = {j: part for j, part in enumerate(g) if part is not None}
        dummies = {j: stand_in(part, "cotangent") for j, part in present.items()}
        fresh, outputs = self.with_new_inputs()
        gradients = [
            cotangents(sum_by_node((nodes[j], part) for j, part in dummies.items()), fresh)
            for nodes in outputs
        ]
        reached = [
            i
            for i, x in enumerate(fresh)
            if ir.is_inexact(x.dtype) and any(gs[i] is not None for gs in gradients)
        ]
        results = [[_or_zeros(gs[i], fresh[i]) for i in reached] for gs in gradients]
        ys = switch(self, index, [*dummies.values(), *fresh], [*present.values(), *xs], results)
        by_operand = dict(zip(reached, ys, strict=True))
        return [None, *(by_operand.get(i) for i in range(len(xs)))]

    def pushforward(
        self, tangents: Sequence[Any], y: Any, index: Tensor, *xs: Tensor
    ) -> Sequence[Any]:
        """Switch between the branches' pushforwards."""
        present = {i: t for i, t in enumerate(tangents[1:]) if t is not None}
        dummies = {i: stand_in(t, "tangent") for i, t in present.items()}
        fresh, outputs = self.with_new_inputs()
        by_input: dict[ir.Node, Tensor] = {fresh[i]: t for i, t in dummies.items()}
        derivatives = [push(ys, by_input) for ys in outputs]
        count = len(self.branches[0].outputs)
        moved = [j for j in range(count) if any(ts[j] is not None for ts in derivatives)]
        results = [
            [_or_zeros(ts[j], ys[j]) for j in moved]
            for ts, ys in zip(derivatives, outputs, strict=True)
        ]
        new = switch(self, index, [*dummies.values(), *fresh], [*present.values(), *xs], results)
        by_result = dict(zip(moved, new, strict=True))
        return [by_result.get(j) for j in range(count)]

    def batch(
        self, size: Any, batched: Sequence[bool], index: Tensor, *xs: Tensor
    ) -> tuple[Any, ...]:
        """Batch all branches; compute each of them where elements choose different ones."""
        if batched[0]:
            return tuple(self._batch_every_branch(size, batched[1:], index, xs))
        fresh, outputs = self.with_new_inputs()
        swaps = batch_inputs(fresh, batched[1:], size)
        over = [
            any(not swaps.keys().isdisjoint(ir.toposort([y])) for y in ys)
            for ys in zip(*outputs, strict=True)
        ]
        results = []
        for ys in outputs:
            wide = over_batch(ys, swaps)
            results.append([a if flag else y for a, y, flag in zip(wide, ys, over, strict=True)])
        return tuple(switch(self, index, [swaps.get(x, x) for x in fresh], xs, results))

    def _batch_every_branch(
        self, size: Any, batched: Sequence[bool], index: Tensor, xs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the results where each element of the batch has its own branch.

        All elements pass through every branch. An element that did not choose a branch takes the
        values of one that did, so that a branch meets no values that it excludes.
        """
        last = len(self.branches) - 1
        numbers = cast(index, "int64")
        results: list[Tensor] = []
        for k, branch in enumerate(self.branches):
            self._check_lengths(branch)
            chosen = equal(clip(numbers, 0, last), k)
            first = logical_and(chosen, equal(cumsum(cast(chosen, "int64")), 1))
            is_chosen = any_of(chosen)
            swaps: dict[Any, Tensor] = {}
            unbatched: dict[ir.Node, ir.Node] = {}
            for formal, x, flag in zip(branch.inputs, xs, batched, strict=True):
                if flag:
                    swaps[formal] = _fill_unchosen(chosen, first, x)
                elif ir.is_inexact(x.dtype):
                    unbatched[formal] = select(is_chosen, x, disconnected_grad(x))
                else:
                    unbatched[formal] = x
            ys = ir.replace_nodes(branch.outputs, unbatched)
            new = over_batch(ys, swaps) if swaps else [batch_of(as_tensor(y), size) for y in ys]
            results = (
                [
                    select(_expand_mask(chosen, y), y, old)
                    for y, old in zip(new, results, strict=True)
                ]
                if results
                else new
            )
        return results

    def _check_lengths(self, branch: ir.Graph) -> None:
        for a, b in zip(self.branches[0].outputs, branch.outputs, strict=True):
            pairs = zip(a.type.shape, b.type.shape, strict=True)
            if any(n != m and None not in {n, m} for n, m in pairs):
                raise ShapeError(
                    f"{self.title}: the elements of a batch choose different branches, whose "
                    f"results {a.type!r} and {b.type!r} differ in shape.",
                    "Let the branches give results of one shape.",
                    b.where,
                )

    def with_new_inputs(self) -> tuple[list[Tensor], list[list[ir.Node]]]:
        """Return new inputs for the formal parameters, and each branch's results over them."""
        formals = self.branches[0].inputs
        fresh = [stand_in(x) for x in formals]
        swaps: dict[ir.Node, ir.Node] = dict(zip(formals, fresh, strict=True))
        return fresh, [ir.replace_nodes(branch.outputs, swaps) for branch in self.branches]


def _or_zeros(part: Any, x: Any) -> Tensor:
    return zeros_like(x) if part is None else part


def _expand_mask(mask: Tensor, x: Tensor) -> Tensor:
    return expand_dims(mask, tuple(range(1, x.ndim)))


def _fill_unchosen(chosen: Tensor, first: Tensor, x: Tensor) -> Tensor:
    """Replace the elements that are not chosen by the first chosen one."""
    masked = select(_expand_mask(first, x), x, zeros_like(x))
    one = any_of(masked, 0) if x.dtype == "bool" else sum_of(masked, 0, dtype=x.dtype)
    other = disconnected_grad(one) if ir.is_inexact(x.dtype) else one
    return select(_expand_mask(chosen, x), x, expand_dims(other, 0))


def common_type(title: str, ys: Sequence[ir.Node]) -> ir.TensorType:
    """Return the type of a value that may be any of several arrays.

    An axis has a static length where the arrays agree on it.
    """
    first = ys[0].type
    for y in ys[1:]:
        if y.type.dtype == first.dtype and y.type.ndim == first.ndim:
            continue
        lines = [f"{x.type!r}" + (f" ({x.where})" if x.where else "") for x in (ys[0], y)]
        problem = f"{title}: one branch gives {lines[0]}, another {lines[1]}"
        if y.type.dtype != first.dtype:
            raise DTypeError(f"{problem}.", f"Cast one of them, as with .astype({first.dtype!r}).")
        raise ShapeError(f"{problem}: the ranks differ.", "Reshape one of them, or index it.")
    shapes = zip(*(y.type.shape for y in ys), strict=True)
    return first.with_shape(tuple(ns[0] if len(set(ns)) == 1 else None for ns in shapes))  # type: ignore[no-any-return]


def check_index(title: str, index: ir.TensorType) -> None:
    if index.ndim or not (index.dtype == "bool" or ir.is_integer(index.dtype)):
        raise DTypeError(
            f"{title}: the condition or index {index!r} is not a bool or integer scalar.",
            "Reduce it, as with gt.all or gt.any; compare a floating one with a number; for a "
            "choice element by element, use gt.where.",
        )


def switch(
    like: Switch,
    index: ir.Node,
    parameters: Sequence[Tensor],
    operands: Sequence[ir.Node],
    results: Sequence[Sequence[Any]],
) -> list[Tensor]:
    """Return a switch between the branches' results over ``parameters``, which get ``operands``."""
    if not results[0]:
        return []
    every = [y for ys in results for y in ys]
    used = set(ir.toposort(every))
    outer: dict[ir.Node, Outer] = {
        p: (x, 0) for p, x in zip(parameters, operands, strict=True) if p in used
    }
    body, captured = close_graph(list(outer), every, outer)
    n = len(results[0])
    branches = tuple(
        ir.Graph(body.inputs, body.outputs[i : i + n]) for i in range(0, len(every), n)
    )
    node = ir.Node.make(
        replace(like, branches=branches), index, *[x for x, _ in outer.values()], *captured
    )
    return [Tensor.make(ir.Pick(i), node) for i in range(n)]


# A choice is a switch whose branches are its operands. Users make no other switch.


def choice(index: ir.Node, *operands: ir.Node, label: str | None = None) -> Tensor:
    """Return the operand that ``index`` selects."""
    formals = [ir.Node.make(Formal(i, x.type)) for i, x in enumerate(operands)]
    branches = tuple(ir.Graph(formals, [x]) for x in formals)
    return Tensor.make(ir.Pick(0), ir.Node.make(Switch(branches, label), index, *operands))


def is_choice(node: ir.Node) -> bool:
    """Return whether a node is the result of ``choice``."""
    if not isinstance(node.op, ir.Pick) or not isinstance(node.inputs[0].op, Switch):
        return False
    branches = node.inputs[0].op.branches
    return len(branches) == len(branches[0].inputs) and all(
        branch.outputs == (x,) for branch, x in zip(branches, branches[0].inputs, strict=True)
    )
