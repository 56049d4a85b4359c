"""Chains of matrix products: the order that takes the fewest multiplications.

Source: the recursion over where the last product is, S. Godbole, On efficient computation of matrix
chain products, IEEE Trans. Comput. 22, 1973.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphc.ir import Node
from graphc.rewrite.facts.matrices import MatrixFactor, factors_of
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import contracted

LONGEST = 12
"""How many factors are looked at: what is below is one factor."""


class Chain(NamedTuple):
    """A product of matrices of known lengths.

    Attributes:
        factors: From left to right.
        sizes: The rows of the first, and the columns of each.
        cost: How many multiplications it takes as it is written, each product counted once.
        last: How many of them the last product takes.
    """

    factors: tuple[MatrixFactor, ...]
    sizes: tuple[int, ...]
    cost: int
    last: int


def chain_of(node: Node) -> Chain | None:
    """The factors of a product of matrices of known lengths; None of other arrays."""
    first = factors_of(node)
    if first is None or not all(_is_plain(x) for x in (node, *(x for x, _ in first))):
        return None
    found, products = [MatrixFactor(node, False)], {}
    at = 0
    while at < len(found):
        x, turned = found[at]
        pair = factors_of(x) if len(found) < LONGEST and _is_plain(x) else None
        if pair is None or not all(_is_plain(part) for part, _ in pair):
            at += 1
            continue
        products[x] = _work(pair)
        a, b = pair
        found[at : at + 1] = [_turned(b), _turned(a)] if turned else [a, b]
    sizes = [_shape(found[0])[0], *(_shape(factor)[1] for factor in found)]
    return Chain(tuple(found), tuple(sizes), sum(products.values()), products[node])


def _is_plain(x: Node) -> bool:
    return x.type.ndim == 2 and bool(x.type.is_static)


def _turned(factor: MatrixFactor) -> MatrixFactor:
    return MatrixFactor(factor.x, not factor.turned)


def _shape(factor: MatrixFactor) -> tuple[int, int]:
    n, m = factor.x.type.shape
    return (m, n) if factor.turned else (n, m)


def _work(pair: Sequence[MatrixFactor]) -> int:
    (n, k), (_, m) = map(_shape, pair)
    return n * k * m


def least(sizes: Sequence[int]) -> tuple[int, dict[tuple[int, int], int]]:
    """The fewest multiplications, and where the last product of each stretch of factors is.

    Args:
        sizes: The rows of the first factor, and the columns of each.

    Example:
        >>> least([10, 100, 5, 50])[0]
        7500
    """
    n = len(sizes) - 1
    cost = {(i, i + 1): 0 for i in range(n)}
    place: dict[tuple[int, int], int] = {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            ways = {
                k: cost[i, k] + cost[k, j] + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j)
            }
            place[i, j] = min(ways, key=ways.__getitem__)
            cost[i, j] = ways[place[i, j]]
    return cost[0, n], place


def multiplied(factors: Sequence[MatrixFactor], place: dict[tuple[int, int], int]) -> Tensor:
    """The product of factors, in that order."""
    return _stretch(factors, place, 0, len(factors))


def _stretch(
    factors: Sequence[MatrixFactor], place: dict[tuple[int, int], int], i: int, j: int
) -> Tensor:
    k = place[i, j]
    (a, left), (b, right) = (
        factors[first]
        if last == first + 1
        else MatrixFactor(_stretch(factors, place, first, last), False)
        for first, last in ((i, k), (k, j))
    )
    rows, columns = ([1, 0] if left else [0, 1]), ([2, 1] if right else [1, 2])
    return contracted(a, rows, b, columns, [0, 2])  # type: ignore[arg-type]
