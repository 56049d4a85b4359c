"""Products and quotients of any nesting, taken apart into factors and put together again.

A derivative multiplies what overflows by a share in it, with other factors between:
``exp(x) * (w * (g / (1 + exp(x))))``. Pairs are found wherever they stand, and what they make
together takes their place; the rest stays nested as it was, so that nothing else can overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from graphc.ir import Node
from graphc.rewrite.facts.lengths import fitted
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.rule import Root, kind, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core.axes import ExpandDims, expand_dims
from graphc.tensor.core.elementwise import (
    Elementwise,
    add,
    divide,
    multiply,
    negative,
    square,
    subtract,
)
from graphc.tensor.core.tensor import constant

MOST = 12
"""How many factors or terms are looked at: larger products are taken apart as far as this."""

Path = tuple[int, ...]
Axes = tuple[tuple[int, ...], int]
"""Axes that are put back, and the rank of what they are put into."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One factor of a product.

    Attributes:
        node: What it is, its axes placed as in the whole.
        below: Whether the product is divided by it.
        path: By which inputs it is reached.
    """

    node: Any
    below: bool
    path: Path

    @property
    def kind(self) -> Root:
        """The key of rules for pairs; a sum whose axes were put back counts as a sum."""
        inner = self.node.inputs[0] if isinstance(self.node.op, ExpandDims) else self.node
        return Sum if isinstance(inner.op, Sum) else kind(self.node)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a factor, None for 1; ``moved``: on the other side of the quotient."""

    node: Any = None
    moved: bool = False


GONE = Replacement()
Pair = Callable[[Factor, Factor], tuple[Replacement, Replacement] | None]
F = TypeVar("F", bound=Pair)

_PARTNERS: dict[tuple[Root, Root], Pair] = {}
_STEEP: set[Root] = set()
_NEEDED: set[Root] = set()
"""Kinds one of which is in every pair."""

_distances = Memo[int]()


def is_steep(y: Node) -> bool:
    """Whether a product has a factor that pairs with others, not too far down."""
    return _distance(y, 0) <= MOST


def _distance(y: Node, depth: int) -> int:
    known = _distances.get(y)
    if known is None:
        if not _is_product(y, ()):
            return 0 if kind(y) in _NEEDED else MOST + 1
        if depth > MOST:
            return 0
        known = 1 + min([_distance(x, depth + 1) for x in _operands(y)])
        _distances[y] = known
    return known


def together(a: Root, b: Root) -> Callable[[F], F]:
    """Enter what two factors of these kinds make together: a change for each, or None."""

    def enter(pair: F) -> F:
        _PARTNERS[a, b] = pair
        _STEEP.update((a, b))
        _NEEDED.add(a)
        return pair

    return enter


def cancelling(*kinds: Root) -> None:
    """Enter kinds of factors whose quotients by themselves are 1, also where they are 0 or inf."""
    _STEEP.update(kinds)
    _NEEDED.update(kinds)


def merged(y: Node) -> Node | None:
    """The product with two of its factors made one, or a factor taken into a sum that needs it."""
    if not is_steep(y):
        return None
    found = factors(y)
    steep = [f for f in found if f.kind in _STEEP]
    changes = _paired(steep) or _shared(found, steep)
    return rebuilt(y, changes) if changes else None


def _paired(steep: Sequence[Factor]) -> dict[Path, Replacement]:
    for f, g in combinations(steep, 2):
        made = _pair(f, g)
        if made is not None:
            return {f.path: made[0], g.path: made[1]}
    return {}


def _pair(f: Factor, g: Factor) -> tuple[Replacement, Replacement] | None:
    """Return the replacements of two factors that combine."""
    if f.node is g.node and f.below != g.below:
        return GONE, GONE
    for first, second in ((f, g), (g, f)):
        pair = _PARTNERS.get((first.kind, second.kind))
        made = None if pair is None else pair(first, second)
        if made is not None:
            return made if first is f else made[::-1]
    return None


# Sums among the factors.


def _shared(found: Sequence[Factor], steep: Sequence[Factor]) -> dict[Path, Replacement]:
    """A factor meets one that all terms of a sum have, or that some of them have."""
    for total in found:
        if not steep or total.below or total.node.op not in _SUMS:
            continue
        parts = terms(total.node)
        split = [factors(x) for x, _ in parts]
        common = _common(split)
        for f in steep:
            for own in common:
                made = _pair(f, own[0])
                if made is not None:
                    rest = [remade(x, {g.path: GONE}) for (x, _), g in zip(parts, own, strict=True)]
                    whole = _times(_sum(rest, parts), made[1], own[0])
                    return {f.path: made[0], total.path: Replacement(whole)}
            met = [_met(f, own) for own in split]
            if any(met):
                inside = [_within(x, f, m) for (x, _), m in zip(parts, met, strict=True)]
                return {f.path: GONE, total.path: Replacement(_sum(inside, parts))}
    return {}


Met = tuple[Factor, tuple[Replacement, Replacement]]


def _met(f: Factor, others: Sequence[Factor]) -> Met | None:
    return next(((g, made) for g in others if (made := _pair(f, g)) is not None), None)


def _within(x: Node, f: Factor, met: Met | None) -> Any:
    """A term times a factor of the sum."""
    if met is None:
        return _times(x, Replacement(f.node), f)
    g, (own, other) = met
    return _times(remade(x, {g.path: other}), own, f)


def _times(x: Any, change: Replacement, f: Factor) -> Any:
    """A product with what stands for one of its factors."""
    if change.node is None:
        return x
    return divide(x, change.node) if f.below != change.moved else multiply(x, change.node)


def _common(split: Sequence[list[Factor]]) -> list[tuple[Factor, ...]]:
    """Factors that all terms have, each as it is found in every one of them.

    No factor of a term is found twice: ``a / b**2`` and ``c / b`` have one divisor in common.
    """
    first, *others = (list(found) for found in split)
    common = []
    for f in first:
        alike = [next((i for i, g in enumerate(own) if _is_same(f, g)), None) for own in others]
        if None not in alike:
            pairs = zip(others, alike, strict=True)
            common.append((f, *(own.pop(i) for own, i in pairs if i is not None)))
    return common


def _is_same(f: Factor, g: Factor) -> bool:
    return f.node is g.node and f.below == g.below


def _sum(xs: Sequence[Any], parts: Sequence[tuple[Node, bool]]) -> Any:
    total = -xs[0] if parts[0][1] else xs[0]
    for x, (_, away) in zip(xs[1:], parts[1:], strict=True):
        total = total - x if away else total + x
    return total


_SUMS = frozenset([add, subtract])


def terms(y: Node) -> list[tuple[Node, bool]]:
    """The terms of a sum, and whether each is taken away."""
    found: list[tuple[Node, bool]] = []
    waiting = [(y, False)]
    while waiting:
        node, away = waiting.pop()
        if node.op is negative:
            waiting.append((node.inputs[0], not away))
        elif node.op not in _SUMS or len(found) + len(waiting) >= MOST:
            found.append((node, away))
        else:
            left, right = node.inputs
            waiting += [(right, away != (node.op is subtract)), (left, away)]
    return found


# Products.


def factors(y: Node) -> list[Factor]:
    """The factors of a product, from left to right."""
    found: list[Factor] = []
    waiting: list[tuple[Node, bool, Path, tuple[Axes, ...]]] = [(y, False, (), ())]
    while waiting:
        node, below, path, placed = waiting.pop()
        if len(found) + len(waiting) >= MOST or not _is_product(node, placed):
            found.append(Factor(_placed(node, placed), below, path))
            continue
        inner = _inner(node, placed)
        for i, x in reversed(list(enumerate(_operands(node)))):
            waiting.append((x, below != (i == 1 and node.op is divide), (*path, i), inner))
    return found


_PRODUCTS = frozenset([multiply, divide, negative, square])


def _is_product(node: Node, placed: Sequence[Axes]) -> bool:
    op = node.op
    if type(op) is Elementwise:
        return op in _PRODUCTS
    if isinstance(op, BroadcastTo):
        return not placed or node.inputs[0].type.ndim == node.type.ndim
    return isinstance(op, ExpandDims)


def _operands(node: Node) -> tuple[Node, ...]:
    if node.op is square:
        return node.inputs * 2
    return node.inputs[:1] if isinstance(node.op, BroadcastTo) else node.inputs


def _inner(node: Node, placed: tuple[Axes, ...]) -> tuple[Axes, ...]:
    if isinstance(node.op, ExpandDims):
        return (*placed, (node.op.axes, node.inputs[0].type.ndim))
    return placed


def _placed(x: Node, placed: Sequence[Axes]) -> Node:
    """An operand of something that is given axes, with those among its own."""
    for axes, ndim in reversed(placed):
        if not x.type.ndim:
            break
        own = [axis for axis in range(ndim + len(axes)) if axis not in axes][-x.type.ndim :]
        new = tuple(axis - own[0] for axis in axes if axis > own[0])
        x = expand_dims(x, new) if new else x
    return x


def rebuilt(y: Node, changes: Mapping[Path, Replacement]) -> Any:
    """The product with other factors, nested as before; None where it can't be of y's type."""
    return fitted(remade(y, changes), y)


def remade(y: Node, changes: Mapping[Path, Replacement]) -> Any:
    """The product with other factors, nested as before, of fewer axes where it lost some."""
    made = _quotient(*_rebuilt(y, (), changes, ()))
    return made if isinstance(made, Node) else constant(made, dtype=y.type.dtype)


def _rebuilt(
    y: Node, path: Path, changes: Mapping[Path, Replacement], placed: tuple[Axes, ...]
) -> tuple[Any, Any]:
    change = changes.get(path)
    if change is not None:
        return (None, change.node) if change.moved else (change.node, None)
    if not any(other[: len(path)] == path for other in changes):
        return _placed(y, placed), None
    inner = _inner(y, placed)
    parts = [_rebuilt(x, (*path, i), changes, inner) for i, x in enumerate(_operands(y))]
    if len(parts) == 1:
        ((above, below),) = parts
        if y.op is negative:
            above = -constant(1, dtype=y.type.dtype) if above is None else -above
        return above, below
    (a, a_below), (b, b_below) = parts
    if y.op is divide:
        a = _product(a, b_below)
        return a if b is None else _quotient(a, b), a_below
    return _product(a, b), _product(a_below, b_below)


def _product(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else multiply(a, b)


def _quotient(a: Any, b: Any) -> Any:
    a = 1 if a is None else a
    return a if b is None else divide(a, b)


def multiple(x: Node) -> tuple[float, Node]:
    """A node as a number times another."""
    c = 1.0
    while True:
        if x.op is negative:
            c, (x,) = -c, x.inputs
            continue
        divides = x.op is divide
        k = scalar_value(x.inputs[divides]) if divides or x.op is multiply else None
        if not k:
            return c, x
        c, x = (c / k if divides else c * k), x.inputs[not divides]


def opposite(a: Node, b: Node) -> bool:
    """Whether two nodes are written as each other's negative."""
    if a.op is subtract and b.op is subtract:
        return a.inputs == b.inputs[::-1]
    (c, x), (d, y) = multiple(a), multiple(b)
    return x is y and c == -d
