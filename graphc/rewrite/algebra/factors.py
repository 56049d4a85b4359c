"""Products and quotients of any nesting as factors, and products from factors.

A derivative multiplies what overflows by a share in it, with other factors between:
``exp(x) * (w * (g / (1 + exp(x))))``. Rules combine such pairs at any depth. The other factors stay
nested as they were, so that no other product can overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from graphc.ir import Node
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.facts.memo import Memo
from graphc.rewrite.rule import Root, kind, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.reduce import Sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, expand_dims
from graphc.tensor.core.tensor import constant

MAX_FACTORS = 12
"""Largest number of factors or terms; a longer product is split into this many."""

Path = tuple[int, ...]
Axes = tuple[tuple[int, ...], int]
"""New axes, and the rank of the array before them."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One factor of a product.

    Attributes:
        node: The factor, its axes aligned with the product's.
        below: Whether the product is divided by the factor.
        path: Indices of the inputs that lead from the product to the factor.
    """

    node: Any
    below: bool
    path: Path

    @property
    def kind(self) -> Root:
        """The key of rules for pairs; a sum with restored axes counts as a sum."""
        inner = self.node.inputs[0] if isinstance(self.node.op, ExpandDims) else self.node
        return Sum if isinstance(inner.op, Sum) else kind(self.node)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a factor, None for 1; ``moved`` if on the other side of the quotient."""

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
    """Return whether a product has a factor that may combine with others, at small depth."""
    return _distance(y, 0) <= MAX_FACTORS


def _distance(y: Node, depth: int) -> int:
    distance = _distances.get(y)
    if distance is None:
        if not _is_product(y, ()):
            return 0 if kind(y) in _NEEDED else MAX_FACTORS + 1
        if depth > MAX_FACTORS:
            return 0
        distance = 1 + min([_distance(x, depth + 1) for x in _operands(y)])
        _distances[y] = distance
    return distance


def together(a: Root, b: Root) -> Callable[[F], F]:
    """Enter a rule for two factors of these kinds: it returns a change for each, or None."""

    def enter(pair: F) -> F:
        _PARTNERS[a, b] = pair
        _STEEP.update((a, b))
        _NEEDED.add(a)
        return pair

    return enter


def cancelling(*kinds: Root) -> None:
    """Enter kinds whose quotient by themselves is 1, also for 0 and infinity."""
    _STEEP.update(kinds)
    _NEEDED.update(kinds)


def combine_factors(y: Node) -> Node | None:
    """Return a product with two factors combined, or one moved into a sum; None if neither."""
    if not is_steep(y):
        return None
    all_factors = factors(y)
    steep = [f for f in all_factors if f.kind in _STEEP]
    changes = _combine_two(steep) or _combine_in_sum(all_factors, steep)
    return rebuild(y, changes) if changes else None


def _combine_two(steep: Sequence[Factor]) -> dict[Path, Replacement]:
    for f, g in combinations(steep, 2):
        replacements = _combine(f, g)
        if replacements is not None:
            return {f.path: replacements[0], g.path: replacements[1]}
    return {}


def _combine(f: Factor, g: Factor) -> tuple[Replacement, Replacement] | None:
    if f.node is g.node and f.below != g.below:
        return GONE, GONE
    for first, second in ((f, g), (g, f)):
        pair = _PARTNERS.get((first.kind, second.kind))
        replacements = None if pair is None else pair(first, second)
        if replacements is not None:
            return replacements if first is f else replacements[::-1]
    return None


# Sums among the factors.


def _combine_in_sum(others: Sequence[Factor], steep: Sequence[Factor]) -> dict[Path, Replacement]:
    """Return changes that combine a factor with factors of the terms of a sum."""
    for total in others:
        if not steep or total.below or total.node.op not in _SUMS:
            continue
        summands = terms(total.node)
        split = [factors(x) for x, _ in summands]
        common = _common(split)
        for f in steep:
            for row in common:
                pair = _combine(f, row[0])
                if pair is not None:
                    rest = [
                        rebuild_any_type(x, {g.path: GONE})
                        for (x, _), g in zip(summands, row, strict=True)
                    ]
                    product = _multiply_by(_sum(rest, summands), pair[1], row[0])
                    return {f.path: pair[0], total.path: Replacement(product)}
            matches = [_first_match(f, row) for row in split]
            if any(matches):
                products = [
                    _multiply_term(x, f, m) for (x, _), m in zip(summands, matches, strict=True)
                ]
                return {f.path: GONE, total.path: Replacement(_sum(products, summands))}
    return {}


Match = tuple[Factor, tuple[Replacement, Replacement]]


def _first_match(f: Factor, candidates: Sequence[Factor]) -> Match | None:
    return next(((g, pair) for g in candidates if (pair := _combine(f, g)) is not None), None)


def _multiply_term(x: Node, f: Factor, match: Match | None) -> Any:
    if match is None:
        return _multiply_by(x, Replacement(f.node), f)
    g, (replacement, other) = match
    return _multiply_by(rebuild_any_type(x, {g.path: other}), replacement, f)


def _multiply_by(x: Any, change: Replacement, f: Factor) -> Any:
    if change.node is None:
        return x
    return ew.divide(x, change.node) if f.below != change.moved else ew.multiply(x, change.node)


def _common(split: Sequence[list[Factor]]) -> list[tuple[Factor, ...]]:
    """Return the factors that all terms share, each with its counterparts.

    Each factor counts once: ``a / b**2`` and ``c / b`` share one divisor.
    """
    first, *others = (list(row) for row in split)
    common = []
    for f in first:
        indices = [next((i for i, g in enumerate(rest) if _is_same(f, g)), None) for rest in others]
        if None not in indices:
            pairs = zip(others, indices, strict=True)
            common.append((f, *(rest.pop(i) for rest, i in pairs if i is not None)))
    return common


def _is_same(f: Factor, g: Factor) -> bool:
    return f.node is g.node and f.below == g.below


def _sum(xs: Sequence[Any], summands: Sequence[tuple[Node, bool]]) -> Any:
    total = -xs[0] if summands[0][1] else xs[0]
    for x, (_, is_subtracted) in zip(xs[1:], summands[1:], strict=True):
        total = total - x if is_subtracted else total + x
    return total


_SUMS = frozenset([ew.add, ew.subtract])


def terms(y: Node) -> list[tuple[Node, bool]]:
    """Return the terms of a sum, and whether each is subtracted."""
    result: list[tuple[Node, bool]] = []
    waiting = [(y, False)]
    while waiting:
        node, is_subtracted = waiting.pop()
        if node.op is ew.negative:
            waiting.append((node.inputs[0], not is_subtracted))
        elif node.op not in _SUMS or len(result) + len(waiting) >= MAX_FACTORS:
            result.append((node, is_subtracted))
        else:
            a, b = node.inputs
            waiting += [(b, is_subtracted != (node.op is ew.subtract)), (a, is_subtracted)]
    return result


# Products.


def factors(y: Node) -> list[Factor]:
    """Return the factors of a product, from left to right."""
    result: list[Factor] = []
    waiting: list[tuple[Node, bool, Path, tuple[Axes, ...]]] = [(y, False, (), ())]
    while waiting:
        node, below, path, restored = waiting.pop()
        if len(result) + len(waiting) >= MAX_FACTORS or not _is_product(node, restored):
            result.append(Factor(_restore_axes(node, restored), below, path))
            continue
        inner = _restored_below(node, restored)
        for i, x in reversed(list(enumerate(_operands(node)))):
            waiting.append((x, below != (i == 1 and node.op is ew.divide), (*path, i), inner))
    return result


_PRODUCTS = frozenset([ew.multiply, ew.divide, ew.negative, ew.square])


def _is_product(node: Node, restored: Sequence[Axes]) -> bool:
    op = node.op
    if type(op) is ew.Elementwise:
        return op in _PRODUCTS
    if isinstance(op, BroadcastTo):
        return not restored or node.inputs[0].type.ndim == node.type.ndim
    return isinstance(op, ExpandDims)


def _operands(node: Node) -> tuple[Node, ...]:
    if node.op is ew.square:
        return node.inputs * 2
    return node.inputs[:1] if isinstance(node.op, BroadcastTo) else node.inputs


def _restored_below(node: Node, restored: tuple[Axes, ...]) -> tuple[Axes, ...]:
    if isinstance(node.op, ExpandDims):
        return (*restored, (node.op.axes, node.inputs[0].type.ndim))
    return restored


def _restore_axes(x: Node, restored: Sequence[Axes]) -> Node:
    for axes, ndim in reversed(restored):
        if not x.type.ndim:
            break
        axes_of_x = [axis for axis in range(ndim + len(axes)) if axis not in axes][-x.type.ndim :]
        new = tuple(axis - axes_of_x[0] for axis in axes if axis > axes_of_x[0])
        x = expand_dims(x, new) if new else x
    return x


def rebuild(y: Node, changes: Mapping[Path, Replacement]) -> Any:
    """Return the product with factors replaced; None where its type would change."""
    return fit_to(rebuild_any_type(y, changes), y)


def rebuild_any_type(y: Node, changes: Mapping[Path, Replacement]) -> Any:
    """Return the product with factors replaced, nested as before; its rank may shrink."""
    result = _quotient(*_replace(y, (), changes, ()))
    return result if isinstance(result, Node) else constant(result, dtype=y.type.dtype)


def _replace(
    y: Node, path: Path, changes: Mapping[Path, Replacement], restored: tuple[Axes, ...]
) -> tuple[Any, Any]:
    change = changes.get(path)
    if change is not None:
        return (None, change.node) if change.moved else (change.node, None)
    if not any(other[: len(path)] == path for other in changes):
        return _restore_axes(y, restored), None
    inner = _restored_below(y, restored)
    operands = [_replace(x, (*path, i), changes, inner) for i, x in enumerate(_operands(y))]
    if len(operands) == 1:
        ((above, below),) = operands
        if y.op is ew.negative:
            above = -constant(1, dtype=y.type.dtype) if above is None else -above
        return above, below
    (a, a_below), (b, b_below) = operands
    if y.op is ew.divide:
        a = _product(a, b_below)
        return a if b is None else _quotient(a, b), a_below
    return _product(a, b), _product(a_below, b_below)


def _product(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else ew.multiply(a, b)


def _quotient(a: Any, b: Any) -> Any:
    a = 1 if a is None else a
    return a if b is None else ew.divide(a, b)


def multiple(x: Node) -> tuple[float, Node]:
    """Return a node as a number times another node."""
    c = 1.0
    while True:
        if x.op is ew.negative:
            c, (x,) = -c, x.inputs
            continue
        divides = x.op is ew.divide
        k = scalar_value(x.inputs[divides]) if divides or x.op is ew.multiply else None
        if not k:
            return c, x
        c, x = (c / k if divides else c * k), x.inputs[not divides]


def is_minus(a: Node, b: Node) -> bool:
    """Return whether two nodes are each other's negative by their form."""
    if a.op is ew.subtract and b.op is ew.subtract:
        return a.inputs == b.inputs[::-1]
    (c, x), (d, y) = multiple(a), multiple(b)
    return x is y and c == -d
