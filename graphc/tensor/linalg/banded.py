"""Linear systems with banded matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Op, TensorType, is_complex
from graphc.ir.lengths import agree
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.axes import squeeze
from graphc.tensor.core.elementwise import cast, conj, real
from graphc.tensor.core.shape import lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg.mirror import as_columns, check_floats, common_lengths, in_floats
from graphc.tensor.linalg.triangular import over_columns, with_columns

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SolveBanded(Op):
    """The solution x of ``a @ x = b`` for banded a, given by its diagonals as rows.

    The element in row ``upper + i - j`` and column j is ``a[i, j]``; elements outside of
    the matrix are not read.

    Attributes:
        lower: The number of diagonals below the main one.
        upper: The number of diagonals above it.
        definite: Whether a is Hermitian and positive definite; other matrices then give NaN, and
            the diagonals above the main one are not read.
    """

    lower: int
    upper: int
    definite: bool

    by_numpy = True
    name = "solve_banded"

    def infer(self, bands: TensorType, b: TensorType) -> TensorType:
        check_floats(self.name, bands, b)
        count = self.lower + self.upper + 1
        if bands.ndim < 2 or b.ndim < 2 or not agree(bands.shape[-2], count):
            raise ShapeError(
                f"{self.name}({bands!r}, {b!r}): expected {count} rows, one for each diagonal."
            )
        shapes = ((*bands.shape[:-2], bands.shape[-1]), b.shape[:-1])
        return b.with_shape((*common_lengths(self.name, (bands, b), shapes), b.shape[-1]))

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        is_column = i == 1 and axis == type.ndim - 1
        return "any" if is_column or axis < type.ndim - 2 else None

    def perform(self, bands: Array, b: Array) -> Any:
        if bands.shape[-2] != self.lower + self.upper + 1:
            raise ShapeError(
                f"solve_banded: expected {self.lower + self.upper + 1} diagonals, got "
                f"{bands.shape[-2]}."
            )
        y = np.full_like(b, np.nan)
        for index in np.ndindex(b.shape[:-2] if b.size else (0,)):
            try:
                y[index] = self._one(bands[index], b[index])
            except np.linalg.LinAlgError:
                continue
        return y

    def _one(self, bands: Array, b: Array) -> Any:
        import scipy.linalg

        n = b.shape[0]
        lower, upper = min(self.lower, n - 1), min(self.upper, n - 1)
        rows = bands[self.upper - upper : self.upper + lower + 1]
        if self.definite:
            return scipy.linalg.solveh_banded(rows[upper:], b, lower=True, check_finite=False)
        return scipy.linalg.solve_banded((lower, upper), rows, b, check_finite=False)

    def pullback(self, g: Tensor, y: Tensor, bands: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        if self.definite:
            by_b = Tensor.make(self, bands, g)
        else:
            other = SolveBanded(self.upper, self.lower, False)
            by_b = conj(
                Tensor.make(other, _transpose_bands(bands, self.lower, self.upper), conj(g))
            )
        x = conj(y)
        shifted = (_shift(by_b, k, by_b.ndim - 2) for k in range(-self.upper, self.lower + 1))
        return stack([-sum(rows * x, -1) for rows in shifted], -2), by_b

    def batch(self, size: Any, batched: Sequence[bool], bands: Tensor, b: Tensor) -> Tensor:
        return as_columns(partial(Tensor.make, self), size, batched, bands, b)


def _shift(x: Tensor, offset: int, axis: int) -> Tensor:
    """Return ``x[i + offset]`` at position i, and zeros outside."""
    if not offset:
        return x
    n = lengths(x)
    n[axis] = abs(offset)
    padding = zeros(n, dtype=x.dtype)
    selection = [slice(None)] * x.ndim
    if offset > 0:
        selection[axis] = slice(offset, None)
        # An offset beyond the length selects no elements: the zeros are cut to the length.
        return _cut(concatenate([x[tuple(selection)], padding], axis), x, axis)
    padded = concatenate([padding, x], axis)
    return _cut(padded, x, axis)


def _cut(x: Tensor, like: Tensor, axis: int) -> Tensor:
    return x[(..., slice(0, lengths(like)[axis]), *[slice(None)] * (like.ndim - 1 - axis))]


def _transpose_bands(bands: Tensor, lower: int, upper: int) -> Tensor:
    rows = [bands[..., i, :] for i in range(lower + upper + 1)]
    last = rows[0].ndim - 1
    return stack([_shift(row, upper - i, last) for i, row in enumerate(rows)][::-1], -2)


def _solve_bands(op: str, kind: SolveBanded, bands: Tensor, b: Any, b_ndim: int | None) -> Tensor:
    (bands, b), dtype = in_floats(op, bands, b)
    b, is_vector = with_columns(b, b_ndim, op)
    x = over_columns(partial(Tensor.make, kind), [bands], [2], b)
    return cast(squeeze(x, x.ndim - 1) if is_vector else x, dtype)


@function
def solve_banded(  # noqa: PLR0913 (SciPy's arguments)
    l_and_u: tuple[int, int],
    ab: TensorLike,
    b: TensorLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    b_ndim: int | None = None,
) -> Tensor:
    """Return the solution x of ``a @ x = b`` for a banded matrix a.

    A singular matrix gives NaN.

    Args:
        l_and_u: The number of diagonals below and above the main one, Python integers.
        ab: The diagonals as rows, the uppermost first: ``ab[u + i - j, j]`` is ``a[i, j]``. Other
            elements are not read. The last two axes.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        overwrite_ab: As in SciPy; ab is never changed.
        overwrite_b: As in SciPy; b is never changed.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.

    Raises:
        ArgumentError: A number of diagonals is negative.
        ShapeError: ab has another number of rows, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> ab = [[0.0, 1.0], [2.0, 4.0]]
        >>> gt.linalg.solve_banded((0, 1), ab, [3.0, 4.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    lower, upper = (int(n) for n in l_and_u)
    if lower < 0 or upper < 0:
        raise ArgumentError(f"solve_banded: {l_and_u!r} are not numbers of diagonals.")
    return _solve_bands("solve_banded", SolveBanded(lower, upper, False), as_tensor(ab), b, b_ndim)


@function
def solveh_banded(  # noqa: PLR0913 (SciPy's arguments)
    ab: TensorLike,
    b: TensorLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
    *,
    b_ndim: int | None = None,
) -> Tensor:
    """Return the solution x of ``a @ x = b`` for a positive definite banded matrix a.

    A matrix that is not positive definite gives NaN.

    Args:
        ab: The diagonals on one side as rows, of static number, the last two axes: the main one
            last and ``ab[u + i - j, j]`` is ``a[i, j]``; with ``lower`` it comes first, and
            ``ab[i - j, j]`` is ``a[i, j]``.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        overwrite_ab: As in SciPy; ab is never changed.
        overwrite_b: As in SciPy; b is never changed.
        lower: Whether the diagonals are the main one and those below it.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.

    Raises:
        ShapeError: The number of diagonals is unknown, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> ab = gt.constant([[4.0, 4.0], [1.0, 0.0]])
        >>> gt.linalg.solveh_banded(ab, [5.0, 5.0], lower=True).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    bands = as_tensor(ab)
    if bands.ndim < 2 or bands.type.shape[-2] in {None, 0}:
        raise ShapeError(
            f"solveh_banded({bands!r}): the number of diagonals is unknown.",
            "Declare it: gt.tensor(shape=(2, None)).",
        )
    k = bands.type.shape[-2] - 1
    rows = [bands[..., i, :] for i in range(k + 1)]
    last = rows[0].ndim - 1
    if lower:
        main, others = rows[0], rows[1:]
    else:
        main = rows[k]
        others = [conj(_shift(rows[k - i], i, last)) for i in range(1, k + 1)]
    if is_complex(main.dtype):
        main = cast(real(main), main.dtype)
    above = [conj(_shift(row, -i - 1, last)) for i, row in enumerate(others)]
    diagonals = stack([*above[::-1], main, *others], -2)
    return _solve_bands("solveh_banded", SolveBanded(k, k, True), diagonals, b, b_ndim)
