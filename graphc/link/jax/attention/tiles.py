"""Final scores of a tile, keys by queries: the user's functions of one element, for all elements.

A tile has matrices (heads, queries, keys), or (heads, keys, queries) if the next product needs
those: products of transposed matrices take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.attention.layout import Block, GroupLengths
from graphc.link.jax.varying import vary_as

QUERIES_FIRST = "bhgqk"
KEYS_FIRST = "bhkgq"
"""A tile's axes; the index of a query head is (h, g), head of keys h and query head g in h."""

INDICES = ("b", "hg", "q", "k")
"""The axes along which the indices of batch, head, query and key vary."""


@dataclass(frozen=True)
class Tiles:
    """The score and mask functions, applied to tiles of scaled products.

    Attributes:
        score: The user's function of one score, or None.
        mask: The user's function of indices, or None.
        lengths: The lengths of the arrays.
        heads: The indices of batches (b,), and of heads (keyed, shared).
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.
        axes: The order of a tile's axes.
    """

    score: Callable[..., Any] | None
    mask: Callable[..., Any] | None
    lengths: GroupLengths
    heads: tuple[Any, Any]
    score_captured: Sequence[Any]
    mask_captured: Sequence[Any]
    axes: str

    def apply_score(self, score: Any, block: Block) -> Any:
        """Return the scores of a tile after the user's function; ``score`` are those before it."""
        if self.score is None:
            return score
        indices = self._indices(block)
        sizes = {
            axis: n
            for x, axes in zip(indices, INDICES, strict=True)
            for axis, n in zip(axes, np.shape(x), strict=True)
        }
        tile = score.reshape([sizes[axis] for axis in self.axes])
        new = self._over_tile(self.score, 1)([tile, *indices], self.score_captured)
        return new.astype(score.dtype).reshape(score.shape)

    def mask_scores(self, score: Any, block: Block) -> Any:
        """Return the scores of a tile, -inf where the mask of a partial block is False."""
        lengths = self.lengths
        if self.mask is None and not lengths.ragged:
            return score

        def of_partial(score: Any) -> Any:
            masked = jnp.where(self._mask_block(block), score, -np.inf)
            return vary_as(masked, score, *self.mask_captured)

        # A branch computes the mask once. Fused into its users, it would be computed by each, with
        # different rounding, and comparisons near equality would differ.
        return lax.cond(
            block.is_partial,
            of_partial,
            lambda score: vary_as(score, score, *self.mask_captured),
            score,
        )

    def _mask_block(self, block: Block) -> Any:
        """Return the mask of a partial block: matrices, or an array that broadcasts to them."""
        lengths = self.lengths
        size = lengths.block[1]
        keys = block.column * np.int32(size) + lax.iota(np.int32, size)
        within = (keys < np.int32(lengths.keys)).reshape(self._matrix(1, 1, -1))
        if self.mask is None:
            return within
        keep = self._over_tile(self.mask, 0)(self._indices(block), self.mask_captured)
        keep = keep.reshape(self._matrix(lengths.heads, lengths.below, size))
        return keep & within if lengths.ragged else keep

    def _matrix(self, heads: int, queries: int, keys: int) -> tuple[int, int, int]:
        return (heads, keys, queries) if self.axes == KEYS_FIRST else (heads, queries, keys)

    def _indices(self, block: Block) -> list[Any]:
        """Return the indices of batch, head, query and key; padding repeats the last index."""
        lengths = self.lengths
        q, k = (
            index * np.int32(size) + lax.iota(np.int32, size)
            for index, size in zip(block[:2], lengths.block, strict=True)
        )
        if lengths.queries % lengths.block[0]:
            q = jnp.minimum(q, np.int32(lengths.queries - 1))
        if lengths.ragged:
            k = jnp.minimum(k, np.int32(lengths.keys - 1))
        return [*self.heads, q, k]

    def _over_tile(self, function: Callable[..., Any], scores: int) -> Callable[..., Any]:
        """Return a function of ``scores`` scalars and four indices as one of tiles and vectors."""

        def over(varying: Sequence[Any], captured: Sequence[Any]) -> Any:
            return function(*varying, *captured)

        for axis in reversed(self.axes):
            along = [0] * scores + [0 if axis in axes else None for axes in INDICES]
            over = jax.vmap(over, in_axes=(along, None))
        return over
