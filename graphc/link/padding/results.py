"""Results of programs for padded arrays: buffers that a call cuts to their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir.lengths import AnyLength
from graphc.link.padding.counts import LengthComparison, value_of
from graphc.link.padding.graph import PaddedGraph


@dataclass(frozen=True, eq=False, slots=True)
class PaddedResults:
    """The results of a program for padded arrays.

    Attributes:
        buffers: The results, some followed by padding along some axes.
        numbers: The integers that only the run decides.
        lengths: The lengths of each result: see ``PaddedGraph``.
        comparisons: The comparisons of lengths.
    """

    buffers: list[Any]
    numbers: list[Any]
    lengths: tuple[tuple[AnyLength | None, ...], ...]
    comparisons: tuple[LengthComparison, ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[Any], padded: PaddedGraph) -> PaddedResults:
        """Return the outputs of a padded graph as results."""
        n = len(padded.lengths)
        return cls([*outputs[:n]], [*outputs[n:]], *padded[1:])

    def hold_for(self, lengths: Sequence[int]) -> bool:
        """Return whether the results are right for these passed lengths."""
        return not any(c.error is None and c.difference(lengths) for c in self.comparisons)

    def verify(self, lengths: Sequence[int] = ()) -> None:
        """Raise the error of a comparison that fails for these passed lengths."""
        for comparison in self.comparisons:
            if comparison.error is not None:
                different = comparison.difference([*lengths, *self.numbers])
                if different is not None:
                    raise comparison.error(*different)

    def shapes(self, lengths: Sequence[int] = ()) -> list[tuple[int, ...]]:
        """Return the shape of each result for these passed lengths."""
        known = [*lengths, *self.numbers]
        return [
            tuple(
                [m if n is None else value_of(n, known) for n, m in zip(own, y.shape, strict=True)]
            )
            for own, y in zip(self.lengths, self.buffers, strict=True)
        ]
