"""Matrix exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import TensorType
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, check_floats, in_floats, square

PADE = (
    *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0),
    *(129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0),
    *(40840800.0, 960960.0, 16380.0, 182.0, 1.0),
)
"""The coefficients of the Pade approximant of exp of degree 13, (26 - k)! 13! / ((13 - k)! k!)."""

LIMIT = 5.371920351148152
"""Up to this 1-norm the approximant is exact to float64's rounding."""


@dataclass(frozen=True, slots=True)
class Expm(MatrixOp):
    """Matrix exponentials, the sums of ``a^k / k!``."""

    by_numpy = True
    name = "expm"
    core_padding = 0

    def infer(self, a: TensorType) -> TensorType:
        check_floats("expm", a)
        return square("expm", a)

    def perform(self, a: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        y = np.full_like(a, np.nan)
        for index in np.ndindex(a.shape[:-2]):
            if np.isfinite(a[index]).all():
                y[index] = scipy.linalg.expm(a[index])
        return y

    def pullback(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor]:
        """Return a block of the exponential of ``[[a^H, g], [0, a^H]]``.

        Source: R. Mathias, A chain rule for matrix functions and applications, SIAM J. Matrix Anal.
        Appl. 17(3), 1996.
        """
        return (_directional_derivative(adjoint(a), g),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor) -> Any:
        return None if tangents[0] is None else _directional_derivative(a, tangents[0])


def _directional_derivative(a: Tensor, along: Tensor) -> Tensor:
    top = concatenate([a, along], -1)
    bottom = concatenate([zeros_like(a), a], -1)
    n = length(a, -1)
    return Tensor.make(Expm(), concatenate([top, bottom], -2))[..., :n, n:]


@function
def expm(A: TensorLike) -> Tensor:  # noqa: N803 (SciPy's name)
    """Return the exponentials of square matrices, the sums of ``A^k / k!``.

    The method is scaling, the Pade approximant of degree 13, and squaring.

    Args:
        A: Square matrices in the last two axes. One that holds NaN or infinities gives NaN.

    Raises:
        ShapeError: The matrices are not square.

    Source: N. J. Higham, The scaling and squaring method for the matrix exponential revisited,
    SIAM J. Matrix Anal. Appl. 26(4), 2005.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).eval(mode="NUMPY").tolist()
        [[1.0, 1.0], [0.0, 1.0]]
    """
    (a,), dtype = in_floats("expm", A)
    return cast(Tensor.make(Expm(), a), dtype)
