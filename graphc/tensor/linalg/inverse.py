"""Inverses of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ArgumentError
from graphc.ir import TensorType
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import eye
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.axes import transpose
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, TensorLike, axes_of, function
from graphc.tensor.linalg.cholesky import CholeskyInverse, lower_factor
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.lu import check_square
from graphc.tensor.linalg.mirror import adjoint, check_floats, in_floats, square
from graphc.tensor.linalg.solve import PARTS, Solve


@dataclass(frozen=True, slots=True)
class SquareComposite(Composite):
    """A named function of square matrices.

    Attributes:
        assume: The kind of matrices, as for ``Solve``.
    """

    assume: str

    def infer(self, a: TensorType) -> Any:
        check_floats(self.name, a)
        return square(self.name, a)

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor) -> Any:
        return type(a).make(self, a)


class Inverse(SquareComposite):
    """Inverses of matrices, by the factors that solve linear systems."""

    __slots__ = ()

    def expand(self, a: Tensor) -> Tensor:
        if self.assume == "orthogonal":
            return adjoint(check_square(a))
        if self.assume == "pos":
            return Tensor.make(CholeskyInverse(), lower_factor(a))
        n = length(a, -1)
        return Tensor.make(
            Solve(self.assume, False), a, broadcast_to(eye(n, dtype=a.dtype), (*lengths(a)[:-1], n))
        )

    def pullback(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor]:
        h = adjoint(y)
        by_a = -matmul(h, matmul(g, h))
        return (PARTS[self.assume](by_a) if self.assume in PARTS else by_a,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor) -> Any:
        if tangents[0] is None:
            return None
        moved = PARTS[self.assume](tangents[0]) if self.assume in PARTS else tangents[0]
        return -matmul(y, matmul(moved, y))


@function
def inv(a: TensorLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the inverses of square matrices; infinities or NaN for singular ones.

    ``solve`` is faster and more accurate where the inverse is only multiplied with; graphc
    rewrites ``inv(a) @ b`` to it.

    Args:
        a: Square matrices in the last two axes.
        overwrite_a: As in SciPy; a is never changed.
        check_finite: As in SciPy; non-finite values are computed with in any case.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).eval(mode="NUMPY").tolist()
        [[0.5, 0.0], [0.0, 0.25]]
    """
    (a,), dtype = in_floats("inv", a)
    return cast(Tensor.make(Inverse("gen"), a), dtype)


@function
def tensorinv(a: TensorLike, ind: int = 2) -> Tensor:
    """Return the inverse of ``tensordot`` with an array.

    Args:
        a: The product of the first ``ind`` lengths equals the product of the others.
        ind: The number of the result's axes to sum over to get the identity, from 1 on.

    Returns:
        An array of a's last axes, then its first ``ind``.

    Raises:
        ArgumentError: ``ind`` is not positive.
        ShapeError: The products differ.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.tensorinv(gt.tensor(shape=(4, 6, 8, 3))).type
        float64[8, 3, 4, 6]
    """
    (a,), dtype = in_floats("tensorinv", a)
    if ind <= 0:
        raise ArgumentError(f"tensorinv: ind={ind!r} is not positive.")
    n = lengths(a)
    matrix = reshape(a, (math.prod(n[:ind]), math.prod(n[ind:])))
    return cast(reshape(Tensor.make(Inverse("gen"), matrix), (*n[ind:], *n[:ind])), dtype)


@function
def tensorsolve(a: TensorLike, b: TensorLike, axes: Any = None) -> Tensor:
    """Return the x whose sum of products with a, over all of x's axes, is b.

    Args:
        a: b's axes, then x's; the products of their lengths are equal.
        b: Any shape.
        axes: Axes of a that are moved to its end before.

    Raises:
        ShapeError: The products differ.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor(shape=(2, 3, 6)), gt.tensor(shape=(2, 3))
        >>> gt.linalg.tensorsolve(a, b).type
        float64[6]
    """
    (a, b), dtype = in_floats("tensorsolve", a, b)
    if axes is not None:
        moved = [axes_of("tensorsolve", axis, a.ndim)[0] for axis in axes]
        a = transpose(a, [*(i for i in range(a.ndim) if i not in moved), *moved])
    own = lengths(a)[b.ndim :]
    n = math.prod(lengths(b))
    matrix = reshape(a, (n, math.prod(own)))
    x = Tensor.make(Solve("gen", False), matrix, reshape(b, (n, 1)))
    return cast(reshape(x, own), dtype)
