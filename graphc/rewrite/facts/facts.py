"""Facts of a matrix: its nonzero diagonals, its symmetry, the signs of its eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from graphc.tensor.linalg.assume import implied_properties


class Band(NamedTuple):
    """Diagonals that may be nonzero; 0 is the main one, positive numbers are above it."""

    low: float = -math.inf
    high: float = math.inf

    def __and__(self, other: Band) -> Band:
        """Return the diagonals in both bands; the main diagonal if there are none."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Band(low, high) if low <= high else Band(0, 0)

    def __or__(self, other: Band) -> Band:
        return Band(min(self.low, other.low), max(self.high, other.high))

    def __matmul__(self, other: Band) -> Band:
        """Return the band of a product of matrices."""
        return Band(self.low + other.low, self.high + other.high)

    @property
    def transposed(self) -> Band:
        """Band of the transpose."""
        return Band(-self.high, -self.low)

    @property
    def of_inverse(self) -> Band:
        """Band of the inverse: triangles stay triangles, diagonal matrices diagonal."""
        return Band(0 if self.low >= 0 else -math.inf, 0 if self.high <= 0 else math.inf)


ANYWHERE = Band()


class Definiteness(IntEnum):
    """The definiteness of a symmetric matrix, by its eigenvalues; larger values imply smaller."""

    UNKNOWN = 0
    SEMI = 1  # none is negative
    POSITIVE = 2  # each is positive


class MatrixFacts(NamedTuple):
    """The facts of each matrix in the last two axes.

    Attributes:
        band: The diagonals that may be nonzero.
        symmetric: Whether it is known to equal its transpose, conjugate for complex numbers.
        definite: The known signs of its eigenvalues.
        orthogonal: Whether its inverse is known to be its transpose, conjugate for complex ones.
        selection: Whether each row is known to have a single 1, no two in a column.
        permutation: Whether each column is known to have a single 1, too.
        denied: The facts that are known not to hold.
    """

    band: Band = ANYWHERE
    symmetric: bool = False
    definite: Definiteness = Definiteness.UNKNOWN
    orthogonal: bool = False
    selection: bool = False
    permutation: bool = False
    denied: frozenset[str] = frozenset()

    @property
    def held(self) -> frozenset[str]:
        """Known facts, by the names of ``assume``."""
        low, high = self.band
        facts = {
            "diagonal": low >= 0 and high <= 0,
            "lower_triangular": high <= 0,
            "upper_triangular": low >= 0,
            "tridiagonal": low >= -1 and high <= 1,
            "symmetric": self.symmetric,
            "positive_definite": self.definite is Definiteness.POSITIVE,
            "orthogonal": self.orthogonal,
            "selection": self.selection,
            "permutation": self.permutation,
        }
        return frozenset(name for name, value in facts.items() if value)

    def __getitem__(self, name: str) -> bool | None:  # type: ignore[override]
        """Return whether the fact of a name holds; None if unknown.

        Example:
            >>> facts = named_facts(["diagonal"], ["symmetric"])
            >>> facts["lower_triangular"], facts["symmetric"], facts["orthogonal"]
            (True, False, None)
        """
        if name in self.held:
            return True
        return False if name in self.denied else None

    @property
    def is_diagonal(self) -> bool:
        """Whether all diagonals but the main one are zero."""
        return self.band.low >= 0 and self.band.high <= 0

    @property
    def transposed(self) -> MatrixFacts:
        """Facts of the transpose."""
        swapped = {"lower_triangular": "upper_triangular", "upper_triangular": "lower_triangular"}
        return self._replace(
            band=self.band.transposed,
            selection=self.permutation,
            denied=frozenset(swapped.get(name, name) for name in self.denied - {"selection"}),
        )

    @property
    def inverted(self) -> MatrixFacts:
        """Facts of the inverse, if there is one; its eigenvalues have the same signs."""
        return self._replace(
            band=self.band.of_inverse,
            definite=Definiteness.POSITIVE if self.definite else Definiteness.UNKNOWN,
            selection=self.permutation,
            denied=self.denied - {"tridiagonal", "selection"},
        )

    @property
    def contradictions(self) -> frozenset[str]:
        """Names of facts that are both held and denied."""
        return self.held & self.denied


NOTHING = MatrixFacts()


def named_facts(held: Iterable[str], denied: Iterable[str] = ()) -> MatrixFacts:
    """Return the facts of these names, and the facts that they imply."""
    names = implied_properties(tuple(held))
    within = Band(-1, 1) if "tridiagonal" in names else ANYWHERE
    low = 0 if "upper_triangular" in names else within.low
    high = 0 if "lower_triangular" in names else within.high
    return MatrixFacts(
        Band(low, high),
        "symmetric" in names,
        Definiteness.POSITIVE if "positive_definite" in names else Definiteness.UNKNOWN,
        "orthogonal" in names,
        "selection" in names,
        "permutation" in names,
        frozenset(denied),
    )


def combined_facts(one: MatrixFacts, other: MatrixFacts) -> MatrixFacts:
    """Return the union of two sets of facts; a symmetric triangle is diagonal."""
    band = one.band & other.band
    symmetric = one.symmetric or other.symmetric
    if symmetric:
        band = band & band.transposed
    return MatrixFacts(
        band,
        symmetric,
        max(one.definite, other.definite),
        one.orthogonal or other.orthogonal,
        one.selection or other.selection,
        one.permutation or other.permutation,
        one.denied | other.denied,
    )
