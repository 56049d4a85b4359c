"""Graphs inside operations, choices between graphs, and minima and roots of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.elementwise import Converter
from graphc.interop.wrap import wrap_jax
from graphc.ir import is_inexact, replace_nodes
from graphc.loop.choices import ifelse as choose
from graphc.loop.from_graph import OpFromGraph
from graphc.loop.step import stand_in
from graphc.optimize import minimize, minimize_scalar, root, root_scalar
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.interop.pytensor.convert import Conversion

OVERRIDES = (
    *("lop_overrides", "grad_overrides", "rop_overrides"),
    *("pullback_overrides", "pushforward_overrides"),
)
"""The attributes in which versions of PyTensor keep the user's derivatives of an OpFromGraph."""


def op_from_graph(at: Application, *xs: Any) -> Any:
    """Inline the graph, or make an operation of it where the user gave derivatives."""
    if all(getattr(at.op, name, None) is None for name in OVERRIDES):
        return at.inner(at.op.fgraph, xs)
    return with_own_pullback(at, xs, lambda parameters: at.inner(at.op.fgraph, parameters))


def with_own_pullback(at: Application, xs: Sequence[Any], build: Any) -> Any:
    """Return results with the gradient that PyTensor's operation defines."""
    parameters = [stand_in(x) for x in xs]
    pullback = OperationPullback(at.op, tuple(x.type for x in at.inputs), at.conversion)
    return OpFromGraph(parameters, build(parameters), pullback=pullback, name=str(at.op))(*xs)


class ByOperation:
    """A function that an operation of PyTensor defines, compared by operation and types.

    Attributes:
        op: The operation. It is compared by identity, as some operations have no hash.
        types: PyTensor's types of the inputs.
    """

    def __init__(self, op: Any, types: tuple[Any, ...]) -> None:
        self.op = op
        self.types = types

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        return other.op is self.op and bool(other.types == self.types)

    def __hash__(self) -> int:
        return id(self.op)

    @property
    def __name__(self) -> str:
        return str(self.op)


class OperationPullback(ByOperation):
    """The gradient that an operation of PyTensor defines, as a gradient of ``OpFromGraph``."""

    def __init__(self, op: Any, types: tuple[Any, ...], conversion: Conversion) -> None:
        super().__init__(op, types)
        self.conversion = conversion

    def __call__(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], gradients: Sequence[Any]
    ) -> list[Tensor | None]:
        xs = [type() for type in self.types]
        ys = self.op.make_node(*xs).outputs
        gs = [y.type() for y in ys]
        define = getattr(self.op, "pullback", None) or self.op.L_op
        results = define(xs, ys, gs)
        cotangents = [
            gt.zeros_like(y) if g is None else g for y, g in zip(outputs, gradients, strict=True)
        ]
        values = dict(zip([*xs, *ys, *gs], [*inputs, *outputs, *cotangents], strict=True))
        wanted = [g for g in results if hasattr(g.type, "dtype")]
        converted = iter(self.conversion.outputs(wanted, values))
        return [
            next(converted) if hasattr(g.type, "dtype") else _without_gradient(g, x)
            for g, x in zip(results, inputs, strict=True)
        ]


def _without_gradient(gradient: Any, x: Tensor) -> Tensor | None:
    """Return NaN for a gradient that PyTensor's operation does not define, None for none."""
    is_undefined = type(gradient.type).__name__ == "NullType" and is_inexact(x.dtype)
    return gt.full_like(x, np.nan) if is_undefined else None


def ifelse(at: Application, condition: Tensor, *branches: Tensor) -> list[Tensor]:
    """Return one branch or the other; only the operands of the chosen one are computed."""
    n = len(branches) // 2
    return list(choose(_truth(condition), branches[:n], branches[n:]))


def lazy_ifelse(at: Application, condition: Tensor, *xs: Tensor) -> list[Tensor]:
    on_true, on_false = (
        tuple(at.inner(branch.fgraph, xs)) for branch in (at.op.true_branch, at.op.false_branch)
    )
    return list(choose(_truth(condition), on_true, on_false))


def _truth(condition: Tensor) -> Tensor:
    return condition if condition.dtype == "bool" else gt.not_equal(condition, 0)


def _solve(
    at: Application, xs: tuple[Tensor, ...], solve: Callable[..., Any], *options: str
) -> list[Any]:
    """Solve for the first input of the inner graph, whose first output is the objective."""
    x = stand_in(xs[0])
    (value, *_) = at.inner(at.op.fgraph, [x, *xs[1:]])
    chosen = {name: getattr(at.op, name) for name in options if hasattr(at.op, name)}
    keywords = dict(at.op.optimizer_kwargs)
    results = solve(value, x, method=at.op.method, optimizer_kwargs=keywords, **chosen)
    return replace_nodes(list(results), {x: xs[0]})


SUBGRAPHS: dict[str, Converter] = {
    "IfElse": ifelse,
    "LazyIfElse": lazy_ifelse,
    "OpFromGraph": op_from_graph,
    "JAXOp": lambda at, *xs: list(wrap_jax(at.op.jax_func)(*xs)),
    "Default": lambda at, x, otherwise: otherwise if x is None else x,
    # Minima and roots, by SciPy, with graphc's gradients.
    "MinimizeOp": lambda at, *xs: _solve(at, xs, minimize, "jac", "hess"),
    "MinimizeScalarOp": lambda at, *xs: _solve(at, xs, minimize_scalar),
    "RootOp": lambda at, *xs: _solve(at, xs, root, "jac"),
    "RootScalarOp": lambda at, *xs: _solve(at, xs, root_scalar, "jac", "hess"),
}
"""The converters of operations that hold graphs, by the names of their classes."""
