"""Declared properties of matrices, such as symmetric or triangular, that rewrites use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import TensorType
from graphc.ir.law import law
from graphc.ir.lengths import agree
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg.lu import check_square

__all__ = ["assume"]

SQUARE = frozenset({"symmetric", "positive_definite", "orthogonal", "permutation"})
"""Properties that only square matrices have."""

IMPLIED = {
    "diagonal": ("lower_triangular", "upper_triangular", "tridiagonal"),
    "positive_definite": ("symmetric",),
    "permutation": ("selection", "orthogonal"),
}
"""The properties that a property implies directly."""


def implied_properties(facts: Sequence[str]) -> frozenset[str]:
    """Return the properties together with the properties that follow from them.

    Example:
        >>> sorted(implied_properties(["positive_definite"]))
        ['positive_definite', 'symmetric']
    """
    properties = set(facts)
    for name in facts:
        properties |= implied_properties(IMPLIED.get(name, ()))
    if {"lower_triangular", "upper_triangular"} <= properties:
        properties |= {"diagonal", "tridiagonal"}
    return frozenset(properties)


@dataclass(frozen=True, slots=True)
class Assume(Composite):
    """The array itself, whose matrices are declared to have, or not to have, some properties.

    Attributes:
        held: The facts that hold, in alphabetical order.
        denied: The facts that do not hold.
    """

    held: tuple[str, ...]
    denied: tuple[str, ...] = ()

    rearranges = True

    def infer(self, x: TensorType) -> TensorType:
        words = ", ".join([*self.held, *(f"not {name}" for name in self.denied)])
        if x.ndim < 2:
            raise ShapeError(
                f"assume({x!r}, {words}): expected a matrix.",
                "The last two axes are the matrix, those in front a batch.",
            )
        square = [name for name in self.held if name in SQUARE]
        if square and not agree(*x.shape[-2:]):
            raise ShapeError(
                f"assume({x!r}, {words}): a matrix that is not square cannot be {square[0]}."
            )
        return x

    def expand(self, x: Tensor) -> Tensor:
        """Return the array, checked to be square at run time where its type leaves that open."""
        return check_square(x) if law(self, (x.type,)).checks else x

    def perform(self, x: Any) -> Any:
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (g,)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return tangents[0]

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)


@function
def assume(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    x: TensorLike,
    diagonal: bool | None = None,
    lower_triangular: bool | None = None,
    upper_triangular: bool | None = None,
    symmetric: bool | None = None,
    positive_definite: bool | None = None,
    orthogonal: bool | None = None,
    selection: bool | None = None,
    permutation: bool | None = None,
    *,
    tridiagonal: bool | None = None,
) -> Tensor:
    """Return the array with declared properties of its matrices, which rewrites may rely on.

    Nothing is computed, and only squareness is checked, where a property implies it: if a
    property does not hold, results are wrong. The gradient is the gradient of x.

    Args:
        x: At least two axes; the matrices are in the last two.
        diagonal: Whether elements off the main diagonal are zero; None for unknown.
        lower_triangular: Whether elements above the main diagonal are zero.
        upper_triangular: Whether elements below the main diagonal are zero.
        symmetric: Whether x equals its transpose; if complex, its conjugate transpose.
        positive_definite: Whether x is symmetric with positive eigenvalues.
        orthogonal: Whether its transpose, if complex its conjugate one, is the inverse.
        selection: Whether there is one 1 in each row, no two in a column, and zeros elsewhere.
        permutation: Whether there is one 1 in each row and column, and zeros elsewhere.
        tridiagonal: Whether elements are zero off the main diagonal and its neighbours.

    Returns:
        An array of x's type; x itself where nothing is declared.

    Raises:
        ShapeError: x is not a matrix, or not square although a property implies it.
        ArgumentError: A property is denied that follows from the others.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> gt.assume(x, symmetric=True).type
        float64[?, ?]
    """
    declared = {
        "diagonal": diagonal,
        "lower_triangular": lower_triangular,
        "orthogonal": orthogonal,
        "permutation": permutation,
        "positive_definite": positive_definite,
        "selection": selection,
        "symmetric": symmetric,
        "tridiagonal": tridiagonal,
        "upper_triangular": upper_triangular,
    }
    held = tuple(name for name, value in declared.items() if value)
    denied = tuple(name for name, value in declared.items() if value is not None and not value)
    for name in denied:
        if name in implied_properties(held):
            raise ArgumentError(
                f"assume({as_tensor(x)!r}): it cannot be {', '.join(held)} and not {name}.",
                f"Leave out {name}=False, which contradicts the rest.",
            )
    return Tensor.make(Assume(held, denied), as_tensor(x)) if held or denied else as_tensor(x)
