"""What is known of matrices beside their shape: said by ``assume``, used by rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Check, TensorType, here, where
from graphc.tensor.lu import squared
from graphc.tensor.reduce import Named
from graphc.tensor.tensor import Tensor, as_tensor, function

__all__ = ["FACTS", "IMPLIED", "SQUARE", "Assume", "implied"]

FACTS = {
    "diagonal": "zero but for the main diagonal",
    "lower_triangular": "zero above the main diagonal",
    "upper_triangular": "zero below the main diagonal",
    "tridiagonal": "zero but for the main diagonal and its neighbours",
    "symmetric": "equal to its transpose; of complex numbers, to the conjugate one",
    "positive_definite": "symmetric, with positive eigenvalues",
    "orthogonal": "its inverse is its transpose; of complex numbers, the conjugate one",
    "selection": "one 1 in each row, no two in a column, zeros elsewhere",
    "permutation": "one 1 in each row and column, zeros elsewhere",
}
"""What can be known of a matrix, and what it means."""

SQUARE = frozenset({"symmetric", "positive_definite", "orthogonal", "permutation"})
"""What only square matrices are."""

IMPLIED = {
    "diagonal": ("lower_triangular", "upper_triangular", "tridiagonal"),
    "positive_definite": ("symmetric",),
    "permutation": ("selection", "orthogonal"),
}
"""What follows from a fact at once."""


def implied(facts: Sequence[str]) -> frozenset[str]:
    """Facts and what follows from them.

    Example:
        >>> sorted(implied(["positive_definite"]))
        ['positive_definite', 'symmetric']
    """
    found = set(facts)
    for name in facts:
        found |= implied(IMPLIED.get(name, ()))
    if {"lower_triangular", "upper_triangular"} <= found:
        found |= {"diagonal", "tridiagonal"}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Assume(Named):
    """The array itself; each matrix in its last two axes has these properties, or has them not.

    Attributes:
        held: The facts that hold, in alphabetical order.
        denied: Those that do not.
    """

    held: tuple[str, ...]
    denied: tuple[str, ...] = ()

    rearranges = True

    def infer(self, x: TensorType) -> TensorType:
        words = ", ".join([*self.held, *(f"not {name}" for name in self.denied)])
        if x.ndim < 2:
            raise ShapeError(
                f"assume({x!r}, {words}): a matrix is wanted.",
                "The matrices are in the last two axes.",
                where(here()),
            )
        n, m = x.shape[-2:]
        square = [name for name in self.held if name in SQUARE]
        if square and None not in {n, m} and n != m:
            raise ShapeError(
                f"assume({x!r}, {words}): the matrix is not square, so it is not {square[0]}.",
                "",
                where(here()),
            )
        return x

    def checks(self, x: TensorType) -> Sequence[Check]:
        known = None not in x.shape[-2:]
        return () if known or SQUARE.isdisjoint(self.held) else [(0, x.ndim - 2, 0, x.ndim - 1)]

    def expand(self, x: Tensor) -> Tensor:
        """The array, seen to be square when it runs where that was said and is not known."""
        return squared(x) if self.checks(x.type) else x

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
    x: Any,
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
    """The array itself, with properties of its matrices that rewrites may rely on.

    Nothing is computed, and nothing is checked but that matrices are square where that follows: if
    a property does not hold, results are wrong. Gradients are those of the array itself.

    Args:
        x: At least two axes; the matrices are in the last two.
        diagonal: Whether elements off the main diagonal are zero; None where that is not known.
        lower_triangular: Whether elements above the main diagonal are zero.
        upper_triangular: Whether elements below the main diagonal are zero.
        symmetric: Whether it equals its transpose; of complex numbers, the conjugate one.
        positive_definite: Whether it is symmetric with positive eigenvalues.
        orthogonal: Whether its transpose is its inverse; of complex numbers, the conjugate one.
        selection: Whether there is one 1 in each row, no two in a column, and zeros elsewhere.
        permutation: Whether there is one 1 in each row and column, and zeros elsewhere.
        tridiagonal: Whether elements are zero off the main diagonal and its neighbours.

    Returns:
        An array of x's type; x itself where nothing is said.

    Raises:
        ShapeError: x is no matrix, or not square where the property says so.
        ArgumentError: A property is denied that follows from others.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> gt.assume(x, symmetric=True).type
        float64[?, ?]
    """
    said = {
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
    held = tuple(name for name, value in said.items() if value)
    denied = tuple(name for name, value in said.items() if value is not None and not value)
    for name in denied:
        if name in implied(held):
            raise ArgumentError(
                f"assume({as_tensor(x)!r}): it is {', '.join(held)}, but not {name}?",
                f"Leave out {name}=False, which contradicts the rest.",
                where(here()),
            )
    return Tensor.make(Assume(held, denied), as_tensor(x)) if held or denied else as_tensor(x)
