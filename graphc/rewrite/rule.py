"""Rules: an equation between two graphs, or a function from a node to what may stand for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant, Input, Node, Op, TensorType, is_numeric
from graphc.rewrite.lengths import fitted
from graphc.tensor.elementwise import Cast, Elementwise
from graphc.tensor.shape import BroadcastTo, ExpandDims
from graphc.tensor.tensor import Tensor

__all__ = [
    "PASSES",
    "RULES",
    "Equation",
    "EquationRule",
    "NodeRule",
    "Rule",
    "equation",
    "kind",
    "rewrite",
    "scalar_value",
]

PASSES = ("canonicalize", "stabilize", "specialize")
"""The passes, in the order they run."""

Root = type[Op] | Op
F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, Rule] = {}
"""Every rule by its name, in the order entered."""


@dataclass(frozen=True, slots=True)
class Equation:
    """Two graphs of equal values; the right one is the better."""

    lhs: Tensor
    rhs: Tensor


class Rule:
    """What may stand for a node.

    Attributes:
        name: What reports call it; also what excludes it.
        step: The pass it belongs to.
        subject: The file it stands in, which is the file of its operations in ``tensor/``.
        meaning: What holds, in a line.
    """

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.step = step
        self.subject = function.__module__.rpartition(".")[2]
        self.meaning = (function.__doc__ or "").strip().partition("\n")[0]
        self.function = function

    def __repr__(self) -> str:
        return f"{self.step}: {self.name}"

    @property
    def roots(self) -> tuple[Root, ...]:
        """The operations of the nodes it is tried on: rows, or classes with their subclasses."""
        raise NotImplementedError

    def concerns(self, kinds: Collection[Root]) -> bool:
        """Whether it can apply to a node whose inputs are of these kinds."""
        return True

    def apply(self, node: Node) -> Node | None:
        """What may stand for the node, or None."""
        raise NotImplementedError


def kind(node: Node) -> Root:
    """What patterns tell nodes apart by: the row of an elementwise node, the class of others."""
    op = node.op
    return op if type(op) is Elementwise else type(op)


class NodeRule(Rule):
    """A function of a node and its operation that gives the replacement, or None."""

    def __init__(self, step: str, roots: Sequence[Root], function: Callable[..., Any]) -> None:
        super().__init__(step, function)
        self._roots = tuple(roots)

    @property
    def roots(self) -> tuple[Root, ...]:
        return self._roots

    def apply(self, node: Node) -> Node | None:
        found: Node | None = self.function(node, node.op)
        return found


class EquationRule(Rule):
    """A function of arrays that gives both sides; its parameters match anything.

    The left side is found by its wiring alone, then made anew of what was matched. Equal graphs
    are one object, so ``is`` tells whether dtypes, shapes and constants are right too.

    Attributes:
        dtypes: Which dtypes the parameters may have.
        absorbing: Whether it holds only where the left side is finite: ``0 * inf`` is NaN.
        domain: A condition on the parameters, where it does not hold everywhere.
    """

    def __init__(
        self,
        step: str,
        function: Callable[..., Any],
        dtypes: Callable[[str], bool] = is_numeric,
        absorbing: bool = False,
        domain: Callable[..., Tensor] | None = None,
    ) -> None:
        super().__init__(step, function)
        self.dtypes = dtypes
        self.absorbing = absorbing
        self.domain = domain

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """Scalars that stand for anything in the pattern."""
        dtype = next(d for d in ("float64", "int64", "complex128", "bool") if self.dtypes(d))
        names = inspect.signature(self.function).parameters
        return tuple(TensorType(dtype)(name) for name in names)

    @cached_property
    def pattern(self) -> Node:
        """The left side, made of scalars."""
        made: Equation = self.function(*self.parameters)
        return made.lhs

    @cached_property
    def needed(self) -> frozenset[Root]:
        """The kinds that must be among those of the node's inputs."""
        return frozenset(kind(x) for x in self.pattern.inputs if not isinstance(x.op, Input))

    def concerns(self, kinds: Collection[Root]) -> bool:
        return self.needed <= set(kinds)

    @cached_property
    def number(self) -> Any:
        """The constant among the pattern's inputs, if any: most nodes have another one."""
        return next(
            (_number(x.op) for x in self.pattern.inputs if isinstance(x.op, Constant)), None
        )

    @property
    def roots(self) -> tuple[Root, ...]:
        return (self.pattern.op,)

    @cached_property
    def repeats(self) -> bool:
        """Whether the pattern's two operands are one parameter."""
        operands = self.pattern.inputs
        return len(operands) == 2 and operands[0] is operands[1]

    def apply(self, node: Node) -> Node | None:
        if self.repeats and node.inputs[0] is not node.inputs[1]:
            return None
        number = self.number
        if number is not None and number not in [
            _number(x.op) for x in node.inputs if type(x.op) is Constant
        ]:
            return None
        for bound in _matches(self.pattern, node, {}):
            values = [bound[x] for x in self.parameters]
            if not all(self.dtypes(x.type.dtype) for x in values):
                continue
            made: Equation = self.function(*values)
            if made.lhs is node:
                return fitted(made.rhs, node)
        return None


Bindings = Mapping[Node, Node]


def _matches(pattern: Node, node: Node, bound: Bindings) -> Iterator[Bindings]:
    op = pattern.op
    if isinstance(op, Input):
        known = bound.get(pattern)
        if known is None:
            yield {**bound, pattern: node}
        elif known is node:
            yield bound
    elif isinstance(op, Constant):
        if isinstance(node.op, Constant) and _number(node.op) == _number(op):
            yield bound
    elif op == node.op:
        yield from _matches_all(pattern.inputs, node.inputs, bound)
        if isinstance(op, Elementwise) and op.commutes:
            yield from _matches_all(pattern.inputs, node.inputs[::-1], bound)


def _matches_all(
    patterns: Sequence[Node], nodes: Sequence[Node], bound: Bindings
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _matches(patterns[0], nodes[0], bound):
        yield from _matches_all(patterns[1:], nodes[1:], found)


def scalar_value(node: Node) -> Any:
    """The one number that all elements of a constant array are, or None.

    Example:
        >>> import graphc.tensor as gt
        >>> scalar_value(gt.zeros((3, 4))), scalar_value(gt.vector("x"))
        (0.0, None)
    """
    casts = []
    while isinstance(node.op, BroadcastTo | ExpandDims | Cast):
        if isinstance(node.op, Cast):
            casts.append(node.op)
        node = node.inputs[0]
    if not isinstance(node.op, Constant):
        return None
    value = _number(node.op)
    if value is None or not casts:
        return value
    array: Any = np.array(value, node.op.value.dtype)
    for cast in reversed(casts):
        array = cast.perform(array)
    return array.item()


@lru_cache(maxsize=4096)
def _number(op: Constant) -> Any:
    """The one number that all elements are, or None."""
    array = op.value
    if not array.size or op.data != op.data[: array.itemsize] * array.size:
        return None
    return array.reshape(-1)[0].item()


def _enter(rule: Rule) -> None:
    if rule.step not in PASSES:
        raise ArgumentError(f"{rule.name}: no pass {rule.step!r}.", f"Use {', '.join(PASSES)}.")
    if rule.name in RULES:
        raise ArgumentError(f"{rule.name}: there are two rules of this name.", "Rename one.")
    RULES[rule.name] = rule


def equation(
    step: str,
    *,
    dtypes: Callable[[str], bool] = is_numeric,
    absorbing: bool = False,
    domain: Callable[..., Tensor] | None = None,
) -> Callable[[F], F]:
    """Enter a function of arrays that gives an ``Equation``: wherever its left side, its right.

    Args:
        step: The pass it belongs to.
        dtypes: Which dtypes the parameters may have; numbers of any by default.
        absorbing: It holds only where the left side is finite.
        domain: A condition on the parameters, where it does not hold everywhere.

    Raises:
        ArgumentError: No such pass, or a second rule of this name.
    """

    def enter(function: F) -> F:
        _enter(EquationRule(step, function, dtypes, absorbing, domain))
        return function

    return enter


def rewrite(step: str, *roots: Root) -> Callable[[F], F]:
    """Enter a function from a node and its operation to what may stand for it, or None.

    Args:
        step: The pass it belongs to.
        roots: The operations it is tried on: rows such as ``multiply``, or classes such as
            ``Sum``, whose subclasses count too.

    Raises:
        ArgumentError: No such pass, or a second rule of this name.
    """

    def enter(function: F) -> F:
        _enter(NodeRule(step, roots, function))
        return function

    return enter
