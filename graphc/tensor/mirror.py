"""Square matrices: what is asked of their types, their transposes, and what is equal to its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Check, Op, Shape, TensorType, here, is_complex, is_inexact, where as where_is
from graphc.tensor.axes import moveaxis, swapaxes
from graphc.tensor.broadcast import repeated
from graphc.tensor.elementwise import cast, conj, equal, greater, less, real, where, widened_name
from graphc.tensor.shape import lengths, reshape
from graphc.tensor.tensor import Tensor, operands
from graphc.tensor.triangle import above_diagonal

__all__ = [
    "Mirror",
    "above",
    "adjoint",
    "as_columns",
    "check_floats",
    "common",
    "half_diagonal",
    "head_checks",
    "in_floats",
    "lapack",
    "mirrored",
    "square",
    "swapped",
]


# What is asked of types.


def check_floats(op: str, *types: TensorType) -> None:
    """Raise unless all are floats or complex, of 32 or 64 bits a part, and of one dtype.

    Raises:
        DTypeError: They are not.
    """
    dtypes = {t.dtype for t in types}
    dtype = types[0].dtype
    if len(dtypes) > 1 or not is_inexact(dtype) or widened_name(dtype) != dtype:
        raise DTypeError(
            f"{op}({', '.join(map(repr, types))}): one dtype of float32, float64, complex64 or "
            "complex128 is wanted.",
            "Cast it with astype.",
            where_is(here()),
        )


def square(op: str, x: TensorType) -> TensorType:
    """The type with both lengths of its square matrices, as far as one of them is known.

    Raises:
        ShapeError: The matrices are not square, or it has fewer than two axes.
    """
    if x.ndim < 2 or len({*x.shape[-2:]} - {None}) > 1:
        raise ShapeError(
            f"{op}({x!r}): square matrices are wanted in the last two axes.", "", where_is(here())
        )
    n, m = x.shape[-2:]
    n = m if n is None else n
    return x.with_shape((*x.shape[:-2], n, n))


def common(op: str, types: Sequence[TensorType], heads: Sequence[Shape]) -> Shape:
    """Lengths that are equal for all, as far as one is known of each.

    Raises:
        ShapeError: They differ.
    """
    if len({len(head) for head in heads}) == 1:
        sets = [set(axis) - {None} for axis in zip(*heads, strict=True)]
        if all(len(found) < 2 for found in sets):
            return tuple(found.pop() if found else None for found in sets)
    raise ShapeError(f"{op}({', '.join(map(repr, types))}): lengths differ.", "", where_is(here()))


def head_checks(places: Sequence[tuple[int, int]], types: Sequence[TensorType]) -> list[Check]:
    """The lengths of axes of inputs that must be equal, where types leave one open.

    Args:
        places: Inputs and axes of theirs, which may count from the end.
        types: Those of the inputs.
    """
    if all(types[i].shape[axis] is not None for i, axis in places):
        return []
    (i, axis), *rest = places
    return [(i, axis % types[i].ndim, j, other % types[j].ndim) for j, other in rest]


def in_floats(op: str, *values: Any) -> tuple[list[Tensor], str]:
    """Arrays in the dtype to compute in, and the one that the result is to have.

    Integers and bool become float64; half-width floats are computed in float32.
    """
    xs, dtype = operands(op, values)
    if not is_inexact(dtype):
        dtype = "float64"
    return [cast(x, widened_name(dtype)) for x in xs], dtype


def lapack(name: str, *arrays: np.ndarray[Any, Any]) -> Any:
    """LAPACK's routine of that name for the arrays' dtype; SciPy is loaded when it is wanted."""
    (found,) = import_module("scipy.linalg.lapack").get_lapack_funcs((name,), arrays)
    return found


# Transposes.


def swapped(x: Tensor) -> Tensor:
    """The matrices, transposed."""
    return swapaxes(x, -1, -2)


def adjoint(x: Tensor) -> Tensor:
    """The matrices, transposed and conjugated."""
    return conj(swapped(x))


def above(x: Tensor) -> Tensor:
    """How far above the main diagonal each element of the matrices is."""
    return above_diagonal(*lengths(x)[-2:])


def half_diagonal(x: Tensor) -> Tensor:
    """The lower triangles of matrices, with half their diagonals."""
    place = above(x)
    return where(less(place, 0), x, where(equal(place, 0), x / 2, 0))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Mirror(Op):
    """The matrices that are their own transposes and have this triangle of the ones given.

    Attributes:
        lower: Which triangle, with the diagonal, is read.
        conjugated: Whether the other one is conjugated, which makes the diagonal real.
    """

    lower: bool
    conjugated: bool

    @property
    def name(self) -> str:
        return "mirror"

    def infer(self, x: TensorType) -> TensorType:
        return square("mirror", x)

    def checks(self, x: TensorType) -> Sequence[Check]:
        return head_checks([(0, -2), (0, -1)], [x])

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        half = np.tril(x, -1) if self.lower else np.triu(x, 1)
        other = np.swapaxes(half, -1, -2)
        conjugated = self.conjugated and x.dtype.kind == "c"
        n = np.arange(x.shape[-1])
        y = half + (np.conj(other) if conjugated else other)
        y[..., n, n] = x[..., n, n].real if conjugated else x[..., n, n]
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """An element moves both places that it stands in."""
        place = above(g)
        other = adjoint(g) if self.conjugated else swapped(g)
        own = less(place, 0) if self.lower else greater(place, 0)
        middle = g
        if self.conjugated and is_complex(g.dtype):
            middle = cast(real(g), g.dtype)
        return (where(own, g + other, where(equal(place, 0), middle, 0)),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)


def mirrored(x: Tensor, lower: bool, conjugated: bool) -> Tensor:
    """The symmetric (or Hermitian) matrices of one triangle; what is one already is left as is."""
    if isinstance(x.op, Mirror) and (x.op.conjugated == conjugated or not is_complex(x.dtype)):
        return x
    return Tensor.make(Mirror(lower, conjugated), x)


# Batches.


def as_columns(solve: Any, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
    """A batch of systems: of one matrix, the batch's right-hand sides stand beside each other."""
    if batched[0]:
        return solve(a, b if batched[1] else repeated(b, size))  # type: ignore[no-any-return]
    beside = moveaxis(b, 0, -2)
    shape = lengths(beside)
    x = solve(a, reshape(beside, (*shape[:-2], shape[-2] * shape[-1])))
    return moveaxis(reshape(x, shape), -2, 0)
