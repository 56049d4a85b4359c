"""Chains of matrix products: the order that takes the fewest multiplications.

Source: the recursion over the position of the last product, S. Godbole, On efficient computation
of matrix chain products, IEEE Trans. Comput. 22, 1973.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from graphc.ir import Node
from graphc.rewrite.facts.matrices import MatrixFactor, factors_of
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import contract_axes

MAX_FACTORS = 12
"""Largest number of factors; deeper products count as one factor."""


class Chain(NamedTuple):
    """A product of matrices of known lengths.

    Attributes:
        factors: The matrices, from left to right.
        sizes: The rows of the first factor, and the columns of each.
        cost: Number of multiplications in the present order, each product counted once.
        last: Number of multiplications of the last product.
    """

    factors: tuple[MatrixFactor, ...]
    sizes: tuple[int, ...]
    cost: int
    last: int


def chain_of(node: Node) -> Chain | None:
    """Return a product of matrices of known lengths as a chain; None for other arrays."""
    first = factors_of(node)
    if first is None or not all(_is_plain(x) for x in (node, *(x for x, _ in first))):
        return None
    factors, products = [MatrixFactor(node, False)], {}
    i = 0
    while i < len(factors):
        x, is_transposed = factors[i]
        pair = factors_of(x) if len(factors) < MAX_FACTORS and _is_plain(x) else None
        if pair is None or not all(_is_plain(part) for part, _ in pair):
            i += 1
            continue
        products[x] = _multiplications(pair)
        a, b = pair
        factors[i : i + 1] = [_transpose(b), _transpose(a)] if is_transposed else [a, b]
    sizes = [_shape(factors[0])[0], *(_shape(factor)[1] for factor in factors)]
    return Chain(tuple(factors), tuple(sizes), sum(products.values()), products[node])


def _is_plain(x: Node) -> bool:
    return x.type.ndim == 2 and bool(x.type.is_static)


def _transpose(factor: MatrixFactor) -> MatrixFactor:
    return MatrixFactor(factor.x, not factor.transposed)


def _shape(factor: MatrixFactor) -> tuple[int, int]:
    n, m = factor.x.type.shape
    return (m, n) if factor.transposed else (n, m)


def _multiplications(pair: Sequence[MatrixFactor]) -> int:
    (n, k), (_, m) = map(_shape, pair)
    return n * k * m


def cheapest_splits(sizes: Sequence[int]) -> tuple[int, dict[tuple[int, int], int]]:
    """Return the fewest multiplications, and the split of each stretch of factors.

    Args:
        sizes: The rows of the first factor, and the columns of each.

    Example:
        >>> cheapest_splits([10, 100, 5, 50])[0]
        7500
    """
    n = len(sizes) - 1
    cost = {(i, i + 1): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k, j] + sizes[i] * sizes[k] * sizes[j] for k in range(i + 1, j)
            }
            splits[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[splits[i, j]]
    return cost[0, n], splits


def multiply_chain(factors: Sequence[MatrixFactor], splits: dict[tuple[int, int], int]) -> Tensor:
    """Return the product of factors, in the order that the splits give."""
    return _multiply_stretch(factors, splits, 0, len(factors))


def _multiply_stretch(
    factors: Sequence[MatrixFactor], splits: dict[tuple[int, int], int], i: int, j: int
) -> Tensor:
    k = splits[i, j]
    (a, a_transposed), (b, b_transposed) = (
        factors[first]
        if last == first + 1
        else MatrixFactor(_multiply_stretch(factors, splits, first, last), False)
        for first, last in ((i, k), (k, j))
    )
    rows, columns = ([1, 0] if a_transposed else [0, 1]), ([2, 1] if b_transposed else [1, 2])
    return contract_axes(a, rows, b, columns, [0, 2])  # type: ignore[arg-type]
