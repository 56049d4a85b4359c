"""Rules: an equation between two graphs, or a function from a node to its replacement."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Constant, Input, Node, Op, TensorType, is_numeric, pprint
from graphc.rewrite.facts.lengths import fit_to
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.axes import ExpandDims
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.tensor import Tensor

PASSES = ("canonicalize", "stabilize", "specialize")
"""The passes, in the order they run."""

LOOPS = "loops"
"""The stage of loops, which sees the users of each node."""

FUSE = "fuse"
"""The last stage, which replaces subgraphs by fused operations of a backend."""

Root = type[Op] | Op
F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, Rule] = {}
"""Every rule by its name, in the order of their entry."""

_users: set[str] = set()
"""The names of rules that users entered."""


def users_rules() -> set[str]:
    """Return the names of the rules that users entered."""
    return _users & RULES.keys()


class Equation(NamedTuple):
    """Two graphs of equal values, the better one on the right."""

    lhs: Tensor
    rhs: Tensor


class Rule:
    """A replacement of nodes by equal ones.

    Attributes:
        name: The name in reports, and for exclusion.
        step: The pass.
        subject: The file or folder of the rule, with the name of its operations' in ``tensor/``.
        optional: Whether the rule applies only where it is included by its name.
    """

    optional = False

    def __init__(self, step: str, function: Callable[..., Any]) -> None:
        self.name = function.__name__
        self.step = step
        self.subject = function.__module__.removeprefix(f"{__package__}.rules.").partition(".")[0]
        self.function = function

    @cached_property
    def meaning(self) -> str:
        """The equation or statement, in one line."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def is_own(self) -> bool:
        """Whether the rule is graphc's, not a user's."""
        return self.function.__module__.startswith("graphc.")

    def __repr__(self) -> str:
        return f"{self.step}: {self.name}"

    @property
    def roots(self) -> tuple[Root, ...]:
        """The operations of the nodes to try the rule on: rows, or classes with subclasses."""
        raise NotImplementedError

    def concerns(self, node: Node) -> bool:
        """Return whether the rule can apply to nodes with this ``sort``."""
        return True

    def apply(self, node: Node) -> Node | None:
        """Return a replacement of a node, or None."""
        raise NotImplementedError


def kind(node: Node) -> Root:
    """Return the key of patterns: the row of an elementwise node, else the operation's class."""
    op = node.op
    return op if type(op) is Elementwise else type(op)


MAX_ORDERED_OPERANDS = 3
"""Largest number of operands whose order is part of a ``sort``; of more, the set of kinds is."""


def sort(node: Node, numbers: Container[Any]) -> tuple[Any, ...]:
    """Return a key that determines which rules may apply to a node.

    The key holds the kinds of the node and its operands, their dtype, whether two are one, and
    which of these numbers are among them.
    """
    op, inputs = node.op, node.inputs
    kinds: list[Any] = []
    for x in inputs:
        operand_op = x.op
        form: Any = type(operand_op)
        if form is Elementwise:
            form = operand_op
        elif form is Constant:
            value = _number(operand_op)
            form = (Constant, value) if value in numbers else Constant
        kinds.append(form)
    first: Any = type(op)
    if first is Elementwise:
        first = op
    dtype = None
    if inputs:
        first_type = inputs[0].type
        dtype = first_type.dtype if type(first_type) is TensorType else None
    if len(kinds) > MAX_ORDERED_OPERANDS:
        return first, dtype, frozenset(kinds)
    return first, dtype, len(kinds) == 2 and inputs[0] is inputs[1], *kinds


def _first_dtype(node: Node) -> str | None:
    first_type = node.inputs[0].type if node.inputs else None
    return first_type.dtype if type(first_type) is TensorType else None


class NodeRule(Rule):
    """A function from a node and its operation to the replacement, or None.

    Attributes:
        beside: The kinds one of which an operand must have; any if empty.
        dtypes: Predicate of the first operand's dtype, or None.
        only: The class of all operands' operations, or None.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (the decorator's parameters)
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
        dtype = _first_dtype(node)
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
        result: Node | None = self.function(node, node.op)
        return (
            None if result is None or _has_fewer_known_lengths(result.type, node.type) else result
        )


def _has_fewer_known_lengths(new: Any, old: Any) -> bool:
    if new is old or type(new) is not TensorType or type(old) is not TensorType:
        return False
    return new.dtype == old.dtype and not old.admits(new) and new.admits(old)


class EquationRule(Rule):
    """A function of arrays that returns both sides; its parameters match any node.

    The left side is matched by its wiring alone, then rebuilt from the matched nodes. Equal graphs
    are one object, so ``is`` tells whether dtypes, shapes and constants match too.

    Attributes:
        dtypes: Predicate of the parameters' dtypes.
        absorbing: Whether it holds only where the left side is finite: ``0 * inf`` is NaN.
        domain: A condition on the parameters, or None where the equation always holds.
        note: What ``meaning`` says after a row's equation: the numbers it holds for, the reason.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (the columns of a row)
        self,
        step: str,
        function: Callable[..., tuple[Tensor, Tensor]],
        dtypes: Callable[[str], bool] = is_numeric,
        absorbing: bool = False,
        domain: Callable[..., Tensor] | None = None,
        name: str = "",
        note: str = "",
    ) -> None:
        super().__init__(step, function)
        self.name = name or self.name
        self.dtypes = dtypes
        self.absorbing = absorbing
        self.domain = domain
        self.note = note

    @cached_property
    def meaning(self) -> str:
        if self.function.__doc__:
            return super().meaning
        sides = [re.sub(r"\b(\d+)\.0\b", r"\1", pprint(x)) for x in self.function(*self.parameters)]
        return f"``{sides[0]}`` is ``{sides[1]}``{self.note}."

    @cached_property
    def parameters(self) -> tuple[Tensor, ...]:
        """Scalar inputs, the parameters of the pattern."""
        dtype = next(d for d in ("float64", "int64", "complex128", "bool") if self.dtypes(d))
        names = inspect.signature(self.function).parameters
        return tuple(TensorType(dtype)(name) for name in names)

    @cached_property
    def pattern(self) -> Node:
        """The left side, of scalars."""
        lhs: Tensor = self.function(*self.parameters)[0]
        return lhs

    @cached_property
    def needed(self) -> frozenset[Root]:
        """Kinds that the node's operands must include."""
        return frozenset(kind(x) for x in self.pattern.inputs if not isinstance(x.op, Input))

    def concerns(self, node: Node) -> bool:
        bare = any(x in self.parameters for x in self.pattern.inputs)
        if not self.needed <= {kind(x) for x in node.inputs}:
            return False
        if self.number is not None and self.number not in map(number_of, node.inputs):
            return False
        if self.shared == (0, 0) and node.inputs[0] is not node.inputs[1]:
            return False
        dtype = _first_dtype(node)
        return not bare or (dtype is not None and self.dtypes(dtype))

    @cached_property
    def number(self) -> Any:
        """The first constant among the pattern's operands, or None."""
        return next(
            (_number(x.op) for x in self.pattern.inputs if isinstance(x.op, Constant)), None
        )

    @property
    def roots(self) -> tuple[Root, ...]:
        return (kind(self.pattern),)

    @cached_property
    def shared(self) -> tuple[int, int] | None:
        """Depths in the first and second operand of a parameter that both contain, or None.

        Most nodes share no such operand, which is a quicker test than matching.
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
        """Operations of the pattern."""
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
            lhs, rhs = self.function(*values)
            if _is_equal(lhs, node, set(values)):
                return fit_to(rhs, node)
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


def _is_equal(a: Node, b: Node, ends: Collection[Node]) -> bool:
    """Return whether nodes are equal up to the order of commuting operands above some nodes."""
    if a is b:
        return True
    if a.op != b.op or a.type is not b.type or a in ends or b in ends or not a.inputs:
        return False

    def are_equal(xs: Sequence[Node], ys: Sequence[Node]) -> bool:
        return all(_is_equal(x, y, ends) for x, y in zip(xs, ys, strict=True))

    return are_equal(a.inputs, b.inputs) or (
        a.op.is_commutative() and are_equal(a.inputs, b.inputs[::-1])
    )


def _is_known_not_finite(node: Node) -> bool:
    values = [scalar_value(x) for x in node.inputs]
    if any(value is None for value in values):
        return False
    with np.errstate(all="ignore"):
        arrays = [np.array(v, x.type.numpy_dtype) for v, x in zip(values, node.inputs, strict=True)]
        return not np.isfinite(node.op.perform(*arrays))


Form = tuple[Op, bool, tuple[Any, ...]]
"""An operation, whether it is commutative, and the forms of its operands; None matches any."""


def _form(pattern: Node) -> Form | None:
    op = pattern.op
    if isinstance(op, Input | Constant):
        return None
    inner = tuple(map(_form, pattern.inputs))
    return op, op.is_commutative(), inner if any(inner) else ()


def _has_form(node: Node, form: Form) -> bool:
    """Return whether a node has a pattern's operations: a quick test before matching."""
    op, commutes, inner = form
    if node.op is not op and node.op != op:
        return False
    if not inner:
        return True
    inputs = node.inputs
    return _have_forms(inputs, inner) or (commutes and _have_forms(inputs[::-1], inner))


def _have_forms(nodes: Sequence[Node], forms: Sequence[Form | None]) -> bool:
    # An explicit loop, as most attempts end here.
    for x, form in zip(nodes, forms, strict=True):
        if form is not None and not _has_form(x, form):
            return False
    return True


LEVELS: tuple[Callable[[Node], Sequence[Node]], ...] = (
    lambda x: (x,),
    lambda x: x.inputs,
    lambda x: [z for y in x.inputs for z in y.inputs],
)
"""Functions that return the nodes at each depth below a node."""


def _meet(first: Sequence[Node], second: Sequence[Node]) -> bool:
    # An explicit loop, as most attempts end here.
    for x in first:  # noqa: SIM110
        if x in second:
            return True
    return False


Bindings = Mapping[Node, Node]


def _matches(pattern: Node, node: Node, bound: Bindings) -> Iterator[Bindings]:
    op = pattern.op
    if isinstance(op, Input):
        previous = bound.get(pattern)
        if previous is None:
            yield {**bound, pattern: node}
        elif previous is node:
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
    for more_bound in _matches(patterns[0], nodes[0], bound):
        yield from _matches_all(patterns[1:], nodes[1:], more_bound)


class StageRule(Rule):
    """A change of more than one node, applied by its stage if selected."""

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
"""Kinds of arrays for which ``scalar_value`` may return a number."""


def scalar_value(node: Node) -> Any:
    """Return the number that all elements of a constant array equal, or None.

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
    """Return the number that all elements of a ``Constant`` equal; None for other nodes."""
    return _number(node.op) if type(node.op) is Constant else None


@lru_cache(maxsize=4096)
def _number(op: Constant) -> Any:
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
        subject: The subject, named as the files of rules.
        name: The name in reports, and for exclusion.
        meaning: The statement, in one line.

    Raises:
        ArgumentError: If there is no such stage, or another rule has this name.
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
    """Enter a function of arrays that returns an ``Equation``: its left side becomes its right.

    Args:
        step: The pass.
        dtypes: Predicate of the parameters' dtypes (default: any numbers).
        absorbing: Whether the equation holds only where the left side is finite.
        domain: A condition on the parameters (default: the equation always holds).

    Raises:
        ArgumentError: If there is no such pass, or another rule has this name.
    """

    def enter(function: F) -> F:
        _enter(EquationRule(step, function, dtypes, absorbing, domain))
        return function

    return enter


def enter_equation(  # noqa: PLR0913 (the columns of a row)
    step: str,
    dtypes: Callable[[str], bool],
    name: str,
    sides: Callable[..., tuple[Tensor, Tensor]],
    note: str = "",
    *,
    scope: str = "",
    domain: Callable[..., Tensor] | None = None,
) -> None:
    """Enter an equation as a row: ``sides`` returns its left side, which becomes its right.

    The rule's meaning is the equation as ``pprint`` writes it, for the ``scope``, and the ``note``.
    """
    note = f" for {scope}{note}" if scope else note
    _enter(EquationRule(step, sides, dtypes, domain=domain, name=name, note=note))


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
        step: The pass.
        roots: The operations to try the rule on: rows such as ``multiply``, or classes such as
            ``Sum``, with their subclasses.
        beside: Rows or classes, one of which an operand must have (default: any); the rule is not
            tried on other nodes.
        dtypes: Predicate of the first operand's dtype (default: any dtype).
        optional: Whether to apply the rule only where it is included by its name, or by a backend.
        only: The class of all operands' operations (default: any).

    Raises:
        ArgumentError: If there is no such pass, or another rule has this name.
    """

    def enter(function: F) -> F:
        _enter(NodeRule(step, roots, function, beside, dtypes, optional, only))
        return function

    return enter
