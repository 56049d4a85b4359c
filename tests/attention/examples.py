"""The documented uses of attention by mask and score functions, for any library of arrays.

An example is a function of the library (``where``, ``tanh``, ``and_masks`` and ``or_masks`` are
taken from it) and of the arrays that its mask and score functions capture. Inputs come from a
generator with a seed, so that only results need be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

__all__ = ["EXAMPLES", "Example", "Functions", "Inputs"]

LENGTH = 27
"""No multiple of a block's length."""


class Functions(NamedTuple):
    """What is given to attention; one of the two may be missing."""

    mask: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None


class Inputs(NamedTuple):
    """Queries, keys and values, and the weights of a cost's terms."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    g_out: np.ndarray


@dataclass(frozen=True)
class Example:
    """One documented use.

    Attributes:
        functions: Makes the mask and score functions, of a library and the captured arrays.
        captured: The arrays by name; gradients are taken by floating ones.
        heads: Of queries, and of keys.
        lengths: Of queries, and of keys.
        batch: Of both.
        mask_batch: Of the mask, None where it is the same for all.
        mask_heads: Of the mask, likewise.
        scale: What products are multiplied by, None for the default.
        block: The lengths of a block.
    """

    functions: Callable[..., Functions]
    captured: dict[str, np.ndarray] = field(default_factory=dict)
    heads: tuple[int, int] = (2, 2)
    lengths: tuple[int, int] = (LENGTH, LENGTH)
    batch: int = 2
    mask_batch: int | None = None
    mask_heads: int | None = None
    scale: float | None = None
    block: int | tuple[int, int] = 8

    @property
    def inputs(self) -> Inputs:
        """Normal numbers of shapes (batch, heads, length, 4) and, for values, 2."""
        random = np.random.default_rng(8)
        (hq, hk), (queries, keys) = self.heads, self.lengths
        shapes = [(hq, queries, 4), (hk, keys, 4), (hk, keys, 2), (hq, queries, 2)]
        return Inputs(*(random.standard_normal((self.batch, *shape)) for shape in shapes))

    @property
    def floating(self) -> tuple[str, ...]:
        """The names of the captured arrays that have a gradient."""
        return tuple(name for name, x in self.captured.items() if x.dtype.kind == "f")


EXAMPLES: dict[str, Example] = {}


def example(**options: Any) -> Callable[[Callable[..., Functions]], Callable[..., Functions]]:
    """Put a function into the table, under its name."""

    def put(functions: Callable[..., Functions]) -> Callable[..., Functions]:
        EXAMPLES[functions.__name__] = Example(functions, **options)
        return functions

    return put


def _keep_causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


@example()
def full(library: Any) -> Functions:
    return Functions(score=lambda s, b, h, q, k: s)


@example()
def causal(library: Any) -> Functions:
    return Functions(_keep_causal)


@example()
def causal_by_scores(library: Any) -> Functions:
    return Functions(score=lambda s, b, h, q, k: library.where(q >= k, s, -float("inf")))


@example()
def relative_position(library: Any) -> Functions:
    return Functions(score=lambda s, b, h, q, k: s + (q - k))


@example()
def checkerboard(library: Any) -> Functions:
    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        s = library.where(abs(k - q) % 2 == 1, s * 0.5, s)
        return library.where(abs(k - q) % 2 == 0, s * 2.0, s)

    return Functions(score=score)


@example(captured={"slopes": np.exp2(-4.0 * np.arange(1, 3))})
def alibi(library: Any, slopes: Any) -> Functions:
    return Functions(_keep_causal, lambda s, b, h, q, k: s + (k - q) * slopes[h])


@example(scale=2.0)
def soft_capping(library: Any) -> Functions:
    return Functions(_keep_causal, lambda s, b, h, q, k: 1.5 * library.tanh(s / 1.5))


@example(block=(4, 8))
def sliding_window(library: Any) -> Functions:
    return Functions(library.and_masks(_keep_causal, lambda b, h, q, k: q - k <= 6))


@example()
def dilated_window(library: Any) -> Functions:
    near = lambda b, h, q, k: abs(q - k) <= 9  # noqa: E731
    return Functions(library.and_masks(near, lambda b, h, q, k: (q - k) % 3 == 0))


@example(captured={"prefix": np.array([9, 17], np.int32)}, mask_batch=2)
def prefix_lm(library: Any, prefix: Any) -> Functions:
    return Functions(library.or_masks(lambda b, h, q, k: k < prefix[b], _keep_causal))


@example(captured={"documents": np.repeat(np.arange(4, dtype=np.int32), [5, 11, 3, 8])})
def documents(library: Any, documents: Any) -> Functions:
    same = lambda b, h, q, k: documents[q] == documents[k]  # noqa: E731
    return Functions(library.and_masks(same, _keep_causal))


@example(
    captured={
        "documents": np.repeat(np.arange(3, dtype=np.int32), [6, 13, 8]),
        "offsets": np.array([0, 6, 19], np.int32),
    }
)
def documents_with_prefixes(library: Any, documents: Any, offsets: Any) -> Functions:
    def inner(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) | (k < 4)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        start = offsets[documents[q]]
        return (documents[q] == documents[k]) & inner(b, h, q - start, k - start)

    return Functions(mask)


@example(captured={"lengths": np.array([27, 14], np.int32)}, mask_batch=2)
def padding(library: Any, lengths: Any) -> Functions:
    return Functions(lambda b, h, q, k: k < lengths[b])


@example(lengths=(25, 25))
def neighbourhood(library: Any) -> Functions:
    """Positions are those of a 5 x 5 picture, row by row."""

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (abs(q // 5 - k // 5) <= 1) & (abs(q % 5 - k % 5) <= 1)

    return Functions(mask)


@example(captured={"spans": np.array([[3, 9], [12, 20]], np.int32)}, mask_batch=2)
def causal_or_within_a_span(library: Any, spans: Any) -> Functions:
    def span(b: Any, h: Any, q: Any, k: Any) -> Any:
        first, last = spans[b, 0], spans[b, 1]
        return (q >= first) & (q < last) & (k >= first) & (k < last)

    return Functions(library.or_masks(_keep_causal, span))


@example(captured={"bias": np.sin(np.arange(2 * 53.0)).reshape(2, 53)})
def learned_relative_bias(library: Any, bias: Any) -> Functions:
    return Functions(score=lambda s, b, h, q, k: s + bias[h, q - k + LENGTH - 1])


@example(captured={"bias": np.cos(np.arange(27.0 * 27)).reshape(27, 27)})
def learned_bias_of_pairs(library: Any, bias: Any) -> Functions:
    return Functions(_keep_causal, lambda s, b, h, q, k: s + bias[q, k])


@example(heads=(4, 2), captured={"slopes": np.exp2(-2.0 * np.arange(1, 5))})
def grouped_queries(library: Any, slopes: Any) -> Functions:
    return Functions(_keep_causal, lambda s, b, h, q, k: s + slopes[h] * (k - q))


@example(heads=(4, 1), mask_heads=4, captured={"widths": np.array([1, 3, 9, 27], np.int32)})
def windows_by_head(library: Any, widths: Any) -> Functions:
    return Functions(lambda b, h, q, k: (q >= k) & (q - k < widths[h]))


@example(lengths=(5, LENGTH), block=(4, 8), captured={"offset": np.array([22], np.int32)})
def decoding(library: Any, offset: Any) -> Functions:
    return Functions(lambda b, h, q, k: q + offset[0] >= k)


@example(block=(8, 4))
def rows_without_keys(library: Any) -> Functions:
    return Functions(lambda b, h, q, k: (q < 10) & (k >= 5))


@example(
    captured={
        "slopes": np.array([0.25, 0.03]),
        "documents": np.repeat(np.arange(2, dtype=np.int32), [16, 11]),
    },
    block=16,
)
def everything(library: Any, slopes: Any, documents: Any) -> Functions:
    def score(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return 3.0 * library.tanh(s / 3.0) + slopes[h] * (k - q)

    same = lambda b, h, q, k: documents[q] == documents[k]  # noqa: E731
    near = lambda b, h, q, k: q - k < 13  # noqa: E731
    return Functions(library.and_masks(_keep_causal, library.or_masks(same, near)), score)
