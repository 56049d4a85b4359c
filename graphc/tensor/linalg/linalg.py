"""Products of many matrices, powers, Kronecker and cross products, Vandermonde matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import arange, eye
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import stack
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands
from graphc.tensor.linalg.dot import dot, matmul
from graphc.tensor.linalg.inverse import inv
from graphc.tensor.linalg.lu import check_square

__all__ = ["cross", "kron", "matrix_dot", "matrix_power", "multi_dot", "vander"]


@function
def kron(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the Kronecker product: a block of b for each element of a, times that element.

    Args:
        a: Any shape; the array of fewer axes gets new ones in front.
        b: Any shape.

    Returns:
        An array of the product of both lengths on each axis.

    Example:
        >>> import graphc.tensor as gt
        >>> kron(gt.tensor(shape=(2, 3)), gt.tensor(shape=(5,))).type
        float64[2, 15]
    """
    (a, b), _ = operands("kron", (a, b))
    ndim = max(a.ndim, b.ndim)
    a, b = (as_tensor(x, ndim=ndim) for x in (a, b))
    blocks = expand_dims(a, tuple(range(1, 2 * ndim, 2))) * expand_dims(
        b, tuple(range(0, 2 * ndim, 2))
    )
    return reshape(blocks, [n * m for n, m in zip(lengths(a), lengths(b), strict=True)])


@function
def cross(
    a: TensorLike,
    b: TensorLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Tensor:
    """Return the cross products of pairs of vectors of three elements.

    Args:
        a: Vectors of three elements; the other axes broadcast.
        b: The same.
        axisa: The axis of a's vectors.
        axisb: The axis of b's vectors.
        axisc: The axis of the result's vectors.
        axis: All three axes at once.

    Raises:
        ShapeError: The vectors do not have three elements.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).eval(mode="NUMPY").tolist()
        [0.0, 0.0, 1.0]
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    xs, _ = operands("cross", (a, b))
    (a0, a1, a2), (b0, b1, b2) = (_three(x, at) for x, at in zip(xs, (axisa, axisb), strict=True))
    components = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]
    return moveaxis(stack(components, -1), -1, axisc)


def _three(x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    x = moveaxis(x, axis, -1)
    if x.type.shape[-1] not in {3, None}:
        raise ShapeError(
            f"cross: expected vectors of 3 elements, got {x.type.shape[-1]}.",
            "Add a third of 0, or write a[0] * b[1] - a[1] * b[0] for vectors in a plane.",
        )
    x = specify_shape(x, [*[None] * (x.ndim - 1), 3])
    return x[..., 0], x[..., 1], x[..., 2]


# Products of many matrices.


@function
def matrix_dot(*args: TensorLike) -> Tensor:
    """Return the product of matrices, multiplied from the left; ``multi_dot`` finds the best order.

    Args:
        args: At least one matrix.

    Raises:
        ArgumentError: There is no matrix.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = [[0.0, 1.0], [1.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]
        >>> gt.matrix_dot(a, b, [1.0, 1.0]).eval(mode="NUMPY").tolist()
        [7.0, 3.0]
    """
    if not args:
        raise ArgumentError("matrix_dot: expected at least one matrix.")
    return reduce(dot, map(as_tensor, args))


@function
def multi_dot(arrays: Sequence[Any]) -> Tensor:
    """Return the product of matrices in the order with the fewest multiplications.

    Args:
        arrays: At least two matrices; the first may be a row, the last a column, as vectors.
            Lengths that are not known count as equally long.

    Raises:
        ArgumentError: Fewer than two arrays.
        ShapeError: An array that is not a matrix, or lengths that do not fit.

    Source: Cormen, Leiserson, Rivest & Stein, Introduction to Algorithms, section 15.2.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b, c = gt.tensor(shape=(9, 2)), gt.tensor(shape=(2, 9)), gt.tensor(shape=(9, 1))
        >>> multi_dot([a, b, c]) is a @ (b @ c)
        True
    """
    xs, _ = operands("multi_dot", list(arrays))
    if len(xs) < 2:
        raise ArgumentError("multi_dot: expected at least two arrays.")
    last = len(xs) - 1
    for i, x in enumerate(xs):
        if x.ndim != 2 and not (x.ndim == 1 and i in {0, last}):
            raise ShapeError(
                f"multi_dot: array {i} is {x!r}.",
                "Pass matrices; only the first and the last may be vectors.",
            )
    return _in_order(xs, _best_splits(xs), 0, last)


UNKNOWN = 100
"""The assumed value of an unknown length where costs are compared."""


def _best_splits(xs: Sequence[Tensor]) -> dict[tuple[int, int], int]:
    """Return where to split each range of factors in two, by dynamic programming."""
    shapes = [x.type.shape for x in xs]
    inner = [a[-1] or b[0] for a, b in pairwise(shapes)]
    ends = [shapes[0][0] if len(shapes[0]) > 1 else 1, shapes[-1][1] if len(shapes[-1]) > 1 else 1]
    n = [UNKNOWN if m is None else m for m in (ends[0], *inner, ends[1])]
    cost: dict[tuple[int, int], int] = {(i, i): 0 for i in range(len(xs))}
    best: dict[tuple[int, int], int] = {}
    for size in range(1, len(xs)):
        for i in range(len(xs) - size):
            j = i + size
            costs = {
                k: cost[i, k] + cost[k + 1, j] + n[i] * n[k + 1] * n[j + 1] for k in range(i, j)
            }
            best[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[best[i, j]]
    return best


def _in_order(xs: Sequence[Tensor], best: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return xs[i]
    k = best[i, j]
    return dot(_in_order(xs, best, i, k), _in_order(xs, best, k + 1, j))


@function
def matrix_power(M: Any, n: int) -> Tensor:  # noqa: N803 (PyTensor's name)
    """Return a square matrix raised to an integer power.

    Args:
        M: Square matrices, the last two axes.
        n: A Python integer; the power 0 is the identity, negative ones are powers of the inverse.

    Raises:
        ArgumentError: n is not an integer.
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> matrix_power(gt.constant([[1, 1], [1, 0]]), 10).eval(mode="NUMPY").tolist()
        [[89, 55], [55, 34]]
    """
    x = as_tensor(M)
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise ArgumentError(f"matrix_power: expected a Python integer as power, got {n!r}.")
    if x.ndim < 2 or len({*x.type.shape[-2:]} - {None}) > 1:
        raise ShapeError(f"matrix_power: {x!r} is not square.")
    if n < 0:
        x, n = inv(x), -int(n)
    if n == 0:
        size = lengths(x)
        return broadcast_to(eye(size[-2], dtype=x.dtype), size)
    x = check_square(x)
    squares, power = x, None
    while True:
        if n % 2:
            power = squares if power is None else matmul(power, squares)
        n //= 2
        if not n:
            return power  # type: ignore[return-value]
        squares = matmul(squares, squares)


@function
def vander(x: TensorLike, N: Any = None, increasing: bool = False) -> Tensor:  # noqa: N803 (NumPy's name)
    """Return the Vandermonde matrix of a vector: each row holds powers from N - 1 down to 0.

    Args:
        x: A vector.
        N: The number of powers, a Python or symbolic integer; by default x's length.
        increasing: From 0 to N - 1, instead.

    Raises:
        ShapeError: x is not a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vander([2, 3], 3).eval(mode="NUMPY").tolist()
        [[4, 2, 1], [9, 3, 1]]
    """
    x = as_tensor(x)
    if x.ndim != 1:
        raise ShapeError(f"vander: expected a vector, got {x!r}.")
    powers = arange(length(x, 0) if N is None else N)
    return x[:, None] ** (powers if increasing else flip(powers))
