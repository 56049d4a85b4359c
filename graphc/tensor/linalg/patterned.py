"""Structured matrices: constant diagonals, blocks, and others with a name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import TensorType, numpy_dtype
from graphc.ir.lengths import total
from graphc.tensor.arrays.broadcast import broadcast_batch, broadcast_lengths, broadcast_to
from graphc.tensor.arrays.create import arange, eye, zeros, zeros_like
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.arrays.select import take
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.elementwise import cast, conj, not_equal, where
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, constant, function, operands
from graphc.tensor.linalg.mirror import common_lengths


def cuts(x: Tensor, sizes: Sequence[Any], axis: int) -> list[Tensor]:
    """Return consecutive slices of an array along an axis, of these lengths."""
    bounds = [*accumulate(sizes, initial=0)]
    return [x[slice_at_axis(slice(*pair), axis)] for pair in pairwise(bounds)]


@dataclass(frozen=True, slots=True)
class BlockDiagonalMatrix(Composite):
    """Matrices of one dtype and equal leading axes as diagonal blocks, zero elsewhere."""

    name = "block_diag"

    def infer(self, *types: TensorType) -> TensorType:
        heads = common_lengths(self.name, types, [t.shape[:-2] for t in types])
        sides = [[t.shape[axis] for t in types] for axis in (-2, -1)]
        whole = [total(*side) for side in sides]
        return types[0].with_shape((*heads, *whole))

    def perform(self, *xs: np.ndarray[Any, Any]) -> Any:
        sides = [[x.shape[axis] for x in xs] for axis in (-2, -1)]
        y = np.zeros((*xs[0].shape[:-2], *map(sum, sides)), xs[0].dtype)
        for x, i, j in zip(xs, *(accumulate(side, initial=0) for side in sides), strict=False):
            y[..., i : i + x.shape[-2], j : j + x.shape[-1]] = x
        return y

    def expand(self, *xs: Tensor) -> Tensor:
        columns = [length(x, -1) for x in xs]
        rows = []
        for i, x in enumerate(xs):
            front = lengths(x)[:-1]
            sides = [(*front, sum(columns[:i])), (*front, sum(columns[i + 1 :]))]
            before, behind = (
                []
                if isinstance(shape[-1], int) and not shape[-1]
                else [zeros(shape, dtype=x.dtype)]
                for shape in sides
            )
            rows.append(concatenate([*before, x, *behind], -1))
        return concatenate(rows, -2)

    def pullback(self, g: Tensor, y: Tensor, *xs: Tensor) -> Sequence[Tensor]:
        rows = cuts(g, [length(x, -2) for x in xs], -2)
        columns = [length(x, -1) for x in xs]
        return [cuts(row, columns, -1)[i] for i, row in enumerate(rows)]

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *xs: Tensor) -> Any:
        pairs = zip(tangents, xs, strict=True)
        return Tensor.make(self, *[zeros_like(x) if t is None else t for t, x in pairs])

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> Tensor:
        return Tensor.make(self, *broadcast_batch(size, batched, xs))


@function
def block_diag(*matrices: TensorLike) -> Tensor:
    """Return the block-diagonal matrix of several matrices.

    Args:
        matrices: At least one; the last two axes, those in front broadcast. A vector is one row, a
            scalar one element.

    Raises:
        ArgumentError: No matrix is given.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.block_diag([[1.0, 2.0]], [[3.0], [4.0]]).eval(mode="NUMPY").tolist()
        [[1.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 4.0]]
    """
    if not matrices:
        raise ArgumentError("block_diag: expected at least one matrix.")
    xs, _ = operands("block_diag", [as_tensor(x) for x in matrices])
    rank = max(2, *(x.ndim for x in xs))
    xs = [as_tensor(x, ndim=rank) for x in xs]
    front = broadcast_lengths(xs, 2)
    xs = [broadcast_to(x, (*front, *lengths(x)[-2:])) for x in xs]
    return xs[0] if len(xs) == 1 else Tensor.make(BlockDiagonalMatrix(), *xs)


def _vectors(op: str, *values: Any) -> list[Tensor]:
    """Return vectors in the last axis, of one dtype, whose axes in front are broadcast."""
    xs, _ = operands(op, [as_tensor(x) for x in values])
    for x in xs:
        if not x.ndim:
            raise ShapeError(f"{op}: expected a vector, got a scalar.")
    front = broadcast_lengths(xs, 1)
    return [broadcast_to(x, (*front, length(x, -1))) for x in xs]


def _take_last(x: Tensor, indices: Tensor) -> Tensor:
    return take(x, indices, x.ndim - 1)


@function
def toeplitz(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """Return the matrix with constant diagonals.

    Args:
        c: The first column; the last axis, those in front broadcast.
        r: The first row, whose first element is not read; by default c conjugated.

    Returns:
        As many rows as c has elements, and as many columns as r.

    Raises:
        ShapeError: An argument is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.toeplitz([1, 2, 3], [0, 4]).eval(mode="NUMPY").tolist()
        [[1, 4], [2, 1], [3, 2]]
    """
    c = as_tensor(c)
    c, r = _vectors("toeplitz", c, conj(c) if r is None else r)
    n, m = length(c, -1), length(r, -1)
    # The diagonals from the lowest one up.
    diagonals = concatenate([flip(c, -1), r[..., 1:]], -1)
    return _take_last(diagonals, expand_dims(arange(m), 0) - expand_dims(arange(n), 1) + (n - 1))


@function
def hankel(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """Return the matrix with constant antidiagonals.

    Args:
        c: The first column; the last axis, those in front broadcast.
        r: The last row, whose first element is not read; zeros by default.

    Returns:
        As many rows as c has elements, and as many columns as r.

    Raises:
        ShapeError: An argument is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.hankel([1, 2, 3], [0, 4]).eval(mode="NUMPY").tolist()
        [[1, 2], [2, 3], [3, 4]]
    """
    c = as_tensor(c)
    c, r = _vectors("hankel", c, c * 0 if r is None else r)
    n, m = length(c, -1), length(r, -1)
    antidiagonals = concatenate([c, r[..., 1:]], -1)
    return _take_last(antidiagonals, expand_dims(arange(n), 1) + expand_dims(arange(m), 0))


@function
def circulant(c: TensorLike) -> Tensor:
    """Return the square matrix whose columns are cyclic shifts of the first one.

    Args:
        c: The first column; the last axis.

    Raises:
        ShapeError: An argument is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.circulant([1, 2, 3]).eval(mode="NUMPY").tolist()
        [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    (c,) = _vectors("circulant", c)
    n = length(c, -1)
    return _take_last(c, (expand_dims(arange(n), 1) - arange(n)) % n)


@function
def companion(a: TensorLike) -> Tensor:
    """Return the matrix whose eigenvalues are the roots of a polynomial.

    Args:
        a: The coefficients, the highest power first, at least two; the last axis. Integers become
            float64.

    Raises:
        ShapeError: There are fewer than two, as far as the type states.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.companion([1.0, -3.0, 2.0]).eval(mode="NUMPY").tolist()
        [[3.0, -2.0], [1.0, 0.0]]
    """
    (a,) = _vectors("companion", a)
    if a.type.shape[-1] in {0, 1}:
        raise ShapeError(f"companion({a!r}): expected at least two coefficients.")
    n = length(a, -1) - 1
    first = -a[..., 1:] / expand_dims(a[..., 0], a.ndim - 1)
    below = broadcast_to(eye(n - 1, n, dtype=first.dtype), (*lengths(a)[:-1], n - 1, n))
    return concatenate([expand_dims(first, first.ndim - 1), below], -2)


@function
def leslie(f: Any, s: Any) -> Tensor:
    """Return the Leslie matrix, which advances a population by age one step.

    Args:
        f: The number of offspring of each age, the last axis.
        s: The fraction of each age but the last that survives, one element less.

    Raises:
        ShapeError: An argument is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.leslie([0.5, 2.0], [0.25]).eval(mode="NUMPY").tolist()
        [[0.5, 2.0], [0.25, 0.0]]
    """
    f, s = _vectors("leslie", f, s)
    n = length(f, -1)
    on = not_equal(eye(n - 1, n, dtype=f.dtype), 0)
    below = where(on, expand_dims(s, s.ndim), 0)
    return concatenate([expand_dims(f, f.ndim - 1), below], -2)


@function
def fiedler(a: TensorLike) -> Tensor:
    """Return the absolute differences of all pairs of elements.

    Args:
        a: A vector, the last axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.fiedler([1, 4]).eval(mode="NUMPY").tolist()
        [[0, 3], [3, 0]]
    """
    (a,) = _vectors("fiedler", a)
    return abs(expand_dims(a, a.ndim) - expand_dims(a, a.ndim - 1))


@function
def hilbert(n: Any) -> Tensor:
    """Return the Hilbert matrix ``1 / (i + j + 1)``, float64, which is nearly singular.

    Args:
        n: The number of rows and columns, a Python or symbolic integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.hilbert(2).eval(mode="NUMPY").round(3).tolist()
        [[1.0, 0.5], [0.5, 0.333]]
    """
    indices = arange(n)
    return 1 / cast(expand_dims(indices, 1) + indices + 1, "float64")


def _known_size(op: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ArgumentError(f"{op}: expected a non-negative Python integer, got {n!r}.")
    return int(n)


@function
def hadamard(n: int, dtype: Any = int) -> Tensor:
    """Return the symmetric matrix of 1 and -1 with orthogonal columns.

    Args:
        n: The number of rows and columns, a power of 2.
        dtype: int64 by default.

    Raises:
        ArgumentError: n is no power of 2.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.hadamard(2).eval(mode="NUMPY").tolist()
        [[1, 1], [1, -1]]
    """
    size = _known_size("hadamard", n)
    if size.bit_count() != 1:
        raise ArgumentError(f"hadamard: {n!r} is not a power of 2.")
    indices = np.arange(size)
    odd = np.bitwise_count(indices[:, None] & indices) % 2
    kind = numpy_dtype("int64" if dtype is int else np.dtype(dtype).name)
    return constant((1 - 2 * odd.astype(np.int64)).astype(kind), bake=True)


@function
def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Tensor:
    """Return the matrix of binomial coefficients.

    Args:
        n: The number of rows and columns, a Python integer.
        kind: ``"symmetric"``: ``i + j`` over i; ``"lower"``: i over j; or ``"upper"``.
        exact: int64; else float64.

    Raises:
        ArgumentError: No such ``kind``, or an element is beyond int64.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.pascal(3).eval(mode="NUMPY").tolist()
        [[1, 1, 1], [1, 2, 3], [1, 3, 6]]
    """
    size = _known_size("pascal", n)
    if kind not in {"symmetric", "lower", "upper"}:
        raise ArgumentError(
            f"pascal: unknown kind={kind!r}.", "Use 'symmetric', 'lower' or 'upper'."
        )
    is_symmetric = kind == "symmetric"
    rows = [[math.comb(i + j if is_symmetric else i, j) for j in range(size)] for i in range(size)]
    if exact and any(x >= 2**63 for row in rows for x in row):
        raise ArgumentError(f"pascal({n}): an element exceeds int64.", "Use exact=False.")
    matrix = np.array(rows, np.int64 if exact else np.float64).reshape(size, size)
    return constant(matrix.T.copy() if kind == "upper" else matrix, bake=True)


@function
def dft(n: int, scale: str | None = None) -> Tensor:
    """Return the matrix of the discrete Fourier transform, complex128.

    Args:
        n: The number of rows and columns, a Python integer.
        scale: The divisor: None for 1, ``"sqrtn"`` for the root of n, which makes
            it unitary, ``"n"`` for n.

    Raises:
        ArgumentError: ``scale`` is none of these.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.real(gt.linalg.dft(2)).eval(mode="NUMPY").tolist()
        [[1.0, 1.0], [1.0, -1.0]]
    """
    size = _known_size("dft", n)
    if scale not in {None, "sqrtn", "n"}:
        raise ArgumentError(f"dft: unknown scale={scale!r}.", "Use None, 'sqrtn' or 'n'.")
    by = {None: 1.0, "sqrtn": math.sqrt(size), "n": float(size)}[scale]
    indices = np.arange(size)
    turns = np.outer(indices, indices) % max(size, 1) / max(size, 1)
    matrix = np.exp(-2j * np.pi * turns) / by
    return constant(matrix, bake=True)
