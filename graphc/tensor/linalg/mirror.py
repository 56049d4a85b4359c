"""Square matrices: checks of their types, transposes, and symmetrisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Node, Op, Shape, TensorType, is_complex, is_inexact
from graphc.ir.lengths import agree, common
from graphc.tensor.arrays.broadcast import batch_of, broadcast_batch
from graphc.tensor.arrays.create import above_diagonal
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import matrix_transpose, moveaxis
from graphc.tensor.core.shape import lengths, reshape
from graphc.tensor.core.tensor import Tensor, operands


class MatrixOp(Op):
    """An operation on the matrices in the last two axes of arrays."""

    __slots__ = ()

    core_ndim = 2

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> Any:
        return Node.make(self, *broadcast_batch(size, batched, xs))


# Checks of types.


def check_floats(op: str, *types: TensorType | Tensor) -> None:
    """Raise unless all are float32, float64, complex64 or complex128, and of one dtype."""
    dtypes = {t.dtype for t in types}
    dtype = types[0].dtype
    if len(dtypes) > 1 or not is_inexact(dtype) or ew.wide_dtype_name(dtype) != dtype:
        raise DTypeError(
            f"{op}({', '.join(map(repr, types))}): expected one dtype: float32, float64, complex64 "
            "or complex128.",
            "Cast it with astype.",
        )


def square(op: str, x: TensorType) -> TensorType:
    """Return the type with both lengths of its square matrices, as far as one of them is known."""
    if x.ndim < 2 or not agree(*x.shape[-2:]):
        raise ShapeError(f"{op}({x!r}): expected square matrices in the last two axes.")
    n = common(*x.shape[-2:])
    return x.with_shape((*x.shape[:-2], n, n))


def common_lengths(op: str, types: Sequence[TensorType], heads: Sequence[Shape]) -> Shape:
    """Return the common length of each axis, None if no type states it."""
    if len({len(head) for head in heads}) == 1:
        axes = [*zip(*heads, strict=True)]
        if all(agree(*lengths) for lengths in axes):
            return tuple([common(*lengths) for lengths in axes])
    raise ShapeError(f"{op}({', '.join(map(repr, types))}): lengths differ.")


def in_floats(op: str, *values: Any) -> tuple[list[Tensor], str]:
    """Return arrays in the dtype of the computation, and the dtype of the result.

    Integers and bool become float64; half-width floats are computed in float32.
    """
    xs, dtype = operands(op, values)
    if not is_inexact(dtype):
        dtype = "float64"
    return [ew.cast(x, ew.wide_dtype_name(dtype)) for x in xs], dtype


def lapack(name: str, *arrays: np.ndarray[Any, Any]) -> Any:
    """Return LAPACK's routine of that name for the arrays' dtype; SciPy is loaded on demand."""
    from scipy.linalg.lapack import get_lapack_funcs

    (routine,) = get_lapack_funcs((name,), arrays)
    return routine


# Transposes.


def adjoint(x: Tensor) -> Tensor:
    """Return the matrices transposed and conjugated."""
    return ew.conj(matrix_transpose(x))


def above(x: Tensor) -> Tensor:
    """Return how far above the main diagonal each element of the matrices is."""
    return above_diagonal(*lengths(x)[-2:])


def half_diagonal(x: Tensor) -> Tensor:
    """Return the lower triangles of matrices, with half their diagonals."""
    offset = above(x)
    return ew.where(ew.less(offset, 0), x, ew.where(ew.equal(offset, 0), x / 2, 0))


@dataclass(frozen=True, slots=True)
class Mirror(Op):
    """The symmetric or Hermitian matrices that share one triangle with the operand's.

    Attributes:
        lower: Which triangle, with the diagonal, is read.
        conjugated: Whether the other triangle is conjugated, which makes the diagonal real.
    """

    lower: bool
    conjugated: bool
    name = "mirror"
    core_ndim = 0
    is_linear = True

    def infer(self, x: TensorType) -> TensorType:
        return square("mirror", x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        half = np.tril(x, -1) if self.lower else np.triu(x, 1)
        other = np.swapaxes(half, -1, -2)
        conjugated = self.conjugated and x.dtype.kind == "c"
        n = np.arange(x.shape[-1])
        y = half + (np.conj(other) if conjugated else other)
        y[..., n, n] = x[..., n, n].real if conjugated else x[..., n, n]
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return the gradient; each element that is read affects two positions."""
        offset = above(g)
        other = adjoint(g) if self.conjugated else matrix_transpose(g)
        is_read = ew.less(offset, 0) if self.lower else ew.greater(offset, 0)
        middle = g
        if self.conjugated and is_complex(g.dtype):
            middle = ew.cast(ew.real(g), g.dtype)
        return (ew.where(is_read, g + other, ew.where(ew.equal(offset, 0), middle, 0)),)


def symmetrise(x: Tensor, lower: bool, conjugated: bool) -> Tensor:
    """Return the symmetric or Hermitian matrices of one triangle; symmetric ones unchanged."""
    if isinstance(x.op, Mirror) and (x.op.conjugated == conjugated or not is_complex(x.dtype)):
        return x
    return Tensor.make(Mirror(lower, conjugated), x)


# Batches.


def as_columns(solve: Any, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
    """Return a batch of systems with one matrix, the right-hand sides side by side."""
    if batched[0]:
        return solve(a, b if batched[1] else batch_of(b, size))  # type: ignore[no-any-return]
    beside = moveaxis(b, 0, -2)
    shape = lengths(beside)
    x = solve(a, reshape(beside, (*shape[:-2], shape[-2] * shape[-1])))
    return moveaxis(reshape(x, shape), -2, 0)
