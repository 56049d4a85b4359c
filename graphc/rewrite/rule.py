"""Rules: an equation between two graphs, or a function from a node to its replacement."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant, Input, Node, Op, TensorType, is_numeric
from graphc.rewrite.facts.lengths import fitted
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.tensor import Tensor

PASSES = ("canonicalize", "stabilize", "specialize")
"""The passes, in the order they run."""

LOOPS = "loops"
"""The stage after them, which sees who uses what."""

FUSE = "fuse"
"""The last stage, which puts operations that a backend has in the place of what they compute."""

Root = type[Op] | Op
F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, Rule] = {}
"""Every rule by its name, in the order entered."""

_users: set[str] = set()
"""The names of rules that are not graphc's own."""


def users_rules() -> set[str]:
    """Return the names of the rules that users entered; graphc's own come with a backend, too."""
    return _users & RULES.keys()


@dataclass(frozen=True, slots=True)
class Equation:
    """Two graphs of equal values, the better one on the right."""

    lhs: Tensor
    rhs: Tensor


class Rule:
    """A replacement of nodes by equal ones.

    Attributes:
        name: What reports call it; also what excludes it.
        step: The pass it belongs to.
        subject: The file or folder it stands in: that of its operations in ``tensor/``.
        meaning: What holds, in a line.
        optional: Whether it applies only where it is asked for by its name.
    """

    optional = False

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.step = step
        self.subject = function.__module__.removeprefix(f"{__package__}.rules.").partition(".")[0]
        self.meaning = (function.__doc__ or "").strip().partition("\n")[0]
        self.function = function

    @property
    def is_own(self) -> bool:
        """Whether it is graphc's, not a user's."""
        return self.function.__module__.startswith("graphc.")

    def __repr__(self) -> str:
        return f"{self.step}: {self.name}"

    @property
    def roots(self) -> tuple[Root, ...]:
        """The operations of the nodes that a rule is tried on: rows, or classes with subclasses."""
        raise NotImplementedError

    def concerns(self, node: Node) -> bool:
        """Whether the rule can apply to nodes of this operation with this ``sort``."""
        return True

    def apply(self, node: Node) -> Node | None:
        """Return a node that may stand for this one, or None."""
        raise NotImplementedError


def kind(node: Node) -> Root:
    """The key of patterns: the row of an elementwise node, the class of any other operation."""
    op = node.op
    return op if type(op) is Elementwise else type(op)


MOST_OPERANDS = 3
"""Nodes of more operands are told apart by which kinds there are among these."""


def sort(node: Node, numbers: Container[Any]) -> tuple[Any, ...]:
    """A key of nodes by which rules are chosen: the same rules may apply to all that share it.

    That is the kinds of the node and its operands, their dtype, whether two are one, and which of
    these numbers are among them.
    """
    op, inputs = node.op, node.inputs
    kinds: list[Any] = []
    for x in inputs:
        own = x.op
        form: Any = type(own)
        if form is Elementwise:
            form = own
        elif form is Constant:
            value = _number(own)
            form = (Constant, value) if value in numbers else Constant
        kinds.append(form)
    first: Any = type(op)
    if first is Elementwise:
        first = op
    dtype = None
    if inputs:
        wanted = inputs[0].type
        dtype = wanted.dtype if type(wanted) is TensorType else None
    if len(kinds) > MOST_OPERANDS:
        return first, dtype, frozenset(kinds)
    return first, dtype, len(kinds) == 2 and inputs[0] is inputs[1], *kinds


def _dtype(node: Node) -> str | None:
    """The dtype of the first operand, if there is one that has one."""
    wanted = node.inputs[0].type if node.inputs else None
    return wanted.dtype if type(wanted) is TensorType else None


class NodeRule(Rule):
    """A function of a node and its operation that gives the replacement, or None.

    Attributes:
        beside: The kinds that one of the operands must be of, where any others are not worth a
            look.
        dtypes: Which dtypes the first operand may have.
        only: The class that all operands must be of, where there is one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (what the decorator takes)
        self,
        step: str,
        roots: Sequence[Root],
        function: Callable[..., Any],
        beside: Sequence[Root] = (),
        dtypes: Callable[[str], bool] | None = None,
        optional: bool = False,
        only: type[Op] | None = None,
    ) -> None:
        super().__init__(step, function)
        self._roots = tuple(roots)
        self.beside = frozenset(beside)
        self.only = only
        self.dtypes = dtypes
        self.optional = optional

    @property
    def roots(self) -> tuple[Root, ...]:
        return self._roots

    def concerns(self, node: Node) -> bool:
        dtype = _dtype(node)
        if self.dtypes is not None and (dtype is None or not self.dtypes(dtype)):
            return False
        if self.only is not None and any(type(x.op) is not self.only for x in node.inputs):
            return False
        return not self.beside or any(self._is_beside(x.op) for x in node.inputs)

    def _is_beside(self, op: Op) -> bool:
        return (
            op in self.beside
            if type(op) is Elementwise
            else not self.beside.isdisjoint(type(op).__mro__)
        )

    def apply(self, node: Node) -> Node | None:
        if self.dtypes is not None and not self.dtypes(node.inputs[0].type.dtype):
            return None
        found: Node | None = self.function(node, node.op)
        return None if found is None or _is_less_known(found.type, node.type) else found


def _is_less_known(new: Any, old: Any) -> bool:
    """Whether it is the other type without lengths that are known there."""
    if new is old or type(new) is not TensorType or type(old) is not TensorType:
        return False
    return new.dtype == old.dtype and not old.admits(new) and new.admits(old)


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

    def concerns(self, node: Node) -> bool:
        bare = any(x in self.parameters for x in self.pattern.inputs)
        if not self.needed <= {kind(x) for x in node.inputs}:
            return False
        if self.number is not None and self.number not in map(number_of, node.inputs):
            return False
        if self.shared == (0, 0) and node.inputs[0] is not node.inputs[1]:
            return False
        dtype = _dtype(node)
        return not bare or (dtype is not None and self.dtypes(dtype))

    @cached_property
    def number(self) -> Any:
        """The constant among the pattern's inputs, if any: most nodes have another one."""
        return next(
            (_number(x.op) for x in self.pattern.inputs if isinstance(x.op, Constant)), None
        )

    @property
    def roots(self) -> tuple[Root, ...]:
        return (kind(self.pattern),)

    @cached_property
    def shared(self) -> tuple[int, int] | None:
        """How deep in the first and second operand a parameter stands that both have, if one does.

        Most nodes have no such operands, which is seen sooner than that the pattern is another.
        """
        operands = self.pattern.inputs
        if len(operands) != 2:
            return None
        for i, j in sorted(itertools.product(range(len(LEVELS)), repeat=2), key=sum):
            first, second = LEVELS[i](operands[0]), LEVELS[j](operands[1])
            if any(x in self.parameters for x in first if x in second):
                return i, j
        return None

    @cached_property
    def form(self) -> Form:
        """The operations of the pattern."""
        return _form(self.pattern)  # type: ignore[return-value]

    def apply(self, node: Node) -> Node | None:
        if not _has_form(node, self.form) or not self._may_match(node):
            return None
        if (self.absorbing or self.domain is not None) and _is_known_not_finite(node):
            return None
        for bound in _matches(self.pattern, node, {}):
            values = [bound[x] for x in self.parameters]
            if not all(self.dtypes(x.type.dtype) for x in values):
                continue
            made: Equation = self.function(*values)
            if made.lhs is node:
                return fitted(made.rhs, node)
        return None

    def _may_match(self, node: Node) -> bool:
        shared = self.shared
        if shared is None:
            return True
        a, b = node.inputs
        if shared == (0, 0):
            return a is b
        first, second = LEVELS[shared[0]], LEVELS[shared[1]]
        if _meet(first(a), second(b)):
            return True
        return node.op.is_commutative() and _meet(first(b), second(a))


def _is_known_not_finite(node: Node) -> bool:
    """Whether all elements of an elementwise result are known now, and are infinite or NaN."""
    values = [scalar_value(x) for x in node.inputs]
    if any(value is None for value in values):
        return False
    with np.errstate(all="ignore"):
        arrays = [np.array(v, x.type.numpy_dtype) for v, x in zip(values, node.inputs, strict=True)]
        return not np.isfinite(node.op.perform(*arrays))


Form = tuple[Op, bool, tuple[Any, ...]]
"""An operation, whether its operands may change places, and the forms of these; None is any."""


def _form(pattern: Node) -> Form | None:
    op = pattern.op
    if isinstance(op, Input | Constant):
        return None
    inner = tuple(map(_form, pattern.inputs))
    return op, op.is_commutative(), inner if any(inner) else ()


def _has_form(node: Node, form: Form) -> bool:
    """Whether the operations are those of a pattern: a quick look before it is matched."""
    op, commutes, inner = form
    if node.op is not op and node.op != op:
        return False
    if not inner:
        return True
    inputs = node.inputs
    return _have_forms(inputs, inner) or (commutes and _have_forms(inputs[::-1], inner))


def _have_forms(nodes: Sequence[Node], forms: Sequence[Form | None]) -> bool:
    # A loop, as this is where most attempts end.
    for x, form in zip(nodes, forms, strict=True):
        if form is not None and not _has_form(x, form):
            return False
    return True


LEVELS: tuple[Callable[[Node], Sequence[Node]], ...] = (
    lambda x: (x,),
    lambda x: x.inputs,
    lambda x: [z for y in x.inputs for z in y.inputs],
)
"""The nodes that are so many operations below a node."""


def _meet(first: Sequence[Node], second: Sequence[Node]) -> bool:
    # A loop, as this is where most attempts end.
    for x in first:  # noqa: SIM110
        if x in second:
            return True
    return False


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


class StageRule(Rule):
    """A change that is not one of a node by itself: its stage makes it where it is selected."""

    def __init__(self, step: str, subject: str, name: str, meaning: str) -> None:
        self.name = name
        self.step = step
        self.subject = subject
        self.meaning = meaning

    @property
    def is_own(self) -> bool:
        return True

    @property
    def roots(self) -> tuple[Root, ...]:
        return ()


LOOKED_THROUGH = (BroadcastTo, ExpandDims, Cast)

UNIFORM = (Constant, *LOOKED_THROUGH)
"""The kinds of arrays that ``scalar_value`` may know the one number of."""


def scalar_value(node: Node) -> Any:
    """The one number that all elements of a constant array are, or None.

    Example:
        >>> import graphc.tensor as gt
        >>> scalar_value(gt.zeros((3, 4))), scalar_value(gt.vector("x"))
        (0.0, None)
    """
    casts = []
    while isinstance(node.op, LOOKED_THROUGH):
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


def number_of(node: Node) -> Any:
    """The one number that all elements of a constant are; None where they differ, or of others."""
    return _number(node.op) if type(node.op) is Constant else None


@lru_cache(maxsize=4096)
def _number(op: Constant) -> Any:
    """The one number that all elements are, or None."""
    array = op.value
    if not op.shape:
        return array.item()
    if not array.size or op.data != op.data[: array.itemsize] * array.size:
        return None
    return array.reshape(-1)[0].item()


def _enter(rule: Rule) -> None:
    if rule.step not in {*PASSES, LOOPS, FUSE}:
        raise ArgumentError(f"{rule.name}: no pass {rule.step!r}.", f"Use {', '.join(PASSES)}.")
    if rule.name in RULES:
        raise ArgumentError(f"{rule.name}: there are two rules of this name.", "Rename one.")
    RULES[rule.name] = rule
    if not rule.is_own:
        _users.add(rule.name)


def stage_rule(step: str, subject: str, name: str, meaning: str) -> StageRule:
    """Enter a change that a stage makes.

    Args:
        step: The stage.
        subject: What it is about, as the files of rules are called.
        name: What reports call it; also what excludes it.
        meaning: What holds, in a line.

    Raises:
        ArgumentError: No such stage, or a second rule of this name.
    """
    rule = StageRule(step, subject, name, meaning)
    _enter(rule)
    return rule


def equation(
    step: str,
    *,
    dtypes: Callable[[str], bool] = is_numeric,
    absorbing: bool = False,
    domain: Callable[..., Tensor] | None = None,
) -> Callable[[F], F]:
    """Enter a function of arrays that gives an ``Equation``: its left side becomes its right.

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


def rewrite(
    step: str,
    *roots: Root,
    beside: Sequence[Root] = (),
    dtypes: Callable[[str], bool] | None = None,
    optional: bool = False,
    only: type[Op] | None = None,
) -> Callable[[F], F]:
    """Enter a function from a node and its operation to the replacement, or None.

    Args:
        step: The pass it belongs to.
        roots: The operations it is tried on: rows such as ``multiply``, or classes such as
            ``Sum``, whose subclasses count too.
        beside: Rows or classes, one of which an operand must have; any by default. It is not tried
            on other nodes.
        dtypes: Which dtypes the first operand may have; any by default.
        optional: Apply it only where it is asked for by its name, or a backend gains from it.
        only: The class that all operands must be of; any by default.

    Raises:
        ArgumentError: No such pass, or a second rule of this name.
    """

    def enter(function: F) -> F:
        _enter(NodeRule(step, roots, function, beside, dtypes, optional, only))
        return function

    return enter
